"""The choice of rows, once its arguments are checked: shards on an executor, and the loop that picks among them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cluster.client import room
from ..cluster.table import Remote
from ..core.jitter import with_jitter
from ..core.memory import bytes_of, make_plan, parse_bytes
from ..core.validation import check_first
from ..kernels import CompiledKernel
from ..scores import Lookahead, Random, Sampled, Score, seed_from
from ..stopping import Rule, seconds_of
from .checkpoint import Checkpoint
from .executors import Executor, ThreadExecutor
from .loop import Callback, Problem, Selection, run
from .shard import Shard
from .verification import Task

Array = NDArray[Any]


def grow(
    X: Any,
    y: Any,
    kernel: CompiledKernel,
    *,
    n_active: int,
    score: Score,
    rule: Rule,
    first: Any = None,
    generator: np.random.Generator,
    callback: Callback | None = None,
    n_jobs: int | None = None,
    memory_limit: Any = None,
    unit: float = 1.0,
    alpha: Array | None = None,
    keeper: Checkpoint | None = None,
) -> Selection:
    """What `select` does, once its arguments are checked; y has two dimensions. They may be those of a cluster's table.

    `unit` is what one unit of y is worth where RMSE is reported or compared with a rule's bound: the estimator works on
    standardised targets, but its user thinks in those that were given. `alpha` is noise variance that each row has
    beyond the kernel's. `keeper` is where the choice is kept as it goes on.
    """
    n, q = y.shape
    m = min(int(n_active), n)
    start = [] if first is None else check_first(first, n, m)
    # Drawn before the first row, so that a selection that goes on from given rows has the same luck.
    seed = seed_from(generator) if isinstance(score, Lookahead | Sampled) else 0
    if isinstance(score, Random):
        order = score.order(n, m, generator, start)
    else:
        order = start or [int(generator.integers(n))]
    if keeper is not None:
        task = Task(X, y, alpha, kernel, score, order, max(len(start), 1), m, unit)
        keeper.verify(task)
        if (done := keeper.finished(rule, task)) is not None:
            return done
    pointwise = None if isinstance(score, Lookahead | Random) else score
    with _executor(X, y, alpha, kernel, pointwise, m, seed, n_jobs, memory_limit) as (shards, keep):
        problem = Problem(
            shards,
            kernel,
            n=n,
            m=m,
            d=X.shape[1],
            q=q,
            order=np.array(order),
            n_given=max(len(start), 1),
            score=pointwise,
            lookahead=score if isinstance(score, Lookahead) else None,
            seed=seed,
            rule=rule,
            callback=callback,
            unit=unit,
            keep=keep,
            time_limit=seconds_of(rule),
        )
        prior = max(shards.call("peak"))
        if keeper is None:
            return with_jitter(lambda noise_floor: run(problem, noise_floor), prior, kernel.dtype)
        with keeper:
            return keeper.ended(
                with_jitter(lambda floor: run(keeper.resumed(problem, floor), floor), prior, kernel.dtype)
            )


@contextmanager
def _executor(
    X: Any,
    y: Any,
    alpha: Array | None,
    kernel: CompiledKernel,
    score: Any,
    m: int,
    seed: int,
    n_jobs: int | None,
    memory_limit: Any,
) -> Iterator[tuple[Executor, bool]]:
    """The shards of all rows, on this machine or on a cluster, and whether they keep their rows' v's."""
    if not isinstance(X, Remote):
        width = bytes_of(kernel.prepare(np.asarray(X[:1])))
        held = getattr(X, "held_bytes", 0)
        plan = make_plan(y.shape[0], m, y.shape[1], kernel.dtype, n_jobs, memory_limit, width, held)

        def make(part: tuple[int, int]) -> Shard:
            own = None if alpha is None else alpha[slice(*part)]
            return Shard(X, y[slice(*part)], *part, kernel, score, m if plan.keep else 0, own, seed)

        with ThreadExecutor(make, plan.parts, plan.n_threads) as threads:
            yield threads, plan.keep
        return
    from ..cluster.executor import DaskExecutor, Setting

    limit = room(X.table.client) if memory_limit is None else parse_bytes(memory_limit)
    keep = y.shape[0] * m * kernel.dtype.itemsize <= limit
    with DaskExecutor(X.table, Setting(kernel, score, m if keep else 0, seed)) as cluster:
        yield cluster, keep
