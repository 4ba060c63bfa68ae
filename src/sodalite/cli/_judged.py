"""Rows that `sodalite fit` holds out, and how good the model and simpler ones are by them."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ..core.types import Floats, Indices
    from ..estimator import GreedyGPRegressor
    from ..posteriors.calibration import ErrorBars
    from ..posteriors.predictive import Predictive
    from ..report.build import HeldOut
    from ..tables import Training

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
    import numpy as np

    if test_fraction is None:
        test_fraction = 0.1 if n >= FEWEST_SPLIT else 0.0
    n_test = min(round(test_fraction * n), n - 1, MOST_TESTED)
    order = np.random.default_rng(seed).permutation(n)
    return Split(np.sort(order[n_test:]), np.sort(order[:n_test]))


def reads_training_from_disk(training: Training) -> bool:
    """Whether the table is left on disk, and its rows are read when they are asked for."""
    from ..tables import ParquetRows

    return isinstance(training.X, ParquetRows)


def judge_by_test_rows(
    model: GreedyGPRegressor, training: Training, split: Split, X: Any, found: Predictive
) -> tuple[HeldOut, ...]:
    """The model, the nearest rows, a straight line and a constant, by the rows that were held out.

    X, of shape (n, d), has all rows, with nothing in it that the targets of those held out have told. `found` are the
    model's predictions of those held out.
    """
    import numpy as np

    from ..metrics import rmse
    from ..posteriors.baselines import SimpleModels
    from ..posteriors.calibration import shares_inside
    from ..posteriors.predictive import Predictive
    from ..report.build import HeldOut

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
        HeldOut(near_words(k), rmse(y[test][:, None], simple.nearest(held, k))),
        gaussian("linear", simple.line(held), float(simple.noise[0])),
        gaussian("constant", np.broadcast_to(simple.constant, (len(test), 1)), float(told.std())),
    )


def near_words(k: int) -> str:
    """The name of the mean of the k nearest rows."""
    return "nearest row" if k == 1 else f"{k} nearest rows"


def left_out(bars: ErrorBars | None, units: Sequence[float]) -> HeldOut | None:
    """The model by rows of its fit, each predicted from the others; None if that is not known.

    `units` are what one unit of each scaled target is, in units of the target.
    """
    from ..report.build import HeldOut

    if bars is None:
        return None
    # Densities are per unit of every target. Errors are scaled: with several targets, no unit is that of all of them.
    nlpd = None if bars.nlpd is None else bars.nlpd + sum(log(unit) for unit in units)
    rmse = bars.rmse * (units[0] if len(units) == 1 else 1.0)
    coverages = by_level(bars.shares)
    return HeldOut("sodalite", rmse, nlpd, coverages["0.95"], coverages)


def by_level(shares: Sequence[float]) -> dict[str, float]:
    """Shares of rows in the intervals of `COVERAGES`, by these probabilities."""
    from ..posteriors.calibration import COVERAGES

    return {f"{level:g}": share for level, share in zip(COVERAGES, shares, strict=True)}
