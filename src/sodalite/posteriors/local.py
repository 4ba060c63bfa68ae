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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np

from ..core.memory import available, parse_bytes
from ..core.threads import n_threads, threaded_map
from ..core.types import Array, Floats, Indices
from ..core.validation import reads_from_disk
from ..kernels import CompiledKernel, Features, n_rows, take
from ..kernels.cells import Cells
from ..kernels.neighbours import Index, Metric, Neighbours, distinct, places_among
from ..kernels.row_store import RowStore, build, group_means
from .base import (
    BLOCK,
    N_SOME,
    Calibrated,
    Evidence,
    LeaveOneOutErrors,
    RowsOfFit,
    covariance_block,
    in_blocks,
    scaled_covariance,
)
from .calibration import MOST_RHO, Correlations, Scale, log_densities, novelty_of
from .leave_one_out import Observations, Systems
from .shared import LEAST_ROWS, RATIO, Remainder, Shared, affordable_cell, levels_of, work_of
from .sod import SubsetOfData
from .stored import StoredObservations, least_memory, store_remainder

SIZES = (8, 16, 32, 64)  # k, numbers of neighbours that are tried for each query alone
GOOD_ENOUGH = 0.005  # nats per row that a smaller k may lose against the best: fewer neighbours predict faster
SAME_ERROR = 0.005  # by which RMSEs may differ, relative, and count as equal: a fraction of their standard error
N_COMPARED = 1000  # rows whose leave-one-out errors decide whether neighbourhoods are shared; each costs a millisecond
WORTH_SHARING = 0.02  # nats per row that shared neighbourhoods must gain: more than chance, and worth their work
BESIDE = 32  # k, neighbours that a query has of its own beside those that it shares
POWERS = (0, 1, 2, 4)  # of the precisions that weight the two predictions; 0 for the one of less variance alone
COMPARE_WORK = 2e10  # operations, about 1 s of a core, that the factors may take that ways are compared by
# Factors may take so many operations in a fit, about 10 s of a core: predictions need them again. If all take more, the
# rows of some cells judge, which say less of the others (kin40k: 0.02 nats a row with half of the cells).
FIT_WORK = 2e11
JOINT = 4096  # the most rows that joint covariances of queries in several cells are conditioned on
WORK = 2**19  # numbers of the neighbours' v's that one thread gathers at a time: 4 MB, which stays in the cache
N_JUDGED = 4000  # rows whose leave-one-out errors choose k, and calibrate variances at least; O(k^2 m + k^3) each
# Once k is chosen, more rows calibrate variances: the denser they are, the better is known how large errors are from
# place to place (keggdirected 0.16, us_elevation 0.13, precip_global 0.10 nats a row).
JUDGE_WORK = 1e10  # operations, about 4 s of a core, that their leave-one-out errors may take ...
MOST_JUDGED = 20_000  # ... the most of them, as learning their distribution takes as long again ...
JUDGED_SHARE = 3  # ... and of how many rows one may be of them: the more, the less is gained
STORE_MEMORY = 2**28  # bytes for sorting rows that are in memory into cells
FREE_SHARE = 0.25  # share of the free memory that the v's of all rows may take, if no memory limit is given


