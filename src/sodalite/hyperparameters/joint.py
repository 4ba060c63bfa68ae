"""J, the log density of the active rows' targets plus the log densities of the other targets given these.

J = log p(y_I) + sum over the remainder of log N(y; mu, s^2 + noise) (docs/method.rst, `joint`). The sum can be computed
in parts, in bounded memory, and where the rows are. With A = k(I, I) + noise, a = A^-1 y_I, P = A^-1 k(I, R), e the
derivatives of the sum by mu and f those by s^2 + noise,

    dJ/dk(I, R) = a e' - 2 P diag(f)      dJ/dA = (a a' - A^-1) / 2 - (P e a' + a e' P') / 2 + P diag(f) P'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log, pi

import numpy as np
from scipy.linalg import lapack
from sklearn.gaussian_process.kernels import Kernel

from ..core.threads import one_blas_thread
from ..core.types import Array, Floats, Indices
from ..kernels import CompiledKernel, Features, compile_kernel
from ..kernels.jitter import NoiseFloor, split_by_floor

BLOCK = 2**18  # entries of k(I, R) that are held at a time, 2 MB; its derivatives take several times as much


class Joint:
    """J per target value for fixed active rows, as a function of log-parameters. O(m^3 + sample m^2).

    J is a log density of all targets, with the remainder independent given the active rows. So it can be compared
    between active sets and between kernels.

    Parameters
    ----------
    kernel : scikit-learn kernel
    X, y, alpha : arrays of shape (n, d), (n, q) and (n,) or None
    active : array of int
        The active rows.
    sample : array of int
        Rows that stand for all of the remainder; active rows among them are left out.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Array,
        y: Floats,
        active: Indices,
        sample: Indices,
        alpha: Floats | None = None,
    ) -> None:
        self.kernel = compile_kernel(kernel, X)
        sample = np.setdiff1d(sample, active)
        self.active, self.rest = (
            (X[which], y[which], None if alpha is None else alpha[which]) for which in (active, sample)
        )
        self.weight = (len(X) - len(active)) / max(len(sample), 1)
        self.size = y.size

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """The value and the gradient; minus infinity where the covariance is not positive definite."""

        def total(sums: RemainderSums) -> tuple[Floats, ...]:
            return tuple(self.weight * part for part in sums(*self.rest))

        value, gradient = joint_density(self.kernel.with_theta(theta), *self.active, total)
        return value / self.size, gradient / self.size


@dataclass(frozen=True)
class RemainderSums:
    """The remainder's terms of J, of dJ/dA, of the gradient and of dJ/dfloor, as sums over some rows. O(rows m^2)."""

    kernel: CompiledKernel
    rows: Features
    """The active rows, prepared."""
    L: Floats
    """The lower factor of A, of shape (m, m)."""
    a: Floats
    """A^-1 y_I, of shape (m, q)."""
    floor: float
    """The noise floor."""

    def __call__(self, X: Array, y: Floats, alpha: Floats | None) -> tuple[Floats, ...]:
        """The four sums over some rows; of shape (1,), (m, m), (p,) and (1,)."""
        m = len(self.L)
        sums = [np.zeros(1), np.zeros((m, m)), np.zeros(self.kernel.spec.n_dims), np.zeros(1)]
        size = max(1, BLOCK // m)
        for begin in range(0, len(X), size):
            here = slice(begin, begin + size)
            part = self._block(X[here], y[here], 0.0 if alpha is None else alpha[here])
            for total, found in zip(sums, part, strict=True):
                total += found
        return tuple(sums)

    def _block(self, X: Array, y: Floats, alpha: Floats | float) -> tuple[float, Floats, Floats, float]:
        kernel, others, q = self.kernel, self.kernel.prepare(X), y.shape[1]
        C, pull_cross = kernel.vjp(self.rows, others)
        v, _ = lapack.dtrtrs(self.L, C, lower=1)  # not from the inverse: without noise, too little would be left of s^2
        P, _ = lapack.dtrtrs(self.L, v, lower=1, trans=1)
        latent, noise, pull_diagonal = kernel.diag_vjp(others)
        total = noise + alpha
        s2 = np.maximum(latent - np.einsum("ij,ij->j", v, v), 0)
        variance = s2 + np.maximum(total, self.floor)
        error = y - C.T @ self.a
        squares = np.einsum("ij,ij->i", error, error)
        value = -0.5 * float((squares / variance + q * np.log(2 * pi * variance)).sum())
        e = error / variance[:, None]
        f = 0.5 * (squares / variance**2 - q / variance)
        mixed = (P @ e) @ self.a.T
        G = (P * f) @ P.T - 0.5 * (mixed + mixed.T)
        by_noise, by_floor = split_by_floor(f, total <= self.floor)
        gradient = pull_cross(self.a @ e.T - 2 * P * f) + pull_diagonal(f, by_noise)
        return value, G, gradient, by_floor


@one_blas_thread()
def joint_density(
    kernel: CompiledKernel,
    X: Array,
    y: Floats,
    alpha: Floats | None,
    total: Callable[[RemainderSums], tuple[Floats, ...]],
) -> tuple[float, Floats]:
    """J, and its gradient by the kernel's log-parameters, for fixed active rows. O(m^3) beside the sums.

    Parameters
    ----------
    kernel : CompiledKernel
    X, y, alpha : arrays of shape (m, d), (m, q) and (m,) or None
        The active rows.
    total : callable
        Returns the sums of a `RemainderSums` over the rows that are not active; those of a sample may be weighted.
    """
    m, q = y.shape
    rows = kernel.prepare(X)
    K, pull = kernel.vjp(rows, rows)
    latent, noise, pull_diagonal = kernel.diag_vjp(rows)
    noise = noise if alpha is None else noise + alpha
    floor = NoiseFloor(latent)
    A = K.copy()
    A.flat[:: m + 1] = latent + np.maximum(noise, floor.value)
    L, failed = lapack.dpotrf(A, lower=1, clean=1)
    if failed:
        return -np.inf, np.zeros(kernel.spec.n_dims)
    a, _ = lapack.dpotrs(L, y, lower=1)
    value = -0.5 * float(np.vdot(y, a)) - q * (float(np.log(np.diag(L)).sum()) + 0.5 * m * log(2 * pi))
    inverse, _ = lapack.dpotri(L, lower=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T

    rest, G, gradient, by_floor_of_rest = total(RemainderSums(kernel, rows, L, a, floor.value))
    G = G + 0.5 * (a @ a.T - q * inverse)
    by_diagonal = np.diag(G).copy()
    np.fill_diagonal(G, 0)
    by_noise, by_floor = split_by_floor(by_diagonal, noise <= floor.value)
    by_latent = by_diagonal + floor.by_latent(by_floor + float(by_floor_of_rest[0]))
    gradient = gradient + pull(G) + pull_diagonal(by_latent, by_noise)
    return value + float(rest[0]), gradient
