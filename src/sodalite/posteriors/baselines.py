"""Baselines, simple models that a fit should beat: a constant, a straight line, the mean of the nearest rows.

They are described in docs/method.rst, `baselines`. A sample of the rows is predicted, each from all others, by the
model and by the baselines (`compared_with_simple_models`), and their root mean square errors are compared. Where rows
are held out, the baselines predict these (`SimpleModels`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.threads import one_blas_thread
from ..core.types import Floats, Indices
from ..kernels import robust_spread
from ..kernels.neighbours import Index
from ..selection.rows import Rows
from .line import fit_line

COUNTS = (1, 2, 3, 5, 8, 13, 21, 34)  # numbers of neighbours that are tried; the best one is reported
MOST_JUDGED = 1000  # rows that are predicted; with many inputs, finding the neighbours of one costs O(n)
MOST_ROWS = 50_000  # rows that the baselines are fitted to; of more rows, a random sample
MOST_NUMBERS = 2**19  # numbers, 4 MB, of the rows that the baselines are fitted to: with many inputs, fewer rows
# A model is called no better than a baseline if its RMSE is at least this share of the baseline's. Neighbours have a
# larger share: their number is chosen by the rows that are predicted, which makes them look a little too good.
NO_BETTER = {"constant": 0.99, "line": 0.99, "neighbours": 1.02}
EXACT = 1e-3  # share of the RMSE of a constant below which predictions are next to exact
AS_GOOD = 1.02  # ratio of two RMSEs up to which the simpler baseline is named: chance makes as much
FEWEST = 20  # predicted rows below which there is no warning: the ratio of two RMSEs is too uncertain


@dataclass(frozen=True)
class Baselines:
    """Root mean square errors of a model and of the baselines, each row predicted from all others.

    In units of the target; with several targets, in standard deviations of each.
    """

    n_rows: int
    """How many rows were predicted."""
    model: float
    constant: float
    """The mean of the other rows."""
    line: float
    """Ridge regression."""
    neighbours: float
    """The mean of the `k` nearest other rows, the inputs scaled by their spread; the best of several k."""
    k: int
    """How many neighbours that is."""

    @property
    def better(self) -> str | None:
        """A baseline that the model is no better than: the best, or the simplest of those that are as good.

        None if the model beats them all, or predicts next to exactly.
        """
        if not np.isfinite(self.model) or self.model <= EXACT * self.constant or self.constant == 0:
            return None
        seen = 1 - 1 / self.n_rows  # a model that is a constant has seen the rows that it is judged by
        errors = {
            name: self.of(name) for name, share in NO_BETTER.items() if self.model >= seen * share * self.of(name)
        }
        return next((name for name in errors if errors[name] <= AS_GOOD * min(errors.values())), None)

    def of(self, name: str) -> float:
        """The root mean square error of a baseline, by its name in `NO_BETTER`."""
        return float(getattr(self, name))


def compared_with_simple_models(
    rows: Rows, judged: Indices, rmse: float, unit: float, generator: np.random.Generator
) -> Baselines:
    """The errors of the baselines on some rows, each predicted from all others, beside those of a model.

    Parameters
    ----------
    rows : Rows
        With scaled targets.
    judged : array of int
        The rows that the model was judged by, in increasing order.
    rmse : float
        The root mean square error of the model, of the scaled targets.
    unit : float
        One unit of the scaled targets, in units of the target.
    generator : numpy.random.Generator
        Draws the rows that the baselines are fitted to, if there are many.
    """
    n, d = rows.shape
    judged = judged if len(judged) <= MOST_JUDGED else np.sort(generator.permutation(judged)[:MOST_JUDGED])
    known = np.arange(n)
    if n > (most := min(MOST_ROWS, MOST_NUMBERS // d + 1)):
        known = np.union1d(judged, generator.choice(n, most, replace=False))
    some = rows.take(known)
    places = np.searchsorted(known, judged)
    with one_blas_thread():
        simple = SimpleModels(some.X.astype(np.float64), some.y)
        by_count = {k: _root_mean_square(error) for k, error in simple.nearest_left_out(places).items()}
        constant, line = simple.constant_left_out(places), simple.line_left_out(places)
    k = min(by_count, key=by_count.__getitem__, default=0)
    return Baselines(
        n_rows=len(judged),
        model=unit * rmse,
        constant=unit * _root_mean_square(constant),
        line=unit * _root_mean_square(line),
        neighbours=unit * by_count.get(k, float("nan")),
        k=k,
    )


def _root_mean_square(error: Floats) -> float:
    """The root mean square of some errors; NaN if there are none."""
    return float(np.sqrt(np.mean(np.square(error)))) if error.size else float("nan")


class SimpleModels:
    """A constant, a straight line by ridge regression, and the mean of the nearest rows.

    Parameters
    ----------
    X : array of shape (n, d)
        Rows to predict from. Distances are in units of the robust spread of each input.
    y : array of shape (n, q)
    """

    def __init__(self, X: Floats, y: Floats) -> None:
        self.X, self.y, self.constant = X, y, y.mean(axis=0)
        self._index = Index.of(X, np.median(X, axis=0), 1 / np.square(robust_spread(X)))
        self.line, leverage = fit_line(X, y)
        self._line_errors = (y - self.line(X)) / (1 - leverage)[:, None]

    def nearest(self, X: Floats, k: int) -> Floats:
        """The mean of the k nearest rows, of shape (rows, q)."""
        return np.asarray(self.y[self._index.query(X, k)].mean(axis=1))

    @property
    def noise(self) -> Floats:
        """The root mean square error of the straight line, each row left out, of shape (q,)."""
        return np.asarray(np.sqrt(np.square(self._line_errors).mean(axis=0)))

    def constant_left_out(self, rows: Indices) -> Floats:
        """The errors of the mean of the other rows: n / (n - 1) times the deviations from the mean of all."""
        n = len(self.y)
        return (self.y[rows] - self.constant) * n / (n - 1) if n > 1 else np.empty(0)

    def line_left_out(self, rows: Indices) -> Floats:
        """The errors of the line through the other rows, of shape (rows, q)."""
        return self._line_errors[rows]

    def nearest_left_out(self, rows: Indices) -> dict[int, Floats]:
        """The errors of the mean of the k nearest other rows, for every k in `COUNTS` that is less than n."""
        counts = [count for count in COUNTS if count < len(self.X)]
        if not counts:
            return {}
        near = self._index.query(self.X[rows], max(counts) + 1)
        own = near == rows[:, None]
        own[~own.any(axis=1), -1] = True  # not found among many equal rows: then the last is one too many
        others = near[~own].reshape(len(rows), -1)
        sums = np.cumsum(self.y[others], axis=1)
        return {k: self.y[rows] - sums[:, k - 1] / k for k in counts}
