"""Dask arrays and dataframes as rows of numbers: checked before any long work, cut by the partitions of X."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..validation import check_alpha, check_rows, check_targets, is_dask
from .client import answer

Array = NDArray[Any]
Rows = tuple[Array, Array, Array | None]
"""X, of shape (rows, d), y, of shape (rows, q), and alpha, of shape (rows,), or None."""


@dataclass(frozen=True)
class Pieces:
    """All rows, piece by piece, and how to have each as one future."""

    edges: list[int]
    """Where the pieces begin, and where the last ends. None is empty."""
    send: Callable[[Any, list[int], list[str]], list[Any]]
    """Gives futures of some pieces' `Rows`, of a client and the addresses of its workers; again, if they are lost."""
    d: int
    q: int
    dtype: np.dtype[Any]
    flat: bool
    """Whether y had one dimension."""
    has_alpha: bool


def pieces_of(client: Any, X: Any, y: Any, alpha: Any = None, count: int = 1) -> Pieces:
    """Cut rows up: Dask collections by the partitions of X, arrays that the driver holds into `count` pieces."""
    if is_dask(X) or is_dask(y):
        return _of_dask(*_as_arrays(client, X, y, alpha))
    X, y = check_rows(X, y)
    own = None if alpha is None else check_alpha(alpha, len(y))
    Y = y.reshape(len(y), -1)
    edges = np.linspace(0, len(y), min(count, len(y)) + 1).astype(int).tolist()

    def send(client: Any, pieces: list[int], workers: list[str]) -> list[Any]:
        futures = []
        for piece in pieces:
            here = slice(edges[piece], edges[piece + 1])
            noise = None if own is None else own[here]
            rows = checked(X[here], Y[here], noise, None, *edges[piece : piece + 2], X.shape[1], dtype)
            home = workers[piece % len(workers)]
            futures += client.scatter([rows], workers=[home], hash=False)
        return futures

    dtype = _float(X.dtype)
    return Pieces(edges, send, X.shape[1], Y.shape[1], dtype, y.ndim == 1, own is not None)


def checked(
    X: Any, y: Any, alpha: Any, number: int | None, begin: int, end: int, d: int, dtype: np.dtype[Any]
) -> Rows:
    """Rows `begin` to `end` as arrays of numbers. Refuses what is not finite, or not of the shape that was promised."""
    X = np.ascontiguousarray(X, dtype=dtype)
    y = np.array(y, dtype=np.float64)
    y = y.reshape(len(y), -1)
    where = "" if number is None else f" in partition {number}"
    if X.ndim != 2 or X.shape[1] != d:
        width = X.shape[1] if X.ndim == 2 else X.ndim
        raise ValueError(f"X has {width} columns{where}, but {d} were promised. Partitions must be of the same width.")
    for name, found in (("X", X), ("y", y), ("alpha", alpha)):
        if found is None:
            continue
        if len(found) != end - begin:
            raise ValueError(f"{name} has {len(found)} rows{where}, but its chunks say {end - begin}.")
        finite = np.isfinite(found).reshape(end - begin, -1).all(axis=1)
        if not finite.all():
            bad = int(np.flatnonzero(~finite)[0])
            inside = "" if number is None else f" (row {bad} of that partition)"
            raise ValueError(
                f"{name} contains NaN or infinite values{where}, in row {begin + bad} for one{inside}. Drop such rows, "
                f"or fill them in."
            )
    if alpha is not None:
        alpha = np.array(alpha, dtype=np.float64).reshape(-1)
        if (alpha < 0).any():
            bad = int(np.flatnonzero(alpha < 0)[0])
            raise ValueError(f"alpha is a variance: it must not be negative; got {alpha[bad]} in row {begin + bad}.")
    return X, y, alpha


def _float(*dtypes: Any) -> np.dtype[Any]:
    """float32 if all are, else float64."""
    return np.dtype(np.float32 if all(dtype == np.float32 for dtype in dtypes) else np.float64)


