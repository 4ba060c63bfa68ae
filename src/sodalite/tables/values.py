"""The values of one column as NumPy arrays, whichever frame or file they come from.

Every column passes through Arrow, which hides how pandas, polars and files differ in types and in missing values.
What examines or encodes columns sees a `Values` alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from ..core.optional import require
from ..core.types import Array, Floats
from ..exceptions import TableError
from .base import MISSING_TEXTS, Table, as_code, is_code, is_number

DAY = 86_400_000_000  # microseconds of a day
LEVEL_CODES = frozenset(["", "na", "n/a", "#n/a", "nan", "null", "?", "<na>", "n.a."])
"""Texts, in lower case, that mean a missing value in a column of texts; others may be levels, such as "none"."""
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
    """The different texts."""
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
    """For numbers of a file of text, the texts, as an array of Arrow's."""

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

    def texts(self, as_written: bool = True) -> Values:
        """The values as texts: truth values as "false" and "true", whole numbers without a decimal point.

        Numbers of a file are as they are written there, unless `as_written` is false.
        """
        if self.kind == "text":
            return self
        if self.written is not None and as_written:
            return replace(_texts(self.written, self.type_name), place=self.place)
        codes = np.full(len(self), -1)
        numbers, codes[~self.missing] = np.unique(self.known, return_inverse=True)
        is_truth = self.kind == "bool"
        levels = tuple(str(bool(value)).lower() if is_truth else f"{value:.15g}" for value in numbers.tolist())
        return replace(self, kind="text", data=codes, levels=levels, wall=None, written=None)

    def counts(self) -> Array:
        """How often each level occurs; of shape (levels,)."""
        return np.bincount(self.data[self.data >= 0], minlength=len(self.levels))

    def used_texts(self) -> list[str]:
        """The different texts that occur, without codes for missing values."""
        counts = self.counts().tolist()
        return [text for text, count in zip(self.levels, counts, strict=True) if count and not is_code(text)]

    def blanked(self, codes: Sequence[str] = ()) -> Values:
        """The values with the usual texts for missing values, and some codes of the user's, as missing ones."""
        if self.kind == "text":
            tests = [as_code(code) for code in codes]
            gaps = [is_code(text, LEVEL_CODES) or any(test(text) for test in tests) for text in self.levels]
            found = replace(self, data=np.where(np.array([*gaps, True])[self.data], -1, self.data))
        else:
            numbers = [float(code) for code in codes if is_number(code)]
            if self.kind != "number" or not numbers:
                return self
            found = replace(self, data=np.where(np.isin(self.data, numbers), np.nan, self.data), written=None)
        return found if not len(found) or not found.missing.all() else _empty(len(found), self.place)

    def first_place(self, levels: Sequence[int]) -> str:
        """The name of the first row that has one of some levels, given by their places."""
        return self.place(int(np.flatnonzero(np.isin(self.data, levels))[0]))

    def by_level(self, numbers: Floats, message: Callable[[str, int], str]) -> Floats:
        """The number of each row, of shape (n,), by those of the levels; NaN where missing.

        Parameters
        ----------
        numbers : array of shape (levels,)
            NaN for a level that cannot be read, which is refused if it occurs and does not mean a missing value.
        message : callable
            A function of the first such value with its place, and of the count of further ones: the error's message.
        """
        unread = np.flatnonzero(np.isnan(numbers) & (self.counts() > 0)).tolist()
        wrong = [at for at in unread if not is_code(self.levels[at])]
        if wrong:
            rows = np.flatnonzero(np.isin(self.data, wrong))
            shown = f"{self.levels[int(self.data[rows[0]])]!r} in {self.place(int(rows[0]))}"
            raise TableError(message(shown, len(rows) - 1))
        return np.asarray(np.append(numbers, np.nan)[self.data])


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
        values = [None if _is_missing(value) else value for value in series.to_list()]
        other = [value for value in values if not isinstance(value, str | Real | Decimal | dt.date | dt.time | None)]
        if other:
            return Values("other", np.full(len(values), np.nan), type_name=type(other[0]).__name__)
        column = arrow.array([None if value is None else str(value) for value in values])
    found = values_of(column)
    return replace(found, ordered=found.ordered or isinstance(series.dtype, nw.Enum))


