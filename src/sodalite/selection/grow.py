"""The choice of rows, once its arguments are checked: shards on an executor, and the loop that picks among them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.jitter import with_jitter
from ..core.validation import check_first
from ..kernels import CompiledKernel
from ..scores import Score, ScoreTraits, seed_from
from ..stopping import Callback, Rule, seconds_of
from .checkpoint import Checkpoint
from .loop import Problem, Selection, run
from .source import ShardSetup, Source
from .verification import Request


def grow(
    source: Source,
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
    keeper: Checkpoint | None = None,
) -> Selection:
    """Choose rows of a source; the arguments have been checked.

    Parameters
    ----------
    source : Source
    kernel : CompiledKernel
    unit : float, default=1.0
        What one unit of y is worth where RMSE is reported or compared with a rule's bound: the estimator works on
        standardised targets, but its user thinks in those that were given.
    keeper : Checkpoint, optional
        Where the choice is kept as it goes on.

    The others are those of `sodalite.select`.
    """
    n, q = source.y.shape
    m = min(int(n_active), n)
    start = [] if first is None else check_first(first, n, m)
    # Drawn before the first row, so that a selection that goes on from given rows has the same luck.
    traits = ScoreTraits.of(score)
    seed = seed_from(generator) if traits.draws else 0
    if traits.order is not None:
        order = traits.order(n, m, generator, start)
    else:
        order = start or [int(generator.integers(n))]
    if keeper is not None:
        request = Request(source, kernel, score, order, max(len(start), 1), m, unit)
        keeper.verify(request)
        if (done := keeper.finished(rule, request)) is not None:
            return done
    with source.shards(ShardSetup(kernel, traits.pointwise, m, seed, n_jobs, memory_limit)) as (shards, keep):
        problem = Problem(
            shards,
            kernel,
            n=n,
            m=m,
            d=source.X.shape[1],
            q=q,
            order=np.array(order),
            n_given=max(len(start), 1),
            score=traits.pointwise,
            lookahead=traits.lookahead,
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
