"""Columns as inputs: what every transformer has, and the options by which columns are read.

A transformer is a frozen dataclass that derives from `Column`. Its class method `read` looks at the values of a column
in training data and returns a `Reading`, or None if the column is not for it; `encode` turns values into inputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from ..core.types import Array, Floats, Indices
from .base import TableError, is_number
from .values import Values
from .written_numbers import LEVEL_CODES, as_code, is_code

MISSING = ("error", "drop", "median", "indicator")
GAP = "(missing)"  # the level of missing values
NONE = np.empty(0, dtype=np.intp)

C = TypeVar("C", bound="Column")
Lookup = Callable[[str], Values]
"""The values of a column by its name."""


@dataclass(frozen=True)
class Advice:
    """The names that options have for the user who reads the messages."""

    features: str
    exclude: str | None
    """The parameter that leaves columns out; None if there is none."""

    @property
    def keep(self) -> str:
        """How a column that was left out is kept."""
        return f"to keep it, name it in {self.features}"

    def leave_out(self, columns: Sequence[str]) -> str:
        """How columns are left out."""
        if self.exclude is None:
            return "leave it out" if len(columns) == 1 else "leave them out"
        return f"use {self.exclude}={','.join(columns)!r}"


IN_COMMANDS = Advice("`features`", "exclude")
IN_PYTHON = Advice("the parameter columns", None)


@dataclass(frozen=True)
class Options:
    """How columns are to be read, where that is not left to their values."""

    missing: str = "indicator"
    """What is done about missing values: one of `MISSING`."""
    order: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The levels of columns, in order."""
    latlon: tuple[str, str] | None = None
    """The columns of latitudes and longitudes; found by their names if None."""
    date_format: str | Mapping[str, str] | None = None
    """The format of dates in texts, as strptime takes it, for all columns or by column."""
    na_values: tuple[str, ...] = ()
    """Values that mean a missing value, beside the usual ones."""
    decimal: str | None = None
    thousands: str | None = None
    prefer: str = "."
    """The decimal mark where both are possible."""
    advice: Advice = IN_COMMANDS
    """The words in which messages name these options."""
    chosen: bool = False
    """Whether the columns were named by the user: none is left out then."""
    y: Floats | None = None
    """The target of the rows, of shape (n,), for mean targets of levels."""

    def __post_init__(self) -> None:
        if self.missing not in MISSING:
            raise ValueError(f"missing must be one of {', '.join(MISSING)}; got {self.missing!r}.")

    @property
    def fills(self) -> bool:
        """Whether something takes the place of missing values."""
        return self.missing in ("median", "indicator")

    def format_of(self, name: str) -> str | None:
        """The format of dates that was given for a column."""
        return self.date_format.get(name) if isinstance(self.date_format, Mapping) else self.date_format


class Coded(NamedTuple):
    """A column as numbers."""

    X: Floats
    """Of shape (n, inputs); NaN where a value is missing and not replaced."""
    missing: int
    """The number of missing values, replaced or not."""
    unknown: dict[str, int] = {}  # noqa: RUF012
    """How often each level occurs that is not in the training data."""
    unseen: Indices = NONE
    """The level of each row, by a number, if it is not in the training data; else -1. Of shape (n,), or empty."""


@dataclass(frozen=True)
class Column(ABC):
    """A column of the training data, and how it becomes inputs of a model."""

    kind: ClassVar[str]
    """The name of the transformer in files and in `sodalite inspect`."""

    name: str
    fill: float | str | None = field(default=None, kw_only=True)
    """What replaces a missing value, a number or `GAP`; None if nothing does."""
    indicator: bool = field(default=False, kw_only=True)
    """Whether there is one more input, which is 1 where the value is missing."""
    complete: bool = field(default=False, kw_only=True)
    """Whether the training data missed no values, so that the model has learnt nothing about missing ones."""

    @property
    def sources(self) -> list[str]:
        """The names of the columns of the table that are needed."""
        return [self.name]

    @property
    def label(self) -> str:
        """The name for messages and pictures."""
        return " and ".join(self.sources)

    @property
    def names(self) -> list[str]:
        """The names of the inputs that the column becomes."""
        return self.inputs() + ([f"{self.label} missing"] if self.indicator else [])

    @property
    def needs_texts(self) -> bool:
        """Whether cells are taken as texts even if all of them are numbers."""
        return True

    @abstractmethod
    def inputs(self) -> list[str]:
        """The names of the inputs but for the indicator."""

    @abstractmethod
    def encode(self, get: Lookup, source: str = "the table") -> Coded:
        """The column as numbers; errors name the source."""

    def known(self) -> Floats:
        """Some levels of the training data as inputs, of shape (levels, inputs); empty for columns without levels."""
        return np.empty((0, len(self.names)))

    def filled(self, data: Floats) -> Floats:
        """Numbers with the fill in place of missing ones."""
        return data if self.fill is None else np.where(np.isnan(data), float(self.fill), data)

    def coded(self, X: Floats, gaps: Array) -> Coded:
        """The inputs with the indicator, and the count of missing values."""
        return Coded(np.column_stack([X, gaps]) if self.indicator else X, int(gaps.sum()))


