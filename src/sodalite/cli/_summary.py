"""What `sodalite fit` prints for people: a summary of the fit, or how every column is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as Grid

from ..experiments.printing import glued, print_tidily
from ..posteriors.baselines import Baselines
from ..report.summary import HeldOut, Summary
from ..report.words import KernelWords
from ..tables import Preprocessing, Reading
from ..tables.columns import left_out_notes
from ._common import print_json
from ._data import EMBEDDED, read_training
from ._progress import duration
from .options import Fit


@dataclass(frozen=True)
class FitOutcome:
    """What a fit has found, and how good it is."""

    data: str
    target: str
    columns: tuple[str, ...]
    n_rows: int
    """Rows that the model was fitted to."""
    n_test: int
    """Rows that were held out."""
    n_active: int
    stop_reason: str
    missing: dict[str, int]
    """For each column, how many values were missing."""
    notes: tuple[str, ...]
    """What was noticed in the table, and what was done about it."""
    test: tuple[HeldOut, ...]
    """The model and three that are simpler; empty if no rows were held out."""
    baselines: Baselines | None
    """The model and simpler ones by rows of the fit, each predicted from the others."""
    left_out: HeldOut | None
    """The model by rows of the fit, each predicted from the others; None if that is not known."""
    errors: str
    """The distribution of the errors in words."""
    mean: str
    """What is predicted before the Gaussian process, in words; empty for a constant."""
    kernel: str
    words: KernelWords
    posterior: str
    seconds: dict[str, float]
    """Of reading, fitting, testing and writing."""
    time_limit: str
    """What the time limit changed or why it was exceeded, in words; empty if there is nothing to say."""
    output: str
    summary: Summary
    """What is printed, and what the file says of itself."""

    def as_dict(self) -> dict[str, Any]:
        """The outcome as what JSON can hold."""
        baselines = None if self.baselines is None else self.baselines.as_dict()
        parts = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "summary"}
        tests = [asdict(part) for part in self.test]
        left_out = None if self.left_out is None else asdict(self.left_out)
        return {**parts, "test": tests, "left_out": left_out, "words": self.words.as_dict(), "baselines": baselines}


def show(outcome: FitOutcome, console: Console) -> None:
    """Print a summary of the fit."""
    time = ", ".join(f"{name} {duration(seconds)}" for name, seconds in outcome.seconds.items())
    after = [("time limit", outcome.time_limit), ("time", time), ("model", outcome.output)]
    print_summary(console, outcome.summary, after=[(name, text) for name, text in after if text])


def print_summary(
    console: Console, summary: Summary, before: Iterable[tuple[str, str]] = (), after: Iterable[tuple[str, str]] = ()
) -> None:
    """Print the errors of a model and of simpler ones, and what else is known of it."""
    if summary.scores:
        comparison = summary.comparison()
        table = Grid(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        table.add_column(summary.judged_by.replace(", each", ", each\n"))
        for header in comparison.head[1:]:
            table.add_column(header, justify="right")
        for place, row in enumerate(comparison.rows):
            table.add_row(*row, style="" if place else "bold")
        print_tidily(console, table, "in 50 %: the share of the rows in intervals that should hold 50 % of them\n")
    grid = Grid.grid(padding=(0, 2))
    for name, text in (*before, *summary.lines(), *after):
        grid.add_row(name, glued(text))
    print_tidily(console, grid)


def show_readings(options: Fit) -> None:
    """Print how every column is read."""
    training, data = read_training(options), options.data or EMBEDDED
    mapping = training.preprocessing
    if options.as_json:
        columns = [reading.as_dict() for reading in training.readings]
        content = {"data": data, "target": mapping.target, "n_rows": len(training.y), "columns": columns}
        print_json(content | {"inputs": mapping.names, "notes": training.notes, "missing": training.missing})
        return

    console = Console(highlight=False, markup=False, emoji=False)
    readings = training.readings or tuple(_plain_readings(mapping))
    table = Grid(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for header, justify in (("column", "left"), ("read as", "left"), ("inputs", "right"), ("missing", "right")):
        table.add_column(header, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for reading in readings:
        n_inputs = "" if reading.column is None else str(len(reading.column.names))
        table.add_row(reading.name, reading.words, n_inputs, str(reading.missing or ""))
    rows = f"{len(training.y)} row{'s' * (len(training.y) != 1)}"
    inputs = f"{len(mapping.names)} input{'s' * (len(mapping.names) != 1)}"
    print_tidily(console, f"{data}: {rows} to predict {mapping.target} by, from {inputs}\n", table)
    told = set(left_out_notes(readings))  # which the table has
    for note in training.notes:
        if note not in told:
            print_tidily(console, f"\n{note}")


def _plain_readings(mapping: Preprocessing) -> Iterator[Reading]:
    """How the columns of a table on disk are read."""
    for column in mapping.columns:
        yield Reading(column.name, "numbers", column)
