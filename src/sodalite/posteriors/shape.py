"""The distribution of prediction errors, learnt from leave-one-out errors (docs/method.rst, `distribution`).

A Gaussian process says that errors are Gaussian. Those of most tables are not: many are small, a few are large, and how
large they are depends on the place in ways that the kernel does not know. So their distribution is learnt from the
leave-one-out errors that the error bars are scaled by. The error at x is width(x) times a number Z that is distributed
alike everywhere. The width is proportional to the calibrated standard deviation, or learnt from errors near by,

    log width(x) = c + b_0 log s(x) + b_1 log novelty(x) + sum_k b_k log a_k(x).

s(x) is the standard deviation that the process predicts, before it is calibrated. a_k(x) is the mean absolute error at
the k nearest places, each error in units of its own s. Z is Student's t, corrected by a Bernstein polynomial
(`sodalite.posteriors.predictive.Standard`), which gives skewness and other shapes, and leaves the tails those of a t.
What is fitted, from simple to flexible, is chosen by the log density of errors that the fit has not seen: a Gaussian
with the calibrated standard deviation, a t in units of it, a t with widths by place, corrections of growing degree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, stdtr

from ..core.threads import one_blas_thread
from ..core.types import Floats, Indices, Mask
from ..kernels import CompiledKernel
from ..kernels.neighbours import Neighbours, distinct
from .far import novelty_of
from .predictive import TINY, Standard, bernstein, log_gaussian, log_t

SIZES = (2, 8, 32)  # places near by whose errors tell the width; scales look up 32, and 64 gain at most 0.005 nats
STRENGTH = 2.0  # rows that the mean absolute error of all rows counts for, among those near by
LEAST = 20  # rows below which errors have Student's t by their number alone, as if their scale were estimated
KNOWN = 1e-4  # added to the novelty before its logarithm is taken: less is rounding
RIDGE = 1.0  # weight of |b - (1, 0, ...)|^2, in rows: for coefficients that few rows do not determine
NU = (0.7, 1000.0)  # degrees of freedom: the heaviest tails that are allowed, and as good as Gaussian
DEGREES = (4, 8, 16, 32)  # of the Bernstein polynomials that are tried
ROWS_PER_DEGREE = 25  # errors that a degree needs at least: with fewer, intervals of new rows were too narrow
SMOOTH = 2.0  # their prior, that all weights are equal, counts for SMOOTH sqrt(degree) rows
BINS = 512  # that cumulative probabilities are counted in, to fit the weights
STEPS = 100  # of expectation maximisation for the weights
CONVERGED = 1e-12  # gradient, and relative change of the cost, at which a fit ends: rounding does not show in it
NEARLY = 1e-7  # the same, of fits without a fold, which only judge: nats a row, far below `WORTH`
FOLDS = 5  # parts of the rows, each of which judges what was fitted to the others
WORTH = 0.002  # gain in mean log density, in nats a row, that makes up for a more flexible shape


@dataclass(frozen=True)
class LeftOut:
    """A model's predictions of some rows of its fit, each from the other rows."""

    X: Floats
    """Inputs, of shape (rows, d)."""
    error: Floats
    """Observation minus predicted mean; of shape (rows, q)."""
    variance: Floats
    """Predicted variance of an observation, noise included, not calibrated; of shape (rows,)."""
    latent: Floats
    """Predicted variance of the latent function, not calibrated; of shape (rows,)."""
    prior: Floats
    """Prior variance of the latent function; of shape (rows,)."""
    novelty: Floats
    """Share of the prior variance that the other rows leave; of shape (rows,)."""

    @classmethod
    def of(
        cls,
        kernel: CompiledKernel,
        X: Floats,
        error: Floats,
        variance: Floats,
        latent: Floats,
        novelty: Floats | None = None,
    ) -> LeftOut:
        """The predictions with the prior variances of a kernel, from which novelties follow if they are not known."""
        prior = kernel.diag(kernel.prepare(X))
        return cls(X, error, variance, latent, prior, novelty_of(latent, prior) if novelty is None else novelty)


