"""Calibration: variances multiplied by a scale that is learnt from leave-one-out errors.

The method is described in docs/method.rst, `calibration` and `far-from-data`.

Multiplying a kernel and its noise by one number changes no posterior mean and multiplies every posterior variance by
that number. So the number can be learnt last, and it can differ from place to place. Let e be the leave-one-out errors
of a row, one for each of its q targets, and v the variance that the model predicted for them. With the squared
standardised error u = mean(e^2) / v of every row, the scale at x is

    scale(x) = (sum of u over the k rows nearest to x + strength * mean) / (k + strength)

where `mean` is the mean of u over all rows. With k = 0 the scale is `mean` everywhere: the maximum-likelihood scale,
shrunk slightly towards 1. Local Gaussian processes use a scale for each neighbourhood (Gramacy and Apley 2015).

A kernel may find hardly any noise where a few large errors show that there is some, and no factor mends that. So a
little noise, `extra`, may be added to all variances before they are multiplied. The values of `extra`, k and `strength`
are those that give the leave-one-out errors the largest log density, the scale of each row learnt from the other rows.

A scale holds near the rows that it was learnt from. How far, the *novelty* says: the share of the latent prior variance
that is left at x. Up to `edge`, the novelty that the rows themselves have when they are left out, the scale is
scale(x). Beyond it, the scale goes over to the one that holds where nothing is known: there the variance of an
observation is the prior's times `mean`, and no less than `floor`, the variance of the targets. A `mean` below one
shrinks the prior variance only by the power `edge`: as far as the errors that it was learnt from had any prior
variance left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ..core.types import Array, Floats, Indices, Mask
from ..kernels import CompiledKernel
from ..kernels.neighbours import Neighbours

# Candidates of the search. `benchmarks calibration` shows what the chosen ones are worth on eight data sets.
SIZES = (32, 64, 128)  # k, rows near by; fewer estimate a variance poorly, more see less of where it changes
STRENGTHS = (4.0, 8.0, 16.0, 64.0)  # how many rows the overall mean counts for; the first also draws that mean to 1
EXTRAS = (0.0, 1e-3, 3e-3, 1e-2, 3e-2, 0.1)  # `extra`, as shares of the mean squared error
FEW = 100  # rows below which only k = 0 is tried: the 32 nearest of them would be a third of all
WORTH = 0.002  # nats per row that a candidate must gain over k = 0 without `extra`; less may be chance

# Novelty, a share of the prior variance from 0 to 1.
EXCEPT = 0.05  # share of the rows whose novelty may exceed `edge`, so that a few outlying rows do not raise it
UNKNOWN = 0.5  # `edge` where the novelty of the rows is not known: files of earlier versions
MOST = 1 - 1e-6  # largest `edge`: below 1, so that the scale can still change beyond it
RARE = 0.005  # share of the rows of the fit whose novelty is called outside the data: one in 200
LEAST = 0.1  # smallest novelty that is called outside: among dense rows, the edge of the data has very little


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
    rmse: float | None = None
    """The root mean square of the leave-one-out errors. None in files of earlier versions."""

    @classmethod
    def of(cls, noise: Floats, variance: Floats, novelty: Floats, error: Floats) -> ErrorBars:
        """Summarise some rows.

        Parameters
        ----------
        noise, variance, novelty : arrays of shape (rows,)
            Scaled variances of the noise and of an observation; the share of the prior variance that is left.
        error : array of shape (rows, q)
            Leave-one-out errors.
        """
        noise_low, noise_high, low, high = np.sqrt(
            [*np.quantile(noise, [0.1, 0.9]), *np.quantile(variance, [0.1, 0.9])]
        ).tolist()
        rare = float(np.quantile(novelty, 1 - RARE))
        return cls(
            noise=float(np.sqrt(noise.mean())),
            noise_range=(noise_low, noise_high),
            std=float(np.sqrt(variance.mean())),
            std_range=(low, high),
            outside=min(max(rare, LEAST), MOST),
            rmse=float(np.sqrt(np.mean(np.square(error)))),
        )


@dataclass(frozen=True)
class Scale:
    """The factor that variances are multiplied by, as a function of place and novelty."""

    mean: float
    """The mean of the squared standardised errors."""
    squares: Floats = field(repr=False)
    """The squared standardised error of every row, a mean over the targets; of shape (rows,)."""
    X: Floats = field(repr=False)
    """The rows that the scale was learnt from; of shape (rows, d)."""
    near: Neighbours | None = field(repr=False)
    """Finds the rows nearest to a query; None where k is 0."""
    k: int = 0
    """How many rows near by a local scale is learnt from; 0 for one scale everywhere."""
    strength: float = 0.0
    """How many rows the overall mean counts for in a local scale."""
    density: float = -np.inf
    """The mean log density of the leave-one-out errors, the scale of each row learnt from the other rows."""
    extra: float = 0.0
    """Noise variance that is added to observations before they are multiplied."""
    novelty: Floats | None = field(default=None, repr=False)
    """The novelty of the rows, each left out; of shape (rows,). None in files of earlier versions."""
    edge: float = UNKNOWN
    """The novelty up to which `mean` holds. A local scale has an edge of its own, from the rows near by."""
    floor: float = 0.0
    """The least variance of an observation where nothing is known: the variance of the targets."""
    bars: ErrorBars | None = None
    """The standard deviations that predictions have at the rows of the fit."""

    @classmethod
    def fit(
        cls,
        kernel: CompiledKernel,
        X: Array,
        error: Floats,
        variance: Floats,
        noise: Floats | None = None,
        floor: float = 0.0,
    ) -> Scale:
        """Learn the scale from leave-one-out errors. O(rows^2 d), or O(rows log rows) in few dimensions.

        Parameters
        ----------
        kernel : CompiledKernel
            Says which rows are near each other.
        X : array of shape (rows, d)
        error : array of shape (rows, q)
            Leave-one-out errors.
        variance : array of shape (rows,)
            The variances that the model predicted for them, noise included.
        noise : array of shape (rows,), default=None
            The part of these variances that is noise; None if all of it is.
        floor : float
            The variance of the targets.
        """
        return cls.fit_each(kernel, X, error[None], variance[None], noise, floor)[0]

    @classmethod
    def fit_each(
        cls,
        kernel: CompiledKernel,
        X: Array,
        errors: Floats,
        variances: Floats,
        noise: Floats | None = None,
        floor: float = 0.0,
        optimism: float = 1.0,
    ) -> list[Scale]:
        """Learn one scale for each of several models that predict the rows of X.

        Parameters are those of `fit`, with errors of shape (models, rows, q) and variances of shape (models, rows).
        `optimism` is how many times as large squared errors are for rows that no step of the fit has seen.
        """
        X = np.asarray(X, dtype=np.float64)
        near = _Near.of(kernel, X)
        prior = kernel.diag(kernel.prepare(X))
        latents = np.zeros_like(variances) if noise is None else np.maximum(variances - noise, 0)
        scales = []
        for error, variance, latent in zip(errors, variances, latents, strict=True):
            novelty = novelty_of(latent, prior)
            best = cls._best(X, near, _LeftOut(error, variance, latent, prior, novelty), floor)
            wide = replace(best, mean=optimism * best.mean, squares=optimism * best.squares)
            scales.append(wide.with_bars(kernel, X, latent, error, novelty))
        return scales

    @classmethod
    def none(
        cls,
        kernel: CompiledKernel,
        X: Floats,
        latent: Floats,
        error: Floats,
        floor: float,
        novelty: Floats | None = None,
    ) -> Scale:
        """The scale that leaves variances as they are up to the novelty of the rows, and then rises to `floor`.

        Parameters
        ----------
        kernel : CompiledKernel
        X : array of shape (rows, d)
        latent : array of shape (rows,)
            Variances of the latent function at the rows, each left out.
        error : array of shape (rows, q)
            Leave-one-out errors.
        floor : float
            The variance of the targets; 0 if variances are to stay as they are everywhere.
        novelty : array of shape (rows,), default=None
            The novelty of the rows, each left out; None if it follows from `latent`.
        """
        if novelty is None:
            novelty = novelty_of(latent, kernel.diag(kernel.prepare(X)))
        made = cls(1.0, np.empty(0), np.empty((0, X.shape[1])), None, edge=float(_edge(novelty)), floor=floor)
        return made.with_bars(kernel, X, latent, error, novelty)

    @classmethod
    def _best(cls, X: Floats, near: _Near | None, left_out: _LeftOut, floor: float) -> Scale:
        """The candidate of the largest log density; a simple one is given up only for a gain of `WORTH`."""
        if not len(X):
            return cls(1.0, np.empty(0), X, None, novelty=np.empty(0), floor=floor)
        candidates = cls._candidates(X, near, left_out, floor)
        best = next(candidates)
        for made in candidates:
            is_simple = best.k == 0 and best.extra == 0
            if made.density > best.density + (WORTH if is_simple else 0.0):
                best = made
        return best

    @classmethod
    def _candidates(cls, X: Floats, near: _Near | None, left_out: _LeftOut, floor: float) -> Iterator[Scale]:
        """Every combination of `extra`, k and `strength`, the simplest first, each with its log density."""
        error, variance, novelty = left_out.error, left_out.variance, left_out.novelty
        mean_square = float(np.mean(np.square(error)))
        edge = float(_edge(novelty))
        edges: dict[int, Floats | float] = {0: edge}
        if near is not None:
            edges |= near.edges(novelty)
        for share in EXTRAS:
            extra = share * mean_square
            total = variance + extra
            far = left_out.prior + (variance - left_out.latent) + extra
            squares = np.mean(np.square(error), axis=1) / total
            for mean, local, k, strength in _scales(squares, near):
                index = near.index if near is not None and k else None
                made = cls(mean, squares, X, index, k, strength, -np.inf, extra, novelty, edge, floor)
                scale = _blended(local, made.far(far), outside(novelty, edges[k]))
                yield replace(made, density=float(log_densities(error, total * scale).mean()))

    def with_bars(self, kernel: CompiledKernel, X: Floats, latent: Floats, error: Floats, novelty: Floats) -> Scale:
        """The scale with `bars`, the summary of what it makes of some rows; unchanged if there are no rows.

        Parameters
        ----------
        kernel : CompiledKernel
        X : array of shape (rows, d)
        latent, novelty : arrays of shape (rows,)
            Variances of the latent function and novelties, each row left out.
        error : array of shape (rows, q)
            Leave-one-out errors.
        """
        if not len(X):
            return self
        rows = kernel.prepare(X)
        noise = kernel.noise(rows) + self.extra
        factor = self.factor(X, novelty, kernel.diag(rows) + noise)
        return replace(self, bars=ErrorBars.of(noise * factor, (latent + noise) * factor, novelty, error))

    def __call__(self, X: Array) -> Floats:
        """The scale of the rows near by, at every row of X and whatever its novelty; of shape (n,)."""
        return self._near(X)[0]

    def factor(self, X: Array, novelty: Floats, prior: Floats) -> Floats:
        """The factor that the variances at X are multiplied by; of shape (n,).

        Parameters
        ----------
        X : array of shape (n, d)
        novelty : array of shape (n,)
            The share of the latent prior variance that is left.
        prior : array of shape (n,)
            The variance that an observation has where nothing is known, with `extra`.
        """
        scale, edge = self._near(X)
        return _blended(scale, self.far(prior), outside(novelty, edge))

    def far(self, prior: Floats) -> Floats:
        """The scale where nothing is known; of shape (n,), as `prior`, the variance of an observation there."""
        least = np.divide(self.floor, prior, out=np.zeros(len(prior)), where=prior > 0)
        return np.maximum(max(self.mean, min(self.mean, 1.0) ** self.edge), least)

    def _near(self, X: Array) -> tuple[Floats, Floats]:
        """The scale of the rows near by, and the novelty up to which it holds; each of shape (n,)."""
        if self.near is None:
            return np.full(len(X), self.mean), np.full(len(X), self.edge)
        found = self.near.query(np.asarray(X, dtype=np.float64), self.k)
        total = self.squares[found].sum(axis=1) + self.strength * self.mean
        scale = np.asarray(total / (found.shape[1] + self.strength))
        return scale, np.full(len(X), self.edge) if self.novelty is None else _edge(self.novelty[found])


@dataclass(frozen=True)
class _LeftOut:
    """A model's predictions of some rows, each from the other rows."""

    error: Floats
    """Observation minus predicted mean; of shape (rows, q)."""
    variance: Floats
    """Predicted variance of an observation, noise included; of shape (rows,)."""
    latent: Floats
    """Predicted variance of the latent function; of shape (rows,)."""
    prior: Floats
    """Prior variance of the latent function; of shape (rows,)."""
    novelty: Floats
    """`latent` as a share of `prior`; of shape (rows,)."""


