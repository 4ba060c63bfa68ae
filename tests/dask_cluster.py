"""A Dask cluster of real processes: light enough to start a dozen, and to kill them."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from sodalite import GreedyGPRegressor
from sodalite.posteriors import Neighbors

KERNEL = ConstantKernel(1.0) * RBF([1.5, 1.5, 1.5]) + WhiteKernel(0.05)


def rows(n: int, q: int | None = None, copies: int = 0) -> tuple[Any, Any]:
    """Inputs and targets, or q of them; the first rows are copies of the last ones."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    X[:copies] = X[n - copies :]
    y = 50 + 3 * (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=n))
    return X, y if q is None else np.stack([y, 7 - y + X[:, 0], X[:, 2]][:q], axis=1)


def chunked(*arrays: Any, chunks: Any) -> list[Any]:
    """Arrays as Dask arrays with such chunks of rows."""
    from dask.array import from_array

    return [from_array(part, chunks=(chunks, -1) if part.ndim == 2 else (chunks,)) for part in arrays]


def model(**options: Any) -> GreedyGPRegressor:
    """A model of few active rows and neighbours."""
    known = {"kernel": KERNEL, "hyperparameters": "fixed", "posterior": Neighbors(8), "random_state": 0}
    return GreedyGPRegressor(**{**known, "n_active": 30, **options})


def serve(address: str, folder: str) -> None:
    """Be a worker with one thread, until the scheduler is gone."""
    from distributed import Worker

    async def run() -> None:
        async with Worker(address, nthreads=1, memory_limit="1GB", local_directory=folder) as worker:
            await worker.finished()

    asyncio.run(run())


@contextmanager
def cluster(count: int) -> Iterator[tuple[Any, list[Any]]]:
    """A client, and the processes of its workers. No nanny starts a worker again."""
    from distributed import Client, LocalCluster

    processes = multiprocessing.get_context("forkserver")
    # Imported once; every worker is then forked from there.
    processes.set_forkserver_preload(["distributed", "dask.array", "sodalite.estimator", "sodalite.cluster.executor"])
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        LocalCluster(n_workers=0, processes=True, dashboard_address=None) as scheduler,
        Client(scheduler) as client,
    ):
        address = scheduler.scheduler_address
        workers = [processes.Process(target=serve, args=(address, folder), daemon=True) for _ in range(count)]
        try:
            for worker in workers:
                worker.start()
            client.wait_for_workers(count, timeout=120)
            yield client, workers
        finally:
            for worker in workers:
                worker.kill()
                worker.join()


class Killer(threading.Thread):
    """Kills one worker after the other at random moments, while at least one is left.

    Each time it first waits, but not for ever, to hear that something is going on.
    """

    def __init__(self, workers: list[Any], longest: float) -> None:
        super().__init__(daemon=True)
        self.left, self.longest = list(workers), longest
        self.done, self.going = threading.Event(), threading.Event()
        self.count, self.rng = 0, random.Random(0)

    def run(self) -> None:
        while len(self.left) > 1:
            self.going.wait(1.5)
            if self.done.wait(self.rng.uniform(0, self.longest)):
                return
            self.going.clear()
            victim = self.left.pop(self.rng.randrange(len(self.left)))
            os.kill(victim.pid, signal.SIGKILL)
            self.count += 1

    def __enter__(self) -> Killer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.going.set()
        self.join()