@dataclass(frozen=True)
class Places:
    """The distinct inputs of some rows, and the places nearest to each row.

    Rows that repeat say many things about one place. Taken one by one, ties would decide which of them are near.
    """

    X: Floats
    """The distinct inputs, of shape (places, d)."""
    counts: Floats
    """How many rows each place has; of shape (places,)."""
    index: Neighbours = field(repr=False)
    """Finds the places nearest to a query."""
    place: Indices
    """The place of every row; of shape (rows,). -1 for a row that is at none."""
    found: Indices
    """The places nearest to every row, the nearest first; of shape (rows, k + 1)."""
    first: Indices | None = None
    """The first row of every place; of shape (places,). None if the places are those of other rows."""
    rho: Floats | None = None
    """Correlation of a row's error with the error of the row at each place of `found`; of shape (rows, k + 1). 0 where
    there are several rows, and where it is not known; None if none is."""

    @classmethod
    def of(cls, kernel: CompiledKernel, X: Floats, k: int) -> Places:
        """The places of the rows of X, and for each row the k nearest and its own."""
        first, place = distinct(X)
        index = Neighbours(kernel, X[first], by_period=False)
        counts = np.bincount(place, minlength=len(first)).astype(np.float64)
        return cls(X[first], counts, index, place, index.query(X, k + 1), first)

    @property
    def partners(self) -> Indices:
        """The row at each place of `found`, of shape (rows, k + 1); -1 for several rows, and for the row itself."""
        assert self.first is not None
        return np.where(self.is_other, self.first[self.found], -1)

    @property
    def is_other(self) -> Mask:
        """Whether each place of `found` has one row, which is not the row itself; of shape (rows, k + 1)."""
        return np.asarray((self.counts[self.found] == 1) & (self.found != self.place[:, None]))

    def correction(self, z: Floats, theirs: Floats | None, size: Callable[[Floats], Floats]) -> Floats | None:
        """The change of sizes of errors near by if the row had not been seen by these predictions either.

        The leave-one-out error of a place was predicted from the row, too, so it knows the row's own error; the errors
        near a new row do not (docs/method.rst, `pairs`). Standardised errors z_i and z_j have a correlation rho_ij, and

            (z_j - rho_ij z_i) / sqrt(1 - rho_ij^2)

        is the standardised error of j predicted from neither i nor j, which does not depend on z_i.

        Parameters
        ----------
        z : array of shape (rows, q)
            Standardised leave-one-out errors.
        theirs : array of shape (places, q) or None
            That of the row at every place that has one row.
        size : callable
            From errors of shape (..., q) to sizes of shape (..., p).

        Returns
        -------
        array of shape (rows, k + 1, p), or None if no correlations are known
        """
        if self.rho is None or theirs is None:
            return None
        near, rho = theirs[self.found], self.rho[..., None]
        return np.asarray(size((near - rho * z[:, None]) / np.sqrt(1 - rho * rho)) - size(near))

    def of_first(self, values: Floats) -> Floats | None:
        """The values of every place's first row, of values of shape (rows, q); None if the rows are others."""
        return None if self.first is None else values[self.first]

    def sums(self, values: Floats) -> Floats:
        """Sums of values, of shape (rows, q), over the rows of every place; of shape (places, q)."""
        return np.stack([np.bincount(self.place, column, minlength=len(self.X)) for column in values.T], axis=1)

    def others(self, values: Floats, sums: Floats, k: int, correction: Floats | None = None) -> tuple[Floats, Floats]:
        """Sums and numbers of values at the k places nearest to every row, without the row's own value.

        The row's own place is one of the k if it has other rows. What `correction` returns is added. Returns arrays of
        shape (rows, q) and (rows,).
        """
        found = self.found[:, : k + 1]
        used = self.used(k)
        mine = (used & (found == self.place[:, None])).any(axis=1)
        total = np.einsum("ik,ikq->iq", used, sums[found]) - mine[:, None] * values
        if correction is not None:
            total += np.einsum("ik,ikq->iq", used, correction[:, : k + 1])
        return np.maximum(total, 0.0), (self.counts[found] * used).sum(axis=1) - mine

    def used(self, k: int) -> Mask:
        """Which of the first k + 1 places of `found` are the k nearest once a row is left out; (rows, k + 1).

        The place of a row that is alone there is none of them.
        """
        alone = ((self.place >= 0) & (self.counts[self.place] == 1))[:, None]
        found = self.found[:, : k + 1]
        return np.asarray((np.arange(found.shape[1]) < k + alone) & ~(alone & (found == self.place[:, None])))


