"""The rows of `local` on the workers, cut by cells into bundles, and searched where they are.

A bundle is a store in the memory of a worker (`sodalite.kernels.row_store`) of the rows in one box of space; there are
a few for each worker. The driver knows the boxes alone (docs/method.rst, `rows-on-workers`).

Rows go to their bundles by tasks, one for each piece and bundle, so Dask can make a bundle again that is lost with its
worker, from the collections that the rows came from: while bundles are built, and whenever they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle, pairwise
from math import ceil, log2, prod
from operator import getitem
from typing import Any, NamedTuple, NoReturn, TypeVar, cast

import numpy as np

from ..core.threads import on_this_thread
from ..core.types import Array, Floats, Indices
from ..core.validation import float_type
from ..kernels.cell_search import SLACK, gaps
from ..kernels.neighbours import Neighbours, least_hashes, n_sampled
from ..kernels.row_store import Layout, Observed, RowStore, Survey, together
from ..posteriors import SubsetOfData
from ..posteriors.remainder import Remainder, Rest
from ..selection.rows import Block
from .client import Client, DaskFuture, check_there, cluster_errors, gather, no_warning_of_size, share, workers_of
from .rows import DaskRows

T = TypeVar("T")

PER_WORKER = 1  # bundles for each worker, at least: more divide rows more evenly, and mean more tasks for a prediction
COPIES = 8  # bundles that the memory of a worker must hold: its own, others' that it makes again, and copies meanwhile
PER_BUNDLE = 256  # rows of the sample for each bundle: the numbers of their rows then differ by some percent
ROWS = ("X", "Z", "values", "noises")  # arrays of a store that have an entry for every row
AHEAD = 2**24  # bytes of an array that are fetched at a time when a model is saved

ELSEWHERE = (
    "The rows of this model are on the workers of a cluster. Save it to a file with sodalite.save(model, path), and "
    "load that with sodalite.load(path)."
)


class Request(NamedTuple):
    """Positions whose nearest rows are needed."""

    positions: Floats
    """Scaled, of shape (positions, columns)."""
    k: int
    """How many of the nearest rows of each."""


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
        Z = np.concatenate(self.each(_least, [most] * len(self.futures)))
        return Z[least_hashes(Z[:, -1], most)][:, :-1]

    def as_store(self, dtype: np.dtype[Any]) -> RowStore:
        """All bundles as one store, whose rows are fetched when they are read."""
        heads, ends, low, high = zip(*self.each(_outline), strict=True)
        edges = np.cumsum([0, *(each[-1] for each in ends)])
        arrays: dict[str, Any] = {name: Fetched(self, name, edges, head) for name, head in heads[0].items()}
        return RowStore(
            **arrays,
            ends=np.concatenate([each + before for each, before in zip(ends, edges[:-1], strict=True)]),
            low=np.concatenate(low),
            high=np.concatenate(high),
            some=self.some,
            metric=self.metric,
        )


class Fetched:
    """An array of all bundles, one after the other, that is fetched some megabytes at a time when it is sliced by rows.

    Parameters
    ----------
    bundles : Bundles
    name : str
        Of the array in a `RowStore`.
    edges : array of shape (bundles + 1,)
        The first row of every bundle, and the number of rows.
    head : array
        No rows, of the right shape and type.
    """

    def __init__(self, bundles: Bundles, name: str, edges: Indices, head: Array) -> None:
        self._bundles, self._name, self._edges = bundles, name, edges
        self.shape: tuple[int, ...] = (int(edges[-1]), *head.shape[1:])
        self.dtype, self.ndim = head.dtype, head.ndim
        self._ahead = AHEAD // (prod(head.shape[1:]) * head.dtype.itemsize)
        self._first, self._kept = 0, head

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Array:
        begin, end, _ = rows.indices(len(self))
        if not self._first <= begin <= end <= self._first + len(self._kept):
            self._first, self._kept = begin, self._fetch(begin, min(max(end, begin + self._ahead), len(self)))
        return self._kept[begin - self._first : end - self._first]

    def _fetch(self, begin: int, end: int) -> Array:
        client, parts = self._bundles.client, list[DaskFuture]()
        with cluster_errors(client):
            for bundle, (first, last) in zip(self._bundles.futures, pairwise(self._edges), strict=True):
                if first < end and begin < last:
                    here = slice(max(begin - first, 0), end - first)
                    parts.append(client.submit(_rows_of, bundle, self._name, here, pure=False))
        return np.concatenate([self._kept[:0], *gather(client, parts)])


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
            client.submit(bundled, there, list(each), workers=[next(homes)], allow_other_workers=True, pure=False)
            for each in zip(*parts, strict=True)
        ]
    return Bundles(client, rest.base, futures, layout)


def layout_of(rows: Any, rest: Rest, levels: int) -> Layout:
    """The layout of 2^levels bundles of rows that are not active, from a sample of them. One pass."""
    most, kernel = max(n_sampled(rows.shape[1]), PER_BUNDLE * 2**levels), rest.base.kernel
    seen: Survey = rows.map(partial(survey, rest, most), Survey.merged)
    return Layout.of(seen, levels, np.dtype(float_type(rows)), kernel.centre, kernel.metric())


def _levels(workers: list[dict[str, Any]], size: int) -> int:
    """How often rows of so many bytes are bisected: `PER_WORKER` bundles a worker, more if their memory is small."""
    limits = [int(worker.get("memory_limit") or 0) for worker in workers]
    most = min((limit for limit in limits if limit), default=0) / COPIES
    return ceil(log2(max(PER_WORKER * len(limits), size / most if most else 1, 1)))


# Tasks


def survey(rest: Rest, most: int, block: Block) -> Survey:
    """A survey of those rows of a block that are not active."""
    return Survey.of(rest.inputs(block), most)


def split(rest: Rest, layout: Layout, block: Block) -> list[Observed]:
    """The rows of a block that are not active, for every bundle."""
    return layout.split(rest(block))


def bundled(layout: Layout, parts: list[Observed]) -> RowStore:
    """The bundle of the rows of one box, from every piece."""
    return layout.store(*parts)


def first_radius(bundle: RowStore, layout: Layout, asked: list[Request], number: int) -> list[Floats]:
    """How far the k-th nearest row of a bundle is from positions in its box: squared distances, infinite for others."""
    bounds, index = list[Floats](), bundle.index_in_memory
    for positions, k in asked:
        bound, here = np.full(len(positions), np.inf), layout.boxes.locate(positions) == number
        if k <= len(bundle) and here.any():
            with on_this_thread():
                bound[here] = index.distances(positions[here], index.nearest(positions[here], k)).max(axis=1)
        bounds.append(bound)
    return bounds


def least_radius(bounds: list[list[Floats]]) -> list[Floats]:
    """The least squared distance that a bundle has found for each position."""
    return [np.min(each, axis=0) for each in zip(*bounds, strict=True)]


def near_rows(bundle: RowStore, asked: list[Request], radius: list[Floats]) -> Observed:
    """The rows of a bundle that may be among the nearest of the positions of some requests.

    Of each position, these are rows among the k nearest of the bundle, and within its squared distance.
    """
    near: list[Indices] = [np.empty(0, dtype=np.intp)]
    index, (low, high) = bundle.index_in_memory, bundle.box
    for (positions, k), each in zip(asked, radius, strict=True):
        furthest = SLACK * each
        reached = gaps(positions, low[None], high[None])[:, 0] <= furthest
        if reached.any():
            with on_this_thread():
                rows = index.nearest(positions[reached], min(k, len(bundle)))
                near.append(rows[index.distances(positions[reached], rows) <= furthest[reached, None]])
    which = np.unique(np.concatenate(near))
    return bundle.X[which], bundle.values[which], bundle.noises[which]


def _shape(bundle: RowStore) -> tuple[int, int]:
    return bundle.values.shape[0], bundle.values.shape[1]


def _outline(bundle: RowStore) -> tuple[dict[str, Array], Indices, Floats, Floats]:
    """The arrays of a bundle without their rows, and its cells."""
    return {name: getattr(bundle, name)[:0] for name in ROWS}, bundle.ends, bundle.low, bundle.high


def _rows_of(bundle: RowStore, name: str, rows: slice) -> Array:
    found: Array = getattr(bundle, name)[rows]
    return found


def _least(bundle: RowStore, most: int) -> Floats:
    """Positions of the rows of a bundle that have the least hashes, ties decided."""
    return bundle.Z[bundle.least(most)]
