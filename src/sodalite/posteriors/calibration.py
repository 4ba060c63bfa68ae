"""Error bars scaled by how wrong the model was near by.

Multiplying a kernel and its noise by the same number changes no mean, and multiplies every variance by that number. So
the number can be learnt last, and it can differ from place to place: where the model predicted rows, each from all
others, with squared errors larger than it said, its variances there are too small, and by how much. One number for the
whole data is the usual maximum-likelihood scale; one for each neighbourhood is what local Gaussian processes use
(Gramacy and Apley 2015). Where a kernel says that there is hardly any noise and a few errors say otherwise, no factor
mends that, so a little noise may be added first, the same everywhere. How much, and how local the factor should be, is
chosen by the density of the same errors, each judged by the others' scale.

What rows near by say holds as far as they know: up to a novelty (the share of the prior variance that is left) that
they have themselves, each left out. Beyond that, the scale goes over to one for all, until nothing is known: there the
variance is the prior's times the overall scale, and no less than that of the targets themselves. An overall scale below
one shrinks the prior only as far as the errors that it was learnt from had any of the prior's variance left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..core.types import Array
from ..kernels import CompiledKernel
from ..kernels.neighbours import Neighbours

SIZES = (32, 64, 128)  # rows near by
STRENGTHS = (4.0, 8.0, 16.0, 64.0)  # how many rows the mean of all counts for
FEW = 100  # rows below which there is one scale for all
EXTRAS = (0.0, 1e-3, 3e-3, 1e-2, 3e-2, 0.1)  # of the mean squared error: noise that the kernel may have missed
WORTH = 0.002  # of log density per row, that a scale for each place must gain over one for all
EXCEPT = 0.05  # share of the rows near by whose own novelty may be larger than that up to which their scale holds
UNKNOWN = 0.5  # novelty up to which a scale holds, where that of the rows is not known: half of the prior variance
MOST = 1 - 1e-6  # of that novelty: rows that are all on their own leave room for what is further out
RARE = 0.005  # share of the rows of the fit, each left out, whose novelty is called outside: one outlier in 200 is
LEAST = 0.1  # novelty below which nothing is outside the data: at the edge of dense rows it is small, but not theirs


@dataclass(frozen=True)
class ErrorBars:
    """What predictions say of new observations near the rows of the fit: standard deviations, of scaled targets.

    Each row is predicted from the others. The ranges are from the 10 % to the 90 % quantile of the rows.
    """

    noise: float
    """Of the noise, scaled as predictions scale it; the root mean square over the rows."""
    noise_range: tuple[float, float]
    std: float
    """Of an observation: the noise, and what the other rows leave open."""
    std_range: tuple[float, float]
    outside: float
    """The novelty above which a row is outside the data."""
    rmse: float | None = None
    """The root mean square error of the predictions. None in files of earlier versions."""

    @classmethod
    def of(cls, noise: Array, variance: Array, novelty: Array, error: Array) -> ErrorBars:
        """Summarise the noise variances, the variances of observations, the novelties and the errors of some rows."""
        noise_low, noise_high, low, high = np.sqrt(
            [*np.quantile(noise, [0.1, 0.9]), *np.quantile(variance, [0.1, 0.9])]
        ).tolist()
        rare = float(np.quantile(novelty, 1 - RARE))
        return cls(
            float(np.sqrt(noise.mean())),
            (noise_low, noise_high),
            float(np.sqrt(variance.mean())),
            (low, high),
            min(max(rare, LEAST), MOST),
            float(np.sqrt(np.mean(np.square(error)))),
        )


@dataclass(frozen=True)
class Scale:
    """What variances are multiplied by, at any place."""

    mean: float
    """The mean of the squared standardised errors."""
    squares: Array = field(repr=False)
    """The squared standardised errors; of shape (rows,)."""
    X: Array = field(repr=False)
    """Their rows; of shape (rows, d)."""
    near: Neighbours | None = field(repr=False)
    """An index of these; None where there is one scale for all."""
    k: int = 0
    strength: float = 0.0
    density: float = -np.inf
    """The mean log density of the errors, each under the others' scale."""
    extra: float = 0.0
    """What is added to the variances of observations before they are multiplied."""
    novelty: Array | None = field(default=None, repr=False)
    """The novelty of the rows, each left out; of shape (rows,). None in files of earlier versions."""
    edge: float = UNKNOWN
    """The novelty up to which the mean of all holds; of single places, that of the rows near by says so."""
    floor: float = 0.0
    """The least variance of an observation where nothing is known: the targets' own."""
    bars: ErrorBars | None = None
    """What the variances come to at the rows of the fit."""

    @classmethod
    def fit(
        cls, kernel: CompiledKernel, X: Array, error: Array, variance: Array, noise: Any = None, floor: float = 0.0
    ) -> Scale:
        """Learn the scale from errors, of shape (rows, q), and the variances that they should have had.

        `noise` is the part of these variances that is noise; None if all of it may be. `floor` is the targets' own
        variance. O(rows^2 d), or rows log rows in few dimensions.
        """
        return cls.fit_each(kernel, X, error[None], variance[None], noise, floor)[0]

    @classmethod
    def fit_each(
        cls,
        kernel: CompiledKernel,
        X: Array,
        errors: Array,
        variances: Array,
        noise: Any = None,
        floor: float = 0.0,
        optimism: float = 1.0,
    ) -> list[Scale]:
        """The scale for each of several models' errors on the same rows; of shape (models, rows, q) and (models, rows).

        `optimism` is how many times as large squared errors are where the model has not seen the rows in any way.
        """
        X = np.asarray(X, dtype=np.float64)
        near = found = None
        if len(X) >= FEW:
            near = Neighbours(kernel, X, by_period=False)
            found = near.query(X, max(SIZES) + 1)
        prior = kernel.diag(kernel.prepare(X))
        latent = np.zeros_like(variances) if noise is None else np.maximum(variances - noise, 0)
        made = [cls._fit(X, near, found, prior, floor, *each) for each in zip(errors, variances, latent, strict=True)]
        wide = [replace(scale, mean=optimism * scale.mean, squares=optimism * scale.squares) for scale in made]
        return [scale.with_bars(kernel, *each) for scale, *each in zip(wide, latent, errors, strict=True)]

    @classmethod
    def none(
        cls, kernel: CompiledKernel, X: Array, latent: Array, error: Array, floor: float, novelty: Any = None
    ) -> Scale:
        """The scale that leaves variances as they are, up to the novelty that rows have of which each is left out.

        `latent` are the variances of the latent function there, of shape (rows,), `error` the errors, (rows, q).
        """
        if novelty is None:
            novelty = novelty_of(latent, kernel.diag(kernel.prepare(X)))
        nothing = np.empty(0)
        made = cls(1.0, nothing, np.empty((0, X.shape[1])), None, edge=float(_edge(novelty)), floor=floor)
        return made.with_bars(kernel, latent, error, X, novelty)

    def with_bars(
        self, kernel: CompiledKernel, latent: Array, error: Array, X: Any = None, novelty: Any = None
    ) -> Scale:
        """The same, with what the variances come to at some rows, or at its own."""
        X, novelty = self.X if X is None else X, self.novelty if novelty is None else novelty
        if not len(X):
            return self
        rows = kernel.prepare(X)
        noise = kernel.noise(rows) + self.extra
        factor = self.factor(X, novelty, kernel.diag(rows) + noise)
        return replace(self, bars=ErrorBars.of(noise * factor, (latent + noise) * factor, novelty, error))

    @classmethod
    def _fit(
        cls,
        X: Array,
        near: Neighbours | None,
        found: Array | None,
        prior: Array,
        floor: float,
        error: Array,
        variance: Array,
        latent: Array,
    ) -> Scale:
        if not len(X):
            return cls(1.0, variance, X, None, novelty=latent, floor=floor)
        best, top = None, -np.inf
        own = None if found is None else found == np.arange(len(X))[:, None]
        novelty = novelty_of(latent, prior)
        edge = float(_edge(novelty))
        edges: dict[int, Any] = {0: edge}
        if found is not None and own is not None:
            others = np.where(own, -1.0, novelty[found])
            edges |= {k: _edge(others[:, : k + 1]) for k in SIZES}
        for share in EXTRAS:
            extra = share * float(np.mean(np.square(error)))
            total, far = variance + extra, prior + (variance - latent) + extra
            squares = np.mean(np.square(error), axis=1) / total
            for mean, scale, k, strength in _scales(squares, found, own):
                made = cls(float(mean), squares, X, near if k else None, k, strength, -np.inf, extra)
                made = replace(made, novelty=novelty, edge=edge, floor=floor)
                scale = _blended(scale, made.far(far), outside(novelty, edges[k]))
                density = float(log_densities(error, total * scale).mean())
                # One scale for all and no extra noise, unless that is worth something.
                if best is None or density > top + WORTH * (best.k == 0 and best.extra == 0):
                    best, top = replace(made, density=density), density
        assert best is not None
        return best

    def __call__(self, X: Array) -> Array:
        """The scale at every row of X, as far as the rows near by know."""
        return self._near(X)[0]

    def factor(self, X: Array, novelty: Array, prior: Array) -> Array:
        """What the variances at X are multiplied by.

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

    def far(self, prior: Array) -> Array:
        """The scale where nothing is known, and the variance of an observation there is `prior` times that."""
        least = np.divide(self.floor, prior, out=np.zeros(len(prior)), where=prior > 0)
        return np.maximum(max(self.mean, min(self.mean, 1.0) ** self.edge), least)

    def _near(self, X: Array) -> tuple[Array, Array]:
        """The scale by the rows near by, and the novelty up to which it holds."""
        if self.near is None:
            return np.full(len(X), self.mean), np.full(len(X), self.edge)
        found = self.near.query(np.asarray(X, dtype=np.float64), self.k)
        total = self.squares[found].sum(axis=1) + self.strength * self.mean
        scale = np.asarray(total / (found.shape[1] + self.strength))
        return scale, np.full(len(X), self.edge) if self.novelty is None else _edge(self.novelty[found])


def novelty_of(latent: Array, prior: Array) -> Array:
    """The share of the prior variance that is left, from 0 to 1; 1 where there is none to begin with.

    Examples
    --------
    >>> novelty_of(np.array([0.5, 2.0, 0.0]), np.array([2.0, 2.0, 0.0]))
    array([0.25, 1.  , 1.  ])
    """
    share = np.divide(latent, prior, out=np.ones(np.shape(latent)), where=np.asarray(prior) > 0)
    return np.asarray(np.clip(share, 0.0, 1.0))


def outside(novelty: Array, edge: Any) -> Array:
    """How far rows are outside of what is known up to some novelty: 0 up to there, 1 where nothing is known."""
    return np.asarray(np.maximum(novelty - edge, 0) / (1 - edge))


def rank_of_edge(count: int) -> int:
    """Which of so many novelties is that up to which a scale holds, counted from the largest, that being 1."""
    return 1 + int(EXCEPT * count)


def _edge(novelty: Array) -> Any:
    """The novelty that all but a few of some rows, along the last axis, do not exceed."""
    count = novelty.shape[-1]
    place = count - rank_of_edge(count)
    return np.minimum(np.partition(novelty, place, axis=-1)[..., place], MOST)


def _blended(near: Any, far: Array, weight: Array) -> Array:
    """From one scale to another, as `weight` grows from 0 to 1.

    The mean of scales if the other is larger, of their inverses if it is smaller: so the variance, which is a scale
    times what grows with novelty, goes from what it is near the data to what it is far away, and never back.
    """
    near = np.broadcast_to(near, weight.shape)
    low = np.minimum(near, far)
    down = np.divide(near * low, low + weight * (near - low), out=np.zeros(weight.shape), where=low > 0)
    return np.asarray(np.where(far < near, down, near + weight * (far - near)))


def _scales(squares: Array, found: Array | None, own: Array | None) -> Iterator[tuple[float, Any, int, float]]:
    """The mean of some squared errors, and the scale of each row by the others'; the way to it, from plain to local."""
    n, prior = len(squares), STRENGTHS[0]
    mean = (squares.sum() + prior) / (n + prior)
    yield mean, mean, 0, 0.0
    if found is None or own is None:
        return
    for k in SIZES:
        # Each row's own error is left out: it is the nearest, unless another has the same inputs.
        here, others = found[:, : k + 1], ~own[:, : k + 1]
        total, count = (squares[here] * others).sum(axis=1), others.sum(axis=1)
        for strength in STRENGTHS:
            yield mean, (total + strength * mean) / (count + strength), k, strength


def log_densities(error: Array, variance: Array) -> Array:
    """The mean log density of each row's errors, of shape (rows, q), that have these variances, of shape (rows,)."""
    return np.asarray(-0.5 * (np.mean(np.square(error), axis=1) / variance + np.log(2 * np.pi * variance)))
