"""Rows of the fit that are left out at several distances, by which kernels are judged and raised.

The method is described in docs/method.rst, `weave`. A row is predicted without itself from its nearest rows, which says
how good a kernel is among the rows. Rows within a hole, or beyond the end of an input, are predicted without all rows
there, which says how good it is away from them. The log density of all these predictions is the one objective that a
search raises where rows are many, and by which it compares kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import log, pi

import numpy as np
from scipy.special import gammaln
from sklearn.gaussian_process.kernels import Kernel

from ..core.threads import threaded_map
from ..core.types import Array, Floats, Indices, Mask
from ..kernels import CompiledKernel, compile_kernel, spacing, take, variation
from ..kernels.jitter import NoiseFloor, split_by_floor
from ..kernels.neighbours import Neighbours, distinct
from ..selection.rows import ArrayRows, noise_alone
from .holes import Sample
from .likelihood import Prior
from .parameters import clipped, free_parameters, set_shares
from .task import FULL_DENSITY, Task

CANDIDATES = 3  # groups among which the nearest are sought, in units of those that predict: metrics change a little
HOLE_ROWS, FEWEST = 1500, 8  # rows in which holes are made, and below which none are
MOST_INPUTS = 4  # inputs up to which holes are made: with more, rows are as far from each other as holes are wide
PER_HOLE = 3  # rows that are predicted in a hole, or beyond an end: they err alike
FEWEST_SHARE = 0.5  # share of the rows in holes that judge at least
SCALED_NEIGHBORS = 24  # the most neighbours that each row is predicted from on the grid of scales
SHARES = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3)  # factors of the noise on that grid
MOST_HALVINGS = 12  # most halvings of the length-scales: bounds the grid where two rows nearly coincide
USUAL_HALVINGS = 3  # where the kernel has no metric, or rows coincide
NEAR_HALVINGS, NEAR_SHARE = 3, 0.03  # a point of the grid with more halvings or less noise is far from the start
FAR_WORTH = 0.05  # nats per row that a point far from the start must gain more: the start is seldom that far off
NOISY_SHARE = 0.9  # share of the noise in the targets' variance where nearly all is noise
STACK = 2**16  # covariances that one thread holds at a time: they and their derivatives stay in the cache
FAR = 1e8  # noise of a row that does not count, in units of the largest variance: its weight is nearly zero
TINY = float(np.finfo(np.float64).tiny)
NUS = (3.0, 8.0, 1000.0)  # degrees of freedom of the errors' distribution that are tried
ROUNDS = 8  # of the iteration for its width, which converges fast
HOLES_SHARE = 0.3  # nats among the rows that one nat in holes is worth: most queries are among the rows


class Groups:
    """All rows, grouped by their inputs: rows with the same inputs are one group.

    Parameters
    ----------
    X, y, alpha : arrays of shape (n, d), (n, q) or (n,), and (n,) or None
    """

    def __init__(self, X: Array, y: Floats, alpha: Floats | None = None) -> None:
        self.X, self.y = np.asarray(X, dtype=np.float64), y.reshape(len(X), -1)
        self.alpha = np.zeros(len(X)) if alpha is None else alpha
        first, self.group = distinct(self.X)
        """The group of every row; of shape (n,)."""
        self.count = np.bincount(self.group).astype(np.float64)
        """How many rows a group has; of shape (groups,)."""
        self.places = self.X[first]
        """The inputs of every group; of shape (groups, d)."""
        self.sum = np.stack([np.bincount(self.group, column) for column in self.y.T], axis=1)
        """The sum of a group's targets; of shape (groups, q)."""
        self.sum_alpha = np.bincount(self.group, self.alpha)


