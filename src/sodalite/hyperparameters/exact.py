"""Hyperparameters of small tables: the exact likelihood of all rows, from every scale, with a weak prior.

A likelihood of few rows has many maxima, and several inputs leave it flat. So its value is looked at on a grid first,
from length-scales as short as the rows' own spacing to longer than their spread, and from hardly any noise to nearly
nothing else; the best local maxima of the grid are climbed. A weak prior keeps what the rows cannot tell near what is
plausible: length-scales about their inputs' spread, alike in units of it, and variances about the targets'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, log, pi, sqrt
from time import perf_counter

import numpy as np
from scipy.linalg import lapack
from scipy.ndimage import maximum_filter
from sklearn.gaussian_process.kernels import Kernel

from ..core.jitter import JITTER
from ..core.threads import threaded_map
from ..core.types import Array
from ..kernels import CompiledKernel, compile_kernel, robust_spread, spacing, variation
from ..kernels.forms import candidate_periods, second_scale, with_period, with_trend
from ..kernels.neighbours import distinct
from .subset import TIGHT, Found, Likelihood, Round, Task, climb, free_parameters, natural_scale

Form = Callable[[Kernel], Kernel]  # adds a component to a kernel

FEWEST = 8  # rows below which no component is added to the kernel
SHARES = (1e-6, 1e-3, 0.03, 0.3, 0.9)  # of the noise in the variance, on the grid
MOST_REFITTED = 200  # rows up to which the hyperparameters are found again without some rows: a second
FOLDS = 10
REFIT_STEPS = 15
MOST_OPTIMISTIC = 4.0  # of variances: one outlying row may make the mean of squares anything
MOST_HALVINGS = 13  # of the longest length-scale on the grid
VARIANCES = ("constant_value", "noise_level")  # parameters that are variances
LONGEST = 4.0  # longest length-scale on the grid, in units of spread times sqrt(d)
TYPICAL_NOISE = 0.1  # prior median of the noise, as a share of the targets' variance
TYPICAL_LENGTH = 2.0  # prior median of the length-scales' geometric mean, in units of spread times sqrt(d)
WIDTHS = {"length_scale": 1.0, "constant_value": 2.0, "noise_level": 3.0}  # of the priors of log-parameters
BETWEEN = 0.5  # width of the prior of an input's log length-scale about the mean of all inputs'
TAILS = 3.0  # degrees of freedom of the priors, Student's t: an input that does not matter may have any length-scale


@dataclass(frozen=True)
class Prior:
    """Student t distributions of some log-parameters, the others flat.

    Of a vector of length-scales, the mean of the logs has one, and each log's difference from it another.
    """

    parts: tuple[tuple[slice, Array, float], ...]
    """For each prior: the log-parameters that it is about, their medians, and the width."""

    @classmethod
    def of(cls, kernel: Kernel, X: Array, y: Array) -> Prior:
        """What is plausible before the targets are seen, but for their variance."""
        variance, parts = variation(y), []
        for name, here in free_parameters(kernel):
            if name == "length_scale":
                parts.append((here, natural_scale(X, here) + log(TYPICAL_LENGTH), WIDTHS[name]))
            elif name in WIDTHS:
                typical = variance * (TYPICAL_NOISE if name == "noise_level" else 1.0)
                parts.append((here, np.full(1, log(typical)), WIDTHS[name]))
        return cls(tuple(parts))

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """The log density but for a constant, and its gradient."""
        value, gradient = 0.0, np.zeros(len(theta))
        for here, median, width in self.parts:
            off = theta[here] - median
            mean = off.mean()
            common, slope = _log_t(np.array([mean]), width)
            each, slopes = _log_t(off - mean, BETWEEN)
            value += common + each
            gradient[here] += slope / len(off) + slopes - slopes.mean()
        return value, gradient


def _log_t(x: Array, width: float) -> tuple[float, Array]:
    """The sum of the log densities of Student's t but for a constant, and the derivatives."""
    scaled = TAILS * width**2 + x * x
    weight = 0.5 * (TAILS + 1)
    return -weight * float(np.log(scaled / (TAILS * width**2)).sum()), -2 * weight * x / scaled


