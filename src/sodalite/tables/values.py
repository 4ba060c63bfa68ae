"""The values of one column as NumPy arrays, whichever frame or file they come from.

Every column passes through Arrow, which hides how pandas, polars and files differ in types and in missing values. What
reads or encodes columns sees a `Values` alone: numbers, or the different texts and which of them each row has.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any

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
ROW = "row {}".format


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
    place: Callable[[int], str] = field(default=ROW, compare=False)
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

    def counts(self) -> Array:
        """How often each level occurs; of shape (levels,)."""
        return np.bincount(self.data[self.data >= 0], minlength=len(self.levels))

    def frequent(self) -> list[str]:
        """The levels that occur, those with most rows first."""
        counts = self.counts()
        return [self.levels[at] for at in np.argsort(-counts, kind="stable").tolist() if counts[at]]

    @cached_property
    def used_texts(self) -> tuple[str, ...]:
        """The different texts that occur, without codes for missing values."""
        some = zip(self.levels, (self.counts() > 0).tolist(), strict=True)
        texts = tuple(text for text, is_used in some if is_used and not is_code(text))
        return self.levels if len(texts) == len(self.levels) else texts

    def blanked(self, codes: Sequence[str] = ()) -> Values:
        """The values with the usual texts for missing values, and some codes of the user's, as missing ones."""
        if self.kind == "text":
            gaps = [is_code(text, LEVEL_CODES) for text in self.levels]
            for is_equal in map(as_code, codes):
                gaps = [is_gap or is_equal(text) for is_gap, text in zip(gaps, self.levels, strict=True)]
            blanked = replace(self, data=np.where(np.array([*gaps, True])[self.data], -1, self.data))
        else:
            numbers = [float(code) for code in codes if is_number(code)]
            if self.kind != "number" or not numbers:
                return self
            blanked = replace(self, data=np.where(np.isin(self.data, numbers), np.nan, self.data), written=None)
        return blanked if not len(self) or not blanked.missing.all() else _empty(len(self), self.place)

    def first_place(self, level: str) -> str:
        """The name of the first row that has a level."""
        return self.place(int(np.flatnonzero(self.data == self.levels.index(level))[0]))

    def by_level(self, numbers: Floats) -> Floats:
        """What each row has of numbers of the levels, of shape (levels, ...); NaN where missing."""
        return np.asarray(np.concatenate([numbers, np.full((1, *numbers.shape[1:]), np.nan)])[self.data])

    def unread(self, numbers: Floats) -> tuple[str, int] | None:
        """The first value for whose level there is no number, with its place, and how many more there are.

        Codes for missing values need none.
        """
        wrong = [at for at in np.flatnonzero(np.isnan(numbers)).tolist() if not is_code(self.levels[at])]
        rows = np.flatnonzero(np.isin(self.data, wrong)).tolist()
        if not rows:
            return None
        return f"{self.levels[int(self.data[rows[0]])]!r} in {self.place(int(rows[0]))}", len(rows) - 1


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
    """A column of a file: texts that all are numbers, but for codes of missing values, are numbers.

    Not so if other marks were given for the file, or if its decimal mark is a comma and there are points in the column
    that may separate thousands.
    """
    arrow, compute = require("pyarrow", "cli"), require("pyarrow.compute", "cli")
    column, reader, values = table.data[name], table.reader, None
    if arrow.types.is_string(column.type) and reader.plain:
        is_grouped = reader.prefer == "," and compute.any(compute.match_substring_regex(column, GROUPED)).as_py()
        values = None if is_grouped else _cast(column, arrow.float64())
    return replace(values or values_of(column), place=table.place)


def _cast(column: Any, kind: Any) -> Values | None:
    """Texts of Arrow's that all are of a kind, but for codes of missing values, as Arrow reads them; None of others."""
    arrow, compute = require("pyarrow", "cli"), require("pyarrow.compute", "cli")
    text = compute.utf8_trim_whitespace(column)
    is_gap = compute.is_in(compute.utf8_lower(text), value_set=arrow.array(sorted(MISSING_TEXTS), text.type))
    try:
        values = values_of(compute.if_else(is_gap, None, text).cast(kind))
    except arrow.ArrowInvalid:
        return None
    is_empty = len(values) and values.missing.all()
    return _empty(len(values)) if is_empty else replace(values, type_name="text", written=column)


def values_of(column: Any) -> Values:
    """The values of an array of Arrow's; texts that all are ISO dates, as Arrow reads them, are dates."""
    arrow, compute = require("pyarrow", "cli"), require("pyarrow.compute", "cli")
    types, kind, name = arrow.types, column.type, str(column.type)
    if types.is_string(kind) or types.is_large_string(kind):
        return _cast(column, arrow.timestamp("us")) or _texts(column, name)
    if types.is_dictionary(kind) or name == "string_view":
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


def _texts(column: Any, name: str) -> Values:
    """Texts of Arrow's, or what a dictionary holds as texts, by their different values."""
    arrow, compute = require("pyarrow", "cli"), require("pyarrow.compute", "cli")
    whole = column.combine_chunks() if isinstance(column, arrow.ChunkedArray) else column
    is_category = arrow.types.is_dictionary(whole.type)
    coded = whole if is_category else compute.utf8_trim_whitespace(whole).dictionary_encode()
    codes = coded.indices.cast(arrow.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    if len(codes) and (codes < 0).all():
        return replace(_empty(len(codes)), type_name=name)
    levels, ordered = coded.dictionary.to_pylist(), bool(is_category and whole.type.ordered)
    values = Values("text", codes, () if is_category else tuple(levels), ordered, type_name=name)
    return values.renamed([str(level).strip() for level in levels]) if is_category else values


def _empty(n: int, place: Callable[[int], str] = ROW) -> Values:
    return Values("empty", np.full(n, np.nan), place=place)


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
