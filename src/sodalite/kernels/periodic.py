"""Periodic kernels: of one input, alone or among several."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as spec

from ..core.types import Array, Floats
from ..core.validation import is_whole
from .nodes import Features, Node, Value, declares, is_free
from .stationary import Stationary


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


@dataclass(frozen=True)
class Cycle:
    """A period in one of d inputs."""

    period: Floats
    """The step from a row to the same phase of the next cycle, of shape (d,): zero but in one input."""
    weights: Floats
    """Weights of the squared differences in each input, of shape (d,), for the distance of rows within one cycle."""


@declares(spec.ExpSineSquared, PeriodicColumn, parameters=("length_scale", "periodicity"))
@dataclass(frozen=True)
class Periodic(Stationary):
    """exp(-2 sin^2(u) / w^2), u = pi distance / period: rows are scaled by period / pi, so u = sqrt(-2 e)."""

    period: float
    width: float
    """The length-scale within a cycle, w."""
    column: int
    """The input that the kernel is a function of."""
    own_first = True
    words = "periodic"

    @classmethod
    def of(cls, kernel: spec.Kernel, centre: Floats, dtype: np.dtype[Any]) -> Node:
        column = _column(kernel, centre.size)
        period, width = float(kernel.periodicity), float(kernel.length_scale)
        free = (is_free(kernel, "periodicity"), is_free(kernel, "length_scale"))
        return cls(np.array([period / pi]), free, centre[[column]], dtype, period, width, column)

    def value(self, e: Floats) -> Floats:
        e *= -2
        np.sqrt(e, out=e)
        np.sin(e, out=e)
        e *= e
        e *= -2 / self.width**2
        return np.exp(e, out=e)

    def derivatives(self, e: Floats) -> tuple[Floats, Floats, tuple[Floats, ...]]:
        u = np.sqrt(-2 * e)
        np.maximum(u, 1e-30, out=u)  # where u is 0, sin(u) / u is 1
        sine = np.sin(u)
        square = sine * sine
        square *= 2 / self.width**2
        k = np.exp(-square)
        slope = np.cos(u)
        slope *= sine
        slope /= u
        slope *= 4 / self.width**2
        slope *= k
        square *= 2
        square *= k
        return k, slope, (square,)

    def prepare(self, X: Array) -> Features:
        return super().prepare(X[:, [self.column]])

    def curvature(self) -> tuple[float, Value] | None:
        return 1.0, 0.0  # the metric of near rows is that of the kernel's other components

    def cycle(self, d: int) -> Cycle:
        """The period in one of d inputs."""
        unit = np.zeros(d)
        unit[self.column] = 1.0
        return Cycle(unit * self.period, unit * (2 * pi / (self.period * self.width)) ** 2)


def _column(kernel: spec.Kernel, d: int) -> int:
    """The checked column of a periodic kernel for d inputs."""
    if type(kernel) is not PeriodicColumn:
        if d > 1:
            raise ValueError(
                f"kernel has {kernel}, which is a covariance of one input alone, but X has {d} columns: in the "
                f"distance of several inputs, a period gives matrices that are not positive definite. Give each "
                f"periodic input a kernel of its own, sodalite.kernels.PeriodicColumn(column, ...), and multiply them."
            )
        return 0
    column = kernel.column
    if not is_whole(column) or not 0 <= column < d:
        raise ValueError(f"kernel {kernel} needs a column from 0 to {d - 1}, the last of X; got {column!r}.")
    return int(column)
