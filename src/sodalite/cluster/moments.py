"""The mean and spread of targets that are on the workers, by two passes over them."""

from __future__ import annotations

import numpy as np

from ..core.types import Array
from ..core.validation import check_not_small
from ..kernels.default import steady
from .table import Part, Table


def mean_and_spread(table: Table) -> tuple[Array, Array]:
    """The mean and standard deviation of every target; of one that is constant, that number and 1.

    Deviations are from the mean, so nothing large is subtracted from anything large; what they add up to says how far
    off the mean itself was.
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


def _range(part: Part) -> tuple[Array, Array, Array]:
    return part.y.sum(axis=0), part.y.min(axis=0), part.y.max(axis=0)


class _Deviations:
    """The sums of the deviations from a number, and of their squares."""

    def __init__(self, middle: Array) -> None:
        self.middle = middle

    def __call__(self, part: Part) -> tuple[Array, Array]:
        deviation = part.y - self.middle
        return deviation.sum(axis=0), np.square(deviation).sum(axis=0)
