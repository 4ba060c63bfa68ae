"""The learning curve: what every number of active rows gives, beside as many rows drawn at random."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, pi

import numpy as np

from ..core.types import Array
from .rows import Material, Rows, match
from .stages import Stages, some_stages
from .words import bars_of

N_JUDGES = 1000  # rows of each kind, active and not, that every stage is judged by
N_DRAWS = 3  # random subsets
MOST_DRAWN = 1000  # rows in each


@dataclass(frozen=True)
class LearningCurve:
    """RMSE and J after every stage (or some of them), in units of the target; predicted from the active rows alone."""

    stages: Array
    """How many rows are active."""
    remainder: Array
    """The RMSE of the rows that were not active yet, as the choice itself saw it."""
    rmse: Array | None
    """The RMSE of any row, active ones predicted from the others; None if there are no rows to tell."""
    density: Array | None
    """J: log density of all the targets, per row. More is better."""
    random_stages: Array | None
    random_rmse: Array | None
    """What random subsets give; of shape (draws, stages)."""
    random_density: Array | None
    noise: float
    """The standard deviation of the noise, as predictions have it."""

    @property
    def equal(self) -> tuple[int, int] | None:
        """How many chosen rows are as good as how many random ones; None where that is unknown, or none are."""
        if self.rmse is None or self.random_rmse is None or self.random_stages is None:
            return None
        enough = np.flatnonzero(self.rmse <= self.random_rmse[:, -1].mean())
        return (int(self.stages[enough[0]]), int(self.random_stages[-1])) if len(enough) else None


def learning_curve(material: Material, stages: Stages, generator: np.random.Generator) -> LearningCurve:
    """The curve of the chosen rows and of random ones, all judged by the same rows.

    O(m^2 rows) for `N_JUDGES` rows of each kind, and O(m^3) for each random subset.
    """
    shown = some_stages(len(stages))
    remainder = material.selection.rmse[shown - 1] * (material.unit if len(material.active.Y.T) > 1 else 1.0)
    bars = bars_of(material.posterior)
    by_kernel = material.kernel.noise(material.kernel.prepare(material.active.X[:1]))[0]
    noise = material.unit * float(np.sqrt(by_kernel) if bars is None else bars.noise)
    if not material.whole:
        return LearningCurve(shown, remainder, None, None, None, None, None, noise)
    judges, weights = _judges(material, generator)
    rmse, density = _curve(stages, judges, weights, shown, material.n_rows)
    drawn = min(len(stages), len(material.pool), MOST_DRAWN)
    at = some_stages(drawn)
    curves = []
    for _ in range(N_DRAWS):
        order = generator.permutation(len(material.pool))[:drawn]
        subset = material.pool.take(order)
        curves.append(_curve(Stages.of(material.kernel, subset), _placed(judges, subset), weights, at, material.n_rows))
    return LearningCurve(
        stages=shown,
        remainder=remainder,
        rmse=rmse * material.unit,
        density=density - log(material.unit),
        random_stages=at,
        random_rmse=np.array([curve[0] for curve in curves]) * material.unit,
        random_density=np.array([curve[1] for curve in curves]) - log(material.unit),
        noise=noise,
    )


def _judges(material: Material, generator: np.random.Generator) -> tuple[Rows, Array]:
    """Rows that stand for all, and how many each stands for: active rows are few, but count as much as any."""
    rows = material.judges
    parts = [np.flatnonzero(rows.place >= 0), np.flatnonzero(rows.place < 0)]
    taken = [generator.permutation(part)[:N_JUDGES] for part in parts]
    weights = [np.full(len(some), len(part) / max(len(some), 1)) for some, part in zip(taken, parts, strict=True)]
    return rows.take(np.concatenate(taken)), np.concatenate(weights)


def _curve(stages: Stages, rows: Rows, weights: Array, shown: Array, n: int) -> tuple[Array, Array]:
    """RMSE and J at some stages.

    J is the log density of the first t rows, and that of the others given these. Some rows stand for the others.
    """
    error, variance = stages.errors(rows, shown)
    rmse = np.sqrt(np.average(np.square(error), axis=1, weights=weights))
    left = weights * ((rows.place < 0) | (rows.place >= shown[:, None]))
    terms = -0.5 * (np.square(error) / variance + np.log(2 * pi * variance))
    mean = (left * terms).sum(axis=1) / np.maximum(left.sum(axis=1), np.finfo(np.float64).tiny)
    return rmse, (stages.log_likelihood(shown) + np.maximum(n - shown, 0) * mean) / max(n, 1)


def _placed(rows: Rows, subset: Rows) -> Rows:
    """The rows, their places those among the rows of a subset."""
    return replace(rows, place=match(subset, rows))