@dataclass(frozen=True)
class Width:
    """The width of one target's errors.

    Without coefficients it is exp(level) times the calibrated standard deviation. With coefficients,

        log width = level + coefficients . features.
    """

    level: float
    coefficients: Floats
    """Of the features, of shape (features,); none if the width is proportional to the calibrated standard deviation."""
    limits: Floats
    """The least and the largest value of every feature in the fit; of shape (2, features)."""

    @property
    def by_place(self) -> bool:
        """Whether the width depends on errors near by."""
        return len(self.coefficients) > 1

    def __call__(self, features: Floats, std: Floats) -> Floats:
        """Widths for features of shape (n, features) and calibrated standard deviations of shape (n,); of shape (n,).

        A feature beyond its limits counts as at the limit, but for log s: the width stays proportional to s there.
        """
        if not len(self.coefficients):
            return np.asarray(np.exp(self.level) * std)
        features = features[:, : len(self.coefficients)]
        inside = np.clip(features, *self.limits)
        return np.asarray(np.exp(self.level + inside @ self.coefficients + features[:, 0] - inside[:, 0]))


@dataclass(frozen=True)
class Shape:
    """The distribution of errors around predictions, for all targets."""

    targets: tuple[tuple[Width, Standard] | None, ...]
    """Width and distribution of every target; None for a Gaussian with the calibrated standard deviation."""
    mean: Floats
    """Mean absolute errors in units of s, over all rows; of shape (q,)."""
    sums: Floats | None = field(default=None, repr=False)
    """Sums of absolute errors in units of s over every place's rows, of shape (places, q); None if no width depends on
    the place."""
    ratios: Floats = field(default_factory=lambda: np.empty(0))
    """Calibrated standard deviations over widths, the geometric mean over the rows; of shape (q,), 1 if Gaussian."""
    gain: tuple[float, ...] = ()
    """Gain in mean log density over a Gaussian, of errors that the fit has not seen; for every target."""

    @classmethod
    def learn(
        cls,
        rows: LeftOut,
        places: Places | None,
        variance: Floats,
        extra: float,
        optimism: float,
        degrees: Sequence[int] = DEGREES,
    ) -> Shape:
        """Learn the shape of leave-one-out errors. O(rows q).

        Parameters
        ----------
        rows : LeftOut
        places : Places or None
            None if there are too few rows for widths that depend on the place.
        variance : array of shape (rows,)
            Calibrated variances of observations, that of each row by the other rows.
        extra : float
            Noise variance that calibration adds.
        optimism : float
            How many times as large squared errors are for rows that no step of the fit has seen.
        degrees : sequence of int
            Of the corrections that are tried.
        """
        n, q = rows.error.shape
        s = np.sqrt(rows.variance + extra)
        if not (np.all(s > 0) and np.all(variance > 0)):
            return cls((None,) * q, np.ones(q), ratios=np.ones(q))
        if n < LEAST:  # the scale itself is known by n errors alone
            few = Width(0.0, np.empty(0), np.empty((2, 0))), Standard(float(max(n - 1, 1)))
            return cls((few,) * q, np.ones(q), ratios=np.ones(q))
        error = np.sqrt(optimism) * rows.error
        sizes = np.abs(error) / s[:, None]
        mean = np.maximum(sizes.mean(axis=0), TINY)
        sums = None if places is None else places.sums(sizes)
        made = cls((None,) * q, mean, sums)
        features = made._features_left_out(rows, places, extra, optimism)
        std = np.sqrt(optimism * variance)
        with one_blas_thread():  # products too small to share out
            found = [_choose(features[..., j], error[:, j], std, degrees) for j in range(q)]
        by_place = any(target is not None and target[0].by_place for target, _ in found)
        targets, gain = tuple(target for target, _ in found), tuple(gain for _, gain in found)
        learnt = cls(targets, mean, sums if by_place else None, np.ones(q), gain)
        widths = learnt._widths(features, std)
        ratios = np.exp(np.mean(np.log(std[:, None] / np.where(widths > 0, widths, std[:, None])), axis=0))
        return replace(learnt, ratios=ratios)

    def widths_left_out(
        self,
        rows: LeftOut,
        places: Places | None,
        variance: Floats,
        extra: float,
        optimism: float = 1.0,
        theirs: Floats | None = None,
    ) -> Floats:
        """Widths of the errors of rows of the fit, that of each by the other rows; of shape (rows, q).

        Parameters are those of `learn`, and `theirs` of `Places.correction`. `places` are not needed if no width
        depends on the place.
        """
        features = self._features_left_out(rows, places, extra, optimism, theirs)
        return self._widths(features, np.sqrt(optimism * variance))

    def _features_left_out(
        self, rows: LeftOut, places: Places | None, extra: float, optimism: float, theirs: Floats | None = None
    ) -> Floats:
        """The features of every row by the other rows, of shape (rows, features, q)."""
        s = np.sqrt(np.maximum(rows.variance + extra, TINY))
        near = []
        if self.sums is not None:
            assert places is not None
            z = np.sqrt(optimism) * rows.error / s[:, None]
            theirs = places.of_first(z) if theirs is None else theirs
            correction = places.correction(z, theirs, np.abs)
            near = [places.others(np.abs(z), self.sums, k, correction) for k in SIZES]
        return _features(s, rows.novelty, near, self.mean)

    @property
    def standards(self) -> list[Standard | None]:
        """The distribution of Z for every target, as `Predictive` takes them."""
        return [None if target is None else target[1] for target in self.targets]

    @property
    def learnt_from(self) -> list[tuple[Standard, float]]:
        """For every target the distribution of Z, of a Gaussian one as Student's t, and its ratio."""
        standards = (Standard(NU[1]) if standard is None else standard for standard in self.standards)
        return list(zip(standards, self.ratios.tolist(), strict=True))

    @property
    def n_near(self) -> int:
        """How many places near by widths depend on."""
        return 0 if self.sums is None else max(SIZES)

    @property
    def is_gaussian(self) -> bool:
        """Whether all targets have Gaussian errors with the calibrated standard deviation."""
        return all(target is None for target in self.targets)

    def widths(self, variance: Floats, std: Floats, novelty: Floats, found: Indices | None, counts: Floats) -> Floats:
        """Widths of the errors of some queries, of shape (n, q); of a Gaussian target, zero.

        Parameters
        ----------
        variance : array of shape (n,)
            Of observations, not calibrated, with the noise that calibration adds.
        std : array of shape (n,)
            Calibrated standard deviations of observations.
        novelty : array of shape (n,)
        found : array of shape (n, n_near) or None
            The places nearest to each query; None if no width depends on them.
        counts : array of shape (places,)
            The rows of every place.
        """
        near = []
        if self.sums is not None:
            assert found is not None
            near = [(self.sums[found[:, :k]].sum(axis=1), counts[found[:, :k]].sum(axis=1)) for k in SIZES]
        return self._widths(_features(np.sqrt(np.maximum(variance, TINY)), novelty, near, self.mean), std)

    def _widths(self, features: Floats, std: Floats) -> Floats:
        """Widths for features of shape (n, features, q) and `std` of shape (n,); (n, q), zero of a Gaussian target."""
        none = np.zeros(len(std))
        return np.stack(
            [none if t is None else t[0](features[..., j], std) for j, t in enumerate(self.targets)], axis=1
        )


