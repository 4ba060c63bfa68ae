"""The values of one column as NumPy arrays, whichever frame or file they come from, and texts taken apart.

Every column passes through Arrow, which hides how pandas, polars and files differ in types and in missing values. What
reads or encodes columns sees a `Values` alone: numbers, or the different texts and which of them each row has. Numbers,
dates, durations and places are taken from texts by patterns, for all texts at once (`parts_of`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property, lru_cache
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

from ..core.optional import require
from ..core.types import Array, Floats
from ..exceptions import TableError
from .base import LEVEL_CODES, MISSING_TEXTS, Table, is_number

DAY = 86_400_000_000  # microseconds of a day
GROUPED = r"^\s*[-+]?[1-9]\d{0,2}(\.\d{3})+\s*$"  # a number in which points may separate thousands
OFFSETS = "offsets"  # the zone of texts that each have an offset from UTC of their own


@dataclass(frozen=True)
class Values:
    """The values of a column."""

    kind: str
    """"number", "bool", "text", "date", "clock" (a time of day), "time" (a duration), "empty" if all are missing, or
    "other"."""
    data: Array
    """Of shape (n,). Numbers, truth values as 0 and 1, or days, NaN where missing; of texts, their places in `levels`,
    -1 where missing."""
    levels: tuple[str, ...] = ()
    """The different texts, without blanks around them."""
    ordered: bool = False
    """Whether the texts are a category whose levels are in order."""
    wall: Floats | None = None
    """For dates with a time zone, the days that a clock in that zone shows; `data` is in UTC."""
    zone: str | None = None
    """The name of the time zone, or `OFFSETS`."""
    type_name: str = ""
    """The type in the frame or file, for messages."""
    place: Callable[[int], str] = field(default="row {}".format, compare=False)
    """The name of a row in messages."""
    written: Any = field(default=None, compare=False, repr=False)
    """For numbers and dates that are texts, these, as an array of Arrow's."""

    def __len__(self) -> int:
        return len(self.data)

    @property
    def missing(self) -> Array:
        """Whether each value is missing; of shape (n,)."""
        return np.asarray(self.data < 0 if self.kind == "text" else np.isnan(self.data))

    @property
    def known(self) -> Floats:
        """The values that are not missing."""
        return np.asarray(self.data[~self.missing])

    def take(self, rows: Array) -> Values:
        """The values of some rows; messages name rows of the whole."""
        wall = None if self.wall is None else self.wall[rows]
        written = None if self.written is None else self.written.take(rows)
        where = self.place
        return replace(self, data=self.data[rows], wall=wall, written=written, place=lambda row: where(int(rows[row])))

    def texts(self, as_written: bool = True, folds: bool = False) -> Values:
        """The values as texts: truth values as "false" and "true", whole numbers without a decimal point.

        Numbers of a file are as they are written there, unless `as_written` is false. With `folds`, all are in lower
        case.
        """
        values = self
        if self.kind != "text" and self.written is not None and as_written:
            values = replace(_texts(self.written, self.type_name), place=self.place).blanked()
        elif self.kind != "text":
            codes = np.full(len(self), -1)
            numbers, codes[~self.missing] = np.unique(self.known, return_inverse=True)
            is_truth = self.kind == "bool"
            levels = tuple(str(bool(value)).lower() if is_truth else f"{value:.15g}" for value in numbers.tolist())
            values = replace(self, kind="text", data=codes, levels=levels, wall=None, written=None)
        return values.renamed([level.lower() for level in values.levels]) if folds else values

    def renamed(self, names: Sequence[str]) -> Values:
        """The texts with other names for the levels; those of one name become one."""
        places = {name: at for at, name in enumerate(dict.fromkeys(names))}
        codes = np.array([*(places[name] for name in names), -1])
        return replace(self, data=codes[self.data], levels=tuple(places))

    def counts(self) -> dict[str, int]:
        """How often each level occurs that does, those with most rows first."""
        counts = np.bincount(self.data[self.data >= 0], minlength=len(self.levels))
        return {self.levels[at]: int(counts[at]) for at in np.argsort(-counts, kind="stable").tolist() if counts[at]}

    @cached_property
    def used_texts(self) -> tuple[str, ...]:
        """The different texts that occur, without codes for missing values."""
        counts = self.counts()
        return tuple(text for text in self.levels if text in counts and text.lower() not in MISSING_TEXTS)

    def blanked(self, codes: Sequence[str] = ()) -> Values:
        """The values with the usual texts for missing values, and some codes of the user's, as missing ones.

        A code is equal to a value as a text or as a number.
        """
        numbers = [float(code) for code in codes if is_number(code) and isfinite(float(code))]
        if self.kind == "text":
            own = {code.strip() for code in codes}
            gaps = [
                text.lower() in LEVEL_CODES or text in own or (is_number(text) and float(text) in numbers)
                for text in self.levels
            ]
            blanked = replace(self, data=np.where(np.array([*gaps, True])[self.data], -1, self.data))
        elif self.kind == "number" and numbers:
            blanked = replace(self, data=np.where(np.isin(self.data, numbers), np.nan, self.data), written=None)
        else:
            return self
        is_empty = len(self) and blanked.missing.all()
        return Values("empty", np.full(len(self), np.nan), place=self.place) if is_empty else blanked

    def first_place(self, level: str) -> str:
        """The name of the first row that has a level."""
        return self.place(int(np.flatnonzero(self.data == self.levels.index(level))[0]))


