"""Widths and shapes of prediction errors, learnt from rows that are left out (docs/method.rst, `distribution`).

`Width` says what the error at x is: its width times a number Z that is distributed alike everywhere. One robust
regression, by the likelihood of Student's t, learns all of it from rows that are left out alone and together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from math import e, log, pi
from typing import NamedTuple, Self

import numpy as np
from scipy.optimize import minimize
from scipy.special import digamma, stdtr

from ..core.threads import one_blas_thread
from ..core.types import Floats, Indices, Mask
from ..kernels import CompiledKernel
from ..kernels.neighbours import Neighbours, distinct
from .predictive import TINY, Standard, bernstein, log_t

NU = (0.7, 1000.0)  # degrees of freedom: the heaviest tails that are allowed, and as good as Gaussian
RATIO_NU = 2.5  # degrees of freedom below which the second moment of the t is taken as with these
# Penalties, in rows: what a coefficient of 1 costs in log density. Few rows leave the process as it is.
RIDGE, LEVEL_RIDGE = 1.0, 4.0
# Standard deviations of normal priors of `far`, `middle` and log `growth`, and the median of `growth`
FAR, MIDDLE, GROWTH, TYPICAL_GROWTH = 0.5, 1.0, 2.0, 0.1
GROWTHS = (1e-8, 1e2)  # the least and the largest growth
CAUTION = 0.5  # standard deviations above what is likeliest, at which `far` and `middle` are taken
END_CAUTION = 1.4  # the same for `growth`: what lies beyond the ends has been seen a few times only
DEGREES = (4, 8, 16, 32)  # of the Bernstein polynomials that are tried
ROWS_PER_DEGREE = 25  # errors that a degree needs at least: with fewer, intervals of new rows were too narrow
SMOOTH = 2.0  # their prior, that all weights are equal, counts for SMOOTH sqrt(degree) rows
BINS = 512  # that cumulative probabilities are counted in, to fit the weights
STEPS = 100  # of expectation maximisation for the weights
FOLDS = 5  # parts of the rows, each of which judges what was fitted to the others
WORTH = 0.002  # gain in mean log density, in nats a row, that makes up for a polynomial of higher degree
MOST_STEPS = 200  # of the regression
NEWTON, MOST_STEP = 8, 0.1  # steps of Newton's method after it, and how long they may be: it was near the minimum
FLAT = 1e-4  # second derivative of the cost below which there are none: rounding would decide
STEP = 1e-4  # of the differences of gradients that are second derivatives
LEAST_CURVATURE = 0.1  # smallest eigenvalue of these: a direction of which the errors say nothing


@dataclass(frozen=True)
class LeftOut:
    """A model's predictions of some rows of its fit, each from the other rows."""

    X: Floats
    """Inputs, of shape (rows, d)."""
    error: Floats
    """Observation minus predicted mean, of the scaled targets; of shape (rows, q)."""
    variance: Floats
    """Predicted variance of an observation, noise included; of shape (rows,)."""
    prior: Floats
    """Variance of an observation where nothing is known; of shape (rows,)."""
    novelty: Floats
    """Share of the latent prior variance that the rows left leave; of shape (rows,)."""


