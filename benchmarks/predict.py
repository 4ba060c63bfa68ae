"""The commands: rows a second that `predict` streams, what `fit` spends outside the fit, and how soon there is help.

`predict` writes the mean and the standard deviation of every row of a file. Its floor is the bare products: with 500
active rows, those of the inputs with the active rows, and of these covariances with the inverse factor and with the
weights, in the same blocks on the same threads. For the posterior "local", the neighbours' search, products and systems
come on top. Every command runs in a process of its own, whose memory is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from sodalite import GreedyGPRegressor, save
from sodalite.core.threads import threaded_map
from sodalite.posteriors import Local
from sodalite.posteriors.base import BLOCK
from sodalite.tables import Numbers, Preprocessing

from . import local
from .common import seconds, smooth_problem

COMMAND = [sys.executable, "-c", "from sodalite.cli import main; main()"]
MEASURED = """
import sys
from pathlib import Path
from sodalite.cli.predict import run
outcome = run(*sys.argv[1:], std=True)
status = Path("/proc/self/status")  # the resource module would say what the parent had taken
peak = status.read_text().partition("VmHWM:")[2].split()[0] if status.exists() else "nan"
print(outcome.n_rows, outcome.seconds, float(peak) / 2**10)
"""


def floor(model: GreedyGPRegressor, some: int) -> float:
    """Seconds a row that the bare products would take, measured on some rows."""
    posterior = model.posterior_
    base = getattr(posterior, "base", posterior)
    active, inverse, weights = model.X_train_, base.inverse, base.weights
    X = np.random.default_rng(1).normal(size=(some, active.shape[1]))
    size = BLOCK // (2 * len(active))

    def products(part: np.ndarray) -> None:
        K = active @ part.T
        inverse @ K
        K.T @ weights

    least = seconds(lambda: threaded_map(products, [X[a : a + size] for a in range(0, some, size)]))
    if isinstance(posterior, Local):
        found = posterior.near.query(X, posterior.k)
        least += seconds(lambda: posterior.near.query(X, posterior.k)) + local.floor(posterior, X, found)
    return least / some


def write(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    table = pa.table({**{f"x{j}": column for j, column in enumerate(X.T)}, "y": y})
    (csv.write_csv if path.suffix == ".csv" else parquet.write_table)(table, path)


def predicting(folder: Path, rows: int, d: int, m: int) -> None:
    X, y, kernel = smooth_problem(20_000, 0.05, d)
    options = {"n_active": m, "hyperparameters": "fixed", "criterion": "uncertainty", "random_state": 0}
    X_new = np.random.default_rng(2).normal(size=(rows, d))
    for suffix in ("csv", "parquet"):
        write(folder / f"new.{suffix}", X_new, np.zeros(rows))
    few = folder / "few.csv"
    write(few, X_new[: rows // 10], np.zeros(rows // 10))
    for posterior in ("sod", "local"):
        model = GreedyGPRegressor(kernel, posterior=posterior, **options).fit(X, y)
        model.preprocessing_ = Preprocessing("y", tuple(Numbers(f"x{j}") for j in range(d)))
        save(model, folder / "m.sodalite")
        least = floor(model, 50_000 if posterior == "sod" else 5_000)
        # "local" solves a system for every row, so fewer of them will do.
        files = [few, folder / "new.csv", folder / "new.parquet"] if posterior == "sod" else [few]
        for file in files:
            for output in ("out.csv", "out.parquet") if file.name == "new.csv" else ("out.csv",):
                arguments = [folder / "m.sodalite", file, folder / output]
                done = subprocess.run(
                    [sys.executable, "-c", MEASURED, *map(str, arguments)], capture_output=True, text=True, check=True
                )
                n, taken, memory = map(float, done.stdout.split())
                print(
                    f"{posterior:5} {n:.0f} rows, {file.name} to {output}: {n / taken:.0f} rows/s, {memory:.0f} MB; "
                    f"{least * n / taken:.0%} of the bare products' rate",
                    flush=True,
                )


def fitting(folder: Path, rows: int, d: int) -> None:
    X, y, _ = smooth_problem(rows, 0.05, d)
    write(folder / "train.csv", X, y)
    begin = perf_counter()
    command = [*COMMAND, "fit", "train.csv", "--target", "y", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    taken = perf_counter() - begin
    parts = json.loads(done.stdout)["seconds"]
    words = ", ".join(f"{name} {value:.2f} s" for name, value in parts.items())
    print(
        f"fit, {rows} rows of CSV: {taken:.1f} s ({words}); outside the fit: {1 - parts['fit'] / taken:.1%}", flush=True
    )


def helping(repeats: int = 7) -> None:
    def run(*command: str) -> float:
        return seconds(lambda: subprocess.run(command, capture_output=True, check=True), repeats)

    bare = run(sys.executable, "-c", "pass")
    for arguments in (["--help"], ["fit", "--help"]):
        taken = run(*COMMAND, *arguments)
        print(f"sodalite {' '.join(arguments)}: {taken:.3f} s, of which the interpreter takes {bare:.3f} s")


def main(rows: int = 1_000_000, fit_rows: int = 100_000, d: int = 8, m: int = 500) -> None:
    helping()
    with TemporaryDirectory() as folder:
        predicting(Path(folder), rows, d, m)
        fitting(Path(folder), fit_rows, d)