@dataclass(frozen=True)
class _Near:
    """The rows nearest to every row, from which a local scale of that row is learnt."""

    index: Neighbours
    found: Indices
    """The nearest rows, the nearest first; of shape (rows, max(SIZES) + 1)."""
    own: Mask
    """Where `found` is the row itself: the nearest, unless other rows have the same inputs; of the same shape."""

    @classmethod
    def of(cls, kernel: CompiledKernel, X: Floats) -> _Near | None:
        """The nearest rows of every row of X; None if there are too few rows for local scales."""
        if len(X) < FEW:
            return None
        index = Neighbours(kernel, X, by_period=False)
        found = index.query(X, max(SIZES) + 1)
        return cls(index, found, found == np.arange(len(X))[:, None])

    def edges(self, novelty: Floats) -> dict[int, Floats]:
        """For every k, the novelty up to which the local scale of each row holds; of shape (rows,)."""
        others = np.where(self.own, -1.0, novelty[self.found])
        return {k: _edge(others[:, : k + 1]) for k in SIZES}

    def scales(self, squares: Floats, mean: float) -> Iterator[tuple[Floats, int, float]]:
        """Yield (scales of the rows, of shape (rows,), k, strength), each row's own error left out."""
        for k in SIZES:
            found, others = self.found[:, : k + 1], ~self.own[:, : k + 1]
            total, count = (squares[found] * others).sum(axis=1), others.sum(axis=1)
            for strength in STRENGTHS:
                yield (total + strength * mean) / (count + strength), k, strength


