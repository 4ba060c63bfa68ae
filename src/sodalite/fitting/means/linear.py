"""A straight line as the mean."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from ...core.types import Floats

TINY = 1e-300  # the least variance of a target that errors are divided by
# Ridge penalties that are tried, as shares of a standardised input's variance. The least decides between inputs that
# are multiples of each other; the largest leave little of a line in more inputs than the rows can tell. Between
# neighbours, errors differ by less than a hundredth.
RIDGES = tuple(np.geomspace(1e-6, 1e3, 28).tolist())
# Leverage of a row above which its leave-one-out error is not computed from its residual, but for rounding. A smaller
# one would make the least ridge look best wherever there are more inputs than rows: all residuals are 0 then.
MOST_LEVERAGE = 1 - 1e-9


class LinearMean(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Least squares on standardised inputs, with the ridge of the smallest leave-one-out errors.

    Attributes
    ----------
    coef_ : ndarray of shape (d, q)
    intercept_ : ndarray of shape (q,)
        The mean of the targets.
    centre_ : ndarray of shape (d,)
        The mean of the inputs.
    optimism_ : float
        How many times as large the noise is as the residuals' variance: the latter is 1 - h_i of the former.
    """

    coef_: Floats
    intercept_: Floats
    centre_: Floats
    optimism_: float = 1.0

    def saved(self) -> dict[str, Any]:
        """The arguments of `restore`."""
        return {"coef": self.coef_, "intercept": self.intercept_, "centre": self.centre_}

    @classmethod
    def restore(cls, coef: Floats, intercept: Floats, centre: Floats) -> LinearMean:
        """The fitted line that `saved` describes."""
        made = cls()
        made.coef_, made.intercept_, made.centre_ = coef, intercept, centre
        return made

    def fit(self, X: Floats, y: Floats) -> Self:
        """Fit to targets of shape (n,) or (n, q). O(n d^2 + d^3).

        With the eigenvalues l of the inputs' correlations and rows U in the directions of their eigenvectors, the
        leverages of a ridge g are h_i = 1 / n + sum_j U_ij^2 / (n (l_j + g)), and leave-one-out errors e_i / (1 - h_i).
        """
        X, Y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64).reshape(len(X), -1)
        n = len(X)
        self.centre_, self.intercept_ = X.mean(axis=0), Y.mean(axis=0)
        spread = X.std(axis=0)
        spread[spread == 0] = 1.0
        Z, R = (X - self.centre_) / spread, Y - self.intercept_
        values, vectors = np.linalg.eigh(Z.T @ Z / n)
        U, values = Z @ vectors, np.maximum(values, 0)
        unit, slopes, best = np.maximum(R.var(axis=0), TINY), U.T @ R / n, np.inf
        squared = np.square(U)
        for ridge in RIDGES:
            weights = slopes / (values + ridge)[:, None]
            error = R - U @ weights
            leverage = np.minimum(1 / n + squared @ (1 / (values + ridge)) / n, MOST_LEVERAGE)
            squares, rest = np.mean(np.square(error) / unit, axis=1), 1 - leverage
            if (left_out := float(np.mean(squares / rest**2))) < best:
                best, self.coef_ = left_out, vectors @ weights / spread[:, None]
                seen = float(squares.sum())
                self.optimism_ = float(np.sum(squares / rest)) / seen if seen > 0 else 1.0
        return self

    def predict(self, X: Any) -> Floats:
        """Predict targets of shape (n, q)."""
        return np.asarray((np.asarray(X, dtype=np.float64) - self.centre_) @ self.coef_ + self.intercept_)
