"""Projected processes: every row counts, through the latent values u = f(X_I) at the active rows.

The method is described in docs/method.rst, `posterior-projected`. With w(x) = L_u^-1 k(I, x), L_u the factor of
k(I, I), the processes replace the covariance k(x, x') of the data by Q(x, x') = w(x).w(x'). They differ in what they do
with the rest, k - Q: sor and dtc drop it, fitc counts it as noise of the row, vfe subtracts it in its bound on the
evidence. In predictions, all but sor add it again. Names and formulas are those of Quinonero-Candela and Rasmussen
(2005), sections 5 to 7, and Titsias (2009).

    B = I + W D^-1 W',  b = W D^-1 y        over all rows; D is the noise, for fitc plus diag(k - Q)
    mean = w.B^-1 b     variance = k - w.w + w.B^-1 w      (sor: w.B^-1 w)

The variance of sor, as it is defined, goes to zero far from the active rows. In a calibrated model
(`sodalite.posteriors.calibration`), k - Q is added again as the novelty of a row exceeds that of the rows of the fit,
and all of it where nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import log, pi
from typing import ClassVar, Self

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ..core.threads import one_blas_thread
from ..core.types import Array, Floats
from ..kernels import CompiledKernel, Features
from ..kernels.jitter import floored_factor
from ..selection.rows import Block, add
from .base import Evidence, Posterior, Prediction, RowsOfFit, covariance_block, in_blocks
from .calibration import Scale
from .far import novelty_of
from .gradient import evidence_gradient

MOST_LEVERAGE = 1 - 1e-9  # largest leverage of a row on its own prediction: at 1, nothing is known without the row


@dataclass(frozen=True)
class Sums:
    """W D^-1 W', W D^-1 y and the terms of the evidence, as sums over rows or parts of them. O(rows m^2)."""

    kernel: CompiledKernel
    rows: Features
    """The active rows, prepared."""
    inverse: Floats
    """L_u^-1, of shape (m, m)."""
    noise_floor: float
    own_noise: bool
    """Whether D includes k - Q: for fitc."""
    bound: bool
    """Whether the evidence includes the trace term of vfe."""

    def __call__(self, block: Block) -> tuple[Floats, ...]:
        """The sums over the rows of a block; of shape (m, m), (m, q) and (3,).

        The three terms are q log|D|, y' D^-1 y and, for vfe, q times the trace of D^-1 (k - Q).
        """
        kernel, y, alpha, q = self.kernel, block.y, block.alpha, block.y.shape[1]
        rows = kernel.prepare(block.X)
        W = self.inverse @ kernel.block(self.rows, rows)
        noise = np.maximum(kernel.noise(rows) + (0 if alpha is None else alpha), self.noise_floor)
        rest = np.maximum(kernel.diag(rows) - np.einsum("ij,ij->j", W, W), 0)
        D = noise + rest if self.own_noise else noise
        W /= np.sqrt(D)
        y = y / np.sqrt(D)[:, None]
        terms = [np.log(D).sum() * q, np.vdot(y, y), (rest / noise).sum() * q if self.bound else 0.0]
        return W @ W.T, W @ y, np.array(terms)


