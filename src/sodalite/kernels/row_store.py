"""A store of rows that need not fit into memory: distinct rows with their values, laid out by cells in a metric.

It is made in two passes over the rows, in bounded memory (docs/method.rst, `row-store`):

1. a sample of the rows decides on the cells, each of about `CELL_ROWS` rows (`sodalite.kernels.cells`);
2. every row is appended to the file of its bucket, a run of cells that fits into memory. Then the buckets are read one
   after the other: rows with the same inputs become one, and rows are put in the order of their cells.

The files are temporary and have no names, so nothing is left behind, whenever and however the process ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import log2
from typing import IO, Any, cast

import numpy as np

from ..core.files import said_if_full
from ..core.joined import Joined
from ..core.types import Array, Floats, Indices
from .cell_search import CellIndex
from .cells import Bisection
from .compiled import CompiledKernel, take
from .default import robust_spread
from .neighbours import Metric, distinct, hashes, least_hashes, n_sampled
from .nodes import Features

CELL_ROWS = 256  # rows of a cell: what a query reads at least. 16 KB of eight inputs, a few pages of a file
PER_CELL = 4  # rows of the sample for each cell
MOST_BUCKETS = 256  # files that are open at a time: systems allow a thousand or more
COPIES = 6  # times that the rows of a bucket are in memory while they are sorted
CLOSE = 1e-12  # relative difference of weights that the mathematics of another machine may make
BLOCK = 2**20  # numbers that are read at a time: 8 MB

Observed = tuple[Array, Floats, Floats]
"""Inputs, of shape (rows, d), values, of shape (rows, q), and noise variances, of shape (rows,)."""


class ChangedError(ValueError):
    """The rows were not the same when they were read again."""


@dataclass(frozen=True)
class RowStore:
    """Distinct rows in the order of their cells, in memory or mapped from a file."""

    X: Array
    """Inputs, of shape (n, d); float64 or float32."""
    Z: Floats
    """Positions in `metric`, with the coordinate that decides ties; of shape (n, columns + 1)."""
    values: Floats
    """Means of the values of equal rows, weighted by precision; of shape (n, q)."""
    noises: Floats
    """Noise variances of these means; of shape (n,)."""
    ends: Indices
    """The row after the last of every cell; of shape (cells,)."""
    low: Floats
    """The least value of every input in a cell; of shape (cells, d)."""
    high: Floats
    """The largest value of every input in a cell; of shape (cells, d)."""
    some: Floats = field(repr=False)
    """The rows of the least hashes, `neighbours.n_sampled` or fewer, in the order of these; of shape (rows, d)."""
    metric: Metric = field(repr=False)
    """The metric of the cells."""
    dead: Indices = field(default_factory=lambda: np.empty(0, dtype=np.intp), repr=False)
    """Rows that others have replaced, in increasing order: they are never found."""

    def __len__(self) -> int:
        """The number of distinct rows."""
        return len(self.X)

    def positions(self, rows: Indices, metric: Metric) -> Floats:
        """Positions of some rows in a metric, ties decided; of shape (rows, columns + 1)."""
        Z = self.Z[rows] if metric is self.metric else metric.positions(self.X[rows])
        if len(self.dead):
            Z[np.isin(rows, self.dead)] = np.inf
        return Z

    def index(self, centre: Floats, weights: Floats) -> CellIndex:
        """An index that finds the nearest rows by a weighted distance."""
        own = self.metric
        if np.array_equal(centre, own.centre) and np.allclose(weights, own.weights, rtol=CLOSE, atol=0):
            return self._own_index
        return CellIndex(self, Metric.of(centre, weights, self.low.min(axis=0), self.high.max(axis=0), self.some))

    @cached_property
    def _own_index(self) -> CellIndex:
        return CellIndex(self, self.metric)

    def features(self, kernel: CompiledKernel) -> StoredFeatures:
        """The rows prepared for a kernel, whenever they are taken."""
        return StoredFeatures(self, kernel)

    def sample(self, most: int, metric: Metric) -> Floats:
        """Positions of at most so many rows of the least hashes, in the order of these; of shape (rows, columns)."""
        n, size = len(self) - len(self.dead), BLOCK // self.Z.shape[1] + 1
        rows, level = np.empty(0, dtype=np.intp), self.metric.tie * min(most, n) / n
        while len(rows) < min(most, n):
            level *= 1.5
            parts = [at + np.flatnonzero(self.Z[at : at + size][:, -1] <= level) for at in range(0, len(self), size)]
            rows = np.setdiff1d(np.concatenate(parts), self.dead, assume_unique=True)
        rows = rows[least_hashes(self.Z[rows][:, -1], most)]
        return self.Z[rows][:, :-1] if metric is self.metric else metric.scaled(self.X[rows])

    def find(self, X: Array) -> Indices:
        """The numbers of rows with the same inputs as those of X, -1 where there is none; of shape (rows,)."""
        found, index = np.full(len(X), -1, dtype=np.intp), self._own_index
        for place, position in enumerate(self.metric.scaled(X)):
            rows = np.setdiff1d(index.rows_at(position), self.dead, assume_unique=True)
            same = rows[(self.X[rows] == X[place]).all(axis=1)]
            if len(same):
                found[place] = same[0]
        return found

    @property
    def n_joined(self) -> int:
        """How many rows have joined the store since it was laid out."""
        return len(self) - len(self.X.parts[0]) if isinstance(self.X, Joined) else 0

    def grown(self, X: Floats, values: Floats, noise: Floats) -> RowStore:
        """The store with further rows, in cells of their own; the rows that are there already stay where they are.

        Where a further row has the same inputs as one of these, one further row replaces both.
        """
        known = self.find(X)
        old, new = np.unique(known[known >= 0]), len(X)
        rows = np.concatenate([X, np.asarray(self.X[old], dtype=np.float64)])
        values = np.concatenate([values, self.values[old]])
        noise = np.concatenate([noise, self.noises[old]])
        first, group = distinct(rows)
        assert (group[new:] < new).all()
        values, noise = group_means(values, noise, group, len(first))
        rows, Z = rows[first], self.metric.positions(rows[first])
        order, begins = _by_cells(Z)
        ends = np.append(begins[1:], len(rows)) + len(self)
        joined = rows[order]
        return RowStore(
            cast("Array", Joined([self.X, joined])),
            cast("Array", Joined([self.Z, Z[order]])),
            cast("Array", Joined([self.values, values[order]])),
            cast("Array", Joined([self.noises, noise[order]])),
            np.concatenate([self.ends, ends]),
            np.concatenate([self.low, np.minimum.reduceat(joined, begins)]),
            np.concatenate([self.high, np.maximum.reduceat(joined, begins)]),
            self.some,
            self.metric,
            np.union1d(self.dead, old),
        )


def laid_out(X: Array, values: Floats, noise: Floats, metric: Metric, some: Floats) -> RowStore:
    """A store in memory of rows that are in memory: equal ones become one, and all are put in the order of cells.

    Parameters
    ----------
    X, values, noise : arrays of shape (rows, d), (rows, q) and (rows,)
    metric : Metric
    some : array of shape (some, d)
        `RowStore.some`.
    """
    first, group = distinct(X)
    if len(first) < len(X):
        values, noise = group_means(values, noise, group, len(first))
        X = X[first]
    Z = metric.positions(X)
    order, begins = _by_cells(Z)
    X, ends = X[order], np.append(begins[1:], len(X))
    low, high = np.minimum.reduceat(X, begins), np.maximum.reduceat(X, begins)
    return RowStore(X, Z[order], values[order], noise[order], ends, low, high, some, metric)


def _by_cells(Z: Floats) -> tuple[Indices, Indices]:
    """An order of positions by cells of about `CELL_ROWS`, and the places there at which cells begin."""
    cell = Bisection.of(Z, max(0, round(log2(len(Z) / CELL_ROWS)))).locate(Z)
    order = np.argsort(cell, kind="stable")
    return order, np.flatnonzero(np.diff(cell[order], prepend=-1))


class StoredFeatures:
    """Rows of a store as `CompiledKernel.prepare` returns them, prepared when they are indexed."""

    def __init__(self, store: RowStore, kernel: CompiledKernel) -> None:
        self._store, self._kernel = store, kernel
        self.shape = (len(store), 0)

    def __getitem__(self, which: Any) -> Features:
        if isinstance(which, slice):
            begin, end, _ = which.indices(len(self._store))
            return self._kernel.prepare(np.asarray(self._store.X[begin:end], dtype=np.float64))
        which = np.asarray(which)
        needed, place = np.unique(which, return_inverse=True)
        features = self._kernel.prepare(np.asarray(self._store.X[needed], dtype=np.float64))
        return take(features, place.reshape(which.shape))


class Survey:
    """What a first pass over the rows finds: their number, ranges, and a sample by the least hashes.

    Parameters
    ----------
    blocks : iterable of arrays of shape (rows, d)
    d : int
    most : int
        The most rows of the sample.
    """

    def __init__(self, blocks: Iterable[Array], d: int, most: int) -> None:
        self.n, self.sum, self.most = 0, 0.0, most
        self.low, self.high = np.full(d, np.inf), np.full(d, -np.inf)
        self.rows, hashed = np.empty((0, d)), np.empty(0)
        for X in blocks:
            new = hashes(X)
            self.n, self.sum = self.n + len(X), self.sum + float(new.sum())
            self.low, self.high = np.minimum(self.low, X.min(axis=0)), np.maximum(self.high, X.max(axis=0))
            near = new < hashed[-1] if len(hashed) == most else slice(None)
            rows, hashed = np.concatenate([self.rows, X[near]]), np.concatenate([hashed, new[near]])
            hashed, first = np.unique(hashed, return_index=True)  # in the order of the hashes
            self.rows, hashed = rows[first[:most]], hashed[:most]

    def merged(self, other: Survey) -> Survey:
        """What a pass over the rows of both finds."""
        both = copy(self)
        both.n, both.sum = self.n + other.n, self.sum + other.sum
        both.low, both.high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        rows = np.concatenate([self.rows, other.rows])
        both.rows = rows[np.unique(hashes(rows), return_index=True)[1][: self.most]]
        return both

    def metric(self, centre: Floats, weights: Floats | None) -> Metric:
        """The metric of the rows with some weights; without any, that of every input in standard deviations."""
        some = self.rows[: n_sampled(self.rows.shape[1])]
        return Metric.of(centre, layout_weights(weights, some), self.low, self.high, some)


def layout_weights(weights: Floats | None, some: Floats) -> Floats:
    """The weights of a kernel's metric; if it has none, those of every input in standard deviations of some rows."""
    if weights is not None:
        return weights
    deviation = robust_spread(some)
    return np.asarray(np.where(deviation > 0, deviation, 1.0) ** -2.0)


