"""How the rounds of a weave raise a kernel's parameters, and how they are judged (docs/method.rst, `weave`).

`ByNeighbours` is for a posterior that predicts rows from their neighbours, as "local" does; `ByActiveRows` for one that
knows the active rows alone, or sees the others through them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import e, inf, log, pi
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.types import Floats, Indices
from ..kernels import CompiledKernel, compile_kernel, spacing, variation
from ..kernels.jitter import floored_factor
from ..kernels.neighbours import Neighbours
from ..posteriors import Evidence, Local
from ..posteriors.calibration import Scale, log_densities
from ..posteriors.far import novelty_of
from ..posteriors.shape import density_of_t
from ..selection.grow import grow
from ..selection.loop import Selection
from ..selection.rows import ArrayRows
from ..stopping import Size
from .climb import climb
from .holes import MOST_ROWS, Holes
from .joint import Joint
from .objectives import Foresight, Groups, Neighbourhoods
from .parameters import clipped, free_parameters, set_shares
from .task import Task

if TYPE_CHECKING:
    from .weave import Weave

# Accepting another component, in nats per row set aside. Gaps in the data are not among those rows, so a component that
# fills gaps may predict them a little worse.
FORM_LOSS = 0.005  # a loss that is accepted always
TRADE = 0.05  # a loss that is accepted, as a share of the gain in likelihood per target value

# The grid of `ByNeighbours.scaled`.
N_SCALED = 500  # rows that it is judged by
SCALED_NEIGHBORS = 24  # the most neighbours that each is predicted from there
SHARES = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3)  # factors of the noise
NOISY_SHARES = (0.9, 0.99)  # shares of the noise in the targets' variance that are tried without changing length-scales
MOST_HALVINGS = 12  # most halvings of the length-scales: bounds the grid where two rows nearly coincide
USUAL_HALVINGS = 3  # where the kernel has no metric, or rows coincide
NEAR_HALVINGS, NEAR_SHARE = 3, 0.03  # a point of the grid with more halvings or less noise is far from the start
FAR_WORTH = 0.05  # nats per row that a point far from the start must gain more: the start is seldom that far off

MOST_LIFTED = 8  # length-scales shorter than the gaps of an input that are tried longer; each takes two searches

BLIND = 0.9  # median novelty of rows set aside above which a kernel has no length-scale that reaches another row

# Rows set aside thin out the neighbours of the others. Further rows judge that stay neighbours, but are not raised: the
# more judge, the less does chance decide between two shapes (pol: 0.018 nats with 1500 rows, 0.013 with 4000).
N_MORE = 2500  # the most further rows that judge
MORE_SHARE = 4  # at most one row in so many, beside those set aside, is such a further row
N_FORESIGHT = 2500  # rows whose leave-one-out densities a round raises: with 1000, 26 length-scales followed chance
RANDOM_BLOCK = 6  # rows in a random block, in units of `block_size`: they see the long length-scales
BY_LIKELIHOOD, BY_FORESIGHT = 0, 1  # what `ByNeighbours.raised` raises in even and in odd turns


class Verdict(NamedTuple):
    """The value of a kernel, per target value."""

    densities: Floats
    """Log densities of the rows set aside: of shape (rows,), or (1,) if they are judged together."""
    joint: float = 0.0
    """J, for strategies that raise it."""

    @property
    def density(self) -> float:
        return float(self.densities.mean())

    def beats(self, other: Verdict, worth: float = 0.0) -> bool:
        """Whether the mean density is larger, by more than `worth` and than its standard error, and J is no lower."""
        if not np.isfinite([self.density, other.density]).all():
            return bool(self.density > other.density)
        gain = self.densities - other.densities
        standard_error = gain.std() / np.sqrt(len(gain))
        return self.joint >= other.joint and bool(gain.mean() > max(worth, standard_error))


class Strategy(Protocol):
    """How a weave goes about it for one kind of posterior."""

    groups: Groups
    """The rows that rounds may use."""

    @property
    def scattered(self) -> Indices:
        """Which rows of `groups` are a random sample of all rows."""
        ...

    @property
    def fills_gaps(self) -> bool:
        """Whether kernels are judged by rows close to others alone, so that a far scale has to be tried besides."""
        ...

    @property
    def patience(self) -> int:
        """How many rounds in a row may fail before the search ends."""
        ...

    @property
    def n_active(self) -> int | None:
        """The number of active rows that kernels are judged with; None if that is always the same."""
        ...

    @property
    def can_grow(self) -> bool:
        """Whether `grow` will be able to enlarge the active set."""
        ...

    def grow(self) -> bool:
        """Enlarge the active set, if that is planned; whether it was. Verdicts before and after do not compare."""
        ...

    def scaled(self, kernel: Kernel) -> Kernel:
        """The first kernel, moved to a better scale if the strategy can tell."""
        ...

    def judge(self, kernel: Kernel) -> Verdict:
        """The value of a kernel, by the rows set aside."""
        ...

    def holes(self, generator: np.random.Generator) -> Holes:
        """Holes in the rows, by which kernels are compared where rows close to others do not tell."""
        ...

    def errors(self, kernel: Kernel) -> tuple[Floats, Floats]:
        """The rows set aside, of shape (rows, d), and the errors of their predictions, (rows, q)."""
        ...

    def accepts(self, verdict: Verdict, top: Verdict, gain: float) -> bool:
        """Whether another component may stay, which makes rows more likely by `gain` per target value."""
        ...

    def raised(self, kernel: Kernel, steps: int, turn: int = 0, end: float = inf) -> Kernel:
        """The kernel after a climb of a few steps on the rows that rounds may use, none of them after `end`."""
        ...

    def is_blind(self, kernel: Kernel) -> bool:
        """Whether the kernel's length-scales are shorter than all distances, so that it knows nothing of any row."""
        ...


