"""Weave: selection and hyperparameters that inform each other, the question that the paper leaves open.

The method is described in docs/method.rst, `weave`. A weave is a series of rounds. Some rows are set aside. A round
raises an objective over the kernel's parameters on the other rows, with the choice of rows held fixed (the active rows,
or the neighbourhoods). Then rows are chosen anew, and the rows set aside are predicted. A round is kept only if it
predicts them better, so no round makes things worse by this measure, and the cost is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from sklearn.gaussian_process.kernels import Kernel, Product, Sum

from ..kernels import compile_kernel, variation
from ..selection.rows import ArrayRows
from .components import candidates, enriched, two_scales, with_far_scale
from .exact import find_exactly, or_as_given, with_optimism
from .parameters import is_within_bounds
from .strategies import (
    BY_FORESIGHT,
    BY_LIKELIHOOD,
    FORM_LOSS,
    ByActiveRows,
    ByNeighbours,
    Strategy,
    Verdict,
    mostly_noise,
)
from .subset import Subset
from .task import FULL_DENSITY, Found, Progress, Round, Task
from .windows import with_windows

WORTH = 1e-3  # nats per target value that a round must gain to be kept; smaller gains are not worth their time
MOST_ROWS = 100_000  # rows that hyperparameters are learnt from; a thinner sample would miss short length-scales
SUBSET_SHARE = 0.5  # share of the time limit for the search by a subset, from which the rounds of most posteriors begin
START_SHARE = 0.3  # share of the time limit for the search on few rows, from which the rounds of "local" begin
FIRST_STEPS, OTHER_STEPS, ROUND_STEPS = 10, 6, 8  # steps of a climb: with the first kernel, with others, in a round
# Weights of the parts of a search, by the time that they usually take. The search by a subset takes longer.
START_PART, SUBSET_PART, FAMILY_PART, COMPONENTS_PART, ROUND_PART, WINDOWS_PART = 3.0, 9.0, 1.0, 2.0, 1.5, 2.0
MOST_FINALISTS = 3  # kernels of several components, among those that were not kept, that compete in holes
HOLES_SHARE = 0.3  # nats that a kernel may lose among the rows for each that it gains in holes
USUAL_ROUNDS = 3  # most searches have two to four


@dataclass(frozen=True)
class Weave:
    """Rounds that raise an objective and choose rows anew, each kept only if rows set aside are predicted better.

    For the posterior "local", rounds raise in turn the leave-one-out log density of rows given their neighbours
    (foresight), and the exact likelihoods of many neighbourhoods and of two random blocks of rows. They are judged by
    the leave-one-out log density of the rows set aside, calibrated as predictions will be.

    For the other posteriors, a round raises J of the active rows and a sample of the remainder. It is kept if J of the
    rows that are then chosen does not fall, and if the log density of the rows set aside, which the choice has not
    seen, grows by more than its standard error. Active sets are small first, and grow.

    Where no kernel was given, other components may be added to the best one: a rough long scale, where there are one or
    two inputs, periods that the targets show, and at the end what fills holes (`sodalite.hyperparameters.components`).

    Parameters
    ----------
    n_start : int, default=500
        Rows, drawn at random, whose exact likelihood gives the first kernel, for "local"; the other posteriors begin
        where `Subset` ends.
    n_rounds : int, default=6
        The most rounds after the kernel has been chosen.
    n_blocks, block_size : int, default=160, 64
        Neighbourhoods in a round, and rows in each.
    n_judged : int, default=1500
        Rows that are set aside to judge rounds by. Other rows judge too, which rounds see as neighbours alone.
    n_neighbors : int, default=32
        Neighbours that a row is predicted from, where a round is judged and where foresight is raised.
    n_active : int, default=64
        Active rows, drawn at random, that a row is predicted from beside its neighbours.
    n_exact : int, default=1500
        Rows up to which there are no rounds: the exact likelihood of all rows is raised, from every scale, under a weak
        prior (`sodalite.hyperparameters.exact`). One evaluation costs O(n^3).
    """

    n_start: int = 500
    n_rounds: int = 6
    n_blocks: int = 160
    block_size: int = 64
    n_judged: int = 1500
    n_neighbors: int = 32
    n_active: int = 64
    n_exact: int = 1500

    def find(self, task: Task, kernels: Sequence[Kernel], generator: np.random.Generator) -> Found:
        """The best of some kernels, at the best hyperparameters found.

        Parameters
        ----------
        task : Task
        kernels : sequence of scikit-learn kernels
            Several compete: a short run each, and the best goes on.
        generator : numpy.random.Generator
        """
        if kernels[0].n_dims == 0:
            return Found(kernels[0].clone_with_theta(kernels[0].theta))
        if len(task.X) <= self.n_exact:
            return self._find_exactly(task, kernels, generator)
        if len(task.X) > MOST_ROWS:
            rows = ArrayRows(task.X, task.y, task.alpha)
            task = task.take(np.sort(generator.choice(len(task.X), MOST_ROWS, replace=False)))
            task = replace(task, rows=rows)
        return self._find_in_rounds(task, kernels, generator)

    def _find_exactly(self, task: Task, kernels: Sequence[Kernel], generator: np.random.Generator) -> Found:
        """The best of some kernels by the exact likelihood of all rows, with its optimism if there is time for it."""
        began = perf_counter()
        found = find_exactly(task, kernels)
        found = found if task.forms else or_as_given(found, task, kernels[0])
        return with_optimism(found, task, generator) if perf_counter() < began + task.seconds else found

    def _find_in_rounds(self, task: Task, kernels: Sequence[Kernel], generator: np.random.Generator) -> Found:
        """The best of some kernels by rounds, from the kernel that `_first` finds."""
        began, start = perf_counter(), START_PART if task.asks_neighbours else SUBSET_PART
        progress = Progress(task.report, start + _rest_of(task, len(kernels)))
        family, first = self._first(replace(task, report=progress.within(start)), kernels, generator)
        strategy = (ByNeighbours if task.asks_neighbours else ByActiveRows)(self, task, generator)
        search = _WeaveSearch(strategy, strategy.scaled(first), began, task.seconds, progress)
        if not task.forms:
            search.try_as_given(family)
        search.try_families(kernels, family)
        dense = None if search.is_over else self._dense(task, search.best, generator)
        if dense is not None:
            search.go_on(ByNeighbours(self, dense, generator))
        if task.forms:
            search.try_two_scales()
            search.try_components(generator)
        search.run(self.n_rounds)
        if task.forms:
            search.fill_gaps(generator)
            search.try_mostly_noise(family, variation(task.y))
        return Found(search.best, tuple(search.rounds))

    def _dense(self, task: Task, kernel: Kernel, generator: np.random.Generator) -> Task | None:
        """The task of learning at the density of all rows; None if the rows are all, or if windows would not help."""
        if task.rows is None or not task.asks_neighbours:
            return None
        return with_windows(task, task.rows, compile_kernel(kernel, task.X), generator)

    def _first(self, task: Task, kernels: Sequence[Kernel], generator: np.random.Generator) -> tuple[Kernel, Kernel]:
        """Which of some kernels the weave begins with, and that kernel at its first parameters.

        "local" begins from a rough exact search on few rows. The rounds of the other posteriors go less far, so they
        begin where a subset ends.
        """
        if task.asks_neighbours:
            family = kernels[(len(kernels) - 1) // 2]
            seconds = START_SHARE * task.seconds
            few = task.take(generator.permutation(len(task.X))[: self.n_start])
            few = replace(few, seconds=seconds, forms=False)  # components are tried later
            theta = find_exactly(few, [family]).kernel.theta
            return family, family.clone_with_theta(theta)
        by_subset = Subset().find(replace(task, seconds=SUBSET_SHARE * task.seconds), kernels, generator).kernel
        theta = by_subset.theta
        same = by_subset.clone_with_theta(theta)  # whose parameters have been through the same rounding
        family = next(kernel for kernel in kernels if kernel.clone_with_theta(theta) == same)
        return family, family.clone_with_theta(theta)


def _is_plain(kernel: Kernel) -> bool:
    """Whether a kernel is the sum of one component and noise."""
    return isinstance(kernel, Sum) and isinstance(kernel.k1, Product)


def _rest_of(task: Task, n_kernels: int) -> float:
    """The weights of the parts of a search after its start."""
    components = COMPONENTS_PART if task.forms else 0.0
    windows = WINDOWS_PART * (1 + n_kernels) if task.rows is not None and task.asks_neighbours else 0.0
    return FAMILY_PART * n_kernels + components + ROUND_PART * USUAL_ROUNDS + windows


class _WeaveSearch:
    """A weave under way: the best kernel so far, its verdict, and the rounds that led to it.

    Parameters
    ----------
    strategy : Strategy
    kernel : scikit-learn kernel
        Where the search begins.
    began, seconds : float
        When it began, by `time.perf_counter`, and the time limit.
    progress : Progress
        Reports the parts of the search.
    """

    def __init__(self, strategy: Strategy, kernel: Kernel, began: float, seconds: float, progress: Progress) -> None:
        self.strategy, self.progress = strategy, progress
        self.rounds: list[Round] = []
        self._first_comparable = 0  # the round from which on all were judged by the same rows
        self._began, self._end = began, began + seconds
        self.best = self.origin = kernel
        self.top = strategy.judge(kernel)
        self._note("start", kernel, self.top, True)

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return perf_counter() > self._end

    def go_on(self, strategy: Strategy) -> None:
        """Go on with other rows: every kernel that was tried competes again, from the scale that is best by them.

        Verdicts before and after do not compare.
        """
        tried = sorted((each.kernel for each in self.rounds), key=lambda kernel: kernel is not self.best)
        self._first_comparable = len(self.rounds)
        self.strategy, self.top = strategy, Verdict(np.full(1, -np.inf))
        for kernel in tried:
            self.progress.begin("a shape at full density", WINDOWS_PART)
            scaled = strategy.scaled(kernel)
            self._try(FULL_DENSITY, scaled)
            before = self.rounds[-1].objective
            # The likelihoods of scattered rows may draw a kernel away from the scale of the windows: then by foresight.
            for turn in (BY_LIKELIHOOD, BY_FORESIGHT):
                if self.is_over or self.rounds[-1].objective > before:
                    break
                self._try("a short run", strategy.raised(scaled, OTHER_STEPS, turn, self._end))
        self.origin = self.best

    def try_as_given(self, kernel: Kernel) -> None:
        """Try a user's kernel at the parameters that it was given, if they are within their bounds.

        Good ones are not to be lost.
        """
        if self.is_over or not is_within_bounds(kernel):
            return
        given = kernel.clone_with_theta(kernel.theta)
        if self._try("as given", given):
            self.origin = given

    def try_families(self, kernels: Sequence[Kernel], first: Kernel) -> None:
        """Climb a few steps with each of some kernels, the first one first, from the best parameters so far."""
        for kernel in sorted(kernels, key=lambda kernel: kernel is not first):
            if self.is_over:
                return
            self.progress.begin("the first shape" if kernel is first else "another shape", FAMILY_PART)
            steps = FIRST_STEPS if kernel is first else OTHER_STEPS
            tried = self.strategy.raised(kernel.clone_with_theta(self.best.theta), steps, end=self._end)
            self._try("a short run", tried)

    def try_components(self, generator: np.random.Generator) -> None:
        """Try to add components to the best kernel, one after the other."""
        if self.is_over:
            return
        strategy = self.strategy
        self.progress.begin("other components", COMPONENTS_PART)
        some = strategy.groups.X[strategy.scattered], strategy.groups.y[strategy.scattered]
        for name, form in candidates(*some, *strategy.errors(self.best)):
            if self.is_over:
                return
            self.progress.begin(name, 0.0)
            tried = enriched(
                self.best, form, strategy.groups, lambda each: strategy.judge(each).density, generator, self._end
            )
            for kernel, gain in tried:
                verdict = strategy.judge(kernel)
                if self._keep_if(strategy.accepts(verdict, self.top, gain), name, kernel, verdict):
                    break

    def try_two_scales(self) -> None:
        """Try the sum of the best smooth and the best rough shape, a short and a long scale."""
        strategy, both = self.strategy, two_scales([kernel for kernel, _ in self._best_of_shapes()])
        for turn, steps in ((BY_LIKELIHOOD, FIRST_STEPS), (BY_FORESIGHT, OTHER_STEPS)):
            if both is None or self.is_over or not strategy.fills_gaps:
                return
            self.progress.begin("two scales", FAMILY_PART)
            both = strategy.raised(both, steps, turn, self._end)
            verdict = strategy.judge(both)
            self._keep_if(strategy.accepts(verdict, self.top, 0.0), "two scales", both, verdict)

    def fill_gaps(self, generator: np.random.Generator) -> None:
        """Compare the best kernel in holes with that of the next best shape, and with those of several components.

        What rows set aside lose by a kernel counts more than what rows in holes gain, since most queries are among the
        rows.
        """
        if self.is_over or not self.strategy.fills_gaps:
            return
        strategy = self.strategy
        self.progress.begin("holes", COMPONENTS_PART)
        own = generator.spawn(1)[0]  # what is drawn later does not depend on this trial
        holes, plain = strategy.holes(own), self._best_of_shapes()
        finalists = [("holes", self.best, self.top)]
        finalists += [("holes", kernel, verdict) for kernel, verdict in plain[:2] if kernel is not self.best][:1]
        finalists += [("holes", kernel, verdict) for kernel, verdict in self._with_components()[:MOST_FINALISTS]]
        far = with_far_scale(self.best, strategy.groups, strategy.scattered, own, self._end)
        if far is not None:
            finalists.append(("a far scale", far, strategy.judge(far)))

        def value(kernel: Kernel, verdict: Verdict) -> float:
            return verdict.density + HOLES_SHARE * holes.density(compile_kernel(kernel, strategy.groups.X))

        values = [value(kernel, verdict) for _, kernel, verdict in finalists]
        name, kernel, verdict = finalists[int(np.argmax(values))]
        if kernel is self.best:
            return
        self._keep_if(True, name, kernel, verdict)
        if not self.is_over:
            raised = strategy.raised(kernel, ROUND_STEPS, BY_FORESIGHT, self._end)
            verdict = strategy.judge(raised)
            self._keep_if(value(raised, verdict) > max(values), "round", raised, verdict)

    def _with_components(self) -> list[tuple[Kernel, Verdict]]:
        """The kernels of several components that were tried and not kept, the best first."""
        return [
            (each.kernel, Verdict(np.full(1, each.objective)))
            for each in self._best_first()
            if not _is_plain(each.kernel) and not each.kept and each.kernel is not self.best
        ]

    def _best_first(self) -> list[Round]:
        """The rounds whose objectives compare, by these."""
        return sorted(self.rounds[self._first_comparable :], key=lambda each: -each.objective)

    def _best_of_shapes(self) -> list[tuple[Kernel, Verdict]]:
        """For every shape of one component that was tried, its best kernel and the verdict on it; the best first."""
        found: dict[tuple[type, float | None], tuple[Kernel, Verdict]] = {}
        for tried in self._best_first():
            kernel = tried.kernel
            if _is_plain(kernel):
                shape = type(kernel.k1.k2), getattr(kernel.k1.k2, "nu", None)
                found.setdefault(shape, (kernel, Verdict(np.full(1, tried.objective))))
        return list(found.values())

    def try_mostly_noise(self, natural: Kernel, variance: float) -> None:
        """Replace a kernel that sees no row from any other by one that says the same as noise, if it does.

        Where targets are noise, length-scales shorter than all distances say so as well as noise does, but then every
        place is as far from the data as any other, and error bars are those of no data. `natural` has length-scales as
        long as the inputs' spread.
        """
        if self.is_over or not self.strategy.is_blind(self.best):
            return
        for theta in mostly_noise(natural, variance):
            kernel = natural.clone_with_theta(theta)
            verdict = self.strategy.judge(kernel)
            if self._keep_if(verdict.density > self.top.density - FORM_LOSS, "mostly noise", kernel, verdict):
                return

    def run(self, n_rounds: int) -> None:
        """Go through at most so many rounds, until the time is up or as many have failed as the strategy allows."""
        n_failed = 0
        for turn in range(1, n_rounds + 1):
            if self.is_over:
                return
            self.progress.begin(f"round {turn} of at most {n_rounds}", ROUND_PART)
            if self.strategy.grow():
                self._judge_again()
            if self._round(turn):
                n_failed = 0
                continue
            n_failed += 1
            if n_failed >= self.strategy.patience and not self.strategy.can_grow:
                return

    def _round(self, turn: int) -> bool:
        """Climb from the best kernel and keep the result, or one half of the way; whether either was worth it."""
        tried = self.strategy.raised(self.best, ROUND_STEPS, turn, self._end)
        verdict, name = self.strategy.judge(tried), "round"
        if not verdict.beats(self.top, WORTH):  # perhaps it went too far
            tried = self.best.clone_with_theta(0.5 * (self.best.theta + tried.theta))
            verdict, name = self.strategy.judge(tried), "half a round"
        return self._keep_if(verdict.beats(self.top, WORTH), name, tried, verdict)

    def _judge_again(self) -> None:
        """Judge the best kernel by a larger active set, and go back to the origin if that is better by it."""
        self.top, verdict = self.strategy.judge(self.best), self.strategy.judge(self.origin)
        has_fallen = self.best is not self.origin and not self.top.beats(verdict)
        self._keep_if(has_fallen, "start again", self.origin, verdict)

    def _try(self, name: str, kernel: Kernel) -> bool:
        """Judge a kernel, and keep it if it beats the best one; whether it did."""
        verdict = self.strategy.judge(kernel)
        return self._keep_if(verdict.beats(self.top), name, kernel, verdict)

    def _keep_if(self, is_better: bool, name: str, kernel: Kernel, verdict: Verdict) -> bool:
        """Record a round; if it is better, its kernel is the best one. Returns `is_better`."""
        self._note(name, kernel, verdict, is_better)
        if is_better:
            self.best, self.top = kernel, verdict
        return is_better

    def _note(self, name: str, kernel: Kernel, verdict: Verdict, kept: bool) -> None:
        """Record a round, and the time since the one before."""
        now = perf_counter()
        self.rounds.append(Round(name, kernel, verdict.density, kept, now - self._began, self.strategy.n_active))
        self._began = now
