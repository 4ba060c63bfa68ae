"""Error bars scaled by how wrong the model was near by.

Multiplying a kernel and its noise by the same number changes no mean, and multiplies every variance by that number. So
the number can be learnt last, and it can differ from place to place: where the model predicted rows, each from all
others, with squared errors larger than it said, its variances there are too small, and by how much. One number for the
whole data is the usual maximum-likelihood scale; one for each neighbourhood is what local Gaussian processes use
(Gramacy and Apley 2015). How local it should be is chosen by the density of the same errors, each judged by the others'
scale.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kernels import CompiledKernel
from .neighbours import Neighbours

Array = NDArray[Any]

SIZES = (32, 64, 128)  # rows near by
STRENGTHS = (4.0, 8.0, 16.0, 64.0)  # how many rows the mean of all counts for
FEW = 100  # rows below which there is one scale for all
WORTH = 0.002  # of log density per row, that a scale for each place must gain over one for all


@dataclass(frozen=True)
class Scale:
    """What variances are multiplied by, at any place."""

    mean: float
    """The mean of the squared standardised errors."""
    squares: Array = field(repr=False)
    """The squared standardised errors; of shape (rows,)."""
    X: Array = field(repr=False)
    """Their rows; of shape (rows, d)."""
    near: Neighbours | None = field(repr=False)
    """An index of these; None where there is one scale for all."""
    k: int = 0
    strength: float = 0.0
    density: float = -np.inf
    """The mean log density of the errors, each under the others' scale."""

    @classmethod
    def fit(cls, kernel: CompiledKernel, X: Array, error: Array, variance: Array) -> Scale:
        """Learn the scale from errors, of shape (rows, q), and the variances that they should have had.

        O(rows^2 d), or rows log rows in few dimensions.
        """
        return cls.fit_each(kernel, X, error[None], variance[None])[0]

    @classmethod
    def fit_each(cls, kernel: CompiledKernel, X: Array, errors: Array, variances: Array) -> list[Scale]:
        """The same for several models' errors on the same rows; of shape (models, rows, q) and (models, rows)."""
        X = np.asarray(X, dtype=np.float64)
        near = found = None
        if len(X) >= FEW:
            near = Neighbours(kernel, X)
            found = near.query(X, max(SIZES) + 1)
        return [cls._fit(X, near, found, *each) for each in zip(errors, variances, strict=True)]

    @classmethod
    def _fit(cls, X: Array, near: Neighbours | None, found: Array | None, error: Array, variance: Array) -> Scale:
        squares, n = np.mean(np.square(error), axis=1) / variance, len(X)
        if not n:
            return cls(1.0, squares, X, None)
        mean = (squares.sum() + STRENGTHS[0]) / (n + STRENGTHS[0])
        density = log_density(error, variance * mean)
        best = cls(float(mean), squares, X, None, density=density)
        if found is None:
            return best
        # Each row's own error is left out: it is the nearest, unless another has the same inputs.
        own = found == np.arange(n)[:, None]
        top = density + WORTH
        for k in SIZES:
            here, mine = found[:, : k + 1], own[:, : k + 1]
            total = (squares[here] * ~mine).sum(axis=1)
            count = (~mine).sum(axis=1)
            for strength in STRENGTHS:
                density = log_density(error, variance * (total + strength * mean) / (count + strength))
                if density > top:
                    best, top = cls(float(mean), squares, X, near, k, strength, density), density
        return best

    def __call__(self, X: Array) -> Array:
        """The scale at every row of X."""
        if self.near is None:
            return np.full(len(X), self.mean)
        found = self.near.query(np.asarray(X, dtype=np.float64), self.k)
        total = self.squares[found].sum(axis=1) + self.strength * self.mean
        return np.asarray(total / (found.shape[1] + self.strength))


def log_density(error: Array, variance: Array) -> float:
    """The mean log density of errors, of shape (rows, q), that have these variances, of shape (rows,)."""
    return float(-0.5 * np.mean(np.square(error) / variance[:, None] + np.log(2 * np.pi * variance)[:, None]))
