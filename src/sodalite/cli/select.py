"""`sodalite select`."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from ._common import (
    FILE,
    check_outputs,
    debug_option,
    json_option,
    missing_option,
    plain_errors,
    print_json,
    quiet_option,
    say,
    seed_option,
    split_names,
)

if TYPE_CHECKING:
    from ..selection.loop import Selection
    from ..tables import Training
    from ._progress import Display


@click.command("select")
@click.argument("data", type=FILE)
@click.option("-t", "--target", metavar="COLUMN", help="The column that the rows are to be informative about.")
@click.option("-n", "--n-active", required=True, type=click.IntRange(1), metavar="N", help="Rows to choose.")
@click.option("--features", multiple=True, metavar="A,B", help="Columns to look at; all others unless given.")
@click.option("--exclude", multiple=True, metavar="C", help="Columns not to look at; they are written all the same.")
@click.option("--score", default="delta", metavar="NAME", help="Which comes next: delta (default), lookahead, ...")
@missing_option
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
    with plain_errors(debug, "Interrupted." if output == "-" else f"Interrupted: {output} was not written."):
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
                seed=seed,
                shown=shown,
            )
        if as_json:
            print_json(outcome.as_dict())
        elif output != "-":
            say(
                f"{len(outcome.rows)} of {outcome.n_rows} rows chosen in {outcome.seconds:.1f} s, written to {output}",
                quiet,
            )


@dataclass(frozen=True)
class Outcome:
    """What came of a choice of rows."""

    data: str
    target: str
    n_rows: int
    rows: tuple[int, ...]
    """Those that were chosen, in order; 0 is the first of the table."""
    rmse: tuple[float, ...]
    """The other rows' RMSE after each, in units of the target."""
    stop_reason: str
    kernel: str
    """In units of the inputs, and of the target's standard deviation."""
    seconds: float
    output: str | None

    def as_dict(self) -> dict[str, Any]:
        """What JSON can hold."""
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
    missing: str = "error",
    seed: int = 0,
    shown: Display | None = None,
) -> Outcome:
    """Choose rows and write them; None as output writes nothing."""
    import numpy as np

    from ..scores import resolve_score
    from ..tables import check_output, is_on_disk, write_table

    began = perf_counter()
    resolve_score(score)
    check_outputs({"DATA": data}, {"--output": output})
    if output is not None:
        check_output(output)
    if shown is not None:
        shown.step(f"Reading {data}")
    read = from_disk if data != "-" and is_on_disk(data) else from_memory
    training, names, n_rows, take = read(data, target, features, exclude, missing)
    selection, kernel, unit = choose(training, n_active, score, seed, shown)
    rows = training.rows[selection.indices]
    if output is not None:
        name = "row" if "row" not in names else "row_number"
        write_table(output, take(rows, output).add_column(0, name, [rows.astype(np.int64)]))
    return Outcome(
        data=data,
        target=str(training.preprocessing.target),
        n_rows=n_rows,
        rows=tuple(rows.tolist()),
        rmse=tuple((selection.rmse * unit).tolist()),
        stop_reason=selection.stop_reason,
        kernel=str(kernel),
        seconds=perf_counter() - began,
        output=output,
    )


Source = tuple["Training", list[str], int, Callable[[Any, str], Any]]


def from_memory(
    data: str, target: str | None, features: tuple[str, ...], exclude: tuple[str, ...], missing: str
) -> Source:
    """What a table holds, its columns' names, how many rows it has, and what gives some of them for an output."""
    from ..tables import format_of, learn, open_table
    from ..tables.text import TextReader
    from .fit import which_target

    stream = io.BytesIO(sys.stdin.buffer.read()) if data == "-" else None  # it is read twice
    with open_table(data, stream) as reader:
        table = reader.read()

    def take(rows: Any, output: str) -> Any:
        if stream is not None:
            stream.seek(0)
        chosen = table.data
        if format_of(output) in ("csv", "tsv"):
            with open_table(data, stream) as reader:
                if isinstance(reader, TextReader):  # then every cell can be written as it was
                    chosen = reader.read_text().data
        return chosen.take(rows)

    some = split_names(features, table.names) if features else None
    training = learn(table, which_target(table, target), some, split_names(exclude, table.names), missing)
    return training, list(table.names), len(table), take


def from_disk(
    data: str, target: str | None, features: tuple[str, ...], exclude: tuple[str, ...], missing: str
) -> Source:
    """The same for a table that is left on disk: its numbers as they are, and only the chosen rows read whole."""
    from ..tables import ParquetRows, TableError, learn_on_disk

    if missing != "error":
        raise TableError(f"--missing {missing} needs a table in memory; leave out such rows of {data} first.")
    names = list(ParquetRows.columns_of(data))
    some = split_names(features, names) if features else None
    training = learn_on_disk(data, target, some, split_names(exclude, names))
    return training, names, len(training.y), lambda rows, output: training.X.records(rows)


def choose(
    training: Training, n_active: int, score: str, seed: int, shown: Display | None = None
) -> tuple[Selection, Any, float]:
    """The choice of rows, by a kernel that suits a random subset of them; the kernel, and the target's scale."""
    import numpy as np

    from ..fitting.select import select
    from ..hyperparameters import Subset, Task
    from ..kernels import default_kernels, spread

    if shown is not None:
        shown.step("Finding the kernel's parameters")
    X, unit = training.X, float(spread(training.y[:, None])[0])
    y = (training.y - training.y.mean()) / unit
    generator = np.random.default_rng(seed)
    sample = np.sort(generator.permutation(len(y))[:10_000])
    task = Task(X[sample], y[sample, None], n_active=n_active)
    kernel = Subset().find(task, default_kernels(task.X, task.y), generator).kernel
    return select(X, y, kernel, n_active=n_active, score=score, random_state=seed, callback=shown), kernel, unit
