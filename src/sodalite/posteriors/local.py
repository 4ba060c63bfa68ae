"""Local: each query is conditioned on the active rows and on its own nearest rows of the remainder.

The method is described in docs/method.rst, `posterior-local`. With the covariance of the remainder given the active
rows, c(a, b) = k(a, b) - v(a).v(b), and its residual r, a query x with neighbours N has

    mean = mu(x) + c(x, N) [c(N, N) + noise]^-1 r_N
    variance = s^2(x) - c(x, N) [c(N, N) + noise]^-1 c(N, x)

which is the exact Gaussian process given the active rows and N: only the choice of rows is an approximation. The active
rows carry what is far and smooth, the neighbours what is near and sharp.

Rows with the same inputs are one neighbour, whose target is their mean, weighted by precision, and whose noise is that
of the mean. The posterior is the same, and the other neighbours are at other places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from ..core.threads import n_threads
from ..core.types import Floats, Indices
from ..core.validation import check_count
from ..kernels import CompiledKernel, take
from ..kernels.cells import Cells
from ..kernels.neighbours import Metric, Neighbours
from ..kernels.row_store import RowStore
from .base import Evidence, Needs, Posterior, Prediction, RowsOfFit, covariance_block, in_blocks
from .calibration import MOST_RHO, Scale
from .leave_one_out import Observations, Systems
from .remainder import Remainder, least_memory
from .shared import LEAST_ROWS, RATIO, Shared, affordable_cell, blended
from .sod import SubsetOfData
from .tuning import SIZES, most_judged, tuned

JOINT = 4096  # the most rows that joint covariances of queries in several cells are conditioned on
# Numbers of the neighbours' v's that one thread gathers at a time: 16 MB, a hundred queries with 32 neighbours and 500
# active rows, a sixth quicker than a quarter of it; without cached v's; and at least, however little memory there is.
WORK, WORK_UNCACHED, LEAST_WORK = 2**21, 2**25, 2**17


@dataclass(frozen=True)
class Neighbors:
    """The posterior "local" with so many neighbours of each query, and no neighbourhoods that queries share."""

    n_neighbors: int

    def __post_init__(self) -> None:
        check_count("n_neighbors", self.n_neighbors)


@dataclass(frozen=True)
class Local(Posterior):
    """The posterior given the active rows and each query's neighbours. O(k m + k^2 m + k^3) a query, in batches.

    Queries in one cell may share a neighbourhood of h rows besides: O(h m + h^2) a query, and O(h^2 m + h^3) a cell.
    """

    name: ClassVar[str] = "local"
    needs: ClassVar[Needs] = "all"

    kernel: CompiledKernel
    remainder: Remainder = field(repr=False)
    """The rows that neighbours are sought among, given the active rows."""
    k: int
    """How many neighbours a query has."""
    scale: Scale | None = None
    """The factor that variances are multiplied by."""
    shared: Shared | None = field(default=None, repr=False)
    """The neighbourhoods that queries share besides their own neighbours; None if they share none."""
    power: int = 0
    """The power of the precisions that weight predictions from both; 0 for the one of less variance alone."""

    @property
    def base(self) -> SubsetOfData:
        """The posterior given the active rows alone."""
        return self.remainder.base

    @property
    def X(self) -> Floats:
        """The distinct rows of the remainder; of shape (n', d)."""
        return self.remainder.X

    @property
    def near(self) -> Neighbours:
        """Finds the distinct rows that are nearest to a query."""
        return self.remainder.near

    @property
    def store(self) -> RowStore | None:
        """Where the distinct rows are if they are on disk."""
        return self.remainder.store

    # Conditioning

    @classmethod
    def least_memory(cls, n: int, d: int, m: int, n_neighbors: int | None, calibrate: bool) -> int:
        """Bytes that conditioning on n rows of d inputs on disk, m of them active, takes at least."""
        h = 0 if n_neighbors is not None or n <= LEAST_ROWS else int(RATIO * affordable_cell(n, m))
        return least_memory(n, d, m, most_judged(n, n_neighbors, calibrate), h)

    @classmethod
    def condition(cls, evidence: Evidence) -> Self:
        """The posterior given all rows, with what leave-one-out errors choose: see `tuned`."""
        return tuned(cls.prepare(evidence), evidence)

    def sharing(self, cell: int, h: int, power: int, centres: Floats | None = None) -> Self:
        """The posterior whose queries share neighbourhoods of h rows besides, for cells of about `cell` rows.

        The cells have the centres that are given; by default, they are made from the rows.
        """
        cells = None if centres is None else Cells(centres)
        return replace(self, shared=Shared(self.remainder, cell, h, cells), power=power)

    @classmethod
    def prepare(cls, evidence: Evidence) -> Self:
        """The posterior with k = 0, before leave-one-out errors choose k. O(n m^2)."""
        return cls(evidence.kernel, Remainder.of(evidence), k=0)

    # Prediction

    def predict(self, X: Floats, joint: bool = False) -> Prediction:
        """The latent function at the rows of X; if `joint`, given the union of their neighbours."""
        return Prediction(*(self.joint(X) if joint else self.latent(X)))

    def latent(self, X: Floats) -> tuple[Floats, Floats]:
        """The mean, of shape (n, q), and the variance of the latent function, (n,), not calibrated."""
        if not self.k:
            return self.base.latent(X)
        own = self._own_latent(X)
        if self.shared is None:
            return own
        common, noise = self.shared.latent(X), self.kernel.noise(self.kernel.prepare(X))
        mean, variance = blended(self.power, (common[0], common[1] + noise), (own[0], own[1] + noise))
        return mean, np.maximum(variance - noise, 0)

    def _own_latent(self, X: Floats) -> tuple[Floats, Floats]:
        """The mean and variance as `latent` has them, from the active rows and each query's own neighbours alone."""
        m, k = len(self.base.z), self.k
        self.remainder.expect(len(X) * k)
        found = self.near.query(X, k)

        def block(which: Indices) -> tuple[Floats, Floats]:
            systems = self._systems(X[which], found[which])
            correction, variance = systems.solve(k)
            return systems.mean + correction, variance

        # Without cached v's, a neighbour that many queries of a large batch share is projected once.
        entries = self._at_a_time(WORK if self.remainder.V is not None else WORK_UNCACHED)
        mean, variance = in_blocks(block, np.arange(len(X)), k * (m + 3 * k + 2 * X.shape[1]), entries)
        return mean, variance

    def _systems(self, X: Floats, found: Indices) -> Systems:
        """The linear systems of some queries, of shape (queries, d), with neighbours of shape (queries, k)."""
        kernel, base, remainder = self.kernel, self.base, self.remainder
        rows, K = base.covariances(X)
        v, V = base.projected(K), remainder.v(found)
        N, noise = take(remainder.rows, found), remainder.noises[found]
        C = kernel.block(N, N)
        C -= V @ V.swapaxes(-1, -2)
        diagonal = np.arange(found.shape[1])
        C[:, diagonal, diagonal] += noise
        c = kernel.block(take(rows, np.arange(len(X))[:, None]), N)[:, 0]
        c -= np.matmul(V, v.T[..., None])[..., 0]
        s2 = np.maximum(kernel.diag(rows) - np.einsum("ij,ij->j", v, v), 0)
        return Systems(found, C, c, s2, base.mean_of(K), remainder.r[found], noise, v.T, V)

    def _at_a_time(self, most: int) -> int:
        """Numbers of the neighbours' v's that a thread gathers: at most so many, and an eighth of the memory limit.

        There are as many again in the systems.
        """
        return int(np.clip(self.remainder.limit // (8 * 8 * n_threads()), LEAST_WORK, most))

    def joint(self, X: Floats) -> tuple[Floats, Floats]:
        """The mean, of shape (n, q), and the covariance, of shape (n, n), given the union of the neighbours."""
        kernel, base, remainder = self.kernel, self.base, self.remainder
        rows, K = base.covariances(X)
        v = base.projected(K)
        near = self._joint_neighbours(X)
        mean, covariance = base.mean_of(K), covariance_block(kernel, rows) - v.T @ v
        if len(near):
            N, V = take(remainder.rows, near), remainder.v(near)
            C = covariance_block(kernel, N) - V @ V.T
            C.flat[:: len(near) + 1] += remainder.noises[near]
            c = kernel.block(N, rows) - V @ v
            solved = np.linalg.solve(C, np.concatenate([c, remainder.r[near]], axis=1))
            mean = mean + c.T @ solved[:, len(X) :]
            covariance -= c.T @ solved[:, : len(X)]
        return mean, 0.5 * (covariance + covariance.T)

    def _joint_neighbours(self, X: Floats) -> Indices:
        """The rows that queries are jointly conditioned on: the union of their neighbourhoods.

        If these are more than `JOINT` rows, it is the union of the rows nearest to every query.
        """
        if not self.k:
            return np.empty(0, dtype=np.intp)
        own = np.unique(self.near.query(X, self.k))
        if self.shared is None:
            return own
        cells = np.unique(self.shared.locate(X))
        found = np.unique(np.concatenate([own, *(self.shared.neighbours(cell) for cell in cells)]))
        return found if len(found) <= JOINT else np.unique(self.near.query(X, max(SIZES)))

    @property
    def log_marginal_likelihood(self) -> float:
        """Log density of the active rows' targets: neighbourhoods overlap, and have no joint density."""
        return self.base.log_marginal_likelihood

    # Leave-one-out errors

    def left_out(self, rows: RowsOfFit) -> Prediction:
        """Rows of the fit, each taken out of the active rows or out of its neighbours."""
        error, variance = (found[0] for found in self.blended_errors(rows, (self.k,)))
        return Prediction(rows.Y - error, np.maximum(variance - rows.noise, 0))

    def blended_errors(self, rows: RowsOfFit, sizes: Sequence[int]) -> tuple[Floats, Floats]:
        """Leave-one-out errors and variances as `own_errors` has them, blended with shared neighbourhoods, if any."""
        own = self.own_errors(rows, sizes)
        return own if self.shared is None else blended(self.power, self.shared_errors(rows), own)

    def own_errors(self, rows: RowsOfFit, sizes: Sequence[int]) -> tuple[Floats, Floats]:
        """Leave-one-out errors and variances, with noise, of rows predicted from their own neighbours alone.

        For several k; of shape (sizes, rows, q) and (sizes, rows).
        """
        most, m, sample = max(sizes) + 1, len(self.base.z), self.observed(rows)
        found = self.near.query(sample.X, most)

        def block(which: Indices) -> tuple[Floats, Floats]:
            return self._systems(sample.X[which], found[which]).leave_out(sample.take(which), self.base, sizes)

        width = most * (m + 3 * most + 2 * sample.X.shape[1])
        error, variance = in_blocks(block, np.arange(len(found)), width, self._at_a_time(WORK))
        return np.moveaxis(error, 1, 0), variance.T

    def shared_errors(self, rows: RowsOfFit) -> tuple[Floats, Floats]:
        """Leave-one-out errors and variances as `Shared.leave_out` has them."""
        assert self.shared is not None
        return self.shared.leave_out(self.observed(rows))

    def correlations(
        self, rows: RowsOfFit, variance: Floats, others: RowsOfFit, variances: Floats, partners: Indices
    ) -> Floats:
        """Correlations of the leave-one-out errors of rows with those of some others; (rows, partners).

        With the precision P of all observations, the weight of j in the prediction of i is -P_ij / P_ii, the variance
        of i's error is 1 / P_ii, and the correlation of the errors of i and j is P_ij / sqrt(P_ii P_jj). The weights
        are those in predictions from each row's own neighbours, also where others are shared.
        """
        m, sample = len(self.base.z), self.observed(rows)
        size = min(self.k + 1, self.near.n)
        found = self.near.query(sample.X, self.k + 1)
        is_one = partners >= 0
        group, active = (np.where(is_one, each[partners], -1) for each in (self._groups(others), others.active))

        def block(which: Indices) -> tuple[Floats]:
            systems = self._systems(sample.X[which], found[which])
            return (systems.weights(sample.take(which), self.base, self.k, group[which], active[which]),)

        width = size * (m + 3 * size + 2 * sample.X.shape[1] + partners.shape[1])
        (weights,) = in_blocks(block, np.arange(len(found)), width, self._at_a_time(WORK))
        ratio = np.sqrt(variances[partners] / variance[:, None])
        return np.where(is_one, np.clip(-weights * ratio, -MOST_RHO, MOST_RHO), 0.0)

    def observed(self, rows: RowsOfFit) -> Observations:
        """Rows of the fit with what the posterior knows of them."""
        return Observations(rows.X, rows.Y - self.base.mean(rows.X), rows.noise, self._groups(rows), rows.active)

    def _groups(self, rows: RowsOfFit) -> Indices:
        """The distinct row of the remainder that each row equals, -1 for active rows; of shape (rows,)."""
        return np.where(rows.active >= 0, -1, self.remainder.find(rows.X))

    def rows_in(self, cells: Indices, evidence: Evidence, which: Indices) -> Indices:
        """Those of some rows that are in some cells."""
        assert self.shared is not None
        return which[np.isin(self.shared.locate_rows(evidence.rows, which), cells)]

    # Files

    @classmethod
    def restore(
        cls,
        kernel: CompiledKernel,
        base: SubsetOfData,
        X: Floats | None,
        r: Floats | None,
        noises: Floats | None,
        k: int,
        scale: Scale | None,
        limit: int,
        cell: int = 0,
        h: int = 0,
        power: int = 0,
        centres: Floats | None = None,
        metric: Metric | None = None,
        store: RowStore | None = None,
    ) -> Local:
        """The posterior from what `saved` returns: what does not follow from the rest in O(n). The v's come later.

        `metric` is that of more rows, if X are some of these.
        """
        if store is not None:
            remainder = Remainder.of_store(base, store, limit)
        else:
            assert X is not None
            assert r is not None
            assert noises is not None
            remainder = Remainder(base, X, r, noises, limit, metric)
        made = cls(kernel, remainder, k, scale)
        return made if centres is None else made.sharing(cell, h, power, centres)

    def saved(self) -> dict[str, Any]:
        """The arguments of `restore`: without what follows from them, which may be many times as large."""
        state = {name: getattr(self, name) for name in ("kernel", "base", "k", "scale", "store", "power")}
        state |= {name: None if self.store else getattr(self.remainder, name) for name in ("X", "r", "noises")}
        if self.shared is not None:
            state |= {"cell": self.shared.cell, "h": self.shared.h, "centres": self.shared.cells.centres}
        return {**state, "limit": self.remainder.limit}

    def laid_out(self, dtype: np.dtype[Any]) -> Local:
        """A copy whose rows are in a store, with inputs of this type."""
        return self.restore(**{**self.saved(), "store": self.remainder.as_store(dtype)})

    def __getstate__(self) -> dict[str, Any]:
        """The arguments of `restore`, with the rows in memory."""
        X, r, noises = self.remainder.in_memory()
        return {**self.saved(), "X": X, "r": r, "noises": noises, "store": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(self.restore(**state).__dict__)
