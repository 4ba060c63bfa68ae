"""Columns of a table: the kind of values that each holds, and its encoding as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.optional import require
from ..core.types import Floats
from .base import CORRECT, Table, TableError, is_number

KINDS = ("number", "date", "time", "bool", "text")
CATEGORICAL = ("bool", "text")  # the kinds with levels, each of which becomes an input that is 0 or 1
MOST_LEVELS = 50  # levels of a text column: each becomes an input, with a length-scale that the fit has to find
DAY = 86_400_000_000  # microseconds of a day


@dataclass(frozen=True)
class Column:
    """One column of the data: the kind of its values, and its encoding as numbers."""

    name: str
    kind: str
    """One of `KINDS`."""
    levels: tuple[str, ...] = ()
    """For "text" and "bool": the levels in the training data, sorted."""
    fill: float | str | None = None
    """The value that replaces missing values; None if they are not replaced."""

    @property
    def names(self) -> list[str]:
        """The names of the inputs that the column becomes."""
        return [f"{self.name}={level}" for level in self.levels] if self.kind in CATEGORICAL else [self.name]


def encode_column(column: Column, table: Table) -> tuple[Floats, int, int]:
    """A column as numbers, of shape (n, inputs), the number of missing values, and the number of unknown levels."""
    if column.kind in CATEGORICAL:
        return _one_hot(column, plain(table, column.name))
    values = _numbers(table, column.name) if column.kind == "number" else _days(table, column)
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise TableError(
            f"{table.name}: column {column.name!r} has {len(infinite)} infinite value{'s' * (len(infinite) > 1)}, "
            f"the first in {table.place(int(infinite[0]))}. {CORRECT}"
        )
    gaps = np.isnan(values)
    count = int(gaps.sum())
    if count and column.fill is not None:
        values = np.where(gaps, float(column.fill), values)
    return values[:, None], count, 0


def examine(table: Table, name: str) -> Column:
    """The encoding of a column of training data, by the values that it holds."""
    kind = kind_of(table, name)
    if kind not in CATEGORICAL:
        return Column(name, kind)
    levels = [text for text in _texts(plain(table, name), kind).unique().to_pylist() if text is not None]
    if not levels:
        raise TableError(f"{table.name}: column {name!r} has no values at all; leave it out with --exclude.")
    if kind == "text":
        numbers = sum(is_number(text) for text in levels)
        if numbers > len(levels) / 2:
            _refuse_text(table, name)
        if len(levels) > MOST_LEVELS:
            raise TableError(
                f"{table.name}: column {name!r} has {len(levels)} different texts, such as {levels[0]!r}; at most "
                f"{MOST_LEVELS} can each be an input. Leave it out with --exclude. (Dates are read if written as "
                f"2026-01-31.)"
            )
    return Column(name, kind, tuple(sorted(levels)))


def kind_of(table: Table, name: str) -> str:
    """The kind of a column, one of `KINDS`, by its type in the file."""
    pa = require("pyarrow", "cli")
    kind, types = plain(table, name).type, pa.types
    if types.is_boolean(kind):
        return "bool"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_date(kind) or types.is_timestamp(kind):
        return "date"
    if types.is_time(kind) or types.is_duration(kind):
        return "time"
    if _is_string(kind):
        return "text"
    if types.is_null(kind):
        raise TableError(f"{table.name}: column {name!r} has no values at all; leave it out with --exclude.")
    raise TableError(f"{table.name}: column {name!r} holds {kind}, which cannot be an input; use --exclude.")


def target_of(table: Table, name: str) -> Floats:
    """The target column, of shape (n,), NaN where a value is missing; all but numbers are refused."""
    kind = kind_of(table, name)
    if kind == "text":
        _refuse_text(table, name)
    if kind != "number":
        words = {"bool": "true and false", "date": "dates", "time": "times"}[kind]
        raise TableError(f"{table.name}: the target {name!r} holds {words}, but must hold numbers.")
    return encode_column(Column(name, "number"), table)[0][:, 0]


def _numbers(table: Table, name: str) -> Floats:
    """A column of numbers, of shape (n,), NaN where a value is missing."""
    pa = require("pyarrow", "cli")
    data = plain(table, name)
    try:
        return np.asarray(data.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if not _is_string(data.type):
            message = f"{table.name}: column {name!r} holds {data.type} where numbers are needed."
            raise TableError(message) from None
        _refuse_text(table, name)
        raise


def _days(table: Table, column: Column) -> Floats:
    """A column of dates as days since 1970, or of times of day or durations as days; of shape (n,).

    Texts are read as dates, times of day as times of the first day of 1970.
    """
    pa, data = require("pyarrow", "cli"), plain(table, column.name)
    start = "" if column.kind == "date" else "1970-01-01 "
    if _is_string(data.type):
        forms = [pa.timestamp(unit, zone) for unit in ("us", "ns") for zone in (None, "UTC")]
        if start:
            data = require("pyarrow.compute", "cli").binary_join_element_wise(start, data, "")
    elif column.kind == "date":
        forms = [pa.timestamp("us", getattr(data.type, "tz", None))]
    else:
        forms = [pa.duration("us") if pa.types.is_duration(data.type) else pa.time64("us")]
    for form in forms:
        try:
            whole = data.cast(form, safe=False)
            break
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
    else:
        words, example = ("times", "12:30:00") if start else ("dates", "2026-01-31")
        raise TableError(
            f"{table.name}: column {column.name!r} must hold {words}, as {example} for instance, but it "
            f"{_first_text(data, forms, table, start)}."
        )
    gaps = np.asarray(whole.is_null().to_numpy())
    ticks = whole.cast(pa.int64()).fill_null(0).to_numpy()
    return np.where(gaps, np.nan, ticks / (DAY * (1000 if form.unit == "ns" else 1)))


def _one_hot(column: Column, data: Any) -> tuple[Floats, int, int]:
    """A categorical column as in `encode_column`: 1 in the input of a row's level, 0 in the others, NaN if missing."""
    pa, compute = require("pyarrow", "cli"), require("pyarrow.compute", "cli")
    texts = _texts(data, column.kind)
    gaps = texts.null_count
    if column.fill is not None:
        texts = texts.fill_null(column.fill)
    level = compute.index_in(texts, value_set=pa.array(column.levels, type=pa.string()))
    place = level.fill_null(-1).to_numpy()
    values = np.zeros((len(texts), len(column.levels)))
    seen = np.flatnonzero(place >= 0)
    values[seen, place[seen]] = 1.0
    missing = np.asarray(texts.is_null().to_numpy())
    values[missing] = np.nan
    return values, int(gaps), int((place < 0).sum() - missing.sum())


