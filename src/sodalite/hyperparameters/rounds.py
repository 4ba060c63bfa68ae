"""Rounds that raise J and choose rows anew, for the posteriors that know the active rows alone or see others by them.

The method is described in docs/method.rst, `weave`. Some rows are set aside. A round raises J of the active rows and a
sample of the remainder, with the choice of rows held fixed (`sodalite.hyperparameters.joint`). Then rows are chosen
anew, and the rows set aside are predicted. A round is kept only if J does not fall and these are predicted better, so
no round makes things worse by this measure, and the cost is bounded. Active sets are small first, and grow.
"""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.types import Floats
from ..kernels import compile_kernel
from ..posteriors import Evidence
from ..posteriors.calibration import log_densities
from ..selection.grow import grow
from ..selection.loop import Selection
from ..selection.rows import ArrayRows
from ..stopping import Size
from .climb import climb
from .joint import Joint
from .parameters import is_within_bounds
from .task import Found, Progress, Round, Task

SIZES = (100, 200, 400)  # of the active sets: small ones first, as a round costs O(m^3 + n m^2)
N_RAISED = 4000  # rows of the sample that stands for all of the remainder in J
STEPS = 8  # steps of the climb of a round
WORTH = 1e-3  # nats per target value that a round must gain to be kept; smaller gains are not worth their time


class Verdict(NamedTuple):
    """The value of a kernel, per target value."""

    densities: Floats
    """Log densities of the rows set aside, of shape (rows,)."""
    joint: float = 0.0
    """J of the rows that the kernel chooses."""

    @property
    def density(self) -> float:
        """The mean log density."""
        return float(self.densities.mean())

    def beats(self, other: Verdict, worth: float = 0.0) -> bool:
        """Whether the mean density is larger, by more than `worth` and than its standard error, and J is no lower."""
        if not np.isfinite([self.density, other.density]).all():
            return bool(self.density > other.density)
        gain = self.densities - other.densities
        standard_error = gain.std() / np.sqrt(len(gain))
        return self.joint >= other.joint and bool(gain.mean() > max(worth, standard_error))


class Rounds:
    """Rounds under way: the best kernel so far, the verdict on it, and the rounds that led to it.

    Parameters
    ----------
    task : Task
    found : Found
        The result of the search from which the rounds begin.
    end : float
        The time, by `time.perf_counter`, after which no round begins.
    generator : numpy.random.Generator
    n_judged : int
        Rows that are set aside, at most a third of all.
    """

    def __init__(self, task: Task, found: Found, end: float, generator: np.random.Generator, n_judged: int) -> None:
        order = generator.permutation(len(task.X))
        count = min(n_judged, max(len(order) // 3, 1))
        judged, others = (order, order) if len(order) == 1 else (order[:count], order[count:])
        self.aside, self.task, self._end, self._began = task.take(judged), task.take(others), end, perf_counter()
        most = max(1, min(task.n_active, len(order) // 2))
        self.sizes = sorted({min(size, most) for size in SIZES})
        self.n_active = self.sizes.pop(0)
        self.rounds = list(found.rounds)
        self.progress = Progress(task.report, len(SIZES) + 1.0)
        self._last: tuple[Kernel, Selection] | None = None
        self.best = self.origin = found.kernel
        self.top = self.judge(found.kernel)
        self._note("start", found.kernel, self.top, True)

    def try_as_given(self, kernel: Kernel) -> None:
        """Try a user's kernel at the parameters that it was given, if they are within their bounds.

        Good ones are not to be lost.
        """
        if perf_counter() <= self._end and is_within_bounds(kernel):
            given = kernel.clone_with_theta(kernel.theta)
            verdict = self.judge(given)
            if self._keep_if(verdict.beats(self.top), "as given", given, verdict):
                self.origin = given

    def run(self, n_rounds: int) -> Found:
        """Go through at most so many rounds: until the time is up, or one has failed with the largest active set."""
        for turn in range(1, n_rounds + 1):
            if perf_counter() > self._end:
                break
            self.progress.begin(f"round {turn} of at most {n_rounds}", 1.0)
            if turn > 1 and self.sizes:
                self._grow()
            if not self._round() and not self.sizes:
                break
        return Found(self.best, tuple(self.rounds))

    def judge(self, kernel: Kernel) -> Verdict:
        """The log densities of the rows set aside, and J of the rows that the kernel chooses."""
        task, aside, selection = self.task, self.aside, self._chosen(kernel)
        evidence = Evidence(compile_kernel(kernel, task.X), ArrayRows(task.X, task.y, task.alpha), selection)
        mean, variance = task.posterior.condition(evidence).mean_and_variance(aside.X, noisy=True)
        variance = np.maximum(variance if aside.alpha is None else variance + aside.alpha, selection.noise_floor)
        return Verdict(log_densities(aside.y - mean, variance), self._joint(kernel)(kernel.theta)[0])

    def _grow(self) -> None:
        """Enlarge the active set, and go back to the origin if that is better by it. Verdicts before do not compare."""
        self.n_active, self._last = self.sizes.pop(0), None
        self.top, verdict = self.judge(self.best), self.judge(self.origin)
        has_fallen = self.best is not self.origin and not self.top.beats(verdict)
        self._keep_if(has_fallen, "start again", self.origin, verdict)

    def _round(self) -> bool:
        """Climb from the best kernel and keep the result, or one half of the way; whether either was worth it."""
        theta = climb(self._joint(self.best), self.best.theta, self.best.bounds, STEPS, self._end)[1]
        tried = self.best.clone_with_theta(theta)
        verdict, name = self.judge(tried), "round"
        if not verdict.beats(self.top, WORTH):  # perhaps it went too far
            tried = self.best.clone_with_theta(0.5 * (self.best.theta + tried.theta))
            verdict, name = self.judge(tried), "half a round"
        return self._keep_if(verdict.beats(self.top, WORTH), name, tried, verdict)

    def _joint(self, kernel: Kernel) -> Joint:
        """J for the active rows that a kernel chooses."""
        task = self.task
        sample = np.arange(min(N_RAISED, len(task.X)))  # the rows are in random order
        return Joint(kernel, task.X, task.y, self._chosen(kernel).indices, sample, task.alpha)

    def _chosen(self, kernel: Kernel) -> Selection:
        """The rows that a kernel chooses. The last choice is cached: a round starts from a kernel that was judged."""
        if self._last is None or self._last[0] is not kernel:
            task = self.task
            selection = grow(
                ArrayRows(task.X, task.y, task.alpha),
                compile_kernel(kernel, task.X),
                n_active=self.n_active,
                criterion=task.criterion,
                rule=Size(self.n_active),
                generator=np.random.default_rng(0),
            )
            self._last = kernel, selection
        return self._last[1]

    def _keep_if(self, is_better: bool, name: str, kernel: Kernel, verdict: Verdict) -> bool:
        """Record a round; if it is better, its kernel is the best one. Returns `is_better`."""
        self._note(name, kernel, verdict, is_better)
        if is_better:
            self.best, self.top = kernel, verdict
        return is_better

    def _note(self, name: str, kernel: Kernel, verdict: Verdict, kept: bool) -> None:
        """Record a round, and the time since the one before."""
        now = perf_counter()
        level = f"{self.n_active} active rows"
        self.rounds.append(Round(name, kernel, verdict.density, kept, now - self._began, level))
        self._began = now