def _features(s: Floats, novelty: Floats, near: list[tuple[Floats, Floats]], mean: Floats) -> Floats:
    """Log s; then, if errors near by are known, log novelty and every log a_k; of shape (n, features, q).

    `near` has sums of shape (n, q) over so many rows, of shape (n,), for each k. `mean` is the mean of all, (q,).
    """
    columns = [np.broadcast_to(s[:, None], (len(s), len(mean)))]
    if near:
        columns.append(np.broadcast_to(np.sqrt(novelty + KNOWN)[:, None], (len(s), len(mean))))
    columns += [(total + STRENGTH * mean) / (count + STRENGTH)[:, None] for total, count in near]
    return np.asarray(np.log(np.stack(columns, axis=1)))


def density_of_t(error: Floats, std: Floats) -> float:
    """The mean log density of errors by Student's t, whose width is proportional to their standard deviations.

    The t is fitted to the errors, so that a few large ones do not decide.

    Parameters
    ----------
    error, std : arrays of shape (rows, q) and (rows,)
    """
    errors, log_std = error.T.ravel(), np.tile(np.log(std), error.shape[1])[:, None]
    if not np.any(errors):
        return float(log_gaussian(errors, np.exp(log_std[:, 0])).mean())
    with one_blas_thread():
        theta = _fit_t(log_std, errors)
    return float(_densities(log_std, errors, theta, 1).mean())


