"""Fingerprints of data: 64-bit hashes that tell whether rows are the same as before.

A fingerprint is a sum, modulo 2^64, of one term per number, which mixes the number's bits with its row and its column.
So a number that changes or moves changes the sum, with a chance of 2^-64 to be missed, and the sum does not depend on
how the rows are divided into blocks or among workers. All rows are hashed: one pass over them costs little beside a
selection, which makes a pass for every block of picks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 2**17  # numbers to hash at a time: 1 MB, which fits the cache
# Multipliers of SplitMix64, a published generator: two of its finalizer, and 2^64 over the golden ratio.
FIRST, SECOND, GOLDEN = (np.uint64(value) for value in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0x9E3779B97F4A7C15))


def of_block(rows: Any, begin: int) -> int:
    """The summand of a block of rows, of shape (rows,) or (rows, d), that begins with row `begin`. O(rows d).

    Examples
    --------
    >>> X = np.arange(6.0).reshape(3, 2)
    >>> whole = of_block(X, 0)
    >>> (of_block(X[:1], 0) + of_block(X[1:], 1)) % 2**64 == whole, of_block(X[::-1], 0) == whole
    (True, False)
    """
    rows = np.asarray(rows)
    rows = rows.reshape(len(rows), -1)
    total = 0
    with np.errstate(over="ignore"):
        row = _mix(np.arange(begin + 1, begin + 1 + len(rows), dtype=np.uint64) * GOLDEN)
        for column, key in enumerate(_mix(np.arange(1, rows.shape[1] + 1, dtype=np.uint64) * SECOND)):
            bits = np.ascontiguousarray(rows[:, column], dtype=np.float64).view(np.uint64)
            total += int(_mix((bits ^ row) + key).sum(dtype=np.uint64))
    return total % 2**64


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hashes of 64-bit numbers by SplitMix64's finalizer: every bit depends on every bit of the number."""
    bits = (bits ^ (bits >> np.uint64(30))) * FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * SECOND
    return np.asarray(bits ^ (bits >> np.uint64(31)))
