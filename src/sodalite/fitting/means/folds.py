"""A mean function fitted on folds, so that the Gaussian process sees residuals as large as those of new rows.

The method is described in docs/method.rst, `mean-function`. The errors of a regressor on rows that it was fitted to are
too small, and a Gaussian process that learns from them is too sure of itself. So the rows are divided at random into
folds, and one regressor is fitted without each of them. The residual of a row is that of the regressor which has not
seen it. New rows are predicted by the mean of all regressors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from sklearn.base import clone

from ...core.threads import raise_if_broken_off
from ...core.types import Array, Floats
from ...core.validation import LARGEST

N_FOLDS = 5  # a regressor sees four fifths of the rows; more folds take longer, and change its error little
SEED = 0  # random seed of the folds: they are the same whenever a fit is repeated or continued
BLOCK = 2**22  # numbers of X that are predicted at a time, 32 MB


class Regressor(Protocol):
    """A regressor as scikit-learn has them."""

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to targets of shape (n,), or (n, q) if there are several."""
        ...

    def predict(self, X: Any) -> Any:
        """Predict targets of the same shape."""
        ...


@runtime_checkable
class StopsEarly(Regressor, Protocol):
    """A regressor that is fitted in rounds, until its error on rows that it is not fitted to no longer falls."""

    def fit_until(self, X: Floats, y: Floats, X_left: Floats, y_left: Floats) -> Self:
        """Fit to targets of shape (n, q), and watch the error on other rows."""
        ...


@runtime_checkable
class SeesAllRows(Regressor, Protocol):
    """A regressor of few parameters, which is fitted to all rows and says by how much its residuals are too small."""

    def fit_all(self, X: Floats, y: Floats) -> Floats:
        """Fit to targets of shape (n, q), and return the leverages h of the rows, of shape (n,).

        A row whose residual is e is e / (1 - h) off what the other rows predict.
        """
        ...


@dataclass(frozen=True)
class Trial:
    """A mean function, with a scale of the target, that a fit has tried on some of its rows."""

    name: str
    nlpd: float
    """Minus the mean log density of targets in units of y, each predicted without the rows of its fold."""
    rmse: float
    """In units of y."""


@dataclass(frozen=True)
class MeanFunction:
    """The mean function of a model: zero, or the mean of some regressors' predictions, on the target's scale.

    The mean of the targets is no part of it: `sodalite.selection.rows.Scaling` has it.
    """

    name: str = "constant"
    """"constant", "linear", "trees" or the name of the regressor's class."""
    models: tuple[Regressor, ...] = field(default=(), repr=False)
    """Regressors, each of which has not seen one fold of the rows; none for a constant."""
    alone: bool = False
    """Whether it is all of the model: it predicts no worse than with a Gaussian process that learns what it leaves."""
    trials: tuple[Trial, ...] = ()
    """What was tried, the largest log density first, if this was chosen among several."""

    @property
    def is_constant(self) -> bool:
        """Whether nothing is predicted."""
        return not self.models

    def __call__(self, X: Array) -> Floats | float:
        """Predict new rows by the mean of all regressors, in units of y; of shape (n, q), or 0 for a constant."""
        if self.is_constant:
            return 0.0
        size = max(1, BLOCK // X.shape[1])
        parts = [self._predicted(X[begin : begin + size]) for begin in range(0, len(X), size)]
        return np.concatenate(parts)

    def _predicted(self, X: Array) -> Floats:
        total = sum(predicted(model, X) for model in self.models)
        return np.asarray(total / len(self.models))

    def __str__(self) -> str:
        return self.name


def fit_folds(regressor: Regressor, X: Floats, y: Floats) -> tuple[tuple[Regressor, ...], Floats]:
    """Fit a regressor without each of `N_FOLDS` folds of the rows.

    Parameters
    ----------
    regressor : Regressor
        Not fitted; copies of it are.
    X, y : arrays of shape (n, d) and (n, q)

    Returns
    -------
    models : tuple of Regressor
        One for every fold.
    left_out : array of shape (n, q)
        Every row's prediction by the regressor that has not seen it.
    """
    n, q = y.shape
    # Folds are drawn by rows, not by places: where rows repeat, new rows repeat too, and copies may know each other.
    fold = np.random.default_rng(SEED).permutation(n) % N_FOLDS
    models, left_out = [], np.empty((n, q))
    for number in range(N_FOLDS):
        raise_if_broken_off()
        here = fold == number
        model = clone(regressor)
        if isinstance(model, StopsEarly):
            model.fit_until(X[~here], y[~here], X[here], y[here])
        else:
            model.fit(X[~here], y[~here] if q > 1 else y[~here, 0])
        left_out[here] = predicted(model, X[here], q)
        models.append(model)
    if not (largest := float(np.abs(left_out).max())) <= LARGEST:
        raise ValueError(
            f"mean must predict numbers about as large as the targets; the {type(regressor).__name__} that was given "
            f"predicts {largest:.3g}, whose square is too large for floating-point numbers."
        )
    return tuple(models), left_out


def predicted(model: Regressor, X: Array, q: int | None = None) -> Floats:
    """Return the predictions of a regressor, of shape (n, q); an error says what is wrong with them.

    Without `q`, any number of targets will do.
    """
    given, name = np.asarray(model.predict(X)), type(model).__name__
    if given.dtype.kind not in "biufO":
        raise ValueError(f"mean must predict numbers; the {name} that was given predicts {given.dtype}.")
    found = given.astype(np.float64)
    if found.ndim == 1:
        found = found[:, None]
    if found.ndim != 2 or len(found) != len(X) or q not in (None, found.shape[1]):
        raise ValueError(
            f"mean must predict one number for each row and target, here an array of shape ({len(X)}, {q or 1}); the "
            f"{name} that was given predicts one of shape {given.shape}."
        )
    if not np.isfinite(found).all():
        raise ValueError(
            f"mean must predict finite numbers; the {name} that was given predicts "
            f"{found[~np.isfinite(found)][0]} for one of {len(X)} rows."
        )
    return found
