"""`sodalite fit`."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from ._common import (
    FILE,
    Seconds,
    check_model_path,
    check_outputs,
    debug_option,
    json_option,
    missing_option,
    plain_errors,
    print_json,
    quiet_option,
    seed_option,
    split_names,
)

if TYPE_CHECKING:
    from rich.console import Console

    from ..estimator import GreedyGPRegressor
    from ..posteriors.baselines import Baselines
    from ..report.words import KernelWords
    from ..tables import Table, Training
    from ._progress import Display

EMBEDDED = "Mauna Loa CO2"
MOST_TESTED = 5000  # rows that are held out: more would say little more, and take long
FEWEST_SPLIT = 100  # rows below which a tenth says too little: each is predicted from the others instead
MOST_ROWS = 100_000  # of a table on disk, that a straight line is fitted to


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
@click.option("--hyperparameters", metavar="NAME", help="How they are found: weave, subset or fixed.")
@click.option("--time-limit", type=Seconds(), metavar="TIME", help="Time for kernel and rows, about: 60s, 5m, 1h, ...")
@click.option(
    "--test-fraction",
    type=click.FloatRange(0, 0.9),
    metavar="SHARE",
    show_default="0.1; none of fewer than 100 rows, each of which is predicted from the others",
    help="Share of the rows to hold out, at most 5000, to see how good the model is.",
)
@missing_option
@click.option(
    "-o",
    "--output",
    default="model.sodalite",
    show_default=True,
    type=FILE,
    metavar="MODEL",
    help="Where to write the model.",
)
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
    hyperparameters: str | None,
    time_limit: float | None,
    test_fraction: float | None,
    missing: str,
    output: str,
    checkpoint: str | None,
    seed: int,
    as_json: bool,
    quiet: bool,
    debug: bool,
) -> None:
    """Fit a model to a table and write it to a file.

    DATA is CSV, TSV, .csv.gz, .tsv.gz, Parquet, Arrow, Feather or NPZ, by its suffix, a folder of Parquet files, or -
    for CSV from standard input. Without it, 43 years of CO2 at Mauna Loa are used. Texts become one input for each that
    occurs, dates become numbers; predict does the same. A folder, or a large Parquet file, is left on disk, and must
    hold numbers alone.

    Example: sodalite fit houses.csv --target price --output houses.sodalite
    """
    with plain_errors(debug, lambda: interrupted(output, checkpoint)):
        from ._progress import display

        with display(not (quiet or as_json)) as shown:
            outcome = run(
                data,
                target,
                output,
                features=features,
                exclude=exclude,
                missing=missing,
                test_fraction=test_fraction,
                seed=seed,
                parameters={
                    "n_active": n_active,
                    "score": score,
                    "posterior": posterior,
                    "hyperparameters": hyperparameters,
                    "time_limit": time_limit,
                    "checkpoint": checkpoint,
                },
                shown=shown,
            )
        if as_json:
            print_json(outcome.as_dict())
        elif not quiet:
            from rich.console import Console

            show(outcome, Console(highlight=False, markup=False, emoji=False))


def interrupted(output: str, checkpoint: str | None) -> str:
    """What to say on Ctrl-C."""
    words = f"Interrupted: {output} was not written."
    if checkpoint is None:
        return words
    if not Path(checkpoint).exists():
        return f"{words} There was nothing yet to keep in {checkpoint}."
    return f"{words} What was found so far is in {checkpoint}. To go on: {shlex.join(['sodalite', *sys.argv[1:]])}"


@dataclass(frozen=True)
class Judged:
    """How good a model's predictions of the rows that were held out are."""

    model: str
    rmse: float
    nlpd: float | None = None
    coverage: float | None = None
    """The share of the targets in the band that should hold 95 % of them. None where there is no band."""


@dataclass(frozen=True)
class Outcome:
    """What came of a fit."""

    data: str
    target: str
    columns: tuple[str, ...]
    n_rows: int
    n_test: int
    n_active: int
    stop_reason: str
    missing: dict[str, int]
    test: tuple[Judged, ...]
    """The model and three that are simpler; empty if no rows were held out."""
    baselines: Baselines | None
    """The model and simple ways by rows of the fit, each predicted from the others."""
    kernel: str
    words: KernelWords
    posterior: str
    seconds: dict[str, float]
    """Of reading, fitting, testing and writing."""
    output: str

    def as_dict(self) -> dict[str, Any]:
        """What JSON can hold."""
        baselines = None if self.baselines is None else self.baselines.as_dict()
        return {**asdict(self), "words": self.words.as_dict(), "baselines": baselines}


