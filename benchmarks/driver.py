"""What the driver of a cluster costs by itself: a selection with 100 pretend shards.

First a real selection runs on 100 hosts in this process, and every answer is recorded. Then the selection runs again on
shards that replay these answers: the time is the driver's own work. Then once more on 100 hosts on a Dask cluster of
two processes that replay them: the time is that of the driver, of Dask's messages and of its scheduler, which is in the
driver's process here. The rest is arithmetic: what a block would take on 100 machines like this one. The printout also
goes to docs/driver.txt.
"""

from __future__ import annotations

import os
import pickle
import platform
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from time import perf_counter, process_time
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from sodalite.cluster.collections import Targets
from sodalite.cluster.executor import CHANGES, DaskExecutor, Host
from sodalite.core.threads import n_threads
from sodalite.criteria import Delta
from sodalite.kernels import compile_kernel
from sodalite.selection.grow import grow
from sodalite.selection.rows import ArrayRows, ShardSetup
from sodalite.stopping import Size

from . import evidence
from .common import smooth_problem

HOSTS = 100  # machines of the cluster that the arithmetic is about
ROWS = 10**9  # rows of its data set
GIGABIT = 10**9 / 8  # bytes a second


class Recorded:
    """An executor of hosts in this process, which records their answers and how long these took."""

    def __init__(self, hosts: list[Host], pool: ThreadPoolExecutor) -> None:
        self.hosts, self.pool, self.n_shards = hosts, pool, len(hosts)
        self.changes, self.seconds, self.sent, self.log = 0, 0.0, [], []

    def call(self, method: str, *arguments: Any) -> list[Any]:
        begin = perf_counter()
        found = list(self.pool.map(lambda host: host.answer(self.changes, method, arguments), self.hosts))
        self.seconds += perf_counter() - begin
        self.changes += method in CHANGES
        self.sent.append(len(pickle.dumps(arguments, 5)))
        self.log.append((method, found))
        return [part for answers in found for part in answers]


class Pretend:
    """An executor that replays recorded answers."""

    def __init__(self, log: list[tuple[str, list[Any]]], n_shards: int) -> None:
        self.log, self.n_shards = iter(log), n_shards

    def call(self, method: str, *arguments: Any) -> list[Any]:
        name, found = next(self.log)
        assert name == method
        return [part for answers in found for part in answers]


class PretendHost:
    """A host that replays its recorded answers."""

    def __init__(self, answers: list[list[Any]]) -> None:
        self.answers = iter(answers)

    def answer(self, *call: Any) -> list[Any]:
        return next(self.answers)


class PretendCluster(DaskExecutor):
    """The executor of a Dask cluster, on hosts that replay recorded answers."""

    def __init__(self, client: Any, log: list[tuple[str, list[Any]]], n_shards: int) -> None:
        self.client, self.n_shards, self._changes = client, n_shards, 0
        workers = sorted(client.scheduler_info()["workers"])
        self._homes = [workers[host % len(workers)] for host in range(n_shards)]
        self._hosts = [
            self._submit(home, PretendHost, [found[host] for _, found in log]) for host, home in enumerate(self._homes)
        ]
        client.gather(client.map(str, self._hosts, pure=False))


@dataclass(frozen=True)
class Placed(ArrayRows):
    """Rows whose shards are already on an executor, with their coordinates kept."""

    executor: Any = None

    @contextmanager
    def shards(self, setup: ShardSetup) -> Iterator[tuple[Any, bool]]:
        """The executor as it was given."""
        yield self.executor, True


def choose(X: np.ndarray, y: np.ndarray, kernel: Kernel, m: int, executor: Any) -> None:
    """Choose m rows on an executor, as `sodalite.select` would."""
    grow(
        Placed(X, y[:, None], executor=executor),
        compile_kernel(kernel, X),
        n_active=m,
        criterion=Delta(),
        rule=Size(m),
        first=0,
        generator=np.random.default_rng(0),
    )


