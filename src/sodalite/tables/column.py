"""Columns as inputs: what every transformer has, and the options by which columns are read.

A transformer is a frozen dataclass that derives from `Column`. Its class method `read` looks at the values of a column
in training data and returns a `Reading`, or None if the column is not for it; `encode` turns values into inputs. What
it needs in between, numbers, it asks for by `numbers`, which takes values of the right kind as they are, has the
different texts of others parsed, and refuses all else.
"""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core.types import Array, Floats, Indices
from ..exceptions import TableError
from .base import CORRECT, MISSING_TEXTS
from .values import Values

MISSING = ("error", "drop", "median", "indicator")
GAP = "(missing)"  # the level of missing values
NONE = np.empty(0, dtype=np.intp)
MOST_KNOWN = 16  # known values, evenly spread, that tell how far an unknown one may be: their variance to a third

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
    needs: ClassVar[Any] = "numbers"
    """What the values must be, in words, with an example."""

    name: str
    fill: float | str | None = field(default=None, kw_only=True)
    """What replaces a missing value, a number or `GAP`; None if nothing does."""
    indicator: bool = field(default=False, kw_only=True)
    """Whether there is one more input, which is 1 where the value is missing."""
    complete: bool = field(default=False, kw_only=True)
    """Whether the training data missed no values, so that the model has learnt nothing about missing ones."""
    seen: tuple[float, ...] = field(default=(), kw_only=True)
    """Some of the values of training data that missed none, evenly spread: a missing one may be any of them."""

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

    def parse(self, texts: tuple[str, ...]) -> Floats:
        """Texts as numbers, of shape (texts,) or (texts, k); NaN for those that cannot be read."""
        raise NotImplementedError

    def expand(self, data: Floats) -> Floats:
        """Numbers, of shape (n,), as inputs, of shape (n, inputs)."""
        return data[:, None]

    def encode(self, get: Lookup) -> Coded:
        """The column as numbers."""
        data = self.numbers(get(self.name))
        return self.coded(self.expand(self.filled(data)), np.isnan(data))

    def known(self) -> Floats:
        """Some values of the training data as inputs, of shape (values, inputs); none if it had missing ones."""
        known = self.expand(np.array(self.seen))
        return np.column_stack([known, np.zeros((len(known), int(self.indicator)))])

    def numbers(self, values: Values) -> Floats:
        """The values as numbers, of shape (n,) or (n, k), NaN where one is missing; all else is refused."""
        if values.kind in (*self.kinds, "empty"):
            return np.asarray(values.data, dtype=np.float64)
        wrong = f"column {self.name!r} must hold {self.needs}, but it"
        if values.kind != "text":
            raise TableError(f"{wrong} holds {values.type_name}.")
        parsed = self.parse(values.levels)
        gaps = np.isnan(parsed.reshape(len(parsed), -1)[:, 0])
        bad = [at for at in np.flatnonzero(gaps).tolist() if values.levels[at].lower() not in MISSING_TEXTS]
        if len(rows := np.flatnonzero(np.isin(values.data, bad))):
            first = f"{values.levels[values.data[rows[0]]]!r} in {values.place(int(rows[0]))}"
            more = f" and {len(rows) - 1} more of its cells" if len(rows) > 1 else ""
            raise TableError(f"{wrong} has {first}{more}. {CORRECT}")
        return np.asarray(np.concatenate([parsed, np.full((1, *parsed.shape[1:]), np.nan)])[values.data])

    def filled(self, data: Floats) -> Floats:
        """Numbers with the fill in place of missing ones."""
        return data if self.fill is None else np.where(np.isnan(data), float(self.fill), data)

    def coded(self, X: Floats, gaps: Array) -> Coded:
        """The inputs with the indicator, and the missing values, which are new to the model if it has seen none."""
        unseen = np.where(gaps, np.arange(len(gaps)), -1) if self.seen and gaps.any() else NONE
        return Coded(np.column_stack([X, gaps]) if self.indicator else X, int(gaps.sum()), unseen=unseen)

    def reading(
        self,
        words: str,
        data: Floats,
        options: Options,
        notes: Sequence[str] = (),
        fill: float | None = None,
        values: Floats | None = None,
    ) -> Reading:
        """The reading of training data as this column, with the median in place of missing values, or a fill.

        `data` are numbers, of shape (n,), NaN where a value is missing, and `values` what `expand` takes for each row,
        if that is something else.
        """
        gaps, column = np.isnan(data), replace(self, complete=not np.isnan(data).any())
        if options.fills and not gaps.all():
            fill, has_gaps = float(np.nanmedian(data)) if fill is None else fill, bool(gaps.any())
            column = replace(column, fill=fill, indicator=has_gaps and options.missing == "indicator")
            if not has_gaps:
                spread = ((np.arange(MOST_KNOWN) + 0.5) * len(data) / MOST_KNOWN).astype(np.intp)
                some = (data if values is None else values)[np.argsort(data, kind="stable")[np.unique(spread)]]
                column = replace(column, seen=tuple(some.ravel().tolist()))
        return Reading(self.label, words, column, int(gaps.sum()), tuple(notes))


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


