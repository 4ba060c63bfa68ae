"""The search, in one shard, for rows that score higher than a block's picks (docs/method.rst, `speculation`, Verify).

Variances only fall. So with a criterion that grows with s, the score at an earlier variance is an upper bound. The
bound is followed for all rows, and the score itself is evaluated for the few rows whose bound reaches an expected
pick's score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.threads import workspace
from ..core.types import Floats, Indices, Mask
from ..criteria import TIE, CriterionTraits, PointwiseCriterion, evaluate
from .messages import Rivals
from .plan import STRIDE
from .ranking import magnitude, values_at

# How far below the expected score a row is still reported, in tie tolerances (`sodalite.criteria.TIE`). More than 1, so
# that the loop sees every row that is tied with the pick, whichever of them rounding puts first.
NEAR = 3


@dataclass(frozen=True)
class RivalSearch:
    """A search for rivals of the picks of one block, among the rows of one shard."""

    criterion: PointwiseCriterion
    dtype: np.dtype[Any]
    """Type of the covariances, which sets the tie tolerance."""
    noise: Floats
    """Noise variances of the rows, of shape (rows,); of shape (1,) if all are equal."""
    weight: Floats
    """Random weights of the rows for a sampled criterion; of shape (rows,) or (1,)."""
    active: Indices
    """Places of the rows that are active before the block."""
    remains: Mask
    """Whether each row is in the remainder before the block."""
    picked: Sequence[tuple[int, int]]
    """Turn and place of every pick that is a row of this shard."""
    expected: Floats
    """Score of every pick at its turn; of shape (b,)."""

    def run(self, N: Floats, path: Floats, s2: Floats) -> tuple[Rivals, int, Floats]:
        """Find the rivals of every pick.

        The search ends at a pick that some row beats: the loop will reject that pick and all after it.

        Parameters
        ----------
        N : array of shape (b, rows)
            Coordinates of the rows in the picks.
        path : array of shape (q, b + 1, rows)
            Residuals before the first pick and after every pick; 0 for active rows.
        s2 : array of shape (rows,)
            Variances before the first pick.

        Returns
        -------
        rivals : Rivals
            The places of rows in this shard stand for their indices.
        n_searched : int
        s2 : array of shape (rows,)
            Variances after the last pick.
        """
        low, high = self._thresholds()
        traits = CriterionTraits.of(self.criterion)
        found, n_searched, s2 = [Rivals.empty()], len(N), s2.copy()
        for begin in range(0, len(N), STRIDE):
            turns = slice(begin, min(begin + STRIDE, len(N)))
            if begin < n_searched:
                places = self._possible(traits, s2, path[:, turns], low[turns])
                if len(places):
                    rivals = self.scored(N[turns], s2, path[:, turns], low[turns], places, begin)
                    found.append(rivals)
                    if (rivals.score > high[rivals.turn]).any():
                        n_searched = turns.stop
            s2 -= np.einsum("ij,ij->j", N[turns], N[turns], dtype=np.float64)
        return Rivals.join(found), n_searched, s2

    def _thresholds(self) -> tuple[Floats, Floats]:
        """Scores from which a row may win a pick's turn, and above which it does; each of shape (b,)."""
        known = np.isfinite(self.expected)
        near = NEAR * TIE[self.dtype] * np.abs(np.where(known, self.expected, 0))
        low = np.where(known, self.expected - near, -np.inf)
        return low, np.where(known, self.expected + near, np.inf)

    def _possible(self, traits: CriterionTraits, s2: Floats, path: Floats, low: Floats) -> Indices:
        """Places of the rows that may score at least `low` at one of some turns.

        Parameters
        ----------
        traits : CriterionTraits
        s2 : array of shape (rows,)
            Variances at the first of the turns.
        path : array of shape (q, turns, rows)
        low : array of shape (turns,)
        """
        if not traits.monotone:
            return np.flatnonzero(self.remains)
        room = workspace.array("bound", path.shape[1:])
        abs_r = magnitude(path, out=room)
        bound = traits.bound(np.sqrt(np.maximum(s2, 0)), abs_r, self.noise, self.weight, out=room)
        bound[:, self.active] = -np.inf
        some = bound.max(axis=1) >= low
        return np.flatnonzero((bound[some] >= low[some, None]).any(axis=0) & self.remains)

    def scored(self, N: Floats, s2: Floats, path: Floats, low: Floats, places: Indices, first: int) -> Rivals:
        """Of the rows at some places, those tied for the highest score at a turn, if it is at least `low`.

        Parameters
        ----------
        N : array of shape (turns, rows)
        s2 : array of shape (rows,)
            Variances at the first of the turns.
        path : array of shape (q, turns, rows)
        low : array of shape (turns,)
        places : array of int
        first : int
            The first of the turns.
        """
        s = _deviations(N[:, places], s2[places])
        abs_r = magnitude(path[:, :, places])
        score = evaluate(self.criterion, s, abs_r, values_at(self.noise, places), values_at(self.weight, places))
        for picked_turn, place in self.picked:
            score[max(picked_turn + 1 - first, 0) :, places == place] = np.nan
        top = np.fmax.reduce(score, axis=1)
        tied = np.where(np.isfinite(top), top - TIE[self.dtype] * np.abs(top), -np.inf)
        turn, column = np.nonzero(score >= np.maximum(low, tied)[:, None])
        return Rivals(turn + first, places[column], score[turn, column])


def _deviations(N: Floats, s2: Floats) -> Floats:
    """Standard deviations s at every turn, before its pick is added; of shape (turns, rows), as N."""
    squares = np.square(N, dtype=np.float64)
    variance = np.empty_like(squares)
    variance[0] = s2
    for i in range(len(squares) - 1):
        np.subtract(variance[i], squares[i], out=variance[i + 1])
    return np.asarray(np.sqrt(np.maximum(variance, 0, out=variance), out=variance))
