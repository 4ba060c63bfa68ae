"""What the loop and the shards send each other: blocks of picks, reports on them, and candidates.

The loop (`sodalite.selection.loop`) sends a `Picks` to every shard (`sodalite.selection.shard`). A shard answers with a
`BlockReport`, and names `Candidates` for the next block. Nothing else travels, so the shards may be on other machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..core.types import Floats, Indices
from ..criteria import tie_threshold


@dataclass(frozen=True)
class Picks:
    """The next b picks S, and all that a shard needs to add them to the model (docs/method.rst, `blocks`).

    The coordinates of a row x in the picks are ``mix @ [pending(x), k(X_new, x) - coefficients @ v(x)]``, where
    pending(x) are the row's stored coordinates in the rejected picks of the block before (docs/method.rst,
    `speculation`). Where the v's are not kept, no coordinates are stored: then the rejected picks come first in
    `X_new`, and `coefficients @ v(x)` is ``coefficients @ k(I, x)``.
    """

    stage: int
    """t, the number of active rows before the block."""
    picks: Indices
    """The picks, in order; of shape (b,)."""
    mix: Floats
    """Parts of L_S^-1, of shape (b, pending + new); lower triangular if no pick is rejected."""
    n_pending: int
    """Stored coordinates that `mix` refers to; 0 where the v's are not kept."""
    X_new: Floats
    """Inputs of the picks that are not pending, after those of rejected picks where the v's are not kept; (new, d)."""
    coefficients: Floats
    """The v's of these rows, or P = k(X_new, I) (K_II + noise)^-1 where the v's are not kept; of shape (new, t)."""
    X_active: Floats | None
    """Inputs of the active rows, of shape (t, d), where the v's are not kept."""
    zeta: Floats
    """Standardised residual of every pick in every target; of shape (b, q)."""
    expected: Floats | None
    """Score of every pick at its turn, of shape (b,); None if the picks are not to be verified."""
    undo: Floats | None = None
    """L_B^-1 of the rejected picks B of the block before, where they are still to be taken back."""

    def __len__(self) -> int:
        return len(self.picks)


@dataclass(frozen=True)
class Rivals:
    """Rows whose score comes near an expected pick's, or above it: three arrays of one length."""

    turn: Indices
    """The pick of the block at whose turn the row has this score, counted from 0."""
    index: Indices
    """The row."""
    score: Floats

    @classmethod
    def empty(cls) -> Rivals:
        """No rows."""
        return cls(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))

    @classmethod
    def join(cls, parts: Sequence[Rivals]) -> Rivals:
        """The rows of all parts, in the order of the parts."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))


@dataclass(frozen=True)
class BlockReport:
    """The report of a shard that has added a block."""

    sse: Floats
    """Sum of squared residuals of the shard's remaining rows after each pick; of shape (b,)."""
    rivals: Rivals
    """Rows here that may score higher than a pick at its turn."""
    n_searched: int
    """The number of picks, from the first, for which rivals were searched."""

    @classmethod
    def join(cls, reports: Sequence[BlockReport]) -> BlockReport:
        """The report on the rows of several shards."""
        sse = np.sum([report.sse for report in reports], axis=0)
        rivals = Rivals.join([report.rivals for report in reports])
        return cls(sse, rivals, min(report.n_searched for report in reports))


@dataclass(frozen=True)
class Candidates:
    """Rows that may be picked, and what is known of each at the present stage. One entry per row in every array."""

    index: Indices
    X: Floats
    """Inputs, of shape (rows, d)."""
    s2: Floats
    r: Floats
    """Residuals, of shape (rows, q)."""
    noise: Floats
    weight: Floats
    """Random weight that the score is multiplied by (`sodalite.criteria.Sampled`); 1 for other criteria."""
    score: Floats
    potential: Floats
    """The score that a row would have if its residual grew (`sodalite.selection.ranking.score_and_potential`)."""

    def __len__(self) -> int:
        return len(self.index)

    def take(self, places: Indices) -> Candidates:
        """The rows at these places."""
        return Candidates(*(getattr(self, field.name)[places] for field in fields(self)))

    def shortlist(self, count: int, wanted: Indices, dtype: np.dtype[Any]) -> Candidates:
        """The `count` rows of highest potential, all rows tied for the highest score, and the rows of index `wanted`.

        All rows if `count` is 0.
        """
        if not count or len(self) <= count:
            return self
        top = np.argpartition(-self.potential, count - 1)[:count]
        tied = self.score >= tie_threshold(float(np.nanmax(self.score, initial=-np.inf)), dtype)
        return self.take(np.union1d(top, np.flatnonzero(tied | np.isin(self.index, wanted))))

    @staticmethod
    def join(parts: Sequence[Candidates]) -> Candidates:
        """The rows of all parts in the order of their indices, each once."""
        every = (np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Candidates))
        joined = Candidates(*every)
        return joined.take(np.unique(joined.index, return_index=True)[1])
