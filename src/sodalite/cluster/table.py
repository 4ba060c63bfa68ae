"""Rows that stay on the workers. Functions are brought to them, and what comes back is small."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.fingerprint import of_block
from ..core.memory import check_all_rows, parse_bytes
from ..core.threads import on_this_thread
from ..core.types import Array
from ..selection.executors import Executor
from ..selection.source import Scaling, ShardSetup, Sums
from .client import LostError, answer, find_client, insist, room, submit, workers_of
from .collections import Pieces, Rows, pieces_of

BRANCHES = 8  # sums that are added up at a time, on one worker


@dataclass(frozen=True)
class Part:
    """Rows `begin` to `end`, as a function that is brought to them sees them."""

    begin: int
    end: int
    X: Array
    y: Array
    """Of shape (rows, q)."""
    alpha: Array | None


class Table:
    """All rows, on the workers of a cluster.

    A worker that is lost takes its rows along. They are then made anew from what they came from, on another.

    Parameters
    ----------
    client : distributed.Client
    pieces : Pieces
    """

    def __init__(self, client: Any, pieces: Pieces) -> None:
        self.client, self.pieces = client, pieces
        self.scaling: Scaling | None = None
        self.n, self.d, self.q = pieces.edges[-1], pieces.d, pieces.q
        self._futures: list[Any] = []

        def attempt() -> bool:
            rest = range(len(self._futures), len(pieces.edges) - 1)
            self._futures += pieces.send(client, list(rest), list(workers_of(client)))
            return True

        insist(attempt)

    def __len__(self) -> int:
        """How many pieces there are."""
        return len(self._futures)

    @property
    def X(self) -> Remote:
        """The inputs, as something to be indexed by rows."""
        return Remote(self, "X")

    @property
    def y(self) -> Remote:
        """The targets; of shape (n, q)."""
        return Remote(self, "y")

    @property
    def alpha(self) -> Remote | None:
        """The rows' own noise variances, of shape (n,), if they have any."""
        return Remote(self, "alpha") if self.pieces.has_alpha else None

    def scaled(self, scaling: Scaling) -> Table:
        """The same rows, with targets that are scaled wherever they are used."""
        other = copy(self)
        other.scaling = scaling
        return other

    def span(self, piece: int) -> tuple[int, int]:
        """The first row of a piece, and the one after its last."""
        return self.pieces.edges[piece], self.pieces.edges[piece + 1]

    def held(self, piece: int) -> Any:
        """A future of a piece's rows; a new one, if they are lost."""
        future = self._futures[piece]
        if future.status in ("cancelled", "lost") or (future.status == "error" and _by_dask(future)):
            future = self.pieces.send(self.client, [piece], list(workers_of(self.client)))[0]
            self._futures[piece] = future
        return future

    def check(self, needs_all_rows: bool, memory_limit: Any, say: Callable[[str], None]) -> Table:
        """The rows, which were checked where they are; an error says if they are needed here and do not fit."""
        if needs_all_rows:
            check_all_rows(self.n, self.d, self.q, memory_limit)
        return self

    def check_room(self, m: int, dtype: np.dtype[Any], n_jobs: int | None, memory_limit: Any) -> None:
        """Workers have the memory that they have: what does not fit there is computed again."""

    def moments(self) -> Scaling:
        """The targets' means and standard deviations; 1 for a target that is constant."""
        from .moments import mean_and_spread

        return Scaling(*mean_and_spread(self))

    def fingerprints(self) -> dict[str, int]:
        """A number of X, of y and, if there is any, of alpha, worked out where the rows are."""
        names = ("X", "y", "alpha") if self.pieces.has_alpha else ("X", "y")
        pieces = range(len(self))
        return {name: int(sum(self.map(_fingerprint, dict.fromkeys(pieces, (name,)))) % 2**64) for name in names}

    @contextmanager
    def shards(self, setup: ShardSetup) -> Iterator[tuple[Executor, bool]]:
        """The shards of all rows, on the workers, and whether they keep the coordinates v of their rows."""
        from .executor import DaskExecutor, Setting

        limit = room(self.client) if setup.memory_limit is None else parse_bytes(setup.memory_limit)
        keep = self.n * setup.m * setup.kernel.dtype.itemsize <= limit
        with DaskExecutor(self, Setting(setup.kernel, setup.score, setup.m if keep else 0, setup.seed)) as cluster:
            yield cluster, keep

    def map(self, function: Callable[..., Any], arguments: dict[int, tuple[Any, ...]] | None = None) -> list[Any]:
        """Apply a function to pieces (a `Part`, and arguments of its own for each), where they are.

        Parameters
        ----------
        function : callable
        arguments : dict of piece to arguments, optional
            All pieces, with no arguments, by default.
        """
        left = dict.fromkeys(range(len(self)), ()) if arguments is None else dict(arguments)
        order, found = list(left), {}

        def attempt() -> bool:
            before = len(left)
            for piece, future in self._submit(function, left).items():
                try:
                    found[piece] = answer(self.client, future)
                except LostError:
                    continue
                del left[piece]
            return len(left) < before

        while left:
            insist(attempt)
        return [found[piece] for piece in order]

    def total(self, sums: Sums) -> tuple[Array, ...]:
        """What a function of X, y and alpha of some rows comes to over all rows, worked out where they are."""
        return self.total_of_parts(_Unpacked(sums))

    def total_of_parts(self, function: Callable[[Part], tuple[Array, ...]]) -> tuple[Array, ...]:
        """The sums over all pieces of the arrays that a function makes of each, added up on the workers in a tree."""
        found: list[tuple[Array, ...]] = []

        def attempt() -> bool:
            futures = list(self._submit(function, dict.fromkeys(range(len(self)), ())).values())
            while len(futures) > 1:
                groups = [futures[begin : begin + BRANCHES] for begin in range(0, len(futures), BRANCHES)]
                futures = [submit(self.client, _add, group) for group in groups]
            try:
                found.append(answer(self.client, futures[0]))
            except LostError:
                return False
            return True

        insist(attempt)
        return tuple(np.array(total) for total in found[0])  # what has travelled may be read-only

    def take(self, rows: Any, what: str) -> Array:
        """Some rows of X, y or alpha (a slice or indices, in any order), here."""
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
        """The type of X, y or alpha."""
        return self.pieces.dtype if what == "X" else np.dtype(np.float64)

    def _submit(self, function: Callable[..., Any], arguments: dict[int, tuple[Any, ...]]) -> dict[int, Any]:
        # The function, which may hold large arrays, is sent once; workers have it from each other.
        shared = submit(self.client, _same, (function, self.scaling))
        return {
            piece: submit(self.client, _work, shared, self.held(piece), *self.span(piece), some)
            for piece, some in arguments.items()
        }


