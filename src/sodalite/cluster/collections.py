"""Dask arrays and dataframes: checked before any long work, and cut into pieces by the partitions of X."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Array, Floats
from ..core.validation import check_alpha, check_not_large, check_rows, check_targets, is_dask
from .client import Client, DaskFuture, cluster_errors, gather, no_warning_of_size


class Targets(NamedTuple):
    """Targets of consecutive rows, of shape (rows, q), and their own noise variances, of shape (rows,)."""

    y: Floats
    alpha: Floats | None


class Columns(NamedTuple):
    """X, y and alpha, each an array of this machine or a Dask array, with the same number of rows."""

    X: Any
    y: Any
    alpha: Any
    dtype: np.dtype[Any]
    """The type of X: float32 if all of its columns are, else float64."""
    sizes: tuple[int, ...]
    """Rows of every partition; 0 for some, maybe."""

    @property
    def lazy(self) -> bool:
        """Whether rows come from Dask collections."""
        return is_dask(self.X) or is_dask(self.y)


def columns_of(client: Client, X: Any, y: Any, alpha: Any, count: int) -> Columns:
    """Return the columns of a table, with shapes and types checked; values are checked by `send`.

    Partitions are those of the first Dask collection; arrays of this machine are divided into `count` parts.
    """
    if not (is_dask(X) or is_dask(y)):
        X, y = check_rows(X, y)
    elif not is_dask(X):
        X, _ = check_rows(X, np.zeros(len(X)))
    dtype = _float(_types("X", X))
    X, y = _array(client, "X", X, dtype), _array(client, "y", y)
    n = X.shape[0]
    if alpha is not None:
        alpha = _array(client, "alpha", alpha) if is_dask(alpha) else check_alpha(alpha, n)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, rows and columns; got {X.ndim}.")
    if not n or not X.shape[1]:
        raise ValueError(f"X must have at least one row and one column; got shape {X.shape}.")
    for name, other in (("y", y), ("alpha", alpha)):
        if other is not None and other.shape[0] != n:
            raise ValueError(f"X and {name} must have the same number of rows; X has {n}, {name} has {other.shape[0]}.")
    if alpha is not None and alpha.ndim == 2 and alpha.shape[1] != 1:
        raise ValueError(f"alpha must be one number per row; got {alpha.shape[1]}.")
    divided = next((part for part in (X, y, alpha) if is_dask(part)), None)
    sizes = [n // count + (at < n % count) for at in range(count)] if divided is None else divided.chunks[0]
    return Columns(X, y, alpha, dtype, tuple(int(size) for size in sizes))


def send(client: Client, columns: Columns) -> tuple[list[DaskFuture], list[DaskFuture], list[int]]:
    """Have the workers hold all rows, checked; return futures of X and of the `Targets` of every piece, and the edges.

    Arrays of this machine are sent as arguments of tasks, of which the scheduler keeps a copy: it can then make pieces
    again, as it can those of Dask collections.
    """
    from dask.delayed import delayed

    full = [(number, size) for number, size in enumerate(columns.sizes) if size]
    edges = [0, *accumulate(size for _, size in full)]
    d, futures = columns.X.shape[1], list[DaskFuture]()
    parts = [_cut(part, columns.sizes) for part in columns[:3]]
    check = delayed(checked, pure=False, nout=2)
    with cluster_errors(client), no_warning_of_size():
        for (number, size), begin in zip(full, edges, strict=False):
            pair = check(
                *(part(number) for part in parts), number if columns.lazy else None, begin, size, d, columns.dtype
            )
            futures += client.compute(list(pair)) if not columns.lazy else [*pair]
        if columns.lazy:
            futures = client.compute(futures)
    return futures[::2], futures[1::2], edges


def _cut(part: Any, sizes: tuple[int, ...]) -> Callable[[int], Any]:
    """A function that returns a partition of a Dask array, or so many rows of an array of this machine."""
    if part is None:
        return lambda number: None
    if not is_dask(part):
        edges = [0, *accumulate(sizes)]
        return lambda number: part[edges[number] : edges[number + 1]]
    if part.chunks[0] != sizes:
        part = part.rechunk({0: sizes})
    return list(part.to_delayed(optimize_graph=False).ravel()).__getitem__


def checked(
    X: Any, y: Any, alpha: Any, number: int | None, begin: int, size: int, d: int, dtype: np.dtype[Any]
) -> tuple[Floats, Targets]:
    """Rows from `begin` on as arrays of numbers; refuses NaN, infinite values and unexpected shapes.

    `number` is that of the partition, for messages; None for arrays of this machine.
    """
    X, y = np.ascontiguousarray(X, dtype=dtype), np.array(y, dtype=np.float64)
    y = y.reshape(len(y), -1)
    where = "" if number is None else f" in partition {number}"
    if X.ndim != 2 or X.shape[1] != d:
        width = X.shape[1] if X.ndim == 2 else X.ndim
        raise ValueError(f"X has {width} columns{where}, but {d} were promised. Partitions must be of the same width.")
    for name, values in (("X", X), ("y", y), ("alpha", alpha)):
        if values is not None:
            _check_values(name, values, number, begin, size)
        if name != "alpha":
            check_not_large(name, values, begin)
    if alpha is not None:
        alpha = np.array(alpha, dtype=np.float64).reshape(-1)
        if (alpha < 0).any():
            bad = int(np.flatnonzero(alpha < 0)[0])
            raise ValueError(f"alpha is a variance: it must not be negative; got {alpha[bad]} in row {begin + bad}.")
    return X, Targets(y, alpha)


def _check_values(name: str, values: Array, number: int | None, begin: int, size: int) -> None:
    """Refuse an array of another length than the piece, or with values that are not finite."""
    where = "" if number is None else f" in partition {number}"
    if len(values) != size:
        raise ValueError(f"{name} has {len(values)} rows{where}, but its chunks say {size}.")
    finite = np.isfinite(values).reshape(size, -1).all(axis=1)
    if not finite.all():
        bad = int(np.flatnonzero(~finite)[0])
        inside = "" if number is None else f" (row {bad} of that partition)"
        raise ValueError(
            f"{name} contains NaN or infinite values{where}, in row {begin + bad} for one{inside}. Drop such rows, "
            f"or fill them in."
        )


def _array(client: Client, name: str, part: Any, dtype: Any = np.float64) -> Any:
    """X, y or alpha as an array of this machine, or as a Dask array with one chunk of columns and known sizes."""
    from dask.array import concatenate, from_delayed
    from dask.delayed import delayed

    if not is_dask(part):
        return part if name == "X" else check_targets(part, len(part))
    if hasattr(part, "to_dask_array"):  # a dataframe or a series, whose rows are counted
        _types(name, part)
        columns = [str(column) for column in part.columns] if part.ndim == 2 else None
        with cluster_errors(client):
            counts = client.compute([delayed(len)(index) for index in part.index.to_delayed()])
        tail = () if columns is None else (len(columns),)
        blocks = [
            from_delayed(delayed(_numbers)(piece, name, columns, number, dtype), (count, *tail), dtype)  # type: ignore[no-untyped-call]
            for number, (piece, count) in enumerate(zip(part.to_delayed(), gather(client, counts), strict=True))
        ]
        return concatenate(blocks)  # type: ignore[no-untyped-call]
    if any(not size >= 0 for sizes in part.chunks for size in sizes):
        raise ValueError(f"{name} has chunks of unknown sizes. Call {name}.compute_chunk_sizes() first.")
    _types(name, part)
    if not 1 <= part.ndim <= 2:
        raise ValueError(f"{name} must have {'two' if name == 'X' else 'one or two'} dimensions; got {part.ndim}.")
    return part.rechunk({1: -1}) if part.ndim == 2 and part.numblocks[1] > 1 else part


def _float(dtypes: list[Any]) -> np.dtype[Any]:
    """float32 if all are, else float64."""
    return np.dtype(np.float32 if all(dtype == np.float32 for dtype in dtypes) else np.float64)


def _types(name: str, part: Any) -> list[Any]:
    """The type of an array, or the types of a dataframe's columns; refuses a collection that does not hold numbers."""
    if not hasattr(part, "to_dask_array"):
        if is_dask(part) and np.dtype(part.dtype).kind not in "biuf":
            raise ValueError(f"{name} must hold numbers; got {part.dtype}.")
        return [part.dtype]
    return numeric_types(name, part)


