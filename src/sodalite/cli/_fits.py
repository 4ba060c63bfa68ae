"""The fits of `sodalite fit`: one without the rows held out, which these judge, and one of all rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ..core.types import Floats, Indices
from ..estimator import GreedyGPRegressor
from ..exceptions import NoBetterWarning, OutlierWarning
from ..fitting.clock import CHOICE, CONDITION, MEAN, MOST_RESERVED, SEARCH, Clock, Costs
from ..fitting.gross import Kept
from ..fitting.pipeline import Settings
from ..fitting.progress import duration
from ..metrics import rmse
from ..posteriors.baselines import SimpleModels
from ..posteriors.predictive import Distribution, Predictive
from ..report.inputs import Input
from ..report.judgement import Judgement, Scores
from ..report.summary import nearest_words
from ..tables import ParquetRows, Taken, Training

AFTER = 0.5  # expected cost of judging, importance and writing, as a share of that of conditioning
AFTER_LEAST = 0.3  # least expected cost of judging, importance and writing, in seconds
WORTH_TWO = 0.85  # share of the expected time of two fits, from which on time is kept for the second
SAFETY = 1.2  # the second fit is expected to take so many times as long as the same steps of the first took
KEPT = 0.1  # share of the time limit that is kept for importance and writing
ALLOWED = 1.2  # times the limit: beyond this, it is said that the limit was too short
MEASURING = "Measuring which inputs matter"  # the step after the fits
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


@dataclass(frozen=True)
class FittedRows:
    """A model, and the rows of the table that it was fitted to."""

    model: GreedyGPRegressor
    """With its preprocessing."""
    rows: Indices
    X: Any
    """All rows of the table, as the model takes them; of shape (n, d)."""

    @property
    def gross(self) -> Indices:
        """The rows of the table with gross errors, which the fit has named."""
        errors = self.model.gross_errors_
        return self.rows[[] if errors is None else errors.rows]


@dataclass(frozen=True)
class Work:
    """The rows of a table, and the time to fit them in."""

    training: Training
    split: Split
    seed: int
    alpha: float | None
    """As `fit` takes it: None for noise of their own for rows with gross errors."""
    costs: Costs
    """What the first fit is expected to cost."""
    clock: Clock
    """The clock of the command."""

    @classmethod
    def of(
        cls, model: GreedyGPRegressor, training: Training, split: Split, seed: int, keep_outliers: bool, clock: Clock
    ) -> Work:
        """The work of fitting a model, and what it will cost."""
        settings = Settings.of(model.get_params(deep=False))
        alpha = 0.0 if keep_outliers and not isinstance(training.X, ParquetRows) else None
        return cls(training, split, seed, alpha, settings.costs(len(split.rest), training.X.shape[1]), clock)

    @property
    def growth(self) -> float:
        """How many times as many rows the second fit has."""
        return len(self.training.y) / len(self.split.rest)

    @property
    def is_on_disk(self) -> bool:
        """Whether rows are read when they are asked for."""
        return isinstance(self.training.X, ParquetRows)

    def fit(
        self,
        model: GreedyGPRegressor,
        rows: Indices,
        hidden: Indices,
        limit: Callable[[], float | None],
        checkpoint: str | None = None,
    ) -> FittedRows:
        """Fit a model to some rows, of which the summary, and warnings in the table's words, say what a fit warns of.

        Inputs have nothing in them that the targets of rows that are `hidden` have told. If the fit finds gross errors
        in others, which spoil mean targets of levels, the model is fitted again without these. `limit` returns the time
        limit of a fit.
        """
        X, mapping = self.training.without(hidden, self.seed)
        model.set_params(time_limit=limit())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoBetterWarning)
            if not self.is_on_disk:
                warnings.simplefilter("ignore", OutlierWarning)
            some = X if len(rows) == len(X) else Taken(X, rows) if self.is_on_disk else X[rows]
            y = self.training.y[rows]
            model.fit(some, y, alpha=self.alpha, callback=self.clock, checkpoint=checkpoint)
        model.preprocessing_ = mapping
        fitted = FittedRows(model, rows, X)
        if not self.training.codings or not len(np.setdiff1d(fitted.gross, hidden)):
            return fitted
        return self.fit(model, rows, np.union1d(hidden, fitted.gross), limit)


def fit_most(model: GreedyGPRegressor, work: Work, again: bool, checkpoint: str | None = None) -> FittedRows:
    """Fit the rows that are not held out. `again` is whether a fit of all rows is to follow, which needs time too."""
    clock, costs = work.clock, work.costs
    second = ((CHOICE, costs.choice), (CONDITION, costs.condition)) if again else ()
    clock.expect([*costs.steps(), *second, (MEASURING, after_fits(costs))])
    limit = partial(limit_of_first, clock, costs, again)
    return work.fit(model, work.split.rest, work.split.test, limit, checkpoint)


def fit_all(first: FittedRows, work: Work) -> FittedRows:
    """Fit all rows, with the kernel and the kind of mean function of the first fit."""
    clock, growth, model, mean = work.clock, work.growth, first.model, first.model.mean_
    steps = [(step, growth * clock.took.get(step, 0.0)) for step in (CHOICE, CONDITION)]
    clock.expect([*steps, (MEASURING, clock.slowness * after_fits(work.costs))])
    method = "fixed" if model.hyperparameters == "fixed" else Kept(mean.alone)
    refitted: GreedyGPRegressor = clone(model).set_params(
        kernel=model.kernel_,
        mean=None if mean.is_constant else mean.name,
        target=model.target_.name,
        hyperparameters=method,
    )
    fitted = work.fit(refitted, np.arange(len(work.training.y)), first.gross, partial(limit_of_second, clock))
    asked = ("kernel", "mean", "target", "hyperparameters")
    refitted.set_params(**{name: getattr(model, name) for name in asked})
    again = replace(refitted.mean_, alone=mean.alone, trials=mean.trials)
    refitted.fitted_ = replace(refitted.fitted_, rounds=model.fitted_.rounds, mean_function=again)
    return fitted


def judge(
    first: FittedRows, predictive: Distribution, work: Work, gross: Indices, matters: Input | None
) -> tuple[Judgement, tuple[Scores, ...]]:
    """How good the first model and simple ones are on the rows held out, but for those with gross errors.

    `predictive` is what the model predicts of them, `gross` the rows of the table with gross errors, and `matters` the
    input that rows are grouped by.
    """
    fair = np.flatnonzero(~np.isin(work.split.test, gross))
    fair = fair if len(fair) else np.arange(len(work.split.test))
    test, generator = work.split.test[fair], np.random.default_rng(work.seed)
    X, y = first.X[test], work.training.y[test]
    judgement = Judgement.of_rows("held out", X, y, predictive.take(fair), first.model.fitted_, generator, matters)
    return judgement, tuple(simple_scores(first, work, np.setdiff1d(work.split.rest, gross), X, y))


def simple_scores(first: FittedRows, work: Work, rest: Indices, X: Floats, y: Floats) -> Iterator[Scores]:
    """The nearest of some rows of the table, a straight line and a constant, on rows X that were held out."""
    rest = rest[:: -(-len(rest) // MOST_ROWS)] if work.is_on_disk else rest
    targets, baselines = work.training.y[rest][:, None], first.model.baselines_
    simple = SimpleModels(np.asarray(first.X[rest], dtype=np.float64), targets)
    k = min(DEFAULT_K if baselines is None else max(baselines.k, 1), len(rest))
    yield Scores(model=nearest_words(k), rmse=rmse(y[:, None], simple.nearest(X, k)))
    constant = np.broadcast_to(simple.constant, (len(y), 1))
    for name, mean, std in (("linear", simple.line(X), simple.noise[0]), ("constant", constant, targets.std())):
        width = np.full(mean.shape, max(float(std), np.finfo(np.float64).tiny))
        yield Scores.of(name, y, Predictive.gaussian(mean, width))


# --- the time limit of the command, shared out ---


def after_fits(costs: Costs) -> float:
    """The expected cost, in seconds, of what follows the fits."""
    return AFTER_LEAST + AFTER * costs.condition


def limit_of_first(clock: Clock, costs: Costs, again: bool) -> float | None:
    """Seconds for the first fit. `again` is whether a second one, of all rows, is to follow; None for any time."""
    if clock.limit is None:
        return None
    fit, after, second = costs.search + costs.choice + costs.condition, after_fits(costs), 0.0
    if again and clock.remaining >= WORTH_TWO * (fit + after + costs.choice + costs.condition):
        second = costs.choice + costs.condition
    return clock.remaining * fit / (fit + after + second)


def has_time_to_condition(clock: Clock, growth: float) -> bool:
    """Whether a second fit, of so many times as many rows, can be conditioned in the time that is left."""
    return clock.limit is None or SAFETY * growth * clock.took[CONDITION] < clock.remaining - KEPT * clock.limit


def limit_of_second(clock: Clock) -> float | None:
    """Seconds for the second fit; None for any time."""
    if clock.limit is None:
        return None
    # The fit expects conditioning to take as long as on a usual machine: what it took here beyond that is kept too.
    slower = (1 - MOST_RESERVED) * clock.took[CONDITION]
    return max(clock.remaining - KEPT * clock.limit - slower, 0.0)


def excess_words(clock: Clock) -> str:
    """What to say of a limit that was exceeded; empty if it was not."""
    if clock.limit is None or clock.elapsed <= ALLOWED * clock.limit:
        return ""
    took = {step: seconds for step, seconds in clock.took.items() if step in (MEAN, SEARCH, CHOICE, CONDITION)}
    longest = max(took, key=lambda step: took[step], default="")
    cause = f": {longest.lower()} alone took {duration(took[longest])}" if longest else ""
    return f"exceeded: {duration(clock.elapsed)} instead of {duration(clock.limit)}{cause}"
