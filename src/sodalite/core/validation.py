"""Bad input is refused here, before any long work, by a message that names the argument and the remedy."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_array

from .types import Array, Floats

OUTLYING = 1000.0  # distance from the median of the rows over the range of 80 % of them: no distribution that is met

LARGEST = 1e120  # of the absolute values: squares, and products and sums of many of these, must be finite numbers
SMALLEST = 1e-120  # of a column's largest absolute value, unless it is all zeros: its squares must not vanish


def check_rows(X: Any, y: Any, targets: Any = np.float64) -> tuple[Array, Array]:
    """X as something of shape (n, d) to be sliced by rows, y as an array of shape (n,) or (n, q).

    Arrays of numbers are not copied, nor are array-likes that have a shape and a dtype and can be sliced; whether X is
    finite is found out when its rows are first read. `targets` are the types that y may have, the first where it has
    none of them.
    """
    if not is_sliceable(X):
        with readable_errors(X):
            X = check_array(X, dtype=[np.float64, np.float32], input_name="X", ensure_min_samples=0)
    if len(X.shape) != 2:
        raise ValueError(f"X must have two dimensions, rows and columns; got shape {tuple(X.shape)}.")
    if not X.shape[0] or not X.shape[1]:
        raise ValueError(f"X must have at least one row and one column; got shape {tuple(X.shape)}.")
    return X, check_targets(y, X.shape[0], targets)


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection."""
    return hasattr(X, "__dask_graph__") and not isinstance(X, np.ndarray)


def is_sliceable(X: Any) -> bool:
    """Whether X holds numbers and gives rows as arrays when it is sliced: arrays, memory maps, HDF5 data sets, ..."""
    if isinstance(X, np.ndarray):
        return X.dtype.kind in "biuf"
    if hasattr(X, "columns") or not all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__")):
        return False
    try:
        return np.dtype(X.dtype).kind in "biuf" and isinstance(X[:1], np.ndarray)
    except (TypeError, ValueError, NotImplementedError):
        return False


def is_on_disk(X: Any) -> bool:
    """Whether rows are read when they are asked for: a memory map, or an array-like that is no array."""
    return isinstance(X, np.memmap) or (not isinstance(X, np.ndarray) and is_sliceable(X))


def check_by_number(X: Any) -> None:
    """Refuse an array-like that does not give rows by their numbers, in any order, as more than a selection needs."""
    try:
        found = np.asarray(X[np.array([X.shape[0] - 1, 0])])
    except (TypeError, ValueError, IndexError, NotImplementedError, AttributeError):
        found = np.empty(0)
    if found.shape != (2, X.shape[1]):
        raise TypeError(
            f"X, of type {type(X).__name__}, does not give rows by their numbers, such as X[[5, 2]], as a fit needs. "
            f"Use a memory map, Parquet files or an array; sodalite.select needs slices alone."
        )


def check_finite(X: Any) -> None:
    """Refuse rows with values that are NaN, infinite or too large, a block at a time; the first is named.

    Also columns of values that are too small.
    """
    rows, largest = 2**20 // X.shape[1] + 1, np.zeros(X.shape[1])
    for begin in range(0, X.shape[0], rows):
        block = np.asarray(X[begin : begin + rows])
        bad = np.flatnonzero(~np.isfinite(block).all(axis=1))
        if len(bad):
            raise ValueError(f"X contains NaN or infinite values, in row {begin + bad[0]} for one. Drop such rows.")
        largest = np.maximum(largest, check_not_large("X", block, begin))
    check_not_small("X", largest)


def check_not_large(name: str, values: Array, begin: int = 0) -> Array:
    """The largest absolute value of every column; refuses values whose squares would not be numbers any more.

    Parameters
    ----------
    name : str
        The argument that they are of.
    values : array of shape (n,) or (n, d)
    begin : int
        The number of the first row.
    """
    table = values.reshape(len(values), -1)
    largest: Array = np.maximum(table.max(axis=0, initial=0), -table.min(axis=0, initial=0)).astype(np.float64)
    if (largest > LARGEST).any():
        column = int(np.argmax(largest > LARGEST))
        row = begin + int(np.argmax(np.abs(table[:, column]) > LARGEST))
        where = f"row {row}" if table.shape[1] == 1 else f"row {row}, column {column}"
        raise ValueError(
            f"{name} has values as large as {largest[column]:.3g}, in {where} for one: their squares are too large for "
            f"floating-point numbers. If the values are right, divide {name} by a number, so that none is larger than "
            f"{LARGEST:.0e}."
        )
    return largest


