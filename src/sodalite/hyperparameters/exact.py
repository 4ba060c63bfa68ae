"""Hyperparameters of small tables: the exact likelihood of all rows, from every scale, with a weak prior.

The method is described in docs/method.rst, `exact-search`. A likelihood of few rows has many maxima, and several inputs
leave it flat. So its value is computed on a grid first, from length-scales as short as the rows' spacing to longer than
their spread, and from hardly any noise to nearly nothing else (`sodalite.hyperparameters.grid`); the best local maxima
of the grid are climbed. A weak prior keeps what the rows cannot tell near what is plausible
(`sodalite.hyperparameters.plausibility`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import log, sqrt
from time import perf_counter

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.threads import threaded_map
from ..core.types import Floats
from ..kernels.neighbours import distinct
from .climb import climb, climb_all, climb_to_maximum
from .components import small_table_forms
from .dense import leave_one_out, leave_one_out_densities, squared_errors
from .grid import scale_starts
from .parameters import is_within_bounds
from .plausibility import Plausibility
from .task import Found, Progress, Round, Task, arrays_of

SHAPE_STEPS = 15  # steps of a climb from the grid, or with another kernel shape: enough to compare their ends
FORM_STEPS = 30  # steps of a climb with another component, which starts farther from its maximum
LAST_STEPS = 60  # steps of the last climb, which goes on to the maximum
START_PART, SHAPE_PART, FORM_PART, LAST_PART = 3.0, 1.0, 3.0, 3.0  # weights of the parts of a search, by their time
FOLDS = 10  # parts of the rows that are predicted by hyperparameters found without them
REFIT_STEPS = 15  # steps of a climb without the rows of one fold, which starts at the maximum of all rows
MOST_REFITTED = 200  # rows up to which the folds are refitted: more cost seconds, and have little optimism
MOST_OPTIMISTIC = 4.0  # largest optimism, a ratio of variances: one outlying row can make the ratio arbitrarily large


def find_exactly(
    task: Task, kernels: Sequence[Kernel], generator: np.random.Generator, to_maximum: bool = True
) -> Found:
    """The best of some kernels with the same parameters, and of richer forms, by the likelihood of all rows.

    The last climb goes on to the maximum, unless `to_maximum` is False: then it ends as all others do.
    """
    X, y, alpha = arrays_of(task)
    # A row that stands twice, targets and all, is a record kept twice rather than proof that there is no noise.
    once, _ = distinct(np.concatenate([X, y], axis=1))
    search = _ExactSearch(X[once], y[once], None if alpha is None else alpha[once], task.seconds)
    first = kernels[(len(kernels) - 1) // 2]
    forms = small_table_forms(search.X, search.y) if task.forms else []
    total = START_PART + SHAPE_PART * (len(kernels) - 1) + FORM_PART * len(forms) + LAST_PART
    progress = Progress(task.report, total)
    progress.begin("all scales", START_PART)
    search.start(first)
    for kernel in kernels:
        if kernel is not first and not search.is_over:
            progress.begin("another shape", SHAPE_PART)
            search.try_shape(kernel)
    for name, form in forms:
        if search.is_over:
            break
        progress.begin(name, FORM_PART)
        search.try_form(name, form(search.best))
    progress.begin("the best shape", LAST_PART)
    search.finish(to_maximum)
    return Found(search.best, tuple(search.rounds))


class _ExactSearch:
    """An exact search: the best kernel so far, its plausibility, and the rounds that led to it.

    Parameters
    ----------
    X, y, alpha : arrays of shape (n, d), (n, q), and (n,) or None
    seconds : float
        Time limit.
    """

    def __init__(self, X: Floats, y: Floats, alpha: Floats | None, seconds: float) -> None:
        self.X, self.y, self.alpha = X, y, alpha
        self.rounds: list[Round] = []
        self.best: Kernel = None
        self.top = -np.inf
        self._began = perf_counter()
        self._end = self._began + seconds

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return perf_counter() > self._end

    def start(self, kernel: Kernel) -> None:
        """Climb from the kernel's own parameters and from the maxima of the grid; keep the best."""
        objective = Plausibility(kernel, self.X, self.y, self.alpha)
        starts = [kernel.theta, *scale_starts(kernel, self.X, self.y, self.alpha)]
        self.top, theta = climb_all(objective, starts, kernel.bounds, SHAPE_STEPS, self._end)[0]
        self.best = kernel.clone_with_theta(theta)
        self._note("start", self.best, self.top, True)

    def try_shape(self, kernel: Kernel) -> None:
        """Climb with a kernel of the same parameters as the best one, from their values; keep it if it is better."""
        value, tried = self._climbed(kernel, self.best.theta, SHAPE_STEPS)
        self._keep_if("another shape", tried, value, value > self.top)

    def try_form(self, name: str, kernel: Kernel) -> None:
        """Climb with a kernel of more parameters; keep it if it has more evidence."""
        value, tried = self._climbed(kernel, kernel.theta, FORM_STEPS)
        self._keep_if(name, tried, value, self._evidence(tried, value) > self._evidence(self.best, self.top))

    def finish(self, to_maximum: bool) -> None:
        """Climb from the best kernel to its maximum."""
        value, self.best = self._climbed(
            self.best, self.best.theta, LAST_STEPS, climb_to_maximum if to_maximum else climb
        )
        self._note("to the end", self.best, value, True)

    def _climbed(
        self, kernel: Kernel, start: Floats, steps: int, method: Callable[..., tuple[float, Floats]] = climb
    ) -> tuple[float, Kernel]:
        """The plausibility that a climb gets to, and the kernel there."""
        objective = Plausibility(kernel, self.X, self.y, self.alpha)
        value, theta = method(objective, start, kernel.bounds, steps, self._end)
        return value, kernel.clone_with_theta(theta)

    def _evidence(self, kernel: Kernel, value: float) -> float:
        """The plausibility less half log n for each parameter (Schwarz 1978), per target value."""
        return value - 0.5 * int(kernel.n_dims) * log(max(len(self.X), 2)) / self.y.size

    def _keep_if(self, name: str, kernel: Kernel, value: float, is_better: bool) -> None:
        self._note(name, kernel, value, is_better)
        if is_better:
            self.top, self.best = value, kernel

    def _note(self, name: str, kernel: Kernel, value: float, kept: bool) -> None:
        """Record a round, and the time since the one before."""
        now = perf_counter()
        self.rounds.append(Round(name, kernel, self._evidence(kernel, value), kept, now - self._began))
        self._began = now


def with_optimism(found: Found, task: Task, generator: np.random.Generator) -> Found:
    """The result of a search with its `optimism`: by how much leave-one-out errors are too small.

    The hyperparameters have seen every row. So in each of `FOLDS` folds, they are raised again without its rows, from
    where they are, and predict these rows. O(n^3) a step.
    """
    (X, y, alpha), kernel = arrays_of(task), found.kernel
    if not FOLDS <= len(X) <= MOST_REFITTED or not kernel.n_dims:
        return found
    order = generator.permutation(len(X))

    def errors(fold: int) -> Floats:
        known, new = np.delete(order, np.s_[fold::FOLDS]), order[fold::FOLDS]
        noise = None if alpha is None else alpha[known]
        again = climb(Plausibility(kernel, X[known], y[known], noise), kernel.theta, kernel.bounds, REFIT_STEPS)[1]
        return squared_errors(kernel.clone_with_theta(again), X, y, alpha, known, new)

    blind = np.concatenate(threaded_map(errors, range(FOLDS))).mean()
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
