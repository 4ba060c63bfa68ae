"""From columns of all kinds to the numbers that a model takes, by a mapping that is kept with the model.

Numbers stay as they are. Dates become days since 1970, times of day and durations become days. Texts and truth values
become one column for each level that was seen, 1 where it is that level and 0 elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Self

import numpy as np

from ..core.types import Array
from .base import Table, TableError, listed
from .columns import KINDS, Column, encode_column, examine, target_of

MISSING = ("error", "drop", "median")


@dataclass(frozen=True)
class Encoded:
    """Rows as numbers."""

    X: Array
    """Of shape (n, inputs); NaN where a value is missing and nothing takes its place."""
    missing: dict[str, int]
    """How many values are missing in each column that misses any, whether or not something took their place."""
    unknown: dict[str, int] = field(default_factory=dict)
    """How many values of each column are levels that were not seen before: zero in all of the column's inputs."""


@dataclass(frozen=True)
class Preprocessing:
    """Which columns a model takes, in order, and how they become numbers.

    Examples
    --------
    >>> mapping = Preprocessing("price", (Column("area", "number"), Column("town", "text", ("Bern", "Basel"))))
    >>> mapping.names
    ['area', 'town=Bern', 'town=Basel']
    >>> Preprocessing.from_json(mapping.to_json()) == mapping
    True
    """

    target: str | None
    columns: tuple[Column, ...]
    missing: str = "error"
    """What is done about missing values: one of `MISSING`."""

    @property
    def names(self) -> list[str]:
        """The names of the model's inputs."""
        return [name for column in self.columns for name in column.names]

    @property
    def groups(self) -> list[str]:
        """For each of the model's inputs, the column that it comes from."""
        return [column.name for column in self.columns for _ in column.names]

    def to_json(self) -> dict[str, Any]:
        """What JSON can hold."""
        columns = [
            {"name": column.name, "kind": column.kind, "levels": list(column.levels), "fill": column.fill}
            for column in self.columns
        ]
        return {"target": self.target, "columns": columns, "missing": self.missing}

    @classmethod
    def from_json(cls, content: Any) -> Self:
        """What `to_json` gave; anything else is refused with a ValueError."""
        if not isinstance(content, dict) or set(content) != {"target", "columns", "missing"}:
            raise ValueError("preprocessing, how columns become inputs, must have target, columns and missing alone")
        if not isinstance(content["columns"], list):
            raise ValueError("columns in preprocessing must be a list")
        columns = tuple(_column(part) for part in content["columns"])
        names = [column.name for column in columns]
        if not (content["target"] is None or isinstance(content["target"], str)):
            raise ValueError("target in preprocessing must be the name of a column")
        if content["missing"] not in MISSING:
            raise ValueError(f"missing in preprocessing must be one of {', '.join(MISSING)}")
        if not names or len(set(names)) < len(names):
            raise ValueError("preprocessing has no columns, or two of one name")
        return cls(content["target"], columns, content["missing"])

    def check_names(self, names: Sequence[str], source: str) -> None:
        """Refuse a table that has not all columns; others may be there, in any order."""
        there = set(names)
        absent = [column.name for column in self.columns if column.name not in there]
        if absent:
            raise TableError(
                f"{source} has no column {listed(absent)}, which the model needs; it has {listed(names, 12)}."
                f"{nearest(absent[0], names)}"
            )

    def encode(self, table: Table) -> Encoded:
        """The rows of a table as the model's inputs. Columns are found by name, and others ignored.

        Raises
        ------
        TableError
            Where a column is absent, holds what it must not, or misses values and `missing` is "error".
        """
        self.check_names(table.names, table.name)
        parts, missing, unknown = [], {}, {}
        for column in self.columns:
            part, gaps, strange = encode_column(column, table)
            parts.append(part)
            if gaps:
                missing[column.name] = gaps
            if strange:
                unknown[column.name] = strange
        if missing and self.missing == "error":
            raise TableError(f"{table.name} has missing values: {counted(missing)}. The model was not fitted with any.")
        return Encoded(np.concatenate(parts, axis=1), missing, unknown)


@dataclass(frozen=True)
class Training:
    """A table as a model is fitted to it."""

    preprocessing: Preprocessing
    X: Any
    """An array; or, of a table that is left on disk, a `sodalite.tables.ParquetRows`."""
    y: Array
    rows: Array
    """The rows of the table that these are; those that miss values may have been dropped."""
    missing: dict[str, int]
    """How many values were missing in each column that missed any."""


