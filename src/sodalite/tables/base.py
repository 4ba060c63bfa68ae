"""Tables in memory, readers of tables, what cells mean, and the error for tables that cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from ..core.optional import require
from ..exceptions import TableError

CHUNK = 2**16  # most rows of a chunk: a few megabytes for tens of columns
LEVEL_CODES = frozenset(["", "na", "n/a", "#n/a", "nan", "null", "?", "<na>", "n.a."])
"""Texts, in lower case, that mean a missing value in a column of texts; others may be levels, such as "none"."""
MISSING_TEXTS = LEVEL_CODES | {"-nan", "nil", "-", "--", ".", "*", "..", "...", "none", "missing", "0000-00-00"}
MISSING_TEXTS |= {"#div/0!", "#value!", "#ref!", "#name?", "#num!", "not available", "no data", "n.d.", "n/d", "nd"}
MISSING_TEXTS |= {"unknown", "not known", "not reported", "not applicable", "tba", "tbd"}
"""Texts, in lower case, that mean a missing value where numbers or dates are expected."""
CORRECT = "Correct it, or leave the cell empty if the value is missing."


@contextmanager
def readable(name: str, what: str, where: str = "") -> Iterator[None]:
    """Raise any error as a `TableError` that names the file; damaged files cause errors of many kinds."""
    try:
        yield
    except (TableError, ModuleNotFoundError):
        raise
    except Exception as error:
        words = (str(error).splitlines() or [""])[0].rstrip(".") or type(error).__name__
        words = f"not enough memory ({words})" if isinstance(error, MemoryError) else words
        raise TableError(f"{name} cannot be read as {what}: {where}{words}.") from None


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
    part: str | None = None
    """Which sheet, table, query or member of a file is read, as `path::part` names it."""


@dataclass
class Reader:
    """An open file whose column names are known, and whose rows are read once."""

    name: str
    """The name of the file, for messages."""
    names: list[str]
    batches: Callable[[list[str]], Iterable[Any]]
    """A function of some columns: their rows, as record batches of pyarrow; cells of a file of text are texts."""
    where: Callable[[int], str] = "row {}".format
    """The name of a row of the file in messages, such as "line 7", by its number."""
    prefer: str = "."
    """The decimal mark of numbers that can be read in two ways."""
    plain: bool = True
    """Whether texts may be numbers as Python's float reads them: no other marks were given for the file."""
    encoding: str | None = None
    """The encoding that was given for the file; None if it was found from the file."""
    notes: list[str] = field(default_factory=list)
    """What was noticed in reading the file: sentences."""

    @classmethod
    def of(cls, data: Any, name: str) -> Reader:
        """The reader of a pyarrow.Table; columns of one name get different ones."""
        names, notes = unique(data.column_names)
        data = data.rename_columns(names)
        return cls(name, names, lambda wanted: data.select(wanted).to_batches(), notes=notes)

    def read(self) -> Table:
        """The table of all rows."""
        arrow, parts = require("pyarrow", "cli"), list(self.batches(self.names))
        empty = arrow.table([[] for _ in self.names], self.names)
        return Table(arrow.Table.from_batches(parts) if parts else empty, self)

    def chunks(self, names: Iterable[str]) -> Generator[Table, None, None]:
        """Tables of some columns, at most `CHUNK` rows at a time where the file's format allows it."""
        arrow, first = require("pyarrow", "cli"), 0
        for batch in self.batches(list(names)):
            for begin in range(0, batch.num_rows, CHUNK):
                yield Table(arrow.Table.from_batches([batch.slice(begin, CHUNK)]), self, first + begin)
            first += batch.num_rows


@dataclass(frozen=True)
class Table:
    """Consecutive rows of a file."""

    data: Any
    """A pyarrow.Table."""
    reader: Reader
    first: int = 0
    """The number of the first of these rows in the file."""

    def __len__(self) -> int:
        return int(self.data.num_rows)

    @property
    def name(self) -> str:
        """The name of the file, for messages."""
        return self.reader.name

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.data.column_names)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was noticed in reading the file: sentences."""
        return tuple(self.reader.notes)

    def place(self, row: int) -> str:
        """The name of a row of this table in messages, such as "line 7"."""
        return self.reader.where(self.first + row)


def unique(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Names for columns, all different, and notes: those that pandas gives to the frame that it reads from the file.

    A second column of a name gets a number, "a.1", and one without a name its place, "Unnamed: 0".
    """
    different: dict[str, None] = {}
    every, notes = set(names), []
    for place, name in enumerate(names):
        first = name if name.strip() else f"Unnamed: {place}"
        new, number = first, 1
        while new in different or (new != name and new in every):
            new, number = f"{first}.{number}", number + 1
        if new != name and name.strip():
            notes.append(f"There are two columns named {name!r}; the second is read as {new!r}.")
        different[new] = None
    return list(different), notes


def listed(names: Iterable[str], most: int = 5) -> str:
    """Names for a message, separated by commas; of many, the first few."""
    names = list(names)
    return ", ".join(map(repr, names[:most])) + (", ..." if len(names) > most else "")


def is_number(text: str) -> bool:
    """Whether a text can be read as a number; Python's 1_000 cannot."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def check_columns(source: str, names: Sequence[str], wanted: Iterable[str], why: str = "") -> None:
    """Refuse a table, called `source` in the message, with columns `names`, if it lacks one of the wanted columns."""
    there = set(names)
    if absent := [name for name in wanted if name not in there]:
        near = nearest(absent[0], names)
        raise TableError(f"{source} has no column {listed(absent)}{why}; it has {listed(names, 12)}.{near}")


def nearest(name: str, names: Sequence[str]) -> str:
    """The end of a message: a hint at the most similar of the names, if one is similar."""
    close = [other for other in names if other.lower() == name.lower()] or get_close_matches(name, names, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def table_error(source: str, problems: Sequence[str]) -> TableError:
    """The error for all that is wrong with a table; each problem is a sentence or two."""
    if len(problems) == 1:
        return TableError(f"{source}: {problems[0]}")
    return TableError("\n".join([f"{source} cannot be used as it is:", *(f"- {problem}" for problem in problems)]))


def choose_part(path: str, part: str | None, names: Sequence[str], what: str) -> str:
    """The name of the part of a file that is read: the one that is named, or the only one."""
    if part is None and len(names) != 1:
        raise TableError(f"{path} holds {len(names)} {what}s: {listed(names, 12)}. Name one: {path}::NAME.")
    if part is not None and part not in names:
        raise TableError(f"{path} has no {what} {part!r}; it has {listed(names, 12)}.")
    return names[0] if part is None else part
