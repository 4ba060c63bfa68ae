"""Preprocessing: the mapping from the columns of a table to the inputs of a model, which is kept with the model.

Numbers stay as they are. Dates become days since 1970 and points on circles for the parts of the calendar that vary.
Latitudes and longitudes become points in kilometres. Texts become one input for each level in the training data, or,
where these are many, the mean target of the level. See `sodalite.tables.columns.Column`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import Any, Self

import numpy as np

from ..core.types import Floats, Indices
from .base import Table, TableError, listed
from .columns import Column, Lookup, encode_values, number_values
from .examine import MISSING, Options, Reading, blanked, codes_of, examine
from .leaks import leaks
from .levels import cross_fitted, level_means
from .values import Values, frame_column, frame_names, table_column
from .written import read_numbers


@dataclass(frozen=True)
class Encoded:
    """The rows of a table as inputs of a model."""

    X: Floats
    """Of shape (n, inputs); NaN where a value is missing and not replaced."""
    missing: dict[str, int]
    """The number of missing values, replaced or not, of each column that has any."""
    unknown: dict[str, int] = field(default_factory=dict)
    """The number of values that are levels not in the training data, of each column that has any."""
    strange: dict[str, dict[str, int]] = field(default_factory=dict)
    """How often each of these levels occurs, by column."""


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
    na_values: tuple[str, ...] = ()
    """Values that mean a missing value, beside the usual ones."""

    @property
    def names(self) -> list[str]:
        """The names of the model's inputs."""
        return [name for column in self.columns for name in column.names]

    @property
    def groups(self) -> list[str]:
        """For each of the model's inputs, the column that it comes from."""
        return [column.label for column in self.columns for _ in column.names]

    @property
    def sources(self) -> list[str]:
        """The names of the columns of the table that are needed."""
        return [name for column in self.columns for name in column.sources]

    @property
    def kinds(self) -> dict[str, str]:
        """For each column of the table that is needed, what it holds: "number", or "text" for all else."""
        kinds = {name: column.kind for column in self.columns for name in column.sources}
        written = {name for column in self.columns if column.form is not None for name in column.sources}
        plain = ("number", "place")
        return {name: "number" if kind in plain and name not in written else "text" for name, kind in kinds.items()}

    def to_json(self) -> dict[str, Any]:
        """The mapping as JSON."""
        columns = [column.to_json() for column in self.columns]
        found: dict[str, Any] = {"target": self.target, "columns": columns, "missing": self.missing}
        return found | ({"na_values": list(self.na_values)} if self.na_values else {})

    @classmethod
    def from_json(cls, content: Any) -> Self:
        """The mapping from the JSON of `to_json`, also of earlier versions; all else is refused with a ValueError."""
        needed = {"target", "columns", "missing"}
        if not isinstance(content, dict) or not needed <= set(content) <= needed | {"na_values"}:
            raise ValueError("preprocessing, how columns become inputs, must have target, columns and missing alone")
        if not isinstance(content["columns"], list):
            raise ValueError("columns in preprocessing must be a list")
        columns = tuple(Column.from_json(part) for part in content["columns"])
        names = [name for column in columns for name in column.sources]
        if not (content["target"] is None or isinstance(content["target"], str)):
            raise ValueError("target in preprocessing must be the name of a column")
        if content["missing"] not in MISSING:
            raise ValueError(f"missing in preprocessing must be one of {', '.join(MISSING)}")
        codes = content.get("na_values", [])
        if not isinstance(codes, list) or not all(isinstance(code, str) for code in codes):
            raise ValueError("na_values in preprocessing must be a list of texts")
        if not names or len(set(names)) < len(names):
            raise ValueError("preprocessing has no columns, or two of one name")
        return cls(content["target"], columns, content["missing"], tuple(codes))

    def check_names(self, names: Sequence[str], source: str) -> None:
        """Refuse a table that lacks one of the columns; it may have more columns, in any order."""
        there = set(names)
        absent = [name for name in self.sources if name not in there]
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
            If a column is absent, holds values of another kind, or misses values and `missing` is "error". All columns
            are looked at before it is raised.
        """
        self.check_names(table.names, table.name)
        return self.encode_columns(lambda name: table_column(table, name), table.name)

    def encode_frame(self, X: Any, source: str = "X") -> Encoded:
        """The rows of a data frame (pandas, polars, pyarrow) as the model's inputs, as `encode`."""
        places = {name: place for place, name in enumerate(frame_names(X))}
        self.check_names(list(places), source)
        return self.encode_columns(lambda name: frame_column(X, places[name]), source)

    def encode_columns(self, get: Lookup, source: str) -> Encoded:
        """The rows of columns that are looked up by name, as `encode`."""
        parts, missing, strange, problems = [], {}, {}, []
        for column in self.columns:
            try:
                found = encode_values(column, lambda name: blanked(get(name), self.na_values), source)
            except TableError as error:
                problems.append(str(error).removeprefix(f"{source}: "))
                continue
            parts.append(found.X)
            if found.missing:
                missing[column.label] = found.missing
            if found.unknown:
                strange[column.name] = found.unknown
        if problems:
            raise TableError.of(source, problems)
        if missing and self.missing == "error":
            raise TableError(f"{source} has missing values: {counted(missing)}. The model was not fitted with any.")
        unknown = {name: sum(levels.values()) for name, levels in strange.items()}
        return Encoded(np.concatenate(parts, axis=1), missing, unknown, strange)


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
    readings: tuple[Reading, ...] = ()
    """How each column is read, those that are left out among them."""
    notes: tuple[str, ...] = ()
    """What was noticed in the table, and what was done about it: sentences."""
    codes: dict[int, Indices] = field(default_factory=dict)
    """For inputs that are mean targets of levels, by their places: the level of each row."""

    def without(self, test: Indices, seed: int = 0) -> Any:
        """X as it is if the targets of some rows are not known: mean targets of levels come from the other rows.

        Means of the other rows are cross-fitted, as they are in `X`.
        """
        if not self.codes or not len(test):
            return self.X
        X = np.array(self.X)
        rest = np.setdiff1d(np.arange(len(self.y)), test)
        for place, codes in self.codes.items():
            n_levels = int(codes.max(initial=0)) + 1
            X[rest, place] = cross_fitted(codes[rest], self.y[rest], n_levels, seed)
            X[test, place] = level_means(codes[rest], self.y[rest], n_levels)[codes[test]]
        return X


