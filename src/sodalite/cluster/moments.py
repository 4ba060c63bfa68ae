"""The means and standard deviations of targets on the workers, by two passes."""

from __future__ import annotations

import numpy as np

from ..core.types import Floats
from ..core.validation import check_not_small
from ..kernels.default import steady
from .table import ClusterTable, Part


def mean_and_spread(table: ClusterTable) -> tuple[Floats, Floats]:
    """Return the mean and standard deviation of every target, each of shape (q,); a constant target has spread 1.

    The first pass computes the mean, the second the deviations from it, so that no digits cancel. The sum of the
    deviations corrects the mean for rounding.
    """
    totals, least, most = (np.array(part) for part in zip(*table.map(_range), strict=True))
    middle = totals.sum(axis=0) / table.n
    sums, squares = table.total_of_parts(_Deviations(middle))
    mean = middle + sums / table.n
    deviation = np.sqrt(np.maximum(squares / table.n - np.square(sums / table.n), 0))
    least, most = least.min(axis=0), most.max(axis=0)
    largest = np.maximum(np.abs(least), np.abs(most))
    check_not_small("y", largest)
    return np.where(most > least, mean, least), steady(deviation, largest)


def _range(part: Part) -> tuple[Floats, Floats, Floats]:
    return part.y.sum(axis=0), part.y.min(axis=0), part.y.max(axis=0)


class _Deviations:
    """The sums of each target's deviations from a value, and of their squares."""

    def __init__(self, middle: Floats) -> None:
        self.middle = middle

    def __call__(self, part: Part) -> tuple[Floats, Floats]:
        deviation = part.y - self.middle
        return deviation.sum(axis=0), np.square(deviation).sum(axis=0)
