"""How good the finished model is: errors on rows that it was not conditioned on, and whether its bars are honest."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betaincinv, ndtri

from .. import metrics
from ..core.types import Floats, Indices, Mask
from ..posteriors import RowsOfFit
from ..posteriors.calibration import COVERAGES, shares_inside
from ..posteriors.predictive import Predictive
from .honesty import LEVEL, GroupCoverage, PitHistogram, by_distance, by_region
from .rows import HOW, Input, LabelledRows, Material
from .stages import Stages
from .words import bars_of

N_JUDGES = 2000  # rows that judge the model, drawn at random: coverage to about 1 %, and few enough dots to draw
LEVELS = np.array([0.05, *np.arange(0.1, 0.95, 0.1), 0.95, 0.99])  # probabilities of the intervals that are counted


@dataclass(frozen=True)
class Judgement:
    """Predictions of some rows beside their targets, in units of the target; arrays of shape (rows,).

    Arrays have at most `N_JUDGES` rows, to draw; numbers are of all `n_judges`. Intervals and densities are those of
    the distribution of errors that the model has learnt.
    """

    how: str
    """Which rows these are: a key of `sodalite.report.rows.HOW`."""
    n_judges: int
    n_given: int
    """How many rows the judges were drawn from."""
    y: Floats
    mean: Floats
    std: Floats
    """The standard deviation of an observation: with the noise."""
    lower: Floats
    """The lower end of the 95 % interval."""
    upper: Floats
    """The upper end of the 95 % interval."""
    pit: Floats
    """The cumulative probability of each target in its predictive distribution."""
    rmse: float
    mean_rmse: float | None
    """The RMSE of the mean function alone; None if it is a constant."""
    nlpd: float
    """Minus the mean log density of the targets."""
    coverage: float
    """The share of the targets in their 95 % intervals."""
    coverages: dict[str, float]
    """The share of the targets in the intervals of each probability, "0.5", "0.8", "0.95" and "0.99"."""
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
    histogram: PitHistogram
    regions: GroupCoverage | None
    """The coverage by the input that matters most; None for too few rows."""
    distances: GroupCoverage | None
    """The coverage by novelty; None for too few rows."""
    n_outside: int | None
    """How many of the rows lie outside the data, by their novelty; None if the model does not say what is outside."""
    outside: float | None
    """The novelty above which a row lies outside the data."""

    @property
    def inside(self) -> Mask:
        """Which targets are in their 95 % intervals; of shape (rows,)."""
        return np.asarray(np.abs(2 * self.pit - 1) <= LEVEL)

    @property
    def scores(self) -> Floats:
        """The standard normal quantiles of the PIT values, of shape (rows,): errors as a Gaussian would have them."""
        return np.asarray(ndtri(self.pit))

    @property
    def words(self) -> str:
        """Which rows judge the model, and how many."""
        some = "" if self.n_judges == self.n_given else f", drawn from {self.n_given:,}"
        return f"{self.n_judges:,} {HOW[self.how]}{some}"

    @property
    def drawn_words(self) -> str:
        """How many of the rows are drawn, in a sentence; nothing if all are."""
        return "" if len(self.y) == self.n_judges else f"{len(self.y):,} of the rows are drawn."

    @property
    def mean_words(self) -> str:
        """What the mean function alone predicts and what the Gaussian process adds; nothing for a constant."""
        if self.mean_rmse is None:
            return ""
        return f"Alone, it has an RMSE of {self.mean_rmse:.4g}; with the Gaussian process, {self.rmse:.4g}."

    @property
    def outside_words(self) -> str:
        """How many of the rows lie outside the data, in a sentence; nothing where that is not known."""
        if self.n_outside is None or self.outside is None:
            return ""
        count = "None" if not self.n_outside else f"{self.n_outside:,}"
        lie = "lies" if self.n_outside <= 1 else "lie"
        return (
            f"{count} of the {self.n_judges:,} rows that judge the model {lie} where other rows say little (novelty "
            f"above {100 * self.outside:.3g} %)."
        )


def judge(
    material: Material, stages: Stages, generator: np.random.Generator, matters: Input | None = None
) -> Judgement:
    """Predict the rows that judge the model, none of them from itself, and compare with their targets.

    `matters` is the input that rows are grouped by; None to group them by the prediction.
    """
    rows = material.judges.some(N_JUDGES, generator)
    scaled, novelty = predict(material, stages, rows)
    offset = rows.own_offset
    bars = bars_of(material.posterior)
    y = material.in_units(rows.y, offset)
    return judgement_of(
        material.how,
        y,
        scaled.in_units(material.shift + offset[:, None], np.array([material.unit])),
        X=rows.X,
        novelty=novelty,
        n_given=len(material.judges),
        mean_rmse=None if material.mean_function.is_constant else metrics.rmse(y, material.shift + offset),
        outside=None if bars is None else bars.outside,
        matters=matters,
    )


def judgement_of(
    how: str,
    y: Floats,
    found: Predictive,
    *,
    X: Floats,
    novelty: Floats,
    n_given: int,
    mean_rmse: float | None,
    outside: float | None,
    matters: Input | None,
    drawn: Indices | slice = slice(None),
) -> Judgement:
    """Compare predictions of some rows with their targets; arguments without words are fields of `Judgement`.

    Parameters
    ----------
    how : str
    y : array of shape (rows,)
    found : Predictive
        The predicted distributions of the target, in its units.
    X : array of shape (rows, d)
    novelty : array of shape (rows,)
    n_given : int
    mean_rmse : float or None
    outside : float or None
    matters : Input or None
        The input that rows are grouped by; None to group them by the prediction.
    drawn : indices or slice
        The rows to draw; all rows count in the numbers.
    """
    mean, n = found.mean[:, 0], len(y)
    lower, upper = found.quantiles(np.array([0.5 - LEVEL / 2, 0.5 + LEVEL / 2]))[:, 0].T
    pit = found.cumulative(y[:, None])[:, 0]
    shares = np.mean(np.abs(2 * pit - 1) <= LEVELS[:, None], axis=1)
    inside = np.abs(2 * pit - 1) <= LEVEL
    spread, rmse = float(np.var(y)), metrics.rmse(y, mean)
    counts = np.round(shares * n)
    return Judgement(
        how=how,
        n_judges=n,
        n_given=n_given,
        y=y[drawn],
        mean=mean[drawn],
        std=found.std[drawn, 0],
        lower=lower[drawn],
        upper=upper[drawn],
        pit=pit[drawn],
        rmse=rmse,
        mean_rmse=mean_rmse,
        nlpd=-float(np.mean(found.log_density(y[:, None]))),
        coverage=float(inside.mean()),
        coverages={f"{level:g}": share for level, share in zip(COVERAGES, shares_inside(pit), strict=True)},
        r2=1 - rmse**2 / spread if spread > 0 else float("nan"),
        levels=LEVELS,
        shares=shares,
        low=np.where(counts > 0, betaincinv(counts + 0.5, n - counts + 0.5, 0.025), 0.0),  # Jeffreys' interval
        high=np.where(counts < n, betaincinv(counts + 0.5, n - counts + 0.5, 0.975), 1.0),
        histogram=PitHistogram.of(pit),
        regions=by_region(X, mean, inside, matters),
        distances=by_distance(novelty, inside, outside),
        n_outside=None if outside is None else int((novelty > outside).sum()),
        outside=outside,
    )


def predict(material: Material, stages: Stages, rows: LabelledRows) -> tuple[Predictive, Floats]:
    """The predictive distribution of the scaled target of every row, and the novelties, of shape (rows,).

    Rows that the model has not seen are predicted as any new row, others from the rows beside them.
    """
    if material.how != "unseen":
        return _left_out(material, stages, rows)
    found = of_target(material.posterior.predictive(rows.X), rows.target)
    least = np.sqrt(max(material.selection.noise_floor, np.finfo(np.float64).tiny))
    novelty = material.posterior.novelty(rows.X) if found.novelty is None else found.novelty
    return replace(found, std=np.maximum(found.std, least)), novelty


def of_target(found: Predictive, target: int) -> Predictive:
    """The distribution of one of several targets."""
    mean, std, width = (part[:, [target]] for part in (found.mean, found.std, found.width))
    return replace(found, mean=mean, std=std, width=width, targets=[found.targets[target]])


def _left_out(material: Material, stages: Stages, rows: LabelledRows) -> tuple[Predictive, Floats]:
    """The distribution of every row's target given the other rows, and the novelties."""
    of_fit = RowsOfFit(rows.X, rows.Y, stages.noise(rows), rows.place, material.active.X)
    posterior, certain = material.posterior, material.how == "left out"
    found = posterior.left_out(of_fit) if material.whole and certain else None
    if found is None:  # the posterior's other rows are not known: rows are left out of the active ones alone
        found = material.base.left_out(of_fit)
        posterior = replace(material.base, scale=posterior.scale)
    distribution = posterior.predictive_left_out(of_fit, found)
    assert distribution.novelty is not None
    return of_target(distribution, rows.target), distribution.novelty
