"""The rows of `local` on the workers, cut by cells into bundles, and searched where they are.

A bundle is a store in the memory of a worker (`sodalite.kernels.row_store`) of the rows in one box of space; there are
a few for each worker. The driver knows the boxes alone (docs/method.rst, `rows-on-workers`).

Rows go to their bundles by tasks, one for each piece and bundle, so Dask can make a bundle again that is lost with its
worker, from the collections that the rows came from: while bundles are built, and whenever they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from math import ceil, log2
from operator import getitem
from typing import Any, NamedTuple, NoReturn, TypeVar, cast

import numpy as np

from ..core.threads import on_this_thread
from ..core.types import Floats, Indices
from ..core.validation import float_type
from ..kernels.cell_search import SLACK
from ..kernels.cells import Bisection
from ..kernels.neighbours import Index, Metric, Neighbours, least_hashes, n_sampled
from ..kernels.row_store import Observed, Survey, laid_out
from ..posteriors import SubsetOfData
from ..posteriors.remainder import Remainder
from ..selection.rows import Block
from .client import Client, DaskFuture, check_there, cluster_errors, gather, no_warning_of_size, share, workers_of
from .rows import DaskRows

T = TypeVar("T")

PER_WORKER = 1  # bundles for each worker, at least: more divide rows more evenly, and mean more tasks for a prediction
COPIES = 8  # bundles that the memory of a worker must hold: its own, others' that it makes again, and copies meanwhile
PER_BUNDLE = 256  # rows of the sample for each bundle: the numbers of their rows then differ by some percent
TRIED = 32  # neighbours of the query that decides how a bundle is searched
GROWTH = 1.5  # factor by which the hashes that are asked for grow, until enough rows have less

ELSEWHERE = (
    "The rows of this model are on the workers of a cluster. Save it to a folder with sodalite.save(model, path), and "
    "load that with sodalite.load(path)."
)


class Request(NamedTuple):
    """Positions whose nearest rows are needed."""

    positions: Floats
    """Scaled, of shape (positions, columns)."""
    k: int
    """How many of the nearest rows of each."""


@dataclass(frozen=True)
class Rest:
    """The rows that are not active, with their residuals: a function of a block that workers evaluate."""

    base: SubsetOfData
    active: Indices
    """The active rows, in increasing order."""
    noise_floor: float

    def inputs(self, block: Block) -> Floats:
        """Those of a block's rows that are not active; of shape (rows, d)."""
        return np.asarray(block.X[self._which(block)], dtype=np.float64)

    def __call__(self, block: Block) -> Observed:
        """These rows with their residuals, of shape (rows, q), and noise variances, of shape (rows,)."""
        which, X, kernel = self._which(block), self.inputs(block), self.base.kernel
        noise = kernel.noise(kernel.prepare(X)).astype(np.float64)
        if block.alpha is not None:
            noise += block.alpha[which]
        return X, block.y[which] - self.base.mean(X), np.maximum(noise, self.noise_floor)

    def _which(self, block: Block) -> Indices:
        return np.delete(np.arange(len(block)), block.find(self.active)[1])


class Layout(NamedTuple):
    """What all bundles have in common."""

    metric: Metric
    boxes: Bisection
    """The box of a bundle, by the number of the bundle."""
    some: Floats
    """`RowStore.some`."""
    dtype: np.dtype[Any]
    """The type of the inputs."""


class Bundle:
    """The rows of one bundle, in the memory of a worker.

    Parameters
    ----------
    parts : list of tuples of arrays
        Inputs, residuals and noise variances, from every piece.
    layout : Layout
    """

    def __init__(self, parts: list[Observed], layout: Layout) -> None:
        store = laid_out(*together(parts), layout.metric, layout.some)
        self.store = replace(store, X=store.X.astype(layout.dtype, copy=False))
        self.low, self.high = store.Z[:, :-1].min(axis=0), store.Z[:, :-1].max(axis=0)
        self._index = Index(layout.metric, store.Z)
        self._index.nearest(store.Z[:1, :-1], min(TRIED, len(store)))  # measures which way to search is the quicker one

    def radius(self, positions: Floats, k: int) -> Floats:
        """The squared distance of the k-th nearest row of every position; infinite if there are fewer rows."""
        if k > len(self.store) or not len(positions):
            return np.full(len(positions), np.inf)
        return np.asarray(self._index.distances(positions, self._index.nearest(positions, k)).max(axis=1))

    def within(self, positions: Floats, k: int, radius: Floats) -> Indices:
        """The rows among the k nearest of a position, and within its squared distance, of shape (positions,)."""
        gap = np.square(np.maximum(np.maximum(self.low - positions, positions - self.high), 0)).sum(axis=1)
        reach = gap <= SLACK * radius
        if not reach.any():
            return np.empty(0, dtype=np.intp)
        near = self._index.nearest(positions[reach], min(k, len(self.store)))
        return np.unique(near[self._index.distances(positions[reach], near) <= SLACK * radius[reach, None]])

    def __sizeof__(self) -> int:
        """The bytes of its arrays, by which Dask decides what to spill to disk."""
        store = self.store
        return int(sum(array.nbytes for array in (store.X, store.Z, store.values, store.noises)))


