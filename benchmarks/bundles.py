"""What `local` costs on a cluster whose rows stay on the workers: its parts, and the arithmetic for 10^9 rows.

The parts of building bundles and of a prediction are measured one by one, each on one core of this machine: the passes
over the rows, the bytes that move, the searches, the systems of equations. What Dask takes for a task is measured by
lazy predictions on a cluster of two processes, whose scheduler is in this process. The rest is arithmetic: what 100
machines like this one would take. The printout also goes to docs/bundles.txt.
"""

from __future__ import annotations

import os
import pickle
import platform
from math import ceil, log2
from time import process_time
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from sodalite import GreedyGPRegressor, select
from sodalite.cluster.bundles import first_radius, least_radius, near_rows, split, survey
from sodalite.cluster.local import Detached
from sodalite.core.threads import on_this_thread
from sodalite.fitting import room
from sodalite.kernels import compile_kernel
from sodalite.kernels.cell_search import gaps
from sodalite.kernels.neighbours import n_sampled
from sodalite.kernels.row_store import Layout, RowStore, together
from sodalite.posteriors import Evidence, Neighbors, SubsetOfData
from sodalite.posteriors.remainder import Rest
from sodalite.selection.rows import ArrayRows, Block

from . import evidence
from .common import smooth_problem
from .driver import GIGABIT, HOSTS, ROWS

PARTITIONS = 1000  # of the collection of 10^9 rows
QUERIES = 10**6  # queries of the arithmetic
FEW = 2  # levels of bisection, of which searches are measured: the more rows a bundle has, the fewer answer a query


