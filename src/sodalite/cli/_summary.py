"""Summaries of models on a terminal, and how the columns of a table are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table as Grid

from ..experiments.printing import glued, print_tidily
from ..report.summary import Summary
from ..tables import Reading, Training
from ..tables.columns import left_out_notes
from ._common import print_json


def plain_console() -> Console:
    """A console that prints texts as they are."""
    return Console(highlight=False, markup=False, emoji=False)


def print_summary(
    console: Console, summary: Summary, before: Iterable[tuple[str, str]] = (), after: Iterable[tuple[str, str]] = ()
) -> None:
    """Print the errors of a model and of simpler ones, and what else is known of it, as headings and texts."""
    if summary.scores:
        (_, *head), rows = summary.comparison()
        judged_by = summary.judged_by.replace(", each ", ",\neach ").replace(" from ", "\nfrom ")
        units = [f"RMSE: in units of {summary.unit}"] if len(summary.targets) > 1 else []
        shares = "in 50 %: the share of the rows in intervals that should hold 50 % of them\n"
        print_tidily(console, _table([judged_by, *head], rows), *units, shares)
    head, rows = summary.by_distance()
    if rows:
        print_tidily(console, _table(head, rows), "")
    grid = Grid.grid(padding=(0, 2))
    for name, text in (*before, *summary.lines(), *after):
        if text:
            grid.add_row(name, glued(text))
    print_tidily(console, grid)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Grid:
    """A table of texts, all but the first column to the right, the first row bold."""
    table = Grid(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for place, text in enumerate(head):
        table.add_column(text, justify="right" if place else "left")
    for place, row in enumerate(rows):
        table.add_row(*row, style="" if place else "bold")
    return table


def print_readings(training: Training, data: str, as_json: bool) -> None:
    """Print how every column is read."""
    mapping = training.preprocessing
    if as_json:
        columns = [reading.as_dict() for reading in training.readings]
        content = {"data": data, "target": mapping.target, "n_rows": len(training.y), "columns": columns}
        print_json(content | {"inputs": mapping.names, "notes": training.notes, "missing": training.missing})
        return
    on_disk = [Reading(column.name, "numbers", column) for column in mapping.columns]
    readings = training.readings or tuple(on_disk)
    table = Grid(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for text in ("column", "read as", "inputs", "missing"):
        table.add_column(text, justify="right" if text in ("inputs", "missing") else "left", overflow="fold")
    for reading in readings:
        n_inputs = "" if reading.column is None else str(len(reading.column.names))
        table.add_row(reading.name, reading.words, n_inputs, str(reading.missing or ""))
    rows = f"{len(training.y)} row{'s' * (len(training.y) != 1)}"
    inputs = f"{len(mapping.names)} input{'s' * (len(mapping.names) != 1)}"
    repeated = set(left_out_notes(readings))  # which the table has
    notes = [f"\n{note}" for note in training.notes if note not in repeated]
    head = f"{data}: {rows} to predict {mapping.target} by, from {inputs}\n"
    print_tidily(plain_console(), head, table, *notes)
