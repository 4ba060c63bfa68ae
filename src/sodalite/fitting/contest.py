"""A mean function chosen by evidence: models with different means, of which the best is kept.

The method is described in docs/method.rst, `mean-function`. Every model predicts the rows, each from the others, by the
distribution that it has learnt, and the one of the largest log density is kept.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from ..core.random import generator_from
from ..core.types import Floats
from ..core.warn import warn
from ..hyperparameters import Found
from ..posteriors.calibration import ErrorBars
from ..selection.checkpoint import check_checkpoint
from ..selection.progress import Follower
from ..selection.source import Source
from .fitted import Fitted
from .means import MeanFunction, Trial
from .pipeline import NO_MEAN, Mean, Settings, check, condition, fit_around, fit_mean, fit_with_mean, scale

HALF = 0.5  # share of a mean that is tried: with one kernel, the average of the models with all of it and with none
FEWEST = 50  # rows below which a constant is taken: five folds of fewer say little about trees
CLOSE = 0.01  # nats per row between log densities that may be chance: one standard error of 1500 rows is about that
WORTH = 0.99  # share of the RMSE of a constant, which predicts faster, that a mean of close density must be below


def fit(source: Source, target_shape: tuple[int, ...], settings: Settings, follow: Follower) -> Fitted:
    """Fit a model to the rows of a source, and choose its mean function if the settings leave it open.

    Parameters are those of `sodalite.fitting.pipeline.fit_with_mean`.
    """
    if not settings.chooses_mean:
        return fit_with_mean(source, target_shape, settings, follow)
    if len(source.X) < FEWEST:
        return fit_with_mean(source, target_shape, replace(settings, mean=None), follow)
    return Contest(check(source, settings, follow), target_shape, settings, follow).best()


@dataclass(frozen=True)
class Contest:
    """Models of the same rows with different mean functions."""

    source: Source
    target_shape: tuple[int, ...]
    settings: Settings
    follow: Follower

    def best(self) -> Fitted:
        """Return the model of the largest log density, of several close ones that of the smallest RMSE.

        What its fit has warned of is said again.
        """
        entries = sorted(self.entries(), key=lambda entry: entry.nlpd)
        trials = tuple(Trial(entry.mean.name, entry.mean.share, entry.nlpd) for entry in entries)
        close = [entry for entry in entries if entry.nlpd <= entries[0].nlpd + CLOSE]
        winner = min(close, key=lambda entry: WORTH * entry.rmse if entry.mean.is_constant else entry.rmse)
        if winner.mean.is_constant:
            winner = self.judged_by_all(winner)
        for said in winner.warnings:
            warn(said.message, said.category)
        return replace(winner.model, mean_function=replace(winner.mean, trials=trials))

    def judged_by_all(self, entry: Entry) -> Entry:
        """Return a model with a constant whose error bars are learnt from any rows, not from those set aside."""
        model, settings = entry.model, self.settings
        found, generator = _found(model), generator_from(settings.random_state)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what there is to say has been said of the entry
            rows = scale(self.source, NO_MEAN, settings)
            again = condition(rows, self.target_shape, found, model.selection, settings, generator)
        return Entry(again, entry.warnings)

    def entries(self) -> Iterator[Entry]:
        """Yield models with a constant, with the mean, and with half of it; the first and the last share a kernel."""
        settings = self.settings
        if settings.time_limit is not None:  # three models share it, two of them with a search
            settings = replace(settings, time_limit=settings.time_limit / 3)
        mean = fit_mean(self.source, settings, self.follow)
        constant = self.entry(replace(NO_MEAN, judges=mean.judges), settings)
        yield constant
        yield self.entry(mean, _with_own_checkpoint(settings))
        half = replace(mean, function=replace(mean.function, share=HALF))
        yield self.entry(half, replace(settings, checkpoint=None, file=None), _found(constant.model))

    def entry(self, mean: Mean, settings: Settings, found: Found | None = None) -> Entry:
        """Return a model with a given mean; warnings are kept, since they may concern a model that is not."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = fit_around(self.source, mean, self.target_shape, settings, self.follow, found)
        return Entry(model, tuple(said))


@dataclass(frozen=True)
class Entry:
    """A model that competes, and what its fit has warned of."""

    model: Fitted
    warnings: tuple[warnings.WarningMessage, ...]

    @property
    def mean(self) -> MeanFunction:
        """The mean function of the model."""
        return self.model.mean_function

    @property
    def nlpd(self) -> float:
        """Minus the mean log density in units of y, each row predicted from the others; infinite if it is unknown."""
        bars = self._bars
        return inf if bars is None or bars.nlpd is None else bars.nlpd + self._log_units.sum()

    @property
    def rmse(self) -> float:
        """The RMSE in units of y, each row predicted from the others; of several targets, times one number for all."""
        bars = self._bars
        return inf if bars is None or bars.rmse is None else bars.rmse * float(np.exp(self._log_units.mean()))

    @property
    def _bars(self) -> ErrorBars | None:
        scale = self.model.posterior.scale
        return None if scale is None else scale.bars

    @property
    def _log_units(self) -> Floats:
        return np.asarray(np.log(self.model.scaling.std))


def _found(model: Fitted) -> Found:
    """The search that found the kernel of a model."""
    return Found(model.kernel, model.rounds, model.optimism)


def _with_own_checkpoint(settings: Settings) -> Settings:
    """The settings of the second search, which has a checkpoint of its own beside that of the first."""
    if settings.checkpoint is None:
        return settings
    path = f"{os.fspath(settings.checkpoint)}.mean"
    return replace(settings, checkpoint=path, file=check_checkpoint(path))
