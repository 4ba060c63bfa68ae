"""Projected processes: every row counts, through the latent values u = f(X_I) at the active rows.

With w(x) = L_u^-1 k(I, x), L_u the factor of k(I, I), they take cov(f(x), f(x')) for Q(x, x') = w(x).w(x') and differ
in what they make of the rest, k - Q: sor and dtc forget it in the data, fitc counts it as noise of each row's own, vfe
pays for it in its bound. In the prediction, all but sor put it back. The names and formulas are those of
Quinonero-Candela and Rasmussen (2005), section 5 to 7, and Titsias (2009).

    B = I + W D^-1 W',  b = W D^-1 y        over all rows; D is the noise, for fitc plus diag(k - Q)
    mean = w.B^-1 b     variance = k - w.w + w.B^-1 w      (sor: w.B^-1 w)

sor's variance, as it is defined, goes to zero far from the active rows. In a model whose error bars are calibrated,
k - Q comes back as the novelty of a row exceeds that of the rows of the fit, and is whole where nothing
is known (`sodalite.posteriors.calibration`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import log, pi
from typing import Any, ClassVar, Self

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ..core.jitter import with_jitter
from ..core.threads import one_blas_thread, threaded_map
from ..core.types import Array
from ..kernels import CompiledKernel, Features
from .base import N_SOME, Evidence, PosteriorTraits, covariance_block, in_blocks, scaled, scaled_covariance
from .calibration import Scale, novelty_of, outside


@dataclass(frozen=True)
class Sums:
    """W D^-1 W', W D^-1 y, and what the evidence needs: sums over rows, so over parts of them. O(rows m^2)."""

    kernel: CompiledKernel
    rows: Features
    inverse: Array
    noise_floor: float
    own_noise: bool
    bound: bool
    block_rows: int
    """How many rows are taken at a time."""

    def __call__(self, X: Array, y: Array, alpha: Array | None) -> tuple[Array, Array, Array]:
        """The sums over some rows, in blocks of bounded memory."""
        n, size = len(X), self.block_rows
        blocks = [slice(begin, min(begin + size, n)) for begin in range(0, n, size)]
        return _sum(lambda here: self._part(X[here], y[here], None if alpha is None else alpha[here]), blocks)

    def _part(self, X: Array, y: Array, alpha: Array | None) -> tuple[Array, Array, Array]:
        kernel, q = self.kernel, y.shape[1]
        here = kernel.prepare(X)
        W = self.inverse @ kernel.block(self.rows, here)
        noise = np.maximum(kernel.noise(here) + (0 if alpha is None else alpha), self.noise_floor)
        rest = np.maximum(kernel.diag(here) - np.einsum("ij,ij->j", W, W), 0)
        D = noise + rest if self.own_noise else noise
        W /= np.sqrt(D)
        y = y / np.sqrt(D)[:, None]
        terms = [np.log(D).sum() * q, np.vdot(y, y), (rest / noise).sum() * q if self.bound else 0.0]
        return W @ W.T, W @ y, np.array(terms)


