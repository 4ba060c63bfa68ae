"""Opening files of tables by their suffix: CSV, TSV, both also in gzip, Parquet, Arrow or Feather, NPZ, and Excel."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import PurePath
from typing import BinaryIO

from ..core.files import check_readable
from .base import Dialect, Reader, Table, TableError
from .binary import ArrowReader, NpzReader, ParquetReader
from .excel import ExcelReader
from .text import TextReader

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".txt": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".npz": "npz",
    ".xlsx": "excel",
    ".xls": "excel",
    ".xlsb": "excel",
    ".ods": "excel",
}

_READERS: dict[str, Callable[[BinaryIO, str, str, Dialect], Reader]] = {
    "csv": TextReader,
    "tsv": TextReader,
    "parquet": ParquetReader,
    "arrow": ArrowReader,
    "npz": NpzReader,
    "excel": ExcelReader,
}


def format_of(path: str | os.PathLike[str]) -> str:
    """The format of a file, by its suffix: "csv", "tsv", "parquet", "arrow", "npz" or "excel"; "csv" if it has none.

    Examples
    --------
    >>> format_of("weather.tsv.gz"), format_of("weather.feather"), format_of("-")
    ('tsv', 'arrow', 'csv')
    """
    suffixes = [suffix.lower() for suffix in PurePath(path).suffixes]
    zipped = suffixes[-1:] == [".gz"]
    suffix = "".join((suffixes[:-1] if zipped else suffixes)[-1:])
    found = FORMATS.get(suffix, "csv" if not suffix else None)
    if found is None or (zipped and found not in ("csv", "tsv")):
        name = PurePath(path).name
        raise TableError(f"{name}: which format is this? The suffixes are {', '.join(FORMATS)}, .csv.gz and .tsv.gz.")
    return found


@contextmanager
def open_table(
    path: str | os.PathLike[str], standard_input: BinaryIO | None = None, dialect: Dialect | None = None
) -> Iterator[Reader]:
    """A reader of a file, which has read the column names.

    Parameters
    ----------
    path : str or path-like
        The file, or "-" for CSV from standard input.
    standard_input : binary stream, optional
        Read in place of the process's standard input.
    dialect : Dialect, optional
        How a file of text is written; by its first lines unless given.

    Raises
    ------
    TableError
        For all that can be wrong, also if the file does not exist.
    """
    form = format_of(path)
    with ExitStack() as stack:
        try:
            if str(path) == "-":
                stream, name = standard_input or sys.stdin.buffer, "standard input"
            else:
                check_readable(path)
                stream, name = stack.enter_context(open(path, "rb")), str(path)
            reader = _READERS[form](stream, name, form, dialect or Dialect())
        except FileNotFoundError:
            raise TableError(f"{path}: there is no such file.") from None
        except IsADirectoryError:
            raise TableError(f"{path} is a folder, not a file.") from None
        except OSError as error:
            raise TableError(f"{path} cannot be read: {error.strerror or error}.") from None
        yield reader


def read_table(path: str | os.PathLike[str], dialect: Dialect | None = None) -> Table:
    """The table of all rows of a file, each column with a type that fits all of its cells."""
    with open_table(path, dialect=dialect) as reader:
        return reader.read()
