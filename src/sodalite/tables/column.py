"""Columns as inputs: what every transformer has, and the options by which columns are read.

A transformer is a frozen dataclass that derives from `Column`. Its class method `read` looks at the values of a column
in training data and returns a `Reading`, or None if the column is not for it; `encode` turns values into inputs. What
it needs in between, numbers, it asks for by `numbers`, which takes values of the right kind as they are, has the
different texts of others parsed, and refuses all else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from ..core.types import Array, Floats, Indices
from ..exceptions import TableError
from .base import CORRECT
from .values import Values

MISSING = ("error", "drop", "median", "indicator")
GAP = "(missing)"  # the level of missing values
NONE = np.empty(0, dtype=np.intp)

C = TypeVar("C", bound="Column")
Lookup = Callable[[str], Values]
"""The values of a column by its name."""


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
    in_python: bool = False
    """Whether messages name parameters of `TableEncoder`; if not, those of the commands."""
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

    @property
    def keep(self) -> str:
        """How a column that was left out is kept, in words."""
        return f"to keep it, name it in {'the parameter columns' if self.in_python else '`features`'}"

    def leave_out(self, columns: Sequence[str]) -> str:
        """How columns are left out, in words."""
        if self.in_python:
            return "leave it out" if len(columns) == 1 else "leave them out"
        return f"use exclude={','.join(columns)!r}"

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
    kinds: ClassVar[tuple[str, ...]] = ()
    """The kinds of values that are numbers as they are."""

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

    def inputs(self) -> list[str]:
        """The names of the inputs but for the indicator."""
        return [self.name]

    @abstractmethod
    def encode(self, get: Lookup) -> Coded:
        """The column as numbers."""

    def known(self) -> Floats:
        """Some levels of the training data as inputs, of shape (levels, inputs); empty for columns without levels."""
        return np.empty((0, len(self.names)))

    @property
    def needs(self) -> str:
        """What the values must be, in words, with an example."""
        return "numbers"

    def parse(self, texts: tuple[str, ...]) -> Floats:
        """Texts as numbers, of shape (texts,) or (texts, k); NaN for those that cannot be read."""
        raise NotImplementedError

    def numbers(self, values: Values) -> Floats:
        """The values as numbers, of shape (n,) or (n, k), NaN where one is missing; all else is refused."""
        if values.kind in (*self.kinds, "empty"):
            return np.asarray(values.data, dtype=np.float64)
        wrong = f"column {self.name!r} must hold {self.needs}, but it"
        if values.kind != "text":
            raise TableError(f"{wrong} holds {values.type_name}.")
        parsed = self.parse(values.levels)
        if unread := values.unread(parsed.reshape(len(parsed), -1)[:, 0]):
            more = f" and {unread[1]} more of its cells" if unread[1] else ""
            raise TableError(f"{wrong} has {unread[0]}{more}. {CORRECT}")
        return values.by_level(parsed)

    def filled(self, data: Floats) -> Floats:
        """Numbers with the fill in place of missing ones."""
        return data if self.fill is None else np.where(np.isnan(data), float(self.fill), data)

    def coded(self, X: Floats, gaps: Array) -> Coded:
        """The inputs with the indicator, and the count of missing values."""
        return Coded(np.column_stack([X, gaps]) if self.indicator else X, int(gaps.sum()))

    def with_gaps(self: C, data: Floats, options: Options, fill: float | None = None) -> C:
        """The column with what takes the place of missing values: the median of `data`, unless there is a fill.

        `data` are numbers of the training data, of shape (n,), NaN where a value is missing.
        """
        gaps = bool(np.isnan(data).any())
        if not options.fills or np.isnan(data).all():
            return replace(self, complete=not gaps)
        fill = float(np.nanmedian(data)) if fill is None else fill
        return replace(self, fill=fill, indicator=gaps and options.missing == "indicator", complete=not gaps)

    def reading(self, words: str, data: Floats, options: Options, notes: Sequence[str] = ()) -> Reading:
        """The reading of numbers of the training data, of shape (n,), as this column."""
        gaps = int(np.isnan(data).sum())
        return Reading(self.name, words, self.with_gaps(data, options), gaps, tuple(notes))


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
