"""The steps of a fit: check, scale, find the kernel, choose rows, condition.

They are the same for rows in memory, on disk and on a cluster, since they ask of the rows only what
`sodalite.selection.source.Source` lists.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from math import inf
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel

from ..core.random import generator_from
from ..core.types import Indices
from ..core.validation import check_count, check_dtype, check_first, check_not_small
from ..hyperparameters import Found, Method, Task, resolve_hyperparameters, takes_kernel_as_given
from ..hyperparameters.record import found_before, note_of
from ..hyperparameters.weave import MOST_ROWS
from ..kernels import check_bounds, compile_kernel, default_kernels, warn_at_bounds
from ..posteriors import Evidence, Posterior, resolve_posterior
from ..posteriors.baselines import MOST_JUDGED, Baselines, NoBetterWarning, compare
from ..posteriors.floor import warn_of_floor
from ..scores import Score, resolve_score
from ..selection.checkpoint import Checkpoint, File, check_checkpoint, open_checkpoint
from ..selection.grow import grow
from ..selection.loop import Selection
from ..selection.progress import Follower
from ..selection.source import Arrays, Scaling, Source, in_memory, sample
from ..stopping import Rule, resolve_rule
from .fitted import Fitted

RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None

SEARCH = 0.75  # share of `time_limit` for the hyperparameters; the selection gets the rest, at least a quarter


@dataclass(frozen=True)
class Settings:
    """The parameters of a fit: the estimator's, checked, and names replaced by what they stand for."""

    kernel: Kernel | None
    n_active: int
    score: Score
    posterior: type[Posterior]
    method: Method
    tol: float | None
    patience: int
    target_rmse: float | None
    time_limit: float | None
    stop: Rule | None
    normalize_y: bool
    first: int | Sequence[int] | Indices | None
    dtype: np.dtype[Any]
    n_jobs: int | None
    memory_limit: int | float | str | None
    n_neighbors: int | None
    calibrate: bool
    random_state: RandomState
    checkpoint: str | os.PathLike[str] | None
    file: File | None
    """The content of the checkpoint's file, if it exists already."""

    @classmethod
    def of(cls, given: dict[str, Any]) -> Settings:
        """Return the settings of an estimator's parameters; an error names one that is wrong, before any long work."""
        method, score = resolve_hyperparameters(given["hyperparameters"]), resolve_score(given["score"])
        posterior = resolve_posterior(given["posterior"])
        dtype, path = check_dtype(given["dtype"]), given["checkpoint"]
        check_count("n_neighbors", given["n_neighbors"])
        resolved = {"score": score, "posterior": posterior, "method": method, "dtype": dtype}
        unchanged = {field.name: given[field.name] for field in fields(cls) if field.name in given}
        settings = cls(**{**unchanged, **resolved, "file": None})
        settings.rule_after(0.0)  # checks the parameters of the stopping rules
        if not takes_kernel_as_given(method):
            check_bounds(settings.kernel)
        return replace(settings, file=None if path is None else check_checkpoint(path))

    def rule_after(self, seconds: float) -> Rule:
        """Return the stopping rule of a selection that begins after a search for the kernel of so many seconds."""
        limit = self.time_limit
        if limit is not None and seconds:
            limit = max(limit - seconds, (1 - SEARCH) * limit)
        return resolve_rule(self.n_active, self.tol, self.patience, self.target_rmse, limit, self.stop)


def fit(source: Source, target_shape: tuple[int, ...], settings: Settings, follow: Follower) -> Fitted:
    """Fit a model to the rows of a source.

    Parameters
    ----------
    source : Source
        Targets are in units of y.
    target_shape : tuple of int
        () if y had one dimension, (q,) if it had two.
    settings : Settings
    follow : Follower
        Reports the progress of the fit.
    """
    generator = generator_from(settings.random_state)
    source = check(source, settings, follow)
    scaling, scaled = scale(source, settings)
    checkpoint = open_fit_checkpoint(source, settings, generator)
    found = find_kernel(scaled, settings, checkpoint, generator, follow)
    selection = choose_rows(scaled, scaling, found, settings, checkpoint, generator, follow)
    return condition(scaled, scaling, target_shape, found, selection, settings, generator)


def check(source: Source, settings: Settings, follow: Follower) -> Source:
    """Return the rows, checked against the settings; in memory, if the posterior needs all of them there."""
    n = len(source.X)
    m = min(settings.n_active, n)
    if settings.first is not None:
        check_first(settings.first, n, m)
    source.check_room(m, settings.dtype, settings.n_jobs, settings.memory_limit)
    return source.check(settings.posterior.needs_all_rows, settings.memory_limit, follow.say)


def scale(source: Source, settings: Settings) -> tuple[Scaling, Source]:
    """Return the targets' means and standard deviations (0 and 1 without `normalize_y`), and the scaled rows."""
    q = source.y.shape[1]
    scaling = source.moments() if settings.normalize_y else Scaling(np.zeros(q), np.ones(q))
    return scaling, source.scaled(scaling)


