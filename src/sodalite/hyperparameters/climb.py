"""Climbs: an objective is raised by L-BFGS within bounds, for some steps or to its maximum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, sqrt
from time import perf_counter

import numpy as np
from scipy.optimize import minimize

from ..core.threads import one_blas_thread, raise_if_broken_off, threaded_map
from ..core.types import Floats

Objective = Callable[[Floats], tuple[float, Floats]]
"""A function of log-parameters theta, of shape (p,), that returns a value of order 1 and its gradient, (p,)."""

# Tolerances: a climb ends after a step that gains less than so much, in nats per target value.
ROUGH = 1e-6  # for one of many climbs, which are only compared
TIGHT = 1e-9  # for the last climb; with less, rounding ends it, and predictions depend on the inputs' units by 6e-8
GRADIENT = 1e-2  # a climb also ends where the largest derivative is below this times the root of the tolerance
NO_VALUE = 1e25  # stands for the negative of minus infinity, which L-BFGS cannot take


def climb(
    objective: Objective, start: Floats, bounds: Floats, steps: int, end: float = inf, tolerance: float = ROUGH
) -> tuple[float, Floats]:
    """Maximise an objective by L-BFGS within bounds; return the largest value seen and where that was.

    Parameters
    ----------
    objective : callable
        An `Objective`.
    start : array of shape (p,)
    bounds : array of shape (p, 2)
    steps : int
        The most steps.
    end : float
        A time by `time.perf_counter`, after which no step begins but the first.
    tolerance : float
        The climb ends after a step that gains less.
    """
    top, place = -np.inf, start

    def negative(theta: Floats) -> tuple[float, Floats]:
        nonlocal top, place
        raise_if_broken_off()
        value, gradient = objective(theta)
        if value > top:
            top, place = value, theta.copy()
        return (-value, -gradient) if np.isfinite(value) else (NO_VALUE, np.zeros_like(theta))

    def stop_in_time(theta: Floats) -> None:
        if perf_counter() > end:
            raise StopIteration

    options = {"maxiter": steps, "ftol": tolerance, "gtol": GRADIENT * sqrt(tolerance)}
    with one_blas_thread():  # L-BFGS's own products are tiny: a second thread would cost more than all of the climb
        minimize(negative, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options, callback=stop_in_time)
    return top, place


def climb_all(
    objective: Objective, starts: Sequence[Floats], bounds: Floats, steps: int, end: float = inf
) -> list[tuple[float, Floats]]:
    """Climb from each of some starts, in threads; return the results of `climb`, the highest first."""
    ends = threaded_map(lambda start: climb(objective, start, bounds, steps, end), starts)
    return sorted(ends, key=lambda result: -result[0])
