"""Hyperparameters by maximum likelihood on a random subset of the rows: the paper's way (appendix A.3), made robust.

A likelihood has many maxima, and a single start can end at "all of it is noise". So many starts, placed by the data,
run a few steps on few rows each, the best two a few more on all rows of the subset, and the better of these goes on to
its maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf, log, pi, sqrt
from time import perf_counter
from typing import Protocol

import numpy as np
from scipy.linalg import blas, lapack
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.gaussian_process.kernels import ExpSineSquared, Kernel

from ..core.jitter import JITTER
from ..core.threads import one_blas_thread, raise_if_broken_off, threaded_map
from ..core.types import Array
from ..kernels import CompiledKernel, compile_kernel, robust_spread, take, variation
from ..posteriors import Posterior, SubsetOfData
from ..scores import Delta, Score

PANEL = 256  # rows of the covariance that are evaluated at a time
ROUGH = 1e-6  # gain of a step, per target value, below which a climb that is one of many ends
TIGHT = 1e-9  # ... and the last climb. Below, it ends where rounding does, and the units of the inputs tell by 6e-8
GRADIENT = 1e-2  # largest derivative over the root of the gain, below which a climb ends as well


@dataclass(frozen=True)
class Task:
    """The rows, and what the kernel is for."""

    X: Array
    """Of shape (n, d)."""
    y: Array
    """Of shape (n, q)."""
    alpha: Array | None = None
    """Noise variance that a row has beyond the kernel's; of shape (n,)."""
    posterior: type[Posterior] = SubsetOfData
    score: Score = field(default_factory=Delta)
    """The score that will choose the active rows."""
    n_active: int = 1000
    """The most active rows."""
    seconds: float = inf
    """How long the search may go on, where it could go on or end."""
    forms: bool = False
    """Whether kernels with more components than those given may compete: a second scale, periods."""


@dataclass(frozen=True)
class Round:
    """One step of a search: what was tried, and what became of it."""

    name: str
    """What was done."""
    kernel: Kernel
    """Where it led."""
    objective: float
    """What that is worth, per target value; comparable within one search."""
    kept: bool
    seconds: float
    n_active: int | None = None


@dataclass(frozen=True)
class Found:
    """A kernel with its hyperparameters found, and how they were."""

    kernel: Kernel
    rounds: tuple[Round, ...] = ()
    optimism: float = 1.0
    """How many times as large squared errors are, relative to the variances predicted, if the hyperparameters are found
    without the rows that are predicted. 1 where that is not known, or where rows are many."""


class Method(Protocol):
    """A way to find the hyperparameters."""

    def find(self, task: Task, kernels: Sequence[Kernel], generator: np.random.Generator) -> Found:
        """The best of some kernels with the same parameters, at the best parameters found."""
        ...


@dataclass(frozen=True)
class Fixed:
    """Use the kernel as it is given."""

    @property
    def takes_kernel_as_given(self) -> bool:
        """True, unless a subclass overrides `find`."""
        return type(self).find is Fixed.find

    def find(self, task: Task, kernels: Sequence[Kernel], generator: np.random.Generator) -> Found:
        return Found(clone(kernels[0]))


@dataclass(frozen=True)
class Subset:
    """Maximise the log marginal likelihood of a random subset of the rows.

    Parameters
    ----------
    n_rows : int, default=1000
        Rows in the subset. One evaluation costs O(n_rows^3).
    n_starts : int, default=12
        Starts that are tried on `n_screen` rows. The kernel as given is always one of them.
    n_screen : int, default=300
        Rows on which the starts are compared.
    n_steps : int, default=60
        Steps of the last climb.
    """

    n_rows: int = 1000
    n_starts: int = 12
    n_screen: int = 300
    n_steps: int = 60

    def find(self, task: Task, kernels: Sequence[Kernel], generator: np.random.Generator) -> Found:
        """The kernel that makes the subset most likely, at the best hyperparameters found.

        Parameters
        ----------
        task : Task
        kernels : sequence of scikit-learn kernels
            Where to start; their bounds and fixed parameters are kept to. Of several, the first is started from many
            places, the others from where it got to.
        generator : numpy.random.Generator
        """
        kernel = kernels[0]
        if kernel.n_dims == 0:
            return Found(kernel.clone_with_theta(kernel.theta))
        began = perf_counter()
        end = began + task.seconds
        rows = generator.permutation(len(task.X))[: self.n_rows]
        X, y = np.asarray(task.X[rows], dtype=np.float64), task.y[rows].reshape(len(rows), -1)
        alpha = None if task.alpha is None else task.alpha[rows]
        bounds = kernel.bounds
        starts = starting_points(kernel, X, y, self.n_starts, generator)

        few = slice(0, self.n_screen)
        screen = Likelihood(kernel, X[few], y[few], None if alpha is None else alpha[few])
        leaders = [theta for _, theta in climb_all(screen, starts, bounds, 20, end)[:2]]
        if len(rows) > self.n_screen:
            leaders = [revive(theta, kernel, X) for theta in leaders]
        ends = [climb_all(Likelihood(kernel, X, y, alpha), [*leaders, starts[0]], bounds, 12, end)[0]]
        for other in kernels[1:]:
            ends += climb_all(Likelihood(other, X, y, alpha), [ends[0][1]], bounds, 12, end)
        rounds = []
        for kernel, (value, theta) in zip(kernels, ends, strict=True):
            rounds.append(Round("a short run", kernel.clone_with_theta(theta), value, False, perf_counter() - began))
            began = perf_counter()
        best = int(np.argmax([value for value, _ in ends]))
        kernel = kernels[best]
        value, theta = climb(Likelihood(kernel, X, y, alpha), ends[best][1], bounds, self.n_steps, end, TIGHT)
        kernel = kernel.clone_with_theta(theta)
        rounds.append(Round("to the end", kernel, value, True, perf_counter() - began))
        return Found(kernel, tuple(rounds))


