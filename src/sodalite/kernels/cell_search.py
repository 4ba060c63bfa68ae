"""Exact nearest rows among rows that are laid out by cells, of which a query reads only those that are near.

Each cell has a box: the least and the largest value of every input of its rows. The distance from a query to the box is
a lower bound of that to each of the rows. So cells further than the k-th nearest row found so far need not be read.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.distance import cdist

from ..core.threads import threaded_map
from ..core.types import Floats, Indices
from .cells import Cells
from .neighbours import STORED, Best, Finder, Metric

if TYPE_CHECKING:
    from .row_store import RowStore

RUN = 64  # consecutive cells, which are near each other, whose common box is looked at first
GROUP = 256  # queries that are answered together at most
MANY = 1024  # queries that are answered together where most cells have to be read: each cell is then read less often
SHARE = 0.125  # share of all rows that a group of queries may read; queries that need more wait for others
DISTANCES = 2**18  # distances that a thread holds at a time: 2 MB
SLACK = 1 + 1e-12  # factor on a squared distance, above the rounding of a sum: no near cell is passed over


class CellIndex(Finder):
    """Exact nearest rows of a store.

    Parameters
    ----------
    rows : RowStore
        Laid out by cells in any metric: the more it resembles this one, the fewer cells are read.
    metric : Metric
    """

    def __init__(self, rows: RowStore, metric: Metric) -> None:
        self._rows, self.metric = rows, metric
        self._low, self._high = self.scaled(rows.low), self.scaled(rows.high)
        self._ends = np.asarray(rows.ends)
        self._begins = np.concatenate([[0], self._ends[:-1]])
        first = np.arange(0, len(self._ends), RUN)
        self._run_low, self._run_high = np.minimum.reduceat(self._low, first), np.maximum.reduceat(self._high, first)
        self._home = Cells(0.5 * (self._low + self._high))

    def nearest(self, positions: Floats, k: int) -> Indices:
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
        waiting = threaded_map(answer(max(SHARE * self._ends[-1], STORED)), groups)
        left = np.concatenate([*waiting, order[:0]])
        threaded_map(answer(np.inf), _cut(left, MANY))
        return found

    def sample(self, most: int) -> Floats:
        return np.ascontiguousarray(self._rows.sample(most, self.metric))

    def rows_at(self, position: Floats) -> Indices:
        """The rows of the cells whose boxes hold a scaled position, in order."""
        return self._rows_of(np.sort(self._within(np.append(position, 0.0)[None], np.zeros(1))))

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
        home = int(self._home.locate(0.5 * (Z.min(axis=0) + Z.max(axis=0))[None, :-1])[0])
        first = max(0, min(int(self._begins[home]), int(self._ends[-1]) - k))
        last = max(int(self._ends[home]), first + k) - 1
        cells = np.searchsorted(self._begins, [first, last], side="right") - 1
        return np.arange(cells[0], cells[1] + 1)

    def _within(self, Z: Floats, radius: Floats) -> Indices:
        """The cells that may have rows within these squared distances of the positions."""
        low, high, furthest = Z.min(axis=0)[:-1], Z.max(axis=0)[:-1], SLACK * radius.max()
        cells = self._cells_of(np.flatnonzero(_box_gaps(low, high, self._run_low, self._run_high) <= furthest))
        cells = cells[_box_gaps(low, high, self._low[cells], self._high[cells]) <= furthest]
        return np.asarray(cells[(self._bounds(Z, cells) <= SLACK * radius[:, None]).any(axis=0)])

    def _bounds(self, Z: Floats, cells: Indices) -> Floats:
        """Lower bounds of the squared distances from positions to the rows of cells; of shape (positions, cells)."""
        return gaps(Z, self._low[cells], self._high[cells])

    def _cells_of(self, runs: Indices) -> Indices:
        cells = (RUN * runs[:, None] + np.arange(RUN)).ravel()
        return np.asarray(cells[cells < len(self._ends)])

    def _slabs(self, cells: Indices, n_queries: int) -> list[slice]:
        """Parts of some cells, whose rows and distances from the queries are held at a time."""
        place = np.cumsum(self._ends[cells] - self._begins[cells]) // self._most(n_queries)
        return _runs(place)

    def _most(self, n_queries: int) -> int:
        """The most rows that are compared with some queries at a time."""
        return max(1, min(DISTANCES // n_queries, STORED // (len(self.columns) + 1)))

    def _look_at(self, Z: Floats, cells: Indices, best: Best) -> None:
        """Read the rows of some cells, and keep the nearest to every position."""
        for rows in _cut(self._rows_of(np.sort(cells)), self._most(len(Z))):
            best.add(cdist(Z, self._rows.positions(rows, self.metric), "sqeuclidean"), rows)

    def _rows_of(self, cells: Indices) -> Indices:
        """The rows of some cells, one cell after the other."""
        spans = zip(self._begins[cells], self._ends[cells], strict=True)
        return np.concatenate([np.empty(0, dtype=np.intp), *(np.arange(begin, end) for begin, end in spans)])


def gaps(Z: Floats, low: Floats, high: Floats) -> Floats:
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
