"""The values of one column as NumPy arrays, whichever frame or file they come from.

pandas, polars and pyarrow differ in types and in how they mark missing values. narwhals hides most of that; everything
that examines or encodes columns sees a `Values` alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from numbers import Real
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from ..core.optional import require
from ..core.types import Array, Floats
from .base import Table, TableError

DAY = 86_400_000_000  # microseconds of a day
QUARTER = 900_000_000  # microseconds of 15 minutes: the offsets of time zones change at multiples of these
EPOCH = dt.datetime(1970, 1, 1)
CODES = frozenset(
    ["", "na", "n/a", "#n/a", "nan", "-nan", "null", "nil", "-", "--", "?", ".", "*", "..", "...", "none"]
)
CODES |= {"missing", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "not available", "no data", "n.a.", "<na>"}
CODES |= {"unknown", "not known", "not reported", "not applicable", "n.d.", "n/d", "nd", "tba", "tbd", "0000-00-00"}
"""Texts, in lower case, that mean a missing value where numbers or dates are expected."""
GROUPED = r"^\s*[-+]?[1-9]\d{0,2}(\.\d{3})+\s*$"
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
    place: Callable[[int], str] = field(default=lambda row: f"row {row}", compare=False)
    """The name of a row in messages."""

    def __len__(self) -> int:
        return len(self.data)

    @property
    def missing(self) -> Array:
        """Whether each value is missing; of shape (n,)."""
        return np.asarray(self.data < 0 if self.kind == "text" else np.isnan(self.data))

    def take(self, rows: Array) -> Values:
        """The values of some rows; messages name rows of the whole."""
        where = self.place
        return replace(
            self,
            data=self.data[rows],
            wall=None if self.wall is None else self.wall[rows],
            place=lambda row: where(int(rows[row])),
        )

    def texts(self) -> Values:
        """The values as texts: truth values as "false" and "true", whole numbers without a decimal point."""
        if self.kind == "text":
            return self
        codes = np.full(len(self), -1)
        known = np.flatnonzero(~np.isnan(self.data))
        found, codes[known] = np.unique(self.data[known], return_inverse=True)
        names = [("true" if value else "false") if self.kind == "bool" else f"{value:.15g}" for value in found.tolist()]
        return replace(self, kind="text", data=codes, levels=tuple(names), wall=None)

    def used(self) -> Array:
        """How often each level occurs; of shape (levels,)."""
        return np.bincount(self.data[self.data >= 0], minlength=len(self.levels))


def is_frame(X: Any) -> bool:
    """Whether X is a data frame, whose columns have names: of pandas, polars or pyarrow."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__") and not hasattr(X, "__dask_graph__")


def frame_names(X: Any) -> list[str]:
    """The names of a frame's columns."""
    return [str(name) for name in getattr(X, "column_names", X.columns)]


def frame_column(X: Any, place: int) -> Values:
    """A column of a frame, by its place."""
    import narwhals as nw

    return values_of(nw.from_native(X, eager_only=True)[:, place])


def table_column(table: Table, name: str, plain: bool | None = None) -> Values:
    """A column of a table that was read from a file.

    Texts that are all numbers, but for those that mean a missing value, are numbers if `plain` is true; unless it is
    given, the table knows.
    """
    import narwhals as nw

    column = table.data[name]
    plain = (table.plain and not (table.prefer == "," and _is_grouped(column))) if plain is None else plain
    numbers = _plain_numbers(column) if plain else None
    found = values_of(nw.from_native(column, series_only=True)) if numbers is None else numbers
    return replace(found, place=table.place)


def _is_grouped(column: Any) -> bool:
    """Whether some texts of Arrow's are numbers in which points may separate thousands."""
    compute = require("pyarrow.compute", "cli")
    is_text = str(column.type) == "string"
    return is_text and bool(compute.any(compute.match_substring_regex(column, GROUPED)).as_py())


def _plain_numbers(column: Any) -> Values | None:
    """Texts of Arrow's as the numbers that they are; None if some are not."""
    arrow, compute = require("pyarrow", "cli"), require("pyarrow.compute", "cli")
    if not arrow.types.is_string(column.type):
        return None
    text = compute.utf8_trim_whitespace(column)
    for is_first in (True, False):  # most columns miss nothing
        try:
            if not is_first:
                codes = compute.is_in(compute.utf8_lower(text), value_set=arrow.array(sorted(CODES)))
                text = compute.if_else(codes, None, text)
            return _numbers(text.cast(arrow.float64()).to_numpy(), "number", "text")
        except arrow.ArrowInvalid:
            continue
    return None


def values_of(series: Any) -> Values:
    """A series of narwhals."""
    import narwhals as nw

    dtype, native = series.dtype, series.to_native()
    name = str(getattr(native, "type", None) or getattr(native, "dtype", dtype))
    if dtype.is_decimal():
        series = series.cast(nw.Float64)
    if name in ("string", "large_string") and hasattr(native, "combine_chunks"):  # of Arrow
        coded = native.combine_chunks().dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return _texts(codes, coded.dictionary.to_pylist(), name)
    array = np.asarray(series.to_numpy())
    kind = array.dtype.kind
    if isinstance(dtype, nw.Datetime) and dtype.time_zone is not None:
        wall = _days(series.dt.replace_time_zone(None).to_numpy())
        return Values("date", _days(array), wall=wall, zone=dtype.time_zone, type_name=name)
    if kind in "biuf":
        return _numbers(array.astype(np.float64), "bool" if kind == "b" else "number", name)
    if kind == "M":
        return Values("date", _days(array), type_name=name)
    if kind == "m":
        return Values("time", np.where(np.isnat(array), np.nan, array / np.timedelta64(1, "us") / DAY), type_name=name)
    if isinstance(dtype, nw.Enum):
        return replace(_of_objects(array, name, [str(level) for level in dtype.categories]), ordered=True)
    if isinstance(dtype, nw.Categorical):
        ordered = bool(getattr(getattr(native, "type", None), "ordered", False))
        levels = list(map(str, native.combine_chunks().dictionary.to_pylist())) if ordered else []
        return replace(_of_objects(np.array(series.to_list(), dtype=object), name, levels), ordered=ordered)
    return _of_objects(array.astype(object), name)


