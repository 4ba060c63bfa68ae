"""How good a model is: errors on rows that it was not conditioned on, and whether its error bars are honest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Self

import numpy as np
from scipy.special import ndtri
from scipy.stats import binom

from .. import metrics
from ..core.types import Floats, Indices, Mask
from ..fitting.fitted import Fitted
from ..posteriors import Posterior, RowsOfFit
from ..posteriors.calibration import COVERAGES, shares_inside
from ..posteriors.predictive import Distribution, Predictive
from .inputs import Input, date_texts
from .rows import HOW, LabelledRows, Material
from .words import bars_of, readable

N_JUDGES = 2000  # rows that judge the model, drawn at random: coverage to about 1 %, and few enough dots to draw
LEVELS = np.array([0.05, *np.arange(0.1, 0.95, 0.1), 0.95, 0.99])  # probabilities of the intervals that are counted
LEVEL = 0.95  # probability of the intervals that are drawn, and of the ranges that chance allows
N_GROUPS = 6  # most groups of rows: their labels fit under a figure on a phone
FEWEST = 20  # rows of a group, on average: chance alone then takes up to three of them out of their 95 % intervals
FEWEST_OUTSIDE = 5  # rows outside the data from which on they are a group of their own
N_PIT = (20, 10, 5)  # parts of the distribution: the first number that leaves FEWEST rows to each


@dataclass(frozen=True, kw_only=True)
class Scores:
    """How good a model is on rows that it had not seen."""

    model: str = "sodalite"
    """"sodalite", or the name of a simpler model."""
    rmse: float
    nlpd: float | None = None
    """The mean negative log predictive density; None for a model without error bars."""
    coverages: dict[str, float] | None = None
    """The share of the targets in the intervals of each probability, "0.5", "0.8", "0.95" and "0.99"; None for a model
    without error bars."""

    @classmethod
    def of(cls, model: str, y: Floats, predictive: Distribution) -> Scores:
        """The scores of predictive distributions of one target y, of shape (rows,)."""
        target = y[:, None]
        nlpd, inside = -float(np.mean(predictive.log_density(target))), shares_inside(predictive.cumulative(target))
        return Scores(model=model, rmse=metrics.rmse(target, predictive.mean), nlpd=nlpd, coverages=by_level(inside))


def by_level(shares: tuple[float, ...] | Floats) -> dict[str, float]:
    """Shares of rows in the intervals of `COVERAGES`, by these probabilities."""
    return {f"{level:g}": float(share) for level, share in zip(COVERAGES, shares, strict=True)}


@dataclass(frozen=True)
class Shares:
    """Shares of rows that have a property, with what chance allows if error bars are honest; arrays of shape (parts,).

    The property is to lie in an interval of a given probability, of all rows or of a group of them.
    """

    by: str
    """What the parts differ by: the name of an input, or other words."""
    labels: tuple[str, ...]
    counts: Indices
    """Rows of every part."""
    shares: Floats
    honest: Floats
    """The probability of the property."""
    low: Floats
    """The lower end of the range that chance allows, with 95 % probability."""
    high: Floats
    """The upper end of that range."""

    @classmethod
    def of(cls, by: str, labels: Sequence[str], counts: Indices, having: Indices, honest: Floats) -> Shares:
        """Of every part, `having` of its rows have the property."""
        return cls(by, tuple(labels), counts, having / counts, honest, *chance(counts, honest))

    @classmethod
    def of_groups(cls, by: str, labels: Sequence[str], group: Indices, inside: Mask) -> Shares | None:
        """The shares in their 95 % intervals of groups of rows; None for fewer than two groups, or few rows.

        `group` has the place of every row's group among the labels, `inside` whether a target is in its interval.
        """
        if len(labels) < 2 or len(group) < 2 * FEWEST:
            return None
        counts, having = (np.bincount(group, weights, minlength=len(labels)) for weights in (None, inside))
        return cls.of(by, labels, counts, having, np.full(len(labels), LEVEL))

    @property
    def is_allowed(self) -> Mask:
        """Which of the shares chance allows."""
        return np.asarray((self.shares >= self.low) & (self.shares <= self.high))


def by_probability(pit: Floats) -> Shares:
    """The shares of rows in their intervals of each probability of `LEVELS`, from PIT values of shape (rows,)."""
    having = (np.abs(2 * pit - 1) <= LEVELS[:, None]).sum(axis=1)
    names = [f"{100 * level:.0f} %" for level in LEVELS]
    return Shares.of("probability", names, np.full(len(LEVELS), len(pit)), having, LEVELS)


def by_part(pit: Floats) -> Shares:
    """The shares of PIT values in intervals of equal length from 0 to 1."""
    count = next((count for count in N_PIT if len(pit) >= FEWEST * count), N_PIT[-1])
    edges = np.linspace(0, 100, count + 1)
    names = [f"{low:.0f} to {high:.0f} %" for low, high in pairwise(edges)]
    having = np.histogram(pit, count, (0, 1))[0]
    return Shares.of("place in the distribution", names, np.full(count, len(pit)), having, np.full(count, 1 / count))


@dataclass(frozen=True, kw_only=True)
class Judgement(Scores):
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
    pit: Floats
    """The cumulative probability of each target in its predictive distribution."""
    mean_rmse: float | None
    """The RMSE of the mean function alone; None if it is a constant."""
    r2: float
    """One minus the squared errors' share of the variance; NaN where the targets are all the same."""
    levels: Shares
    """The shares in the intervals of each probability."""
    parts: Shares
    """The shares of PIT values in parts of the distribution."""
    regions: Shares | None
    """The coverage by the input that matters most; None for too few rows."""
    distances: Shares | None
    """The coverage by novelty; None for too few rows."""
    n_outside: int | None
    """How many of the rows lie outside the data, by their novelty; None if the model does not say what is outside."""
    outside: float | None
    """The novelty above which a row lies outside the data."""

    @classmethod
    def compare(
        cls,
        how: str,
        X: Floats,
        y: Floats,
        predictive: Distribution,
        fitted: Fitted,
        offset: Floats,
        matters: Input | None = None,
        drawn: Indices | slice = slice(None),
        n_given: int | None = None,
    ) -> Self:
        """Compare predictions of some rows with their targets.

        Parameters
        ----------
        how : str
            The field of that name.
        X, y : arrays of shape (rows, d) and (rows,)
        predictive : Distribution
            The predicted distributions of the target, in its units, with novelties.
        fitted : Fitted
            The model that predicted the rows.
        offset : array of shape (rows,)
            What its mean function alone predicts.
        matters : Input, optional
            The input that rows are grouped by; by default they are grouped by the prediction.
        drawn : array of int, optional
            The rows to draw; by default all. All rows count in the numbers.
        n_given : int, optional
            The field of that name; by default the number of rows.
        """
        assert predictive.novelty is not None
        mean, pit = predictive.mean[:, 0], predictive.cumulative(y[:, None])[:, 0]
        scores, bars, inside = Scores.of("sodalite", y, predictive), bars_of(fitted.posterior), is_inside(pit)
        outside, spread = None if bars is None else bars.outside, float(np.var(y))
        return cls(
            **vars(scores),
            how=how,
            n_judges=len(y),
            n_given=n_given or len(y),
            y=y[drawn],
            mean=mean[drawn],
            pit=pit[drawn],
            mean_rmse=None if fitted.mean_function.is_constant else metrics.rmse(y, offset),
            r2=1 - scores.rmse**2 / spread if spread > 0 else float("nan"),
            levels=by_probability(pit),
            parts=by_part(pit),
            regions=by_region(X, mean, inside, matters),
            distances=by_distance(predictive.novelty, inside, outside),
            n_outside=None if outside is None else int((predictive.novelty > outside).sum()),
            outside=outside,
        )

    @property
    def scores(self) -> Scores:
        """The scores alone."""
        return Scores(model=self.model, rmse=self.rmse, nlpd=self.nlpd, coverages=self.coverages)

    @property
    def coverage(self) -> float:
        """The share of the targets in their 95 % intervals."""
        assert self.coverages is not None
        return self.coverages["0.95"]

    @property
    def inside(self) -> Mask:
        """Which of the targets that are drawn are in their 95 % intervals; of shape (rows,)."""
        return is_inside(self.pit)

    @property
    def normal_scores(self) -> Floats:
        """The standard normal quantiles of the PIT values, of shape (rows,): errors as a Gaussian would have them."""
        return np.asarray(ndtri(self.pit))

    @property
    def words(self) -> str:
        """Which rows judge the model, and how many."""
        some = "" if self.n_judges == self.n_given else f", drawn from {self.n_given:,}"
        return f"{self.n_judges:,} {HOW[self.how]}{some}"


