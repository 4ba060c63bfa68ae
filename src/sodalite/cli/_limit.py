"""The time limit of `sodalite fit`: shared out among reading, two fits, judging and writing."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..fitting.budget import Costs
    from ..stopping import Stage

AFTER = 0.5  # expected cost of judging, importance and writing, as a share of that of conditioning
AFTER_LEAST = 0.3  # least expected cost of judging, importance and writing, in seconds
WORTH_TWO = 0.85  # share of the expected time of two fits, from which on time is kept for the second
SAFETY = 1.2  # the second fit is expected to take so many times as long as the same steps of the first took
KEPT = 0.1  # share of the time limit that is kept for importance and writing
ALLOWED = 1.2  # times the limit: beyond this, it is said that the limit was too short


@dataclass
class Timetable:
    """The time limit of the command, and how long the steps of its fits take.

    Parameters
    ----------
    limit : float or None
        Seconds for the whole command; None for any time.
    """

    limit: float | None
    began: float = field(default_factory=perf_counter)
    steps: dict[str, float] = field(default_factory=dict)
    """Seconds that each step of the last fit took."""
    _step: str = ""
    _since: float = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the command began."""
        return perf_counter() - self.began

    @property
    def left(self) -> float:
        """Seconds left of the limit; infinite without one."""
        return inf if self.limit is None else max(self.limit - self.elapsed, 0.0)

    def follow(self, stage: Stage) -> None:
        """Note which step of a fit goes on: a callback of fits."""
        if stage.step != self._step:
            self.end_step()
            self._step = stage.step

    def end_step(self) -> None:
        """Note that the last step has ended."""
        now = perf_counter()
        if self._step:
            self.steps[self._step] = now - self._since
        self._step, self._since = "", now

    def of_steps(self, *names: str) -> float:
        """Seconds that some steps of the last fit took."""
        return sum(self.steps.get(name, 0.0) for name in names)

    def of_fit(self, costs: Costs, again: bool) -> float | None:
        """Seconds for the first fit. `again` is whether a second one, of all rows, is to follow; None for any time."""
        if self.limit is None:
            return None
        fit = costs.search + costs.choice + costs.condition
        return self.left * fit / (fit + self.later(costs, again and self._has_time_for_two(costs)))

    def _has_time_for_two(self, costs: Costs) -> bool:
        fit = costs.search + costs.choice + costs.condition
        return self.left >= WORTH_TWO * (fit + self.later(costs, True))

    @staticmethod
    def later(costs: Costs, again: bool) -> float:
        """The expected cost, in seconds, of what follows the first fit."""
        second = costs.choice + costs.condition if again else 0.0
        return AFTER_LEAST + AFTER * costs.condition + second

    def has_time_to_condition(self, growth: float) -> bool:
        """Whether a second fit, of so many times as many rows, can be conditioned in the time that is left."""
        from ..fitting.budget import CONDITION

        return self.limit is None or SAFETY * growth * self.of_steps(CONDITION) < self.left - KEPT * self.limit

    def of_second_fit(self) -> float | None:
        """Seconds for the second fit; None for any time."""
        from ..fitting.budget import CONDITION, MOST_RESERVED

        if self.limit is None:
            return None
        # The fit expects conditioning to take as long as on a usual machine: what it took here beyond that is kept too.
        slower = (1 - MOST_RESERVED) * self.of_steps(CONDITION)
        return max(self.left - KEPT * self.limit - slower, 0.0)

    def words(self) -> str:
        """What to say of a limit that was exceeded; empty if it was not."""
        from ..selection.progress import duration

        if self.limit is None or self.elapsed <= ALLOWED * self.limit:
            return ""
        longest = max(self.steps, key=lambda step: self.steps[step], default="")
        said = f": {longest.lower()} alone took {duration(self.steps[longest])}" if longest else ""
        return f"exceeded: {duration(self.elapsed)} instead of {duration(self.limit)}{said}"