@dataclass(frozen=True)
class Projected(PosteriorTraits):
    """What the projected processes share. One pass over the rows, O(n m^2); then O(m) per mean, O(m^2) per variance."""

    kernel: CompiledKernel
    rows: Features
    """The active rows, prepared."""
    inverse: Array
    """L_u^-1."""
    root: Array
    """(B's factor)^-1."""
    weights: Array
    """L_u^-T B^-1 b, of shape (m, q)."""
    log_marginal_likelihood: float
    """Log evidence of all targets under the approximate prior; for vfe, its bound on the exact one."""
    scale: Scale | None = field(default=None, repr=False)
    """What the variances are multiplied by."""

    own_noise: ClassVar[bool] = False  # whether k - Q is noise of each row's own
    bound: ClassVar[bool] = False  # whether k - Q is paid for in the evidence
    restored: ClassVar[bool] = True  # whether k - Q is put back in the prediction

    @classmethod
    def condition(cls, evidence: Evidence) -> Self:
        """The posterior given all rows."""
        kernel = evidence.kernel
        rows = kernel.prepare(evidence.X[evidence.selection.indices])
        K = covariance_block(kernel, rows)
        m, (n, q) = len(K), evidence.y.shape
        with one_blas_thread():
            prior = float(K.diagonal().max()) or 1.0  # a kernel may be noise and nothing else
            L = with_jitter(lambda floor: cholesky(K + floor * np.eye(m), lower=True), prior)
            inverse = solve_triangular(L, np.eye(m), lower=True)

        size = evidence.block_rows(m)
        sums = Sums(kernel, rows, inverse, evidence.selection.noise_floor, cls.own_noise, cls.bound, size)
        B, b, terms = evidence.source.total(sums)
        B.flat[:: m + 1] += 1
        with one_blas_thread():
            factor = cholesky(B, lower=True)
            root = solve_triangular(factor, np.eye(m), lower=True)
        c = root @ b
        value = -0.5 * (q * n * log(2 * pi) + terms.sum() - np.vdot(c, c)) - q * np.log(np.diag(factor)).sum()
        made = cls(kernel, rows, inverse, root, inverse.T @ (root.T @ c), float(value))
        if evidence.floor is None:
            return made
        places = evidence.judged(N_SOME)
        X = np.asarray(evidence.X[places], dtype=np.float64)
        g, rest, left = made.leverage(X, evidence.noise(places))
        latent = np.minimum(g / left + rest, kernel.diag(kernel.prepare(X)))
        # What sor leaves out is no part of its error bars, wherever it is sure of itself.
        shown = latent if cls.restored else np.minimum(g / left, latent)
        novelty = novelty_of(latent, kernel.diag(kernel.prepare(X)))
        error = (evidence.y[places] - made.mean(X)) / left[:, None]
        return replace(made, scale=Scale.none(kernel, X, shown, error, evidence.floor, novelty))

    def leverage(self, X: Array, noise: Array) -> tuple[Array, Array, Array]:
        """How much rows of the fit, with these noise variances, decide of their own prediction; all of shape (n,).

        These are g = w.B^-1 w, k - w.w, and 1 - g / D. The processes are linear in w(x): the mean without the row is
        (mean - h y) / (1 - h), with h = g / D, and g becomes g / (1 - h).
        """
        _, rest, g = self._parts(*self._block(X))
        return g, rest, 1 - np.minimum(g / (noise + rest if self.own_noise else noise), 1 - 1e-9)

    def mean(self, X: Array) -> Array:
        """The mean at every row of X, of shape (n, q)."""
        return in_blocks(lambda part: (self._block(part)[1].T @ self.weights,), X, len(self.weights))[0]

    def mean_and_variance(self, X: Array, noisy: bool = False) -> tuple[Array, Array]:
        """The mean, of shape (n, q), and the variance, of shape (n,): the latent one, or with the noise."""
        return self.mean_variance_novelty(X, noisy)[:2]

    def mean_variance_novelty(self, X: Array, noisy: bool = False) -> tuple[Array, Array, Array]:
        """The mean and the variance, and the share of the latent prior variance that is left, of shape (n,)."""

        def block(part: Array) -> tuple[Array, Array, Array]:
            rows, K = self._block(part)
            _, rest, g = self._parts(rows, K)
            novelty = novelty_of(g + rest, self.kernel.diag(rows))
            latent = g + self._put_back(novelty) * rest
            return K.T @ self.weights, scaled(self.scale, self.kernel, part, latent, novelty, noisy, rows), novelty

        mean, variance, novelty = in_blocks(block, X, 3 * len(self.weights))
        return mean, variance, novelty

    def _parts(self, rows: Features, K: Array) -> tuple[Array, Array, Array]:
        """W, of shape (m, n), and k - w.w and w.B^-1 w, of shape (n,)."""
        W = self.inverse @ K
        U = self.root @ W
        rest = np.maximum(self.kernel.diag(rows) - np.einsum("ij,ij->j", W, W), 0)
        return W, rest, np.einsum("ij,ij->j", U, U)

    def _put_back(self, novelty: Array) -> Array:
        """The share of k - Q that is put back in the variance, of shape (n,)."""
        if self.restored:
            return np.ones(len(novelty))
        if self.scale is None or not self.scale.floor:
            return np.zeros(len(novelty))
        return outside(novelty, self.scale.edge)

    def mean_and_covariance(self, X: Array, noisy: bool = False) -> tuple[Array, Array]:
        """The mean, of shape (n, q), and the covariance, of shape (n, n)."""
        rows, K = self._block(X)
        W, rest, g = self._parts(rows, K)
        U = self.root @ W
        novelty = novelty_of(g + rest, self.kernel.diag(rows))
        root = np.sqrt(self._put_back(novelty))
        covariance = U.T @ U
        if root.any():
            covariance += (covariance_block(self.kernel, rows) - W.T @ W) * np.multiply.outer(root, root)
        return K.T @ self.weights, scaled_covariance(self.scale, self.kernel, X, covariance, novelty, noisy)

    def _block(self, X: Array) -> tuple[Features, Array]:
        rows = self.kernel.prepare(X)
        return rows, self.kernel.block(self.rows, rows)


@dataclass(frozen=True)
class SubsetOfRegressors(Projected):
    """The process is Q and nothing else: uncalibrated, its variance goes to zero far from the active rows."""

    name: ClassVar[str] = "sor"

    restored: ClassVar[bool] = False


@dataclass(frozen=True)
class DeterministicTraining(Projected):
    """Q among the data, the exact prior for the prediction: sor's mean, with a variance that does not vanish."""

    name: ClassVar[str] = "dtc"


@dataclass(frozen=True)
class FullyIndependentTraining(Projected):
    """What Q leaves out counts as noise of each row's own, so rows that the active ones explain badly weigh less."""

    name: ClassVar[str] = "fitc"

    own_noise: ClassVar[bool] = True


@dataclass(frozen=True)
class Variational(Projected):
    """dtc's prediction, with a lower bound on the exact log evidence in place of dtc's own."""

    name: ClassVar[str] = "vfe"

    bound: ClassVar[bool] = True


def _sum(function: Any, blocks: list[slice]) -> tuple[Array, Array, Array]:
    """The sums of a function's arrays over all blocks, each thread adding up its own share first."""

    def share(some: list[slice]) -> tuple[Array, ...]:
        total = function(some[0])
        for block in some[1:]:
            for kept, found in zip(total, function(block), strict=True):
                kept += found
        return total  # type: ignore[no-any-return]

    count = 4  # however many cores there are, so that the rounding does not depend on them
    parts = threaded_map(share, [blocks[begin::count] for begin in range(min(count, len(blocks)))])
    first = parts[0]
    for part in parts[1:]:
        for kept, found in zip(first, part, strict=True):
            kept += found
    return first  # type: ignore[return-value]