def is_inside(pit: Floats) -> Mask:
    """Which targets are in their 95 % intervals, by their PIT values."""
    return np.asarray(np.abs(2 * pit - 1) <= LEVEL)


def judge(material: Material, generator: np.random.Generator, matters: Input | None = None) -> Judgement:
    """Predict the rows that judge the model, none of them from itself, and compare with their targets.

    `matters` is the input that rows are grouped by; None to group them by the prediction.
    """
    rows = material.judges.some(N_JUDGES, generator)
    offset, y = material.shift + rows.own_offset, material.in_units(rows.y, rows.own_offset)
    on_scale, target = (
        predict(material, rows).in_units(offset[:, None], np.array([material.unit])),
        material.fitted.target,
    )
    predictive, offset = target.distribution(on_scale), target.undone(offset)
    n_given = len(material.judges)
    return Judgement.compare(material.how, rows.X, y, predictive, material.fitted, offset, matters, n_given=n_given)


def judge_held_out(
    fitted: Fitted,
    X: Floats,
    y: Floats,
    predictive: Distribution,
    generator: np.random.Generator,
    matters: Input | None = None,
) -> Judgement:
    """How good the predictions `predictive`, in units of y, are of rows that were held out of a fit.

    The generator is for the rows that are drawn in pictures where there are many, `matters` as in `judge`.
    """
    offset = fitted.target.undone(np.zeros((len(y), 1)) + fitted.scaling.mean + fitted.mean_function(X))
    drawn = np.sort(generator.permutation(len(y))[:N_JUDGES])
    predictive = with_novelty(predictive, fitted.posterior, X)
    return Judgement.compare("held out", X, y, predictive, fitted, offset[:, 0], matters, drawn)


