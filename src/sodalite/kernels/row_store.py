"""A store of rows that need not fit into memory: distinct rows with their values, laid out by cells in a metric.

It is made in two passes over the rows, in bounded memory (docs/method.rst, `row-store`):

1. a sample of the rows decides on the metric, and on boxes of space whose rows fit into memory;
2. every row is appended to the file of its box. Then the boxes are read one after the other and laid out: rows with the
   same inputs become one, and rows are put in the order of cells of about `CELL_ROWS` rows (`sodalite.kernels.cells`).

The files are temporary and have no names, so nothing is left behind, whenever and however the process ends.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, reduce
from math import ceil, log2, prod
from typing import IO, Any, TypeVar, cast

import numpy as np

from ..core.files import said_if_full
from ..core.joined import Joined
from ..core.types import Array, Floats, Indices
from ..exceptions import ChangedError
from .cell_search import CellIndex
from .cells import Bisection, members
from .compiled import CompiledKernel, take
from .default import robust_spread
from .neighbours import Index, Metric, distinct, hashes, least_hashes, n_sampled
from .nodes import Features

CELL_ROWS = 256  # rows of a cell: what a query reads at least. 16 KB of eight inputs, a few pages of a file
PER_CELL = 4  # rows that decide on the cuts, for each cell
MOST_BOXES = 256  # files that are open at a time: systems allow a thousand or more
COPIES = 8  # times that the rows of a box are in memory while they are laid out
CLOSE = 1e-12  # relative difference of weights that the mathematics of another machine may make
BLOCK = 2**20  # numbers that are read at a time: 8 MB

T = TypeVar("T")

Observed = tuple[Array, Floats, Floats]
"""Inputs, of shape (rows, d), values, of shape (rows, q), and noise variances, of shape (rows,)."""


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

    @cached_property
    def index_in_memory(self) -> Index:
        """An index that finds the nearest rows of a store in memory; for rows on disk, `index` is quicker."""
        return Index(self.metric, self.Z)

    @property
    def box(self) -> tuple[Floats, Floats]:
        """The least and the largest scaled value of every relevant input."""
        low, high = self.metric.scaled(np.stack([self.low.min(axis=0), self.high.max(axis=0)]))
        return low, high

    def __sizeof__(self) -> int:
        """The bytes of its arrays, by which Dask decides what to spill to disk."""
        return sum(prod(each.shape) * each.dtype.itemsize for each in (self.X, self.Z, self.values, self.noises))

    def features(self, kernel: CompiledKernel) -> StoredFeatures:
        """The rows prepared for a kernel, whenever they are taken."""
        return StoredFeatures(self, kernel)

    def sample(self, most: int, metric: Metric) -> Floats:
        """Positions of at most so many rows of the least hashes, in the order of these; of shape (rows, columns)."""
        rows = self.least(most)
        return self.Z[rows][:, :-1] if metric is self.metric else metric.scaled(self.X[rows])

    def least(self, most: int) -> Indices:
        """At most so many rows, those of the least hashes, in the order of these."""
        n, size = len(self) - len(self.dead), BLOCK // self.Z.shape[1] + 1
        rows, level = np.empty(0, dtype=np.intp), self.metric.tie * min(most, n) / n
        while len(rows) < min(most, n):
            level *= 1.5
            parts = [at + np.flatnonzero(self.Z[at : at + size][:, -1] <= level) for at in range(0, len(self), size)]
            rows = np.setdiff1d(np.concatenate(parts), self.dead, assume_unique=True)
        return np.asarray(rows[least_hashes(self.Z[rows][:, -1], most)])

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


def _by_cells(Z: Floats) -> tuple[Indices, Indices]:
    """An order of positions by cells of about `CELL_ROWS`, and the places there at which cells begin."""
    levels = max(0, round(log2(len(Z) / CELL_ROWS)))
    some = least_hashes(Z[:, -1], PER_CELL * 2**levels)
    cell = Bisection.of(Z[some], levels).locate(Z)
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


@dataclass(frozen=True)
class Survey:
    """What a first pass over the rows finds: their number, ranges, and a sample by the least hashes."""

    n: int
    sum: float
    """The sum of the rows' hashes, by which they are known again."""
    low: Floats
    high: Floats
    rows: Floats
    """The sample, in the order of the hashes; of shape (rows, d)."""
    most: int
    """The most rows of the sample."""

    @classmethod
    def of(cls, X: Floats, most: int) -> Survey:
        """A survey of some rows, of shape (rows, d)."""
        hashed, ends = hashes(X), (X.min(axis=0, initial=np.inf), X.max(axis=0, initial=-np.inf))
        return cls(len(X), float(hashed.sum()), *ends, _of_least(X, hashed, most), most)

    def merged(self, other: Survey) -> Survey:
        """The survey of the rows of both."""
        rows = np.concatenate([self.rows, other.rows])
        ends = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        sample = _of_least(rows, hashes(rows), self.most)
        return Survey(self.n + other.n, self.sum + other.sum, *ends, sample, self.most)


def _of_least(X: Floats, hashed: Floats, most: int) -> Floats:
    """The distinct rows of the least hashes, in the order of these."""
    return np.asarray(X[np.unique(hashed, return_index=True)[1][:most]])