def _is_missing(value: Any) -> bool:
    """Whether a Python object is None, or NaN, NaT or NA of pandas."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def table_column(table: Table, name: str) -> Values:
    """A column of a file: texts that are all numbers, but for codes of missing values, are numbers.

    Not so if other marks were given for the file, or if its decimal mark is a comma and there are points in the column
    that may separate thousands.
    """
    arrow, compute = require("pyarrow", "cli"), require("pyarrow.compute", "cli")
    column, reader = table.data[name], table.reader
    values = None
    if arrow.types.is_string(column.type) and reader.plain:
        is_grouped = reader.prefer == "," and compute.any(compute.match_substring_regex(column, GROUPED)).as_py()
        values = None if is_grouped else _plain_numbers(column)
    return replace(values_of(column) if values is None else values, place=table.place)


def _plain_numbers(column: Any) -> Values | None:
    """Texts of Arrow's as the numbers that they are; None if some are not."""
    arrow, compute = require("pyarrow", "cli"), require("pyarrow.compute", "cli")
    text = compute.utf8_trim_whitespace(column)
    for with_gaps in (False, True):  # most columns miss nothing
        try:
            if with_gaps:
                is_gap = compute.is_in(compute.utf8_lower(text), value_set=arrow.array(sorted(MISSING_TEXTS)))
                text = compute.if_else(is_gap, None, text)
            return replace(_numbers(text.cast(arrow.float64()).to_numpy(), "number", "text"), written=column)
        except arrow.ArrowInvalid:
            continue
    return None


def values_of(column: Any) -> Values:
    """The values of an array of Arrow's."""
    arrow, compute = require("pyarrow", "cli"), require("pyarrow.compute", "cli")
    types, kind, name = arrow.types, column.type, str(column.type)
    if types.is_dictionary(kind):
        return _texts(column, name, bool(kind.ordered))
    if types.is_string(kind) or types.is_large_string(kind) or name == "string_view":
        return _texts(column, name)
    if types.is_boolean(kind):
        return _numbers(column.to_numpy(zero_copy_only=False), "bool", name)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind):
        return _numbers(column.to_numpy(zero_copy_only=False), "number", name)
    if types.is_date(kind) or types.is_timestamp(kind):
        zone = getattr(kind, "tz", None)
        ticks = column.cast(arrow.timestamp("us", zone), safe=False)
        wall = None if zone is None else _days(compute.local_timestamp(ticks))
        return Values("date", _days(ticks), wall=wall, zone=zone, type_name=name)
    if types.is_time(kind):
        return Values("clock", _days(column.cast(arrow.time64("us"), safe=False)), type_name=name)
    if types.is_duration(kind):
        return Values("time", _days(column.cast(arrow.duration("us"), safe=False)), type_name=name)
    return Values("other", np.full(len(column), np.nan), type_name=name)


def _numbers(data: Array, kind: str, name: str) -> Values:
    numbers = np.asarray(data, dtype=np.float64)
    is_empty = len(numbers) and np.isnan(numbers).all()
    return Values("empty" if is_empty else kind, numbers, type_name=name)


def _texts(column: Any, name: str, ordered: bool = False) -> Values:
    """Texts of Arrow's by their different values."""
    arrow = require("pyarrow", "cli")
    whole = column.combine_chunks() if isinstance(column, arrow.ChunkedArray) else column
    coded = whole if arrow.types.is_dictionary(whole.type) else whole.dictionary_encode()
    codes = coded.indices.cast(arrow.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    if len(codes) and (codes < 0).all():
        return replace(_empty(len(codes)), type_name=name)
    return Values("text", codes, tuple(map(str, coded.dictionary.to_pylist())), ordered, type_name=name)


def _empty(n: int, place: Callable[[int], str] = "row {}".format) -> Values:
    return Values("empty", np.full(n, np.nan), place=place)


def _days(column: Any) -> Floats:
    """Microseconds of Arrow's, of any type, as days; NaN where missing."""
    arrow = require("pyarrow", "cli")
    ticks = column.cast(arrow.int64()).to_numpy(zero_copy_only=False)
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


class Part(NamedTuple):
    """One part of each of some texts."""

    codes: Array
    """Which of the different parts each text has, of shape (n,)."""
    each: list[str]
    """The different parts; an empty one for texts that have none."""

    def map(self, function: Callable[[str], Any]) -> Array:
        """What a function returns for the part of each text, of shape (n,)."""
        return np.array([function(part) for part in self.each])[self.codes]

    def among(self, which: Array) -> set[str]:
        """The different parts of some texts."""
        return {self.each[at] for at in np.unique(self.codes[which])}


@lru_cache(maxsize=4)  # several transformers ask about the same texts
def parts_of(texts: tuple[str, ...], pattern: str) -> dict[str, Part]:
    """The named groups of a pattern, of Arrow's regular expressions, in texts without blanks around them."""
    arrow, compute = require("pyarrow", "cli"), require("pyarrow.compute", "cli")
    found = compute.extract_regex(compute.utf8_trim_whitespace(arrow.array(texts, arrow.string())), pattern)
    parts = {}
    for group in found.type:
        coded = compute.struct_field(found, group.name).fill_null("").dictionary_encode()
        parts[group.name] = Part(coded.indices.to_numpy(), coded.dictionary.to_pylist())
    return parts
