"""A selection, once its arguments are checked: the shards on an executor, the loop, and a checkpoint.

Where shards are lost with their workers, the selection goes on from the rows chosen so far, with new shards. Where all
rows are to be active, there is no choice (`take_all`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.validation import is_whole
from ..criteria import Criterion, CriterionTraits, seed_from
from ..kernels import CompiledKernel
from ..kernels.jitter import floored_factor, with_jitter
from ..stopping import Callback, Rule, Stage, seconds_of
from .checkpoint import Checkpoint
from .executors import Executor, ShardsLostError
from .loop import Selection, run
from .recorder import Recorder
from .rows import Rows, ShardSetup
from .state import Problem

MOST_LOST = 20  # times in a row that the shards' state may be lost before another row is chosen


def grow(
    rows: Rows,
    kernel: CompiledKernel,
    *,
    n_active: int,
    criterion: Criterion,
    rule: Rule,
    first: Any = None,
    generator: np.random.Generator,
    callback: Callback | None = None,
    memory_limit: float | str | None = None,
    unit: float = 1.0,
    checkpoint: Checkpoint | None = None,
) -> Selection:
    """Choose some of the rows. The arguments have been checked.

    Parameters
    ----------
    rows : Rows
    kernel : CompiledKernel
    unit : float, default=1.0
        The value of one unit of y where RMSE is reported or compared with a rule's bound: the estimator works on
        standardised targets, but its user thinks in the targets' own units.
    checkpoint : Checkpoint, optional
        Where the selection is recorded as it goes on.

    The others are those of `sodalite.select`.
    """
    (n, d), q = rows.shape, rows.q
    m = min(int(n_active), n)
    start = [] if first is None else check_first(first, n, m)
    first_checked = max(len(start), 1)
    # The seed is drawn before the first row, so that a selection that begins with forced rows has the same one.
    traits = CriterionTraits.of(criterion)
    seed = seed_from(generator) if traits.draws else 0
    if traits.order is not None:
        order = traits.order(n, m, generator, start)
    else:
        order = start or [int(generator.integers(n))]
    finished = None if checkpoint is None else checkpoint.finished(rule, rows, kernel, m, first_checked)
    if finished is not None:
        return finished
    setup, recorder = ShardSetup(kernel, traits.pointwise, m, seed, memory_limit), checkpoint or Recorder()
    n_known = n_lost = 0

    def tell(stage: Stage) -> None:
        """Call the callback, but for stages that it has been told of before shards were lost."""
        if callback is not None and stage.t > n_known:
            callback(stage)

    def attempt(executor: Executor, keep: bool) -> Selection:
        problem = Problem(
            executor,
            kernel,
            n=n,
            m=m,
            d=d,
            q=q,
            order=np.array(order),
            first_checked=first_checked,
            criterion=traits.pointwise,
            lookahead=traits.lookahead,
            seed=seed,
            rule=rule,
            callback=None if callback is None else tell,
            unit=unit,
            keep=keep,
            time_limit=seconds_of(rule),
        )
        # The noise floor is raised where the factor fails (docs/method.rst, `noise-floor`).
        prior = max(executor.call("peak"))
        return with_jitter(lambda floor: run(recorder.resumed(problem, floor), floor), prior, kernel.dtype)

    with recorder:
        while True:
            try:
                with rows.shards(setup) as (executor, keep):
                    return recorder.record_end(attempt(executor, keep))
            except ShardsLostError as error:
                before, n_known = n_known, recorder.begin_again()
                n_lost = 1 if n_known > before else n_lost + 1
                if n_lost == MOST_LOST:
                    raise RuntimeError(
                        f"The state of the selection was lost {MOST_LOST} times in a row before another row was "
                        f"chosen. The workers may be short of memory: use more of them, or smaller partitions."
                    ) from error


def take_all(rows: Rows, kernel: CompiledKernel) -> Selection:
    """All rows, in their own order. O(n^3), in float64."""
    every, kernel = rows.take(np.arange(rows.shape[0])), kernel.in_double()
    features = kernel.prepare(every.X)
    noise = kernel.noise(features) + (0.0 if every.alpha is None else every.alpha)
    factor, floor = floored_factor(kernel.block(features, features), noise, float(kernel.diag(features).max()))
    unknown = np.full(len(noise), np.nan)
    return Selection(np.arange(len(noise)), unknown, factor, unknown, "all_rows", floor, n_proposed=0)


def check_first(first: Any, n: int, m: int) -> list[int]:
    """The rows to start from, as a list: one index of n rows, or up to m different ones."""
    if isinstance(first, np.ndarray):
        first = first.tolist()
    rows = list(first) if isinstance(first, Sequence) and not isinstance(first, str) else [first]
    for row in rows:
        if not is_whole(row):
            raise TypeError(f"first must be the index of a row, or several; got {row!r} of type {type(row).__name__}.")
        if not 0 <= int(row) < n:
            raise ValueError(f"first must be the index of a row, from 0 to {n - 1}; got {row}.")
    if not rows:
        raise ValueError("first must name at least one row; it is empty.")
    if len(set(rows)) < len(rows):
        raise ValueError(f"first must not name a row twice; got {rows}.")
    if len(rows) > m:
        raise ValueError(f"first names {len(rows)} rows, more than n_active={m}.")
    return [int(row) for row in rows]
