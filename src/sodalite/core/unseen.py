"""Inputs that know which of their levels no model has seen, so that error bars can be as wide as levels differ."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .types import Floats, Indices


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


class Inputs(np.ndarray[Any, np.dtype[np.float64]]):
    """Inputs of a model, an array of shape (n, d), with the levels in them that are new to it.

    They are known of the array itself alone: views and copies of it are as any other array.
    """

    unseen: tuple[Unseen, ...] = ()

    @classmethod
    def of(cls, X: Floats, unseen: tuple[Unseen, ...]) -> Floats:
        """The inputs with their new levels; as they are if there are none."""
        if not unseen:
            return X
        found = X.view(cls)
        found.unseen = unseen
        return found


def unseen_in(X: Any) -> tuple[Unseen, ...]:
    """The levels in some inputs that are new to a model."""
    return X.unseen if isinstance(X, Inputs) else ()


def taken(X: Floats, which: Indices) -> Floats:
    """Some rows of inputs, with their new levels."""
    parts = [part.take(which) for part in unseen_in(X)]
    return Inputs.of(np.asarray(X)[which], tuple(part for part in parts if len(part.rows)))
