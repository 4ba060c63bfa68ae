"""The Gaussian process at every stage of a selection, from one factor.

The first t rows of L^-1 belong to the first t active rows, whatever comes after them. So the mean v.z, the variance
k(x, x) - v.v and the log likelihood of stage t are sums over the first t entries of what the last stage needs: one
matrix product, then running sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi

import numpy as np
from scipy.linalg import solve_triangular

from ..core.jitter import floored_factor
from ..core.threads import one_blas_thread
from ..core.types import Array, Floats, Indices
from ..kernels import CompiledKernel, Features
from ..posteriors.base import covariance_block, in_blocks
from ..posteriors.leave_one_out import leave_one_out
from .rows import LabelledRows

FEW = 10  # first stages, all of which are shown; after them, fewer and fewer
MOST_STAGES = 40  # stages that are shown: more make the page larger, and the curves no smoother to the eye


@dataclass(frozen=True)
class Stages:
    """The Gaussian process given the first t of some ordered rows, for any t."""

    kernel: CompiledKernel
    rows: Features
    """The m rows, prepared by the kernel."""
    inverse: Floats
    """L^-1, of shape (m, m)."""
    z: Floats
    """L^-1 y of one target; of shape (m,)."""
    floor: float
    """The least noise variance of a row."""

    @classmethod
    def of(cls, kernel: CompiledKernel, rows: LabelledRows) -> Stages:
        """The stages of taking some rows in their order. O(m^3)."""
        features = kernel.prepare(rows.X)
        K, noise = covariance_block(kernel, features), kernel.noise(features) + rows.alpha
        L, floor = floored_factor(K, noise, float(K.diagonal().max()) or 1.0)
        with one_blas_thread():
            inverse = solve_triangular(L, np.eye(len(L)), lower=True)
        return cls(kernel, features, inverse, inverse @ rows.y, floor)

    def __len__(self) -> int:
        return len(self.z)

    def noise(self, rows: LabelledRows) -> Floats:
        """The noise variances of some rows, no less than the floor; of shape (n,)."""
        noise = self.kernel.noise(self.kernel.prepare(rows.X)) + rows.alpha
        return np.asarray(np.maximum(noise, self.floor))

    def predict(self, X: Array, stages: Indices) -> tuple[Floats, Floats]:
        """The latent mean and variance at some stages t, in rising order; both of shape (stages, rows of X)."""

        def block(part: Floats) -> tuple[Floats, Floats]:
            features = self.kernel.prepare(part)
            v = self.inverse @ self.kernel.block(self.rows, features)
            s2 = self.kernel.diag(features) - _sums(v * v, stages)
            return _sums(v * self.z[:, None], stages).T, np.maximum(s2, 0).T

        mean, s2 = in_blocks(block, np.asarray(X, dtype=np.float64), 3 * len(self))
        return mean.T, s2.T

    def errors(self, rows: LabelledRows, stages: Indices) -> tuple[Floats, Floats]:
        """The residuals of rows and the variances of these; both of shape (stages, rows).

        A row that is among the first t, as `rows.place` says, has its leave-one-out residual.
        """
        mean, s2 = self.predict(rows.X, stages)
        error, variance = rows.y - mean, s2 + self.noise(rows)
        for error_at, variance_at, t in zip(error, variance, stages, strict=True):
            own = np.flatnonzero((rows.place >= 0) & (rows.place < t))
            left, variance_at[own] = leave_one_out(self.inverse[:t, rows.place[own]], self.z[:t, None])
            error_at[own] = left[:, 0]
        return error, variance

    def log_likelihood(self, stages: Indices) -> Floats:
        """The log density of the first t targets, at some stages t; of shape (stages,)."""
        terms = -0.5 * self.z**2 + np.log(self.inverse.diagonal()) - 0.5 * log(2 * pi)
        return np.asarray(np.cumsum(terms)[stages - 1])


def some_stages(m: int, most: int = MOST_STAGES) -> Indices:
    """At most so many of the stages 1 to m: the first few, the last, and between them fewer and fewer.

    Examples
    --------
    >>> some_stages(1000, 16).tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 22, 46, 100, 215, 464, 1000]
    """
    if m <= most:
        return np.arange(1, m + 1)
    later = np.round(np.geomspace(FEW, m, most - FEW + 1)).astype(int)
    return np.unique(np.concatenate([np.arange(1, FEW + 1), later]))


def _sums(terms: Floats, stages: Indices) -> Floats:
    """The sums of the first t terms along the first axis, for each of the stages t, in rising order."""
    if not len(stages):
        return terms[:0]
    parts = np.add.reduceat(terms, np.concatenate([[0], stages[:-1]]), axis=0)
    if stages[-1] < len(terms):  # the last part goes on to the end
        parts[-1] = terms[stages[-2] if len(stages) > 1 else 0 : stages[-1]].sum(axis=0)
    return np.asarray(np.cumsum(parts, axis=0))
