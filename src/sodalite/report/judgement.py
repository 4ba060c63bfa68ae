"""How good the finished model is: predictions of rows that they were not made from, and whether its bars are honest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from .. import metrics
from ..core.types import Array
from ..kernels.neighbours import distinct
from ..posteriors import Local
from ..posteriors.calibration import novelty_of
from ..posteriors.leave_one_out import Observations
from ..posteriors.projected import Projected
from .rows import HOW, Material, Rows
from .stages import Stages
from .words import bars_of

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
    n_outside: int | None
    """How many of the rows lie outside the data, by their novelty; None if the model does not say what is outside."""
    outside: float | None
    """The novelty above which a row does."""

    @property
    def standardised(self) -> Array:
        """Errors, each divided by its standard deviation."""
        return np.asarray((self.y - self.mean) / self.std)

    @property
    def words(self) -> str:
        """Which rows these are."""
        some = "" if self.n_judges == self.n_given else f", drawn from {self.n_given:,}"
        return f"{self.n_judges:,} {HOW[self.how]}{some}"

    @property
    def outside_words(self) -> str:
        """How many of the rows lie outside the data, in a sentence; nothing where that is not known."""
        if self.n_outside is None or self.outside is None:
            return ""
        count = "None" if not self.n_outside else f"{self.n_outside:,}"
        lie = "lies" if self.n_outside <= 1 else "lie"
        return (
            f"{count} of the {self.n_judges:,} rows that judge the model {lie} where other rows say little: more than "
            f"{100 * self.outside:.2g} % of the prior variance is left there (novelty)."
        )


def judge(material: Material, stages: Stages, generator: np.random.Generator) -> Judgement:
    """Predict rows, none of them from itself, and say how good that is."""
    rows = material.judges.some(N_JUDGES, generator)
    error, variance, novelty = errors(material, stages, rows)
    bars = bars_of(material.posterior)
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
        n_outside=None if bars is None else int((novelty > bars.outside).sum()),
        outside=None if bars is None else bars.outside,
    )


def errors(material: Material, stages: Stages, rows: Rows) -> tuple[Array, Array, Array]:
    """How far rows are from what the finished model predicts without them, the variance of that, and the novelty.

    They are of the scaled targets. Rows that the model has not seen are predicted as they are.
    """
    posterior, X = material.posterior, rows.X
    if material.how == "unseen":
        mean, variance, novelty = posterior.mean_variance_novelty(X, noisy=True)
        return rows.y - mean[:, rows.target], np.maximum(variance, material.selection.noise_floor), novelty
    noise = stages.noise(rows)
    if isinstance(posterior, Local) and material.how == "left out":
        error, left, latent = _without_neighbour(posterior, rows, noise)
    elif isinstance(posterior, Projected) and material.whole:
        error, left, latent = _without_share(posterior, rows, noise)
    else:
        found, variance = stages.errors(rows, np.array([len(stages)]))
        error = found[0]
        left = latent = np.maximum(variance[0] - noise, 0)
    prior = material.kernel.diag(material.kernel.prepare(X))
    novelty, factor = novelty_of(left, prior), 1.0
    if (scale := posterior.scale) is not None:
        noise = noise + scale.extra
        factor = scale.factor(X, novelty, prior + noise)
    return error, (latent + noise) * factor, novelty


def _without_neighbour(posterior: Local, rows: Rows, noise: Array) -> tuple[Array, Array, Array]:
    """For "local": each row is taken out of the active rows, or out of the neighbours."""
    group = distinct(np.concatenate([posterior.X, rows.X]))[1]
    where = np.full(len(group), -1)
    where[group[: len(posterior.X)]] = np.arange(len(posterior.X))
    places = np.where(rows.place >= 0, -1, where[group[len(posterior.X) :]])
    sample = Observations(rows.X, rows.Y - posterior.base.mean(rows.X), noise, places, rows.place)
    error, variance = posterior.errors(sample, posterior.k)
    latent = np.maximum(variance - noise, 0)
    return error[:, rows.target], latent, latent


def _without_share(posterior: Projected, rows: Rows, noise: Array) -> tuple[Array, Array, Array]:
    """For the projected processes: a row's leverage says what they are without it."""
    g, rest, left = posterior.leverage(rows.X, noise)
    mean = posterior.mean(rows.X)[:, rows.target]
    latent = g / left + (rest if posterior.restored else 0)
    return (rows.y - mean) / left, g / left + rest, latent
