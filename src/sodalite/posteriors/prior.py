"""Predictions before any rows have been seen: the prior, as scikit-learn's Gaussian process predicts from it."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel

from ..core.types import Array, Floats
from ..kernels import compile_kernel
from .base import covariance_block


def prior_predictions(kernel: Kernel | None, X: Array, return_std: bool, return_cov: bool) -> tuple[Floats, ...]:
    """The prior mean, zeros of shape (n,), and if asked for the standard deviations, (n,), or the covariance, (n, n).

    Both are those of observations, noise included. A kernel of None stands for scikit-learn's default,
    ``ConstantKernel(1.0) * RBF(1.0)``: the kernels that compete in a fit are made from its rows.
    """
    compiled = compile_kernel(ConstantKernel(1.0) * RBF(1.0) if kernel is None else kernel, X)
    mean, rows = np.zeros(len(X)), compiled.prepare(X)
    if return_cov:
        covariance = covariance_block(compiled, rows)
        covariance.flat[:: len(X) + 1] += compiled.noise(rows)
        return mean, covariance
    if return_std:
        return mean, np.sqrt(compiled.diag(rows) + compiled.noise(rows))
    return (mean,)
