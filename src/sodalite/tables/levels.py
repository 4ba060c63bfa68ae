"""Statistics of many levels: their mean targets, adjusted and cross-fitted, and whether each has a curve of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from ..core.types import Floats, Indices

FOLDS = 5  # parts of the rows, each of which gets the mean targets of the others
# The ridge per row of the line that adjusts targets for the other inputs, which are standardised: an input of which a
# hundredth of the variance is within levels has half of its slope. The levels themselves tell the rest.
RIDGE = 0.01
OUTLYING = 3.0  # standard deviations from the mean, beyond which a value of an input decides nothing more
MOST_SLOPED = 20_000  # rows that the line is learnt from: its slopes are then known to a hundredth of the spreads
# Inputs of the line. Where there are more, the plain mean of a level sums up what the model would have to learn from
# all of them (houses in Ames, 226 inputs: RMSE 0.212 with plain means, 0.227 with adjusted ones).
MOST_OTHERS = 50
WELL_KNOWN = 30  # rows of a level from which on a row's own target is no more than a thirtieth of the level's mean
SERIES = 5  # rows of a level, on average, from which on each of many levels may have a curve of its own
NEAR = 2  # nearest rows that predict a row, to see whether rows of its level know more than rows that are like it
BETTER = 0.95  # share of the error by rows that are like it, below which they do
MOST_ROWS = 2000  # rows by which that is seen, all of some levels: with hundreds of inputs, they take a second
PLASTIC = 1.324717957244746  # the root of x^3 = x + 1, whose powers give points that fill a square evenly


@dataclass(frozen=True)
class Coding:
    """The levels of the rows of a column."""

    codes: Indices
    """The level of each row, by its place among the levels; -1 for none. Of shape (n,)."""
    n_levels: int

    def take(self, rows: Indices) -> Coding:
        """The levels of some rows."""
        return Coding(self.codes[rows], self.n_levels)

    def means(self, values: Floats) -> Floats:
        """The mean of values, of shape (n,) or (n, d), in every level; zero in levels without rows."""
        count = np.maximum(np.bincount(self.codes, minlength=self.n_levels), 1)
        if values.ndim == 1:
            return np.asarray(np.bincount(self.codes, values, minlength=self.n_levels) / count)
        return np.column_stack([self.means(column) for column in values.T])


def level_means(coding: Coding, y: Floats, others: Floats | None = None) -> Floats:
    """The mean target of each level, shrunk towards that of all rows, which is the last; of shape (levels + 1,).

    The mean of a level with k rows weighs k / (k + v / b), with v the variance within levels and b that between them:
    the best linear estimate of the level's own mean (empirical Bayes).

    With other inputs, it is the mean target of the level's rows if their other inputs were those of an average row. A
    straight line in these inputs is taken from the targets, with the slopes that they have within levels. So the means
    of products do not depend on the sizes in which each happens to have been sold.

    `others` are these inputs, of shape (n, d), NaN where values are missing.
    """
    known = np.flatnonzero(coding.codes >= 0)
    if not len(known):
        return np.full(coding.n_levels + 1, float(y.mean()))
    coding, targets = coding.take(known), y[known]
    if others is not None and others.shape[1]:
        targets = targets - _explained(coding, targets, others[known])
    codes, n, overall = coding.codes, len(known), float(targets.mean())
    count, mean = np.bincount(codes, minlength=coding.n_levels), coding.means(targets)
    used = np.count_nonzero(count)
    inside = float(np.sum(np.square(targets - mean[codes])) / max(n - used, 1))
    between = float(np.sum(count * np.square(mean - overall)) / n)
    between = max(between - inside * used / n, 0.0)  # what the levels' means scatter by chance
    total = count * between + inside
    weight = np.divide(count * between, total, out=np.zeros(coding.n_levels), where=total > 0)
    return np.append(overall + weight * (mean - overall), overall)


def _explained(coding: Coding, y: Floats, others: Floats) -> Floats:
    """What a straight line in other inputs explains of targets within levels; zero for an average row. Of shape (n,).

    Slopes are learnt from at most `MOST_SLOPED` rows, of shape (d,), in O(n d^2). Of more than `MOST_OTHERS` inputs,
    nothing is explained.
    """
    n, d = others.shape
    if d > MOST_OTHERS:
        return np.zeros(n)
    Z = _standardised(others)
    some = np.random.default_rng(0).permutation(n)[:MOST_SLOPED]
    part = coding.take(some)
    W, r = (values - part.means(values)[part.codes] for values in (Z[some], y[some]))
    return np.asarray(Z @ np.linalg.solve(W.T @ W + RIDGE * len(some) * np.eye(d), W.T @ r))


def _standardised(values: Floats) -> Floats:
    """Columns with mean 0 and variance 1, outlying values moved to `OUTLYING`; 0 where a value is missing."""
    gaps = np.isnan(values)
    count = np.maximum(len(values) - gaps.sum(axis=0), 1)
    with np.errstate(over="ignore", invalid="ignore"):  # of numbers beyond all squares, which become 0
        apart = np.where(gaps, 0.0, values - np.where(gaps, 0.0, values).sum(axis=0) / count)
        spread = np.sqrt(np.square(apart).sum(axis=0) / count)
        Z = np.nan_to_num(apart / np.where(spread > 0, spread, 1.0), posinf=0.0, neginf=0.0)
    return np.asarray(np.clip(Z, -OUTLYING, OUTLYING))


def cross_fitted(coding: Coding, y: Floats, seed: int, others: Floats | None = None) -> Floats:
    """The mean target of every row's level, as new rows will have it; of shape (n,).

    In rare levels, a mean that has seen the row's own target would promise more than it keeps for new rows: there it is
    that of other rows than the row's fold. In levels of `WELL_KNOWN` rows and more, it is the mean that new rows of the
    level have, to the last digit. With means that differ a little from fold to fold, a model without noise would follow
    these differences, and know nothing of the mean that new rows have.
    """
    fold, codes = np.random.default_rng(seed).permutation(len(y)) % FOLDS, coding.codes
    means = np.empty(len(y))
    for part in range(FOLDS):
        here = fold == part
        rest = np.flatnonzero(~here) if len(y) > FOLDS else np.arange(len(y))
        some = None if others is None else others[rest]
        means[here] = level_means(coding.take(rest), y[rest], some)[codes[here]]
    count = np.bincount(codes[codes >= 0], minlength=coding.n_levels)
    known = np.append(count >= WELL_KNOWN, False)[codes]  # the last for -1, which is no level
    means[known] = level_means(coding, y, others)[codes[known]]
    return means


def with_means(X: Floats, codings: Mapping[int, Coding], y: Floats, seed: int) -> tuple[Floats, dict[int, Floats]]:
    """Inputs with the cross-fitted mean targets of levels, and the means that new rows have, by the input's place.

    Each column's means are adjusted for the inputs that are no means, and for the means of columns with fewer levels.
    Those of more levels are left aside: where the fine levels divide the coarse ones, such as towns of countries, they
    would explain what the coarse ones know from more rows.

    `codings` are the levels of the inputs that are means, by their places in X, of shape (n, inputs).
    """
    X, means = np.array(X), {}
    usable = [place for place in range(X.shape[1]) if place not in codings]
    for place, coding in sorted(codings.items(), key=lambda each: each[1].n_levels):
        others, known = X[:, usable], ~np.isnan(X[:, place])
        X[known, place] = cross_fitted(coding, y, seed, others)[known]
        means[place] = level_means(coding, y, others)
        usable.append(place)
    return X, means


def level_points(n_levels: int) -> Floats:
    """Points on a sphere for levels, spread evenly, and its centre for unseen ones; of shape (levels + 1, 3).

    They tell each level from all others, and say nothing else about it.
    """
    place = np.arange(1, n_levels + 1)
    height, angle = 2 * (place / PLASTIC % 1) - 1, 2 * np.pi * (place / PLASTIC**2 % 1)
    around = np.sqrt(1 - height**2)
    points = np.column_stack([around * np.cos(angle), around * np.sin(angle), height])
    return np.append(points, np.zeros((1, 3)), axis=0)


def are_series(coding: Coding, means: Floats, others: Floats, y: Floats) -> bool:
    """Whether the rows of each level have a curve of their own, such as those of a country over the years.

    Every row is predicted from the rows of its level that are nearest by the other inputs, and from the rows of all
    levels that are nearest by the other inputs and the mean target of the level. If the first is better, rows of the
    level know what its mean does not tell. Where levels differ by a constant alone, the second is.

    `means` are the cross-fitted mean targets of the level of each row, and `others` the other inputs, of shape (n, d).
    """
    codes, n_levels = coding.codes, coding.n_levels
    if not others.shape[1] or len(y) < SERIES * n_levels:
        return False
    which = np.random.default_rng(0).permutation(n_levels)[: max(n_levels * MOST_ROWS // len(y), 1)]
    rows = np.flatnonzero(np.isin(codes, which)) if len(y) > MOST_ROWS else np.arange(len(y))
    every = _standardised(np.column_stack([others, means])[rows])
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
