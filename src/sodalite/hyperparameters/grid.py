"""Starting points of an exact search: local maxima of the likelihood on a grid (docs/method.rst, `exact-search`)."""

from __future__ import annotations

from math import log

import numpy as np
from scipy.ndimage import maximum_filter
from sklearn.gaussian_process.kernels import Kernel

from ..core.threads import threaded_map
from ..core.types import Floats
from ..kernels import compile_kernel, robust_spread, spacing, variation
from .dense import profiled
from .parameters import VARIANCES, clipped, free_parameters, natural_scale, set_shares

SHARES = (1e-6, 1e-3, 0.03, 0.3, 0.9)  # shares of the noise in the targets' variance: from hardly any to nearly all
LONGEST = 4.0  # longest length-scale, in units of spread times sqrt(d): nearly a straight line
N_STARTS = 3  # local maxima that are climbed from; each costs some tens of evaluations
MOST_HALVINGS = 13  # halvings of the longest length-scale: bounds the grid where two rows nearly coincide


def scale_starts(kernel: Kernel, X: Floats, y: Floats, alpha: Floats | None) -> list[Floats]:
    """Log-parameters, each of shape (p,), of the highest local maxima of the likelihood on the grid.

    All variances are scaled together to their most likely value. One point of the grid costs O(n^3).
    """
    grid = _grid(kernel, X, y)
    compiled = compile_kernel(kernel, X)
    points = [theta for line in grid for theta in line]
    found = threaded_map(lambda theta: profiled(compiled.with_theta(theta), X, y, alpha), points)
    values, factors = np.array(found).reshape(len(grid), -1, 2).transpose(2, 0, 1)
    tops = np.argwhere((values >= maximum_filter(values, size=3, mode="nearest")) & np.isfinite(values))
    variances = [here for name, here in free_parameters(kernel) if name in VARIANCES]
    starts = []
    highest = sorted(map(tuple, tops), key=lambda place: -values[place])[:N_STARTS]
    for i, j in dict.fromkeys([*highest, (0, 0)] if np.isfinite(values[0, 0]) else highest):
        theta = grid[i][j].copy()
        for here in variances:
            theta[here] += log(factors[i, j])
        starts.append(clipped(theta, kernel))
    return starts


def _grid(kernel: Kernel, X: Floats, y: Floats) -> Floats:
    """Log-parameters by length-scale, as far as the kernel has one, and by the noise's share, as far as it has noise.

    The result has shape (length-scales, shares, p). One vector of length-scales is the same for all inputs, in units of
    their spread. Of several vectors, each keeps its ratio to the others.
    """
    start, parameters, variance = kernel.theta, free_parameters(kernel), variation(y)
    lengths = [(here, natural_scale(X, here)) for name, here in parameters if name == "length_scale"]
    middle = np.mean([start[here].mean() for here, _ in lengths]) if lengths else 0.0
    is_noisy = any(name == "noise_level" for name, _ in parameters)

    def point(factor: float, share: float) -> Floats:
        theta = start.copy()
        for here, natural in lengths:
            own = start[here] - middle if len(lengths) > 1 else 0.0
            theta[here] = natural + log(factor) + own
        set_shares(variance, share, theta, parameters)
        return np.asarray(theta)

    shares = SHARES if is_noisy else (0.0,)
    factors = _factors(X) if lengths else [1.0]
    return clipped(np.array([[point(factor, share) for share in shares] for factor in factors]), kernel)


def _factors(X: Floats) -> Floats:
    """Length-scales in units of spread times sqrt(d), each about twice the one before.

    They go from half the distance of neighbouring rows, or `MOST_HALVINGS` below `LONGEST`, to `LONGEST`.
    """
    nearest = spacing(X / (robust_spread(X) * np.sqrt(X.shape[1])))
    shortest = min(max(0.5 * nearest, LONGEST * 0.5**MOST_HALVINGS), LONGEST) if nearest else LONGEST
    return np.geomspace(shortest, LONGEST, 1 + int(np.ceil(np.log2(LONGEST / shortest))))
