"""Calibration: variances multiplied by a scale that is learnt from leave-one-out errors.

The method is described in docs/method.rst, `calibration` and `far-from-data`.

Multiplying a kernel and its noise by one number changes no posterior mean and multiplies every posterior variance by
that number. So the number can be learnt last, and it can differ from place to place. Let e be the leave-one-out errors
of a row, one for each of its q targets, and v the variance that the model predicted for them. With the squared
standardised error u = mean(e^2) / v of every row, the scale at x is

    scale(x) = (sum of u over the rows at the k places nearest to x + strength * mean) / (their number + strength)

where `mean` is the mean of u over all rows. With k = 0 the scale is `mean` everywhere: the maximum-likelihood scale,
shrunk slightly towards 1. Local Gaussian processes use a scale for each neighbourhood (Gramacy and Apley 2015).

A kernel may find hardly any noise where a few large errors show that there is some, and no factor mends that. So a
little noise, `extra`, may be added to all variances before they are multiplied. The values of `extra`, k and `strength`
are those that give the leave-one-out errors the largest log density, the scale of each row learnt from the other rows.

A scale holds near the rows that it was learnt from. How error bars go on from there, in gaps between the rows and
beyond the ends of the inputs, is learnt from rows that are left out together (`sodalite.posteriors.far`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from ..core.types import Array, Floats, Indices, Mask
from ..kernels import CompiledKernel
from ..kernels.neighbours import Neighbours
from .far import Far, LeftTogether, edge_of, least_outside
from .predictive import TINY, Distribution, Predictive, Standard
from .shape import NU, LeftOut, Places, Shape

Correlations: TypeAlias = Callable[[Indices], Floats | None]
"""A function from places, of shape (rows, some) and -1 for none, to the correlations of their errors, if known."""

# Candidates of the search. `benchmarks calibration` shows what the chosen ones are worth on real data sets.
SIZES = (32, 64, 128)  # k, rows near by; fewer estimate a variance poorly, more see less of where it changes
STRENGTHS = (4.0, 8.0, 16.0, 64.0)  # how many rows the overall mean counts for; the first also draws that mean to 1
EXTRAS = (0.0, 1e-3, 3e-3, 1e-2, 3e-2, 0.1)  # `extra`, as shares of the mean squared error
FEW = 100  # rows below which only k = 0 is tried: the 32 nearest of them would be a third of all
WORTH = 0.002  # nats per row that a candidate must gain over k = 0 without `extra`; less may be chance

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
    def of(cls, noise: Floats, variance: Floats, novelty: Floats, error: Floats, left_out: Predictive) -> ErrorBars:
        """Summarise some rows.

        Parameters
        ----------
        noise, variance, novelty : arrays of shape (rows,)
            Scaled variances of the noise and of an observation; the share of the prior variance that is left.
        error : array of shape (rows, q)
            Leave-one-out errors.
        left_out : Predictive
            The distribution of the errors of every row, by the other rows.
        """
        noise_low, noise_high, low, high = np.sqrt(
            [*np.quantile(noise, [0.1, 0.9]), *np.quantile(variance, [0.1, 0.9])]
        ).tolist()
        return cls(
            noise=float(np.sqrt(noise.mean())),
            noise_range=(noise_low, noise_high),
            std=float(np.sqrt(variance.mean())),
            std_range=(low, high),
            outside=least_outside(novelty),
            rmse=float(np.sqrt(np.mean(np.square(error)))),
            nlpd=nlpd_of(left_out, error),
            shares=shares_inside(left_out.cumulative(error)),
        )


@dataclass(frozen=True)
class Scale:
    """The factor that variances are multiplied by, as a function of place and novelty."""

    mean: float
    """The mean of the squared standardised errors."""
    squares: Floats = field(repr=False)
    """Squared standardised errors, means over the targets, summed over the rows of each place; of shape (places,)."""
    X: Floats = field(repr=False)
    """The places: distinct inputs of the rows that the scale was learnt from; of shape (places, d)."""
    near: Neighbours | None = field(repr=False)
    """Finds the places nearest to a query; None if neither the scale nor the shape depends on the place."""
    k: int = 0
    """How many places near by a local scale is learnt from; 0 for one scale everywhere."""
    strength: float = 0.0
    """How many rows the overall mean counts for in a local scale."""
    density: float = -np.inf
    """The mean log density of the leave-one-out errors, the scale of each row learnt from the other rows."""
    extra: float = 0.0
    """Noise variance that is added to observations before they are multiplied."""
    far: Far | None = None
    """How error bars change away from the rows; None if they are those of the process there."""
    bars: ErrorBars | None = None
    """The standard deviations that predictions have at the rows of the fit."""
    counts: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    """How many rows each place has; of shape (places,)."""
    shape: Shape | None = None
    """The distribution of errors; None for a Gaussian."""
    errors: Floats | None = field(default=None, repr=False)
    """The leave-one-out error of every place's first row, of shape (places, q). None if none of them was predicted from
    another."""
    variances: Floats | None = field(default=None, repr=False)
    """The variances that the model predicted for `errors`, noise included, not calibrated; of shape (places,)."""

    @classmethod
    def fit_each(
        cls,
        kernel: CompiledKernel,
        X: Array,
        errors: Floats,
        variances: Floats,
        noise: Floats | None = None,
        places: Places | None = None,
    ) -> list[LearntScale]:
        """Learn one scale for each of several models that predict the same rows, from their leave-one-out errors.

        O(rows^2 d) a model, or O(rows log rows) in few dimensions.

        Parameters
        ----------
        kernel : CompiledKernel
            Says which rows are near each other.
        X : array of shape (rows, d)
        errors : array of shape (models, rows, q)
        variances : array of shape (models, rows)
            The variances that the models predicted for them, noise included.
        noise : array of shape (rows,), default=None
            The part of these variances that is noise; None if all of it is.
        places : Places, default=None
            Those of the rows, if they are known.
        """
        X = np.asarray(X, dtype=np.float64)
        if places is None:
            places = cls.places_of(kernel, X)
        latents = np.zeros_like(variances) if noise is None else np.maximum(variances - noise, 0)
        models = zip(errors, variances, latents, strict=True)
        return [cls._best(LeftOut.of(kernel, X, *model), places) for model in models]

    @staticmethod
    def places_of(kernel: CompiledKernel, X: Floats) -> Places | None:
        """The places of the rows of X, from which scales and widths are learnt; None if there are too few rows."""
        return Places.of(kernel, X, max(SIZES)) if len(X) >= FEW else None

    @classmethod
    def none(cls, rows: LeftOut, places: Places | None = None) -> LearntScale:
        """The scale that leaves variances as they are near the rows. `places` are those of the rows, None if few."""
        return LearntScale(cls(1.0, np.empty(0), np.empty((0, rows.X.shape[1])), None), rows, places, rows.variance)

    @classmethod
    def _best(cls, rows: LeftOut, places: Places | None) -> LearntScale:
        """The candidate of the largest log density; a simple one is given up only for a gain of `WORTH`."""
        if not len(rows.X):
            return cls.none(rows)
        candidates = cls._candidates(rows, places)
        best = next(candidates)
        for candidate in candidates:
            is_simple = best.scale.k == 0 and best.scale.extra == 0
            if candidate.scale.density > best.scale.density + (WORTH if is_simple else 0.0):
                best = candidate
        return best

    @classmethod
    def _candidates(cls, rows: LeftOut, places: Places | None) -> Iterator[LearntScale]:
        """Every combination of `extra`, k and `strength`, the simplest first, each with its log density."""
        error, variance = rows.error, rows.variance
        mean_square = float(np.mean(np.square(error)))
        X = rows.X if places is None else places.X
        counts = np.empty(0) if places is None else places.counts
        for share in EXTRAS:
            extra = share * mean_square
            total = variance + extra
            squares = np.mean(np.square(error), axis=1) / total
            sums = squares if places is None else places.sums(squares[:, None])[:, 0]
            z = error / np.sqrt(total)[:, None]
            correction = None if places is None else places.correction(z, places.of_first(z), _mean_square)
            for mean, local, k, strength in _scales(squares, sums, places, correction):
                index = places.index if places is not None and k else None
                calibrated = total * local
                density = float(log_densities(error, calibrated).mean())
                scale = cls(mean, sums, X, index, k, strength, density, extra, counts=counts)
                yield LearntScale(scale, rows, places, calibrated)

    def __call__(self, X: Array) -> Floats:
        """The scale of the places near by, at every row of X and whatever its novelty; of shape (n,)."""
        return self._near(self._query(X, self.k), len(X))

    def error_bars(
        self, X: Array, variance: Floats, novelty: Floats, prior: Floats, beyond: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """The standard deviations of observations, of shape (n,), and the widths of their errors, of shape (n, q).

        Widths have no columns if all errors are Gaussian.

        Parameters
        ----------
        X : array of shape (n, d)
        variance : array of shape (n,)
            Of observations, before calibration, with `extra`.
        novelty : array of shape (n,)
            The share of the latent prior variance that is left.
        prior : array of shape (n,)
            The variance of an observation where nothing is known, with `extra`.
        beyond : array of shape (n, d, 2), optional
            How far the rows lie beyond the ends of the inputs, if not as far as they do.
        """
        found, shape = self._query(X, self._n_near), self.shape
        scale = self._near(found, len(novelty))
        widths: Floats = np.zeros((len(novelty), 0))
        if shape is not None and not shape.is_gaussian:
            widths = shape.widths(variance, np.sqrt(variance * scale), novelty, found, self.counts)
        return self._anywhere(X, scale, widths, variance, novelty, prior, beyond)

    def _anywhere(
        self,
        X: Array,
        scale: Floats,
        widths: Floats,
        variance: Floats,
        novelty: Floats,
        prior: Floats,
        beyond: Floats | None = None,
    ) -> tuple[Floats, Floats]:
        """Standard deviations and widths of rows anywhere, from the scale and the widths near the rows of the fit."""
        far, s = self.far, np.sqrt(np.maximum(variance, TINY))
        if far is None:
            return np.sqrt(variance * scale), widths
        added = far.added(far.beyond(X) if beyond is None else beyond)
        near = 0.5 * np.log(np.maximum(scale, TINY))
        std = np.sqrt(np.square(far.std(near, s, novelty, prior)) + added)
        ratios = np.ones(0) if self.shape is None else self.shape.ratios
        for j, ratio in enumerate(ratios[: widths.shape[1]]):
            if ratio > 0:
                near = np.log(np.maximum(widths[:, j], TINY)) - np.log(s)
                widths[:, j] = np.sqrt(np.square(far.std(near, s, novelty, prior, ratio)) + added / ratio**2)
        return std, widths

    def left_out(
        self, rows: LeftOut, place: Indices, correlations: Correlations | None = None
    ) -> tuple[Floats, Floats]:
        """The error bars at rows of the fit, as `error_bars` has them, without each row's own error.

        Exact but for rows that repeat in small tables: squares and sums contain the `optimism`, their errors do not.

        Parameters
        ----------
        rows : LeftOut
        place : array of shape (rows,)
            The place of every row among `X`; -1 for rows that the scale was not learnt from.
        correlations : callable or None
            From places of shape (rows, some), -1 for none, to the correlations of their errors with those of the rows.
        """
        variance = rows.variance + self.extra
        places = self._places(rows.X, place, correlations)
        theirs = None
        if self.errors is not None and self.variances is not None:
            theirs = self.errors / np.sqrt(self.variances + self.extra)[:, None]
        scale: Floats = self._near(None, len(rows.X))
        if places is not None and self.k:
            z = rows.error / np.sqrt(variance)[:, None]
            correction = places.correction(z, theirs, _mean_square)
            total, count = places.others(_mean_square(z), self.squares[:, None], self.k, correction)
            scale = np.asarray((total[:, 0] + self.strength * self.mean) / (count + self.strength))
        widths: Floats = np.zeros(rows.error.shape)
        if self.shape is not None:
            widths = self.shape.widths_left_out(rows, places, variance * scale, self.extra, theirs=theirs)
        return self._anywhere(rows.X, scale, widths, variance, rows.novelty, rows.prior + variance - rows.latent)

    def _places(self, X: Floats, place: Indices, correlations: Correlations | None) -> Places | None:
        """The places of the scale, seen from rows that are at these; None if no place matters."""
        found = self._query(X, self._n_near + 1)
        if found is None or self.near is None:
            return None
        made = Places(self.X, self.counts, self.near, place, found)
        if correlations is None:
            return made
        return replace(made, rho=correlations(np.where(made.is_other, found, -1)))

    @property
    def _n_near(self) -> int:
        """How many places near by the scale and the widths depend on."""
        return self.k if self.shape is None else max(self.k, self.shape.n_near)

    def _query(self, X: Array, k: int) -> Indices | None:
        """The k places nearest to every row of X; None if no place matters."""
        return None if self.near is None or not k else self.near.query(np.asarray(X, dtype=np.float64), k)

    def _near(self, found: Indices | None, n: int) -> Floats:
        """The scale of the places near by, of shape (n,)."""
        if found is None or not self.k:
            return np.full(n, self.mean)
        found = found[:, : self.k]
        count = self.counts[found].sum(axis=1) + self.strength
        return np.asarray((self.squares[found].sum(axis=1) + self.strength * self.mean) / count)

    def _with_far(self, kernel: CompiledKernel, far: Far, rows: LeftTogether | None) -> tuple[Scale, tuple[Away, ...]]:
        """With error bars away from the rows as rows that were left out together tell; and how these suit them."""
        if rows is None or not len(rows.X):
            return replace(self, far=far), ()
        features = kernel.prepare(rows.X)
        prior = kernel.diag(features) + kernel.noise(features) + self.extra
        rows = replace(rows, variance=np.maximum(rows.variance + self.extra, TINY))
        shapes = [(Standard(NU[1]), 1.0)] * rows.error.shape[1] if self.shape is None else self.shape.learnt_from
        learnt = replace(self, far=far.learnt(rows, 0.5 * np.log(np.maximum(self(rows.X), TINY)), prior, shapes))
        std, widths = learnt.error_bars(rows.X, rows.variance, rows.novelty, prior, rows.beyond)
        if not widths.shape[1]:
            widths = np.broadcast_to(std[:, None], rows.error.shape)
        standards = [None] * rows.error.shape[1] if self.shape is None else self.shape.standards
        inside = Predictive(np.zeros(rows.error.shape), np.broadcast_to(std[:, None], widths.shape), widths, standards)
        is_inside = np.abs(2 * inside.cumulative(rows.error) - 1) <= AWAY_COVERAGE
        is_end = np.asarray((rows.beyond > 0).any(axis=(1, 2)))
        away = (
            Away.of("holes", rows.error[~is_end], is_inside[~is_end]),
            Away.of("ends", rows.error[is_end], is_inside[is_end]),
        )
        return learnt, tuple(each for each in away if each.n_rows)


@dataclass(frozen=True)
class LearntScale:
    """A scale, beside the rows that it was learnt from."""

    scale: Scale
    rows: LeftOut
    places: Places | None
    """None if there are too few rows for anything that depends on the place."""
    variance: Floats
    """Calibrated variances of observations, that of each row by the other rows; of shape (rows,)."""

    @property
    def learnt_density(self) -> float:
        """The mean log density of the errors by a Gaussian or a t, per target; each row's by the other rows.

        Corrections of the t, which take most of the time of `Shape.learn`, change all models that are compared alike.
        """
        if not len(self.rows.X):
            return self.scale.density
        shape = Shape.learn(self.rows, self.places, self.variance, self.scale.extra, optimism=1.0, degrees=())
        return self.scale.density + float(np.mean(shape.gain or 0.0))

    def of_model(
        self,
        kernel: CompiledKernel,
        calibrate: bool,
        optimism: float = 1.0,
        far: Far | None = None,
        together: LeftTogether | None = None,
    ) -> Scale:
        """The scale that a model keeps: with `bars` and, if `calibrate`, with the shape of its errors.

        Parameters
        ----------
        kernel : CompiledKernel
        calibrate : bool
        optimism : float
            How many times as large squared errors are for rows that no step of the fit has seen.
        far : Far, optional
            How error bars change away from the rows, before that is learnt.
        together : LeftTogether, optional
            What it is learnt from.
        """
        scale, rows = self.scale, self.rows
        if not len(rows.X):
            return replace(scale, far=far)
        wide = replace(scale, mean=optimism * scale.mean, squares=optimism * scale.squares)
        shape = Shape.learn(rows, self.places, self.variance, scale.extra, optimism) if calibrate else None
        noise = kernel.noise(kernel.prepare(rows.X)) + scale.extra
        factor = wide(rows.X)
        wide, places = replace(wide, shape=shape), self.places
        by_place = shape is not None and shape.sums is not None
        if places is not None and (wide.k or by_place):
            if places.rho is not None:
                errors, variances = places.of_first(rows.error), places.of_first(rows.variance)
                wide = replace(wide, errors=errors, variances=variances)
            wide = replace(wide, X=places.X, counts=places.counts, near=places.index)
        away: tuple[Away, ...] = ()
        if far is not None:
            wide, away = wide._with_far(kernel, replace(far, edge=edge_of(rows.novelty)), together)
        left_out = self._left_out(wide, optimism)
        bars = ErrorBars.of(noise * factor, (rows.latent + noise) * factor, rows.novelty, rows.error, left_out)
        return replace(wide, bars=replace(bars, away=away))

    def _left_out(self, learnt: Scale, optimism: float) -> Predictive:
        """The distribution of the error of every row, by the other rows but for a few numbers that are learnt."""
        rows, shape, variance = self.rows, learnt.shape, self.rows.variance + learnt.extra
        near = optimism * self.variance / np.maximum(variance, TINY)
        widths: Floats = np.zeros(rows.error.shape)
        if shape is not None:
            widths = shape.widths_left_out(rows, self.places, self.variance, learnt.extra, optimism)
        prior = rows.prior + variance - rows.latent
        std, widths = learnt._anywhere(rows.X, near, widths, variance, rows.novelty, prior)
        errors = np.zeros(rows.error.shape), np.broadcast_to(std[:, None], rows.error.shape)
        return Predictive.gaussian(*errors) if shape is None else Predictive(*errors, widths, shape.standards)


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


def _mean_square(z: Floats) -> Floats:
    """The mean over the targets, the last axis, of squared standardised errors; the axis is kept."""
    return np.asarray(np.mean(np.square(z), axis=-1, keepdims=True))


def _scales(
    squares: Floats, sums: Floats, places: Places | None, correction: Floats | None
) -> Iterator[tuple[float, Floats | float, int, float]]:
    """Yield (overall mean, scales of the rows, k, strength), the simplest first.

    Squared standardised errors are given for the rows, of shape (rows,), and summed over places, of shape (places,).
    The overall mean counts `STRENGTHS[0]` rows with a squared standardised error of 1, so a few rows leave it near 1.
    """
    prior = STRENGTHS[0]
    mean = float((squares.sum() + prior) / (len(squares) + prior))
    yield mean, mean, 0, 0.0
    if places is None:
        return
    for k in SIZES:
        total, count = places.others(squares[:, None], sums[:, None], k, correction)
        for strength in STRENGTHS:
            yield mean, (total[:, 0] + strength * mean) / (count + strength), k, strength


def log_densities(error: Floats, variance: Floats) -> Floats:
    """The log density of every row's errors, a mean over the targets; of shape (rows,).

    Errors, of shape (rows, q), are normal with mean zero and these variances, of shape (rows,).
    """
    return np.asarray(-0.5 * (np.mean(np.square(error), axis=1) / variance + np.log(2 * np.pi * variance)))
