"""How far levels differ that a fit has not seen: as far as those that it has seen.

A row of a new town is predicted as if it were in an average one. By how much it may be off is seen by putting it into
the towns of the fit, one after the other (docs/method.rst, `new-levels`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..core.types import Array, Floats
from ..tables.unseen import Unseen

Predict = Callable[[Floats], Floats]
"""The means of rows, of shape (rows, q)."""


def variance_between_levels(predict: Predict, X: Array, unseen: tuple[Unseen, ...], mean: Floats) -> Floats | None:
    """The variance that levels new to the model add to every prediction, of shape (n, q); None if there are none.

    Parameters
    ----------
    predict : callable
    X : array of shape (n, d)
    unseen : tuple of Unseen
        The new levels of these rows.
    mean : array of shape (n, q)
        The predictions.
    """
    if not unseen:
        return None
    found = np.zeros(mean.shape)
    for part in unseen:
        away = _away(predict, X, mean, part)
        found[part.rows] += np.square(away).sum(axis=1)
    return found


def covariance_between_levels(predict: Predict, X: Array, unseen: tuple[Unseen, ...], mean: Floats) -> Floats | None:
    """The covariance that levels new to the model add, of shape (n, n, q): rows of one new level are off together."""
    if not unseen:
        return None
    found = np.zeros((len(mean), *mean.shape))
    for part in unseen:
        away = _away(predict, X, mean, part)
        same = part.levels[:, None] == part.levels
        found[np.ix_(part.rows, part.rows)] += np.einsum("ilq,jlq->ijq", away, away) * same[..., None]
    return found


def _away(predict: Predict, X: Array, mean: Floats, unseen: Unseen) -> Floats:
    """How far predictions with known levels are from those with the new one; of shape (rows, known levels, q).

    Their squares add up to a variance: that of the known levels, and of their mean.
    """
    rows, known = np.asarray(X, dtype=np.float64)[unseen.rows], unseen.known
    n = len(known)
    moved = np.repeat(rows, n, axis=0)
    moved[:, unseen.inputs] = np.tile(known, (len(rows), 1))
    away = predict(moved).reshape(len(rows), n, -1) - mean[unseen.rows][:, None]
    return np.asarray(away * np.sqrt((n + 1) / n) / np.sqrt(n))
