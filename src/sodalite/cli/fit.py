"""`sodalite fit`."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from time import perf_counter

import click
import numpy as np
from rich.console import Console

from .. import persistence
from ..core.types import Floats, Indices
from ..core.validation import OutlierWarning, warn_of_outliers
from ..core.warn import warn
from ..estimator import GreedyGPRegressor
from ..fitting.clock import Clock
from ..fitting.gross import find_gross_errors
from ..fitting.pipeline import LOOK_SHARE, Settings
from ..report.held_out import judgement_to_json
from ..report.importance import LEAST_ROWS, N_PREDICTIONS
from ..report.summary import ColumnRead, left_out, summarize
from ..report.words import bars_of, error_words, kernel_words, mean_words
from ..selection.checkpoint import check_checkpoint
from ..tables import Training
from ._common import check_model_path, check_outputs, print_json
from ._data import EMBEDDED, read_training
from ._fits import MEASURING, Judged, Work, excess_words, fit_all, fit_most, has_time_to_condition, judge
from ._judged import hold_out, reads_training_from_disk
from ._progress import display
from ._summary import FitOutcome, show, show_readings
from .options import Fit

MOST_ROWS = 100_000  # most rows that a kernel is described by
IMPORTANCE_SHARE = 0.5  # of the time that is left, for the importance of the inputs
MOST_MEASURED = 2000  # inputs whose importance is measured: about ten seconds of a core, for few rows


def command(options: Fit) -> None:
    """Fit a model and print its summary, or print how columns are read."""
    if options.dry_run:
        show_readings(options)
        return
    with display(not options.silent, f"Reading {options.data or EMBEDDED}") as shown:
        clock = Clock(shown, limit=options.time_limit, began=click.get_current_context().find_root().obj)
        outcome = run(options, clock)
    if options.as_json:
        print_json(outcome.as_dict())
    elif not options.quiet:
        show(outcome, Console(highlight=False, markup=False, emoji=False))


def run(options: Fit, clock: Clock | None = None) -> FitOutcome:
    """Read, fit, test, fit all rows and write. An output that cannot be written is found first.

    `clock` has the time limit, and is told of the steps.
    """
    clock, data, output = clock or Clock(), options.data or EMBEDDED, options.output
    clock.say(f"Reading {data}")
    check_paths(options)
    model = make_model(options)
    watch = Stopwatch()
    gross = GrossErrorsIn(LOOK_SHARE * clock.remaining)
    as_they_are = options.keep_outliers or options.parameters.get("hyperparameters") == "fixed"
    training = read_training(options, None if as_they_are else gross)
    watch("read")

    warn_of_outlying_rows(training)
    split = hold_out(len(training.y), options.test_fraction, options.seed)
    again = bool(len(split.test)) and not options.hold_out_only
    work = Work.of(model, training, split, options.seed, clock)
    fit_most(model, work, again)
    watch("fit")
    judged = Judged()
    if len(split.test):
        judged = judge(model, work, np.random.default_rng(options.seed))
        watch("test")

    mapping, rows, said, X = training.preprocessing, split.rest, "", work.X
    if again and not has_time_to_condition(clock, work.growth):
        again, said = False, "the model has not seen the rows held out: there was no time to fit it again with them"
    if again:
        model, rows, X = fit_all(model, work), np.arange(len(training.y)), training.X
        watch("fit all")
    elif len(split.test):
        mapping = work.mapping
    model.set_params(time_limit=clock.limit)

    clock.say(MEASURING)
    known = X[rows[:MOST_ROWS]]
    unit, variance = float(model.y_std_[0]), float(np.var(training.y[rows]))
    scale, bars = model.posterior_.scale, bars_of(model.posterior_)
    model.preprocessing_ = mapping
    shares = shares_of(model, known, clock.remaining)
    words = kernel_words(model.kernel_, known, shares, unit, variance, bars)
    judgement = judged.by_input(model, shares)
    clock.say(f"Writing {output}")
    model.about_ = {
        "data": data,
        "n_rows": len(rows),
        "n_test": len(split.test),
        "notes": [*training.notes, *gross.words],
        "columns": [
            asdict(ColumnRead(part.name, part.words, part.column is not None, part.missing))
            for part in training.readings
        ],
        "test": [asdict(part) for part in judged.models],
        "judgement": None if judgement is None else judgement_to_json(judgement),
        "kernel": words.as_dict(),
    }
    persistence.save(model, output)
    watch("write")
    return FitOutcome(
        data=data,
        target=str(mapping.target),
        columns=tuple(mapping.sources),
        n_rows=len(rows),
        n_test=len(split.test),
        n_active=len(model.active_indices_),
        stop_reason=model.selection_.stop_reason,
        missing=training.missing,
        notes=training.notes,
        test=judged.models,
        baselines=model.baselines_,
        left_out=left_out(bars, [unit]),
        errors=error_words(None if scale is None else scale.shape),
        mean=mean_words(model.mean_),
        kernel=str(model.kernel_),
        words=words,
        posterior=str(model.posterior),
        seconds=watch.seconds,
        time_limit="; ".join(part for part in (said, excess_words(clock)) if part),
        output=output,
        summary=summarize(model),
    )


class GrossErrorsIn:
    """Rows of training data whose targets contradict all rows near by: named in a warning, and left out.

    `seconds` is the time limit of each of two searches by which they are found.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.words: list[str] = []
        """What was found, in words, to be kept with the model."""

    def __call__(self, training: Training) -> Indices:
        """The rows, by their places in the training data."""
        found = find_gross_errors(training.X, training.y, self.seconds)
        if found is None:
            return np.empty(0, dtype=np.intp)
        self.words = [found.words(("The row is left out", "These rows are left out"), training.place)]
        warn(f"{self.words[0]} Correct the targets, or keep these rows with --set keep_outliers=true.", OutlierWarning)
        return found.rows


def warn_of_outlying_rows(training: Training) -> None:
    """Warn of rows that are far from all others, by their places in the table; a fit warns of those on disk."""
    if reads_training_from_disk(training):
        return
    mapping = training.preprocessing

    def place(row: int) -> str:
        text = training.place(row)
        return text[:1].upper() + text[1:]

    warn_of_outliers(training.X, training.y[:, None], mapping.names, mapping.target, place)


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
    model = GreedyGPRegressor(random_state=options.seed, **options.parameters)
    Settings.of(model.get_params(deep=False))
    return model
