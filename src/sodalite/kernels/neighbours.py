"""Nearest neighbours of queries, by the metric of a kernel; and duplicate rows.

A `Metric` places rows such that their distances are Euclidean, with one more coordinate that decides ties. Every
`Finder` finds exactly the nearest of some placed rows, so that its answers depend neither on the order of the rows nor
on the search: by a tree or by products in memory (`Index`), by cells on disk (`sodalite.kernels.cell_search`).
`Neighbours` adds what kernels need that are not functions of a distance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import thread_time
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors

from ..core.fingerprint import GOLDEN
from ..core.threads import n_threads, one_openmp_thread, threaded_map
from ..core.types import Array, Floats, Indices
from . import REACH, CompiledKernel, robust_spread, spacing, take

TRIED = 32  # queries that decide between the ways to search: some milliseconds, in which a factor of two shows
BATCH, RUNS = 4096, 4  # rows that stand for a batch of queries, and runs of them that are tried
SAMPLED = 2**18  # numbers of the rows that tell which inputs matter and how far rows are apart: 2 MB
FEWEST_SAMPLED, MOST_SAMPLED = 1000, 2**14  # bounds of the number of sampled rows, however many inputs they have
TIE = 1e-4  # coordinate that decides ties, in units of the rows' spacing: its square is far above rounding, and no more
LEAF = 32  # rows of a leaf of a tree: with the 8 to 64 neighbours that are asked for, quicker than SciPy's 16
FEW = 256  # queries below which their order is not worth sorting
EACH = 128  # queries by a tree that each thread has at least: fewer take less time than to start it
WIDEST, BITS = 6, 4  # widest inputs, and bits of each, that make the key queries are sorted by: 24 of its 32 bits
ALL = 2000  # largest number of rows among all of which a periodic kernel's neighbours are sought
CYCLES = 4  # of more than `ALL` rows, neighbours are sought within so many periods before and after a query
FURTHEST = 100  # the largest width of an input, in robust standard deviations: an outlier must not widen it
MATTERS = 1e-3  # least width of a relevant input, in the kernel's metric, relative to the widest input
CHUNK = 8192  # queries that a thread answers at a time: some tenths of a second, which an interrupt has to wait for
IN_PHASE = 8  # the fewest rows that are looked at around a query moved by whole periods
COVARIANCES = 2**20  # covariances with candidates that are held at a time: 8 MB
STORED = 2**17  # numbers of the rows that a thread reads from a store at a time: 1 MB


@dataclass(frozen=True)
class Metric:
    """A weighted Euclidean distance in the inputs that matter, with ties decided by hashes of the rows.

    Rows at equal distances are common where inputs are whole numbers. Which of them come first must not depend on how
    they are found, so every row has a further coordinate: a hash of its inputs, times `TIE` of the rows' spacing. The
    coordinate of queries is 0.
    """

    centre: Floats
    """A point amid the rows; of shape (d,)."""
    weights: Floats
    """Weights of the squared differences; of shape (d,)."""
    columns: Indices
    """The inputs that distances depend on noticeably; of shape (columns,)."""
    tie: float
    """The coordinate that decides ties of a row whose hash is 1."""

    @classmethod
    def of(cls, centre: Floats, weights: Floats, low: Floats, high: Floats, some: Floats) -> Metric:
        """The metric of rows whose inputs are between `low` and `high`; of `some` of them, of shape (rows, d)."""
        width, most = high - low, FURTHEST * robust_spread(some)
        spread = np.sqrt(weights) * np.where(width > most, most, width)
        columns = np.flatnonzero(spread > MATTERS * spread.max(initial=0.0))
        made = cls(centre, weights, columns if len(columns) else np.arange(1), 0.0)
        return replace(made, tie=TIE * spacing(made.scaled(some)))

    def scaled(self, X: Array) -> Floats:
        """The relevant inputs of the rows X, scaled such that their distances are Euclidean."""
        columns = self.columns
        with np.errstate(over="ignore"):
            part = (np.asarray(X[:, columns], dtype=np.float64) - self.centre[columns]) * np.sqrt(self.weights[columns])
        reach = REACH[np.dtype(np.float64)]  # beyond, squared distances would overflow, and no row would be found
        return np.ascontiguousarray(np.clip(part, -reach, reach))

    def positions(self, X: Array, hashed: Floats | None = None) -> Floats:
        """The rows X, scaled, and the coordinate that decides ties, by their hashes; of shape (rows, columns + 1)."""
        return np.column_stack([self.scaled(X), self.tie * (hashes(X) if hashed is None else hashed)])


def along_a_curve(Z: Floats) -> Indices:
    """An order of positions, of shape (n, d), in which those that follow each other are near: along a Z-order curve.

    A tree then visits the same rows for them, which are in the processor's cache.
    """
    low, high = np.quantile(Z[:: -(-len(Z) // 1000)], [0.02, 0.98], axis=0)
    widest = np.argsort(high - low)[::-1][:WIDEST]
    width = np.where(high > low, high - low, 1.0)
    level = np.clip((Z[:, widest] - low[widest]) / width[widest], 0, 0.999)
    level = (level * 2**BITS).astype(np.uint32)
    key = np.zeros(len(Z), dtype=np.uint32)
    for bit in reversed(range(BITS)):
        for column in range(len(widest)):
            key = (key << np.uint32(1)) | ((level[:, column] >> np.uint32(bit)) & np.uint32(1))
    return np.argsort(key, kind="stable")


class Finder(Protocol):
    """Finds the nearest rows by a weighted Euclidean distance. A subclass defines `nearest` and `sample`."""

    metric: Metric

    @property
    def columns(self) -> Indices:
        """The inputs that distances depend on."""
        return self.metric.columns

    def scaled(self, X: Array) -> Floats:
        """The relevant inputs of the rows X, scaled such that their distances are Euclidean."""
        return self.metric.scaled(X)

    def query(self, X: Array, k: int) -> Indices:
        """The k nearest rows of every row of X, the nearest first; of shape (queries, k)."""
        return self.nearest(self.scaled(X), k)

    def nearest(self, positions: Floats, k: int) -> Indices:
        """The k rows nearest to every scaled position, the nearest first; of shape (positions, k)."""
        ...

    def sample(self, most: int) -> Floats:
        """Positions of at most so many rows, by `least_hashes`; of shape (rows, columns)."""
        ...


class Index(Finder):
    """Exact nearest rows in memory: by a k-d tree or by products, whichever is quicker here.

    A tree visits few rows where the data lie near a surface of few dimensions, whatever the number of columns; else it
    visits most of them, and products of blocks are quicker. Which holds is measured on the first query.

    Parameters
    ----------
    metric : Metric
    rows : array of shape (n, columns + 1)
        The rows to find, as `Metric.positions` places them; they are not copied.
    search : {"tree", "products"}, optional
        How rows are found. By default, the quicker way by a measurement at the first query. It can be set at any time.

    Examples
    --------
    >>> X = np.array([[0.0, 5.0], [1.0, 5.0], [4.0, 5.0]])
    >>> index = Index.of(X, centre=X.mean(axis=0), weights=np.ones(2))
    >>> index.query(np.array([[0.9, 5.0]]), 2)
    array([[1, 0]])
    """

    def __init__(self, metric: Metric, rows: Floats, search: str | None = None) -> None:
        self.metric, self.rows, self.search = metric, rows, search
        self._found_by: dict[str, Callable[[Floats, int], Indices]] = {}

    @classmethod
    def of(cls, X: Array, centre: Floats, weights: Floats) -> Index:
        """An index of the rows X, of shape (n, d), by the squared differences from a centre with some weights."""
        hashed = hashes(X)
        some = X[least_hashes(hashed, n_sampled(X.shape[1]))]
        metric = Metric.of(centre, weights, X.min(axis=0), X.max(axis=0), some)
        return cls(metric, metric.positions(X, hashed))

    def __getstate__(self) -> dict[str, Any]:
        """The state without trees, which follow from the rows: a file does not depend on how SciPy stores them."""
        return self.__dict__ | {"_found_by": {}}

    def sample(self, most: int) -> Floats:
        return np.ascontiguousarray(self.positions[least_hashes(self.rows[:, -1], most)])

    @property
    def positions(self) -> Floats:
        """The relevant inputs of the rows, scaled, as a view; of shape (n, columns)."""
        return self.rows[:, : len(self.columns)]

    def nearest(self, positions: Floats, k: int) -> Indices:
        Z = np.zeros((len(positions), self.rows.shape[1]))
        Z[:, : len(self.columns)] = positions
        if self.search is None:
            self.search = self._quickest(k)
        nearest = self._finder(self.search)
        order = along_a_curve(Z) if self.search == "tree" and len(Z) >= FEW else np.arange(len(Z))
        threads = n_threads()
        if self.search == "tree":
            threads = min(threads, len(Z) // EACH)
        count = max(1, threads, -(-len(Z) // CHUNK))
        parts = threaded_map(lambda part: nearest(part, k), np.array_split(Z[order], max(1, min(count, len(Z)))))
        found = np.empty((len(Z), k), dtype=np.intp)
        found[order] = np.concatenate(parts)
        return found

    def distances(self, positions: Floats, rows: Indices) -> Floats:
        """Squared distances from scaled positions to some rows each, ties decided; both of shape (positions, rows)."""
        Z = self.rows[rows]
        return np.asarray(np.square(Z[..., :-1] - positions[:, None]).sum(axis=2) + np.square(Z[..., -1]))

    def _quickest(self, k: int) -> str:
        """The way that answers a few queries in the least processor time: rows in runs along a curve, as in a batch."""
        some = self.rows[:: -(-len(self.rows) // BATCH)]
        runs = np.array_split(some[along_a_curve(some)], RUNS)
        some = np.concatenate([run[: TRIED // RUNS] for run in runs])
        taken, finders = {}, {search: self._finder(search) for search in FINDERS}
        for search, nearest in finders.items():
            nearest(some[:1], k)  # what only the first call does is not counted
            begin = thread_time()
            nearest(some, k)
            taken[search] = thread_time() - begin
        chosen = min(taken, key=lambda search: taken[search])
        self._found_by = {chosen: finders[chosen]}  # other threads may be measuring too
        return chosen

    def _finder(self, search: str) -> Callable[[Floats, int], Indices]:
        """A function of scaled queries and k that finds the nearest rows, on the calling thread."""
        if search not in FINDERS:
            raise ValueError(f"search must be one of {', '.join(map(repr, FINDERS))}; got {search!r}.")
        found = self._found_by.get(search)  # which another thread may replace at any moment
        if found is None:
            found = self._found_by[search] = FINDERS[search](self.rows)
        return found


def _by_tree(rows: Floats) -> Callable[[Floats, int], Indices]:
    tree = cKDTree(rows, leafsize=LEAF, balanced_tree=False)
    # One worker: after an interrupt, threads that SciPy starts would write into arrays that are freed already.
    return lambda Z, k: np.asarray(tree.query(Z, k=[*range(1, k + 1)], workers=1)[1])


def _by_products(rows: Floats) -> Callable[[Floats, int], Indices]:
    index = NearestNeighbors(algorithm="brute").fit(rows)

    def nearest(Z: Floats, k: int) -> Indices:
        with one_openmp_thread():
            return np.asarray(index.kneighbors(Z, n_neighbors=k, return_distance=False))

    return nearest


FINDERS: dict[str, Callable[[Floats], Callable[[Floats, int], Indices]]] = {"tree": _by_tree, "products": _by_products}
"""The ways to find the nearest of some rows exactly, by their names."""


@runtime_checkable
class StoredRows(Protocol):
    """Rows that need not be in memory, and that are searched where they are (`sodalite.kernels.row_store`)."""

    def __len__(self) -> int: ...

    def index(self, centre: Floats, weights: Floats) -> Finder:
        """An index that finds the nearest rows by a weighted distance."""
        ...

    def features(self, kernel: CompiledKernel) -> Any:
        """The rows prepared for a kernel, whenever they are taken."""
        ...


class Best:
    """The k nearest rows found so far of some queries."""

    def __init__(self, n_queries: int, k: int) -> None:
        self.k = k
        self.distance: Floats = np.empty((n_queries, 0))
        self.row: Indices = np.empty((n_queries, 0), dtype=np.intp)

    @property
    def radius(self) -> Floats:
        """The squared distance of the k-th nearest row; of shape (queries,)."""
        return np.asarray(self.distance.max(axis=1))

    def add(self, distance: Floats, row: Indices) -> None:
        """Look at rows of shape (rows,) or (queries, rows), at squared distances of shape (queries, rows)."""
        if self.row.shape[1] == self.k:  # few of the rows are nearer than those found before
            near = (distance < self.radius[:, None]).any(axis=0)
            distance, row = distance[:, near], row[..., near]
        distance = np.concatenate([self.distance, distance], axis=1)
        row = np.concatenate([self.row, np.broadcast_to(row, (len(distance), row.shape[-1]))], axis=1)
        if distance.shape[1] > self.k:
            some = np.argpartition(distance, self.k - 1, axis=1)[:, : self.k]
            distance, row = np.take_along_axis(distance, some, axis=1), np.take_along_axis(row, some, axis=1)
        self.distance, self.row = distance, row

    def rows(self) -> Indices:
        """The rows, the nearest first; of shape (queries, k)."""
        order = np.argsort(self.distance, axis=1, kind="stable")
        return np.asarray(np.take_along_axis(self.row, order, axis=1))


class Neighbours:
    """The rows nearest to a query by the kernel, which say most about the function there.

    If the kernel is a function of a weighted distance, neighbours are found by that distance. For other kernels
    (periodic, linear, unknown) they are found by k(a, a) - 2 k(a, b) + k(b, b), at O(n) per query. If a kernel has
    periodic components besides others, half of the neighbours are found in each way: the nearest rows, and rows whole
    periods away, at the same phase.

    Parameters
    ----------
    kernel : CompiledKernel
    X : array of shape (n, d), or StoredRows
        The rows to find.
    by_period : bool, default=True
        Whether periodic components count; without, all neighbours are the nearest rows.
    metric : Metric, optional
        That of more rows, of which the rows X are some.
    """

    def __init__(
        self,
        kernel: CompiledKernel,
        X: Array | StoredRows,
        by_period: bool = True,
        metric: Metric | None = None,
    ) -> None:
        self.n = len(X)
        self._X, self._by_period, self._metric = X, by_period, metric
        self._is_stored = isinstance(X, StoredRows)
        self._kernel, weights = kernel, kernel.metric()
        self.cycles = kernel.cycles() if by_period and weights is not None else []
        if not self.n:
            return

        def index(weights: Floats) -> Finder:
            if isinstance(X, StoredRows):
                return X.index(kernel.centre, weights)
            return Index.of(X, kernel.centre, weights) if metric is None else Index(metric, metric.positions(X))

        self.index = None if weights is None else index(weights)
        self._dead = getattr(X, "dead", np.empty(0, dtype=np.intp))  # of a store: rows that others have replaced
        if weights is None or self.cycles:
            self._rows = X.features(kernel) if isinstance(X, StoredRows) else kernel.prepare(X)
        if self.n > ALL and weights is not None:
            self._in_phase = [index(weights + cycle.weights) for cycle in self.cycles]

    def saved(self) -> dict[str, Any]:
        """The arguments of `restore`."""
        return {"kernel": self._kernel, "X": self._X, "by_period": self._by_period, "metric": self._metric}

    @classmethod
    def restore(cls, kernel: CompiledKernel, X: Array, by_period: bool, metric: Metric | None) -> Neighbours:
        """The index that `saved` describes."""
        return cls(kernel, X, by_period, metric)

    def query(self, X: Array, k: int) -> Indices:
        """The k nearest rows of every row of X, the nearest first; of shape (queries, min(k, n))."""
        k = min(k, self.n)
        if k == 0:
            return np.empty((len(X), 0), dtype=np.intp)
        if self.index is None:
            return self._by_covariance(X, k)
        nearest = self.index.query(X, k)
        return interleaved(nearest, self._by_covariance(X, k)) if self.cycles else nearest

    def _by_covariance(self, X: Array, k: int) -> Indices:
        """The k nearest rows by the covariance itself, the nearest first. O(n) per query.

        With many rows and a periodic kernel, only those rows are candidates that are near the query, or near the query
        moved by whole periods: O(k) per query.
        """
        few = not self.cycles or self.n <= ALL
        n_candidates = self.n if few else 2 * k + 2 * CYCLES * len(self.cycles) * max(k // 2, IN_PHASE)
        if few and self._is_stored:
            n_candidates = min(n_candidates, STORED // X.shape[1] + 1)

        def best(part: Array) -> Indices:
            return self._best_of_all(part, k, n_candidates) if few else self._best_in_phase(part, k)

        size = max(1, COVARIANCES // max(n_candidates, 1))
        return np.concatenate(threaded_map(best, [X[at : at + size] for at in range(0, max(len(X), 1), size)]))

    def _best_of_all(self, X: Array, k: int, size: int) -> Indices:
        """The k nearest of all rows for every row of X, by the covariance; so many of the rows are taken at a time."""
        kernel, queries, best = self._kernel, self._kernel.prepare(X), Best(len(X), k)
        for begin in range(0, self.n, size):
            rows = take(self._rows, slice(begin, begin + size))
            distance = kernel.diag(rows) - 2 * kernel.block(queries, rows)
            distance[:, self._dead[(begin <= self._dead) & (self._dead < begin + size)] - begin] = np.inf
            best.add(distance, np.arange(begin, begin + distance.shape[1]))
        return best.rows()

    def _best_in_phase(self, X: Array, k: int) -> Indices:
        """The k nearest rows by the covariance, among those near every row of X and near it moved by whole periods."""
        kernel, candidates, best = self._kernel, self._near_by_periods(X, k), Best(len(X), k)
        rows = take(self._rows, candidates)
        distance = kernel.diag(rows) - 2 * kernel.block(take(kernel.prepare(X), np.arange(len(X))[:, None]), rows)[:, 0]
        distance[:, 1:][candidates[:, 1:] == candidates[:, :-1]] = np.inf  # duplicates
        best.add(distance, candidates)
        return best.rows()

    def _near_by_periods(self, X: Array, k: int) -> Indices:
        """Rows around every query and around the query moved by whole periods, sorted; of shape (queries, rows)."""
        assert self.index is not None
        found = [self.index.query(X, min(self.n, 2 * k))]
        for cycle, index in zip(self.cycles, self._in_phase, strict=True):
            moved = (X + count * cycle.period for count in range(-CYCLES, CYCLES + 1))
            found += [index.query(there, min(self.n, max(k // 2, IN_PHASE))) for there in moved]
        return np.sort(np.concatenate(found, axis=1), axis=1)


def interleaved(first: Indices, second: Indices) -> Indices:
    """The k best of two rankings of shape (queries, k): the best of each in turn, without duplicates."""
    both = np.stack([first, second], axis=2).reshape(len(first), -1)
    order = np.argsort(both, axis=1, kind="stable")
    ranked = np.take_along_axis(both, order, axis=1)
    again = np.zeros(both.shape, dtype=bool)
    np.put_along_axis(again, order[:, 1:], ranked[:, 1:] == ranked[:, :-1], axis=1)
    kept = np.argsort(again, axis=1, kind="stable")[:, : first.shape[1]]
    return np.asarray(np.take_along_axis(both, kept, axis=1))


def distinct(X: Array) -> tuple[Indices, Indices]:
    """The first row of every set of equal rows, in order, and the number of the set of every row.

    Rows are compared by a 64-bit hash, and exactly if two different rows have one hash. O(n d + n log n).
    """
    _, first, group = np.unique(_keys(X), return_index=True, return_inverse=True)
    if not np.array_equal(X[first[group]], X):  # two different rows have one hash
        _, first, group = np.unique(X, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[group.ravel()]


def hashes(X: Array) -> Floats:
    """A number between 0 and 1 of every row of X, which depends on its inputs alone; of shape (n,)."""
    return np.asarray((_keys(X) >> np.uint64(11)).astype(np.float64) / 2.0**53)


def n_sampled(d: int) -> int:
    """How many rows of d inputs tell what a metric needs to know of them."""
    return int(np.clip(SAMPLED // d, FEWEST_SAMPLED, MOST_SAMPLED))


def least_hashes(hashed: Floats, most: int) -> Indices:
    """At most so many rows, those of the least hashes, in the order of these.

    They are a random sample of distinct rows that depends neither on the order of the rows nor on where they are.
    """
    if len(hashed) <= most:
        return np.argsort(hashed, kind="stable")
    some = np.argpartition(hashed, most - 1)[:most]
    return np.asarray(some[np.argsort(hashed[some], kind="stable")])


def places_among(known: Floats, rows: Floats) -> Indices:
    """For each of the rows, the place of an equal one among those known, -1 if there is none. O(n log n).

    Examples
    --------
    >>> places_among(np.array([[0.0], [1.0]]), np.array([[1.0], [2.0], [0.0]])).tolist()
    [1, -1, 0]
    """
    group = distinct(np.concatenate([known, rows]))[1]
    where = np.full(len(group), -1)
    where[group[: len(known)]] = np.arange(len(known))
    return np.asarray(where[group[len(known) :]])


def _keys(X: Array) -> NDArray[np.uint64]:
    """A 64-bit hash of every row of X; of shape (n,)."""
    key = np.zeros(len(X), dtype=np.uint64)
    for column in range(X.shape[1]):
        bits = np.ascontiguousarray(X[:, column] + 0.0, dtype=np.float64).view(np.uint64)  # -0.0 is 0.0
        with np.errstate(over="ignore"):
            key ^= bits
            key *= GOLDEN
            key ^= key >> np.uint64(29)
    return key
