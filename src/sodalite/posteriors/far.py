"""Away from the rows: how error bars grow in gaps between rows, and beyond the ends of the inputs.

The method is described in docs/method.rst, `far-from-data`. Near the rows, leave-one-out errors say how large they are
(`sodalite.posteriors.calibration`). Elsewhere, that is learnt from rows that are left out together: those within a
hole, and the outermost ones of an input (`sodalite.hyperparameters.holes`). Two things are learnt.

*In gaps.* The novelty of a query is the share of the latent prior variance that the rows leave. Up to the `edge`, the
novelty that the rows themselves have when they are left out alone, error bars are those of the rows near by. Beyond it
they go over to those of no data: with s the standard deviation that the process predicts, r the factor that it is
multiplied by near the rows, and t the place between the edge and 1, by the logarithm of the novelty,

    log std = log s + (1 - t) log r + t far + 4 t (1 - t) middle,

between the standard deviation at the edge and that of no data.

*Beyond the ends.* What a kernel has learnt inside the data is trusted outside no further than the data reach. So beyond
an end of an input, by b times the width of its values, the variance of an observation grows by

    growth (1 - exp(-(b / REACH)^2))

times the variance of the targets. Each end has its own growth, which the errors of its outermost rows tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from ..core.types import Floats, Indices
from .predictive import TINY, Standard

Shapes: TypeAlias = Sequence[tuple[Standard, float]]

EXCEPT = 0.05  # share of all rows whose novelty may exceed `edge`, so that a few outlying rows do not raise it
LEAST_EDGE = 1e-9  # smallest `edge` that counts: below it, novelty may be rounding
MOST_EDGE = 1 - 1e-6  # largest `edge`: below 1, so that error bars can still change beyond it
RARE = 0.005  # share of the rows of the fit whose novelty is called outside the data: one in 200
ROUNDING = 1e-12  # what is known, 1 - novelty, below which it may be rounding
UNKNOWN = 0.5  # `edge` where the novelty of the rows is not known
LEAST = 0.1  # smallest novelty that is called outside: among dense rows, the edge of the data has very little

REACH = 1.5  # widths of an input beyond its end at which 63 % of the growth is reached: about as far as the data reach
OUTSIDE = 0.5  # widths of an input beyond its end at which 63 % of what is known counts as unknown
# Candidates, and the priors by which they are weighted where few rows are left out: standard deviations of normal
# distributions of `far`, `middle` and the logarithm of `growth`.
FAR, MIDDLE = np.linspace(-1.5, 1.5, 25), np.linspace(-0.5, 1.0, 13)
GROWTHS = np.geomspace(1e-8, 1e2, 41)
FAR_WIDTH, MIDDLE_WIDTH, GROWTH_WIDTH = 0.5, 0.3, 3.0
CAUTION = 0.5  # standard deviations above its mean, at which each number that is learnt is taken
TYPICAL_GROWTH = 0.1  # prior median of `growth`
INDEPENDENT = 3.0  # independent errors that those of rows left out together count for: they are much alike


def novelty_of(latent: Floats, prior: Floats) -> Floats:
    """The share of the prior variance that is left, from 0 to 1; 1 where the prior variance is 0.

    Examples
    --------
    >>> novelty_of(np.array([0.5, 2.0, 0.0]), np.array([2.0, 2.0, 0.0]))
    array([0.25, 1.  , 1.  ])
    """
    share = np.divide(latent, prior, out=np.ones(np.shape(latent)), where=np.asarray(prior) > 0)
    return np.asarray(np.clip(share, 0.0, 1.0))


def least_outside(novelty: Floats) -> float:
    """The novelty above which a query is called outside the data, from that of the rows of the fit, each left out."""
    return min(max(float(np.quantile(novelty, 1 - RARE)), LEAST), MOST_EDGE)


def edge_of(novelty: Floats) -> float:
    """The novelty that all but a share `EXCEPT` of some rows do not exceed; `UNKNOWN` without rows."""
    if not len(novelty):
        return UNKNOWN
    place = len(novelty) - 1 - int(EXCEPT * len(novelty))
    return float(min(np.partition(novelty, place)[place], MOST_EDGE))


def outside(novelty: Floats, edge: float) -> Floats:
    """How far outside the known a row is: 0 up to a novelty of `edge`, 1 at a novelty of 1.

    Between them it grows as the logarithm of the novelty.

    Examples
    --------
    >>> outside(np.array([0.0, 0.01, 0.1, 1.0]), 0.01)
    array([0. , 0. , 0.5, 1. ])
    """
    edge = max(edge, LEAST_EDGE)
    return np.asarray(np.log(np.maximum(novelty / edge, 1)) / -np.log(edge))


@dataclass(frozen=True)
class LeftTogether:
    """Predictions of rows of the fit, each from rows beyond a hole or an end that it was left out with."""

    X: Floats
    """Inputs, of shape (rows, d)."""
    error: Floats
    """Observation minus predicted mean, of the scaled targets; of shape (rows, q)."""
    variance: Floats
    """Predicted variance of an observation, noise included, not calibrated; of shape (rows,)."""
    novelty: Floats
    """Share of the latent prior variance that the rows left leave; of shape (rows,)."""
    beyond: Floats
    """How far beyond the rows left, in widths of each input; of shape (rows, d, 2), below and above."""
    hole: Indices
    """The number of the hole of every row; of shape (rows,)."""

    def take(self, which: Indices) -> LeftTogether:
        """Some of the rows."""
        return LeftTogether(*(getattr(self, name)[which] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Far:
    """How error bars change away from the rows."""

    floor: float
    """The least variance of an observation where nothing is known: that of the targets."""
    low: Floats
    """The least value of every input, of shape (d,)."""
    high: Floats
    """The largest value of every input, of shape (d,)."""
    edge: float = UNKNOWN
    """The novelty up to which error bars are those of the rows near by."""
    growth: Floats | float = TYPICAL_GROWTH
    """Growth of the variance below and above the values of every input, as shares of `floor`; of shape (d, 2)."""
    far: float = 0.0
    """The logarithm of the factor of s where nothing is known."""
    middle: float = 0.0
    """What is added to the logarithm of that factor halfway between the edge and there."""

    def beyond(self, X: Floats) -> Floats:
        """How far rows are below and above the values of every input, in units of their width; of shape (n, d, 2)."""
        return beyond_box(X, self.low, self.high)

    def share(self, novelty: Floats) -> Floats:
        """t, how far outside the known rows of such novelties are, from 0 to 1."""
        return outside(novelty, self.edge)

    def novelty(self, novelty: Floats, X: Floats) -> Floats:
        """The novelty of rows, counting how far they lie beyond the ends of the inputs, whatever the kernel says."""
        known = np.exp(-self.beyond(X).sum(axis=(1, 2)) / OUTSIDE)
        return np.asarray(1 - (1 - novelty) * known)

    def added(self, beyond: Floats) -> Floats:
        """The variance that is added so far beyond the ends of the inputs, as `beyond` has it; of shape (n,)."""
        return np.asarray(self.floor * (grown(beyond) * self.growth).sum(axis=(1, 2)))

    def std(self, near: Floats, s: Floats, novelty: Floats, prior: Floats, ratio: float = 1.0) -> Floats:
        """Standard deviations away from the rows, but for what is added beyond the ends; of shape (n,).

        They lie between those at the edge and those of no data.

        Parameters
        ----------
        near : array of shape (n,)
            The logarithm of the factor of s near the rows.
        s : array of shape (n,)
            The standard deviations that the process predicts.
        novelty : array of shape (n,)
        prior : array of shape (n,)
            The variance that an observation has where nothing is known. It becomes `floor` at least.
        ratio : float
            Standard deviations over widths, if widths are asked for.
        """
        t, unknown = self.share(novelty), 0.5 * np.log(np.maximum(prior, TINY))
        far = np.maximum(self.far, 0.5 * np.log(max(self.floor, TINY)) - unknown) - np.log(ratio)
        std = s * np.exp((1 - t) * near + t * far + 4 * t * (1 - t) * self.middle)
        left = np.maximum(prior - np.square(s), 0) * (1 - self.edge) / np.maximum(1 - novelty, ROUNDING)
        at_edge = np.sqrt(np.clip(prior - left, TINY, np.square(s))) * np.exp(near)
        nowhere = np.exp(far + unknown)
        between = np.clip(std, np.minimum(at_edge, nowhere), np.maximum(at_edge, nowhere))
        return np.asarray(np.where(t > 0, between, std))

    def learnt(self, rows: LeftTogether, near: Floats, prior: Floats, shapes: Shapes) -> Far:
        """What rows that were left out together tell.

        Parameters
        ----------
        rows : LeftTogether
        near : array of shape (rows,)
            The logarithm of the factor near each row.
        prior : array of shape (rows,)
            Variances of observations where nothing is known.
        shapes : sequence of (Standard, float)
            For every target, the distribution of errors in units of their width, and standard deviations over widths.
        """
        is_hole = ~(rows.beyond > 0).any(axis=(1, 2))
        with_offsets = self._with_offsets(rows, near, prior, shapes, np.flatnonzero(is_hole))
        return with_offsets._with_growth(rows, near, prior, shapes)

    def _with_offsets(self, rows: LeftTogether, near: Floats, prior: Floats, shapes: Shapes, which: Indices) -> Far:
        """With `far` and `middle` as the rows in holes have them."""
        if not len(which):
            return self
        some, weight = rows.take(which), _weights(rows.hole[which])
        values = np.empty((len(FAR), len(MIDDLE)))
        for i, far in enumerate(FAR):
            for j, middle in enumerate(MIDDLE):
                candidate = replace(self, far=float(far), middle=float(middle))
                std = candidate.std(near[which], np.sqrt(some.variance), some.novelty, prior[which])
                values[i, j] = weight @ _densities(some.error, std, shapes)
        values -= 0.5 * (np.square(FAR / FAR_WIDTH)[:, None] + np.square(MIDDLE / MIDDLE_WIDTH))
        mass = np.exp(values - values.max())
        mass /= mass.sum()
        return replace(self, far=_cautious(mass.sum(axis=1), FAR), middle=_cautious(mass.sum(axis=0), MIDDLE))

    def _with_growth(self, rows: LeftTogether, near: Floats, prior: Floats, shapes: Shapes) -> Far:
        """With the growth beyond each end as its outermost rows have it."""
        growth = np.full((len(self.low), 2), TYPICAL_GROWTH)
        variance = np.square(self.std(near, np.sqrt(rows.variance), rows.novelty, prior))
        for j, end in np.argwhere((rows.beyond > 0).any(axis=0)).tolist():
            which = np.flatnonzero(rows.beyond[:, j, end] > 0)
            ours = self.floor * grown(rows.beyond[which, j, end])
            weight = _weights(rows.hole[which])
            values = np.array(
                [
                    weight @ _densities(rows.error[which], np.sqrt(variance[which] + each * ours), shapes)
                    for each in GROWTHS
                ]
            )
            values -= 0.5 * np.square(np.log(GROWTHS / TYPICAL_GROWTH) / GROWTH_WIDTH)
            mass = np.exp(values - values.max())
            mass /= mass.sum()
            growth[j, end] = min(np.exp(_cautious(mass, np.log(GROWTHS))), GROWTHS[-1])
        return replace(self, growth=growth)


def beyond_box(X: Floats, low: Floats, high: Floats) -> Floats:
    """How far rows are below and above a box, in units of its widths; of shape (n, d, 2).

    An input with a single value has a width of 1.
    """
    width = np.where(high > low, high - low, 1.0)
    return np.maximum(np.stack([low - X, X - high], axis=2), 0) / width[:, None]


def grown(beyond: Floats) -> Floats:
    """The share of the growth that is reached so far beyond an end."""
    return np.asarray(-np.expm1(-np.square(beyond / REACH)))


def _cautious(mass: Floats, values: Floats) -> float:
    """The mean of some values of these probabilities, and `CAUTION` standard deviations more."""
    mean = float(mass @ values)
    return mean + CAUTION * float(np.sqrt(mass @ np.square(values - mean)))


def _weights(hole: Indices) -> Floats:
    """The weight of every row, such that all rows of a hole count for `INDEPENDENT` rows at most."""
    _, number, counts = np.unique(hole, return_inverse=True, return_counts=True)
    return np.minimum(1.0, INDEPENDENT / counts)[number]


def _densities(error: Floats, std: Floats, shapes: Shapes) -> Floats:
    """The log density of every row's errors, a mean over the targets; of shape (rows,)."""
    found = np.zeros(len(std))
    for target, (standard, ratio) in zip(error.T, shapes, strict=True):
        width = std / ratio
        found += standard.log_density(target / width) - np.log(width)
    return found / len(shapes)
