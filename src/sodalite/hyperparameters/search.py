"""The search for a kernel: kernels race, level after level, each on more rows than the one before.

The method is described in docs/method.rst, `exact-search` and `weave`. A level is an objective on some rows.
Up to some rows, it is their exact likelihood with a weak prior; of more rows, how well some are predicted that are left
out (`sodalite.hyperparameters.left_out`). A likelihood of few rows has many maxima, and several inputs leave it flat.
So its value is computed on a grid first, from length-scales as short as the rows' spacing to longer than their spread,
and from hardly any noise to nearly nothing else (`sodalite.hyperparameters.grid`); the best local maxima of the grid
are climbed. From level to level, each kernel goes on from its maximum on fewer rows and with the curvature there, and
one that promises less than another has is given up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from time import perf_counter
from typing import TypeVar

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.threads import on_this_thread, one_blas_thread, threaded_map
from ..core.types import Floats
from ..kernels.neighbours import distinct
from .climb import TIGHT, Change, Climb, Objective, climb
from .components import Form, large_table_forms, small_table_forms, two_scales
from .dense import leave_one_out, leave_one_out_densities, squared_errors
from .grid import scale_starts
from .left_out import LeftOut, LeftOutRows, density_starts
from .likelihood import Plausibility
from .parameters import is_within_bounds
from .subset import revive
from .task import Found, Progress, Round, Task, arrays_of

T = TypeVar("T")
U = TypeVar("U")

FEW, SOME = 200, 500  # rows that tell the scale and the shape, and then which components, where there are many more
MANY = 1.4  # times as many rows as that are many more: with fewer, all might as well be searched
LEVELS = (500, 1500, 3000)  # rows that are left out, level by level, where a table is too large for its likelihood
BEHIND = 20.0  # nats that a kernel may be behind on fewer rows, and race all the same
LITTLE_BEHIND = 5.0  # the same, where rows are left out
CLOSE = 0.2  # nats that a race goes on for: of some hundred rows, no prediction can tell them
AHEAD = 1.0  # nats that a kernel must have more than another promises, so that the other is given up
SHAPE_STEPS = 15  # steps of a climb from the grid, or with another kernel shape: enough to compare their ends
FORM_STEPS = 30  # steps of a climb with another component, which starts farther from its maximum
LAST_STEPS = 60  # steps of the last climb, which goes on to the maximum
LEFT_OUT_STEPS = 12  # steps of a climb on more rows that are left out: each costs as much as all of a small table's
MOST_ADDED = 2  # components that are added where rows are left out
MOST_FINALISTS = 3  # kernels that race on all rows, and on more rows that are left out
START_PART, FORM_PART, LAST_PART = 2.0, 3.0, 3.0  # weights of the parts of a search, by their time
FOLDS = 10  # parts of the rows that are predicted by hyperparameters found without them
REFIT_STEPS = 15  # steps of a climb without the rows of one fold, which starts at the maximum of all rows
FEWEST_REFITTED = 4  # rows from which on the folds are refitted
MOST_REFITTED = 200  # rows up to which the folds are refitted: more cost seconds, and have little optimism
MOST_OPTIMISTIC = 4.0  # largest optimism, a ratio of variances: one outlying row can make the ratio arbitrarily large


def find_exactly(task: Task, kernels: Sequence[Kernel]) -> Found:
    """The best of some kernels with the same parameters, and of richer forms, by the likelihood of all rows.

    The scale and the shape are found on `FEW` rows, components on `SOME`, and the maximum on all rows.
    """
    X, y, _ = arrays_of(task)
    # A row that stands twice, targets and all, is a record kept twice rather than proof that there is no noise.
    once, _ = distinct(np.concatenate([X, y], axis=1))
    task = replace(task, X=X, y=y).take(once)
    levels, n = _likelihoods(task), len(task.X)
    forms = dict(small_table_forms(task.X, task.y)) if task.forms else {}
    search = Search(levels[0], task, START_PART + bool(forms) * FORM_PART + len(levels) * LAST_PART)
    with one_blas_thread():  # kernels are tried side by side
        search.start(kernels)
        for level in levels[1:2]:
            search.go_on(level, LAST_STEPS)
            search.look_again(kernels)
        search.add_components(forms)
        for level in levels[2:]:
            search.go_on(level, LAST_STEPS, MOST_FINALISTS)
        search.finish(TIGHT if len(levels) == 1 else CLOSE / (n * y.shape[1]))
    return search.found


def find_by_rows_left_out(
    task: Task, kernels: Sequence[Kernel], rows: Callable[[Kernel], LeftOutRows], n_start: int
) -> Found:
    """The best of some kernels with the same parameters, and of richer forms, by rows that are left out.

    The likelihood of some rows tells where to start. They are thinner than all rows, so the length-scales and the noise
    are sought anew on a grid among all rows, where more is known of what varies quickly.

    Parameters
    ----------
    task : Task
    kernels : sequence of scikit-learn kernels
    rows : callable
        Makes the rows that are left out, for a kernel that says which rows are near.
    n_start : int
        Rows whose likelihood tells where to start.
    """
    few = task.take(np.random.default_rng(0).permutation(len(task.X))[:n_start])
    levels = _likelihoods(few)
    search = Search(levels[0], task, START_PART + FORM_PART + (len(levels) + len(LEVELS)) * LAST_PART)
    with one_blas_thread():
        search.start(kernels)
        for level in levels[1:]:
            search.go_on(level, SHAPE_STEPS)
            search.look_again(kernels)
    if search.is_over:
        return search.found
    left = rows(search.best.kernel)
    sizes = sorted({min(size, left.n_near) for size in LEVELS})
    first, *more = [_left_out(left, size, is_last=size == sizes[-1]) for size in sizes]
    search.begin_anew(first, density_starts(left.take(sizes[0]), search.shapes, _middle(kernels)), SHAPE_STEPS)
    if task.forms:
        search.try_kernels(two_scales(search.shapes), LEFT_OUT_STEPS)
        search.add_components(dict(large_table_forms(left.groups.X, left.groups.y)), LEFT_OUT_STEPS, MOST_ADDED)
    for level in more:
        search.go_on(level, LEFT_OUT_STEPS, 1 if level is more[-1] else MOST_FINALISTS)
    if not task.forms:
        search.compare_as_given(kernels[0])
    return search.found


@dataclass(frozen=True)
class Level:
    """An objective on some of the rows."""

    name: str
    objective: Callable[[Kernel], Objective]
    n_rows: int
    n_values: int
    """The target values that the objective is a mean over."""
    times: float
    """How many times as many rows the last level has."""
    rows: Task | None = None
    """The rows whose likelihood it is, for the grid of scales; None where rows are left out."""


def _likelihoods(task: Task) -> list[Level]:
    """The exact likelihoods, with a prior, of a few rows, of more, and of all."""
    n = len(task.X)
    sizes = [*(size for size in (FEW, SOME) if MANY * size < n), n]
    order = np.arange(n) if n == sizes[0] else np.random.default_rng(0).permutation(n)

    def level(size: int) -> Level:
        rows = task.take(order[:size])
        X, y, alpha = arrays_of(rows)
        return Level(
            f"{size} rows",
            lambda kernel: Plausibility(kernel, X, y, alpha),
            size,
            y.size,
            n / size,
            replace(rows, X=X, y=y),
        )

    return [level(size) for size in sizes]


def _left_out(rows: LeftOutRows, size: int, is_last: bool) -> Level:
    """How well so many rows are predicted that are left out, with a prior."""
    some = rows if is_last else rows.take(size)
    return Level(f"{size} rows left out", some.objective, size, size * rows.groups.y.shape[1], rows.n_near / size)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A kernel in the competition, and its climb on some of the rows."""

    name: str
    start: Kernel
    climb: Climb
    level: Level

    @property
    def kernel(self) -> Kernel:
        """The kernel at the largest value that the climb has seen."""
        return self.start.clone_with_theta(self.climb.best[1])

    @property
    def evidence(self) -> float:
        """The objective of as many rows as the last level has, less half log n for each parameter (Schwarz 1978)."""
        times, level = self.level.times, self.level
        penalty = 0.5 * int(self.start.n_dims) * log(max(times * level.n_rows, 2))
        return times * level.n_values * self.climb.best[0] - penalty

    @property
    def promise(self) -> float:
        """By how much the evidence would be larger at the end of the climb."""
        return self.level.times * self.level.n_values * self.climb.promise