def numeric_types(name: str, frame: Any) -> list[Any]:
    """Return the types of a dataframe's columns, or of a series; refuse columns that do not hold numbers."""
    meta = frame._meta
    columns = {str(column): meta[column].dtype for column in meta.columns} if meta.ndim == 2 else {name: meta.dtype}
    kinds = {column: getattr(dtype, "numpy_dtype", dtype) for column, dtype in columns.items()}
    text = [column for column, dtype in kinds.items() if getattr(dtype, "kind", "O") not in "biuf"]
    if text:
        names = ", ".join(map(repr, text[:5])) + (", ..." if len(text) > 5 else "")
        raise ValueError(
            f"{name} has {len(text)} column{'s that hold' if len(text) > 1 else ' that holds'} no numbers: {names}. "
            f"Encode or drop them first."
        )
    return list(kinds.values())


def _numbers(part: Any, name: str, columns: list[str] | None, number: int, dtype: np.dtype[Any]) -> Floats:
    """A partition of a dataframe as an array, with missing values as NaN; runs on the worker that has it."""
    names = None if columns is None else [str(column) for column in part.columns]
    if names != columns:
        raise ValueError(f"{name} has the columns {names} in partition {number}, but {columns} were promised.")
    return np.asarray(part.to_numpy(dtype=dtype, na_value=np.nan))
