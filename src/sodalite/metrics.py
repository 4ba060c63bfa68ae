"""How good predictions are: errors, and how honest the error bars are.

Functions take arrays. Those that speak of a mean and a standard deviation are about Gaussian predictions; the others
take what `sodalite.GreedyGPRegressor` says of its own, learnt, distribution: `log_density`, `pit`, `predict_interval`,
`predict_quantiles`. The functions that begin with ``neg_`` are scorers, for the argument ``scoring`` of
`sklearn.model_selection.cross_validate` and `~sklearn.model_selection.GridSearchCV`: larger is better.
"""

from __future__ import annotations

from math import log, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from .core.types import Floats
from .core.validation import check_levels

N_LEVELS = 200  # quantiles that `neg_crps` integrates over: its error is some 1e-4 of the score


def rmse(y: Floats, mean: Floats) -> float:
    """The root mean square error of predicted means, in the units of y: smaller is better."""
    return float(np.sqrt(np.mean(np.square(y - mean))))


def nlpd(y: Floats, mean: Floats, std: Floats) -> float:
    """The mean negative log predictive density of Gaussian predictions: smaller is better.

    Examples
    --------
    >>> round(nlpd(np.zeros(3), np.zeros(3), np.ones(3)), 4)
    0.9189
    """
    return float(np.mean(0.5 * np.square((y - mean) / std) + np.log(std))) + 0.5 * log(2 * pi)


def crps(y: Floats, mean: Floats, std: Floats) -> float:
    """The mean continuous ranked probability score of Gaussian predictions, in units of y: smaller is better.

    With z = (y - mean) / std it is std (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)). Of a prediction without error
    bars, it is the absolute error.

    Examples
    --------
    >>> round(crps(np.zeros(3), np.zeros(3), np.ones(3)), 4)
    0.2337
    """
    z = (y - mean) / std
    density = np.exp(-0.5 * np.square(z)) / sqrt(2 * pi)
    return float(np.mean(std * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / sqrt(pi))))


def quantile_crps(y: Floats, quantiles: Floats, levels: ArrayLike) -> float:
    """The mean continuous ranked probability score of quantiles, in units of y: smaller is better.

    It is twice the pinball loss, (y - quantile) (level - [y < quantile]), averaged over the levels. With many levels
    that are evenly spaced, it approaches the score of the distribution.

    Parameters
    ----------
    y : array of shape (n,) or (n, q)
    quantiles : array of shape (n, levels) or (n, q, levels)
        As `GreedyGPRegressor.predict_quantiles` returns them.
    levels : array-like of shape (levels,)
    """
    levels = check_levels("levels", levels)
    _check_shapes((*np.shape(y), len(levels)), quantiles=quantiles)
    error = np.asarray(y)[..., None] - quantiles
    return float(2 * np.mean(error * (levels - (error < 0))))


def coverage(y: Floats, mean: Floats, std: Floats, level: float = 0.95) -> float:
    """The share of the targets within the central interval of Gaussian predictions: best if it is the level.

    Examples
    --------
    >>> coverage(np.array([0.0, 1.0, 2.0, 3.0]), np.zeros(4), np.ones(4))
    0.5
    """
    (level,) = check_levels("level", level)
    return float(np.mean(np.abs(y - mean) <= ndtri(0.5 + level / 2) * std))


def interval_coverage(y: Floats, lower: Floats, upper: Floats) -> float:
    """The share of the targets within their intervals: best if it is the coverage that was asked for."""
    _check_shapes(np.shape(y), lower=lower, upper=upper)
    return float(np.mean((y >= lower) & (y <= upper)))


def interval_score(y: Floats, lower: Floats, upper: Floats, coverage: float = 0.95) -> float:
    """The mean interval score, in units of y: smaller is better.

    It is the width of the interval, and 2 / (1 - coverage) times the distance of targets that are outside of it.

    Examples
    --------
    >>> interval_score(np.array([0.5, 1.5]), np.zeros(2), np.ones(2), coverage=0.5)
    2.0
    """
    (coverage,) = check_levels("coverage", coverage)
    _check_shapes(np.shape(y), lower=lower, upper=upper)
    beyond = np.maximum(lower - y, 0) + np.maximum(y - upper, 0)
    return float(np.mean(upper - lower + 2 / (1 - coverage) * beyond))


def pit(y: Floats, mean: Floats, std: Floats) -> Floats:
    """The cumulative probabilities of targets under Gaussian predictions, uniform on [0, 1] if these are honest.

    PIT stands for probability integral transform. `GreedyGPRegressor.pit` has those of the learnt distribution.
    """
    return np.asarray(ndtr((np.asarray(y) - mean) / std))


# Scorers


def neg_nlpd(estimator: Any, X: Any, y: Any) -> float:
    """The mean log predictive density of targets: a scorer.

    Parameters
    ----------
    estimator : GreedyGPRegressor
        Or a scikit-learn pipeline that ends in one, or a search among them, such as `GridSearchCV`.
    X, y : array-like
        Of several targets, the log densities of a row are added.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from sodalite import GreedyGPRegressor
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> scores = cross_val_score(GreedyGPRegressor(), X, np.sin(X[:, 0]), scoring=neg_nlpd, cv=3)
    >>> scores.shape
    (3,)
    """
    model, X = _last_step(estimator, X, "log_density")
    return float(np.mean(model.log_density(X, y)))


def neg_crps(estimator: Any, X: Any, y: Any) -> float:
    """Minus the mean continuous ranked probability score of targets: a scorer, used as `neg_nlpd`."""
    model, X = _last_step(estimator, X, "predict_quantiles")
    levels = (np.arange(N_LEVELS) + 0.5) / N_LEVELS
    quantiles = np.asarray(model.predict_quantiles(X, levels))
    return -quantile_crps(np.reshape(y, quantiles.shape[:-1]), quantiles, levels)


def neg_interval_score(estimator: Any, X: Any, y: Any) -> float:
    """Minus the mean score of 95 % intervals: a scorer, used as `neg_nlpd`."""
    model, X = _last_step(estimator, X, "predict_interval")
    lower, upper = (np.asarray(end) for end in model.predict_interval(X))
    return -interval_score(np.reshape(y, lower.shape), lower, upper)


def _last_step(estimator: Any, X: Any, method: str) -> tuple[Any, Any]:
    """The model within searches and pipelines, and the rows as it gets them; of a model alone, both as they are."""
    while not hasattr(estimator, method):
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif hasattr(estimator, "steps"):
            X = estimator[:-1].transform(X) if len(estimator) > 1 else X
            estimator = estimator[-1]
        else:
            raise TypeError(
                f"{type(estimator).__name__} has no method {method}: score a GreedyGPRegressor, or a pipeline or a "
                "search that ends in one."
            )
    return estimator, X


def _check_shapes(shape: tuple[int, ...], **arrays: Any) -> None:
    """Refuse arrays of another shape by name: NumPy would combine all rows with all others."""
    for name, array in arrays.items():
        if np.shape(array) != shape:
            raise ValueError(f"{name} must have the shape {shape}, to go with y; its shape is {np.shape(array)}.")
