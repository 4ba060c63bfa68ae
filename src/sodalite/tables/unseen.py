"""Levels in some rows that a model has not seen, so that error bars can be as wide as levels differ."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.types import Floats, Indices


class Unseen(NamedTuple):
    """Rows in which a column of texts has a level that was not among those of the fit."""

    rows: Indices
    """Of shape (rows,), in increasing order."""
    levels: Indices
    """A number for the level of each: rows of one level have the same number. Of shape (rows,)."""
    inputs: Indices
    """The inputs that the column has become, of shape (inputs,)."""
    known: Floats
    """Some levels of the fit as inputs, of shape (known levels, inputs)."""

    def take(self, which: Indices) -> Unseen:
        """Of some rows alone, in the order given."""
        place = np.searchsorted(self.rows, which)
        place[place == len(self.rows)] = 0
        here = self.rows[place] == which
        return self._replace(rows=np.flatnonzero(here), levels=self.levels[place[here]])


def taken(unseen: tuple[Unseen, ...], which: Indices) -> tuple[Unseen, ...]:
    """The new levels of some rows, which are then numbered in the order given."""
    parts = [part.take(which) for part in unseen]
    return tuple(part for part in parts if len(part.rows))