@dataclass(frozen=True)
class LeftTogether(LeftOut):
    """Predictions of rows of the fit, each from rows outside of the hole that it was left out with."""

    beyond: Floats
    """How far beyond the rows left, in widths of each input; of shape (rows, d, 2), below and above."""
    hole: Indices
    """The number of the hole of every row; of shape (rows,)."""
    low: Floats
    """The least inputs of the hole, of shape (rows, d): all rows between these and `high` are left out."""
    high: Floats
    """The largest inputs of the hole, of shape (rows, d)."""

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The rows of several holes."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))

    @property
    def weight(self) -> Floats:
        """The weight of every row, such that all rows of a hole, whose errors are alike, count as one row."""
        _, number, counts = np.unique(self.hole, return_inverse=True, return_counts=True)
        return np.asarray(1 / counts[number])

    @property
    def is_end(self) -> Mask:
        """Whether each row was left out with the outermost rows of an input."""
        return np.asarray((self.beyond > 0).any(axis=(1, 2)))


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

    def correction(self, z: Floats, theirs: Floats | None) -> Floats | None:
        """The change of absolute errors near by if the row had not been seen by these predictions either.

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

        Returns
        -------
        array of shape (rows, k + 1, q), or None if no correlations are known
        """
        if self.rho is None or theirs is None:
            return None
        near, rho = theirs[self.found], self.rho[..., None]
        return np.asarray(np.abs((near - rho * z[:, None]) / np.sqrt(1 - rho * rho)) - np.abs(near))

    def sums(self, values: Floats) -> Floats:
        """Sums of values, of shape (rows, q), over the rows of every place; of shape (places, q)."""
        return np.stack([np.bincount(self.place, column, minlength=len(self.X)) for column in values.T], axis=1)

    def others(self, values: Floats, sums: Floats, k: int, correction: Floats | None = None) -> tuple[Floats, Floats]:
        """Sums and numbers of values at the k places nearest to every row, without the row's own value.

        The row's own place is one of the k if it has other rows. What `correction` returns is added. Returns arrays of
        shape (rows, q) and (rows,).
        """
        found = self.found[:, : k + 1]
        alone = ((self.place >= 0) & (self.counts[self.place] == 1))[:, None]
        is_own = found == self.place[:, None]
        used = (np.arange(found.shape[1]) < k + alone) & ~(alone & is_own)  # of a row alone, the k nearest others
        mine = (used & is_own).any(axis=1)
        total = np.einsum("ik,ikq->iq", used, sums[found]) - mine[:, None] * values
        if correction is not None:
            total += np.einsum("ik,ikq->iq", used, correction[:, : k + 1])
        return np.maximum(total, 0.0), (self.counts[found] * used).sum(axis=1) - mine

    def outside(self, rows: LeftTogether, k: int) -> Indices:
        """The k places nearest to each row that are outside of its hole, (rows, k); repeated if these are fewer."""
        near = np.empty((len(rows.X), k), dtype=np.intp)
        for hole in np.unique(rows.hole):
            which = np.flatnonzero(rows.hole == hole)
            hidden = ((rows.low[which[0]] <= self.X) & (rows.high[which[0]] >= self.X)).all(axis=1)
            if hidden.all():
                hidden[:] = False
            found = self.index.query(rows.X[which], min(k + int(hidden.sum()), len(self.X)))
            near[which] = [np.resize(each[~hidden[each]], k) for each in found]
        return near


class Conditions(NamedTuple):
    """What the widths of errors at some rows depend on."""

    s: Floats
    """Standard deviations of observations that the process predicts, of shape (n,)."""
    share: Floats
    """t, how far outside the known each row is (`sodalite.posteriors.far.outside`); of shape (n,)."""
    features: Floats
    """Logarithms of what is known of the places near by; of shape (n, features, q)."""
    growth: Floats
    """The variance that each end adds per unit of its growth; of shape (n, d, 2)."""
    edge: Floats
    """Standard deviations that the process would predict at the edge of what is known; of shape (n,)."""
    nowhere: Floats
    """Standard deviations that the process predicts where nothing is known; of shape (n,)."""
    least: float
    """The least standard deviation where nothing is known."""


