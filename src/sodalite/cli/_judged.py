"""Rows that `sodalite fit` holds out, and how good the model and simpler ones are by them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.types import Floats, Indices
from ..estimator import GreedyGPRegressor
from ..metrics import rmse
from ..posteriors.baselines import SimpleModels
from ..posteriors.calibration import shares_inside
from ..posteriors.predictive import Predictive
from ..report.summary import HeldOut, by_level, nearest_words
from ..tables import ParquetRows, Training

MOST_TESTED = 5000  # most rows that are held out: more would tell RMSE better than to 1 %, and take long to predict
FEWEST_SPLIT = 100  # rows below which none are held out: each is predicted from the others instead
MOST_ROWS = 100_000  # most rows that simple models see of a table on disk
DEFAULT_K = 5  # nearest rows that a prediction averages, where the fit has not found a better number


class Split(NamedTuple):
    """Rows of a table by their numbers, in order."""

    rest: Indices
    """Rows that the model is fitted to."""
    test: Indices
    """Rows that are held out."""


def hold_out(n: int, test_fraction: float | None, seed: int) -> Split:
    """Hold out a random share of n rows; None for a tenth, or none where they are few."""
    if test_fraction is None:
        test_fraction = 0.1 if n >= FEWEST_SPLIT else 0.0
    n_test = min(round(test_fraction * n), n - 1, MOST_TESTED)
    order = np.random.default_rng(seed).permutation(n)
    return Split(np.sort(order[n_test:]), np.sort(order[:n_test]))


def reads_training_from_disk(training: Training) -> bool:
    """Whether the table is left on disk, and its rows are read when they are asked for."""
    return isinstance(training.X, ParquetRows)


def judge_by_test_rows(
    model: GreedyGPRegressor, training: Training, split: Split, X: Any, found: Predictive
) -> tuple[HeldOut, ...]:
    """The model, the nearest rows, a straight line and a constant, by the rows that were held out.

    X, of shape (n, d), has all rows, with nothing in it that the targets of those held out have told. `found` are the
    model's predictions of those held out.
    """
    y, test = training.y, split.test
    rest = split.rest[:: -(-len(split.rest) // MOST_ROWS)] if reads_training_from_disk(training) else split.rest

    def score(name: str, found: Predictive) -> HeldOut:
        target = y[test][:, None]
        coverages = by_level(shares_inside(found.cumulative(target)))
        nlpd = -float(np.mean(found.log_density(target)))
        return HeldOut(name, rmse(target, found.mean), nlpd, coverages["0.95"], coverages)

    def gaussian(name: str, mean: Floats, std: float) -> HeldOut:
        std = max(std, np.finfo(np.float64).tiny)
        return score(name, Predictive.gaussian(mean, np.full(mean.shape, std)))

    known, held, told = X[rest], X[test], y[rest][:, None]
    simple = SimpleModels(np.asarray(known, dtype=np.float64), told)
    k = min(max(model.baselines_.k, 1) if model.baselines_ is not None else DEFAULT_K, len(rest))
    return (
        score("sodalite", found),
        HeldOut(nearest_words(k), rmse(y[test][:, None], simple.nearest(held, k))),
        gaussian("linear", simple.line(held), float(simple.noise[0])),
        gaussian("constant", np.broadcast_to(simple.constant, (len(test), 1)), float(told.std())),
    )
