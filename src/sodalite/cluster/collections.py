"""Dask arrays and dataframes as pieces of rows: checked before any long work, and cut by the partitions of X."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Array, Floats
from ..core.validation import check_alpha, check_not_large, check_rows, check_targets, is_dask
from .client import Client, DaskFuture, answer, scatter


class Piece(NamedTuple):
    """Consecutive rows."""

    X: Floats
    """Of shape (rows, d)."""
    y: Floats
    """Of shape (rows, q)."""
    alpha: Floats | None
    """Of shape (rows,)."""


@dataclass(frozen=True)
class Pieces:
    """The division of all rows into pieces, and a function that sends them to the workers."""

    edges: list[int]
    """The first row of every piece, and the number of rows. No piece is empty."""
    send: Callable[[Client, list[int], list[str]], list[DaskFuture]]
    """Returns futures of some pieces, given a client and its workers' addresses. Lost pieces can be sent again."""
    d: int
    q: int
    dtype: np.dtype[Any]
    """The type of X."""
    flat: bool
    """Whether y had one dimension."""
    has_alpha: bool
    lazy: bool = False
    """Whether they come from Dask collections: the scheduler can then make again what is lost."""


def pieces_of(client: Client, X: Any, y: Any, alpha: Any = None, count: int = 1) -> Pieces:
    """Divide rows into pieces: Dask collections by the partitions of X, arrays of this machine into `count` pieces."""
    from dask.delayed import delayed

    lazy = is_dask(X) or is_dask(y)
    if not lazy:
        X, y = check_rows(X, y)
    columns = _columns(client, X, y, alpha)
    places = _places(columns, count)
    d, dtype = columns[0].width, columns[0].dtype

    def send(client: Client, pieces: list[int], workers: list[str]) -> list[DaskFuture]:
        futures = []
        for piece in pieces:
            number, begin, end = places[piece]
            parts = [column.cover(begin, end) for column in columns]
            if lazy:
                futures.append(delayed(_piece, pure=False)(parts, number, begin, end, d, dtype))
            else:
                rows = _piece(parts, None, begin, end, d, dtype)
                futures.append(scatter(client, rows, workers[piece % len(workers)]))
        return list(client.compute(futures)) if lazy else futures

    edges = [0, *(end for _, _, end in places)]
    return Pieces(edges, send, d, columns[1].width, dtype, columns[1].flat, alpha is not None, lazy)


def _columns(client: Client, X: Any, y: Any, alpha: Any) -> list[_Column]:
    """X, y and, if there is any, alpha, checked to have as many rows."""
    columns = [_column(client, "X", X), _column(client, "y", y)]
    if alpha is not None:
        given = alpha if is_dask(alpha) else check_alpha(alpha, columns[0].n)
        columns.append(_column(client, "alpha", given))
    _check_shapes(columns)
    return columns


