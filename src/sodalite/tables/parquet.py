"""Parquet files that are larger than memory, read a row group at a time whenever rows are asked for."""

from __future__ import annotations

import os
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from ..core.files import PARQUET, check_readable, parquet_files
from ..core.memory import available
from ..core.optional import require
from ..core.types import Array
from .base import TableError, listed
from .columns import Column
from .preprocessing import Preprocessing, Training, counted, nearest

KEPT = 2  # row groups in memory at a time: threads that are at neighbouring rows need no more


class ParquetRows:
    """Columns of numbers in a Parquet file, or in all those of a folder, as an array that is read when it is sliced.

    `X[a:b]` and `X[indices]` are arrays. A row group is read whole, so that is the least that must fit in memory; two
    are kept. Rows are in the order of the files' names.

    Parameters
    ----------
    path : str or path-like
        A file, or a folder; the files in it must have the same columns.
    columns : sequence of str, optional
        In this order; all of them unless given.
    dtype : {"float64", "float32"}, optional
        float32 if all columns have that type, else float64.

    Attributes
    ----------
    shape : tuple
    names : list of str
        The columns.
    held_bytes : int
        The most memory that it takes.

    Examples
    --------
    >>> X = ParquetRows("weather/", ["temperature", "pressure"])  # doctest: +SKIP
    >>> X[1_000_000:1_000_100].shape  # doctest: +SKIP
    (100, 2)
    """

    ndim = 2

    def __init__(self, path: str | os.PathLike[str], columns: Sequence[str] | None = None, dtype: Any = None) -> None:
        self._arrow, self._parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
        self.path, self._files = Path(path), _files(Path(path))
        about = [_about(file) for file in self._files]
        schema = about[0].schema.to_arrow_schema()
        self.names = list(schema.names if columns is None else columns)
        self._check_columns([meta.schema.to_arrow_schema() for meta in about])
        kinds = {str(schema.field(name).type) for name in self.names}
        self.dtype = np.dtype(dtype or (np.float32 if kinds == {"float"} else np.float64))
        self._groups = [(place, group) for place, meta in enumerate(about) for group in range(meta.num_row_groups)]
        lengths = [about[place].row_group(group).num_rows for place, group in self._groups]
        self._edges = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        self.shape = int(self._edges[-1]), len(self.names)
        self._check_missing(about)
        # While a column is decoded, it is there as it is on disk, as Arrow has it and as it is needed.
        self.held_bytes = self.dtype.itemsize * max(lengths, default=0) * (KEPT * len(self.names) + 3)
        self._start()

    @classmethod
    def columns_of(cls, path: str | os.PathLike[str]) -> list[str]:
        """The names of all columns of a file, or of the first file of a folder."""
        files = _files(Path(path))
        return list(_about(files[0]).schema.to_arrow_schema().names)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"ParquetRows({str(self.path)!r}, {self.shape[0]} x {self.shape[1]}, {self.dtype})"

    def __getitem__(self, rows: Any) -> Array:
        if isinstance(rows, slice):
            begin, end, step = rows.indices(self.shape[0])
            if step != 1:
                return self[np.arange(begin, end, step)]
            return self._between(begin, max(end, begin))
        index = np.asarray(rows, dtype=np.int64) if isinstance(rows, list) and not rows else np.asarray(rows)
        if index.dtype.kind == "b" and index.shape == self.shape[:1]:
            index = np.flatnonzero(index)
        if index.dtype.kind not in "iu" or index.ndim > 1:
            raise IndexError(f"rows are asked for by a slice or by their numbers; got {rows!r}.")
        if index.size and not (-self.shape[0] <= index.min() and index.max() < self.shape[0]):
            raise IndexError(f"there are {self.shape[0]} rows; row {index.min()} or {index.max()} is none of them.")
        index = index.astype(np.int64) % max(self.shape[0], 1)
        return self._at(index) if index.ndim else self._at(index[None])[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype=dtype)

    def __getstate__(self) -> dict[str, Any]:
        made = ("_arrow", "_parquet", "_lock", "_kept")
        return {key: value for key, value in self.__dict__.items() if key not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._arrow, self._parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
        self._start()

    def records(self, rows: Array) -> Any:
        """Some rows with all columns of the files, whatever they hold: a pyarrow.Table. Each row group is read once."""
        index = np.asarray(rows, dtype=np.int64)
        groups = np.searchsorted(self._edges, index, side="right") - 1
        parts, order = [], []
        for group in np.unique(groups):
            here = np.flatnonzero(groups == group)
            place, number = self._groups[group]
            with self._opened(place) as file:
                parts.append(file.read_row_group(number).take(index[here] - self._edges[group]))
            order.append(here)
        joined = self._arrow.concat_tables(parts, promote_options="default")
        return joined.take(np.argsort(np.concatenate(order)))

    @contextmanager
    def _opened(self, place: int) -> Iterator[Any]:
        with (
            self._arrow.OSFile(os.fsencode(self._files[place])) as stream,
            self._parquet.ParquetFile(stream, pre_buffer=False) as file,
        ):
            yield file

    def _start(self) -> None:
        self._lock, self._kept = Lock(), OrderedDict[int, Array]()

    def _between(self, begin: int, end: int) -> Array:
        found = np.empty((end - begin, self.shape[1]), dtype=self.dtype)
        at = begin
        while at < end:
            group = int(np.searchsorted(self._edges, at, side="right")) - 1
            first, last = self._edges[group], min(int(self._edges[group + 1]), end)
            found[at - begin : last - begin] = self._taken(group, slice(at - first, last - first))
            at = last
        return found

    def _at(self, index: Array) -> Array:
        """Rows in any order, each row group read once."""
        found = np.empty((len(index), self.shape[1]), dtype=self.dtype)
        order = np.argsort(index, kind="stable")
        groups = np.searchsorted(self._edges, index[order], side="right") - 1
        for group in np.unique(groups):
            here = order[groups == group]
            found[here] = self._taken(int(group), index[here] - self._edges[group])
        return found

    def _taken(self, group: int, rows: Any) -> Array:
        """Rows of a row group, from memory if it is there; copies, so that no more groups than those are held."""
        with self._lock:
            if group not in self._kept:
                while len(self._kept) >= KEPT:
                    self._kept.popitem(last=False)
                self._kept[group] = self._read(group)
            self._kept.move_to_end(group)
            return np.array(self._kept[group][rows])

    def _read(self, group: int) -> Array:
        place, number = self._groups[group]
        rows = int(self._edges[group + 1] - self._edges[group])
        found = np.empty((rows, self.shape[1]), dtype=self.dtype)
        kind = self._arrow.from_numpy_dtype(self.dtype)
        try:
            with self._opened(place) as file:
                for column, name in enumerate(self.names):
                    values = file.read_row_group(number, columns=[name], use_threads=False).column(0)
                    if len(values) != rows:
                        raise TableError(f"{self._files[place]} changed while it was read.")
                    at = 0
                    for chunk in values.chunks:
                        here, at = slice(at, at + len(chunk)), at + len(chunk)
                        found[here, column] = chunk.cast(kind, safe=False).to_numpy(zero_copy_only=False)
        except (self._arrow.ArrowException, OSError) as error:
            raise TableError(f"{self._files[place]} cannot be read as Parquet: {_line(error)}.") from None
        return found

    def _check_columns(self, schemas: list[Any]) -> None:
        types = self._arrow.types
        for file, schema in zip(self._files, schemas, strict=True):
            counts = Counter(schema.names)
            for name in self.names:
                if counts[name] != 1:
                    words = "no column" if not counts[name] else "two columns named"
                    raise TableError(f"{file} has {words} {name!r}.{nearest(name, schema.names)}")
            other = [
                name
                for name in self.names
                for kind in [schema.field(name).type]
                if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))
            ]
            if other:
                raise TableError(
                    f"{file}: {listed(other)} {'hold' if len(other) > 1 else 'holds'} no numbers. Name the columns to "
                    f"use, or encode these first."
                )
        if not self.names:
            raise TableError(f"{self.path} has no columns to read.")

    def _check_missing(self, about: list[Any]) -> None:
        """Missing values are counted in the files, as a rule; those that are not will be found as they are read."""
        gaps: dict[str, int] = {}
        names = set(self.names)
        for place, group in self._groups:
            part = about[place].row_group(group)
            for at in range(part.num_columns):
                column = part.column(at)
                found = column.statistics.null_count if column.is_stats_set and column.statistics.has_null_count else 0
                if found and column.path_in_schema in names:
                    gaps[column.path_in_schema] = gaps.get(column.path_in_schema, 0) + found
        if gaps:
            raise TableError(f"{self.path} has missing values: {counted(gaps)}. Leave out these rows or columns first.")