def with_gaps(column: C, data: Floats, options: Options) -> C:
    """The column with what takes the place of missing values; `data`, of shape (n,), has NaN there."""
    gaps = bool(np.isnan(data).any())
    if not options.fills or np.isnan(data).all():
        return replace(column, complete=not gaps)
    return replace(
        column, fill=float(np.nanmedian(data)), indicator=gaps and options.missing == "indicator", complete=not gaps
    )


@dataclass(frozen=True)
class Reading:
    """How one column is read."""

    name: str
    words: str
    """What it is read as, or why it is left out."""
    column: Column | None = None
    """None if it is left out."""
    missing: int = 0
    notes: tuple[str, ...] = ()
    """What was noticed: sentences."""

    @classmethod
    def left_out(cls, name: str, reason: str) -> Reading:
        """The reading of a column that is not an input."""
        return cls(name, f"left out: {reason}")

    def as_dict(self) -> dict[str, Any]:
        """The reading as what JSON can hold."""
        inputs = [] if self.column is None else self.column.names
        used = self.column is not None
        return {"column": self.name, "used": used, "read_as": self.words, "inputs": inputs, "missing": self.missing}


class Unreadable(Exception):
    """A column cannot be an input as it is; the message says what to do."""


def blanked(values: Values, codes: Sequence[str] = ()) -> Values:
    """Values with the usual texts for missing values, and some codes of the user's, as missing ones."""
    if values.kind == "text":
        tests = [as_code(code) for code in codes]
        known = [is_code(text, LEVEL_CODES) or any(test(text) for test in tests) for text in values.levels]
        data = np.where(np.array([*known, True])[values.data], -1, values.data)
        if len(data) and (data < 0).all():
            return Values("empty", np.full(len(data), np.nan), place=values.place)
        return replace(values, data=data)
    numbers = [float(code) for code in codes if is_number(code)]
    if values.kind != "number" or not numbers:
        return values
    data = np.where(np.isin(values.data, numbers), np.nan, values.data)
    return replace(values, data=data, kind="number" if not np.isnan(data).all() else "empty")


def numbers_of(values: Values, numbers: Floats, message: Callable[[str, int], str]) -> Floats:
    """The number of each row, of shape (n,); levels that occur and have none are refused, but for missing values.

    Parameters
    ----------
    values : Values
        Texts.
    numbers : array of shape (levels,)
        The number of each level; NaN for one that is something else.
    message : callable
        A function of the first wrong value with its place, and of the count of further ones: the error's message.
    """
    unread = np.flatnonzero(np.isnan(numbers) & (values.used() > 0))  # rows that are left out may have had other texts
    wrong = [at for at in unread.tolist() if not is_code(values.levels[at])]
    if wrong:
        row = first_row(values, wrong)
        shown = f"{values.levels[int(values.data[row])]!r} in {values.place(row)}"
        raise TableError(message(shown, int(np.isin(values.data, wrong).sum()) - 1))
    return np.asarray(np.append(numbers, np.nan)[values.data])


def first_row(values: Values, levels: Sequence[int]) -> int:
    """The first row that has one of some levels."""
    return int(np.flatnonzero(np.isin(values.data, levels))[0])


def used_texts(values: Values) -> list[str]:
    """The different texts that occur, without codes for missing values."""
    there = values.used() > 0
    return [text for text, used in zip(values.levels, there.tolist(), strict=True) if used and not is_code(text)]
