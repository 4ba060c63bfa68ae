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
TIGHT = 1e-9  # for the last climb, which `polish` goes on from; with less, rounding would end it
GRADIENT = 1e-2  # a climb also ends where the largest derivative is below this times the root of the tolerance
DIFFERENCE = 1e-4  # step in a log-parameter for differences of gradients: second derivatives are right to about 1e-4
NEWTON_STEPS = 4  # each leaves some 1e-4 of the distance to the maximum
FARTHEST = 0.1  # largest step in a log-parameter: farther away, the objective is not quadratic
FLAT = 1e-6  # curvature, as a share of the largest, below which a direction is left as it is
MOST_POLISHED = 200  # parameters that `polish` moves; with more, their second derivatives cost more than the climb
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


def climb_to_maximum(
    objective: Objective, start: Floats, bounds: Floats, steps: int, end: float = inf
) -> tuple[float, Floats]:
    """Climb until rounding hides the gain of a step, then go on by the gradient, which shows the maximum better."""
    value, theta = climb(objective, start, bounds, steps, end, TIGHT)
    return polish(objective, theta, bounds, end) if np.isfinite(value) else (value, theta)


def polish(objective: Objective, theta: Floats, bounds: Floats, end: float = inf) -> tuple[float, Floats]:
    """Move a theta near a maximum to where the gradient vanishes, by Newton's method; return value and theta.

    Near a maximum, values that differ by rounding belong to places that differ by its root, 1e-8 and more. The gradient
    is linear there, and its zero is as exact as the gradient. The matrix of second derivatives is taken once, from
    differences of gradients: p + `NEWTON_STEPS` evaluations. Parameters at their bounds stay there, and so does what
    has hardly any curvature, such as the length-scale of an input that does not matter. With more than `MOST_POLISHED`
    parameters, all stay.
    """
    value, gradient = objective(theta)
    free = np.flatnonzero((theta > bounds[:, 0]) & (theta < bounds[:, 1]))
    if not 0 < len(free) <= MOST_POLISHED or not np.isfinite(value):
        return value, theta
    columns = []
    for i in free:
        raise_if_broken_off()
        if perf_counter() > end:
            return value, theta
        moved = theta.copy()
        moved[i] += DIFFERENCE
        columns.append((objective(moved)[1] - gradient)[free] / DIFFERENCE)
    second = np.array(columns)
    with one_blas_thread():
        curvature, directions = np.linalg.eigh(-0.5 * (second + second.T))
    sure = curvature > FLAT * max(curvature.max(), 0.0)
    for _ in range(NEWTON_STEPS):
        along = directions[:, sure].T @ gradient[free]
        step = directions[:, sure] @ (along / curvature[sure])
        if not sure.any() or np.abs(step).max() > FARTHEST:
            break
        moved = theta.copy()
        moved[free] = np.clip(theta[free] + step, *bounds[free].T)
        value_there, gradient_there = objective(moved)
        better = np.abs(directions[:, sure].T @ gradient_there[free]).max() < np.abs(along).max()
        if not better or value_there < value - TIGHT:
            break
        value, theta, gradient = value_there, moved, gradient_there
    return value, theta


def climb_all(
    objective: Objective, starts: Sequence[Floats], bounds: Floats, steps: int, end: float = inf
) -> list[tuple[float, Floats]]:
    """Climb from each of some starts, in threads; return the results of `climb`, the highest first."""
    ends = threaded_map(lambda start: climb(objective, start, bounds, steps, end), starts)
    return sorted(ends, key=lambda result: -result[0])
