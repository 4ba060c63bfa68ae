"""The exact Gaussian process of a small table: its likelihood without gradient, and leave-one-out predictions."""

from __future__ import annotations

from math import inf, log, pi

import numpy as np
from scipy.linalg import lapack
from sklearn.gaussian_process.kernels import Kernel

from ..core.types import Floats, Indices
from ..kernels import CompiledKernel, compile_kernel
from ..kernels.jitter import NoiseFloor
from ..posteriors.leave_one_out import leave_one_out as left_out

TINY = np.finfo(np.float64).tiny  # the least variance that is divided by


def profiled(kernel: CompiledKernel, X: Floats, y: Floats, alpha: Floats | None) -> tuple[float, float]:
    """The log likelihood per target value with all variances scaled by the most likely factor, and that factor.

    With A the covariance, the factor is y'A^-1 y / n. With noise of the rows' own (`alpha`) it is 1. O(n^3).
    """
    L = _factor(kernel, X, alpha)
    if L is None:
        return -inf, 1.0
    z, _ = lapack.dtrtrs(L, y, lower=0, trans=1)
    square = float(np.vdot(z, z)) / y.size
    factor = max(square, TINY) if alpha is None else 1.0
    value = -0.5 * (square / factor + log(factor)) - float(np.log(np.diag(L)).sum()) / len(X) - 0.5 * log(2 * pi)
    return (value, factor) if np.isfinite(value) else (-inf, 1.0)


def leave_one_out_densities(kernel: Kernel, X: Floats, y: Floats, alpha: Floats | None) -> Floats:
    """The log density of every target given all other rows; of shape (n, q).

    All variances are multiplied by the factor that suits the errors best, as predictions are calibrated. Minus infinity
    where the covariance is not positive definite.
    """
    found = leave_one_out(kernel, X, y, alpha)
    if found is None:
        return np.full(y.shape, -inf)
    squares, precision = found
    factor = max(float(squares.mean()), TINY)
    return np.asarray(0.5 * (np.log(precision / (2 * pi * factor)) - squares / factor))


def leave_one_out(kernel: Kernel, X: Floats, y: Floats, alpha: Floats | None) -> tuple[Floats, Floats] | None:
    """Squared standardised leave-one-out errors, of shape (n, q), and the inverses of their variances, (n, 1).

    None where the covariance is not positive definite. O(n^3).
    """
    L = _factor(compile_kernel(kernel, X), X, alpha)
    if L is None:
        return None
    inverse = np.triu(lapack.dtrtri(L, lower=0, overwrite_c=1)[0]).T
    error, variance = left_out(inverse, inverse @ y)
    precision = 1 / variance[:, None]
    return np.square(error) * precision, precision


def squared_errors(kernel: Kernel, X: Floats, y: Floats, alpha: Floats | None, known: Indices, new: Indices) -> Floats:
    """Squared standardised errors of the rows `new`, predicted from the rows `known`; of shape (new, q).

    NaN where the covariance is not positive definite.
    """
    compiled = compile_kernel(kernel, X)
    L = _factor(compiled, X[known], None if alpha is None else alpha[known])
    if L is None:
        return np.full((len(new), y.shape[1]), np.nan)
    rows = compiled.prepare(X[new])
    V, _ = lapack.dtrtrs(L, compiled.block(compiled.prepare(X[known]), rows), lower=0, trans=1)
    z, _ = lapack.dtrtrs(L, y[known], lower=0, trans=1)
    noise = compiled.noise(rows) + (0.0 if alpha is None else alpha[new])
    variance = np.maximum(compiled.diag(rows) - np.einsum("ij,ij->j", V, V), 0) + noise
    return np.asarray(np.square(y[new] - V.T @ z) / np.maximum(variance, TINY)[:, None])


def _factor(kernel: CompiledKernel, X: Floats, alpha: Floats | None) -> Floats | None:
    """The upper Cholesky factor of the covariance of some observations; None where it is not positive definite."""
    features = kernel.prepare(X)
    latent, noise = kernel.diag(features), kernel.noise(features)
    A = kernel.block(features, features)
    A.flat[:: len(X) + 1] = latent + np.maximum(noise if alpha is None else noise + alpha, NoiseFloor(latent).value)
    L, failed = lapack.dpotrf(A.T, lower=0, clean=0, overwrite_a=1)
    return None if failed else L