def _of_objects(array: Array, name: str, levels: list[str] | None = None) -> Values:
    """Python objects, with None, NaN, NaT and pandas' NA as missing values; with levels, texts."""
    values = [None if _is_missing(value) else value for value in array.tolist()]
    kinds = {_kind(value) for value in values if value is not None}
    gaps = np.full(len(values), np.nan)
    if not kinds:
        return Values("empty", gaps, type_name=name)
    if "other" in kinds:
        wrong = next(value for value in values if value is not None and _kind(value) == "other")
        return Values("other", gaps, type_name=type(wrong).__name__)
    if levels is not None or "text" in kinds or len(kinds - {"bool"}) > 1:
        places = {level: place for place, level in enumerate(levels or [])}
        codes = [-1 if value is None else places.setdefault(str(value), len(places)) for value in values]
        return _texts(np.array(codes, dtype=np.int64), list(places), name)
    kind = (kinds - {"bool"} or kinds).pop()
    if kind in ("number", "bool"):
        return _numbers(np.array([np.nan if value is None else float(value) for value in values]), kind, name)
    if kind == "date":
        return _of_dates(values, name)
    midnight = dt.datetime.combine(EPOCH, dt.time())
    spans = [dt.datetime.combine(EPOCH, value) - midnight if isinstance(value, dt.time) else value for value in values]
    days = [np.nan if value is None else value / dt.timedelta(days=1) for value in spans]
    return Values(kind, np.array(days, dtype=np.float64), type_name=name)


def _of_dates(values: Sequence[Any], name: str) -> Values:
    """Dates of Python's, with time zones or without."""
    moments = [None if value is None else moment(value) for value in values]
    aware = {value.tzinfo is not None for value in moments if value is not None}
    if len(aware) > 1:
        return Values("other", np.full(len(values), np.nan), type_name="dates with a time zone and dates without one")
    return with_offsets([days_of(value) for value in moments], True in aware, name)


def with_offsets(pairs: Iterable[tuple[float, float]], aware: bool, name: str = "") -> Values:
    """Dates given as days in UTC and days by the clock."""
    both = np.array(list(pairs), dtype=np.float64).reshape(-1, 2)
    if not aware:
        return Values("date", both[:, 0], type_name=name)
    return Values("date", both[:, 0], wall=both[:, 1], zone=OFFSETS, type_name=name)


def moment(value: dt.date) -> dt.datetime:
    """A date as a date with a time."""
    return value if isinstance(value, dt.datetime) else dt.datetime(value.year, value.month, value.day)


def days_of(value: dt.datetime | None) -> tuple[float, float]:
    """Days since 1970 in UTC, and by the clock of the value's own time zone; NaN for None."""
    if value is None:
        return np.nan, np.nan
    wall = (value.replace(tzinfo=None) - EPOCH) / dt.timedelta(days=1)
    offset = value.utcoffset()
    return wall if offset is None else wall - offset / dt.timedelta(days=1), wall


def in_zone(days: Floats, zone: str) -> Floats:
    """Days in UTC as days by the clock of a time zone. O(quarters of an hour that occur)."""
    ticks = np.where(np.isnan(days), 0, days) * DAY
    quarter, inverse = np.unique(np.floor(ticks / QUARTER), return_inverse=True)
    try:
        clock = ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise TableError(f"the time zone {zone!r} is not known on this machine; pip install tzdata.") from None
    utc = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    shifts = [
        clock.utcoffset((utc + dt.timedelta(microseconds=part * QUARTER)).astimezone(clock))
        for part in quarter.tolist()
    ]
    offset = np.array([0.0 if shift is None else shift / dt.timedelta(days=1) for shift in shifts])
    return np.asarray(days + offset[inverse])


def _kind(value: Any) -> str:
    """The kind of one Python object that is not missing."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, Real | Decimal):
        return "number"
    if isinstance(value, dt.date):
        return "date"
    if isinstance(value, dt.time):
        return "clock"
    return "time" if isinstance(value, dt.timedelta) else "other"


def _is_missing(value: Any) -> bool:
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )


def _numbers(data: Floats, kind: str, name: str) -> Values:
    if len(data) and np.isnan(data).all():
        kind = "empty"
    return Values(kind, data, type_name=name)


def _texts(codes: Array, levels: list[str], name: str) -> Values:
    if len(codes) and (codes < 0).all():
        return Values("empty", np.full(len(codes), np.nan), type_name=name)
    return Values("text", codes, tuple(levels), type_name=name)


def _days(array: Array) -> Floats:
    """NumPy's dates as days since 1970, NaN where they are missing."""
    ticks = array.astype("datetime64[us]")
    return np.where(np.isnat(ticks), np.nan, ticks.astype(np.int64) / DAY)
