"""Looking ahead: which candidates, once they are active, would make other rows' targets most probable.

A panel holds the covariances, given the active rows, of some candidates with each other and with a random sample of the
remainder. With these, what a candidate would do to the sample is known without another look at any other row, and a
pick is a rank-one update of the panel. See `sodalite.scores.Lookahead`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.threads import workspace
from ..core.types import Array
from ..kernels import CompiledKernel
from ..scores import TIE, Lookahead
from .panel import schur
from .shard import Rows

CHUNK = 32  # candidates at a time: their arrays over the sample fit the cache
FACTORS = 16  # that are multiplied before a logarithm is taken: none is below the least noise, so they do not underflow
LEAST = 1e-3  # the gain, in nats per value, that ties are relative to at least: rounding goes with densities, not gains


def look_ahead(
    score: Lookahead,
    kernel: CompiledKernel,
    call: Callable[..., list[Any]],
    coordinates: Callable[[Rows], Array],
    active: Array,
    n: int,
    count: int,
    seed: int,
) -> tuple[Array, Array]:
    """The next picks and the gain of each; none if no row has a chance.

    Parameters
    ----------
    score : Lookahead
    kernel : CompiledKernel
    call : callable
        An executor's, on the shards of the n rows.
    coordinates : callable
        Gives the v's of some rows; of shape (rows, t).
    active : array of shape (t,)
        The rows that are active.
    n, count, seed : int
        How many rows there are; how many to pick; and what candidates and sample follow from, with t.
    """
    t = len(active)
    sample = draw_sample(active, n, score.n_sample, np.random.default_rng([seed, t]))
    rows = Rows.join(call("draw", score.n_candidates, seed, t, sample))
    top = np.argsort(-rows.score, kind="stable")[: score.n_candidates]
    candidates = np.sort(top[rows.score[top] > 0])
    if not len(candidates):
        return np.empty(0, dtype=np.int64), np.empty(0)
    # The sample comes first, then the candidates that are not in it.
    sampled = np.flatnonzero(np.isin(rows.index, sample))
    places = np.concatenate([sampled, np.setdiff1d(candidates, sampled)])
    candidates = np.argsort(places)[np.searchsorted(np.sort(places), candidates)]
    outlook = Outlook(kernel, rows.take(places), candidates, len(sampled), coordinates)
    found = [outlook.pick() for _ in range(min(count, len(candidates)))]
    return np.array([row for row, _ in found]), np.array([gain for _, gain in found])


def draw_sample(active: Array, n: int, size: int, generator: np.random.Generator) -> Array:
    """Some of the n rows that are not active, at random, or all if they are few; in order. O(size + t log t)."""
    left = n - len(active)
    ranks = np.sort(generator.choice(left, size, replace=False, shuffle=False)) if left > size else np.arange(left)
    before = np.sort(active) - np.arange(len(active))  # how many rows that are not active come before each that is
    return np.asarray(ranks + np.searchsorted(before, ranks, side="right"))


class Outlook:
    """Candidates and sample, at a stage that moves on with every pick.

    Parameters
    ----------
    kernel : CompiledKernel
    rows : Rows
        The sample, then the candidates that are not in it.
    candidates : array of int
        The places of the candidates among the rows, in the order of their indices, so that a tie goes to the lowest.
    n_sample : int
    coordinates : callable
        Gives the rows' v's; of shape (rows, t).
    """

    def __init__(
        self,
        kernel: CompiledKernel,
        rows: Rows,
        candidates: Array,
        n_sample: int,
        coordinates: Callable[[Rows], Array],
    ) -> None:
        self.rows, self.candidates, self.n_sample, self.dtype = rows, candidates, n_sample, kernel.dtype
        features, v = kernel.prepare(rows.X), coordinates(rows)
        self.C = schur(kernel, features, v, np.arange(len(v)), candidates)
        # Once active, a row is none of the remainder, so a candidate's own term has no part in its gain. An entry of 0
        # means that the candidate tells nothing of the row, whose term is then the same before and after.
        own = np.flatnonzero(candidates < n_sample)
        self.own = own, candidates[own]
        self.C[self.own] = 0
        self.s2, self.r = np.maximum(rows.s2, 0), rows.r.T.copy()
        self.left = np.ones(len(candidates), dtype=bool)
        self.n_left = np.full(len(candidates), n_sample)  # rows of the sample that each candidate is judged by
        self.n_left[own] -= 1

    def pick(self) -> tuple[int, float]:
        """Take the candidate of the largest gain; return its row and the gain. O(candidates (candidates + sample))."""
        gain = self.gains()
        gain[~self.left] = -np.inf
        top = gain.max()
        j = int((gain >= top - TIE[self.dtype] * max(abs(top), LEAST)).argmax())
        place = self.candidates[j]
        p = np.sqrt(self.s2[place] + self.rows.noise[place])
        nu, zeta = self.C[j] / p, self.r[:, place] / p
        np.maximum(self.s2 - nu * nu, 0, out=self.s2)
        self.r -= np.multiply.outer(zeta, nu)
        update = workspace.array("update", (CHUNK, len(nu)))
        for begin in range(0, len(gain), CHUNK):
            part = self.C[begin : begin + CHUNK]
            part -= np.multiply.outer(nu[self.candidates[begin : begin + CHUNK]], nu, out=update[: len(part)])
        self.C[self.own] = 0
        self.C[j] = self.C[:, place] = 0  # it is no candidate any more, and none of the remainder
        self.left[j] = False
        if place < self.n_sample:
            self.n_left -= 1
        return int(self.rows.index[place]), float(gain[j])

    def gains(self) -> Array:
        """By how much each candidate would raise the mean log density of the sample's targets.

        With standardised residuals e(x) = r(x) / sqrt(s2(x) + noise(x)), and kappa(x) the correlation of a candidate's
        target with that of x, given the active rows, twice the gain in a row's log density is

            (2 kappa e zeta - kappa^2 (e^2 + zeta^2)) / (1 - kappa^2) - log(1 - kappa^2)
        """
        sample, noise = slice(self.n_sample), self.rows.noise
        deviation = np.sqrt(self.s2 + noise)
        e, zeta = (self.r / deviation)[:, sample], (self.r / deviation)[:, self.candidates]
        p, deviation = deviation[self.candidates, None], deviation[sample]
        least = noise[sample] / deviation**2  # of 1 - kappa^2, but for rounding
        starts = np.arange(0, self.n_sample, FACTORS)
        gain = np.empty(len(p))
        work = workspace.array("outlook", (3, CHUNK, self.n_sample))
        for begin in range(0, len(p), CHUNK):
            part = slice(begin, min(begin + CHUNK, len(p)))
            kappa, square, rest = work[:, : part.stop - begin]
            np.multiply(self.C[part, sample], 1 / deviation, out=kappa)
            kappa *= 1 / p[part]
            np.multiply(kappa, kappa, out=square)
            np.maximum(np.subtract(1, square, out=rest), least, out=rest)
            kappa /= rest
            square /= rest
            gain[part] = 2 * np.einsum("qi,iq->i", zeta[:, part], kappa @ e.T)
            gain[part] -= square @ (e * e).sum(axis=0) + square.sum(axis=1) * (zeta[:, part] ** 2).sum(axis=0)
            gain[part] -= len(e) * np.log(np.multiply.reduceat(rest, starts, axis=1)).sum(axis=1)
        gain /= np.maximum(2 * len(e) * self.n_left, 1)
        return gain