def check_not_small(name: str, largest: Array) -> None:
    """Refuse columns whose largest absolute values are so small that their squares would vanish."""
    small = np.flatnonzero((largest > 0) & (largest < SMALLEST))
    if len(small):
        which = "" if len(largest) == 1 else f" in column {small[0]}"
        raise ValueError(
            f"{name} has no value larger than {largest[small[0]]:.3g}{which}: the squares are too small for "
            f"floating-point numbers. Multiply it by a number, or, if it should be zero, set it to zero."
        )


def check_dtype(dtype: Any, name: str = "dtype") -> np.dtype[Any]:
    """float64 or float32."""
    try:
        checked: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        checked = np.dtype(object)
    if checked not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise ValueError(f"{name} must be 'float64' or 'float32'; got {dtype!r}.")
    return checked


def check_targets(y: Any, n: int, dtype: Any = np.float64) -> Array:
    """The targets of n rows, of shape (n,) or (n, q)."""
    y = check_array(y, dtype=dtype, ensure_2d=False, ensure_min_samples=0, input_name="y")
    if y.ndim == 0 or y.ndim > 2:
        raise ValueError(f"y must have one or two dimensions, one row per row of X; got shape {y.shape}.")
    if y.shape[0] != n:
        raise ValueError(f"X and y must have the same number of rows; X has {n}, y has {y.shape[0]}.")
    check_not_large("y", y)
    return np.asarray(y)


@contextmanager
def readable_errors(X: Any) -> Iterator[None]:
    """Name the columns that hold no numbers when a data frame is refused for them."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn adds up all values, to see whether they are
            yield
    except (ValueError, TypeError) as error:
        text = text_columns(X)
        if not text:
            raise
        names = ", ".join(map(repr, text[:5])) + (", ..." if len(text) > 5 else "")
        raise ValueError(
            f"X has {len(text)} column{'s that hold' if len(text) > 1 else ' that holds'} no numbers: {names}. "
            f"Encode or drop them first, with sklearn.preprocessing.OneHotEncoder for instance."
        ) from error


def text_columns(X: Any) -> list[str]:
    """The names of a data frame's columns that cannot be read as numbers."""
    names = []
    for name in getattr(X, "columns", ()):
        try:
            number = np.asarray(X[name]).dtype.kind not in "mM"  # dates cannot be joined with numbers
            np.asarray(X[name], dtype=np.float64)
        except (ValueError, TypeError):
            number = False
        if not number:
            names.append(str(name))
    return names