def predict(material: Material, rows: LabelledRows) -> Predictive:
    """The predictive distribution of the scaled target of every row, with the novelties.

    Rows that the model has not seen are predicted as any new row, others from the rows beside them.
    """
    posterior = material.posterior
    if material.how == "unseen":
        least = np.sqrt(max(material.selection.noise_floor, np.finfo(np.float64).tiny))
        predictive = of_target(posterior.predictive(rows.X), rows.target)
        if predictive.novelty is None:
            predictive = predictive.with_novelty(posterior.novelty(rows.X))
        return replace(predictive, std=np.maximum(predictive.std, least))
    of_fit = RowsOfFit(rows.X, rows.Y, material.noise(rows), rows.place, material.active.X)
    left_out = posterior.left_out(of_fit) if material.whole and material.how == "left out" else None
    if left_out is None:  # the posterior's other rows are not known: rows are left out of the active ones alone
        left_out = material.base.left_out(of_fit)
        posterior = replace(material.base, scale=posterior.scale)
    return of_target(posterior.predictive_left_out(of_fit, left_out), rows.target)


def with_novelty(predictive: Distribution, posterior: Posterior, X: Floats) -> Distribution:
    """Predictive distributions at X with the novelties, which a posterior may not return along with them."""
    return predictive if predictive.novelty is not None else predictive.with_novelty(posterior.novelty(X))


def of_target(predictive: Predictive, target: int) -> Predictive:
    """The distribution of one of several targets."""
    arrays = {name: part[:, [target]] for name, part in vars(predictive).items() if getattr(part, "ndim", 0) == 2}
    return replace(predictive, **arrays, targets=[predictive.targets[target]])


