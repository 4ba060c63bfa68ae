"""How good a prediction is."""

from __future__ import annotations

from math import log, pi

import numpy as np
from scipy.special import ndtri

from .core.types import Array


def rmse(y: Array, mean: Array) -> float:
    """The root mean square error."""
    return float(np.sqrt(np.mean(np.square(y - mean))))


def nlpd(y: Array, mean: Array, std: Array) -> float:
    """The mean negative log predictive density of Gaussian predictions: smaller is better.

    Examples
    --------
    >>> round(nlpd(np.zeros(3), np.zeros(3), np.ones(3)), 4)
    0.9189
    """
    return float(np.mean(0.5 * np.square((y - mean) / std) + np.log(std))) + 0.5 * log(2 * pi)


def coverage(y: Array, mean: Array, std: Array, level: float = 0.95) -> float:
    """The share of the targets within the central interval of that level: the closer to `level`, the better."""
    return float(np.mean(np.abs(y - mean) <= ndtri(0.5 + level / 2) * std))
