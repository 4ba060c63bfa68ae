"""The shards of a selection on the workers of a Dask cluster, each where its rows are.

Every piece of the rows has a host, an object in the memory of the worker that has the piece. It is the result of a
Dask task, so Dask makes it again if its worker is lost, and forgets it when the selection ends. The driver makes the
same calls as to threads. For every block (docs/method.rst, `blocks`), the picks go out and a short report comes back;
the rows stay.

A call is one task for each thread of a worker, on the worker of the hosts that it calls. A host that was made again
does not know the picks so far. It answers a call with None, and is then called once more, with the picks: their
coordinates follow from their inputs, targets and noise, so one pass over the rows brings it to the present stage. A
call that Dask makes twice has the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from ..core.jitter import covariance_factor
from ..core.threads import one_blas_thread
from ..core.types import Floats, Indices
from ..kernels import CompiledKernel
from ..selection import plan
from ..selection.executors import ThreadExecutor
from ..selection.loop import LARGEST_BLOCK
from ..selection.messages import BlockReport, Candidates, Picks
from ..selection.rows import Block, ShardSetup
from ..selection.shard import Shard
from .client import cluster_errors, gather, no_warning_of_size, share, workers_of
from .collections import Targets
from .rows import DaskRows

CHANGES = ("start", "extend", "settle")  # the methods that change a shard
COUNT = {"settle": 2, "candidates": 0, "draw": 0}  # methods that return rows: the place of the argument `count`
NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Progress:
    """How a selection came to its present stage."""

    noise_floor: float
    blocks: list[Picks]
    """The accepted picks, and then those that were rejected last, without any that were rejected before."""
    rejected: bool
    """Whether the last of these blocks was rejected."""
    unsettled: Picks | None
    """The block that the shards have been extended by since."""


@dataclass(frozen=True)
class Call:
    """A call of a method of all shards."""

    number: int
    """Counts all calls."""
    changes: int
    """How many calls before have changed the shards."""
    method: str
    arguments: tuple[Any, ...]
    progress: Progress | None = None
    """For hosts that were made again."""


class Host:
    """The shards of one piece, in the memory of a worker.

    Parameters
    ----------
    X : array of shape (rows, d)
    targets : Targets
    begin : int
        The number of the first row.
    setup : ShardSetup
        With m = 0 if shards keep no coordinates, and the threads of a host.
    """

    def __init__(self, X: Floats, targets: Targets, begin: int, setup: ShardSetup) -> None:
        self._rows = X, targets, begin, setup
        self._dtype, self._changes = setup.kernel.dtype, 0
        self._last: tuple[int, list[Any]] = -1, []
        n = len(X)
        edges = np.linspace(0, n, max(1, -(-n // plan.SHARD_ROWS)) + 1).astype(int).tolist()

        def make(part: tuple[int, int]) -> Shard:
            here, span = slice(*part), (begin + part[0], begin + part[1])
            alpha = None if targets.alpha is None else targets.alpha[here]
            rows, y = _Offset(X, begin), targets.y[here]
            return Shard(rows, y, *span, setup.kernel, setup.criterion, setup.m, alpha, setup.seed)

        self._executor = ThreadExecutor(make, list(pairwise(edges)), setup.n_threads)

    def __reduce__(self) -> Any:
        return Host, self._rows  # where Dask copies it to another worker, or to disk: without coordinates

    def __del__(self) -> None:
        if hasattr(self, "_executor"):
            self._executor.__exit__(None, None, None)

    def answer(self, call: Call) -> list[Any] | None:
        """Call a method of every shard; their reports or rows are joined before they are sent.

        None if the shards are not at the stage of the call, and it does not say how to get there.
        """
        if call.number == self._last[0]:
            return self._last[1]
        if call.changes != self._changes and call.method != "start":
            if call.progress is None:
                return None
            self._advance(call.progress)
        if call.method in CHANGES:
            self._changes = -1  # until it has succeeded
        found = self._joined(call.method, call.arguments)
        self._changes = call.changes + (call.method in CHANGES)
        self._last = call.number, found
        return found

    def _joined(self, method: str, arguments: tuple[Any, ...]) -> list[Any]:
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

    def _advance(self, progress: Progress) -> None:
        """Bring new shards to the present stage."""
        self._executor.call("start", progress.noise_floor)
        for number, block in enumerate(progress.blocks, 1):
            rejected = progress.rejected and number == len(progress.blocks)
            self._executor.call("extend", block)
            self._executor.call("settle", block, 0 if rejected else len(block), 0, 0.0, NONE)
        if progress.unsettled is not None:
            self._executor.call("extend", replace(progress.unsettled, expected=None))


class DaskExecutor:
    """An executor (`sodalite.selection.executors`) whose shards are in the hosts of all pieces of some rows.

    Parameters
    ----------
    rows : DaskRows
    setup : ShardSetup
    keep : bool
        Whether shards keep the coordinates of their rows.
    """

    def __init__(self, rows: DaskRows, setup: ShardSetup, keep: bool) -> None:
        self.rows, self.kernel, self.keep, self.client = rows, setup.kernel, keep, rows.client
        workers = {address: int(worker["nthreads"]) for address, worker in workers_of(self.client).items()}
        self.n_shards = n = len(rows.inputs)
        self.n_workers, self._threads = len(workers), workers
        own = replace(setup, m=setup.m if keep else 0, n_threads=-(-sum(workers.values()) // n))
        there = [share(self.client, own)] * n
        with cluster_errors(self.client):
            self._hosts = self.client.map(Host, rows.inputs, rows.targets, rows.begins, there, pure=False)
            placed = self.client.map(_address, self._hosts, pure=False)
        self._homes: dict[int, str] = dict(enumerate(gather(self.client, placed)))  # the worker of each host
        self._n_calls = self._changes = self.n_lost = 0
        self._floor, self._picks, self._rejected, self._unsettled = 0.0, NONE, NONE, None

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every shard, and return the answers in the order of the pieces."""
        call = Call(self._n_calls, self._changes, method, arguments)
        answers = self._answers(range(self.n_shards), call)
        if behind := [host for host, answer in answers.items() if answer is None]:
            self.n_lost += len(behind)
            answers |= self._answers(behind, replace(call, progress=self._progress()))
        self._follow(method, arguments)
        return [part for host in range(self.n_shards) for part in answers[host]]

    def _answers(self, hosts: Iterable[int], call: Call) -> dict[int, Any]:
        """The answers of some hosts; no worker gets more tasks than it has threads, so none is moved elsewhere."""
        from dask import annotate  # type: ignore[attr-defined]
        from dask.delayed import delayed

        there: dict[str, list[int]] = {}
        for host in hosts:
            there.setdefault(self._homes[host], []).append(host)
        groups = list[tuple[str, list[int]]]()
        for home, those in there.items():
            threads = min(self._threads.get(home, 1), len(those))
            groups += [(home, those[at::threads]) for at in range(threads)]
        tasks, answer = list[Any](), delayed(_answer, pure=False)
        for home, group in groups:
            with annotate(workers=[home], allow_other_workers=True):
                tasks.append(answer([self._hosts[host] for host in group], call))
        with cluster_errors(self.client), no_warning_of_size():
            futures = self.client.compute(tasks, optimize_graph=False)
        answers: dict[int, Any] = {}
        for (_, group), (home, found) in zip(groups, gather(self.client, futures), strict=True):
            answers |= dict(zip(group, found, strict=True))
            self._homes |= dict.fromkeys(group, home)
        self.n_workers = len(set(self._homes.values()))
        return answers

    def _follow(self, method: str, arguments: tuple[Any, ...]) -> None:
        """Keep in mind which picks the shards have after a call."""
        self._n_calls += 1
        self._changes += method in CHANGES
        if method == "start":
            self._floor, self._picks, self._rejected, self._unsettled = arguments[0], NONE, NONE, None
        elif method == "extend":
            self._unsettled = arguments[0]
        elif method == "settle":
            picks, n_accepted = arguments[0].picks, arguments[1]
            self._picks, self._rejected = np.append(self._picks, picks[:n_accepted]), picks[n_accepted:]
            self._unsettled = None

    def _progress(self) -> Progress:
        """What brings new hosts to the present stage."""
        n_accepted, which = len(self._picks), np.append(self._picks, self._rejected)
        edges = [*range(0, n_accepted, LARGEST_BLOCK[True]), n_accepted, len(which)]
        parts = [(begin, end) for begin, end in pairwise(edges) if end > begin]
        blocks = picks_of(self.kernel, self.rows.take(which), which, parts, self._floor, self.keep) if parts else []
        return Progress(self._floor, blocks, len(self._rejected) > 0, self._unsettled)