@dataclass(frozen=True)
class Width:
    """The width of one target's errors, and the distribution of the errors in units of it.

    With s the standard deviation that the process predicts, t from 0 near the rows to 1 where nothing is known, and f
    the features of the place,

        log w = log s + (1 - t) (level + slopes.(f - centre)) + t far + 4 t (1 - t) middle
        width^2 = w^2 + sum of the growth beyond the ends.

    w lies between its values at t = 0 and t = 1.
    """

    level: float
    slopes: Floats
    """Of shape (features,)."""
    centre: Floats
    """Means of the features in the fit; of shape (features,)."""
    limits: Floats
    """The least and the largest value of every feature in the fit, beyond which it counts as there; (2, features)."""
    far: float
    middle: float
    growth: Floats
    """Below and above the values of every input; of shape (d, 2)."""
    standard: Standard
    """The distribution of Z."""
    ratio: float
    """The standard deviation of Z, from the errors of the fit."""
    gain: float = 0.0
    """What the Bernstein polynomial gains in mean log density, of errors that it has not seen."""

    @classmethod
    def learn(cls, parts: Sequence[Conditions], error: Floats, weight: Floats, target: int) -> Width:
        """Learn the width of a target's errors.

        Parameters
        ----------
        parts : sequence of Conditions
            Those of rows that are left out alone, then those of rows that are left out together.
        error, weight : arrays of shape (rows, q) and (rows,)
            The errors of all of them, and their weights.
        target : int
        """
        alone, n, error = parts[0].features[..., target], len(parts[0].s), error[:, target]
        s, t = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        features = np.concatenate([part.features[..., target] for part in parts])
        growth = np.concatenate([part.growth.reshape(len(part.s), -1) for part in parts])
        limits, centre, count = np.stack([alone.min(axis=0), alone.max(axis=0)]), alone.mean(axis=0), alone.shape[1]
        ends = np.flatnonzero((growth > 0).any(axis=0))
        # Columns: level, slopes, far, middle.
        design = np.stack([1 - t, *((1 - t) * (np.clip(features, *limits) - centre).T), t, 4 * t * (1 - t)], axis=1)
        penalty = [LEVEL_RIDGE, *[RIDGE] * count, 0.5 / FAR**2, 0.5 / MIDDLE**2]
        regression = Regression(design, np.log(s), growth[:, ends], error, weight, np.array(penalty))
        theta, spread = regression.solve(min(NU[1], max(n - 1.0, 1.0)))
        most = np.array([FAR, MIDDLE, *[GROWTH] * len(ends)])
        caution = np.array([CAUTION, CAUTION, *[END_CAUTION] * len(ends)])
        theta[count + 2 :] += caution * np.minimum(spread[count + 2 :], most)
        beyond = np.full(growth.shape[1], TYPICAL_GROWTH)
        beyond[ends] = np.exp(theta[count + 4 :])
        nu = float(np.exp(theta[0]))
        z = error[:n] / regression.widths(theta)[:n]
        weights, gain = _polynomial(stdtr(nu, z))
        moment = max(nu, RATIO_NU) / (max(nu, RATIO_NU) - 2)
        ratio = np.sqrt((np.square(z).sum() + LEVEL_RIDGE * moment) / (n + LEVEL_RIDGE))
        level, far, middle = (float(theta[place]) for place in (1, count + 2, count + 3))
        shape = parts[0].growth.shape[1:]
        standard = Standard(nu, weights)
        slopes = theta[2 : count + 2]
        return cls(level, slopes, centre, limits, far, middle, beyond.reshape(shape), standard, float(ratio), gain)

    @property
    def by_place(self) -> bool:
        """Whether the width depends on errors near by."""
        return len(self.slopes) > 0

    def __call__(self, at: Conditions, target: int = 0) -> Floats:
        """The widths of a target's errors at some rows, of shape (n,)."""
        t = at.share
        near = self.level + (np.clip(at.features[..., target], *self.limits) - self.centre) @ self.slopes
        nowhere = np.maximum(at.nowhere * np.exp(self.far), at.least / self.ratio)
        far = np.log(np.maximum(nowhere / at.nowhere, TINY))
        width = at.s * np.exp((1 - t) * near + t * far + 4 * t * (1 - t) * self.middle)
        edge = at.edge * np.exp(near)
        between = np.clip(width, np.minimum(edge, nowhere), np.maximum(edge, nowhere))
        width = np.where(t > 0, between, width)
        return np.asarray(np.sqrt(np.square(width) + np.einsum("ijk,jk->i", at.growth, self.growth)))


