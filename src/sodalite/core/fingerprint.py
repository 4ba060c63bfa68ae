"""A number that tells whether rows are those that were seen before.

It is a sum, modulo 2^64, of one term for every number of the rows, which mixes its bits with its row and its column. So
any number that changes or moves changes the sum, but for one chance in 2^64; and it is the same however the rows are
cut into blocks, whoever adds up which of them. Every row counts: a pass over the rows is little beside a selection,
which makes one for every block of picks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .threads import threaded_map
from .types import Array

BLOCK = 2**17  # numbers at a time: they fit the cache
FIRST, SECOND, GOLDEN = (np.uint64(value) for value in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0x9E3779B97F4A7C15))


def fingerprint(X: Any) -> int:
    """The number of all rows of X: anything of one or two dimensions that can be sliced by rows. O(n d).

    Examples
    --------
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> fingerprint(X) == fingerprint(X.copy()), fingerprint(X) == fingerprint(X[::-1])
    (True, False)
    """
    size = BLOCK // max((1, *X.shape[1:])) + 1
    parts = threaded_map(lambda begin: of_block(X[begin : begin + size], begin), range(0, X.shape[0], size))
    return sum(parts) % 2**64


def of_block(rows: Any, begin: int) -> int:
    """What some rows add to the number of all, the first of them being row `begin`."""
    rows = np.asarray(rows)
    rows = rows.reshape(len(rows), -1)
    total = 0
    with np.errstate(over="ignore"):
        row = _mix(np.arange(begin + 1, begin + 1 + len(rows), dtype=np.uint64) * GOLDEN)
        for column, key in enumerate(_mix(np.arange(1, rows.shape[1] + 1, dtype=np.uint64) * SECOND)):
            bits = np.ascontiguousarray(rows[:, column], dtype=np.float64).view(np.uint64)
            total += int(_mix((bits ^ row) + key).sum(dtype=np.uint64))
    return total % 2**64


def _mix(bits: Array) -> Array:
    """Every bit of the result depends on every bit of the number: the finalizer of SplitMix64."""
    bits = (bits ^ (bits >> np.uint64(30))) * FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * SECOND
    return np.asarray(bits ^ (bits >> np.uint64(31)))
