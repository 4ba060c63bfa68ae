"""The distribution of prediction errors, learnt from leave-one-out errors (docs/method.rst, `distribution`).

A Gaussian process says that errors are Gaussian. Those of most tables are not: many are small, a few are large, and how
large they are depends on the place in ways that the kernel does not know. So their distribution is learnt from the
leave-one-out errors that the error bars are scaled by. The error at x is width(x) times a number Z that is distributed
alike everywhere,

    log width(x) = c + b_0 log std(x) + sum_k b_k log a_k(x),

where a_k(x) is the mean absolute error at the k nearest places, each error in units of its own standard deviation. Z is
Student's t, corrected by a Bernstein polynomial (`sodalite.posteriors.predictive.Standard`), which gives skewness and
other shapes, and leaves the tails those of a t. What is fitted, from simple to flexible, is chosen by the log density
of errors that the fit has not seen: a Gaussian, a t, a t with widths by place, corrections of growing degree.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, stdtr

from ..core.types import Floats, Indices, Mask
from ..kernels import CompiledKernel
from ..kernels.neighbours import Neighbours, distinct
from .predictive import TINY, Predictive, Standard, bernstein, log_t

SIZES = (4, 16, 64)  # places near by whose errors tell the width; other or more sizes change less than 0.005 nats a row
STRENGTH = 2.0  # rows that the mean absolute error of all rows counts for, among those near by
LEAST = 20  # rows below which errors are taken for Gaussian
FEW = 100  # rows below which widths are proportional to the standard deviation
RIDGE = 1.0  # weight of |b - (1, 0, ...)|^2, in rows: holds coefficients that few rows do not determine
NU = (0.7, 1000.0)  # degrees of freedom: the heaviest tails that are allowed, and as good as Gaussian
DEGREES = (4, 8, 16, 32)  # of the Bernstein polynomials that are tried
SMOOTH = 2.0  # their prior, that all weights are equal, counts for SMOOTH sqrt(degree) rows
BINS = 512  # that cumulative probabilities are counted in, to fit the weights
STEPS = 100  # of expectation maximisation for the weights
FOLDS = 5  # parts of the rows, each of which judges what was fitted to the others
WORTH = 0.002  # gain in mean log density, in nats a row, that makes up for a more flexible shape


@dataclass(frozen=True)
class LeftOut:
    """Some rows of a fit, each predicted from all others."""

    X: Floats
    """Inputs, of shape (rows, d)."""
    error: Floats
    """Targets less predictions, of shape (rows, q)."""
    std: Floats
    """Standard deviations of the predictions, noise included, of shape (rows,)."""
    novelty: Floats
    """Shares of the prior variance that the other rows leave, of shape (rows,)."""


@dataclass(frozen=True)
class Places:
    """Rows with equal inputs as one place, and an index of the places nearest to a query.

    Rows that repeat say many things about one place. Taken one by one, ties would decide which of them are near.
    """

    X: Floats
    """The distinct inputs, of shape (places, d)."""
    counts: Floats
    """Rows at each place, of shape (places,)."""
    index: Neighbours = field(repr=False)

    @classmethod
    def of(cls, kernel: CompiledKernel, X: Floats) -> tuple[Places, Indices]:
        """The places of some rows, and the place of each row."""
        first, place = distinct(X)
        return cls.restore(kernel, X[first], np.bincount(place, minlength=len(first)).astype(np.float64)), place

    @classmethod
    def restore(cls, kernel: CompiledKernel, X: Floats, counts: Floats) -> Places:
        """The places from their inputs and counts."""
        return cls(X, counts, Neighbours(kernel, X, by_period=False))

    def sums(self, values: Floats, place: Indices) -> Floats:
        """Sums of some values of shape (rows, q) over the rows of each place, of shape (places, q)."""
        return np.stack([np.bincount(place, column, minlength=len(self.X)) for column in values.T], axis=1)

    def query(self, X: Floats, k: int) -> Indices:
        """The k places nearest to every row of X, the nearest first; of shape (n, k)."""
        return self.index.query(np.asarray(X, dtype=np.float64), k)


@dataclass(frozen=True)
class Width:
    """The width of one target's errors: log width = level + coefficients . features."""

    level: float
    coefficients: Floats
    """Of log std, and of every log a_k if the width depends on them; of shape (1,) or (1 + sizes,)."""
    limits: Floats
    """The least and the largest value of every feature in the fit, of shape (2, features)."""

    def __call__(self, features: Floats) -> Floats:
        """Widths for features of shape (n, features); of shape (n,).

        Beyond the limits, features count as the limit, but for the standard deviation: the width grows with it.
        """
        features = features[:, : len(self.coefficients)]
        inside = np.clip(features, *self.limits)
        return np.asarray(np.exp(self.level + inside @ self.coefficients + features[:, 0] - inside[:, 0]))


