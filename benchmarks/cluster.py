"""A cluster against threads, ten million rows on one machine, and two large real data sets end to end."""

from __future__ import annotations

from statistics import median
from time import perf_counter

import numpy as np
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sodalite import GreedyGPRegressor, select
from sodalite.metrics import rmse

from .common import load, smooth_problem
from .scaling import in_a_process

LIMIT = "600MB"  # memory limit at which coordinates v are kept neither of a million rows nor of ten


def against_threads(n: int = 1_000_000, m: int = 500, repeats: int = 3) -> None:
    """Two processes of one thread each against two threads; the bound is 1.3 times as long."""
    import dask.array as da
    from distributed import Client, LocalCluster, wait

    X, y, kernel = smooth_problem(n, 0.1)
    options = {"n_active": m, "first": 0, "criterion": "delta"}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        there = client.persist([da.from_array(X, chunks=(-(-n // 4), -1)), da.from_array(y, chunks=-(-n // 4))])
        wait(there)
        select(X[:5000], y[:5000], kernel, n_active=20, first=0, criterion="delta", executor=client)  # imports
        threads, partitions, arrays = [], [], []
        for _ in range(repeats):
            begin = perf_counter()
            here = select(X, y, kernel, **options)
            threads.append(perf_counter() - begin)
            begin = perf_counter()
            found = select(*there, kernel, **options, executor=client)
            partitions.append(perf_counter() - begin)
            begin = perf_counter()
            select(X, y, kernel, **options, executor=client)
            arrays.append(perf_counter() - begin)
    same = np.array_equal(here.indices, found.indices)
    print(
        f"n {n} m {m}: 2 threads {median(threads):.2f} s; 2 worker processes, rows already there "
        f"{median(partitions):.2f} s, {median(np.array(partitions) / threads):.2f} times as long (bound 1.3); with "
        f"rows that have to be sent {median(np.array(arrays) / threads):.2f} times; same picks: {same}",
        flush=True,
    )


def ten_million(n: int = 10_000_000, m: int = 500) -> None:
    """Time per row and peak memory of ten million rows on this machine, beside a tenth of them."""
    small = [in_a_process("ours", n // 10, m, "float32", LIMIT)["seconds"]]
    large = in_a_process("ours", n, m, "float32", LIMIT)
    small += [in_a_process("ours", n // 10, m, "float32", LIMIT)["seconds"] for _ in range(2)]
    ratio = large["seconds"] / n / (median(small) / (n // 10))
    print(
        f"n {n} m {m} float32, memory_limit {LIMIT}: {large['seconds']:.1f} s, {1e6 * large['seconds'] / n:.2f} us a "
        f"row, {ratio:.2f} times that of {n // 10} rows ({', '.join(f'{taken:.1f}' for taken in small)} s; bound 1.2); "
        f"peak {large['peak'] / 1e6:.0f} MB, "
        f"{large['peak'] / large['data']:.2f} times the data",
        flush=True,
    )


def real(name: str, m: int = 500, most: int | None = None) -> None:
    """The defaults on a large data set, against a random subset of as many rows and 5 nearest neighbours."""
    data = load(name)
    if data is None:
        return
    X, y, X_test, y_test = data
    if most is not None:
        X, y, X_test, y_test = X[:most], y[:most], X_test[:most], y_test[:most]
    models = {
        "greedy, local": GreedyGPRegressor(n_active=m, random_state=0),
        "random subset": GreedyGPRegressor(n_active=m, criterion="random", posterior="sod", random_state=0),
        "5 nearest neighbours": make_pipeline(StandardScaler(), KNeighborsRegressor(5, n_jobs=-1)),
    }
    print(f"{name}: {len(X)} rows, {len(X_test)} to predict; errors in standard deviations of the targets")
    for label, model in models.items():
        begin = perf_counter()
        model.fit(X, y)
        fitted = perf_counter()
        error = rmse(y_test, model.predict(X_test))
        print(f"    {label:22} RMSE {error:.4f}, fit {fitted - begin:.1f} s, predict {perf_counter() - fitted:.1f} s")


def main() -> None:
    against_threads()
    ten_million()
    for name in ("chm", "us_elevation"):
        real(name)
