"""The progress of a fit or a selection on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isfinite, log
from time import perf_counter
from typing import TYPE_CHECKING

from ..selection.progress import duration, pace_words
from ..stopping import Stage

if TYPE_CHECKING:
    from rich.live import Live

__all__ = ["Display", "display", "duration", "sparkline"]

BARS = "▁▂▃▄▅▆▇█"
PAUSE = 0.1  # seconds between updates, as often as rich redraws: more would cost time and not be seen


def sparkline(values: Sequence[float], width: int = 32) -> str:
    """A curve as a few characters, on a logarithmic scale.

    Examples
    --------
    >>> sparkline([8.0, 4.0, 2.0, 1.0])
    '█▆▃▁'
    """
    some = [value for value in values if isfinite(value) and value > 0]
    if len(some) > width:
        some = [some[(place * (len(some) - 1)) // (width - 1)] for place in range(width)]
    if not some:
        return ""
    low, high = log(min(some)), log(max(some))
    steps = len(BARS) - 1
    return "".join(BARS[round((log(value) - low) / (high - low) * steps) if high > low else 0] for value in some)


class Display:
    """A line or two on a terminal: what is being done, and while rows are chosen, how that goes.

    It is the callback of a selection. Where standard error is no terminal, nothing is shown.
    """

    def __init__(self, live: Live | None = None) -> None:
        self._live, self._last = live, 0.0

    def step(self, what: str) -> None:
        """Say what is being done now."""
        if self._live is not None:
            self._live.update(f"{what} ...", refresh=True)

    def __call__(self, stage: Stage) -> None:
        if not stage.t:
            self.step(stage.step)
            return
        now = perf_counter()
        if self._live is None or (now - self._last < PAUSE and stage.t < stage.n_active):
            return
        self._last = now
        self._live.update(self.words(stage))
        if stage.t >= stage.n_active:
            self.step("Conditioning on the rows")

    @staticmethod
    def words(stage: Stage) -> str:
        """A stage as the display shows it: how many rows are chosen, how fast, and the RMSE so far."""
        return (
            f"Choosing rows: {stage.t} of at most {stage.n_active}, {pace_words(stage)}\n"
            f"RMSE {stage.rmse[-1]:.4g} {sparkline(stage.rmse)}"
        )


@contextmanager
def display(shown: bool) -> Iterator[Display]:
    """A display on standard error, which is cleared at the end; it shows nothing unless `shown`, on a terminal."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    if not shown or not console.is_terminal:
        yield Display()
        return
    with Live(console=console, transient=True, refresh_per_second=1 / PAUSE) as live:
        yield Display(live)
