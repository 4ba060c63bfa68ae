"""The fits of `sodalite fit`: one without the rows held out, which these judge, and one of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ._judged import judge_by_test_rows, reads_training_from_disk

if TYPE_CHECKING:
    import numpy as np

    from ..core.types import Floats
    from ..estimator import GreedyGPRegressor
    from ..fitting.budget import Costs
    from ..posteriors.predictive import Predictive
    from ..report.build import HeldOut
    from ..report.judgement import Judgement
    from ..stopping import Callback, Stage
    from ..tables import Preprocessing, Training
    from ._judged import Split
    from ._limit import Timetable
    from ._progress import Display


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
    time: Timetable
    shown: Display

    @classmethod
    def of(
        cls, model: GreedyGPRegressor, training: Training, split: Split, seed: int, time: Timetable, shown: Display
    ) -> Work:
        """The work of fitting a model, and what it will cost."""
        from ..fitting.pipeline import Settings

        X, mapping = training.without(split.test, seed)
        settings = Settings.of({**model.get_params(deep=False), "checkpoint": None})
        return cls(training, split, X, mapping, settings.costs(len(split.rest), X.shape[1]), time, shown)

    @property
    def growth(self) -> float:
        """How many times as many rows the second fit has."""
        return len(self.training.y) / len(self.split.rest)

    @property
    def is_on_disk(self) -> bool:
        """Whether rows are read when they are asked for."""
        return reads_training_from_disk(self.training)

    def follow(self, stage: Stage) -> None:
        """Note how long steps take, and show where a fit is: a callback of fits."""
        self.time.follow(stage)
        self.shown(stage)


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
        from ..report.held_out import by_input
        from ..report.rows import inputs_of

        if self.judgement is None or not shares:
            return self.judgement
        assert self.X is not None
        assert self.y is not None
        assert self.predicted is not None
        return by_input(self.judgement, shares[0][0], inputs_of(model), self.X, self.y, self.predicted)


def fit_most(model: GreedyGPRegressor, work: Work, again: bool) -> None:
    """Fit the rows that are not held out. `again` is whether a fit of all rows is to follow, which needs time too."""
    import warnings

    from ..core.validation import OutlierWarning
    from ..tables import Taken

    time, costs, rest = work.time, work.costs, work.split.rest
    work.shown.expect(time.later(costs, again) / sum(cost for _, cost in costs.steps()), time.left)
    model.set_params(time_limit=time.of_fit(costs, again))
    with warnings.catch_warnings():
        if not work.is_on_disk:
            warnings.simplefilter("ignore", OutlierWarning)  # it has been said, in the table's words
        rows = Taken(work.X, rest) if work.is_on_disk else work.X[rest]
        alpha = None if work.is_on_disk else 0.0  # rows with gross errors are left out, or kept
        model.fit(rows, work.training.y[rest], alpha=alpha, callback=work.follow)
    time.end_step()


def judge(model: GreedyGPRegressor, work: Work, generator: np.random.Generator) -> Judged:
    """How good a model and simpler ones are, by the rows held out."""
    from ..report.held_out import judge_held_out

    work.shown.step("Testing on the rows held out")
    held, told = work.X[work.split.test], work.training.y[work.split.test]
    predicted = model.fitted_.predictive(held)
    models = judge_by_test_rows(model, work.training, work.split, work.X, predicted)
    return Judged(models, judge_held_out(model, held, told, predicted, generator), held, told, predicted)


def fit_all(model: GreedyGPRegressor, work: Work) -> GreedyGPRegressor:
    """The model that is written: of all rows, with the kernel of the first one."""
    from ..fitting.budget import CHOICE, CONDITION

    time, costs = work.time, work.costs
    known = work.growth * time.of_steps(CHOICE, CONDITION)
    work.shown.expect(time.later(costs, False) / (costs.choice + costs.condition), time.left, known)
    model.set_params(time_limit=time.of_second_fit())
    found = _refit(model, work.training, work.follow)
    time.end_step()
    return found


def _refit(model: GreedyGPRegressor, training: Training, follow: Callback) -> GreedyGPRegressor:
    """A model of all rows, with the kernel and the kind of mean function of one that was fitted to most of them."""
    import warnings

    from sklearn.base import clone

    from ..core.validation import OutlierWarning
    from ..posteriors.baselines import NoBetterWarning

    mean = model.mean_
    chosen = None if mean.is_constant else mean.name if mean.share == 1 else model.mean
    found: GreedyGPRegressor = clone(model).set_params(
        kernel=model.kernel_, mean=chosen, hyperparameters="fixed", checkpoint=None
    )
    with warnings.catch_warnings():
        for said in (NoBetterWarning, OutlierWarning):  # of the first model, or of the table
            warnings.simplefilter("ignore", said)
        found.fit(training.X, training.y, callback=follow)
    found.set_params(kernel=model.kernel, mean=model.mean, hyperparameters=model.hyperparameters)
    again = replace(found.mean_, trials=mean.trials)
    found.fitted_ = replace(found.fitted_, rounds=model.fitted_.rounds, mean_function=again)
    return found
