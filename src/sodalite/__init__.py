"""Gaussian processes for data sets that are far too large for them, by letting the model choose its rows."""

from . import reference
from .estimator import GreedyGPRegressor
from .loop import Selection, SelectionInterrupted
from .selection import select

__all__ = ["GreedyGPRegressor", "Selection", "SelectionInterrupted", "reference", "select"]
__version__ = "0.1.0"