class Likelihood:
    """The log marginal likelihood of some rows, per target value, and its gradient by a kernel's log-parameters.

    Several targets share the kernel, and their likelihoods add up. One evaluation costs O(n^3) time, O(n^2) memory.
    """

    def __init__(self, kernel: Kernel, X: Array, y: Array, alpha: Array | None = None) -> None:
        self.kernel = compile_kernel(kernel, X)
        self.X, self.alpha = X, alpha
        self.y = y.reshape(len(X), -1)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """The value and the gradient; minus infinity where the covariance is not positive definite."""
        value, gradient = log_marginal_likelihood(self.kernel.with_theta(theta), self.X, self.y, self.alpha)
        return value / self.y.size, gradient / self.y.size


def log_marginal_likelihood(
    kernel: CompiledKernel,
    X: Array,
    y: Array,
    alpha: Array | None = None,
    least: float = JITTER[np.dtype(np.float64)],
) -> tuple[float, Array]:
    """Log p(y | X) = -y'a/2 - sum log L_ii - n/2 log 2 pi with a = (K + noise)^-1 y, and its gradient.

    Algorithm 2.1 and equation 5.9 of Rasmussen and Williams (2006). K, its factor, its inverse and the gradient
    dJ/dK = (a a' - (K + noise)^-1) / 2 are symmetric, and only their lower triangles are ever computed: K in panels of
    rows, each pulled back through the kernel by itself. `alpha` is noise beyond the kernel's; no row has less noise
    than `least` times the largest prior variance.
    """
    n, q = y.shape
    features = kernel.prepare(X)
    panels = [slice(begin, min(begin + PANEL, n)) for begin in range(0, n, PANEL)]
    A = np.zeros((n, n))
    pulls = []
    for rows in panels:
        A[rows, : rows.stop], pull = kernel.vjp(take(features, rows), take(features, slice(0, rows.stop)))
        pulls.append(pull)
    latent, noise, pull_diagonal = kernel.diag_vjp(features)
    floor = least * float(latent.max())
    total = noise if alpha is None else noise + alpha
    A.flat[:: n + 1] += np.maximum(total, floor)

    # LAPACK takes columns: what it sees as the upper triangle of A' is the lower one of A.
    L, failed = lapack.dpotrf(A.T, lower=0, clean=1, overwrite_a=1)
    if failed:
        return -np.inf, np.zeros(kernel.spec.n_dims)
    log_determinant = 2 * float(np.log(np.diag(L)).sum())
    a, _ = lapack.dpotrs(L, y, lower=0)
    value = -0.5 * float(np.vdot(y, a)) - 0.5 * q * (log_determinant + n * log(2 * pi))
    inverse, _ = lapack.dpotri(L, lower=0, overwrite_c=1)
    G = blas.dsyrk(1.0, a, beta=-q, c=inverse, lower=0, overwrite_c=1).T
    # 2 dJ/dK, its upper triangle zero: an entry below the diagonal stands for itself and its mirror image.
    G.flat[:: n + 1] *= 0.5
    # Rows at the floor have noise that moves with the largest prior variance.
    on_diagonal, floored, g = np.diag(G), total <= floor, np.zeros(n)
    g[latent.argmax()] = least * on_diagonal[floored].sum()
    gradient = pull_diagonal(g, np.where(floored, 0.0, on_diagonal))
    for rows, pull in zip(panels, pulls, strict=True):
        gradient += pull(G[rows, : rows.stop])
    return value, gradient


