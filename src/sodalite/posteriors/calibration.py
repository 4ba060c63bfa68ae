"""Error bars: what a predicted distribution is (docs/method.rst, `calibration`, `distribution` and `far-from-data`).

A predicted distribution is the process's own Gaussian, with standard deviation s, made honest in three steps. *Width*:
the error at x is width(x) times a number Z. The width is s times a factor that depends on how large errors are near by
and on how far x is from the rows: near them, in gaps between them, beyond the ends of the inputs. *Shape*: Z is
Student's t, corrected by a polynomial that gives skewness. *Bounds*: no quantile is farther from the mean than twice
that of no data, and no width is below the resolution of the targets. Width and shape are learnt at once, by one robust
regression on the errors of rows that are left out at all distances: alone, in holes, and beyond the ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from ..core.types import Array, Floats, Indices, Mask
from ..kernels import CompiledKernel
from ..kernels.neighbours import Neighbours, places_among
from .far import Far, edge_of, grown, least_outside
from .predictive import TINY, Distribution, Predictive
from .shape import Conditions, LeftOut, LeftTogether, Places, Width

Correlations: TypeAlias = Callable[[Indices], Floats | None]
"""A function from places, of shape (rows, some) and -1 for none, to the correlations of their errors, if known."""

SIZES = (2, 8, 32)  # places near by whose errors tell the width; 64 gain at most 0.005 nats
STRENGTH = 2.0  # rows that the mean absolute error of all rows counts for, among those near by
FEW = 100  # rows below which no width depends on the place: the 32 nearest of them would be a third of all
NARROW = 0.05  # share of the rows of the fit whose widths may be below the resolution of the targets
ROUNDING = 1e-12  # what is known, 1 - novelty, below which it may be rounding
KNOWN = 1e-4  # added to the novelty before its logarithm is taken: less is rounding

COVERAGES = (0.5, 0.8, 0.95, 0.99)  # probabilities of the intervals that a fit is judged by
AWAY_COVERAGE = 0.9  # probability of the intervals of rows that are left out together
MOST_RHO = 0.99  # largest correlation of two errors: from a neighbourhood, which is not all rows, it may exceed 1


@dataclass(frozen=True)
class Away:
    """How well rows of the fit are predicted from rows that are not around them."""

    where: Literal["holes", "ends"]
    """In holes between the other rows, or beyond the ends of the others' inputs."""
    n_rows: int
    rmse: float
    """In units of the scaled targets."""
    share: float
    """Of the targets in their 90 % intervals."""

    @classmethod
    def of(cls, where: Literal["holes", "ends"], error: Floats, is_inside: Mask) -> Away:
        """From errors, of shape (rows, q), and whether they are in their intervals; zeros without rows."""
        rmse = float(np.sqrt(np.square(error).sum() / max(error.size, 1)))
        return cls(where, len(error), rmse, float(is_inside.sum() / max(is_inside.size, 1)))


@dataclass(frozen=True)
class ErrorBars:
    """Standard deviations that predictions have near the rows of the fit, in units of the scaled targets.

    Each row is predicted from the other rows. The ranges are from the 10 % to the 90 % quantile of the rows.
    """

    noise: float
    """The noise, scaled as predictions scale it: the root mean square over the rows."""
    noise_range: tuple[float, float]
    std: float
    """An observation, which is the latent function and the noise: the root mean square over the rows."""
    std_range: tuple[float, float]
    outside: float
    """The novelty above which a row is called outside the data."""
    rmse: float
    """The root mean square of the leave-one-out errors."""
    nlpd: float | None
    """Minus the mean log density of the rows' targets by the learnt distribution; of several targets, that of their
    sum. None where densities are infinite."""
    shares: tuple[float, ...]
    """The share of the targets in the central intervals of each of `COVERAGES`."""
    away: tuple[Away, ...] = ()
    """How well rows are predicted that were left out together; none if none were."""

    @classmethod
    def of(cls, noise: Floats, std: Floats, rows: LeftOut, left_out: Predictive, away: tuple[Away, ...]) -> ErrorBars:
        """Summarise rows of the fit.

        Parameters
        ----------
        noise, std : arrays of shape (rows,)
            Standard deviations of the noise and of observations.
        rows : LeftOut
        left_out : Predictive
            The distributions of their errors, each by the other rows.
        away : tuple of Away
        """
        ranges = [tuple(np.quantile(each, [0.1, 0.9]).tolist()) for each in (noise, std)]
        return cls(
            noise=float(np.sqrt(np.mean(np.square(noise)))),
            noise_range=ranges[0],
            std=float(np.sqrt(np.mean(np.square(std)))),
            std_range=ranges[1],
            outside=least_outside(rows.novelty),
            rmse=float(np.sqrt(np.mean(np.square(rows.error)))),
            nlpd=nlpd_of(left_out, rows.error),
            shares=shares_inside(left_out.cumulative(rows.error)),
            away=away,
        )


