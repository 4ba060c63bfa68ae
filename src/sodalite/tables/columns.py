"""Columns of a table: the kind of values that each holds, and its encoding as numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Array, Floats, Indices
from .base import CORRECT, TableError, is_number
from .calendar import circle, place
from .levels import POINT, level_points
from .values import OFFSETS, Values, days_of, in_zone, with_offsets
from .written import (
    DURATIONS,
    ISO,
    LEVEL_CODES,
    example,
    is_code,
    read_clocks,
    read_dates,
    read_durations,
    read_numbers,
)

KINDS = ("number", "date", "time", "bool", "text", "ordered", "means", "points", "place")
CATEGORICAL = ("bool", "text")  # the kinds with levels, each of which becomes an input that is 0 or 1
LEVELLED = (*CATEGORICAL, "ordered", "means", "points")  # the kinds with levels
GAP = "(missing)"  # the level of missing values
OTHER = "(other)"  # the level that rare and unseen levels share
MOST_KNOWN = 16  # known levels, evenly spread, that tell how far a level may be from others: their variance to a third
FOLDED = "without capitals"  # the form of levels that differ in capitals in some rows
NONE = np.empty(0, dtype=np.intp)

Lookup = Callable[[str], Values]
"""The values of a column by its name."""


@dataclass(frozen=True)
class Column:
    """One column of the data: the kind of its values, and its encoding as numbers."""

    name: str
    kind: str
    """One of `KINDS`. "number" stays as it is; "date" is time and the parts of the calendar; "time" is days; "bool" and
    "text" have an input for each level; "ordered" has one, the place of the level; "means" has one, the mean target of
    the level; "points" has three, a point on a sphere for each level; "place" is two columns, latitude and longitude,
    as points in kilometres."""
    levels: tuple[str, ...] = ()
    """The levels in the training data: sorted, or, for "ordered", in order."""
    fill: float | str | None = None
    """The value that replaces missing values; None if they are not replaced."""
    indicator: bool = False
    """Whether there is one more input, which is 1 where the value is missing."""
    parts: tuple[str, ...] = ()
    """For "date" and "time", the parts of the calendar (`sodalite.tables.calendar.CIRCLES`), each of which becomes two
    inputs; for "place", the axes."""
    other: str | None = None
    """The level that unseen levels have; None if there is none."""
    rare: tuple[str, ...] = ()
    """Levels of few rows in the training data, which have the level `other`."""
    means: tuple[float, ...] = ()
    """For "means", the mean target of each level, adjusted for other columns, and of unseen levels at the end."""
    partner: str | None = None
    """For "place", the column of longitudes; `name` is that of latitudes."""
    centre: tuple[float, ...] = ()
    """For "place", latitude and longitude of the origin."""
    zone: str | None = None
    """For "date", the time zone whose clock tells the parts of the calendar."""
    form: str | None = None
    """How texts are read: the format of dates, the marks of numbers (`sodalite.tables.written.Written.form`), or, of
    levels, `FOLDED`."""

    @property
    def sources(self) -> list[str]:
        """The names of the columns of the table that are needed."""
        return [self.name] if self.partner is None else [self.name, self.partner]

    @property
    def label(self) -> str:
        """The name for messages and pictures."""
        return " and ".join(self.sources)

    @property
    def names(self) -> list[str]:
        """The names of the inputs that the column becomes."""
        if self.kind in CATEGORICAL:
            found = [f"{self.name}={level}" for level in self.levels]
        elif self.kind == "place":
            found = [f"{self.label} {axis}" for axis in self.parts]
        elif self.kind == "points":
            found = [f"{self.name} {axis}" for axis in POINT]
        else:
            whole = [] if self.kind == "time" and self.parts else [self.name]
            found = whole + [f"{self.name} {part} {axis}" for part in self.parts for axis in ("cos", "sin")]
        return found + ([f"{self.label} missing"] if self.indicator else [])


class Coded(NamedTuple):
    """A column as numbers."""

    X: Floats
    """Of shape (n, inputs); NaN where a value is missing and not replaced."""
    missing: int
    """The number of missing values, replaced or not."""
    unknown: dict[str, int]
    """How often each level occurs that is not in the training data."""
    unseen: Indices
    """The level of each row, by a number, if it is not in the training data; else -1. Of shape (n,), or empty."""


def encode_values(column: Column, get: Lookup, source: str = "the table") -> Coded:
    """A column as numbers; errors name the source."""
    if column.kind in LEVELLED:
        return _encode_levels(column, level_values(column, get(column.name)))
    if column.kind == "place":
        days, gaps = _places(column, get, source)
    elif column.kind == "number":
        whole = number_values(get(column.name), column, source)
        days, gaps = _filled(whole, column)[:, None], np.isnan(whole)
    else:
        days, gaps = _times(column, get(column.name), source)
    if column.indicator:
        days = np.column_stack([days, gaps])
    return Coded(days, int(gaps.sum()), {}, NONE)


def number_values(values: Values, column: Column, source: str) -> Floats:
    """A column of numbers, of shape (n,), NaN where a value is missing; all else, and infinite numbers, are refused."""
    if values.kind == "text":
        form = column.form or "."
        found, _ = read_numbers(values.levels, form[0], form[1:] or None)
        used = values.used() > 0  # rows that are left out may have had other texts
        wrong = [at for at, text in enumerate(values.levels) if np.isnan(found[at]) and used[at] and not is_code(text)]
        if wrong:
            row = _first(values, wrong)
            text = values.levels[int(values.data[row])]
            more = int(np.isin(values.data, wrong).sum()) - 1
            others = f" and {more} more of its cells" if more else ""
            raise TableError(
                f"{source}: column {column.name!r} holds text where a number is needed: {text!r} in "
                f"{values.place(row)}{others}. {CORRECT}"
            )
        data = np.append(found, np.nan)[values.data]
    elif values.kind in ("number", "bool", "empty"):
        data = values.data
    else:
        raise TableError(f"{source}: column {column.name!r} holds {values.type_name} where numbers are needed.")
    infinite = np.flatnonzero(np.isinf(data))
    if len(infinite):
        raise TableError(
            f"{source}: column {column.name!r} has {len(infinite)} infinite value{'s' * (len(infinite) > 1)}, "
            f"the first in {values.place(int(infinite[0]))}. {CORRECT}"
        )
    return np.asarray(data, dtype=np.float64)


def date_values(values: Values, column: Column, source: str) -> Values:
    """A column of dates or times, read from texts if need be; all else is refused."""
    clock = column.kind == "time"
    if values.kind in (("clock", "time") if clock else ("date",)) or values.kind == "empty":
        return values
    if column.form == DURATIONS:
        words, shown = "durations", "1:02:33 or 5h 10m"
    elif clock:
        words, shown = "times", "12:30:00"
    else:
        words, shown = "dates", example(column.form or ISO)
    message = f"{source}: column {column.name!r} must hold {words}, as {shown} for instance, but it "
    if values.kind == "number" and column.form is not None:
        values = values.texts()
    if values.kind != "text":
        raise TableError(f"{message}holds {values.type_name}.")
    used = values.used() > 0
    known = [place for place, text in enumerate(values.levels) if used[place] and not is_code(text)]
    texts = [values.levels[place] for place in known]
    if clock:
        days = read_durations(texts) if column.form == DURATIONS else read_clocks(texts)
        if column.form is None and not column.parts and np.isnan(days).any():  # durations of earlier models
            days = read_durations(texts)
        pairs = [(day, day) for day in days.tolist()]
        bad, aware = [known[at] for at in np.flatnonzero(np.isnan(days))], set()
    else:
        found = _dates(texts, column.form)
        pairs = [days_of(value) for value in found]
        bad = [known[at] for at, value in enumerate(found) if value is None]
        aware = {value.tzinfo is not None for value in found if value is not None}
    if bad:
        row = _first(values, bad)
        raise TableError(f"{message}has {values.levels[int(values.data[row])]!r} in {values.place(row)}.")
    if len(aware) > 1:
        raise TableError(f"{message}has some with a time zone and some without.")
    every = np.full((len(values.levels) + 1, 2), np.nan)
    every[known] = np.array(pairs).reshape(-1, 2)
    dates = with_offsets(every[values.data], True in aware, values.type_name)
    kind = "date" if not clock else "time" if column.form == DURATIONS else "clock"
    return Values(kind, dates.data, wall=dates.wall, zone=dates.zone, place=values.place)


def _dates(texts: Sequence[str], form: str | None) -> list[Any]:
    """Dates by a format, or else as ISO 8601."""
    found, fits = read_dates(texts, form or ISO)
    if not fits and form is not None:
        other, fits = read_dates(texts, ISO)
        found = other if fits else found
    return found


def level_values(column: Column, values: Values) -> Values:
    """A column of texts, or of truth values as "false" and "true"; texts that mean a missing value are missing."""
    if column.kind == "bool" and values.kind == "number":
        values = Values("bool", values.data, place=values.place)
    values = values.texts()
    lower = bool({"false", "true"} & set(column.levels)) and set(column.levels) <= {"false", "true", GAP, OTHER}
    lower |= column.form == FOLDED
    names = [text.strip().lower() if lower else text.strip() for text in values.levels]
    gaps = np.array([is_code(text, LEVEL_CODES) and text not in column.levels for text in names] + [True])
    data = np.where(gaps[values.data], -1, values.data)
    places = {name: at for at, name in enumerate(dict.fromkeys(names))}  # two texts may differ in blanks alone
    data = np.array([*(places[name] for name in names), -1])[data]
    return Values("text", data, tuple(places), values.ordered, place=values.place)


def _plain(level: str) -> str:
    """A level without leading zeros or a fraction of zero, if it is a number; "" if it is none."""
    return f"{float(level):.15g}" if is_number(level) else ""


def _by_number(levels: Sequence[str]) -> dict[str, int]:
    """The places of levels by the numbers that they are: new rows may have 00104 or 104.0 for 104."""
    plain = [_plain(level) for level in levels]
    return {number: at for at, number in enumerate(plain) if number and plain.count(number) == 1}


def _folded(levels: Sequence[str]) -> dict[str, int]:
    """The places of levels by their lower-case letters, as far as these are of one level: new rows may have f for F."""
    lower = [level.lower() for level in levels]
    return {level: at for at, level in enumerate(lower) if lower.count(level) == 1}


def _encode_levels(column: Column, values: Values) -> Coded:
    """A column with levels as numbers."""
    places = {level: at for at, level in enumerate(column.levels)}
    other, by_number, by_letters = places.get(column.other or "", -1), _by_number(column.levels), _folded(column.levels)
    found = [
        places.get(level, by_letters.get(level.lower(), by_number.get(_plain(level), -1))) for level in values.levels
    ]
    code = np.array([*found, -1])[values.data]
    gaps, strange = values.data < 0, (values.data >= 0) & (code < 0)
    counts = np.bincount(values.data[strange], minlength=len(values.levels)) if strange.any() else np.zeros(0, int)
    rare = set(column.rare)
    seldom = {values.levels[at]: int(counts[at]) for at in np.flatnonzero(counts).tolist()}
    unknown = {level: count for level, count in seldom.items() if level not in rare}
    unseen = np.where(strange & ~np.isin(values.data, [*map(values.levels.index, rare & set(seldom))]), values.data, -1)
    code = np.where(strange, other, code)
    if column.kind in CATEGORICAL:
        X: Floats = np.zeros((len(code), len(column.levels)))
        if isinstance(column.fill, str):
            code = np.where(gaps, places.get(column.fill, -1), code)
        else:
            X[gaps] = np.nan
        seen = np.flatnonzero(code >= 0)
        X[seen, code[seen]] = 1.0
    elif column.kind == "ordered":
        ranks = np.where(code >= 0, code, (len(column.levels) - 1) / 2)
        X = _filled(np.where(gaps, np.nan, ranks), column)[:, None]
    elif column.kind == "points":
        code = np.where(gaps, places.get(GAP, -1), code)
        X = np.where((gaps & (code < 0))[:, None], np.nan, level_points(len(column.levels))[code])
    else:
        if GAP in places:
            code = np.where(gaps, places[GAP], code)
        means = np.array(column.means)[code]  # the last of them for a code of -1
        X = _filled(np.where(gaps & (code < 0), np.nan, means), column)[:, None]
    if column.indicator:
        X = np.column_stack([X, gaps])
    return Coded(X, int(gaps.sum()), unknown, unseen if unknown else NONE)


def known_levels(column: Column) -> Floats:
    """The levels of a column in the training data as inputs, at most `MOST_KNOWN` of them; of shape (levels, inputs).

    Of more levels, they are spread evenly over all of them.
    """
    known = [at for at, level in enumerate(column.levels) if level not in (GAP, OTHER)]
    if column.kind == "means":
        known.sort(key=lambda at: column.means[at])
    if len(known) > MOST_KNOWN:
        known = [known[int((at + 0.5) * len(known) / MOST_KNOWN)] for at in range(MOST_KNOWN)]
    if column.kind in CATEGORICAL:
        found: Floats = np.eye(len(column.levels))[known]
    elif column.kind == "points":
        found = level_points(len(column.levels))[known]
    else:
        found = np.array([at if column.kind == "ordered" else column.means[at] for at in known], float).reshape(-1, 1)
    return np.column_stack([found, np.zeros(len(known))]) if column.indicator else found


def _times(column: Column, values: Values, source: str) -> tuple[Floats, Array]:
    """Dates or times as inputs, and which are missing."""
    found = date_values(values, column, source)
    days: Floats = np.asarray(found.data, dtype=np.float64)
    gaps = np.isnan(days)
    wall = days if found.wall is None else found.wall
    if column.kind == "date" and column.parts:
        if column.zone is not None and found.zone is None and not gaps.all():
            raise TableError(f"{source}: column {column.name!r} must hold dates with a time zone, as the model's do.")
        if column.zone not in (None, OFFSETS, found.zone):
            wall = in_zone(days, str(column.zone))
        elif column.zone is None and found.zone is not None:
            wall = days
    days, wall = _filled(days, column), _filled(wall, column)
    whole = [] if column.kind == "time" and column.parts else [days[:, None]]
    return np.concatenate([*whole, *(circle(wall, part) for part in column.parts)], axis=1), gaps


def _places(column: Column, get: Lookup, source: str) -> tuple[Floats, Array]:
    """Latitudes and longitudes as inputs, and which are missing; a missing place is at the centre."""
    both: list[Floats] = []
    for name, most in zip(column.sources, (90.0, 360.0), strict=True):
        values = get(name)
        found = number_values(values, Column(name, "number", form=column.form), source)
        far = np.flatnonzero(np.abs(found) > most)
        if len(far):
            raise TableError(
                f"{source}: column {name!r} has {found[far[0]]:g} in {values.place(int(far[0]))}, which is no "
                f"{'latitude' if most == 90 else 'longitude'} in degrees."
            )
        both.append(found)
    gaps = np.isnan(both[0]) | np.isnan(both[1])
    if column.fill is not None:
        both = [np.where(gaps, origin, part) for origin, part in zip(column.centre, both, strict=True)]
    return place(both[0], both[1], (column.centre[0], column.centre[1]), column.parts), gaps


def _filled(data: Floats, column: Column) -> Floats:
    """Numbers with the column's fill in place of missing ones."""
    return data if column.fill is None else np.where(np.isnan(data), float(column.fill), data)


def _first(values: Values, levels: Sequence[int]) -> int:
    """The first row that has one of some levels."""
    return int(np.flatnonzero(np.isin(values.data, levels))[0])
