"""Checks of arguments, before any long work. Each error names the argument, its value and the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_array

from .types import Array, Floats

LARGEST = 1e120  # largest absolute value of an input: squares (1e240), and sums and products of them, stay below 1e308
SMALLEST = 1e-120  # least largest absolute value of a column that is not all zero: its squares stay above 1e-308

DATED = ("date", "time", "duration")  # beginnings of the names, in lower case, of types of dates, times and durations


def check_rows(X: Any, y: Any, targets: Any = np.float64) -> tuple[Array, Array]:
    """X as an array-like of shape (n, d) that can be sliced by rows, y as an array of shape (n,) or (n, q).

    Arrays of numbers are not copied, nor are array-likes that have a shape and a dtype and can be sliced. Whether X is
    finite is checked when its rows are first read (`sodalite.selection.rows.check_inputs`).

    Parameters
    ----------
    X, y : array-like
    targets : dtype or list of dtypes
        The types that y may have; y of any other type is converted to the first.
    """
    check_unmasked("X", X)
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
    """Whether X holds numbers and its slices are NumPy arrays: arrays, memory maps, HDF5 data sets, ..."""
    if isinstance(X, np.ndarray):
        return X.dtype.kind in "biuf"
    if hasattr(X, "columns") or not all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__")):
        return False
    try:
        return np.dtype(X.dtype).kind in "biuf" and isinstance(X[:1], np.ndarray)
    except (TypeError, ValueError, NotImplementedError):
        return False


def reads_from_disk(X: Any) -> bool:
    """Whether the rows of X are read when it is sliced: a memory map, or an array-like other than a NumPy array."""
    return isinstance(X, np.memmap) or (not isinstance(X, np.ndarray) and is_sliceable(X))


def check_by_number(X: Any) -> None:
    """Refuse an array-like that cannot be indexed by row numbers in any order, such as ``X[[5, 2]]``.

    A fit needs such indexing; a selection alone needs only slices.
    """
    try:
        rows = np.asarray(X[np.array([X.shape[0] - 1, 0])])
    except (TypeError, ValueError, IndexError, NotImplementedError, AttributeError):
        rows = np.empty(0)
    if rows.shape != (2, X.shape[1]):
        raise TypeError(
            f"X, of type {type(X).__name__}, does not give rows by their numbers, such as X[[5, 2]], as a fit needs. "
            f"Use a memory map, Parquet files or an array; sodalite.select needs slices alone."
        )


def check_not_large(name: str, values: Array, begin: int = 0) -> Floats:
    """The largest absolute value of every column, of shape (d,); refuses values whose squares would overflow.

    Parameters
    ----------
    name : str
        The argument that the values belong to.
    values : array of shape (n,) or (n, d)
    begin : int
        The index of the first row, for the message.
    """
    table = values.reshape(len(values), -1)
    largest: Floats = np.maximum(table.max(axis=0, initial=0), -table.min(axis=0, initial=0)).astype(np.float64)
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


def check_not_small(name: str, largest: Floats) -> None:
    """Refuse columns whose largest absolute values, of shape (d,), are so small that their squares would underflow."""
    small = np.flatnonzero((largest > 0) & (largest < SMALLEST))
    if len(small):
        which = "" if len(largest) == 1 else f" in column {small[0]}"
        raise ValueError(
            f"{name} has no value larger than {largest[small[0]]:.3g}{which}: the squares are too small for "
            f"floating-point numbers. Multiply it by a number, or, if it should be zero, set it to zero."
        )


def check_dtype(dtype: Any, name: str = "dtype") -> np.dtype[Any]:
    """A dtype argument as a NumPy dtype: float64 or float32, all else is refused."""
    try:
        checked: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        checked = np.dtype(object)
    if checked not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise ValueError(f"{name} must be 'float64' or 'float32'; got {dtype!r}.")
    return checked


def float_type(X: Any) -> np.dtype[Any]:
    """The type in which inputs are stored: float32 if X has it, else float64."""
    return np.dtype(np.float32 if X.dtype == np.float32 else np.float64)


def check_unmasked(name: str, values: Any) -> None:
    """Refuse a masked array of which entries are masked: all else takes the values behind the mask for data."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        row = int(np.argwhere(np.ma.getmaskarray(values))[0, 0])
        raise ValueError(
            f"{name} has masked entries, in row {row} for one, and a mask is not read. Drop such rows, or fill them in "
            f"by numpy.ma.filled({name}, value)."
        )


def check_targets(y: Any, n: int, dtype: Any = np.float64) -> Array:
    """The targets of n rows as a finite array of shape (n,) or (n, q)."""
    check_unmasked("y", y)
    y = check_array(y, dtype=dtype, ensure_2d=False, ensure_min_samples=0, input_name="y")
    if y.ndim == 0 or y.ndim > 2:
        raise ValueError(f"y must have one or two dimensions, one row per row of X; got shape {y.shape}.")
    if y.shape[0] != n:
        raise ValueError(f"X and y must have the same number of rows; X has {n}, y has {y.shape[0]}.")
    check_not_large("y", y)
    return np.asarray(y)


