"""Novelty: how much of the prior variance is left at a query, and what follows for its error bars.

The method is described in docs/method.rst, `far-from-data`. What calibration learns near some rows holds up to the
`edge`, the novelty that these rows have when they are left out. Beyond the edge, error bars go over to those of no
data. Novelties and edges are shares of the latent prior variance, from 0 to 1.
"""

from __future__ import annotations

import numpy as np

from ..core.types import Floats

EXCEPT = 0.01  # share of all rows whose novelty may exceed `edge`, so that a few outlying rows do not raise it
EXCEPT_NEAR = 0.05  # the same, of the rows near by: of 32, one
UNKNOWN = 0.5  # `edge` where the novelty of the rows is not known
LEAST_EDGE = 1e-9  # smallest `edge` that counts: below it, novelty may be rounding
MOST_EDGE = 1 - 1e-6  # largest `edge`: below 1, so that the scale can still change beyond it
RARE = 0.005  # share of the rows of the fit whose novelty is called outside the data: one in 200
LEAST = 0.1  # smallest novelty that is called outside: among dense rows, the edge of the data has very little


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


def outside(novelty: Floats, edge: Floats | float) -> Floats:
    """How far outside the known a row is: 0 up to a novelty of `edge`, 1 at a novelty of 1.

    Between them it grows as the logarithm of the novelty.

    Examples
    --------
    >>> outside(np.array([0.0, 0.01, 0.1, 1.0]), 0.01)
    array([0. , 0. , 0.5, 1. ])
    """
    edge = np.maximum(edge, LEAST_EDGE)
    return np.asarray(np.log(np.maximum(novelty / edge, 1)) / -np.log(edge))


def rank_of_edge(count: int, share: float = EXCEPT_NEAR) -> int:
    """The rank of the edge among `count` novelties, the largest having rank 1: all but a share do not exceed it."""
    return 1 + int(share * count)


def edge_of(novelty: Floats, share: float) -> Floats:
    """The novelty that all but a share of some rows do not exceed; the rows are the last axis."""
    count = novelty.shape[-1]
    place = count - rank_of_edge(count, share)
    return np.asarray(np.minimum(np.partition(novelty, place, axis=-1)[..., place], MOST_EDGE))


def scale_between(near: Floats | float, far: Floats, novelty: Floats, edge: Floats | float) -> Floats:
    """Go over from the scale `near` to the scale `far` as the novelty grows from `edge` to 1; of shape (n,).

    The mean of both, weighted by `outside`, if `far` is larger. If it is smaller, the weighted harmonic mean, with a
    weight that is linear in the novelty: a variance is a scale times something that grows with the novelty, and so it
    changes monotonically from its value near the data to its value far away.
    """
    near = np.broadcast_to(near, novelty.shape)
    low, weight = np.minimum(near, far), np.maximum(novelty - edge, 0) / (1 - edge)
    down = np.divide(near * low, low + weight * (near - low), out=np.zeros(novelty.shape), where=low > 0)
    return np.asarray(np.where(far < near, down, near + outside(novelty, edge) * (far - near)))
