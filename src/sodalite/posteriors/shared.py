"""Neighbourhoods that queries share: those of the cells that they fall into (docs/method.rst, `cells`).

The neighbourhood N of a cell holds the rows of the remainder that are nearest to its centre. Its factor
L L' = c(N, N) + noise serves all queries in the cell: with a = L^-1 c(N, x) and w = L^-1 r_N,

    mean = mu(x) + a.w        variance = s^2(x) - a.a

the exact Gaussian process given the active rows and N. Leave-one-out errors follow from the same factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log2
from threading import Lock
from typing import TypeAlias

import numpy as np
from scipy.linalg import solve_triangular

from ..core.threads import threaded_map
from ..core.types import Floats, Indices
from ..kernels import Features, take
from ..kernels.cells import Cells
from ..kernels.jitter import residual_factor
from ..selection.rows import Rows
from .leave_one_out import ALONE, Observations, leave_one_out
from .remainder import Remainder

PANEL = 256  # columns of a covariance matrix that are computed at a time, such that they stay in the cache
QUERIES = 256  # queries that a thread answers at a time: enough for fast products, few enough to share out
ALL_WORK = 2e11  # operations, about 10 s of a core, that the factors of all cells (of `MANY`, if more) may take
MANY = 4000  # the most cells that count as work: a batch of queries is taken to touch no more
CELLS = (64, 128, 256, 512)  # rows of a cell: the more, the more rows a query is predicted from for the same work
RATIO = 2.5  # rows of a neighbourhood, in units of a cell: with fewer, queries at a border lack rows beyond it
SAMPLE_NUMBERS = 2**20  # numbers of the rows that cells are made from, 8 MB: all rows, up to a hundred thousand or so
SAMPLE_SHARE = 16  # at least one row in so many makes the cells: some rows for each of the smallest cells
LEAST_ROWS = 2000  # rows of the remainder up to which nothing is shared: 64 neighbours of its own serve a query well


def work_of(h: int, m: int) -> float:
    """Operations that the factor of a neighbourhood of h rows takes, given m active rows."""
    return float(h * h * (m + h / 3))


def levels_of(cell: int, n: int) -> int:
    """How often n rows are bisected to get cells of about `cell` rows: log2(n / cell), rounded."""
    return max(0, round(log2(n / cell)))


def affordable_cell(n: int, m: int) -> int:
    """The largest of `CELLS` for n rows, given m active rows, such that all factors take no more than `ALL_WORK`."""
    work = {cell: min(2 ** levels_of(cell, n), MANY) * work_of(int(RATIO * cell), m) for cell in CELLS}
    return int(max((cell for cell in CELLS if work[cell] <= ALL_WORK), default=CELLS[0]))


Predicted: TypeAlias = tuple[Floats, Floats]
"""Means or errors, of shape (..., n, q), and variances of observations, of shape (..., n)."""


@dataclass(frozen=True)
class Neighbourhood:
    """The rows that the queries in a cell are predicted from, and the factor of their covariance."""

    N: Indices
    """Of shape (h,)."""
    L: Floats
    """The lower factor of c(N, N) + noise; above the diagonal it holds anything. Of shape (h, h)."""
    w: Floats
    """L^-1 r_N, of shape (h, q)."""

    def half(self, right: Floats) -> Floats:
        """L^-1 times a right side of shape (h, columns)."""
        return np.asarray(solve_triangular(self.L, right, lower=True, check_finite=False))


class Shared:
    """The neighbourhoods of all cells, each factored when it is first needed, and kept where memory allows it.

    Parameters
    ----------
    remainder : Remainder
    cell : int
        About how many rows a cell has.
    h : int
        Rows of a neighbourhood.
    cells : Cells, optional
        The cells; by default, they are made from the rows.
    """

    def __init__(self, remainder: Remainder, cell: int, h: int, cells: Cells | None = None) -> None:
        assert remainder.near.index is not None
        self.remainder, self.index, self.cell, self.h = remainder, remainder.near.index, cell, h
        held = 0 if remainder.V is None else remainder.V.nbytes
        self.limit = remainder.limit - held  # bytes that the factors may take
        self._cells = cells
        self._kept: dict[int, Neighbourhood] = {}
        self._locks: dict[int, Lock] = {}

    @cached_property
    def cells(self) -> Cells:
        """The cells, which hold nearly equally many rows of the remainder each.

        They are made from a sample that does not depend on where the rows are, or in which order.
        """
        if self._cells is not None:
            return self._cells
        n = len(self.remainder.noises)
        most = max(SAMPLE_NUMBERS // len(self.index.columns), n // SAMPLE_SHARE)
        return Cells.of(self.index.sample(most), levels_of(self.cell, n))

    def locate_rows(self, rows: Rows, which: Indices) -> Indices:
        """The cell of some rows, which are read a block at a time."""
        size = SAMPLE_NUMBERS // rows.shape[1] + 1
        parts = [which[begin : begin + size] for begin in range(0, len(which), size)]
        return np.concatenate([self.locate(np.asarray(rows.take(part).X, dtype=np.float64)) for part in parts])

    def locate(self, X: Floats) -> Indices:
        """The cell of every row of X; of shape (n,)."""
        return self.cells.locate(self.index.scaled(X))

    def neighbours(self, cell: int) -> Indices:
        """N, the rows nearest to the centre of a cell; of shape (h,)."""
        return np.asarray(self.index.nearest(self.cells.centres[[cell]], self.h)[0])

    def __getitem__(self, cell: int) -> Neighbourhood:
        """The neighbourhood of a cell. O(h^2 m + h^3) the first time."""
        with self._locks.setdefault(cell, Lock()):  # threads with queries in one cell factor it once
            found = self._kept.get(cell)
            if found is None:
                found = self._factored(self.neighbours(cell))
                if (len(self._kept) + 1) * found.L.nbytes <= self.limit:
                    self._kept[cell] = found
            return found

    def _factored(self, N: Indices) -> Neighbourhood:
        """The neighbourhood of the rows N, with L from panels of c(N, N) and w = L^-1 r_N. O(h^2 m + h^3)."""
        given, h = self.remainder, len(N)
        rows, V = take(given.rows, N), given.v(N)

        def covariance() -> Floats:
            C = np.empty((h, h))
            for begin in range(0, h, PANEL):
                here, beyond = slice(begin, begin + PANEL), slice(begin, None)
                part = given.base.kernel.block(take(rows, here), take(rows, beyond))
                part -= V[here] @ V[beyond].T
                C[here, beyond] = part
            return C.T

        prior = given.base.kernel.diag(rows)
        diagonal = np.maximum(prior - np.einsum("ij,ij->i", V, V), 0) + given.noises[N]
        L = residual_factor(covariance, diagonal, float(prior.max()))
        return Neighbourhood(N, L, solve_triangular(L, given.r[N], lower=True, check_finite=False))

    def latent(self, X: Floats) -> tuple[Floats, Floats]:
        """The mean, of shape (n, q), and the variance of the latent function, (n,), not calibrated."""
        base, kernel = self.remainder.base, self.remainder.base.kernel
        mean, variance = np.empty((len(X), base.z.shape[1])), np.empty(len(X))

        def part(runs: list[tuple[int, Indices]]) -> None:
            which = np.concatenate([queries for _, queries in runs])
            rows, K = base.covariances(X[which])
            v = base.projected(K)
            mean[which] = base.mean_of(K)
            variance[which] = kernel.diag(rows) - np.einsum("ij,ij->j", v, v)
            begin = 0
            for cell, queries in runs:
                here = slice(begin, begin + len(queries))
                begin += len(queries)
                hood = self[cell]
                a = hood.half(self._cross(hood, take(rows, here), v[:, here]))
                mean[queries] += a.T @ hood.w
                variance[queries] -= np.einsum("ij,ij->j", a, a)

        threaded_map(part, _parts(self.locate(X)))
        return mean, np.maximum(variance, 0)

    def _cross(self, hood: Neighbourhood, rows: Features, v: Floats) -> Floats:
        """c(N, x) for prepared queries with coordinates v of shape (m, queries); of shape (h, queries)."""
        given = self.remainder
        return np.asarray(given.base.kernel.block(take(given.rows, hood.N), rows) - given.v(hood.N) @ v)

    # Leave-one-out errors

    def leave_out(self, sample: Observations) -> tuple[Floats, Floats]:
        """Leave-one-out errors, of shape (sample, q), and their variances with noise, (sample,); not calibrated."""
        error, variance = np.empty(sample.r.shape), np.empty(len(sample.r))
        X = np.asarray(sample.X, dtype=np.float64)

        def part(runs: list[tuple[int, Indices]]) -> None:
            for cell, which in runs:
                hood, some = self[cell], sample.take(which)
                order = np.argsort(hood.N)
                place = order[np.minimum(np.searchsorted(hood.N, some.group, sorter=order), len(order) - 1)]
                inside = hood.N[place] == some.group
                own, other = np.flatnonzero(inside), np.flatnonzero(~inside)
                error[which[own]], variance[which[own]] = self._without_own(hood, some.take(own), place[own])
                error[which[other]], variance[which[other]] = self._without_active(
                    hood, some.take(other), X[which[other]]
                )

        threaded_map(part, _parts(self.locate(X)))
        return error, variance

    def _without_own(self, hood: Neighbourhood, sample: Observations, place: Indices) -> tuple[Floats, Floats]:
        """Errors and variances of observations that are in N, at these places there.

        With P = (c(N, N) + noise)^-1, the other rows of N predict row i with variance 1 / P_ii, noise included, and
        error (P r)_i / P_ii. What is left of its group of equal rows is one more observation of it.
        """
        given = self.remainder
        units = np.zeros((len(hood.N), len(place)), order="F")
        units[place, np.arange(len(place))] = 1
        error, whole = leave_one_out(hood.half(units), hood.w)
        noise, r = given.noises[hood.N[place]], given.r[hood.N[place]]
        mean, latent = r - error, np.maximum(whole - noise, 0)
        rest = 1 / noise - 1 / sample.noise
        alone = rest < ALONE / noise
        left = np.where(alone, 0, rest)
        r_left = (r / noise[:, None] - sample.r / sample.noise[:, None]) / np.where(alone, 1, rest)[:, None]
        gain = latent * left / (1 + latent * left)
        mean += gain[:, None] * np.where(alone[:, None], 0, r_left - mean)
        return sample.r - mean, latent * (1 - gain) + sample.noise

    def _without_active(self, hood: Neighbourhood, sample: Observations, X: Floats) -> tuple[Floats, Floats]:
        """Errors and variances of observations that are not in N: each is left out of the active rows, if it is one.

        That changes the system by terms of rank one (`Systems._drop_active` has the letters), which the factor takes
        by the formula of Sherman and Morrison.
        """
        base = self.remainder.base
        rows, K = base.covariances(X)
        v = base.projected(K)
        s2 = self.remainder.base.kernel.diag(rows) - np.einsum("ij,ij->j", v, v)
        is_active = sample.active >= 0
        column = base.inverse[:, sample.active] * is_active
        g, change, lost = np.einsum("ij,ij->j", v, column), np.zeros(sample.r.shape), np.zeros(len(is_active))
        change[is_active], lost[is_active] = leave_one_out(column[:, is_active], base.z)  # a_i / P_ii and 1 / P_ii
        b = hood.half(self.remainder.v(hood.N) @ column)
        a = hood.half(self._cross(hood, rows, v)) + b * (g * lost)
        share = np.einsum("ij,ij->j", a, b) * lost / (1 + np.einsum("ij,ij->j", b, b) * lost)
        solved = a - b * share
        correction = solved.T @ hood.w + np.einsum("ij,ij->j", solved, b)[:, None] * change
        latent = s2 + g * g * lost - np.einsum("ij,ij->j", solved, a)
        return sample.r + g[:, None] * change - correction, np.maximum(latent, 0) + sample.noise


def blended(power: int, first: Predicted, second: Predicted) -> Predicted:
    """Two predictions of the same rows, weighted by powers of their precisions; with power 0, the more precise one."""
    ratio = first[1] / second[1]
    weight = 1 / (1 + ratio**power) if power else np.where(ratio <= 1, 1.0, 0.0)
    mean = weight[..., None] * first[0] + (1 - weight)[..., None] * second[0]
    return mean, weight * first[1] + (1 - weight) * second[1]


def _parts(cell: Indices) -> list[list[tuple[int, Indices]]]:
    """Queries, given by their cells, as runs (cell, queries), in parts of about `QUERIES` queries for threads."""
    order = np.argsort(cell, kind="stable")
    edges = np.flatnonzero(np.diff(cell[order], prepend=-1))
    parts: list[list[tuple[int, Indices]]] = [[]]
    count = 0
    for run in np.split(order, edges[1:]) if len(order) else []:
        for begin in range(0, len(run), QUERIES):
            piece = run[begin : begin + QUERIES]
            if count + len(piece) > QUERIES:
                parts.append([])
                count = 0
            parts[-1].append((int(cell[piece[0]]), piece))
            count += len(piece)
    return parts if len(order) else []
