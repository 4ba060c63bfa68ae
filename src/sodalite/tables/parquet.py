"""Parquet files that are larger than memory, as arrays whose rows are read when they are indexed."""

from __future__ import annotations

import os
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from ..core.files import check_readable
from ..core.joined import Joined
from ..core.memory import available
from ..core.optional import require
from ..core.types import Floats, Indices
from ..core.words import counted
from ..exceptions import TableError
from .base import check_columns, listed, readable
from .numbers import Numbers
from .preprocessing import Preprocessing
from .training import Training

PARQUET = (".parquet", ".pq")  # suffixes of Parquet files; files of a folder with other suffixes are not read
KEPT = 2  # row groups in memory at a time: as many as threads need that read neighbouring rows


class ParquetRows(Joined):
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

    def __init__(self, path: str | os.PathLike[str], columns: Sequence[str] | None = None, dtype: Any = None) -> None:
        arrow, self.path = require("pyarrow", "parquet"), Path(path)
        about = {file: _metadata(file) for file in _files(self.path)}
        schemas = {file: meta.schema.to_arrow_schema() for file, meta in about.items()}
        first = next(iter(schemas.values()))
        self.names = list(first.names if columns is None else columns)
        if not self.names:
            raise TableError(f"{path} has no columns to read.")
        for file, schema in schemas.items():
            check_columns(str(file), schema.names, self.names)
            counts, tests = Counter(schema.names), ("is_integer", "is_floating", "is_boolean")
            if twice := [name for name in self.names if counts[name] > 1]:
                raise TableError(f"{file} has two columns named {twice[0]!r}.")
            types = {name: schema.field(name).type for name in self.names}
            if other := [name for name in types if not any(getattr(arrow.types, test)(types[name]) for test in tests)]:
                raise TableError(
                    f"{file}: {listed(other)} {'hold' if len(other) > 1 else 'holds'} no numbers. Name the columns to "
                    f"use, or encode these first."
                )
        kinds = {str(first.field(name).type) for name in self.names}
        kind = np.dtype(dtype or (np.float32 if kinds == {"float"} else np.float64))
        kept, groups, gaps = _Kept(), [], Counter[str]()
        for file, meta in about.items():
            for number in range(meta.num_row_groups):
                part = meta.row_group(number)
                groups.append(_Group(file, number, part.num_rows, tuple(self.names), kind, kept))
                for column in map(part.column, range(part.num_columns)):
                    known = column.is_stats_set and column.statistics.has_null_count
                    gaps[column.path_in_schema] += column.statistics.null_count if known else 0
        if missing := {name: gaps[name] for name in self.names if gaps[name]}:  # others are found when rows are read
            raise TableError(f"{path} has missing values: {counted(missing)}. Leave out these rows or columns first.")
        super().__init__(groups or [np.empty((0, len(self.names)), dtype=kind)])
        # While a column is decoded, it is in memory three times: as on disk, as Arrow's array, and converted.
        most = max((len(group) for group in groups), default=0)
        self.held_bytes = kind.itemsize * most * (KEPT * len(self.names) + 3)

    @classmethod
    def columns_of(cls, path: str | os.PathLike[str]) -> list[str]:
        """The names of all columns of a file, or of the first file of a folder."""
        return list(_metadata(_files(Path(path))[0]).schema.to_arrow_schema().names)

    def __repr__(self) -> str:
        return f"ParquetRows({str(self.path)!r}, {self.shape[0]} x {self.shape[1]}, {self.dtype})"

    def records(self, rows: Indices) -> Any:
        """A pyarrow.Table of some rows with all columns of the files, of any type. Each row group is read once."""
        index = np.asarray(rows, dtype=np.int64)
        groups = np.searchsorted(self._edges, index, side="right") - 1
        parts, order = [], []
        for group in np.unique(groups):
            here = np.flatnonzero(groups == group)
            with _opened(self.parts[group].file) as file:
                parts.append(file.read_row_group(self.parts[group].number).take(index[here] - self._edges[group]))
            order.append(here)
        joined = require("pyarrow", "parquet").concat_tables(parts, promote_options="default")
        return joined.take(np.argsort(np.concatenate(order)))


