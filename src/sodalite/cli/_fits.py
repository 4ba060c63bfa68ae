"""The fits of `sodalite fit`: one without the rows held out, which these judge, and one of all rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ..core.types import Floats, Indices, Mask
from ..estimator import GreedyGPRegressor
from ..exceptions import NoBetterWarning, OutlierWarning
from ..fitting.clock import CHOICE, CONDITION, MEAN, MOST_RESERVED, SEARCH, Clock, Costs
from ..fitting.pipeline import Settings
from ..fitting.progress import duration
from ..metrics import rmse
from ..posteriors.baselines import SimpleModels
from ..posteriors.predictive import Predictive
from ..report.inputs import Input
from ..report.judgement import Judgement, Scores, by_region, is_inside, judge_held_out
from ..report.summary import nearest_words
from ..tables import ParquetRows, Preprocessing, Taken, Training

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
        settings = Settings.of(model.get_params(deep=False))
        return cls(training, split, X, mapping, settings.costs(len(split.rest), X.shape[1]), clock)

    @property
    def growth(self) -> float:
        """How many times as many rows the second fit has."""
        return len(self.training.y) / len(self.split.rest)

    @property
    def is_on_disk(self) -> bool:
        """Whether rows are read when they are asked for."""
        return isinstance(self.training.X, ParquetRows)


def fit_most(model: GreedyGPRegressor, work: Work, again: bool, checkpoint: str | None = None) -> None:
    """Fit the rows that are not held out. `again` is whether a fit of all rows is to follow, which needs time too."""
    clock, costs, rest = work.clock, work.costs, work.split.rest
    second = ((CHOICE, costs.choice), (CONDITION, costs.condition)) if again else ()
    clock.expect([*costs.steps(), *second, (MEASURING, after_fits(costs))])
    model.set_params(time_limit=limit_of_first(clock, costs, again))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoBetterWarning)  # the summary says so
        if not work.is_on_disk:
            warnings.simplefilter("ignore", OutlierWarning)  # it has been said, in the table's words
        rows = Taken(work.X, rest) if work.is_on_disk else work.X[rest]
        alpha = None if work.is_on_disk else 0.0  # rows with gross errors are left out, or kept
        model.fit(rows, work.training.y[rest], alpha=alpha, callback=work.clock, checkpoint=checkpoint)


@dataclass(frozen=True)
class HeldOut:
    """How good the first model is, and simpler ones, on the rows held out."""

    judgement: Judgement
    simple: tuple[Scores, ...]
    X: Floats
    mean: Floats
    """The predictions, of shape (rows,)."""
    inside: Mask
    """Which of the targets are in their 95 % intervals, of shape (rows,)."""

    def by(self, matters: Input) -> Judgement:
        """The judgement, rows grouped by an input."""
        return replace(self.judgement, regions=by_region(self.X, self.mean, self.inside, matters))


def judge(model: GreedyGPRegressor, work: Work, generator: np.random.Generator) -> HeldOut:
    """How good a model and simpler ones are on the rows held out."""
    work.clock.say("Testing on the rows held out")
    X, y = work.X[work.split.test], work.training.y[work.split.test]
    predictive = model.fitted_.predictive(X)
    inside = is_inside(predictive.cumulative(y[:, None])[:, 0])
    judgement = judge_held_out(model.fitted_, X, y, predictive, generator)
    return HeldOut(judgement, simple_scores(model, work, X, y), X, predictive.mean[:, 0], inside)


def simple_scores(model: GreedyGPRegressor, work: Work, X: Floats, y: Floats) -> tuple[Scores, ...]:
    """The nearest rows, a straight line and a constant, on rows X that were held out, with targets y."""
    rest = work.split.rest[:: -(-len(work.split.rest) // MOST_ROWS)] if work.is_on_disk else work.split.rest
    targets = work.training.y[rest][:, None]
    simple = SimpleModels(np.asarray(work.X[rest], dtype=np.float64), targets)
    k = min(max(model.baselines_.k, 1) if model.baselines_ is not None else DEFAULT_K, len(rest))

    def gaussian(name: str, mean: Floats, std: float) -> Scores:
        std = max(std, np.finfo(np.float64).tiny)
        return Scores.of(name, y, Predictive.gaussian(mean, np.full(mean.shape, std)))

    return (
        Scores(model=nearest_words(k), rmse=rmse(y[:, None], simple.nearest(X, k))),
        gaussian("linear", simple.line(X), float(simple.noise[0])),
        gaussian("constant", np.broadcast_to(simple.constant, (len(y), 1)), float(targets.std())),
    )


def fit_all(model: GreedyGPRegressor, work: Work) -> GreedyGPRegressor:
    """The model that is written: of all rows, with the kernel and the kind of mean function of the first one."""
    clock, growth, mean = work.clock, work.growth, model.mean_
    steps = [(step, growth * clock.took.get(step, 0.0)) for step in (CHOICE, CONDITION)]
    clock.expect([*steps, (MEASURING, clock.slowness * after_fits(work.costs))])
    refitted: GreedyGPRegressor = clone(model).set_params(
        kernel=model.kernel_,
        mean=None if mean.is_constant else mean.name,
        target=model.target_.name,
        hyperparameters="fixed",
        time_limit=limit_of_second(clock),
    )
    with warnings.catch_warnings():
        for known in (NoBetterWarning, OutlierWarning):  # the summary says so, or it has been said
            warnings.simplefilter("ignore", known)
        refitted.fit(work.training.X, work.training.y, callback=clock)
    given = ("kernel", "mean", "target", "hyperparameters")
    refitted.set_params(**{name: getattr(model, name) for name in given})
    again = replace(refitted.mean_, alone=mean.alone, trials=mean.trials)
    refitted.fitted_ = replace(refitted.fitted_, rounds=model.fitted_.rounds, mean_function=again)
    return refitted


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
