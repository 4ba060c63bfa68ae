"""One fit, from rows to a model: check, scale, find the kernel, choose rows, condition.

It is the same for rows in memory, on disk and on a cluster: `sodalite.selection.source` is all that it asks of them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields, replace
from math import inf
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel

from ..core.random import generator_from
from ..core.validation import check_count, check_dtype, check_first, check_not_small
from ..hyperparameters import Fixed, Found, Method, Task, resolve_hyperparameters
from ..hyperparameters.record import found_before, method_note, note_of
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

SEARCH = 0.75  # share of a time limit after which the search for hyperparameters should end


@dataclass(frozen=True)
class Settings:
    """What a fit is asked for: the estimator's parameters, seen to make sense."""

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
    first: Any
    dtype: np.dtype[Any]
    n_jobs: int | None
    memory_limit: Any
    n_neighbors: int | None
    calibrate: bool
    random_state: Any
    checkpoint: Any
    file: File | None
    """What is in the checkpoint already."""

    @classmethod
    def of(cls, given: dict[str, Any]) -> Settings:
        """The settings of an estimator's parameters; an error names one that makes no sense, before any long work."""
        method, score = resolve_hyperparameters(given["hyperparameters"]), resolve_score(given["score"])
        posterior = resolve_posterior(given["posterior"])
        dtype, path = check_dtype(given["dtype"]), given["checkpoint"]
        check_count("n_neighbors", given["n_neighbors"])
        resolved = {"score": score, "posterior": posterior, "method": method, "dtype": dtype}
        same = {field.name: given[field.name] for field in fields(cls) if field.name in given}
        settings = cls(**{**same, **resolved, "file": None})
        settings.rule_after(0.0)
        if not isinstance(method, Fixed):
            check_bounds(settings.kernel)
        return replace(settings, file=None if path is None else check_checkpoint(path))

    def rule_after(self, seconds: float) -> Rule:
        """When to stop choosing rows, if it has taken so long to find the kernel's parameters."""
        limit = self.time_limit
        if limit is not None and seconds:
            limit = max(limit - seconds, (1 - SEARCH) * limit)
        return resolve_rule(self.n_active, self.tol, self.patience, self.target_rmse, limit, self.stop)


def fit(source: Source, target_shape: tuple[int, ...], settings: Settings, follow: Follower) -> Fitted:
    """Fit a model to the rows of a source.

    Parameters
    ----------
    source : Source
    target_shape : tuple of int
        () if y had one dimension, (q,) if it had two.
    settings : Settings
    follow : Follower
        Is told how the fit goes on.
    """
    generator = generator_from(settings.random_state)
    source = check(source, settings, follow)
    scaling, scaled = scale(source, settings)
    keeper = keep(source, settings, generator)
    found = find_kernel(scaled, settings, keeper, generator, follow)
    selection = choose_rows(scaled, scaling, found, settings, keeper, generator, follow)
    return condition(scaled, scaling, target_shape, found, selection, settings, generator)


def check(source: Source, settings: Settings, follow: Follower) -> Source:
    """The rows, seen to be fit for what is asked; in memory, if the posterior needs them all there."""
    n = len(source.X)
    m = min(settings.n_active, n)
    if settings.first is not None:
        check_first(settings.first, n, m)
    source.check_room(m, settings.dtype, settings.n_jobs, settings.memory_limit)
    return source.check(settings.posterior.needs_all_rows, settings.memory_limit, follow.say)


def scale(source: Source, settings: Settings) -> tuple[Scaling, Source]:
    """What the targets are centred and scaled by, and the rows with scaled targets."""
    q = source.y.shape[1]
    scaling = source.moments() if settings.normalize_y else Scaling(np.zeros(q), np.ones(q))
    return scaling, source.scaled(scaling)


def keep(source: Source, settings: Settings, generator: np.random.Generator) -> Checkpoint | None:
    """The checkpoint, if there is to be one, seen to be of this fit."""
    if settings.checkpoint is None:
        return None
    same = ("kernel", "first", "random_state", "normalize_y", "score")
    given = {name: getattr(settings, name) for name in same}
    given |= {
        "posterior": settings.posterior.name,
        "hyperparameters": method_note(settings.method),
        "dtype": str(settings.dtype),
    }
    return open_checkpoint(settings.checkpoint, settings.file, "fit", source, generator, **given)


def find_kernel(
    source: Source, settings: Settings, keeper: Checkpoint | None, generator: np.random.Generator, follow: Follower
) -> Found:
    """The kernel with its hyperparameters: those of the checkpoint, if they were found before."""
    given, method = settings.kernel, settings.method
    if given is not None and type(method) is Fixed:  # it needs no rows, as a subclass may
        task, kernels = None, [given]
        compile_kernel(given, source.X, settings.dtype)  # refuses what it cannot compile, before any long work
    else:
        task = _task(source, settings, generator)
        kernels = default_kernels(task.X, task.y) if given is None else [given]
        compile_kernel(kernels[0], task.X, settings.dtype)
    found = None if keeper is None else found_before(keeper, kernels)
    if found is None:
        if task is None:
            found = Found(clone(given))
        else:
            follow.say("Finding the kernel's parameters")
            found = method.find(task, kernels, generator)
        if keeper is not None:
            keeper.keep(found.kernel, note_of(found, kernels))
    # The default kernels' bounds are not the user's to change, and mean no more than "none" or "as good as flat".
    if task is not None and given is not None:
        warn_at_bounds(found.kernel, stacklevel=5)
    return found


def _task(source: Source, settings: Settings, generator: np.random.Generator) -> Task:
    """What the search for hyperparameters is given: a sample of the rows, and what the kernel is for."""
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
    keeper: Checkpoint | None,
    generator: np.random.Generator,
    follow: Follower,
    first: Any = None,
) -> Selection:
    """The active rows, with a kernel that is known. `first`: rows to begin with; those of the settings unless given."""
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
        keeper=keeper,
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
    """The model, conditioned on the rows that were chosen."""
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
        baselines=beside_simple_ways(evidence, posterior, scaling),
        rows=source if isinstance(source, Arrays) else None,
    )


def beside_simple_ways(evidence: Evidence, posterior: Posterior, scaling: Scaling) -> Baselines | None:
    """The model beside simple ones; warns where it is no better."""
    bars = None if posterior.scale is None else posterior.scale.bars
    if bars is None or bars.rmse is None:
        return None
    judged = evidence.judged(MOST_JUDGED)
    found = compare(evidence.X, evidence.y, judged, bars.rmse, scaling.unit, evidence.generator)
    if words := found.words():
        warnings.warn(words, NoBetterWarning, stacklevel=6)
    return found
