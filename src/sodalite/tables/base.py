"""Tables in memory, readers of tables, and the error for tables that cannot be used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

TOTALS = frozenset(["total", "totals", "grand total", "sum", "summe", "gesamt", "total général", "suma", "totale"])
TOTALS |= {"average", "averages", "mean", "means", "subtotal", "durchschnitt", "mittelwert", "moyenne", "media"}
"""What a cell says in a row of sums or means of the rows above, in lower case."""
CORRECT = "Correct it, or leave the cell empty if the value is missing."


class TableError(ValueError):
    """A table cannot be read, written or used: what is wrong, where, and what to do, in one line for each problem."""

    @classmethod
    def of(cls, source: str, problems: Sequence[str]) -> TableError:
        """The error for all that is wrong with a table; each problem is a sentence or two."""
        if len(problems) == 1:
            return cls(f"{source}: {problems[0]}")
        return cls("\n".join([f"{source} cannot be used as it is:", *(f"- {problem}" for problem in problems)]))


@dataclass(frozen=True)
class Dialect:
    """How a file of text is written, where that is not left to its first lines."""

    sep: str | None = None
    """The mark between columns."""
    decimal: str | None = None
    """The decimal mark, "." or ","."""
    thousands: str | None = None
    """The mark between thousands."""
    encoding: str | None = None
    """The encoding of texts; unless given, UTF-16 where the file begins with its mark, or UTF-8, or `otherwise`."""
    na_values: tuple[str, ...] = ()
    """Texts that mean a missing value, beside the usual ones."""
    otherwise: str | None = None
    """The encoding of texts that are not UTF-8; Windows-1252 unless given."""

    @property
    def as_text(self) -> bool:
        """Whether all cells are read as texts first, because numbers are not written as Arrow reads them."""
        return self.decimal == "," or self.thousands is not None


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
    prefer: str = "."
    """The decimal mark of numbers that can be read in two ways."""
    notes: tuple[str, ...] = ()
    """What was noticed in reading the file: sentences."""
    encoding: str | None = None
    """The encoding that was given for the file; None if it was found from the file."""

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

    prefer = "."
    """The decimal mark of numbers that can be read in two ways."""

    encoding: str | None = None
    """The encoding that was given for the file; None if it is found from the file."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self.stream, self.name = stream, name
        self.notes: list[str] = []

    @abstractmethod
    def read(self) -> Table:
        """The table of all rows."""

    @abstractmethod
    def chunks(self, kinds: Mapping[str, str]) -> Generator[Table, None, None]:
        """Tables of some columns, a chunk of rows at a time; `kinds` is the kind of each column (`KINDS`)."""

    def where(self, row: int) -> str:
        """The name of a row of the file in messages."""
        return f"row {row}"

    def unique(self, names: Sequence[str]) -> list[str]:
        """Names for columns, all different: those that pandas gives to the frame that it reads from the file.

        A second column of a name gets a number, "a.1", and one without a name its place, "Unnamed: 0".
        """
        found: dict[str, None] = {}
        taken = set(names)
        for place, name in enumerate(names):
            first = name if name.strip() else f"Unnamed: {place}"
            new, number = first, 1
            while new in found or (new != name and new in taken):
                new, number = f"{first}.{number}", number + 1
            if new != name and name.strip():
                self.notes.append(f"There are two columns named {name!r}; the second is read as {new!r}.")
            found[new] = None
        return list(found)

    def _table(self, data: Any, first: int = 0) -> Table:
        return Table(data, self.name, self.where, first, self.prefer, tuple(self.notes), self.encoding)


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


def is_total(text: str) -> bool:
    """Whether a cell says that its row has the sums, or the means, of the rows above.

    Examples
    --------
    >>> is_total("Total:"), is_total("Totals"), is_total("totality")
    (True, True, False)
    """
    return text.strip().rstrip(":").lower() in TOTALS


def first_line(error: BaseException) -> str:
    """The first line of an error's message without its full stop, or the error's type if it has no message."""
    return (str(error).splitlines() or [""])[0].rstrip(".") or type(error).__name__
