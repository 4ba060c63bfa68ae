"""Measures of how good predictions are. All arrays are of shape (n,) or (n, q)."""

from __future__ import annotations

from math import log, pi

import numpy as np
from scipy.special import ndtri

from .core.types import Floats


def rmse(y: Floats, mean: Floats) -> float:
    """The root mean square error of predicted means, in the units of y: smaller is better."""
    return float(np.sqrt(np.mean(np.square(y - mean))))


def nlpd(y: Floats, mean: Floats, std: Floats) -> float:
    """The mean negative log predictive density of Gaussian predictions: smaller is better.

    Examples
    --------
    >>> round(nlpd(np.zeros(3), np.zeros(3), np.ones(3)), 4)
    0.9189
    """
    return float(np.mean(0.5 * np.square((y - mean) / std) + np.log(std))) + 0.5 * log(2 * pi)


def coverage(y: Floats, mean: Floats, std: Floats, level: float = 0.95) -> float:
    """The share of targets within the central interval of probability `level`: the closer to `level`, the better."""
    return float(np.mean(np.abs(y - mean) <= ndtri(0.5 + level / 2) * std))