class Elsewhere:
    """An array whose rows are on the workers: it has a shape, and no values here."""

    def __init__(self, *shape: int) -> None:
        self.shape, self.dtype, self.ndim = shape, np.dtype(np.float64), len(shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> NoReturn:
        raise ValueError(ELSEWHERE)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise ValueError(ELSEWHERE)


class Bundles(Remainder):
    """All rows of a remainder, in bundles.

    It is in place of `sodalite.kernels.neighbours.Neighbours` too, what the driver knows of distances: it scales
    positions and draws samples, and finds no rows.

    Parameters
    ----------
    client : distributed.Client
    base : SubsetOfData
    futures : list of distributed.Future
        Of the bundles.
    layout : Layout
    """

    def __init__(self, client: Client, base: SubsetOfData, futures: list[DaskFuture], layout: Layout) -> None:
        self.client, self.base, self.futures, self.layout = client, base, futures, layout
        self.metric, self.some, self.columns, self.cycles = layout.metric, layout.some, layout.metric.columns, False
        self.scaled, self.near, self.index = layout.metric.scaled, cast("Neighbours", self), self
        (n, q), d = np.sum(self.each(_shape), axis=0), layout.some.shape[1]
        q //= len(futures)
        self.n = int(n)
        self.X, self.r, self.noises = (cast("Floats", Elsewhere(self.n, *tail)) for tail in ((d,), (int(q),), ()))
        self.limit, self.store, self.V = 0, None, None
        self._layout = share(client, layout)

    def each(self, function: Callable[..., T], *arguments: Sequence[Any]) -> list[T]:
        """The results of a function of every bundle, with further arguments for each."""
        with cluster_errors(self.client):
            jobs = self.client.map(function, self.futures, *arguments, pure=False)
        return gather(self.client, jobs)

    def fetch(self, asked: list[Request]) -> Observed:
        """Rows that have those of some requests among them, on this machine."""
        from dask.delayed import delayed

        with cluster_errors(self.client), no_warning_of_size():
            parts = self.client.compute(self.gathered(delayed(asked, pure=False, traverse=False)))
        return together(gather(self.client, parts))

    def gathered(self, asked: Any) -> list[Any]:
        """Lazy parts of the rows, some of them empty, which have those of a block of requests among them.

        First, each request is answered by the bundle in whose box it is: how far the k-th nearest row is there. Then,
        all bundles that reach that near answer with their rows that may be among the nearest.

        Parameters
        ----------
        asked : dask.delayed.Delayed
            A list of `Request`.
        """
        from dask.delayed import delayed

        check_there(self.client, self.futures)
        first, near = delayed(first_radius, pure=False), delayed(near_rows, pure=False)
        bounds = [first(bundle, self._layout, asked, number) for number, bundle in enumerate(self.futures)]
        radius = delayed(least_radius, pure=False)(bounds)
        return [near(bundle, asked, radius) for bundle in self.futures]

    def sample(self, most: int) -> Floats:
        """Positions of at most so many rows, those of the least hashes, in the order of these; (rows, columns)."""
        most = min(most, self.n)
        level, parts = self.metric.tie * most / self.n, list[Floats]()
        while sum(map(len, parts)) < most:
            level *= GROWTH
            parts = self.each(_below, [level] * len(self.futures))
        Z = np.concatenate(parts)
        return Z[least_hashes(Z[:, -1], most)][:, :-1]


def lay_out(rows: DaskRows, rest: Rest) -> Bundles:
    """Cut the rows that are not active into bundles. Two passes over them, of which the second moves them."""
    client, d = rows.client, rows.shape[1]
    workers = workers_of(client)
    layout = layout_of(rows, rest, _levels(list(workers.values()), 8 * rows.shape[0] * (2 * d + rows.q + 2)))
    pieces, there, count = rows.submit(partial(split, rest, layout)), share(client, layout), len(layout.boxes)
    with cluster_errors(client):
        parts = [client.map(getitem, [piece] * count, range(count), pure=False) for piece in pieces]
        homes = cycle(workers)  # so that no worker gets many of them; any other will do if it is lost
        futures = [
            client.submit(Bundle, list(each), there, workers=[next(homes)], allow_other_workers=True, pure=False)
            for each in zip(*parts, strict=True)
        ]
    return Bundles(client, rest.base, futures, layout)


def layout_of(rows: Any, rest: Rest, levels: int) -> Layout:
    """The layout of 2^levels bundles of rows that are not active, from a sample of them. One pass."""
    d, kernel = rows.shape[1], rest.base.kernel
    seen: Survey = rows.map(partial(survey, rest, max(n_sampled(d), PER_BUNDLE * 2**levels)), Survey.merged)
    metric = seen.metric(kernel.centre, kernel.metric())
    boxes = Bisection.of(metric.scaled(seen.rows), levels)
    return Layout(metric, boxes, np.ascontiguousarray(seen.rows[: n_sampled(d)]), np.dtype(float_type(rows)))


def _levels(workers: list[dict[str, Any]], size: int) -> int:
    """How often rows of so many bytes are bisected: `PER_WORKER` bundles a worker, more if their memory is small."""
    limits = [int(worker.get("memory_limit") or 0) for worker in workers]
    most = min((limit for limit in limits if limit), default=0) / COPIES
    return ceil(log2(max(PER_WORKER * len(limits), size / most if most else 1, 1)))


# Tasks


def survey(rest: Rest, most: int, block: Block) -> Survey:
    """A survey of those rows of a block that are not active."""
    rows = rest.inputs(block)
    return Survey([rows] if len(rows) else [], rows.shape[1], most)


def split(rest: Rest, layout: Layout, block: Block) -> list[Observed]:
    """The rows of a block that are not active, for every bundle."""
    X, values, noise = rest(block)
    place = layout.boxes.locate(layout.metric.scaled(X))
    order = np.argsort(place, kind="stable")
    edges = np.searchsorted(place[order], np.arange(1, len(layout.boxes)))
    return [(X[which], values[which], noise[which]) for which in np.split(order, edges)]


def together(parts: Iterable[Observed]) -> Observed:
    """Inputs, residuals and noise variances of several parts of the rows, one after the other."""
    X, values, noise = (np.concatenate(part) for part in zip(*parts, strict=True))
    return X, values, noise


def first_radius(bundle: Bundle, layout: Layout, asked: list[Request], number: int) -> list[Floats]:
    """How far the k-th nearest row of a bundle is from positions in its box: squared distances, infinite for others."""
    bounds = list[Floats]()
    for positions, k in asked:
        bound, here = np.full(len(positions), np.inf), layout.boxes.locate(positions) == number
        with on_this_thread():
            bound[here] = bundle.radius(positions[here], k)
        bounds.append(bound)
    return bounds


def least_radius(bounds: list[list[Floats]]) -> list[Floats]:
    """The least squared distance that a bundle has found for each position."""
    return [np.min(each, axis=0) for each in zip(*bounds, strict=True)]


def near_rows(bundle: Bundle, asked: list[Request], radius: list[Floats]) -> Observed:
    """The rows of a bundle that may be among the nearest of the positions of some requests."""
    store = bundle.store
    with on_this_thread():
        near = [bundle.within(*request, furthest) for request, furthest in zip(asked, radius, strict=True)]
    which = np.unique(np.concatenate([*near, np.empty(0, dtype=np.intp)]))
    return store.X[which], store.values[which], store.noises[which]


def _shape(bundle: Bundle) -> tuple[int, int]:
    return bundle.store.values.shape[0], bundle.store.values.shape[1]


def _below(bundle: Bundle, level: float) -> Floats:
    """Positions of the rows whose coordinate that decides ties is no larger than a number."""
    return np.asarray(bundle.store.Z[bundle.store.Z[:, -1] <= level])