@dataclass(frozen=True)
class LeftOutRows:
    """Rows that kernels are judged by, each with the rows that it may be predicted from."""

    groups: Groups
    near: Questions
    """Rows among the others, in random order."""
    holes: Questions
    """Rows in holes and beyond the ends of inputs, in random order; there may be none."""
    k: int
    """How many groups predict a row."""

    @classmethod
    def of(cls, task: Task, kernel: Kernel, generator: np.random.Generator, n_near: int, k: int) -> LeftOutRows:
        """Draw rows of a task; of windows, their centres. A kernel says which rows are near, roughly.

        Rows that are noise alone, by their alpha, say nothing of a kernel.
        """
        groups, compiled = Groups(task.X, task.y, task.alpha), compile_kernel(kernel, task.X)
        is_useful = ~noise_alone(ArrayRows(groups.X, groups.y, task.alpha))
        if task.windows is None:
            rows = some = generator.permutation(np.flatnonzero(is_useful))
        else:
            both = (task.windows.centres, task.windows.scattered)
            rows, some = (generator.permutation(each[is_useful[each]]) for each in both)
        rows = rows[:n_near]
        found = Neighbours(compiled, groups.places).query(groups.X[rows], CANDIDATES * k)
        near = Questions(rows, found, np.zeros(len(rows), dtype=np.intp), np.arange(len(rows)))
        return cls(groups, near, _holes(groups, np.sort(some[:HOLE_ROWS]), generator), min(k, len(groups.places)))

    @property
    def n_near(self) -> int:
        """How many rows are left out alone."""
        return len(self.near.rows)

    def take(self, size: int) -> LeftOutRows:
        """The first rows that are left out alone, so many, and as large a share of the others, but some."""
        n_holes = int(max(size / self.n_near, FEWEST_SHARE) * len(self.holes.rows))
        return replace(self, near=self.near.take(slice(size)), holes=self.holes.take(slice(n_holes)))

    def objective(self, kernel: Kernel) -> LeftOut:
        """The objective for kernels like one that says which of the candidates are near."""
        questions = [self.near, self.holes] if len(self.holes.rows) else [self.near]
        return LeftOut(kernel, self.groups, questions, self.k, self._prior(kernel))

    def _prior(self, kernel: Kernel) -> Prior:
        some = self.near.rows
        return Prior.of(kernel, self.groups.X[some], self.groups.y[some])

    def scaled(self, kernel: Kernel) -> Floats:
        """Log-parameters of the kernel at the point of a grid of length-scales and noise that predicts best.

        A thin subset sees no short length-scales, and may take what varies quickly for noise; or it sees a function in
        what is noise. All length-scales are divided by the same number, which changes no neighbours, so one objective
        on a few rows serves all points.
        """
        objective = LeftOut(kernel, self.groups, [self.near], min(self.k, SCALED_NEIGHBORS), self._prior(kernel))
        best, top = kernel.theta, objective.value(kernel.theta)
        for theta, is_far in _scale_grid(kernel, self._halvings(kernel)):
            value = objective.value(theta) - FAR_WORTH * is_far
            if value > top:
                best, top = theta, value
        return np.asarray(best)

    def _halvings(self, kernel: Kernel) -> int:
        """How often the length-scales can be halved before they are shorter than half the rows' spacing."""
        weights = compile_kernel(kernel, self.groups.X).metric()
        nearest = 0.0 if weights is None else spacing(self.groups.X * np.sqrt(weights))
        return int(np.clip(np.ceil(np.log2(2 / nearest)), 1, MOST_HALVINGS)) if nearest else USUAL_HALVINGS


