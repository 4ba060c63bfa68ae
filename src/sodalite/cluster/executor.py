"""The shards of a selection on the workers of a Dask cluster, each where its rows are.

Every thread of a worker has a host, an object in the worker's memory with the shards of some pieces of the rows that
are there. It is the result of a Dask task, so Dask makes it again if its worker is lost, and forgets it when the
selection ends. The driver makes the same calls as to threads. For every block (docs/method.rst, `blocks`), the picks go
out and a short report comes back; the rows stay.

A host counts the calls that have changed it. One that was made again, or that Dask has called twice, is not at the
stage that the driver expects: the selection then goes on from the rows that it has chosen so far, with hosts made anew
on the workers that are left (`sodalite.selection.grow`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from ..core.types import Floats
from ..selection import plan
from ..selection.executors import ShardsLostError, ThreadExecutor
from ..selection.messages import BlockReport, Candidates
from ..selection.rows import Block, ShardSetup
from .client import DaskFuture, cluster_errors, gather, no_warning_of_size, share, workers_of
from .collections import Targets
from .rows import DaskRows

CHANGES = ("start", "extend", "settle")  # the methods that change a shard
COUNT = {"settle": 2, "candidates": 0, "draw": 0}  # methods that return rows: the place of the argument `count`


class Host:
    """The shards of some pieces, in the memory of a worker.

    Parameters
    ----------
    pieces : list of Block
    setup : ShardSetup
        With m = 0 if shards keep no coordinates.
    n_threads : int
    """

    def __init__(self, pieces: list[Block], setup: ShardSetup, n_threads: int) -> None:
        self._made_of = pieces, setup, n_threads
        self._dtype, self._changes = setup.kernel.dtype, 0
        parts = list[Block]()
        for piece in pieces:
            edges = np.linspace(0, len(piece), max(1, -(-len(piece) // plan.SHARD_ROWS)) + 1).astype(int).tolist()
            parts += [piece.between(*span) for span in pairwise(edges)]
        self._executor = ThreadExecutor(lambda part: setup.shard(lambda: part.X, part), parts, n_threads)

    def __reduce__(self) -> Any:
        return Host, self._made_of  # where Dask copies it to another worker, or to disk: as it is when it is made

    def __del__(self) -> None:
        if hasattr(self, "_executor"):
            self._executor.__exit__(None, None, None)

    def answer(self, changes: int, method: str, arguments: tuple[Any, ...]) -> list[Any] | None:
        """Call a method of every shard; their reports or rows are joined before they are sent.

        None if another number of calls have changed the shards than the driver says.
        """
        if changes != self._changes and method != "start":
            return None
        if method in CHANGES:
            self._changes = -1  # until it has succeeded
        found = self._joined(method, arguments)
        if method in CHANGES:
            self._changes = changes + 1
        return found

    def _joined(self, method: str, arguments: tuple[Any, ...]) -> list[Any]:
        if method not in COUNT:
            found = self._executor.call(method, *arguments)
            return [BlockReport.join(found)] if isinstance(found[0], BlockReport) else found
        place = COUNT[method]
        count = arguments[place]
        if method != "draw":  # one shard may have all rows that are drawn
            part = -(-count // self._executor.n_shards)
            arguments = (*arguments[:place], part, *arguments[place + 1 :])
        found = self._executor.call(method, *arguments)
        return [Candidates.join(found).shortlist(count, arguments[-1], self._dtype)]


class DaskExecutor:
    """An executor (`sodalite.selection.executors`) whose shards are in hosts on the workers.

    Parameters
    ----------
    rows : DaskRows
    setup : ShardSetup
        With m = 0 if shards are to keep no coordinates.
    """

    def __init__(self, rows: DaskRows, setup: ShardSetup) -> None:
        self.client, there = rows.client, share(rows.client, setup)
        groups, columns = _groups(rows), (rows.inputs, rows.targets, rows.edges)
        self._homes = [home for home, *_ in groups]
        with cluster_errors(self.client):
            self._hosts = [
                self._submit(home, _host, *([every[piece] for piece in pieces] for every in columns), there, n_threads)
                for home, pieces, n_threads in groups
            ]
        self.n_shards, self.n_workers = len(groups), len(set(self._homes))
        self._changes = 0

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every shard, and return the answers of every host.

        Raises
        ------
        ShardsLostError
            If a host does not know the calls so far.
        """
        with cluster_errors(self.client), no_warning_of_size():
            futures = [
                self._submit(home, _answer, host, self._changes, method, arguments)
                for home, host in zip(self._homes, self._hosts, strict=True)
            ]
        self._changes += method in CHANGES
        answers = gather(self.client, futures)
        if None in answers:
            raise ShardsLostError
        return [part for answer in answers for part in answer]

    def _submit(self, home: str, function: Callable[..., Any], *arguments: Any) -> DaskFuture:
        """Call a function on a worker, or elsewhere if that is lost: a host that is copied elsewhere is a new one."""
        return self.client.submit(function, *arguments, workers=[home], allow_other_workers=True, pure=False)


def _groups(rows: DaskRows) -> list[tuple[str, list[int], int]]:
    """The pieces of every host, with its worker and its threads: no worker has more hosts than threads.

    So none of a worker's calls waits for another one, and Dask moves none of them elsewhere, where a host would be new.
    """
    client = rows.client
    threads = {address: int(worker["nthreads"]) for address, worker in workers_of(client).items()}
    there: dict[str, list[int]] = {}
    for piece, home in enumerate(gather(client, rows.submit(_address))):
        there.setdefault(home, []).append(piece)
    groups = list[tuple[str, list[int], int]]()
    for home, pieces in there.items():
        n_hosts = min(threads.get(home, 1), len(pieces))
        groups += [(home, pieces[at::n_hosts], -(-threads.get(home, 1) // n_hosts)) for at in range(n_hosts)]
    return groups


def _host(inputs: list[Floats], targets: list[Targets], begins: list[int], setup: ShardSetup, n_threads: int) -> Host:
    return Host([Block(X, *y, begin) for X, y, begin in zip(inputs, targets, begins, strict=True)], setup, n_threads)


def _address(_: Any) -> str:
    """The worker that runs this task."""
    from distributed import get_worker

    return str(get_worker().address)


def _answer(host: Host, changes: int, method: str, arguments: tuple[Any, ...]) -> list[Any] | None:
    return host.answer(changes, method, arguments)
