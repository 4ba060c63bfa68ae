"""Opening tables by the suffix of their file: text, Parquet, Arrow, JSON, Excel, databases, zips and patterns."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from glob import glob, has_magic
from pathlib import Path, PurePath
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from ..core.files import check_readable
from ..core.optional import require
from ..exceptions import TableError
from .base import CHUNK, Dialect, Reader, Table, choose_part, listed, readable, unique
from .text import open_excel, open_text, unzipped

PART = "::"  # between the path of a file and which sheet, table, query or member of it is read
QUERIES = ("select ", "with ", "from ")
"""How a query of a database begins; all else is the name of a table."""


def open_parquet_file(stream: BinaryIO, name: str, form: str, dialect: Dialect) -> Reader:
    """A reader of a Parquet file, of which only the columns that are needed are read."""
    parquet = require("pyarrow.parquet", "parquet")
    with readable(name, "Parquet"):
        file = parquet.ParquetFile(stream)
        names = file.schema_arrow.names
    is_unique = unique(names)[0] == names
    return _streamed(name, "Parquet", names, lambda some: file.iter_batches(CHUNK, columns=some if is_unique else None))


def open_arrow(stream: BinaryIO, name: str, form: str, dialect: Dialect) -> Reader:
    """A reader of Arrow's own format, which is also Feather's: files and streams."""
    ipc = require("pyarrow.ipc", "parquet")
    with readable(name, "Arrow"):
        is_file = stream.read(6) == b"ARROW1"
        stream.seek(0)
        file: Any = ipc.open_file(stream) if is_file else ipc.open_stream(stream)
        names = file.schema.names

    def batches(wanted: list[str]) -> Iterator[Any]:
        for batch in map(file.get_batch, range(file.num_record_batches)) if is_file else file:
            batch.validate(full=True)  # Arrow does not check offsets, and a wrong one crashes the process
            yield batch

    return _streamed(name, "Arrow", names, batches)


def _streamed(name: str, what: str, every: list[str], batches: Callable[[list[str]], Iterable[Any]]) -> Reader:
    """A reader of batches that have all columns, or those that are asked for."""
    names, notes = unique(every)

    def selected(wanted: list[str]) -> Iterator[Any]:
        with readable(name, what):
            for batch in batches(wanted):
                named = batch.rename_columns(names) if batch.num_columns == len(names) else batch
                yield named.select(wanted)

    return Reader(name, names, selected, notes=notes)


def open_json(stream: BinaryIO, name: str, form: str, dialect: Dialect) -> Reader:
    """A reader of JSON lines, or of one list of objects."""
    with readable(name, "JSON"):
        stream = unzipped(stream)
        is_list = stream.read(64).lstrip()[:1] == b"["
        stream.seek(0)
        if is_list:
            return Reader.of(require("pyarrow", "cli").Table.from_pylist(json.load(stream)), name)
        return Reader.of(require("pyarrow.json", "cli").read_json(stream), name)


def open_database(path: str, part: str | None) -> Reader:
    """A reader of a table of an SQLite or DuckDB database, or of what a query of it gives; nothing can change it.

    `part` is the name of a table, or a query; a database of one table needs none.
    """
    name = path if part is None else f"{path}{PART}{part}"
    with open(path, "rb") as stream:
        is_sqlite = stream.read(16).startswith(b"SQLite format 3")
    with readable(name, "a database"):
        if is_sqlite:
            base: Any = sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)
            query = "select name from sqlite_master where type in ('table', 'view')"
        else:
            base = require("duckdb", "databases").connect(path, read_only=True)
            query = "select table_name from information_schema.tables"
        with closing(base):
            if part is not None and part.lower().lstrip().startswith(QUERIES):
                query = part
            else:
                names = [row[0] for row in base.execute(query).fetchall()]
                quoted = choose_part(path, part, names, "table").replace('"', '""')
                query = f'select * from "{quoted}"'
            cursor = base.execute(query)
            names = [column[0] for column in cursor.description]
            columns = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(names)
            return Reader.of(require("pyarrow", "cli").table(list(map(_mixed, columns)), names), name)


def _mixed(values: Any) -> Any:
    """Python's values as an array of Arrow's: of several types, which SQLite allows in a column, as texts."""
    arrow = require("pyarrow", "cli")
    try:
        return arrow.array(values)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError):
        return arrow.array([None if value is None else str(value) for value in values])


Opener = Callable[[BinaryIO, str, str, Dialect], Reader]
"""A function of a stream, the file's name for messages, its format, and how it is written."""
FORMATS: dict[str, tuple[Opener | None, tuple[str, ...]]] = {
    "csv": (open_text, (".csv", ".txt")),
    "tsv": (open_text, (".tsv", ".tab")),
    "parquet": (open_parquet_file, (".parquet", ".pq")),
    "arrow": (open_arrow, (".arrow", ".feather", ".ipc")),
    "json": (open_json, (".jsonl", ".ndjson", ".json")),
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
        files = sorted(glob(file)) if has_magic(file) and not os.path.exists(file) else [file]
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
                names = [name for name in archive.namelist() if name[-1] != "/" and not name.startswith("__MACOSX")]
                name = choose_part(path, dialect.part, names, "file")
                stream, form = stack.enter_context(archive.open(name)), format_of(name)
            path, dialect = f"{path}{PART}{name}", replace(dialect, part=None)
        opener = FORMATS[form][0]
        if opener is None:
            raise TableError(f"{path} cannot be read within a zip; unpack it first.")
        return opener(stream, path, form, dialect)
    except FileNotFoundError:
        raise TableError(f"{path}: there is no such file.") from None
    except IsADirectoryError:
        raise TableError(f"{path} is a folder, not a file.") from None
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or error}.") from None


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
