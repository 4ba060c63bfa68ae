"""Shards on the workers of a Dask cluster, each where its rows are.

A piece of the rows lives on one worker, where an actor holds its shards. The driver sends the same few calls as to
threads: per block the picks go out and a short report comes back; rows never travel.

A worker that is lost takes its shards with it. They are built again on the others, from their rows (which the table has
made anew if they are gone too) and from the calls that have changed them so far, which the driver keeps: the blocks,
and how many picks of each stood. So nothing else of the selection needs to know, and the picks are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

import numpy as np

from ..core import memory
from ..core.types import Array
from ..kernels import CompiledKernel
from ..selection.executors import ThreadExecutor
from ..selection.messages import Block, BlockReport, Candidates
from ..selection.shard import Shard, StageError
from ..selection.source import Scaling
from .client import LostError, answer, insist, submit, workers_of
from .collections import Rows as Piece
from .table import Table

CHANGES = ("start", "extend", "settle")  # the calls that change a shard
COUNT = {"settle": 2, "candidates": 0, "draw": 0}  # which argument says how many rows are asked for, at most


@dataclass(frozen=True)
class Setting:
    """What every shard is told."""

    kernel: CompiledKernel
    score: Any
    capacity: int
    seed: int
    scaling: Scaling | None = None


class _Offset:
    """An array that holds rows `begin` and after of a larger one, and is sliced by the numbers of that one."""

    def __init__(self, X: Array, begin: int) -> None:
        self.X, self.begin = X, begin

    def __getitem__(self, rows: slice) -> Array:
        return self.X[rows.start - self.begin : rows.stop - self.begin]


class Host:
    """The shards of one piece, on a worker.

    Every call says how many changes there have been before it. A host that has seen another number refuses: its answer
    would be wrong.
    """

    def __init__(self, piece: Piece, begin: int, end: int, setting: Setting, n_threads: int) -> None:
        X, y, alpha = piece
        if setting.scaling is not None:
            y, alpha = setting.scaling(y, alpha)
        edges = np.linspace(begin, end, max(1, -(-(end - begin) // memory.SHARD_ROWS)) + 1).astype(int).tolist()

        def make(part: tuple[int, int]) -> Shard:
            here = slice(part[0] - begin, part[1] - begin)
            own = None if alpha is None else alpha[here]
            s = setting
            return Shard(_Offset(X, begin), y[here], *part, s.kernel, s.score, s.capacity, own, s.seed)

        self._executor = ThreadExecutor(make, list(pairwise(edges)), n_threads)
        self._dtype = setting.kernel.dtype
        self._changes = 0

    def call(self, changes: int, method: str, arguments: tuple[Any, ...]) -> list[Any]:
        """Call a method of every shard; reports and rows are put together before they travel."""
        if method == "start":
            self._changes = changes  # whatever was before
        if changes != self._changes:
            raise StageError(f"Shards after {self._changes} changes were sent call number {changes}, {method}.")
        if method in CHANGES:
            self._changes += 1
        if method not in COUNT:
            found = self._executor.call(method, *arguments)
            return [BlockReport.join(found)] if isinstance(found[0], BlockReport) else found
        place = COUNT[method]
        count = arguments[place]
        if method != "draw":  # of which any shard may have all
            share = -(-count // self._executor.n_shards)
            arguments = (*arguments[:place], share, *arguments[place + 1 :])
        found = self._executor.call(method, *arguments)
        return [Candidates.join(found).shortlist(count, arguments[-1], self._dtype)]

    def replay(self, log: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
        """Do again what the lost shards had done."""
        for changes, (method, arguments) in enumerate(log):
            self.call(changes, method, arguments)

    def __del__(self) -> None:
        if hasattr(self, "_executor"):
            self._executor.__exit__(None, None, None)


class DaskExecutor:
    """Hosts of all pieces of a table."""

    def __init__(self, table: Table, setting: Setting) -> None:
        self.table, self.client = table, table.client
        self.setting = replace(setting, scaling=table.scaling)
        self.n_shards = len(table)
        self.n_lost = self.n_workers = 0
        self._log: list[tuple[str, tuple[Any, ...]]] = []
        self._hosts: list[Any] = [None] * len(table)
        self._homes = [""] * len(table)
        with self.client.as_current():  # or an actor would answer to whichever client came last
            self._build(list(range(len(table))))

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every shard, wherever it lives."""
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
            self._log.append((method, _quiet(method, arguments)))
        return [found for host in range(len(self._hosts)) for found in answers[host]]

    def _ask(
        self, hosts: Sequence[int], method: str, arguments: tuple[Any, ...], answers: dict[int, list[Any]]
    ) -> list[int]:
        """Ask some hosts; return those that are gone, or that have not seen what the others have."""
        lost, futures = [], {}
        for host in hosts:
            try:
                futures[host] = self._hosts[host].call(len(self._log), method, arguments)
            except (RuntimeError, OSError):  # nothing has been asked yet: the way is blocked
                lost.append(host)
        for host, future in futures.items():
            try:
                answers[host] = answer(self.client, future, self._homes[host])
            except (LostError, StageError):
                lost.append(host)
        return lost

    def _build(self, hosts: Sequence[int]) -> None:
        """Make hosts of some pieces, and bring them to where the others are."""
        left = list(hosts)

        def attempt() -> bool:
            workers = workers_of(self.client)
            self.n_workers = len(workers)
            futures = {}
            for host in left:
                home = self._home(host, list(workers))
                begin, end = self.table.span(host)
                threads = int(workers[home]["nthreads"])
                piece, pinned = self.table.held(host), {"workers": [home], "allow_other_workers": False}
                futures[host] = submit(
                    self.client, Host, piece, begin, end, self.setting, threads, actor=True, **pinned
                )
                self._homes[host] = home
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

    def _home(self, host: int, workers: list[str]) -> str:
        """The worker that has a piece already, or any; the others' hosts are shared out evenly."""
        piece = self.table.held(host)
        holders = self.client.who_has([piece]).get(piece.key, ())
        return next((worker for worker in holders if worker in workers), workers[host % len(workers)])

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