def _scales(squares: Floats, near: _Near | None) -> Iterator[tuple[float, Floats | float, int, float]]:
    """Yield (overall mean, scales of the rows, k, strength), the simplest first.

    The overall mean counts `STRENGTHS[0]` rows with a squared standardised error of 1, so a few rows leave it near 1.
    """
    prior = STRENGTHS[0]
    mean = float((squares.sum() + prior) / (len(squares) + prior))
    yield mean, mean, 0, 0.0
    if near is not None:
        for scales, k, strength in near.scales(squares, mean):
            yield mean, scales, k, strength


def novelty_of(latent: Floats, prior: Floats) -> Floats:
    """The share of the prior variance that is left, from 0 to 1; 1 where the prior variance is 0.

    Examples
    --------
    >>> novelty_of(np.array([0.5, 2.0, 0.0]), np.array([2.0, 2.0, 0.0]))
    array([0.25, 1.  , 1.  ])
    """
    share = np.divide(latent, prior, out=np.ones(np.shape(latent)), where=np.asarray(prior) > 0)
    return np.asarray(np.clip(share, 0.0, 1.0))


def outside(novelty: Floats, edge: Floats | float) -> Floats:
    """How far outside the known a row is: 0 up to a novelty of `edge`, rising linearly to 1 at a novelty of 1."""
    return np.asarray(np.maximum(novelty - edge, 0) / (1 - edge))


