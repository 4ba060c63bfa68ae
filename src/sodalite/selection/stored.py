"""The part of a checkpoint that records a selection: its arrays, and the checks of these by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.json import shown
from ..core.types import Array, Floats, Indices

INTEGERS = ("indices", "order")
ARRAYS = {*INTEGERS, "rmse", "scores", "seconds", "noise", "X", "gains"}


@dataclass(frozen=True)
class StoredSelection:
    """A selection of t rows, as a checkpoint records it."""

    indices: Indices
    rmse: Floats
    scores: Floats
    seconds: Floats
    """When each stage ended, in seconds since the selection began."""
    X: Floats
    """Inputs of the rows; of shape (t, d)."""
    noise: Floats
    """Noise variances of the rows."""
    order: Indices
    """The rows that a run with any larger `n_active` chooses: those of `indices`. With look-ahead there may be some
    more, of a block that has been decided, or fewer, where `n_active` cut a block short."""
    gains: Floats
    """Scores of the rows of `order`."""
    noise_floor: float
    n_proposed: int
    ended: str
    """The stop reason, where no rule gives it: "score", or "" for any other."""

    @classmethod
    def checked(cls, content: Any, arrays: dict[str, Array], n: int, d: int) -> StoredSelection:
        """The selection that a file records, of n rows with d inputs; a ValueError says what is wrong with it.

        The names, types and lengths of the arrays have been checked.
        """
        if not isinstance(content, dict):
            raise ValueError(f"what it says of the selection is {shown(content)}")
        _check_rows(arrays, n, d)
        _check_numbers(arrays, n)
        t = len(arrays["indices"])
        floor, ended, proposed = content["noise_floor"], content["ended"], content["n_proposed"]
        if type(floor) is not float or floor < 0:
            raise ValueError(f"noise_floor must be a number that is not negative; it is {shown(floor)}")
        if ended not in ("", "score"):
            raise ValueError(f"ended must be '' or 'score'; it is {shown(ended)}")
        if type(proposed) is not int or not t <= proposed < 2**63:
            raise ValueError(
                f"n_proposed must be a whole number of at least {t}, the rows chosen; it is {shown(proposed)}"
            )
        return cls(**arrays, noise_floor=floor, n_proposed=proposed, ended=ended)


def _check_rows(arrays: dict[str, Array], n: int, d: int) -> None:
    """Refuse rows that are not rows of the data, or that come twice."""
    t = len(arrays["indices"])
    if not t:
        raise ValueError("it records a selection of no rows")
    if arrays["X"].shape[1] != d:
        raise ValueError(f"the rows that it records have {arrays['X'].shape[1]} inputs, but the data have {d}")
    for name in INTEGERS:
        rows = arrays[name]
        beyond = rows[(rows < 0) | (rows >= n)]
        if len(beyond):
            raise ValueError(f"it records row {beyond[0]} as chosen, but the data have rows 0 to {n - 1}")
        if len(np.unique(rows)) < len(rows):
            raise ValueError("it records a row as chosen twice")
    common = min(len(arrays["order"]), t)
    if not np.array_equal(arrays["indices"][:common], arrays["order"][:common]):
        raise ValueError("it records two different orders of the chosen rows")
    if not np.array_equal(arrays["scores"][:common], arrays["gains"][:common], equal_nan=True):
        raise ValueError("it records two different scores of a chosen row")


def _check_numbers(arrays: dict[str, Array], n: int) -> None:
    """Refuse inputs, noise, times and RMSE that no selection of n rows can have."""
    rmse, seconds = arrays["rmse"], arrays["seconds"]
    for name in ("X", "noise", "seconds"):
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"array {name!r} has NaN or infinite values")
    empty = np.arange(1, len(rmse) + 1) == n  # the stage at which no row remains, whose RMSE is NaN
    if not np.isnan(rmse[empty]).all() or not np.isfinite(rmse[~empty]).all() or (rmse[~empty] < 0).any():
        raise ValueError("it records an RMSE that is negative or no finite number")
    if seconds[0] < 0 or (np.diff(seconds) < 0).any():
        raise ValueError("the times that it records are negative, or run backwards")
