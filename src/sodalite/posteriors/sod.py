"""Subset of data, the paper's posterior: the exact Gaussian process given the active rows, the others dropped.

The method is described in docs/method.rst, `posterior-sod`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import log, pi
from typing import ClassVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dtrmm

from ..core.types import Array, Floats, Indices
from ..kernels import CompiledKernel, Features
from .base import N_SOME, Calibrated, Evidence, covariance_block, in_blocks, scaled_covariance
from .calibration import MOST_RHO, Scale
from .novelty import novelty_of


@dataclass(frozen=True)
class SubsetOfData(Calibrated):
    """The latent posterior: mean k(x, I) L^-T z, covariance k(x, x') - v(x).v(x').

    O(m) per mean, O(m^2) per variance, in blocks of bounded memory.
    """

    name: ClassVar[str] = "sod"

    kernel: CompiledKernel
    rows: Features
    """The active rows, prepared."""
    factor: Floats
    """L, of shape (m, m)."""
    inverse: Floats
    """L^-1, of shape (m, m): with it, the v's are a product, which threads share out."""
    z: Floats
    """L^-1 y_I, of shape (m, q)."""
    weights: Floats
    """(k(I, I) + noise)^-1 y_I = L^-T z, of shape (m, q)."""
    scale: Scale | None = field(default=None, repr=False)
    """The factor that variances are multiplied by."""

    @classmethod
    def condition(cls, evidence: Evidence) -> SubsetOfData:
        """The posterior given the active rows. O(m^3)."""
        L, indices = evidence.selection.factor, evidence.selection.indices
        z = solve_triangular(L, evidence.y[indices], lower=True)
        weights = solve_triangular(L, z, lower=True, trans="T")
        inverse = solve_triangular(L, np.eye(len(L)), lower=True)
        made = cls(evidence.kernel, evidence.kernel.prepare(evidence.X[indices]), L, inverse, z, weights)
        return made if evidence.floor is None else replace(made, scale=made._scale(evidence, evidence.floor))

    def _scale(self, evidence: Evidence, floor: float) -> Scale:
        """The scale that leaves variances as they are near the data, with a summary of leave-one-out errors.

        A row of the remainder is predicted as it is. Of an active row i, the other active rows leave a variance of
        1 / P_ii and an error of (P y_I)_i / P_ii, with P = (k(I, I) + noise)^-1.
        """
        which, indices = evidence.judged(N_SOME), evidence.selection.indices
        X = np.asarray(evidence.X[which], dtype=np.float64)
        position = np.full(len(evidence.X), -1)
        position[indices] = np.arange(len(indices))
        active = position[which] >= 0
        i = position[which][active]
        mean, latent = self.latent(X)
        error = evidence.y[which] - mean
        left = 1 / np.einsum("ij,ij->j", self.inverse, self.inverse)[i]
        latent[active] = np.maximum(left - evidence.noise(which[active]), 0)
        error[active] = self.weights[i] * left[:, None]
        places = Scale.places_of(self.kernel, X)
        if places is not None:
            at = position[which]
            places = replace(places, rho=self.correlations(at, np.where(places.partners >= 0, at[places.partners], -1)))
        found = Scale.none(self.kernel, X, latent, error, floor, places=places)
        return found.of_model(self.kernel, evidence.calibrate)

    def correlations(self, active: Indices, partners: Indices) -> Floats:
        """Correlations P_ij / sqrt(P_ii P_jj) of leave-one-out errors, of shape (rows, partners).

        Parameters
        ----------
        active, partners : arrays of shape (rows,) and (rows, partners)
            Positions among the active rows; -1 for rows of the remainder, of whose targets no prediction knows.
        """
        P = self.inverse.T @ self.inverse
        unit = np.sqrt(P.diagonal())
        rho = P[active[:, None], partners] / (unit[active][:, None] * unit[partners])
        return np.where((active >= 0)[:, None] & (partners >= 0), np.clip(rho, -MOST_RHO, MOST_RHO), 0.0)

    def mean(self, X: Array) -> Floats:
        """The mean at every row of X, of shape (n, q)."""
        return in_blocks(lambda part: (self.mean_of(self.covariances(part)[1]),), X, len(self.z))[0]

    def uncalibrated(self, X: Floats) -> tuple[Floats, Floats, Floats]:
        """The mean, of shape (n, q), the variance of the latent function and the novelty, of shape (n,)."""

        def block(part: Array) -> tuple[Floats, Floats, Floats]:
            mean, latent, prior = self._latent(part)
            return mean, latent, novelty_of(latent, prior)

        mean, latent, novelty = in_blocks(block, X, 2 * len(self.z))
        return mean, latent, novelty

    def mean_and_covariance(self, X: Array, noisy: bool = False) -> tuple[Floats, Floats]:
        """The mean, of shape (n, q), and the covariance, of shape (n, n)."""
        rows, K = self.covariances(X)
        v = self.projected(K)
        covariance = covariance_block(self.kernel, rows) - v.T @ v
        novelty = novelty_of(covariance.diagonal(), self.kernel.diag(rows))
        return self.mean_of(K), scaled_covariance(self.scale, self.kernel, X, covariance, novelty, noisy)

    @property
    def log_marginal_likelihood(self) -> float:
        """Log p(y_I) = -z.z/2 - sum log L_ii - m/2 log 2 pi, summed over the targets."""
        m, q = self.z.shape
        determinant = 2 * np.log(np.diag(self.factor)).sum() + m * log(2 * pi)
        return float(-0.5 * np.vdot(self.z, self.z) - 0.5 * q * determinant)

    # Parts that other posteriors build on

    def on_active_rows(self) -> SubsetOfData:
        """The posterior itself."""
        return self

    def latent(self, X: Array) -> tuple[Floats, Floats]:
        """The mean, of shape (n, q), and the variance of the latent function, of shape (n,), not calibrated."""
        mean, variance = in_blocks(lambda part: self._latent(part)[:2], X, 2 * len(self.z))
        return mean, variance

    def covariances(self, X: Array) -> tuple[Features, Floats]:
        """The rows of X, prepared, and their covariances with the active rows, k(I, x); of shape (m, n)."""
        rows = self.kernel.prepare(X)
        return rows, self.kernel.block(self.rows, rows)

    def mean_of(self, K: Floats) -> Floats:
        """The mean mu(x) from k(I, x), of shape (m, n); of shape (n, q)."""
        return np.asarray(K.T @ self.weights)

    def coordinates(self, rows: Features) -> Floats:
        """The v's of prepared rows, of shape (m, n)."""
        return self.projected(self.kernel.block(self.rows, rows))

    def projected(self, K: Floats) -> Floats:
        """The v's L^-1 k(I, x) from k(I, x), of shape (m, n), by a product with a triangle: half of all operations."""
        if not K.size:
            return np.empty(K.shape)
        return np.asarray(dtrmm(1.0, self.inverse, K.T, side=1, lower=1, trans_a=1)).T

    def _latent(self, X: Array) -> tuple[Floats, Floats, Floats]:
        """Mean, latent variance and latent prior variance of some rows; of shape (n, q), (n,) and (n,)."""
        rows, K = self.covariances(X)
        v, prior = self.projected(K), self.kernel.diag(rows)
        return self.mean_of(K), np.maximum(prior - np.einsum("ij,ij->j", v, v), 0), prior