def learn(
    table: Table,
    target: str,
    features: Sequence[str] | None = None,
    exclude: Iterable[str] = (),
    missing: str = "error",
) -> Training:
    """Choose the columns, see what each holds, and encode them.

    Parameters
    ----------
    table : Table
    target : str
        The column that is to be predicted; it must hold numbers.
    features : sequence of str, optional
        The columns to predict it from; all others unless given.
    exclude : iterable of str
        Columns to leave out.
    missing : {"error", "drop", "median"}
        Refuse missing values; leave out the rows that have some; or put the column's median in their place, for texts
        the most frequent one. Rows that miss the target are left out unless missing values are refused.
    """
    exclude = dict.fromkeys(exclude)
    there = set(table.names)
    for name in [target, *(features or []), *exclude]:
        if name not in there:
            raise TableError(
                f"{table.name} has no column {name!r}; it has {listed(table.names, 12)}.{nearest(name, table.names)}"
            )
    if features is None:
        names = [name for name in table.names if name != target and name not in exclude]
        nameless = [name for name in names if not name.strip()]
        if nameless:
            raise TableError(
                f"{table.name}: column {table.names.index(nameless[0]) + 1} has no name, as row numbers have not when "
                f"a data frame is written with its index. Give it one, or name the columns to use with --features."
            )
    else:
        names = [name for name in dict.fromkeys(features) if name not in exclude]
    if target in names:
        raise TableError(f"{target!r} is the target, and cannot be among the features too.")
    if not names:
        raise TableError(f"{table.name}: no column is left to predict {target!r} from.")
    if not len(table):
        raise TableError(f"{table.name} has column names but no rows.")

    y = target_of(table, target)
    columns = [examine(table, name) for name in names]
    parts, gaps = [], {}
    for column in columns:
        part, count, _ = encode_column(column, table)
        parts.append(part)
        if count:
            gaps[column.name] = count
    if absent := int(np.isnan(y).sum()):
        gaps[target] = absent
    if gaps and missing == "error":
        raise TableError(
            f"{table.name} has missing values: {counted(gaps)}. Leave out the rows with --missing drop, put medians in "
            f"their place with --missing median, or leave out the columns with --exclude."
        )
    keep = ~np.isnan(y)
    if missing == "median":
        columns = [_with_fill(column, part[keep], table) for column, part in zip(columns, parts, strict=True)]
        parts = [
            encode_column(column, table)[0] if column.name in gaps else part
            for column, part in zip(columns, parts, strict=True)
        ]
    X = np.concatenate(parts, axis=1)
    keep &= ~np.isnan(X).any(axis=1)
    if not keep.any():
        raise TableError(f"{table.name}: every row misses a value: {counted(gaps)}. Leave out columns with --exclude.")
    rows = np.flatnonzero(keep)
    if len(rows) < len(y):
        X, y = X[rows], y[rows]
    return Training(Preprocessing(target, tuple(columns), missing), X, y, rows, gaps)


def _with_fill(column: Column, values: Array, table: Table) -> Column:
    """The column with what takes a missing value's place: the median, or the most frequent level."""
    fill: float | str
    if column.kind in ("bool", "text"):
        fill = column.levels[int(np.argmax(np.nansum(values, axis=0)))]
    elif np.isnan(values).all():
        raise TableError(f"{table.name}: column {column.name!r} has no values where there are targets; use --exclude.")
    else:
        fill = float(np.nanmedian(values))
    return Column(column.name, column.kind, column.levels, fill)


def _column(content: Any) -> Column:
    if not isinstance(content, dict) or set(content) != {"name", "kind", "levels", "fill"}:
        raise ValueError("a column in preprocessing must have name, kind, levels and fill alone")
    name, kind, levels, fill = (content[key] for key in ("name", "kind", "levels", "fill"))
    if not isinstance(name, str):
        raise ValueError("the name of a column in preprocessing must be a text")
    if kind not in KINDS:
        raise ValueError(f"the kind of column {name!r} in preprocessing must be one of {', '.join(KINDS)}")
    categorical = kind in ("bool", "text")
    if not isinstance(levels, list) or not all(isinstance(level, str) for level in levels):
        raise ValueError(f"the levels of column {name!r} in preprocessing must be a list of texts")
    if bool(levels) != categorical or len(set(levels)) < len(levels):
        raise ValueError(f"column {name!r} in preprocessing has levels twice, or where it can have none, or none")
    if fill is not None and not isinstance(fill, str if categorical else float):
        raise ValueError(f"what takes a missing value's place in column {name!r} of preprocessing is of another kind")
    return Column(name, kind, tuple(levels), fill)


def nearest(name: str, names: Sequence[str]) -> str:
    """A hint at the nearest of some names, if one is near."""
    close = [other for other in names if other.lower() == name.lower()] or get_close_matches(name, names, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def counted(counts: dict[str, int]) -> str:
    """Columns with their levels, the first few of many."""
    shown = ", ".join(f"{name!r} ({count})" for name, count in list(counts.items())[:8])
    return shown + (f", and {len(counts) - 8} more columns" if len(counts) > 8 else "")
