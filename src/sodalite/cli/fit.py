"""`sodalite fit`."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from ._common import (
    FILE,
    Seconds,
    check_model_path,
    check_outputs,
    column_options,
    debug_option,
    json_option,
    plain_errors,
    print_json,
    quiet_option,
    seed_option,
)
from ._data import EMBEDDED, Choice, read_training
from ._judged import hold_out, reads_training_from_disk
from ._summary import show, show_readings

if TYPE_CHECKING:
    from ..core.types import Floats, Indices
    from ..estimator import GreedyGPRegressor
    from ..fitting.clock import Clock
    from ..posteriors.baselines import Baselines
    from ..report.summary import HeldOut
    from ..report.words import KernelWords
    from ..tables import Dialect, Options, Training

MOST_ROWS = 100_000  # most rows that a kernel is described by
IMPORTANCE_SHARE = 0.5  # of the time that is left, for the importance of the inputs
MOST_MEASURED = 2000  # inputs whose importance is measured: about ten seconds of a core, for few rows


@click.command("fit")
@click.argument("data", required=False, type=FILE)
@click.option("-t", "--target", metavar="COLUMN", help="The column to predict.")
@click.option("--features", multiple=True, metavar="A,B", help="Columns to predict it from; all others unless given.")
@click.option("--exclude", multiple=True, metavar="C", help="Columns to leave out.")
@click.option(
    "-n",
    "--n-active",
    type=click.IntRange(1),
    metavar="N",
    show_default="500",
    help="Rows that the model may keep.",
)
@click.option("--score", metavar="NAME", help="Which row comes next: lookahead, delta, sampled, random, ...")
@click.option("--posterior", metavar="NAME", help="What is concluded: local, sod, sor, dtc, fitc or vfe.")
@click.option("--mean", metavar="NAME", help="What is predicted first: linear, trees, or auto: trees if they help.")
@click.option("--hyperparameters", metavar="NAME", help="How they are found: weave, subset or fixed.")
@click.option("--time-limit", type=Seconds(), metavar="TIME", help="Time for the whole command: 60s, 5m, 1h, ...")
@click.option(
    "--test-fraction",
    type=click.FloatRange(0, 0.9),
    metavar="SHARE",
    show_default="0.1; none of fewer than 100 rows, each of which is predicted from the others",
    help="Share of the rows to hold out, at most 5000, to see how good the model is.",
)
@click.option("--keep-outliers", is_flag=True, help="Keep rows whose targets contradict all rows near by.")
@column_options
@click.option(
    "-o",
    "--output",
    default="model.sodalite",
    show_default=True,
    type=FILE,
    metavar="MODEL",
    help="Where to write the model.",
)
@click.option("--hold-out-only", is_flag=True, help="Write the model of the rows not held out.")
@click.option("--dry-run", is_flag=True, help="Show how columns are read, and fit nothing.")
@click.option("--checkpoint", metavar="PATH", help="Keep the fit there as it goes on; if it is there, go on from it.")
@seed_option
@json_option
@quiet_option
@debug_option
def command(
    data: str | None,
    target: str | None,
    features: tuple[str, ...],
    exclude: tuple[str, ...],
    n_active: int | None,
    score: str | None,
    posterior: str | None,
    mean: str | None,
    keep_outliers: bool,
    hyperparameters: str | None,
    time_limit: float | None,
    test_fraction: float | None,
    missing: str,
    options: Options,
    dialect: Dialect,
    output: str,
    hold_out_only: bool,
    dry_run: bool,
    checkpoint: str | None,
    seed: int,
    as_json: bool,
    quiet: bool,
    debug: bool,
) -> None:
    """Fit a model to a table and write it to a file.

    DATA is CSV, TSV, JSON lines, Parquet, Feather, NPZ or Excel, by its suffix, also in .gz or .zip; a folder of
    Parquet files; a pattern such as "sales-*.csv"; book.xlsx::Sheet2; shop.db::orders or a query of a database; or -
    for CSV from standard input. Without it, 43 years of CO2 at Mauna Loa. How columns are to be read is found from
    the values: see --dry-run. predict does the same. A tenth of the rows is held out to judge the model; the one that
    is written has seen all. A folder, or a large Parquet file, is left on disk, and must hold numbers alone.

    Example: sodalite fit houses.csv --target price --output houses.sodalite
    """
    began = click.get_current_context().find_root().obj
    with plain_errors(debug, lambda: interrupted(output, checkpoint)):
        from ..fitting.clock import Clock
        from ._progress import display

        choice = Choice(target, features, exclude, missing, options, dialect)
        if dry_run:
            show_readings(data, choice, as_json)
            return
        with display(not (quiet or as_json)) as shown:
            clock = Clock(shown, limit=time_limit, began=began)
            outcome = run(
                data,
                target,
                output,
                features=features,
                exclude=exclude,
                missing=missing,
                options=options,
                dialect=dialect,
                hold_out_only=hold_out_only,
                keep_outliers=keep_outliers,
                test_fraction=test_fraction,
                seed=seed,
                parameters={
                    "n_active": n_active,
                    "score": score,
                    "posterior": posterior,
                    "mean": mean,
                    "hyperparameters": hyperparameters,
                    "checkpoint": checkpoint,
                },
                clock=clock,
            )
        if as_json:
            print_json(outcome.as_dict())
        elif not quiet:
            from rich.console import Console

            show(outcome, Console(highlight=False, markup=False, emoji=False))


def interrupted(output: str, checkpoint: str | None) -> str:
    """What to say on Ctrl-C: what was not written, and how to go on from a checkpoint."""
    words = f"Interrupted: {output} was not written."
    if checkpoint is None:
        return words
    if not Path(checkpoint).exists():
        return f"{words} There was nothing yet to keep in {checkpoint}."
    return f"{words} What was found so far is in {checkpoint}. To go on: {shlex.join(['sodalite', *sys.argv[1:]])}"


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


def run(
    data: str | None,
    target: str | None,
    output: str,
    *,
    features: tuple[str, ...] = (),
    exclude: tuple[str, ...] = (),
    missing: str = "indicator",
    options: Options | None = None,
    dialect: Dialect | None = None,
    hold_out_only: bool = False,
    keep_outliers: bool = False,
    test_fraction: float | None = None,
    seed: int = 0,
    parameters: dict[str, Any],
    clock: Clock | None = None,
) -> FitOutcome:
    """Read, fit, test, fit all rows and write. An output that cannot be written is found first.

    `parameters` are the estimator's; those that are None are left to it. With `hold_out_only`, the model that is
    written has not seen the rows held out. `clock` has the time limit, and is told of the steps.
    """
    from ..fitting.clock import Clock

    clock = clock or Clock()
    clock.say(f"Reading {data or EMBEDDED}")  # before the imports, which take longer than most tables
    import numpy as np

    from .. import persistence
    from ..fitting.pipeline import LOOK_SHARE
    from ..report.held_out import judgement_to_json
    from ..report.summary import ColumnRead, left_out
    from ..report.words import bars_of, error_words, kernel_words, mean_words
    from ._fits import MEASURING, Judged, Work, excess_words, fit_all, fit_most, has_time_to_condition, judge

    check_paths(data, output, parameters.get("checkpoint"))
    model = make_model(parameters, seed)
    watch = Stopwatch()
    gross = GrossErrorsIn(LOOK_SHARE * clock.remaining)
    as_they_are = keep_outliers or parameters.get("hyperparameters") == "fixed"
    choice = Choice(target, features, exclude, missing, options, dialect)
    training = read_training(data, choice, seed, None if as_they_are else gross)
    watch("read")

    warn_of_outlying_rows(training)
    split = hold_out(len(training.y), test_fraction, seed)
    again = bool(len(split.test)) and not hold_out_only
    work = Work.of(model, training, split, seed, clock)
    fit_most(model, work, again)
    watch("fit")
    judged = Judged()
    if len(split.test):
        judged = judge(model, work, np.random.default_rng(seed))
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
        "data": data or EMBEDDED,
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
        data=data or EMBEDDED,
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
        import numpy as np

        from ..core.validation import OutlierWarning
        from ..core.warn import warn
        from ..fitting.gross import find_gross_errors

        found = find_gross_errors(training.X, training.y, self.seconds)
        if found is None:
            return np.empty(0, dtype=np.intp)
        self.words = [found.words(("The row is left out", "These rows are left out"), training.place)]
        warn(f"{self.words[0]} Correct the targets, or keep these rows with --keep-outliers.", OutlierWarning)
        return found.rows


def warn_of_outlying_rows(training: Training) -> None:
    """Warn of rows that are far from all others, by their places in the table; a fit warns of those on disk."""
    from ..core.validation import warn_of_outliers

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
    from ..report.importance import LEAST_ROWS, N_PREDICTIONS

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


def check_paths(data: str | None, output: str, checkpoint: str | None) -> None:
    """Refuse, before any work, paths that cannot be written or would replace each other."""
    from .. import persistence
    from ..selection.checkpoint import check_checkpoint

    check_model_path(output, "--output")
    check_outputs({"DATA": data}, {"--checkpoint": checkpoint, "--output": output})
    persistence.check_path(output)
    if checkpoint is not None:
        check_checkpoint(checkpoint)


def make_model(parameters: dict[str, Any], seed: int) -> GreedyGPRegressor:
    """The estimator with these parameters. Names that there are not are refused before the data are read."""
    from ..estimator import GreedyGPRegressor
    from ..fitting.means import resolve_mean
    from ..hyperparameters import resolve_hyperparameters
    from ..posteriors import resolve_posterior
    from ..scores import resolve_score

    model = GreedyGPRegressor(random_state=seed)
    model.set_params(**{name: value for name, value in parameters.items() if value is not None})
    given = model.get_params(deep=False)
    resolve_score(given["score"])
    resolve_posterior(given["posterior"])
    resolve_mean(given["mean"])
    resolve_hyperparameters(given["hyperparameters"])
    return model