def density_starts(rows: LeftOutRows, shapes: Sequence[Kernel], natural: Kernel) -> list[tuple[str, Kernel]]:
    """Kernels to climb from among all rows, each with its name: some shapes, the best first, moved to a better scale.

    Others compete, since no climb comes to them: with nearly all of the variance as noise, from the parameters of the
    kernel `natural`; and with length-scales as long as the gaps between an input's values. Between rows that differ in
    an input such as a year, a length-scale much shorter than a year leaves no covariance.
    """
    first = shapes[0]
    moved = rows.scaled(first) - first.theta
    found = [(FULL_DENSITY, each.clone_with_theta(clipped(each.theta + moved, each))) for each in shapes]
    noisy, parameters, best = natural.theta.copy(), free_parameters(natural), found[0][1]
    if any(name == "noise_level" for name, _ in parameters):
        set_shares(variation(rows.groups.y), NOISY_SHARE, noisy, parameters)
        found.append(("mostly noise", natural.clone_with_theta(clipped(noisy, natural))))
    X, lifted = rows.groups.X, best.theta.copy()
    gaps = [float(np.median(np.diff(values))) if len(values := np.unique(column)) > 1 else 0.0 for column in X.T]
    for name, here in free_parameters(best):
        if name == "length_scale" and here.stop - here.start == len(gaps):
            lifted[here] = np.maximum(lifted[here], np.log(np.maximum(2 * np.array(gaps), TINY)))
    if np.any(lifted > best.theta):
        found.append(("across gaps", best.clone_with_theta(clipped(lifted, best))))
    return found


def _scale_grid(kernel: Kernel, most_halvings: int) -> Iterator[tuple[Floats, bool]]:
    """Yield a kernel's log-parameters with all length-scales halved 0 to `most_halvings` times, and less noise.

    Also whether these are far from the kernel as it was.
    """
    parameters = free_parameters(kernel)
    for halvings, share in product(range(most_halvings + 1), SHARES):
        theta = kernel.theta.copy()
        for name, here in parameters:
            if name == "length_scale":
                theta[here] -= halvings * log(2)
            elif name == "noise_level":
                theta[here] += log(share)
        yield clipped(theta, kernel), halvings > NEAR_HALVINGS or share < NEAR_SHARE


def _holes(groups: Groups, some: Indices, generator: np.random.Generator) -> Questions:
    """Rows in holes, and beyond the ends of inputs, of a random sample of the rows; each with the rows outside."""
    sample = Sample(groups.X[some], groups.y[some], groups.alpha[some], np.empty(0, dtype=np.intp))
    places, rows, known, size, number = np.unique(groups.group[some]), [], [], [], []
    is_worth = len(some) >= FEWEST and groups.X.shape[1] <= MOST_INPUTS
    holes = [hole for hole in sample.holes(generator) if not hole.is_value] if is_worth else []
    for at, hole in enumerate(holes):
        inside = np.flatnonzero(hole.has(sample.X))
        others = np.where(np.isin(places, groups.group[some[inside]]), -1, places)
        for row in generator.permutation(inside)[:PER_HOLE]:
            rows.append(some[row])
            known.append(others)
            size.append(hole.size)
            number.append(at)
    order = generator.permutation(len(rows))
    distance = np.unique(np.array(size, dtype=np.intp), return_inverse=True)[1] + 1
    table = np.array(known, dtype=np.intp).reshape(len(rows), len(places))
    return Questions(np.array(rows, dtype=np.intp), table, distance, np.array(number, dtype=np.intp)).take(order)


@dataclass(frozen=True)
class Questions:
    """Rows to predict, at one or several distances from the rows that are known."""

    rows: Indices
    """Of shape (questions,)."""
    known: Indices
    """The groups that each may be predicted from, of shape (questions, some); -1 for none."""
    distance: Indices
    """The number of the distance, of shape (questions,): 0 among the rows, then the sizes of holes."""
    hole: Indices
    """The number of the hole, of shape (questions,): rows of the same hole have errors that are alike."""

    def take(self, which: Indices | slice) -> Questions:
        """Some of the questions."""
        return Questions(self.rows[which], self.known[which], self.distance[which], self.hole[which])


