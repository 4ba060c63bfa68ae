"""Baselines, simple models that a fit should beat: a constant, a straight line, the mean of the nearest rows.

They are described in docs/method.rst, `baselines`. A sample of the rows is predicted, each from all others, by the
model and by the baselines, and their root mean square errors are compared.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ..core.threads import one_blas_thread
from ..core.types import Floats, Indices
from ..kernels import robust_spread
from ..selection.rows import Rows

COUNTS = (1, 2, 3, 5, 8, 13, 21, 34)  # numbers of neighbours that are tried; the best one is reported
MOST_JUDGED = 1000  # rows that are predicted; with many inputs, finding the neighbours of one costs O(n)
MOST_ROWS = 50_000  # rows that the baselines are fitted to; of more rows, a random sample
MOST_NUMBERS = 2**19  # numbers, 4 MB, of the rows that the baselines are fitted to: with many inputs, fewer rows
CERTAIN = 1e-9  # distance of a leverage from 1 below which a line goes through the row whatever its target
MOST_ALONE = 20  # most rows of leverage 1 that a line is fitted without: each takes as long as a fit to all rows
# A model is called no better than a baseline if its RMSE is at least this share of the baseline's. Neighbours have a
# larger share: their number is chosen by the rows that are predicted, which makes them look a little too good.
NO_BETTER = {"constant": 0.99, "line": 0.99, "neighbours": 1.02}
EXACT = 1e-3  # share of the RMSE of a constant below which predictions are next to exact
AS_GOOD = 1.02  # ratio of two RMSEs up to which the simpler baseline is named: chance makes as much
FEWEST = 20  # predicted rows below which there is no warning: the ratio of two RMSEs is too uncertain


class NoBetterWarning(UserWarning):
    """A model predicts rows that it has not seen no better than a baseline does."""


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
    """Least squares, linear in every input."""
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
        errors = {name: self._of(name) for name, share in NO_BETTER.items() if self.model >= share * self._of(name)}
        return next((name for name in errors if errors[name] <= AS_GOOD * min(errors.values())), None)

    def _of(self, name: str) -> float:
        """The root mean square error of a baseline."""
        return float(getattr(self, name))

    def words(self, mean: str | None = None) -> str | None:
        """A warning that the model is no better than a baseline; None if it is better, or few rows were predicted.

        `mean` is the name of the model's mean function, which the advice leaves out; None for a constant.
        """
        name = self.better
        if name is None or self.n_rows < FEWEST:
            return None
        names = {
            "constant": "a constant",
            "line": "a straight line",
            "neighbours": f"the mean of the {self.k} nearest rows" if self.k > 1 else "the nearest row",
        }
        other = self._of(name)
        return (
            f"{'No' if self.model >= other else 'Hardly'} better than {names[name]}: RMSE {self.model:.4g} against "
            f"{other:.4g} for {self.n_rows} rows, each predicted from the others. {self._remedy(name, mean)}"
        )

    def _remedy(self, name: str, mean: str | None) -> str:
        """What can be tried where a model is no better than a baseline."""
        if name == "neighbours" and self.neighbours <= EXACT * self.constant:
            return "Rows are repeated, which makes error bars too small: leave out the copies."
        if name == "constant":
            return "The inputs say little about the target, or a few outlying targets hide it: try others."
        if mean is not None:
            return "Try inputs that say more, or another kernel."
        if name == "line":
            return 'Try a linear mean (mean="linear", --mean linear), or inputs that say more.'
        return 'Try a mean of trees (mean="trees", --mean trees), or another kernel.'

    def beside(self) -> str:
        """The four errors in one sentence."""
        near = f"the {self.k} nearest rows" if self.k > 1 else "the nearest row"
        parts = [(near, self.neighbours), ("a straight line", self.line), ("a constant", self.constant)]
        others = ", ".join(f"{name} {value:.4g}" for name, value in parts if np.isfinite(value))
        return f"RMSE {self.model:.4g} for {self.n_rows:,} rows, each predicted from the others; {others}."

    def as_dict(self) -> dict[str, Any]:
        """The fields and `better`, for JSON."""
        return {**asdict(self), "no_better_than": self.better}


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
    A, target = some.X.astype(np.float64), some.y
    places = np.searchsorted(known, judged)
    with one_blas_thread():
        scaled = (A - np.median(A, axis=0)) / robust_spread(A)
        neighbours, k = _nearest(scaled, target, places)
        constant, line = _constant(target, places), _line(scaled, target, places)
    return Baselines(len(judged), unit * rmse, unit * constant, unit * line, unit * neighbours, k)


def _root_mean_square(error: Floats) -> float:
    """The root mean square of some errors; NaN if there are none."""
    return float(np.sqrt(np.mean(np.square(error)))) if error.size else float("nan")


def _constant(y: Floats, places: Indices) -> float:
    """The error of the mean of the other rows: n / (n - 1) times the deviation from the mean of all."""
    n = len(y)
    return _root_mean_square((y[places] - y.mean(axis=0)) * n / (n - 1)) if n > 1 else float("nan")


def _line(X: Floats, y: Floats, places: Indices) -> float:
    """The error of least squares without the row: e / (1 - h), with e its residual and h its leverage.

    A row with a leverage of 1, such as the only one of a level, has no residual; a line is fitted without it.
    """
    design = np.column_stack([np.ones(len(X)), X])
    if len(design) <= design.shape[1]:
        return float("inf")
    inverse = np.linalg.pinv(design.T @ design, hermitian=True)
    error = y[places] - design[places] @ (inverse @ (design.T @ y))
    leverage = np.einsum("ij,jk,ik->i", design[places], inverse, design[places])
    error /= np.maximum(1 - leverage, CERTAIN)[:, None]
    for at in np.flatnonzero(leverage > 1 - CERTAIN)[:MOST_ALONE].tolist():
        error[at] = _error_without(X, y, int(places[at]))
    return _root_mean_square(error)


def _error_without(X: Floats, y: Floats, row: int) -> Floats:
    """The error of the shortest line of least squares through all other rows at one row, of shape (q,)."""
    others = np.arange(len(X)) != row
    centre, level = X[others].mean(axis=0), y[others].mean(axis=0)
    weights = np.linalg.lstsq(X[others] - centre, y[others] - level, rcond=None)[0]
    return np.asarray(y[row] - level - (X[row] - centre) @ weights)


def _nearest(X: Floats, y: Floats, places: Indices) -> tuple[float, int]:
    """The smallest error over several numbers of neighbours, and that number."""
    counts = [count for count in COUNTS if count < len(X)]
    if not counts:
        return float("nan"), 0
    _, found = cKDTree(X, balanced_tree=False).query(X[places], k=[*range(1, max(counts) + 2)])
    own = found == places[:, None]
    own[~own.any(axis=1), -1] = True  # not found among many equal rows: then the last found is one too many
    others = found[~own].reshape(len(places), -1)
    means = np.cumsum(y[others], axis=1) / np.arange(1, others.shape[1] + 1)[:, None]
    errors = {count: _root_mean_square(y[places] - means[:, count - 1]) for count in counts}
    best = min(errors, key=errors.__getitem__)
    return errors[best], best
