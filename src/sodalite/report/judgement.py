"""How good a model is: errors on rows that it was not conditioned on, and whether its error bars are honest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import ndtri
from scipy.stats import binom

from .. import metrics
from ..core.types import Floats, Indices, Mask
from ..fitting.fitted import Fitted
from ..posteriors import RowsOfFit
from ..posteriors.calibration import COVERAGES, shares_inside
from ..posteriors.predictive import Distribution, Predictive
from .inputs import Input, date_texts
from .rows import HOW, LabelledRows, Material
from .words import bars_of

N_JUDGES = 2000  # rows that judge the model, drawn at random: coverage to about 1 %, and few enough dots to draw
LEVELS = np.array([0.05, *np.arange(0.1, 0.95, 0.1), 0.95, 0.99])  # probabilities of the intervals that are counted
LEVEL = 0.95  # probability of the intervals that are drawn, and of the ranges that chance allows
N_GROUPS = 6  # most groups of rows: their labels fit under a figure on a phone
FEWEST = 20  # rows of a group, on average: chance alone then takes up to three of them out of their 95 % intervals


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

    The property is to lie in an interval of a given probability, of all rows or of a group of them. Chance allows a
    range that holds the share with a probability of at least 95 %, and at most 2.5 % are left out on either side.

    Examples
    --------
    >>> one = Shares.of("level", ["95 %"], np.array([100]), np.array([97]), np.array([0.95]))
    >>> one.shares.tolist(), one.low.tolist(), one.high.tolist(), one.is_allowed.tolist()
    ([0.97], [0.9], [0.99], [True])
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
    high: Floats

    @classmethod
    def of(cls, by: str, labels: Sequence[str], counts: Indices, having: Indices, honest: Floats) -> Shares:
        """Of every part, `having` of its rows have the property."""
        low, high = (binom(counts, honest).ppf(end) / counts for end in (0.025, 0.975))
        return cls(by, tuple(labels), counts, having / counts, honest, low, high)

    @property
    def is_allowed(self) -> Mask:
        """Which of the shares chance allows."""
        return np.asarray((self.shares >= self.low) & (self.shares <= self.high))


def by_probability(pit: Floats) -> Shares:
    """The shares of rows in their intervals of each probability of `LEVELS`, from PIT values of shape (rows,)."""
    having = (np.abs(2 * pit - 1) <= LEVELS[:, None]).sum(axis=1)
    names = [f"{100 * level:.0f} %" for level in LEVELS]
    return Shares.of("probability", names, np.full(len(LEVELS), len(pit)), having, LEVELS)


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
    r2: float
    """One minus the squared errors' share of the variance; NaN where the targets are all the same."""
    levels: Shares
    """The shares in the intervals of each probability."""
    regions: Shares | None
    """The coverage by the input that matters most; None for too few rows."""
    n_outside: int | None
    """How many of the rows lie outside the data, by their novelty; None if the model does not say what is outside."""
    outside: float | None
    """The novelty above which a row lies outside the data."""

    @classmethod
    def of_rows(
        cls,
        how: str,
        X: Floats,
        y: Floats,
        predictive: Distribution,
        fitted: Fitted,
        generator: np.random.Generator,
        matters: Input | None = None,
        n_given: int | None = None,
    ) -> Self:
        """Compare the predictions that a model has made of some rows with their targets y.

        The generator is for the rows that are drawn in pictures, where there are many. Rows are grouped by the input
        that matters or, by default, by the prediction; `how` and `n_given` are the fields of these names.
        """
        novelty = fitted.posterior.novelty(X) if predictive.novelty is None else predictive.novelty
        mean, pit = predictive.mean[:, 0], predictive.cumulative(y[:, None])[:, 0]
        scores, bars = Scores.of("sodalite", y, predictive), bars_of(fitted.posterior)
        drawn = np.sort(generator.permutation(len(y))[:N_JUDGES])
        outside, spread = None if bars is None else bars.outside, float(np.var(y))
        return cls(
            **vars(scores),
            how=how,
            n_judges=len(y),
            n_given=n_given or len(y),
            y=y[drawn],
            mean=mean[drawn],
            pit=pit[drawn],
            r2=1 - scores.rmse**2 / spread if spread > 0 else float("nan"),
            levels=by_probability(pit),
            regions=by_region(X, mean, is_inside(pit), matters),
            n_outside=None if outside is None else int((novelty > outside).sum()),
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
    rows, fitted = material.judges.some(N_JUDGES, generator), material.fitted
    offset, n = material.shift + rows.own_offset, len(material.judges)
    on_scale = predict(material, rows).in_units(offset[:, None], np.array([material.unit]))
    predictive, y = fitted.target.distribution(on_scale), material.in_units(rows.y, rows.own_offset)
    return Judgement.of_rows(material.how, rows.X, y, predictive, fitted, generator, matters, n_given=n)


def predict(material: Material, rows: LabelledRows) -> Predictive:
    """The predictive distribution of the scaled target of every row, with the novelties.

    Rows that the model has not seen are predicted as any new row, others from the rows beside them.
    """
    posterior = material.posterior
    if material.how == "unseen":
        least = np.sqrt(max(material.selection.noise_floor, np.finfo(np.float64).tiny))
        predictive = of_target(posterior.predictive(rows.X), rows.target)
        return replace(predictive, std=np.maximum(predictive.std, least))
    of_fit = RowsOfFit(rows.X, rows.Y, material.noise(rows), rows.place, material.active.X)
    left_out = posterior.left_out(of_fit) if material.whole and material.how == "left out" else None
    if left_out is None:  # the posterior's other rows are not known: rows are left out of the active ones alone
        left_out = material.base.left_out(of_fit)
        posterior = replace(material.base, scale=posterior.scale)
    return of_target(posterior.predictive_left_out(of_fit, left_out), rows.target)


def of_target(predictive: Predictive, target: int) -> Predictive:
    """The distribution of one of several targets."""
    arrays = {name: part[:, [target]] for name, part in vars(predictive).items() if getattr(part, "ndim", 0) == 2}
    return replace(predictive, **arrays, targets=[predictive.targets[target]])


def by_region(X: Floats, mean: Floats, inside: Mask, part: Input | None) -> Shares | None:
    """The coverage by an input, or by the prediction if the input makes no two groups; None for few rows.

    X has shape (rows, d), the predictions `mean` and whether each target is in its 95 % interval, (rows,).
    """
    if part is None:
        by, values = "prediction", mean
    else:
        by = f"mean target by {part.name}" if part.kind == "means" else part.name
        values = X[:, part.places[0]] if part.kind == "means" else part.values(X)
    if part is not None and part.kind == "levels":
        group, labels = _by_level(values.astype(int), part.levels)
    else:
        group = _by_value(values)
        labels = _ranges(values, group, is_date=part is not None and part.kind == "date")
    if len(labels) < 2 and part is not None:
        return by_region(X, mean, inside, None)
    if len(labels) < 2 or len(group) < 2 * FEWEST:
        return None
    counts, having = (np.bincount(group, weights, minlength=len(labels)) for weights in (None, inside))
    return Shares.of(by, labels, counts, having, np.full(len(labels), LEVEL))


def _by_level(level: Indices, names: tuple[str, ...]) -> tuple[Indices, list[str]]:
    """The group of every row, of shape (rows,), and the groups' names: the most frequent levels, then the others."""
    counts = np.bincount(level, minlength=len(names))
    some = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
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


def _ranges(values: Floats, group: Indices, is_date: bool = False) -> list[str]:
    """The least and the largest value of every group, in words, rounded to a fraction of the narrowest group."""
    ends = np.array([(part.min(), part.max()) for part in (values[group == at] for at in range(group.max() + 1))])
    widths = [width for width in np.ptp(ends, axis=1).tolist() if width > 0]
    if is_date:
        texts = [[text[:10] for text in date_texts(pair)] for pair in ends]
    else:
        if widths:
            ends = np.round(ends, int(np.ceil(0.5 - np.log10(min(widths))))) + 0.0
        texts = [[f"{value:,.12g}" for value in pair] for pair in ends.tolist()]
    return [low if low == high else f"{low} to {high}" for low, high in texts]
