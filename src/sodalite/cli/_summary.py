"""What `sodalite fit` prints for people: a summary of the fit, or how every column is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table as Grid

from ..core.words import counted
from ..experiments.printing import glued, print_tidily
from ..posteriors.baselines import Baselines
from ..posteriors.calibration import COVERAGES
from ..report.summary import HeldOut, simple_left_out
from ..report.words import KernelWords, readable
from ..stopping import in_words
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

    def as_dict(self) -> dict[str, Any]:
        """The outcome as what JSON can hold."""
        baselines = None if self.baselines is None else self.baselines.as_dict()
        return {**asdict(self), "words": self.words.as_dict(), "baselines": baselines}


def show(outcome: FitOutcome, console: Console) -> None:
    """Print a summary."""
    table = errors_table(outcome)
    if table is not None:
        print_tidily(console, table, "in 50 %: the share of the rows in intervals that should hold 50 % of them\n")
    kept = f"{outcome.n_active} row{'s' * (outcome.n_active != 1)} of {outcome.n_rows}"
    grid = Grid.grid(padding=(0, 2))
    grid.add_row("target", outcome.target)
    if inputs := outcome.words.inputs():  # of very many inputs, it is not known which of them matter
        grid.add_row("inputs", glued(inputs))
    grid.add_row("error bars", glued(outcome.words.error_bars()))
    grid.add_row("errors", outcome.errors)
    grid.add_row("noise", glued(outcome.words.noise()))
    grid.add_row("function", outcome.words.shape)
    if outcome.mean:
        grid.add_row("mean", outcome.mean)
    grid.add_row("kept", f"{kept} ({in_words(outcome.stop_reason)})")
    if outcome.notes:
        grid.add_row("columns", "\n".join(outcome.notes))
    if outcome.missing:
        grid.add_row("missing", counted(outcome.missing))
    if outcome.time_limit:
        grid.add_row("time limit", outcome.time_limit)
    grid.add_row("time", ", ".join(f"{name} {duration(seconds)}" for name, seconds in outcome.seconds.items()))
    grid.add_row("model", outcome.output)
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


def errors_table(outcome: FitOutcome) -> Grid | None:
    """The errors of the model and of simpler ones: by rows held out, else by rows left out; None if not known."""
    parts = outcome.test or judged_left_out(outcome)
    if not parts:
        return None
    found = outcome.baselines
    what = f"{outcome.n_test} rows held out"
    if not outcome.test and found is not None:
        what = f"{found.n_rows} rows, each\nfrom the others"
    table = Grid(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column(what)
    for header in ("RMSE", "NLPD", *(f"in {100 * level:g} %" for level in COVERAGES)):
        table.add_column(header, justify="right")
    for part in parts:
        nlpd = "" if part.nlpd is None else f"{part.nlpd:.3f}" if abs(part.nlpd) < 1e4 else f"{part.nlpd:.1e}"
        shares = [] if part.coverages is None else [f"{share:.1%}" for share in part.coverages.values()]
        table.add_row(
            part.model, readable(part.rmse, 4) if isfinite(part.rmse) else "-", nlpd, *shares, style=_style(part)
        )
    return table


def judged_left_out(outcome: FitOutcome) -> tuple[HeldOut, ...]:
    """The model and simpler ones by rows of the fit, each predicted from the others; empty if that is not known."""
    found = outcome.baselines
    if found is None:
        return ()
    return outcome.left_out or HeldOut("sodalite", found.model), *simple_left_out(found)


def _style(part: HeldOut) -> str:
    """The style of a line of the table: our model stands out."""
    return "bold" if part.model == "sodalite" else ""