def learn(
    table: Table,
    target: str,
    features: Sequence[str] | None = None,
    exclude: Iterable[str] = (),
    missing: str = "indicator",
    options: Options | None = None,
    seed: int = 0,
) -> Training:
    """The training data of a table: its columns chosen, examined and encoded.

    Parameters
    ----------
    table : Table
    target : str
        The column that is to be predicted; it must hold numbers.
    features : sequence of str, optional
        The columns to predict it from; all others unless given, but for ids and columns of one value.
    exclude : iterable of str
        Columns to leave out.
    missing : {"indicator", "median", "drop", "error"}
        Replace missing values by the column's median and add an input that says where; replace them alone; leave out
        the rows that have some; or refuse them. For texts, missing is a level of its own in the first two. Rows without
        a target are left out unless missing values are refused.
    options : Options, optional
        How columns are to be read; `missing` in it is not used.
    seed : int
        For the folds of cross-fitted means.
    """
    options = _with_missing(options or Options(prefer=table.prefer), missing)
    names = _inputs(table, target, features, dict.fromkeys(exclude))
    if not len(table):
        raise TableError(f"{table.name} has column names but no rows.")
    problems: list[str] = []
    try:
        y, said = target_of(table_column(table, target), target, table.name, options)
    except TableError as error:
        problems.append(str(error).removeprefix(f"{table.name}: "))
        y, said = np.zeros(len(table)), []
    get = cache(lambda name: table_column(table, name))
    known = np.flatnonzero(~np.isnan(y))
    if not len(known):
        raise TableError(f"{table.name}: the target {target!r} has no values at all.")
    found = learn_columns(names, lambda name: get(name).take(known), options, features is not None, y[known], seed)
    problems += found.problems
    mapping = Preprocessing(target, found.columns, missing, options.na_values)
    if options.missing == "error" and not problems:
        gaps = found.missing | ({target: len(y) - len(known)} if len(known) < len(y) else {})
        if gaps:
            raise TableError(
                f"{table.name} has missing values: {counted(gaps)}. Leave out the rows with --missing drop, put "
                f"medians in their place with --missing median, tell the model where they are with --missing "
                f"indicator, or leave out the columns with --exclude."
            )
    if problems:
        raise TableError.of(table.name, problems)
    if not found.columns:
        reasons = "; ".join(f"{reading.name!r} is {reading.words}" for reading in found.readings[:5])
        raise TableError(f"{table.name}: no column is left to predict {target!r} from. {reasons}.")
    gaps = {name: int(get(name).missing.sum()) for name in mapping.sources}
    gaps = {name: count for name, count in gaps.items() if count} | found.missing
    if len(known) < len(y):
        gaps[target] = len(y) - len(known)
    whole = np.flatnonzero(~np.isnan(found.X).any(axis=1))
    if not len(whole):
        raise TableError(f"{table.name}: every row misses a value: {counted(gaps)}. Leave out columns with --exclude.")
    X, y, rows = found.X[whole], y[known][whole], known[whole]
    notes = [*table.notes, *said, *found.notes, *leaks(X, y, mapping.names, mapping.groups)]
    if len(known) < len(table):
        lost = len(table) - len(known)
        notes.append(f"{lost} row{'s' * (lost > 1)} without a target {'are' if lost > 1 else 'is'} left out.")
    codes = {place: code[whole] for place, code in found.codes.items()}
    return Training(mapping, X, y, rows, gaps, tuple(found.readings), tuple(notes), codes)