@dataclass(frozen=True)
class Nearby:
    """How large errors are at the places of the rows of a fit."""

    X: Floats
    """Distinct inputs, of shape (places, d)."""
    near: Neighbours = field(repr=False)
    """Finds the places nearest to a query."""
    counts: Floats = field(repr=False)
    """How many rows each place has; of shape (places,)."""
    sums: Floats = field(repr=False)
    """Absolute errors in units of s, summed over the rows of each place; of shape (places, q)."""
    mean: Floats
    """The means of these over all rows, of shape (q,)."""
    errors: Floats | None = field(default=None, repr=False)
    """The leave-one-out error of every place's first row in units of s, of shape (places, q). None if none of them was
    predicted from another."""
    variances: Floats | None = field(default=None, repr=False)
    """The variances that the model predicted for these, of shape (places,)."""

    @classmethod
    def of(cls, rows: LeftOut, places: Places) -> Nearby:
        """The errors of rows that are left out alone, at their places."""
        z = rows.error / np.sqrt(rows.variance)[:, None]
        sums, mean = places.sums(np.abs(z)), np.maximum(np.abs(z).mean(axis=0), TINY)
        made = cls(places.X, places.index, places.counts, sums, mean)
        if places.rho is None:
            return made
        return replace(made, errors=z[places.first], variances=rows.variance[places.first])

    def sizes(self, found: Indices) -> list[tuple[Floats, Floats]]:
        """Sums and numbers of errors at the nearest places, for each of `SIZES`; of shape (rows, q) and (rows,)."""
        return [(self.sums[found[:, :k]].sum(axis=1), self.counts[found[:, :k]].sum(axis=1)) for k in SIZES]

    def features(self, novelty: Floats, sizes: list[tuple[Floats, Floats]]) -> Floats:
        """The logarithms of novelties and of mean errors near by; of shape (rows, features, q)."""
        known = np.broadcast_to(np.sqrt(novelty + KNOWN)[:, None], (len(novelty), len(self.mean)))
        near = [(total + STRENGTH * self.mean) / (count + STRENGTH)[:, None] for total, count in sizes]
        return np.asarray(np.log(np.stack([known, *near], axis=1)))


