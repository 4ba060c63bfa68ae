"""`sodalite select`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..criteria import resolve_criterion
from ..fitting.select import select
from ..hyperparameters import Subset, Task
from ..kernels import default_kernels, spread
from ..selection.loop import Selection
from ..stopping import resolve_rule
from ..tables import Training, check_output, is_on_disk, read_table, write_table
from ._common import check_outputs, conclude
from ._data import learn_from_disk, learn_from_memory, which_target
from ._progress import Display, display
from .options import Select

N_SAMPLE = 10_000  # most rows that the kernel is found from: enough for their spread; `Subset` uses fewer of them


def command(options: Select) -> None:
    """Choose rows, write them and say how many."""
    with display(not options.silent, f"Reading {options.data}") as shown:
        outcome = run(options, shown)
    words = f"{len(outcome.rows)} of {outcome.n_rows} rows chosen in {outcome.seconds:.1f} s"
    conclude(options, outcome.notes, (), f"{words}, written to {options.output}", outcome._asdict)


class SelectOutcome(NamedTuple):
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


def run(options: Select, shown: Display | None = None) -> SelectOutcome:
    """Choose rows of a table and write them; with JSON on standard output, they are not written."""
    began, data, shown = perf_counter(), str(options.data), shown or Display()
    output = None if options.as_json and options.output == "-" else options.output
    resolve_criterion(options.parameters.get("criterion", "lookahead"))
    resolve_rule(**{name: options.parameters.get(name) for name in ("n_active", "tol", "time_limit")})
    check_outputs({"DATA": data}, {"checkpoint": options.checkpoint, "--output": output})
    if output is not None:
        check_output(output)
    shown.step(f"Reading {data}")
    if data != "-" and is_on_disk(data):  # only the columns of numbers are read, and of the chosen rows all columns
        training, names = learn_from_disk(options)
        n_rows, take = len(training.y), training.X.records
    else:
        table = read_table(data, replace(options.dialect, na_values=()))  # rows are written as in the file
        training = learn_from_memory(table, which_target(table, options.target), options)
        names, n_rows, take = table.names, len(table), table.data.take
    selection, kernel, unit = choose(training, options.parameters, options.seed, shown)
    rows = training.rows[selection.indices]
    if output is not None:
        name = "row" if "row" not in names else "row_number"
        write_table(output, take(rows).add_column(0, name, [rows.astype(np.int64)]))
    return SelectOutcome(
        data=data,
        target=str(training.preprocessing.target),
        n_rows=n_rows,
        rows=tuple(rows.tolist()),
        rmse=tuple((selection.rmse * unit).tolist()),
        stop_reason=selection.stop_reason,
        kernel=str(kernel),
        notes=training.notes,
        seconds=perf_counter() - began,
        output=output,
    )


def choose(
    training: Training, parameters: Mapping[str, Any], seed: int, shown: Display | None = None
) -> tuple[Selection, Kernel, float]:
    """Choose rows by a kernel that is fitted to a random sample; also the kernel, and the target's scale."""
    if shown is not None:
        shown.step("Finding the kernel's parameters")
    X, unit = training.X, float(spread(training.y[:, None])[0])
    y = (training.y - training.y.mean()) / unit
    generator = np.random.default_rng(seed)
    sample = np.sort(generator.permutation(len(y))[:N_SAMPLE])
    task = Task(X[sample], y[sample, None], n_active=parameters["n_active"])
    kernel = Subset().find(task, default_kernels(task.X, task.y), generator).kernel
    return select(X, y, kernel, **parameters, random_state=seed, callback=shown), kernel, unit
