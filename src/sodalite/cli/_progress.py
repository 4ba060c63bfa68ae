"""The progress of a fit or a selection on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf, isfinite
from time import perf_counter

from rich.console import Console, ConsoleOptions
from rich.live import Live
from rich.text import Text

from ..fitting.clock import PAUSE
from ..fitting.progress import estimate, pace_words
from ..stopping import Stage


class Display:
    """One line on a terminal: what is being done, the time since the beginning, and the time left.

    It is the callback of a fit or a selection, and a renderable of rich, which asks for the line a few times a second.
    Where standard error is no terminal, nothing asks.
    """

    def __init__(self) -> None:
        self._began = self._last = perf_counter()
        self._text, self._left = "", inf

    def step(self, what: str) -> None:
        """Say what is being done now."""
        self(Stage((), 0.0, step=what))

    def __call__(self, stage: Stage) -> None:
        now = perf_counter()
        if stage.t and now - self._last < PAUSE and stage.t < stage.n_active:
            return
        self._text, self._left, self._last = self.words(stage), stage.left, now

    @staticmethod
    def words(stage: Stage) -> str:
        """A stage as the display shows it: the step or, while rows are chosen, how many and the RMSE so far."""
        if not stage.t:
            return f"{stage.step}: {stage.detail} ..." if stage.detail else f"{stage.step} ..."
        words = f"Choosing rows: {stage.t} of at most {stage.n_active}, RMSE {stage.rmse[-1]:.4g}"
        return words if isfinite(stage.left) else f"{words}, {pace_words(stage)}"

    def line(self) -> str:
        """The line as it is now, times first: a narrow terminal cuts the end of a line.

        An estimate that has passed is no longer shown.
        """
        now = perf_counter()
        left = self._left - (now - self._last)
        known = f", {estimate(left)}" if isfinite(left) and left > 0 else ""
        return f"{now - self._began:.0f} s{known}: {self._text}"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield Text(self.line(), no_wrap=True, overflow="ellipsis")


@contextmanager
def display(shown: bool, first: str) -> Iterator[Display]:
    """A display on standard error, which is cleared at the end; it shows nothing unless `shown`, on a terminal.

    `first` is the step with which it begins.
    """
    console, line = Console(stderr=True, highlight=False, markup=False, emoji=False), Display()
    line.step(first)
    if not shown or not console.is_terminal:
        yield line
        return
    with Live(line, console=console, transient=True, refresh_per_second=1 / PAUSE):
        yield line
