"""How the rows of a selection are divided into shards that fit into memory, and what all rows take in it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import DTypeLike

from ..core.memory import limit_from
from ..core.threads import n_threads

SHARD_ROWS = 8192  # rows of a shard: its arrays for a block fit the cache, and NumPy's calls are few
LEAST_ROWS = 256  # rows of the smallest shard: with fewer, calls take longer than the work in them

# Sizes of what a selection allocates, which `make_plan` counts on.
BLOCK = 128  # the most picks in a block
SLAB = 256  # active rows whose covariances with a shard are held at a time: 16 MB a thread with 8192 rows in float64
# Picks between two updates of the variances that bound the scores. With more, the bounds are looser and more rows are
# scored exactly; with fewer, there are more passes over all rows.
STRIDE = 16
FIXED = 6 * 2**20  # bytes allowed for small arrays, which are not counted one by one


@dataclass(frozen=True)
class MemoryPlan:
    """How a selection is laid out on this machine."""

    parts: list[tuple[int, int]]
    """The shards: the first row of each, and the one after the last."""
    n_threads: int
    keep: bool
    """Whether the rows' coordinates v are kept, O(n m), or their covariances evaluated anew for every block."""


def most_candidates(n: int) -> int:
    """The largest size of the candidate set of n rows: n / 50, at least 512, at most 4000.

    A small share of the rows, so that the guess costs little beside the block product. Of more rows, more come close to
    being picked, and only a panel that holds them guesses well: beyond 2.5 million rows it may hold n / 625, at most
    16 000.
    """
    return min(max(n // 50, 512), max(4000, min(n // 625, 16_000)), n)


def make_plan(
    n: int,
    m: int,
    q: int,
    dtype: DTypeLike,
    memory_limit: float | str | None,
    width: int = 0,
    held: int = 0,
) -> MemoryPlan:
    """Divide n rows into shards for the available threads, within a limit on memory.

    Parameters
    ----------
    n, m, q : int
        Rows, active rows, targets.
    dtype : float64 or float32
    memory_limit : int, str, optional
        By default half of what is free.
    width : int
        Bytes of a row, prepared for the kernel.
    held : int
        Bytes that the data take while they are read, where they are not in memory.
    """
    limit, threads, item = limit_from(memory_limit), n_threads(), np.dtype(dtype).itemsize
    shared = _bytes_of_rows(n, q) + _bytes_of_driver(n, m) + held
    per_row = _bytes_per_worked_row(q, item, width)
    size = min(SHARD_ROWS, max(n // threads, LEAST_ROWS))
    while size > LEAST_ROWS and shared + threads * size * per_row > limit:
        size //= 2
    needed = shared + threads * size * per_row
    if needed > limit:
        least = shared + threads * LEAST_ROWS * per_row
        reading = f" Reading X takes {held / 1e6:.0f} MB of these: smaller row groups would take less."
        raise ValueError(
            f"memory_limit is {limit / 1e6:.0f} MB, but {n} rows and {m} active rows need at least "
            f"{least / 1e6 + 1:.0f} MB. Raise it, set fewer threads (OMP_NUM_THREADS), or choose a smaller n_active."
            f"{reading if held > limit / 4 else ''}"
        )
    keep = needed + n * (m * item + width) <= limit
    count = -(-n // size)
    if count > threads:
        count = threads * -(-count // threads)  # the same number for each thread: none waits for another's last shard
    edges = np.linspace(0, n, count + 1).astype(int).tolist()
    return MemoryPlan(list(pairwise(edges)), threads, keep)


def _bytes_of_rows(n: int, q: int) -> int:
    """The state of all rows: variance, residuals, mask, noise variance, random weight."""
    return n * (8 + 8 * q + 1 + 8 + 8)


def _bytes_of_driver(n: int, m: int) -> int:
    """The factor of the active rows; the candidates' coordinates, and their covariances with likely picks."""
    return 8 * m * m + 8 * most_candidates(n) * (m + 4 * min(m, BLOCK)) + FIXED


def _bytes_per_worked_row(q: int, item: int, width: int) -> int:
    """Per row of a shard that a thread works on: coordinates, residual paths, a slab of covariances, score bounds."""
    return BLOCK * (3 * item + 8 * q) + SLAB * item + 3 * STRIDE * 8 + 3 * width


def fits_in_memory(n: int, d: int, q: int, memory_limit: float | str | None) -> bool:
    """Whether the posterior "local" can keep n rows of d inputs and q targets in memory, within the memory limit."""
    return bytes_in_memory(n, d, q) <= limit_from(memory_limit)


def bytes_in_memory(n: int, d: int, q: int) -> int:
    """The rows, the distinct ones, these prepared, a tree; residuals and noise."""
    return 8 * n * (5 * d + 4 * q + 8)
