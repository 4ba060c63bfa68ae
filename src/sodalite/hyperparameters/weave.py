"""Selection and hyperparameters that inform each other: the question that the paper leaves open.

A weave is a series of rounds. Some rows are set aside. Each round raises an objective over the kernel's parameters on
the others, with the choice of rows held fixed (the active rows, or the neighbourhoods), then chooses the rows anew and
asks how well those set aside are predicted; only a round that was worth something is kept. So no round can make things
worse by what it is judged by, and the cost is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import inf, log
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky
from sklearn.gaussian_process.kernels import Kernel

from ..calibration import Scale, log_densities
from ..jitter import with_jitter
from ..kernels import CompiledKernel, compile_kernel, spacing
from ..loop import Selection
from ..neighbours import Neighbours
from ..posteriors import Evidence, Local, resolve_posterior
from ..scores import Delta
from ..selection import grow
from ..stopping import Size
from ..threads import one_blas_thread
from .exact import find_exactly, forms
from .joint import Joint
from .objectives import Foresight, Groups, Neighbourhoods
from .subset import Found, Round, Subset, Task, climb, climb_all, free_parameters, log_marginal_likelihood

Array = NDArray[Any]

FORM_INPUTS = 3  # inputs up to which other components are tried: with more, none was ever better
FORM_GAIN = 5.0  # nats by which another component of the kernel must make other rows, some thousand, more likely
FORM_LOSS = 0.005  # nats per row set aside that it may cost, or ...
TRADE = 0.05  # ... this share of the gain in likelihood per row, if that is more: gaps are not among those rows
FLATTER = 300.0  # by which a length-scale is longer in an input that a component is all but constant in
N_CLIMBED = 2  # starts of another component that are climbed
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

    Where no kernel was given and there are few inputs, other components may be added to the best one for "local": a
    second scale, and periods that the targets show (`sodalite.kernels.forms`).

    Parameters
    ----------
    start : Subset
        Where the first kernel comes from, for "local"; the other posteriors begin where `Subset` ends.
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

    start: Subset = field(default_factory=lambda: Subset(n_rows=500, n_screen=200, n_steps=10))
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
            return find_exactly(task, kernels, generator)
        if len(task.X) > MOST_ROWS:
            some = np.sort(generator.choice(len(task.X), MOST_ROWS, replace=False))
            alpha = None if task.alpha is None else task.alpha[some]
            task = replace(task, X=task.X[some], y=task.y[some], alpha=alpha)
        rounds: list[Round] = []
        began = perf_counter()
        end = began + task.seconds
        if task.posterior == "local":
            first = kernels[(len(kernels) - 1) // 2]
            theta = self.start.find(replace(task, seconds=inf), [first], generator).kernel.theta  # it is short
        else:  # the others' rounds go less far: they begin where a subset ends
            found = Subset().find(replace(task, seconds=0.5 * task.seconds), kernels, generator).kernel
            theta = found.theta
            same = found.clone_with_theta(theta)  # whose parameters have been through the same rounding
            first = next(kernel for kernel in kernels if kernel.clone_with_theta(theta) == same)
        side = (_ByNeighbours if task.posterior == "local" else _ByActiveRows)(self, task, generator)

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
        for name, form in side.forms() if task.forms else ():
            if perf_counter() > end:
                return Found(best, tuple(rounds))
            for tried, gain in side.enriched(best, form):
                verdict = side.judge(tried)
                better = verdict.density > top.density - max(FORM_LOSS, TRADE * gain)
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


def _grid(kernel: Kernel, richer: Kernel) -> Iterator[Array]:
    """Log-parameters of a kernel that has one component more than another, to start from.

    The other's variances are less and its length-scales longer by some factors; so is the new component's variance,
    whose place among the parameters is before the noise, which comes last. With several inputs, the new component may
    also be all but constant in one of them: a season that is the same every year, for one.
    """
    new, old = int(kernel.n_dims) - 1, free_parameters(kernel)
    scales = [here for name, here in free_parameters(richer) if name == "length_scale" and here.start > new]
    inputs = range(scales[0].start, scales[0].stop) if scales and scales[0].stop - scales[0].start > 1 else ()
    for less, longer, share, flat in product((1.0, 0.03), (1.0, 8.0, 64.0), (1.0, 0.1, 0.01), (None, *inputs)):
        theta = richer.theta.copy()
        for name, here in old:
            theta[here] += {"constant_value": log(less), "length_scale": log(longer)}.get(name, 0.0)
        theta[new] += log(share)
        if flat is not None:
            theta[flat] += log(FLATTER)
        yield np.clip(theta, richer.bounds[:, 0], richer.bounds[:, 1])


def _likelihoods(kernel: Kernel, groups: Groups, windows: Sequence[Array]) -> Array:
    """The log likelihood of each of some sets of rows."""
    compiled = compile_kernel(kernel, groups.X)
    return np.array([log_marginal_likelihood(compiled, groups.X[w], groups.y[w], groups.alpha[w])[0] for w in windows])


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
        task, compiled = self.task, compile_kernel(kernel, self.task.X)
        given = self._given(compiled)
        if given is None:
            return Verdict(np.full(1, -np.inf))
        local, rows = Local.prepare(Evidence(compiled, task.X, task.y, given, task.alpha))
        error, variance = local.errors(rows.take(self.judged), min(self.weave.n_neighbours, len(local.X)))
        return Verdict(np.full(1, Scale.fit(compiled, task.X[self.judged], error, variance).density))

    def _given(self, kernel: CompiledKernel) -> Selection | None:
        """The active rows, as if they had been selected; None if the kernel gives no numbers for them."""
        active = self.active
        rows = kernel.prepare(self.task.X[active])
        noise = kernel.noise(rows) + (0 if self.task.alpha is None else self.task.alpha[active])
        K = kernel.block(rows, rows)
        if not np.isfinite(K).all() or not np.isfinite(noise).all():
            return None

        def factor(floor: float) -> tuple[Array, float]:
            return cholesky(K + np.diag(np.maximum(noise, floor)), lower=True), floor

        with one_blas_thread():
            L, floor = with_jitter(factor, float(kernel.diag(rows).max()))
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

    def forms(self) -> list[tuple[str, Callable[[Kernel], Kernel]]]:
        """Components that may be added to a kernel."""
        groups = self.groups
        return forms(groups.X, groups.y)[1:] if groups.X.shape[1] <= FORM_INPUTS else []

    def enriched(self, kernel: Kernel, form: Callable[[Kernel], Kernel]) -> list[tuple[Kernel, float]]:
        """The kernel with another component, if that makes other rows more likely, and by how much per target value.

        Likelihoods are those of windows of neighbouring rows and of random rows. Some are raised, from the best of a
        grid of variances and length-scales of what was there and variances of the new component; others judge. Where
        several starts lead to something, the one that predicts rows best comes first.
        """
        groups, richer = self.groups, form(kernel)
        windows = self._windows(kernel)
        objective, coarse = (
            Neighbourhoods(richer, groups.X, groups.y, some, groups.alpha) for some in (windows, windows[1:3])
        )
        starts = sorted(_grid(kernel, richer), key=lambda theta: -coarse(theta)[0])
        ends = climb_all(objective, starts[:N_CLIMBED], richer.bounds, 20)
        windows = self._windows(kernel)
        plain = _likelihoods(kernel, groups, windows)
        found = []
        for _, theta in ends:
            tried = richer.clone_with_theta(theta)
            gains = _likelihoods(tried, groups, windows) - plain
            if gains.sum() > FORM_GAIN and np.median(gains) > 0:
                found.append((tried, float(gains.sum()) / (sum(map(len, windows)) * groups.y.shape[1])))
        return found if len(found) < 2 else sorted(found, key=lambda each: -self.judge(each[0]).density)

    def _windows(self, kernel: Kernel) -> list[Array]:
        """Two windows of neighbouring rows and two random sets of rows."""
        rows = self.generator.permutation(len(self.groups.X))
        size = min(3 * self.weave.block_size, len(rows))
        near = Neighbours(compile_kernel(kernel, self.groups.X), self.groups.X)
        return [*near.query(self.groups.X[rows[:2]], size), rows[:size], rows[-size:]]

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
        task, (X, y, alpha) = self.task, self.aside
        chosen = self._chosen(kernel)
        evidence = Evidence(compile_kernel(kernel, task.X), task.X, task.y, chosen, task.alpha)
        mean, variance = resolve_posterior(task.posterior).condition(evidence).mean_and_variance(X, noisy=True)
        if alpha is not None:
            variance = variance + alpha
        densities = log_densities(y - mean, np.maximum(variance, chosen.noise_floor))
        return Verdict(densities, self._joint(kernel)(kernel.theta)[0])

    def scaled(self, kernel: Kernel) -> Kernel:
        return kernel

    def forms(self) -> list[tuple[str, Callable[[Kernel], Kernel]]]:
        return []

    def enriched(self, kernel: Kernel, form: Callable[[Kernel], Kernel]) -> list[tuple[Kernel, float]]:
        return []

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
                task.X,
                task.y,
                compile_kernel(kernel, task.X),
                n_active=self.n_active,
                score=Delta() if task.score is None else task.score,
                rule=Size(self.n_active),
                generator=np.random.default_rng(0),
                alpha=task.alpha,
            )
            self.last = kernel, chosen
        return self.last[1]
