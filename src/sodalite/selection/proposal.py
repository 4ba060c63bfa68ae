"""From guessed picks to the block that the shards are sent (docs/method.rst, `blocks` and `speculation`).

The coordinates of all rows in the picks S are N = L_S^-1 C, with C the covariances of the picks with all rows, given
the active rows. Picks that were rejected in the block before and are guessed again are *pending*. Where the v's are
kept, C of the pending picks B is L_B times coordinates that the shards still store. Where they are not, C is computed
again for all rejected picks, since these are still to be taken back. Of the other picks, C is a new product.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from ..core.types import Floats, Indices
from .messages import Picks
from .panel import Guess


def make_block(
    guess: Guess,
    rejected: Guess | None,
    *,
    keep: bool,
    factor: Floats,
    X_active: Floats,
    verified: bool,
    dtype: np.dtype[Any],
) -> tuple[Picks, int]:
    """The block of some guessed picks, and how many of them are not pending. O(b^2 (b + t) + b t^2).

    Parameters
    ----------
    guess : Guess
        The picks.
    rejected : Guess, optional
        The rejected picks of the block before.
    keep : bool
        Whether the shards keep the v's.
    factor, X_active : arrays of shape (t, t), (t, d)
        L, and the inputs of the active rows.
    verified : bool
        Whether the picks are to be compared with all other rows.
    dtype : float64 or float32
        Type of the covariances.
    """
    inverse = _inverse(guess.factor)
    pending, where = _pending(guess.rows.index, rejected)
    new = np.setdiff1d(np.arange(len(guess)), pending)
    X_new, coefficients, mix = guess.rows.X[new], guess.v[new], inverse
    n_pending, undo = 0, None
    if rejected is not None and (len(pending) or not keep):
        again = np.zeros((len(guess), len(rejected)))
        again[:, where] = inverse[:, pending]
        if keep:
            n_pending, again = len(rejected), again @ rejected.factor
        else:
            X_new = np.concatenate([rejected.rows.X, X_new])
            coefficients = np.concatenate([rejected.v, coefficients])
            undo = _inverse(rejected.factor).astype(dtype)
        mix = np.hstack([again, inverse[:, new]])
    if not keep and len(factor):  # P = v L^-1
        coefficients = solve_triangular(factor, coefficients.T, lower=True, trans="T").T
    block = Picks(
        stage=len(factor),
        picks=guess.rows.index,
        mix=mix.astype(dtype),
        n_pending=n_pending,
        X_new=X_new,
        coefficients=np.ascontiguousarray(coefficients, dtype=dtype),
        X_active=None if keep else X_active,
        zeta=guess.zeta,
        expected=guess.scores if verified else None,
        undo=undo,
    )
    return block, len(new)


def _pending(picks: Indices, rejected: Guess | None) -> tuple[Indices, Indices]:
    """Places of the pending picks in the guess, and their places among the rejected picks."""
    at = {} if rejected is None else {row: place for place, row in enumerate(rejected.rows.index.tolist())}
    pending = np.flatnonzero([row in at for row in picks.tolist()])
    return pending, np.array([at[row] for row in picks[pending].tolist()], dtype=np.int64)


def _inverse(factor: Floats) -> Floats:
    """Inverse of a lower triangular matrix."""
    return np.asarray(solve_triangular(factor, np.eye(len(factor)), lower=True))
