"""Predictive distributions: their quantiles, densities and cumulative probabilities (docs/method.rst, `distribution`).

The error of a prediction is its width times Z, which is distributed alike at all places (`Standard`). Where nothing is
known, it is Gaussian with the predicted standard deviation, and between the two, quantiles are weighted means of the
two distributions' quantiles: so they grow with their level, and intervals of every coverage go over from one to the
other without a jump.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import log, pi

import numpy as np
from scipy.special import betainc, betaln, gammaln, ndtr, ndtri, stdtr, stdtrit

from ..core.types import Floats

TINY = 1e-300  # the least probability whose logarithm is taken
NEWTON = 60  # most steps in search of a quantile or of a z; bisection alone would leave 1e-18 of the bracket
CLOSE = 1e-13  # relative difference of probabilities at which a search ends: rounding makes a tenth of it


@dataclass(frozen=True)
class Standard:
    """The distribution of Z: Student's t, whose cumulative probabilities are corrected by a Bernstein polynomial.

    With F the distribution function of t, that of Z is G(F(z)). G is the distribution function of a mixture of beta
    distributions with parameters (j, K - j + 1), j = 1 to K. One weight, K = 1, leaves the t as it is.

    Examples
    --------
    >>> Standard(3.0).quantiles(np.array([0.025, 0.5, 0.975])).round(4)
    array([-3.1824,  0.    ,  3.1824])
    """

    nu: float
    """Degrees of freedom of the t."""
    weights: Floats = field(default_factory=lambda: np.ones(1))
    """Weights of the beta distributions, of shape (K,). Their sum is 1."""

    def log_density(self, z: Floats) -> Floats:
        """The log density at z."""
        density = log_t(z, self.nu)
        if len(self.weights) > 1:
            density += np.log(np.maximum(bernstein(stdtr(self.nu, z), len(self.weights)) @ self.weights, TINY))
        return np.asarray(density)

    def normal_scores(self, z: Floats) -> Floats:
        """The standard normal quantiles of z's cumulative probabilities, as exact in the upper tail as in the lower."""
        upper, tail = z > 0, stdtr(self.nu, -np.abs(z))
        if len(self.weights) > 1:
            tail = np.where(upper, _mixed(tail, self.weights[::-1]), _mixed(tail, self.weights))
        scores = ndtri(np.maximum(tail, TINY))
        return np.asarray(np.where(upper, -scores, scores))

    def quantiles(self, levels: Floats) -> Floats:
        """The quantiles of cumulative probabilities between 0 and 1, of any shape."""
        if len(self.weights) == 1:
            return np.asarray(stdtrit(self.nu, levels))
        lower = self._lower(np.minimum(levels, 0.5), self.weights)
        upper = -self._lower(np.minimum(1 - levels, 0.5), self.weights[::-1])
        return np.where(levels <= 0.5, lower, upper)

    def _lower(self, levels: Floats, weights: Floats) -> Floats:
        """Quantiles of levels up to 0.5: Newton's method for log u with G(u) = level, then the t's quantile of u."""
        levels = np.maximum(levels, TINY)
        low, high = np.full(levels.shape, log(TINY)), np.zeros(levels.shape)
        t = np.log(levels)  # G(u) is near u
        for _ in range(NEWTON):
            u = np.exp(t)
            G = np.maximum(_mixed(u, weights), TINY)
            miss = np.log(G / levels)
            low, high = np.where(miss < 0, t, low), np.where(miss < 0, high, t)
            if np.all((np.abs(miss) <= CLOSE) | (high - low <= CLOSE)):
                break
            slope = u * (bernstein(u, len(weights)) @ weights) / G
            step = t - miss / np.maximum(slope, TINY)
            t = np.where((step > low) & (step < high), step, 0.5 * (low + high))
        return np.asarray(stdtrit(self.nu, np.exp(t)))


