"""Regressors that know columns by their names."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Self

from sklearn.base import BaseEstimator, RegressorMixin, clone


class WithColumns(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor that is given data frames of pandas, though the rows come as arrays.

    Such a regressor may be a pipeline that treats columns differently, by their names.

    Parameters
    ----------
    regressor : scikit-learn regressor
    columns : sequence of str
        The names of the columns.
    """

    def __init__(self, regressor: Any, columns: Sequence[str]) -> None:
        self.regressor = regressor
        self.columns = columns

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows of shape (n, d), and targets of shape (n,) or (n, q)."""
        self.regressor_ = clone(self.regressor).fit(self._frame(X), y)
        return self

    def predict(self, X: Any) -> Any:
        """Predict targets of the same shape."""
        return self.regressor_.predict(self._frame(X))

    def _frame(self, X: Any) -> Any:
        return import_module("pandas").DataFrame(X, columns=list(self.columns))