def open_parquet(
    path: str | os.PathLike[str], target: str, columns: Sequence[str] | None = None
) -> tuple[ParquetRows, Array]:
    """Inputs and targets in Parquet files that may be larger than memory.

    Parameters
    ----------
    path : str or path-like
        A file, or a folder of files.
    target : str
        The column to predict.
    columns : sequence of str, optional
        The columns to predict it from; all others unless given.

    Returns
    -------
    X : ParquetRows
        Of shape (n, d), on disk: what `sodalite.select` and `sodalite.GreedyGPRegressor.fit` take.
    y : array of shape (n,)
        In memory.
    """
    every = ParquetRows(path, [target])
    if columns is None:
        columns = [name for name in ParquetRows.columns_of(path) if name != target]
    elif target in columns:
        raise TableError(f"{target!r} is the target, and cannot be among the columns too.")
    return ParquetRows(path, columns), np.asarray(every[:][:, 0], dtype=np.float64)


def is_on_disk(path: str | os.PathLike[str]) -> bool:
    """Whether a table is better left on disk: a folder, or a Parquet file that would take a quarter of the memory."""
    path = Path(path)
    if path.is_dir():
        return True
    if path.suffix.lower() not in PARQUET or not path.is_file():
        return False
    meta = _about(path)
    return bool(8 * meta.num_rows * meta.num_columns > available() // 4)


def learn_on_disk(
    path: str | os.PathLike[str], target: str | None, features: Sequence[str] | None, exclude: Sequence[str]
) -> Training:
    """The same as `sodalite.tables.learn` for a table that is left on disk: all columns must hold numbers."""
    names = ParquetRows.columns_of(path)
    there = set(names)
    for name in [*([] if target is None else [target]), *(features or []), *exclude]:
        if name not in there:
            raise TableError(f"{path} has no column {name!r}; it has {listed(names, 12)}.{nearest(name, names)}")
    if target is None:
        raise TableError(f"--target is needed: which column of {path} is to be predicted? {listed(names, 12)}")
    left_out = {target, *exclude}
    used = [name for name in (names if features is None else features) if name not in left_out]
    X, y = open_parquet(path, target, used)
    mapping = Preprocessing(target, tuple(Column(name, "number") for name in used))
    return Training(mapping, X, y, np.arange(len(y)), {})


class Taken:
    """Some rows of an array-like, which are read when they are asked for."""

    ndim = 2

    def __init__(self, X: Any, rows: Array) -> None:
        self.X, self.rows = X, rows
        self.shape, self.dtype, self.held_bytes = (len(rows), X.shape[1]), X.dtype, X.held_bytes

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Array:
        return np.asarray(self.X[self.rows[rows]])


def _files(path: Path) -> list[Path]:
    """The file itself, or those of a folder."""
    try:
        check_readable(path)
    except FileNotFoundError:
        raise TableError(f"{path}: there is no such file or folder.") from None
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or error}.") from None
    if not path.is_dir():
        return [path]
    found = parquet_files(path)
    if not found:
        raise TableError(f"{path} is a folder, not a file, and has no files that end in {' or '.join(PARQUET)}.")
    return found


def _about(file: Path) -> Any:
    """What the end of a file says of it."""
    arrow, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
    try:
        with arrow.OSFile(os.fsencode(file)) as stream:  # a name need not be text
            return parquet.read_metadata(stream)
    except (arrow.ArrowException, OSError) as error:
        raise TableError(f"{file} cannot be read as Parquet: {_line(error)}.") from None


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
