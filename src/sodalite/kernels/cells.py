"""Cells: a partition of space into parts that hold nearly equally many rows each (docs/method.rst, `cells`).

`Bisection` cuts space into boxes by hyperplanes: quick for any number of inputs, it lays rows out on disk. `Cells`
begin with such boxes and are rounder: what is computed for a cell (a neighbourhood, a factor) serves all queries that
fall into it. The cell of a query follows from its position alone: it is the one whose centre is nearest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree

from ..core.types import Floats, Indices

LOOKED_AT = 1000  # rows of a part that decide along which coordinate it is cut; the cut itself is the median of all
TAILS = (0.1, 0.9)  # quantiles between which a part's width and its mean are measured, so that outliers do not decide
ROUNDS = 3  # rounds in which centres move to the means of their cells; the cells are hardly more compact after more
N_MOVING = 2**16  # the most rows that move centres: some tenths of a second
FEWEST = 64  # rows a centre, below which their mean is no better a centre than that of the bisection


@dataclass(frozen=True)
class Bisection:
    """Space cut into boxes that hold nearly equally many rows each, by a complete binary tree of hyperplanes.

    A node cuts one coordinate. The children of node i are 2 i + 1 and 2 i + 2. Boxes are numbered from left to right:
    numbers that are near are near. Rows that are equal in all coordinates stay together.

    Examples
    --------
    >>> halves = Bisection.of(np.array([[0.0], [1.0], [5.0], [6.0]]), levels=1)
    >>> halves.locate(np.array([[-7.0], [4.9], [5.1]]))
    array([0, 0, 1])
    """

    axis: Indices
    """The coordinate that a node cuts; of shape (nodes,)."""
    cut: Floats
    """Positions below it go to the first child, others to the second; of shape (nodes,)."""
    number: Indices
    """The number of the box of every leaf; of shape (nodes + 1,)."""

    @classmethod
    def of(cls, Z: Floats, levels: int) -> Bisection:
        """Cuts for rows of shape (n, d), at medians of the coordinate in which a part is spread most. O(n log n)."""
        n = 2**levels - 1
        axis, cut = np.zeros(n, dtype=np.int64), np.full(n, np.inf)
        parts = [np.arange(len(Z))]
        for node in range(n):
            which = parts[node]
            found = cut_of(Z, which) if len(which) > 1 else None
            if found is not None:
                axis[node], cut[node] = found
            below = Z[which, axis[node]] < cut[node]
            parts += [which[below], which[~below]]
            parts[node] = np.empty(0, dtype=np.intp)  # frees it
        used = np.array([len(part) > 0 for part in parts[n:]])
        return cls(axis, cut, np.maximum(np.cumsum(used) - 1, 0))

    def __len__(self) -> int:
        """The number of boxes."""
        return int(self.number[-1]) + 1

    def locate(self, Z: Floats) -> Indices:
        """The box of every position, of shape (queries, d); of shape (queries,). O(levels) each."""
        node, row = np.zeros(len(Z), dtype=np.int64), np.arange(len(Z))
        for _ in range(len(self.number).bit_length() - 1):
            node = 2 * node + 1 + (Z[row, self.axis[node]] >= self.cut[node])
        return np.asarray(self.number[node - len(self.axis)])


@dataclass(frozen=True)
class Cells:
    """The cells of some centres: each point belongs to the nearest.

    Parameters
    ----------
    centres : array of shape (cells, d)

    Examples
    --------
    >>> cells = Cells.of(np.array([[0.0], [1.0], [5.0], [6.0]]), levels=1)
    >>> cells.centres.ravel()
    array([0.5, 5.5])
    >>> cells.locate(np.array([[-7.0], [2.9], [3.1]]))
    array([0, 0, 1])
    """

    centres: Floats

    @classmethod
    def of(cls, Z: Floats, levels: int) -> Cells:
        """Cells for rows of shape (n, d), in coordinates where their distance is Euclidean. O(n log n).

        The rows are bisected `levels` times, at the median of the coordinate in which they are spread most. The
        means of the parts are the centres; where these are few, some rounds in which they move to the means of their
        cells make the cells more compact.
        """
        boxes = Bisection.of(Z, levels)
        cells = cls(_centres(Z, boxes.locate(Z), np.empty((len(boxes), Z.shape[1]))))
        some = Z[:: -(-len(Z) // N_MOVING)]
        for _ in range(ROUNDS if len(some) >= FEWEST * len(cells) > FEWEST else 0):
            cells = cls(_centres(some, cells.locate(some), cells.centres))
        return cells

    def __len__(self) -> int:
        """The number of cells."""
        return len(self.centres)

    def locate(self, Z: Floats) -> Indices:
        """The cell of every position, of shape (queries, d); of shape (queries,)."""
        if len(self) == 1:
            return np.zeros(len(Z), dtype=np.intp)
        return np.asarray(self._tree.query(Z, workers=1)[1])

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self.centres)


def cut_of(Z: Floats, which: Indices) -> tuple[int, float] | None:
    """The coordinate in which some rows are spread most, and the cut nearest to its median; None if all are equal."""
    some = Z[which[:: -(-len(which) // LOOKED_AT)]]
    low, high = np.quantile(some, TAILS, axis=0)
    by_width = np.lexsort((some.max(axis=0) - some.min(axis=0), high - low))[::-1]
    for axis in by_width:
        values = Z[which, axis]
        median = np.partition(values, len(values) // 2)[len(values) // 2]
        above = values[values > median]
        n_below, n_above = int(np.sum(values < median)), len(above)
        if n_below and n_below >= n_above:
            return int(axis), float(median)
        if n_above:  # most of the rows are at the median: it belongs to the first part
            return int(axis), float(above.min())
    return None


def members(cell: Indices, count: int) -> list[Indices]:
    """The places of the rows of each of so many cells, in their order."""
    return np.split(np.argsort(cell, kind="stable"), np.cumsum(np.bincount(cell, minlength=count))[:-1])


def _centre(Z: Floats) -> Floats:
    """The mean of some rows, moved to the quantiles `TAILS` where they are beyond, so that outliers do not decide."""
    return np.asarray(np.clip(Z, *np.quantile(Z, TAILS, axis=0)).mean(axis=0))


def _centres(Z: Floats, cell: Indices, otherwise: Floats) -> Floats:
    """The centre of every cell's rows; for cells without rows, what it is otherwise. All of shape (cells, d)."""
    parts = zip(members(cell, len(otherwise)), otherwise, strict=True)
    return np.stack([_centre(Z[part]) if len(part) else centre for part, centre in parts])