@dataclass(frozen=True)
class Shape:
    """The distribution of errors around predictions, for all targets."""

    targets: tuple[tuple[Width, Standard] | None, ...]
    """Width and distribution of every target; None for a Gaussian with the predicted standard deviation."""
    edge: float = 1.0
    """The novelty up to which it holds."""
    mean: Floats = field(default_factory=lambda: np.ones(1))
    """Mean absolute errors in standard deviations, over all rows; of shape (q,)."""
    places: Places | None = field(default=None, repr=False)
    """The places that widths depend on; None if they depend on none."""
    sums: Floats | None = field(default=None, repr=False)
    """Sums of absolute errors, in standard deviations, of every place's rows; of shape (places, q)."""
    gain: tuple[float, ...] = ()
    """Every target's gain in mean log density over the Gaussian, for errors that the fit has not seen."""

    @classmethod
    def learn(cls, kernel: CompiledKernel, rows: LeftOut, edge: float) -> Shape:
        """The shape of leave-one-out errors. O(rows^2 d), or rows log rows in few dimensions, and O(rows q)."""
        n, q = rows.error.shape
        gaussian = cls((None,) * q, edge)
        if n < LEAST or not np.all(rows.std > 0):
            return gaussian
        sizes = np.abs(rows.error) / rows.std[:, None]
        made = cls(gaussian.targets, edge, np.maximum(sizes.mean(axis=0), TINY))
        if n >= FEW:
            places, place = Places.of(kernel, rows.X)
            made = cls(made.targets, edge, made.mean, places, places.sums(sizes, place))
            features = made._features_left_out(rows, sizes, place)
        else:
            features = made._features(rows.X, rows.std)
        chosen = [_choose(features[..., j], rows.error[:, j]) for j in range(q)]
        targets, gain = tuple(part for part, _ in chosen), tuple(gain for _, gain in chosen)
        if all(part is None or len(part[0].coefficients) == 1 for part in targets):
            return cls(targets, edge, made.mean, gain=gain)
        return cls(targets, edge, made.mean, made.places, made.sums, gain)

    def predictive(self, X: Floats, mean: Floats, variance: Floats, novelty: Floats) -> Predictive:
        """The predictive distribution of observations at X.

        Parameters
        ----------
        X : array of shape (n, d)
        mean : array of shape (n, q)
        variance : array of shape (n,)
            Of observations, as predictions have it.
        novelty : array of shape (n,)
        """
        std = np.sqrt(variance)
        both = np.broadcast_to(std[:, None], mean.shape)
        outside = np.maximum(novelty - self.edge, 0) / max(1 - self.edge, TINY)
        if all(part is None for part in self.targets):
            return Predictive(mean, both, both, outside, self.targets)  # type: ignore[arg-type]
        features = self._features(X, np.maximum(std, TINY))
        widths = [std if part is None else part[0](features[..., j]) for j, part in enumerate(self.targets)]
        width = np.where(both > 0, np.stack(widths, axis=1), 0.0)
        return Predictive(mean, both, width, outside, [part and part[1] for part in self.targets])

    def _features(self, X: Floats, std: Floats) -> Floats:
        """Log std and every log a_k, of shape (n, features, q)."""
        if self.places is None or self.sums is None:
            return self._joined(std, [])
        found = self.places.query(X, max(SIZES))
        counts, sums = self.places.counts, self.sums
        return self._joined(std, [(sums[found[:, :k]].sum(1), counts[found[:, :k]].sum(1)) for k in SIZES])

    def _features_left_out(self, rows: LeftOut, sizes: Floats, place: Indices) -> Floats:
        """The features of the rows themselves, without each row's own error.

        A place stays if it has other rows; if not, the next one takes its turn.
        """
        assert self.places is not None and self.sums is not None
        found = self.places.query(rows.X, max(SIZES) + 1)
        own, alone = found == place[:, None], self.places.counts[place] == 1
        parts = []
        for k in SIZES:
            some = found[:, : k + 1]
            taken: Mask = np.arange(some.shape[1]) < (k + alone)[:, None]
            mine = (own[:, : k + 1] & taken).any(axis=1)
            total = np.einsum("ik,ikq->iq", taken, self.sums[some]) - mine[:, None] * sizes
            parts.append((np.maximum(total, 0), (self.places.counts[some] * taken).sum(axis=1) - mine))
        return self._joined(rows.std, parts)

    def _joined(self, std: Floats, parts: list[tuple[Floats, Floats]]) -> Floats:
        """Log std, and the log means of some sums, of shape (n, q), over so many rows, of shape (n,)."""
        shape = (len(std), len(self.targets))
        means = [(total + STRENGTH * self.mean) / (count + STRENGTH)[:, None] for total, count in parts]
        return np.log(np.stack([np.broadcast_to(std[:, None], shape), *means], axis=1))


