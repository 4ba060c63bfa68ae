"""Readers of Parquet, Arrow or Feather, JSON, NPZ, and tables of databases."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..core.memory import available
from ..core.optional import require
from .base import CHUNK, Dialect, Reader, TableError, first_line, listed, unique
from .text import unzipped

MOST_COLUMNS = 10**6  # columns of an NPZ array; each becomes an Arrow array, which takes about 1 kB beside its values
QUERIES = ("select ", "with ", "from ")
"""How a query of a database begins; all else is the name of a table."""


def open_parquet_file(stream: BinaryIO, name: str, form: str, dialect: Dialect) -> Reader:
    """A reader of a Parquet file, of which only the columns that are needed are read."""
    arrow = require("pyarrow", "parquet")
    with readable(name, "Parquet"):
        file = require("pyarrow.parquet", "parquet").ParquetFile(stream)
        every = file.schema_arrow.names
        names, notes = unique(every)

    def batches(wanted: list[str]) -> Iterator[Any]:
        with readable(name, "Parquet"):
            for batch in file.iter_batches(CHUNK, columns=wanted if names == every else None):
                yield arrow.RecordBatch.from_arrays(batch.columns, batch.schema.names if names == every else names)

    return Reader(name, names, _selected(batches), notes=notes)


def open_arrow(stream: BinaryIO, name: str, form: str, dialect: Dialect) -> Reader:
    """A reader of Arrow's own format, which is also Feather's: files and streams."""
    arrow, ipc = require("pyarrow", "parquet"), require("pyarrow.ipc", "parquet")
    with readable(name, "Arrow"):
        whole = stream.read(6) == b"ARROW1"
        stream.seek(0)
        file: Any = ipc.open_file(stream) if whole else ipc.open_stream(stream)
        names, notes = unique(file.schema.names)
    parts = (file.get_batch(place) for place in range(file.num_record_batches)) if whole else file

    def batches(wanted: list[str]) -> Iterator[Any]:
        with readable(name, "Arrow"):
            for batch in parts:
                batch.validate(full=True)  # Arrow does not check offsets, and a wrong one crashes the process
                yield arrow.RecordBatch.from_arrays(batch.columns, names)

    return Reader(name, names, _selected(batches), notes=notes)


def open_json(stream: BinaryIO, name: str, form: str, dialect: Dialect) -> Reader:
    """A reader of JSON lines, or of one list of objects."""
    arrow = require("pyarrow", "cli")
    with readable(name, "JSON"):
        stream = unzipped(stream)
        first = stream.read(64).lstrip()[:1]
        stream.seek(0)
        if first == b"[":
            table = arrow.Table.from_pylist(json.load(stream))
        else:
            table = require("pyarrow.json", "cli").read_json(stream)
    return of_table(table, name)


def open_npz(stream: BinaryIO, name: str, form: str, dialect: Dialect) -> Reader:
    """A reader of NPZ files: an array of shape (n,) is one column, an array of shape (n, d) is d columns."""
    arrow = require("pyarrow", "cli")
    columns: dict[str, Any] = {}
    lengths: dict[str, int] = {}
    with readable(name, "NPZ"), zipfile.ZipFile(stream) as archive:
        for file in archive.namelist():
            if file.endswith(".npy"):
                key = file[:-4]
                with readable(name, "NPZ", f"array {key!r}: "):
                    array = _array(archive, file, f"{name}: array {key!r}")
                    lengths[key] = len(array)
                    parts = [array] if array.ndim == 1 else array.T
                    keys = [key] if array.ndim == 1 else [f"{key}{place}" for place in range(len(parts))]
                    columns.update(zip(keys, map(_arrow_array, parts), strict=True))
    if not lengths:
        raise TableError(f"{name} holds no arrays.")
    if len(set(lengths.values())) > 1:
        words = ", ".join(f"{key!r} {length}" for key, length in list(lengths.items())[:5])
        raise TableError(f"{name}: its arrays must be equally long, one value for each row; their lengths are {words}.")
    return of_table(arrow.table(columns), name)


def _array(archive: zipfile.ZipFile, file: str, name: str) -> Any:
    """An array of a zip file.

    Its header may claim any shape, so it is compared with the size in the zip file's directory. That may be wrong as
    well, so memory is taken as bytes are read.
    """
    with archive.open(file) as stream:
        version, size = np.lib.format.read_magic(stream), archive.getinfo(file).file_size
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = read(stream)
        needed, there, free = prod(shape) * dtype.itemsize, size - stream.tell(), available() // 2
        if dtype.kind not in "biufUMm" or not dtype.itemsize:
            raise TableError(f"{name} holds {dtype}, not numbers, texts, dates, durations or truth values.")
        if len(shape) not in (1, 2):
            raise TableError(f"{name} has {len(shape)} dimensions; one or two are needed.")
        if min(shape) < 0 or needed > there:
            claimed = " x ".join(map(str, shape))
            raise TableError(f"{name} is damaged: {claimed} values are announced, but there are only {there} bytes.")
        if len(shape) == 2 and shape[1] > MOST_COLUMNS:
            raise TableError(f"{name} has {shape[1]} columns; at most {MOST_COLUMNS} can be read.")
        if needed > free:
            raise TableError(
                f"{name} holds {needed / 1e9:.1f} GB when it is unpacked, but half of the memory that is free is "
                f"{free / 1e9:.1f} GB. Take some of its rows, or write it as Parquet files in a folder."
            )
        data = stream.read(needed)
        if len(data) < needed:
            raise EOFError("it ends early")
        return np.frombuffer(data, dtype).reshape(shape, order="F" if by_columns else "C")


def _arrow_array(array: Any) -> Any:
    """A NumPy array of shape (n,) as the nearest type of Arrow's."""
    arrow, dtype = require("pyarrow", "cli"), array.dtype
    if dtype.kind == "U":
        return arrow.array(array.tolist())
    if dtype.kind in "Mm":
        unit, count = np.datetime_data(dtype)
        if count > 1 or unit not in ("s", "ms", "us", "ns", *(["D"] if dtype.kind == "M" else [])):
            dtype = np.dtype(f"{dtype.kind}8[us]")
    wide = dtype.kind == "f" and dtype.itemsize > 8
    return arrow.array(np.ascontiguousarray(array, np.float64 if wide else dtype.newbyteorder("=")))


