"""Cells: a partition of space into parts that hold nearly equally many rows each (docs/method.rst, `cells`).

What is computed for a cell (a neighbourhood, a factor) serves all queries that fall into it. The cell of a query
follows from its position alone: it is the one whose centre is nearest.
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
        made = cls(np.stack([_centre(Z[part]) for part in _parts(Z, np.arange(len(Z)), levels)]))
        some = Z[:: -(-len(Z) // N_MOVING)]
        for _ in range(ROUNDS if len(some) >= FEWEST * len(made) > FEWEST else 0):
            made = cls(_moved(some, made.locate(some), made.centres))
        return made

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


def _parts(Z: Floats, which: Indices, levels: int) -> list[Indices]:
    """Some rows, bisected so many times. Rows that are equal in all coordinates stay together."""
    found = cut_of(Z, which) if levels else None
    if found is None:
        return [which]
    axis, cut = found
    below = Z[which, axis] < cut
    return [*_parts(Z, which[below], levels - 1), *_parts(Z, which[~below], levels - 1)]


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


def _centre(Z: Floats) -> Floats:
    """The mean of some rows, moved to the quantiles `TAILS` where they are beyond, so that outliers do not decide."""
    return np.asarray(np.clip(Z, *np.quantile(Z, TAILS, axis=0)).mean(axis=0))


def _moved(Z: Floats, cell: Indices, centres: Floats) -> Floats:
    """The centre of every cell's rows; as it was, if it has none."""
    order, edges = np.argsort(cell, kind="stable"), np.cumsum(np.bincount(cell, minlength=len(centres)))[:-1]
    parts = zip(np.split(Z[order], edges), centres, strict=True)
    return np.stack([_centre(part) if len(part) else centre for part, centre in parts])
