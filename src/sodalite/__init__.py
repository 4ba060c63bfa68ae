"""Gaussian processes for data sets that are far too large for them, by letting the model choose its rows."""

from . import reference
from .estimator import GreedyGPRegressor
from .selection import Selection, select

__all__ = ["GreedyGPRegressor", "Selection", "reference", "select"]
__version__ = "0.1.0"