class _Kept:
    """The last row groups that were read; it is empty once pickled."""

    def __init__(self) -> None:
        self.lock, self.groups = Lock(), OrderedDict[Any, Floats]()

    def __reduce__(self) -> Any:
        return _Kept, ()


@dataclass(frozen=True)
class _Group:
    """A row group of a Parquet file, as an array that is read when it is indexed."""

    file: Path
    number: int
    n_rows: int
    names: tuple[str, ...]
    dtype: np.dtype[Any]
    kept: _Kept = field(compare=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.n_rows, len(self.names)

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, rows: Any) -> Floats:
        """A copy of some rows, since a view would keep the whole row group in memory."""
        with self.kept.lock:
            groups, key = self.kept.groups, (self.file, self.number)
            if key not in groups:
                while len(groups) >= KEPT:
                    groups.popitem(last=False)
                groups[key] = self.read()
            groups.move_to_end(key)
            return np.array(groups[key][rows])

    def read(self) -> Floats:
        """All rows, converted to the array's type."""
        rows, kind = np.empty(self.shape, self.dtype), require("pyarrow", "parquet").from_numpy_dtype(self.dtype)
        with _opened(self.file) as file:
            for column, name in enumerate(self.names):
                values = file.read_row_group(self.number, columns=[name], use_threads=False).column(0)
                if len(values) != self.n_rows:
                    raise TableError(f"{self.file} changed while it was read.")
                rows[:, column] = values.cast(kind, safe=False).to_numpy()
        return rows


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    """A Parquet file, opened; its name need not be text."""
    arrow, parquet = require("pyarrow", "parquet"), require("pyarrow.parquet", "parquet")
    with (
        readable(str(file), "Parquet"),
        arrow.OSFile(os.fsencode(file)) as stream,
        parquet.ParquetFile(stream, pre_buffer=False) as opened,
    ):
        yield opened


def _metadata(file: Path) -> Any:
    """The metadata of a Parquet file, which stand at its end."""
    with _opened(file) as opened:
        return opened.metadata


def _files(path: Path) -> list[Path]:
    """The Parquet files at a path: the file itself, or those of a folder."""
    try:
        check_readable(path)
    except FileNotFoundError:
        raise TableError(f"{path}: there is no such file or folder.") from None
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or error}.") from None
    files = parquet_files(path) if path.is_dir() else [path]
    if not files:
        raise TableError(f"{path} is a folder, not a file, and has no files that end in {' or '.join(PARQUET)}.")
    return files


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files in and below a folder, sorted by name, without names that begin with a dot or an underscore."""
    found = sorted(file for file in folder.rglob("*") if file.suffix.lower() in PARQUET and file.is_file())
    return [file for file in found if not any(part[0] in "._" for part in file.relative_to(folder).parts)]


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
    if target in (columns or ()):
        raise TableError(f"{target!r} is the target, and cannot be among the columns too.")
    others = [name for name in ParquetRows.columns_of(path) if name != target]
    return ParquetRows(path, others if columns is None else columns), np.asarray(every[:][:, 0], dtype=np.float64)


def is_on_disk(path: str | os.PathLike[str]) -> bool:
    """Whether a table is to be left on disk: a folder, or a Parquet file larger than a quarter of the free memory."""
    path = Path(path)
    if path.is_dir():
        return True
    if path.suffix.lower() not in PARQUET or not path.is_file():
        return False
    meta = _metadata(path)
    return bool(8 * meta.num_rows * meta.num_columns > available() // 4)


def learn_on_disk(
    path: str | os.PathLike[str], target: str | None, features: Sequence[str] | None, exclude: Sequence[str]
) -> Training:
    """The training data of a table that is left on disk, as by `learn`; all columns must hold numbers.

    `features` are the columns to predict the target from, all others unless given, and `exclude` those to leave out.
    A target of None is refused with a list of the columns.
    """
    names = ParquetRows.columns_of(path)
    check_columns(str(path), names, [*([] if target is None else [target]), *(features or []), *exclude])
    if target is None:
        raise TableError(f"`target` is needed: which column of {path} is to be predicted? {listed(names, 12)}")
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
