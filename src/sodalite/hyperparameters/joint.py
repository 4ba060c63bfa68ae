"""J, the log density of all targets given the active rows, as one part for these and a sum over the others.

J = log p(y_I) + the sum over the remainder of log N(y; mu, s^2 + noise). Given the active rows, the remainder is a sum,
so it can be worked out in parts, in bounded memory, and wherever the rows are. With A = k(I, I) + noise, a = A^-1 y_I,
P = A^-1 k(I, R) and the derivatives e by mu and f by s^2 + noise,

    dJ/dk(I, R) = a e' - 2 P diag(f)      dJ/dA = (a a' - A^-1) / 2 - (P e a' + a e' P') / 2 + P diag(f) P'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log, pi
from typing import Any

import numpy as np
from scipy.linalg import lapack
from sklearn.gaussian_process.kernels import Kernel

from ..core.jitter import JITTER
from ..core.threads import one_blas_thread
from ..core.types import Array
from ..kernels import CompiledKernel, Features, compile_kernel

BLOCK = 2**18  # entries of k(I, R) that are held at a time; its derivatives take several times as many
LEAST = JITTER[np.dtype(np.float64)]  # times the prior variance: the least noise that a row has


class Joint:
    """J per target value for fixed active rows, as a function of log-parameters. O(m^3 + sample m^2).

    A log density of all targets, the remainder taken as independent given the active rows: so it can be compared
    between two active sets, and between two kernels.

    Parameters
    ----------
    kernel : scikit-learn kernel
    X, y, alpha : arrays of shape (n, d), (n, q) and (n,) or None
    active : array of int
        The active rows.
    sample : array of int
        Rows whose remainder stands for all of it; those that are active among them are left out.
    """

    def __init__(
        self, kernel: Kernel, X: Array, y: Array, active: Array, sample: Array, alpha: Array | None = None
    ) -> None:
        self.kernel = compile_kernel(kernel, X)
        sample = np.setdiff1d(sample, active)
        self.active, self.rest = (
            (X[rows], y[rows], None if alpha is None else alpha[rows]) for rows in (active, sample)
        )
        self.weight = (len(X) - len(active)) / max(len(sample), 1)
        self.size = y.size

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """The value and the gradient; minus infinity where the covariance is not positive definite."""

        def total(sums: Remainder) -> tuple[Array, ...]:
            return tuple(self.weight * part for part in sums(*self.rest))

        value, gradient = joint_density(self.kernel.with_theta(theta), *self.active, total)
        return value / self.size, gradient / self.size


@dataclass(frozen=True)
class Remainder:
    """The remainder's share of J, of dJ/dA and of the gradient, and f summed over rows at the noise floor.

    Called with some rows' X, y and alpha, it gives the four sums over them. O(rows m^2).
    """

    kernel: CompiledKernel
    rows: Features
    """The active rows, prepared."""
    L: Array
    """The factor of A."""
    a: Array
    """Of shape (m, q)."""
    floor: float

    def __call__(self, X: Array, y: Array, alpha: Array | None) -> tuple[Array, Array, Array, Array]:
        m = len(self.L)
        sums = [np.zeros(1), np.zeros((m, m)), np.zeros(self.kernel.spec.n_dims), np.zeros(1)]
        size = max(1, BLOCK // m)
        for begin in range(0, len(X), size):
            here = slice(begin, begin + size)
            part = self._block(X[here], y[here], 0.0 if alpha is None else alpha[here])
            for total, found in zip(sums, part, strict=True):
                total += found
        return tuple(sums)  # type: ignore[return-value]

    def _block(self, X: Array, y: Array, alpha: Any) -> tuple[float, Array, Array, float]:
        kernel, others, q = self.kernel, self.kernel.prepare(X), y.shape[1]
        C, pull_cross = kernel.vjp(self.rows, others)
        v, _ = lapack.dtrtrs(self.L, C, lower=1)  # not from the inverse: without noise, too little would be left of s^2
        P, _ = lapack.dtrtrs(self.L, v, lower=1, trans=1)
        latent, noise, pull_diagonal = kernel.diag_vjp(others)
        floored = noise + alpha <= self.floor
        s2 = np.maximum(latent - np.einsum("ij,ij->j", v, v), 0)
        variance = s2 + np.maximum(noise + alpha, self.floor)
        error = y - C.T @ self.a
        squares = np.einsum("ij,ij->i", error, error)
        value = -0.5 * float((squares / variance + q * np.log(2 * pi * variance)).sum())
        e = error / variance[:, None]
        f = 0.5 * (squares / variance**2 - q / variance)
        mixed = (P @ e) @ self.a.T
        G = (P * f) @ P.T - 0.5 * (mixed + mixed.T)
        gradient = pull_cross(self.a @ e.T - 2 * P * f) + pull_diagonal(f, np.where(floored, 0.0, f))
        return value, G, gradient, float(f[floored].sum())


@one_blas_thread()
def joint_density(
    kernel: CompiledKernel,
    X: Array,
    y: Array,
    alpha: Array | None,
    total: Callable[[Remainder], tuple[Array, ...]],
) -> tuple[float, Array]:
    """J, and its gradient by the kernel's log-parameters, for fixed active rows. O(m^3) beside the sums.

    Parameters
    ----------
    kernel : CompiledKernel
    X, y, alpha : arrays of shape (m, d), (m, q) and (m,) or None
        The active rows.
    total : callable
        Gives the sums of a `Remainder` over the rows that are not active; of a sample, they may be weighted.
    """
    m, q = y.shape
    rows, own = kernel.prepare(X), 0.0 if alpha is None else alpha
    K, pull = kernel.vjp(rows, rows)
    latent, noise, pull_diagonal = kernel.diag_vjp(rows)
    floor = LEAST * float(latent.max())
    floored = noise + own <= floor
    A = K.copy()
    A.flat[:: m + 1] = latent + np.maximum(noise + own, floor)
    L, failed = lapack.dpotrf(A, lower=1, clean=1)
    if failed:
        return -np.inf, np.zeros(kernel.spec.n_dims)
    a, _ = lapack.dpotrs(L, y, lower=1)
    value = -0.5 * float(np.vdot(y, a)) - q * (float(np.log(np.diag(L)).sum()) + 0.5 * m * log(2 * pi))
    inverse, _ = lapack.dpotri(L, lower=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T

    rest, G, gradient, by_floor = total(Remainder(kernel, rows, L, a, floor))
    G = G + 0.5 * (a @ a.T - q * inverse)
    on_diagonal = np.diag(G).copy()
    np.fill_diagonal(G, 0)
    # Rows at the floor have noise that moves with the largest prior variance.
    by_latent = on_diagonal.copy()
    by_latent[latent.argmax()] += LEAST * (on_diagonal[floored].sum() + float(by_floor[0]))
    gradient = gradient + pull(G) + pull_diagonal(by_latent, np.where(floored, 0.0, on_diagonal))
    return value + float(rest[0]), gradient