@dataclass(frozen=True)
class Learnt:
    """The columns of training data, examined and encoded."""

    columns: tuple[Column, ...]
    readings: list[Reading]
    problems: list[str]
    X: Floats
    """Of shape (n, inputs); mean targets of levels are cross-fitted."""
    missing: dict[str, int]
    codes: dict[int, Indices]
    """As in `Training`."""

    @property
    def notes(self) -> list[str]:
        """What was noticed, and which columns are left out, in sentences."""
        left_out = [f"{reading.name!r} is {reading.words}." for reading in self.readings if reading.column is None]
        return [*(note for reading in self.readings for note in reading.notes), *left_out]


def learn_columns(
    names: Sequence[str], get: Lookup, options: Options, chosen: bool, y: Floats | None, seed: int
) -> Learnt:
    """Examine and encode columns; if all of them would be left out as ids, they are kept."""
    readings, problems = examine(names, get, options, chosen, y)
    if not chosen and not problems and all(reading.column is None for reading in readings):
        readings, problems = examine(names, get, options, True, y)
    columns = tuple(reading.column for reading in readings if reading.column is not None)
    if problems or not columns:
        return Learnt((), readings, problems, np.empty((0, 0)), {}, {})
    parts, codes, missing, place = [], {}, {}, 0
    for column in columns:
        found = encode_values(column, lambda name: blanked(get(name), options.na_values))
        part = found.X
        if column.kind == "means" and y is not None:
            code = codes_of(column, blanked(get(column.name), options.na_values))
            known = ~np.isnan(part[:, 0])
            part[:, 0] = np.where(known, cross_fitted(code, y, len(column.levels), seed), np.nan)
            codes[place] = code
        if found.missing:
            missing[column.label] = found.missing
        parts.append(part)
        place += part.shape[1]
    return Learnt(columns, readings, problems, np.concatenate(parts, axis=1), missing, codes)


def target_of(values: Values, name: str, source: str, options: Options) -> tuple[Floats, list[str]]:
    """The target column, of shape (n,), NaN where a value is missing, and notes; all but numbers are refused."""
    values = blanked(values, options.na_values)
    if values.kind not in ("number", "text", "empty"):
        words = {"bool": "true and false", "date": "dates", "clock": "times", "time": "times"}.get(values.kind)
        raise TableError(f"{source}: the target {name!r} holds {words or values.type_name}, but must hold numbers.")
    form, said = None, []
    if values.kind == "text":
        _, written = read_numbers(values.levels, options.decimal, options.thousands, options.prefer)
        form = written.decimal
        said = [f"The target {name!r} is read as {written.words()}."] if written.words() else []
    return number_values(values, Column(name, "number", form=form), source), said


def check_columns(source: str, names: Sequence[str], wanted: Iterable[str]) -> None:
    """Refuse a table, called `source` in the message, with columns `names`, if it lacks one of the wanted columns."""
    there = set(names)
    for name in wanted:
        if name not in there:
            raise TableError(f"{source} has no column {name!r}; it has {listed(names, 12)}.{nearest(name, names)}")


def _with_missing(options: Options, missing: str) -> Options:
    if missing not in MISSING:
        raise ValueError(f"missing must be one of {', '.join(MISSING)}; got {missing!r}.")
    return Options(**{**options.__dict__, "missing": missing})


def _inputs(table: Table, target: str, features: Sequence[str] | None, exclude: Mapping[str, None]) -> list[str]:
    """The columns that the target is predicted from, checked."""
    check_columns(table.name, table.names, [target, *(features or []), *exclude])
    if features is None:
        names = [name for name in table.names if name != target and name not in exclude]
    else:
        names = [name for name in dict.fromkeys(features) if name not in exclude]
    if target in names:
        raise TableError(f"{target!r} is the target, and cannot be among the features too.")
    if not names:
        raise TableError(f"{table.name}: no column is left to predict {target!r} from.")
    return names


def nearest(name: str, names: Sequence[str]) -> str:
    """The end of a message: a hint at the most similar of the names, if one is similar."""
    close = [other for other in names if other.lower() == name.lower()] or get_close_matches(name, names, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def counted(counts: dict[str, int]) -> str:
    """Columns with their counts for a message; of many, the first eight."""
    shown = ", ".join(f"{name!r} ({count})" for name, count in list(counts.items())[:8])
    return shown + (f", and {len(counts) - 8} more columns" if len(counts) > 8 else "")
