"""Subset of data, the paper's posterior: the exact Gaussian process given the active rows, the others dropped."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from ..kernels import CompiledKernel, Features
from ..loop import Selection
from ..threads import threaded_map

Array = NDArray[Any]

BLOCK = 2**21  # entries of k(I, x) that are held at a time, per thread: 16 MB


@dataclass(frozen=True)
class SubsetOfData:
    """The latent posterior: mean k(x, I) L^-T z, covariance k(x, x') - v(x).v(x').

    O(m) per mean, O(m^2) per variance, in blocks of bounded memory. No noise is included: a new observation's variance
    is the latent variance plus ``kernel.noise``.
    """

    kernel: CompiledKernel
    rows: Features
    """The active rows, prepared."""
    factor: Array
    """L, of shape (m, m)."""
    z: Array
    """L^-1 y_I, of shape (m, q)."""
    weights: Array
    """(k(I, I) + noise)^-1 y_I = L^-T z, of shape (m, q)."""

    @classmethod
    def condition(cls, kernel: CompiledKernel, X: Array, y: Array, selection: Selection) -> SubsetOfData:
        """The posterior given the selected rows of X (n x d) and y (n x q). O(m^2 q)."""
        L = selection.factor
        z = solve_triangular(L, y[selection.indices], lower=True)
        weights = solve_triangular(L, z, lower=True, trans="T")
        return cls(kernel, kernel.prepare(X[selection.indices]), L, z, weights)

    def mean(self, X: Array) -> Array:
        """The mean at every row of X, of shape (n, q)."""
        return self._in_blocks(lambda rows: (self._mean(self.kernel.block(self.rows, rows)),), X)[0]

    def mean_and_variance(self, X: Array) -> tuple[Array, Array]:
        """The mean, of shape (n, q), and the latent variance, of shape (n,)."""

        def block(rows: Features) -> tuple[Array, Array]:
            K = self.kernel.block(self.rows, rows)
            mean = self._mean(K)
            v = solve_triangular(self.factor, K, lower=True, overwrite_b=True, check_finite=False)
            return mean, np.maximum(self.kernel.diag(rows) - np.einsum("ij,ij->j", v, v), 0)

        mean, variance = self._in_blocks(block, X)
        return mean, variance

    def mean_and_covariance(self, X: Array) -> tuple[Array, Array]:
        """The mean, of shape (n, q), and the latent covariance, of shape (n, n)."""
        rows = self.kernel.prepare(X)
        K = self.kernel.block(self.rows, rows)
        v = solve_triangular(self.factor, K, lower=True, check_finite=False)
        covariance = self.kernel.block(rows, rows)
        np.fill_diagonal(covariance, self.kernel.diag(rows))
        covariance -= v.T @ v
        return self._mean(K), covariance

    @property
    def log_marginal_likelihood(self) -> float:
        """Log p(y_I) = -z.z/2 - sum log L_ii - m/2 log 2 pi, summed over the targets."""
        m, q = self.z.shape
        determinant = 2 * np.log(np.diag(self.factor)).sum() + m * log(2 * pi)
        return float(-0.5 * np.vdot(self.z, self.z) - 0.5 * q * determinant)

    def _mean(self, K: Array) -> Array:
        return np.asarray(K.T @ self.weights)

    def _in_blocks(self, function: Any, X: Array) -> list[Array]:
        size = max(1, BLOCK // len(self.factor))
        blocks = [X[begin : begin + size] for begin in range(0, len(X), size)]
        parts = threaded_map(lambda block: function(self.kernel.prepare(block)), blocks)
        return [np.concatenate(part) for part in zip(*parts, strict=True)]
