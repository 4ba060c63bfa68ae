"""Readers of binary tables, a chunk of rows at a time: Parquet, Arrow or Feather, and NPZ."""

from __future__ import annotations

import zipfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import Any, BinaryIO

import numpy as np

from ..core.memory import available
from ..core.optional import require
from .base import Dialect, Reader, Table, TableError, first_line

CHUNK = 2**16  # rows of a chunk: a few megabytes for tens of columns
PIECE = 2**24  # bytes of an NPZ array that are unpacked at a time
MOST_COLUMNS = 10**6  # columns of an NPZ array; each becomes an Arrow array, which takes about 1 kB beside its values


class ParquetReader(Reader):
    """A reader of Parquet files."""

    def __init__(self, stream: BinaryIO, name: str, form: str, dialect: Dialect) -> None:
        super().__init__(stream, name)
        self._arrow = require("pyarrow", "parquet")
        with _readable(name, "Parquet"):
            self._file = require("pyarrow.parquet", "parquet").ParquetFile(stream)
            self.names = self.unique(self._file.schema_arrow.names)

    def read(self) -> Table:
        with _readable(self.name, "Parquet"):
            return self._table(self._file.read().rename_columns(self.names))

    def chunks(self, kinds: Mapping[str, str]) -> Generator[Table, None, None]:
        first = 0
        with _readable(self.name, "Parquet"):
            given = dict(zip(self.names, self._file.schema_arrow.names, strict=True))
            every = None if list(given.values()) != self.names else list(kinds)
            for batch in self._file.iter_batches(CHUNK, columns=every):
                table = self._arrow.Table.from_batches([batch])
                table = table.rename_columns(self.names) if every is None else table
                yield self._table(table.select(list(kinds)), first)
                first += batch.num_rows


class ArrowReader(Reader):
    """A reader of Arrow's own format, which is also Feather's: files and streams."""

    def __init__(self, stream: BinaryIO, name: str, form: str, dialect: Dialect) -> None:
        super().__init__(stream, name)
        self._arrow = require("pyarrow", "parquet")
        ipc = require("pyarrow.ipc", "parquet")
        with _readable(name, "Arrow"):
            whole = stream.read(6) == b"ARROW1"
            stream.seek(0)
            file: Any = ipc.open_file(stream) if whole else ipc.open_stream(stream)
            self._schema, self.names = file.schema, self.unique(file.schema.names)
        self._batches = (file.get_batch(place) for place in range(file.num_record_batches)) if whole else file

    def read(self) -> Table:
        with _readable(self.name, "Arrow"):
            data = self._arrow.Table.from_batches(list(self._checked()), self._schema)
            return self._table(data.rename_columns(self.names))

    def chunks(self, kinds: Mapping[str, str]) -> Generator[Table, None, None]:
        first = 0
        with _readable(self.name, "Arrow"):
            for batch in self._checked():
                table = self._arrow.Table.from_batches([batch]).rename_columns(self.names).select(list(kinds))
                for begin in range(0, table.num_rows, CHUNK):
                    yield self._table(table.slice(begin, CHUNK), first + begin)
                first += table.num_rows

    def _checked(self) -> Iterator[Any]:
        """The batches, validated: Arrow does not check offsets, and a wrong one crashes the process."""
        for batch in self._batches:
            batch.validate(full=True)
            yield batch