def unknown(argument: str, names: Iterable[str], got: Any, besides: str = "") -> ValueError:
    """The error for a name that is none of those that there are; it lists them and suggests the nearest."""
    names = list(names)
    close = get_close_matches(str(got), names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return ValueError(f"{argument} must be one of {', '.join(map(repr, names))}{besides}; got {got!r}.{hint}")


class OutlierWarning(UserWarning):
    """A row is so far from all others that it may be a mistake."""


def warn_of_outliers(X: Array, y: Array, names: Any = None) -> None:
    """Name the first row whose inputs or target are further than `OUTLYING` times where most rows are.

    Parameters
    ----------
    X : array of shape (n, d)
    y : array of shape (n, q)
    names : sequence of str, optional
        The names of the inputs.
    """
    for what, values in (("X", X), ("y", y)):
        some = values[:: -(-len(values) // 100_000)]
        low, middle, high = np.quantile(some, [0.1, 0.5, 0.9], axis=0)
        for column in np.flatnonzero(high > low):
            with np.errstate(over="ignore"):
                distance = np.abs(values[:, column] - middle[column]) / (high[column] - low[column])
            row = int(np.argmax(distance))
            if distance[row] <= OUTLYING:
                continue
            name = f"{what}[:, {column}]" if what == "X" or values.shape[1] > 1 else what
            if what == "X" and names is not None:
                name = repr(str(names[column]))
            effect = "Predictions near it are uncertain." if what == "X" else "Predictions elsewhere suffer from it."
            more = int(np.count_nonzero(distance > OUTLYING)) - 1
            warnings.warn(
                f"Row {row} has {name} = {values[row, column]:.6g}, while 80 % of the rows are between "
                f"{low[column]:.6g} and {high[column]:.6g}{f'; {more} more rows are as far' if more else ''}. {effect} "
                f"Drop the row if it is a mistake.",
                OutlierWarning,
                stacklevel=4,
            )


def check_first(first: Any, n: int, m: int) -> list[int]:
    """The rows to start from: one index of n rows, or up to m that differ."""
    if isinstance(first, np.ndarray):
        first = first.tolist()
    rows = list(first) if isinstance(first, Sequence) and not isinstance(first, str) else [first]
    for row in rows:
        if not isinstance(row, Integral) or isinstance(row, bool):
            raise TypeError(f"first must be the index of a row, or several; got {row!r} of type {type(row).__name__}.")
        if not 0 <= int(row) < n:
            raise ValueError(f"first must be the index of a row, from 0 to {n - 1}; got {row}.")
    if not rows:
        raise ValueError("first must name at least one row; got none.")
    if len(set(rows)) < len(rows):
        raise ValueError(f"first must not name a row twice; got {rows}.")
    if len(rows) > m:
        raise ValueError(f"first names {len(rows)} rows, more than n_active={m}.")
    return [int(row) for row in rows]


def check_alpha(alpha: Any, n: int) -> Array:
    """The noise variance of every row beyond the kernel's."""
    try:
        given = np.asarray(alpha)
        if given.dtype.kind not in "iufO":  # NumPy would read numbers out of text
            raise TypeError(f"of type {given.dtype}")
        values = given.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"alpha must be a number or one number per row; got {alpha!r}.") from error
    if values.shape not in ((), (n,)):
        raise ValueError(f"alpha must be a number or an array of shape ({n},), one per row; got shape {values.shape}.")
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(bad):
        which = "" if values.ndim == 0 else f" in row {bad[0]}, and {len(bad)} such rows of {n}"
        raise ValueError(f"alpha is a variance: it must be finite and not negative; got {values.flat[bad[0]]}{which}.")
    return np.array(np.broadcast_to(values, (n,)))


def check_variance(kernel: Any, X: Array) -> None:
    """Refuse rows to be predicted that are so far out that a (compiled) kernel's variance grows beyond all numbers."""
    if not float(np.abs(X).max(initial=0)) > LARGEST:
        return
    with np.errstate(over="ignore", invalid="ignore"):
        variance = kernel.diag(kernel.prepare(X))
    check_predictions(X, np.where(variance < LARGEST, variance, np.inf))


def check_predictions(X: Array, *found: Array) -> None:
    """Refuse rows whose predictions (some arrays with a row for each) are not finite; the first is named."""
    finite = np.all([np.isfinite(part).reshape(len(X), -1).all(axis=1) for part in found], axis=0)
    if not finite.all():
        row = int(np.argmin(finite))
        raise ValueError(
            f"X has values that are too large to predict for with this kernel: as large as "
            f"{np.abs(X[row]).max():.3g}, in row {row}."
        )


def check_levels(name: str, values: Any) -> Floats:
    """Return probabilities between 0 and 1 as an array of shape (levels,); refuse all else by name."""
    try:
        levels = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be numbers between 0 and 1; got {values!r}.") from None
    if levels.ndim != 1 or not len(levels):
        raise ValueError(f"{name} must be a list of at least one number between 0 and 1; its shape is {levels.shape}.")
    wrong = ~((levels > 0) & (levels < 1))  # NaN is wrong too
    if wrong.any():
        raise ValueError(
            f"{name} must lie between 0 and 1, both excluded; got {levels[wrong][0]:g}. Write 0.95 for 95 %."
        )
    return levels


def scaled_alpha(alpha: Array, std: Array) -> Array:
    """The rows' own noise variances in units of the scaled targets; of several targets, they are in these already."""
    if len(std) == 1:
        with np.errstate(over="ignore"):
            alpha = alpha / std[0] ** 2
    return np.minimum(alpha, LARGEST)  # a row of that much noise says nothing either way


def check_count(name: str, value: Any) -> None:
    """Refuse what is neither None nor a positive whole number."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number or None; got {value!r}.")
    if value < 1:
        raise ValueError(f"{name} must be at least 1; got {value}.")
