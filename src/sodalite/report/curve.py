"""The learning curve: the error at every number of active rows, beside that of as many rows drawn at random."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, pi
from typing import NamedTuple

import numpy as np

from ..core.types import Floats, Indices
from .rows import LabelledRows, Material, match
from .stages import Stages, some_stages
from .words import bars_of

N_JUDGES = 1000  # rows of each kind, active and not, that every stage is judged by: RMSE to about 2 %
N_DRAWS = 3  # random subsets; each costs O(m^3), and three show a range
MOST_DRAWN = 1000  # rows in a random subset: the factor of more would take longer than all else in a report


class JudgedCurve(NamedTuple):
    """The parts of a learning curve that need rows to judge by."""

    rmse: Floats
    density: Floats
    random_stages: Indices
    random_rmse: Floats
    random_density: Floats


@dataclass(frozen=True)
class LearningCurve:
    """RMSE and J at some stages, in units of the target; all predictions are from the active rows alone."""

    stages: Indices
    """Active rows at each stage, t; of shape (stages,)."""
    remainder: Floats
    """The RMSE of the remainder, as the selection saw it; of shape (stages,)."""
    rmse: Floats | None
    """The RMSE of any row, active ones left out; of shape (stages,). None if there are no rows to judge by."""
    density: Floats | None
    """J, the log density of all targets, per row; of shape (stages,). More is better."""
    random_stages: Indices | None
    """Rows in the random subsets at each of their stages."""
    random_rmse: Floats | None
    """The RMSE of random subsets; of shape (draws, random stages)."""
    random_density: Floats | None
    """J of random subsets; of shape (draws, random stages)."""
    noise: float
    """The standard deviation of the noise, as predictions have it."""
    finished: float = float("nan")
    """The RMSE of the finished model, by rows that judge the curve too."""
    words: str = ""
    """Which rows judge the curve, and how many."""

    @property
    def judged(self) -> JudgedCurve | None:
        """What is known of any row; None if there are no rows to judge by."""
        if (
            self.rmse is None
            or self.density is None
            or self.random_stages is None
            or self.random_rmse is None
            or self.random_density is None
        ):
            return None
        return JudgedCurve(self.rmse, self.density, self.random_stages, self.random_rmse, self.random_density)

    @property
    def equal(self) -> tuple[int, int] | None:
        """How many chosen rows are as good as how many random ones; None where that is unknown, or none are."""
        if (known := self.judged) is None:
            return None
        enough = np.flatnonzero(known.rmse <= known.random_rmse[:, -1].mean())
        return (int(self.stages[enough[0]]), int(known.random_stages[-1])) if len(enough) else None


def learning_curve(material: Material, stages: Stages, generator: np.random.Generator) -> LearningCurve:
    """The learning curve of the chosen rows and of random ones, all judged by the same rows.

    O(m^2 rows) for `N_JUDGES` rows of each kind, and O(m^3) for each random subset.
    """
    shown = some_stages(len(stages))
    remainder = material.selection.rmse[shown - 1] * (material.unit if len(material.active.Y.T) > 1 else 1.0)
    bars = bars_of(material.posterior)
    kernel_noise = material.kernel.noise(material.kernel.prepare(material.active.X[:1]))[0]
    noise = material.unit * float(np.sqrt(kernel_noise) if bars is None else bars.noise)
    if not material.whole:
        return LearningCurve(shown, remainder, None, None, None, None, None, noise)
    judges, weights = _judges(material, generator)
    rmse, density = _curve(stages, judges, weights, shown, material.n_rows)
    n_drawn = min(len(stages), len(material.pool), MOST_DRAWN)
    at = some_stages(n_drawn)
    curves = []
    for _ in range(N_DRAWS):
        subset = material.pool.take(generator.permutation(len(material.pool))[:n_drawn])
        placed = replace(judges, place=match(subset, judges))
        curves.append(_curve(Stages.of(material.kernel, subset), placed, weights, at, material.n_rows))
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


def _judges(material: Material, generator: np.random.Generator) -> tuple[LabelledRows, Floats]:
    """A sample of the judges, stratified into active and other rows, and how many rows each of them stands for."""
    rows = material.judges
    parts = [np.flatnonzero(rows.place >= 0), np.flatnonzero(rows.place < 0)]
    taken = [generator.permutation(part)[:N_JUDGES] for part in parts]
    weights = [np.full(len(some), len(part) / max(len(some), 1)) for some, part in zip(taken, parts, strict=True)]
    return rows.take(np.concatenate(taken)), np.concatenate(weights)


def _curve(stages: Stages, rows: LabelledRows, weights: Floats, shown: Indices, n: int) -> tuple[Floats, Floats]:
    """RMSE and J per row, both of shape (stages,), by rows that stand for all n with these weights.

    J is the log density of the first t targets plus those of the n - t others, each given the first t.
    """
    error, variance = stages.errors(rows, shown)
    rmse = np.sqrt(np.average(np.square(error), axis=1, weights=weights))
    left = weights * ((rows.place < 0) | (rows.place >= shown[:, None]))
    terms = -0.5 * (np.square(error) / variance + np.log(2 * pi * variance))
    mean = (left * terms).sum(axis=1) / np.maximum(left.sum(axis=1), np.finfo(np.float64).tiny)
    return rmse, (stages.log_likelihood(shown) + np.maximum(n - shown, 0) * mean) / max(n, 1)
