"""Local, with the rows of the remainder on the workers of a cluster (docs/method.rst, `rows-on-workers`).

A prediction depends on few rows: the nearest of the query and, where neighbourhoods are shared, the nearest of the
centre of its cell. Any set of rows that has these among it gives the same prediction. So queries are answered in
blocks: the rows that a block needs are found where they are and gathered by one worker, and `Local` with these rows
predicts the block there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, NoReturn, Protocol, Self, TypeAlias, TypeVar, cast, runtime_checkable

import numpy as np

from ..core.types import Floats, Indices
from ..kernels import CompiledKernel
from ..kernels.cells import Cells
from ..kernels.neighbours import Metric, Neighbours, StoredRows, along_a_curve
from ..kernels.row_store import Observed
from ..selection.rows import Block
from .base import Evidence, Posterior, RowsOfFit
from .calibration import Scale
from .coordinates import CoordinateCache
from .local import Local
from .sod import SubsetOfData
from .tuning import SIZES

T = TypeVar("T")

BLOCK = 2**24  # numbers of the nearest rows of a block of queries, 128 MB: up to some times as many are gathered
MOST_LAZY = 2**16  # queries of a block of a Dask collection: each block takes some tasks for every store
MOST_HERE = 2**11  # queries of a block of an array: enough to share rows, few enough for all workers to have some
CACHE = 2**28  # bytes that the v's and factors of the rows of a block may take on a worker

ELSEWHERE = (
    "The rows of this model are on the workers of a cluster. Save it to a folder with sodalite.save(model, path), and "
    "load that with sodalite.load(path)."
)


class NearestRequest(NamedTuple):
    """Positions whose nearest rows are needed."""

    positions: Floats
    """Scaled, of shape (positions, columns)."""
    k: int
    """How many of the nearest rows of each."""


RemoteJob: TypeAlias = tuple[list[NearestRequest], tuple[Any, ...]]
"""The rows that some queries need, and the arguments of a function of these rows."""


class RemoteRows(StoredRows, Protocol):
    """Distinct rows that are laid out in several stores elsewhere, and are searched there."""

    @property
    def metric(self) -> Metric:
        """The metric of all stores."""
        ...

    @property
    def some(self) -> Floats:
        """The rows of the least hashes, as `RowStore.some`."""
        ...

    @property
    def n_stores(self) -> int:
        """The number of stores."""
        ...

    @property
    def shape(self) -> tuple[int, int, int]:
        """The numbers of rows, of inputs and of values: n', d and q."""
        ...

    def answers(self, function: Callable[..., T], blocks: Sequence[RemoteJob]) -> list[T]:
        """The results of a function of some rows and further arguments, for several blocks of requests.

        For each block, the rows are those that are requested, and maybe others.
        """
        ...

    def each(self, function: Callable[..., T], arguments: Sequence[tuple[Any, ...]]) -> list[T]:
        """The results of a function of every store, with further arguments for each, in the order of the stores."""
        ...


@runtime_checkable
class LaysOut(Protocol):
    """A source that can lay rows out by cells where they are."""

    @property
    def lays_out(self) -> bool:
        """Whether it does: rows that are lost elsewhere must be made again."""
        ...

    def lay_out(self, remaining: Remaining) -> RemoteRows:
        """The distinct rows that are not active."""
        ...


@dataclass(frozen=True)
class Remaining:
    """The rows that are not active, with their residuals: a function of some rows that workers evaluate."""

    base: SubsetOfData
    active: Indices
    """The active rows, in increasing order."""
    noise_floor: float

    @property
    def kernel(self) -> CompiledKernel:
        """The kernel, whose metric lays out the rows."""
        return self.base.kernel

    def inputs(self, block: Block) -> Floats:
        """Those of a block's rows that are not active; of shape (rows, d)."""
        return np.asarray(block.X[self._which(block)], dtype=np.float64)

    def observed(self, block: Block) -> Observed:
        """The rows of `inputs` with their residuals, of shape (rows, q), and noise variances, of shape (rows,)."""
        which, rows = self._which(block), self.inputs(block)
        noise = self.kernel.noise(self.kernel.prepare(rows)).astype(np.float64)
        if block.alpha is not None:
            noise += block.alpha[which]
        return rows, block.y[which] - self.base.mean(rows), np.maximum(noise, self.noise_floor)

    def _which(self, block: Block) -> Indices:
        return np.delete(np.arange(len(block)), block.find(self.active)[1])


