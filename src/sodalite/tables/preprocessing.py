"""Preprocessing: the mapping from the columns of a table to the inputs of a model, which is kept with the model.

Numbers stay as they are. Dates become days since 1970, times of day and durations become days. Texts and truth values
become one input for each level in the training data: 1 in rows of that level, 0 in others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Self

import numpy as np

from ..core.types import Floats, Indices
from .base import Table, TableError, listed
from .columns import CATEGORICAL, KINDS, Column, encode_column, examine, target_of

MISSING = ("error", "drop", "median")


@dataclass(frozen=True)
class Encoded:
    """The rows of a table as inputs of a model."""

    X: Floats
    """Of shape (n, inputs); NaN where a value is missing and not replaced."""
    missing: dict[str, int]
    """The number of missing values, replaced or not, of each column that has any."""
    unknown: dict[str, int] = field(default_factory=dict)
    """The number of levels that are not in the training data, of each column that has any: all its inputs are 0."""


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
    """How missing values are treated: one of `MISSING`."""

    @property
    def names(self) -> list[str]:
        """The names of the model's inputs."""
        return [name for column in self.columns for name in column.names]

    @property
    def groups(self) -> list[str]:
        """For each of the model's inputs, the column that it comes from."""
        return [column.name for column in self.columns for _ in column.names]

    def to_json(self) -> dict[str, Any]:
        """The mapping as JSON."""
        columns = [
            {"name": column.name, "kind": column.kind, "levels": list(column.levels), "fill": column.fill}
            for column in self.columns
        ]
        return {"target": self.target, "columns": columns, "missing": self.missing}

    @classmethod
    def from_json(cls, content: Any) -> Self:
        """The mapping from the JSON of `to_json`; anything else is refused with a ValueError."""
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
        """Refuse a table that lacks one of the columns; it may have more columns, in any order."""
        there = set(names)
        absent = [column.name for column in self.columns if column.name not in there]
        if absent:
            raise TableError(
                f"{source} has no column {listed(absent)}, which the model needs; it has {listed(names, 12)}."
                f"{nearest(absent[0], names)}"
            )

    def encode(self, table: Table) -> Encoded:
        """The rows of a table as the model's inputs. Columns are found by name; other columns are ignored.

        Raises
        ------
        TableError
            If a column is absent, holds values of another kind, or misses values and `missing` is "error".
        """
        self.check_names(table.names, table.name)
        parts, missing, unknown = _encoded(self.columns, table)
        if missing and self.missing == "error":
            raise TableError(f"{table.name} has missing values: {counted(missing)}. The model was not fitted with any.")
        return Encoded(np.concatenate(parts, axis=1), missing, unknown)


@dataclass(frozen=True)
class Training:
    """The training data of a model, from a table."""

    preprocessing: Preprocessing
    X: Any
    """An array of shape (n, inputs); for a table that is left on disk, a `sodalite.tables.ParquetRows`."""
    y: Floats
    """The target, of shape (n,)."""
    rows: Indices
    """The indices of these rows in the table, of shape (n,); rows with missing values may have been dropped."""
    missing: dict[str, int]
    """The number of missing values of each column that has any."""


def learn(
    table: Table,
    target: str,
    features: Sequence[str] | None = None,
    exclude: Iterable[str] = (),
    missing: str = "error",
) -> Training:
    """The training data of a table: its columns chosen, examined and encoded.

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
        Refuse missing values; leave out the rows that have some; or replace them by the column's median, texts by the
        most frequent one. Rows without a target are left out unless missing values are refused.
    """
    names = _inputs(table, target, features, dict.fromkeys(exclude))
    if not len(table):
        raise TableError(f"{table.name} has column names but no rows.")
    y = target_of(table, target)
    columns = [examine(table, name) for name in names]
    parts, gaps, _ = _encoded(columns, table)
    if absent := int(np.isnan(y).sum()):
        gaps[target] = absent
    if gaps and missing == "error":
        raise TableError(
            f"{table.name} has missing values: {counted(gaps)}. Leave out the rows with --missing drop, put medians in "
            f"their place with --missing median, or leave out the columns with --exclude."
        )
    if missing == "median":
        known = ~np.isnan(y)
        columns = [_with_fill(column, part[known], table) for column, part in zip(columns, parts, strict=True)]
        parts = [
            encode_column(column, table)[0] if column.name in gaps else part
            for column, part in zip(columns, parts, strict=True)
        ]
    X = np.concatenate(parts, axis=1)
    rows = np.flatnonzero(~np.isnan(y) & ~np.isnan(X).any(axis=1))
    if not len(rows):
        raise TableError(f"{table.name}: every row misses a value: {counted(gaps)}. Leave out columns with --exclude.")
    if len(rows) < len(y):
        X, y = X[rows], y[rows]
    return Training(Preprocessing(target, tuple(columns), missing), X, y, rows, gaps)


