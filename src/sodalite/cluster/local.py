"""Local, with the rows of the remainder on the workers of a cluster (docs/method.rst, `rows-on-workers`).

A prediction depends on few rows: the nearest of the query and, where neighbourhoods are shared, the nearest of the
centre of its cell. Any set of rows that has these among it gives the same prediction. So queries are answered in
blocks: the rows that a block needs are found where they are and gathered, and `Local` with these rows predicts the
block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn, Self, cast

import numpy as np

from ..core.types import Floats, Indices
from ..kernels.cells import Cells
from ..kernels.neighbours import Metric, along_a_curve
from ..kernels.row_store import Observed
from ..posteriors import Evidence, Local, RowsOfFit, SubsetOfData
from ..posteriors.base import Needs
from ..posteriors.remainder import Rest
from ..posteriors.tuning import SIZES
from ..selection.rows import Block
from .bundles import ELSEWHERE, Bundles, Request, lay_out
from .rows import DaskRows

BLOCK = 2**24  # numbers of the nearest rows of a block of queries, 128 MB: up to some times as many are gathered
MOST = 2**16  # queries of a block: each block takes some tasks for every bundle
CACHE = 2**28  # bytes that the v's and factors of the rows of a block may take


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

    @property
    def most(self) -> int:
        """How many queries may be in one block."""
        near = self.k + (0 if self.cells is None else self.state["h"])
        return int(np.clip(BLOCK // max(near * self.width, 1), 1, MOST))

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
    """`Local` whose rows are on the workers of a cluster, where they are searched.

    Dask collections are predicted there too (`sodalite.cluster.predict`). Other queries, and rows that judge the model,
    are predicted on this machine, by the posterior with those rows that they need.
    """

    name: ClassVar[str] = Local.name
    needs: ClassVar[Needs] = "passes"
    """The rows stay where they are."""

    @classmethod
    def prepare(cls, evidence: Evidence) -> Self:
        """The posterior with k = 0, before leave-one-out errors choose k."""
        base, selection = SubsetOfData.condition(replace(evidence, judging=None)), evidence.selection
        rest = Rest(base, np.sort(selection.indices), selection.noise_floor)
        return cls(base.kernel, lay_out(cast("DaskRows", evidence.rows), rest), k=0)

    @property
    def bundles(self) -> Bundles:
        """The rows."""
        return cast("Bundles", self.remainder)

    @property
    def detached(self) -> Detached:
        """The posterior without its rows."""
        width = self.X.shape[1] + len(self.bundles.columns) + self.bundles.r.shape[1] + 2
        return Detached(self.saved(), self.bundles.metric, width, None if self.shared is None else self.shared.cells)

    def _fetched(self, X: Floats, k: int, shared: bool = True) -> Local:
        """The posterior with the k nearest rows of each query and, with `shared`, its shared neighbourhood, if any."""
        detached = self.detached
        return detached.on(self.bundles.fetch(detached.asked(X, min(k, self.near.n), shared)))

    # Prediction

    def latent(self, X: Floats) -> tuple[Floats, Floats]:
        """The mean, of shape (n, q), and the variance of the latent function, (n,), not calibrated."""
        if not self.k or not len(X):
            return self.base.latent(X)
        order, most = along_a_curve(self.bundles.scaled(X)), self.detached.most
        parts = (X[order[begin : begin + most]] for begin in range(0, len(X), most))
        found = [self._fetched(part, self.k).latent(part) for part in parts]
        mean, variance = (np.concatenate(each)[np.argsort(order)] for each in zip(*found, strict=True))
        return mean, variance

    def joint(self, X: Floats) -> tuple[Floats, Floats]:
        """The mean, of shape (n, q), and the covariance, of shape (n, n), given the union of the neighbours."""
        known = self.k and len(X)
        return self._fetched(X, max(self.k, *SIZES)).joint(X) if known else super().joint(X)

    # Leave-one-out errors

    def own_errors(self, rows: RowsOfFit, sizes: Sequence[int]) -> tuple[Floats, Floats]:
        """Leave-one-out errors and variances from own neighbours; of shape (sizes, rows, q) and (sizes, rows)."""
        return self._fetched(rows.X, max(sizes) + 1, shared=False).own_errors(rows, sizes)

    def shared_errors(self, rows: RowsOfFit) -> tuple[Floats, Floats]:
        """Leave-one-out errors and variances as `Shared.leave_out` has them."""
        return self._fetched(rows.X, 0).shared_errors(rows)

    def correlations(
        self, rows: RowsOfFit, variance: Floats, others: RowsOfFit, variances: Floats, partners: Indices
    ) -> Floats:
        """Correlations of the leave-one-out errors of rows with those of some others, as `Local` has them."""
        near = self._fetched(rows.X, self.k + 1, shared=False)
        return near.correlations(rows, variance, others, variances, partners)

    def rows_in(self, cells: Indices, evidence: Evidence, which: Indices) -> Indices:
        """Those of some rows that are in some cells, found where the rows are."""
        assert self.shared is not None
        inside = _Inside(self.bundles.metric, self.shared.cells, cells, np.sort(which))
        return np.sort(np.concatenate(evidence.rows.map(inside)))

    # Files

    def saved(self) -> dict[str, Any]:
        """The arguments of `restore`, without the rows."""
        return {**super().saved(), "X": None, "r": None, "noises": None}

    def laid_out(self, dtype: np.dtype[Any]) -> Local:
        """A copy that is not bound to workers, whose rows are fetched when they are read."""
        return Local.restore(**{**self.saved(), "store": self.bundles.as_store(dtype)})

    def __getstate__(self) -> NoReturn:
        raise TypeError(f"This model cannot be pickled or copied. {ELSEWHERE}")


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
