"""Exact nearest rows among rows that are laid out by cells, of which a query reads only those that are near.

Each cell has a box: the least and the largest value of every input of its rows. The distance from a query to the box is
a lower bound of that to each of the rows. So cells further than the k-th nearest row found so far need not be read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
from scipy.spatial.distance import cdist

from ..core.threads import threaded_map
from ..core.types import Array, Floats, Indices
from .cells import Cells
from .neighbours import Metric

RUN = 64  # consecutive cells, which are near each other, whose common box is looked at first
GROUP = 256  # queries that are answered together at most
MANY = 1024  # queries that are answered together where most cells have to be read: each cell is then read less often
SHARE = 0.125  # share of all rows that a group of queries may read; queries that need more wait for others
DISTANCES = 2**18  # distances that a thread holds at a time: 2 MB
NUMBERS = 2**17  # numbers of rows that a thread reads at a time: 1 MB
SLACK = 1 + 1e-12  # factor on a squared distance, above the rounding of a sum: no near cell is passed over


class CellRows(Protocol):
    """Rows in the order of their cells."""

    @property
    def ends(self) -> Indices:
        """The row after the last of every cell; of shape (cells,)."""
        ...

    @property
    def low(self) -> Floats:
        """The least value of every input in a cell; of shape (cells, d)."""
        ...

    @property
    def high(self) -> Floats:
        """The largest value of every input in a cell; of shape (cells, d)."""
        ...

    def positions(self, begin: int, end: int, metric: Metric) -> Floats:
        """Positions of consecutive rows, ties decided, in a metric; of shape (rows, columns + 1)."""
        ...

    def sample(self, most: int, metric: Metric) -> Floats:
        """Positions of at most so many rows, by `sodalite.kernels.neighbours.least_hashes`; (rows, columns)."""
        ...


class CellIndex:
    """Finds the nearest rows by a weighted Euclidean distance, as `sodalite.kernels.neighbours.Index` does.

    Parameters
    ----------
    rows : CellRows
        Laid out by cells in any metric: the more it resembles this one, the fewer cells are read.
    metric : Metric
    """

    def __init__(self, rows: CellRows, metric: Metric) -> None:
        self._rows, self._metric = rows, metric
        self.columns = metric.columns
        self._low, self._high = self.scaled(rows.low), self.scaled(rows.high)
        self._ends = np.asarray(rows.ends)
        self._begins = np.concatenate([[0], self._ends[:-1]])
        first = np.arange(0, len(self._ends), RUN)
        self._run_low, self._run_high = np.minimum.reduceat(self._low, first), np.maximum.reduceat(self._high, first)
        self._home = Cells(0.5 * (self._low + self._high))

    def scaled(self, X: Array) -> Floats:
        """The relevant inputs of the rows X, scaled such that their distances are Euclidean."""
        return self._metric.scaled(X)

    def query(self, X: Array, k: int) -> Indices:
        """The k nearest rows of every row of X, the nearest first; of shape (queries, k)."""
        return self.nearest(self.scaled(X), k)

    def nearest(self, positions: Floats, k: int) -> Indices:
        """The k rows nearest to every scaled position, the nearest first; of shape (positions, k)."""
        found = np.empty((len(positions), k), dtype=np.intp)
        home = self._home.locate(positions)
        order = np.argsort(home, kind="stable")
        Z = np.column_stack([positions, np.zeros(len(positions))])

        def answer(most: float) -> Callable[[Indices], Indices]:
            def part(which: Indices) -> Indices:
                nearest = self._nearest(Z[which], k, most)
                if nearest is None:
                    return which
                found[which] = nearest
                return which[:0]

            return part

        groups = [group for run in _runs(home[order]) for group in _cut(order[run], GROUP)]
        waiting = threaded_map(answer(max(SHARE * self._ends[-1], NUMBERS)), groups)
        left = np.concatenate([*waiting, order[:0]])
        threaded_map(answer(np.inf), _cut(left, MANY))
        return found

    def sample(self, most: int) -> Floats:
        """Positions of at most so many rows, by `least_hashes`; of shape (rows, columns)."""
        return np.ascontiguousarray(self._rows.sample(most, self._metric))

    def spans_at(self, position: Floats) -> list[tuple[int, int]]:
        """The rows of the cells whose boxes hold a scaled position, as the first and the one after the last."""
        return self._spans(self._within(np.append(position, 0.0)[None], np.zeros(1)))

    def _nearest(self, Z: Floats, k: int, most: float) -> Indices | None:
        """The nearest rows of some positions; None if more than `most` rows would have to be read."""
        best = Best(len(Z), k)
        start = self._nearest_cells(Z, k)
        self._look_at(Z, start, best)
        cells = self._within(Z, best.radius)
        cells = cells[~np.isin(cells, start)]
        if (self._ends[cells] - self._begins[cells]).sum() > most:
            return None
        bound = self._bounds(Z, cells)
        cells, bound = cells[order := np.argsort(bound.min(axis=0), kind="stable")], bound[:, order]
        for part in self._slabs(cells, len(Z)):
            near = (bound[:, part] <= SLACK * best.radius[:, None]).any(axis=0)  # by now the radius may be smaller
            self._look_at(Z, cells[part][near], best)
        return best.rows()

    def _nearest_cells(self, Z: Floats, k: int) -> Indices:
        """A few cells that are near some positions and have at least k rows together."""
        middle = 0.5 * (Z.min(axis=0) + Z.max(axis=0))[None, :-1]
        runs = np.argsort(_gaps(middle, self._run_low, self._run_high)[0], kind="stable")
        for count in (1, 8, len(runs)):
            cells = self._cells_of(runs[:count])
            cells = cells[np.argsort(_gaps(middle, self._low[cells], self._high[cells])[0], kind="stable")]
            total = np.cumsum(self._ends[cells] - self._begins[cells])
            if total[-1] >= k:
                break
        return np.asarray(cells[: int(np.searchsorted(total, k)) + 1])

    def _within(self, Z: Floats, radius: Floats) -> Indices:
        """The cells that may have rows within these squared distances of the positions."""
        low, high, furthest = Z.min(axis=0)[:-1], Z.max(axis=0)[:-1], SLACK * radius.max()
        cells = self._cells_of(np.flatnonzero(_box_gaps(low, high, self._run_low, self._run_high) <= furthest))
        cells = cells[_box_gaps(low, high, self._low[cells], self._high[cells]) <= furthest]
        return np.asarray(cells[(self._bounds(Z, cells) <= SLACK * radius[:, None]).any(axis=0)])

    def _bounds(self, Z: Floats, cells: Indices) -> Floats:
        """Lower bounds of the squared distances from positions to the rows of cells; of shape (positions, cells)."""
        return _gaps(Z, self._low[cells], self._high[cells])

    def _cells_of(self, runs: Indices) -> Indices:
        cells = (RUN * runs[:, None] + np.arange(RUN)).ravel()
        return np.asarray(cells[cells < len(self._ends)])

    def _slabs(self, cells: Indices, n_queries: int) -> list[slice]:
        """Parts of some cells, whose rows and distances from the queries are held at a time."""
        place = np.cumsum(self._ends[cells] - self._begins[cells]) // self._most(n_queries)
        edges = [0, *(np.flatnonzero(np.diff(place)) + 1), len(cells)]
        return [slice(a, b) for a, b in pairwise(edges) if b > a]

    def _most(self, n_queries: int) -> int:
        """The most rows that are compared with some queries at a time."""
        return max(1, min(DISTANCES // n_queries, NUMBERS // (len(self.columns) + 1)))

    def _look_at(self, Z: Floats, cells: Indices, best: Best) -> None:
        """Read the rows of some cells, and keep the nearest to every position."""
        most, held, count = self._most(len(Z)), list[tuple[int, int]](), 0
        for first, last in self._spans(cells):
            for begin in range(first, last, most):
                end = min(begin + most, last)
                if held and count + end - begin > most:
                    self._compare(Z, held, best)
                    held, count = [], 0
                held.append((begin, end))
                count += end - begin
        if held:
            self._compare(Z, held, best)

    def _spans(self, cells: Indices) -> list[tuple[int, int]]:
        """The rows of some cells, as spans in their order; those of consecutive cells are one."""
        cells = np.sort(cells)
        breaks = np.flatnonzero(np.diff(cells) > 1) + 1
        return [(int(self._begins[run[0]]), int(self._ends[run[-1]])) for run in np.split(cells, breaks) if len(run)]

    def _compare(self, Z: Floats, spans: Sequence[tuple[int, int]], best: Best) -> None:
        """Keep the rows of some spans that are among the nearest to a position."""
        rows = np.concatenate([self._rows.positions(*span, self._metric) for span in spans])
        best.add(cdist(Z, rows, "sqeuclidean"), np.concatenate([np.arange(*span) for span in spans]))


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
        """Look at rows of shape (rows,) at squared distances of shape (queries, rows)."""
        if self.row.shape[1] == self.k:  # few of the rows are nearer than those found before
            near = (distance < self.radius[:, None]).any(axis=0)
            distance, row = distance[:, near], row[near]
        distance = np.concatenate([self.distance, distance], axis=1)
        row = np.concatenate([self.row, np.broadcast_to(row, (len(distance), len(row)))], axis=1)
        if distance.shape[1] > self.k:
            some = np.argpartition(distance, self.k - 1, axis=1)[:, : self.k]
            distance, row = np.take_along_axis(distance, some, axis=1), np.take_along_axis(row, some, axis=1)
        self.distance, self.row = distance, row

    def rows(self) -> Indices:
        """The rows, the nearest first; of shape (queries, k)."""
        order = np.argsort(self.distance, axis=1, kind="stable")
        return np.asarray(np.take_along_axis(self.row, order, axis=1))


def _gaps(Z: Floats, low: Floats, high: Floats) -> Floats:
    """Squared distances from positions to boxes; of shape (positions, boxes)."""
    total = np.zeros((len(Z), len(low)))
    for column in range(low.shape[1]):
        at = Z[:, column, None]
        total += np.square(np.maximum(np.maximum(low[:, column] - at, at - high[:, column]), 0))
    return total


def _box_gaps(below: Floats, above: Floats, low: Floats, high: Floats) -> Floats:
    """Squared distances from one box, between `below` and `above`, to others; of shape (boxes,)."""
    return np.asarray(np.square(np.maximum(np.maximum(low - above, below - high), 0)).sum(axis=1))


def _runs(values: Indices) -> list[slice]:
    """The runs of equal values."""
    edges = [0, *(np.flatnonzero(np.diff(values)) + 1), len(values)]
    return [slice(a, b) for a, b in pairwise(edges) if b > a]


def _cut(which: Indices, most: int) -> list[Indices]:
    """Parts of at most so many."""
    return [which[begin : begin + most] for begin in range(0, len(which), most)]