def _texts(data: Any, kind: str) -> Any:
    """A column as texts; truth values as "true" and "false"."""
    pa, compute = require("pyarrow", "cli"), require("pyarrow.compute", "cli")
    if kind == "bool" and pa.types.is_integer(data.type):
        data = data.cast(pa.bool_())
    texts = data.cast(pa.string())
    return compute.utf8_lower(texts) if kind == "bool" else texts


def _refuse_text(table: Table, name: str) -> None:
    """Raise the error for the first text of a column that is no number, if there is one."""
    for row, text in enumerate(plain(table, name).to_pylist()):
        if text is not None and not is_number(text):
            raise TableError(
                f"{table.name}: column {name!r} holds text where a number is needed: {text!r} in {table.place(row)}. "
                f"{CORRECT}"
            )


def _first_text(data: Any, forms: list[Any], table: Table, start: str) -> str:
    """The end of a message: the first value that cannot be read in any of the forms."""
    pa = require("pyarrow", "cli")
    if not _is_string(data.type):
        return f"holds {data.type}"

    def fits(text: str, form: Any) -> bool:
        try:
            pa.scalar(text).cast(form)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return False
        return True

    for row, text in enumerate(data.to_pylist()):
        if text is not None and not any(fits(text, form) for form in forms):
            return f"has {text.removeprefix(start)!r} in {table.place(row)}"
    return "has some with a time zone and some without"


def plain(table: Table, name: str) -> Any:
    """The values of a column, decoded if the file holds them by dictionary."""
    data = table.data[name]
    return data.cast(data.type.value_type) if require("pyarrow", "cli").types.is_dictionary(data.type) else data


def _is_string(kind: Any) -> bool:
    types = require("pyarrow", "cli").types
    view = getattr(types, "is_string_view", lambda kind: False)
    return bool(types.is_string(kind) or types.is_large_string(kind) or view(kind))