def chance(counts: Indices, probability: Floats) -> tuple[Floats, Floats]:
    """The range of the share of so many rows that have a property with this probability, each independently.

    It holds the share with a probability of at least 95 %, and no more than 2.5 % on either side are left out.

    Examples
    --------
    >>> low, high = chance(np.array([100, 1000]), np.array([0.95, 0.95]))
    >>> low.tolist(), high.tolist()
    ([0.9, 0.936], [0.99, 0.963])
    """
    low, high = (binom(counts, probability).ppf(end) / counts for end in (0.025, 0.975))
    return low, high


def by_region(X: Floats, mean: Floats, inside: Mask, part: Input | None) -> Shares | None:
    """The coverage by an input, or by the prediction if there is none that could be compared; None for few rows.

    Parameters
    ----------
    X : array of shape (rows, d)
    mean : array of shape (rows,)
        Predictions, in units of the target.
    inside : array of shape (rows,)
    part : Input or None
    """
    if part is None:
        group = _by_value(mean)
        return Shares.of_groups("prediction", _ranges(mean, group), group, inside)
    if part.kind == "levels":
        name = part.name
        group, labels = _by_level(part.values(X).astype(int), part.levels)
    else:
        name = f"mean target by {part.name}" if part.levels else part.name
        values = X[:, part.places[0]] if part.levels else part.values(X)
        group = _by_value(values)
        labels = _ranges(values, group, is_date=part.kind == "date")
    return Shares.of_groups(name, labels, group, inside) or by_region(X, mean, inside, None)


def by_distance(novelty: Floats, inside: Mask, outside: float | None) -> Shares | None:
    """The coverage by novelty, rows outside the data apart if there are some; None for few rows.

    Parameters
    ----------
    novelty, inside : arrays of shape (rows,)
    outside : float or None
        The novelty above which a row is outside the data; None if that is not known.
    """
    far = novelty > (np.inf if outside is None else outside)
    if far.sum() < FEWEST_OUTSIDE or far.all():
        far = np.zeros(len(novelty), dtype=bool)
    group = np.empty(len(novelty), dtype=np.intp)
    group[~far] = _by_value(novelty[~far])
    labels = _ranges(100 * novelty[~far], group[~far], digits=2)
    group[far] = len(labels)
    return Shares.of_groups("novelty", [*labels, *["outside the data"] * bool(far.any())], group, inside)


def _by_level(level: Indices, names: tuple[str, ...]) -> tuple[Indices, list[str]]:
    """The group of every row, of shape (rows,), and the groups' names: the most frequent levels, then the others."""
    counts = np.bincount(level, minlength=len(names))
    some = np.argsort(-counts, kind="stable")
    some = some[counts[some] > 0]
    kept = np.sort(some if len(some) <= N_GROUPS else some[: N_GROUPS - 1])
    group = np.full(len(names), len(kept))
    group[kept] = np.arange(len(kept))
    return group[level], [names[place] for place in kept] + ["others"] * (len(kept) < len(some))


def _by_value(values: Floats) -> Indices:
    """Groups of rows in the order of their values, about equally large; equal values are in one group."""
    distinct, group = np.unique(values, return_inverse=True)
    if len(distinct) <= N_GROUPS:
        return np.asarray(group)
    count = int(np.clip(len(values) // FEWEST, 1, N_GROUPS))
    edges = np.unique(np.quantile(values, np.arange(1, count) / count))
    return np.asarray(np.unique(np.searchsorted(edges, values, side="left"), return_inverse=True)[1])


def _ranges(values: Floats, group: Indices, is_date: bool = False, digits: int | None = None) -> list[str]:
    """The least and the largest value of every group, in words.

    They are rounded to so many digits or, by default, to a fraction of the narrowest group.
    """
    parts = [values[group == place] for place in range(int(group.max()) + 1)]
    widths = [float(np.ptp(part)) for part in parts if np.ptp(part) > 0]
    decimals = int(np.ceil(0.5 - np.log10(min(widths)))) if widths else None

    def shown(value: float) -> str:
        if is_date:
            return date_texts(np.array([value]))[0][:10]
        if digits is not None:
            return readable(value, digits)
        return f"{value if decimals is None else round(value, decimals) + 0.0:,.12g}"

    ends = [(shown(float(part.min())), shown(float(part.max()))) for part in parts]
    return [low if low == high else f"{low} to {high}" for low, high in ends]
