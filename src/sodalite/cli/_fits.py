"""The fits of `sodalite fit`: one without the rows held out, which these judge, and one of all rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ..core.types import Floats
from ..core.validation import OutlierWarning
from ..core.warn import warn
from ..estimator import GreedyGPRegressor
from ..fitting.clock import CHOICE, CONDITION, MEAN, MOST_RESERVED, SEARCH, Clock, Costs
from ..fitting.pipeline import Settings
from ..fitting.progress import duration
from ..posteriors.baselines import NoBetterWarning
from ..posteriors.predictive import Predictive
from ..report.held_out import by_input, judge_held_out
from ..report.judgement import Judgement
from ..report.rows import inputs_of
from ..report.summary import HeldOut, no_better_advice
from ..tables import Preprocessing, Taken, Training
from ._judged import Split, judge_by_test_rows, reads_training_from_disk

AFTER = 0.5  # expected cost of judging, importance and writing, as a share of that of conditioning
AFTER_LEAST = 0.3  # least expected cost of judging, importance and writing, in seconds
WORTH_TWO = 0.85  # share of the expected time of two fits, from which on time is kept for the second
SAFETY = 1.2  # the second fit is expected to take so many times as long as the same steps of the first took
KEPT = 0.1  # share of the time limit that is kept for importance and writing
ALLOWED = 1.2  # times the limit: beyond this, it is said that the limit was too short
MEASURING = "Measuring which inputs matter"  # the step after the fits


@dataclass(frozen=True)
class Work:
    """The rows of a table, and the time to fit them in."""

    training: Training
    split: Split
    X: Any
    """All rows, with nothing in them that the targets of those held out have told; of shape (n, d)."""
    mapping: Preprocessing
    """How columns become inputs for a model that has not seen the rows held out."""
    costs: Costs
    """What the first fit is expected to cost."""
    clock: Clock
    """The clock of the command."""

    @classmethod
    def of(cls, model: GreedyGPRegressor, training: Training, split: Split, seed: int, clock: Clock) -> Work:
        """The work of fitting a model, and what it will cost."""
        X, mapping = training.without(split.test, seed)
        settings = Settings.of({**model.get_params(deep=False), "checkpoint": None})
        return cls(training, split, X, mapping, settings.costs(len(split.rest), X.shape[1]), clock)

    @property
    def growth(self) -> float:
        """How many times as many rows the second fit has."""
        return len(self.training.y) / len(self.split.rest)

    @property
    def is_on_disk(self) -> bool:
        """Whether rows are read when they are asked for."""
        return reads_training_from_disk(self.training)


@dataclass(frozen=True)
class Judged:
    """How good the first model is, by the rows held out; empty if there are none."""

    models: tuple[HeldOut, ...] = ()
    """The model and three that are simpler."""
    judgement: Judgement | None = None
    X: Floats | None = None
    y: Floats | None = None
    """The rows held out."""
    predicted: Predictive | None = None

    def by_input(self, model: GreedyGPRegressor, shares: Sequence[tuple[str, float]]) -> Judgement | None:
        """The judgement, rows grouped by the input that matters most, the first of some; None if there is none."""
        if self.judgement is None or not shares:
            return self.judgement
        assert self.X is not None
        assert self.y is not None
        assert self.predicted is not None
        return by_input(self.judgement, shares[0][0], inputs_of(model), self.X, self.y, self.predicted)


def fit_most(model: GreedyGPRegressor, work: Work, again: bool) -> None:
    """Fit the rows that are not held out. `again` is whether a fit of all rows is to follow, which needs time too."""
    clock, costs, rest = work.clock, work.costs, work.split.rest
    second = ((CHOICE, costs.choice), (CONDITION, costs.condition)) if again else ()
    clock.expect([*costs.steps(), *second, (MEASURING, after_fits(costs))])
    model.set_params(time_limit=limit_of_first(clock, costs, again))
    with warnings.catch_warnings():
        if not work.is_on_disk:
            warnings.simplefilter("ignore", OutlierWarning)  # it has been said, in the table's words
        if len(work.split.test):
            warnings.simplefilter("ignore", NoBetterWarning)  # the rows held out are to say so
        rows = Taken(work.X, rest) if work.is_on_disk else work.X[rest]
        alpha = None if work.is_on_disk else 0.0  # rows with gross errors are left out, or kept
        model.fit(rows, work.training.y[rest], alpha=alpha, callback=work.clock)


def judge(model: GreedyGPRegressor, work: Work, generator: np.random.Generator) -> Judged:
    """How good a model and simpler ones are, by the rows held out."""
    work.clock.say("Testing on the rows held out")
    held, told = work.X[work.split.test], work.training.y[work.split.test]
    predicted = model.fitted_.predictive(held)
    models = judge_by_test_rows(model, work.training, work.split, work.X, predicted)
    mean = "" if model.mean_.is_constant else model.mean_.name
    if words := no_better_advice(models, len(held), model.baselines_, mean):
        warn(words, NoBetterWarning)
    return Judged(models, judge_held_out(model, held, told, predicted, generator), held, told, predicted)


def fit_all(model: GreedyGPRegressor, work: Work) -> GreedyGPRegressor:
    """The model that is written: of all rows, with the kernel of the first one."""
    clock, growth = work.clock, work.growth
    steps = [(step, growth * clock.took.get(step, 0.0)) for step in (CHOICE, CONDITION)]
    clock.expect([*steps, (MEASURING, clock.slowness * after_fits(work.costs))])
    model.set_params(time_limit=limit_of_second(clock))
    return _refit(model, work.training, clock)


def _refit(model: GreedyGPRegressor, training: Training, clock: Clock) -> GreedyGPRegressor:
    """A model of all rows, with the kernel and the kind of mean function of one that was fitted to most of them."""
    mean = model.mean_
    chosen = None if mean.is_constant else mean.name if mean.share == 1 else model.mean
    found: GreedyGPRegressor = clone(model).set_params(
        kernel=model.kernel_, mean=chosen, hyperparameters="fixed", checkpoint=None
    )
    with warnings.catch_warnings():
        for said in (NoBetterWarning, OutlierWarning):  # of the first model, or of the table
            warnings.simplefilter("ignore", said)
        found.fit(training.X, training.y, callback=clock)
    found.set_params(kernel=model.kernel, mean=model.mean, hyperparameters=model.hyperparameters)
    again = replace(found.mean_, trials=mean.trials)
    found.fitted_ = replace(found.fitted_, rounds=model.fitted_.rounds, mean_function=again)
    return found


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
