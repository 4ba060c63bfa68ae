"""The default kernels, and the scales of the data that their parameters start from."""

from __future__ import annotations

from math import sqrt

import numpy as np
from scipy.spatial import cKDTree
from sklearn.gaussian_process import kernels as spec

from ..core.types import Floats

SAMPLE = 100_000  # rows that quantiles are taken of, which is accurate to 1 % of a standard deviation
ROUGH_INPUTS = 2  # most inputs for which Matern 1/2 competes: series and maps often have no derivative
INFLATED = 10.0  # ratio of the standard deviation to that by quantiles above which outliers have inflated it
QUERIES = 500  # rows whose nearest neighbour is sought for the median spacing: enough for a few percent of error
NEAREST = 9  # nearest rows, the row itself first, among which one that differs is sought: duplicates are passed over


def default_kernels(X: Floats, y: Floats) -> list[spec.Kernel]:
    """The kernels that compete if none is given: squared-exponential (the paper's), Matern 5/2 and 3/2.

    With up to `ROUGH_INPUTS` inputs Matern 1/2 competes too. With one input its mean between two rows is nearly a
    straight line, so that on series as rough as a random walk the model is no worse than linear interpolation. All
    kernels have the same parameters, in the same order, with the same bounds.

    Parameters
    ----------
    X : array of shape (n, d)
    y : array of shape (n,) or (n, q)
    """
    smooth = default_kernel(X, y)
    amplitude, profile, noise = smooth.k1.k1, smooth.k1.k2, smooth.k2
    rough = [spec.Matern(profile.length_scale, profile.length_scale_bounds, nu=nu) for nu in (2.5, 1.5, 0.5)]
    rough = rough if X.shape[1] <= ROUGH_INPUTS else rough[:2]
    return [smooth, *(amplitude * kernel + noise for kernel in rough)]


def default_kernel(X: Floats, y: Floats) -> spec.Kernel:
    """Constant x squared-exponential with one length-scale per input + white noise, with start values from the data.

    The length-scales start at each input's spread times sqrt(d), the signal variance at 90 % and the noise at 10 % of
    the targets' mean square. The bounds are relative to these values, so that no input needs scaling beforehand.

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


def spread(X: Floats) -> Floats:
    """The standard deviation of every column of X, of shape (d,); 1 for a constant column."""
    return steady(np.std(X, axis=0, dtype=np.float64), np.abs(X).max(axis=0, initial=0.0))


def robust_spread(X: Floats) -> Floats:
    """The standard deviation of every column of X, of shape (d,), by quantiles where outliers have inflated it.

    Half the distance between the 16 % and the 84 % quantile (of at most `SAMPLE` rows) is the standard deviation of
    normal data. It replaces a standard deviation that is more than `INFLATED` times as large, unless it is 0.
    """
    deviation = spread(X)
    if not len(X):
        return deviation
    low, high = np.quantile(_thinned(X, SAMPLE), [0.16, 0.84], axis=0)
    half = 0.5 * high - 0.5 * low
    return np.where((half > 0) & (deviation > INFLATED * half), half, deviation)


def spacing(X: Floats) -> float:
    """The median distance of a row of X to the nearest row that differs from it; 0 if there is none.

    The median is over `QUERIES` rows, with neighbours among at most `SAMPLE` rows. O(n log n).
    """
    some = np.asarray(_thinned(X, SAMPLE), dtype=np.float64)
    tree = cKDTree(some, balanced_tree=False)
    nearest, _ = tree.query(_thinned(some, QUERIES), k=[*range(2, NEAREST + 1)])
    nearest = np.where((nearest > 0) & np.isfinite(nearest), nearest, np.inf).min(axis=1)
    nearest = nearest[np.isfinite(nearest)]
    return float(np.median(nearest)) if len(nearest) else 0.0


def steady(deviation: Floats, largest: Floats) -> Floats:
    """Standard deviations, of shape (d,); 1 where they are within rounding of zero.

    `largest`, of shape (d,), holds the columns' largest absolute values, whose rounding is the yardstick.
    """
    return np.where(deviation > 64 * np.finfo(np.float64).eps * largest, deviation, 1.0)


def variation(y: Floats) -> float:
    """The mean square of the targets about zero, the prior mean; 1 if they are all zero."""
    square = float(np.mean(np.square(y, dtype=np.float64)))
    return square if square > 0 else 1.0


def _thinned(X: Floats, most: int) -> Floats:
    """Every k-th row of X, with the least k that leaves at most `most` rows."""
    return X[:: -(-len(X) // most)]