class Elsewhere:
    """An array whose rows are elsewhere: it has a shape, and no values here."""

    def __init__(self, *shape: int) -> None:
        self.shape, self.dtype, self.ndim = shape, np.dtype(np.float64), len(shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NoReturn:
        raise ValueError(ELSEWHERE)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise ValueError(ELSEWHERE)


class Sharing(NamedTuple):
    """The neighbourhoods that queries share."""

    cell: int
    """About how many rows a cell has."""
    h: int
    """Rows of a neighbourhood."""
    power: int
    """The power of the precisions that weight predictions."""
    cells: Cells


@dataclass(frozen=True)
class Detached:
    """A local posterior without its rows, which is sent to the workers."""

    base: SubsetOfData
    metric: Metric
    k: int
    """How many neighbours a query has."""
    width: int
    """Numbers that a row takes."""
    scale: Scale | None = None
    sharing: Sharing | None = None
    """None if queries share no neighbourhoods."""

    def queries(self, k: int, most: int, shared: bool = True) -> int:
        """How many queries may be in one block, if each has k neighbours and maybe a shared neighbourhood."""
        near = k + (self.sharing.h if shared and self.sharing is not None else 0)
        return int(np.clip(BLOCK // max(near * self.width, 1), 1, most))

    def asked(self, X: Floats, k: int, shared: bool = True) -> list[NearestRequest]:
        """The rows that queries need: the k nearest of each, and with `shared` those of the centres of their cells."""
        positions = self.metric.scaled(X)
        requests = [NearestRequest(positions, k)] if k else []
        if shared and self.sharing is not None:
            cells = self.sharing.cells
            requests.append(NearestRequest(cells.centres[np.unique(cells.locate(positions))], self.sharing.h))
        return requests

    def on(self, rows: Observed) -> Local:
        """The posterior with some rows, which must be those that queries need."""
        X, r, noises = rows
        given = self.base.kernel, self.base, np.asarray(X, dtype=np.float64), r, noises, self.k, self.scale, CACHE
        made = Local.restore(*given, metric=self.metric)
        if self.sharing is None or not len(X):
            return made
        cell, h, power, cells = self.sharing
        return made.sharing(cell, h, power, cells.centres)


@dataclass(frozen=True)
class RemoteLocal(Local):
    """`Local` whose rows are on the workers of a cluster. They are searched there, and predictions are made there."""

    name: ClassVar[str] = Local.name

    remote: RemoteRows = field(default=None, repr=False, kw_only=True)  # type: ignore[assignment]
    """The rows."""

    @classmethod
    def prepare(cls, evidence: Evidence) -> Self:
        """The posterior with k = 0, before leave-one-out errors choose k."""
        base, selection = SubsetOfData.condition(replace(evidence, judging=None)), evidence.selection
        assert isinstance(evidence.rows, LaysOut)
        remote = evidence.rows.lay_out(Remaining(base, np.sort(selection.indices), selection.noise_floor))
        n, d, q = remote.shape
        X, rows, r, noises = (cast("Floats", Elsewhere(n, *tail)) for tail in ((d,), (0,), (q,), ()))
        kernel, coordinates = base.kernel, CoordinateCache(base, rows, limit=0)
        return cls(kernel, base, X, rows, r, noises, Neighbours(kernel, remote), coordinates, k=0, remote=remote)

    @property
    def detached(self) -> Detached:
        """The posterior without its rows."""
        shared, (_, d, q) = self.shared, self.remote.shape
        sharing = None if shared is None else Sharing(shared.cell, shared.h, self.power, shared.cells)
        width = d + len(self.remote.metric.columns) + q + 2
        return Detached(self.base, self.remote.metric, self.k, width, self.scale, sharing)

    def _answered(
        self,
        method: Callable[..., tuple[Floats, ...]],
        X: Floats,
        k: int,
        shared: bool,
        arguments: Callable[[Indices], tuple[Any, ...]],
    ) -> list[Floats]:
        """The arrays that a function of a `Local` returns for queries, computed by the workers in blocks.

        Parameters
        ----------
        method : callable
            Takes a `Local` and the arguments of a block. Returns a tuple of arrays whose first axis is that of the
            queries of the block.
        X : array of shape (queries, d)
        k : int
            How many of the nearest rows of each query it needs.
        shared : bool
            Whether it needs shared neighbourhoods, if there are any.
        arguments : callable
            Returns the arguments for some of the queries.
        """
        detached = self.detached
        order, size = along_a_curve(detached.metric.scaled(X)), detached.queries(k, MOST_HERE, shared)
        parts = [order[begin : begin + size] for begin in range(0, len(order), size)]
        blocks = [(detached.asked(X[part], k, shared), arguments(part)) for part in parts]
        found = self.remote.answers(_OnRows(detached, method), blocks)
        return [np.concatenate(each)[np.argsort(order)] for each in zip(*found, strict=True)]

    # Prediction

    def latent(self, X: Floats) -> tuple[Floats, Floats]:
        """The mean, of shape (n, q), and the variance of the latent function, (n,), not calibrated."""
        if not self.k or not len(X):
            return self.base.latent(X)
        mean, variance = self._answered(Local.latent, X, self.k, True, lambda part: (X[part],))
        return mean, variance

    def joint(self, X: Floats) -> tuple[Floats, Floats]:
        """The mean, of shape (n, q), and the covariance, of shape (n, n), given the union of the neighbours."""
        if not self.k or not len(X):
            return super().joint(X)
        detached = self.detached
        job = _OnRows(detached, Local.joint)
        found: tuple[Floats, Floats] = self.remote.answers(job, [(detached.asked(X, max(self.k, *SIZES)), (X,))])[0]
        return found

    # Leave-one-out errors

    def own_errors(self, rows: RowsOfFit, sizes: Sequence[int]) -> tuple[Floats, Floats]:
        """Leave-one-out errors and variances from own neighbours; of shape (sizes, rows, q) and (sizes, rows)."""
        most = min(max(sizes) + 1, self.near.n)
        error, variance = self._answered(_errors, rows.X, most, False, lambda part: (rows.take(part), sizes))
        return np.moveaxis(error, 1, 0), variance.T

    def shared_errors(self, rows: RowsOfFit) -> tuple[Floats, Floats]:
        """Leave-one-out errors and variances as `Shared.leave_out` has them."""
        error, variance = self._answered(Local.shared_errors, rows.X, 0, True, lambda part: (rows.take(part),))
        return error, variance

    def correlations(
        self, rows: RowsOfFit, variance: Floats, others: RowsOfFit, variances: Floats, partners: Indices
    ) -> Floats:
        """Correlations of the leave-one-out errors of rows with those of some others, as `Local` has them."""

        def arguments(part: Indices) -> tuple[Any, ...]:
            needed, place = np.unique(partners[part], return_inverse=True)
            none = int((needed < 0).any())  # whether there is a -1, which stands for none
            needed, place = needed[none:], place.reshape(partners[part].shape) - none
            return rows.take(part), variance[part], others.take(needed), variances[needed], place

        (rho,) = self._answered(_correlations, rows.X, min(self.k + 1, self.near.n), False, arguments)
        return rho

    def rows_in(self, cells: Indices, evidence: Evidence, which: Indices) -> Indices:
        """Those of some rows that are in some cells, found where the rows are."""
        assert self.shared is not None
        inside = _Inside(self.remote.metric, self.shared.cells, cells, np.sort(which))
        return np.sort(evidence.rows.map(inside, _both))

    # Files

    def in_memory(self) -> NoReturn:
        """Refuse: the rows may be larger than memory."""
        raise ValueError(ELSEWHERE)

    def as_store(self, dtype: np.dtype[Any]) -> NoReturn:
        """Refuse: the rows are in several stores."""
        raise ValueError(ELSEWHERE)

    def saved(self) -> dict[str, Any]:
        """The arguments of `restore`, without the rows: their files are written by the workers."""
        return {**super().saved(), "X": None, "r": None, "noises": None}

    def __getstate__(self) -> NoReturn:
        raise TypeError(f"This model cannot be pickled or copied. {ELSEWHERE}")


ON_WORKERS: dict[type[Posterior], type[Posterior]] = {Local: RemoteLocal}
"""Posteriors that can leave all rows on the workers of a cluster, each with the class that does so."""


@dataclass(frozen=True)
class _OnRows:
    """A function of a `Local`, as one of the rows that it needs."""

    detached: Detached
    method: Callable[..., Any]

    def __call__(self, rows: Observed, *arguments: Any) -> Any:
        return self.method(self.detached.on(rows), *arguments)


@dataclass(frozen=True)
class _Inside:
    """A function of a block that returns the numbers of those rows that are in some cells."""

    metric: Metric
    all_cells: Cells
    cells: Indices
    which: Indices
    """The rows that are looked at, in increasing order."""

    def __call__(self, block: Block) -> Indices:
        which, places = block.find(self.which)
        cell = self.all_cells.locate(self.metric.scaled(np.asarray(block.X[places], dtype=np.float64)))
        return self.which[which][np.isin(cell, self.cells)]


def _both(first: Indices, second: Indices) -> Indices:
    return np.concatenate([first, second])


def _errors(local: Local, rows: RowsOfFit, sizes: Sequence[int]) -> tuple[Floats, Floats]:
    errors, variances = local.own_errors(rows, sizes)
    return np.moveaxis(errors, 0, 1), variances.T


def _correlations(
    local: Local, rows: RowsOfFit, variance: Floats, others: RowsOfFit, variances: Floats, partners: Indices
) -> tuple[Floats]:
    if not len(others.X):
        return (np.zeros(partners.shape),)
    return (local.correlations(rows, variance, others, variances, partners),)