def is_frame(X: Any) -> bool:
    """Whether X is a data frame, whose columns have names: of pandas, polars or pyarrow."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and not hasattr(X, "__dask_graph__")


def frame_names(X: Any) -> list[str]:
    """The names of a frame's columns."""
    return [str(name) for name in getattr(X, "column_names", X.columns)]


def frame_column(X: Any, place: int) -> Values:
    """A column of a frame, by its place."""
    import narwhals as nw

    arrow, series = require("pyarrow", "parquet"), nw.from_native(X, eager_only=True)[:, place]
    try:
        column = series.to_arrow()
    except (arrow.ArrowException, TypeError, OverflowError):  # Python objects of several types
        cells = [None if cell != cell or str(cell) in ("None", "<NA>", "NaT") else cell for cell in series.to_list()]
        other = [cell for cell in cells if not isinstance(cell, str | Real | Decimal | dt.date | dt.time | None)]
        if other:
            return Values("other", np.full(len(cells), np.nan), type_name=type(other[0]).__name__)
        column = arrow.array([None if cell is None else str(cell) for cell in cells])
    values = values_of(column)
    return replace(values, ordered=values.ordered or isinstance(series.dtype, nw.Enum))


def table_column(table: Table, name: str) -> Values:
    """A column of a file."""
    return replace(values_of(table.data[name], table.reader.plain, table.reader.prefer), place=table.place)


def values_of(column: Any, plain: bool = True, prefer: str = ".") -> Values:
    """The values of an array of Arrow's.

    Texts that all are numbers or ISO dates, but for codes of missing values, are these as Arrow reads them. They are no
    numbers if these are not `plain`, or if the decimal mark is a comma and points may separate thousands.
    """
    arrow, compute = require("pyarrow", "cli"), require("pyarrow.compute", "cli")
    types, kind, name = arrow.types, column.type, str(column.type)
    if types.is_string(kind) or types.is_large_string(kind):
        text = compute.utf8_trim_whitespace(column)
        is_gap = compute.is_in(compute.utf8_lower(text), value_set=arrow.array(sorted(MISSING_TEXTS), text.type))
        is_grouped = prefer == "," and compute.any(compute.match_substring_regex(column, GROUPED)).as_py()
        for other in ([arrow.float64()] if plain and not is_grouped else []) + [arrow.timestamp("us")]:
            try:
                values = values_of(compute.if_else(is_gap, None, text).cast(other))
            except arrow.ArrowInvalid:
                continue
            return replace(values, type_name="text", written=None if values.kind == "empty" else column)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind) or name == "string_view":
        return _texts(column, name)
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind)
    data: Floats
    wall = zone = None
    if is_number or types.is_boolean(kind):
        what = "number" if is_number else "bool"
        data = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    elif types.is_date(kind) or types.is_timestamp(kind):
        what, zone = "date", getattr(kind, "tz", None)
        ticks = column.cast(arrow.timestamp("us", zone), safe=False)
        data, wall = _days(ticks), None if zone is None else _days(compute.local_timestamp(ticks))
    elif types.is_time(kind):
        what, data = "clock", _days(column.cast(arrow.time64("us"), safe=False))
    elif types.is_duration(kind):
        what, data = "time", _days(column.cast(arrow.duration("us"), safe=False))
    else:
        return Values("other", np.full(len(column), np.nan), type_name=name)
    is_empty = len(data) and np.isnan(data).all()
    return Values("empty" if is_empty else what, data, wall=wall, zone=zone, type_name=name)


