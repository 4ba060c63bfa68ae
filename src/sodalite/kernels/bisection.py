"""Bisection: space cut into boxes that hold nearly equally many rows each, by hyperplanes across one coordinate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.types import Floats, Indices
from .cells import cut_of


@dataclass(frozen=True)
class Bisection:
    """A binary tree of cuts. Its leaves, numbered from left to right, are the boxes: numbers that are near are near.

    Examples
    --------
    >>> halves = Bisection.of(np.array([[0.0], [1.0], [5.0], [6.0]]), levels=1)
    >>> halves.locate(np.array([[-7.0], [4.9], [5.1]]))
    array([0, 0, 1])
    """

    axis: Indices
    """The coordinate that a node cuts; of shape (nodes,). The first node is the root."""
    cut: Floats
    """Positions below it go to the first child, others to the second; of shape (nodes,)."""
    child: Indices
    """The children of a node: another node, or minus one less the number of a leaf; of shape (nodes, 2)."""

    @classmethod
    def of(cls, Z: Floats, levels: int) -> Bisection:
        """Cuts for rows of shape (n, d), at medians of the coordinate in which a part is spread most. O(n log n)."""
        axis: list[int] = []
        cut: list[float] = []
        child: list[list[int]] = []
        n_leaves = 0

        def grow(which: Indices, levels: int) -> int:
            nonlocal n_leaves
            found = cut_of(Z, which) if levels else None
            if found is None:
                n_leaves += 1
                return -n_leaves
            node = len(axis)
            axis.append(found[0])
            cut.append(found[1])
            child.append([0, 0])
            below = Z[which, found[0]] < found[1]
            child[node] = [grow(which[below], levels - 1), grow(which[~below], levels - 1)]
            return node

        grow(np.arange(len(Z)), levels)
        return cls(np.array(axis, dtype=np.int64), np.array(cut), np.array(child, dtype=np.int64).reshape(-1, 2))

    def __len__(self) -> int:
        """The number of boxes."""
        return len(self.axis) + 1

    def locate(self, Z: Floats) -> Indices:
        """The box of every position, of shape (queries, d); of shape (queries,). O(levels) each."""
        node = np.zeros(len(Z), dtype=np.int64) if len(self.axis) else np.full(len(Z), -1)
        inside = np.flatnonzero(node >= 0)
        while len(inside):
            at = node[inside]
            second = Z[inside, self.axis[at]] >= self.cut[at]
            node[inside] = self.child[at, second.astype(np.int64)]
            inside = inside[node[inside] >= 0]
        return np.asarray(-1 - node)
