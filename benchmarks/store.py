"""The default with its rows in memory and on disk: times, peak memory, predictions a second, and the same errors.

Real data sets first (a test split is predicted), then smooth functions of eight inputs in float32. On disk means a
memory map, and a limit of a quarter of the bytes that the rows take in double precision. Every line is a process of its
own, so that its peak memory is its own. The last columns are of the model's file: its size, how long it takes to load,
and the first prediction after that.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

import sodalite
from sodalite import GreedyGPRegressor

from .common import load, smooth_problem

SETS = ("us_elevation", "chm")
ROWS = (100_000, 1_000_000, 10_000_000)
QUERIES = 100_000
SHARE = 0.25  # of the bytes of the inputs, for memory_limit
LEAST = 150_000_000  # bytes that neighbourhoods of up to 1280 rows need, whatever the number of rows


def data(what: str) -> tuple[np.ndarray, ...] | None:
    """Training and test rows of a data set, or of so many rows of a smooth function."""
    if not what.isdigit():
        return load(what)
    n = int(what)
    X, y, _ = smooth_problem(n + QUERIES, 0.1, 8, dtype="float32")
    return X[:n], y[:n], X[n:], y[n:]


def measure(what: str, where: str) -> dict[str, float]:
    """Fit, predict, save and load one model in this process."""
    found = data(what)
    assert found is not None
    X, y, T, z = found
    limit = None if where == "memory" else int(max(SHARE * 8 * X.size, LEAST))
    with tempfile.TemporaryDirectory() as folder:
        if where == "disk":
            np.save(f"{folder}/X.npy", X)
            X = np.load(f"{folder}/X.npy", mmap_mode="r")
        begin = perf_counter()
        gp = GreedyGPRegressor(random_state=0, memory_limit=limit).fit(X, y)
        fitted = perf_counter()
        mean, _ = gp.predict(T, return_std=True)
        predicted = perf_counter()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        path = Path(folder) / "model"
        sodalite.save(gp, path)
        saved = perf_counter()
        again = sodalite.load(path)
        loaded = perf_counter()
        again.predict(T[:1])
        return {
            "on disk": float(gp.posterior_.store is not None),
            "fit": fitted - begin,
            "rate": len(T) / (predicted - fitted),
            "peak": peak,
            "rmse": float(np.sqrt(np.mean((mean - z) ** 2))),
            "nlpd": -float(gp.log_density(T[:10_000], z[:10_000]).mean()),
            "bytes": path.stat().st_size,
            "load": loaded - saved,
            "first": perf_counter() - loaded,
        }


def main() -> None:
    print("rows          where    fit s  queries/s  peak GB    RMSE    NLPD  file MB  load ms  first ms")
    for what in (*SETS, *map(str, ROWS)):
        if not what.isdigit() and load(what) is None:
            continue
        for where in ("memory", "disk"):
            command = [sys.executable, "-m", "benchmarks.store", what, where]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{what:13s} {where:6s} failed: {done.stderr.strip().splitlines()[-1]}", flush=True)
                continue
            found = json.loads(done.stdout.splitlines()[-1])
            print(
                f"{what:13s} {where if found['on disk'] or where == 'memory' else 'fits':6s} {found['fit']:7.1f} "
                f"{found['rate']:10.0f} {found['peak'] / 1e9:8.2f} {found['rmse']:7.4f} {found['nlpd']:7.3f} "
                f"{found['bytes'] / 1e6:8.1f} {1e3 * found['load']:8.1f} {1e3 * found['first']:9.1f}",
                flush=True,
            )


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:])))
