"""The display of progress: a line on standard error, or a bar in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from importlib import import_module
from math import inf, isfinite
from time import perf_counter
from typing import Any, TextIO

from ..stopping import Callback, Stage
from .clock import PAUSE, Clock, pace

LOGGED = 5.0  # seconds between two lines, where standard error is not a terminal


def duration(seconds: float) -> str:
    """A time in words.

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


def estimate(seconds: float) -> str:
    """A time that is only expected, in words: to a second, to 5 seconds from 10 seconds on, to a minute from 2 on.

    Examples
    --------
    >>> estimate(0.2), estimate(8.31), estimate(83), estimate(250)
    ('about 1 s left', 'about 8 s left', 'about 1 min 25 s left', 'about 4 min left')
    """
    if seconds < 10:
        return f"about {max(round(seconds), 1)} s left"
    if seconds < 60:
        return f"about {5 * round(seconds / 5)} s left"
    if seconds < 120:
        return f"about 1 min {5 * round((seconds - 60) / 5)} s left"
    if seconds < 3600:
        return f"about {round(seconds / 60)} min left"
    return f"about {seconds // 3600:.0f} h {seconds % 3600 // 60:.0f} min left"


def step_words(stage: Stage) -> str:
    """A step of a fit in words, with the time that the fit is expected to take from now on.

    Examples
    --------
    >>> step_words(Stage((), 1.0, step="Finding the kernel", detail="round 2", left=7.6))
    'Finding the kernel: round 2 ... about 8 s left'
    """
    words = f"{stage.step}: {stage.detail}" if stage.detail else stage.step
    return f"{words} ... {estimate(stage.left)}" if isfinite(stage.left) else f"{words} ..."


def pace_words(stage: Stage) -> str:
    """The rate of a selection, its workers and the time left, in words; of a fit, the time that all of it may take.

    Examples
    --------
    >>> pace_words(Stage([1.0, 0.5], seconds=0.5, n_active=4, workers=2))
    '4 rows/s, 2 workers, at most 1.5 s left'
    >>> pace_words(Stage([1.0, 0.5], seconds=0.5, n_active=4, workers=2, left=3.0))
    '4 rows/s, 2 workers, about 3 s left'
    """
    rate, left = pace(stage)
    words = [f"{rate:.3g} rows/s" if rate < 10 else f"{rate:.0f} rows/s"]
    if stage.workers:
        words.append(f"{stage.workers} worker" + "s" * (stage.workers > 1))
    if isfinite(stage.left):
        words.append(estimate(stage.left))
    elif stage.t < stage.n_active and isfinite(left):
        words.append(f"at most {duration(left)} left")
    return ", ".join(words)


@contextmanager
def following(*callbacks: Callback | None, verbose: bool) -> Iterator[Clock]:
    """A clock that calls some callbacks and, with `verbose`, a display of progress."""
    shown = progress_display() if verbose else None
    try:
        yield Clock(*callbacks, shown)
    finally:
        if shown is not None:
            shown.close()


class ProgressLine:
    """A callback for fits and for `sodalite.select`: stage, RMSE and rate, a few times a second.

    On a terminal the line is written over itself; elsewhere one line is written every few seconds.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.live = self.stream.isatty()
        self.last = perf_counter()
        self.step = ""
        self.unseen: Stage | None = None
        self.chosen: Stage | None = None

    def __call__(self, stage: Stage) -> None:
        is_due = perf_counter() - self.last >= (PAUSE if self.live else LOGGED)
        if not stage.t:
            if self.unseen is not None:
                self._show(self.unseen)
            if stage.step != self.step or self.live or is_due:
                self.step = stage.step
                self._show(stage)
            return
        self.unseen = self.chosen = stage
        self.step = stage.step
        if stage.t >= stage.n_active or is_due:
            self._show(stage)

    def _show(self, stage: Stage) -> None:
        self.last, self.unseen = perf_counter(), None
        if stage.t:
            self._write(words(stage), stage)
        else:
            self._write(step_words(stage))

    def _write(self, text: str, stage: Stage | None = None) -> None:
        self.stream.write(f"\r\x1b[2K{text}" if self.live else text + "\n")
        self.stream.flush()

    def close(self) -> None:
        """Show the last stage, if it has not been shown or another step has replaced it, and end the line."""
        self._show_last()
        if self.live:
            self.stream.write("\n")

    def _show_last(self) -> None:
        last = self.unseen or (self.chosen if self.live else None)
        if last is not None and (self.unseen is not None or self.step != last.step):
            self._show(replace(last, left=inf))


class NotebookProgress(ProgressLine):
    """A callback like `ProgressLine`, for notebooks: a bar and the words, in one output that is replaced."""

    def __init__(self, display: Any) -> None:
        super().__init__()
        self.live, self._display, self._handle = True, display, None

    def _write(self, text: str, stage: Stage | None = None) -> None:
        value = "" if stage is None else f' max="{stage.n_active}" value="{stage.t}"'
        bar = f'<progress{value} style="vertical-align:middle"></progress>'
        content = {"text/plain": text, "text/html": f"{bar} {escape(text)}"}
        if self._handle is None:
            self._handle = self._display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

    def close(self) -> None:
        """Show the last stage, if it has not been shown or another step has replaced it."""
        self._show_last()


def progress_display() -> ProgressLine:
    """A bar in a notebook, a line elsewhere."""
    ipython = sys.modules.get("IPython")  # imported already, if this is a notebook
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:
        return ProgressLine()
    return NotebookProgress(import_module("IPython.display").display)


def words(stage: Stage) -> str:
    """A stage in words: active rows, RMSE and pace."""
    return f"active rows {stage.t} of at most {stage.n_active}, RMSE {stage.rmse[-1]:.4g}, {pace_words(stage)}"
