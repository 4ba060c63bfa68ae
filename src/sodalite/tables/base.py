"""Tables in memory, readers of tables, and the error for tables that cannot be used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

CORRECT = "Correct it, or leave the cell empty if the value is missing."


class TableError(ValueError):
    """A table cannot be read, written or used; the message is one line: what is wrong, where, and what to do."""


@dataclass(frozen=True)
class Table:
    """Consecutive rows of a file."""

    data: Any
    """A pyarrow.Table."""
    name: str
    """The name of the file, for messages."""
    where: Callable[[int], str]
    """The name of a row of the file in messages, such as "line 7", by its number in the file."""
    first: int = 0
    """The number of the first of these rows in the file."""

    def __len__(self) -> int:
        return int(self.data.num_rows)

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.data.column_names)

    def place(self, row: int) -> str:
        """The name of a row of this table in messages, such as "line 7"."""
        return self.where(self.first + row)


class Reader(ABC):
    """An open file that is read once."""

    names: list[str]
    """The names of the columns."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.stream, self.name = stream, name

    @abstractmethod
    def read(self) -> Table:
        """The table of all rows."""

    @abstractmethod
    def chunks(self, kinds: Mapping[str, str]) -> Iterator[Table]:
        """Tables of some columns, a chunk of rows at a time; `kinds` is the kind of each column (`KINDS`)."""

    def where(self, row: int) -> str:
        """The name of a row of the file in messages."""
        return f"row {row}"

    def check_names(self) -> None:
        """Refuse a file with two columns of one name."""
        seen: set[str] = set()
        for name in self.names:
            if name in seen:
                raise TableError(f"{self.name} has two columns named {name!r}; give one of them another name.")
            seen.add(name)

    def _table(self, data: Any, first: int = 0) -> Table:
        return Table(data, self.name, self.where, first)


def listed(names: Sequence[str], most: int = 5) -> str:
    """Names for a message, separated by commas; of many, the first few."""
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")


def is_number(text: str) -> bool:
    """Whether a text can be read as a number; Python's 1_000 is none."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def first_line(error: BaseException) -> str:
    """The first line of an error's message without its full stop, or the error's type if it has no message."""
    return (str(error).splitlines() or [""])[0].rstrip(".") or type(error).__name__
