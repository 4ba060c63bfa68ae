"""The pace of a selection: its rate, and an estimate of the time left.

Stage t takes a + b t seconds: a for reading every row, and b for each active row. So the time up to stage t is about
a t + b t^2 / 2, and an estimate from a constant rate would be far too low. The unknowns a and b follow from the times
at which the stages so far ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import inf

from ..stopping import Stage


@dataclass(frozen=True)
class Pace:
    """The rate of a selection and the time that it may still take."""

    rate: float
    """Rows chosen per second, over the latter half of the stages so far; 0 if that is not known."""
    left: float
    """Estimated seconds up to `n_active` rows or the time limit: a rule may end the selection earlier. Infinite if not
    known."""

    @classmethod
    def of(cls, stage: Stage) -> Pace:
        """The pace at a stage.

        Examples
        --------
        >>> times = [0.01 * t + 0.001 * t**2 for t in range(1, 101)]
        >>> pace = Pace.of(Stage([1.0] * 100, times[-1], n_active=200, times=times))
        >>> round(pace.rate, 2), round(pace.left, 6)  # 200 stages take 42 seconds, of which 11 have passed
        (6.02, 31.0)
        """
        t, m, now = stage.t, stage.n_active, stage.seconds
        ends = _ends(stage)
        # Without the first eighth of the stages, whose blocks are short: from stage u, and in two halves, at stage h.
        first = next((place for place, (at, _) in enumerate(ends) if at >= t // 8), 0)
        u, began = ends[first] if ends[first][0] < t else (0, 0.0)
        middle = [end for end in ends if u < end[0] < t]
        if not now > began:
            return cls(0.0, 0.0 if t >= m else inf)
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
        return cls(rate, max(0.0, min(left, stage.time_limit - now)))


def _ends(stage: Stage) -> list[tuple[int, float]]:
    """The last stage of every block and when it ended: all stages of a block have the same time."""
    times = [*stage.times[:-1], stage.seconds]
    ends = [(t, now) for t, (now, after) in enumerate(pairwise(times), 1) if after > now]
    return [(0, 0.0), *ends, (stage.t, stage.seconds)]