NAMES = {
    "id": r"id|.*[_ .-]id|index|idx|row[_ .]?(names?|numbers?|id)?|unnamed.*|key|uuid|guid|no\.?|nr\.?|#|",
    "time": r"t|x|time|year|day|date|week|month|hour|minute|second|step|period|age|age_.*|days?|years?|.*_time|.*year",
    "date": r".*(date|day|time)(?![a-z]).*|.*(date|datum)",
    "month": r"(.*[_ .])?(month|yearmonth|year[_ .]month|ym|yyyymm|period)",
    "group": r"(.*[_ .])?(subject|participant|patient|person|individual|user|customer|client|student|school|store|shop"
    r"|site|station|batch|plot|block|group|cluster|zip|zip[_ .]?code|post(al)?[_ .]?code|fips)",
    "duration": r"(.*[^a-z])?(lap|durations?|elapsed|pace|split|runtime|took"
    r"|(finish|race|net|gun|chip|swim|run|bike)[_ .]?time)([^a-z].*)?",
    "place": r"(.*[^a-z])?(coord(inate)?s?|location|position|gps|geo|latlon|latlng|lat[_ /,-]+(lon|lng|long)"
    r"|point|place)([^a-z].*)?",
    "latitude": r"(.*[^a-z])?(lat|latitude)([^a-z].*)?",
    "longitude": r"(.*[^a-z])?(lon|long|lng|longitude)([^a-z].*)?",
}
"""Patterns of the names of columns, by what such a name says about the values; capitals are ignored."""
_CAPITAL_ID = re.compile(r".*[a-z]I[Dd]|[CFGOPRSTU]ID")  # "carId" and "PID", not "Madrid" nor "BID"


def match_name(name: str, what: str) -> re.Match[str] | None:
    """The match of a column's name with one of `NAMES`, which says what it holds.

    "id"; "time" (a column that counts may tell the time); "date" (numbers such as 20260131); "month" (202601); "group"
    (numbers that are names of groups; plurals are counts); "duration" (12:30 is no time of day); "place".
    """
    return re.fullmatch(NAMES[what], name.strip(), re.IGNORECASE)


def is_named(name: str, what: str) -> bool:
    """Whether a column's name says what it holds.

    Examples
    --------
    >>> [is_named(name, "duration") for name in ("Lap time", "finish_time", "duration", "departure time", "time")]
    [True, True, True, False, False]
    >>> [is_named(name, "group") for name in ("station", "zip_code", "stations", "depth")]
    [True, True, False, False]
    >>> [is_named(name, "id") for name in ("id", "carId", "row_id", "Unnamed: 0", "PID", "Madrid", "idea")]
    [True, True, True, True, True, False, False]
    """
    return match_name(name, what) is not None or (what == "id" and _CAPITAL_ID.fullmatch(name.strip()) is not None)