def _set_aside(task: Task, count: int, generator: np.random.Generator) -> tuple[Indices, Indices]:
    """The rows that judge, at most a third of all, and the rows that rounds may use; each in random order."""
    order = generator.permutation(len(task.X))
    if len(order) == 1:
        return order, order
    count = min(count, max(len(order) // 3, 1))
    return order[:count], order[count:]


class _RowRoles(NamedTuple):
    """What the rows of a task are for."""

    judged: Indices
    """Rows set aside, and others that no round raises."""
    others: Indices
    """All rows but those set aside."""
    raising: Indices
    """Which of the others rounds predict, or take neighbourhoods around: positions there."""
    scattered: Indices
    """Which of the others are a random sample of all rows: positions there."""


def _roles(task: Task, count: int, generator: np.random.Generator) -> _RowRoles:
    """The roles of the rows, at most `count` of which are set aside; of windows, centres judge and are raised."""
    if task.windows is None:
        judged, others = _set_aside(task, count, generator)
        every = np.arange(len(others))
        raising, more = np.split(every, [len(others) - min(N_MORE, len(others) // MORE_SHARE)])
        return _RowRoles(np.concatenate([judged, others[more]]), others, raising, every)
    centres, scattered = generator.permutation(task.windows.centres), task.windows.scattered
    judged, raising = np.split(centres, [min(count, len(centres) // 2)])
    near = np.setdiff1d(np.arange(len(task.X)), np.concatenate([centres, scattered]))
    others = np.concatenate([scattered, raising, near])
    places = np.split(np.arange(len(others)), np.cumsum([len(scattered), len(raising)]))
    return _RowRoles(judged, others, places[1], places[0])


class ByNeighbours:
    """Rounds for "local". Rows are judged by leave-one-out predictions from active rows and neighbours."""

    n_active = None
    can_grow = False
    fills_gaps = True
    patience = 2  # one for each objective

    def __init__(self, weave: Weave, task: Task, generator: np.random.Generator) -> None:
        self.weave, self.task, self.generator = weave, task, generator
        self.judged, others, self.raising, self.scattered = _roles(task, weave.n_judged, generator)
        self.active = others[: min(weave.n_active, task.n_active)]
        part = task.take(others)
        self.groups = Groups(part.X, part.y, part.alpha)
        self.k = min(weave.n_neighbors, len(self.groups.places) - 1)

    def grow(self) -> bool:
        return False

    def judge(self, kernel: Kernel) -> Verdict:
        """The mean log density of the leave-one-out errors of the rows set aside, by two distributions.

        One is as predictions will have it: Student's t with calibrated standard deviations. The other is a Gaussian
        with one variance for all rows, whose log density is minus the logarithm of the RMSE. Without it, a kernel that
        knows well where it errs could be taken for one that errs less.

        A few rows do not calibrate all that a kernel's variances are wrong by, and a t would hide the rest: it is
        subtracted, as what a Gaussian loses by it.
        """
        compiled = compile_kernel(kernel, self.task.X)
        left = self._left_out(compiled)
        if left is None:
            return Verdict(np.full(1, -np.inf))
        error, variance = left
        learnt = Scale.fit_each(compiled, self.task.X[self.judged], error[None], variance[None])[0]
        square = max(float(np.mean(np.square(error))), np.finfo(np.float64).tiny)
        even = -0.5 * log(2 * pi * e * square)
        off = float(np.mean(np.square(error) / learnt.variance[:, None]))
        lost = 0.5 * (off - 1 - log(off)) if off > 0 else 0.0
        return Verdict(np.full(1, 0.5 * (density_of_t(error, np.sqrt(learnt.variance)) + even) - lost))

    def holes(self, generator: np.random.Generator) -> Holes:
        """Holes in a random sample of the rows."""
        groups = self.groups
        which = np.sort(generator.permutation(self.scattered)[:MOST_ROWS])  # windows are denser than all rows
        rows = ArrayRows(groups.X[which], groups.y[which], groups.alpha[which])
        return Holes(rows, generator.permutation(len(which)), generator)

    def errors(self, kernel: Kernel) -> tuple[Floats, Floats]:
        left = self._left_out(compile_kernel(kernel, self.task.X))
        X = np.asarray(self.task.X[self.judged], dtype=np.float64)
        return X, self.task.y[self.judged] if left is None else left[0].reshape(len(X), -1)

    def accepts(self, verdict: Verdict, top: Verdict, gain: float) -> bool:
        return verdict.density > top.density - max(FORM_LOSS, TRADE * gain)

    def _left_out(self, kernel: CompiledKernel) -> tuple[Floats, Floats] | None:
        """Leave-one-out errors, (rows, q), and variances, (rows,), of the rows set aside.

        None if the kernel gives no finite covariances.
        """
        task, selection = self.task, self._selection(kernel)
        if selection is None:
            return None
        assert issubclass(task.posterior, Local)
        evidence = Evidence(kernel, ArrayRows(task.X, task.y, task.alpha), selection)
        local = task.posterior.prepare(evidence)
        size = min(self.weave.n_neighbors, len(local.X))
        (error,), (variance,) = local.own_errors(evidence.take(self.judged), (size,))
        return error, variance

    def _selection(self, kernel: CompiledKernel) -> Selection | None:
        """The active rows as a selection; None if the kernel gives no finite covariances."""
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
        """The kernel at the point of a grid of length-scales and noise where rows are predicted best.

        A thin subset sees no short length-scales, and may take what varies quickly for noise; or it sees a function in
        what is noise. All length-scales are divided by the same number, which changes no neighbours, so one objective
        on a few hundred rows serves all points.
        """
        some = self.generator.permutation(self.raising)[:N_SCALED]
        objective = Foresight(self.groups, kernel, some, min(self.k, SCALED_NEIGHBORS))
        best, top, best_is_far = kernel.theta, -np.inf, False
        for point in _scale_grid(kernel, self._halvings(kernel), variation(self.groups.y)):
            value = objective.value(point.theta)
            if value > top + FAR_WORTH * (point.is_far and not best_is_far):
                best, top, best_is_far = point.theta, value, point.is_far
        return self._lifted(kernel.clone_with_theta(best), some, top)

    def _lifted(self, kernel: Kernel, some: Indices, top: float) -> Kernel:
        """The kernel with length-scales as long as the gaps between an input's values, where rows are predicted better.

        Between rows that differ in an input such as a year, a length-scale much shorter than a year leaves no
        covariance. No climb comes back from there, since the gradient vanishes.

        Parameters
        ----------
        kernel : scikit-learn kernel
        some : array of int
            Rows that judge.
        top : float
            Their mean log density by the kernel.
        """
        theta = kernel.theta
        for place, gap in _in_gaps(kernel, self.groups.X):
            for length in (gap, 2 * gap):
                tried = theta.copy()
                tried[place] = log(length)
                tried = clipped(tried, kernel)
                objective = Foresight(self.groups, kernel.clone_with_theta(tried), some, min(self.k, SCALED_NEIGHBORS))
                if (value := objective.value(tried)) > top:
                    theta, top = tried, value
        return kernel.clone_with_theta(theta)

    def is_blind(self, kernel: Kernel) -> bool:
        compiled = compile_kernel(kernel, self.task.X)
        left, features = self._left_out(compiled), compiled.prepare(self.task.X[self.judged])
        if left is None:
            return False
        noise = compiled.noise(features) + (0 if self.task.alpha is None else self.task.alpha[self.judged])
        return bool(np.median(novelty_of(np.maximum(left[1] - noise, 0), compiled.diag(features))) > BLIND)

    def _halvings(self, kernel: Kernel) -> int:
        """How often the length-scales can be halved before they are shorter than half the rows' spacing."""
        weights = compile_kernel(kernel, self.groups.X).metric()
        nearest = 0.0 if weights is None else spacing(self.groups.X * np.sqrt(weights))
        return int(np.clip(np.ceil(np.log2(2 / nearest)), 1, MOST_HALVINGS)) if nearest else USUAL_HALVINGS

    def raised(self, kernel: Kernel, steps: int, turn: int = 0, end: float = inf) -> Kernel:
        """The kernel after a climb on fresh rows: of foresight in odd turns, of likelihoods of blocks in even ones."""
        order = self.generator.permutation(self.raising)
        if turn % 2 == BY_FORESIGHT:
            objective: Foresight | Neighbourhoods = Foresight(self.groups, kernel, order[:N_FORESIGHT], self.k)
        else:
            objective = self._neighbourhoods(kernel, order)
        return kernel.clone_with_theta(climb(objective, kernel.theta, kernel.bounds, steps, end)[1])

    def _neighbourhoods(self, kernel: Kernel, order: Indices) -> Neighbourhoods:
        """The likelihoods of blocks of rows around some, given in random order, and of two random blocks."""
        groups, size = self.groups, self.weave.block_size
        near = Neighbours(compile_kernel(kernel, groups.X), groups.X)
        count = min(self.weave.n_blocks, max(1, 2 * len(order) // size))  # enough to see every row twice
        blocks = list(near.query(groups.X[order[:count]], size))
        far = order if self.task.windows is None else self.generator.permutation(self.scattered)
        large = RANDOM_BLOCK * size
        blocks += [far[:large], far[-large:]] if len(far) > large else [far]
        return Neighbourhoods(kernel, groups.X, groups.y, blocks, groups.alpha)


class _Point(NamedTuple):
    """A point of the grid of `ByNeighbours.scaled`."""

    theta: Floats
    is_far: bool
    """Whether it is far from the kernel as it was."""


def _scale_grid(kernel: Kernel, most_halvings: int, variance: float) -> Iterator[_Point]:
    """Yield a kernel's log-parameters with all length-scales halved 0 to `most_halvings` times, and less noise.

    Before these, with nearly all of the variance as noise. Without that, the only way to say so on this grid would be
    length-scales shorter than all distances, from which no climb comes back.
    """
    parameters = free_parameters(kernel)
    for theta in mostly_noise(kernel, variance):
        yield _Point(theta, False)
    for halvings, share in product(range(most_halvings + 1), SHARES):
        theta = kernel.theta.copy()
        for name, here in parameters:
            if name == "length_scale":
                theta[here] -= halvings * log(2)
            elif name == "noise_level":
                theta[here] += log(share)
        yield _Point(clipped(theta, kernel), halvings > NEAR_HALVINGS or share < NEAR_SHARE)


def _in_gaps(kernel: Kernel, X: Floats) -> list[tuple[int, float]]:
    """The places in theta of length-scales that are shorter than the gaps of an input, each with the median gap.

    The shortest relative to the gap come first, and no more than `MOST_LIFTED`.
    """
    gaps = [float(np.median(np.diff(values))) if len(values := np.unique(column)) > 1 else 0.0 for column in X.T]
    found = []
    for name, here in free_parameters(kernel):
        if name == "length_scale" and here.stop - here.start == len(gaps):
            lengths = np.exp(kernel.theta[here])
            places = zip(range(here.start, here.stop), gaps, lengths, strict=True)
            found += [(length / gap, place, gap) for place, gap, length in places if length < gap]
    return [(place, gap) for _, place, gap in sorted(found)[:MOST_LIFTED]]


def mostly_noise(kernel: Kernel, variance: float) -> Iterator[Floats]:
    """Yield log-parameters with nearly all of the variance as noise, of a kernel whose noise is free."""
    parameters = free_parameters(kernel)
    if not any(name == "noise_level" for name, _ in parameters):
        return
    for share in NOISY_SHARES:
        theta = kernel.theta.copy()
        set_shares(variance, share, theta, parameters)
        yield clipped(theta, kernel)


class ByActiveRows:
    """Rounds for the posteriors that know the active rows alone, or see the others through them.

    A round raises J for fixed active rows. It is judged by J of the rows that its kernel then chooses, and by the
    posterior's log densities of the rows set aside.
    """

    sizes = (100, 200, 400)  # of the active sets: small ones first, as a round costs O(m^3 + n m^2)
    fills_gaps = False  # the active rows lie far apart
    patience = 1  # the same rows again would say the same
    n_raised = 4000  # rows of the sample that stands for all of the remainder in J

    def __init__(self, weave: Weave, task: Task, generator: np.random.Generator) -> None:
        judged, others = _set_aside(task, 2 * weave.n_judged, generator)  # twice as many as cost little each
        self.aside, self.task = task.take(judged), task.take(others)
        self.groups = Groups(self.task.X, self.task.y, self.task.alpha)
        self.scattered = np.arange(len(self.groups.X))
        most = max(1, min(task.n_active, len(task.X) // 2))
        self.plan = sorted({min(size, most) for size in self.sizes})
        self.n_active = self.plan.pop(0)
        self._last: tuple[Kernel, Selection] | None = None

    @property
    def can_grow(self) -> bool:
        return bool(self.plan)

    def grow(self) -> bool:
        if not self.plan:
            return False
        self.n_active, self._last = self.plan.pop(0), None
        return True

    def judge(self, kernel: Kernel) -> Verdict:
        """The log densities of the rows set aside, and J of the rows that the kernel chooses."""
        error, variance = self._predicted(kernel)
        alpha, floor = self.aside.alpha, self._chosen(kernel).noise_floor
        densities = log_densities(error, np.maximum(variance if alpha is None else variance + alpha, floor))
        return Verdict(densities, self._joint(kernel)(kernel.theta)[0])

    def holes(self, generator: np.random.Generator) -> Holes:
        return Holes(ArrayRows(self.groups.X, self.groups.y, self.groups.alpha), self.scattered, generator, False)

    def errors(self, kernel: Kernel) -> tuple[Floats, Floats]:
        return np.asarray(self.aside.X, dtype=np.float64), self._predicted(kernel)[0]

    def _predicted(self, kernel: Kernel) -> tuple[Floats, Floats]:
        """Errors, (rows, q), and variances, (rows,), of the rows set aside."""
        task, aside = self.task, self.aside
        rows = ArrayRows(task.X, task.y, task.alpha)
        evidence = Evidence(compile_kernel(kernel, task.X), rows, self._chosen(kernel))
        mean, variance = task.posterior.condition(evidence).mean_and_variance(aside.X, noisy=True)
        return aside.y - mean, variance

    def accepts(self, verdict: Verdict, top: Verdict, gain: float) -> bool:
        return verdict.beats(top)

    def scaled(self, kernel: Kernel) -> Kernel:
        """The kernel as it is: the search by a subset has found its scale."""
        return kernel

    def is_blind(self, kernel: Kernel) -> bool:
        """Never: a subset's likelihood ends at such length-scales for no data that were tried."""
        return False

    def raised(self, kernel: Kernel, steps: int, turn: int = 0, end: float = inf) -> Kernel:
        """The kernel after a climb of J for fixed active rows."""
        return kernel.clone_with_theta(climb(self._joint(kernel), kernel.theta, kernel.bounds, steps, end)[1])

    def _joint(self, kernel: Kernel) -> Joint:
        task = self.task
        sample = np.arange(min(self.n_raised, len(task.X)))  # the rows are in random order
        return Joint(kernel, task.X, task.y, self._chosen(kernel).indices, sample, task.alpha)

    def _chosen(self, kernel: Kernel) -> Selection:
        """The rows that a kernel chooses. The last choice is cached: a round starts from a kernel that was judged."""
        if self._last is None or self._last[0] is not kernel:
            task = self.task
            selection = grow(
                ArrayRows(task.X, task.y, task.alpha),
                compile_kernel(kernel, task.X),
                n_active=self.n_active,
                criterion=task.criterion,
                rule=Size(self.n_active),
                generator=np.random.default_rng(0),
            )
            self._last = kernel, selection
        return self._last[1]