def rank_of_edge(count: int) -> int:
    """The rank of the edge among `count` novelties, the largest having rank 1: all but a few do not exceed it."""
    return 1 + int(EXCEPT * count)


def _edge(novelty: Floats) -> Floats:
    """The novelty that all but the share `EXCEPT` of some rows do not exceed; the rows are the last axis."""
    count = novelty.shape[-1]
    place = count - rank_of_edge(count)
    return np.asarray(np.minimum(np.partition(novelty, place, axis=-1)[..., place], MOST))


def _blended(near: Floats | float, far: Floats, weight: Floats) -> Floats:
    """Go over from the scale `near` to the scale `far` as `weight` grows from 0 to 1; of shape (n,).

    The weighted arithmetic mean if `far` is larger, the weighted harmonic mean if it is smaller. A variance is a scale
    times something that grows with novelty, and so it changes monotonically from its value near the data to its value
    far away.
    """
    near = np.broadcast_to(near, weight.shape)
    low = np.minimum(near, far)
    down = np.divide(near * low, low + weight * (near - low), out=np.zeros(weight.shape), where=low > 0)
    return np.asarray(np.where(far < near, down, near + weight * (far - near)))


def log_densities(error: Floats, variance: Floats) -> Floats:
    """The log density of every row's errors, a mean over the targets; of shape (rows,).

    Errors, of shape (rows, q), are normal with mean zero and these variances, of shape (rows,).
    """
    return np.asarray(-0.5 * (np.mean(np.square(error), axis=1) / variance + np.log(2 * np.pi * variance)))
