"""`sodalite fit`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite, log
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ..core.words import counted
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
from ._limit import Timetable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

    from ..core.types import Floats, Indices
    from ..estimator import GreedyGPRegressor
    from ..posteriors.baselines import Baselines
    from ..posteriors.calibration import ErrorBars
    from ..report.build import HeldOut
    from ..report.words import KernelWords
    from ..stopping import Callback, Stage
    from ..tables import Dialect, Options, Preprocessing, Reading, Training
    from ._progress import Display

MOST_TESTED = 5000  # most rows that are held out: more would tell RMSE better than to 1 %, and take long to predict
FEWEST_SPLIT = 100  # rows below which none are held out: each is predicted from the others instead
MOST_ROWS = 100_000  # most rows that simple models see of a table on disk, and that a kernel is described by
IMPORTANCE_SHARE = 0.5  # of the time that is left, for the importance of the inputs
DEFAULT_K = 5  # nearest rows that a prediction averages, where the fit has not found a better number


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
@click.option("--mean", metavar="NAME", help="What is predicted first: linear, trees, or the best of them: auto.")
@click.option("--hyperparameters", metavar="NAME", help="How they are found: weave, subset or fixed.")
@click.option("--time-limit", type=Seconds(), metavar="TIME", help="Time for the whole command: 60s, 5m, 1h, ...")
@click.option(
    "--test-fraction",
    type=click.FloatRange(0, 0.9),
    metavar="SHARE",
    show_default="0.1; none of fewer than 100 rows, each of which is predicted from the others",
    help="Share of the rows to hold out, at most 5000, to see how good the model is.",
)
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

    DATA is CSV, TSV, .csv.gz, .tsv.gz, Parquet, Arrow, Feather, NPZ or Excel, by its suffix, a folder of Parquet files,
    or - for CSV from standard input; without it, 43 years of CO2 at Mauna Loa. How columns are to be read is found from
    the values: see --dry-run. predict does the same. A tenth of the rows is held out to judge the model; the one that
    is written has seen all. A folder, or a large Parquet file, is left on disk, and must hold numbers alone.

    Example: sodalite fit houses.csv --target price --output houses.sodalite
    """
    began = click.get_current_context().find_root().obj
    time = Timetable(time_limit, perf_counter() if began is None else began)
    with plain_errors(debug, lambda: interrupted(output, checkpoint)):
        from ._progress import display

        choice = Choice(target, features, exclude, missing, options, dialect)
        if dry_run:
            show_readings(data, choice, as_json)
            return
        with display(not (quiet or as_json)) as shown:
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
                shown=shown,
                time=time,
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
    test_fraction: float | None = None,
    seed: int = 0,
    parameters: dict[str, Any],
    shown: Display,
    time: Timetable | None = None,
) -> FitOutcome:
    """Read, fit, test, fit all rows and write. An output that cannot be written is found first.

    `parameters` are the estimator's; those that are None are left to it. With `hold_out_only`, the model that is
    written has not seen the rows held out. `time` has the time limit; None for any time.
    """
    time = time or Timetable(None)
    shown.step(f"Reading {data or EMBEDDED}")
    import numpy as np

    from .. import persistence
    from ..fitting.budget import CHOICE, CONDITION
    from ..fitting.pipeline import Settings
    from ..report.words import bars_of, error_words, kernel_words, mean_words
    from ..tables import Taken

    check_paths(data, output, parameters.get("checkpoint"))
    model = make_model(parameters, seed)
    watch = Stopwatch()
    training = read_training(data, Choice(target, features, exclude, missing, options, dialect), seed)
    watch("read")

    y = training.y
    split = hold_out(len(y), test_fraction, seed)
    X = training.without(split.test, seed)
    again = bool(len(split.test)) and not hold_out_only
    settings = Settings.of({**model.get_params(deep=False), "checkpoint": None})
    costs = settings.costs(len(split.rest), X.shape[1])

    def follow(stage: Stage) -> None:
        time.follow(stage)
        shown(stage)

    shown.expect(time.later(costs, again) / sum(cost for _, cost in costs.steps()), time.left)
    model.set_params(time_limit=time.of_fit(costs, again))
    model.fit(Taken(X, split.rest) if on_disk(training) else X[split.rest], y[split.rest], callback=follow)
    time.end_step()
    watch("fit")

    if len(split.test):
        shown.step("Testing on the rows held out")
        judged = judge(model, training, split, X)
        watch("test")
    else:
        judged = ()

    mapping, rows, said = training.preprocessing, split.rest, ""
    if again and not time.has_time_to_condition(len(y) / len(split.rest)):
        again, said = False, "the model has not seen the rows held out: there was no time to fit it again with them"
    if again:
        rows = np.arange(len(y))
        known = len(y) / len(split.rest) * time.of_steps(CHOICE, CONDITION)
        shown.expect(time.later(costs, False) / (costs.choice + costs.condition), time.left, known)
        model.set_params(time_limit=time.of_second_fit())
        model, X = refit(model, training, follow), training.X
        time.end_step()
        watch("fit all")
    elif len(split.test):
        mapping = mapping_of_rest(training, split)
    model.set_params(time_limit=time.limit)

    shown.step("Measuring which inputs matter")
    known = X[rows[:MOST_ROWS]]
    unit, variance = float(model.y_std_[0]), float(np.var(y[rows]))
    scale, bars = model.posterior_.scale, bars_of(model.posterior_)
    model.preprocessing_ = mapping
    words = kernel_words(model.kernel_, known, shares_of(model, known, time.left), unit, variance, bars)
    shown.step(f"Writing {output}")
    model.about_ = {
        "data": data or EMBEDDED,
        "n_rows": len(rows),
        "n_test": len(split.test),
        "notes": list(training.notes),
        "test": [asdict(part) for part in judged],
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
        test=judged,
        baselines=model.baselines_,
        left_out=left_out(bars, [unit]),
        errors=error_words(None if scale is None else scale.shape),
        mean=mean_words(model.mean_),
        kernel=str(model.kernel_),
        words=words,
        posterior=str(model.posterior),
        seconds=watch.seconds,
        time_limit="; ".join(part for part in (said, time.words()) if part),
        output=output,
    )


