"""Opening tables by the suffix of their file: text, Parquet, Arrow, JSON, NPZ, Excel, databases, zips and patterns."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from glob import glob, has_magic
from pathlib import PurePath
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from ..core.files import check_readable
from ..exceptions import TableError
from .base import Dialect, Reader, Table, listed, readable
from .binary import open_arrow, open_database, open_json, open_npz, open_parquet_file
from .excel import open_excel
from .text import open_text

PART = "::"  # between the path of a file and which sheet, table, query or member of it is read

Opener = Callable[[BinaryIO, str, str, Dialect], Reader]
"""A function of a stream, the file's name for messages, its format, and how it is written."""
FORMATS: dict[str, tuple[Opener | None, tuple[str, ...]]] = {
    "csv": (open_text, (".csv", ".txt")),
    "tsv": (open_text, (".tsv", ".tab")),
    "parquet": (open_parquet_file, (".parquet", ".pq")),
    "arrow": (open_arrow, (".arrow", ".feather", ".ipc")),
    "json": (open_json, (".jsonl", ".ndjson", ".json")),
    "npz": (open_npz, (".npz",)),
    "excel": (open_excel, (".xlsx", ".xls", ".xlsb", ".ods")),
    "database": (None, (".db", ".sqlite", ".sqlite3", ".duckdb")),
    "zip": (None, (".zip",)),
}
"""What opens each format, and the suffixes that it has; databases and zips are more than one table."""
_BY_SUFFIX = {suffix: form for form, (_, suffixes) in FORMATS.items() for suffix in suffixes}


def format_of(path: str | os.PathLike[str]) -> str:
    """The format of a file by its suffix, one of `FORMATS`; "csv" if it has none.

    Examples
    --------
    >>> format_of("weather.tsv.gz"), format_of("weather.feather"), format_of("shop.db::orders"), format_of("-")
    ('tsv', 'arrow', 'database', 'csv')
    """
    path = PurePath(_split_part(path)[0])
    zipped = path.suffix.lower() == ".gz"
    suffix = PurePath(path.stem if zipped else path.name).suffix.lower()
    form = _BY_SUFFIX.get(suffix, "" if suffix else "csv")
    if not form or (zipped and form not in ("csv", "tsv", "json")):
        known = ", ".join(_BY_SUFFIX)
        raise TableError(f"{path.name}: which format is this? The suffixes are {known}, .csv.gz and .tsv.gz.")
    return form


def _split_part(path: str | os.PathLike[str]) -> tuple[str, str | None]:
    """A path and what stands after `PART`: which sheet, table, query or member is read; None if nothing does."""
    file, mark, part = os.fspath(path).partition(PART)
    return (os.fspath(path), None) if not mark or os.path.exists(path) else (file, part)


@contextmanager
def open_table(
    path: str | os.PathLike[str], standard_input: BinaryIO | None = None, dialect: Dialect | None = None
) -> Iterator[Reader]:
    """A reader of a file, which has read the column names.

    Parameters
    ----------
    path : str or path-like
        The file; "-" for CSV from standard input; a pattern such as "sales-*.csv" for files with the same columns; or a
        file and a part of it: "book.xlsx::Sheet2", "shop.db::orders", "shop.db::select ...", "all.zip::a.csv".
    standard_input : binary stream, optional
        Read in place of the process's standard input.
    dialect : Dialect, optional
        How a file of text is written; by its first lines unless given.

    Raises
    ------
    TableError
        For all that can be wrong, also if the file does not exist.
    """
    file, part = _split_part(path)
    dialect = replace(dialect or Dialect(), part=part)
    with ExitStack() as stack:
        if str(path) == "-":
            stream: Any = standard_input or sys.stdin.buffer
            if not stream.seekable():  # a pipe, which can be read only once
                copy = stack.enter_context(TemporaryFile())
                shutil.copyfileobj(stream, copy, 2**20)
                stream = copy
            yield open_text(stream, "standard input", "csv", dialect)
            return
        is_pattern = has_magic(file) and not os.path.exists(file)
        files = sorted(glob(file)) if is_pattern else [file]
        if not files:
            raise TableError(f"{file}: no files have such names.")
        readers = [_open(stack, each, dialect) for each in files]
        yield readers[0] if len(readers) == 1 else _joined(readers, file)


def _open(stack: ExitStack, path: str, dialect: Dialect) -> Reader:
    """A reader of one file, which is closed with the stack."""
    form = format_of(path)
    try:
        check_readable(path)
        if form == "database":
            return open_database(path, dialect.part)
        stream: Any = stack.enter_context(open(path, "rb"))  # noqa: SIM115
        if form == "zip":
            with readable(path, "a zip"):
                archive = stack.enter_context(zipfile.ZipFile(stream))
                name = _member(archive, path, dialect.part)
                stream, form = stack.enter_context(archive.open(name)), format_of(name)
            path, dialect = f"{path}{PART}{name}", replace(dialect, part=None)
        opener = FORMATS[form][0]
        assert opener is not None
        return opener(stream, path, form, dialect)
    except FileNotFoundError:
        raise TableError(f"{path}: there is no such file.") from None
    except IsADirectoryError:
        raise TableError(f"{path} is a folder, not a file.") from None
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or error}.") from None


def _member(archive: zipfile.ZipFile, path: str, part: str | None) -> str:
    """The name of the one file of a zip, or of the one that is named."""
    names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
    if part is None and len(names) != 1:
        raise TableError(f"{path} holds {len(names)} files: {listed(names, 12)}. Name one: {path}{PART}NAME.")
    name = names[0] if part is None else part
    if name not in names:
        raise TableError(f"{path} has no file {name!r}; it has {listed(names, 12)}.")
    if FORMATS[format_of(name)][0] is None:
        raise TableError(f"{path}: {name!r} cannot be read within a zip; unpack it first.")
    return name


def _joined(readers: Sequence[Reader], pattern: str) -> Reader:
    """A reader of the rows of several files, one after the other."""
    first, begins = readers[0], list[int]()
    for other in readers[1:]:
        if differ := sorted(set(other.names) ^ set(first.names)):
            raise TableError(f"{pattern}: {other.name} and {first.name} differ in their columns: {listed(differ)}.")

    def batches(wanted: list[str]) -> Iterator[Any]:
        begins.clear()
        at, schema = 0, None
        with readable(pattern, "one table"):
            for reader in readers:
                begins.append(at)
                for batch in reader.batches(wanted):
                    schema = schema or batch.schema
                    yield batch.cast(schema)
                    at += batch.num_rows

    def where(row: int) -> str:
        place = sum(begin <= row for begin in begins) - 1
        return f"{readers[place].where(row - begins[place])} of {readers[place].name}"

    notes = list(dict.fromkeys(note for reader in readers for note in reader.notes))
    plain = all(reader.plain for reader in readers)
    return replace(first, name=pattern, batches=batches, where=where, notes=notes, plain=plain)


def read_table(path: str | os.PathLike[str], dialect: Dialect | None = None) -> Table:
    """The table of all rows of a file."""
    with open_table(path, dialect=dialect) as reader:
        return reader.read()
