"""The columns that a model predicts from, as a person names them, and the columns of X that they became."""

from __future__ import annotations

from collections.abc import Sequence
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

FAR = 0.05  # share of the width of an input beyond its end from which on a number is called beyond it
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
            inputs += [Input(name, "place", places, column, axis) for axis, name in enumerate(_angles(column))]
        elif isinstance(column, Numbers | Dates) or (isinstance(column, Times) and not column.parts):
            more = column if len(places) > 1 and isinstance(column, Numbers | Dates) else None
            inputs.append(Input(column.name, column.kind, places, more))
        else:  # no one of its inputs stands for the column
            inputs += [Input(name, "number", (place,)) for name, place in zip(column.names, places, strict=True)]
    return tuple(inputs)


def columns_of_X(columns: Sequence[Column]) -> list[str]:
    """The names of the columns of X for people: those of a place are its latitude and longitude, in kilometres."""
    names = list[str]()
    for column in columns:
        known = column.names
        if isinstance(column, Places):
            latitude, longitude = _angles(column)
            axes = {"east": longitude, "north": latitude, "up": column.label}
            known = [*(f"{axes[axis]} (km)" for axis in column.parts), *known[len(column.parts) :]]
        names += known
    return names


def _angles(column: Places) -> list[str]:
    """The names of the latitude and the longitude of a column of places."""
    return column.sources if column.partner else [f"{column.name} {axis}" for axis in ("latitude", "longitude")]


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


@dataclass(frozen=True)
class Beyond:
    """Rows beyond an end of an input in the fit: how many, and how far the farthest is."""

    input: str
    is_date: bool
    is_above: bool
    """Whether rows above the largest value of the fit are counted, or those below the smallest."""
    end: float
    """That value; of a date, in days since 1970."""
    n_rows: int
    farthest: float

    def __str__(self) -> str:
        if self.is_date:
            where = f"{'after the last' if self.is_above else 'before the first'} {self.input!r}"
            end, is_long = date_texts(np.array([self.end]))[0], self.farthest >= 2
            far = f"{self.farthest:.0f} days" if is_long else f"{24 * self.farthest:.0f} hours"
            return f"{where} of the fit, {end.removesuffix('T00:00:00')}, by up to {far}"
        where = f"{'above the largest' if self.is_above else 'below the smallest'} {self.input!r}"
        return f"{where} of the fit, {self.end:.6g}, by up to {self.farthest:.3g}"


class Ends:
    """The ends of the inputs of a fit, and how many rows lie beyond them; of no inputs if the model does not tell."""

    def __init__(self, model: FittedModel) -> None:
        scale = model.fitted_.posterior.scale
        far = None if scale is None else scale.far
        known = [] if far is None else inputs_of(model)
        self._inputs = [part for part in known if part.is_axis and part.kind != "place"]
        self._places = [part.places[0] for part in self._inputs]
        d = model.n_features_in_
        low, high = (np.zeros(d), np.zeros(d)) if far is None else (far.low, far.high)
        self._ends = low[self._places], high[self._places]
        is_date = np.array([part.kind == "date" for part in self._inputs], dtype=bool)
        self._least = np.where(is_date, 0.0, FAR * (self._ends[1] - self._ends[0]))
        self._counts, self._farthest = np.zeros((2, len(is_date)), dtype=int), np.zeros((2, len(is_date)))

    def count(self, X: Floats) -> None:
        """Count rows of X, of shape (n, d); a value that is missing lies nowhere."""
        values, (low, high) = X[:, self._places], self._ends
        for side, distance in enumerate((low - values, values - high)):
            self._counts[side] += (distance > self._least).sum(axis=0)
            self._farthest[side] = np.fmax(self._farthest[side], np.fmax.reduce(distance, axis=0, initial=0.0))

    def beyond(self) -> list[Beyond]:
        """The ends beyond which there are rows, those with most rows first."""
        found = [
            Beyond(part.name, part.kind == "date", bool(side), float(self._ends[side][at]), int(count), float(far))
            for side in (1, 0)
            for at, (part, count, far) in enumerate(
                zip(self._inputs, self._counts[side], self._farthest[side], strict=True)
            )
            if count
        ]
        return sorted(found, key=lambda part: -part.n_rows)
