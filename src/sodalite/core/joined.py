"""Arrays one after the other, as one array that is not copied: rows on disk with rows that have joined them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .types import Array


class Joined:
    """The rows of several arrays, or of anything that is sliced by rows, one after the other.

    It is indexed by a slice or by row numbers, an array of any shape. Only the rows that are asked for are read.

    Examples
    --------
    >>> both = Joined([np.arange(3.0), np.array([10.0, 11.0])])
    >>> both[1:4], both[np.array([[4, 0]])]
    (array([ 1.,  2., 10.]), array([[11.,  0.]]))
    """

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts: list[Any] = []
        for part in parts:
            self.parts += part.parts if isinstance(part, Joined) else [part]
        self._edges = np.cumsum([0, *(len(part) for part in self.parts)])
        self.dtype = np.result_type(*(part.dtype for part in self.parts))
        self.shape = (int(self._edges[-1]), *self.parts[0].shape[1:])
        self.ndim = len(self.shape)
        self.held_bytes = sum(int(getattr(part, "held_bytes", 0)) for part in self.parts)

    def __len__(self) -> int:
        return int(self._edges[-1])

    def __getitem__(self, rows: Any) -> Array:
        if isinstance(rows, slice):
            begin, end, step = rows.indices(len(self))
            if step != 1:
                return self[np.arange(begin, end, step)]
            return self._between(begin, max(begin, end))
        which = np.asarray(rows)
        if which.dtype == bool:
            which = np.flatnonzero(which)
        if which.size and which.dtype.kind not in "iu":
            raise IndexError(f"rows are indexed by a slice or by their numbers; got {rows!r}.")
        flat = which.ravel().astype(np.int64)
        flat = np.where(flat < 0, flat + len(self), flat)
        if flat.size and not 0 <= flat.min() <= flat.max() < len(self):
            raise IndexError(f"there are {len(self)} rows; {rows!r} are not all among them.")
        found = np.empty((len(flat), *self.shape[1:]), dtype=self.dtype)
        place = np.searchsorted(self._edges, flat, side="right") - 1
        for number in np.unique(place):
            here = np.flatnonzero(place == number)
            found[here] = self.parts[number][flat[here] - self._edges[number]]
        return found.reshape(*which.shape, *self.shape[1:])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype=dtype)

    def _between(self, begin: int, end: int) -> Array:
        pieces = []
        for part, first, last in zip(self.parts, self._edges[:-1], self._edges[1:], strict=True):
            low, high = max(begin, int(first)), min(end, int(last))
            if low < high:
                pieces.append(np.asarray(part[low - int(first) : high - int(first)]))
        if len(pieces) == 1:
            return pieces[0]
        return np.concatenate([np.empty((0, *self.shape[1:]), dtype=self.dtype), *pieces])
