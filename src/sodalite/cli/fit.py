"""`sodalite fit`."""

from __future__ import annotations

from dataclasses import dataclass
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
from ..report.importance import LEAST_ROWS, N_PREDICTIONS
from ..report.inputs import inputs_of
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


@dataclass(frozen=True)
class FitOutcome:
    """A fit: its summary, how long it took, and where the model is."""

    summary: Summary
    seconds: dict[str, float]
    """Of reading, fitting, testing and writing."""
    time_limit: str
    """What the time limit changed or why it was exceeded, in words; empty if there is nothing to say."""
    output: str

    def as_dict(self) -> dict[str, Any]:
        """The outcome as what JSON can hold."""
        more = {"missing": self.summary.missing, "advice": self.summary.advice, "seconds": self.seconds}
        return {**plain(self.summary), **more, "time_limit": self.time_limit, "output": self.output}


def command(options: Fit) -> None:
    """Fit a model and print its summary, or print how columns are read."""
    data = options.data or EMBEDDED
    if options.dry_run:
        print_readings(read_training(options), data, options.as_json)
        return
    with display(not options.silent, f"Reading {data}") as shown:
        clock = Clock(shown, limit=options.time_limit, began=click.get_current_context().find_root().obj)
        outcome = run(options, clock)
    if options.silent and outcome.summary.advice:  # else the summary says so
        warn(outcome.summary.advice, NoBetterWarning)
    if options.as_json:
        print_json(outcome.as_dict())
    elif not options.quiet:
        show(outcome)


def show(outcome: FitOutcome) -> None:
    """Print a summary of the fit."""
    time = ", ".join(f"{name} {duration(seconds)}" for name, seconds in outcome.seconds.items())
    after = (("time limit", outcome.time_limit), ("time", time), ("model", outcome.output))
    print_summary(plain_console(), outcome.summary, after=after)


def run(options: Fit, clock: Clock | None = None) -> FitOutcome:
    """Read, fit, test, fit all rows and write. An output that cannot be written is found first.

    `clock` has the time limit, and is told of the steps.
    """
    clock, data, output = clock or Clock(), options.data or EMBEDDED, options.output
    clock.say(f"Reading {data}")
    check_paths(options)
    model = make_model(options)
    watch = Stopwatch()
    training = read_training(options)
    watch("read")

    split = hold_out(len(training.y), options.test_fraction, options.seed)
    work = Work.of(model, training, split, options.seed, options.keep_outliers, clock)
    again = bool(len(split.test)) and not options.hold_out_only
    first = fitted = fit_most(model, work, again, options.checkpoint)
    watch("fit")
    predictive, limit = None, ""
    if len(split.test):
        clock.say("Testing on the rows held out")
        predictive = model.fitted_.predictive(first.X[split.test])
        watch("test")
    if again and not has_time_to_condition(clock, work.growth):
        again, limit = False, "the model has not seen the rows held out: there was no time to fit it again with them"
    if again:
        fitted = fit_all(first, work)
        watch("fit all")
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
    watch("write")
    limit = "; ".join(part for part in (limit, excess_words(clock)) if part)
    return FitOutcome(summarize(model), watch.seconds, limit, output)


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

    y = training.y[:, None] if errors is None else None
    warn_of_outliers(training.X, y, mapping.names, mapping.target, place)
    return notes


def shares_of(model: GreedyGPRegressor, known: Floats, seconds: float) -> tuple[tuple[str, float], ...]:
    """The inputs and their total effects, by as many predictions as can be made in a part of so many seconds.

    None of more than `MOST_MEASURED` inputs: predictions for each of them take a time that grows as their square.
    """
    if model.n_features_in_ > MOST_MEASURED:
        return ()
    if not isfinite(seconds):
        return model.importance(known).shares
    some = known[:: max(len(known) // LEAST_ROWS, 1)]
    began = perf_counter()
    model.fitted_.mean(some)
    rate = len(some) / max(perf_counter() - began, 1e-9)
    count = int(min(max(IMPORTANCE_SHARE * seconds * rate, 1.0), N_PREDICTIONS))
    return model.importance(known, n_predictions=count).shares


class Stopwatch:
    """How long each of some steps took, in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = perf_counter()

    def __call__(self, name: str) -> None:
        """Note that a step has ended."""
        now = perf_counter()
        self.seconds[name], self._last = now - self._last, now


def check_paths(options: Fit) -> None:
    """Refuse, before any work, paths that cannot be written or would replace each other."""
    check_model_path(options.output, "--output")
    check_outputs({"DATA": options.data}, {"checkpoint": options.checkpoint, "--output": options.output})
    persistence.check_path(options.output)
    if options.checkpoint is not None:
        check_checkpoint(options.checkpoint)


def make_model(options: Fit) -> GreedyGPRegressor:
    """The estimator with its parameters, which are checked before the data are read."""
    model = GreedyGPRegressor(random_state=options.seed, **options.estimator_parameters)
    Settings.of(model.get_params(deep=False))
    return model
