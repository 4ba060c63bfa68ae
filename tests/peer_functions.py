"""Pretend peers, in a module that a process of its own can import."""

from __future__ import annotations

import os
import time

import numpy as np
from benchmarks.peers_models import UNFINISHED, Prediction


def steps(X, y, X_test, seconds):
    """Three predictions, the second of which is best, and the time is up."""
    for error in (0.3, 0.1, 0.2):
        yield Prediction(np.full(len(X_test), error), np.full(len(X_test), 0.1))
    return UNFINISHED


def never(X, y, X_test, seconds):
    """No prediction for a minute."""
    time.sleep(60)
    yield


def crash(X, y, X_test, seconds):
    """The end of the process, as by a fault in C."""
    os._exit(11)
    yield


def refuse(X, y, X_test, seconds):
    """An error of the library's."""
    raise ValueError("the matrix is not positive definite\nand so on")
    yield


def hoard(X, y, X_test, seconds):
    """More memory than there is."""
    np.ones(10**13)
    yield


def diverge(X, y, X_test, seconds):
    """A good prediction, then none that is a number."""
    yield Prediction(np.zeros(len(X_test)), np.ones(len(X_test)))
    yield Prediction(np.full(len(X_test), np.nan), np.ones(len(X_test)))
