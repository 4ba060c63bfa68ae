"""The guess: which rows will be picked next, by the plain greedy loop among a few candidates.

It never touches the other rows, so it is cheap; and it is right for as long as the best row of all is a candidate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kernels import CompiledKernel
from .scores import PointwiseScore, best, evaluate
from .shard import Rows

Array = NDArray[Any]


@dataclass(frozen=True)
class Guess:
    """The picks that the candidates alone would lead to."""

    places: Array
    """Which candidates, in order; of shape (b,)."""
    factor: Array
    """L_S, the lower Cholesky factor of the picks' own Schur complement; of shape (b, b)."""
    zeta: Array
    """The standardised residual of every pick; of shape (b, q)."""
    scores: Array
    """The score of every pick when its turn comes; NaN for picks that were given."""


def guess(
    kernel: CompiledKernel,
    rows: Rows,
    v: Array,
    count: int,
    score: PointwiseScore | None,
    given: Array | None,
    least_pivot: float,
) -> Guess:
    """Pick `count` of some rows, one at a time (DESIGN: the one-stage update, among the candidates only).

    Parameters
    ----------
    kernel : CompiledKernel
    rows : Rows
        The candidates, in the order of their indices, so that a tie goes to the lowest.
    v : array of shape (t, candidates)
        Their coordinates in the active rows.
    count : int
    score : callable, or None if all picks are given
    given : array of int, optional
        The candidates to pick, whatever their score.
    least_pivot : float
        A pivot below this means that the covariance is not positive definite.
    """
    features = kernel.prepare(rows.X)
    C = kernel.block(features, features).astype(np.float64)
    C -= v.T @ v
    s2, r = rows.s2.copy(), rows.r.copy()
    count = min(count, len(s2)) if given is None else len(given)
    U = np.empty((count, len(s2)))
    factor = np.zeros((count, count))
    zeta = np.empty((count, r.shape[1]))
    places = np.empty(count, dtype=np.int64)
    scores = np.full(count, np.nan)
    left = np.ones(len(s2), dtype=bool)
    for i in range(count):
        if given is not None:
            j = int(given[i])
        else:
            assert score is not None
            abs_r = np.abs(r[:, 0]) if r.shape[1] == 1 else np.sqrt(np.mean(np.square(r), axis=1))
            value = evaluate(score, np.sqrt(np.maximum(s2, 0)), abs_r, rows.noise)
            j = int(np.flatnonzero(left)[best(value[left])])
            scores[i] = value[j]
        pivot = s2[j] + rows.noise[j]
        if not pivot > least_pivot:
            if i and given is None:
                return Guess(places[:i], factor[:i, :i], zeta[:i], scores[:i])
            raise np.linalg.LinAlgError("not positive definite")
        p = np.sqrt(pivot)
        factor[i, :i], factor[i, i] = U[:i, j], p
        U[i] = (C[j] - U[:i, j] @ U[:i]) / p
        zeta[i] = r[j] / p
        s2 -= U[i] * U[i]
        r -= np.multiply.outer(U[i], zeta[i])
        left[j] = False
        places[i] = j
    return Guess(places, factor, zeta, scores)
