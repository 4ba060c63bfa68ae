"""Levels of texts: which have an input of their own, and the mean targets of those that are too many for that."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.spatial import cKDTree

from ..core.types import Array, Floats
from .base import is_number
from .values import Values

MOST_LEVELS = 12  # levels that each become an input, with a length-scale that the fit has to find
FEWEST_ROWS = 3  # rows of a level below which it is rare, and shares an input with other rare ones
FEWEST_TO_SHARE = 30  # rows of a table below which all levels are rare, and none are shared
FOLDS = 5  # parts of the rows, each of which gets the mean targets of the others
WELL_KNOWN = 30  # rows of a level from which on a row's own target is no more than a thirtieth of the level's mean
SERIES = 5  # rows of a level, on average, from which on each of many levels may have a curve of its own
NEAR = 2  # nearest rows that predict a row, to see whether rows of its level know more than rows that are like it
BETTER = 0.95  # share of the error by rows that are like it, below which they do
MOST_ROWS = 2000  # rows by which that is seen, all of some levels: with hundreds of inputs, they take a second
POINT = ("point x", "point y", "point z")
"""The inputs of a level that has a point on a sphere."""
PLASTIC = 1.324717957244746  # the root of x^3 = x + 1, whose powers give points that fill a square evenly
UNIQUE = 0.5  # different texts as a share of the rows, above which they are names of rows, from which nothing is learnt


def level_means(codes: Array, y: Floats, n_levels: int) -> Floats:
    """The mean target of each level, shrunk towards that of all rows, which is the last; of shape (levels + 1,).

    The mean of a level with k rows weighs k / (k + v / b), with v the variance within levels and b that between them:
    the best linear estimate of the level's own mean (empirical Bayes).

    Parameters
    ----------
    codes : array of shape (n,)
        The level of each row; -1 for none.
    y : array of shape (n,)
    n_levels : int
    """
    known = codes >= 0
    codes, targets = codes[known], y[known]
    overall = float(targets.mean()) if len(targets) else float(y.mean())
    count = np.bincount(codes, minlength=n_levels)
    mean = np.bincount(codes, targets, minlength=n_levels) / np.maximum(count, 1)
    inside = float(np.sum(np.square(targets - mean[codes])) / max(len(targets) - np.count_nonzero(count), 1))
    between = float(np.sum(count * np.square(mean - overall)) / max(len(targets), 1))
    used = max(int(np.count_nonzero(count)), 1)
    between = max(between - inside * used / max(len(targets), 1), 0.0)  # what the levels' means scatter by chance
    total = count * between + inside
    weight = np.divide(count * between, total, out=np.zeros(n_levels), where=total > 0)
    return np.append(overall + weight * (mean - overall), overall)


def cross_fitted(codes: Array, y: Floats, n_levels: int, seed: int) -> Floats:
    """The mean target of every row's level, as new rows will have it; of shape (n,).

    In rare levels, a mean that has seen the row's own target would promise more than it keeps for new rows: there it is
    that of other rows than the row's fold. In levels of `WELL_KNOWN` rows and more, it is the mean that new rows of the
    level have, to the last digit. With means that differ a little from fold to fold, a model without noise would follow
    these differences, and know nothing of the mean that new rows have.
    """
    fold = np.random.default_rng(seed).permutation(len(y)) % FOLDS
    found = np.empty(len(y))
    for part in range(FOLDS):
        here = fold == part
        rest = ~here if len(y) > FOLDS else np.ones(len(y), dtype=bool)
        found[here] = level_means(codes[rest], y[rest], n_levels)[codes[here]]
    count = np.bincount(codes[codes >= 0], minlength=n_levels)
    known = np.append(count >= WELL_KNOWN, False)[codes]  # the last for -1, which is no level
    found[known] = level_means(codes, y, n_levels)[codes[known]]
    return found


def rare_levels(values: Values) -> list[str]:
    """Levels of too few rows for an input of their own, if there are several; none of a table of few rows."""
    if len(values) < FEWEST_TO_SHARE:
        return []
    found = [
        level for level, count in zip(values.levels, values.used().tolist(), strict=True) if 0 < count < FEWEST_ROWS
    ]
    return found if len(found) > 1 else []


def level_points(n_levels: int) -> Floats:
    """Points on a sphere for levels, spread evenly, and its centre for unseen ones; of shape (levels + 1, 3).

    They tell each level from all others, and say nothing else about it.
    """
    place = np.arange(1, n_levels + 1)
    height, angle = 2 * (place / PLASTIC % 1) - 1, 2 * np.pi * (place / PLASTIC**2 % 1)
    around = np.sqrt(1 - height**2)
    points = np.column_stack([around * np.cos(angle), around * np.sin(angle), height])
    return np.append(points, np.zeros((1, 3)), axis=0)


def are_series(codes: Array, means: Floats, others: Floats, y: Floats, n_levels: int) -> bool:
    """Whether the rows of each level have a curve of their own, such as those of a country over the years.

    Every row is predicted from the rows of its level that are nearest by the other inputs, and from the rows of all
    levels that are nearest by the other inputs and the mean target of the level. If the first is better, rows of the
    level know what its mean does not tell. Where levels differ by a constant alone, the second is.

    Parameters
    ----------
    codes : array of shape (n,)
        The level of each row.
    means : array of shape (n,)
        The mean target of the level of each row, cross-fitted.
    others : array of shape (n, d)
        The other inputs; NaN where values are missing.
    y : array of shape (n,)
    n_levels : int
    """
    if not others.shape[1] or len(y) < SERIES * n_levels:
        return False
    which = np.random.default_rng(0).permutation(n_levels)[: max(n_levels * MOST_ROWS // len(y), 1)]
    rows = np.flatnonzero(np.isin(codes, which)) if len(y) > MOST_ROWS else np.arange(len(y))
    every = np.column_stack([others, means])[rows]
    spread = np.nanstd(every, axis=0)
    every = np.nan_to_num((every - np.nanmean(every, axis=0)) / np.where(spread > 0, spread, 1.0))
    apart = codes[rows] * 1e3 * np.sqrt(every.shape[1])  # farther than any two rows, so that levels do not mix
    within = np.column_stack([every[:, :-1], apart])
    errors = [_nearest_error(part, y[rows]) for part in (within, every)]
    return errors[0] < BETTER * errors[1]


def _nearest_error(X: Floats, y: Floats) -> float:
    """The RMSE of rows, each predicted by the mean of the `NEAR` rows that are nearest to it."""
    near = cKDTree(X).query(X, NEAR + 1)[1]
    own = near == np.arange(len(y))[:, None]
    own[~own.any(axis=1), -1] = True  # among many equal rows, a row need not be among its nearest
    return float(np.sqrt(np.mean(np.square(y - y[near[~own].reshape(-1, NEAR)].mean(axis=1)))))


def in_order(levels: Sequence[str]) -> tuple[str, ...]:
    """Levels sorted: by their values if all are numbers, else by their letters.

    Examples
    --------
    >>> in_order(["10", "9", "100"]), in_order(["Chur", "Bern"])
    (('9', '10', '100'), ('Bern', 'Chur'))
    """
    return tuple(sorted(levels, key=float if all(map(is_number, levels)) else None))


def frequent_levels(values: Values, most: int) -> list[str]:
    """The levels with most rows."""
    counts = values.used()
    order = np.argsort(-counts, kind="stable")[:most]
    return [values.levels[at] for at in order.tolist() if counts[at]]