# One target: features of shape (rows, features), the first the log of a standard deviation, and errors of shape (rows,)


def _choose(
    features: Floats, error: Floats, std: Floats, degrees: Sequence[int]
) -> tuple[tuple[Width, Standard] | None, float]:
    """The shape that gives errors left out of its fit the largest density, unless a simpler one is nearly as good.

    None stands for a Gaussian with the calibrated standard deviations `std`, of shape (rows,). The second result is the
    gain in mean log density over that Gaussian.
    """
    if not np.any(error):
        return None, 0.0
    gaussian = density = log_gaussian(error, std)
    candidates = [np.log(std)[:, None]]  # logarithms that the width is made of, the simplest first
    if features.shape[1] > 1:
        candidates.append(features)
    wholes = [_fit_t(some, error) for some in candidates]
    at, best = 0, 0  # the candidate, and the degree of its correction; 0 for the Gaussian
    folds: dict[int, list[Floats]] = {}
    # What does not gain on the rows of its own fit gains nothing on others, and is not fitted to folds.
    for number, (some, theta) in enumerate(zip(candidates, wholes, strict=True)):
        if _is_better(_densities(some, error, theta, 1), density):
            folds[number] = _without_folds(some, error, theta)
            held = _held_out(some, error, folds[number], 1)
            if _is_better(held, density):
                at, best, density = number, 1, held
    some, theta = candidates[at], wholes[at]
    for degree in (degree for degree in degrees if degree * ROWS_PER_DEGREE <= len(error)):
        if _is_better(_densities(some, error, theta, degree), density):
            if at not in folds:
                folds[at] = _without_folds(some, error, theta)
            held = _held_out(some, error, folds[at], degree)
            if _is_better(held, density):
                best, density = degree, held
    if not best:
        return None, 0.0
    used, coefficients = (some, theta[2:]) if at else (some[:, :0], np.empty(0))  # none: in units of `std`
    width = Width(float(theta[1]), coefficients, np.stack([used.min(axis=0), used.max(axis=0)]))
    nu = float(np.exp(theta[0]))
    weights = _fit_weights(stdtr(nu, error / width(used, std)), best)
    return (width, Standard(nu, weights)), float(np.mean(density - gaussian))


def _is_better(held: Floats, density: Floats) -> bool:
    """Whether log densities, of shape (rows,), are larger by more than is worth it, and by more than chance.

    Chance is one standard error of the mean difference.
    """
    gain = held - density
    return bool(gain.mean() > max(WORTH, gain.std() / np.sqrt(len(gain))))


def _densities(features: Floats, error: Floats, theta: Floats, degree: int, known: Mask | None = None) -> Floats:
    """The log densities of all errors, or of those that are not `known`, by a t and a correction.

    The correction is fitted to all errors, or to those that are known. `theta` is what `_fit_t` returns, and a degree
    of 1 means no correction.
    """
    log_width = theta[1] + features @ theta[2:]
    nu, z = float(np.exp(theta[0])), error * np.exp(-log_width)
    new: Mask | slice = slice(None) if known is None else ~known
    density = log_t(z[new], nu) - log_width[new]
    if degree > 1:
        u = stdtr(nu, z)
        weights = _fit_weights(u if known is None else u[known], degree)
        density += np.log(np.maximum(bernstein(u[new], degree) @ weights, TINY))
    return np.asarray(density)


