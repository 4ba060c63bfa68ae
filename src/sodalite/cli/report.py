"""`sodalite report`."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import NamedTuple

import numpy as np

from ..core.files import check_writable, replacing
from ..core.optional import require
from ..core.types import Floats
from ..core.words import counted
from ..estimator import GreedyGPRegressor
from ..persistence import load
from ..report import Report as ModelReport
from ..report import make_report, to_html
from ..tables import Options as ColumnOptions
from ..tables import TableError, open_table
from ..tables.training import target_values
from ..tables.values import table_column
from ._common import Mistake, as_options, check_model_path, check_outputs, print_json, say
from ._data import dialect_of, mapping_and_target
from ._progress import Display, display
from .options import Report


def command(options: Report) -> None:
    """Write the page and say what was noticed."""
    with display(not options.silent and options.output != "-", f"Loading {options.model}") as shown:
        outcome, report = run(options, shown)
    for note in outcome.notes:
        say(note, options.silent)
    if outcome.missing:
        say(f"Warning: missing values: {counted(outcome.missing)}; {gap_words(outcome)}.")
    if options.as_json:
        print_json(report.as_dict() if options.output == "-" else asdict(outcome))
    elif options.output != "-":
        say(f"{outcome.output}: {outcome.n_bytes / 1e6:.1f} MB, in {outcome.seconds:.1f} s", options.quiet)


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


def run(options: Report, shown: Display | None = None) -> tuple[ReportOutcome, ModelReport]:
    """Load a model, judge it and write its page; "-" is standard output, where no page is written for JSON."""
    began, output = perf_counter(), options.output
    require("plotly", "report")
    check_model_path(options.model, "MODEL")
    check_outputs({"MODEL": options.model, "DATA": options.data}, {"--output": output})
    if output != "-":
        _check_writable(output)
    shown = shown or Display()
    model = load(options.model)
    X = y = None
    rows = None
    if options.data is not None:
        shown.step(f"Reading {options.data}")
        rows = read_rows(model, options)
        X, y = rows.X, rows.y
    shown.step("Judging the model")

    report = make_report(model, X, y, random_state=options.seed)
    shown.step("Drawing")
    page = to_html(report).encode(errors="backslashreplace") if not options.as_json or output != "-" else b""
    if output != "-":
        _write(page, output)
    elif page:
        sys.stdout.buffer.write(page)
        sys.stdout.buffer.flush()
    found = report.judgement
    outcome = ReportOutcome(
        model=options.model,
        data=options.data,
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


def read_rows(model: GreedyGPRegressor, options: Report) -> JudgingRows:
    """The rows of a table that have a target and miss nothing that the model needs."""
    if len(model.y_mean_) > 1:
        raise Mistake("The model has several targets: only make_report in Python can judge it by other rows.")
    parts, missing, n_dropped, filled = [], Counter[str](), 0, False
    with open_table(str(options.data), dialect=dialect_of(model, options.dialect)) as reader:
        mapping, name = mapping_and_target(model, reader, options.target)
        mapping = replace(mapping, missing="drop" if mapping.missing == "error" else mapping.missing)
        given = ColumnOptions(
            na_values=mapping.na_values,
            prefer=reader.prefer,
            decimal=options.decimal,
            thousands=options.thousands,
        )
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
    return JudgingRows(X, y, dict(missing), n_dropped, filled, tuple(map(as_options, reader.notes)))


def _check_writable(output: str) -> None:
    """Refuse, before any work, an output that cannot be written."""
    try:
        check_writable(output)
    except OSError as error:
        raise Mistake(f"{output} cannot be written: {error.strerror or error}.") from None


def _write(page: bytes, output: str) -> None:
    """Write the page, or leave the file as it was."""
    try:
        with replacing(output) as path:
            path.write_bytes(page)
    except OSError as error:
        raise Mistake(f"{output} could not be written: {error.strerror or error}.") from None
