"""Dask arrays and dataframes: checked before any long work, and cut into pieces by the partitions of X."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Floats
from ..core.validation import check_alpha, check_not_large, check_rows, check_targets, check_unmasked, is_dask
from ..selection.rows import ArrayRows, check_inputs
from .client import Client, DaskFuture, cluster_errors, gather, no_warning_of_size, share


class Targets(NamedTuple):
    """Targets of consecutive rows, of shape (rows, q), and their own noise variances, of shape (rows,)."""

    y: Floats
    alpha: Floats | None


def columns_of(client: Client, X: Any, y: Any, alpha: Any, count: int) -> tuple[Any, Any, Any]:
    """Return X, y and alpha as Dask arrays with the same chunks of rows, some of them empty; alpha may be None.

    Shapes and types are checked; values of Dask collections are checked by `send`. X is float32 if all of its columns
    are, else float64. Chunks are those of the first Dask collection; if there is none, arrays are divided into `count`
    parts.
    """
    if not is_dask(X):
        X, _ = check_rows(X, none := np.zeros(len(X)))
        check_inputs(ArrayRows(X, none[:, None]))
    dtype = np.dtype(np.float32 if all(each == np.float32 for each in numeric_types("X", X)) else np.float64)
    X = _as_array(client, "X", X, dtype) if is_dask(X) else X
    if len(X.shape) != 2 or not X.shape[0] or not X.shape[1]:
        raise ValueError(f"X must have at least one row and one column; got shape {X.shape}.")
    n = X.shape[0]
    y = _as_array(client, "y", y) if is_dask(y) else check_targets(y, n)
    if alpha is not None:
        alpha = _as_array(client, "alpha", alpha) if is_dask(alpha) else check_alpha(alpha, n)
        if alpha.ndim == 2 and alpha.shape[1] != 1:
            raise ValueError(f"alpha must be one number per row; got {alpha.shape[1]}.")
    for name, other in (("y", y), ("alpha", alpha)):
        if other is not None and other.shape[0] != n:
            raise ValueError(f"X and {name} must have the same number of rows; X has {n}, {name} has {other.shape[0]}.")
    even = tuple(n // count + (at < n % count) for at in range(count))
    sizes = next((part.chunks[0] for part in (X, y, alpha) if is_dask(part)), even)
    X, y, alpha = (None if part is None else _in_chunks(client, part, sizes) for part in (X, y, alpha))
    return X.astype(dtype), y, alpha


def send(client: Client, *columns: Any) -> tuple[list[DaskFuture], list[DaskFuture], list[int]]:
    """Have the workers hold all rows, checked; return futures of X and of the `Targets` of every piece, and the edges.

    The scheduler can make pieces again that are lost, from the collections that they come from.
    """
    from dask.delayed import delayed

    sizes, d, dtype = columns[0].chunks[0], columns[0].shape[1], columns[0].dtype
    parts = [[None] * len(sizes) if part is None else part.to_delayed(optimize_graph=False).ravel() for part in columns]
    check, pieces, edges = delayed(checked, pure=False, nout=2), list[Any](), [0]
    for number, (size, *some) in enumerate(zip(sizes, *parts, strict=True)):
        if size:
            pieces.extend(check(*some, number, edges[-1], size, d, dtype))
            edges.append(edges[-1] + size)
    with cluster_errors(client), no_warning_of_size():
        futures = client.compute(pieces)
    return futures[::2], futures[1::2], edges


def checked(
    X: Any, y: Any, alpha: Any, number: int, begin: int, size: int, d: int, dtype: np.dtype[Any]
) -> tuple[Floats, Targets]:
    """A partition, whose first row is `begin`, as arrays of numbers; refuses NaN, infinite values and other shapes."""
    for name, values in (("X", X), ("y", y), ("alpha", alpha)):
        check_unmasked(name, values)
    X, y = np.ascontiguousarray(X, dtype=dtype), np.array(y, dtype=np.float64)
    y = y.reshape(len(y), -1)
    if X.ndim != 2 or X.shape[1] != d:
        raise ValueError(
            f"X has {X.shape[-1]} columns in partition {number}, but {d} were promised. Partitions must be of the same "
            f"width."
        )
    for name, values in (("X", X), ("y", y)):
        if len(values) != size:
            raise ValueError(f"{name} has {len(values)} rows in partition {number}, but its chunks say {size}.")
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(bad):
            raise ValueError(
                f"{name} contains NaN or infinite values in partition {number}, in row {begin + bad[0]} for one (row "
                f"{bad[0]} of that partition). Drop such rows, or fill them in."
            )
        check_not_large(name, values, begin)
    if alpha is None:
        return X, Targets(y, None)
    try:
        return X, Targets(y, check_alpha(np.asarray(alpha, dtype=np.float64).reshape(-1), size))
    except ValueError as error:
        raise ValueError(f"{error} This is in partition {number}, which begins with row {begin}.") from None


def _in_chunks(client: Client, part: Any, sizes: tuple[int, ...]) -> Any:
    """A Dask array in chunks of so many rows. An array of this machine is sent: the scheduler keeps a copy of it."""
    from dask.array import concatenate, from_delayed

    if not is_dask(part):
        slices = [part[begin:end] for begin, end in pairwise([0, *accumulate(sizes)])]
        part = concatenate([from_delayed(share(client, each), each.shape, each.dtype) for each in slices])  # type: ignore[no-untyped-call]
    return part.rechunk({0: sizes})  # which has empty chunks too


def _as_array(client: Client, name: str, part: Any, dtype: Any = np.float64) -> Any:
    """A Dask collection of numbers as an array with one chunk of columns and known sizes."""
    from dask.array import concatenate, from_delayed
    from dask.delayed import delayed

    numeric_types(name, part)
    if hasattr(part, "to_dask_array"):  # a dataframe or a series, whose rows are counted
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
    if not 1 <= part.ndim <= 2:
        raise ValueError(f"{name} must have {'two' if name == 'X' else 'one or two'} dimensions; got {part.ndim}.")
    return part.rechunk({1: -1}) if part.ndim == 2 else part


def numeric_types(name: str, part: Any) -> list[Any]:
    """Return the types of a dataframe's columns, or that of a series or an array; refuse what does not hold numbers."""
    frame = hasattr(part, "to_dask_array") and part.ndim == 2
    columns = {str(column): dtype for column, dtype in part.dtypes.items()} if frame else {name: part.dtype}
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