@dataclass(frozen=True)
class Predictive:
    """The predictive distribution of every target of some rows, in whatever unit the means have.

    With w the share `outside`, the quantile of a level u is mean + (1 - w) width Q(u) + w std N(u), where Q is the
    quantile function of `Standard` and N that of the standard normal distribution.
    """

    mean: Floats
    """Of shape (n, q)."""
    std: Floats
    """Standard deviations, noise included, of shape (n, q)."""
    width: Floats
    """Of shape (n, q)."""
    outside: Floats
    """Share of the Gaussian with the predicted standard deviation, of shape (n,): 0 among the data, 1 far away."""
    targets: Sequence[Standard | None]
    """The distribution of Z for every target; None for a Gaussian whose width is the standard deviation."""
    novelty: Floats | None = None
    """The share of the latent prior variance that is left, of shape (n,); None if it is not known."""

    @classmethod
    def gaussian(cls, mean: Floats, std: Floats, novelty: Floats | None = None) -> Predictive:
        """A Gaussian for every target, with means and standard deviations of shape (n, q)."""
        return cls(mean, std, std, np.zeros(len(mean)), (None,) * mean.shape[1], novelty)

    @property
    def is_gaussian(self) -> bool:
        """Whether every target is Gaussian."""
        return all(standard is None for standard in self.targets)

    def in_units(self, centre: Floats, unit: Floats) -> Predictive:
        """The distribution of unit * y + centre, with arrays of shape (q,) or, for `centre`, (n, q)."""
        return replace(self, mean=self.mean * unit + centre, std=self.std * unit, width=self.width * unit)

    def widened(self, variance: Floats) -> Predictive:
        """The distribution with a variance, of shape (n, q), added to the squares of its std and its width."""
        std, width = (np.sqrt(np.square(part) + variance) for part in (self.std, self.width))
        return replace(self, std=std, width=width)

    def quantiles(self, levels: Floats) -> Floats:
        """The quantiles of the same levels for every row, of shape (levels,); the result is (n, q, levels)."""
        return self._at(np.asarray(levels, dtype=np.float64), ndtri(levels))

    def from_normal(self, scores: Floats) -> Floats:
        """The quantiles whose levels are standard normal probabilities of `scores`, of shape (n, q, samples)."""
        return self._at(ndtr(scores), scores)

    def with_margins(self, samples: Floats, mean: Floats, variance: Floats) -> Floats:
        """Joint normal samples, each row of which is given its own distribution: a Gaussian copula.

        Parameters
        ----------
        samples : array of shape (n, q, samples)
        mean, variance : arrays of shape (n, q)
            Those of the samples.
        """
        if self.is_gaussian:
            return samples
        std = np.sqrt(variance)[..., None]
        scores = np.divide(samples - mean[..., None], std, out=np.zeros(samples.shape), where=std > 0)
        return self.from_normal(scores)

    def _at(self, levels: Floats, scores: Floats) -> Floats:
        found = np.empty((*self.mean.shape, levels.shape[-1]))
        for j, standard in enumerate(self.targets):
            here = (Ellipsis,) if levels.ndim == 1 else (slice(None), j)
            width, std, w = self.width[:, j, None], self.std[:, j, None], self.outside[:, None]
            if standard is None:
                found[:, j] = std * scores[here]
            else:
                found[:, j] = (1 - w) * width * standard.quantiles(levels[here]) + w * std * scores[here]
        return found + self.mean[..., None]

    def log_density(self, y: Floats) -> Floats:
        """The log density of targets of shape (n, q), one by one; of shape (n, q).

        Without any width, it is infinite at the mean, and minus infinity elsewhere.
        """
        found = np.empty(self.mean.shape)
        for j, standard in enumerate(self.targets):
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                if standard is None:
                    found[:, j] = log_gaussian(self._error(y, j), self.std[:, j])
                    continue
                z, scores = self._standardised(y, j, standard)
                inner = standard.log_density(z)
                # p(y) = f(z) / ((1 - w) width + w std f(z) / phi(score)): the inverse of the quantile's derivative.
                slope = self.outside * self.std[:, j] * np.exp(np.minimum(inner - log_gaussian(scores, 1.0), 700))
                mixed = inner - np.log((1 - self.outside) * self.width[:, j] + slope)
                found[:, j] = np.where(self.outside < 1, mixed, log_gaussian(self._error(y, j), self.std[:, j]))
        return np.where(self.std > 0, found, np.where(y == self.mean, np.inf, -np.inf))

    def cumulative(self, y: Floats) -> Floats:
        """The cumulative probability of targets of shape (n, q): PIT values, uniform if the distribution is right."""
        found = np.empty(self.mean.shape)
        for j, standard in enumerate(self.targets):
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                if standard is None:
                    found[:, j] = ndtr(self._error(y, j) / self.std[:, j])
                else:
                    found[:, j] = ndtr(self._standardised(y, j, standard)[1])
        return np.where(self.std > 0, found, y >= self.mean)

    def _error(self, y: Floats, j: int) -> Floats:
        return np.asarray(y[:, j] - self.mean[:, j])

    def _standardised(self, y: Floats, j: int, standard: Standard) -> tuple[Floats, Floats]:
        """The z of every target, and the standard normal quantile of the same level: (1 - w) width z + w std score = e.

        Where w is between 0 and 1, by Newton's method within a bracket that shrinks. Where w is 1, z is of no use.
        """
        error, w = self._error(y, j), self.outside
        a, b = (1 - w) * self.width[:, j], w * self.std[:, j]
        z = error / np.where(a > 0, a, 1.0)
        scores = standard.normal_scores(z)
        alone = w >= 1
        if alone.any():
            scores[alone] = error[alone] / self.std[alone, j]
        both = np.flatnonzero((w > 0) & (w < 1))
        if len(both):
            z[both] = _solve(standard, error[both], a[both], b[both])
            scores[both] = standard.normal_scores(z[both])
        return z, scores


