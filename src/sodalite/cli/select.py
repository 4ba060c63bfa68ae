"""`sodalite select`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ._common import (
    FILE,
    check_outputs,
    column_options,
    debug_option,
    json_option,
    not_written,
    plain_errors,
    print_json,
    quiet_option,
    say,
    seed_option,
)
from ._data import Choice, learn_from_disk, learn_from_memory, which_target

if TYPE_CHECKING:
    from sklearn.gaussian_process.kernels import Kernel

    from ..core.types import Indices
    from ..selection.loop import Selection
    from ..tables import Dialect, Options, Training
    from ._progress import Display

N_SAMPLE = 10_000  # most rows that the kernel is found from: enough for their spread; `Subset` uses fewer of them


@click.command("select")
@click.argument("data", type=FILE)
@click.option("-t", "--target", metavar="COLUMN", help="The column that the rows are to be informative about.")
@click.option("-n", "--n-active", required=True, type=click.IntRange(1), metavar="N", help="Rows to choose.")
@click.option("--features", multiple=True, metavar="A,B", help="Columns to look at; all others unless given.")
@click.option("--exclude", multiple=True, metavar="C", help="Columns not to look at; they are written all the same.")
@click.option("--score", default="delta", metavar="NAME", help="Which comes next: delta (default), lookahead, ...")
@column_options
@click.option(
    "-o", "--output", default="-", type=FILE, metavar="SUBSET", help="Where to write; standard output unless given."
)
@seed_option
@json_option
@quiet_option
@debug_option
def command(
    data: str,
    target: str | None,
    n_active: int,
    features: tuple[str, ...],
    exclude: tuple[str, ...],
    score: str,
    missing: str,
    options: Options,
    dialect: Dialect,
    output: str,
    seed: int,
    as_json: bool,
    quiet: bool,
    debug: bool,
) -> None:
    """Choose the rows that say most about a table, and write them.

    DATA is a table in any format that fit reads, or - for CSV from standard input. The chosen rows are written with all
    of their columns, the most telling first: a summary of the data for any other tool. A first column says which row of
    DATA each is, counting from 0.

    Example: sodalite select houses.csv --target price --n-active 20
    """
    with plain_errors(debug, not_written(output)):
        from ._progress import display

        with display(not (quiet or as_json)) as shown:
            outcome = run(
                data,
                target,
                None if as_json and output == "-" else output,
                n_active=n_active,
                features=features,
                exclude=exclude,
                score=score,
                missing=missing,
                options=options,
                dialect=dialect,
                seed=seed,
                shown=shown,
            )
        for note in outcome.notes:
            say(note, quiet or as_json)
        if as_json:
            print_json(outcome.as_dict())
        elif output != "-":
            say(
                f"{len(outcome.rows)} of {outcome.n_rows} rows chosen in {outcome.seconds:.1f} s, written to {output}",
                quiet,
            )


@dataclass(frozen=True)
class SelectOutcome:
    """The rows that were chosen, and the error that they leave."""

    data: str
    target: str
    n_rows: int
    rows: tuple[int, ...]
    """Numbers of the rows that were chosen, in order; 0 is the first row of the table."""
    rmse: tuple[float, ...]
    """The RMSE of the remainder after each choice, in units of the target."""
    stop_reason: str
    kernel: str
    """The kernel, in units of the inputs and of the target's standard deviation."""
    notes: tuple[str, ...]
    """What was noticed in the table, and what was done about it: sentences."""
    seconds: float
    output: str | None

    def as_dict(self) -> dict[str, Any]:
        """The outcome as what JSON can hold."""
        return asdict(self)


def run(
    data: str,
    target: str | None,
    output: str | None = "-",
    *,
    n_active: int,
    features: tuple[str, ...] = (),
    exclude: tuple[str, ...] = (),
    score: str = "delta",
    missing: str = "indicator",
    options: Options | None = None,
    dialect: Dialect | None = None,
    seed: int = 0,
    shown: Display | None = None,
) -> SelectOutcome:
    """Choose rows of a table and write them; None as output writes nothing."""
    import numpy as np

    from ..scores import resolve_score
    from ..tables import check_output, is_on_disk, write_table
    from ._progress import Display

    began = perf_counter()
    resolve_score(score)
    check_outputs({"DATA": data}, {"--output": output})
    if output is not None:
        check_output(output)
    shown = shown or Display()
    shown.step(f"Reading {data}")
    read = from_disk if data != "-" and is_on_disk(data) else from_memory
    table = read(data, Choice(target, features, exclude, missing, options, dialect))
    training = table.training
    selection, kernel, unit = choose(training, n_active, score, seed, shown)
    rows = training.rows[selection.indices]
    if output is not None:
        name = "row" if "row" not in table.names else "row_number"
        write_table(output, table.take(rows).add_column(0, name, [rows.astype(np.int64)]))
    return SelectOutcome(
        data=data,
        target=str(training.preprocessing.target),
        n_rows=table.n_rows,
        rows=tuple(rows.tolist()),
        rmse=tuple((selection.rmse * unit).tolist()),
        stop_reason=selection.stop_reason,
        kernel=str(kernel),
        notes=training.notes,
        seconds=perf_counter() - began,
        output=output,
    )


class SelectTable(NamedTuple):
    """A table to choose rows of."""

    training: Training
    names: list[str]
    """The names of all columns."""
    n_rows: int
    take: Callable[[Indices], Any]
    """A function of row numbers: an Arrow table of these rows, with all columns."""


def from_memory(data: str, choice: Choice) -> SelectTable:
    """A table that is read whole."""
    from ..tables import read_table

    dialect = choice.dialect and replace(choice.dialect, na_values=())  # rows are written as they are in the file
    table = read_table(data, dialect)
    training = learn_from_memory(table, which_target(table, choice.target), choice)
    return SelectTable(training, list(table.names), len(table), table.data.take)


def from_disk(data: str, choice: Choice) -> SelectTable:
    """A table that is left on disk: only the columns of numbers are read, and of the chosen rows all columns."""
    training, names = learn_from_disk(data, choice)
    return SelectTable(training, names, len(training.y), training.X.records)


def choose(
    training: Training, n_active: int, score: str, seed: int, shown: Display | None = None
) -> tuple[Selection, Kernel, float]:
    """Choose rows by a kernel that is fitted to a random sample; also the kernel, and the target's scale."""
    import numpy as np

    from ..fitting.select import select
    from ..hyperparameters import Subset, Task
    from ..kernels import default_kernels, spread

    if shown is not None:
        shown.step("Finding the kernel's parameters")
    X, unit = training.X, float(spread(training.y[:, None])[0])
    y = (training.y - training.y.mean()) / unit
    generator = np.random.default_rng(seed)
    sample = np.sort(generator.permutation(len(y))[:N_SAMPLE])
    task = Task(X[sample], y[sample, None], n_active=n_active)
    kernel = Subset().find(task, default_kernels(task.X, task.y), generator).kernel
    return select(X, y, kernel, n_active=n_active, score=score, random_state=seed, callback=shown), kernel, unit
