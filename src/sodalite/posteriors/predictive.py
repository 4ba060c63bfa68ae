"""Predictive distributions: their quantiles, densities and cumulative probabilities (docs/method.rst, `distribution`).

The error of a prediction is its width times Z, which is distributed alike at all places (`Standard`). Heavy tails end
where they promise less than no data would: no quantile is farther from the mean than twice that of a normal
distribution with the standard deviation of a row of which nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import log, pi
from typing import Any, Protocol

import numpy as np
from scipy.special import betainc, betaln, gammaln, ndtr, ndtri, stdtr, stdtrit

from ..core.types import Floats, Indices, Mask

TINY = 1e-300  # the least probability whose logarithm is taken
NEWTON = 60  # most steps in search of a quantile; bisection alone would leave 1e-18 of the bracket
INNER = float(ndtri(0.75))  # normal quantile up to which, in units of `most`, no quantile is cut
CLOSE = 1e-13  # relative difference of probabilities at which a search ends: rounding makes a tenth of it


class Distribution(Protocol):
    """Predictive distributions of every target of some rows."""

    @property
    def mean(self) -> Floats:
        """Of shape (n, q)."""
        ...

    @property
    def std(self) -> Floats:
        """Standard deviations, noise included, of shape (n, q)."""
        ...

    @property
    def novelty(self) -> Floats | None:
        """The share of the latent prior variance that is left, of shape (n,); None if it is not known."""
        ...

    def with_novelty(self, novelty: Floats) -> Distribution:
        """The distribution with novelties, of shape (n,)."""
        ...

    def take(self, which: Indices) -> Distribution:
        """The distributions of some rows."""
        ...

    def quantiles(self, levels: Floats) -> Floats:
        """The quantiles of the same levels for every row, of shape (levels,); the result is (n, q, levels)."""
        ...

    def log_density(self, y: Floats) -> Floats:
        """The log density of targets of shape (n, q), one by one; of shape (n, q)."""
        ...

    def cumulative(self, y: Floats) -> Floats:
        """The cumulative probability of targets of shape (n, q)."""
        ...


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

    With Q the quantile function of `Standard` and N that of the standard normal distribution, the quantile of a level u
    is mean + width Q(u), but no farther from the mean than most max(|N(u)|, N(3/4)).
    """

    mean: Floats
    """Of shape (n, q)."""
    std: Floats
    """Standard deviations, noise included, of shape (n, q)."""
    width: Floats
    """Of shape (n, q)."""
    targets: Sequence[Standard | None]
    """The distribution of Z for every target; None for a Gaussian whose width is the standard deviation."""
    novelty: Floats | None = None
    """The share of the latent prior variance that is left, of shape (n,); None if it is not known."""
    most: Floats | None = None
    """Twice the standard deviation of a row of which nothing is known, of shape (n, q); None for no limit."""

    @classmethod
    def gaussian(cls, mean: Floats, std: Floats, novelty: Floats | None = None) -> Predictive:
        """A Gaussian for every target, with means and standard deviations of shape (n, q)."""
        return cls(mean, std, std, (None,) * mean.shape[1], novelty)

    @property
    def is_gaussian(self) -> bool:
        """Whether every target is Gaussian."""
        return all(standard is None for standard in self.targets)

    def take(self, which: Indices) -> Predictive:
        """The distributions of some rows."""
        arrays: dict[str, Any] = {
            name: part[which] for name, part in vars(self).items() if isinstance(part, np.ndarray)
        }
        return replace(self, **arrays)

    def in_units(self, centre: Floats, unit: Floats) -> Predictive:
        """The distribution of unit * y + centre, with arrays of shape (q,) or, for `centre`, (n, q)."""
        most = None if self.most is None else self.most * unit
        return replace(self, mean=self.mean * unit + centre, std=self.std * unit, width=self.width * unit, most=most)

    def with_novelty(self, novelty: Floats) -> Predictive:
        """The distribution with novelties, of shape (n,)."""
        return replace(self, novelty=novelty)

    def widened(self, variance: Floats) -> Predictive:
        """The distribution with a variance, of shape (n, q), added to the squares of its std and its width."""
        std, width = (np.sqrt(np.square(part) + variance) for part in (self.std, self.width))
        most = None if self.most is None else np.sqrt(np.square(self.most) + 4 * variance)
        return replace(self, std=std, width=width, most=most)

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
            if standard is None:
                found[:, j] = self.std[:, j, None] * scores[here]
            else:
                found[:, j] = self.width[:, j, None] * standard.quantiles(levels[here])
            if self.most is not None:
                farthest = self.most[:, j, None] * np.maximum(np.abs(scores[here]), INNER)
                found[:, j] = np.clip(found[:, j], -farthest, farthest)
        return found + self.mean[..., None]

    def log_density(self, y: Floats) -> Floats:
        """The log density of targets of shape (n, q), one by one; of shape (n, q).

        Without any width, it is infinite at the mean, and minus infinity elsewhere.
        """
        found = np.empty(self.mean.shape)
        for j, standard in enumerate(self.targets):
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                error = self._error(y, j)
                if standard is None:
                    found[:, j] = log_gaussian(error, self.std[:, j])
                else:
                    found[:, j] = standard.log_density(error / self.width[:, j]) - np.log(self.width[:, j])
                if self.most is not None:
                    is_cut = self._is_cut(error, j)
                    found[is_cut, j] = log_gaussian(error[is_cut], self.most[is_cut, j])
        return np.where(self.std > 0, found, np.where(y == self.mean, np.inf, -np.inf))

    def cumulative(self, y: Floats) -> Floats:
        """The cumulative probability of targets of shape (n, q): PIT values, uniform if the distribution is right."""
        found = np.empty(self.mean.shape)
        for j in range(len(self.targets)):
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                error = self._error(y, j)
                scores = self._scores(error, j)
                if self.most is not None:
                    is_cut = self._is_cut(error, j)
                    scores[is_cut] = error[is_cut] / self.most[is_cut, j]
            found[:, j] = ndtr(scores)
        return np.where(self.std > 0, found, y >= self.mean)

    def _error(self, y: Floats, j: int) -> Floats:
        return np.asarray(y[:, j] - self.mean[:, j])

    def _scores(self, error: Floats, j: int) -> Floats:
        """The standard normal quantiles of the levels of errors, without `most`."""
        standard = self.targets[j]
        return error / self.std[:, j] if standard is None else standard.normal_scores(error / self.width[:, j])

    def _is_cut(self, error: Floats, j: int) -> Mask:
        """Where an error is so large that its level is that of `most`."""
        assert self.most is not None
        limit = np.abs(error) / self.most[:, j]
        return np.asarray((limit > INNER) & (limit > np.sign(error) * self._scores(error, j)))


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