class Regression(NamedTuple):
    """Errors as Student's t, the logarithms of whose squared widths are a sum, to which growth is added.

    Parameters are log nu, the coefficients of `design`, and the logarithms of each column's growth.
    """

    design: Floats
    """Of shape (rows, coefficients)."""
    offset: Floats
    """Log widths without any coefficient; of shape (rows,)."""
    growth: Floats
    """The squared width that a growth of 1 adds; of shape (rows, ends)."""
    error: Floats
    """Of shape (rows,)."""
    weight: Floats
    """Of shape (rows,)."""
    penalty: Floats
    """Factors of the squared coefficients that are added to the cost, which is minus the log likelihood."""

    def solve(self, most: float = NU[1]) -> tuple[Floats, Floats]:
        """The likeliest parameters, with up to `most` degrees of freedom, and their standard deviations by Laplace."""
        count, n_ends = self.design.shape[1], self.growth.shape[1]
        start = np.concatenate([[0.0], np.zeros(count), np.full(n_ends, np.log(TYPICAL_GROWTH))])
        start[0] = np.log(np.clip(5.0, *NU) if most > 5 else most)  # 5: between heavy tails and none
        nus, growths = (min(NU[0], most), most), GROWTHS
        bounds = np.array([np.log(nus), *[(-np.inf, np.inf)] * count, *[np.log(growths)] * n_ends])
        with one_blas_thread():
            total = self.weight.sum()
            options = {"maxiter": MOST_STEPS, "ftol": 1e-10, "gtol": 1e-7}
            found = minimize(
                lambda theta: tuple(part / total for part in self.cost(theta)),
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options=options,
            ).x
            found = self._polished(found, bounds)
            curvature = self._curvature(found)
        values, vectors = np.linalg.eigh(curvature)
        spread = np.sqrt(np.square(vectors) @ (1 / np.maximum(values, LEAST_CURVATURE)))
        return found, spread

    def _curvature(self, theta: Floats) -> Floats:
        """The second derivatives of the cost, by differences of its gradient."""
        steps = STEP * np.eye(len(theta))
        found = np.stack([self.cost(theta + step)[1] - self.cost(theta - step)[1] for step in steps])
        return np.asarray((found + found.T) / (4 * STEP))

    def _polished(self, theta: Floats, bounds: Floats) -> Floats:
        """The parameters after steps of Newton's method: as exact as rounding allows, wherever the rows are."""
        curvature = self._curvature(theta)
        for _ in range(NEWTON):
            gradient, (low, high) = self.cost(theta)[1], bounds.T
            free = np.flatnonzero(((theta > low) | (gradient < 0)) & ((theta < high) | (gradient > 0)))
            part = curvature[np.ix_(free, free)]
            if not len(free) or not np.isfinite(part).all() or np.linalg.eigvalsh(part)[0] <= FLAT:
                break
            step = np.linalg.solve(part, gradient[free])
            if np.abs(step).max() > MOST_STEP:
                break
            theta = theta.copy()
            theta[free] -= step
            theta = np.clip(theta, low, high)
        return theta

    def widths(self, theta: Floats) -> Floats:
        """The widths of the errors, of shape (rows,)."""
        count = self.design.shape[1]
        squares = np.exp(2 * np.clip(self.offset + self.design @ theta[1 : count + 1], -300, 300))
        return np.asarray(np.sqrt(squares + self.growth @ np.exp(theta[count + 1 :])))

    def cost(self, theta: Floats) -> tuple[float, Floats]:
        """Minus the log likelihood with the penalties, and its gradient."""
        count, nu = self.design.shape[1], np.exp(theta[0])
        slopes, ends = theta[1 : count + 1], theta[count + 1 :]
        width = self.widths(theta)
        z = np.clip(self.error / width, -1e100, 1e100)
        grown, share = np.log1p(z * z / nu), z * z / (nu + z * z)
        off = (ends - np.log(TYPICAL_GROWTH)) / GROWTH
        value = self.weight @ (np.log(width) - log_t(z, nu)) + self.penalty @ (slopes * slopes) + 0.5 * off @ off
        by_nu = 0.5 * (digamma(nu / 2) - digamma((nu + 1) / 2) + 1 / nu + grown - (nu + 1) / nu * share)
        by_square = self.weight * (1 - (nu + 1) * share) / np.square(width)  # of the squared width, twice
        added = self.growth * np.exp(ends)
        by_slope = self.design.T @ (by_square * (np.square(width) - added.sum(axis=1))) + 2 * self.penalty * slopes
        by_end = 0.5 * added.T @ by_square + off / GROWTH
        return float(value), np.concatenate([[nu * (self.weight @ by_nu)], by_slope, by_end])


def density_of(error: Floats, std: Floats) -> float:
    """The mean of two log densities of errors: by Student's t, and by a Gaussian with one variance for all.

    The t has widths proportional to the standard deviations, and is fitted to the errors, so that a few large ones do
    not decide. Without the other, which is minus the logarithm of the RMSE, a model that knows well where it errs could
    be taken for one that errs less.

    Parameters
    ----------
    error, std : arrays of shape (rows, q) and (rows,)
    """
    errors, log_std, n = error.T.ravel(), np.tile(np.log(std), error.shape[1]), error.size
    square = float(np.mean(np.square(error)))
    if not square:
        return float(-np.mean(log_std)) - 0.5 * log(2 * pi)
    level = np.log(max(float(np.median(np.abs(errors) * np.exp(-log_std))), TINY))
    t = Regression(np.ones((n, 1)), log_std + level, np.empty((n, 0)), errors, np.ones(n), np.zeros(1))
    return 0.5 * (-t.cost(t.solve()[0])[0] / n - 0.5 * log(2 * pi * e * max(square, TINY)))


def _polynomial(u: Floats) -> tuple[Floats, float]:
    """Weights of the Bernstein polynomial that suits cumulative probabilities, and its gain in mean log density.

    A larger degree is taken only if it gains more than is worth it, and more than chance, of probabilities that it has
    not seen. Chance is one standard error of the mean difference.
    """
    fold, density, best = np.arange(len(u)) % FOLDS, np.zeros(len(u)), 1
    for degree in (degree for degree in DEGREES if degree * ROWS_PER_DEGREE <= len(u)):
        held = np.empty(len(u))
        for number in range(FOLDS):
            new = fold == number
            held[new] = np.log(np.maximum(bernstein(u[new], degree) @ _fit_weights(u[~new], degree), TINY))
        gain = held - density
        if gain.mean() > max(WORTH, gain.std() / np.sqrt(len(gain))):
            density, best = held, degree
    return _fit_weights(u, best), float(density.mean()) if len(u) else 0.0


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
