"""Subset of data, the paper's posterior: the exact Gaussian process given the active rows, the others dropped."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi

import numpy as np
from scipy.linalg import solve_triangular

from ..kernels import CompiledKernel, Features
from .base import Array, Evidence, covariance_block, in_blocks


@dataclass(frozen=True)
class SubsetOfData:
    """The latent posterior: mean k(x, I) L^-T z, covariance k(x, x') - v(x).v(x').

    O(m) per mean, O(m^2) per variance, in blocks of bounded memory.
    """

    kernel: CompiledKernel
    rows: Features
    """The active rows, prepared."""
    factor: Array
    """L, of shape (m, m)."""
    inverse: Array
    """L^-1: with it, the v's are a product, which threads share out."""
    z: Array
    """L^-1 y_I, of shape (m, q)."""
    weights: Array
    """(k(I, I) + noise)^-1 y_I = L^-T z, of shape (m, q)."""

    @classmethod
    def condition(cls, evidence: Evidence) -> SubsetOfData:
        """The posterior given the selected rows. O(m^3)."""
        L, indices = evidence.selection.factor, evidence.selection.indices
        z = solve_triangular(L, evidence.y[indices], lower=True)
        weights = solve_triangular(L, z, lower=True, trans="T")
        inverse = solve_triangular(L, np.eye(len(L)), lower=True)
        return cls(evidence.kernel, evidence.kernel.prepare(evidence.X[indices]), L, inverse, z, weights)

    def mean(self, X: Array) -> Array:
        """The mean at every row of X, of shape (n, q)."""
        return in_blocks(lambda part: (self._mean(self._covariances(part)[1]),), X, len(self.z))[0]

    def mean_and_variance(self, X: Array, noisy: bool = False) -> tuple[Array, Array]:
        """The mean, of shape (n, q), and the variance, of shape (n,): the latent one, or with the noise."""

        def block(part: Array) -> tuple[Array, Array]:
            rows, K = self._covariances(part)
            v = self.inverse @ K
            variance = np.maximum(self.kernel.diag(rows) - np.einsum("ij,ij->j", v, v), 0)
            return self._mean(K), variance + self.kernel.noise(rows) if noisy else variance

        mean, variance = in_blocks(block, X, 2 * len(self.z))
        return mean, variance

    def mean_and_covariance(self, X: Array, noisy: bool = False) -> tuple[Array, Array]:
        """The mean, of shape (n, q), and the covariance, of shape (n, n)."""
        rows, K = self._covariances(X)
        v = self.inverse @ K
        return self._mean(K), covariance_block(self.kernel, rows, noisy) - v.T @ v

    @property
    def log_marginal_likelihood(self) -> float:
        """Log p(y_I) = -z.z/2 - sum log L_ii - m/2 log 2 pi, summed over the targets."""
        m, q = self.z.shape
        determinant = 2 * np.log(np.diag(self.factor)).sum() + m * log(2 * pi)
        return float(-0.5 * np.vdot(self.z, self.z) - 0.5 * q * determinant)

    def _covariances(self, X: Array) -> tuple[Features, Array]:
        rows = self.kernel.prepare(X)
        return rows, self.kernel.block(self.rows, rows)

    def _mean(self, K: Array) -> Array:
        return np.asarray(K.T @ self.weights)
