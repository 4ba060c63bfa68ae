"""A table in memory, and what is said of one that cannot be used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

CORRECT = "Correct it, or leave the cell empty if the value is missing."


class TableError(ValueError):
    """A table that cannot be read, or that holds what cannot be used: one line that says what, where and what to do."""


@dataclass(frozen=True)
class Table:
    """Some rows of a file."""

    data: Any
    """A pyarrow.Table."""
    name: str
    """Of the file, for messages."""
    where: Callable[[int], str]
    """How a row of the file is called in messages: "line 7" for instance."""
    first: int = 0
    """The number of the first of these rows in the file."""

    def __len__(self) -> int:
        return int(self.data.num_rows)

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return list(self.data.column_names)

    def place(self, row: int) -> str:
        """How a row of these is called in messages."""
        return self.where(self.first + row)


class Reader(ABC):
    """A file that is being read, once."""

    names: list[str]

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.stream, self.name = stream, name

    @abstractmethod
    def read(self) -> Table:
        """All rows."""

    @abstractmethod
    def chunks(self, kinds: Mapping[str, str]) -> Iterator[Table]:
        """Some columns, a chunk of rows at a time; `kinds` says what each holds (`sodalite.tables.KINDS`)."""

    def where(self, row: int) -> str:
        """How a row is called in messages."""
        return f"row {row}"

    def check_names(self) -> None:
        """Refuse two columns of one name."""
        seen: set[str] = set()
        for name in self.names:
            if name in seen:
                raise TableError(f"{self.name} has two columns named {name!r}; give one of them another name.")
            seen.add(name)

    def _table(self, data: Any, first: int = 0) -> Table:
        return Table(data, self.name, self.where, first)


def listed(names: Sequence[str], most: int = 5) -> str:
    """Some names in a row, the first few of many."""
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")


def is_number(text: str) -> bool:
    """Whether a text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text
