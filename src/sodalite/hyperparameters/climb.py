"""Climbs: an objective is raised by L-BFGS within bounds, for some steps or to its maximum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from time import perf_counter

import numpy as np

from ..core.threads import one_blas_thread, raise_if_broken_off, threaded_map
from ..core.types import Floats

Objective = Callable[[Floats], tuple[float, Floats]]
"""A function of log-parameters theta, of shape (p,), that returns a value of order 1 and its gradient, (p,)."""

Change = tuple[Floats, Floats]
"""A step, and by how much the gradient fell along it: the curvature in one direction."""

# A climb ends where so much is promised at most, in nats per target value.
ROUGH = 1e-6  # for one of many climbs, which are only compared
TIGHT = 1e-24  # at the maximum, as far as rounding shows it: the promise is the square of the gradient

MEMORY = 20  # steps that tell the curvature; each costs a few microseconds in every step after it
FARTHEST = 2.0  # longest step in a log-parameter: the curvature is another that far away
RISE, SLOPE = 1e-4, 0.9  # shares of the slope: that a step gains at least, and that is left after it at most (Wolfe)
TRIALS = 10  # lengths of a step that are tried
LONGER = 4.0  # factor between lengths while the objective rises as steeply as at the start
SHORTER = 0.1, 0.5  # the least and the largest factor between a length that went too far and the next
ROUNDING = 1e-12  # share of the value that rounding may take from it: nearer the maximum, the gradient alone counts


class Climb:
    """A climb under way, with what its steps have told of the curvature.

    Parameters
    ----------
    objective : callable
        An `Objective`.
    theta : array of shape (p,)
        Where it begins; what is out of bounds is moved to them.
    bounds : array of shape (p, 2)
    changes : sequence of Change
        Of a climb of an objective with much the same curvature, such as that of fewer rows.
    """

    def __init__(self, objective: Objective, theta: Floats, bounds: Floats, changes: Sequence[Change] = ()) -> None:
        self.objective, self.bounds, self.changes = objective, bounds, list(changes)
        theta = np.clip(theta, *bounds.T)
        self.best: tuple[float, Floats] = -inf, theta
        """The largest value seen, and where that was."""
        self._go_to(theta, *self._at(theta))
        self.direction = self._towards_maximum()
        """The step to the maximum of the parabola that the steps so far tell of, of shape (p,)."""

    @property
    def promise(self) -> float:
        """By how much the objective is larger at that maximum, per target value."""
        return 0.5 * float(self.gradient @ self.direction)

    def go_on(self, steps: int, end: float = inf, tolerance: float = ROUGH) -> None:
        """Take at most so many steps: until no more than `tolerance` is promised, or the time is `end`."""
        for _ in range(steps):
            if not self.promise > tolerance or not self.step() or perf_counter() > end:
                return

    def step(self) -> bool:
        """Take a step in the direction, of a length that raises the objective; whether there was one."""
        slope = float(self.gradient @ self.direction)
        if not slope > 0:
            return False
        reach = FARTHEST / max(float(np.abs(self.direction).max()), np.finfo(np.float64).tiny)
        length, before, higher = min(1.0, reach), (self.theta, self.gradient), None
        for _ in range(TRIALS):
            theta = np.clip(self.theta + length * self.direction, *self.bounds.T)
            value, gradient = self._at(theta)
            gain, left = value - self.value, float(gradient @ self.direction) / slope
            is_at_maximum = self._is_hidden(gain) and abs(left) < SLOPE
            if gain >= RISE * float(self.gradient @ (theta - self.theta)) or is_at_maximum:
                if higher is not None and value < higher[1]:
                    break
                higher = theta, value, gradient
                if left <= SLOPE or length == reach:
                    break
                length = min(LONGER * length, reach)
            elif higher is not None:
                break
            else:
                curved = length * slope - gain  # twice what a parabola with this value falls by, from the tangent
                length *= float(np.clip(0.5 * length * slope / curved, *SHORTER)) if np.isfinite(curved) else SHORTER[0]
        if higher is None:
            has_curvature = bool(self.changes) and slope > ROUNDING
            self.changes = []
            self.direction = self._towards_maximum() if has_curvature else np.zeros_like(self.gradient)
            return has_curvature
        self._go_to(*higher)
        step, fall = self.theta - before[0], before[1] - self.gradient
        if step @ fall > np.finfo(np.float64).eps * (fall @ fall):
            self.changes = [*self.changes[1 - MEMORY :], (step, fall)]
        self.direction = self._towards_maximum()
        return True

    def _go_to(self, theta: Floats, value: float, gradient: Floats) -> None:
        self.theta, self.value, self.gradient = theta, value, gradient
        if self._is_hidden(value - self.best[0]):  # then the gradient knows better which is the best
            self.best = value, theta

    def _is_hidden(self, gain: float) -> bool:
        """Whether rounding may hide a gain."""
        return abs(gain) <= ROUNDING * max(abs(self.value), 1.0)

    def _at(self, theta: Floats) -> tuple[float, Floats]:
        raise_if_broken_off()
        value, gradient = self.objective(theta)
        if value > self.best[0]:
            self.best = value, theta.copy()
        return value, gradient

    def _towards_maximum(self) -> Floats:
        """The product of the gradient and the inverse curvature, of shape (p,), by two loops (Nocedal 1980).

        Parameters at a bound that the objective rises beyond stay there.
        """
        (low, high), gradient = self.bounds.T, self.gradient
        free = ((self.theta > low) | (gradient > 0)) & ((self.theta < high) | (gradient < 0))
        along, shares = gradient * free, []
        for step, fall in reversed(self.changes):
            shares.append((step @ along) / (step @ fall))
            along = along - shares[-1] * fall
        if self.changes:
            step, fall = self.changes[-1]
            along = along * ((step @ fall) / (fall @ fall))
        for step, fall in self.changes:
            along = along + (shares.pop() - (fall @ along) / (step @ fall)) * step
        return np.asarray(along * free)


def climb(
    objective: Objective, start: Floats, bounds: Floats, steps: int, end: float = inf, tolerance: float = ROUGH
) -> tuple[float, Floats]:
    """Maximise an objective within bounds; return the largest value seen and where that was.

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
        The climb ends where no more is promised: `ROUGH`, or `TIGHT` for the maximum.
    """
    with one_blas_thread():  # its own products are tiny: a second thread would cost more than all of the climb
        under_way = Climb(objective, start, bounds)
        under_way.go_on(steps, end, tolerance)
    return under_way.best


def climb_all(
    objective: Objective, starts: Sequence[Floats], bounds: Floats, steps: int, end: float = inf
) -> list[tuple[float, Floats]]:
    """Climb from each of some starts, in threads; return the results of `climb`, the highest first."""
    ends = threaded_map(lambda start: climb(objective, start, bounds, steps, end), starts)
    return sorted(ends, key=lambda result: -result[0])