class NpzReader(Reader):
    """A reader of NPZ files: an array of shape (n,) is one column, an array of shape (n, d) is d columns."""

    def __init__(self, stream: BinaryIO, name: str, form: str, dialect: Dialect) -> None:
        super().__init__(stream, name)
        self._arrow = require("pyarrow", "cli")
        with _readable(name, "NPZ"):
            self._zip = zipfile.ZipFile(stream)
            self._arrays = {file[:-4]: self._open(file) for file in self._zip.namelist() if file.endswith(".npy")}
        lengths = {key: array.shape[0] for key, array in self._arrays.items()}
        if not lengths:
            raise TableError(f"{name} holds no arrays.")
        if len(set(lengths.values())) > 1:
            words = ", ".join(f"{key!r} {length}" for key, length in list(lengths.items())[:5])
            raise TableError(
                f"{name}: its arrays must be equally long, one value for each row; their lengths are {words}."
            )
        self._length = next(iter(lengths.values()))
        self.names = [column for key, array in self._arrays.items() for column in array.columns(key)]

    def read(self) -> Table:
        needed, limit = sum(array.n_bytes for array in self._arrays.values()), available() // 2
        if needed > limit:
            raise TableError(
                f"{self.name} holds {needed / 1e9:.1f} GB when it is unpacked, but half of the memory that is free is "
                f"{limit / 1e9:.1f} GB. Take some of its rows, or write it as Parquet files in a folder."
            )
        data = next(self._tables(self._arrays, max(self._length, 1)), None)
        return data if data is not None else self._table(self._arrow.table({name: [] for name in self.names}))

    def chunks(self, kinds: Mapping[str, str]) -> Generator[Table, None, None]:
        needed = {key: array for key, array in self._arrays.items() if not kinds.keys().isdisjoint(array.columns(key))}
        for table in self._tables(needed, CHUNK):
            yield Table(table.data.select(list(kinds)), self.name, self.where, table.first)

    def _open(self, file: str) -> _Npy:
        """An array of the file, its header read."""
        return _Npy(self._zip.open(file), self._zip.getinfo(file).file_size, f"{self.name}: array {file[:-4]!r}")

    def _tables(self, arrays: Mapping[str, _Npy], size: int) -> Generator[Table, None, None]:
        """Tables of some arrays, so many rows at a time."""
        for first in range(0, self._length, size):
            columns = {}
            for key, array in arrays.items():
                with _readable(self.name, "NPZ", f"array {key!r}: "):
                    rows = array.read(min(size, self._length - first))
                    for name, column in zip(array.columns(key), rows.T if rows.ndim > 1 else [rows], strict=True):
                        plain = column.tolist() if column.dtype.kind == "U" else np.ascontiguousarray(column)
                        columns[name] = self._arrow.array(plain)
            yield self._table(self._arrow.table(columns), first)


class _Npy:
    """An array in a zip file, read some rows at a time.

    The array's header may claim any shape, so it is compared with the size in the zip file's directory. That may be
    wrong as well, so memory is only taken for bytes that have been read.
    """

    def __init__(self, stream: Any, size: int, name: str) -> None:
        self._stream = stream
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        self.shape, self._by_columns, self._dtype = read(stream)
        if self._dtype.kind not in "biufUMm" or not self._dtype.itemsize:
            raise TableError(f"{name} holds {self._dtype}, not numbers, texts, dates, durations or truth values.")
        if len(self.shape) not in (1, 2):
            raise TableError(f"{name} has {len(self.shape)} dimensions; one or two are needed.")
        self.n_bytes = prod(self.shape) * self._dtype.itemsize
        if min(self.shape) < 0 or self.n_bytes > size - stream.tell():
            raise TableError(
                f"{name} is damaged: {' x '.join(map(str, self.shape))} values are announced, but there are only "
                f"{size - stream.tell()} bytes."
            )
        if len(self.shape) == 2 and self.shape[1] > MOST_COLUMNS:
            raise TableError(f"{name} has {self.shape[1]} columns; at most {MOST_COLUMNS} can be read.")
        self._plain = _plain_type(self._dtype)
        self._whole: Any = None
        self._at = 0

    def columns(self, key: str) -> list[str]:
        """The names of the columns of an array named `key`."""
        return [key] if len(self.shape) == 1 else [f"{key}{place}" for place in range(self.shape[1])]

    def read(self, count: int) -> Any:
        """The next `count` rows, of shape (count,) or (count, columns)."""
        if self._by_columns and len(self.shape) == 2:
            if self._whole is None:
                self._whole = self._take(self.shape[0] * self.shape[1]).reshape(self.shape, order="F")
            self._at += count
            return self._whole[self._at - count : self._at]
        return self._take(count * (self.shape[1] if len(self.shape) == 2 else 1)).reshape(count, *self.shape[1:])

    def _take(self, count: int) -> Any:
        """The next `count` values."""
        data, size = bytearray(), count * self._dtype.itemsize
        while len(data) < size:
            part = self._stream.read(min(size - len(data), PIECE))
            if not part:
                raise EOFError("it ends early")
            data += part
        return np.frombuffer(data, self._dtype).astype(self._plain, copy=False)


def _plain_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type of Arrow's that is nearest to a NumPy type."""
    if dtype.kind in "Mm":
        unit, count = np.datetime_data(dtype)
        if count > 1 or unit not in ("s", "ms", "us", "ns", *(["D"] if dtype.kind == "M" else [])):
            return np.dtype(f"{dtype.kind}8[us]")
    if dtype.kind == "f" and dtype.itemsize > 8:
        return np.dtype(np.float64)
    return dtype.newbyteorder("=")


@contextmanager
def _readable(name: str, what: str, where: str = "") -> Iterator[None]:
    """Raise any error as a `TableError` that names the file; damaged files cause errors of many kinds."""
    try:
        yield
    except (TableError, ModuleNotFoundError):
        raise
    except Exception as error:
        words = first_line(error)
        words = f"not enough memory ({words})" if isinstance(error, MemoryError) else words
        raise TableError(f"{name} cannot be read as {what}: {where}{words}.") from None