def _places(columns: list[_Column], count: int) -> list[tuple[int, int, int]]:
    """The number, the first row and the row after the last of every piece that is not empty.

    Pieces are the partitions of the first Dask collection; without one, `count` parts of nearly equal size.
    """
    n, divided = columns[0].n, next((column for column in columns if column.lazy), None)
    sizes = [n // count + (at < n % count) for at in range(count)] if divided is None else divided.sizes
    spans = enumerate(pairwise(accumulate(sizes, initial=0)))
    return [(number, begin, end) for number, (begin, end) in spans if end > begin]


@dataclass(frozen=True)
class _Column:
    """X, y or alpha: one array, or the blocks of a Dask collection."""

    name: str
    blocks: list[Any]
    sizes: list[int]
    """Rows of each block."""
    shape: tuple[int, ...]
    """The shape of one row's entry: () or (columns,)."""
    dtype: np.dtype[Any]
    lazy: bool
    """Whether it is a Dask collection."""

    @property
    def n(self) -> int:
        return sum(self.sizes)

    @property
    def width(self) -> int:
        return prod(self.shape)

    @property
    def flat(self) -> bool:
        return not self.shape

    def cover(self, begin: int, end: int) -> list[tuple[Any, int, int]]:
        """The blocks with rows from `begin` to `end`, and the first and last place of these rows in each block."""
        if not self.lazy:
            return [(self.blocks[0][begin:end], 0, end - begin)]
        edges = np.concatenate([[0], np.cumsum(self.sizes)])
        first, last = np.searchsorted(edges, begin, side="right") - 1, np.searchsorted(edges, end)
        spans = [(at, max(begin - edges[at], 0), min(end, edges[at + 1]) - edges[at]) for at in range(first, last)]
        return [(self.blocks[at], int(low), int(high)) for at, low, high in spans if high > low]


def _piece(
    columns: list[list[tuple[Any, int, int]]], number: int | None, begin: int, end: int, d: int, dtype: np.dtype[Any]
) -> Piece:
    """Rows `begin` to `end`, put together from the blocks that have them; runs on a worker, or here."""
    for name, parts in zip(("X", "y", "alpha"), columns, strict=False):
        for block, _, high in parts:
            if len(block) < high:
                where = "" if number is None else f" in partition {number}"
                raise ValueError(f"{name} has {len(block)} rows{where}, but its chunks say that there are more.")
    X, y, *alpha = (_join([block[low:high] for block, low, high in parts]) for parts in columns)
    return checked(X, y, alpha[0] if alpha else None, number, begin, end, d, dtype)


def _join(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def checked(
    X: Any, y: Any, alpha: Any, number: int | None, begin: int, end: int, d: int, dtype: np.dtype[Any]
) -> Piece:
    """Return rows `begin` to `end` as arrays of numbers; refuse NaN, infinite values and unexpected shapes.

    `number` is that of the partition, for messages; None for arrays of this machine.
    """
    X = np.ascontiguousarray(X, dtype=dtype)
    y = np.array(y, dtype=np.float64)
    y = y.reshape(len(y), -1)
    where = "" if number is None else f" in partition {number}"
    if X.ndim != 2 or X.shape[1] != d:
        width = X.shape[1] if X.ndim == 2 else X.ndim
        raise ValueError(f"X has {width} columns{where}, but {d} were promised. Partitions must be of the same width.")
    for name, found in (("X", X), ("y", y), ("alpha", alpha)):
        if found is not None:
            _check_values(name, found, number, begin, end)
        if name != "alpha":
            check_not_large(name, found, begin)
    if alpha is None:
        return Piece(X, y, None)
    alpha = np.array(alpha, dtype=np.float64).reshape(-1)
    if (alpha < 0).any():
        bad = int(np.flatnonzero(alpha < 0)[0])
        raise ValueError(f"alpha is a variance: it must not be negative; got {alpha[bad]} in row {begin + bad}.")
    return Piece(X, y, alpha)


def _check_values(name: str, found: Array, number: int | None, begin: int, end: int) -> None:
    """Refuse an array of another length than rows `begin` to `end`, or with values that are not finite."""
    where = "" if number is None else f" in partition {number}"
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


def _float(*dtypes: Any) -> np.dtype[Any]:
    """float32 if all are, else float64."""
    return np.dtype(np.float32 if all(dtype == np.float32 for dtype in dtypes) else np.float64)


def _column(client: Client, name: str, part: Any) -> _Column:
    """X, y or alpha with its shape and type checked; its values are checked when a piece is made."""
    if not is_dask(part):
        if name == "X":
            part, _ = check_rows(part, np.zeros(len(part)))
        elif name == "y":
            part = check_targets(part, len(part))
        return _Column(name, [part], [len(part)], tuple(part.shape[1:]), _float(part.dtype), False)
    if hasattr(part, "to_dask_array"):
        return _of_frame(client, name, part)
    if any(not size >= 0 for sizes in part.chunks for size in sizes):
        raise ValueError(f"{name} has chunks of unknown sizes. Call {name}.compute_chunk_sizes() first.")
    if np.dtype(part.dtype).kind not in "biuf":
        raise ValueError(f"{name} must hold numbers; got {part.dtype}.")
    if not 1 <= part.ndim <= 2:
        raise ValueError(f"{name} must have {'two' if name == 'X' else 'one or two'} dimensions; got {part.ndim}.")
    if part.ndim == 2:
        part = part.rechunk({1: -1})
    return _Column(
        name, part.to_delayed().ravel().tolist(), list(part.chunks[0]), part.shape[1:], _float(part.dtype), True
    )


def _of_frame(client: Client, name: str, part: Any) -> _Column:
    """A Dask dataframe or series as a column; one pass over its index counts the rows of its partitions."""
    from dask.delayed import delayed

    dtype = _float(*numeric_types(name, part))
    columns = [str(column) for column in part.columns] if part.ndim == 2 else None
    counts = client.compute([delayed(len)(index) for index in part.index.to_delayed()])
    lengths = [answer(client, future) for future in counts]
    blocks = [delayed(numbers)(piece, name, columns, number, dtype) for number, piece in enumerate(part.to_delayed())]
    return _Column(name, blocks, lengths, () if columns is None else (len(columns),), dtype, True)


def _check_shapes(columns: list[_Column]) -> None:
    X, *others = columns
    if len(X.shape) != 1:
        raise ValueError(f"X must have two dimensions, rows and columns; got {1 + len(X.shape)}.")
    if not X.n or not X.width:
        raise ValueError(f"X must have at least one row and one column; got shape {(X.n, X.width)}.")
    for other in others:
        if other.n != X.n:
            raise ValueError(
                f"X and {other.name} must have the same number of rows; X has {X.n}, {other.name} has {other.n}."
            )
        if other.name == "alpha" and other.width != 1:
            raise ValueError(f"alpha must be one number per row; got {other.width}.")


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


def numbers(part: Any, name: str, columns: list[str] | None, number: int, dtype: np.dtype[Any]) -> Floats:
    """Return a partition of a dataframe as an array, with missing values as NaN; runs on the worker that has it."""
    found = None if columns is None else [str(column) for column in part.columns]
    if found != columns:
        raise ValueError(f"{name} has the columns {found} in partition {number}, but {columns} were promised.")
    return np.asarray(part.to_numpy(dtype=dtype, na_value=np.nan))
