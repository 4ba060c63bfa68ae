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
        self.unseen: Stage | None = None

    def __call__(self, stage: Stage) -> None:
        self.unseen = stage
        if stage.t >= stage.n_active or perf_counter() - self.last >= (0.1 if self.live else 5.0):
            self._write(stage)

    def _write(self, stage: Stage) -> None:
        self.last, self.unseen = perf_counter(), None
        rate = stage.t / stage.seconds if stage.seconds > 0 else 0.0
        text = f"active rows {stage.t} of at most {stage.n_active}, RMSE {stage.rmse[-1]:.4g}, {rate:.0f} rows/s"
        self.stream.write(f"\r\x1b[2K{text}" if self.live else text + "\n")
        self.stream.flush()

    def close(self) -> None:
        """Say where it ended, if an early stop has left that unsaid, and end the line."""
        if self.unseen is not None:
            self._write(self.unseen)
        if self.live:
            self.stream.write("\n")