@contextmanager
def readable_errors(X: Any) -> Iterator[None]:
    """Within this context, an error about a data frame names the columns that hold no numbers.

    Dates and durations are refused, also those that scikit-learn would take for numbers: these depend on the unit. So
    are masked entries.
    """
    check_unmasked("X", X)
    if dated := date_columns(X):
        raise ValueError(_without_numbers(dated))
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # scikit-learn sums all values to test them
            yield
    except (ValueError, TypeError) as error:
        text = text_columns(X)
        if not text:
            raise
        raise ValueError(_without_numbers(text)) from error


def _without_numbers(columns: Sequence[str]) -> str:
    """The message about columns that hold no numbers."""
    names = ", ".join(map(repr, columns[:5])) + (", ..." if len(columns) > 5 else "")
    return (
        f"X has {len(columns)} column{'s that hold' if len(columns) > 1 else ' that holds'} no numbers: {names}. Put a "
        f"sodalite.TableEncoder before the model, or encode or drop them first, with "
        f"sklearn.preprocessing.OneHotEncoder for instance."
    )


def date_columns(X: Any) -> list[str]:
    """The columns of a data frame that hold nothing but dates, times or durations; of an array, by their numbers."""
    types = getattr(X, "dtypes", None)
    if types is None:
        is_dated = getattr(getattr(X, "dtype", None), "kind", "") in ("m", "M")
        return [str(column) for column in range(X.shape[1] if X.ndim > 1 else 1)] if is_dated else []
    names = getattr(X, "columns", range(len(types)))
    return [str(name) for name, each in zip(names, types, strict=True) if str(each).lower().startswith(DATED)]


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


def unknown(argument: str, names: Iterable[str], got: Any, also: str = "") -> ValueError:
    """The error for an unknown name: it lists the valid names, and suggests the nearest.

    Parameters
    ----------
    argument : str
        The name of the argument.
    names : iterable of str
        The valid values.
    got : object
        The value of the argument.
    also : str
        What else the argument may be, such as ``" or a callable"``.
    """
    names = list(names)
    close = get_close_matches(str(got), names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return ValueError(f"{argument} must be one of {', '.join(map(repr, names))}{also}; got {got!r}.{hint}")


def check_alpha(alpha: Any, n: int) -> Floats:
    """The noise variance of every row beyond the kernel's, of shape (n,), from one number or one per row."""
    return _per_row("alpha", alpha, n, "alpha is a variance: it")


def check_weights(sample_weight: Any, n: int) -> Floats | None:
    """The weight of every row, of shape (n,), from one number or one per row; None if all are 1."""
    weights = _per_row("sample_weight", sample_weight, n, "sample_weight")
    if not weights.any():
        raise ValueError("sample_weight is zero for all rows: at least one must be positive.")
    return None if (weights == 1).all() else weights


def _per_row(name: str, values: Any, n: int, subject: str) -> Floats:
    """One number for each of n rows, finite and not negative; `subject` begins the error if one is."""
    check_unmasked(name, values)
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "iufO":  # NumPy would read numbers out of text
            raise TypeError(f"of type {array.dtype}")
        numbers = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a number or one number per row; got {values!r}.") from error
    if numbers.shape not in ((), (n,)):
        raise ValueError(
            f"{name} must be a number or an array of shape ({n},), one per row; got shape {numbers.shape}."
        )
    bad = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0)))
    if len(bad):
        which = "" if numbers.ndim == 0 else f" in row {bad[0]}, and {len(bad)} such rows of {n}"
        raise ValueError(f"{subject} must be finite and not negative; got {numbers.flat[bad[0]]}{which}.")
    return np.array(np.broadcast_to(numbers, (n,)))


def check_levels(name: str, values: Any) -> Floats:
    """Return probabilities between 0 and 1 as an array of shape (levels,); refuse all else by name."""
    try:
        if np.asarray(values).dtype.kind in "USb":  # texts and truth values, which NumPy would take for numbers
            raise TypeError
        levels = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be numbers between 0 and 1; got {values!r:.100}.") from None
    if levels.ndim != 1 or not len(levels):
        raise ValueError(f"{name} must be a list of at least one number between 0 and 1; its shape is {levels.shape}.")
    wrong = ~((levels > 0) & (levels < 1))  # NaN is wrong too
    if wrong.any():
        raise ValueError(
            f"{name} must lie between 0 and 1, both excluded; got {levels[wrong][0]:g}. Write 0.95 for 95 %."
        )
    return levels


def check_level(name: str, value: Any) -> float:
    """Return one probability between 0 and 1; refuse all else by name."""
    if np.ndim(value):
        raise TypeError(f"{name} must be one number between 0 and 1; got {value!r:.100}.")
    return float(check_levels(name, value)[0])


def check_target(target: int, q: int) -> None:
    """Refuse a target other than 0 to q - 1."""
    if not is_whole(target) or not 0 <= target < q:
        raise ValueError(f"target must be from 0 to {q - 1}; got {target}.")


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number, and not True or False."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_count(name: str, value: Any) -> None:
    """Refuse all but whole numbers of at least 1."""
    if not is_whole(value):
        raise TypeError(f"{name} must be a whole number; got {value!r} of type {type(value).__name__}.")
    if value < 1:
        raise ValueError(f"{name} must be at least 1; got {value}.")


def check_number(name: str, value: Any, least: float) -> None:
    """Refuse all but numbers of at least `least`; NaN is refused."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number; got {value!r} of type {type(value).__name__}.")
    if not float(value) >= least:
        raise ValueError(f"{name} must be at least {least}; got {value!r}.")
