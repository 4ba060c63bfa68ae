"""Shards on the workers of a Dask cluster, each where its partition is.

A partition of the rows lives on one worker, as an actor that holds its shards. The driver sends the same few calls as
to threads: per block the picks go out and a short report comes back; rows never travel.

A worker that is lost takes its partitions' shards with it. They are built again on the others, from the partitions
(which Dask makes anew if they are gone too) and from the calls that have changed them so far, which the driver keeps:
the blocks, and how many picks of each stood. So nothing else of the selection needs to know, and the picks are the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from .. import memory
from ..kernels import CompiledKernel
from ..shard import Block, Report, Rows, Shard
from .threads import ThreadExecutor

Array = NDArray[Any]

CHANGES = ("start", "extend", "settle")  # the calls that change a shard


@dataclass(frozen=True)
class Setting:
    """What every shard is told."""

    kernel: CompiledKernel
    score: Any
    capacity: int
    seed: int


@dataclass(frozen=True)
class Partition:
    """Rows `begin` to `end`, and where to have them from: arrays, or a function of a client that gives futures of them.

    The function is called again if the rows are needed on another worker.
    """

    begin: int
    end: int
    rows: Callable[[Any], tuple[Any, Any, Any]]
    """Gives X, y and alpha (or None), each an array or a future of one."""


class _Offset:
    """An array that holds rows `begin` and after of a larger one, and is sliced by the numbers of that one."""

    def __init__(self, X: Array, begin: int) -> None:
        self.X, self.begin = X, begin

    def __getitem__(self, rows: slice) -> Array:
        return self.X[rows.start - self.begin : rows.stop - self.begin]


class Host:
    """The shards of one partition, on a worker."""

    def __init__(self, X: Any, y: Any, alpha: Any, begin: int, end: int, setting: Setting, n_threads: int) -> None:
        X, y = np.asarray(X), np.asarray(y, dtype=np.float64)
        y = y.reshape(len(y), -1)
        for name, found in (("X", X), ("y", y)):
            if len(found) != end - begin:
                raise ValueError(f"{name} has {len(found)} rows in the partition of rows {begin} to {end - 1}.")
        if not np.isfinite(y).all():
            bad = int(np.flatnonzero(~np.isfinite(y).all(axis=1))[0])
            raise ValueError(f"y contains NaN or infinite values, in row {begin + bad} for one.")
        count = max(1, -(-(end - begin) // memory.ROWS))
        edges = np.linspace(begin, end, count + 1).astype(int).tolist()

        def make(part: tuple[int, int]) -> Shard:
            here = slice(part[0] - begin, part[1] - begin)
            own = None if alpha is None else np.asarray(alpha)[here]
            s = setting
            return Shard(_Offset(X, begin), y[here], *part, s.kernel, s.score, s.capacity, own, s.seed)

        self._executor = ThreadExecutor(make, list(pairwise(edges)), n_threads)

    def call(self, method: str, arguments: tuple[Any, ...]) -> list[Any]:
        """Call a method of every shard; reports and rows are put together before they travel."""
        found = self._executor.call(method, *arguments)
        if isinstance(found[0], Report):
            return [
                Report(
                    np.sum([report.sse for report in found], axis=0),
                    np.concatenate([report.stages for report in found]),
                    np.concatenate([report.rows for report in found]),
                    np.concatenate([report.scores for report in found]),
                )
            ]
        if isinstance(found[0], Rows):
            return [Rows.join(found)]
        return found

    def replay(self, log: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
        """Do again what the lost shards had done."""
        for method, arguments in log:
            self._executor.call(method, *arguments)


class DaskExecutor:
    """Hosts of all partitions on a cluster.

    Parameters
    ----------
    client : distributed.Client
    partitions : sequence of Partition
    setting : Setting
    patience : float, default=60
        Seconds to wait for a worker when none is left.
    """

    def __init__(self, client: Any, partitions: Sequence[Partition], setting: Setting, patience: float = 60.0) -> None:
        self.client, self.partitions, self.setting, self.patience = client, list(partitions), setting, patience
        self.n_shards = sum(max(1, -(-(part.end - part.begin) // memory.ROWS)) for part in partitions)
        self.n_lost = 0
        self._log: list[tuple[str, tuple[Any, ...]]] = []
        self._hosts: list[Any] = [None] * len(self.partitions)
        self._build(range(len(self.partitions)))

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every shard, wherever it lives."""
        if method == "start":
            self._log.clear()
        answers: dict[int, list[Any]] = {}
        missing = list(range(len(self._hosts)))
        while missing:
            lost = self._ask(missing, method, arguments, answers)
            if lost:
                self.n_lost += len(lost)
                self._build(lost)
            missing = lost
        if method in CHANGES:
            self._log.append((method, _quiet(method, arguments)))
        return [answer for host in range(len(self._hosts)) for answer in answers[host]]

    def _ask(
        self, hosts: Sequence[int], method: str, arguments: tuple[Any, ...], answers: dict[int, list[Any]]
    ) -> list[int]:
        """Ask some hosts; return those that are gone."""
        lost, futures = [], {}
        for host in hosts:
            try:
                futures[host] = self._hosts[host].call(method, arguments)
            except Exception as error:
                _raise_unless_lost(error)
                lost.append(host)
        for host, future in futures.items():
            try:
                answers[host] = future.result()
            except Exception as error:
                _raise_unless_lost(error)
                lost.append(host)
        return lost

    def _build(self, hosts: Sequence[int]) -> None:
        """Make hosts of some partitions, and bring them to where the others are."""
        left = list(hosts)
        while left:
            workers = self._workers()
            futures = {}
            for number, host in enumerate(left):
                part = self.partitions[host]
                try:
                    X, y, alpha = part.rows(self.client)
                    home = self._home(X, workers) or workers[(host + number) % len(workers)]
                    futures[host] = self.client.submit(
                        Host,
                        X,
                        y,
                        alpha,
                        part.begin,
                        part.end,
                        self.setting,
                        self._threads(home),
                        actor=True,
                        pure=False,
                        workers=[home],
                        allow_other_workers=False,
                    )
                except OSError:
                    continue
            failed = []
            for host in left:
                try:
                    self._hosts[host] = futures[host].result(timeout=self.patience)
                    if self._log:
                        self._hosts[host].replay(self._log).result()
                except Exception as error:
                    if host in futures and not isinstance(error, TimeoutError | KeyError):
                        _raise_unless_lost(error)
                    failed.append(host)
            left = failed

    def _workers(self) -> list[str]:
        """The workers that there are; waits a while for one."""
        until = monotonic() + self.patience
        while True:
            workers = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
            if workers:
                return workers
            if monotonic() > until:
                raise RuntimeError(
                    f"No worker of the cluster is left, and none came within {self.patience:.0f} seconds. Start "
                    f"workers, and begin again."
                )
            sleep(0.2)

    def _home(self, X: Any, workers: list[str]) -> str | None:
        """The worker that has a partition already."""
        if not hasattr(X, "key"):
            return None
        holders = self.client.who_has([X]).get(X.key, ())
        return next((worker for worker in holders if worker in workers), None)

    def _threads(self, worker: str) -> int:
        return int(self.client.scheduler_info(n_workers=-1)["workers"][worker]["nthreads"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hosts.clear()


def _quiet(method: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same change, without what only its answer was for."""
    if method == "extend":
        return (replace(arguments[0], expected=None),)
    if method == "settle":
        block, kept, *_ = arguments
        assert isinstance(block, Block)
        return (replace(block, expected=None), kept, 0, 0.0, np.empty(0, dtype=np.int64))
    return arguments


def _raise_unless_lost(error: Exception) -> None:
    """Errors of the shards' own are the user's; those of the way to them mean that a worker is gone.

    So does a shard that is at another stage: its answer was lost on the way, and it is built again.
    """
    text = str(error)
    on_the_way = isinstance(error, OSError | TimeoutError) or type(error).__module__.startswith(
        ("distributed", "tornado")
    )
    if not on_the_way and "holding Actor was lost" not in text and "A shard at stage" not in text:
        raise error


def find_client(client: Any) -> Any:
    """The client that is given, or the one that is there."""
    from distributed import Client, get_client

    if client is None:
        try:
            client = get_client()
        except ValueError as error:
            raise ValueError(
                "X is a Dask collection, but there is no client. Make one with dask.distributed.Client(...), and pass "
                "it as executor."
            ) from error
    if not isinstance(client, Client):
        raise TypeError(f"executor must be a dask.distributed.Client or None; got {client!r}.")
    if client.status != "running":
        raise ValueError(f"executor is a client that is {client.status}; make a new one.")
    return client


def room(client: Any) -> int:
    """Bytes that the rows' v's may take: half of what all workers may use."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return sum(int(worker.get("memory_limit") or 0) for worker in workers) // 2


def partitions_of(X: Any, y: Any, alpha: Array | None, count: int) -> list[Partition]:
    """Partitions of a Dask array's own chunks, or of an array that the driver holds."""
    if hasattr(X, "to_delayed") and hasattr(X, "chunks"):
        return _of_dask(X, y, alpha)
    edges = np.linspace(0, X.shape[0], min(count, X.shape[0]) + 1).astype(int).tolist()

    def rows(begin: int, end: int) -> Callable[[Any], tuple[Any, Any, Any]]:
        def send(client: Any) -> tuple[Any, Any, Any]:
            own = None if alpha is None else alpha[begin:end]
            held, targets = client.scatter([np.asarray(X[begin:end]), y[begin:end]], hash=False)
            return held, targets, own

        return send

    return [Partition(begin, end, rows(begin, end)) for begin, end in pairwise(edges)]


def _of_dask(X: Any, y: Any, alpha: Array | None) -> list[Partition]:
    X = X.rechunk({1: -1})
    if y.ndim == 1:
        y = y[:, None]
    y = y.rechunk({0: X.chunks[0], 1: -1})
    edges = np.concatenate([[0], np.cumsum(X.chunks[0])]).tolist()
    parts = []
    for at, (begin, end) in enumerate(pairwise(edges)):
        blocks = X.blocks[at], y.blocks[at]

        def send(client: Any, blocks: Any = blocks, begin: int = begin, end: int = end) -> tuple[Any, Any, Any]:
            held = client.compute([block.to_delayed().ravel()[0] for block in blocks])
            return *held, None if alpha is None else alpha[begin:end]

        if end > begin:
            parts.append(Partition(int(begin), int(end), send))
    return parts
