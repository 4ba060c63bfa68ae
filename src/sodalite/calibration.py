"""Error bars scaled by how wrong the model was near by.

Multiplying a kernel and its noise by the same number changes no mean, and multiplies every variance by that number. So
the number can be learnt last, and it can differ from place to place: where the model predicted rows, each from all
others, with squared errors larger than it said, its variances there are too small, and by how much. One number for the
whole data is the usual maximum-likelihood scale; one for each neighbourhood is what local Gaussian processes use
(Gramacy and Apley 2015). Where a kernel says that there is hardly any noise and a few errors say otherwise, no factor
mends that, so a little noise may be added first, the same everywhere. How much, and how local the factor should be, is
chosen by the density of the same errors, each judged by the others' scale.
"""

from __future__ import annotations

from collections.abc import Iterator
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
EXTRAS = (0.0, 1e-3, 3e-3, 1e-2, 3e-2, 0.1)  # of the mean squared error: noise that the kernel may have missed
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
    extra: float = 0.0
    """What is added to the variances of observations before they are multiplied."""

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
        if not len(X):
            return cls(1.0, variance, X, None)
        best, top = None, -np.inf
        own = None if found is None else found == np.arange(len(X))[:, None]
        for share in EXTRAS:
            extra = share * float(np.mean(np.square(error)))
            total = variance + extra
            squares = np.mean(np.square(error), axis=1) / total
            for mean, scale, k, strength in _scales(squares, found, own):
                density = float(log_densities(error, total * scale).mean())
                # One scale for all and no extra noise, unless that is worth something.
                if best is None or density > top + WORTH * (best.k == 0 and best.extra == 0):
                    at = near if k else None
                    best, top = cls(float(mean), squares, X, at, k, strength, density, extra), density
        assert best is not None
        return best

    def __call__(self, X: Array) -> Array:
        """The scale at every row of X."""
        if self.near is None:
            return np.full(len(X), self.mean)
        found = self.near.query(np.asarray(X, dtype=np.float64), self.k)
        total = self.squares[found].sum(axis=1) + self.strength * self.mean
        return np.asarray(total / (found.shape[1] + self.strength))


def _scales(squares: Array, found: Array | None, own: Array | None) -> Iterator[tuple[float, Any, int, float]]:
    """The mean of some squared errors, and the scale of each row by the others'; the way to it, from plain to local."""
    n, prior = len(squares), STRENGTHS[0]
    mean = (squares.sum() + prior) / (n + prior)
    yield mean, mean, 0, 0.0
    if found is None or own is None:
        return
    for k in SIZES:
        # Each row's own error is left out: it is the nearest, unless another has the same inputs.
        here, others = found[:, : k + 1], ~own[:, : k + 1]
        total, count = (squares[here] * others).sum(axis=1), others.sum(axis=1)
        for strength in STRENGTHS:
            yield mean, (total + strength * mean) / (count + strength), k, strength


def log_densities(error: Array, variance: Array) -> Array:
    """The mean log density of each row's errors, of shape (rows, q), that have these variances, of shape (rows,)."""
    return np.asarray(-0.5 * (np.mean(np.square(error), axis=1) / variance + np.log(2 * np.pi * variance)))
