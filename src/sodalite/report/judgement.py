"""How good the finished model is: predictions of rows that they were not made from, and whether its bars are honest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from .. import metrics
from ..neighbours import distinct
from ..posteriors import Local
from ..posteriors.local import Observations
from ..posteriors.projected import Projected
from .rows import HOW, Material, Rows
from .stages import Stages

Array = NDArray[Any]

N_JUDGES = 2000  # rows, drawn at random
LEVELS = np.array([0.05, *np.arange(0.1, 0.95, 0.1), 0.95, 0.99])


@dataclass(frozen=True)
class Judgement:
    """Predictions of some rows, beside what they should have been."""

    how: str
    """Which rows these are: a key of `sodalite.report.rows.HOW`."""
    n_judges: int
    n_given: int
    """How many there were to draw them from."""
    y: Array
    mean: Array
    std: Array
    """Of an observation: with the noise."""
    rmse: float
    nlpd: float
    coverage: float
    """The share of the targets in their 95 % intervals."""
    r2: float
    """One minus the squared errors' share of the variance; NaN where the targets are all the same."""
    levels: Array
    """Probabilities that an interval may have, ..."""
    shares: Array
    """... the share of the targets in such intervals, ..."""
    low: Array
    """... and a 95 % interval of what that share would be with ever more rows: from here ..."""
    high: Array
    """... to here."""

    @property
    def standardised(self) -> Array:
        """Errors, each divided by its standard deviation."""
        return np.asarray((self.y - self.mean) / self.std)

    @property
    def words(self) -> str:
        """Which rows these are."""
        some = "" if self.n_judges == self.n_given else f", drawn from {self.n_given:,}"
        return f"{self.n_judges:,} {HOW[self.how]}{some}"


def judge(material: Material, stages: Stages, generator: np.random.Generator) -> Judgement:
    """Predict rows, none of them from itself, and say how good that is."""
    rows = material.judges.some(N_JUDGES, generator)
    error, variance = errors(material, stages, rows)
    y = material.in_units(rows.y)
    mean = y - material.unit * error
    std = material.unit * np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny))
    n = len(rows)
    shares = np.array([metrics.coverage(y, mean, std, level) for level in LEVELS])
    spread = float(np.var(y))
    rmse = metrics.rmse(y, mean)
    inside = np.round(shares * n)
    return Judgement(
        how=material.how,
        n_judges=n,
        n_given=len(material.judges),
        y=y,
        mean=mean,
        std=std,
        rmse=rmse,
        nlpd=metrics.nlpd(y, mean, std),
        coverage=metrics.coverage(y, mean, std),
        r2=1 - rmse**2 / spread if spread > 0 else float("nan"),
        levels=LEVELS,
        shares=shares,
        low=np.where(inside > 0, betaincinv(inside + 0.5, n - inside + 0.5, 0.025), 0.0),  # Jeffreys' interval
        high=np.where(inside < n, betaincinv(inside + 0.5, n - inside + 0.5, 0.975), 1.0),
    )


def errors(material: Material, stages: Stages, rows: Rows) -> tuple[Array, Array]:
    """How far rows are from what the finished model predicts without them, and the variance of that; scaled.

    Rows that the model has not seen are predicted as they are.
    """
    posterior, X = material.posterior, rows.X
    if material.how == "unseen":
        mean, variance = posterior.mean_and_variance(X, noisy=True)
        return rows.y - mean[:, rows.target], np.maximum(variance, material.selection.noise_floor)
    if isinstance(posterior, Local) and material.how == "left out":
        return _without_neighbour(posterior, rows, stages.noise(rows))
    if isinstance(posterior, Projected) and material.whole:
        return _without_share(posterior, rows, stages.noise(rows))
    error, variance = stages.errors(rows, np.array([len(stages)]))
    return error[0], variance[0]


def _without_neighbour(posterior: Local, rows: Rows, noise: Array) -> tuple[Array, Array]:
    """For "local": each row is taken out of the active rows, or out of the neighbours."""
    group = distinct(np.concatenate([posterior.X, rows.X]))[1]
    where = np.full(len(group), -1)
    where[group[: len(posterior.X)]] = np.arange(len(posterior.X))
    places = np.where(rows.place >= 0, -1, where[group[len(posterior.X) :]])
    sample = Observations(rows.X, rows.Y - posterior.base.mean(rows.X), noise, places, rows.place)
    error, variance = posterior.errors(sample, posterior.k)
    if posterior.scale is not None:
        variance = (variance + posterior.scale.extra) * posterior.scale(rows.X)
    return error[:, rows.target], variance


def _without_share(posterior: Projected, rows: Rows, noise: Array) -> tuple[Array, Array]:
    """For the projected processes: they are linear in w(x), and a row's leverage says what they are without it.

    With g = w.B^-1 w and h = g / D, the mean without the row is (mean - h y) / (1 - h) and g becomes g / (1 - h).
    """
    kernel = posterior.kernel
    features = kernel.prepare(rows.X)
    W = posterior.inverse @ kernel.block(posterior.rows, features)
    rest = np.maximum(kernel.diag(features) - np.einsum("ij,ij->j", W, W), 0)
    U = posterior.root @ W
    g = np.einsum("ij,ij->j", U, U)
    left = 1 - np.minimum(g / (noise + rest if posterior.own_noise else noise), 1 - 1e-9)
    mean = posterior.mean(rows.X)[:, rows.target]
    return (rows.y - mean) / left, g / left + noise + (rest if posterior.restored else 0)