def shares_of(model: GreedyGPRegressor, known: Floats, seconds: float) -> tuple[tuple[str, float], ...]:
    """The inputs and their total effects, by as many predictions as can be made in a part of so many seconds."""
    from ..report.importance import LEAST_ROWS, N_PREDICTIONS

    if not isfinite(seconds):
        return model.importance(known).shares
    some = known[:: max(len(known) // LEAST_ROWS, 1)]
    began = perf_counter()
    model.fitted_.mean(some)
    rate = len(some) / max(perf_counter() - began, 1e-9)
    count = int(min(max(IMPORTANCE_SHARE * seconds * rate, 1.0), N_PREDICTIONS))
    return model.importance(known, n_predictions=count).shares


def refit(model: GreedyGPRegressor, training: Training, follow: Callback) -> GreedyGPRegressor:
    """A model of all rows, with the kernel and the kind of mean function of one that was fitted to most of them."""
    import warnings

    from sklearn.base import clone

    from ..posteriors.baselines import NoBetterWarning

    mean = model.mean_
    chosen = None if mean.is_constant else mean.name if mean.share == 1 else model.mean
    found: GreedyGPRegressor = clone(model).set_params(
        kernel=model.kernel_, mean=chosen, hyperparameters="fixed", checkpoint=None
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoBetterWarning)  # it has been said of the first model
        found.fit(training.X, training.y, callback=follow)
    found.set_params(kernel=model.kernel, mean=model.mean, hyperparameters=model.hyperparameters)
    again = replace(found.mean_, trials=mean.trials)
    found.fitted_ = replace(found.fitted_, rounds=model.fitted_.rounds, mean_function=again)
    return found


def mapping_of_rest(training: Training, split: Split) -> Preprocessing:
    """How columns become inputs for a model that has not seen the rows held out, nor means of their targets."""
    from ..tables.levels import level_means

    columns, place = [], 0
    for column in training.preprocessing.columns:
        if place in training.codes:
            codes = training.codes[place][split.rest]
            means = level_means(codes, training.y[split.rest], len(column.levels))
            column = replace(column, means=tuple(means.tolist()))
        place += len(column.names)
        columns.append(column)
    return replace(training.preprocessing, columns=tuple(columns))


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


class Split(NamedTuple):
    """Rows of a table by their numbers, in order."""

    rest: Indices
    """Rows that the model is fitted to."""
    test: Indices
    """Rows that are held out."""


def hold_out(n: int, test_fraction: float | None, seed: int) -> Split:
    """Hold out a random share of n rows; None for a tenth, or none where they are few."""
    import numpy as np

    if test_fraction is None:
        test_fraction = 0.1 if n >= FEWEST_SPLIT else 0.0
    n_test = min(round(test_fraction * n), n - 1, MOST_TESTED)
    order = np.random.default_rng(seed).permutation(n)
    return Split(np.sort(order[n_test:]), np.sort(order[:n_test]))


def on_disk(training: Training) -> bool:
    """Whether the table is left on disk, and its rows are read when they are asked for."""
    from ..tables import ParquetRows

    return isinstance(training.X, ParquetRows)


def judge(model: GreedyGPRegressor, training: Training, split: Split, X: Any) -> tuple[HeldOut, ...]:
    """The model, the nearest rows, a straight line and a constant, by the rows that were held out.

    X, of shape (n, d), has all rows, with nothing in it that the targets of those held out have told.
    """
    import numpy as np
    from sklearn.neighbors import KNeighborsRegressor

    from ..kernels import robust_spread, spread
    from ..metrics import rmse
    from ..posteriors.calibration import shares_inside
    from ..posteriors.predictive import Predictive
    from ..report.build import HeldOut

    y, test = training.y, split.test
    if not len(test):
        return ()
    rest = split.rest[:: -(-len(split.rest) // MOST_ROWS)] if on_disk(training) else split.rest

    def score(name: str, found: Predictive) -> HeldOut:
        target = y[test][:, None]
        coverages = by_level(shares_inside(found.cumulative(target)))
        nlpd = -float(np.mean(found.log_density(target)))
        return HeldOut(name, rmse(target, found.mean), nlpd, coverages["0.95"], coverages)

    def gaussian(name: str, mean: Floats, std: float) -> HeldOut:
        std = max(std, np.finfo(np.float64).tiny)
        return score(name, Predictive.gaussian(mean[:, None], np.full((len(mean), 1), std)))

    known, held = X[rest], X[test]
    centre, scale = known.mean(axis=0), spread(known)

    def design(rows: Floats) -> Floats:
        """The matrix of a straight line: a column of ones and the scaled inputs."""
        return np.column_stack([np.ones(len(rows)), (rows - centre) / scale])

    weights, _, rank, _ = np.linalg.lstsq(design(known), y[rest], rcond=None)
    residuals = y[rest] - design(known) @ weights
    noise = float(np.sqrt(np.sum(np.square(residuals)) / max(len(rest) - rank, 1)))
    level = np.full(len(test), y[rest].mean())
    k = min(max(model.baselines_.k, 1) if model.baselines_ is not None else DEFAULT_K, len(rest))
    near = KNeighborsRegressor(k).fit((known - centre) / robust_spread(known), y[rest])
    return (
        score("sodalite", model.fitted_.predictive(held)),
        HeldOut(near_words(k), rmse(y[test], near.predict((held - centre) / robust_spread(known)))),
        gaussian("linear", design(held) @ weights, noise),
        gaussian("constant", level, float(y[rest].std())),
    )


def near_words(k: int) -> str:
    """The name of the mean of the k nearest rows."""
    return "nearest row" if k == 1 else f"{k} nearest rows"


def left_out(bars: ErrorBars | None, units: Sequence[float]) -> HeldOut | None:
    """The model by rows of its fit, each predicted from the others; None if that is not known.

    `units` are what one unit of each scaled target is, in units of the target.
    """
    from ..report.build import HeldOut

    if bars is None or bars.rmse is None or bars.shares is None:
        return None
    # Densities are per unit of every target. Errors are scaled: with several targets, no unit is that of all of them.
    nlpd = None if bars.nlpd is None else bars.nlpd + sum(log(unit) for unit in units)
    rmse = bars.rmse * (units[0] if len(units) == 1 else 1.0)
    coverages = by_level(bars.shares)
    return HeldOut("sodalite", rmse, nlpd, coverages["0.95"], coverages)


def by_level(shares: Sequence[float]) -> dict[str, float]:
    """Shares of rows in the intervals of `COVERAGES`, by these probabilities."""
    from ..posteriors.calibration import COVERAGES

    return {f"{level:g}": share for level, share in zip(COVERAGES, shares, strict=True)}


def show(outcome: FitOutcome, console: Console) -> None:
    """Print a summary."""
    from rich.table import Table as Grid

    from ..stopping import in_words
    from ._progress import duration

    table = errors_table(outcome)
    if table is not None:
        console.print(table)
        console.print("in 50 %: the share of the rows in intervals that should hold 50 % of them\n")
    kept = f"{outcome.n_active} row{'s' * (outcome.n_active != 1)} of {outcome.n_rows}"
    grid = Grid.grid(padding=(0, 2))
    grid.add_row("target", outcome.target)
    grid.add_row("inputs", outcome.words.inputs())
    grid.add_row("error bars", outcome.words.error_bars())
    grid.add_row("errors", outcome.errors)
    grid.add_row("noise", outcome.words.noise())
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
    console.print(grid, soft_wrap=False)


def show_readings(data: str | None, choice: Choice, as_json: bool) -> None:
    """Print how every column is read."""
    training = read_training(data, choice)
    mapping = training.preprocessing
    if as_json:
        columns = [reading.as_dict() for reading in training.readings]
        content = {"data": data or EMBEDDED, "target": mapping.target, "n_rows": len(training.y), "columns": columns}
        print_json(content | {"inputs": mapping.names, "notes": training.notes, "missing": training.missing})
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table as Grid

    console = Console(highlight=False, markup=False, emoji=False)
    readings = training.readings or tuple(_plain_readings(mapping))
    table = Grid(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for header, justify in (("column", "left"), ("read as", "left"), ("inputs", "right"), ("missing", "right")):
        table.add_column(header, justify=justify)  # type: ignore[arg-type]
    for reading in readings:
        n_inputs = "" if reading.column is None else str(len(reading.column.names))
        table.add_row(reading.name, reading.words, n_inputs, str(reading.missing or ""))
    rows = f"{len(training.y)} row{'s' * (len(training.y) != 1)}"
    inputs = f"{len(mapping.names)} input{'s' * (len(mapping.names) != 1)}"
    console.print(f"{data or EMBEDDED}: {rows} to predict {mapping.target} by, from {inputs}\n")
    console.print(table)
    told = {note for note in training.notes if " is left out" in note}
    for note in training.notes:
        if note not in told:
            console.print(f"\n{note}")


def _plain_readings(mapping: Preprocessing) -> Iterator[Reading]:
    """How the columns of a table on disk are read."""
    from ..tables import Reading

    for column in mapping.columns:
        yield Reading(column.name, "numbers", column)


def errors_table(outcome: FitOutcome) -> Grid | None:
    """The errors of the model and of simpler ones: by rows held out, else by rows left out; None if not known."""
    from rich import box
    from rich.table import Table as Grid

    from ..posteriors.calibration import COVERAGES
    from ..report.words import readable

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
    from ..report.build import HeldOut

    found = outcome.baselines
    if found is None:
        return ()
    simple = (near_words(found.k), found.neighbours), ("linear", found.line), ("constant", found.constant)
    return outcome.left_out or HeldOut("sodalite", found.model), *(HeldOut(name, value) for name, value in simple)


def _style(part: HeldOut) -> str:
    """The style of a line of the table: our model stands out."""
    return "bold" if part.model == "sodalite" else ""
