"""A warning of values that are far outside of their columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..core.types import Array
from ..core.warn import warn
from ..exceptions import OutlierWarning
from ..kernels.default import SAMPLE

# Distance of an outlier from its column's median, in ranges between the column's 10 % and 90 % quantiles. No common
# distribution reaches it; a smaller value would warn of heavy tails.
OUTLYING = 1000.0


class _Outlier(NamedTuple):
    """The most outlying value of a column."""

    row: int
    column: int
    low: float
    """The column's 10 % quantile."""
    high: float
    """The column's 90 % quantile."""
    n_others: int
    """How many more values of the column are outliers."""


def warn_of_outliers(
    X: Array,
    y: Array | None,
    names: Sequence[str] | None = None,
    target: str | None = None,
    place: Callable[[int], str] = "Row {}".format,
) -> None:
    """Warn of the most outlying row of every input and target that has values further out than `OUTLYING`.

    Parameters
    ----------
    X : array of shape (n, d)
    y : array of shape (n, q), or None
        None if nothing is to be said of targets.
    names : sequence of str, optional
        The names of the inputs.
    target : str, optional
        The name of the target, if there is one target.
    place : callable, optional
        The name of a row at the beginning of a sentence, by its index.
    """
    for what, values in (("X", X), *([] if y is None else [("y", y)])):
        effect = "Predictions near it are uncertain." if what == "X" else "Predictions of other rows suffer from it."
        for row, column, low, high, n_others in _outliers(values):
            name = f"{what}[:, {column}]" if what == "X" or values.shape[1] > 1 else what
            if what == "X" and names is not None:
                name = repr(str(names[column]))
            elif what == "y" and target is not None:
                name = repr(target)
            warn(
                f"{place(row)} has {name} = {values[row, column]:.6g}, while 80 % of the rows are between {low:.6g} "
                f"and {high:.6g}{f'; {n_others} more rows are as far' if n_others else ''}. {effect} "
                f"Drop the row if it is a mistake.",
                OutlierWarning,
            )


def _outliers(values: Array) -> Iterator[_Outlier]:
    """The most outlying value of each column of an (n, d) array that has any."""
    low, middle, high = np.quantile(values[:: -(-len(values) // SAMPLE)], [0.1, 0.5, 0.9], axis=0)
    for column in np.flatnonzero(high > low):
        with np.errstate(over="ignore"):
            distance = np.abs(values[:, column] - middle[column]) / (high[column] - low[column])
        row = int(np.argmax(distance))
        if distance[row] > OUTLYING:
            n_others = int(np.count_nonzero(distance > OUTLYING)) - 1
            yield _Outlier(row, int(column), float(low[column]), float(high[column]), n_others)
