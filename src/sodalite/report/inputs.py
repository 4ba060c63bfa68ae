"""The columns that a model predicts from, as a person names them, and the columns of X that they became."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.types import Floats
from ..fitting.fitted import FittedModel
from ..tables import Dates, Means, Numbers, Times
from ..tables.categories import Levels
from ..tables.column import Column
from ..tables.places import Places
from ..tables.values import OFFSETS, Values, in_zone
from .words import UNNAMED

DAY = 86_400  # seconds; a model counts dates in days since 1970


@dataclass(frozen=True)
class Input:
    """A column that the target is predicted from."""

    name: str
    kind: str
    """"number", "date", "time", "place", "levels", or "means": levels that an input tells by their mean targets."""
    places: tuple[int, ...]
    """The columns of X that it became, counted from 0; latitude and longitude share theirs."""
    column: Column | None = None
    """How the column becomes inputs, where that is more than to be taken as it is."""
    axis: int = 0
    """Of a place: 0 for the latitude, 1 for the longitude."""

    @property
    def levels(self) -> tuple[str, ...]:
        """The names of the levels; empty for a column that has none."""
        return self.column.levels if isinstance(self.column, Levels) else ()

    @property
    def is_axis(self) -> bool:
        """Whether a curve can be drawn along the values: they are numbers that tell all inputs of the column."""
        return not self.levels and not (isinstance(self.column, Dates) and self.column.zone == OFFSETS)

    def values(self, X: Floats) -> Floats:
        """The values of the column in some rows: the numbers of levels, days since 1970, or degrees; of shape (n,)."""
        if isinstance(self.column, Levels):
            distance = np.square(X[:, None, self.places] - self._codes).sum(axis=2)
            return np.asarray(np.argmin(distance, axis=1), dtype=np.float64)
        if isinstance(self.column, Places):
            return np.asarray(self.column.degrees(X[:, self.places])[self.axis])
        return np.asarray(X[:, self.places[0]])

    def put(self, X: Floats, values: Floats) -> None:
        """Set the values of the column in some rows, one for each; the number of a level stands for it."""
        column = self.column
        if isinstance(column, Levels):
            X[:, self.places] = self._codes[values.astype(int)]
        elif isinstance(column, Places):
            degrees = column.degrees(X[:, self.places])
            degrees[self.axis] = values
            X[:, self.places] = 0.0  # what tells missing places apart
            X[:, self.places[: len(column.parts)]] = column.points(*degrees)
        elif column is None or not self.is_axis:
            X[:, self.places[0]] = values
        else:
            zone = column.zone if isinstance(column, Dates) else None
            wall = None if zone is None else in_zone(values, zone)
            known = Values("date" if isinstance(column, Dates) else "number", values, wall=wall, zone=zone)
            X[:, self.places] = column.encode(lambda name: known).X

    def mixed(self, A: Floats, B: Floats) -> Floats:
        """The rows of A with this column of B."""
        X = A.copy()
        if isinstance(self.column, Places):
            self.put(X, self.values(B))
        else:
            X[:, self.places] = B[:, self.places]
        return X

    @property
    def _codes(self) -> Floats:
        """The inputs at each level, of shape (levels, places)."""
        assert isinstance(self.column, Levels)
        known = self.column.vectors()[:-1]
        return np.pad(known, ((0, 0), (0, len(self.places) - known.shape[1])))


def inputs_of(model: FittedModel) -> tuple[Input, ...]:
    """The columns that a model was fitted to; those without names are called "input 1", "input 2" and so on."""
    mapping = getattr(model, "preprocessing_", None)
    if mapping is None:
        names = getattr(model, "feature_names_in_", None)
        names = [f"input {place + 1}" for place in range(model.n_features_in_)] if names is None else names
        return tuple(Input(str(name), "number", (place,)) for place, name in enumerate(names))
    inputs: list[Input] = []
    begin = 0
    for column in mapping.columns:
        places = tuple(range(begin, begin + len(column.names)))
        begin += len(places)
        if isinstance(column, Levels):
            inputs.append(Input(column.name, "means" if isinstance(column, Means) else "levels", places, column))
        elif isinstance(column, Places):
            names = (
                column.sources if column.partner else [f"{column.name} {axis}" for axis in ("latitude", "longitude")]
            )
            inputs += [Input(name, "place", places, column, axis) for axis, name in enumerate(names)]
        elif isinstance(column, Numbers | Dates) or (isinstance(column, Times) and not column.parts):
            more = column if len(places) > 1 and isinstance(column, Numbers | Dates) else None
            inputs.append(Input(column.name, column.kind, places, more))
        else:  # no one of its inputs stands for the column
            inputs += [Input(name, "number", (place,)) for name, place in zip(column.names, places, strict=True)]
    return tuple(inputs)


def targets_of(model: FittedModel) -> tuple[str, ...]:
    """The names of the targets; "y", or "target 1" of several, where none are known."""
    mapping = getattr(model, "preprocessing_", None)
    if mapping is not None and mapping.target:
        return (str(mapping.target),)
    names = getattr(model, "target_names_", None)
    if names is not None:
        return tuple(names)
    q = model.fitted_.q
    return (UNNAMED,) if q == 1 else tuple(f"target {place + 1}" for place in range(q))


def date_texts(days: Floats) -> list[str]:
    """Days since 1970 as texts, to the second."""
    return [str(day) for day in (np.asarray(days) * DAY).astype("datetime64[s]")]
