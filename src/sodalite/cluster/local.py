"""Local, with the rows of the remainder on the workers of a cluster (docs/method.rst, `rows-on-workers`).

A prediction depends on few rows: the nearest of the query and, where neighbourhoods are shared, the nearest of the
centre of its cell. Any set of rows that has these among it gives the same prediction. So queries are answered in
blocks: the rows that a block needs are found where they are and gathered by one worker, and `Local` with these rows
predicts the block there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NoReturn, Self, cast

import numpy as np

from ..core.types import Floats, Indices
from ..kernels.cells import Cells
from ..kernels.neighbours import Metric, Neighbours, along_a_curve
from ..kernels.row_store import Observed
from ..posteriors import Evidence, Local, RowsOfFit, SubsetOfData, remainder
from ..posteriors.base import Needs
from ..posteriors.tuning import SIZES
from ..selection.rows import Block
from .bundles import Bundles, Remainder, Request, lay_out
from .rows import DaskRows

BLOCK = 2**24  # numbers of the nearest rows of a block of queries, 128 MB: up to some times as many are gathered
MOST_LAZY = 2**16  # queries of a block of a Dask collection: each block takes some tasks for every bundle
MOST_HERE = 2**11  # queries of a block of an array: enough to share rows, few enough for all workers to have some
CACHE = 2**28  # bytes that the v's and factors of the rows of a block may take on a worker

ELSEWHERE = (
    "The rows of this model are on the workers of a cluster. Save it to a folder with sodalite.save(model, path), and "
    "load that with sodalite.load(path)."
)


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


class RemainderElsewhere(remainder.Remainder):
    """The rows of the remainder, on the workers: how many they are, and how the nearest are found."""

    def __init__(self, base: SubsetOfData, remote: Bundles) -> None:
        n, d, q = remote.shape
        self.X, self.r, self.noises = (cast("Floats", Elsewhere(n, *tail)) for tail in ((d,), (q,), ()))
        self.base, self.near, self.limit, self.store, self.V = base, cast("Neighbours", remote), 0, None, None


@dataclass(frozen=True)
class Detached:
    """A local posterior without its rows, which is sent to the workers."""

    state: dict[str, Any]
    """The arguments of `Local.restore`, but for the rows."""
    metric: Metric
    width: int
    """Numbers that a row takes."""
    cells: Cells | None
    """The cells whose neighbourhoods queries share, if they share any."""

    @property
    def k(self) -> int:
        """How many neighbours a query has."""
        return int(self.state["k"])

    def queries(self, k: int, most: int, shared: bool = True) -> int:
        """How many queries may be in one block, if each has k neighbours and maybe a shared neighbourhood."""
        near = k + (self.state["h"] if shared and self.cells is not None else 0)
        return int(np.clip(BLOCK // max(near * self.width, 1), 1, most))

    def asked(self, X: Floats, k: int, shared: bool = True) -> list[Request]:
        """The rows that queries need: the k nearest of each, and with `shared` those of the centres of their cells."""
        positions = self.metric.scaled(X)
        requests = [Request(positions, k)] if k else []
        if shared and self.cells is not None:
            centres = self.cells.centres[np.unique(self.cells.locate(positions))]
            requests.append(Request(centres, self.state["h"]))
        return requests

    def on(self, rows: Observed) -> Local:
        """The posterior with some rows, which must be those that queries need."""
        X, r, noises = rows
        state = self.state | {"X": X.astype(np.float64), "r": r, "noises": noises, "limit": CACHE}
        return Local.restore(**state | ({} if len(X) else {"centres": None}), metric=self.metric)


@dataclass(frozen=True)
class DaskLocal(Local):
    """`Local` whose rows are on the workers of a cluster. They are searched there, and predictions are made there."""

    name: ClassVar[str] = Local.name
    needs: ClassVar[Needs] = "passes"
    """The rows stay where they are."""

    remote: Bundles = field(default=None, repr=False, kw_only=True)  # type: ignore[assignment]
    """The rows."""

    @classmethod
    def prepare(cls, evidence: Evidence) -> Self:
        """The posterior with k = 0, before leave-one-out errors choose k."""
        base, selection = SubsetOfData.condition(replace(evidence, judging=None)), evidence.selection
        remaining = Remainder(base, np.sort(selection.indices), selection.noise_floor)
        remote = lay_out(cast("DaskRows", evidence.rows), remaining)
        return cls(base.kernel, RemainderElsewhere(base, remote), k=0, remote=remote)

    @property
    def detached(self) -> Detached:
        """The posterior without its rows."""
        _, d, q = self.remote.shape
        cells = None if self.shared is None else self.shared.cells
        return Detached(self.saved(), self.remote.metric, d + len(self.remote.columns) + q + 2, cells)

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
        on_rows: Callable[..., tuple[Floats, Floats]] = _OnRows(detached, Local.joint)
        return self.remote.answers(on_rows, [(detached.asked(X, max(self.k, *SIZES)), (X,))])[0]

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
        return np.sort(np.concatenate(evidence.rows.map(inside)))

    # Files

    def saved(self) -> dict[str, Any]:
        """The arguments of `restore`, without the rows: their files are written by the workers."""
        return {**super().saved(), "X": None, "r": None, "noises": None}

    def __getstate__(self) -> NoReturn:
        raise TypeError(f"This model cannot be pickled or copied. {ELSEWHERE}")


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


def _errors(local: Local, rows: RowsOfFit, sizes: Sequence[int]) -> tuple[Floats, Floats]:
    errors, variances = local.own_errors(rows, sizes)
    return np.moveaxis(errors, 0, 1), variances.T


def _correlations(
    local: Local, rows: RowsOfFit, variance: Floats, others: RowsOfFit, variances: Floats, partners: Indices
) -> tuple[Floats]:
    if not len(others.X):
        return (np.zeros(partners.shape),)
    return (local.correlations(rows, variance, others, variances, partners),)