def open_database(path: str, part: str | None) -> Reader:
    """A reader of a table of an SQLite or DuckDB database, or of what a query of it gives.

    Parameters
    ----------
    path : str
    part : str or None
        The name of a table, or a query; a database of one table needs no name.
    """
    arrow = require("pyarrow", "cli")
    with open(path, "rb") as stream:
        is_sqlite = stream.read(16).startswith(b"SQLite format 3")
    name = path if part is None else f"{path}::{part}"
    with readable(name, "a database"), closing(_connect(path, is_sqlite)) as base:
        catalogue = "sqlite_master where type in ('table', 'view')" if is_sqlite else "information_schema.tables"
        key = "name" if is_sqlite else "table_name"
        tables = [row[0] for row in base.execute(f"select {key} from {catalogue}").fetchall()]
        if part is None and len(tables) != 1:
            raise TableError(f"{path} holds {len(tables)} tables: {listed(tables, 12)}. Name one: {path}::NAME.")
        asked = tables[0] if part is None else part
        is_query = asked.lower().lstrip().startswith(QUERIES)
        if not is_query and asked not in tables:
            raise TableError(f"{path} has no table {asked!r}; it has {listed(tables, 12)}.")
        quoted = asked.replace('"', '""')
        cursor = base.execute(asked if is_query else f'select * from "{quoted}"')
        names, notes = unique([column[0] for column in cursor.description])
        columns = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(names)
        data = arrow.table([_mixed(column) for column in columns], names)
    return of_table(data, name, notes)


def _connect(path: str, is_sqlite: bool) -> Any:
    """A connection to a database that cannot change it."""
    if is_sqlite:
        import sqlite3

        return sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)
    return require("duckdb", "databases").connect(path, read_only=True)


def _mixed(values: Any) -> Any:
    """Python's values as an array of Arrow's: of several types, which SQLite allows in a column, as texts."""
    arrow = require("pyarrow", "cli")
    try:
        return arrow.array(values)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError):
        return arrow.array([None if value is None else str(value) for value in values])


def of_table(
    data: Any, name: str, notes: list[str] | None = None, where: Callable[[int], str] = "row {}".format
) -> Reader:
    """A reader of a table in memory, with names that are all different."""
    names, more = unique(data.column_names)
    data = data.rename_columns(names)
    return Reader(
        name, names, lambda wanted: iter(data.select(wanted).to_batches()), where, notes=[*(notes or []), *more]
    )


def _selected(batches: Callable[[list[str]], Iterator[Any]]) -> Callable[[list[str]], Iterator[Any]]:
    """Batches with the wanted columns alone."""
    return lambda wanted: (batch.select(wanted) for batch in batches(wanted))


@contextmanager
def readable(name: str, what: str, where: str = "") -> Iterator[None]:
    """Raise any error as a `TableError` that names the file; damaged files cause errors of many kinds."""
    try:
        yield
    except (TableError, ModuleNotFoundError):
        raise
    except Exception as error:
        words = first_line(error)
        words = f"not enough memory ({words})" if isinstance(error, MemoryError) else words
        raise TableError(f"{name} cannot be read as {what}: {where}{words}.") from None
