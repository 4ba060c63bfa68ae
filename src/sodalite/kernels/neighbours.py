"""The rows nearest to a query, in the kernel's own metric, and rows that are one and the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors

from ..core.threads import n_threads, one_openmp_thread, threaded_map
from ..core.types import Array
from . import REACH, CompiledKernel, robust_spread, take

TREE = 6  # inputs that matter, up to which a tree looks at few rows; beyond, all distances are quicker
ALL = 2000  # rows up to which a periodic kernel is asked for the covariance with all of them
CYCLES = 4  # periods before and after a query in which it has neighbours, where not all rows are asked
FURTHEST = 100  # standard deviations of most rows, beyond which a row does not count for the width of an input
MATTERS = 1e-3  # of the largest spread, in the kernel's metric, below which an input decides nothing
CHUNK = 8192  # queries that a thread answers at a time: at most some tenths of a second, which an interrupt waits for


class Index:
    """The rows nearest to a query by a weighted distance: a tree in few dimensions, all distances at once in many."""

    def __init__(self, X: Array, centre: Array, weights: Array) -> None:
        self.centre, self.weights = centre, weights
        width = X.max(axis=0) - X.min(axis=0)
        most = FURTHEST * robust_spread(X)  # an outlying row decides nothing about the inputs of the others
        spread = np.sqrt(weights) * np.where(width > most, most, width)
        self.columns = np.flatnonzero(spread > MATTERS * spread.max(initial=0.0))
        if not len(self.columns):
            self.columns = np.arange(1)
        Z = self.scaled(X)
        self._tree = cKDTree(Z, balanced_tree=False) if len(self.columns) <= TREE else None
        self._all = None if self._tree is not None else NearestNeighbors(algorithm="brute").fit(Z)

    def __getstate__(self) -> dict[str, Any]:
        """A tree is kept as its rows: what loads it need not know how a tree is stored."""
        state = self.__dict__.copy()
        if state["_tree"] is not None:
            state["_tree"] = np.asarray(state["_tree"].data)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if state["_tree"] is not None:
            self._tree = cKDTree(state["_tree"], balanced_tree=False)

    def scaled(self, X: Array) -> Array:
        """The inputs that matter, so that distances are Euclidean."""
        columns = self.columns
        with np.errstate(over="ignore"):
            part = (X[:, columns] - self.centre[columns]) * np.sqrt(self.weights[columns])
        reach = REACH[np.dtype(np.float64)]  # beyond, squared distances would not be numbers, and no row would be near
        return np.ascontiguousarray(np.clip(part, -reach, reach), dtype=np.float64)

    def query(self, X: Array, k: int) -> Array:
        """The k nearest rows of every row of X, the nearest first."""
        Z = self.scaled(X)
        count = max(n_threads(None), -(-len(Z) // CHUNK))
        parts = threaded_map(lambda part: self._nearest(part, k), np.array_split(Z, max(1, min(count, len(Z)))))
        return np.concatenate(parts)

    def _nearest(self, Z: Array, k: int) -> Array:
        if self._tree is not None:
            # On this thread alone: threads that SciPy starts go on writing into arrays that are freed on an interrupt.
            return np.asarray(self._tree.query(Z, k=[*range(1, k + 1)], workers=1)[1])
        assert self._all is not None
        with one_openmp_thread():
            return np.asarray(self._all.kneighbors(Z, n_neighbors=k, return_distance=False))


class Neighbours:
    """The rows that tell most about a query, by the kernel.

    Where the kernel is a function of a weighted distance, that distance says what is near. Other kernels (periodic,
    linear, unknown ones) are asked for the covariance itself: near is what k(a, a) - 2 k(a, b) + k(b, b) says, at O(n)
    a query. Where a kernel is periodic in part, every other neighbour is found by the one way and by the other: the
    nearest rows say what happens now, those a whole period away what happens at this time of it. Without `by_period`,
    all are the nearest.
    """

    def __init__(self, kernel: CompiledKernel, X: Array, by_period: bool = True) -> None:
        self.n = len(X)
        self._kernel, weights = kernel, kernel.metric()
        self.cycles = kernel.cycles() if by_period and weights is not None else []
        if not self.n:
            return
        self.index = None if weights is None else Index(X, kernel.centre, weights)
        if weights is None or self.cycles:
            self._rows = kernel.prepare(X)
        if self.n > ALL:
            self._in_phase = [Index(X, kernel.centre, weights + cycle.weights) for cycle in self.cycles]

    def query(self, X: Array, k: int) -> Array:
        """The k nearest rows of every row of X, the nearest first; of shape (queries, min(k, n))."""
        k = min(k, self.n)
        if k == 0:
            return np.empty((len(X), 0), dtype=np.intp)
        if self.index is None:
            return self._by_covariance(X, k)
        nearest = self.index.query(X, k)
        return interleaved(nearest, self._by_covariance(X, k)) if self.cycles else nearest

    def _by_covariance(self, X: Array, k: int) -> Array:
        """The k rows with the largest covariance, less half their own variance. O(n) a query.

        With many rows and a periodic kernel, only those are asked that are near the query, or near it once it is moved
        by whole periods: O(k) a query.
        """
        everything = np.arange(self.n)
        few = not self.cycles or self.n <= ALL
        size = self.n if few else 2 * k + 2 * CYCLES * len(self.cycles) * max(k // 2, 8)

        def best(part: Array) -> Array:
            return self._best(part, everything if few else self._near_by_periods(part, k), k)

        rows = max(1, 2**20 // max(size, 1))
        return np.concatenate(threaded_map(best, [X[at : at + rows] for at in range(0, max(len(X), 1), rows)]))

    def _best(self, X: Array, candidates: Array, k: int) -> Array:
        """The k best of some candidates, of shape (candidates,) or (queries, candidates), for every row of X."""
        kernel, rows = self._kernel, take(self._rows, candidates)
        queries, own = kernel.prepare(X), kernel.diag(rows)
        if candidates.ndim == 1:
            distance = own - 2 * kernel.block(queries, rows)
            candidates = np.broadcast_to(candidates, distance.shape)
        else:
            distance = own - 2 * kernel.block(take(queries, np.arange(len(X))[:, None]), rows)[:, 0]
            distance[:, 1:][candidates[:, 1:] == candidates[:, :-1]] = np.inf  # named twice
        some = np.argpartition(distance, min(k, distance.shape[1] - 1), axis=1)[:, :k]
        order = np.argsort(np.take_along_axis(distance, some, axis=1), axis=1, kind="stable")
        return np.asarray(np.take_along_axis(candidates, np.take_along_axis(some, order, axis=1), axis=1))

    def _near_by_periods(self, X: Array, k: int) -> Array:
        """Rows around every query, and around it moved by whole periods; one named twice stands side by side."""
        assert self.index is not None
        found = [self.index.query(X, min(self.n, 2 * k))]
        for cycle, index in zip(self.cycles, self._in_phase, strict=True):
            moved = (X + count * cycle.period for count in range(-CYCLES, CYCLES + 1))
            found += [index.query(there, min(self.n, max(k // 2, 8))) for there in moved]
        return np.sort(np.concatenate(found, axis=1), axis=1)


def interleaved(first: Array, second: Array) -> Array:
    """Two rankings of shape (queries, k) as one: the best of each in turn, each row named once; of the same shape."""
    both = np.stack([first, second], axis=2).reshape(len(first), -1)
    order = np.argsort(both, axis=1, kind="stable")
    ranked = np.take_along_axis(both, order, axis=1)
    again = np.zeros(both.shape, dtype=bool)
    np.put_along_axis(again, order[:, 1:], ranked[:, 1:] == ranked[:, :-1], axis=1)
    kept = np.argsort(again, axis=1, kind="stable")[:, : first.shape[1]]
    return np.asarray(np.take_along_axis(both, kept, axis=1))


def distinct(X: Array) -> tuple[Array, Array]:
    """The first of every set of equal rows, in order, and for every row the place of its set. O(n d), n log n."""
    n, d = X.shape
    key = np.zeros(n, dtype=np.uint64)
    for column in range(d):
        bits = np.ascontiguousarray(X[:, column] + 0.0, dtype=np.float64).view(np.uint64)  # -0.0 is 0.0
        with np.errstate(over="ignore"):
            key ^= bits
            key *= np.uint64(0x9E3779B97F4A7C15)
            key ^= key >> np.uint64(29)
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    if not np.array_equal(X[first[group]], X):  # two rows with one key
        _, first, group = np.unique(X, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    return first[order], place[group.ravel()]
