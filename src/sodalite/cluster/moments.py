"""The mean and spread of targets that are on the workers: one pass, partial results put together pairwise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..kernels.default import steady
from .table import Array, Part, Table


@dataclass(frozen=True)
class Moments:
    """What is known of some rows' targets; each array of shape (q,)."""

    count: int
    mean: Array
    squares: Array
    """The sum of squared deviations from the mean."""
    least: Array
    most: Array

    def __add__(self, other: Moments) -> Moments:
        """Those of both together (Chan, Golub and LeVeque 1979): nothing large is subtracted from anything large."""
        count = self.count + other.count
        step = other.mean - self.mean
        return Moments(
            count,
            self.mean + step * (other.count / count),
            self.squares + other.squares + step * step * (self.count * other.count / count),
            np.minimum(self.least, other.least),
            np.maximum(self.most, other.most),
        )


def moments(part: Part) -> Moments:
    """Those of one part's targets."""
    mean = part.y.mean(axis=0)
    squares = np.square(part.y - mean).sum(axis=0)
    return Moments(len(part.y), mean, squares, part.y.min(axis=0), part.y.max(axis=0))


def mean_and_spread(table: Table) -> tuple[Array, Array]:
    """The mean and standard deviation of every target; of one that is constant, that number and 1."""
    parts = table.map(moments)
    while len(parts) > 1:
        pairs = [parts[at] + parts[at + 1] for at in range(0, len(parts) - 1, 2)]
        parts = pairs + parts[2 * len(pairs) :]
    total = parts[0]
    mean = np.where(total.most > total.least, total.mean, total.least)
    largest = np.maximum(np.abs(total.least), np.abs(total.most))
    return mean, steady(np.sqrt(total.squares / total.count), largest)
