"""Away from the rows: novelty, and places beyond the ends of the inputs (docs/method.rst, `far-from-data`).

The novelty of a query is the share of the latent prior variance that the rows leave. Up to the `edge`, the novelty that
the rows themselves have when they are left out alone, a query counts as near the rows. From there to a novelty of 1, t
grows from 0 to 1 with the logarithm of the novelty. What a kernel has learnt inside the data is trusted outside no
further than the data reach, so a row beyond the ends of the inputs is novel whatever the kernel says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.types import Floats

EXCEPT = 0.05  # share of all rows whose novelty may exceed `edge`, so that a few outlying rows do not raise it
LEAST_EDGE = 1e-9  # smallest `edge` that counts: below it, novelty may be rounding
MOST_EDGE = 1 - 1e-6  # largest `edge`: below 1, so that error bars can still change beyond it
RARE = 0.005  # share of the rows of the fit whose novelty is called outside the data: one in 200
UNKNOWN = 0.5  # `edge` where the novelty of the rows is not known
LEAST = 0.1  # smallest novelty that is called outside: among dense rows, the edge of the data has very little
REACH = 1.5  # widths of an input beyond its end at which 63 % of the growth is reached: about as far as the data reach
OUTSIDE = 0.5  # widths of an input beyond its end at which 63 % of what is known counts as unknown


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
class Far:
    """What is known of places away from the rows."""

    floor: float
    """The least variance of an observation where nothing is known: that of the targets."""
    low: Floats
    """The least value of every input, of shape (d,)."""
    high: Floats
    """The largest value of every input, of shape (d,)."""
    edge: float = UNKNOWN
    """The novelty up to which error bars are those of the rows near by."""
    resolution: float = 0.0
    """The least difference of two targets: no error is known more exactly."""

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


def beyond_box(X: Floats, low: Floats, high: Floats) -> Floats:
    """How far rows are below and above a box, in units of its widths; of shape (n, d, 2).

    An input with a single value has a width of 1.
    """
    width = np.where(high > low, high - low, 1.0)
    return np.maximum(np.stack([low - X, X - high], axis=2), 0) / width[:, None]


def grown(beyond: Floats) -> Floats:
    """The share of the growth that is reached so far beyond an end."""
    return np.asarray(-np.expm1(-np.square(beyond / REACH)))