def _without_folds(features: Floats, error: Floats, start: Floats) -> list[Floats]:
    """The parameters of a t, as `_fit_t` returns them, fitted without each of the folds."""
    fold = np.arange(len(error)) % FOLDS
    return [_fit_t(features[fold != number], error[fold != number], start, NEARLY) for number in range(FOLDS)]


def _held_out(features: Floats, error: Floats, fits: list[Floats], degree: int) -> Floats:
    """The log density of every error, of shape (rows,), by a shape that was fitted to the other folds."""
    fold, held = np.arange(len(error)) % FOLDS, np.empty(len(error))
    for number, theta in enumerate(fits):
        known = fold != number
        held[~known] = _densities(features, error, theta, degree, known)
    return held


def _fit_t(features: Floats, error: Floats, start: Floats | None = None, converged: float = CONVERGED) -> Floats:
    """Log nu, the level and the coefficients of a t by maximum likelihood; of shape (2 + features,).

    A single coefficient is held at 1. `converged` is the gradient, and the relative change of the cost, at which the
    fit ends.
    """
    centre, count = features.mean(axis=0), features.shape[1]
    plain = np.eye(1, count)[0]  # a width proportional to the standard deviation
    if start is None:
        level = np.log(max(float(np.median(np.abs(error) * np.exp(-features[:, 0]))), TINY))
        start = np.array([np.log(5.0), level, *plain])  # 5: between heavy tails and none
    bounds = [tuple(np.log(NU)), (None, None), *([(1, 1)] if count == 1 else [(None, None)] * count)]
    shifted = np.concatenate([start[:1], [start[1] + centre @ start[2:]], start[2:]])
    given, options = (features - centre, error, plain), {"ftol": converged, "gtol": converged}
    found = minimize(_cost, shifted, given, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return np.concatenate([found[:1], [found[1] - centre @ found[2:]], found[2:]])


def _cost(theta: Floats, features: Floats, error: Floats, plain: Floats) -> tuple[float, Floats]:
    """Minus the mean log density of errors, with a weak prior on the coefficients; and its gradient."""
    n, nu, b = len(error), np.exp(theta[0]), theta[2:]
    log_width = np.clip(theta[1] + features @ b, -600, 600)
    q = np.square(np.clip(error * np.exp(-log_width), -1e100, 1e100)) / nu
    grown, share = np.log1p(q), q / (1 + q)
    value = np.mean(log_width) - log_t(np.zeros(1), nu)[0] + (nu + 1) / 2 * grown.mean()
    by_nu = 0.5 * (digamma(nu / 2) - digamma((nu + 1) / 2) + 1 / nu + grown.mean() - (nu + 1) / nu * share.mean())
    by_width = 1 - (nu + 1) * share
    value += RIDGE / n * np.square(b - plain).sum()
    by_b = features.T @ by_width / n + 2 * RIDGE / n * (b - plain)
    return float(value), np.array([nu * by_nu, by_width.mean(), *by_b])


def _fit_weights(u: Floats, degree: int) -> Floats:
    """Weights of a mixture of beta densities for cumulative probabilities u, by expectation maximisation."""
    weights = np.full(degree, 1 / degree)
    if degree == 1:
        return weights
    counts = np.histogram(u, BINS, (0, 1))[0]
    basis, prior = _basis(degree), SMOOTH * np.sqrt(degree)
    for _ in range(STEPS):
        share = basis.T @ (counts / (basis @ weights))
        weights = (weights * share + prior / degree) / (len(u) + prior)
    return np.asarray(weights)


@cache
def _basis(degree: int) -> Floats:
    """The beta densities of `bernstein` in the middle of every bin; of shape (BINS, degree)."""
    return bernstein((np.arange(BINS) + 0.5) / BINS, degree)