class Coordinates:
    """The v's of the distinct rows of the remainder: a cache, filled at once or when it has become worth it.

    Parameters
    ----------
    base : SubsetOfData
        The posterior given the active rows.
    rows : features
        The distinct rows, prepared.
    limit : int
        Bytes that the v's of all rows may take.
    """

    def __init__(self, base: SubsetOfData, rows: Features, limit: int) -> None:
        self.base, self.rows, self.limit = base, rows, limit
        self.V: Floats | None = None
        """The v's of all rows, of shape (n', m); None while they are not cached."""
        self._n_asked = 0

    def fill(self) -> None:
        """Compute the v's of all rows, if they fit into the limit. O(n' m^2)."""
        n, m = n_rows(self.rows), len(self.base.z)
        if self.V is not None or 8 * n * m > self.limit:
            return
        V, size = np.empty((n, m)), max(1, BLOCK // m)

        def project(here: slice) -> None:
            V[here] = self.base.coordinates(take(self.rows, here)).T

        threaded_map(project, [slice(begin, min(begin + size, n)) for begin in range(0, n, size)])
        self.V = V

    def expect(self, count: int) -> None:
        """Say that the v's of `count` rows are about to be asked for; fill the cache once those asked for are n'."""
        self._n_asked += count
        if self._n_asked >= n_rows(self.rows):
            self.fill()


class LeftOutVerdict(NamedTuple):
    """How good leave-one-out predictions are."""

    density: float
    """Their mean log density, in nats per row and target."""
    rmse: float


@dataclass(frozen=True)
class Local(Calibrated):
    """The posterior given the active rows and each query's neighbours. O(k m + k^2 m + k^3) a query, in batches.

    Queries in one cell may share a neighbourhood of h rows besides: O(h m + h^2) a query, and O(h^2 m + h^3) a cell.
    """

    name: ClassVar[str] = "local"
    needs_all_rows: ClassVar[bool] = True
    reads_from_disk: ClassVar[bool] = True
    leaves_out: ClassVar[bool] = True

    kernel: CompiledKernel
    base: SubsetOfData
    """The posterior given the active rows alone."""
    X: Floats
    """The distinct rows of the remainder; of shape (n', d)."""
    rows: Features = field(repr=False)
    """The distinct rows, prepared."""
    r: Floats
    """Their mean residuals given the active rows; of shape (n', q)."""
    noises: Floats
    """The noise variances of these means; of shape (n',)."""
    near: Neighbours = field(repr=False)
    """Finds the distinct rows that are nearest to a query."""
    coordinates: Coordinates = field(repr=False)
    """The v's of the distinct rows, where memory allows it."""
    k: int
    """How many neighbours a query has."""
    scale: Scale | None = None
    """The factor that variances are multiplied by."""
    limit: int = 0
    """Bytes that the v's and the factors of shared neighbourhoods may take."""
    shared: Shared | None = field(default=None, repr=False)
    """The neighbourhoods that queries share besides their own neighbours; None if they share none."""
    power: int = 0
    """The power of the precisions that weight predictions from both; 0 for the one of less variance alone."""
    store: RowStore | None = field(default=None, repr=False)
    """Where the distinct rows are if they are on disk; they are then in the order of its cells."""

    @property
    def V(self) -> Floats | None:
        """The v's of the distinct rows, of shape (n', m); None while they are not kept."""
        return self.coordinates.V

    # Conditioning

    @classmethod
    def least_memory(cls, n: int, d: int, m: int, n_neighbors: int | None, calibrate: bool) -> int:
        """Bytes that conditioning on n rows of d inputs on disk, m of them active, takes at least."""
        h = 0 if n_neighbors is not None or n <= LEAST_ROWS else int(RATIO * affordable_cell(n, m))
        is_settled = n_neighbors is not None and not calibrate
        n_judged = N_SOME if is_settled else max(N_JUDGED, min(MOST_JUDGED, n // JUDGED_SHARE))
        return least_memory(n, d, m, n_judged, h)

    @classmethod
    def condition(cls, evidence: Evidence) -> Self:
        """The posterior given all rows.

        Unless `n_neighbors` is given, k is the smallest of `SIZES` whose leave-one-out predictions, calibrated as
        predictions will be, lose no more than `GOOD_ENOUGH` of log density against the best. If neighbourhoods that
        queries share gain `WORTH_SHARING` over that, queries have both.
        """
        made, every = cls.prepare(evidence)
        n, given = len(made.X), evidence.n_neighbors
        sizes = sorted({min(size, n) for size in (SIZES if given is None else (given,))})
        sharing = made._sharing_if_better(every, evidence) if given is None else None
        if sharing is not None:
            made, sizes = sharing, [BESIDE]
        is_settled = len(sizes) == 1 and not evidence.calibrate
        if is_settled and evidence.floor is None:
            return replace(made, k=sizes[0])
        some = evidence.judged(N_SOME if is_settled else N_JUDGED)
        sample = every.take(made._in_cells(some, evidence, FIT_WORK))
        errors, variances = made._left_out(sample, sizes)
        if evidence.calibrate:
            floor = evidence.floor or 0.0
            places = Scale.places_of(made.kernel, np.asarray(sample.X, dtype=np.float64))
            fitted = Scale.fit_each(made.kernel, sample.X, errors, variances, sample.noise, floor, places)
            chosen = _fewest([found.scale.density for found in fitted], _rmse(errors))
            made, learnt = replace(made, k=sizes[chosen]), fitted[chosen]
            error, variance = errors[chosen : chosen + 1], variances[chosen : chosen + 1]
            more = made._more_judges(evidence)
            if len(more) > len(sample.X):
                sample = every.take(more)
                error, variance = made._left_out(sample, (made.k,))
                places = Scale.places_of(made.kernel, np.asarray(sample.X, dtype=np.float64))
            if places is not None:
                rho = made.correlations(sample, variance[0], sample, variance[0], places.partners)
                places = replace(places, rho=rho)
                learnt = Scale.fit_each(made.kernel, sample.X, error, variance, sample.noise, floor, places)[0]
            return replace(made, scale=learnt.of_model(made.kernel, calibrate=True, optimism=evidence.optimism))
        densities = [float(log_densities(*each).mean()) for each in zip(errors, variances, strict=True)]
        chosen = _fewest(densities, _rmse(errors))
        made = replace(made, k=sizes[chosen])
        if evidence.floor is None:
            return made
        latent = np.maximum(variances[chosen] - sample.noise, 0)
        found = Scale.none(made.kernel, np.asarray(sample.X, dtype=np.float64), latent, errors[chosen], evidence.floor)
        return replace(made, scale=found.of_model(made.kernel, calibrate=False))

    def _more_judges(self, evidence: Evidence) -> Indices:
        """The rows that calibrate variances once k is chosen, if they are more than `N_JUDGED`; in increasing order."""
        if self.shared is not None:  # their factors cost too much
            return np.empty(0, dtype=np.intp)
        work = max(self.k**2 * (len(self.base.z) + self.k), 1)
        return evidence.judged(min(int(JUDGE_WORK / work), MOST_JUDGED, len(evidence.X) // JUDGED_SHARE))

    def sharing(self, cell: int, h: int, power: int, centres: Floats | None = None) -> Self:
        """The posterior whose queries share neighbourhoods of h rows besides, for cells of about `cell` rows.

        The cells have the centres that are given; by default, they are made from the rows.
        """
        assert self.near.index is not None
        remainder = Remainder(self.kernel, self.base, self.rows, self.r, self.noises, self._v)
        held = 0 if self.V is None else self.V.nbytes
        cells = None if centres is None else Cells(centres)
        shared = Shared(remainder, self.near.index, cell, h, self.limit - held, cells)
        return replace(self, shared=shared, power=power)

    def _affordable_cell(self) -> int:
        """The largest size of cells whose factors do not cost too much; 0 if there are none.

        Cells need a metric. Where there are periods, rows whole periods away are neighbours too, in no cell near by.
        """
        if self.near.n <= LEAST_ROWS or self.near.index is None or self.near.cycles:
            return 0
        return affordable_cell(self.near.n, len(self.base.z))

    def _sharing_if_better(self, every: Observations | StoredObservations, evidence: Evidence) -> Self | None:
        """The posterior with shared neighbourhoods, if they predict rows better than each query's neighbours alone.

        Rows of a few cells are compared, by the log density of their leave-one-out errors, whose distribution is learnt
        as that of predictions, and by their size.
        """
        cell = self._affordable_cell()
        if not cell:
            return None
        made = replace(self.sharing(cell, int(RATIO * cell), 0), k=BESIDE)
        assert made.shared is not None
        sample = every.take(made._in_cells(evidence.judged(N_COMPARED), evidence, COMPARE_WORK))
        errors, variances = self.leave_out(sample, SIZES)
        beside, common = SIZES.index(BESIDE), made._shared_errors(sample)
        blends = [_blended(power, common, (errors[beside], variances[beside])) for power in POWERS]
        blended = np.stack([error for error, _ in blends]), np.stack([variance for _, variance in blends])
        alone = self._verdicts(sample, errors, variances, evidence)
        shared = self._verdicts(sample, *blended, evidence)
        most = max(shared, key=lambda each: each.density)
        best = most if most.density > shared[0].density + WORTH_SHARING else shared[0]
        before = max(alone, key=lambda each: each.density)
        if best.density < before.density + WORTH_SHARING or best.rmse > (1 + SAME_ERROR) * before.rmse:
            return None
        return replace(made, power=POWERS[shared.index(best)])

    def _verdicts(
        self, sample: Observations, errors: Floats, variances: Floats, evidence: Evidence
    ) -> list[LeftOutVerdict]:
        """How good the leave-one-out predictions of several models are; calibrated, if predictions are."""
        if evidence.calibrate:
            fitted = Scale.fit_each(self.kernel, sample.X, errors, variances, sample.noise, evidence.floor or 0.0)
            densities = [found.learnt_density for found in fitted]
        else:
            densities = [float(log_densities(*each).mean()) for each in zip(errors, variances, strict=True)]
        return [LeftOutVerdict(*each) for each in zip(densities, _rmse(errors), strict=True)]

    def _in_cells(self, some: Indices, evidence: Evidence, work: float) -> Indices:
        """Random rows, or about as many of so few cells that their factors take no more than so much work.

        The cells are drawn at random. Rows are in increasing order.
        """
        if self.shared is None:
            return some
        n_cells = len(self.shared.cells)
        affordable = max(1, int(work / work_of(self.shared.h, len(self.base.z))))
        cells = self.shared.locate_rows(evidence.X, some)
        if len(np.unique(cells)) <= affordable:
            return some
        more = evidence.judged(len(some) * -(-n_cells // affordable))
        return self._rows_in(np.random.default_rng(evidence.seed).permutation(n_cells)[:affordable], evidence, more)

    def _rows_in(self, cells: Indices, evidence: Evidence, which: Indices) -> Indices:
        """Those of some rows that are in some cells."""
        assert self.shared is not None
        return which[np.isin(self.shared.locate_rows(evidence.X, which), cells)]

    @classmethod
    def prepare(cls, evidence: Evidence) -> tuple[Self, Observations | StoredObservations]:
        """The posterior with k = 0, and all observations, whose leave-one-out errors choose k. O(n m^2)."""
        kernel, base = evidence.kernel, SubsetOfData.condition(replace(evidence, floor=None))
        given = evidence.memory_limit
        limit = int(FREE_SHARE * available()) if given is None else parse_bytes(given)
        if evidence.store is not None or (reads_from_disk(evidence.X) and len(evidence.selection) < len(evidence.X)):
            store = store_remainder(evidence, base, limit) if evidence.store is None else evidence.store
            return cls.of_store(base, store, limit), StoredObservations(evidence, base, store.find)
        n, active = len(evidence.X), evidence.selection.indices
        remains = np.ones(n, dtype=bool)
        remains[active] = False
        rest = np.flatnonzero(remains)
        X_rest = np.asarray(evidence.X[rest], dtype=np.float64)
        first, group = distinct(X_rest)
        X, rows = X_rest[first], kernel.prepare(X_rest[first])
        coordinates = Coordinates(base, rows, limit)
        coordinates.fill()

        mean = base.mean(X) if coordinates.V is None else coordinates.V @ base.z
        r, noise = evidence.y[rest] - mean[group], evidence.noise(rest)
        means, noises = group_means(r, noise, group, len(X))
        made = cls(kernel, base, X, rows, means, noises, Neighbours(kernel, X), coordinates, k=0, limit=limit)

        every = Observations(
            X=np.asarray(evidence.X),
            r=np.empty((n, evidence.y.shape[1])),
            noise=evidence.noise(slice(None)),
            group=np.full(n, -1),
            active=np.full(n, -1),
        )
        every.r[rest], every.r[active] = r, evidence.y[active] - base.mean(evidence.X[active])
        every.group[rest], every.active[active] = group, np.arange(len(active))
        return made, every

    @classmethod
    def of_store(cls, base: SubsetOfData, store: RowStore, limit: int) -> Self:
        """The posterior with k = 0 whose rows are in a store."""
        kernel = base.kernel
        rows = store.features(kernel)
        near, coordinates = Neighbours(kernel, store), Coordinates(base, rows, limit)
        return cls(
            kernel, base, store.X, rows, store.values, store.noises, near, coordinates, k=0, limit=limit, store=store
        )

    def as_store(self, dtype: np.dtype[Any]) -> RowStore:
        """A store of the distinct rows, with inputs of this type; the one that there is, if they are on disk."""
        if self.store is not None and not self.store.n_joined:
            return self.store
        live = np.ones(len(self.X), dtype=bool)
        if self.store is not None:
            live[self.store.dead] = False
        size = BLOCK // self.X.shape[1] + 1

        def parts() -> Iterator[Indices]:
            for begin in range(0, len(self.X), size):
                if self.store is not None:
                    self.store.read(begin, min(begin + size, len(self.X)))  # checks them
                if len(part := begin + np.flatnonzero(live[begin : begin + size])):
                    yield part

        return build(
            lambda: (np.asarray(self.X[part], dtype=np.float64) for part in parts()),
            lambda: ((np.asarray(self.X[part], np.float64), self.r[part], self.noises[part]) for part in parts()),
            int(live.sum()),
            (self.X.shape[1], self.r.shape[1]),
            dtype,
            self.kernel.centre,
            self.kernel.metric(),
            STORE_MEMORY,
        )

    # Files

    @classmethod
    def restore(
        cls,
        kernel: CompiledKernel,
        base: SubsetOfData,
        X: Floats,
        r: Floats,
        noises: Floats,
        k: int,
        scale: Scale | None,
        limit: int,
        cell: int = 0,
        h: int = 0,
        power: int = 0,
        centres: Floats | None = None,
        metric: Metric | None = None,
    ) -> Local:
        """The posterior from what a file holds: what does not follow from the rest in O(n). The v's come later.

        `metric` is that of more rows, if X are some of these.
        """
        rows = kernel.prepare(X)
        coordinates = Coordinates(base, rows, limit)
        made = cls(kernel, base, X, rows, r, noises, Neighbours(kernel, X, metric=metric), coordinates, k, scale, limit)
        if not cell:
            return made
        if centres is None:  # files of earlier versions
            assert isinstance(made.near.index, Index)
            centres = Cells.of(made.near.index.positions, levels_of(cell, len(X))).centres
        return made.sharing(cell, h, power, centres)

    def in_memory(self) -> Local:
        """A copy whose rows are in memory, if they are on disk."""
        return self if self.store is None else self.restore(**self.__getstate__())

    def without_cache(self) -> Local:
        """A copy that keeps neither the v's of the rows nor factors."""
        plain = replace(self, coordinates=Coordinates(self.base, self.rows, limit=0), limit=0)
        if self.shared is None:
            return plain
        return plain.sharing(self.shared.cell, self.shared.h, self.power, self.shared.cells.centres)

    def __getstate__(self) -> dict[str, Any]:
        """The arguments of `restore`: without what follows from them, which may be many times as large."""
        derived = ("rows", "near", "coordinates", "shared", "power", "store")
        state = {part.name: getattr(self, part.name) for part in fields(self) if part.name not in derived}
        if self.store is not None:
            live = np.delete(np.arange(len(self.X)), self.store.dead)
            state |= {name: np.array(state[name][live], dtype=np.float64) for name in ("X", "r", "noises")}
        if self.shared is not None:
            shared = self.shared
            state |= {"cell": shared.cell, "h": shared.h, "power": self.power, "centres": shared.cells.centres}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(self.restore(**state).__dict__)

    # Prediction

    def mean(self, X: Array) -> Floats:
        """The mean at every row of X, of shape (n, q)."""
        return self._unscaled(np.asarray(X, dtype=np.float64))[0]

    def uncalibrated(self, X: Floats) -> tuple[Floats, Floats, Floats]:
        """The mean, of shape (n, q), the variance of the latent function and the novelty, of shape (n,)."""
        mean, latent = self._unscaled(X)
        return mean, latent, novelty_of(latent, self.kernel.diag(self.kernel.prepare(X)))

    def mean_and_covariance(self, X: Array, noisy: bool = False) -> tuple[Floats, Floats]:
        """The mean, of shape (n, q), and the covariance, of shape (n, n), given the union of the neighbours."""
        X = np.asarray(X, dtype=np.float64)
        kernel, base = self.kernel, self.base
        rows, K = base.covariances(X)
        v = base.projected(K)
        near = self._joint_neighbours(X)
        mean, covariance = base.mean_of(K), covariance_block(kernel, rows) - v.T @ v
        if len(near):
            N, V = take(self.rows, near), self._v(near)
            C = covariance_block(kernel, N) - V @ V.T
            C.flat[:: len(near) + 1] += self.noises[near]
            c = kernel.block(N, rows) - V @ v
            solved = np.linalg.solve(C, np.concatenate([c, self.r[near]], axis=1))
            mean = mean + c.T @ solved[:, len(X) :]
            covariance -= c.T @ solved[:, : len(X)]
        novelty = novelty_of(covariance.diagonal(), kernel.diag(rows))
        calibrated = scaled_covariance(self.scale, kernel, X, covariance, novelty, noisy)
        return mean, 0.5 * (calibrated + calibrated.T)

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

    def errors(self, sample: Observations, k: int | None = None) -> tuple[Floats, Floats]:
        """Leave-one-out errors, of shape (sample, q), and their variances with noise, (sample,); not calibrated.

        From k neighbours of each row; by default, from the rows that predictions are made from.
        """
        error, variance = self._left_out(sample, (self.k,)) if k is None else self.leave_out(sample, (k,))
        return error[0], variance[0]

    def on_active_rows(self) -> SubsetOfData:
        """The posterior given the active rows alone."""
        return self.base

    def left_out(self, rows: RowsOfFit) -> LeaveOneOutErrors | None:
        """Rows of the fit, each taken out of the active rows or out of its neighbours."""
        if not rows.are_certain:
            return None
        groups = np.where(rows.active >= 0, -1, self._places_of(rows.X))
        sample = Observations(rows.X, rows.Y - self.base.mean(rows.X), rows.noise, groups, rows.active)
        residual, variance = self.errors(sample)
        latent = np.maximum(variance - rows.noise, 0)
        return LeaveOneOutErrors(residual, latent, latent, self._with_places(sample, variance, rows.X_active))

    def _places_of(self, X: Floats) -> Indices:
        """The distinct row of the remainder that each row of X equals, -1 for none; of shape (rows,)."""
        return places_among(self.X, X) if self.store is None else self.store.find(X)

    def _with_places(self, sample: Observations, variance: Floats, X_active: Floats) -> Correlations | None:
        """How the errors of observations correlate with those at places of the scale, if the latter are known."""
        scale = self.scale
        if scale is None or scale.variances is None:
            return None
        variances, active = scale.variances, places_among(X_active, scale.X)
        groups = np.where(active >= 0, -1, self._places_of(scale.X))
        # Of the others, only what says which observations they are is needed.
        others = Observations(scale.X, np.zeros((len(active), 0)), np.zeros(len(active)), groups, active)
        return lambda partners: self.correlations(sample, variance, others, variances, partners)

    def _left_out(self, sample: Observations, sizes: Sequence[int]) -> tuple[Floats, Floats]:
        """Leave-one-out errors and variances as `leave_out` has them, blended with shared neighbourhoods, if any."""
        errors, variances = self.leave_out(sample, sizes)
        if self.shared is None:
            return errors, variances
        common = self._shared_errors(sample)
        blends = [_blended(self.power, common, each) for each in zip(errors, variances, strict=True)]
        return np.stack([error for error, _ in blends]), np.stack([variance for _, variance in blends])

    def _shared_errors(self, sample: Observations) -> tuple[Floats, Floats]:
        """Leave-one-out errors and variances as `Shared.leave_out` has them."""
        assert self.shared is not None
        return self.shared.leave_out(sample)

    def leave_out(self, sample: Observations, sizes: Sequence[int]) -> tuple[Floats, Floats]:
        """Leave-one-out errors and variances for several k; of shape (sizes, sample, q) and (sizes, sample)."""
        most, m = max(sizes) + 1, len(self.base.z)
        X = np.asarray(sample.X, dtype=np.float64)
        found = self.near.query(X, most)

        def block(which: Indices) -> tuple[Floats, Floats]:
            return self._systems(X[which], found[which]).leave_out(sample.take(which), self.base, sizes)

        width = most * (m + 3 * most + 2 * X.shape[1])
        error, variance = in_blocks(block, np.arange(len(X)), width, self._at_a_time(WORK))
        return np.moveaxis(error, 1, 0), variance.T

    def correlations(
        self, sample: Observations, variance: Floats, others: Observations, variances: Floats, partners: Indices
    ) -> Floats:
        """Correlations of the leave-one-out errors of observations with those of some others; (sample, partners).

        With the precision P of all observations, the weight of j in the prediction of i is -P_ij / P_ii, the variance
        of i's error is 1 / P_ii, and the correlation of the errors of i and j is P_ij / sqrt(P_ii P_jj). The weights
        are those in predictions from each observation's own neighbours, also where others are shared.

        Parameters
        ----------
        sample, others : Observations
        variance, variances : arrays of shape (sample,) and (others,)
            Of their leave-one-out errors.
        partners : array of shape (sample, partners)
            Positions among `others`; -1 for none.
        """
        m, X = len(self.base.z), np.asarray(sample.X, dtype=np.float64)
        size = min(self.k + 1, self.near.n)
        found = self.near.query(X, self.k + 1)
        is_one = partners >= 0
        group, active = (np.where(is_one, each[partners], -1) for each in (others.group, others.active))

        def block(which: Indices) -> tuple[Floats]:
            systems = self._systems(X[which], found[which])
            return (systems.weights(sample.take(which), self.base, self.k, group[which], active[which]),)

        width = size * (m + 3 * size + 2 * X.shape[1] + partners.shape[1])
        (weights,) = in_blocks(block, np.arange(len(X)), width, self._at_a_time(WORK))
        ratio = np.sqrt(variances[partners] / variance[:, None])
        return np.where(is_one, np.clip(-weights * ratio, -MOST_RHO, MOST_RHO), 0.0)

    def _unscaled(self, X: Floats) -> tuple[Floats, Floats]:
        """The mean, of shape (n, q), and the variance of the latent function, (n,), not calibrated."""
        m, k = len(self.base.z), self.k
        if not k:
            return self.base.latent(X)
        if self.shared is not None:
            noise = self.kernel.noise(self.kernel.prepare(X))
            own, common = replace(self, shared=None)._unscaled(X), self.shared.latent(X)
            mean, variance = _blended(self.power, (common[0], common[1] + noise), (own[0], own[1] + noise))
            return mean, np.maximum(variance - noise, 0)
        self.coordinates.expect(len(X) * k)
        found = self.near.query(X, k)

        def block(which: Indices) -> tuple[Floats, Floats]:
            systems = self._systems(X[which], found[which])
            correction, variance = systems.solve(k)
            return systems.mean + correction, variance

        # With cached v's, batches of a few queries stay in the processor's cache. Without them, a neighbour that many
        # queries of a large batch share is projected once.
        entries = self._at_a_time(WORK if self.V is not None else 64 * WORK)
        mean, variance = in_blocks(block, np.arange(len(X)), k * (m + 3 * k + 2 * X.shape[1]), entries)
        return mean, variance

    def _at_a_time(self, most: int) -> int:
        """Numbers of the neighbours' v's that a thread gathers: at most so many, and an eighth of the memory limit.

        There are as many again in the systems.
        """
        return int(np.clip(self.limit // (8 * 8 * n_threads(None)), WORK // 4, most))

    def _systems(self, X: Floats, found: Indices) -> Systems:
        """The linear systems of some queries, of shape (queries, d), with neighbours of shape (queries, k)."""
        kernel, base = self.kernel, self.base
        rows, K = base.covariances(X)
        v = base.projected(K)
        if self.V is not None:
            V = self.V[found]
        else:
            needed, place = np.unique(found, return_inverse=True)
            V = self._v(needed)[place.reshape(found.shape)]
        N, noise = take(self.rows, found), self.noises[found]
        C = kernel.block(N, N)
        C -= V @ V.swapaxes(-1, -2)
        diagonal = np.arange(found.shape[1])
        C[:, diagonal, diagonal] += noise
        c = kernel.block(take(rows, np.arange(len(X))[:, None]), N)[:, 0]
        c -= np.matmul(V, v.T[..., None])[..., 0]
        s2 = np.maximum(kernel.diag(rows) - np.einsum("ij,ij->j", v, v), 0)
        return Systems(found, C, c, s2, base.mean_of(K), self.r[found], noise, v.T, V)

    def _v(self, which: Indices) -> Floats:
        """The v's of some of the distinct rows, of shape (rows, m)."""
        if self.V is not None:
            return np.asarray(self.V[which])
        return np.asarray(self.base.projected(self.kernel.block(self.base.rows, take(self.rows, which))).T)


Predicted: TypeAlias = tuple[Floats, Floats]
"""Means or errors, of shape (n, q), and variances of observations, of shape (n,)."""


def _blended(power: int, first: Predicted, second: Predicted) -> Predicted:
    """Two predictions of the same rows, weighted by powers of their precisions; with power 0, the more precise one."""
    ratio = first[1] / second[1]
    weight = 1 / (1 + ratio**power) if power else np.where(ratio <= 1, 1.0, 0.0)
    mean = weight[:, None] * first[0] + (1 - weight)[:, None] * second[0]
    return mean, weight * first[1] + (1 - weight) * second[1]


def _fewest(densities: Sequence[float], errors: Sequence[float]) -> int:
    """The first of some numbers of neighbours whose mean log density and RMSE are nearly those of the best."""
    best = int(np.argmax(densities))
    dense = np.array(densities) >= densities[best] - GOOD_ENOUGH
    return int(np.argmax(dense & (np.array(errors) <= (1 + SAME_ERROR) * errors[best])))


def _rmse(errors: Floats) -> list[float]:
    """The root mean square of errors of shape (models, rows, q), for each model."""
    return [float(np.sqrt(np.mean(np.square(each)))) for each in errors]
