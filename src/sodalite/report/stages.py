"""The Gaussian process at every stage of a selection, from one factor, and the learning curve.

The first t rows of L^-1 belong to the first t active rows, whatever comes after them. So the mean v.z and the variance
k(x, x) - v.v of stage t are sums over the first t entries of what the last stage needs: one matrix product, then
running sums.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular

from ..core.threads import one_blas_thread
from ..core.types import Array, Floats, Indices
from ..kernels import CompiledKernel, Features
from ..kernels.jitter import floored_factor
from ..posteriors.base import covariance_block, in_blocks
from ..posteriors.leave_one_out import leave_one_out
from .rows import LabelledRows, Material, match
from .words import bars_of

FEW = 10  # first stages, all of which are shown; after them, fewer and fewer
MOST_STAGES = 40  # stages that are shown: more make the page larger, and the curves no smoother to the eye
N_JUDGES = 1000  # rows of each kind, active and not, that every stage is judged by: RMSE to about 2 %
N_DRAWS = 3  # random subsets; each costs O(m^3), and three show a range
MOST_DRAWN = 1000  # rows in a random subset: the factor of more would take longer than all else in a report


@dataclass(frozen=True)
class Stages:
    """The Gaussian process given the first t of some ordered rows, for any t."""

    kernel: CompiledKernel
    rows: Features
    """The m rows, prepared by the kernel."""
    inverse: Floats
    """L^-1, of shape (m, m)."""
    z: Floats
    """L^-1 y of one target; of shape (m,)."""

    @classmethod
    def of_model(cls, material: Material) -> Stages:
        """The stages of the model's own selection, from its factor."""
        base = material.base
        z = np.asarray(base.z[:, material.active.target], dtype=np.float64)
        return cls(material.kernel, base.rows, np.asarray(base.inverse, dtype=np.float64), z)

    @classmethod
    def of_rows(cls, kernel: CompiledKernel, rows: LabelledRows) -> Stages:
        """The stages of taking some rows in their order. O(m^3)."""
        features = kernel.prepare(rows.X)
        K, noise = covariance_block(kernel, features), kernel.noise(features) + rows.alpha
        L, _ = floored_factor(K, noise, float(K.diagonal().max()) or 1.0)
        with one_blas_thread():
            inverse = solve_triangular(L, np.eye(len(L)), lower=True)
        return cls(kernel, features, inverse, inverse @ rows.y)

    def __len__(self) -> int:
        return len(self.z)

    def predict(self, X: Array, stages: Indices) -> tuple[Floats, Floats]:
        """The latent mean and variance at some stages t, in rising order; both of shape (stages, rows of X)."""

        def block(part: Floats) -> tuple[Floats, Floats]:
            features = self.kernel.prepare(part)
            v = self.inverse @ self.kernel.block(self.rows, features)
            s2 = self.kernel.diag(features) - _sums(v * v, stages)
            return _sums(v * self.z[:, None], stages).T, np.maximum(s2, 0).T

        mean, s2 = in_blocks(block, np.asarray(X, dtype=np.float64), 3 * len(self))
        return mean.T, s2.T

    def errors(self, rows: LabelledRows, stages: Indices) -> Floats:
        """The residuals of rows, of shape (stages, rows); of a row among the first t, that without it."""
        error = rows.y - self.predict(rows.X, stages)[0]
        for error_at, t in zip(error, stages, strict=True):
            own = np.flatnonzero((rows.place >= 0) & (rows.place < t))
            error_at[own] = leave_one_out(self.inverse[:t, rows.place[own]], self.z[:t, None])[0][:, 0]
        return np.asarray(error)


def some_stages(m: int, most: int = MOST_STAGES) -> Indices:
    """At most so many of the stages 1 to m: the first few, the last, and between them fewer and fewer.

    Examples
    --------
    >>> some_stages(1000, 16).tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 22, 46, 100, 215, 464, 1000]
    """
    if m <= most:
        return np.arange(1, m + 1)
    later = np.round(np.geomspace(FEW, m, most - FEW + 1)).astype(int)
    return np.unique(np.concatenate([np.arange(1, FEW + 1), later]))


