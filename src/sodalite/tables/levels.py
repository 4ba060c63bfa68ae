"""Levels of texts: which have an input of their own, and the mean targets of those that are too many for that."""

from __future__ import annotations

import numpy as np

from ..core.types import Array, Floats
from .values import Values

MOST_LEVELS = 12  # levels that each become an input, with a length-scale that the fit has to find
FEWEST_ROWS = 3  # rows of a level below which it is rare, and shares an input with other rare ones
FEWEST_TO_SHARE = 30  # rows of a table below which all levels are rare, and none are shared
FOLDS = 5  # parts of the rows, each of which gets the mean targets of the others
WELL_KNOWN = 30  # rows of a level from which on a row's own target is no more than a thirtieth of the level's mean
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


def frequent_levels(values: Values, most: int) -> list[str]:
    """The levels with most rows."""
    counts = values.used()
    order = np.argsort(-counts, kind="stable")[:most]
    return [values.levels[at] for at in order.tolist() if counts[at]]
