"""A line of progress for long work, on standard error."""

from __future__ import annotations

import sys
from math import isfinite
from time import perf_counter
from typing import TextIO

from .pace import Pace
from .stopping import Stage


def duration(seconds: float) -> str:
    """A time for people.

    Examples
    --------
    >>> duration(8.31), duration(83), duration(8300)
    ('8.3 s', '1 min 23 s', '2 h 18 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
    return f"{seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min"


def pace_words(stage: Stage) -> str:
    """How fast it goes, who is at it, and how long it may take.

    Examples
    --------
    >>> pace_words(Stage([1.0, 0.5], seconds=0.5, n_active=4, workers=2))
    '4 rows/s, 2 workers, at most 1.5 s left'
    """
    pace = Pace.of(stage)
    words = [f"{pace.rate:.3g} rows/s" if pace.rate < 10 else f"{pace.rate:.0f} rows/s"]
    if stage.workers:
        words.append(f"{stage.workers} worker" + "s" * (stage.workers > 1))
    if stage.t < stage.n_active and isfinite(pace.left):
        words.append(f"at most {duration(pace.left)} left")
    return ", ".join(words)


class ProgressLine:
    """A callback for `sodalite.select`: stage, RMSE and rate, a few times a second.

    On a terminal the line is written over itself; elsewhere one line is written every few seconds.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty()
        self.last = perf_counter()
        self.unseen: Stage | None = None

    def __call__(self, stage: Stage) -> None:
        self.unseen = stage
        if stage.t >= stage.n_active or perf_counter() - self.last >= (0.1 if self.live else 5.0):
            self._write(stage)

    def _write(self, stage: Stage) -> None:
        self.last, self.unseen = perf_counter(), None
        self._show(f"active rows {stage.t} of at most {stage.n_active}, RMSE {stage.rmse[-1]:.4g}, {pace_words(stage)}")

    def step(self, what: str) -> None:
        """Say what is being done now."""
        self._show(f"{what} ...")

    def _show(self, text: str) -> None:
        self.stream.write(f"\r\x1b[2K{text}" if self.live else text + "\n")
        self.stream.flush()

    def close(self) -> None:
        """Say where it ended, if an early stop has left that unsaid, and end the line."""
        if self.unseen is not None:
            self._write(self.unseen)
        if self.live:
            self.stream.write("\n")
