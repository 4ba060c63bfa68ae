"""The values of one column as NumPy arrays, whichever frame or file they come from.

pandas, polars, pyarrow and NumPy differ in types and in how they mark missing values. Everything that examines or
encodes columns sees a `Values` alone, so none of these libraries is needed unless its frames are given.
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
    if hasattr(X, "column_names"):
        return of_arrow(X.column(place))
    return of_series(X.iloc[:, place] if hasattr(X, "iloc") else X[X.columns[place]])


def table_column(table: Table, name: str) -> Values:
    """A column of a table that was read from a file."""
    return replace(of_arrow(table.data[name]), place=table.place)


# Arrow


def of_arrow(data: Any) -> Values:
    """A pyarrow array or chunked array."""
    pa, compute = require("pyarrow", "cli"), require("pyarrow.compute", "cli")
    kind, types = data.type, pa.types
    name = str(kind)
    if types.is_dictionary(kind):
        if not (kind.ordered and _is_string(kind.value_type)):
            return of_arrow(data.cast(kind.value_type))
        whole = _whole(data.unify_dictionaries() if isinstance(data, pa.ChunkedArray) else data)
        codes = whole.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return replace(_texts(codes, whole.dictionary.to_pylist(), name), ordered=True)
    if types.is_null(kind):
        return Values("empty", np.full(len(data), np.nan), type_name=name)
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        numbers = np.asarray(data.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
        return _numbers(numbers, "bool" if types.is_boolean(kind) else "number", name)
    if _is_string(kind):
        coded = _whole(data.cast(pa.string())).dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return _texts(codes, coded.dictionary.to_pylist(), name)
    if types.is_date(kind) or types.is_timestamp(kind):
        zone = getattr(kind, "tz", None)
        days = _ticks(data, pa.timestamp("us", zone))
        wall = None if zone is None else _ticks(compute.local_timestamp(data), pa.timestamp("us"))
        return Values("date", days, wall=wall, zone=zone, type_name=name)
    if types.is_time(kind) or types.is_duration(kind):
        clock = types.is_time(kind)
        days = _ticks(data, pa.time64("us") if clock else pa.duration("us"))
        return Values("clock" if clock else "time", days, type_name=name)
    return Values("other", np.full(len(data), np.nan), type_name=name)


def _whole(data: Any) -> Any:
    """A chunked array as one array."""
    pa = require("pyarrow", "cli")
    if not isinstance(data, pa.ChunkedArray):
        return data
    return (
        data.chunk(0)
        if data.num_chunks == 1
        else pa.concat_arrays(data.chunks)
        if data.num_chunks
        else pa.array([], data.type)
    )


def _ticks(data: Any, kind: Any) -> Floats:
    """Dates and times as days, by way of a type that counts microseconds; NaN where missing."""
    pa = require("pyarrow", "cli")
    whole = data.cast(kind, safe=False)
    gaps = np.asarray(whole.is_null().to_numpy(zero_copy_only=False))
    ticks = whole.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return np.where(gaps, np.nan, ticks / DAY)


def _is_string(kind: Any) -> bool:
    types = require("pyarrow", "cli").types
    view = getattr(types, "is_string_view", lambda kind: False)
    return bool(types.is_string(kind) or types.is_large_string(kind) or view(kind))


# pandas, polars, NumPy


def of_series(series: Any) -> Values:
    """A series of pandas or polars, or a NumPy array of shape (n,)."""
    dtype = getattr(series, "dtype", None)
    name = str(dtype)
    levels, ordered = _categories(series)
    if levels is not None:
        return replace(_of_objects(np.asarray(series, dtype=object), name, levels), ordered=ordered)
    zone = getattr(dtype, "tz", None) or getattr(dtype, "time_zone", None)
    if zone is not None:
        naive = series.dt.tz_localize(None) if hasattr(series.dt, "tz_localize") else series.dt.replace_time_zone(None)
        utc = series.dt.tz_convert("UTC").dt.tz_localize(None) if hasattr(series.dt, "tz_convert") else series
        return Values("date", _days(utc.to_numpy()), wall=_days(naive.to_numpy()), zone=str(zone), type_name=name)
    if hasattr(dtype, "na_value") and getattr(dtype, "kind", "O") in "iuf":  # pandas' nullable numbers
        return _numbers(series.to_numpy(dtype=np.float64, na_value=np.nan), "number", name)
    array = np.asarray(series)
    kind = array.dtype.kind
    if kind in "biuf":
        return _numbers(array.astype(np.float64), "bool" if kind == "b" else "number", name)
    if kind == "M":
        return Values("date", _days(array), type_name=name)
    if kind == "m":
        return Values("time", np.where(np.isnat(array), np.nan, array / np.timedelta64(1, "us") / DAY), type_name=name)
    if kind == "c":
        return Values("other", np.full(len(array), np.nan), type_name=name)
    return _of_objects(array.astype(object), name)


def _categories(series: Any) -> tuple[list[str] | None, bool]:
    """The categories of a categorical series of texts, and whether they are in order; None for other series."""
    dtype = getattr(series, "dtype", None)
    kind = type(dtype).__name__
    if kind == "CategoricalDtype" and dtype is not None:
        return [str(level) for level in dtype.categories], bool(dtype.ordered)
    if kind == "Enum" and dtype is not None:  # polars'
        return [str(level) for level in dtype.categories], True
    if kind == "Categorical":
        return [str(level) for level in series.unique().to_list() if level is not None], False
    return None, False


def _of_objects(array: Array, name: str, levels: list[str] | None = None) -> Values:
    """Python objects, with None, NaN, NaT and pandas' NA as missing values."""
    kinds = {_kind(value) for value in array.tolist()} - {""}
    if not kinds:
        return Values("empty", np.full(len(array), np.nan), type_name=name)
    if "other" in kinds:
        wrong = next(value for value in array.tolist() if _kind(value) == "other")
        return Values("other", np.full(len(array), np.nan), type_name=type(wrong).__name__)
    if levels is not None or "text" in kinds or len(kinds - {"bool"}) > 1:
        places = {} if levels is None else {level: place for place, level in enumerate(levels)}
        codes = [-1 if _is_missing(value) else places.setdefault(str(value), len(places)) for value in array.tolist()]
        return _texts(np.array(codes, dtype=np.int64), list(places), name)
    kind = (kinds - {"bool"} or kinds).pop()
    if kind in ("number", "bool"):
        numbers = [np.nan if _is_missing(value) else float(value) for value in array.tolist()]
        return _numbers(np.array(numbers), kind, name)
    if kind == "date":
        return _of_dates(array.tolist(), name)
    if kind == "clock":
        spans: list[Any] = [
            None if _is_missing(value) else dt.datetime.combine(EPOCH, value) - EPOCH for value in array.tolist()
        ]
    else:
        spans = array.tolist()
    days = [np.nan if _is_missing(value) else value / dt.timedelta(days=1) for value in spans]
    return Values(kind, np.array(days, dtype=np.float64), type_name=name)


def _of_dates(values: Sequence[Any], name: str) -> Values:
    """Dates of Python's, with time zones or without."""
    moments = [None if _is_missing(value) else moment(value) for value in values]
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
    """The kind of one Python object; empty if it is missing."""
    if _is_missing(value):
        return ""
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