def _as_arrays(client: Any, X: Any, y: Any, alpha: Any) -> tuple[Any, Any, Any]:
    """All three as Dask arrays (or alpha as None) with chunks of known sizes, those of X's rows, none of them empty."""
    from dask.array import from_array

    X, y, alpha = (_from_frame(client, name, part) for name, part in (("X", X), ("y", y), ("alpha", alpha)))
    for name, part in (("X", X), ("y", y), ("alpha", alpha)):
        if not is_dask(part):
            continue
        if any(not size >= 0 for sizes in part.chunks for size in sizes):
            raise ValueError(f"{name} has chunks of unknown sizes. Call {name}.compute_chunk_sizes() first.")
        if np.dtype(part.dtype).kind not in "biuf":
            raise ValueError(f"{name} must hold numbers; got {part.dtype}.")
    if not is_dask(X):
        X, _ = check_rows(X, np.zeros(len(X)))
        X = from_array(np.asarray(X), chunks=(y.chunks[0], -1))  # type: ignore[no-untyped-call]
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, rows and columns; got {X.ndim}.")
    if not X.shape[0] or not X.shape[1]:
        raise ValueError(f"X must have at least one row and one column; got shape {X.shape}.")
    X = _without_empty_chunks(X).rechunk({1: -1})
    n = X.shape[0]
    if not is_dask(y):
        y = from_array(check_targets(y, n), chunks=n)  # type: ignore[no-untyped-call]
    if alpha is not None and not is_dask(alpha):
        alpha = from_array(check_alpha(alpha, n), chunks=n)  # type: ignore[no-untyped-call]
    for name, part, most in (("y", y, 2), ("alpha", alpha, 1)):
        if part is not None and (part.ndim > most or part.shape[0] != n):
            what = "the same number of rows" if part.ndim <= most else f"at most {most} dimensions"
            raise ValueError(f"X and {name} must have {what}; X has shape {X.shape}, {name} has {part.shape}.")
    rows = X.chunks[0]
    y = _without_empty_chunks(y).rechunk({0: rows, **({1: -1} if y.ndim == 2 else {})})
    return X, y, None if alpha is None else _without_empty_chunks(alpha).rechunk({0: rows})


def _without_empty_chunks(part: Any) -> Any:
    if all(part.chunks[0]):
        return part
    from dask.array import concatenate

    return concatenate([part.blocks[at] for at, size in enumerate(part.chunks[0]) if size])  # type: ignore[no-untyped-call]


def _of_dask(X: Any, y: Any, alpha: Any) -> Pieces:
    from dask import delayed

    edges = [0, *np.cumsum(X.chunks[0]).tolist()]
    d, dtype = X.shape[1], _float(X.dtype)
    columns = [part if part is None else part.to_delayed().ravel().tolist() for part in (X, y, alpha)]
    places = [(number, *span) for number, span in enumerate(pairwise(edges))]

    def send(client: Any, pieces: list[int], workers: list[str]) -> list[Any]:
        make = delayed(checked, pure=False)
        blocks = [[None if column is None else column[piece] for column in columns] for piece in pieces]
        parts = [make(*block, *places[piece], d, dtype) for block, piece in zip(blocks, pieces, strict=True)]
        return list(client.compute(parts))

    q = 1 if y.ndim == 1 else y.shape[1]
    return Pieces(edges, send, d, q, dtype, y.ndim == 1, alpha is not None)


def _from_frame(client: Any, name: str, part: Any) -> Any:
    """A Dask dataframe or series as a Dask array, the lengths of its partitions found by one pass; others as they are.

    The partitions stay on the workers meanwhile.
    """
    if not hasattr(part, "to_dask_array"):
        return part
    from dask import delayed
    from dask.array import concatenate, from_delayed

    dtypes = check_columns(name, part)
    if not dtypes:
        raise ValueError(f"{name} must have at least one column; got none.")
    dtype = _float(*dtypes)
    part = client.persist(part)
    pieces = part.to_delayed()
    lengths = [answer(client, future) for future in client.compute([delayed(len)(piece) for piece in pieces])]
    columns = [str(column) for column in part.columns] if part.ndim == 2 else None
    arrays = []
    for number, (piece, length) in enumerate(zip(pieces, lengths, strict=True)):
        if length:
            shape = (length,) if columns is None else (length, len(columns))
            value = delayed(numbers)(piece, name, columns, number, dtype)
            arrays.append(from_delayed(value, shape, dtype))  # type: ignore[no-untyped-call]
    if not arrays:
        raise ValueError(f"{name} must have at least one row; got none.")
    return concatenate(arrays)  # type: ignore[no-untyped-call]


def check_columns(name: str, frame: Any) -> list[Any]:
    """The types of a dataframe's columns, or of a series; refuses those that are no numbers."""
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


def numbers(part: Any, name: str, columns: list[str] | None, number: int, dtype: np.dtype[Any]) -> Array:
    """A partition of a dataframe as an array, missing values as NaN; on the worker that has it."""
    found = None if columns is None else [str(column) for column in part.columns]
    if found != columns:
        raise ValueError(f"{name} has the columns {found} in partition {number}, but {columns} were promised.")
    return np.asarray(part.to_numpy(dtype=dtype, na_value=np.nan))
