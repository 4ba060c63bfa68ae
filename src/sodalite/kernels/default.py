"""A kernel for those who give none, and the scales of the data that it starts from."""

from __future__ import annotations

from math import sqrt

import numpy as np
from scipy.spatial import cKDTree
from sklearn.gaussian_process import kernels as spec

from ..core.types import Array

ROUGH_INPUTS = 2  # inputs up to which functions without a derivative are common: series and maps
OUTLYING = 10.0  # a standard deviation over that of most rows, from which on it is made by outliers


def default_kernels(X: Array, y: Array) -> list[spec.Kernel]:
    """Those that compete where none is given: squared-exponential (the paper's), Matern 5/2 and 3/2.

    For up to `ROUGH_INPUTS` inputs Matern 1/2 too. Between two rows of one input its mean is nearly a straight line, so
    that nothing is lost to joining the dots on series as rough as a random walk. All have the same parameters, in the
    same order, with the same bounds.
    """
    smooth = default_kernel(X, y)
    amplitude, profile, noise = smooth.k1.k1, smooth.k1.k2, smooth.k2
    rough = [spec.Matern(profile.length_scale, profile.length_scale_bounds, nu=nu) for nu in (2.5, 1.5, 0.5)]
    rough = rough if X.shape[1] <= ROUGH_INPUTS else rough[:2]
    return [smooth, *(amplitude * kernel + noise for kernel in rough)]


def default_kernel(X: Array, y: Array) -> spec.Kernel:
    """Constant x squared-exponential with one length-scale per input + white noise, started from the data.

    The length-scales start at each input's spread times sqrt(d), the variances at shares of the targets'
    (over all targets), and the bounds are relative to these, so that no input needs scaling beforehand.

    Parameters
    ----------
    X : array of shape (n, d)
    y : array of shape (n,) or (n, q)
    """
    scale, variance = robust_spread(X) * sqrt(X.shape[1]), variation(y)
    shortest = min(1e-3, 0.25 * spacing(X / scale))
    return spec.ConstantKernel(0.9 * variance, (1e-3 * variance, 1e4 * variance)) * spec.RBF(
        scale, np.outer(scale, (max(shortest, 1e-9), 1e3))
    ) + spec.WhiteKernel(0.1 * variance, (1e-8 * variance, 10 * variance))


def spread(X: Array) -> Array:
    """The standard deviation of every column; 1 where a column is constant, since any scale will do."""
    return steady(np.std(X, axis=0, dtype=np.float64), np.abs(X).max(axis=0, initial=0.0))


def robust_spread(X: Array) -> Array:
    """The standard deviation of every column or, where that is made by a few outlying rows, that of the others.

    Half the distance between the 16 % and the 84 % quantile of at most 100 000 rows is a standard deviation of normal
    data. It takes the place of a standard deviation more than `OUTLYING` times as large, unless it is 0.
    """
    deviation = spread(X)
    some = X[:: -(-len(X) // 100_000)] if len(X) else X
    if not len(some):
        return deviation
    low, high = np.quantile(some, [0.16, 0.84], axis=0)
    half = 0.5 * high - 0.5 * low
    return np.where((half > 0) & (deviation > OUTLYING * half), half, deviation)


def spacing(X: Array) -> float:
    """The median distance of a row to the nearest other one that differs; 0 if there is none.

    500 rows, of at most 100 000, are asked for their nearest. O(n log n).
    """
    some = np.asarray(X[:: -(-len(X) // 100_000)], dtype=np.float64)
    nearest, _ = cKDTree(some, balanced_tree=False).query(some[:: -(-len(some) // 500)], k=[*range(2, 10)])
    nearest = np.where((nearest > 0) & np.isfinite(nearest), nearest, np.inf).min(axis=1)
    nearest = nearest[np.isfinite(nearest)]
    return float(np.median(nearest)) if len(nearest) else 0.0


def steady(deviation: Array, largest: Array) -> Array:
    """Standard deviations, 1 where they are no more than the rounding of the largest absolute values."""
    return np.where(deviation > 64 * np.finfo(np.float64).eps * largest, deviation, 1.0)


def variation(y: Array) -> float:
    """The mean square of the targets about zero (the prior mean); 1 where they are all zero."""
    square = float(np.mean(np.square(y, dtype=np.float64)))
    return square if square > 0 else 1.0
