"""The shards of a selection on the workers of a Dask cluster, each where its rows are.

Every piece of the rows has a host: an actor on the worker of the piece, which holds its shards. The driver makes the
same calls as to threads. For every block (docs/method.rst, `blocks`), the picks go out and a short report comes back;
the rows stay.

If a worker is lost, its hosts are built again on other workers: from their pieces, which the table makes again if
needed, and from a log of the calls that have changed the shards so far (the blocks, and how many picks of each were
kept). The picks are the same as without the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import TracebackType
from typing import Any, Self, TypeAlias

import numpy as np

from ..core import memory
from ..core.types import Floats
from ..kernels import CompiledKernel
from ..scores import PointwiseScore
from ..selection.executors import ThreadExecutor
from ..selection.messages import BlockReport, Candidates, Picks
from ..selection.rows import Block, Scaling
from ..selection.shard import Shard, StageError
from .client import DaskFuture, LostError, answer, insist, submit, workers_of
from .collections import Piece
from .table import ClusterTable

Call: TypeAlias = tuple[str, tuple[Any, ...]]
"""A method of a shard, and its arguments."""

CHANGES = ("start", "extend", "settle")  # the methods that change a shard
COUNT = {"settle": 2, "candidates": 0, "draw": 0}  # methods that return rows: the place of the argument `count`


@dataclass(frozen=True)
class HostSetup:
    """The arguments of all shards of a cluster."""

    kernel: CompiledKernel
    score: PointwiseScore | None
    capacity: int
    """Active rows for which shards keep coordinates; 0 if they keep none."""
    seed: int
    scaling: Scaling | None = None


class _Offset:
    """Rows from `begin` on of a larger array, indexed by slices of that array."""

    def __init__(self, X: Floats, begin: int) -> None:
        self.X, self.begin = X, begin

    def __getitem__(self, rows: slice) -> Floats:
        return self.X[rows.start - self.begin : rows.stop - self.begin]


class Host:
    """The shards of one piece, on a worker.

    Every call comes with the number of changes before it. A host that has made another number of changes refuses the
    call with a `StageError`, since its result would be wrong.

    Parameters
    ----------
    piece : Piece
        Rows `begin` to `end`.
    begin, end : int
    setup : HostSetup
    n_threads : int
        Threads of the worker.
    """

    def __init__(self, piece: Piece, begin: int, end: int, setup: HostSetup, n_threads: int) -> None:
        X, y, alpha = piece
        if setup.scaling is not None:
            y, alpha = setup.scaling(Block(X, y, alpha))
        edges = np.linspace(begin, end, max(1, -(-(end - begin) // memory.SHARD_ROWS)) + 1).astype(int).tolist()

        def make(part: tuple[int, int]) -> Shard:
            here = slice(part[0] - begin, part[1] - begin)
            own = None if alpha is None else alpha[here]
            rows = _Offset(X, begin)
            return Shard(rows, y[here], *part, setup.kernel, setup.score, setup.capacity, own, setup.seed)

        self._executor = ThreadExecutor(make, list(pairwise(edges)), n_threads)
        self._dtype = setup.kernel.dtype
        self._changes = 0

    def call(self, changes: int, method: str, arguments: tuple[Any, ...]) -> list[Any]:
        """Call a method of every shard; their reports or rows are joined before they are sent."""
        if method == "start":
            self._changes = changes  # a start makes all earlier changes irrelevant
        if changes != self._changes:
            raise StageError(f"Shards after {self._changes} changes were sent call number {changes}, {method}.")
        if method in CHANGES:
            self._changes += 1
        if method not in COUNT:
            found = self._executor.call(method, *arguments)
            return [BlockReport.join(found)] if isinstance(found[0], BlockReport) else found
        place = COUNT[method]
        count = arguments[place]
        if method != "draw":  # one shard may have all rows that are drawn
            share = -(-count // self._executor.n_shards)
            arguments = (*arguments[:place], share, *arguments[place + 1 :])
        found = self._executor.call(method, *arguments)
        return [Candidates.join(found).shortlist(count, arguments[-1], self._dtype)]

    def replay(self, log: Sequence[Call]) -> None:
        """Make the calls that changed the shards of a lost host."""
        for changes, (method, arguments) in enumerate(log):
            self.call(changes, method, arguments)

    def __del__(self) -> None:
        if hasattr(self, "_executor"):
            self._executor.__exit__(None, None, None)


class DaskExecutor:
    """An executor (`sodalite.selection.executors`) whose shards are in the hosts of all pieces of a table.

    Parameters
    ----------
    table : ClusterTable
    setup : HostSetup
        Its scaling is replaced by that of the table.
    """

    def __init__(self, table: ClusterTable, setup: HostSetup) -> None:
        self.table, self.client = table, table.client
        self.setup = replace(setup, scaling=table.scaling)
        self.n_shards = len(table)
        self.n_lost = self.n_workers = 0
        self._log: list[Call] = []
        self._hosts: list[Any] = [None] * len(table)
        self._homes = [""] * len(table)
        with self.client.as_current():  # else actors would use the client that was made last
            self._build(list(range(len(table))))

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every shard, and return the results in the order of the pieces."""
        if method == "start":
            self._log.clear()
        answers: dict[int, list[Any]] = {}
        missing = list(range(len(self._hosts)))

        def attempt() -> bool:
            lost = self._ask(missing, method, arguments, answers)
            done = len(lost) < len(missing)
            self.n_lost += len(lost)
            self._build(lost)
            missing[:] = lost
            return done

        with self.client.as_current():
            while missing:
                insist(attempt)
        if method in CHANGES:
            self._log.append((method, _for_replay(method, arguments)))
        return [found for host in range(len(self._hosts)) for found in answers[host]]

    def _ask(
        self, hosts: Sequence[int], method: str, arguments: tuple[Any, ...], answers: dict[int, list[Any]]
    ) -> list[int]:
        """Call some hosts and store their results; return the hosts that are lost or have missed a change."""
        lost, futures = [], {}
        for host in hosts:
            try:
                futures[host] = self._hosts[host].call(len(self._log), method, arguments)
            except (RuntimeError, OSError):  # the call could not be sent
                lost.append(host)
        for host, future in futures.items():
            try:
                answers[host] = answer(self.client, future, self._homes[host])
            except (LostError, StageError):
                lost.append(host)
        return lost

    def _build(self, hosts: Sequence[int]) -> None:
        """Make the hosts of some pieces, and replay the log on them."""
        left = list(hosts)

        def attempt() -> bool:
            workers = workers_of(self.client)
            self.n_workers = len(workers)
            futures = {host: self._submit_host(host, workers) for host in left}
            failed = []
            for host, future in futures.items():
                try:
                    self._hosts[host] = answer(self.client, future, self._homes[host])
                    if self._log:
                        answer(self.client, self._hosts[host].replay(self._log), self._homes[host])
                except LostError:
                    failed.append(host)
            done = len(failed) < len(left)
            left[:] = failed
            return done

        while left:
            insist(attempt)

    def _submit_host(self, host: int, workers: dict[str, Any]) -> DaskFuture:
        """A future of a new host, on the worker of its piece."""
        home = self._homes[host] = self._home(host, list(workers))
        piece, (begin, end) = self.table.held(host), self.table.span(host)
        threads, pinned = int(workers[home]["nthreads"]), {"workers": [home], "allow_other_workers": False}
        return submit(self.client, Host, piece, begin, end, self.setup, threads, actor=True, **pinned)

    def _home(self, host: int, workers: list[str]) -> str:
        """The worker that has the piece of a host; if none has, the hosts take the workers in turn."""
        piece = self.table.held(host)
        holders = self.client.who_has([piece]).get(piece.key, ())
        return next((worker for worker in holders if worker in workers), workers[host % len(workers)])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hosts.clear()


def _for_replay(method: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments that make the same change, without the parts that only matter for the result of the call."""
    if method == "extend":
        return (replace(arguments[0], expected=None),)
    if method == "settle":
        block, n_accepted, *_ = arguments
        assert isinstance(block, Picks)
        return (replace(block, expected=None), n_accepted, 0, 0.0, np.empty(0, dtype=np.int64))
    return arguments