def check_columns(source: str, names: Sequence[str], wanted: Iterable[str]) -> None:
    """Refuse a table, called `source` in the message, with columns `names`, if it lacks one of the wanted columns."""
    there = set(names)
    for name in wanted:
        if name not in there:
            raise TableError(f"{source} has no column {name!r}; it has {listed(names, 12)}.{nearest(name, names)}")


def _inputs(table: Table, target: str, features: Sequence[str] | None, exclude: Mapping[str, None]) -> list[str]:
    """The columns that the target is predicted from, checked."""
    check_columns(table.name, table.names, [target, *(features or []), *exclude])
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
    return names


def _encoded(columns: Iterable[Column], table: Table) -> tuple[list[Floats], dict[str, int], dict[str, int]]:
    """The columns as numbers, each of shape (n, inputs), and the counts of missing values and unknown levels by column.

    Columns without such values are not counted.
    """
    parts, missing, unknown = [], {}, {}
    for column in columns:
        part, gaps, strange = encode_column(column, table)
        parts.append(part)
        if gaps:
            missing[column.name] = gaps
        if strange:
            unknown[column.name] = strange
    return parts, missing, unknown


def _with_fill(column: Column, values: Floats, table: Table) -> Column:
    """The column with the value that replaces missing values: the median, or the most frequent level.

    `values`, of shape (n, inputs), is the encoded column.
    """
    fill: float | str
    if column.kind in CATEGORICAL:
        fill = column.levels[int(np.argmax(np.nansum(values, axis=0)))]
    elif np.isnan(values).all():
        raise TableError(f"{table.name}: column {column.name!r} has no values where there are targets; use --exclude.")
    else:
        fill = float(np.nanmedian(values))
    return Column(column.name, column.kind, column.levels, fill)


def _column(content: Any) -> Column:
    """A column from its JSON; anything else is refused with a ValueError."""
    if not isinstance(content, dict) or set(content) != {"name", "kind", "levels", "fill"}:
        raise ValueError("a column in preprocessing must have name, kind, levels and fill alone")
    name, kind, levels, fill = (content[key] for key in ("name", "kind", "levels", "fill"))
    if not isinstance(name, str):
        raise ValueError("the name of a column in preprocessing must be a text")
    if kind not in KINDS:
        raise ValueError(f"the kind of column {name!r} in preprocessing must be one of {', '.join(KINDS)}")
    categorical = kind in CATEGORICAL
    if not isinstance(levels, list) or not all(isinstance(level, str) for level in levels):
        raise ValueError(f"the levels of column {name!r} in preprocessing must be a list of texts")
    if bool(levels) != categorical or len(set(levels)) < len(levels):
        needs = "at least one level, each once" if categorical else f"no levels, since it is of kind {kind}"
        raise ValueError(f"column {name!r} in preprocessing must have {needs}")
    if fill is not None and not isinstance(fill, str if categorical else float):
        kind_of_fill = "a text" if categorical else "a number"
        raise ValueError(f"the fill of column {name!r} in preprocessing, for missing values, must be {kind_of_fill}")
    return Column(name, kind, tuple(levels), fill)


def nearest(name: str, names: Sequence[str]) -> str:
    """The end of a message: a hint at the most similar of the names, if one is similar."""
    close = [other for other in names if other.lower() == name.lower()] or get_close_matches(name, names, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def counted(counts: dict[str, int]) -> str:
    """Columns with their counts for a message; of many, the first eight."""
    shown = ", ".join(f"{name!r} ({count})" for name, count in list(counts.items())[:8])
    return shown + (f", and {len(counts) - 8} more columns" if len(counts) > 8 else "")