class LeftOut:
    """The log density of rows that are left out at several distances, plus a prior's; and its gradient.

    At each distance it is the mean of two log densities: by Student's t, whose width is proportional to the predicted
    standard deviation, and by a Gaussian with one variance for all rows, which is minus the logarithm of the RMSE.
    Without the latter, a kernel that knows well where it errs could be taken for one that errs less. Degrees of freedom
    and widths are those that suit the errors best, so multiplying all variances by one number changes nothing.

    Let A be the covariance of the rows that a row is predicted from and the row itself, which comes last, u the last
    unit vector, p = A^-1 u and a = A^-1 y. The error is a_last / p_last and its variance 1 / p_last, so

        d error = (error p'dA p - p'dA a) / p_last,    d variance = p'dA p / p_last^2.

    O(k^3) a row, batched. The nearest rows are those by the kernel as it is made with, whatever theta is.

    Parameters
    ----------
    kernel : scikit-learn kernel
    groups : Groups
    questions : Questions
    k : int
        Groups that each row is predicted from.
    prior : Prior
    """

    def __init__(self, kernel: Kernel, groups: Groups, questions: Sequence[Questions], k: int, prior: Prior) -> None:
        self.kernel, self.prior = compile_kernel(kernel, groups.X), prior
        which, self.distance, self.hole = (
            np.concatenate([getattr(part, name) for part in questions]) for name in ("rows", "distance", "hole")
        )
        self.n_values = int((self.distance == 0).sum()) * groups.y.shape[1]
        found = np.concatenate([_nearest(self.kernel, groups, part, k) for part in questions])
        own, none = found == groups.group[which, None], found < 0
        self.X = np.concatenate([groups.places[found], groups.X[which, None]], axis=1)
        # A row's own observation is left out of the mean of its group.
        count = groups.count[found] - own
        total = groups.sum[found] - own[..., None] * groups.y[which, None]
        extra = groups.sum_alpha[found] - own * groups.alpha[which, None]
        self.empty = (count == 0) | none
        count = np.maximum(count, 1)
        self.y = np.concatenate([total / count[..., None], groups.y[which, None]], axis=1)
        self.share = np.concatenate([1 / count, np.ones((len(which), 1))], axis=1)
        self.alpha = np.concatenate([extra / count**2, groups.alpha[which, None]], axis=1)

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """The value, in nats per row among the rows, and the gradient by the kernel's log-parameters."""
        kernel = self.kernel.with_theta(theta)
        solved = threaded_map(lambda here: self._solve(kernel, here), self._blocks())
        p, a = (np.concatenate([part[i] for part in solved]) for i in (0, 1))
        value, by_error, by_variance = self._density(p, a)
        if not np.isfinite(value):
            return -np.inf, np.zeros(len(theta))

        def pulled(block: slice, pull: Callable[[Floats], Floats]) -> Floats:
            p_, a_ = p[block], a[block]
            last = p_[:, -1]
            error = a_[:, -1] / last[:, None]
            at_p = (np.einsum("iq,iq->i", by_error[block], error) + by_variance[block] / last) / last
            u = at_p[:, None] * p_ - np.einsum("iq,isq->is", by_error[block] / last[:, None], a_)
            G = p_[:, :, None] * u[:, None, :]
            return pull(0.5 * (G + G.swapaxes(1, 2)))

        parts = threaded_map(lambda pair: pulled(pair[0], pair[1][2]), list(zip(self._blocks(), solved, strict=True)))
        extra, slope = self.prior(theta)
        return value + extra / self.n_values, np.sum(parts, axis=0) + slope / self.n_values

    def value(self, theta: Floats) -> float:
        """The value alone, at half the cost."""
        kernel = self.kernel.with_theta(theta)
        solved = threaded_map(lambda here: self._solve(kernel, here)[:2], self._blocks())
        p, a = (np.concatenate(parts) for parts in zip(*solved, strict=True))
        return self._density(p, a)[0] + self.prior(theta)[0] / self.n_values

    def gain(self, theta: Floats, other: LeftOut, theirs: Floats) -> tuple[float, float]:
        """By how much the value is larger than another kernel's for the same rows, and the standard error of that."""
        gain, variance = 0.0, 0.0
        ours, theirs = self._densities(theta), other._densities(theirs)
        for number, weight in self._weights():
            here = self.distance == number
            _, unit = np.unique(self.hole[here], return_inverse=True)
            each = np.bincount(unit, ours[here] - theirs[here]) / np.bincount(unit)
            gain += weight * float(each.mean())
            variance += weight**2 * float(each.var()) / len(each)
        return gain, float(np.sqrt(variance))

    def _densities(self, theta: Floats) -> Floats:
        """The log density of every row, of shape (rows,)."""
        kernel = self.kernel.with_theta(theta)
        solved = threaded_map(lambda here: self._solve(kernel, here)[:2], self._blocks())
        p, a = (np.concatenate(parts) for parts in zip(*solved, strict=True))
        found, last = np.empty(len(p)), p[:, -1]
        for number, _ in self._weights():
            here = self.distance == number
            found[here] = judged(a[here, -1] / last[here, None], 1 / last[here])[0]
        return found

    def _weights(self) -> list[tuple[int, float]]:
        """The numbers of the distances, each with the weight of its mean log density."""
        numbers = np.unique(self.distance).tolist()
        return [(number, 1.0 if number == 0 else HOLES_SHARE / (len(numbers) - 1)) for number in numbers]

    def _blocks(self) -> list[slice]:
        """Rows that are worked on at a time."""
        size = max(1, STACK // self.X.shape[1] ** 2)
        return [slice(begin, begin + size) for begin in range(0, len(self.X), size)]

    def _solve(self, kernel: CompiledKernel, here: slice) -> tuple[Floats, Floats, Callable[[Floats], Floats]]:
        """p, of shape (rows, size), a, of shape (rows, size, q), and the function from dJ/dA to the gradient."""
        y = self.y[here]
        out = np.zeros(y.shape[:2], dtype=bool)
        out[:, :-1] = self.empty[here]
        A, pull = stacked_covariance(kernel, self.X[here], self.share[here], self.alpha[here], out)
        right = np.concatenate([np.zeros((*y.shape[:2], 1)), y], axis=2)
        right[:, -1, 0] = 1
        solved = np.linalg.solve(A, right)
        return solved[..., 0], solved[..., 1:], pull

    def _density(self, p: Floats, a: Floats) -> tuple[float, Floats, Floats]:
        """The value, and its derivatives by the errors, of shape (rows, q), and by their variances, (rows,)."""
        last = p[:, -1]
        by_error, by_variance = np.zeros(a[:, -1].shape), np.zeros(len(last))
        if not (last > 0).all() or not np.isfinite(a).all():
            return -np.inf, by_error, by_variance
        error, variance, total = a[:, -1] / last[:, None], 1 / last, 0.0
        for number, weight in self._weights():
            here = self.distance == number
            density, e_, v_ = judged(error[here], variance[here])
            total += weight * float(density.mean())
            by_error[here], by_variance[here] = weight * e_, weight * v_
            if number == 0:
                # Widths that suit the errors leave the variances' common factor free: it is what calibrates them.
                squares = np.square(error[here]) / variance[here, None]
                off = max(float(squares.mean()), TINY)
                total -= 0.5 * (off - 1 - log(off))
                slope = 0.5 * (1 - 1 / off) / squares.size
                by_error[here] -= 2 * slope * error[here] / variance[here, None]
                by_variance[here] += slope * squares.sum(axis=1) / variance[here]
        return total, by_error, by_variance


def judged(error: Floats, variance: Floats) -> tuple[Floats, Floats, Floats]:
    """Log densities of errors as `LeftOut` has them, and derivatives of their mean by the errors and the variances.

    Parameters
    ----------
    error : array of shape (n, q)
    variance : array of shape (n,)

    Returns
    -------
    arrays of shape (n,), (n, q) and (n,)
    """
    n, q = error.shape
    squares = np.square(error) / variance[:, None]
    best: tuple[float, float, float] = (-np.inf, NUS[0], 1.0)
    for nu in NUS:
        v = max(float(squares.mean()), TINY)
        for _ in range(ROUNDS):
            v = max(float(np.mean((nu + 1) / (nu + squares / v) * squares)), TINY)
        best = max(best, (float(np.mean(_log_t(squares, nu, v))), nu, v))
    _, nu, v = best
    square = max(float(np.mean(np.square(error))), TINY)
    by_t = np.mean(_log_t(squares, nu, v), axis=1) - 0.5 * np.log(variance)
    even = -0.5 * (log(2 * pi * square) + np.mean(np.square(error), axis=1) / square)
    share = (nu + 1) / (nu * v + squares)  # of a squared standardised error that counts
    by_error = 0.5 * (-share * error / variance[:, None] - error / square) / (n * q)
    by_variance = 0.25 * ((share * squares).mean(axis=1) - 1) / (n * variance)
    return np.asarray(0.5 * (by_t + even)), by_error, by_variance


def _log_t(squares: Floats, nu: float, v: float) -> Floats:
    """The log density of Student's t with a squared width v at some squares."""
    constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * log(nu * pi * v)
    return np.asarray(constant - (nu + 1) / 2 * np.log1p(squares / (nu * v)))


def _nearest(kernel: CompiledKernel, groups: Groups, questions: Questions, k: int) -> Indices:
    """The k groups of those that are known that say most about every row, by the covariance; (questions, k)."""
    known, X = questions.known, groups.X[questions.rows]
    alone = (known == groups.group[questions.rows, None]) & (groups.count[known] == 1)
    known = np.where(alone, -1, known)
    rows = kernel.prepare(groups.places)
    prior = kernel.diag(rows)

    def part(here: slice) -> Indices:
        some = known[here]
        queries = take(kernel.prepare(X[here]), np.arange(len(some))[:, None])
        distance = np.where(some < 0, np.inf, prior[some] - 2 * kernel.block(queries, take(rows, some))[:, 0])
        nearest = np.argpartition(distance, min(k, some.shape[1]) - 1, axis=1)[:, :k]
        return np.asarray(np.take_along_axis(some, nearest, axis=1))

    size = max(1, 2**17 // known.shape[1])
    return np.concatenate(threaded_map(part, [slice(at, at + size) for at in range(0, len(known), size)]))


def stacked_covariance(
    kernel: CompiledKernel, X: Floats, share: Floats, alpha: Floats, out: Mask
) -> tuple[Floats, Callable[[Floats], Floats]]:
    """The covariances A of a stack of blocks of rows, noise included, and the function from dJ/dA to the gradient.

    Parameters
    ----------
    kernel : CompiledKernel
    X : array of shape (stack, size, d)
    share : array of shape (stack, size)
        Factor of the kernel's noise: 1 / c for the mean of c observations.
    alpha : array of shape (stack, size)
        Noise variances beyond the kernel's.
    out : array of bool of shape (stack, size)
        Rows that do not count: they get so much noise that their weight is nearly zero.
    """
    stack, size, d = X.shape
    flat = kernel.prepare(X.reshape(-1, d))
    features = take(flat, np.arange(stack * size).reshape(stack, size))
    K, pull = kernel.vjp(features, features)
    latent, noise, pull_diagonal = kernel.diag_vjp(flat)
    noise = noise.reshape(stack, size) * share + alpha
    floor = NoiseFloor(latent)
    at_floor = (noise <= floor.value) & ~out
    A, diagonal = K.copy(), np.arange(size)
    level = np.where(out, FAR * float(latent.max() + noise.max()), np.maximum(noise, floor.value))
    A[:, diagonal, diagonal] = latent.reshape(stack, size) + level

    def gradient(G: Floats) -> Floats:
        by_diagonal = G[:, diagonal, diagonal]
        G[:, diagonal, diagonal] = 0
        by_noise, by_floor = split_by_floor(by_diagonal, at_floor)
        by_latent = by_diagonal.ravel() + floor.by_latent(by_floor)
        return pull(G) + pull_diagonal(by_latent, np.where(out, 0.0, by_noise * share).ravel())

    return A, gradient
