"""The remainder: the distinct rows that are not active, given the active rows. `local` predicts from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.memory import available, parse_bytes
from ..core.threads import n_threads, threaded_map
from ..core.types import Array, Floats, Indices
from ..core.validation import float_type
from ..exceptions import ChangedError
from ..kernels import Features, take
from ..kernels.neighbours import Metric, Neighbours, distinct, n_sampled, places_among
from ..kernels.row_store import Observed, RowStore, build_store, group_means
from ..selection.rows import ArrayRows, Block
from .base import BLOCK, N_SOME, Evidence
from .baselines import MOST_NUMBERS
from .sod import SubsetOfData

FREE_SHARE = 0.25  # share of the free memory that the v's of all rows may take, if no memory limit is given
STORE_MEMORY = 2**28  # bytes for sorting rows that are in memory into cells
FIXED = 6 * 2**20  # bytes allowed for small arrays, which are not counted one by one
NEAR_JUDGED = 6 * 129  # numbers of a row that calibrates: its 128 neighbours among them, their errors and correlations
COPIED = 4  # times that the rows of the baselines are in memory
SHARE = 0.25  # share of the memory limit for the rows of a bucket; blocks of rows and the sample take as much again


def cache_limit(memory_limit: int | float | str | None) -> int:
    """Bytes that the v's and the factors of shared neighbourhoods may take together."""
    return int(FREE_SHARE * available()) if memory_limit is None else parse_bytes(memory_limit)


@dataclass(frozen=True)
class Rest:
    """The rows that are not active, with their residuals: a function of a block."""

    base: SubsetOfData
    active: Indices
    """The active rows, in increasing order."""
    noise_floor: float

    def inputs(self, block: Block) -> Floats:
        """Those of a block's rows that are not active; of shape (rows, d)."""
        X = np.asarray(block.X[self._which(block)], dtype=np.float64)
        if not np.isfinite(X).all():
            raise ChangedError("X has NaN or infinite values that it did not have when the fit began.")
        return X

    def __call__(self, block: Block) -> Observed:
        """These rows with their residuals, of shape (rows, q), and noise variances, of shape (rows,)."""
        which, X, kernel = self._which(block), self.inputs(block), self.base.kernel
        noise = kernel.noise(kernel.prepare(X)).astype(np.float64)
        if block.alpha is not None:
            noise += block.alpha[which]
        return X, block.y[which] - self.base.mean(X), np.maximum(noise, self.noise_floor)

    def _which(self, block: Block) -> Indices:
        return np.delete(np.arange(len(block)), block.find(self.active)[1])


