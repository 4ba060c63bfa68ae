"""A table of rows that stay on the workers. Functions are sent to the rows, and only small results come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..core.memory import parse_bytes
from ..core.threads import on_this_thread
from ..core.types import Floats, Indices
from ..selection.executors import Executor
from ..selection.rows import Block, Scaling, ShardSetup, spans
from .client import (
    Client,
    DaskFuture,
    LostError,
    answer,
    find_client,
    gathered,
    insist,
    memory_for_coordinates,
    shared,
    submit,
    workers_of,
)
from .collections import Piece, Pieces, pieces_of

if TYPE_CHECKING:
    from ..posteriors.remote import Remaining
    from .bundles import Bundles

BRANCHES = 8  # results that one task adds up: n pieces need log8(n) levels; more would fill a worker with m x m arrays
PIECES_PER_WORKER = 2  # pieces of an array that is sent out: more divide the work more evenly, but mean more calls

T = TypeVar("T")


class ClusterTable:
    """All rows, on the workers of a cluster: `sodalite.selection.rows.Rows`.

    If a worker is lost, its pieces are made again on another worker, from the collection or array that they came from.

    Parameters
    ----------
    client : distributed.Client
    pieces : Pieces
    """

    def __init__(self, client: Client, pieces: Pieces) -> None:
        self.client, self.pieces = client, pieces
        self.scaling: Scaling | None = None
        self.shape, self.q = (pieces.edges[-1], pieces.d), pieces.q
        self.dtype, self.has_alpha = pieces.dtype, pieces.has_alpha
        self._futures: list[DaskFuture] = []

        def attempt() -> bool:
            rest = range(len(self._futures), len(pieces.edges) - 1)
            self._futures += pieces.send(client, list(rest), list(workers_of(client)))
            return True

        insist(attempt)

    def __len__(self) -> int:
        """Return the number of pieces."""
        return len(self._futures)

    def with_targets(self, function: Callable[[Block], tuple[Floats, Floats | None]]) -> ClusterTable:
        """Return the rows with other targets and alpha: scaled whenever they are used, or else computed once."""
        if isinstance(function, Scaling):
            other = copy(self)
            other.scaling = function
            return other
        return ClusterTable(self.client, replace(self.pieces, send=_WithTargets(self.pieces, function)))

    def span(self, piece: int) -> tuple[int, int]:
        """Return the first row of a piece, and the row after its last."""
        return self.pieces.edges[piece], self.pieces.edges[piece + 1]

    def held(self, piece: int) -> DaskFuture:
        """Return a future of a piece's rows; a new one, if they are lost."""
        future = self._futures[piece]
        if future.status in ("cancelled", "lost") or (future.status == "error" and _failed_in_dask(future)):
            future = self.pieces.send(self.client, [piece], list(workers_of(self.client)))[0]
            self._futures[piece] = future
        return future

    @property
    def lays_out(self) -> bool:
        """Whether the rows come from Dask collections, which those that are lost can be made from again."""
        return self.pieces.lazy

    def lay_out(self, remaining: Remaining) -> Bundles:
        """Return the rows that are not active, laid out by cells on the workers, for the posterior "local"."""
        from .bundles import lay_out

        return lay_out(self, remaining)

    def submitted(self, function: Callable[[Block], Any]) -> list[DaskFuture]:
        """Return futures of the results of a function for all pieces, in their order."""
        return list(self._submit(function, dict.fromkeys(range(len(self)), ())).values())

    @contextmanager
    def shards(self, setup: ShardSetup) -> Iterator[tuple[Executor, bool]]:
        """Yield the executor of the shards, and whether they keep the coordinates v of their rows."""
        from .executor import DaskExecutor, HostSetup

        limit = memory_for_coordinates(self.client) if setup.memory_limit is None else parse_bytes(setup.memory_limit)
        keep = self.shape[0] * setup.m * setup.kernel.dtype.itemsize <= limit
        with DaskExecutor(self, HostSetup(setup.kernel, setup.score, setup.m if keep else 0, setup.seed)) as cluster:
            yield cluster, keep

    def on_pieces(self, function: Callable[..., Any], arguments: dict[int, tuple[Any, ...]]) -> list[Any]:
        """Return the results of a function of a block and further arguments for some pieces."""
        found = gathered(
            self.client, arguments, lambda left: self._submit(function, {piece: arguments[piece] for piece in left})
        )
        return [found[piece] for piece in arguments]

    def map(self, function: Any, combine: Any = None, most: int = 0) -> Any:
        """Call a function for blocks of all rows, on the workers: see `Rows.map`. Results are combined in a tree."""
        if combine is None:
            found = self.on_pieces(_InBlocks(function, most), dict.fromkeys(range(len(self)), ()))
            return [part for piece in found for part in piece]
        return self._merged(_InBlocks(function, most, combine), partial(reduce, combine))

    def take(self, which: Indices) -> Block:
        """Fetch some rows by their numbers, in that order."""
        piece = np.searchsorted(self.pieces.edges, which, side="right") - 1
        places = {int(p): np.flatnonzero(piece == p) for p in np.unique(piece)}
        parts = self.on_pieces(_take, {p: (which[at] - self.pieces.edges[p],) for p, at in places.items()})
        d, n = self.shape[1], len(which)
        X, y, alpha = np.empty((n, d), dtype=self.dtype), np.empty((n, self.q)), np.empty(n)
        for at, (X_there, y_there, alpha_there) in zip(places.values(), parts, strict=True):
            X[at], y[at] = X_there, y_there
            if alpha_there is not None:
                alpha[at] = alpha_there
        return Block(X, y, alpha if self.has_alpha else None)

    def blocks(self) -> Iterator[Block]:
        """Fetch all rows in their order, a bounded number at a time."""
        for here in spans(*self.shape):
            block = self.take(np.arange(here.start, here.stop))
            yield Block(block.X, block.y, block.alpha, here.start)

    def _merged(self, function: Callable[[Block], T], merge: Callable[[list[T]], T]) -> T:
        """The results of a function for all pieces, merged in a tree on the workers."""
        found: list[T] = []

        def attempt() -> bool:
            futures = self.submitted(function)
            while len(futures) > 1:
                groups = [futures[begin : begin + BRANCHES] for begin in range(0, len(futures), BRANCHES)]
                futures = [submit(self.client, merge, group) for group in groups]
            try:
                found.append(answer(self.client, futures[0]))
            except LostError:
                return False
            return True

        insist(attempt)
        return found[0]

    def _submit(self, function: Callable[..., Any], arguments: dict[int, tuple[Any, ...]]) -> dict[int, DaskFuture]:
        """Futures of a function's results for some pieces."""
        there = shared(self.client, (function, self.scaling))
        return {
            piece: submit(self.client, _work, there, self.held(piece), self.span(piece)[0], some)
            for piece, some in arguments.items()
        }


