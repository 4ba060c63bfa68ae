"""How good the finished model is: errors on rows that it was not conditioned on, and whether its bars are honest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from .. import metrics
from ..core.types import Floats
from ..posteriors import Local
from ..posteriors.calibration import novelty_of
from ..posteriors.leave_one_out import Observations
from ..posteriors.projected import Projected
from .rows import HOW, LabelledRows, Material, places_among
from .stages import Stages
from .words import bars_of

N_JUDGES = 2000  # rows that judge the model, drawn at random: coverage to about 1 %, and few enough dots to draw
LEVELS = np.array([0.05, *np.arange(0.1, 0.95, 0.1), 0.95, 0.99])  # probabilities of the intervals that are counted


@dataclass(frozen=True)
class Judgement:
    """Predictions of some rows beside their targets, in units of the target; arrays of shape (rows,)."""

    how: str
    """Which rows these are: a key of `sodalite.report.rows.HOW`."""
    n_judges: int
    n_given: int
    """How many rows the judges were drawn from."""
    y: Floats
    mean: Floats
    std: Floats
    """The standard deviation of an observation: with the noise."""
    rmse: float
    nlpd: float
    coverage: float
    """The share of the targets in their 95 % intervals."""
    r2: float
    """One minus the squared errors' share of the variance; NaN where the targets are all the same."""
    levels: Floats
    """Probabilities of predictive intervals, `LEVELS`; this and the next three are of shape (levels,)."""
    shares: Floats
    """The share of the targets in the intervals of each probability."""
    low: Floats
    """The lower end of a 95 % interval for the share that ever more rows would give."""
    high: Floats
    """The upper end of that interval."""
    n_outside: int | None
    """How many of the rows lie outside the data, by their novelty; None if the model does not say what is outside."""
    outside: float | None
    """The novelty above which a row lies outside the data."""

    @property
    def standardised(self) -> Floats:
        """Errors, each divided by its standard deviation; of shape (rows,)."""
        return np.asarray((self.y - self.mean) / self.std)

    @property
    def words(self) -> str:
        """Which rows judge the model, and how many."""
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
    """Predict the rows that judge the model, none of them from itself, and compare with their targets."""
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


def errors(material: Material, stages: Stages, rows: LabelledRows) -> tuple[Floats, Floats, Floats]:
    """Leave-one-out residuals of the finished model, their variances, and the novelties; of shape (rows,).

    They are of the scaled targets. Rows that the model has not seen are predicted as any new row.
    """
    posterior, X = material.posterior, rows.X
    if material.how == "unseen":
        mean, variance, novelty = posterior.mean_variance_novelty(X, noisy=True)
        return rows.y - mean[:, rows.target], np.maximum(variance, material.selection.noise_floor), novelty
    noise = stages.noise(rows)
    left_out = _leave_one_out(material, stages, rows, noise)
    prior = material.kernel.diag(material.kernel.prepare(X))
    novelty = novelty_of(left_out.remaining, prior)
    factor: float | Floats = 1.0
    if (scale := posterior.scale) is not None:
        noise = noise + scale.extra
        factor = scale.factor(X, novelty, prior + noise)
    return left_out.residual, (left_out.latent + noise) * factor, novelty


class _LeftOut(NamedTuple):
    """What a posterior says of some rows, each left out; of shape (rows,)."""

    residual: Floats
    remaining: Floats
    """The variance of the latent function that is left, which novelty is a share of."""
    latent: Floats
    """The variance of the latent function as the posterior reports it: "sor" has less than is left."""


def _leave_one_out(material: Material, stages: Stages, rows: LabelledRows, noise: Floats) -> _LeftOut:
    """Leave each of some rows out of the posterior, before its variances are scaled.

    Where the posterior's other rows are not known, rows are left out of the active ones alone.
    """
    posterior = material.posterior
    if isinstance(posterior, Local) and material.how == "left out":
        return _leave_out_of_local(posterior, rows, noise)
    if isinstance(posterior, Projected) and material.whole:
        return _leave_out_of_projected(posterior, rows, noise)
    (residual,), (variance,) = stages.errors(rows, np.array([len(stages)]))
    latent = np.maximum(variance - noise, 0)
    return _LeftOut(residual, latent, latent)


def _leave_out_of_local(posterior: Local, rows: LabelledRows, noise: Floats) -> _LeftOut:
    """Take each row out of the active rows, or out of its neighbours (docs/method.rst, `posterior-local`)."""
    groups = np.where(rows.place >= 0, -1, places_among(posterior.X, rows.X))
    sample = Observations(rows.X, rows.Y - posterior.base.mean(rows.X), noise, groups, rows.place)
    residual, variance = posterior.errors(sample, posterior.k)
    latent = np.maximum(variance - noise, 0)
    return _LeftOut(residual[:, rows.target], latent, latent)


def _leave_out_of_projected(posterior: Projected, rows: LabelledRows, noise: Floats) -> _LeftOut:
    """Undo each row's leverage on its own prediction (docs/method.rst, `posterior-projected`)."""
    g, rest, left = posterior.leverage(rows.X, noise)
    mean = posterior.mean(rows.X)[:, rows.target]
    latent = g / left + (rest if posterior.restored else 0)
    return _LeftOut((rows.y - mean) / left, g / left + rest, latent)
