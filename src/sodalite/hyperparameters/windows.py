"""Windows: some rows with their nearest rows among all rows of a large data set (docs/method.rst, `windows`).

Where rows are too many to learn from all of them, a random sample is thinner than the data: its rows are further apart,
and what varies between them is taken for noise or for another shape. Rows that have their true neighbours beside them
are predicted as they will be from all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..core.types import Array, Floats, Indices, Mask
from ..kernels import CompiledKernel
from ..kernels.neighbours import Index, distinct
from ..selection.rows import Block, Rows
from .task import Task, Windows

SIZE = 64  # places of a window: the neighbours that a row is learnt from, and as many in case that the metric changes
COPIES = 4  # rows with equal inputs that a window has at most: they tell the noise, and must not fill it
N_SCATTERED = 10_000  # rows drawn at random besides, which see the long length-scales


def with_windows(
    task: Task, rows: Rows, kernel: CompiledKernel, generator: np.random.Generator, n_centres: int
) -> Task | None:
    """The task of learning from windows of all rows; None if the kernel has no metric, or places are few.

    All rows of X are read once. O(n log n), and O(log n) for every window and part of the rows.

    Parameters
    ----------
    task : Task
        A random sample of the rows.
    rows : Rows
        All rows.
    kernel : CompiledKernel
        Its metric says which rows are near.
    generator : numpy.random.Generator
        Draws centres and scattered rows.
    n_centres : int
    """
    weights = kernel.metric()
    if weights is None or _knows_most_places(task.X):
        return None
    n = rows.shape[0]
    drawn = generator.choice(n, min(n, n_centres + N_SCATTERED), replace=False)
    centres, scattered = drawn[:n_centres], drawn[n_centres:]
    index = Index.of(task.X, kernel.centre, weights)
    queries = index.scaled(rows.take(np.sort(centres)).X)  # rows on disk are best read in their order
    index.nearest(queries[:1], min(SIZE, len(task.X)))  # measures which way to search is the quicker one
    nearest = Nearest(index, queries, SIZE)
    near = rows.map(nearest, nearest.merged)
    which = np.unique(np.concatenate([near.row, drawn]))
    some = rows.take(which)
    windows = Windows(np.searchsorted(which, centres), np.searchsorted(which, scattered))
    return replace(task, X=some.X, y=some.y, alpha=some.alpha, windows=windows)


def _knows_most_places(X: Array) -> bool:
    """Whether most rows of the data set have inputs that a random sample X of it has already.

    The share of new rows with other inputs is nearly that of rows in the sample whose inputs occur there once.
    """
    _, group = distinct(X)
    return 2 * int(np.sum(np.bincount(group) == 1)) < len(X)


class Near(NamedTuple):
    """Rows that are near some centres, by centre, distance and row."""

    centre: Indices
    distance: Floats
    """Squared distances, by which rows with different inputs differ."""
    row: Indices

    def take(self, which: Mask | Indices) -> Near:
        return Near(self.centre[which], self.distance[which], self.row[which])


@dataclass(frozen=True)
class Nearest:
    """Finds the places of a block of rows that are nearest to some centres. O(n log n) for n rows."""

    index: Index
    """The metric, and how nearest rows are found."""
    centres: Floats
    """Of shape (centres, columns), scaled."""
    size: int
    """Places of a window."""

    def __call__(self, block: Block) -> Near:
        """The nearest rows of a block."""
        X = block.X
        first, group = distinct(X)
        index = Index(self.index.metric, self.index.metric.positions(X[first]), self.index.search or "tree")
        found = index.nearest(self.centres, min(self.size, len(first)))
        distance = index.distances(self.centres, found)
        members, count = np.argsort(group, kind="stable"), np.bincount(group)
        start = np.cumsum(count) - count
        parts = []
        for copy in range(COPIES):
            centre, rank = np.nonzero(count[found] > copy)
            place = found[centre, rank]
            parts.append(Near(centre, distance[centre, rank], block.begin + members[start[place] + copy]))
        return self._windows(_joined(parts))

    def merged(self, first: Near, second: Near) -> Near:
        """The windows in two parts of the rows together."""
        bound = np.minimum(self._radius(first), self._radius(second))
        both = _joined([first, second])
        return self._windows(both.take(both.distance <= bound[both.centre]))

    def _radius(self, near: Near) -> Floats:
        """The squared radius of every window; infinite if it has less than `size` places. Of shape (centres,)."""
        last = np.append(np.diff(near.centre) > 0, True)
        _, rank, _ = _ranks(near)
        radius = np.full(len(self.centres), np.inf)
        radius[near.centre[last]] = np.where(rank[last] == self.size - 1, near.distance[last], np.inf)
        return radius

    def _windows(self, near: Near) -> Near:
        """The first `size` places of every centre, the nearest first, and `COPIES` rows of each."""
        order, rank, copy = _ranks(near)
        return near.take(order[(rank < self.size) & (copy < COPIES)])


def _joined(parts: list[Near]) -> Near:
    return Near(*(np.concatenate(same) for same in zip(*parts, strict=True)))


def _ranks(near: Near) -> tuple[Indices, Indices, Indices]:
    """The order by centre, distance and row; in it, the rank of a row's place in its window, and its rank there."""
    order = np.lexsort((near.row, near.distance, near.centre))
    centre, distance, at = near.centre[order], near.distance[order], np.arange(len(order))
    new_centre = np.diff(centre, prepend=-1) != 0
    new_place = new_centre | (np.diff(distance, prepend=-1) != 0)
    place = np.cumsum(new_place)
    rank = place - np.maximum.accumulate(np.where(new_centre, place, 0))
    return order, rank, at - np.maximum.accumulate(np.where(new_place, at, 0))
