"""Hyperparameters of small tables: the exact likelihood, from every scale, with a weak prior.

The method is described in docs/method.rst, `exact-search`. A likelihood of few rows has many maxima, and several inputs
leave it flat. So its value is computed on a grid first, from length-scales as short as the rows' spacing to longer than
their spread, and from hardly any noise to nearly nothing else (`sodalite.hyperparameters.grid`); the best local maxima
of the grid are climbed. A weak prior keeps what the rows cannot tell near what is plausible
(`sodalite.hyperparameters.likelihood`).

Of many rows, a few are searched so. The kernels then race on more rows, and at last on all, each
from its maximum on fewer rows and with the curvature there. One that promises less than another has is given up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from time import perf_counter

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.threads import one_blas_thread, threaded_map
from ..core.types import Floats
from ..kernels.neighbours import distinct
from .climb import TIGHT, Change, Climb, climb
from .components import small_table_forms
from .dense import leave_one_out, leave_one_out_densities, squared_errors
from .grid import scale_starts
from .likelihood import Plausibility
from .parameters import is_within_bounds
from .subset import revive
from .task import Found, Progress, Round, Task, arrays_of

FEW, SOME = 200, 500  # rows that tell the scale and the shape, and then which components, where there are many more
MANY = 1.4  # times as many rows as that are many more: with fewer, all might as well be searched
BEHIND = 20.0  # nats that a kernel may be behind on fewer rows, and race all the same
CLOSE = 0.03  # nats that a race goes on for: a parameter is off by a quarter of its standard error then
AHEAD = 1.0  # nats that a kernel must have more than another promises, so that the other is given up
SHAPE_STEPS = 15  # steps of a climb from the grid, or with another kernel shape: enough to compare their ends
FORM_STEPS = 30  # steps of a climb with another component, which starts farther from its maximum
LAST_STEPS = 60  # steps of the last climb, which goes on to the maximum
START_PART, FORM_PART, LAST_PART = 2.0, 3.0, 3.0  # weights of the parts of a search, by their time
FOLDS = 10  # parts of the rows that are predicted by hyperparameters found without them
REFIT_STEPS = 15  # steps of a climb without the rows of one fold, which starts at the maximum of all rows
FEWEST_REFITTED = 4  # rows from which on the folds are refitted
MOST_REFITTED = 200  # rows up to which the folds are refitted: more cost seconds, and have little optimism
MOST_OPTIMISTIC = 4.0  # largest optimism, a ratio of variances: one outlying row can make the ratio arbitrarily large


def find_exactly(task: Task, kernels: Sequence[Kernel]) -> Found:
    """The best of some kernels with the same parameters, and of richer forms, by the likelihood of all rows."""
    X, y, _ = arrays_of(task)
    # A row that stands twice, targets and all, is a record kept twice rather than proof that there is no noise.
    once, _ = distinct(np.concatenate([X, y], axis=1))
    search = _ExactSearch(replace(task, X=X, y=y).take(once))
    with one_blas_thread():  # kernels are tried side by side
        search.run(kernels)
    return Found(search.best.kernel, tuple(search.rounds))


@dataclass(frozen=True)
class _Candidate:
    """A kernel in the competition, and its climb on some of the rows."""

    name: str
    start: Kernel
    climb: Climb
    n_rows: int
    n_values: int

    @property
    def kernel(self) -> Kernel:
        return self.start.clone_with_theta(self.climb.theta)

    def evidence(self, times: float = 1.0) -> float:
        """The log plausibility of so many times as many rows, less half log n for each parameter (Schwarz 1978)."""
        penalty = 0.5 * int(self.start.n_dims) * log(max(times * self.n_rows, 2))
        return times * self.n_values * self.climb.value - penalty

    @property
    def promise(self) -> float:
        """By how much the evidence would be larger at the end of the climb."""
        return self.n_values * self.climb.promise


class _ExactSearch:
    """An exact search: the kernels that compete, and the rounds of the competition.

    Parameters
    ----------
    task : Task
        With rows that differ.
    """

    def __init__(self, task: Task) -> None:
        self.task, n = task, len(task.X)
        self.sizes = [*(size for size in (FEW, SOME) if MANY * size < n), n]
        """The numbers of rows of the search and of the races after it."""
        self.order = np.arange(n) if n == self.sizes[0] else np.random.default_rng(0).permutation(n)
        self.rows = task.take(self.order[: self.sizes[0]])
        self.forms = small_table_forms(task.X, task.y) if task.forms else []
        self.rounds: list[Round] = []
        self.tried: list[_Candidate] = []
        self.progress = Progress(task.report, START_PART + bool(self.forms) * FORM_PART + len(self.sizes) * LAST_PART)
        self._began = perf_counter()
        self._end = self._began + task.seconds

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return perf_counter() > self._end

    def run(self, kernels: Sequence[Kernel]) -> None:
        """Find the scale and the shape on `FEW` rows, components on `SOME`, and the maximum on all rows."""
        self._start(_middle(kernels))
        self._try_shapes(kernels)
        for size in self.sizes[1:2]:
            self._race(size)
            self._look_again(kernels)
        self._add_components()
        for size in self.sizes[2:]:
            self._race(size)
        self._finish()

    def _start(self, kernel: Kernel) -> None:
        """Climb with a kernel from its own parameters and from the maxima of the grid."""
        self.progress.begin("all scales", START_PART)
        starts = [kernel.theta, *scale_starts(kernel, self.rows.X, self.rows.y, self.rows.alpha)]
        ends = self._climbed([("start", kernel.clone_with_theta(theta)) for theta in starts], SHAPE_STEPS)
        self.best = max(ends, key=_Candidate.evidence)
        self.tried = [self.best]
        self._note(self.best, True)

    def _try_shapes(self, kernels: Sequence[Kernel]) -> None:
        """Climb with the other kernels, from where the best one is."""
        theta, others = self.best.climb.theta, [each for each in kernels if each is not _middle(kernels)]
        self._try([("another shape", kernel.clone_with_theta(theta)) for kernel in others], SHAPE_STEPS)

    def _look_again(self, kernels: Sequence[Kernel]) -> None:
        """Climb from where inputs that few rows made irrelevant matter again; begin anew if that leads elsewhere."""
        before, kernel = self.best, self.best.kernel
        revived = kernel.clone_with_theta(revive(kernel.theta, kernel, self.rows.X))
        self._try([("other inputs", revived)], SHAPE_STEPS)
        if self.best.evidence() > before.evidence() + AHEAD:
            self.tried = [self.best]
            self._try_shapes(kernels)

    def _add_components(self) -> None:
        """Add the component that brings most, and another to that, while there is more evidence with it."""
        forms = dict(self.forms)
        while forms:
            self.progress.begin(", ".join(forms), FORM_PART / len(self.forms))
            before = self.best
            self._try([(name, form(before.kernel)) for name, form in forms.items()], FORM_STEPS)
            if self.best is before:
                return
            del forms[self.best.name]

    def _race(self, size: int) -> None:
        """Climb with the best kernels on more rows, each until another has more evidence than it promises."""
        self.progress.begin(f"{size} rows", LAST_PART)
        if self.is_over:
            return
        times = len(self.task.X) / self.best.n_rows
        least = max(each.evidence(times) for each in self.tried) - BEHIND * times
        racing = [each for each in self.tried if each.evidence(times) > least]
        threaded_map(lambda each: each.climb.go_on(LAST_STEPS, self._end, CLOSE / each.n_values), racing)
        self.rows, times = self.task.take(self.order[:size]), len(self.task.X) / size
        self.tried = racing = threaded_map(
            lambda each: self._candidate(each.name, each.kernel, each.climb.changes), racing
        )
        for _ in range(LAST_STEPS):
            top = max(each.evidence(times) for each in self.tried) - AHEAD
            racing = [each for each in racing if each.promise > CLOSE and each.evidence(times) + 2 * each.promise > top]
            if not racing or self.is_over:
                break
            threaded_map(lambda each: each.climb.step(), racing)
        self.best = max(self.tried, key=_Candidate.evidence)
        for each in sorted(self.tried, key=_Candidate.evidence):
            self._note(replace(each, name=f"{each.name}, {size} rows"), each is self.best)

    def _finish(self) -> None:
        """Climb to the maximum: of a small table as far as rounding shows it."""
        self.progress.begin("the best kernel", LAST_PART)
        if not self.is_over:
            self.best.climb.go_on(LAST_STEPS, self._end, TIGHT if len(self.sizes) == 1 else CLOSE / self.best.n_values)
            self._note(replace(self.best, name="to the end"), True)

    def _candidate(self, name: str, kernel: Kernel, changes: Sequence[Change] = ()) -> _Candidate:
        rows = self.rows
        objective = Plausibility(kernel, rows.X, rows.y, rows.alpha)
        climb = Climb(objective, kernel.theta, kernel.bounds, changes)
        return _Candidate(name, kernel, climb, len(rows.X), rows.y.size)

    def _climbed(self, kernels: list[tuple[str, Kernel]], steps: int) -> list[_Candidate]:
        """Kernels, each with its name, after climbs of so many steps."""

        def climbed(named: tuple[str, Kernel]) -> _Candidate:
            candidate = self._candidate(*named)
            candidate.climb.go_on(steps, self._end)
            return candidate

        return threaded_map(climbed, kernels)

    def _try(self, kernels: list[tuple[str, Kernel]], steps: int) -> None:
        """Climb with some kernels, and keep the one with most evidence."""
        tried = [] if self.is_over else self._climbed(kernels, steps)
        self.tried += tried
        self.best = max([self.best, *tried], key=_Candidate.evidence)
        for each in tried:
            self._note(each, each is self.best)

    def _note(self, candidate: _Candidate, kept: bool) -> None:
        """Record a round, and the time since the one before."""
        now = perf_counter()
        value = candidate.evidence() / candidate.n_values
        size = candidate.n_rows if len(self.sizes) > 1 else None
        self.rounds.append(Round(candidate.name, candidate.kernel, value, kept, now - self._began, size))
        self._began = now


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
