"""How long a job will still take: the parts that it has, what each is expected to cost, and how fast it goes here.

Costs are expected seconds on some machine. How many times as long they take here is learnt as work is done:

    slowness = (elapsed + PRIOR) / (expected cost of what is done + PRIOR)

so the first seconds change little, and later the work that was done counts alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

PRIOR = 0.5  # seconds of work at the expected speed that count as done already: less would trust the first instants
MOST_DONE = 0.95  # share of a part that may be said to be done while it goes on: no one has seen its end


class Forecast:
    """The parts of a job in their order, and how far it has come.

    Parameters
    ----------
    parts : sequence of (str, float)
        The name of each part and what it is expected to cost, in seconds. A name may come again.
    clock : callable
        The time, in seconds.

    Examples
    --------
    >>> now = iter([0.0, 0.0, 30.0])
    >>> plan = Forecast([("search", 10.0), ("end", 5.0)], lambda: next(now))
    >>> plan.at("search")
    >>> plan.at("search", 0.5)  # half of 10 expected seconds have taken 30
    >>> round(plan.slowness, 1), round(plan.left), round(plan.after)
    (5.5, 55, 28)
    """

    def __init__(self, parts: Sequence[tuple[str, float]], clock: Callable[[], float] = perf_counter) -> None:
        self._parts, self._clock = list(parts), clock
        self._place, self._done = 0, 0.0
        self._began = self._now = clock()

    def at(self, name: str, done: float = 0.0) -> None:
        """Note that a share of a part is done, and all parts before it. A name that is not planned changes nothing."""
        now = self._clock()
        here = self._place
        if self._parts[here : here + 1] and self._parts[here][0] == name and done < self._done:
            here += 1  # the same part begins once more, if it is planned to
        place = next((i for i, (part, _) in enumerate(self._parts) if i >= here and part == name), None)
        if place is None:
            return
        self._place, self._done, self._now = place, min(done, MOST_DONE), now

    @property
    def slowness(self) -> float:
        """How many times as long the work takes as was expected."""
        before = sum(cost for _, cost in self._parts[: self._place])
        expected = before + self._done * self._cost
        return (self._now - self._began + PRIOR) / (expected + PRIOR)

    @property
    def left(self) -> float:
        """Expected seconds from the last note to the end of the job."""
        return self.slowness * (1 - self._done) * self._cost + self.after

    @property
    def after(self) -> float:
        """Expected seconds from the end of the current part to the end of the job."""
        return self.slowness * sum(cost for _, cost in self._parts[self._place + 1 :])

    @property
    def _cost(self) -> float:
        return self._parts[self._place][1] if self._parts else 0.0