class Search:
    """Kernels that compete, and the rounds of the competition.

    Parameters
    ----------
    level : Level
        The first level, a likelihood.
    task : Task
    weight : float
        The weights of all parts that are expected.
    """

    def __init__(self, level: Level, task: Task, weight: float) -> None:
        self.level = level
        self.rounds: list[Round] = []
        self.tried: list[Candidate] = []
        self.progress = Progress(task.report, weight)
        self._began = perf_counter()
        self._end = self._began + task.seconds

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return perf_counter() > self._end

    @property
    def found(self) -> Found:
        """The best kernel, and the rounds."""
        return Found(self.best.kernel, tuple(self.rounds))

    @property
    def shapes(self) -> list[Kernel]:
        """For every shape of one component that was tried, its best kernel; the best first."""
        best: dict[tuple[type, float | None], Kernel] = {}
        for each in sorted(self.tried, key=lambda each: -each.evidence):
            kernel = each.kernel
            shape = getattr(getattr(kernel, "k1", None), "k2", kernel)
            best.setdefault((type(shape), getattr(shape, "nu", None)), kernel)
        return list(best.values())

    def start(self, kernels: Sequence[Kernel]) -> None:
        """Climb with a kernel from its own parameters and from the maxima of the grid, then with the others."""
        self.progress.begin("all scales", START_PART)
        kernel, rows = _middle(kernels), self.level.rows
        assert rows is not None
        starts = [kernel.theta, *scale_starts(kernel, rows.X, rows.y, rows.alpha)]
        ends = self._climbed([("start", kernel.clone_with_theta(theta)) for theta in starts], SHAPE_STEPS)
        self.best = max(ends, key=lambda each: each.evidence)
        self.tried = [self.best]
        self._note(self.best, True)
        self._try_shapes(kernels)

    def _try_shapes(self, kernels: Sequence[Kernel]) -> None:
        """Climb with the other kernels, from where the best one is."""
        theta, others = self.best.climb.theta, [each for each in kernels if each is not _middle(kernels)]
        self.try_kernels([("another shape", kernel.clone_with_theta(theta)) for kernel in others], SHAPE_STEPS)

    def look_again(self, kernels: Sequence[Kernel]) -> None:
        """Climb from where inputs that few rows made irrelevant matter again; begin anew if that leads elsewhere."""
        before, kernel, rows = self.best, self.best.kernel, self.level.rows
        assert rows is not None
        self.try_kernels([("other inputs", kernel.clone_with_theta(revive(kernel.theta, kernel, rows.X)))], SHAPE_STEPS)
        if self.best.evidence > before.evidence + AHEAD:
            self.tried = [self.best]
            self._try_shapes(kernels)

    def begin_anew(self, level: Level, kernels: Sequence[tuple[str, Kernel]], steps: int) -> None:
        """Race with some kernels at a level whose objective is another."""
        self.progress.begin(level.name, LAST_PART)
        self.level = level
        first, *others = _each(lambda named: self._candidate(*named), kernels)
        self.tried = [first, *(each for each in others if np.isfinite(each.climb.value))]
        self._race(steps)

    def add_components(self, forms: dict[str, Form], steps: int = FORM_STEPS, most: int = 99) -> None:
        """Add the component that brings most, and another to that, while a kernel is better with it."""
        forms = dict(forms)
        for _ in range(min(most, len(forms))):
            if self.is_over:
                return
            self.progress.begin(", ".join(forms), FORM_PART / len(forms))
            before = self.best
            self.try_kernels([(name, form(before.kernel)) for name, form in forms.items()], steps)
            if self.best is before:
                return
            del forms[self.best.name]

    def go_on(self, level: Level, steps: int, most: int | None = None) -> None:
        """Race with the best kernels on more rows, at most so many of them, each until another promises more."""
        self.progress.begin(level.name, LAST_PART)
        if self.is_over:
            return
        ranked = sorted(self.tried, key=lambda each: -each.evidence)
        behind = LITTLE_BEHIND if level.rows is None else BEHIND
        least = ranked[0].evidence - behind * self.level.times
        racing = [each for each in ranked if each.evidence > least]
        if most is not None:  # the best, and the best of the simplest
            racing = list(dict.fromkeys([self.best, min(ranked, key=lambda each: each.start.n_dims), *racing]))[:most]
        if level.rows is not None:  # of rows that are left out, few lead further astray
            _each(lambda each: each.climb.go_on(steps, self._end, CLOSE / each.level.n_values), racing)
        self.level = level
        self.tried = _each(lambda each: self._candidate(each.name, each.kernel, each.climb.changes), racing)
        self._race(steps)

    def _race(self, steps: int) -> None:
        """Climb with all kernels, each until another has more evidence than it promises."""
        racing = self.tried
        for _ in range(steps):
            top = max(each.evidence for each in self.tried) - AHEAD
            racing = [each for each in racing if each.promise > CLOSE and each.evidence + 2 * each.promise > top]
            if not racing or self.is_over:
                break
            _each(lambda each: each.climb.step(), racing)
        self.best = best_of(self.tried)
        for each in sorted(self.tried, key=lambda each: each.evidence):
            self._note(each, each is self.best)

    def finish(self, tolerance: float) -> None:
        """Climb to the maximum: until no more than the tolerance is promised."""
        self.progress.begin("the best kernel", LAST_PART)
        if not self.is_over:
            self.best.climb.go_on(LAST_STEPS, self._end, tolerance)
            self._note(replace(self.best, name="to the end"), True)

    def compare_as_given(self, kernel: Kernel) -> None:
        """Go back to a user's kernel at the parameters that it was given, if these predict rows better."""
        if is_within_bounds(kernel):
            given = self._candidate("as given", kernel.clone_with_theta(kernel.theta))
            is_better = given.climb.value > self.best.climb.best[0]
            self.best = given if is_better else self.best
            self._note(given, is_better)

    def _candidate(self, name: str, kernel: Kernel, changes: Sequence[Change] = ()) -> Candidate:
        return Candidate(
            name, kernel, Climb(self.level.objective(kernel), kernel.theta, kernel.bounds, changes), self.level
        )

    def _climbed(self, kernels: list[tuple[str, Kernel]], steps: int) -> list[Candidate]:
        """Kernels, each with its name, after climbs of so many steps."""

        def climbed(named: tuple[str, Kernel]) -> Candidate:
            candidate = self._candidate(*named)
            candidate.climb.go_on(steps, self._end)
            return candidate

        return _each(climbed, kernels)

    def try_kernels(self, kernels: list[tuple[str, Kernel]], steps: int) -> None:
        """Climb with some kernels, and keep the one with most evidence."""
        tried = [] if self.is_over else self._climbed(kernels, steps)
        self.tried += tried
        self.best = best_of([self.best, *tried])
        for each in tried:
            self._note(each, each is self.best)

    def _note(self, candidate: Candidate, kept: bool) -> None:
        """Record a round, and the time since the one before."""
        now, level = perf_counter(), candidate.level
        value = candidate.evidence / (level.times * level.n_values)
        self.rounds.append(Round(candidate.name, candidate.kernel, value, kept, now - self._began, level.name))
        self._began = now


