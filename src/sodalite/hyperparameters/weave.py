"""Selection and hyperparameters that inform each other: the question that the paper leaves open.

A weave is a series of rounds. Some rows are set aside. Each round raises an objective over the kernel's parameters on
the others, with the choice of rows held fixed (the active rows, or the neighbourhoods), then chooses the rows anew and
asks how well those set aside are predicted; only a round that was worth something is kept. So no round can make things
worse by what it is judged by, and the cost is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, log
from time import perf_counter
from typing import NamedTuple, cast

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.types import Array
from ..kernels import CompiledKernel, compile_kernel, spacing
from ..kernels.neighbours import Neighbours
from ..posteriors import Evidence, Local
from ..posteriors.calibration import Scale, log_densities
from ..selection.factor import floored_factor
from ..selection.grow import grow
from ..selection.loop import Selection
from ..selection.source import Arrays
from ..stopping import Size
from .components import candidates, enriched
from .exact import find_exactly, or_as_given, with_optimism
from .joint import Joint
from .objectives import Foresight, Groups, Neighbourhoods
from .subset import ROUGH, Found, Round, Subset, Task, climb, free_parameters

FORM_LOSS = 0.005  # nats per row set aside that it may cost, or ...
TRADE = 0.05  # ... this share of the gain in likelihood per row, if that is more: gaps are not among those rows
WORTH = 1e-3  # the least gain per target value that a round is kept for
SHARES = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3)  # of the first kernel's noise, that are tried with shorter length-scales
NEAR = 3, 0.03  # halvings and share of noise beyond which ...
FAR_WORTH = 0.05  # ... the gain per row must be this much more: the subset's own parameters are not far off as a rule
MOST_HALVINGS = 12  # of the first kernel's length-scales
MOST_ROWS = 100_000  # of which the hyperparameters are learnt; fewer would be too far from each other


@dataclass(frozen=True)
class Weave:
    """Rounds of raising an objective and of choosing rows anew, each kept only if it was worth something.

    For the posterior "local", rounds raise in turn how well rows are predicted from their neighbours, and the exact
    likelihoods of many neighbourhoods and of two random blocks of rows. They are judged by how well the rows set aside
    are predicted, each from all others, as it will be. For the other posteriors, a round raises J of the active rows
    and a sample of the remainder, and is judged by J of the rows that are then chosen, which must not fall, and by how
    well the posterior predicts the rows set aside, which the choice of the active rows has not seen either: better than
    before by more than chance would have it. Active sets are small first, and grow.

    Where no kernel was given, other components may be added to the best one: a second scale, where there are few
    inputs, and periods that the targets show (`sodalite.hyperparameters.components`).

    Parameters
    ----------
    n_start : int, default=500
        Rows, drawn at random, whose exact likelihood gives the first kernel, for "local"; the other posteriors begin
        where `Subset` ends.
    n_rounds : int, default=6
        The most rounds after the kernel has been chosen.
    n_blocks, block_size : int, default=64, 64
        Neighbourhoods in a round, and rows in each.
    n_judged : int, default=1500
        Rows that a round is judged by.
    n_neighbours : int, default=32
        Neighbours that each of them is predicted from, ...
    n_active : int, default=64
        ... beside so many active rows, drawn at random.
    n_exact : int, default=1000
        Rows up to which there are no rounds: the exact likelihood of all rows is raised, from every scale, under a weak
        prior (`sodalite.hyperparameters.exact`). One evaluation costs O(n^3).
    """

    n_start: int = 500
    n_rounds: int = 6
    n_blocks: int = 64
    block_size: int = 64
    n_judged: int = 1500
    n_neighbours: int = 32
    n_active: int = 64
    n_exact: int = 1000

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
            found = find_exactly(task, kernels, generator)
            found = found if task.forms else or_as_given(found, task, kernels[0])
            return with_optimism(found, task, generator)
        if len(task.X) > MOST_ROWS:
            some = np.sort(generator.choice(len(task.X), MOST_ROWS, replace=False))
            alpha = None if task.alpha is None else task.alpha[some]
            task = replace(task, X=task.X[some], y=task.y[some], alpha=alpha)
        rounds: list[Round] = []
        began = perf_counter()
        end = began + task.seconds
        if task.posterior.leaves_out:
            first = kernels[(len(kernels) - 1) // 2]
            theta = find_exactly(self._thin(task, generator), [first], generator, ROUGH).kernel.theta
        else:  # the others' rounds go less far: they begin where a subset ends
            by_subset = Subset().find(replace(task, seconds=0.5 * task.seconds), kernels, generator).kernel
            theta = by_subset.theta
            same = by_subset.clone_with_theta(theta)  # whose parameters have been through the same rounding
            first = next(kernel for kernel in kernels if kernel.clone_with_theta(theta) == same)
        side = (_ByNeighbours if task.posterior.leaves_out else _ByActiveRows)(self, task, generator)

        def note(name: str, kernel: Kernel, verdict: Verdict, kept: bool) -> None:
            nonlocal began
            rounds.append(Round(name, kernel, verdict.density, kept, perf_counter() - began, side.n_active))
            began = perf_counter()

        best = origin = side.scaled(first.clone_with_theta(theta))
        top = side.judge(best)
        note("start", best, top, True)
        if not task.forms and perf_counter() <= end:  # a user's kernel: good parameters are not to be lost
            given = first.clone_with_theta(first.theta)
            verdict = side.judge(given)
            better = verdict.beats(top)
            note("as given", given, verdict, better)
            if better:
                best, origin, top = given, given, verdict
        for kernel in sorted(kernels, key=lambda kernel: kernel is not first):
            if perf_counter() > end:
                return Found(best, tuple(rounds))
            tried = side.raised(kernel.clone_with_theta(best.theta), steps=10 if kernel is first else 6)
            verdict = side.judge(tried)
            better = verdict.beats(top)
            note("a short run", tried, verdict, better)
            if better:
                best, top = tried, verdict
        for name, form in candidates(side.groups, *side.errors(best)) if task.forms else ():
            if perf_counter() > end:
                return Found(best, tuple(rounds))
            for tried, gain in enriched(best, form, side.groups, lambda kernel: side.judge(kernel).density, generator):
                verdict = side.judge(tried)
                better = side.accepts(verdict, top, gain)
                note(name, tried, verdict, better)
                if better:
                    best, top = tried, verdict
                    break
        missed = 0
        for turn in range(self.n_rounds):
            if perf_counter() > end:
                break
            if side.grow():  # a larger active set is another yardstick, also for where it all began
                top, verdict = side.judge(best), side.judge(origin)
                fallen = best is not origin and not top.beats(verdict)
                note("start again", origin, verdict, fallen)
                if fallen:
                    best, top = origin, verdict
            tried = side.raised(best, steps=8, turn=turn + 1)
            verdict, name = side.judge(tried), "round"
            if not verdict.beats(top, WORTH):  # perhaps it went too far
                tried = best.clone_with_theta(0.5 * (best.theta + tried.theta))
                verdict, name = side.judge(tried), "half a round"
            better = verdict.beats(top, WORTH)
            note(name, tried, verdict, better)
            if better:
                best, top, missed = tried, verdict, 0
                continue
            missed += 1
            if missed >= side.patience and not side.can_grow:
                break
        return Found(best, tuple(rounds))

    def _thin(self, task: Task, generator: np.random.Generator) -> Task:
        """A few of the rows, to begin with: this is short, and no component is added yet."""
        rows = generator.permutation(len(task.X))[: self.n_start]
        alpha = None if task.alpha is None else task.alpha[rows]
        return replace(task, X=task.X[rows], y=task.y[rows], alpha=alpha, seconds=inf, forms=False)


class Verdict(NamedTuple):
    """What a kernel is worth, per target value."""

    densities: Array
    """The log density of the rows set aside: of each, or of all of them together."""
    joint: float = 0.0
    """J, where it is what rounds raise."""

    @property
    def density(self) -> float:
        return float(self.densities.mean())

    def beats(self, other: Verdict, worth: float = 0.0) -> bool:
        """Whether the rows are better predicted, by more than chance and by what it should be worth, and J no lower."""
        if not np.isfinite([self.density, other.density]).all():
            return bool(self.density > other.density)
        gain = self.densities - other.densities
        chance = gain.std() / np.sqrt(len(gain))  # the standard error of the mean
        return self.joint >= other.joint and bool(gain.mean() > max(worth, chance))


def _set_aside(task: Task, count: int, generator: np.random.Generator) -> tuple[Array, Array]:
    """The rows that rounds are judged by, at most a third, and those that they may use; each in random order."""
    rows = generator.permutation(len(task.X))
    if len(rows) == 1:
        return rows, rows
    count = min(count, max(len(rows) // 3, 1))
    return rows[:count], rows[count:]


class _ByNeighbours:
    """Rounds for "local"."""

    n_active = None
    can_grow = False
    patience = 2  # one for each objective

    def __init__(self, weave: Weave, task: Task, generator: np.random.Generator) -> None:
        self.weave, self.task, self.generator = weave, task, generator
        self.judged, others = _set_aside(task, weave.n_judged, generator)
        self.active = others[: min(weave.n_active, task.n_active)]
        self.groups = Groups(task.X[others], task.y[others], None if task.alpha is None else task.alpha[others])
        self.k = min(32, len(self.groups.places) - 1)

    def grow(self) -> bool:
        return False

    def judge(self, kernel: Kernel) -> Verdict:
        """How well rows are predicted from all others, as they will be: by active rows and neighbours, scaled."""
        compiled = compile_kernel(kernel, self.task.X)
        left = self._left_out(compiled)
        if left is None:
            return Verdict(np.full(1, -np.inf))
        return Verdict(np.full(1, Scale.fit(compiled, self.task.X[self.judged], *left).density))

    def errors(self, kernel: Kernel) -> tuple[Array, Array]:
        """The rows that judge, and the errors of their predictions."""
        left = self._left_out(compile_kernel(kernel, self.task.X))
        X = np.asarray(self.task.X[self.judged], dtype=np.float64)
        return X, self.task.y[self.judged] if left is None else left[0].reshape(len(X), -1)

    def _left_out(self, kernel: CompiledKernel) -> tuple[Array, Array] | None:
        """Errors and variances of the rows that judge, each predicted from all others; None if there are none."""
        task, given = self.task, self._given(kernel)
        if given is None:
            return None
        kind = cast("type[Local]", task.posterior)  # which leaves rows out as that does
        local, rows = kind.prepare(Evidence(kernel, Arrays(task.X, task.y, task.alpha), given))
        return local.errors(rows.take(self.judged), min(self.weave.n_neighbours, len(local.X)))

    def accepts(self, verdict: Verdict, top: Verdict, gain: float) -> bool:
        """Whether another component, which makes rows more likely by `gain` each, may stay."""
        return verdict.density > top.density - max(FORM_LOSS, TRADE * gain)

    def _given(self, kernel: CompiledKernel) -> Selection | None:
        """The active rows, as if they had been selected; None if the kernel gives no numbers for them."""
        active = self.active
        rows = kernel.prepare(self.task.X[active])
        noise = kernel.noise(rows) + (0 if self.task.alpha is None else self.task.alpha[active])
        K = kernel.block(rows, rows)
        if not np.isfinite(K).all() or not np.isfinite(noise).all():
            return None
        L, floor = floored_factor(K, noise, float(kernel.diag(rows).max()))
        unknown = np.full(len(active), np.nan)
        return Selection(active, unknown, L, unknown, "n_active", floor, len(active))

    def scaled(self, kernel: Kernel) -> Kernel:
        """The kernel with all length-scales and the noise moved together to where neighbours are predicted best.

        A thin subset sees no short length-scales, and may take what varies quickly for noise. Scaling all lengths
        alike changes nobody's neighbours, so a few hundred rows tell quickly.
        """
        some = self.generator.permutation(len(self.groups.X))[:500]
        objective = Foresight(self.groups, kernel, some, min(self.k, 24))
        parameters = free_parameters(kernel)
        best, top, best_is_far = kernel.theta, -np.inf, False
        for halvings in range(self._halvings(kernel) + 1):
            for share in SHARES:
                theta = kernel.theta.copy()
                for name, here in parameters:
                    if name == "length_scale":
                        theta[here] -= halvings * log(2)
                    elif name == "noise_level":
                        theta[here] += log(share)
                theta = np.clip(theta, kernel.bounds[:, 0], kernel.bounds[:, 1])
                value = objective.value(theta)
                far = halvings > NEAR[0] or share < NEAR[1]
                if value > top + FAR_WORTH * (far and not best_is_far):
                    best, top, best_is_far = theta, value, far
        return kernel.clone_with_theta(best)

    def _halvings(self, kernel: Kernel) -> int:
        """How often the length-scales can be halved before they are shorter than half the rows' spacing."""
        weights = compile_kernel(kernel, self.groups.X).metric()
        if weights is None:
            return 3
        nearest = spacing(self.groups.X * np.sqrt(weights))
        return int(np.clip(np.ceil(np.log2(2 / nearest)), 1, MOST_HALVINGS)) if nearest else 3

    def raised(self, kernel: Kernel, steps: int, turn: int = 0) -> Kernel:
        """A few steps up one of two objectives in turn, on fresh rows.

        The likelihood of neighbourhoods and two random blocks; and foresight.
        """
        weave, groups = self.weave, self.groups
        rows = self.generator.permutation(len(groups.X))
        if turn % 2:
            foresight = Foresight(groups, kernel, rows[:1000], self.k)
            return kernel.clone_with_theta(climb(foresight, kernel.theta, kernel.bounds, steps)[1])
        near = Neighbours(compile_kernel(kernel, groups.X), groups.X)
        count = min(weave.n_blocks, max(1, 2 * len(rows) // weave.block_size))  # enough to see every row twice
        blocks = list(near.query(groups.X[rows[:count]], weave.block_size))
        size = 6 * weave.block_size
        blocks += [rows[:size], rows[-size:]] if len(rows) > size else [rows]
        objective = Neighbourhoods(kernel, groups.X, groups.y, blocks, groups.alpha)
        return kernel.clone_with_theta(climb(objective, kernel.theta, kernel.bounds, steps)[1])


class _ByActiveRows:
    """Rounds for the posteriors that know the active rows alone, or see the others through them."""

    sizes = (100, 200, 400)
    patience = 1  # the same rows again would say the same
    n_raised = 4000

    def __init__(self, weave: Weave, task: Task, generator: np.random.Generator) -> None:
        judged, others = _set_aside(task, 2 * weave.n_judged, generator)  # each costs little
        self.aside = task.X[judged], task.y[judged], None if task.alpha is None else task.alpha[judged]
        alpha = None if task.alpha is None else task.alpha[others]
        self.task = replace(task, X=task.X[others], y=task.y[others], alpha=alpha)
        self.groups = Groups(self.task.X, self.task.y, alpha)
        most = max(1, min(task.n_active, len(task.X) // 2))
        self.plan = sorted({min(size, most) for size in self.sizes})
        self.n_active = self.plan.pop(0)
        self.last: tuple[Kernel, Selection] | None = None

    @property
    def can_grow(self) -> bool:
        return bool(self.plan)

    def grow(self) -> bool:
        if not self.plan:
            return False
        self.n_active, self.last = self.plan.pop(0), None
        return True

    def judge(self, kernel: Kernel) -> Verdict:
        """How well the posterior predicts the rows set aside, and J of the rows that the kernel chooses."""
        error, variance = self._predicted(kernel)
        alpha, floor = self.aside[2], self._chosen(kernel).noise_floor
        densities = log_densities(error, np.maximum(variance if alpha is None else variance + alpha, floor))
        return Verdict(densities, self._joint(kernel)(kernel.theta)[0])

    def errors(self, kernel: Kernel) -> tuple[Array, Array]:
        """The rows that judge, and the errors of their predictions."""
        return np.asarray(self.aside[0], dtype=np.float64), self._predicted(kernel)[0]

    def _predicted(self, kernel: Kernel) -> tuple[Array, Array]:
        """Errors and variances of the rows set aside."""
        task, (X, y, _) = self.task, self.aside
        source = Arrays(task.X, task.y, task.alpha)
        evidence = Evidence(compile_kernel(kernel, task.X), source, self._chosen(kernel))
        mean, variance = task.posterior.condition(evidence).mean_and_variance(X, noisy=True)
        return y - mean, variance

    def accepts(self, verdict: Verdict, top: Verdict, gain: float) -> bool:
        return verdict.beats(top)

    def scaled(self, kernel: Kernel) -> Kernel:
        return kernel

    def raised(self, kernel: Kernel, steps: int, turn: int = 0) -> Kernel:
        """A few steps up J, the active rows held."""
        return kernel.clone_with_theta(climb(self._joint(kernel), kernel.theta, kernel.bounds, steps)[1])

    def _joint(self, kernel: Kernel) -> Joint:
        task = self.task
        sample = np.arange(min(self.n_raised, len(task.X)))  # these are in random order
        return Joint(kernel, task.X, task.y, self._chosen(kernel).indices, sample, task.alpha)

    def _chosen(self, kernel: Kernel) -> Selection:
        """The active rows; the last choice is remembered, for the round that starts where one was judged."""
        if self.last is None or self.last[0] is not kernel:
            task = self.task
            chosen = grow(
                Arrays(task.X, task.y, task.alpha),
                compile_kernel(kernel, task.X),
                n_active=self.n_active,
                score=task.score,
                rule=Size(self.n_active),
                generator=np.random.default_rng(0),
            )
            self.last = kernel, chosen
        return self.last[1]