def picks_of(
    kernel: CompiledKernel, rows: Block, which: Indices, parts: list[tuple[int, int]], floor: float, keep: bool
) -> list[Picks]:
    """Some rows as blocks of picks that are added in turn. O(m^3)."""
    double = kernel.in_double()
    X = np.asarray(rows.X, dtype=np.float64)
    features = double.prepare(X)
    noise = double.noise(features) + (0.0 if rows.alpha is None else rows.alpha)
    with one_blas_thread():
        L = covariance_factor(double.block(features, features), np.maximum(noise, floor))
        zeta = solve_triangular(L, rows.y, lower=True)
        return [_block(L, X, zeta, which, part, kernel.dtype, keep) for part in parts]


def _block(
    L: Floats, X: Floats, zeta: Floats, which: Indices, part: tuple[int, int], dtype: np.dtype[Any], keep: bool
) -> Picks:
    """The picks of one part, from the factor of all."""
    t, here = part[0], slice(*part)
    mix, coefficients = solve_triangular(L[here, here], np.eye(part[1] - t), lower=True), L[here, :t]
    if not keep and t:  # P = v L^-1
        coefficients = solve_triangular(L[:t, :t], coefficients.T, lower=True, trans="T").T
    return Picks(
        stage=t,
        picks=which[here],
        mix=mix.astype(dtype),
        n_pending=0,
        X_new=X[here],
        coefficients=np.ascontiguousarray(coefficients, dtype=dtype),
        X_active=None if keep else X[:t],
        zeta=zeta[here],
        expected=None,
    )


class _Offset:
    """Rows from `begin` on of a larger array, indexed by slices of that array."""

    def __init__(self, X: Floats, begin: int) -> None:
        self.X, self.begin = X, begin

    def __getitem__(self, rows: slice) -> Floats:
        return self.X[rows.start - self.begin : rows.stop - self.begin]


def _address(_: Host | None = None) -> str:
    """The worker that runs this task."""
    from distributed import get_worker

    return str(get_worker().address)


def _answer(hosts: list[Host], call: Call) -> tuple[str, list[list[Any] | None]]:
    """The answers of some hosts, and the worker that they are on."""
    return _address(), [host.answer(call) for host in hosts]
