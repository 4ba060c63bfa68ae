"""The clock of a fit: what its steps are expected to cost, its time limit, and how long what remains will take.

Costs are rough: seconds on two cores of a usual server, from default fits of 300 to 100 000 rows. How many times as
long they take here is learnt as work is done:

    slowness = (elapsed + PRIOR) / (expected cost of what is done + PRIOR)

so the first seconds change little, and later the work that was done counts alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf
from time import perf_counter
from typing import NamedTuple

from ..stopping import Callback, Stage

RACE, MEAN, SEARCH, CHOICE, CONDITION = (
    "Comparing means and scales",
    "Fitting the mean function",
    "Finding the kernel's parameters",
    "Choosing rows",
    "Conditioning on the rows",
)
"""The steps of a fit, as they are called where its progress is shown."""

RACE_COST = 0.2  # seconds of the race of means and scales, on a few hundred rows
FEW = 1500  # rows up to which the exact likelihood of all of them is raised
SEARCH_SHARE = 0.75  # share of the time that conditioning leaves for the search; the selection has the rest
LEAST_CHOICE = 0.1  # share of the time limit that the selection has at least
MOST_RESERVED = 0.6  # share of the time limit that is kept for conditioning at most
SAFETY = 1.3  # factor on the expected time of conditioning, which cannot be cut short
PRIOR = 0.5  # seconds of work at the expected speed that count as done already: less would trust the first instants
MOST_DONE = 0.95  # share of a step that may be called done while it goes on: its end has not been seen
PACED = 0.3  # share of the active rows from which on their pace tells how long the others take
PAUSE = 0.1  # seconds between two estimates while rows are chosen, each of which takes O(t)


@dataclass(frozen=True)
class Costs:
    """The expected cost of each step of a fit, in seconds."""

    mean: float
    search: float
    choice: float
    condition: float

    @classmethod
    def of(cls, n: int, d: int, m: int, *, predicts_locally: bool, searches: bool, has_mean: bool) -> Costs:
        """The costs of a fit of n rows with d inputs and m active rows.

        `predicts_locally` is whether the posterior predicts from neighbours, as "local" does.
        """
        m = min(m, n)
        if not searches:
            search = 0.0
        elif n <= FEW:
            search = 0.1 + 0.18 * (1 + d) * (n / FEW) ** 2
        else:
            search = 5.0 + 2e-5 * min(n, 100_000) if predicts_locally else 15.0
        local = 3.0 * min(1.0, (n / 5000)) + 4e-5 * n
        return cls(
            mean=0.5 + 2e-5 * min(n, 200_000) * (1 + d) if has_mean else 0.0,
            search=search,
            choice=2e-3 * m + 2.2e-5 * n * (m / 500) ** 1.5,
            condition=local if predicts_locally else 0.1 + 2e-9 * n * m,
        )

    def steps(self, competes: bool = False) -> Iterator[tuple[str, float]]:
        """The steps in their order, with their costs; `competes` is whether means and scales do."""
        if competes:
            yield RACE, RACE_COST
        yield MEAN, self.mean
        yield SEARCH, self.search
        yield CHOICE, self.choice
        yield CONDITION, self.condition


@dataclass(frozen=True)
class Budget:
    """The time limit of a model, shared out among its steps: what cannot be cut short is kept back from the others."""

    limit: float | None
    """Seconds from the beginning; None for no limit."""
    costs: Costs
    began: float = field(default_factory=perf_counter)

    def for_search(self) -> float:
        """Seconds that the search for the kernel may take, from now on."""
        if self.limit is None:
            return inf
        return SEARCH_SHARE * max(self.limit - self._elapsed - self._reserve(1.0), 0.0)

    def for_choice(self, searched: float, slowness: float) -> float | None:
        """Seconds that the selection may take, from now on; None for no limit.

        Parameters
        ----------
        searched : float
            Seconds that the search took: longer than has passed, if it is read from a checkpoint.
        slowness : float
            How many times as long the steps so far have taken as they were expected to.
        """
        if self.limit is None:
            return None
        left = self.limit - max(searched, self._elapsed) - self._reserve(slowness)
        return max(left, LEAST_CHOICE * self.limit)

    @property
    def _elapsed(self) -> float:
        return perf_counter() - self.began

    def _reserve(self, slowness: float) -> float:
        """Seconds that are kept for conditioning."""
        assert self.limit is not None
        return min(SAFETY * slowness * self.costs.condition, MOST_RESERVED * self.limit)


class Clock:
    """The clock of a job: it follows the job's steps, estimates the time left, and passes both on to callbacks.

    A clock is a callback itself: that of a command follows those of its fits.

    Parameters
    ----------
    *callbacks : callable or None
    limit : float, optional
        Seconds for the job, which bound the estimates.
    began : float, optional
        When the job began, by ``time.perf_counter``; now by default.

    Examples
    --------
    >>> clock = Clock(lambda stage: print(f"{stage.step}: {stage.left:.0f} s left"))
    >>> clock.expect([("Searching", 10.0), ("Writing", 5.0)])
    >>> clock.say("Searching")
    Searching: 15 s left
    """

    def __init__(self, *callbacks: Callback | None, limit: float | None = None, began: float | None = None) -> None:
        self.limit, self.began = limit, perf_counter() if began is None else began
        self.took: dict[str, float] = {}
        """Seconds that each step took when it was last done."""
        self._callbacks = [callback for callback in callbacks if callback is not None]
        self._step, self._step_began = "", self.began
        self.expect(())

    def expect(self, parts: Sequence[tuple[str, float]]) -> None:
        """Set the steps that now begin, in their order, with their expected costs in seconds. One may come again."""
        self._parts, self._place, self._done = list(parts), 0, 0.0
        self._planned = self._noted = perf_counter()
        self._left, self._told = inf, 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the job began."""
        return perf_counter() - self.began

    @property
    def remaining(self) -> float:
        """Seconds left of the limit; infinite without one."""
        return inf if self.limit is None else max(self.limit - self.elapsed, 0.0)

    def say(self, step: str, detail: str = "", done: float = 0.0) -> None:
        """Tell the callbacks that a step, or a part of it, begins, when a share of the step is done.

        None of them can end the job here: a fit needs rows.
        """
        with suppress(StopIteration):
            self(Stage((), self.elapsed, step=step, detail=detail, done=done))

    def __call__(self, stage: Stage) -> None:
        """Call all callbacks; StopIteration of one of them is raised after the last."""
        if stage.step != self._step:
            now = perf_counter()
            self.took[self._step] = now - self._step_began
            self._step, self._step_began = stage.step, now
        if self._parts:
            stage = replace(stage, left=self._left_at(stage))
        asked = []
        for callback in self._callbacks:
            try:
                callback(stage)
            except StopIteration as stop:
                asked.append(stop)
        if asked:
            raise asked[0]

    def _left_at(self, stage: Stage) -> float:
        """Expected seconds left; of rows that are chosen by their pace, once it shows."""
        now = perf_counter()
        if not stage.t:
            self.at(stage.step, stage.done)
            self._left, self._told = self.left, now
        elif now - self._told >= PAUSE or stage.t in (1, stage.n_active):
            self.at(stage.step, stage.t / max(stage.n_active, 1))
            within = pace(stage).left if stage.t >= PACED * stage.n_active else self.left - self.after
            self._left, self._told = min(within, stage.time_limit - stage.seconds) + self.after, now
        left = max(self._left - (now - self._told), 0.0)
        return min(left, self.remaining) if self.remaining else left

    def at(self, name: str, done: float = 0.0) -> None:
        """Note that a share of a step is done, and all steps before it. A name that is not planned changes nothing."""
        here = self._place
        if self._parts[here : here + 1] and self._parts[here][0] == name and done < self._done:
            here += 1  # the same step begins once more, if it is planned to
        place = next((i for i, (part, _) in enumerate(self._parts) if i >= here and part == name), None)
        if place is not None:
            self._place, self._done, self._noted = place, min(done, MOST_DONE), perf_counter()

    @property
    def slowness(self) -> float:
        """How many times as long the work takes as was expected; 1 if nothing was."""
        if not self._parts:
            return 1.0
        before = sum(cost for _, cost in self._parts[: self._place])
        return (self._noted - self._planned + PRIOR) / (before + self._done * self._cost + PRIOR)

    @property
    def left(self) -> float:
        """Expected seconds from the last note to the end of the job."""
        return self.slowness * (1 - self._done) * self._cost + self.after

    @property
    def after(self) -> float:
        """Expected seconds from the end of the current step to the end of the job."""
        return self.slowness * sum(cost for _, cost in self._parts[self._place + 1 :])

    @property
    def _cost(self) -> float:
        return self._parts[self._place][1] if self._parts else 0.0


