"""The log marginal likelihood of some rows, with its gradient (docs/method.rst, `hyperparameters`)."""

from __future__ import annotations

from math import log, pi

import numpy as np
from scipy.linalg import blas, lapack
from sklearn.gaussian_process.kernels import Kernel

from ..core.types import Array, Floats
from ..kernels import CompiledKernel, compile_kernel, take
from ..kernels.jitter import LEAST, NoiseFloor, split_by_floor

PANEL = 256  # rows of the covariance that are evaluated at a time: the products of a panel stay in the cache


class Likelihood:
    """The log marginal likelihood of some rows, per target value, and its gradient by a kernel's log-parameters.

    Several targets share the kernel, and their likelihoods add up. One evaluation costs O(n^3) time, O(n^2) memory.

    Parameters
    ----------
    kernel : scikit-learn kernel
    X, y, alpha : arrays of shape (n, d), (n, q) or (n,), and (n,) or None
    """

    def __init__(self, kernel: Kernel, X: Array, y: Floats, alpha: Floats | None = None) -> None:
        self.kernel = compile_kernel(kernel, X)
        self.X, self.alpha = X, alpha
        self.y = y.reshape(len(X), -1)

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """The value and the gradient; minus infinity where the covariance is not positive definite."""
        value, gradient = log_marginal_likelihood(self.kernel.with_theta(theta), self.X, self.y, self.alpha)
        return value / self.y.size, gradient / self.y.size


def log_marginal_likelihood(
    kernel: CompiledKernel, X: Array, y: Floats, alpha: Floats | None = None, least: float = LEAST
) -> tuple[float, Floats]:
    """Log p(y | X) = -y'a/2 - sum log L_ii - n/2 log 2 pi with a = (K + noise)^-1 y, and its gradient.

    Algorithm 2.1 and equation 5.9 of Rasmussen and Williams (2006). K, its factor, its inverse and the derivative
    dJ/dK = (a a' - (K + noise)^-1) / 2 are symmetric, so only lower triangles are computed: K in panels of rows, each
    with its own pullback through the kernel.

    Parameters
    ----------
    kernel : CompiledKernel
    X, y : arrays of shape (n, d) and (n, q)
    alpha : array of shape (n,), default=None
        Noise variances beyond the kernel's.
    least : float
        The noise floor, as a share of the largest prior variance.
    """
    n = len(y)
    features = kernel.prepare(X)
    panels = [slice(begin, min(begin + PANEL, n)) for begin in range(0, n, PANEL)]
    A = np.zeros((n, n))
    pulls = []
    for panel in panels:
        A[panel, : panel.stop], pull = kernel.vjp(take(features, panel), take(features, slice(0, panel.stop)))
        pulls.append(pull)
    latent, noise, pull_diagonal = kernel.diag_vjp(features)
    floor = NoiseFloor(latent, least)
    total = noise if alpha is None else noise + alpha
    A.flat[:: n + 1] += np.maximum(total, floor.value)

    solved = _value_and_derivative(A, y)
    if solved is None:
        return -np.inf, np.zeros(kernel.spec.n_dims)
    value, G = solved
    by_noise, by_floor = split_by_floor(np.diag(G), total <= floor.value)
    gradient = pull_diagonal(floor.by_latent(by_floor), by_noise)
    for panel, pull in zip(panels, pulls, strict=True):
        gradient += pull(G[panel, : panel.stop])
    return value, gradient


def _value_and_derivative(A: Floats, y: Floats) -> tuple[float, Floats] | None:
    """Log N(y; 0, A) and its derivative by A, from the lower triangle of A, which is overwritten.

    The derivative G, of shape (n, n), is zero above the diagonal: an entry below it counts for its mirror image too.
    None where A is not positive definite.
    """
    n, q = y.shape
    # LAPACK stores columns: what it sees as the upper triangle of A' is the lower triangle of A.
    L, failed = lapack.dpotrf(A.T, lower=0, clean=1, overwrite_a=1)
    if failed:
        return None
    log_determinant = 2 * float(np.log(np.diag(L)).sum())
    a, _ = lapack.dpotrs(L, y, lower=0)
    value = -0.5 * float(np.vdot(y, a)) - 0.5 * q * (log_determinant + n * log(2 * pi))
    inverse, _ = lapack.dpotri(L, lower=0, overwrite_c=1)
    G = blas.dsyrk(1.0, a, beta=-q, c=inverse, lower=0, overwrite_c=1).T
    G.flat[:: n + 1] *= 0.5
    return value, G
