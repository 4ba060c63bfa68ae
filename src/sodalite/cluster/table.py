"""A table of rows that stay on the workers. Functions are sent to the rows, and only small results come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..core.fingerprint import of_block
from ..core.memory import parse_bytes
from ..core.threads import on_this_thread
from ..core.types import Array, Floats, Indices
from ..selection.executors import Executor
from ..selection.source import Needs, Scaling, ShardSetup, Sums, check_room, moments_of, noise_alone, residuals
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


@dataclass(frozen=True)
class Part:
    """Rows `begin` to `end` with scaled targets: the argument of a function that is sent to the workers."""

    begin: int
    end: int
    X: Floats
    """Of shape (rows, d)."""
    y: Floats
    """Of shape (rows, q)."""
    alpha: Floats | None
    """Of shape (rows,)."""


class ClusterTable:
    """All rows, on the workers of a cluster: a `sodalite.selection.source.Source`.

    If a worker is lost, its pieces are made again on another worker, from the collection or array that they came from.

    Parameters
    ----------
    client : distributed.Client
    pieces : Pieces
    """

    def __init__(self, client: Client, pieces: Pieces) -> None:
        self.client, self.pieces = client, pieces
        self.scaling: Scaling | None = None
        self.n, self.d, self.q = pieces.edges[-1], pieces.d, pieces.q
        self._futures: list[DaskFuture] = []

        def attempt() -> bool:
            rest = range(len(self._futures), len(pieces.edges) - 1)
            self._futures += pieces.send(client, list(rest), list(workers_of(client)))
            return True

        insist(attempt)

    def __len__(self) -> int:
        """Return the number of pieces."""
        return len(self._futures)

    @property
    def X(self) -> RemoteArray:
        """The inputs, of shape (n, d)."""
        return RemoteArray(self, "X")

    @property
    def y(self) -> RemoteArray:
        """The targets, of shape (n, q)."""
        return RemoteArray(self, "y")

    @property
    def alpha(self) -> RemoteArray | None:
        """The rows' own noise variances, of shape (n,), if they have any."""
        return RemoteArray(self, "alpha") if self.pieces.has_alpha else None

    def scaled(self, scaling: Scaling) -> ClusterTable:
        """Return a table of these rows whose targets are scaled on the workers, whenever they are used."""
        other = copy(self)
        other.scaling = scaling
        return other

    def less(self, function: Callable[[Any], Floats | float], rows: Indices, known: Floats) -> ClusterTable:
        """Return a table of the targets' residuals: less what a function predicts, or `known` for some rows.

        The residuals are computed once, by the workers that have the rows.
        """
        return ClusterTable(self.client, replace(self.pieces, send=_Less(self.pieces, function, rows, known)))

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
    def here(self) -> None:
        """None: the rows are on the workers."""
        return None

    def check(self, needs: Needs, memory_limit: float | str | None, say: Callable[[str], None]) -> ClusterTable:
        """Return the table: workers check its values. Refuse if all rows are needed here and there is no room."""
        if needs != "passes":
            check_room(self, needs, memory_limit)
        return self

    def check_room(self, m: int, dtype: np.dtype[Any], n_jobs: int | None, memory_limit: float | str | None) -> None:
        """Do nothing: where coordinates do not fit the workers' memory, they are computed again for every block."""

    def moments(self) -> Scaling:
        """Return the targets' means and standard deviations; 1 for a target that is constant."""
        from .moments import mean_and_spread

        if self.alpha is not None and self.q == 1:  # two numbers a row are fetched, to find rows of noise alone
            y = np.asarray(self.y[:])
            if (noise := noise_alone(y, np.asarray(self.alpha[:]))).any():
                return moments_of(y[~noise])
        return Scaling(*mean_and_spread(self))

    def fingerprints(self) -> dict[str, int]:
        """Return a fingerprint of X, of y and, if there is any, of alpha, computed on the workers."""
        names = ("X", "y", "alpha") if self.pieces.has_alpha else ("X", "y")
        pieces = range(len(self))
        return {name: int(sum(self.map(_fingerprint, dict.fromkeys(pieces, (name,)))) % 2**64) for name in names}

    @property
    def lays_out(self) -> bool:
        """Whether the rows come from Dask collections, which those that are lost can be made from again."""
        return self.pieces.lazy

    def lay_out(self, remaining: Remaining) -> Bundles:
        """Return the rows that are not active, laid out by cells on the workers, for the posterior "local"."""
        from .bundles import lay_out

        return lay_out(self, remaining)

    def submitted(self, function: Callable[[Part], Any]) -> list[DaskFuture]:
        """Return futures of the results of a function for all pieces, in their order."""
        return list(self._submit(function, dict.fromkeys(range(len(self)), ())).values())

    @contextmanager
    def shards(self, setup: ShardSetup) -> Iterator[tuple[Executor, bool]]:
        """Yield the executor of the shards, and whether they keep the coordinates v of their rows."""
        from .executor import DaskExecutor, HostSetup

        limit = memory_for_coordinates(self.client) if setup.memory_limit is None else parse_bytes(setup.memory_limit)
        keep = self.n * setup.m * setup.kernel.dtype.itemsize <= limit
        with DaskExecutor(self, HostSetup(setup.kernel, setup.score, setup.m if keep else 0, setup.seed)) as cluster:
            yield cluster, keep

    def map(self, function: Callable[..., Any], arguments: dict[int, tuple[Any, ...]] | None = None) -> list[Any]:
        """Return the results of a function for some pieces, computed on the workers.

        Parameters
        ----------
        function : callable
            Takes a `Part`, and the arguments of the piece.
        arguments : dict of piece to arguments, optional
            By default all pieces, without further arguments.
        """
        jobs = dict.fromkeys(range(len(self)), ()) if arguments is None else arguments
        found = gathered(self.client, jobs, lambda left: self._submit(function, {piece: jobs[piece] for piece in left}))
        return [found[piece] for piece in jobs]

    def total(self, sums: Sums) -> tuple[Floats, ...]:
        """Return the sums over all rows of a function of X, y and alpha, computed on the workers."""
        return self.total_of_parts(_Unpacked(sums))

    def total_of_parts(self, function: Callable[[Part], tuple[Floats, ...]]) -> tuple[Floats, ...]:
        """Return the sums over all pieces of the arrays that a function returns, added up in a tree on the workers."""
        return tuple(np.array(total) for total in self._merged(function, _add))  # they may have come read-only

    def combined(self, function: Callable[[int, Any], T], combine: Callable[[T, T], T]) -> T:
        """Return the results of a function for all pieces, combined in a tree on the workers."""
        found: T = self._merged(_FromFirst(function), partial(reduce, combine))
        return found

    def _merged(self, function: Callable[[Part], T], merge: Callable[[list[T]], T]) -> T:
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

    def take(self, rows: slice | Indices, what: str) -> Floats:
        """Fetch rows of X, y or alpha: a slice, or indices in any order."""
        index = np.arange(self.n)[rows] if isinstance(rows, slice) else np.asarray(rows)
        piece = np.searchsorted(self.pieces.edges, index, side="right") - 1
        places = {int(p): np.flatnonzero(piece == p) for p in np.unique(piece)}
        jobs = {p: (what, index[at] - self.pieces.edges[p]) for p, at in places.items()}
        parts = self.map(_take, jobs)
        out = np.empty((len(index), {"X": self.d, "y": self.q, "alpha": 1}[what]), dtype=self.dtype(what))
        for at, part in zip(places.values(), parts, strict=True):
            out[at] = part
        return out[:, 0] if what == "alpha" else out

    def dtype(self, what: str) -> np.dtype[Any]:
        """Return the type of X, y or alpha."""
        return self.pieces.dtype if what == "X" else np.dtype(np.float64)

    def _submit(self, function: Callable[..., Any], arguments: dict[int, tuple[Any, ...]]) -> dict[int, DaskFuture]:
        """Futures of a function's results for some pieces."""
        there = shared(self.client, (function, self.scaling))
        return {
            piece: submit(self.client, _work, there, self.held(piece), *self.span(piece), some)
            for piece, some in arguments.items()
        }