@dataclass(frozen=True)
class _InBlocks:
    """A function of the blocks of a piece; its results as a list, or combined."""

    function: Callable[[Block], Any]
    most: int
    combine: Callable[[Any, Any], Any] | None = None

    def __call__(self, piece: Block) -> Any:
        parts = spans(len(piece), piece.X.shape[1], self.most)
        found = [self.function(piece.between(part.start, part.stop)) for part in parts]
        return found if self.combine is None else reduce(self.combine, found)


@dataclass(frozen=True)
class _WithTargets:
    """Sends pieces with other targets, as `Pieces.send` sends pieces."""

    pieces: Pieces
    function: Callable[[Block], tuple[Floats, Floats | None]]

    def __call__(self, client: Client, which: list[int], workers: list[str]) -> list[DaskFuture]:
        there, edges = shared(client, self.function), self.pieces.edges
        sent = zip(which, self.pieces.send(client, which, workers), strict=True)
        return [submit(client, _retarget, future, edges[piece], there) for piece, future in sent]


def share_out(X: Any, y: Any, alpha: Any = None, executor: Client | None = None) -> ClusterTable:
    """Return Dask collections, or arrays that are sent to the workers, as one table.

    Parameters
    ----------
    X, y, alpha : Dask arrays or dataframes, or arrays
        Of shape (n, d), (n,) or (n, q), and (n,).
    executor : dask.distributed.Client, optional
        By default the current client.
    """
    client = find_client(executor)
    return ClusterTable(client, pieces_of(client, X, y, alpha, PIECES_PER_WORKER * len(workers_of(client))))


def _failed_in_dask(future: DaskFuture) -> bool:
    """Whether a future failed by an error of Dask's own, such as a lost worker."""
    return type(future.exception()).__module__.startswith("distributed")


def _retarget(piece: Piece, begin: int, function: Callable[[Block], tuple[Floats, Floats | None]]) -> Piece:
    """A piece with other targets; runs on a worker, on the one thread that Dask gives to a task."""
    with on_this_thread():
        y, alpha = function(Block(*piece, begin))
        return Piece(piece.X, y, alpha)


def _work(sent: tuple[Callable[..., Any], Scaling | None], piece: Piece, begin: int, arguments: tuple[Any, ...]) -> Any:
    """Call a function for a piece; runs on a worker, on the one thread that Dask gives to a task."""
    function, scaling = sent
    block = Block(*piece, begin)
    with on_this_thread():
        if scaling is not None:
            block = Block(piece.X, *scaling(block), begin)
        return function(block, *arguments)


def _take(block: Block, places: Indices) -> Piece:
    return Piece(block.X[places], block.y[places], None if block.alpha is None else block.alpha[places])
