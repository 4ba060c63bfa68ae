"""A periodic kernel of one input among several."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as spec


class PeriodicColumn(spec.ExpSineSquared):  # type: ignore[misc]
    """Scikit-learn's ``ExpSineSquared`` of one column of X: a cycle in time, say, whatever the other inputs are.

    Parameters
    ----------
    column : int, default=0
        The number of the column.
    length_scale, periodicity, length_scale_bounds, periodicity_bounds
        See ``ExpSineSquared``.

    Examples
    --------
    >>> kernel = PeriodicColumn(1, periodicity=24.0)
    >>> kernel(np.array([[0.0, 0.0], [7.0, 24.0], [0.0, 12.0]])).round(2)
    array([[1.  , 1.  , 0.14],
           [1.  , 1.  , 0.14],
           [0.14, 0.14, 1.  ]])
    """

    def __init__(
        self,
        column: int = 0,
        length_scale: float = 1.0,
        periodicity: float = 1.0,
        length_scale_bounds: Any = (1e-5, 1e5),
        periodicity_bounds: Any = (1e-5, 1e5),
    ) -> None:
        super().__init__(length_scale, periodicity, length_scale_bounds, periodicity_bounds)
        self.column = column

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """The covariance of the rows of X with those of Y, and its gradient, as of scikit-learn's kernels."""
        only = [self.column]
        other = None if Y is None else np.atleast_2d(Y)[:, only]
        return super().__call__(np.atleast_2d(X)[:, only], other, eval_gradient)

    def __repr__(self) -> str:
        numbers = f"length_scale={self.length_scale:.3g}, periodicity={self.periodicity:.3g}"
        return f"PeriodicColumn(column={self.column}, {numbers})"
