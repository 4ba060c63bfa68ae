"""Simple ways to predict, that a model should be better than: a constant, a straight line, the nearest rows.

Each of some rows is predicted from all others, by the model and by these. So a fit knows when it has lost.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ..core.threads import one_blas_thread
from ..core.types import Array
from ..kernels import robust_spread

COUNTS = (1, 2, 3, 5, 8, 13, 21, 34)  # neighbours that are tried; the best number counts
MOST_JUDGED = 1000  # rows that neighbours are asked of; each costs O(n) where there are many inputs
MOST_ROWS = 50_000  # rows that the simple ways know; of more, a random sample, ...
MOST_NUMBERS = 2**19  # ... and at most so many numbers: 4 MB
NO_BETTER = {"constant": 0.99, "line": 0.99, "neighbours": 1.02}  # of a simple way's RMSE, from which on a model is
# called no better; the number of neighbours is chosen by the same rows, so they look a little better than they are
FEWEST = 20  # rows below which the comparison is too uncertain to warn


class NoBetterWarning(UserWarning):
    """A model predicts rows that it has not seen no better than a simple way does."""


@dataclass(frozen=True)
class Baselines:
    """The root mean square errors of a model and of simple ways, each row predicted from all others.

    In units of the target; of several targets, in standard deviations of each.
    """

    n_rows: int
    """Rows that were predicted."""
    model: float
    constant: float
    """The mean of the others."""
    line: float
    """Least squares, linear in every input."""
    neighbours: float
    """The mean of the `k` nearest others, the inputs scaled by their spread; the best of several k."""
    k: int

    @property
    def better(self) -> str | None:
        """The simplest way that the model is no better than; None if it beats them all."""
        if not np.isfinite(self.model) or self.constant == 0:
            return None
        return next((name for name, share in NO_BETTER.items() if self.model >= share * getattr(self, name)), None)

    def words(self) -> str | None:
        """Where the model is no better than a simple way: which, by what figures, and what to try; else None."""
        way = self.better
        if way is None or self.n_rows < FEWEST:
            return None
        names = {
            "constant": "a constant",
            "line": "a straight line",
            "neighbours": f"the mean of the {self.k} nearest rows" if self.k > 1 else "the nearest row",
        }
        remedies = {
            "constant": "The inputs say little about the target: try others.",
            "line": "The simpler model will do: try sklearn.linear_model.LinearRegression, or inputs that say more.",
            "neighbours": "Try a kernel of your own, or sklearn.neighbors.KNeighborsRegressor.",
        }
        other = getattr(self, way)
        return (
            f"No better than {names[way]}: RMSE {self.model:.4g} against {other:.4g} for {self.n_rows} rows, each "
            f"predicted from the others. {remedies[way]}"
        )

    def beside(self) -> str:
        """The figures in a sentence."""
        near = f"the {self.k} nearest rows" if self.k > 1 else "the nearest row"
        parts = [(near, self.neighbours), ("a straight line", self.line), ("a constant", self.constant)]
        others = ", ".join(f"{name} {value:.4g}" for name, value in parts if np.isfinite(value))
        return f"RMSE {self.model:.4g} for {self.n_rows:,} rows, each predicted from the others; {others}."

    def as_dict(self) -> dict[str, Any]:
        """What JSON can hold."""
        return {**asdict(self), "no_better_than": self.better}


def compare(X: Any, y: Any, judged: Array, rmse: float, unit: float, generator: np.random.Generator) -> Baselines:
    """How well simple ways predict some rows, each from all others, beside a model.

    Parameters
    ----------
    X : array of shape (n, d), or rows that are read when they are asked for
    y : array of shape (n, q)
        The scaled targets.
    judged : array of int
        The rows that the model was judged by.
    rmse : float
        The model's, of the scaled targets.
    unit : float
        What one unit of the scaled targets is.
    generator : numpy.random.Generator
        Draws the rows that the simple ways know, if there are many.
    """
    n = X.shape[0]
    judged = judged if len(judged) <= MOST_JUDGED else np.sort(generator.permutation(judged)[:MOST_JUDGED])
    known = np.arange(n)
    if n > (most := min(MOST_ROWS, MOST_NUMBERS // X.shape[1] + 1)):
        known = np.union1d(judged, generator.choice(n, most, replace=False))
    A, target = np.asarray(X[known], dtype=np.float64), np.asarray(y[known], dtype=np.float64)
    places = np.searchsorted(known, judged)
    with one_blas_thread():
        scaled = (A - np.median(A, axis=0)) / robust_spread(A)
        neighbours, k = _nearest(scaled, target, places)
        ways = _constant(target, places), _line(scaled, target, places), neighbours
    constant, line, neighbours = (unit * way for way in ways)
    return Baselines(len(judged), unit * rmse, constant, line, neighbours, k)


def _root(error: Array) -> float:
    return float(np.sqrt(np.mean(np.square(error)))) if error.size else float("nan")


def _constant(y: Array, places: Array) -> float:
    n = len(y)
    return _root((y[places] - y.mean(axis=0)) * n / (n - 1)) if n > 1 else float("nan")


def _line(X: Array, y: Array, places: Array) -> float:
    """Errors e / (1 - h), with h the leverage of a row."""
    design = np.column_stack([np.ones(len(X)), X])
    if len(design) <= design.shape[1]:
        return float("inf")
    inverse = np.linalg.pinv(design.T @ design, hermitian=True)
    error = y[places] - design[places] @ (inverse @ (design.T @ y))
    leverage = np.einsum("ij,jk,ik->i", design[places], inverse, design[places])
    return _root(error / np.maximum(1 - leverage, 1e-9)[:, None])


def _nearest(X: Array, y: Array, places: Array) -> tuple[float, int]:
    """The least error over several numbers of neighbours, and the number."""
    counts = [count for count in COUNTS if count < len(X)]
    if not counts:
        return float("nan"), 0
    _, found = cKDTree(X, balanced_tree=False).query(X[places], k=[*range(1, max(counts) + 2)])
    own = found == places[:, None]
    own[~own.any(axis=1), -1] = True  # among many equal rows: the last is one too many
    others = found[~own].reshape(len(places), -1)
    means = np.cumsum(y[others], axis=1) / np.arange(1, others.shape[1] + 1)[:, None]
    errors = {count: _root(y[places] - means[:, count - 1]) for count in counts}
    best = min(errors, key=errors.__getitem__)
    return errors[best], best
