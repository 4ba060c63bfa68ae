"""How fast a selection goes, and how long it may still take: the arithmetic, for any display.

The work of stage t is a + b t: all rows are looked at, and the t rows that are active already are taken into account.
So time goes like a t + b t^2 / 2, and a rate that is taken as it was would promise far too much. The two unknowns
follow from the times at which the last stages ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import inf

from ..stopping import Stage


@dataclass(frozen=True)
class Pace:
    """How a selection goes."""

    rate: float
    """Active rows a second, of late; 0 if that is not known."""
    left: float
    """Seconds that it takes at most if it goes on like this: a rule may end it earlier. Infinite if not known."""

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
        first = next((place for place, (at, _) in enumerate(ends) if at >= t // 8), 0)
        u, began = ends[first] if ends[first][0] < t else (0, 0.0)
        middle = [end for end in ends if u < end[0] < t]
        if not now > began:
            return cls(0.0, 0.0 if t >= m else inf)
        h, half = min(middle, key=lambda end: abs(end[0] - (u + t) / 2), default=(u, began))
        rate = (t - h) / (now - half) if now > half else (t - u) / (now - began)
        if middle:
            # Of a (t - u) + b (t^2 - u^2), known for u to h and for h to t.
            one, other = (half - began) / (h - u), (now - half) / (t - h)
            b = max((other - one) / (t - u), 0.0)
            a = (now - began) / (t - u) - b * (t + u)
        if not middle or a < 0:
            a, b = 0.0, (now - began) / (t * t - u * u)
        left = a * (m - t) + b * (m * m - t * t)
        return cls(rate, max(0.0, min(left, stage.time_limit - now)))


def _ends(stage: Stage) -> list[tuple[int, float]]:
    """The stages at which blocks ended, and when: all stages of a block have the same time."""
    times = [*stage.times[:-1], stage.seconds]
    ends = [(t, now) for t, (now, after) in enumerate(pairwise(times), 1) if after > now]
    return [(0, 0.0), *ends, (stage.t, stage.seconds)]