def build_store(
    inputs: Callable[[], Iterable[Array]],
    observations: Callable[[], Iterable[Observed]],
    n: int,
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    centre: Floats,
    weights: Floats | None,
    memory: int,
) -> RowStore:
    """Lay out rows by cells, in temporary files.

    Parameters
    ----------
    inputs : callable
        Returns blocks of rows of shape (rows, d), none of them empty.
    observations : callable
        Returns the same blocks, with values and noise variances.
    n : int
        The number of rows.
    shape : tuple of int
        d and q.
    dtype : float64 or float32
        The type of the inputs.
    centre, weights : arrays of shape (d,)
        A point amid the rows, and the weights of the metric; None if there is none.
    memory : int
        Bytes that may be used, beside what a block takes.

    Raises
    ------
    ChangedError
        If the rows are not the same at the second pass.
    OSError
        If the disk is full.
    """
    d, q = shape
    seen = Survey(inputs(), d, max(n_sampled(d), n * PER_CELL // CELL_ROWS))
    metric = seen.metric(centre, weights)
    Z = metric.scaled(seen.rows)
    cells = Bisection.of(Z, max(0, round(log2(n / CELL_ROWS))))
    record = np.dtype(
        [
            ("X", dtype, (d,)),
            ("Z", "f8", (len(metric.columns) + 1,)),
            ("values", "f8", (q,)),
            ("noise", "f8"),
            ("cell", "i8"),
        ]
    )
    n_buckets = int(np.clip(-(-COPIES * n * record.itemsize // memory), 1, MOST_BUCKETS))
    counts = np.bincount(cells.locate(Z), minlength=len(cells))
    bucket_of = (np.cumsum(counts) - counts) * n_buckets // len(Z)
    with ExitStack() as files, said_if_full(tempfile.gettempdir()):
        buckets = [files.enter_context(_temporary()) for _ in range(n_buckets)]
        count, total = 0, 0.0
        for X, values, noise in observations():
            part, hashed = np.empty(len(X), dtype=record), hashes(X)
            part["X"], part["Z"], part["values"], part["noise"] = X, metric.positions(X, hashed), values, noise
            part["cell"] = cells.locate(part["Z"])
            count, total = count + len(part), total + float(hashed.sum())
            place = bucket_of[part["cell"]]
            order = np.argsort(place, kind="stable")
            edges = np.searchsorted(place[order], np.arange(n_buckets + 1))
            for bucket, (begin, end) in zip(buckets, pairwise(edges), strict=True):
                bucket.write(_bytes(part[order[begin:end]]))
        if count != seen.n or total != seen.sum:
            raise ChangedError("X changed while it was read. Fit again when nothing else writes to it.")
        return _sorted(buckets, record, len(cells), seen, metric, max(1, memory // (COPIES * record.itemsize)))


def _sorted(
    buckets: list[IO[bytes]], record: np.dtype[Any], n_cells: int, seen: Survey, metric: Metric, most: int
) -> RowStore:
    """The store of the rows in some buckets, of which `most` records are read at a time."""
    names = ("X", "Z", "values", "noise")
    files = {name: _temporary() for name in names}
    counts = np.zeros(n_cells, dtype=np.int64)
    low, high = np.full((n_cells, len(seen.low)), np.inf), np.full((n_cells, len(seen.low)), -np.inf)
    for bucket in buckets:
        bucket.seek(0)
        rows = np.empty(0, dtype=record)
        while len(more := np.frombuffer(bucket.read(most * record.itemsize), dtype=record)):
            rows = _merged(np.concatenate([rows, more]))
        rows = rows[np.argsort(rows["cell"], kind="stable")]
        cells, first = np.unique(rows["cell"], return_index=True)
        if len(rows):
            counts[cells] = np.diff([*first, len(rows)])
            low[cells], high[cells] = np.minimum.reduceat(rows["X"], first), np.maximum.reduceat(rows["X"], first)
        for name in names:
            files[name].write(_bytes(rows[name]))
        bucket.truncate(0)  # its room on the disk is free again
    full, n = counts > 0, int(counts.sum())
    X, Z, values, noises = (_mapped(files[name], record[name], n) for name in names)
    some = np.ascontiguousarray(seen.rows[: n_sampled(len(seen.low))])
    return RowStore(X, Z, values, noises, np.cumsum(counts[full]), low[full], high[full], some, metric)


def _merged(rows: Array) -> Array:
    """Records in which those with the same inputs are one: the mean of their values, and the noise of that mean."""
    if len(np.unique(rows["Z"][:, -1])) == len(rows):  # all hashes differ
        return rows
    first, group = distinct(rows["X"])
    merged = rows[first]
    merged["values"], merged["noise"] = group_means(rows["values"], rows["noise"], group, len(first))
    return merged


def group_means(values: Floats, noise: Floats, group: Indices, count: int) -> tuple[Floats, Floats]:
    """Means of values, weighted by precision, over each of `count` groups, and the noise variances of the means.

    Takes values of shape (rows, q), and noise variances and group numbers of shape (rows,). Returns arrays of shape
    (count, q) and (count,).
    """
    precision = np.bincount(group, 1 / noise, minlength=count)
    sums = np.stack([np.bincount(group, column / noise, minlength=count) for column in values.T], axis=1)
    return sums / precision[:, None], 1 / precision


def _bytes(rows: Array) -> Any:
    return np.ascontiguousarray(rows).view(np.uint8).data


def _temporary() -> IO[bytes]:
    """An open file without a name, of which nothing is left once it is closed."""
    return tempfile.TemporaryFile(prefix="sodalite-")


def _mapped(file: IO[bytes], kind: np.dtype[Any], n: int) -> Array:
    """A file of n entries as an array, which is read when it is used; the file is there as long as the array is."""
    with file:
        file.flush()
        return np.asarray(np.memmap(file, dtype=kind.base, mode="r", shape=(n, *kind.shape)))
