"""Subset of data, the paper's posterior: the exact Gaussian process given the active rows, the others dropped."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import log, pi
from typing import ClassVar

import numpy as np
from scipy.linalg import solve_triangular

from ..core.types import Array
from ..kernels import CompiledKernel, Features
from .base import N_SOME, Evidence, PosteriorTraits, covariance_block, in_blocks, scaled, scaled_covariance
from .calibration import Scale, novelty_of


@dataclass(frozen=True)
class SubsetOfData(PosteriorTraits):
    """The latent posterior: mean k(x, I) L^-T z, covariance k(x, x') - v(x).v(x').

    O(m) per mean, O(m^2) per variance, in blocks of bounded memory.
    """

    name: ClassVar[str] = "sod"

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
    scale: Scale | None = field(default=None, repr=False)
    """What the variances are multiplied by."""

    @classmethod
    def condition(cls, evidence: Evidence) -> SubsetOfData:
        """The posterior given the selected rows. O(m^3)."""
        L, indices = evidence.selection.factor, evidence.selection.indices
        z = solve_triangular(L, evidence.y[indices], lower=True)
        weights = solve_triangular(L, z, lower=True, trans="T")
        inverse = solve_triangular(L, np.eye(len(L)), lower=True)
        made = cls(evidence.kernel, evidence.kernel.prepare(evidence.X[indices]), L, inverse, z, weights)
        if evidence.floor is None:
            return made
        # The remainder is predicted as it is; of an active row i, the others leave 1 / P_ii, P = (k(I, I) + noise)^-1.
        places = evidence.judged(N_SOME)
        X, position = np.asarray(evidence.X[places], dtype=np.float64), np.full(len(evidence.X), -1)
        position[indices] = np.arange(len(indices))
        here, (mean, latent) = position[places], made.latent(X)[:2]
        error, active = evidence.y[places] - mean, here >= 0
        alone = 1 / np.einsum("ij,ij->j", inverse, inverse)[here[active]]
        latent[active] = np.maximum(alone - evidence.noise(places[active]), 0)
        error[active] = weights[here[active]] * alone[:, None]
        return replace(made, scale=Scale.none(evidence.kernel, X, latent, error, evidence.floor))

    def mean(self, X: Array) -> Array:
        """The mean at every row of X, of shape (n, q)."""
        return in_blocks(lambda part: (self._mean(self._covariances(part)[1]),), X, len(self.z))[0]

    def mean_and_variance(self, X: Array, noisy: bool = False) -> tuple[Array, Array]:
        """The mean, of shape (n, q), and the variance, of shape (n,): the latent one, or with the noise."""
        return self.mean_variance_novelty(X, noisy)[:2]

    def mean_variance_novelty(self, X: Array, noisy: bool = False) -> tuple[Array, Array, Array]:
        """The mean and the variance, and the share of the latent prior variance that is left, of shape (n,)."""

        def block(part: Array) -> tuple[Array, Array, Array]:
            mean, latent, prior = self._latent(part)
            novelty = novelty_of(latent, prior)
            return mean, scaled(self.scale, self.kernel, part, latent, novelty, noisy), novelty

        mean, variance, novelty = in_blocks(block, X, 2 * len(self.z))
        return mean, variance, novelty

    def latent(self, X: Array) -> tuple[Array, Array]:
        """The mean, of shape (n, q), and the variance of the latent function, of shape (n,), as the process has it."""
        mean, variance = in_blocks(lambda part: self._latent(part)[:2], X, 2 * len(self.z))
        return mean, variance

    def _latent(self, X: Array) -> tuple[Array, Array, Array]:
        """Mean and variance, and the prior variance, of some rows."""
        rows, K = self._covariances(X)
        v, prior = self.inverse @ K, self.kernel.diag(rows)
        return self._mean(K), np.maximum(prior - np.einsum("ij,ij->j", v, v), 0), prior

    def mean_and_covariance(self, X: Array, noisy: bool = False) -> tuple[Array, Array]:
        """The mean, of shape (n, q), and the covariance, of shape (n, n)."""
        rows, K = self._covariances(X)
        v = self.inverse @ K
        covariance = covariance_block(self.kernel, rows) - v.T @ v
        novelty = novelty_of(covariance.diagonal(), self.kernel.diag(rows))
        return self._mean(K), scaled_covariance(self.scale, self.kernel, X, covariance, novelty, noisy)

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