class Plausibility:
    """Log likelihood plus log prior, per target value, and the gradient by a kernel's log-parameters."""

    def __init__(self, kernel: Kernel, X: Array, y: Array, alpha: Array | None) -> None:
        self.likelihood, self.prior, self.size = Likelihood(kernel, X, y, alpha), Prior.of(kernel, X, y), y.size

    def __call__(self, theta: Array) -> tuple[float, Array]:
        value, gradient = self.likelihood(theta)
        extra, slope = self.prior(theta)
        return value + extra / self.size, gradient + slope / self.size


def find_exactly(
    task: Task, kernels: Sequence[Kernel], generator: np.random.Generator, tolerance: float = TIGHT
) -> Found:
    """The best of some kernels with the same parameters, and of richer forms, by the likelihood of all rows.

    The last climb ends at a step that gains less than `tolerance`.
    """
    X, y, alpha = np.asarray(task.X, dtype=np.float64), task.y.reshape(len(task.X), -1), task.alpha
    # A row that stands twice, targets and all, is a record kept twice rather than proof that there is no noise.
    once, _ = distinct(np.concatenate([X, y], axis=1))
    X, y, alpha = X[once], y[once], None if alpha is None else alpha[once]
    began = perf_counter()
    end = began + task.seconds
    rounds: list[Round] = []

    def plausibility(kernel: Kernel) -> Callable[[Array], tuple[float, Array]]:
        return Plausibility(kernel, X, y, alpha)

    def worth(kernel: Kernel, value: float) -> float:
        """The evidence: what is plausible, less half log n for each parameter (Schwarz 1978)."""
        return value - 0.5 * int(kernel.n_dims) * log(max(len(X), 2)) / y.size

    def note(name: str, kernel: Kernel, value: float, kept: bool) -> None:
        nonlocal began
        rounds.append(Round(name, kernel, worth(kernel, value), kept, perf_counter() - began))
        began = perf_counter()

    first = kernels[(len(kernels) - 1) // 2]
    starts = [first.theta, *scale_starts(first, X, y, alpha)]
    objective = plausibility(first)
    ends = threaded_map(lambda start: climb(objective, start, first.bounds, 15, end), starts)
    top, theta = max(ends, key=lambda pair: pair[0])
    best = first.clone_with_theta(theta)
    note("start", best, top, True)
    for kernel in kernels:
        if kernel is first or perf_counter() > end:
            continue
        value, theta = climb(plausibility(kernel), best.theta, kernel.bounds, 15, end)
        better = value > top
        note("another shape", kernel.clone_with_theta(theta), value, better)
        if better:
            top, best = value, kernel.clone_with_theta(theta)
    for name, form in forms(X, y) if task.forms else ():
        if perf_counter() > end:
            break
        tried = form(best)
        value, theta = climb(plausibility(tried), tried.theta, tried.bounds, 30, end)
        kernel = tried.clone_with_theta(theta)
        better = worth(kernel, value) > worth(best, top)
        note(name, kernel, value, better)
        if better:
            top, best = value, kernel
    value, theta = climb(plausibility(best), best.theta, best.bounds, 60, end, tolerance)
    best = best.clone_with_theta(theta)
    note("to the end", best, value, True)
    return Found(best, tuple(rounds))


def with_optimism(found: Found, task: Task, generator: np.random.Generator) -> Found:
    """What was found, with how optimistic leave-one-out errors are: the hyperparameters have seen every row.

    In each of `FOLDS` folds, the hyperparameters are raised again without its rows, from where they are, and predict
    these. O(n^3) a step.
    """
    X, y = np.asarray(task.X, dtype=np.float64), task.y.reshape(len(task.X), -1)
    alpha, kernel = task.alpha, found.kernel
    if not FOLDS <= len(X) <= MOST_REFITTED or not kernel.n_dims:
        return found
    order = generator.permutation(len(X))

    def errors(fold: int) -> Array:
        rest, left = np.delete(order, np.s_[fold::FOLDS]), order[fold::FOLDS]
        noise = None if alpha is None else alpha[rest]
        again = climb(Plausibility(kernel, X[rest], y[rest], noise), kernel.theta, kernel.bounds, REFIT_STEPS)[1]
        return _squared_errors(kernel.clone_with_theta(again), X, y, alpha, rest, left)

    blind = np.concatenate(threaded_map(errors, range(FOLDS))).mean()
    seen = _leave_one_out(kernel, X, y, alpha)
    ratio = blind / seen[0].mean() if seen is not None and seen[0].any() else 1.0
    return replace(found, optimism=float(np.clip(ratio, 1.0, MOST_OPTIMISTIC)) if np.isfinite(ratio) else 1.0)


def _squared_errors(kernel: Kernel, X: Array, y: Array, alpha: Array | None, rest: Array, left: Array) -> Array:
    """Squared errors of some rows predicted from the rest, over their variances; of shape (left, q)."""
    compiled = compile_kernel(kernel, X)
    L = _factor(compiled, X[rest], None if alpha is None else alpha[rest])
    if L is None:
        return np.full((len(left), y.shape[1]), np.nan)
    known, new = compiled.prepare(X[rest]), compiled.prepare(X[left])
    V, _ = lapack.dtrtrs(L, compiled.block(known, new), lower=0, trans=1)
    z, _ = lapack.dtrtrs(L, y[rest], lower=0, trans=1)
    noise = compiled.noise(new) + (0.0 if alpha is None else alpha[left])
    variance = np.maximum(compiled.diag(new) - np.einsum("ij,ij->j", V, V), 0) + noise
    return np.asarray(np.square(y[left] - V.T @ z) / np.maximum(variance, np.finfo(np.float64).tiny)[:, None])


def or_as_given(found: Found, task: Task, kernel: Kernel) -> Found:
    """What was found or, where that predicts rows better, the kernel with the parameters that it was given.

    Rows are predicted each from all others, and better means by more than chance.
    """
    began = perf_counter()
    X, y, given = (
        np.asarray(task.X, dtype=np.float64),
        task.y.reshape(len(task.X), -1),
        kernel.clone_with_theta(kernel.theta),
    )
    gain = left_out(given, X, y, task.alpha) - left_out(found.kernel, X, y, task.alpha)
    better = bool(gain.mean() > gain.std() / sqrt(len(gain)))
    value = Plausibility(given, X, y, task.alpha)(given.theta)[0]
    tried = Round("as given", given, value, better, perf_counter() - began)
    return Found(given if better else found.kernel, (*found.rounds, tried))


def left_out(kernel: Kernel, X: Array, y: Array, alpha: Array | None) -> Array:
    """The log density of every target given all other rows; of shape (n, q), and minus infinity if there is none.

    With A the covariance and a = A^-1 y, row i is off by a_i / (A^-1)_ii, with variance 1 / (A^-1)_ii (Sundararajan
    and Keerthi 2001). All variances are multiplied by what suits the errors best, as predictions are calibrated.
    """
    found = _leave_one_out(kernel, X, y, alpha)
    if found is None:
        return np.full(y.shape, -inf)
    squares, precision = found
    factor = max(float(squares.mean()), np.finfo(np.float64).tiny)
    return np.asarray(0.5 * (np.log(precision / (2 * pi * factor)) - squares / factor))


def _leave_one_out(kernel: Kernel, X: Array, y: Array, alpha: Array | None) -> tuple[Array, Array] | None:
    """Squared leave-one-out errors over their variances, of shape (n, q), and one over the variances, (n, 1)."""
    L = _factor(compile_kernel(kernel, X), X, alpha)
    if L is None:
        return None
    a, _ = lapack.dpotrs(L, y, lower=0)
    inverse, _ = lapack.dpotri(L, lower=0)
    precision = np.diag(inverse)[:, None]
    return a * a / precision, precision


def forms(X: Array, y: Array) -> list[tuple[str, Form]]:
    """What may be added to a kernel of the form signal + noise, each with its name, in the order of trial."""
    if len(X) < FEWEST:
        return []
    return [("a trend", partial(with_trend, X=X, y=y)), second_scale_form(), *period_forms(X, y)]


def second_scale_form() -> tuple[str, Form]:
    """A second component like the first, of shorter length-scales."""
    return "a second scale", partial(second_scale, ratio=0.3, share=0.2)


def period_forms(X: Array, y: Array) -> list[tuple[str, Form]]:
    """Components with periods that the targets show, each with its name."""
    return [
        (
            f"period {period:.4g}" + f" in column {column}" * (X.shape[1] > 1),
            partial(with_period, period=period, column=column, X=X, y=y),
        )
        for column, period in candidate_periods(X, y)
    ]


def scale_starts(kernel: Kernel, X: Array, y: Array, alpha: Array | None, most: int = 3) -> list[Array]:
    """Log-parameters of the highest local maxima of the likelihood on a grid of length-scales and shares of noise.

    All variances are scaled together to their most likely value. One point of the grid costs O(n^3).
    """
    grid = _grid(kernel, X, y)
    compiled = compile_kernel(kernel, X)
    found = threaded_map(
        lambda theta: profiled(compiled.with_theta(theta), X, y, alpha), [t for row in grid for t in row]
    )
    values, factors = np.array(found).reshape(len(grid), -1, 2).transpose(2, 0, 1)
    tops = np.argwhere((values >= maximum_filter(values, size=3, mode="nearest")) & np.isfinite(values))
    levels = [here for name, here in free_parameters(kernel) if name in VARIANCES]
    starts = []
    for place in sorted(map(tuple, tops), key=lambda place: -values[place])[:most]:
        theta = grid[place[0]][place[1]].copy()
        for here in levels:
            theta[here] += log(factors[place])
        starts.append(np.clip(theta, kernel.bounds[:, 0], kernel.bounds[:, 1]))
    return starts


def _grid(kernel: Kernel, X: Array, y: Array) -> list[list[Array]]:
    """Log-parameters: rows of length-scales, from half the rows' spacing to `LONGEST`, by the noise's `SHARES`.

    Several vectors of length-scales keep their ratios; one has all length-scales alike, in units of the inputs' spread.
    """
    parameters, variance = free_parameters(kernel), variation(y)
    lengths = [here for name, here in parameters if name == "length_scale"]
    noisy = any(name == "noise_level" for name, _ in parameters)
    nearest = spacing(X / (robust_spread(X) * np.sqrt(X.shape[1])))
    shortest = min(max(0.5 * nearest, LONGEST * 0.5**MOST_HALVINGS), LONGEST) if nearest else LONGEST
    middle = np.mean([kernel.theta[here].mean() for here in lengths]) if lengths else 0.0
    grid = []
    for factor in np.geomspace(shortest, LONGEST, 1 + int(np.ceil(np.log2(LONGEST / shortest)))) if lengths else [1.0]:
        row = []
        for share in SHARES if noisy else (0.0,):
            theta = kernel.theta.copy()
            for name, here in parameters:
                if name == "length_scale":
                    own = kernel.theta[here] - middle if len(lengths) > 1 else 0.0
                    theta[here] = natural_scale(X, here) + log(factor) + own
                elif name in VARIANCES:
                    theta[here] = log(variance * (share if name == "noise_level" else 1 - share))
            row.append(np.clip(theta, kernel.bounds[:, 0], kernel.bounds[:, 1]))
        grid.append(row)
    return grid


def profiled(kernel: CompiledKernel, X: Array, y: Array, alpha: Array | None) -> tuple[float, float]:
    """The log likelihood per target value with all variances scaled by the most likely factor, and that factor.

    With A the covariance, the factor is y'A^-1 y / n. With noise of the rows' own (`alpha`) it is 1.
    """
    L = _factor(kernel, X, alpha)
    if L is None:
        return -inf, 1.0
    z, _ = lapack.dtrtrs(L, y, lower=0, trans=1)
    square = float(np.vdot(z, z)) / y.size
    factor = max(square, np.finfo(np.float64).tiny) if alpha is None else 1.0
    value = -0.5 * (square / factor + log(factor)) - float(np.log(np.diag(L)).sum()) / len(X) - 0.5 * log(2 * pi)
    return (value, factor) if np.isfinite(value) else (-inf, 1.0)


def _factor(kernel: CompiledKernel, X: Array, alpha: Array | None) -> Array | None:
    """The upper Cholesky factor of the covariance of some observations; None where it has none."""
    features = kernel.prepare(X)
    latent, noise = kernel.diag(features), kernel.noise(features)
    A = kernel.block(features, features)
    floor = JITTER[np.dtype(np.float64)] * float(latent.max())
    A.flat[:: len(X) + 1] = latent + np.maximum(noise if alpha is None else noise + alpha, floor)
    L, failed = lapack.dpotrf(A.T, lower=0, clean=0, overwrite_a=1)
    return None if failed else L
