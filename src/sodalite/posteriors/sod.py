"""Subset of data, the paper's posterior: the exact Gaussian process given the active rows, the others dropped.

The method is described in docs/method.rst, `posterior-sod`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from math import log, pi
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dtrmm

from ..core.types import Array, Floats, Indices
from ..kernels import CompiledKernel, Features
from .base import Evidence, Posterior, Prediction, RowsOfFit, covariance_block, in_blocks
from .calibration import MOST_RHO, Scale
from .leave_one_out import leave_one_out


@dataclass(frozen=True)
class SubsetOfData(Posterior):
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
    def condition(cls, evidence: Evidence) -> Self:
        """The posterior given the active rows. O(m^3)."""
        L, indices = evidence.selection.factor, evidence.selection.indices
        active = evidence.rows.take(indices)
        z = solve_triangular(L, active.y, lower=True)
        weights = solve_triangular(L, z, lower=True, trans="T")
        made = cls(evidence.kernel, evidence.kernel.prepare(active.X), L, inverse_of(L), z, weights)
        return replace(made, scale=made.learnt_scale(evidence))

    def saved(self) -> dict[str, Any]:
        """What a file holds of it: all but L^-1, which follows from L and is as large."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "inverse"}

    @classmethod
    def restore(
        cls, kernel: CompiledKernel, rows: Features, factor: Floats, z: Floats, weights: Floats, scale: Scale | None
    ) -> Self:
        """The posterior from what `saved` gave. O(m^3)."""
        return cls(kernel, rows, factor, inverse_of(factor), z, weights, scale)

    def left_out(self, rows: RowsOfFit) -> Prediction:
        """Rows of the fit, each predicted from the others; a row of the remainder, as it is."""
        mean, latent = self.latent(rows.X)
        own = np.flatnonzero(rows.active >= 0)
        error, variance = leave_one_out(self.inverse[:, rows.active[own]], self.z)
        mean[own] = rows.Y[own] - error
        latent[own] = np.maximum(variance - rows.noise[own], 0)
        return Prediction(mean, latent)

    def correlations(
        self, rows: RowsOfFit, variance: Floats, others: RowsOfFit, variances: Floats, partners: Indices
    ) -> Floats:
        """Correlations P_ij / sqrt(P_ii P_jj) of leave-one-out errors of active rows, of shape (rows, partners).

        P is (k(I, I) + noise)^-1. They are 0 for rows of the remainder, of whose targets no prediction knows.
        """
        P, active = self.inverse.T @ self.inverse, rows.active
        partner = np.where(partners >= 0, others.active[partners], -1)
        unit = np.sqrt(P.diagonal())
        rho = P[active[:, None], partner] / (unit[active][:, None] * unit[partner])
        return np.where((active >= 0)[:, None] & (partner >= 0), np.clip(rho, -MOST_RHO, MOST_RHO), 0.0)

    def mean(self, X: Array) -> Floats:
        """The mean at every row of X, of shape (n, q)."""
        return in_blocks(lambda part: (self.mean_of(self.covariances(part)[1]),), X, len(self.z))[0]

    def predict(self, X: Floats, joint: bool = False) -> Prediction:
        """The latent function at the rows of X, with its covariance if `joint`."""
        if not joint:
            return Prediction(*self.latent(X))
        rows, K = self.covariances(X)
        v = self.projected(K)
        return Prediction(self.mean_of(K), covariance_block(self.kernel, rows) - v.T @ v)

    @property
    def log_marginal_likelihood(self) -> float:
        """Log p(y_I) = -z.z/2 - sum log L_ii - m/2 log 2 pi, summed over the targets."""
        m, q = self.z.shape
        determinant = 2 * np.log(np.diag(self.factor)).sum() + m * log(2 * pi)
        return float(-0.5 * np.vdot(self.z, self.z) - 0.5 * q * determinant)

    # Parts that other posteriors build on

    def latent(self, X: Array) -> tuple[Floats, Floats]:
        """The mean, of shape (n, q), and the variance of the latent function, of shape (n,), not calibrated."""

        def block(part: Array) -> tuple[Floats, Floats]:
            rows, K = self.covariances(part)
            v = self.projected(K)
            return self.mean_of(K), np.maximum(self.kernel.diag(rows) - np.einsum("ij,ij->j", v, v), 0)

        mean, variance = in_blocks(block, X, 2 * len(self.z))
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


def inverse_of(L: Floats) -> Floats:
    """L^-1 of a lower triangle, the same to the last bit however L lies in memory."""
    return np.asarray(solve_triangular(np.ascontiguousarray(L), np.eye(len(L)), lower=True))
