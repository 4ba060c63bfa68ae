"""The steps of a fit: check, fit the mean, scale, find the kernel, choose rows, condition.

They are the same for rows in memory, on disk and on a cluster, since they ask of the rows only what
`sodalite.selection.rows.Rows` lists.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from math import inf
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel

from ..core.fingerprint import of_block
from ..core.random import generator_from
from ..core.types import Floats, Indices
from ..core.validation import check_not_small
from ..core.warn import warn
from ..criteria import CRITERIA, Criterion, resolve_criterion
from ..exceptions import NoBetterWarning
from ..hyperparameters import Found, Method, Task, resolve_hyperparameters, searches
from ..hyperparameters.holes import Holes
from ..hyperparameters.record import found_before, note_of
from ..hyperparameters.search import MOST_OPTIMISTIC
from ..hyperparameters.weave import MOST_ROWS
from ..kernels import (
    CompiledKernel,
    check_bounds,
    check_hyperparameters,
    compile_kernel,
    default_kernels,
    warn_at_bounds,
)
from ..kernels.row_store import RowStore
from ..posteriors import Evidence, Judging, Local, Posterior, resolve_posterior
from ..posteriors.baselines import MOST_JUDGED, Baselines, compared_with_simple_models
from ..posteriors.floor import warn_of_floor
from ..posteriors.shape import LeftTogether
from ..selection.checkpoint import Checkpoint, Record, check_checkpoint, open_checkpoint
from ..selection.grow import check_first, grow, take_all
from ..selection.loop import Selection
from ..selection.rows import (
    ArrayRows,
    Residuals,
    Rows,
    Scaling,
    Weighted,
    check_plan,
    compiled_for,
    moments,
    noise_alone,
    sample,
    targets,
)
from ..stopping import Rule, resolve_rule
from .advice import alone_words, no_better_words
from .clock import CONDITION, MEAN, SEARCH, Budget, Clock, Costs
from .fitted import Fitted
from .gross import GrossErrors, Kept, look_over, without_copies
from .means import (
    SEED,
    LinearMean,
    MeanFunction,
    Regressor,
    SeesAllRows,
    WithColumns,
    fit_folds,
    is_auto,
    is_named,
    name_of,
    predicted,
    resolve_mean,
)
from .room import check_fetched, checked_rows, placed
from .targets import AUTO, Target, check_target

RandomState: TypeAlias = int | np.random.RandomState | np.random.Generator | None

MOST_FOR_MEAN = 200_000  # rows that a mean function is fitted to, of more a random sample: boosted trees take a minute
LEAST_ASIDE, MOST_ASIDE = 0.1, 0.2  # shares of the rows that a mean function does not see; the larger for small tables
N_ASIDE = 400  # rows that a mean function does not see, within these shares: enough to learn a scale and its shape
FEWEST_FOR_MEAN = 10  # rows: eight in five folds, and two more
LOOK_SHARE = 0.05  # share of the time limit for each of two searches by which gross errors are found
FEWEST_JUDGES = 20  # rows set aside below which all rows judge a model


@dataclass(frozen=True)
class Settings:
    """The parameters of a fit: the estimator's, checked, and names replaced by what they stand for."""

    kernel: Kernel | None
    mean: Regressor | None
    """None for a constant."""
    chooses_mean: bool
    """Whether mean functions compete."""
    n_active: int
    criterion: Criterion
    posterior: type[Posterior]
    method: Method
    tol: float | None
    time_limit: float | None
    stop: Rule | None
    target: str | None
    """The scale of the targets; `sodalite.fitting.targets.AUTO` if it is to be chosen."""
    bounds: tuple[float, float]
    """Within which predictions stay; infinite where there are none."""
    memory_limit: int | float | str | None
    n_neighbors: int | None
    calibrate: bool
    random_state: RandomState
    checkpoint: str | os.PathLike[str] | None
    file: Record | None = None
    """The content of the checkpoint's file, if it exists already."""
    first: int | Sequence[int] | Indices | None = None
    """The rows to begin with; None for one that is drawn at random."""
    weights: Floats | None = None
    """The weights of the rows, of shape (n,); None if all are 1."""
    alone: bool = False
    """Whether the mean function is all of the model: the process has nothing to learn."""

    @classmethod
    def of(
        cls,
        parameters: dict[str, Any],
        first: int | Sequence[int] | Indices | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Settings:
        """Return the settings of an estimator's parameters; an error names one that is wrong, before any long work."""
        posterior, n_neighbors = resolve_posterior(parameters["posterior"])
        method = resolve_hyperparameters(parameters["hyperparameters"])
        resolved: dict[str, Any] = {
            "criterion": resolve_criterion(parameters["criterion"]),
            "posterior": posterior,
            "n_neighbors": n_neighbors,
            "method": method,
            "mean": resolve_mean(parameters["mean"]),
            "chooses_mean": is_auto(parameters["mean"]),
            "bounds": check_target(parameters["target"], parameters["bounds"]),
            "alone": isinstance(method, Kept) and method.alone,
            "first": first,
            "checkpoint": checkpoint,
        }
        unchanged = {field.name: parameters[field.name] for field in fields(cls) if field.name in parameters}
        settings = cls(**{**unchanged, **resolved})
        settings.rule(settings.time_limit)  # checks the parameters of the stopping rules
        check_hyperparameters(settings.kernel)
        if searches(method):
            check_bounds(settings.kernel)
        return replace(settings, file=None if checkpoint is None else check_checkpoint(checkpoint))

    def with_columns(self, names: Sequence[str] | None) -> Settings:
        """Return settings whose mean, if it is the user's own regressor, gets data frames with these columns."""
        if names is None or self.mean is None or is_named(self.mean):
            return self
        return replace(self, mean=WithColumns(self.mean, list(names)))

    def look_over(self, rows: ArrayRows) -> tuple[ArrayRows, GrossErrors | None]:
        """Return rows in memory, copies and rows with gross errors with noise of their own, and the gross errors.

        None if there are no such errors, or for a user's kernel.
        """
        is_kept = isinstance(self.method, Kept)
        if not searches(self.method) and not is_kept:
            return rows, None
        seconds = inf if self.time_limit is None else LOOK_SHARE * self.time_limit
        kernel = self.kernel if is_kept and self.target == "standardize" and self.mean is None else None
        rows = without_copies(rows)
        errors = look_over(rows, seconds, kernel)
        return rows if errors is None else replace(rows, alpha=errors.noise(len(rows.y))), errors

    @property
    def competes(self) -> bool:
        """Whether mean functions, scales of the target, or a line with and without a process compete."""
        is_open = self.chooses_mean or self.target == AUTO or isinstance(self.mean, LinearMean)
        is_known = self.mean is None or is_named(self.mean)
        return is_open and is_known and self.kernel is None and searches(self.method)

    def takes_all(self, n: int) -> bool:
        """Whether all n rows become active: no more than asked for, and nothing may refuse a row or stop earlier."""
        stops = (self.tol, self.time_limit, self.stop)
        return n <= self.n_active and stops == (None,) * len(stops) and self.criterion in CRITERIA.values()

    def rule(self, seconds: float | None) -> Rule:
        """Return the stopping rule of a selection that may take so many seconds; None for any time."""
        return resolve_rule(self.n_active, self.tol, seconds, self.stop)

    def costs(self, n: int, d: int) -> Costs:
        """Return what a fit of n rows with d inputs is expected to cost."""
        return Costs.of(
            n,
            d,
            self.n_active,
            predicts_locally=issubclass(self.posterior, Local),
            searches=searches(self.method),
            has_mean=self.mean is not None,
        )


@dataclass(frozen=True)
class Mean:
    """A mean function, and what it predicts for the rows that it was fitted to."""

    function: MeanFunction
    rows: Indices
    left_out: Floats
    """Predictions for `rows`, each by the regressor that has not seen it."""
    judges: Indices | None
    """Rows that no regressor has seen, by which models with this mean are judged; None if any rows will do."""
    optimism: float = 1.0
    """How many times as large the noise is as that of the residuals, if rows that the mean has seen judge the model."""

    def of(self, rows: Rows) -> Rows:
        """Return the rows with the residuals of the mean function as targets."""
        if self.function.is_constant:
            return rows
        return rows.with_targets(Residuals(self.function, self.rows, self.left_out))


NO_MEAN = Mean(MeanFunction(), np.empty(0, dtype=np.intp), np.empty((0, 1)), None)


@dataclass(frozen=True)
class Prepared:
    """The rows of a fit, before and after the steps that change their targets."""

    given: Rows
    """Targets are in units of y."""
    original: Rows
    """Targets are T(y)."""
    target: Target
    """The scale T(y)."""
    mean: MeanFunction
    scaling: Scaling
    """Of the residuals of the mean function."""
    scaled: Rows
    """Targets are scaled residuals."""
    judges: Indices | None = None
    """Rows that the mean function has not seen; None if any rows will do."""


def fit_with_mean(given: Rows, target_shape: tuple[int, ...], settings: Settings, follow: Clock) -> Fitted:
    """Fit a model to all rows.

    Parameters
    ----------
    given : Rows
        Checked. Targets are in units of y.
    target_shape : tuple of int
        () if y had one dimension, (q,) if it had two.
    settings : Settings
    follow : Clock
        Reports the progress of the fit.
    """
    budget = Budget(settings.time_limit, settings.costs(*given.shape))
    target = fit_target(given, settings)
    original = given if target.is_linear else given.with_targets(target)
    mean = fit_mean(original, settings, follow)
    generator = generator_from(settings.random_state)
    scaling, scaled = scale(original, mean, target, settings)
    function = replace(mean.function, alone=settings.alone)
    rows = Prepared(given, original, target, function, scaling, scaled, mean.judges)
    checkpoint = open_fit_checkpoint(rows, settings, generator)
    found = find_weighted_kernel(rows.scaled, settings, checkpoint, generator, follow, budget.for_search())
    rows = replace(rows, scaled=weighted(rows.scaled, found.kernel, settings.weights))
    found = replace(found, optimism=min(mean.optimism * found.optimism, MOST_OPTIMISTIC))
    check_fetched(rows.scaled, found.kernel, settings)
    searched = sum(part.seconds for part in found.rounds)
    rule = settings.rule(budget.for_choice(searched, follow.slowness))
    selection = choose_rows(rows, found, settings, checkpoint, generator, follow, rule=rule)
    follow.say(CONDITION)
    return condition(rows, target_shape, found, selection, settings, generator)


def check(rows: Rows, settings: Settings, follow: Clock) -> Rows:
    """Return the rows, checked against the settings, where the posterior can have them."""
    n, m = rows.shape[0], min(settings.n_active, rows.shape[0])
    if settings.first is not None:
        check_first(settings.first, n, m)
    check_plan(rows, m, settings.memory_limit)
    return checked_rows(rows, settings, follow)


def fit_mean(rows: Rows, settings: Settings, follow: Clock) -> Mean:
    """Fit the mean function on folds of the rows (docs/method.rst, `mean-function`).

    Some rows are set aside: to the mean they are as new as any row will be.
    """
    if settings.mean is None:
        return NO_MEAN
    n = rows.shape[0]
    if n < FEWEST_FOR_MEAN:
        raise ValueError(
            f"mean is fitted on folds of the rows, so it needs at least {FEWEST_FOR_MEAN} rows; got {n}. Use mean=None."
        )
    follow.say(MEAN)
    if isinstance(settings.mean, SeesAllRows):
        return _fit_all_rows(rows, settings.mean, settings.alone)
    n_aside = int(np.clip(N_ASIDE, LEAST_ASIDE * n, MOST_ASIDE * n))
    order = np.random.default_rng(SEED).permutation(n)
    which = _without_noise_alone(rows, np.sort(order[n_aside:][:MOST_FOR_MEAN]))
    if settings.weights is not None:
        which = which[settings.weights[which] > 0]
    aside, some = np.delete(np.arange(n), which), rows.take(which)
    models, left_out = fit_folds(settings.mean, some.X, some.y)
    judges = aside if len(aside) >= FEWEST_JUDGES else None
    return Mean(MeanFunction(name_of(settings.mean), models), which, left_out, judges)


def _fit_all_rows(rows: Rows, regressor: SeesAllRows, alone: bool) -> Mean:
    """Fit a regressor that needs no folds to all rows, or a sample.

    A process learns what the regressor leaves, of which the variance is 1 - h times that of the noise. Alone, it is
    judged by what the others predict of each row.
    """
    drawn = np.sort(np.random.default_rng(SEED).permutation(rows.shape[0])[:MOST_FOR_MEAN])
    which = _without_noise_alone(rows, drawn)
    some, model = rows.take(which), clone(regressor)
    rest = 1 - model.fit_all(some.X.astype(np.float64), some.y)[:, None]
    error = some.y - predicted(model, some.X, rows.q)
    left_out = some.y - error / (rest if alone else 1.0)
    squares = np.square(error)
    optimism = 1.0 if alone or not squares.any() else float(np.sum(squares / rest) / squares.sum())
    return Mean(MeanFunction(name_of(regressor), (model,)), which, left_out, None, optimism)


def _without_noise_alone(rows: Rows, which: Indices) -> Indices:
    """Some rows without those that count as noise, which would spoil a mean function."""
    return which[~noise_alone(rows)[which]] if rows.has_alpha else which


def fit_target(rows: Rows, settings: Settings) -> Target:
    """Return the scale of the targets, with parameters that suit all of them; an error if it does not suit them."""
    name = "standardize" if settings.target == AUTO else settings.target
    if (target := Target(name, *settings.bounds)).is_plain:
        return target
    y = targets(rows)[0]
    if not (target.low <= y.min() and y.max() <= target.high):
        raise ValueError(f"y has targets outside bounds={settings.bounds}: from {y.min():g} to {y.max():g}.")
    return Target.fit(name, y, settings.bounds)


def scale(rows: Rows, mean: Mean, target: Target, settings: Settings) -> tuple[Scaling, Rows]:
    """Subtract the mean function from the targets, then centre and scale them (not without a scale)."""
    rest, q = mean.of(rows), rows.q
    scaling = moments(rest, settings.weights) if target.is_standardized else Scaling(np.zeros(q), np.ones(q))
    if settings.alone and not mean.function.is_constant:  # the mean has the level of the targets
        scaling = replace(scaling, mean=np.zeros(q))
    return scaling, rest.with_targets(scaling)


def open_fit_checkpoint(rows: Prepared, settings: Settings, generator: np.random.Generator) -> Checkpoint | None:
    """Return the checkpoint of this fit, or None without one; a checkpoint of another fit is an error."""
    if settings.checkpoint is None:
        return None
    names = ("kernel", "first", "random_state", "criterion")
    given = {name: getattr(settings, name) for name in names}
    given |= {
        "target": rows.target.name,
        "posterior": settings.posterior.name,
        "hyperparameters": settings.method,
    }
    if not rows.mean.is_constant:
        given["mean"] = str(rows.mean)
    if settings.weights is not None:
        given["sample_weight"] = of_block(settings.weights, 0)
    data = rows.given if rows.mean.is_constant else rows.scaled
    return open_checkpoint(settings.checkpoint, settings.file, "fit", data, generator, **given)


def weighted(rows: Rows, kernel: Kernel, weights: Floats | None) -> Rows:
    """Return scaled rows whose noise, by alpha and by a kernel, is divided by their weights."""
    return rows if weights is None else rows.with_targets(Weighted(weights, compiled_for(rows, kernel)))


def find_weighted_kernel(
    rows: Rows,
    settings: Settings,
    checkpoint: Checkpoint | None,
    generator: np.random.Generator,
    follow: Clock,
    seconds: float,
) -> Found:
    """Return the kernel as `find_kernel` does; its noise is that of a row of weight 1.

    Weights divide a noise that is to be found. So a first search tells roughly how much noise there is, and with it how
    much more a row has than the row of the largest weight. The second search finds the noise of that row.
    """
    weights = settings.weights
    if weights is None or not searches(settings.method):
        return find_kernel(rows, settings, checkpoint, generator, follow, seconds)
    plain = rows.with_targets(Weighted(weights))
    first = find_kernel(plain, settings, None, generator, follow, seconds / 2)
    typical, largest = 1 / float(np.mean(1 / weights[weights > 0])), float(weights.max())
    more = Weighted(weights, compiled_for(rows, first.kernel), typical, typical / largest)
    if settings.kernel is not None:
        settings = replace(settings, kernel=_with_noise_times(settings.kernel, 1 / largest))
    found = find_kernel(rows.with_targets(more), settings, checkpoint, generator, follow, seconds / 2)
    return replace(found, kernel=_with_noise_times(found.kernel, largest))


def _with_noise_times(kernel: Kernel, factor: float) -> Kernel:
    """A kernel with its noise, and the bounds of that, times a factor."""
    changed = {
        name: value * factor if name.endswith("noise_level") else tuple(np.multiply(value, factor))
        for name, value in kernel.get_params().items()
        if name.endswith(("noise_level", "noise_level_bounds")) and not isinstance(value, str)
    }
    return clone(kernel).set_params(**changed)


def find_kernel(
    rows: Rows,
    settings: Settings,
    checkpoint: Checkpoint | None,
    generator: np.random.Generator,
    follow: Clock,
    seconds: float,
) -> Found:
    """Return the kernel with its hyperparameters, from the checkpoint or from a search on a sample of the rows.

    The search begins nothing new after so many seconds.
    """
    given, method = settings.kernel, settings.method
    if given is not None and not searches(method):  # no sample: it would read rows and take random numbers
        compiled_for(rows, given)  # refuses an unsuitable kernel, before any long work
        return _found(checkpoint, [given], lambda: Found(clone(given)))
    task = replace(_task(rows, settings, generator), seconds=seconds, report=partial(follow.say, SEARCH))
    kernels = default_kernels(task.X, task.y) if given is None else [given]
    compile_kernel(kernels[0], task.X)

    def search() -> Found:
        follow.say(SEARCH)
        return method.find(task, kernels, generator)

    found = _found(checkpoint, kernels, search)
    # No warning about the bounds of default kernels: the user did not set them, and parameters may well reach them.
    if given is not None:
        warn_at_bounds(found.kernel)
    return found


def _found(checkpoint: Checkpoint | None, kernels: Sequence[Kernel], search: Callable[[], Found]) -> Found:
    """The result of a search among some kernels: from the checkpoint if it is there, else found and written to it."""
    if checkpoint is None:
        return search()
    found = found_before(checkpoint, kernels)
    if found is None:
        found = search()
        checkpoint.record_kernel(found.kernel, note_of(found, kernels))
    return found


def _task(rows: Rows, settings: Settings, generator: np.random.Generator) -> Task:
    """The input of a search for hyperparameters: a sample of the rows, and what the kernel will be used for."""
    some = sample(rows, MOST_ROWS, generator)
    y = np.where(noise_alone(some)[:, None], 0.0, some.y)  # targets that say nothing must not tell how far others vary
    check_not_small("X", np.abs(some.X).max(axis=0))
    posterior, criterion, m = settings.posterior, settings.criterion, settings.n_active
    rest = None if some.shape == rows.shape else rows
    return Task(some.X, y, some.alpha, posterior, criterion, m, forms=settings.kernel is None, rows=rest)


def choose_rows(
    rows: Prepared,
    found: Found,
    settings: Settings,
    checkpoint: Checkpoint | None,
    generator: np.random.Generator,
    follow: Clock,
    first: Indices | None = None,
    rule: Rule | None = None,
) -> Selection:
    """Select the active rows, with the kernel that was found; all of them, if there are no more than `n_active`.

    Parameters
    ----------
    rows, found, settings, checkpoint, generator, follow : results of the steps before
    first : array of int, optional
        The rows to begin with; by default those of the settings.
    rule : Rule, optional
        When to stop; by default as the settings say.
    """
    kernel = compiled_for(rows.scaled, found.kernel)
    if settings.takes_all(rows.scaled.shape[0]):
        return take_all(rows.scaled, kernel)
    return grow(
        rows.scaled,
        kernel,
        n_active=settings.n_active,
        criterion=settings.criterion,
        rule=settings.rule(settings.time_limit) if rule is None else rule,
        first=settings.first if first is None else first,
        generator=generator,
        callback=follow,
        memory_limit=settings.memory_limit,
        unit=rows.scaling.unit,
        checkpoint=checkpoint,
    )


def condition(
    rows: Prepared,
    target_shape: tuple[int, ...],
    found: Found,
    selection: Selection,
    settings: Settings,
    generator: np.random.Generator,
    known: tuple[CompiledKernel, RowStore] | None = None,
) -> Fitted:
    """Condition the posterior on the rows, and return the model.

    `known` is the kernel, and the rows that are not active with their residuals, if these are laid out already.
    """
    kernel, store = (compiled_for(rows.scaled, found.kernel), None) if known is None else known
    (kind, scaled), scaling = placed(rows.scaled, kernel, settings), rows.scaling
    together = _left_out_together(kernel, scaled, selection, kind, settings)
    judging = Judging.of(scaled, settings.calibrate, found.optimism, _spread(rows), rows.judges, generator, together)
    evidence = Evidence(kernel, scaled, selection, settings.memory_limit, settings.n_neighbors, store, judging)
    warn_of_floor(evidence, scaling.unit)
    posterior = kind.condition(evidence)
    here, has_mean = isinstance(scaled, ArrayRows), not rows.mean.is_constant
    active, original = scaled.take(selection.indices), rows.original.take(selection.indices)
    model = Fitted(
        kernel=found.kernel,
        optimism=found.optimism,
        rounds=found.rounds,
        selection=selection,
        posterior=posterior,
        scaling=scaling,
        target_shape=target_shape,
        n_rows=scaled.shape[0],
        X_active=active.X,
        y_active=active.y,
        rows=scaled if isinstance(scaled, ArrayRows) else None,
        mean_function=rows.mean,
        target=rows.target,
        judges=rows.judges,
        targets_active=original.y if has_mean else None,
        targets=targets(rows.original)[0] if here and has_mean else None,
    )
    model = model.with_bars_in_units(evidence.judged(MOST_JUDGED))
    return replace(model, baselines=baselines_of(rows, evidence, model.posterior, settings, generator))


def _left_out_together(
    kernel: CompiledKernel, rows: Rows, selection: Selection, kind: type[Posterior], settings: Settings
) -> LeftTogether | None:
    """Rows that are left out together, which tell how error bars change away from the rows; None if they are not to."""
    if not settings.calibrate:
        return None
    generator = np.random.default_rng(SEED)  # the generator of the fit goes on as without this
    by_neighbours, refits = issubclass(kind, Local), searches(settings.method)
    return Holes(rows, selection.indices, generator, by_neighbours, refits).left_out(kernel.in_double())


def _spread(rows: Prepared) -> float:
    """The largest variance of a target before the mean function, in units of the scaled targets; 0 without one."""
    if rows.mean.is_constant:
        return 0.0
    return float(np.max(moments(rows.original).std / rows.scaling.std) ** 2)


def baselines_of(
    rows: Prepared, evidence: Evidence, posterior: Posterior, settings: Settings, generator: np.random.Generator
) -> Baselines | None:
    """Return the leave-one-out errors of the model and of simple ones, with a warning if the model is no better.

    None if the posterior computes no leave-one-out errors.
    """
    bars = None if posterior.scale is None else posterior.scale.bars
    if bars is None:
        return None
    judged = evidence.judged(MOST_JUDGED)
    if rows.target.is_linear:
        scaling = rows.scaling
        data = evidence.rows if rows.mean.is_constant else rows.original.with_targets(scaling)
        rmse = bars.rmse
    else:
        scaling = moments(rows.given)
        data, rmse = rows.given.with_targets(scaling), bars.rmse / scaling.unit
    found = compared_with_simple_models(data, judged, rmse, scaling.unit, generator)
    tried = "auto" if settings.chooses_mean else None if rows.mean.is_constant else rows.mean.name
    words = alone_words(found, rows.mean.name) if rows.mean.alone else no_better_words(found, tried)
    if words:
        warn(words, NoBetterWarning)
    return found
