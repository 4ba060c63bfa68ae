"""Parquet files that are larger than memory, as arrays whose rows are read when they are indexed."""

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
from ..core.types import Floats, Indices
from ..core.words import counted
from .base import TableError, first_line, listed
from .numbers import Numbers
from .preprocessing import Preprocessing, check_columns, nearest
from .training import Training

KEPT = 2  # row groups in memory at a time: as many as threads need that read neighbouring rows


class ParquetRows:
    """Numeric columns of a Parquet file, or of all Parquet files of a folder, as an array that is read when indexed.

    `X[a:b]` and `X[indices]` are arrays. Row groups are read whole, and the last two are kept in memory. Rows are in
    the order of the files' names.

    Parameters
    ----------
    path : str or path-like
        A file, or a folder; the files in it must have the same columns.
    columns : sequence of str, optional
        The columns, in this order; all columns unless given.
    dtype : {"float64", "float32"}, optional
        float32 if all columns have that type, else float64.

    Attributes
    ----------
    shape : tuple
    names : list of str
        The names of the columns.
    held_bytes : int
        The most memory, in bytes, that row groups take.

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
        # While a column is decoded, it is in memory three times: as on disk, as Arrow's array, and converted.
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

    def __getitem__(self, rows: Any) -> Floats:
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

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Floats:
        return np.asarray(self[:], dtype=dtype)

    def __getstate__(self) -> dict[str, Any]:
        made = ("_arrow", "_parquet", "_lock", "_kept")
        return {key: value for key, value in self.__dict__.items() if key not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._arrow, self._parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
        self._start()

    def records(self, rows: Indices) -> Any:
        """A pyarrow.Table of some rows with all columns of the files, of any type. Each row group is read once."""
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
        """One of the files, opened."""
        with (
            self._arrow.OSFile(os.fsencode(self._files[place])) as stream,
            self._parquet.ParquetFile(stream, pre_buffer=False) as file,
        ):
            yield file

    def _start(self) -> None:
        """Begin with an empty cache."""
        self._lock, self._kept = Lock(), OrderedDict[int, Floats]()

    def _between(self, begin: int, end: int) -> Floats:
        """The rows `begin` to `end`."""
        found = np.empty((end - begin, self.shape[1]), dtype=self.dtype)
        at = begin
        while at < end:
            group = int(np.searchsorted(self._edges, at, side="right")) - 1
            first, last = self._edges[group], min(int(self._edges[group + 1]), end)
            found[at - begin : last - begin] = self._taken(group, slice(at - first, last - first))
            at = last
        return found

    def _at(self, index: Indices) -> Floats:
        """Rows by their indices, in any order; each row group is read once."""
        found = np.empty((len(index), self.shape[1]), dtype=self.dtype)
        order = np.argsort(index, kind="stable")
        groups = np.searchsorted(self._edges, index[order], side="right") - 1
        for group in np.unique(groups):
            here = order[groups == group]
            found[here] = self._taken(int(group), index[here] - self._edges[group])
        return found

    def _taken(self, group: int, which: Indices | slice) -> Floats:
        """A copy of some rows of a row group, which is read unless it is in the cache.

        A copy, since a view would keep the whole row group in memory.
        """
        with self._lock:
            if group not in self._kept:
                while len(self._kept) >= KEPT:
                    self._kept.popitem(last=False)
                self._kept[group] = self._read(group)
            self._kept.move_to_end(group)
            return np.array(self._kept[group][which])

    def _read(self, group: int) -> Floats:
        """All rows of a row group, converted to the array's type."""
        place, number = self._groups[group]
        n_rows = int(self._edges[group + 1] - self._edges[group])
        found = np.empty((n_rows, self.shape[1]), dtype=self.dtype)
        kind = self._arrow.from_numpy_dtype(self.dtype)
        try:
            with self._opened(place) as file:
                for column, name in enumerate(self.names):
                    values = file.read_row_group(number, columns=[name], use_threads=False).column(0)
                    if len(values) != n_rows:
                        raise TableError(f"{self._files[place]} changed while it was read.")
                    at = 0
                    for chunk in values.chunks:
                        here, at = slice(at, at + len(chunk)), at + len(chunk)
                        found[here, column] = chunk.cast(kind, safe=False).to_numpy(zero_copy_only=False)
        except (self._arrow.ArrowException, OSError) as error:
            raise TableError(f"{self._files[place]} cannot be read as Parquet: {first_line(error)}.") from None
        return found

    def _check_columns(self, schemas: list[Any]) -> None:
        """Refuse files, given by their schemas, that lack a column, have it twice, or hold no numbers in it."""
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
        """Refuse missing values that the files' statistics count; others are found when rows are read."""
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
) -> tuple[ParquetRows, Floats]:
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
        Of shape (n, d), on disk; `sodalite.select` and `sodalite.GreedyGPRegressor.fit` take it as X.
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
    """Whether a table is to be left on disk: a folder, or a Parquet file larger than a quarter of the free memory."""
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
    """The training data of a table that is left on disk, as by `learn`; all columns must hold numbers.

    Parameters
    ----------
    path : str or path-like
        A Parquet file, or a folder of such files.
    target : str or None
        The column that is to be predicted; None is refused with a list of the columns.
    features : sequence of str, optional
        The columns to predict it from; all others unless given.
    exclude : sequence of str
        Columns to leave out.
    """
    names = ParquetRows.columns_of(path)
    check_columns(str(path), names, [*([] if target is None else [target]), *(features or []), *exclude])
    if target is None:
        raise TableError(f"--target is needed: which column of {path} is to be predicted? {listed(names, 12)}")
    left_out = {target, *exclude}
    used = [name for name in (names if features is None else features) if name not in left_out]
    X, y = open_parquet(path, target, used)
    mapping = Preprocessing(target, tuple(Numbers(name) for name in used))
    return Training(mapping, X, y, np.arange(len(y)), {})


class Taken:
    """Some rows of a `ParquetRows`, which are read when they are indexed."""

    ndim = 2

    def __init__(self, X: ParquetRows, rows: Indices) -> None:
        self.X, self.rows = X, rows
        self.shape, self.dtype, self.held_bytes = (len(rows), X.shape[1]), X.dtype, X.held_bytes

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: Any) -> Floats:
        return np.asarray(self.X[self.rows[which]])


def _files(path: Path) -> list[Path]:
    """The Parquet files at a path: the file itself, or those of a folder."""
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
    """The metadata of a Parquet file, which stand at its end."""
    arrow, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
    try:
        with arrow.OSFile(os.fsencode(file)) as stream:  # a name need not be text
            return parquet.read_metadata(stream)
    except (arrow.ArrowException, OSError) as error:
        raise TableError(f"{file} cannot be read as Parquet: {first_line(error)}.") from None
