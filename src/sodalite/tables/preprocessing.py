"""Preprocessing: the mapping from the columns of a table to the inputs of a model, which is kept with the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from ..core.state import Converter
from ..core.types import Floats
from ..core.words import counted
from ..exceptions import TableError
from .base import Table, check_columns, table_error
from .column import Column, Lookup, is_named
from .columns import TRANSFORMERS
from .dates import Dates
from .unseen import Unseen
from .values import frame_column, frame_names, table_column


@dataclass(frozen=True)
class Encoded:
    """The rows of a table as inputs of a model."""

    X: Floats
    """Of shape (n, inputs); NaN where a value is missing and not replaced."""
    missing: dict[str, int]
    """The number of missing values, replaced or not, of each column that has any."""
    strange: dict[str, dict[str, int]] = field(default_factory=dict)
    """How often each level occurs that is not in the training data, by column."""
    imputed: dict[str, int] = field(default_factory=dict)
    """The number of missing values of each column that missed none in the training data; its middle is put in."""
    unseen: tuple[Unseen, ...] = ()
    """The rows of levels that are not in the training data."""


def imputed_notes(counts: Mapping[str, int]) -> list[str]:
    """What takes the place of missing values of columns that missed none in the fit, which are counted."""
    missed = f"Missing values of columns that missed none in the fit: {counted(counts)}"
    words = f"{missed}; their middle is put in, with error bars as wide as other values would change the prediction."
    return [words] if counts else []


@dataclass(frozen=True)
class Preprocessing:
    """The columns that a model uses, and how each becomes inputs; see `sodalite.tables.columns`."""

    target: str | None
    columns: tuple[Column, ...]
    missing: str = "error"
    """How missing values are treated: one of `MISSING`."""
    na_values: tuple[str, ...] = ()
    """Values that mean a missing value, beside the usual ones."""
    encoding: str | None = None
    """The encoding that was given for the file of the training data; None if none was."""

    @property
    def names(self) -> list[str]:
        """The names of the model's inputs."""
        return [name for column in self.columns for name in column.names]

    @property
    def groups(self) -> list[str]:
        """For each of the model's inputs, the column that it comes from."""
        return [column.label for column in self.columns for _ in column.names]

    @cached_property
    def dates(self) -> list[str]:
        """The columns that hold dates, or numbers that tell the time by their name."""
        is_date = (isinstance(column, Dates) or is_named(column.name, "time") for column in self.columns)
        return [column.label for column, told in zip(self.columns, is_date, strict=True) if told]

    @property
    def sources(self) -> list[str]:
        """The names of the columns of the table that are needed."""
        return [name for column in self.columns for name in column.sources]

    def to_json(self) -> dict[str, Any]:
        """The mapping as JSON."""
        tree: dict[str, Any] = Converter(TRANSFORMERS).dump(self, type(self))[0]
        return tree

    @classmethod
    def from_json(cls, content: Any) -> Self:
        """The mapping from its JSON; all else is refused with a ValueError."""
        mapping: Self = Converter(TRANSFORMERS).load(content, cls, where="preprocessing")
        return mapping

    def check_names(self, names: Sequence[str], source: str) -> None:
        """Refuse a table that lacks one of the columns; it may have more columns, in any order."""
        check_columns(source, names, self.sources, ", which the model needs")

    def answers_gaps(self, label: str) -> bool:
        """Whether a column, by its label, has a code for missing values."""
        return any(column.label == label and column.fill is not None for column in self.columns)

    def encode(self, table: Table) -> Encoded:
        """The rows of a table as the model's inputs. Columns are found by name; other columns are ignored.

        A `TableError` names all columns that hold values of another kind, or miss values if `missing` is "error".
        """
        self.check_names(table.names, table.name)
        return self.encode_columns(lambda name: table_column(table, name).blanked(self.na_values), table.name)

    def encode_frame(self, X: Any, source: str = "X") -> Encoded:
        """The rows of a data frame (pandas, polars, pyarrow) as the model's inputs, as `encode`."""
        names = frame_names(X)  # pandas keeps the blanks around names in a file
        places = {name.strip(): place for place, name in enumerate(names)}
        places |= {name: place for place, name in enumerate(names)}
        self.check_names(list(places), source)
        return self.encode_columns(lambda name: frame_column(X, places[name]).blanked(self.na_values), source)

    def encode_columns(self, get: Lookup, source: str) -> Encoded:
        """The rows of columns that are looked up by name, without codes for missing values, as `encode`."""
        encoded, problems = Encoded(np.empty((0, 0)), {}), list[str]()
        parts, unseen, place = list[Floats](), list[Unseen](), 0
        for column in self.columns:
            try:
                coded = column.encode(get)
            except TableError as error:
                problems.append(str(error))
                continue
            if coded.missing:
                encoded.missing[column.label] = coded.missing
            if coded.missing and column.complete and column.fill is not None:
                encoded.imputed[column.label] = coded.missing
            if coded.unknown:
                encoded.strange[column.name] = coded.unknown
            if len(coded.unseen):
                rows, inputs = np.flatnonzero(coded.unseen >= 0), np.arange(place, place + coded.X.shape[1])
                unseen.append(Unseen(rows, coded.unseen[rows], inputs, column.known()))
            parts.append(coded.X)
            place += coded.X.shape[1]
        if problems:
            raise table_error(source, problems)
        if encoded.missing and self.missing == "error":
            raise TableError(
                f"{source} has missing values: {counted(encoded.missing)}. The model was not fitted with any."
            )
        return replace(encoded, X=np.concatenate(parts, axis=1), unseen=tuple(unseen))