@dataclass(frozen=True)
class Scale:
    """The error bars of a model, as a function of place and novelty."""

    widths: tuple[Width, ...] = ()
    """Of every target; none for the process as it is."""
    far: Far | None = None
    """What is known of places away from the rows; None if that is not learnt."""
    nearby: Nearby | None = None
    """How large errors are near by; None if no width depends on it."""
    bars: ErrorBars | None = None
    """The standard deviations that predictions have at the rows of the fit."""

    @staticmethod
    def places_of(kernel: CompiledKernel, X: Floats) -> Places | None:
        """The places of the rows of X, from which widths are learnt; None if there are too few rows."""
        return Places.of(kernel, X, max(SIZES)) if len(X) >= FEW else None

    @classmethod
    def learn(
        cls, rows: LeftOut, places: Places | None, far: Far | None = None, together: LeftTogether | None = None
    ) -> Scale:
        """Learn error bars from rows that are left out alone, and those left out together, if there are any.

        Parameters
        ----------
        rows : LeftOut
        places : Places or None
            Those of the rows; None if no width is to depend on the place.
        far : Far, optional
            What is known of places away from the rows, but for its `edge`.
        together : LeftTogether, optional
        """
        n, q = rows.error.shape
        if not n or not np.all(rows.variance > 0):
            return cls(far=far)
        far = far if far is None else replace(far, edge=edge_of(rows.novelty))
        scale = cls((), far, None if places is None else Nearby.of(rows, places))
        parts, errors, weight = [scale._left_out(rows, places)], [rows.error], np.ones(n)
        if far is not None and together is not None:
            found = None if places is None else places.outside(together, max(SIZES))
            parts.append(scale._conditions(together, q, found, beyond=together.beyond))
            errors.append(together.error)
            weight = np.concatenate([weight, together.weight])
        error = np.concatenate(errors)
        widths = tuple(Width.learn(parts, error, weight, target) for target in range(q))
        if far is not None:  # rows that are predicted more exactly than targets are rounded show that they can be
            usual = min(float(np.quantile(width(parts[0], j), NARROW)) for j, width in enumerate(widths))
            scale = replace(scale, far=replace(far, resolution=min(far.resolution, np.sqrt(12) * usual)))
        return replace(scale, widths=widths)

    def error_bars(
        self, X: Array, variance: Floats, novelty: Floats, prior: Floats, beyond: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """The standard deviations of observations, of shape (n,), and the widths of their errors, of shape (n, q).

        The standard deviation is the root of the mean over the targets. Widths of the process as it is have no columns.

        Parameters
        ----------
        X : array of shape (n, d)
        variance : array of shape (n,)
            Of observations, by the process.
        novelty : array of shape (n,)
            The share of the latent prior variance that is left.
        prior : array of shape (n,)
            The variance of an observation where nothing is known.
        beyond : array of shape (n, d, 2), optional
            How far the rows lie beyond the ends of the inputs, if not as far as they do.
        """
        if not self.widths:
            return np.sqrt(variance), np.empty((len(variance), 0))
        X = np.asarray(X, dtype=np.float64)
        rows = LeftOut(X, np.empty((len(X), 0)), variance, prior, novelty)
        found = None if self.nearby is None else self.nearby.near.query(X, max(SIZES))
        return self._bars(self._conditions(rows, len(self.widths), found, beyond=beyond))

    def left_out(self, rows: LeftOut, correlations: Correlations | None = None) -> tuple[Floats, Floats]:
        """The error bars at rows of the fit, as `error_bars` has them, without each row's own error.

        Parameters
        ----------
        rows : LeftOut
        correlations : callable or None
            From places of shape (rows, some), -1 for none, to the correlations of their errors with those of the rows.
        """
        if not self.widths:
            return np.sqrt(rows.variance), np.zeros(rows.error.shape)
        near, places = self.nearby, None
        if near is not None:
            found = near.near.query(rows.X, max(SIZES) + 1)
            places = Places(near.X, near.counts, near.near, places_among(near.X, rows.X), found)
            if correlations is not None:
                places = replace(places, rho=correlations(np.where(places.is_other, places.found, -1)))
        return self._bars(self._left_out(rows, places))

    def predictive(self, mean: Floats, std: Floats, widths: Floats) -> Predictive:
        """The distributions of errors with these standard deviations, of shape (n,), and widths, of shape (n, q)."""
        std = np.broadcast_to(std[:, None], mean.shape)
        if not self.widths:
            return Predictive.gaussian(mean, std)
        return Predictive(mean, std, widths, [width.standard for width in self.widths])

    def most(self, prior: Floats) -> Floats | None:
        """Twice the standard deviations of rows of which nothing is known; None if there are no bounds."""
        return None if self.far is None else 2 * np.sqrt(np.maximum(prior, self.far.floor))

    def _left_out(self, rows: LeftOut, places: Places | None) -> Conditions:
        """The conditions of rows of the fit, those near by as if the row were not there."""
        near, sizes, within = self.nearby, None, np.zeros((*rows.X.shape, 2))
        if near is not None and places is not None:
            z = rows.error / np.sqrt(rows.variance)[:, None]
            correction = places.correction(z, near.errors)
            sizes = [places.others(np.abs(z), near.sums, k, correction) for k in SIZES]
        return self._conditions(rows, rows.error.shape[1], sizes=sizes, beyond=within)

    def _conditions(
        self,
        rows: LeftOut,
        q: int,
        found: Indices | None = None,
        sizes: list[tuple[Floats, Floats]] | None = None,
        beyond: Floats | None = None,
    ) -> Conditions:
        """What the widths at some rows depend on: on errors at the places that are nearest to them, or errors given."""
        far, n = self.far, len(rows.X)
        s = np.sqrt(np.maximum(rows.variance, TINY))
        features: Floats = np.zeros((n, 0, q))
        if self.nearby is not None and (found is not None or sizes is not None):
            near = self.nearby.sizes(found) if found is not None else sizes or []
            features = self.nearby.features(rows.novelty, near)
        if far is None:
            return Conditions(s, np.zeros(n), features, np.zeros((*rows.X.shape, 2)), s, s, 0.0)
        growth = far.floor * grown(far.beyond(rows.X) if beyond is None else beyond)
        left = np.maximum(rows.prior - rows.variance, 0) * (1 - far.edge) / np.maximum(1 - rows.novelty, ROUNDING)
        edge = np.sqrt(np.clip(rows.prior - left, TINY, np.square(s)))
        nowhere = np.sqrt(np.maximum(rows.prior, TINY))
        return Conditions(s, far.share(rows.novelty), features, growth, edge, nowhere, float(np.sqrt(far.floor)))

    def _bars(self, at: Conditions) -> tuple[Floats, Floats]:
        """Standard deviations and widths under some conditions."""
        least = 0.0 if self.far is None else self.far.resolution / np.sqrt(12)  # what rounding alone leaves
        widths = np.maximum(np.stack([width(at, j) for j, width in enumerate(self.widths)], axis=1), least)
        ratios = np.array([width.ratio for width in self.widths])
        return np.sqrt(np.mean(np.square(widths * ratios), axis=1)), widths

    def summarised(
        self, rows: LeftOut, places: Places | None, latent: Floats, noise: Floats, together: LeftTogether | None
    ) -> Scale:
        """With a summary of how well it suits the rows.

        `latent` and `noise` are variances of new observations at the same places, each of shape (rows,).
        """
        if not len(rows.X):
            return self
        std, widths = np.sqrt(rows.variance), rows.error
        if self.widths:
            std, widths = self._bars(self._left_out(rows, places))
        left_out = self.predictive(np.zeros(rows.error.shape), std, widths)
        factor = std / np.sqrt(np.maximum(rows.variance, TINY))
        new = factor * np.sqrt(noise), factor * np.sqrt(latent + noise)
        return replace(self, bars=ErrorBars.of(*new, rows, left_out, self._away(together)))

    def _away(self, rows: LeftTogether | None) -> tuple[Away, ...]:
        """How well the error bars suit rows that were left out together."""
        if rows is None or not self.widths:
            return ()
        found = self.error_bars(rows.X, rows.variance, rows.novelty, rows.prior, rows.beyond)
        inside = np.abs(2 * self.predictive(np.zeros(rows.error.shape), *found).cumulative(rows.error) - 1)
        kinds: tuple[tuple[Literal["holes", "ends"], Mask], ...] = (("holes", ~rows.is_end), ("ends", rows.is_end))
        return tuple(
            Away.of(kind, rows.error[some], inside[some] <= AWAY_COVERAGE) for kind, some in kinds if some.any()
        )


def shares_inside(pit: Floats) -> tuple[float, ...]:
    """The share of cumulative probabilities, of any shape, in the central interval of each of `COVERAGES`.

    Examples
    --------
    >>> shares_inside(np.array([0.2, 0.4, 0.6, 0.999]))
    (0.5, 0.75, 0.75, 0.75)
    """
    return tuple(float(np.mean(np.abs(2 * pit - 1) <= coverage)) for coverage in COVERAGES)


def nlpd_of(distribution: Distribution, y: Floats) -> float | None:
    """Minus the mean log density of targets, summed over the targets of a row; None if it is not finite."""
    with np.errstate(invalid="ignore"):  # infinite densities of both signs
        found = -float(np.mean(distribution.log_density(y).sum(axis=1)))
    return found if np.isfinite(found) else None


def log_densities(error: Floats, variance: Floats) -> Floats:
    """The log density of every row's errors, a mean over the targets; of shape (rows,).

    Errors, of shape (rows, q), are normal with mean zero and these variances, of shape (rows,).
    """
    return np.asarray(-0.5 * (np.mean(np.square(error), axis=1) / variance + np.log(2 * np.pi * variance)))
