"""The display of progress: a line on standard error, or a bar in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from html import escape
from importlib import import_module
from math import isfinite
from time import perf_counter
from typing import Any, TextIO

from ..stopping import Callback, Stage
from .pace import Pace

LIVE, LOGGED = 0.1, 5.0  # seconds between two displays, on a terminal or in a notebook, and in a file of lines


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


def pace_words(stage: Stage) -> str:
    """The rate of a selection, its workers and the time left, in words.

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


class Follower:
    """Calls callbacks at every step of a fit and for every row that is chosen."""

    def __init__(self, *callbacks: Callback) -> None:
        self._callbacks, self._began = callbacks, perf_counter()

    def __call__(self, stage: Stage) -> None:
        """Call all callbacks; StopIteration of one of them is raised after the last."""
        asked = []
        for callback in self._callbacks:
            try:
                callback(stage)
            except StopIteration as stop:
                asked.append(stop)
        if asked:
            raise asked[0]

    def say(self, step: str) -> None:
        """Tell the callbacks that a step begins. None of them can end it: a fit needs rows."""
        with suppress(StopIteration):
            self(Stage((), perf_counter() - self._began, step=step))


@contextmanager
def following(*callbacks: Callback | None, verbose: bool) -> Iterator[Follower]:
    """A follower that calls some callbacks and, with `verbose`, a display of progress."""
    shown = progress_display() if verbose else None
    try:
        yield Follower(*(each for each in (*callbacks, shown) if each is not None))
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
        self.unseen: Stage | None = None

    def __call__(self, stage: Stage) -> None:
        if not stage.t:
            self._write(f"{stage.step} ...")
            return
        self.unseen = stage
        if stage.t >= stage.n_active or perf_counter() - self.last >= (LIVE if self.live else LOGGED):
            self._show(stage)

    def _show(self, stage: Stage) -> None:
        self.last, self.unseen = perf_counter(), None
        self._write(words(stage), stage)

    def _write(self, text: str, stage: Stage | None = None) -> None:
        self.stream.write(f"\r\x1b[2K{text}" if self.live else text + "\n")
        self.stream.flush()

    def close(self) -> None:
        """Show the last stage, if it has not been shown, and end the line."""
        if self.unseen is not None:
            self._show(self.unseen)
        if self.live:
            self.stream.write("\n")


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
        """Show the last stage, if it has not been shown."""
        if self.unseen is not None:
            self._show(self.unseen)


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
