"""`sodalite fit`."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from time import perf_counter
from typing import Any

import click
import numpy as np

from .. import persistence
from ..core.json import plain
from ..core.types import Floats
from ..core.warn import warn
from ..estimator import GreedyGPRegressor
from ..exceptions import NoBetterWarning, OutlierWarning
from ..fitting.clock import Clock
from ..fitting.outliers import warn_of_outliers
from ..fitting.pipeline import Settings
from ..fitting.progress import duration
from ..report.importance import LEAST_ROWS, N_PREDICTIONS, totals
from ..report.inputs import columns_of_X, inputs_of
from ..report.judgement import Scores
from ..report.summary import ColumnRead, Record, Summary, summarize
from ..selection.checkpoint import check_checkpoint
from ._common import check_model_path, check_outputs, print_json
from ._data import EMBEDDED, read_training
from ._fits import (
    MEASURING,
    FittedRows,
    Work,
    excess_words,
    fit_all,
    fit_most,
    has_time_to_condition,
    hold_out,
    judge,
)
from ._progress import display
from ._summary import plain_console, print_readings, print_summary
from .options import Fit

MOST_ROWS = 100_000  # most rows that the importance of inputs is measured by
IMPORTANCE_SHARE = 0.5  # of the time that is left, for the importance of the inputs
MOST_MEASURED = 2000  # inputs whose importance is measured: about ten seconds of a core, for few rows


def command(options: Fit) -> None:
    """Fit a model and print its summary, or print how columns are read."""
    data = options.data or EMBEDDED
    if options.dry_run:
        print_readings(read_training(options), data, options.as_json)
        return
    with display(not options.silent, f"Reading {data}") as shown:
        clock = Clock(shown, limit=options.time_limit, began=click.get_current_context().find_root().obj)
        summary, details = run(options, clock)
    if options.silent and summary.advice:  # else the summary says so
        warn(summary.advice, NoBetterWarning)
    if options.as_json:
        print_json(as_json(summary, details))
    elif not options.quiet:
        show(summary, details)


def as_json(summary: Summary, details: Mapping[str, Any]) -> dict[str, Any]:
    """What --json prints: the summary of the model, and the details of the fit that `run` returns."""
    return {**plain(summary), "missing": summary.missing, "advice": summary.advice, **details}


def show(summary: Summary, details: Mapping[str, Any]) -> None:
    """Print a summary of the model, and the details of the fit that `run` returns."""
    time = ", ".join(f"{name} {duration(seconds)}" for name, seconds in details["seconds"].items())
    after = (("time limit", details["time_limit"]), ("time", time), ("model", details["output"]))
    print_summary(plain_console(), summary, after=after)


def run(options: Fit, clock: Clock | None = None) -> tuple[Summary, dict[str, Any]]:
    """Read, fit, test, fit all rows and write. An output that cannot be written is refused first.

    `clock` has the time limit, and is told of the steps. Returned are the summary of the model, and details: the
    seconds of each step, what the time limit changed or why it was exceeded, and where the model is.
    """
    clock, data, output = clock or Clock(), options.data or EMBEDDED, options.output
    clock.say(f"Reading {data}")
    check_model_path(output, "--output")
    check_outputs({"DATA": options.data}, {"checkpoint": options.checkpoint, "--output": output})
    persistence.check_path(output)
    if options.checkpoint is not None:
        check_checkpoint(options.checkpoint)
    model = GreedyGPRegressor(random_state=options.seed, **options.estimator_parameters)
    Settings.of(model.get_params(deep=False))  # which are checked before the data are read
    seconds, began = dict[str, float](), perf_counter()

    def took(step: str) -> None:
        """Note how long a step has taken since the step before."""
        seconds[step] = perf_counter() - began - sum(seconds.values())

    training = read_training(options)
    took("read")
    split = hold_out(len(training.y), options.test_fraction, options.seed)
    work = Work.of(model, training, split, options.seed, options.keep_outliers, clock)
    again = bool(len(split.test)) and not options.hold_out_only
    first = fitted = fit_most(model, work, again, options.checkpoint)
    took("fit")
    predictive, limit = None, ""
    if len(split.test):
        clock.say("Testing on the rows held out")
        predictive = model.fitted_.predictive(first.X[split.test])
        took("test")
    if again and not has_time_to_condition(clock, work.growth):
        again, limit = False, "the model has not seen the rows held out: there was no time to fit it again with them"
    if again:
        fitted = fit_all(first, work)
        took("fit all")
    model, rows = fitted.model.set_params(time_limit=clock.limit), fitted.rows
    noticed = notes_of_outliers(fitted, work)

    clock.say(MEASURING)
    shares = shares_of(model, fitted.X[rows[:MOST_ROWS]], clock.remaining)
    judgement, simple = None, tuple[Scores, ...]()
    if predictive is not None:
        matters = next((part for part in inputs_of(model) if shares and part.name == shares[0][0]), None)
        judgement, simple = judge(first, predictive, work, fitted.gross, matters)
    clock.say(f"Writing {output}")
    model.about_ = Record(
        data=data,
        n_rows=len(rows),
        notes=(*training.notes, *noticed),
        columns=tuple(
            ColumnRead(part.name, part.words, part.column is not None, part.missing) for part in training.readings
        ),
        importance=shares,
        variance=float(np.var(training.y[np.setdiff1d(rows, fitted.gross)])),
        judgement=judgement,
        simple=simple,
    )
    persistence.save(model, output)
    took("write")
    limit = "; ".join(part for part in (limit, excess_words(clock)) if part)
    return summarize(model), {"seconds": seconds, "time_limit": limit, "output": output}


def notes_of_outliers(fitted: FittedRows, work: Work) -> list[str]:
    """Warn of outlying rows, by their places in the table, and return what a model's file says of them.

    These are rows whose targets contradict all rows near by, as the fit has found them, and rows far from all others. A
    fit warns of rows on disk itself.
    """
    training, mapping, errors = work.training, work.training.preprocessing, fitted.model.gross_errors_
    if work.is_on_disk:
        return []
    notes = list[str]()
    if errors is not None:
        words = errors.words(lambda row: training.place(int(fitted.rows[row])))
        if np.isin(fitted.gross, work.split.test).any():
            words += " Those held out do not judge the model."
        warn(
            f"{words} Correct the targets, or keep the rows as they are with --set keep_outliers=true.", OutlierWarning
        )
        notes.append(words)

    def place(row: int) -> str:
        text = training.place(row)
        return text[:1].upper() + text[1:]

    y, names = training.y[:, None] if errors is None else None, columns_of_X(mapping.columns)
    warn_of_outliers(training.X, y, names, mapping.target, place)
    return notes


def shares_of(model: GreedyGPRegressor, known: Floats, seconds: float) -> tuple[tuple[str, float], ...]:
    """The inputs and their total effects, by as many predictions as can be made in a part of so many seconds.

    None of more than `MOST_MEASURED` inputs: predictions for each of them take a time that grows as their square.
    """
    if model.n_features_in_ > MOST_MEASURED:
        return ()
    if not isfinite(seconds):
        return totals(model.importance(known))
    some = known[:: max(len(known) // LEAST_ROWS, 1)]
    began = perf_counter()
    model.fitted_.mean(some)
    rate = len(some) / max(perf_counter() - began, 1e-9)
    count = int(min(max(IMPORTANCE_SHARE * seconds * rate, 1.0), N_PREDICTIONS))
    return totals(model.importance(known, n_predictions=count))