def best_of(candidates: Sequence[Candidate]) -> Candidate:
    """The candidate with most evidence; where rows are left out, a richer one only if its gain is more than chance."""
    best, *richer = sorted(candidates, key=lambda each: (int(each.start.n_dims), -each.evidence))
    for each in richer:
        ours, theirs = each.climb.objective, best.climb.objective
        is_better = each.evidence > best.evidence
        if is_better and isinstance(ours, LeftOut) and isinstance(theirs, LeftOut):
            gain, error = ours.gain(each.climb.best[1], theirs, best.climb.best[1])
            is_better = gain > error
        best = each if is_better else best
    return best


def _each(function: Callable[[T], U], items: Sequence[T]) -> list[U]:
    """Apply a function to all items, on a thread each; to a single one on this thread, which may then use others."""
    if len(items) == 1:
        return [function(items[0])]

    def alone(item: T) -> U:
        with on_this_thread():
            return function(item)

    return threaded_map(alone, items)


def _middle(kernels: Sequence[Kernel]) -> Kernel:
    """The kernel of middling smoothness, with which a search starts."""
    return kernels[(len(kernels) - 1) // 2]


def with_optimism(found: Found, task: Task, generator: np.random.Generator) -> Found:
    """The result of a search with its `optimism`: by how much leave-one-out errors are too small.

    The hyperparameters have seen every row. So in each of `FOLDS` folds, they are raised again without its rows, from
    where they are, and predict these rows. O(n^3) a step.
    """
    (X, y, alpha), kernel = arrays_of(task), found.kernel
    if not FEWEST_REFITTED <= len(X) <= MOST_REFITTED or not kernel.n_dims:
        return found
    order, folds = generator.permutation(len(X)), min(FOLDS, len(X))

    def errors(fold: int) -> Floats:
        known, new = np.delete(order, np.s_[fold::folds]), order[fold::folds]
        noise = None if alpha is None else alpha[known]
        again = climb(Plausibility(kernel, X[known], y[known], noise), kernel.theta, kernel.bounds, REFIT_STEPS)[1]
        return squared_errors(kernel.clone_with_theta(again), X, y, alpha, known, new)

    blind = np.concatenate(threaded_map(errors, range(folds))).mean()
    seen = leave_one_out(kernel, X, y, alpha)
    ratio = blind / seen[0].mean() if seen is not None and seen[0].any() else 1.0
    return replace(found, optimism=float(np.clip(ratio, 1.0, MOST_OPTIMISTIC)) if np.isfinite(ratio) else 1.0)


def or_as_given(found: Found, task: Task, kernel: Kernel) -> Found:
    """The result of a search or, if that has larger leave-one-out densities, the kernel with its given parameters.

    Larger means by more than the standard error of the mean difference. Parameters that are not within their bounds do
    not compete.
    """
    if not is_within_bounds(kernel):
        return found
    began = perf_counter()
    X, y, alpha = arrays_of(task)
    given = kernel.clone_with_theta(kernel.theta)
    gain = leave_one_out_densities(given, X, y, alpha) - leave_one_out_densities(found.kernel, X, y, alpha)
    is_better = bool(gain.mean() > gain.std() / sqrt(len(gain)))
    value = Plausibility(given, X, y, alpha)(given.theta)[0]
    tried = Round("as given", given, value, is_better, perf_counter() - began)
    return Found(given if is_better else found.kernel, (*found.rounds, tried))