class Pace(NamedTuple):
    """The rate of a selection and the time that it may still take."""

    rate: float
    """Rows chosen per second, over the latter half of the stages so far; 0 if that is not known."""
    left: float
    """Estimated seconds up to `n_active` rows or the time limit: a rule may end the selection earlier. Infinite if not
    known."""


def pace(stage: Stage) -> Pace:
    """The pace of a selection at a stage.

    Stage t takes a + b t seconds: a for reading every row, and b for each active row. So the time up to stage t is
    about a t + b t^2 / 2, and an estimate from a constant rate would be far too low. The unknowns a and b follow from
    the times at which the stages so far ended.

    Examples
    --------
    >>> times = [0.01 * t + 0.001 * t**2 for t in range(1, 101)]
    >>> rate, left = pace(Stage([1.0] * 100, times[-1], n_active=200, times=times))
    >>> round(rate, 2), round(left, 6)  # 200 stages take 42 seconds, of which 11 have passed
    (6.02, 31.0)
    """
    t, m, now = stage.t, stage.n_active, stage.seconds
    ends = _ends(stage)
    # Without the first eighth of the stages, whose blocks are short: from stage u, and in two halves, at stage h.
    first = next((place for place, (at, _) in enumerate(ends) if at >= t // 8), 0)
    u, began = ends[first] if ends[first][0] < t else (0, 0.0)
    middle = [end for end in ends if u < end[0] < t]
    if not now > began:
        return Pace(0.0, 0.0 if t >= m else inf)
    h, half = min(middle, key=lambda end: abs(end[0] - (u + t) / 2), default=(u, began))
    rate = (t - h) / (now - half) if now > half else (t - u) / (now - began)
    if middle:
        # From stage u to stage t it takes a (t - u) + b (t^2 - u^2); likewise from u to h and from h to t.
        one, other = (half - began) / (h - u), (now - half) / (t - h)
        b = max((other - one) / (t - u), 0.0)
        a = (now - began) / (t - u) - b * (t + u)
    if not middle or a < 0:
        a, b = 0.0, (now - began) / (t * t - u * u)
    left = a * (m - t) + b * (m * m - t * t)
    return Pace(rate, max(0.0, min(left, stage.time_limit - now)))


def _ends(stage: Stage) -> list[tuple[int, float]]:
    """The last stage of every block and when it ended: all stages of a block have the same time."""
    times = [*stage.times[:-1], stage.seconds]
    ends = [(t, now) for t, (now, after) in enumerate(pairwise(times), 1) if after > now]
    return [(0, 0.0), *ends, (stage.t, stage.seconds)]
