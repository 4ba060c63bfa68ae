"""Readers of Parquet, Arrow or Feather, JSON, NPZ, and tables of databases."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..core.memory import available
from ..core.optional import require
from ..exceptions import TableError
from .base import CHUNK, Dialect, Reader, listed, readable, unique
from .text import unzipped

MOST_COLUMNS = 10**6  # columns of an NPZ array; each becomes an Arrow array, which takes about 1 kB beside its values
QUERIES = ("select ", "with ", "from ")
"""How a query of a database begins; all else is the name of a table."""


def open_parquet_file(stream: BinaryIO, name: str, form: str, dialect: Dialect) -> Reader:
    """A reader of a Parquet file, of which only the columns that are needed are read."""
    parquet = require("pyarrow.parquet", "parquet")
    with readable(name, "Parquet"):
        file = parquet.ParquetFile(stream)
        names = file.schema_arrow.names
    as_named = unique(names)[0] == names
    return _streamed(name, "Parquet", names, lambda some: file.iter_batches(CHUNK, columns=some if as_named else None))


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


def open_npz(stream: BinaryIO, name: str, form: str, dialect: Dialect) -> Reader:
    """A reader of NPZ files: an array of shape (n,) is one column, an array of shape (n, d) is d columns."""
    columns, lengths = dict[str, Any](), dict[str, int]()
    with readable(name, "NPZ"):
        with zipfile.ZipFile(stream) as archive:
            needed, free = sum(part.file_size for part in archive.infolist()), available() // 2
        if needed > free:
            raise TableError(
                f"{name} holds {needed / 1e9:.1f} GB when it is unpacked, but half of the memory that is free is "
                f"{free / 1e9:.1f} GB. Take some of its rows, or write it as Parquet files in a folder."
            )
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as arrays:
            for key in arrays.files:
                with readable(name, "NPZ", f"array {key!r}: "):
                    array = arrays[key]
                    _check_array(array, f"{name}: array {key!r}")
                    lengths[key] = len(array)
                    parts = {key: array} if array.ndim == 1 else {f"{key}{at}": part for at, part in enumerate(array.T)}
                    columns |= {key: _arrow_array(part) for key, part in parts.items()}
    if not lengths:
        raise TableError(f"{name} holds no arrays.")
    if len(set(lengths.values())) > 1:
        words = ", ".join(f"{key!r} {length}" for key, length in list(lengths.items())[:5])
        raise TableError(f"{name}: its arrays must be equally long, one value for each row; their lengths are {words}.")
    return Reader.of(require("pyarrow", "cli").table(columns), name)


def _check_array(array: Any, name: str) -> None:
    """Refuse an array that is not one or several columns."""
    if array.dtype.kind not in "biufUMm" or not array.dtype.itemsize:
        raise TableError(f"{name} holds {array.dtype}, not numbers, texts, dates, durations or truth values.")
    if array.ndim not in (1, 2):
        raise TableError(f"{name} has {array.ndim} dimensions; one or two are needed.")
    if array.ndim == 2 and array.shape[1] > MOST_COLUMNS:
        raise TableError(f"{name} has {array.shape[1]} columns; at most {MOST_COLUMNS} can be read.")


def _arrow_array(array: Any) -> Any:
    """A NumPy array of shape (n,) as the nearest type of Arrow's."""
    arrow, dtype = require("pyarrow", "cli"), array.dtype
    if dtype.kind == "U":
        return arrow.array(array.tolist())
    if dtype.kind in "Mm":
        unit, count = np.datetime_data(dtype)
        if count > 1 or unit not in ("s", "ms", "us", "ns", *(["D"] if dtype.kind == "M" else [])):
            dtype = np.dtype(f"{dtype.kind}8[us]")
    is_wide = dtype.kind == "f" and dtype.itemsize > 8
    return arrow.array(np.ascontiguousarray(array, np.float64 if is_wide else dtype.newbyteorder("=")))


def open_database(path: str, part: str | None) -> Reader:
    """A reader of a table of an SQLite or DuckDB database, or of what a query of it gives.

    `part` is the name of a table, or a query; a database of one table needs none.
    """
    name = path if part is None else f"{path}::{part}"
    with open(path, "rb") as stream:
        is_sqlite = stream.read(16).startswith(b"SQLite format 3")
    with readable(name, "a database"), closing(_connect(path, is_sqlite)) as base:
        tables = "sqlite_master where type in ('table', 'view')" if is_sqlite else "information_schema.tables"
        key = "name" if is_sqlite else "table_name"
        names = [row[0] for row in base.execute(f"select {key} from {tables}").fetchall()]
        if part is None and len(names) != 1:
            raise TableError(f"{path} holds {len(names)} tables: {listed(names, 12)}. Name one: {path}::NAME.")
        query = names[0] if part is None else part
        if not query.lower().lstrip().startswith(QUERIES):
            if query not in names:
                raise TableError(f"{path} has no table {query!r}; it has {listed(names, 12)}.")
            quoted = query.replace('"', '""')
            query = f'select * from "{quoted}"'
        cursor = base.execute(query)
        names = [column[0] for column in cursor.description]
        columns = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(names)
        return Reader.of(require("pyarrow", "cli").table(list(map(_mixed, columns)), names), name)


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
