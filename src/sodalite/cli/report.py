"""`sodalite report`."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from ..core.files import check_writable, replacing
from ..core.json import plain
from ..core.optional import require
from ..core.types import Floats
from ..estimator import GreedyGPRegressor
from ..exceptions import TableError
from ..persistence import load
from ..report import Report as ModelReport
from ..report import make_report, to_html
from ..tables import Options as ColumnOptions
from ..tables import open_table
from ..tables.columns import target_values
from ..tables.values import table_column
from ._common import FILLED, Mistake, as_options, check_inputs_and_output, conclude, missing_words, refused_by_system
from ._data import dialect_of, mapping_of, target_of
from ._progress import Display, display
from .options import Report


@dataclass(frozen=True)
class JudgingRows:
    """The rows of a table that judge a model, and what was noticed in reading them."""

    X: Floats | None = None
    """As the model takes them, of shape (rows, d); None without a table."""
    y: Floats | None = None
    """The target, of shape (rows,)."""
    missing: Counter[str] | None = None
    """For each column, how many values are missing."""
    n_dropped: int = 0
    """Rows that were left out, because a value is missing."""
    filled: bool = False
    """Whether something took the place of missing values."""
    notes: tuple[str, ...] = ()

    @property
    def warnings(self) -> list[str]:
        """What to warn of: missing values, and what was done about them."""
        count = self.n_dropped
        left = f"{count} row{'s were' if count > 1 else ' was'} left out" if count else ""
        done = (FILLED, left) if self.filled else ("their rows were left out",)
        return [missing_words(self.missing, *done)] if self.missing else []


def command(options: Report) -> None:
    """Write the page and say what was noticed."""
    began, output = perf_counter(), options.output
    with display(not options.silent and output != "-", f"Loading {options.model}") as shown:
        report, rows, n_bytes = run(options, shown)
    seconds = perf_counter() - began

    def content() -> dict[str, Any]:
        """All numbers, or where the page was written, what was noticed, and how good it says that the model is."""
        if output == "-":
            return report.as_dict()
        judgement, paths = report.judgement, {"model": options.model, "data": options.data, "output": output}
        noticed = {name: getattr(rows, name) for name in ("missing", "n_dropped", "filled", "notes")}
        scores = {**plain(judgement.scores), "coverage": judgement.coverage, "judged_by": judgement.words}
        return {**scores, **paths, "n_bytes": n_bytes, "seconds": seconds, "sources": report.sources, **noticed}

    words = f"{output}: {n_bytes / 1e6:.1f} MB, in {seconds:.1f} s"
    conclude(options, rows.notes, rows.warnings, words, content)


def run(options: Report, shown: Display | None = None) -> tuple[ModelReport, JudgingRows, int]:
    """Load a model, judge it and write its page; "-" is standard output, where no page is written for JSON.

    Returns the report, the rows of the table, and the bytes of the page.
    """
    output, shown = options.output, shown or Display()
    require("plotly", "report")
    check_inputs_and_output(options, options.model)
    if output != "-":
        with refused_by_system(f"{output} cannot be written"):
            check_writable(output)
    model, rows = load(options.model), JudgingRows()
    if options.data is not None:
        shown.step(f"Reading {options.data}")
        rows = read_rows(model, options)
    shown.step("Judging the model")
    report = make_report(model, rows.X, rows.y, random_state=options.seed)
    if options.as_json and output == "-":
        return report, rows, 0
    shown.step("Drawing")
    page = to_html(report).encode(errors="backslashreplace")
    if output == "-":
        sys.stdout.buffer.write(page)
        sys.stdout.buffer.flush()
    else:
        with refused_by_system(f"{output} could not be written"), replacing(output) as path:
            path.write_bytes(page)
    return report, rows, len(page)


def read_rows(model: GreedyGPRegressor, options: Report) -> JudgingRows:
    """The rows of a table that have a target and miss nothing that the model needs."""
    if len(model.y_mean_) > 1:
        raise Mistake("The model has several targets: only make_report in Python can judge it by other rows.")
    missing, parts, n_dropped, filled = Counter[str](), [], 0, False
    with open_table(str(options.data), dialect=dialect_of(model, options.dialect)) as reader:
        name = target_of(model, reader, options.target)
        mapping = mapping_of(model, reader, name)
        mapping = replace(mapping, missing="drop" if mapping.missing == "error" else mapping.missing)
        marks = ColumnOptions(decimal=options.decimal, thousands=options.thousands)
        reading = replace(marks, na_values=mapping.na_values, prefer=reader.prefer)
        for table in reader.chunks(dict.fromkeys([*mapping.sources, name])):
            rows = mapping.encode(table)
            y, _ = target_values(table_column(table, name), name, reader.name, reading)
            missing.update(rows.missing)
            missing.update({name: int(np.isnan(y).sum())} if np.isnan(y).any() else {})
            whole = ~np.isnan(np.column_stack([rows.X, y])).any(axis=1)
            parts.append((rows.X[whole], y[whole]))
            n_dropped += int((~whole).sum())
            filled |= any(map(mapping.answers_gaps, rows.missing))
    if not sum(len(y) for _, y in parts):
        raise TableError(f"{reader.name} has no rows that miss nothing, so nothing to judge the model by.")
    X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    return JudgingRows(X, y, missing, n_dropped, filled, tuple(map(as_options, reader.notes)))
