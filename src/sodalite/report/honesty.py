"""Whether error bars are honest: PIT values and the coverage of groups of rows, each with what chance allows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr

from ..core.types import Floats, Indices, Mask
from .charts import DAY
from .rows import Input
from .words import readable

LEVEL = 0.95  # probability of the intervals that are drawn, and of the ranges that chance allows
N_GROUPS = 6  # most groups of rows: their labels fit under a figure on a phone
FEWEST = 20  # rows of a group, on average: chance alone then takes up to three of them out of their 95 % intervals
FEWEST_OUTSIDE = 5  # rows outside the data from which on they are a group of their own
N_PIT = (20, 10, 5)  # bars of the PIT histogram: the first number that leaves FEWEST rows to each


@dataclass(frozen=True)
class PitHistogram:
    """How many PIT values lie in intervals of equal length from 0 to 1, as densities: honest ones are 1."""

    density: Floats
    """Of shape (bars,)."""
    low: Floats
    """The lower end of the range that chance allows with 95 % probability; of shape (bars,)."""
    high: Floats
    """The upper end of that range; of shape (bars,)."""

    @classmethod
    def of(cls, pit: Floats) -> PitHistogram:
        """Count PIT values of shape (rows,)."""
        n = len(pit)
        bars = next((count for count in N_PIT if n >= FEWEST * count), N_PIT[-1])
        low, high = chance(np.full(bars, n), 1 / bars)
        return cls(np.histogram(pit, bars, (0, 1))[0] * bars / n, low * bars, high * bars)


@dataclass(frozen=True)
class GroupCoverage:
    """The share of the rows in their 95 % intervals, for groups of rows."""

    by: str
    """What the rows are grouped by: the name of an input, or other words."""
    labels: tuple[str, ...]
    counts: Indices
    """Rows of every group; this and the next three are of shape (groups,)."""
    shares: Floats
    low: Floats
    """The lower end of the range that chance allows, with 95 % probability, if the intervals are honest."""
    high: Floats
    """The upper end of that range."""

    @classmethod
    def of(cls, by: str, labels: list[str], group: Indices, inside: Mask) -> GroupCoverage | None:
        """Count the rows in their intervals; None if there are fewer than two groups, or too few rows for two.

        Parameters
        ----------
        by : str
        labels : list of str
        group : array of shape (rows,)
            The place of every row's group among the labels.
        inside : array of shape (rows,)
            Whether each target is in its 95 % interval.
        """
        if len(labels) < 2 or len(group) < 2 * FEWEST:
            return None
        counts = np.bincount(group, minlength=len(labels))
        shares = np.bincount(group, inside, minlength=len(labels)) / counts
        return cls(by, tuple(labels), counts, shares, *chance(counts, LEVEL))

    @property
    def is_allowed(self) -> Mask:
        """Which of the shares chance allows; of shape (groups,)."""
        return np.asarray((self.shares >= self.low) & (self.shares <= self.high))


def chance(counts: Indices, probability: float) -> tuple[Floats, Floats]:
    """The range of the share of so many rows that have a property with this probability, each independently.

    It holds the share with a probability of at least 95 %, and no more than 2.5 % on either side are left out.

    Examples
    --------
    >>> low, high = chance(np.array([100, 1000]), 0.95)
    >>> low.tolist(), high.tolist()
    ([0.9, 0.936], [0.99, 0.963])
    """
    ends = [np.searchsorted(bdtr(np.arange(n + 1), n, probability), [0.025, 0.975]) / n for n in counts.tolist()]
    low, high = np.array(ends).T
    return low, high


def by_region(X: Floats, mean: Floats, inside: Mask, part: Input | None) -> GroupCoverage | None:
    """The coverage by an input, or by the prediction if there is none that could be compared; None for few rows.

    Parameters
    ----------
    X : array of shape (rows, d)
    mean : array of shape (rows,)
        Predictions, in units of the target.
    inside : array of shape (rows,)
    part : Input or None
    """
    if part is not None and part.kind == "levels":
        group, labels = _by_level(part.level_of(X), part.levels)
        found = GroupCoverage.of(part.name, labels, group, inside)
    else:
        values = mean if part is None else X[:, part.places[0]]
        group = _by_value(values)
        labels = _ranges(values, group, is_date=part is not None and part.kind == "date")
        by = "prediction" if part is None else f"mean target by {part.name}" if part.has_levels else part.name
        found = GroupCoverage.of(by, labels, group, inside)
    return by_region(X, mean, inside, None) if found is None and part is not None else found


def by_distance(novelty: Floats, inside: Mask, outside: float | None) -> GroupCoverage | None:
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
    return GroupCoverage.of("novelty", [*labels, *["outside the data"] * bool(far.any())], group, inside)


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
            return str(np.datetime64(int(value * DAY), "s").astype("datetime64[D]"))
        if digits is not None:
            return readable(value, digits)
        return f"{value if decimals is None else round(value, decimals) + 0.0:,.12g}"

    ends = [(shown(float(part.min())), shown(float(part.max()))) for part in parts]
    return [low if low == high else f"{low} to {high}" for low, high in ends]
