"""Look-ahead: the candidates that, once active, most raise the density of other rows' targets.

A panel holds the covariances, given the active rows, of some candidates with each other and with a random sample of the
remainder. They give the effect of a candidate on the sample without reading any other row, and a pick is a rank-one
update of the panel (docs/method.rst, `look-ahead`; `sodalite.criteria.Lookahead`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.threads import workspace
from ..core.types import Floats, Indices
from ..criteria import TIE, Lookahead
from ..kernels import CompiledKernel
from .messages import Candidates
from .panel import Coordinates, schur

CHUNK = 32  # candidates at a time: their arrays over a sample of 1000 rows, 256 kB each, fit the cache
FACTORS = 16  # terms 1 - kappa^2 multiplied before a logarithm: at least 1e-10 each, the noise floor, so no underflow
LEAST_GAIN = 1e-3  # nats per value: the tie tolerance is relative to max(abs(gain), this), as rounding is to densities


def look_ahead(
    criterion: Lookahead,
    kernel: CompiledKernel,
    call: Callable[..., list[Any]],
    coordinates: Coordinates,
    active: Indices,
    n: int,
    count: int,
    seed: int,
) -> tuple[Indices, Floats]:
    """The next picks and the gain of each; empty if no row has a chance.

    Parameters
    ----------
    criterion : Lookahead
    kernel : CompiledKernel
    call : callable
        `Executor.call` of the executor that holds the shards of the n rows.
    coordinates : callable
        Returns the v's of some rows.
    active : array of shape (t,)
        The active rows.
    n : int
        The number of rows.
    count : int
        The number of picks, at most.
    seed : int
        Seed of the candidates and of the sample, together with t.
    """
    t = len(active)
    sample = draw_sample(active, n, criterion.n_sample, np.random.default_rng([seed, t]))
    rows = Candidates.join(call("draw", criterion.n_candidates, seed, t, sample))
    top = np.argsort(-rows.score, kind="stable")[: criterion.n_candidates]
    candidates = np.sort(top[rows.score[top] > 0])
    if not len(candidates):
        return np.empty(0, dtype=np.int64), np.empty(0)
    sampled = np.flatnonzero(np.isin(rows.index, sample))
    places = np.concatenate([sampled, np.setdiff1d(candidates, sampled)])
    candidates = np.argsort(places)[np.searchsorted(np.sort(places), candidates)]
    panel = LookaheadPanel(kernel, rows.take(places), candidates, len(sampled), coordinates)
    picks = [panel.pick() for _ in range(min(count, len(candidates)))]
    return np.array([row for row, _ in picks]), np.array([gain for _, gain in picks])


def draw_sample(active: Indices, n: int, size: int, generator: np.random.Generator) -> Indices:
    """A random sample, in order, of the rows that are not active, or all of them if they are few. O(size + t log t)."""
    left = n - len(active)
    ranks = np.sort(generator.choice(left, size, replace=False, shuffle=False)) if left > size else np.arange(left)
    before = np.sort(active) - np.arange(len(active))  # the number of other rows before each active row
    return np.asarray(ranks + np.searchsorted(before, ranks, side="right"))


class LookaheadPanel:
    """The candidates and the sample of a block. Every pick moves them on by a stage.

    Parameters
    ----------
    kernel : CompiledKernel
    rows : Candidates
        The sample, then the candidates that are not in it.
    candidates : array of int
        The places of the candidates among the rows, in the order of their indices, so that a tie goes to the lowest.
    n_sample : int
        The number of rows in the sample.
    coordinates : callable
        Returns the v's of some rows.
    """

    def __init__(
        self,
        kernel: CompiledKernel,
        rows: Candidates,
        candidates: Indices,
        n_sample: int,
        coordinates: Coordinates,
    ) -> None:
        self.rows, self.candidates, self.n_sample, self.dtype = rows, candidates, n_sample, kernel.dtype
        features, v = kernel.prepare(rows.X), coordinates(rows)
        self.C = schur(kernel, features, v, np.arange(len(v)), candidates)
        # Once active, a row is not in the remainder, so the gain of a candidate in the sample leaves its own term out.
        # With a covariance of 0 the term is the same before and after.
        own = np.flatnonzero(candidates < n_sample)
        self.own_terms = own, candidates[own]
        self.C[self.own_terms] = 0
        self.s2, self.r = np.maximum(rows.s2, 0), rows.r.T.copy()
        self.remains = np.ones(len(candidates), dtype=bool)
        self.n_left = np.full(len(candidates), n_sample)  # sampled rows in the gain of each candidate
        self.n_left[own] -= 1

    def pick(self) -> tuple[int, float]:
        """Pick the candidate of the largest gain; return its row and the gain. O(candidates (candidates + sample))."""
        gain = self.gains()
        gain[~self.remains] = -np.inf
        top = gain.max()
        j = int((gain >= top - TIE[self.dtype] * max(abs(top), LEAST_GAIN)).argmax())
        place = int(self.candidates[j])
        self._condition_on(j, place)
        self.remains[j] = False
        if place < self.n_sample:
            self.n_left -= 1
        return int(self.rows.index[place]), float(gain[j])

    def _condition_on(self, j: int, place: int) -> None:
        """Update s2, r and C for candidate j, at this place among the rows (docs/method.rst, `one-stage`)."""
        p = np.sqrt(self.s2[place] + self.rows.noise[place])
        nu, zeta = self.C[j] / p, self.r[:, place] / p
        np.maximum(self.s2 - nu * nu, 0, out=self.s2)
        self.r -= np.multiply.outer(zeta, nu)
        update = workspace.array("update", (CHUNK, len(nu)))
        for begin in range(0, len(self.C), CHUNK):
            part = self.C[begin : begin + CHUNK]
            part -= np.multiply.outer(nu[self.candidates[begin : begin + CHUNK]], nu, out=update[: len(part)])
        self.C[self.own_terms] = 0
        self.C[j] = self.C[:, place] = 0  # neither a candidate nor in the remainder any more

    def gains(self) -> Floats:
        """The gain of each candidate: by how much it would raise the mean log density of the sample's targets, in nats.

        With standardised residuals e(x) = r(x) / sqrt(s2(x) + noise(x)), zeta that of the candidate, and kappa(x) the
        correlation of the candidate's target with that of x, given the active rows, twice the gain of a row x is

            (2 kappa e zeta - kappa^2 (e^2 + zeta^2)) / (1 - kappa^2) - log(1 - kappa^2)
        """
        sample, noise = slice(self.n_sample), self.rows.noise
        deviation = np.sqrt(self.s2 + noise)
        e, zeta = (self.r / deviation)[:, sample], (self.r / deviation)[:, self.candidates]
        p, deviation = deviation[self.candidates, None], deviation[sample]
        least = noise[sample] / deviation**2  # the least 1 - kappa^2, but for rounding
        starts = np.arange(0, self.n_sample, FACTORS)
        gain: Floats = np.empty(len(p))
        work = workspace.array("gains", (3, CHUNK, self.n_sample))
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