class RemoteArray:
    """X, y or alpha of a cluster table: has an array's shape and type, and fetches the rows by which it is indexed."""

    def __init__(self, table: ClusterTable, what: str) -> None:
        self.table, self.what = table, what
        self.shape: tuple[int, ...] = (table.n,) if what == "alpha" else (table.n, table.d if what == "X" else table.q)
        self.dtype = table.dtype(what)
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Indices) -> Floats:
        return self.table.take(rows, self.what)


@dataclass(frozen=True)
class _Unpacked:
    """A function of X, y and alpha, as a function of a part."""

    sums: Sums

    def __call__(self, part: Part) -> tuple[Floats, ...]:
        return self.sums(part.X, part.y, part.alpha)


@dataclass(frozen=True)
class _FromFirst:
    """A function of the number of the first row and of X, as a function of a part."""

    function: Callable[[int, Any], Any]

    def __call__(self, part: Part) -> Any:
        return self.function(part.begin, part.X)


@dataclass(frozen=True)
class _Less:
    """Sends pieces whose targets are residuals, as `Pieces.send` sends pieces."""

    pieces: Pieces
    function: Callable[[Any], Floats | float]
    rows: Indices
    known: Floats

    def __call__(self, client: Client, which: list[int], workers: list[str]) -> list[DaskFuture]:
        there, edges = shared(client, self.function), self.pieces.edges
        found = []
        for piece, future in zip(which, self.pieces.send(client, which, workers), strict=True):
            first, last = np.searchsorted(self.rows, [edges[piece], edges[piece + 1]])
            known = self.rows[first:last], self.known[first:last]
            found.append(submit(client, _residuals, future, edges[piece], there, *known))
        return found


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


def _residuals(
    piece: Piece, begin: int, function: Callable[[Any], Floats | float], rows: Indices, known: Floats
) -> Piece:
    """A piece whose targets are residuals; runs on a worker, on the one thread that Dask gives to a task."""
    with on_this_thread():
        return piece._replace(y=residuals(piece.X, piece.y, begin, function, rows, known))


def _work(
    given: tuple[Callable[..., Any], Scaling | None], piece: Piece, begin: int, end: int, arguments: tuple[Any, ...]
) -> Any:
    """Call a function for a piece; runs on a worker, on the one thread that Dask gives to a task."""
    function, scaling = given
    X, y, alpha = piece
    with on_this_thread():
        if scaling is not None:
            y, alpha = scaling(y, alpha)
        return function(Part(begin, end, X, y, alpha), *arguments)


def _add(parts: list[tuple[Floats, ...]]) -> tuple[Floats, ...]:
    return tuple(np.sum(list(same), axis=0) for same in zip(*parts, strict=True))


def _fingerprint(part: Part, what: str) -> int:
    return of_block(getattr(part, what), part.begin)


def _take(part: Part, what: str, places: Indices) -> Array:
    values = np.asarray(getattr(part, what))
    return values.reshape(part.end - part.begin, -1)[places]
