"""How rows are ranked: the magnitude of their residuals, their score now, and the score that they may soon have."""

from __future__ import annotations

import numpy as np

from ..core.types import Floats, Indices
from ..criteria import PointwiseCriterion, evaluate

# Allowance for the growth of abs(r) while a block is added: 1.4 s / sqrt(1 + t / 400). Tuned by `benchmarks speed`:
# with less, the row to pick is more often no candidate; with more, candidates that will never be picked crowd it out.
RESIDUAL_GROWTH, SETTLED_STAGE = 1.4, 400


def score_and_potential(
    criterion: PointwiseCriterion, t: int, s2: Floats, r: Floats, noise: Floats, weight: Floats
) -> tuple[Floats, Floats]:
    """Scores at stage t, and the scores if abs(r) grew by a share of s (docs/method.rst, `speculation`, Propose).

    The score at stage t says little of the score 30 picks later: other picks change the residual, by an amount that
    goes with s. The share falls as rows become active.

    Parameters
    ----------
    criterion : callable
    t : int
    s2, noise, weight : arrays of shape (rows,)
        Noise and weight may be of shape (1,).
    r : array of shape (q, rows)
    """
    s, abs_r = np.sqrt(np.maximum(s2, 0)), magnitude(r)
    now = evaluate(criterion, s, abs_r, noise, weight)
    abs_r += RESIDUAL_GROWTH / np.sqrt(1 + t / SETTLED_STAGE) * s
    return now, evaluate(criterion, s, abs_r, noise, weight)


def magnitude(r: Floats, out: Floats | None = None) -> Floats:
    """Root mean square over the targets, which are the first axis of r: abs(r) of a single target."""
    if len(r) == 1:
        return np.asarray(np.abs(r[0], out=out))
    return np.asarray(np.sqrt(np.mean(np.square(r), axis=0)), dtype=np.float64)


def values_at(values: Floats, places: Indices) -> Floats:
    """The values at some places; an array of one value stands for as many equal ones."""
    return values[places] if len(values) > 1 else np.repeat(values, len(places))


def largest(values: Floats, places: Indices, count: int) -> Indices:
    """Of some places, the `count` with the largest values, in any order."""
    if len(places) <= count:
        return places
    return places[np.argpartition(-values[places], count)[:count]]
