"""A line of progress for long work, on standard error."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TextIO

from .stopping import Stage


class ProgressLine:
    """A callback for `sodalite.select`: stage, RMSE and rate, a few times a second.

    On a terminal the line is written over itself; elsewhere one line is written every few seconds.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty()
        self.last = perf_counter()

    def __call__(self, stage: Stage) -> None:
        done = stage.t >= stage.n_active
        if not done and perf_counter() - self.last < (0.1 if self.live else 5.0):
            return
        self.last = perf_counter()
        rate = stage.t / stage.seconds if stage.seconds > 0 else 0.0
        text = f"active rows {stage.t} of at most {stage.n_active}, RMSE {stage.rmse[-1]:.4g}, {rate:.0f} rows/s"
        self.stream.write(f"\r\x1b[2K{text}" if self.live else text + "\n")
        self.stream.flush()

    def close(self) -> None:
        """End the line."""
        if self.live:
            self.stream.write("\n")