@dataclass(frozen=True)
class Projected(Posterior):
    """The base class of the projected processes.

    One pass over the rows, O(n m^2); then O(m) per mean and O(m^2) per variance.
    """

    kernel: CompiledKernel
    rows: Features
    """The active rows, prepared."""
    inverse: Floats
    """L_u^-1, of shape (m, m)."""
    root: Floats
    """The inverse of the factor of B, of shape (m, m)."""
    weights: Floats
    """L_u^-T B^-1 b, of shape (m, q)."""
    log_evidence: float
    """Log evidence of all targets under the approximate prior; for vfe, its bound on the exact one."""
    scale: Scale | None = field(default=None, repr=False)
    """The factor that variances are multiplied by."""

    own_noise: ClassVar[bool] = False  # whether k - Q counts as noise of the row
    bound: ClassVar[bool] = False  # whether k - Q is subtracted in the evidence, which makes that a lower bound
    restored: ClassVar[bool] = True  # whether k - Q is added again in predictions

    @classmethod
    def condition(cls, evidence: Evidence) -> Self:
        """The posterior given all rows."""
        kernel, selection = evidence.kernel, evidence.selection
        rows = kernel.prepare(evidence.rows.take(selection.indices).X)
        inverse = _inverse_factor(covariance_block(kernel, rows))
        m, n, q = len(inverse), evidence.rows.shape[0], evidence.rows.q

        sums = Sums(kernel, rows, inverse, selection.noise_floor, cls.own_noise, cls.bound)
        B, b, terms = evidence.rows.map(sums, add, evidence.block_rows(m))
        B.flat[:: m + 1] += 1
        with one_blas_thread():
            factor = cholesky(B, lower=True)
            root = _inverted(factor)
        c = root @ b
        value = -0.5 * (q * n * log(2 * pi) + terms.sum() - np.vdot(c, c)) - q * np.log(np.diag(factor)).sum()
        made = cls(kernel, rows, inverse, root, inverse.T @ (root.T @ c), float(value))
        return replace(made, scale=made.learnt_scale(evidence))

    def leverage(self, X: Array, noise: Floats) -> tuple[Floats, Floats, Floats]:
        """Return g = w.B^-1 w, k - w.w and 1 - h of rows of the fit with these noise variances; each of shape (n,).

        h = g / D is the leverage of a row: its weight in its own prediction. The processes are linear in w(x), so
        without the row the mean is (mean - h y) / (1 - h), and g becomes g / (1 - h).
        """
        _, rest, g = self._parts(*self._block(X))
        return g, rest, 1 - np.minimum(g / (noise + rest if self.own_noise else noise), MOST_LEVERAGE)

    def left_out(self, rows: RowsOfFit) -> Prediction:
        """Rows of the fit, each predicted from the others: its leverage on its own prediction is undone."""
        g, rest, left = self.leverage(rows.X, rows.noise)
        prior = self.kernel.diag(self.kernel.prepare(rows.X))
        remaining = np.minimum(g / left + rest, prior)
        # Near the data, predictions of sor do not include k - Q, so its error bars do not either.
        latent = remaining if self.restored else np.minimum(g / left, remaining)
        error = (rows.Y - self.mean(rows.X)) / left[:, None]
        return Prediction(rows.Y - error, latent, novelty_of(remaining, prior))

    @property
    def log_marginal_likelihood(self) -> float:
        """The log evidence."""
        return self.log_evidence

    def gradient(self, evidence: Evidence) -> Floats:
        """The gradient of `log_marginal_likelihood` by the kernel's log-parameters, of shape (p,). O(n m^2)."""
        return evidence_gradient(self, evidence)

    def mean(self, X: Array) -> Floats:
        """The mean at every row of X, of shape (n, q)."""
        return in_blocks(lambda part: (self._block(part)[1].T @ self.weights,), X, len(self.weights))[0]

    def predict(self, X: Floats, joint: bool = False) -> Prediction:
        """The latent function at the rows of X, with its covariance if `joint`."""
        if joint:
            return self._joint(X)

        def block(part: Array) -> tuple[Floats, Floats, Floats]:
            rows, K = self._block(part)
            _, rest, g = self._parts(rows, K)
            novelty = novelty_of(g + rest, self.kernel.diag(rows))
            return K.T @ self.weights, g + self._restored(novelty) * rest, novelty

        return Prediction(*in_blocks(block, X, 3 * len(self.weights)))

    def _parts(self, rows: Features, K: Floats) -> tuple[Floats, Floats, Floats]:
        """W, of shape (m, n), k - w.w and w.B^-1 w, of shape (n,), from K = k(I, x)."""
        W = self.inverse @ K
        U = self.root @ W
        rest = np.maximum(self.kernel.diag(rows) - np.einsum("ij,ij->j", W, W), 0)
        return W, rest, np.einsum("ij,ij->j", U, U)

    def _restored(self, novelty: Floats) -> Floats:
        """The share of k - Q that the variance of a prediction includes; of shape (n,)."""
        if self.restored:
            return np.ones(len(novelty))
        if self.scale is None or self.scale.far is None:
            return np.zeros(len(novelty))
        return self.scale.far.share(novelty)

    def _joint(self, X: Floats) -> Prediction:
        rows, K = self._block(X)
        W, rest, g = self._parts(rows, K)
        U = self.root @ W
        novelty = novelty_of(g + rest, self.kernel.diag(rows))
        root = np.sqrt(self._restored(novelty))
        covariance = U.T @ U
        if root.any():
            covariance += (covariance_block(self.kernel, rows) - W.T @ W) * np.multiply.outer(root, root)
        return Prediction(K.T @ self.weights, covariance, novelty)

    def _block(self, X: Array) -> tuple[Features, Floats]:
        """The rows of X, prepared, and k(I, x), of shape (m, n)."""
        rows = self.kernel.prepare(X)
        return rows, self.kernel.block(self.rows, rows)


@dataclass(frozen=True)
class SubsetOfRegressors(Projected):
    """Q takes the place of k everywhere: not calibrated, the variance goes to zero far from the active rows."""

    name: ClassVar[str] = "sor"

    restored: ClassVar[bool] = False


@dataclass(frozen=True)
class DeterministicTraining(Projected):
    """Q for the data, the exact prior for predictions: the mean of sor, with a variance that does not vanish."""

    name: ClassVar[str] = "dtc"


@dataclass(frozen=True)
class FullyIndependentTraining(Projected):
    """k - Q counts as noise of each row, so rows that the active rows explain badly weigh less."""

    name: ClassVar[str] = "fitc"

    own_noise: ClassVar[bool] = True


@dataclass(frozen=True)
class Variational(Projected):
    """The prediction of dtc, with a lower bound on the exact log evidence in place of the evidence of dtc."""

    name: ClassVar[str] = "vfe"

    bound: ClassVar[bool] = True


def _inverse_factor(K: Floats) -> Floats:
    """The inverse of the factor L_u of K = k(I, I), with as much jitter as that takes; of shape (m, m)."""
    prior = float(K.diagonal().max()) or 1.0  # a kernel may be noise alone
    with one_blas_thread():
        return _inverted(floored_factor(K, np.zeros(len(K)), prior)[0])


def _inverted(L: Floats) -> Floats:
    """The inverse of a lower factor, in the memory order that arrays from files have: a loaded model rounds as this."""
    return np.ascontiguousarray(solve_triangular(L, np.eye(len(L)), lower=True))
