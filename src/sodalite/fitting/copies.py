"""Copies: rows that stand there more than once, inputs and targets alike, are one observation.

Observations that are repeated differ by their noise. Where all rows with equal inputs have equal targets too, they are
records that were kept twice, and say no more together than one of them: else their common error would be taken for
what all rows agree on, and error bars would be too small.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..kernels.neighbours import distinct
from ..selection.rows import NOISE_ALONE, ArrayRows

FEWEST, SHARE = 3, 0.1  # sets of equal rows, and share of the rows that are copies: fewer may be chance
MOST = 100_000  # rows: among more, a few copies do little harm
SAFE = 100.0  # times the noise variance from which on a row is noise alone


def without_copies(rows: ArrayRows) -> ArrayRows:
    """Rows in memory, copies of other rows with so much noise of their own that they count for nothing."""
    n = len(rows.y)
    if rows.alpha is not None or n > MOST:
        return rows
    X = np.asarray(rows.X)
    first, group = distinct(X)
    is_copy = np.ones(n, dtype=bool)
    is_copy[first] = False
    n_sets = int((np.bincount(group) > 1).sum())
    if n_sets < FEWEST or is_copy.mean() < SHARE or not np.array_equal(rows.y, rows.y[first][group]):
        return rows
    spread = float(np.max(rows.y[first].var(axis=0)))
    return replace(rows, alpha=np.where(is_copy, SAFE * NOISE_ALONE * spread, 0.0)) if spread > 0 else rows