def record(X: np.ndarray, y: np.ndarray, kernel: Kernel, m: int, hosts: int) -> Recorded:
    """A real selection on so many hosts in this process, with every answer kept."""
    setup = ShardSetup(compile_kernel(kernel, X), Delta(), m, 0)
    edges = np.linspace(0, len(X), hosts + 1).astype(int).tolist()
    made = [Host([X[a:b]], [Targets(y[a:b, None], None)], [a], setup, 1) for a, b in pairwise(edges)]
    with ThreadPoolExecutor(n_threads()) as pool:
        recorded = Recorded(made, pool)
        choose(X, y, kernel, m, recorded)
    return recorded


def timed(X: np.ndarray, y: np.ndarray, kernel: Kernel, m: int, executor: Any) -> tuple[float, float]:
    """Seconds of a selection by the clock, and of this process's own work."""
    begin, work = perf_counter(), process_time()
    choose(X, y, kernel, m, executor)
    return perf_counter() - begin, process_time() - work


def main(n: int = 200_000, m: int = 500, hosts: int = HOSTS) -> None:
    from distributed import Client, LocalCluster

    X, y, kernel = smooth_problem(n, 0.1)
    recorded = record(X, y, kernel, m, hosts)
    blocks = sum(method == "extend" for method, _ in recorded.log)
    alone, _ = timed(X, y, kernel, m, Pretend(recorded.log, hosts))
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        clock, work = timed(X, y, kernel, m, PretendCluster(client, recorded.log, hosts))

    out = sum(recorded.sent) / blocks
    back = sum(len(pickle.dumps(found, 5)) for _, found in recorded.log) / blocks / hosts
    compute = recorded.seconds / blocks * (ROWS / hosts) / n
    driver = work / blocks
    wire = {speed: hosts * (out + back) / (speed * GIGABIT) for speed in (1, 10)}
    share = (driver + wire[10]) / hosts
    megabytes = hosts * (out + back) / 1e6
    measured = {
        "the driver's own work": (1e3 * alone / blocks, "ms"),
        "with Dask's messages and scheduler, processor": (1e3 * driver, "ms"),
        "with Dask's messages and scheduler, clock": (1e3 * clock / blocks, "ms"),
        "calls to every shard": (len(recorded.log) / blocks, ""),
        "sent to each shard": (out / 1e3, "kB"),
        "back from each shard": (back / 1e3, "kB"),
        "the shards' work, a million rows": (1e3 * recorded.seconds / blocks * 1e6 / n, "ms"),
    }
    arithmetic = {
        "the shards' work": (compute, "s"),
        "the driver's, the scheduler's and messages": (driver, "s"),
        f"{megabytes:.0f} MB through a link of 1 Gbit/s": (wire[1], "s"),
        f"{megabytes:.0f} MB through a link of 10 Gbit/s": (wire[10], "s"),
        f"all {blocks} blocks, 10 Gbit/s": (blocks * (compute + driver + wire[10]) / 60, "min"),
        "the v's of one machine's rows, float64": (8 * m * ROWS / hosts / 1e9, "GB"),
        "machines where the driver takes half the time": (np.sqrt(compute * hosts / share), ""),
    }
    lines = [
        f"{platform.machine()}, {os.cpu_count()} cores; {hosts} pretend shards, m = {m}, d = 8, float64, "
        f"{blocks} blocks of {m / blocks:.0f} picks",
        "",
        "Measured, per block",
        *(f"  {what:48} {value:8.1f} {unit}".rstrip() for what, (value, unit) in measured.items()),
        "",
        f"By arithmetic, per block: a billion rows on {hosts} machines like this one",
        *(f"  {what:48} {value:8.2f} {unit}".rstrip() for what, (value, unit) in arithmetic.items()),
    ]
    print("\n".join(lines))
    evidence.record("driver", "python -m benchmarks driver", {"driver.txt": lines})