def open_fit_checkpoint(source: Source, settings: Settings, generator: np.random.Generator) -> Checkpoint | None:
    """Return the checkpoint of this fit, or None without one; a checkpoint of another fit is an error."""
    if settings.checkpoint is None:
        return None
    names = ("kernel", "first", "random_state", "normalize_y", "score")
    given = {name: getattr(settings, name) for name in names}
    given |= {"posterior": settings.posterior.name, "hyperparameters": settings.method, "dtype": str(settings.dtype)}
    return open_checkpoint(settings.checkpoint, settings.file, "fit", source, generator, **given)


def find_kernel(
    source: Source, settings: Settings, checkpoint: Checkpoint | None, generator: np.random.Generator, follow: Follower
) -> Found:
    """Return the kernel with its hyperparameters, from the checkpoint or from a search on a sample of the rows."""
    given, method = settings.kernel, settings.method
    if given is not None and takes_kernel_as_given(method):  # no sample: it would read rows and take random numbers
        compile_kernel(given, source.X, settings.dtype)  # refuses an unsuitable kernel, before any long work
        return _found(checkpoint, [given], lambda: Found(clone(given)))
    task = _task(source, settings, generator)
    kernels = default_kernels(task.X, task.y) if given is None else [given]
    compile_kernel(kernels[0], task.X, settings.dtype)

    def search() -> Found:
        follow.say("Finding the kernel's parameters")
        return method.find(task, kernels, generator)

    found = _found(checkpoint, kernels, search)
    # No warning about the bounds of default kernels: the user did not set them, and parameters may well reach them.
    if given is not None:
        warn_at_bounds(found.kernel, stacklevel=5)
    return found


def _found(checkpoint: Checkpoint | None, kernels: Sequence[Kernel], search: Callable[[], Found]) -> Found:
    """The result of a search among some kernels: from the checkpoint if it is there, else found and written to it."""
    if checkpoint is None:
        return search()
    found = found_before(checkpoint, kernels)
    if found is None:
        found = search()
        checkpoint.keep(found.kernel, note_of(found, kernels))
    return found


def _task(source: Source, settings: Settings, generator: np.random.Generator) -> Task:
    """The input of a search for hyperparameters: a sample of the rows, and what the kernel will be used for."""
    some = sample(source, MOST_ROWS, generator)
    check_not_small("X", np.abs(some.X).max(axis=0))
    seconds = inf if settings.time_limit is None else SEARCH * settings.time_limit
    posterior, score, m = settings.posterior, settings.score, settings.n_active
    return Task(some.X, some.y, some.alpha, posterior, score, m, seconds, forms=settings.kernel is None)


def choose_rows(
    source: Source,
    scaling: Scaling,
    found: Found,
    settings: Settings,
    checkpoint: Checkpoint | None,
    generator: np.random.Generator,
    follow: Follower,
    first: Indices | None = None,
) -> Selection:
    """Select the active rows, with the kernel that was found.

    Parameters
    ----------
    source : Source
        With scaled targets.
    scaling, found, settings, checkpoint, generator, follow : results of the steps before
    first : array of int, optional
        The rows to begin with; by default those of the settings.
    """
    return grow(
        source,
        compile_kernel(found.kernel, source.X, settings.dtype),
        n_active=settings.n_active,
        score=settings.score,
        rule=settings.rule_after(sum(part.seconds for part in found.rounds)),
        first=settings.first if first is None else first,
        generator=generator,
        callback=follow,
        n_jobs=settings.n_jobs,
        memory_limit=settings.memory_limit,
        unit=scaling.unit,
        keeper=checkpoint,
    )


def condition(
    source: Source,
    scaling: Scaling,
    target_shape: tuple[int, ...],
    found: Found,
    selection: Selection,
    settings: Settings,
    generator: np.random.Generator,
) -> Fitted:
    """Condition the posterior on the rows, and return the model. `source` has scaled targets."""
    if settings.posterior.needs_all_rows:
        source = in_memory(source)
    evidence = Evidence(
        compile_kernel(found.kernel, source.X),
        source,
        selection,
        settings.memory_limit,
        settings.n_neighbors,
        settings.calibrate,
        generator,
        optimism=found.optimism,
    ).of_model()
    warn_of_floor(evidence, scaling.unit)
    posterior = settings.posterior.condition(evidence)
    return Fitted(
        kernel=found.kernel,
        optimism=found.optimism,
        rounds=found.rounds,
        selection=selection,
        posterior=posterior,
        scaling=scaling,
        target_shape=target_shape,
        n_rows=len(source.X),
        X_active=source.X[selection.indices],
        y_active=source.y[selection.indices],
        baselines=compare_with_simple_models(evidence, posterior, scaling),
        rows=source if isinstance(source, Arrays) else None,
    )


def compare_with_simple_models(evidence: Evidence, posterior: Posterior, scaling: Scaling) -> Baselines | None:
    """Return the leave-one-out errors of the model and of simple ones, with a warning if the model is no better.

    None if the posterior computes no leave-one-out errors.
    """
    bars = None if posterior.scale is None else posterior.scale.bars
    if bars is None or bars.rmse is None:
        return None
    judged = evidence.judged(MOST_JUDGED)
    found = compare(evidence.X, evidence.y, judged, bars.rmse, scaling.unit, evidence.generator)
    if words := found.words():
        warnings.warn(words, NoBetterWarning, stacklevel=6)
    return found