def climb_all(
    objective: Callable[[Array], tuple[float, Array]], starts: list[Array], bounds: Array, steps: int, end: float = inf
) -> list[tuple[float, Array]]:
    """What L-BFGS gets to from each start in so many steps, and where; the highest first."""
    ends = threaded_map(lambda start: climb(objective, start, bounds, steps, end), starts)
    return sorted(ends, key=lambda end: -end[0])


def climb(
    objective: Callable[[Array], tuple[float, Array]],
    start: Array,
    bounds: Array,
    steps: int,
    end: float = inf,
    tolerance: float = ROUGH,
) -> tuple[float, Array]:
    """Maximise an objective of order 1 by L-BFGS within bounds: the value and the place of the best point seen.

    No step is begun after `end`, by `time.perf_counter`, but the first; nor after a step that gained less than
    `tolerance`.
    """
    top, place = -np.inf, start

    def negative(theta: Array) -> tuple[float, Array]:
        nonlocal top, place
        raise_if_broken_off()
        value, gradient = objective(theta)
        if value > top:
            top, place = value, theta.copy()
        return (-value, -gradient) if np.isfinite(value) else (1e25, np.zeros_like(theta))

    def watch(theta: Array) -> None:
        if perf_counter() > end:
            raise StopIteration

    options = {"maxiter": steps, "ftol": tolerance, "gtol": GRADIENT * sqrt(tolerance)}
    with one_blas_thread():  # L-BFGS's own products are tiny: a second thread would cost more than all of the climb
        minimize(negative, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options, callback=watch)
    return top, place


def starting_points(kernel: Kernel, X: Array, y: Array, count: int, generator: np.random.Generator) -> list[Array]:
    """Log-parameters to start from: the kernel's own, then points placed by the data.

    Every other point sets all length-scales to a multiple of their inputs' spread times sqrt(d), and shares the
    targets' variance out between noise and signal; the rest are moved at random from the kernel's own.
    """
    bounds = kernel.bounds
    starts = [kernel.theta]
    variance = variation(y)
    spacing = len(X) ** (-1 / X.shape[1])  # between rows, if they filled a cube: no shorter scale can be seen
    factors = (1.0, spacing**0.5, 0.5, spacing**0.75, 2.0)
    pairs = [(factor, share) for share in (0.02, 0.5) for factor in factors]
    while len(starts) < count:
        theta = kernel.theta + generator.normal(0, 1, kernel.n_dims)
        if len(starts) % 2:
            factor, share = pairs[len(starts) // 2 % len(pairs)]
            for name, here in free_parameters(kernel):
                if name == "length_scale":
                    theta[here] = log(factor) + natural_scale(X, here)
                elif name == "noise_level":
                    theta[here] = log(share * variance)
                elif name == "constant_value":
                    theta[here] = log((1 - share) * variance)
        starts.append(theta)
    return [np.clip(theta, bounds[:, 0], bounds[:, 1]) for theta in starts]


def revive(theta: Array, kernel: Kernel, X: Array) -> Array:
    """Bring inputs that few rows made irrelevant back to where more rows can tell.

    An input whose length-scale has run off to infinity has no gradient left, so a likelihood that is raised on few rows
    first would never find it again. (On pumadyn32nm, 300 rows find two of the four inputs that matter.)
    """
    theta = theta.copy()
    for name, here in free_parameters(kernel):
        if name == "length_scale" and here.stop - here.start > 1:
            theta[here] = np.minimum(theta[here], log(2) + natural_scale(X, here))
    return np.clip(theta, kernel.bounds[:, 0], kernel.bounds[:, 1])


def free_parameters(kernel: Kernel) -> list[tuple[str, slice]]:
    """The names of a kernel's free parameters, each with the part of theta that holds it.

    A periodic kernel's length-scale is relative to its period, not to the inputs, so it goes by another name.
    """
    found, at = [], 0
    owners = kernel.get_params()
    for parameter in kernel.hyperparameters:
        if not parameter.fixed:
            owner, _, name = parameter.name.rpartition("__")
            periodic = isinstance(owners.get(owner, kernel), ExpSineSquared)
            found.append(("periodic_" + name if periodic else name, slice(at, at + parameter.n_elements)))
            at += parameter.n_elements
    return found


def natural_scale(X: Array, here: slice) -> Array:
    """The log of the length-scale at which an input begins to matter: its spread times sqrt(d)."""
    scale = np.log(robust_spread(X) * sqrt(X.shape[1]))
    return scale if here.stop - here.start == len(scale) else scale.mean(keepdims=True)
