"""The coordinates v of the distinct rows of the remainder, of which `local` needs those of every neighbour."""

from __future__ import annotations

import numpy as np

from ..core.memory import available, parse_bytes
from ..core.threads import threaded_map
from ..core.types import Floats
from ..kernels import Features, n_rows, take
from .base import BLOCK
from .sod import SubsetOfData

FREE_SHARE = 0.25  # share of the free memory that the v's of all rows may take, if no memory limit is given


def cache_limit(memory_limit: int | float | str | None) -> int:
    """Bytes that the v's and the factors of shared neighbourhoods may take together."""
    return int(FREE_SHARE * available()) if memory_limit is None else parse_bytes(memory_limit)


class CoordinateCache:
    """The v's of the distinct rows of the remainder: a cache, filled at once or when it has become worth it.

    Parameters
    ----------
    base : SubsetOfData
        The posterior given the active rows.
    rows : features
        The distinct rows, prepared.
    limit : int
        Bytes that the v's of all rows may take.
    """

    def __init__(self, base: SubsetOfData, rows: Features, limit: int) -> None:
        self.base, self.rows, self.limit = base, rows, limit
        self.V: Floats | None = None
        """The v's of all rows, of shape (n', m); None while they are not cached."""
        self._n_asked = 0

    def fill(self) -> None:
        """Compute the v's of all rows, if they fit into the limit. O(n' m^2)."""
        n, m = n_rows(self.rows), len(self.base.z)
        if self.V is not None or 8 * n * m > self.limit:
            return
        V, size = np.empty((n, m)), max(1, BLOCK // m)

        def project(here: slice) -> None:
            V[here] = self.base.coordinates(take(self.rows, here)).T

        threaded_map(project, [slice(begin, min(begin + size, n)) for begin in range(0, n, size)])
        self.V = V

    def expect(self, count: int) -> None:
        """Say that the v's of `count` rows are about to be asked for; fill the cache once those asked for are n'."""
        self._n_asked += count
        if self._n_asked >= n_rows(self.rows):
            self.fill()