def _texts(column: Any, name: str) -> Values:
    """Texts of Arrow's, or what a dictionary holds as texts, by their different values."""
    arrow, compute = require("pyarrow", "cli"), require("pyarrow.compute", "cli")
    whole = column.combine_chunks() if isinstance(column, arrow.ChunkedArray) else column
    is_category = arrow.types.is_dictionary(whole.type)
    coded = whole if is_category else compute.utf8_trim_whitespace(whole).dictionary_encode()
    codes = coded.indices.cast(arrow.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    if len(codes) and (codes < 0).all():
        return Values("empty", np.full(len(codes), np.nan), type_name=name)
    ordered = bool(is_category and whole.type.ordered)
    levels = [str(level).strip() for level in coded.dictionary.to_pylist()]
    return Values("text", codes, tuple(map(str, range(len(levels)))), ordered, type_name=name).renamed(levels)


def _days(column: Any) -> Floats:
    """Microseconds of Arrow's, of any type, as days; NaN where missing."""
    ticks = column.cast(require("pyarrow", "cli").int64()).to_numpy(zero_copy_only=False)
    return np.asarray(ticks, dtype=np.float64) / DAY


def in_zone(days: Floats, zone: str) -> Floats:
    """Days in UTC as days by the clock of a time zone."""
    arrow, compute = require("pyarrow", "cli"), require("pyarrow.compute", "cli")
    ticks = arrow.array(np.round(np.where(np.isnan(days), 0, days) * DAY).astype(np.int64))
    try:
        wall = _days(compute.local_timestamp(ticks.cast(arrow.timestamp("us", zone))))
    except arrow.ArrowInvalid:
        raise TableError(f"the time zone {zone!r} is not known on this machine; pip install tzdata.") from None
    return np.where(np.isnan(days), np.nan, wall)


@dataclass(frozen=True)
class Part:
    """One part of each of some texts."""

    codes: Array
    """Which of the different parts each text has, of shape (n,)."""
    each: list[str]
    """The different parts; an empty one for texts that have none."""

    def map(self, function: Callable[[str], Any]) -> Array:
        """What a function returns for the part of each text, of shape (n,)."""
        return np.array([function(part) for part in self.each])[self.codes]


@dataclass(frozen=True)
class Parts:
    """The named groups of a pattern in some texts."""

    match: Array
    """Whether each text matches; of shape (n,)."""
    parts: dict[str, Part]

    def __getitem__(self, name: str) -> Part:
        return self.parts[name]

    def number(self, name: str) -> Floats:
        """The number in a group, 0 where it is empty, or in none of the pattern's; of shape (n,)."""
        if name not in self.parts:
            return np.zeros(len(self.match))
        return np.asarray(self[name].map(lambda text: float(text.replace(",", ".") or 0)) + 0.0)


@lru_cache(maxsize=6)  # several transformers ask about the same texts, and encoding asks again
def parts_of(texts: tuple[str, ...], pattern: str) -> Parts:
    """The named groups of a pattern, of Arrow's regular expressions, which must match the whole of each text."""
    arrow, compute = require("pyarrow", "cli"), require("pyarrow.compute", "cli")
    groups = compute.extract_regex(compute.utf8_trim_whitespace(arrow.array(texts, arrow.string())), f"^(?:{pattern})$")
    parts = {}
    for group in groups.type:
        coded = compute.struct_field(groups, group.name).fill_null("").dictionary_encode()
        parts[group.name] = Part(coded.indices.to_numpy(), coded.dictionary.to_pylist())
    return Parts(groups.is_valid().to_numpy(zero_copy_only=False), parts)
