"""Rows that stay on the workers of a cluster. Functions are sent to the rows, and only small results come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from ..core.memory import parse_bytes
from ..core.threads import on_this_thread
from ..core.types import Floats, Indices
from ..core.validation import is_dask
from ..selection.executors import Executor
from ..selection.rows import Block, ShardSetup, spans
from .client import Client, DaskFuture, cluster_errors, find_client, gather, share, workers_of
from .collections import Targets, columns_of, send

BRANCHES = 8  # results that one task combines: n pieces need log8(n) levels; more would fill a worker with m x m arrays
PIECES_PER_WORKER = 2  # pieces of an array that is sent out: more divide the work more evenly, but mean more calls


@dataclass(frozen=True)
class DaskRows:
    """All rows, on the workers of a cluster: `sodalite.selection.rows.Rows`.

    They are divided into pieces, the partitions of a Dask collection. Dask makes pieces again that are lost with a
    worker: it knows the tasks that they come from.
    """

    client: Client
    inputs: list[DaskFuture]
    """X of every piece, of shape (rows, d)."""
    targets: list[DaskFuture]
    """The `Targets` of every piece."""
    edges: list[int]
    """The first row of every piece, and the number of rows. No piece is empty."""
    shape: tuple[int, int]
    q: int
    dtype: np.dtype[Any]
    """The type of X."""
    has_alpha: bool
    flat: bool
    """Whether y had one dimension."""
    lazy: bool
    """Whether they come from Dask collections, rather than from this machine."""

    def take(self, which: Indices) -> Block:
        """Fetch some rows by their numbers, in that order."""
        which = np.asarray(which)
        piece = np.searchsorted(self.edges, which, side="right") - 1
        pieces = np.unique(piece).tolist()
        places = [np.flatnonzero(piece == number) for number in pieces]
        wanted = [which[at] - self.edges[number] for number, at in zip(pieces, places, strict=True)]
        X, y = np.empty((len(which), self.shape[1]), dtype=self.dtype), np.empty((len(which), self.q))
        alpha = np.empty(len(which)) if self.has_alpha else None
        for at, part in zip(places, gather(self.client, self.submit(_take, pieces, wanted)), strict=True):
            X[at], y[at] = part.X, part.y
            if alpha is not None:
                alpha[at] = part.alpha
        return Block(X, y, alpha)

    def blocks(self) -> Iterator[Block]:
        """Fetch all rows in their order, a bounded number at a time."""
        for here in spans(*self.shape):
            block = self.take(np.arange(here.start, here.stop))
            yield Block(block.X, block.y, block.alpha, here.start)

    def map(self, function: Any, combine: Any = None, most: int = 0) -> Any:
        """Call a function for blocks of all rows, on the workers: see `Rows.map`. Results are combined in a tree."""
        futures = self.submit(_InBlocks(function, most, combine))
        if combine is None:
            return [part for piece in gather(self.client, futures) for part in piece]
        with cluster_errors(self.client):
            while len(futures) > 1:
                groups = [futures[begin : begin + BRANCHES] for begin in range(0, len(futures), BRANCHES)]
                futures = self.client.map(reduce, [combine] * len(groups), groups, pure=False)
        return gather(self.client, futures)[0]

    def with_targets(self, function: Callable[[Block], tuple[Floats, Floats | None]]) -> DaskRows:
        """Return the rows with other targets and alpha, which the workers compute once."""
        has_alpha = self.has_alpha or getattr(function, "adds_alpha", False)
        return replace(self, targets=self.submit(partial(_retarget, function)), has_alpha=has_alpha)

    def submit(
        self, function: Callable[..., Any], pieces: list[int] | None = None, *arguments: list[Any]
    ) -> list[DaskFuture]:
        """Return futures of a function of a `Block` for all or some pieces, and of further arguments for each."""
        which = range(len(self.inputs)) if pieces is None else pieces
        there = share(self.client, function)
        parts = [[every[piece] for piece in which] for every in (self.inputs, self.targets, self.edges)]
        with cluster_errors(self.client):
            return list(self.client.map(_work, [there] * len(which), *parts, *arguments, pure=False))

    @contextmanager
    def shards(self, setup: ShardSetup) -> Iterator[tuple[Executor, bool]]:
        """Yield the executor of the shards, and whether they keep the coordinates v of their rows.

        By default these may take half of the workers' memory.
        """
        from .executor import DaskExecutor

        if setup.memory_limit is None:
            limit = sum(int(worker.get("memory_limit") or 0) for worker in workers_of(self.client).values()) // 2
        else:
            limit = parse_bytes(setup.memory_limit)
        keep = self.shape[0] * setup.m * setup.kernel.dtype.itemsize <= limit
        yield DaskExecutor(self, setup if keep else replace(setup, m=0)), keep


def dask_rows(X: Any, y: Any, alpha: Any = None, executor: Client | None = None) -> DaskRows:
    """Return Dask collections, or arrays that are sent to the workers, as rows of one cluster.

    Parameters
    ----------
    X, y, alpha : Dask arrays or dataframes, or arrays
        Of shape (n, d), (n,) or (n, q), and (n,).
    executor : dask.distributed.Client, optional
        By default the current client.
    """
    client = find_client(executor)
    lazy = is_dask(X) or is_dask(y)
    X, y, alpha = columns_of(client, X, y, alpha, PIECES_PER_WORKER * len(workers_of(client)))
    return DaskRows(
        client,
        *send(client, X, y, alpha),
        shape=X.shape,
        q=1 if y.ndim == 1 else y.shape[1],
        dtype=X.dtype,
        has_alpha=alpha is not None,
        flat=y.ndim == 1,
        lazy=lazy,
    )


@dataclass(frozen=True)
class _InBlocks:
    """A function of the blocks of a piece; its results as a list, or combined."""

    function: Callable[[Block], Any]
    most: int
    combine: Callable[[Any, Any], Any] | None

    def __call__(self, piece: Block) -> Any:
        parts = spans(len(piece), piece.X.shape[1], self.most)
        found = [self.function(piece.between(part.start, part.stop)) for part in parts]
        return found if self.combine is None else reduce(self.combine, found)


def _work(function: Callable[..., Any], X: Floats, targets: Targets, begin: int, *arguments: Any) -> Any:
    """Call a function for a piece; runs on a worker, on the one thread that Dask gives to a task."""
    with on_this_thread():
        return function(Block(X, *targets, begin), *arguments)


def _retarget(function: Callable[[Block], tuple[Floats, Floats | None]], block: Block) -> Targets:
    return Targets(*function(block))


def _take(block: Block, places: Indices) -> Block:
    return Block(block.X[places], block.y[places], None if block.alpha is None else block.alpha[places])