def run(
    data: str | None,
    target: str | None,
    output: str,
    *,
    features: tuple[str, ...] = (),
    exclude: tuple[str, ...] = (),
    missing: str = "error",
    test_fraction: float | None = None,
    seed: int = 0,
    parameters: dict[str, Any],
    shown: Display,
) -> Outcome:
    """Read, fit, test and write. An output that cannot be written is found first.

    `parameters` are the estimator's; those that are None are left to it.
    """
    shown.step(f"Reading {data or EMBEDDED}")
    import numpy as np

    from .. import persistence
    from ..estimator import GreedyGPRegressor
    from ..hyperparameters import resolve_hyperparameters
    from ..posteriors import resolve_posterior
    from ..report.words import bars_of, kernel_words
    from ..scores import resolve_score
    from ..selection.checkpoint import check_checkpoint
    from ..tables import Taken

    check_model_path(output, "--output")
    check_outputs({"DATA": data}, {"--checkpoint": parameters.get("checkpoint"), "--output": output})
    persistence.check_path(output)
    if parameters.get("checkpoint") is not None:
        check_checkpoint(parameters["checkpoint"])
    model = GreedyGPRegressor(random_state=seed)
    model.set_params(**{name: value for name, value in parameters.items() if value is not None})
    for resolve, name in (  # names that there are not are refused before the data are read
        (resolve_score, "score"),
        (resolve_posterior, "posterior"),
        (resolve_hyperparameters, "hyperparameters"),
    ):
        resolve(model.get_params(deep=False)[name])
    watch = Stopwatch()
    training = read_training(data, target, features, exclude, missing)
    watch("read")

    X, y = training.X, training.y
    order = np.random.default_rng(seed).permutation(len(y))
    if test_fraction is None:
        test_fraction = 0.1 if len(y) >= FEWEST_SPLIT else 0.0
    n_test = min(round(test_fraction * len(y)), len(y) - 1, MOST_TESTED)
    on_disk = not isinstance(X, np.ndarray)
    test, rest = np.sort(order[:n_test]), np.sort(order[n_test:])
    few = rest[:: -(-len(rest) // MOST_ROWS)] if on_disk else rest
    model.fit(Taken(X, rest) if on_disk else X[rest], y[rest], callback=shown)
    watch("fit")

    shown.step("Testing on the rows that were held out")
    judged = judge(model, X, y, few, test)
    watch("test")

    shown.step(f"Writing {output}")
    mapping = training.preprocessing
    words = kernel_words(
        model.kernel_,
        X[rest[:100_000]],
        mapping.groups,
        float(model.y_std_[0]),
        float(np.var(y[rest])),
        bars_of(model.posterior_),
    )
    model.preprocessing_ = mapping
    model.about_ = {
        "data": data or EMBEDDED,
        "n_rows": len(rest),
        "n_test": n_test,
        "test": [asdict(part) for part in judged],
        "kernel": words.as_dict(),
    }
    persistence.save(model, output)
    watch("write")
    return Outcome(
        data=data or EMBEDDED,
        target=str(mapping.target),
        columns=tuple(column.name for column in mapping.columns),
        n_rows=len(rest),
        n_test=n_test,
        n_active=len(model.active_indices_),
        stop_reason=model.selection_.stop_reason,
        missing=training.missing,
        test=judged,
        baselines=model.baselines_,
        kernel=str(model.kernel_),
        words=words,
        posterior=str(model.posterior),
        seconds=watch.seconds,
        output=output,
    )


class Stopwatch:
    """How long each of some steps took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = perf_counter()

    def __call__(self, name: str) -> None:
        """A step has ended."""
        now = perf_counter()
        self.seconds[name], self._last = now - self._last, now


def read_training(
    data: str | None, target: str | None, features: tuple[str, ...], exclude: tuple[str, ...], missing: str
) -> Training:
    """The table, or the embedded one, as a model is fitted to it."""
    from ..tables import ParquetRows, TableError, is_on_disk, learn, learn_on_disk, read_table

    if data is not None and data != "-" and is_on_disk(data):
        if missing != "error":
            raise TableError(f"--missing {missing} needs a table in memory; leave out such rows of {data} first.")
        names = ParquetRows.columns_of(data)
        some = split_names(features, names) if features else None
        return learn_on_disk(data, target, some, split_names(exclude, names))
    table = embedded() if data is None else read_table(data)
    return learn(
        table,
        which_target(table, target, embedded=data is None),
        split_names(features, table.names) if features else None,
        split_names(exclude, table.names),
        missing,
    )


def which_target(table: Table, target: str | None, embedded: bool = False) -> str:
    """The target's name; it need not be given where it is plain."""
    from ..tables import TableError
    from ..tables.base import listed

    if target is not None:
        return target
    if embedded:
        return "co2"
    if table.name.lower().endswith(".npz") and "y" in table.names:
        return "y"
    raise TableError(f"--target is needed: which column of {table.name} is to be predicted? {listed(table.names, 12)}")


def embedded() -> Table:
    """The data set that comes with the package, as a table."""
    from ..core.optional import require
    from ..datasets import load_mauna_loa
    from ..tables import Table

    X, y = load_mauna_loa()
    return Table(require("pyarrow", "cli").table({"year": X[:, 0], "co2": y}), EMBEDDED, lambda row: f"row {row}")


def judge(model: GreedyGPRegressor, X: Any, y: Any, rest: Any, test: Any) -> tuple[Judged, ...]:
    """The model, the nearest rows, a straight line and a constant, by the rows that were held out."""
    import numpy as np
    from sklearn.neighbors import KNeighborsRegressor

    from ..kernels import robust_spread, spread
    from ..metrics import coverage, nlpd, rmse

    if not len(test):
        return ()

    def score(name: str, mean: Any, std: Any) -> Judged:
        std = np.maximum(std, np.finfo(np.float64).tiny)
        return Judged(name, rmse(y[test], mean), nlpd(y[test], mean, std), coverage(y[test], mean, std))

    known, held = X[rest], X[test]
    centre, scale = known.mean(axis=0), spread(known)

    def design(rows: Any) -> Any:
        return np.column_stack([np.ones(len(rows)), (rows - centre) / scale])

    weights, _, rank, _ = np.linalg.lstsq(design(known), y[rest], rcond=None)
    left = y[rest] - design(known) @ weights
    noise = np.sqrt(np.sum(np.square(left)) / max(len(rest) - rank, 1))
    level, width = np.full(len(test), y[rest].mean()), np.full(len(test), y[rest].std())
    k = min(max(model.baselines_.k, 1) if model.baselines_ is not None else 5, len(rest))
    near = KNeighborsRegressor(k).fit((known - centre) / robust_spread(known), y[rest])
    return (
        score("sodalite", *model.predict(held, return_std=True)),
        Judged(f"{k} nearest rows", rmse(y[test], near.predict((held - centre) / robust_spread(known)))),
        score("linear", design(held) @ weights, np.full(len(test), noise)),
        score("constant", level, width),
    )


def show(outcome: Outcome, console: Console) -> None:
    """Print a summary."""
    import numpy as np
    from rich import box
    from rich.table import Table as Grid

    from ._progress import duration

    def line(name: str, text: str) -> None:
        grid.add_row(name, text)

    table = Grid(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    found = outcome.baselines
    if outcome.test:
        table.add_column(f"{outcome.n_test} rows held out")
        for header in ("RMSE", "NLPD", "in 95 % band"):
            table.add_column(header, justify="right")
        for part in outcome.test:
            nlpd = "" if part.nlpd is None else f"{part.nlpd:.3f}" if abs(part.nlpd) < 1e4 else f"{part.nlpd:.1e}"
            inside = "" if part.coverage is None else f"{part.coverage:.1%}"
            table.add_row(part.model, f"{part.rmse:.4g}", nlpd, inside, style=_style(part.model))
    elif found is not None:
        table.add_column(f"{found.n_rows} rows, each predicted from the others")
        table.add_column("RMSE", justify="right")
        simple = (f"{found.k} nearest rows", found.neighbours), ("linear", found.line), ("constant", found.constant)
        for name, value in (("sodalite", found.model), *simple):
            table.add_row(name, f"{value:.4g}" if np.isfinite(value) else "-", style=_style(name))
    if table.columns:
        console.print(table)
        console.print()
    grid = Grid.grid(padding=(0, 2))
    line("target", outcome.target)
    line("inputs", outcome.words.inputs())
    line("error bars", outcome.words.error_bars())
    line("noise", outcome.words.noise())
    line("function", outcome.words.shape)
    line("kept", f"{_rows(outcome.n_active)} of {outcome.n_rows} ({_reason(outcome.stop_reason)})")
    if outcome.missing:
        line("missing", ", ".join(f"{name} ({count})" for name, count in outcome.missing.items()))
    line("time", ", ".join(f"{name} {duration(seconds)}" for name, seconds in outcome.seconds.items()))
    line("model", outcome.output)
    console.print(grid, soft_wrap=False)


def _style(model: str) -> str:
    return "bold" if model == "sodalite" else ""


def _rows(count: int) -> str:
    return f"{count} row" + "s" * (count != 1)


def _reason(stop_reason: str) -> str:
    words: dict[str, str] = {
        "n_active": "as many as were asked for",
        "all_rows": "there are no more",
        "time_limit": "the time was up",
        "score": "no other was worth it",
    }
    return words.get(stop_reason, stop_reason)
