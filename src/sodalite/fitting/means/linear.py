"""A straight line as the mean."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from ...core.types import Floats
from ...posteriors.line import Line, fit_line


class LinearMean(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Ridge regression (`sodalite.posteriors.line`).

    Attributes
    ----------
    line_ : Line
    """

    line_: Line

    @property
    def coef_(self) -> Floats:
        """The slopes, of shape (d, q)."""
        return self.line_.slopes

    def saved(self) -> dict[str, Any]:
        """The arguments of `restore`."""
        return {"coef": self.line_.slopes, "intercept": self.line_.level, "centre": self.line_.centre}

    @classmethod
    def restore(cls, coef: Floats, intercept: Floats, centre: Floats) -> LinearMean:
        """The fitted line that `saved` describes."""
        made = cls()
        made.line_ = Line(coef, intercept, centre)
        return made

    def fit(self, X: Floats, y: Floats) -> Self:
        """Fit to targets of shape (n,) or (n, q). O(n d^2 + d^3)."""
        self.fit_all(np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64).reshape(len(X), -1))
        return self

    def fit_all(self, X: Floats, y: Floats) -> Floats:
        """Fit to targets of shape (n, q), and return the leverages of the rows, of shape (n,)."""
        self.line_, leverage = fit_line(X, y)
        return leverage

    def predict(self, X: Any) -> Floats:
        """Predict targets of shape (n, q)."""
        return self.line_(X)