@dataclass(frozen=True)
class Layout:
    """Where rows go that are divided by boxes of space, each of whose rows are a store."""

    metric: Metric
    boxes: Bisection
    """The box of a store, by the number of the store."""
    some: Floats
    """`RowStore.some`."""
    dtype: np.dtype[Any]
    """The type of the inputs."""

    @classmethod
    def of(
        cls, seen: Survey, levels: int, dtype: np.dtype[Any], centre: Floats, weights: Floats | None = None
    ) -> Layout:
        """The layout of rows in 2^levels boxes, by the weights of a kernel's metric.

        A kernel without one has inputs in standard deviations.
        """
        some = np.ascontiguousarray(seen.rows[: n_sampled(seen.rows.shape[1])])
        if weights is None:
            deviation = robust_spread(some)
            weights = np.where(deviation > 0, deviation, 1.0) ** -2.0
        metric = Metric.of(centre, weights, seen.low, seen.high, some)
        return cls(metric, Bisection.of(metric.scaled(seen.rows), levels), some, dtype)

    def split(self, rows: Observed) -> list[Observed]:
        """The rows of every box, some of them empty."""
        X, values, noise = rows
        box = self.boxes.locate(self.metric.scaled(X))
        return [(X[which], values[which], noise[which]) for which in members(box, len(self.boxes))]

    def store(self, *parts: Observed) -> RowStore:
        """A store in memory of the rows of one box: equal ones become one, and all are put in the order of cells."""
        X, values, noise = together(parts)
        if len(np.unique(hashed := hashes(X))) < len(X):
            X, values, noise = _merged(X, values, noise)
            hashed = hashes(X)
        Z = self.metric.positions(X, hashed)
        order, begins = _by_cells(Z)
        X, ends = X[order].astype(self.dtype, copy=False), np.append(begins[1:], len(X))
        low, high = np.minimum.reduceat(X, begins), np.maximum.reduceat(X, begins)
        return RowStore(X, Z[order], values[order], noise[order], ends, low, high, self.some, self.metric)


def together(parts: Iterable[Observed]) -> Observed:
    """Rows of several parts, one after the other."""
    X, values, noise = (np.concatenate(part) for part in zip(*parts, strict=True))
    return X, values, noise


def build_store(
    blocks: Callable[[], Iterable[T]],
    inputs: Callable[[T], Array],
    observe: Callable[[T], Observed],
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
    blocks : callable
        Returns an iterator of blocks of the rows.
    inputs, observe : callable
        The inputs of a block, of shape (rows, d); the same with values and noise variances.
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
    seen = reduce(Survey.merged, (Survey.of(inputs(block), n_sampled(d)) for block in blocks()))
    record = np.dtype([("X", dtype, (d,)), ("values", "f8", (q,)), ("noise", "f8")])
    most = max(1, memory // (COPIES * (record.itemsize + 8 * (d + 1))))
    n_boxes = int(np.clip(2 * n / most, 1, MOST_BOXES))  # boxes of half as many rows, since a sample decides on them
    layout = Layout.of(seen, ceil(log2(n_boxes)), dtype, centre, weights)
    with ExitStack() as open_files, said_if_full(tempfile.gettempdir()):
        files = [open_files.enter_context(_temporary()) for _ in range(len(layout.boxes))]
        count, total = 0, 0.0
        for rows in map(observe, blocks()):
            count, total = count + len(rows[0]), total + float(hashes(rows[0]).sum())
            for file, part in zip(files, layout.split(rows), strict=True):
                records = np.empty(len(part[0]), dtype=record)
                records["X"], records["values"], records["noise"] = part
                file.write(_bytes(records))
        if count != seen.n or total != seen.sum:
            raise ChangedError("X changed while it was read. Fit again when nothing else writes to it.")
        return _joined(layout.store(rows) for rows in _read(files, record, most))


def _read(files: list[IO[bytes]], record: np.dtype[Any], most: int) -> Iterator[Observed]:
    """The rows of every file that has some; `most` are read at a time, and equal ones become one before more are."""
    for file in files:
        file.seek(0)
        rows: Observed | None = None
        while len(more := np.frombuffer(file.read(most * record.itemsize), dtype=record)):
            new = more["X"], more["values"], more["noise"]
            rows = new if rows is None else _merged(*together([rows, new]))
        file.truncate(0)  # its room on the disk is free again
        if rows is not None:
            yield rows


def _joined(stores: Iterable[RowStore]) -> RowStore:
    """One store of the rows of several, which are written to files one after the other."""
    files = {name: _temporary() for name in ("X", "Z", "values", "noises")}
    n, cells = 0, list[tuple[Indices, Floats, Floats]]()
    for store in stores:
        for name, file in files.items():
            file.write(_bytes(getattr(store, name)))
        cells.append((n + store.ends, store.low, store.high))
        n += len(store)
    ends, low, high = (np.concatenate(part) for part in zip(*cells, strict=True))
    X, Z, values, noises = (_mapped(file, n, getattr(store, name)) for name, file in files.items())
    return RowStore(X, Z, values, noises, ends, low, high, store.some, store.metric)


def _merged(X: Array, values: Floats, noise: Floats) -> Observed:
    """Rows of which those with the same inputs are one: the mean of their values, and the noise of that mean."""
    first, group = distinct(X)
    return X[first], *group_means(values, noise, group, len(first))


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


def _mapped(file: IO[bytes], n: int, like: Array) -> Array:
    """A file of n entries as an array, which is read when it is used; the file is there as long as the array is."""
    with file:
        file.flush()
        return np.asarray(np.memmap(file, dtype=like.dtype, mode="r", shape=(n, *like.shape[1:])))
