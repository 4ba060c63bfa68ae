"""The default with its rows in memory, on disk and on workers: times, peak memory, rates, and the same errors.

Real data sets first (a test split is predicted), then smooth functions of eight inputs in float32. On disk means a
memory map, and a limit of a quarter of the bytes that the rows take in double precision. On workers means two processes
of a Dask cluster, whose rows stay there. Every line is a process of its own, so that its peak memory is its own (with
workers, that of the largest of its three processes). The last columns are of the model's file: its size, how long it
takes to load, and the first prediction after that.

The table is written to docs/store.txt.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import sodalite
from sodalite import GreedyGPRegressor

from .common import load, smooth_problem
from .evidence import record

SETS = ("us_elevation", "chm")
ROWS = (100_000, 1_000_000, 10_000_000)
PLACES = ("memory", "disk", "workers")
QUERIES = 100_000
# Rows of smooth functions above which only memory is measured: two workers and their driver would need more than 24 GB,
# and a hundred thousand queries on disk an hour, as normal inputs in 8 dimensions are the hardest to search.
MANY = 2_000_000
JUDGES = 20_000  # test rows, at most, of every region alike, that the NLPD is a mean over
SHARE = 0.25  # of the bytes of the inputs, for memory_limit
LEAST = 200_000_000  # bytes that neighbourhoods of up to 1280 rows and those that judge them need, of millions of rows
CHUNKS = 8  # of the Dask arrays


@dataclass(frozen=True)
class Rows:
    """Rows to fit, and what `fit` is told of where they are."""

    X: Any
    y: Any
    limit: int | None = None
    client: Any = None

    @property
    def peak(self) -> int:
        """The largest memory, in bytes, that a process has had: this one or a worker."""
        return max([_peak(), *(self.client.run(_peak).values() if self.client else ())])


def data(what: str) -> tuple[np.ndarray, ...] | None:
    """Training and test rows of a data set, or of so many rows of a smooth function."""
    if not what.isdigit():
        return load(what)
    n = int(what)
    X, y, _ = smooth_problem(n + QUERIES, 0.1, 8, dtype="float32")
    return X[:n], y[:n], X[n:], y[n:]


@contextmanager
def rows_at(where: str, X: np.ndarray, y: np.ndarray, folder: str) -> Iterator[Rows]:
    """The rows in memory, in a memory map or on the workers of a cluster, which ends with the context."""
    if where == "memory":
        yield Rows(X, y)
        return
    limit = int(max(SHARE * 8 * X.size, LEAST))
    np.save(f"{folder}/X.npy", X)
    if where == "disk":
        yield Rows(np.load(f"{folder}/X.npy", mmap_mode="r"), y, limit)
        return
    import dask.array as da
    from distributed import Client, LocalCluster

    size = -(-len(X) // CHUNKS)
    mapped = da.from_array(np.load(f"{folder}/X.npy", mmap_mode="r"), chunks=(size, -1))
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield Rows(mapped, da.from_array(y, chunks=size), client=client)


def measure(what: str, where: str) -> dict[str, float]:
    """Fit, predict, save and load one model in this process."""
    found = data(what)
    assert found is not None
    X, y, T, z = found
    with tempfile.TemporaryDirectory() as folder, rows_at(where, X, y, folder) as rows:
        begin = perf_counter()
        gp = GreedyGPRegressor(random_state=0, memory_limit=rows.limit).fit(rows.X, rows.y, executor=rows.client)
        fitted = perf_counter()
        mean, _ = gp.predict(T, return_std=True)
        predicted = perf_counter()
        some = slice(None, None, -(-len(T) // JUDGES))
        nlpd, peak = -float(gp.log_density(T[some], z[some]).mean()), rows.peak
        path = Path(folder) / "model"
        sodalite.save(gp, path)
        saved = perf_counter()
        again = sodalite.load(path)
        loaded = perf_counter()
        again.predict(T[:1])
        return {
            "fit": fitted - begin,
            "rate": len(T) / (predicted - fitted),
            "peak": peak,
            "rmse": float(np.sqrt(np.mean((mean - z) ** 2))),
            "nlpd": nlpd,
            "bytes": sum(file.stat().st_size for file in (path, *path.glob("*")) if file.is_file()),
            "load": loaded - saved,
            "first": perf_counter() - loaded,
        }


def _peak() -> int:
    """The largest memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def line(what: str, where: str) -> str:
    """What a process of its own has measured, as a line of the table."""
    command = [sys.executable, "-m", "benchmarks.store", what, where]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return f"{what:13s} {where:7s} failed: {done.stderr.strip().splitlines()[-1]}"
    found = json.loads(done.stdout.splitlines()[-1])
    return (
        f"{what:13s} {where:7s} {found['fit']:7.1f} {found['rate']:10.0f} {found['peak'] / 1e9:8.2f} "
        f"{found['rmse']:7.4f} {found['nlpd']:7.3f} {found['bytes'] / 1e6:8.1f} {1e3 * found['load']:8.1f} "
        f"{1e3 * found['first']:9.1f}"
    )


def main() -> None:
    lines = ["rows          where     fit s  queries/s  peak GB    RMSE    NLPD  file MB  load ms  first ms"]
    print(lines[0])
    for what in (*SETS, *map(str, ROWS)):
        if not what.isdigit() and load(what) is None:
            continue
        for where in PLACES:
            if where != "memory" and what.isdigit() and int(what) > MANY:
                continue
            lines.append(line(what, where))
            print(lines[-1], flush=True)
    record("store", "python -m benchmarks store", {"store.txt": lines})


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:])))
