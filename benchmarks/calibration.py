"""Whether intervals hold what they promise at every level, with the defaults, on the real sets; worst first.

For every set, on its first split: RMSE and NLPD of Gaussian intervals and of those that the fit has learnt, and what
learning and using the distribution adds to the time of a fit and of predictions. The shares of the test rows in
intervals of 50, 80, 95 and 99 % are those of as many splits as it takes to test `ENOUGH` rows, at most `MOST_SPLITS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import numpy as np

from sodalite import GreedyGPRegressor
from sodalite.metrics import nlpd, rmse
from sodalite.posteriors.calibration import COVERAGES, Scale, shares_inside

from .common import load, run_sets, seconds

SETS = (
    *("pumadyn32nm", "elevators", "bike_noleak", "pol", "protein", "keggdirected", "kin40k", "precip_global"),
    *("jacksboro_dem", "us_elevation", "chm", "airfoil", "concrete", "mauna_loa_weekly"),
)
ENOUGH = 5000  # test rows from which on the standard error of a share is 0.7 points or less
MOST_SPLITS = 10  # there are so many standard ones
N_TIMED = 2000  # test rows whose predictions are timed ...
N_TURNS = 25  # ... so many times, with intervals and with standard deviations in turn


@dataclass(frozen=True)
class Result:
    """What was measured on one set."""

    name: str
    rows: int
    tested: int
    """Test rows of all splits."""
    rmse: float
    gaussian: float
    """NLPD with the standard deviations that the fit has found, and Gaussian errors."""
    learnt: float
    """NLPD with the distribution that it has learnt."""
    shares: tuple[float, ...]
    """Of the test rows of all splits in intervals of `COVERAGES`."""
    fit_seconds: float
    learning: float
    """Share of the fit's time that learning the distribution takes."""
    predicting: float
    """Time of `predict_interval` beside that of `predict(return_std=True)`, less 1."""

    @property
    def off(self) -> float:
        """The largest difference between a share and what it should be."""
        return max(abs(share - level) for share, level in zip(self.shares, COVERAGES, strict=True))


class TimedScale:
    """Takes the time that all calls of `Scale.learn` take together, while it is in use."""

    def __enter__(self) -> TimedScale:
        self.seconds, self.learn = 0.0, Scale.learn

        def timed(*arguments, **options):
            begin = perf_counter()
            found = self.learn(*arguments, **options)
            self.seconds += perf_counter() - begin
            return found

        Scale.learn = timed
        return self

    def __exit__(self, *error: object) -> None:
        Scale.learn = self.learn


def measure(name: str) -> Result | None:
    data = load(name)
    if data is None:
        return None
    X, y, X_test, y_test = data
    with TimedScale() as timed:
        begin = perf_counter()
        model = GreedyGPRegressor(random_state=0).fit(X, y)
        took = perf_counter() - begin
    mean, std = model.predict(X_test, return_std=True)
    some = X_test[:N_TIMED]
    with_std, with_interval = _in_turn(
        lambda: model.predict(some, return_std=True), lambda: model.predict_interval(some)
    )
    pits = [model.pit(X_test, y_test)]
    for split in range(1, MOST_SPLITS):
        if sum(map(len, pits)) >= ENOUGH:
            break
        pits.append(_pit(name, split))
    return Result(
        name,
        len(X),
        sum(map(len, pits)),
        rmse(y_test, mean),
        nlpd(y_test, mean, std),
        -float(model.log_density(X_test, y_test).mean()),
        shares_inside(np.concatenate(pits)),
        took,
        timed.seconds / took,
        with_interval / with_std - 1,
    )


def _pit(name: str, split: int) -> np.ndarray:
    """Cumulative probabilities of the test rows of another split; of shape (rows,)."""
    X, y, X_test, y_test = load(name, split)
    return GreedyGPRegressor(random_state=0).fit(X, y).pit(X_test, y_test)


def _in_turn(first: Callable[[], object], second: Callable[[], object]) -> tuple[float, float]:
    """The median seconds that two functions take, called in turn: what else the machine does slows down both."""
    taken = [(seconds(first, repeats=1), seconds(second, repeats=1)) for _ in range(N_TURNS)]
    return median(one for one, _ in taken), median(other for _, other in taken)


def table(results: Sequence[Result]) -> list[str]:
    """The results as lines, the worst at the top."""
    head = (
        f"{'set':16} {'rows':>7} {'tested':>7}   {'RMSE':>6}  {'NLPD: Gaussian':>15} {'learnt':>7}   "
        f"{'in 50 %':>7} {'80 %':>6} {'95 %':>6} {'99 %':>6}   {'off by':>6}   time: {'fit':>6} {'predict':>8}"
    )
    lines = [head]
    for result in sorted(results, key=lambda result: -result.off):
        shares = " ".join(f"{share:6.3f}" for share in result.shares)
        lines.append(
            f"{result.name:16} {result.rows:>7} {result.tested:>7}   {result.rmse:6.4f}  {result.gaussian:15.3f} "
            f"{result.learnt:7.3f}    {shares}   {result.off:6.3f}         {result.learning:+6.1%} "
            f"{result.predicting:+8.1%}"
        )
    return lines


def main(arguments: Sequence[str] = ()) -> None:
    run_sets("calibration", __doc__, SETS, Result, measure, table, arguments)