class Remainder:
    """The distinct rows of the remainder, with their residuals given the active rows, in memory or in a store.

    Parameters
    ----------
    base : SubsetOfData
        The posterior given the active rows.
    X : array of shape (n', d)
    r : array of shape (n', q)
        Mean residuals given the active rows.
    noises : array of shape (n',)
        The noise variances of these means.
    limit : int
        Bytes that the v's of all rows may take.
    metric : Metric, optional
        That of more rows, if X are some of these.
    store : RowStore, optional
        Where the rows are if they are on disk; they are then in the order of its cells.
    """

    def __init__(
        self,
        base: SubsetOfData,
        X: Floats,
        r: Floats,
        noises: Floats,
        limit: int,
        metric: Metric | None = None,
        store: RowStore | None = None,
    ) -> None:
        self.base, self.X, self.r, self.noises, self.limit, self.store = base, X, r, noises, limit, store
        self.rows: Features = base.kernel.prepare(X) if store is None else store.features(base.kernel)
        """The rows, prepared."""
        self.near = Neighbours(base.kernel, X if store is None else store, metric=metric)
        """Finds the rows that are nearest to a query."""
        self.V: Floats | None = None
        """The v's of all rows, of shape (n', m); None while they are not cached."""
        self._n_asked = 0

    @classmethod
    def of(cls, evidence: Evidence) -> Remainder:
        """The remainder of all rows; in a store, if they are on disk. O(n m^2), or O(n m) on disk."""
        base, indices = SubsetOfData.condition(replace(evidence, judging=None)), evidence.selection.indices
        limit, rows, n = cache_limit(evidence.memory_limit), evidence.rows, evidence.rows.shape[0]
        on_disk = isinstance(rows, ArrayRows) and rows.on_disk
        if evidence.store is not None or (on_disk and len(indices) < n):
            return cls.of_store(base, evidence.store or _laid_out(evidence, base, limit), limit)
        rest, noise = evidence.read(np.delete(np.arange(n), indices))
        first, group = distinct(rest.X)
        made = cls(base, rest.X[first], np.empty((0, rows.q)), np.empty(0), limit)
        made.fill()
        mean = base.mean(made.X) if made.V is None else made.V @ base.z
        made.r, made.noises = group_means(rest.y - mean[group], noise, group, len(first))
        return made

    @classmethod
    def of_store(cls, base: SubsetOfData, store: RowStore, limit: int) -> Remainder:
        """The remainder whose rows are in a store."""
        return cls(base, store.X, store.values, store.noises, limit, store=store)

    def fill(self) -> None:
        """Compute the v's of all rows, if they fit into the limit. O(n' m^2)."""
        n, m = len(self.X), len(self.base.z)
        if self.V is not None or 8 * n * m > self.limit:
            return
        V, size = np.empty((n, m)), max(1, BLOCK // m)

        def project(here: slice) -> None:
            V[here] = self.base.coordinates(take(self.rows, here)).T

        threaded_map(project, [slice(begin, min(begin + size, n)) for begin in range(0, n, size)])
        self.V = V

    def expect(self, count: int) -> None:
        """Say that the v's of `count` rows are about to be asked for; cache all once those asked for are n'."""
        self._n_asked += count
        if self._n_asked >= len(self.X):
            self.fill()

    def v(self, which: Indices) -> Floats:
        """The v's of some rows, of the shape of `which` and, as the last axis, m."""
        if self.V is not None:
            return np.asarray(self.V[which])
        needed, place = np.unique(which, return_inverse=True)  # a neighbour that many queries share is projected once
        return self.base.coordinates(take(self.rows, needed)).T[place.reshape(which.shape)]

    def find(self, X: Floats) -> Indices:
        """The row that each row of X equals, -1 for none; of shape (n,)."""
        return places_among(self.X, X) if self.store is None else self.store.find(X)

    def in_memory(self) -> tuple[Floats, Floats, Floats]:
        """X, r and noises of the rows in memory, in float64."""
        if self.store is None:
            return self.X, self.r, self.noises
        live = np.delete(np.arange(len(self.X)), self.store.dead)
        X, r, noises = (np.array(part[live], dtype=np.float64) for part in (self.X, self.r, self.noises))
        return X, r, noises

    def as_store(self, dtype: np.dtype[Any]) -> RowStore:
        """A store of the rows, with inputs of this type; the one that there is, if they are on disk."""
        if self.store is not None and not self.store.n_joined:
            return self.store
        live = np.arange(len(self.X)) if self.store is None else np.delete(np.arange(len(self.X)), self.store.dead)
        size, kernel = BLOCK // self.X.shape[1] + 1, self.base.kernel

        def parts() -> Iterator[Indices]:
            edges = np.searchsorted(live, np.arange(size, len(self.X), size))
            yield from (part for part in np.split(live, edges) if len(part))

        def X(part: Indices) -> Array:
            return np.asarray(self.X[part], dtype=np.float64)

        return build_store(
            parts,
            X,
            lambda part: (X(part), self.r[part], self.noises[part]),
            len(live),
            (self.X.shape[1], self.r.shape[1]),
            dtype,
            kernel.centre,
            kernel.metric(),
            STORE_MEMORY,
        )


def _laid_out(evidence: Evidence, base: SubsetOfData, limit: int) -> RowStore:
    """The distinct rows of the remainder, with their mean residuals, laid out on disk. O(n m).

    Parameters
    ----------
    evidence : Evidence
    base : SubsetOfData
        The posterior given the active rows.
    limit : int
        Bytes of memory that may be used.
    """
    kernel, rows = evidence.kernel, evidence.rows
    n, d = rows.shape
    size = min(evidence.block_rows(len(base.z)), max(1, BLOCK // (d + len(base.z))))
    rest = Rest(base, np.sort(evidence.selection.indices), evidence.selection.noise_floor)

    def blocks() -> Iterator[Block]:
        for begin in range(0, n, size):
            block = rows.take(np.arange(begin, min(begin + size, n)))
            yield Block(block.X, block.y, block.alpha, begin)

    return build_store(
        blocks,
        rest.inputs,
        rest,
        n - len(rest.active),
        (d, rows.q),
        float_type(rows),
        kernel.centre,
        kernel.metric(),
        int(SHARE * limit),
    )


def least_memory(n: int, d: int, m: int, n_judged: int, h: int) -> int:
    """Bytes that a fit to n rows on disk takes at least: an estimate that tests compare with what is allocated.

    Parameters
    ----------
    n, d, m : int
        Rows, inputs, active rows.
    n_judged : int
        Rows whose leave-one-out errors are computed.
    h : int
        Rows of a shared neighbourhood; 0 if none is tried.
    """
    threads = n_threads()
    near = 0 if n_judged <= N_SOME else NEAR_JUDGED
    judged = 8 * n_judged * (4 * d + near)  # their inputs, prepared and copied, and the rows near by
    factors = threads * 8 * (4 * h * h + h * (m + 2 * d))
    sample = 8 * 3 * d * n_sampled(d)
    return FIXED + 9 * n + max(sample, judged + max(factors, 8 * COPIED * MOST_NUMBERS))
