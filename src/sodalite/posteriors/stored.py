"""The remainder of rows that are larger than memory: laid out in a store, from which `local` reads what it needs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..core.threads import n_threads
from ..core.validation import float_type
from ..kernels.neighbours import n_sampled
from ..kernels.row_store import ChangedError, RowStore, build_store
from ..selection.rows import Block
from .base import BLOCK, N_SOME, Evidence
from .baselines import MOST_NUMBERS
from .sod import SubsetOfData

FIXED = 6 * 2**20  # bytes allowed for small arrays, which are not counted one by one
NEAR_JUDGED = 6 * 129  # numbers of a row that calibrates: its 128 neighbours among them, their errors and correlations
COPIED = 4  # times that the rows of the baselines are in memory
SHARE = 0.25  # share of the memory limit for the rows of a bucket; blocks of rows and the sample take as much again


def least_memory(n: int, d: int, m: int, n_judged: int, h: int) -> int:
    """Bytes that a fit to n rows on disk takes at least: an estimate that tests compare with what is allocated.

    Parameters
    ----------
    n, d, m : int
        Rows, inputs, active rows.
    n_judged : int
        Rows whose leave-one-out errors are computed.
    h : int
        Rows of a shared neighbourhood; 0 if none is tried.
    """
    threads = n_threads(None)
    near = 0 if n_judged <= N_SOME else NEAR_JUDGED
    judged = 8 * n_judged * (4 * d + near)  # their inputs, prepared and copied, and the rows near by
    factors = threads * 8 * (4 * h * h + h * (m + 2 * d))
    sample = 8 * 3 * d * n_sampled(d)
    return FIXED + 9 * n + max(sample, judged + max(factors, 8 * COPIED * MOST_NUMBERS))


def store_remainder(evidence: Evidence, base: SubsetOfData, limit: int) -> RowStore:
    """The distinct rows of the remainder, with their mean residuals, laid out on disk. O(n m).

    Parameters
    ----------
    evidence : Evidence
    base : SubsetOfData
        The posterior given the active rows.
    limit : int
        Bytes of memory that may be used.
    """
    kernel, rows = evidence.kernel, evidence.rows
    n, d = rows.shape
    size = min(evidence.block_rows(len(base.z)), max(1, BLOCK // (d + len(base.z))))
    active = np.sort(evidence.selection.indices)

    def blocks() -> Iterator[Block]:
        for begin in range(0, n, size):
            block = rows.take(np.arange(begin, min(begin + size, n)))
            first, last = np.searchsorted(active, [begin, begin + len(block)])
            rest = np.delete(np.arange(len(block)), active[first:last] - begin)
            if len(rest):
                X = np.asarray(block.X[rest], dtype=np.float64)
                if not np.isfinite(X).all():
                    raise ChangedError("X has NaN or infinite values that it did not have when the fit began.")
                yield Block(X, block.y[rest], None if block.alpha is None else block.alpha[rest])

    return build_store(
        lambda: (block.X for block in blocks()),
        lambda: ((block.X, block.y - base.mean(block.X), evidence.noise(block)) for block in blocks()),
        n - len(active),
        (d, rows.q),
        float_type(rows),
        kernel.centre,
        kernel.metric(),
        int(SHARE * limit),
    )