def _sums(terms: Floats, stages: Indices) -> Floats:
    """The sums of the first t terms along the first axis, for each of the stages t, in rising order."""
    if not len(stages):
        return terms[:0]
    parts = np.add.reduceat(terms, np.concatenate([[0], stages[:-1]]), axis=0)
    if stages[-1] < len(terms):  # the last part goes on to the end
        parts[-1] = terms[stages[-2] if len(stages) > 1 else 0 : stages[-1]].sum(axis=0)
    return np.asarray(np.cumsum(parts, axis=0))


@dataclass(frozen=True)
class LearningCurve:
    """RMSE at some stages, on the model's scale of the target; all predictions are from the active rows alone."""

    stages: Indices
    """Active rows at each stage, t; of shape (stages,)."""
    remainder: Floats
    """The RMSE of the remainder, as the selection saw it; of shape (stages,)."""
    noise: float
    """The standard deviation of the noise, as predictions have it."""
    rmse: Floats | None = None
    """The RMSE of any row, active ones left out; of shape (stages,). None if there are no rows to judge by."""
    random_stages: Indices | None = None
    """Rows in the random subsets at each of their stages; None as `rmse`."""
    random_rmse: Floats | None = None
    """The RMSE of random subsets, of shape (draws, random stages); None as `rmse`."""
    finished: float = float("nan")
    """The RMSE of the finished model, by rows that judge the curve too."""
    words: str = ""
    """Which rows judge the curve, and how many."""

    @property
    def random_end(self) -> float:
        """The mean RMSE of the random subsets with all their rows; NaN if there are none."""
        return float("nan") if self.random_rmse is None else float(self.random_rmse[:, -1].mean())

    @property
    def equal(self) -> tuple[int, int] | None:
        """How many chosen rows are as good as how many random ones; None where that is unknown, or none are."""
        if self.rmse is None or self.random_stages is None:
            return None
        enough = np.flatnonzero(self.rmse <= self.random_end)
        return (int(self.stages[enough[0]]), int(self.random_stages[-1])) if len(enough) else None


def learning_curve(material: Material, stages: Stages, generator: np.random.Generator) -> LearningCurve:
    """The learning curve of the chosen rows and of random ones, all judged by the same rows.

    O(m^2 rows) for `N_JUDGES` rows of each kind, and O(m^3) for each random subset.
    """
    bars = bars_of(material.posterior) if material.fitted.target.is_linear else None
    shown = some_stages(len(stages))
    unit = material.unit if len(material.active.Y.T) > 1 else 1.0
    noise = np.sqrt(material.kernel.noise(material.kernel.prepare(material.active.X[:1]))[0])
    curve = LearningCurve(
        stages=shown,
        remainder=material.selection.rmse[shown - 1] * unit,
        noise=material.unit * float(noise if bars is None else bars.noise),
    )
    if not material.whole:
        return curve
    # The judges are a sample, stratified into active and other rows; each of them stands for so many rows.
    parts = [np.flatnonzero(material.judges.place >= 0), np.flatnonzero(material.judges.place < 0)]
    taken = [generator.permutation(part)[:N_JUDGES] for part in parts]
    weights = np.concatenate(
        [np.full(len(some), len(part) / max(len(some), 1)) for some, part in zip(taken, parts, strict=True)]
    )
    judges = material.judges.take(np.concatenate(taken))

    def rmse(part: Stages, rows: LabelledRows, at: Indices) -> Floats:
        squares = np.square(part.errors(rows, at))
        return np.asarray(material.unit * np.sqrt(np.average(squares, axis=1, weights=weights)))

    n_drawn = min(len(stages), len(material.pool), MOST_DRAWN)
    at, drawn = some_stages(n_drawn), []
    for _ in range(N_DRAWS):
        subset = material.pool.take(generator.permutation(len(material.pool))[:n_drawn])
        placed = replace(judges, place=match(subset, judges))
        drawn.append(rmse(Stages.of_rows(material.kernel, subset), placed, at))
    return replace(curve, rmse=rmse(stages, judges, shown), random_stages=at, random_rmse=np.array(drawn))