class Remote:
    """X or y of a table: an array by its shape, which gives rows that are asked for, and fetches them from where."""

    def __init__(self, table: Table, what: str) -> None:
        self.table, self.what = table, what
        self.shape: tuple[int, ...] = (table.n,) if what == "alpha" else (table.n, table.d if what == "X" else table.q)
        self.dtype = table.dtype(what)
        self.ndim = len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Array:
        return self.table.take(rows, self.what)


@dataclass(frozen=True)
class _Unpacked:
    sums: Callable[..., tuple[Array, ...]]

    def __call__(self, part: Part) -> tuple[Array, ...]:
        return self.sums(part.X, part.y, part.alpha)


def share_out(X: Any, y: Any, alpha: Any = None, executor: Any = None) -> Table:
    """A table of Dask collections or of arrays, on the cluster of a client."""
    client = find_client(executor)
    return Table(client, pieces_of(client, X, y, alpha, 2 * len(workers_of(client))))


def _by_dask(future: Any) -> bool:
    return type(future.exception()).__module__.startswith("distributed")


def _same(value: Any) -> Any:
    return value


def _work(
    shared: tuple[Callable[..., Any], Scaling | None], rows: Rows, begin: int, end: int, arguments: tuple[Any, ...]
) -> Any:
    """On a worker: bring a function to some rows. Dask gives every task a thread, and that is all that it uses."""
    function, scaling = shared
    X, y, alpha = rows
    with on_this_thread():
        if scaling is not None:
            y, alpha = scaling(y, alpha)
        return function(Part(begin, end, X, y, alpha), *arguments)


def _add(parts: list[tuple[Array, ...]]) -> tuple[Array, ...]:
    return tuple(np.sum(list(same), axis=0) for same in zip(*parts, strict=True))


def _fingerprint(part: Part, what: str) -> int:
    return of_block(getattr(part, what), part.begin)


def _take(part: Part, what: str, places: Array) -> Array:
    values = np.asarray(getattr(part, what))
    return values.reshape(part.end - part.begin, -1)[places]
