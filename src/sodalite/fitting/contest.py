"""A mean function chosen by evidence: models with different means, of which the best is kept.

The method is described in docs/method.rst, `mean-function`. Every model predicts the rows that the mean has not seen,
each from the others, by the distribution that it has learnt, and the one of the largest log density is kept.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from ..core.random import generator_from
from ..core.threads import keep_memory
from ..core.types import Indices
from ..core.warn import warn
from ..hyperparameters import Found
from ..posteriors import Evidence
from ..posteriors.calibration import nlpd_of
from ..selection.checkpoint import check_checkpoint
from ..selection.rows import Rows
from .clock import Clock
from .fitted import Fitted
from .means import SEED, MeanFunction, Trial
from .pipeline import NO_MEAN, Mean, Settings, check, condition, fit_around, fit_mean, fit_with_mean, scale, weighted

HALF = 0.5  # share of a mean that is tried: with one kernel, the average of the models with all of it and with none
MOST_JUDGES = 4000  # rows that judge a model with a constant: a standard error of some 0.01 nats a row
FEWEST = 50  # rows below which a constant is taken: five folds of fewer say little about trees
CLOSE = 0.01  # nats per row between log densities that may be chance: one standard error of 1500 rows is about that
WORTH = 0.99  # share of the RMSE of a constant, which predicts faster, that a mean of close density must be below


def fit(rows: Rows, target_shape: tuple[int, ...], settings: Settings, follow: Clock) -> Fitted:
    """Fit a model to the rows, and choose its mean function if the settings leave it open.

    Parameters are those of `sodalite.fitting.pipeline.fit_with_mean`.
    """
    keep_memory()
    if not settings.chooses_mean:
        return fit_with_mean(rows, target_shape, settings, follow)
    if rows.shape[0] < FEWEST:
        return fit_with_mean(rows, target_shape, replace(settings, mean=None), follow)
    return Contest(check(rows, settings, follow), target_shape, settings, follow).best()


@dataclass(frozen=True)
class Contest:
    """Models of the same rows with different mean functions."""

    rows: Rows
    target_shape: tuple[int, ...]
    settings: Settings
    follow: Clock

    def best(self) -> Fitted:
        """Return the model of the largest log density, of several close ones that of the smallest RMSE.

        What its fit has warned of is said again.
        """
        entries = sorted(self.entries(), key=lambda entry: entry.nlpd)
        trials = tuple(Trial(entry.mean.name, entry.mean.share, entry.nlpd) for entry in entries)
        close = [entry for entry in entries if entry.nlpd <= entries[0].nlpd + CLOSE]
        winner = min(close, key=lambda entry: WORTH * entry.rmse if entry.mean.is_constant else entry.rmse)
        for said in winner.warnings:
            warn(said.message, said.category)
        return replace(winner.model, mean_function=replace(winner.mean, trials=trials))

    def entries(self) -> Iterator[Entry]:
        """Yield models with a constant, with the mean, and with half of it; the first and the last share a kernel."""
        settings = self.settings
        if settings.time_limit is not None:  # three models share it, two of them with a search
            settings = replace(settings, time_limit=settings.time_limit / 3)
        mean = fit_mean(self.rows, settings, self.follow)
        constant = self.judged_by(mean.judges, self.entry(NO_MEAN, settings))
        yield constant
        yield self.entry(mean, _with_own_checkpoint(settings))
        half = replace(mean, function=replace(mean.function, share=HALF))
        yield self.entry(half, replace(settings, checkpoint=None, file=None), _found(constant.model))

    def judged_by(self, judges: Indices | None, entry: Entry) -> Entry:
        """Return a model with a constant, and how well it predicts some rows.

        Its error bars are learnt from any rows, which are more. Where its posterior cannot leave rows out, it is judged
        by a model whose error bars are learnt from `judges` alone.
        """
        model, settings = entry.model, self.settings
        if judges is None:
            return entry
        if (found := _left_out(model, judges)) is not None:
            return replace(entry, judged=found)
        rows, generator = scale(self.rows, NO_MEAN, settings), generator_from(settings.random_state)
        rows = replace(rows, scaled=weighted(rows.scaled, model.kernel, settings.weights))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what there is to say has been said of the entry
            again = condition(
                replace(rows, judges=judges), self.target_shape, _found(model), model.selection, settings, generator
            )
        return replace(entry, judged=_of_bars(again))

    def entry(self, mean: Mean, settings: Settings, found: Found | None = None) -> Entry:
        """Return a model with a given mean; warnings are kept, since they may concern a model that is not."""
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = fit_around(self.rows, mean, self.target_shape, settings, self.follow, found)
        return Entry(model, tuple(said), _of_bars(model))


@dataclass(frozen=True)
class Judged:
    """How well a model predicts rows, each from the others."""

    nlpd: float
    """Minus the mean log density in units of y; infinite if it is unknown."""
    rmse: float
    """In units of y; of several targets, times one number for all. Infinite if it is unknown."""

    @classmethod
    def of(cls, nlpd: float | None, rmse: float | None, model: Fitted) -> Judged:
        """From numbers in units of the scaled targets; None for unknown ones."""
        units = np.log(model.scaling.std)
        return cls(
            inf if nlpd is None else nlpd + float(units.sum()),
            inf if rmse is None else rmse * float(np.exp(units.mean())),
        )


@dataclass(frozen=True)
class Entry:
    """A model that competes, what its fit has warned of, and how well it predicts the rows that judge it."""

    model: Fitted
    warnings: tuple[warnings.WarningMessage, ...]
    judged: Judged

    @property
    def mean(self) -> MeanFunction:
        """The mean function of the model."""
        return self.model.mean_function

    @property
    def nlpd(self) -> float:
        """Minus the mean log density of the rows that judge."""
        return self.judged.nlpd

    @property
    def rmse(self) -> float:
        """The RMSE of the rows that judge."""
        return self.judged.rmse


def _of_bars(model: Fitted) -> Judged:
    """What a model has learnt of its own leave-one-out errors."""
    found = model.posterior.scale
    bars = None if found is None else found.bars
    return Judged.of(None, None, model) if bars is None else Judged.of(bars.nlpd, bars.rmse, model)


def _left_out(model: Fitted, judges: Indices) -> Judged | None:
    """How well a model predicts some of its rows, each left out of all that it has learnt; None if it cannot."""
    rows, selection, posterior = model.rows, model.selection, model.posterior
    if rows is None or posterior.scale is None:
        return None
    some = np.sort(np.random.default_rng(SEED).permutation(judges)[:MOST_JUDGES])
    left = Evidence(posterior.kernel, rows, selection).take(some)
    if (found := posterior.left_out(left)) is None:
        return None
    nlpd = nlpd_of(posterior.predictive_left_out(left, found), left.Y)
    return Judged.of(nlpd, float(np.sqrt(np.mean(np.square(left.Y - found.mean)))), model)


def _found(model: Fitted) -> Found:
    """The search that found the kernel of a model."""
    return Found(model.kernel, model.rounds, model.optimism)


def _with_own_checkpoint(settings: Settings) -> Settings:
    """The settings of the second search, which has a checkpoint of its own beside that of the first."""
    if settings.checkpoint is None:
        return settings
    path = f"{os.fspath(settings.checkpoint)}.mean"
    return replace(settings, checkpoint=path, file=check_checkpoint(path))