# One target: features of shape (rows, features), the first of them log std, and errors of shape (rows,)


def _choose(features: Floats, error: Floats) -> tuple[tuple[Width, Standard] | None, float]:
    """The shape that gives errors left out of its fit the largest density, unless a simpler one is nearly as good.

    None stands for a Gaussian with the predicted standard deviation. The second result is the gain in mean log density
    over that Gaussian.
    """
    if not np.any(error):
        return None, 0.0
    gaussian = density = _log_gaussian(error, features[:, 0])
    chosen: tuple[int, int] | None = None
    for candidate, held in sorted(_held_out(features, error).items(), key=lambda item: item[0][::-1]):
        gain = held - density
        # By more than it is worth, and by more than chance: one standard error of the difference.
        if gain.mean() > max(WORTH, gain.std() / np.sqrt(len(gain))):
            chosen, density = candidate, held
    if chosen is None:
        return None, 0.0
    some, degree = features[:, : chosen[0]], chosen[1]
    theta = _fit_t(some, error)
    width = Width(float(theta[1]), theta[2:], np.stack([some.min(axis=0), some.max(axis=0)]))
    u = stdtr(np.exp(theta[0]), error / width(some))
    return (width, Standard(float(np.exp(theta[0])), _fit_weights(u, degree))), float(np.mean(density - gaussian))


def _held_out(features: Floats, error: Floats) -> dict[tuple[int, int], Floats]:
    """The log density of every error by every candidate, fitted to the other folds.

    A candidate is a number of features and a degree; 1 for a t without correction.
    """
    n, fold = len(error), np.arange(len(error)) % FOLDS
    counts = sorted({1, features.shape[1]})
    held = {(count, degree): np.empty(n) for count in counts for degree in (1, *DEGREES)}
    for count in counts:
        start = _fit_t(features[:, :count], error)
        for here in (fold == number for number in range(FOLDS)):
            theta = _fit_t(features[~here, :count], error[~here], start)
            log_width = theta[1] + features[:, :count] @ theta[2:]
            nu, z = np.exp(theta[0]), error * np.exp(-log_width)
            u, density = stdtr(nu, z), log_t(z[here], nu) - log_width[here]
            for degree in (1, *DEGREES):
                weights = _fit_weights(u[~here], degree)
                held[count, degree][here] = density + np.log(np.maximum(bernstein(u[here], degree) @ weights, TINY))
    return held


def _fit_t(features: Floats, error: Floats, start: Floats | None = None) -> Floats:
    """Log nu, the level and the coefficients of a t by maximum likelihood; of shape (2 + features,).

    A single coefficient, that of log std, is held at 1.
    """
    centre, count = features.mean(axis=0), features.shape[1]
    plain = np.eye(1, count)[0]  # the standard deviation, and nothing else
    if start is None:
        level = np.log(max(float(np.median(np.abs(error) * np.exp(-features[:, 0]))), TINY))
        start = np.array([np.log(5.0), level, *plain])  # 5: between heavy tails and none
    bounds = [tuple(np.log(NU)), (None, None), *([(1, 1)] if count == 1 else [(None, None)] * count)]
    shifted = np.concatenate([start[:1], [start[1] + centre @ start[2:]], start[2:]])
    found = minimize(_cost, shifted, (features - centre, error, plain), jac=True, method="L-BFGS-B", bounds=bounds).x
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
    basis, prior = bernstein((np.arange(BINS) + 0.5) / BINS, degree), SMOOTH * np.sqrt(degree)
    for _ in range(STEPS):
        share = basis.T @ (counts / (basis @ weights))
        weights = (weights * share + prior / degree) / (len(u) + prior)
    return np.asarray(weights)


def _log_gaussian(error: Floats, log_std: Floats) -> Floats:
    return np.asarray(-0.5 * np.square(error * np.exp(-log_std)) - log_std - 0.5 * np.log(2 * np.pi))