class Timer:
    """Seconds of the steps of one core, by their names."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, name: str, function: Any, *arguments: Any) -> Any:
        """The result of a function, whose processor time is noted."""
        begin = process_time()
        found = function(*arguments)
        self.seconds[name] = self.seconds.get(name, 0.0) + process_time() - begin
        return found


def remainder_of(X: np.ndarray, y: np.ndarray, kernel: Kernel, m: int) -> Rest:
    """The rows beside m active ones, which are the first."""
    chosen = select(X, y, kernel, n_active=m, first=np.arange(m))
    compiled = compile_kernel(kernel, X)
    base = SubsetOfData.condition(Evidence(compiled, ArrayRows(X, y[:, None]), chosen))
    return Rest(base, np.sort(chosen.indices), chosen.noise_floor)


def built(X: np.ndarray, y: np.ndarray, remainder: Rest, levels: int, timed: Timer) -> tuple[Layout, list[RowStore]]:
    """The layout of some levels of bisection, and its bundles."""
    d = X.shape[1]
    seen = timed("survey", survey, remainder, n_sampled(d), Block(X, y[:, None]))
    kernel = remainder.base.kernel
    layout = Layout.of(seen, levels, np.dtype(np.float64), kernel.centre, kernel.metric())
    parts = timed("split", split, remainder, layout, Block(X, y[:, None]))
    return layout, [timed("bundle", layout.store, part) for part in parts]


def predicted(
    layout: Layout, bundles: list[RowStore], detached: Detached, Q: np.ndarray, timed: Timer
) -> tuple[float, float]:
    """Predict some queries; return how many bundles answer one, and how many rows are gathered for one."""
    asked = timed("search", detached.asked, Q, detached.k)
    bounds = [timed("search", first_radius, bundle, layout, asked, number) for number, bundle in enumerate(bundles)]
    radius, positions = timed("search", least_radius, bounds), asked[0].positions
    near, n_answers = [], 0
    for bundle in bundles:
        near.append(timed("search", near_rows, bundle, asked, radius))
        low, high = bundle.box
        gap = gaps(positions, low[None], high[None])[:, 0]
        n_answers += int(np.sum(gap <= radius[0]))
    timed("prediction", lambda: detached.on(together(near)).mean_and_variance(Q))
    return n_answers / len(Q), sum(len(part[0]) for part in near) / len(Q)


def tasks(n: int = 20_000, blocks: int = 40) -> float:
    """Seconds of this process, with Dask's scheduler in it, for a task of a lazy prediction."""
    import dask.array as da
    from distributed import Client, LocalCluster

    X, y, kernel = smooth_problem(n, 0.1)
    room.FETCHED = 0
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        model = GreedyGPRegressor(
            kernel, n_active=20, posterior=Neighbors(8), hyperparameters="fixed", calibrate=False, random_state=0
        )
        model.fit(da.from_array(X, chunks=(n // 4, -1)), da.from_array(y, chunks=n // 4), executor=client)
        lazy = model.predict(da.from_array(X[: 10 * blocks], chunks=(10, -1)))
        lazy.compute()  # imports
        begin = process_time()
        client.compute(lazy).result()
        return (process_time() - begin) / (blocks * (2 * len(model.posterior_.bundles.futures) + 3))


def main(n: int = 400_000, m: int = 500, k: int = 32) -> None:
    cores, timed = os.cpu_count() or 1, Timer()
    X, y, kernel = smooth_problem(n, 0.1)
    remainder, n_bundles = remainder_of(X, y, kernel, m), 2 ** ceil(log2(HOSTS))
    Q = np.random.default_rng(1).permutation(X)[:20_000] + 0.01
    with on_this_thread():
        layout, bundles = built(X, y, remainder, FEW, timed)
        state = {"kernel": remainder.base.kernel, "base": remainder.base, "k": k, "scale": None}
        detached = Detached(state, layout.metric, X.shape[1] + len(layout.metric.columns) + 3, None)
        few, _ = predicted(layout, bundles, detached, Q, timed)
        of_many = built(X, y, remainder, int(log2(n_bundles)), Timer())
        many, gathered = predicted(*of_many, detached, Q[:100], Timer())  # so few that hardly a row is near two
    row = 8 * (X.shape[1] + 2)  # inputs, residual and noise
    kept, task = sum(len(pickle.dumps(bundle, 5)) for bundle in bundles) / n, tasks()
    million = {name: 1e6 / n * timed.seconds[name] for name in ("survey", "split", "bundle")}
    search, predict = (1e6 / len(Q) * timed.seconds[name] for name in ("search", "prediction"))
    n_tasks, mine = ceil(QUERIES / detached.most) * (2 * n_bundles + 3), ROWS / HOSTS
    positions, searches = 8 * X.shape[1] * HOSTS, search * (1 + many) / (1 + few)
    measured = {
        "first pass, a million rows": (million["survey"], "s"),
        "second pass, a million rows": (million["split"], "s"),
        "laying out, a million rows": (million["bundle"], "s"),
        "kept on the workers, a row": (kept, "B"),
        f"searches, a query and {2**FEW} bundles": (search, "us"),
        "a prediction from gathered rows, a query": (predict, "us"),
        f"bundles of {2**FEW} that answer a query": (few, ""),
        f"bundles of {n_bundles} that answer a query": (many, ""),
        f"rows gathered for a query from {n_bundles} bundles": (gathered, ""),
        "Dask, a task": (1e3 * task, "ms"),
    }
    arithmetic = {
        "passes and laying out": (mine / 1e6 * sum(million.values()) / cores, "s"),
        f"{row * mine / 1e9:.1f} GB of rows through a link of 10 Gbit/s": (row * mine / (10 * GIGABIT), "s"),
        f"{PARTITIONS * n_bundles} tasks for {PARTITIONS} partitions": (PARTITIONS * n_bundles * task, "s"),
        "rows kept by one machine": (kept * mine / 1e9, "GB"),
        "a query: rows that move": (gathered * row / 1e3, "kB"),
        "a query: positions that move": (positions / 1e3, "kB"),
        "a million queries: searches and predictions": (QUERIES / 1e6 * (searches + predict) / (HOSTS * cores), "s"),
        "a million queries: rows, 10 Gbit/s": (QUERIES * gathered * row / HOSTS / (10 * GIGABIT), "s"),
        "a million queries: positions, 10 Gbit/s": (QUERIES * positions / HOSTS / (10 * GIGABIT), "s"),
        f"a million queries: {n_tasks} tasks": (n_tasks * task, "s"),
    }
    lines = [
        f"{platform.machine()}, {cores} cores; {n} rows, m = {m}, k = {k}, d = {X.shape[1]}, float64",
        "",
        "Measured, on one core",
        *(f"  {what:48} {value:8.1f} {unit}".rstrip() for what, (value, unit) in measured.items()),
        "",
        f"By arithmetic: a billion rows on {HOSTS} machines like this one, {n_bundles} bundles",
        *(f"  {what:48} {value:8.2f} {unit}".rstrip() for what, (value, unit) in arithmetic.items()),
    ]
    print("\n".join(lines))
    evidence.record("bundles", "python -m benchmarks bundles", {"bundles.txt": lines})
