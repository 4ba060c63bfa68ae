"""`sodalite report`."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..core.words import counted
from ._common import (
    FILE,
    Mistake,
    check_model_path,
    check_outputs,
    debug_option,
    dialect_options,
    json_option,
    not_written,
    plain_errors,
    print_json,
    quiet_option,
    say,
    seed_option,
)
from ._data import dialect_of, mapping_and_target

if TYPE_CHECKING:
    from ..core.types import Floats
    from ..estimator import GreedyGPRegressor
    from ..report import Report
    from ..tables import Dialect
    from ._progress import Display


@click.command("report")
@click.argument("model", type=FILE)
@click.argument("data", required=False, type=FILE)
@click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="FILE",
    help="Where to write; unless given, beside MODEL, with the suffix .html.",
)
@click.option("-t", "--target", metavar="COLUMN", help="The column of DATA to judge by, if the model does not know it.")
@dialect_options
@seed_option
@json_option
@quiet_option
@debug_option
def command(
    model: str,
    data: str | None,
    output: str | None,
    target: str | None,
    dialect: Dialect,
    seed: int,
    as_json: bool,
    quiet: bool,
    debug: bool,
) -> None:
    """Show a model in a page that a browser opens.

    MODEL is a file that fit has written. DATA, if given, is a table in any format that fit reads, or - for CSV from
    standard input, and has the model's columns and its target: rows that were not in the fit judge the model. Without
    it, what the model's file holds is shown. The output is one HTML file that needs no network; - writes it to standard
    output, and with --json its numbers instead.

    Example: sodalite report houses.sodalite houses.csv --output houses.html
    """
    check_model_path(model, "MODEL")
    if output is None:
        output = str(Path(model).with_suffix(".html"))
    with plain_errors(debug, not_written(output)):
        from ._progress import display

        with display(not (quiet or as_json) and output != "-") as shown:
            outcome, report = run(
                model, data, output, target=target, dialect=dialect, seed=seed, write=not as_json, shown=shown
            )
        for note in outcome.notes:
            say(note, quiet or as_json)
        if outcome.missing:
            say(f"Warning: missing values: {counted(outcome.missing)}; {gap_words(outcome)}.")
        if as_json:
            print_json(report.as_dict() if output == "-" else outcome.as_dict())
        elif output != "-":
            say(f"{outcome.output}: {outcome.n_bytes / 1e6:.1f} MB, in {outcome.seconds:.1f} s", quiet)


def gap_words(outcome: ReportOutcome) -> str:
    """What was done about missing values, as part of a sentence."""
    if not outcome.filled:
        return "their rows were left out"
    count = outcome.n_dropped
    left = f"; {count} row{'s were' if count > 1 else ' was'} left out" if count else ""
    return f"medians and levels for missing values took their place{left}"


@dataclass(frozen=True)
class ReportOutcome:
    """Where a report was written, and how good it says that the model is."""

    model: str
    data: str | None
    output: str | None
    n_bytes: int
    sources: tuple[str, ...]
    judged_by: str
    rmse: float
    nlpd: float
    coverage: float
    """The share of the targets in their 95 % intervals."""
    coverages: dict[str, float]
    """The share of the targets in the intervals of each probability, "0.5", "0.8", "0.95" and "0.99"."""
    missing: dict[str, int]
    """For each column, how many values of DATA are missing."""
    n_dropped: int
    """Rows of DATA that were left out, because a value is missing."""
    filled: bool
    """Whether something took the place of missing values."""
    notes: tuple[str, ...]
    """What was noticed in reading DATA: sentences."""
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """The outcome as what JSON can hold."""
        return asdict(self)


def run(
    model_path: str,
    data: str | None,
    output: str,
    *,
    target: str | None = None,
    dialect: Dialect | None = None,
    seed: int = 0,
    write: bool = True,
    shown: Display | None = None,
) -> tuple[ReportOutcome, Report]:
    """Load a model, judge it and write its page; "-" is standard output, where nothing is written unless `write`."""
    from ..core.optional import require
    from ._progress import Display

    began = perf_counter()
    require("plotly", "report")
    check_outputs({"MODEL": model_path, "DATA": data}, {"--output": output})
    if output != "-":
        _check_writable(output)
    shown = shown or Display()
    shown.step(f"Loading {model_path}")
    from ..persistence import load

    model = load(model_path)
    X = y = None
    rows = None
    if data is not None:
        shown.step(f"Reading {data}")
        rows = read_rows(model, data, target, dialect)
        X, y = rows.X, rows.y
    shown.step("Judging the model")
    from ..report import make_report, to_html

    report = make_report(model, X, y, random_state=seed)
    shown.step("Drawing")
    page = to_html(report).encode(errors="backslashreplace") if write or output != "-" else b""
    if output != "-":
        _write(page, output)
    elif write:
        sys.stdout.buffer.write(page)
        sys.stdout.buffer.flush()
    found = report.judgement
    outcome = ReportOutcome(
        model=model_path,
        data=data,
        output=None if output == "-" else output,
        n_bytes=len(page),
        sources=report.sources,
        judged_by=found.words,
        rmse=found.rmse,
        nlpd=found.nlpd,
        coverage=found.coverage,
        coverages=found.coverages,
        missing={} if rows is None else rows.missing,
        n_dropped=0 if rows is None else rows.n_dropped,
        filled=rows is not None and rows.filled,
        notes=() if rows is None else rows.notes,
        seconds=perf_counter() - began,
    )
    return outcome, report


class JudgingRows(NamedTuple):
    """The rows of a table that judge a model."""

    X: Floats
    """As the model takes them, of shape (rows, d)."""
    y: Floats
    """The target, of shape (rows,)."""
    missing: dict[str, int]
    """For each column, how many values are missing."""
    n_dropped: int
    """Rows that were left out, because a value is missing."""
    filled: bool
    """Whether something took the place of missing values."""
    notes: tuple[str, ...]
    """What was noticed in reading the file: sentences."""


def read_rows(model: GreedyGPRegressor, data: str, target: str | None, dialect: Dialect | None = None) -> JudgingRows:
    """The rows of a table that have a target and miss nothing that the model needs."""
    from collections import Counter

    import numpy as np

    from ..tables import Options, TableError, open_table
    from ..tables.training import target_values
    from ..tables.values import table_column

    if len(model.y_mean_) > 1:
        raise Mistake("The model has several targets: only make_report in Python can judge it by other rows.")
    parts, missing, n_dropped, filled = [], Counter[str](), 0, False
    with open_table(data, dialect=dialect_of(model, dialect)) as reader:
        mapping, name = mapping_and_target(model, reader, target)
        mapping = replace(mapping, missing="drop" if mapping.missing == "error" else mapping.missing)
        given = Options(na_values=mapping.na_values, prefer=reader.prefer)
        if dialect is not None:
            given = replace(given, decimal=dialect.decimal, thousands=dialect.thousands)
        for table in reader.chunks(dict.fromkeys([*mapping.sources, name])):
            rows = mapping.encode(table)
            y, _ = target_values(table_column(table, name), name, reader.name, given)
            missing.update(rows.missing)
            missing.update({name: int(np.isnan(y).sum())} if np.isnan(y).any() else {})
            whole = ~np.isnan(np.column_stack([rows.X, y])).any(axis=1)
            parts.append((rows.X[whole], y[whole]))
            n_dropped += int((~whole).sum())
            filled |= any(mapping.answers_gaps(label) for label in rows.missing)
        source = reader.name
    X, y = (np.concatenate(part) for part in zip(*parts, strict=True)) if parts else (np.empty((0, 0)), np.empty(0))
    if not len(y):
        raise TableError(f"{source} has no rows that miss nothing, so nothing to judge the model by.")
    return JudgingRows(X, y, dict(missing), n_dropped, filled, tuple(reader.notes))


def _check_writable(output: str) -> None:
    """Refuse, before any work, an output that cannot be written."""
    from ..core.files import check_writable

    try:
        check_writable(output)
    except OSError as error:
        raise Mistake(f"{output} cannot be written: {error.strerror or error}.") from None


def _write(page: bytes, output: str) -> None:
    """Write the page, or leave the file as it was."""
    from ..core.files import replacing

    try:
        with replacing(output) as path:
            path.write_bytes(page)
    except OSError as error:
        raise Mistake(f"{output} could not be written: {error.strerror or error}.") from None
