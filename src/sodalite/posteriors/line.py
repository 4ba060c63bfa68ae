"""A straight line: ridge regression whose penalty has the smallest leave-one-out errors."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from ..core.types import Array, Floats

TINY = 1e-300  # the least variance of a target that errors are divided by
# Ridge penalties that are tried, as shares of a scaled input's variance. The least decides between inputs that are
# multiples of each other; the largest leave little of a line in more inputs than the rows can tell. Between neighbours,
# errors differ by less than a hundredth.
RIDGES = tuple(np.geomspace(1e-9, 1e3, 37).tolist())
# Leverage of a row above which its leave-one-out error is not computed from its residual, but for rounding. A smaller
# one would make the least ridge look best wherever there are more inputs than rows: all residuals are 0 then.
MOST_LEVERAGE = 1 - 1e-12


@dataclass(frozen=True)
class Line:
    """A straight line in d inputs for each of q targets."""

    slopes: Floats
    """Of shape (d, q)."""
    level: Floats
    """The targets at the centre, of shape (q,)."""
    centre: Floats
    """Of shape (d,)."""

    def __call__(self, X: Array) -> Floats:
        """The line at X, of shape (n, q)."""
        return np.asarray((np.asarray(X, dtype=np.float64) - self.centre) @ self.slopes + self.level)


def fit_line(X: Floats, y: Floats) -> tuple[Line, Floats]:
    """Fit a line to targets of shape (n, q), and return it with the leverage of every row, of shape (n,).

    A row whose residual is e is e / (1 - h) off the line through the other rows. The ridge is that with the smallest
    such errors. With the eigenvalues l of the scaled inputs' covariance and rows U in the directions of its
    eigenvectors, the leverages of a ridge g are h_i = 1 / n + sum_j U_ij^2 / (n (l_j + g)). O(n d^2 + d^3).
    """
    n = len(X)
    centre, level, spread = X.mean(axis=0), y.mean(axis=0), _spread(X)
    Z, R = (X - centre) / spread, y - level
    values, vectors = np.linalg.eigh(Z.T @ Z / n)
    U, values = Z @ vectors, np.maximum(values, 0)
    unit, slopes, squared, least = np.maximum(R.var(axis=0), TINY), U.T @ R / n, np.square(U), inf
    for ridge in RIDGES:
        weights = slopes / (values + ridge)[:, None]
        leverage = np.minimum(1 / n + squared @ (1 / (values + ridge)) / n, MOST_LEVERAGE)
        error = (R - U @ weights) / (1 - leverage)[:, None]
        if (square := float(np.mean(np.square(error) / unit))) < least:
            least, best, leverages = square, weights, leverage
    return Line(vectors @ best / spread[:, None], level, centre), leverages


def _spread(X: Floats) -> Floats:
    """The scale of every input: its standard deviation or, of two values such as 0 and 1, half of their difference.

    So a level of few rows is drawn to the others, as little is known of it.
    """
    low, high = X.min(axis=0), X.max(axis=0)
    spread = np.where(((low == X) | (high == X)).all(axis=0), 0.5 * (high - low), X.std(axis=0))
    spread[spread == 0] = 1.0
    return np.asarray(spread)