def _solve(standard: Standard, error: Floats, a: Floats, b: Floats) -> Floats:
    """The z with a z + b score(z) = error, by Newton's method for arsinh z within a bracket that shrinks."""
    # a z + b score(z) is b score(0) at z = 0, and no less than the error, in size, at the other end.
    shift = float(standard.normal_scores(np.zeros(1))[0])
    ends = np.stack([np.arcsinh((error - b * shift) / a), np.zeros(len(error))])
    low, high = ends.min(axis=0), ends.max(axis=0)
    t = 0.5 * (low + high)
    for _ in range(NEWTON):
        z = np.sinh(t)
        scores = standard.normal_scores(z)
        miss = a * z + b * scores - error
        low, high = np.where(miss < 0, t, low), np.where(miss < 0, high, t)
        slope = a + b * np.exp(np.clip(standard.log_density(z) - log_gaussian(scores, 1.0), -700, 700))
        step = t - miss / (slope * np.cosh(t))
        t = np.where((step > low) & (step < high), step, 0.5 * (low + high))
    return np.asarray(np.sinh(t))


def log_t(z: Floats, nu: float) -> Floats:
    """The log density of Student's t."""
    constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * log(nu * pi)
    return np.asarray(constant - (nu + 1) / 2 * np.log1p(np.square(z) / nu))


def bernstein(u: Floats, degree: int) -> Floats:
    """The beta densities with parameters (j, K - j + 1), j = 1 to K = `degree`, at u; of shape (*u.shape, K)."""
    j = np.arange(1, degree + 1)
    u = np.clip(u, TINY, 1 - 1e-16)[..., None]
    return np.asarray(np.exp((j - 1) * np.log(u) + (degree - j) * np.log1p(-u) - betaln(j, degree - j + 1)))


def _mixed(u: Floats, weights: Floats) -> Floats:
    """The distribution function of the mixture of beta distributions at u."""
    j = np.arange(1, len(weights) + 1)
    return np.asarray(betainc(j, len(weights) - j + 1, u[..., None]) @ weights)


def log_gaussian(error: Floats, std: Floats | float) -> Floats:
    """The log density of a normal distribution with mean zero."""
    return np.asarray(-0.5 * np.square(error / std) - np.log(std) - 0.5 * log(2 * pi))
