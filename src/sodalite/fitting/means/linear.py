"""A straight line as the mean."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from ...core.types import Floats

RIDGE = 1e-6  # ridge penalty, as a share of a standardised input's variance: decides between inputs that are multiples


class LinearMean(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Least squares on standardised inputs, drawn slightly to zero.

    Attributes
    ----------
    coef_ : ndarray of shape (d, q)
    intercept_ : ndarray of shape (q,)
        The mean of the targets.
    centre_ : ndarray of shape (d,)
        The mean of the inputs.
    """

    coef_: Floats
    intercept_: Floats
    centre_: Floats

    @classmethod
    def restore(cls, coef: Floats, intercept: Floats, centre: Floats) -> LinearMean:
        """A fitted line, from what a file holds."""
        made = cls()
        made.coef_, made.intercept_, made.centre_ = coef, intercept, centre
        return made

    def fit(self, X: Floats, y: Floats) -> Self:
        """Fit to targets of shape (n,) or (n, q)."""
        X, Y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64).reshape(len(X), -1)
        self.centre_, self.intercept_ = X.mean(axis=0), Y.mean(axis=0)
        spread = X.std(axis=0)
        spread[spread == 0] = 1.0
        Z = (X - self.centre_) / spread
        A = Z.T @ Z / len(Z) + RIDGE * np.eye(Z.shape[1])
        self.coef_ = np.linalg.solve(A, Z.T @ (Y - self.intercept_) / len(Z)) / spread[:, None]
        return self

    def predict(self, X: Any) -> Floats:
        """Predict targets of shape (n, q)."""
        return np.asarray((np.asarray(X, dtype=np.float64) - self.centre_) @ self.coef_ + self.intercept_)
