"""The rows of `local` on the workers, cut by cells into bundles, and searched where they are.

A bundle is a store in the memory of a worker (`sodalite.kernels.row_store`) of the rows in one box of space; there are
a few for each worker. The driver knows the boxes alone (docs/method.rst, `rows-on-workers`).

Rows go to their bundles by tasks, one for each piece and bundle. Dask's own shuffle takes data frames alone, so it
would need pandas and Arrow, and it begins anew if a worker is lost. With tasks, the scheduler makes again what is lost,
and no more, from the collections that the rows came from: while bundles are built, and whenever they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import cycle
from math import ceil, log2
from operator import getitem
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import numpy as np

from ..core.threads import on_this_thread
from ..core.types import Array, Floats, Indices
from ..core.validation import float_type
from ..kernels import CompiledKernel
from ..kernels.cell_search import SLACK
from ..kernels.cells import Bisection
from ..kernels.neighbours import Index, Metric, least_hashes, n_sampled
from ..kernels.row_store import Observed, RowStore, Survey, laid_out
from ..posteriors.remote import NearestRequest, Remaining, RemoteJob
from .client import Client, DaskFuture, gathered, insist, shared, submit, workers_of

if TYPE_CHECKING:
    from ..selection.rows import Block
    from .table import ClusterTable

T = TypeVar("T")

PER_WORKER = 1  # bundles for each worker, at least: more divide rows more evenly, and mean more tasks for a prediction
COPIES = 8  # bundles that the memory of a worker must hold: its own, others' that it makes again, and copies meanwhile
PER_BUNDLE = 256  # rows of the sample for each bundle: the numbers of their rows then differ by some percent
TRIED = 32  # neighbours of the query that decides how a bundle is searched
AT_ONCE = 256  # blocks that are with the scheduler at a time: some ten megabytes of queries
GROWTH = 1.5  # factor by which the hashes that are asked for grow, until enough rows have less


class BundleLayout(NamedTuple):
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
    layout : BundleLayout
    """

    def __init__(self, parts: list[Observed], layout: BundleLayout) -> None:
        store = laid_out(*together(parts), layout.metric, layout.some)
        self.store = replace(store, X=store.X.astype(layout.dtype, copy=False))
        self._index = Index(layout.metric, store.Z)
        self._index.nearest(store.Z[:1, :-1], min(TRIED, len(store)))  # measures which way to search is the quicker one

    def radius(self, request: NearestRequest) -> Floats:
        """The squared distance of the k-th nearest row of every position; infinite if there are fewer rows."""
        positions, k = request
        if k > len(self.store) or not len(positions):
            return np.full(len(positions), np.inf)
        return np.asarray(self._distances(positions, self._index.nearest(positions, k)).max(axis=1))

    def within(self, request: NearestRequest, radius: Floats) -> Indices:
        """The rows among the k nearest of a position, and within its squared distance, of shape (positions,)."""
        found = self._index.nearest(request.positions, min(request.k, len(self.store)))
        near = self._distances(request.positions, found) <= SLACK * radius[:, None]
        return np.unique(found[near])

    def _distances(self, positions: Floats, found: Indices) -> Floats:
        """Squared distances to rows of shape (positions, rows), with what decides ties."""
        Z = self.store.Z[found]
        return np.asarray(np.square(Z[..., :-1] - positions[:, None]).sum(axis=2) + np.square(Z[..., -1]))

    def __sizeof__(self) -> int:
        """The bytes of its arrays, by which Dask decides what to spill to disk."""
        store = self.store
        return int(sum(array.nbytes for array in (store.X, store.Z, store.values, store.noises)))


class Summary(NamedTuple):
    """What the driver knows of a bundle."""

    n: int
    """Its distinct rows."""
    q: int
    """Values of a row."""
    low: Floats
    """Its least coordinates in the metric; of shape (columns,)."""
    high: Floats
    """Its largest coordinates."""


class Bundles:
    """All rows of a remainder, in bundles: `sodalite.posteriors.remote.RemoteRows`.

    Parameters
    ----------
    client : distributed.Client
    futures : list of distributed.Future
        Of the bundles.
    layout : BundleLayout
    """

    def __init__(self, client: Client, futures: list[DaskFuture], layout: BundleLayout) -> None:
        self.client, self.layout, self._futures = client, layout, futures
        found: list[Summary] = self.each(_summary, [()] * len(futures))
        self._low, self._high = np.stack([each.low for each in found]), np.stack([each.high for each in found])
        self.shape = sum(each.n for each in found), layout.some.shape[1], found[0].q

    def __len__(self) -> int:
        """The number of distinct rows."""
        return self.shape[0]

    @property
    def metric(self) -> Metric:
        """The metric of all bundles."""
        return self.layout.metric

    @property
    def some(self) -> Floats:
        """The rows of the least hashes, as `RowStore.some`."""
        return self.layout.some

    @property
    def n_stores(self) -> int:
        """The number of bundles."""
        return len(self._futures)

    def index(self, centre: Floats, weights: Floats) -> RemoteIndex:
        """What the driver knows of distances: it scales positions and draws samples, and finds no rows."""
        return RemoteIndex(self)

    def features(self, kernel: CompiledKernel) -> NoReturn:
        """Refuse: the rows are not here."""
        raise NotImplementedError

    def nearest_by_covariance(self, kernel: CompiledKernel, X: Array, k: int) -> NoReturn:
        """Refuse: rows are laid out only for kernels with a metric."""
        raise NotImplementedError

    def each(self, function: Callable[..., T], arguments: Sequence[tuple[Any, ...]]) -> list[T]:
        """The results of a function of every bundle's store, with further arguments for each."""

        def send(bundle: DaskFuture, some: tuple[Any, ...]) -> DaskFuture:
            return submit(self.client, _on_bundle, bundle, function, some)

        return self._insisted([partial(send, *job) for job in zip(self._futures, arguments, strict=True)])

    def answers(self, function: Callable[..., T], blocks: Sequence[RemoteJob]) -> list[T]:
        """The results of a function of some rows and further arguments, for several blocks of requests."""
        from dask.delayed import delayed

        self.revive()
        function_there, call = shared(self.client, function), delayed(_answer, pure=False)

        def send(block: RemoteJob) -> DaskFuture:
            asked, arguments = (delayed(part, pure=False, traverse=False) for part in block)
            return self.client.compute(call(function_there, self.gathered(asked), arguments))

        return self._insisted([partial(send, block) for block in blocks])

    def gathered(self, asked: Any) -> list[Any]:
        """Lazy parts of the rows, some of them empty, which have those of a block of requests among them.

        First, each request is answered by the bundle in whose box it is: how far the k-th nearest row is there. Then,
        all bundles that reach that near answer with their rows that may be among the nearest.

        Parameters
        ----------
        asked : dask.delayed.Delayed
            A list of `NearestRequest`.
        """
        from dask.delayed import delayed

        first, near = delayed(_first, pure=False), delayed(_near, pure=False)
        home = delayed(_home, pure=False)(asked, self._boxes)
        at_home = [first(bundle, asked, home, number) for number, bundle in enumerate(self._futures)]
        radius = delayed(_radius, pure=False)(home, at_home)
        boxes = zip(self._futures, self._low, self._high, strict=True)
        return [near(bundle, asked, radius, low, high) for bundle, low, high in boxes]

    def sample(self, most: int) -> Floats:
        """Positions of at most so many rows, those of the least hashes, in the order of these; (rows, columns)."""
        most, n = min(most, len(self)), len(self)
        level, parts = self.metric.tie * most / n, list[Floats]()
        while sum(map(len, parts)) < most:
            level *= GROWTH
            parts = self.each(_below, [(level,)] * len(self._futures))
        Z = np.concatenate(parts)
        return Z[least_hashes(Z[:, -1], most)][:, :-1]

    @cached_property
    def _boxes(self) -> DaskFuture:
        """The boxes, once for all tasks."""
        return shared(self.client, self.layout.boxes)

    def _insisted(self, jobs: Sequence[Callable[[], DaskFuture]]) -> list[Any]:
        """The results of jobs, each a function that returns a future; those that are lost with a worker begin anew."""
        self.revive()

        def send(numbers: list[int]) -> dict[int, DaskFuture]:
            return {number: jobs[number]() for number in numbers[:AT_ONCE]}

        found = gathered(self.client, range(len(jobs)), send, self.revive)
        return [found[number] for number in range(len(jobs))]

    def revive(self) -> None:
        """Have bundles made again whose making was given up, since it met with lost workers too often.

        A future is "lost" from the loss of its worker until the scheduler, which needs no word for that, has made its
        bundle again on another one.
        """
        if self.client.status != "running" or any(future.status == "cancelled" for future in self._futures):
            raise RuntimeError(
                "The cluster no longer has the rows of this model: it was restarted, or its client was closed. Fit "
                "the model again, or load a folder to which it was saved."
            )
        if failed := [future for future in self._futures if future.status == "error"]:
            self.client.retry(failed)


class RemoteIndex:
    """What the driver knows of distances between rows on the workers (`sodalite.kernels.neighbours.Finder`)."""

    def __init__(self, bundles: Bundles) -> None:
        self._bundles, self.columns = bundles, bundles.metric.columns

    def scaled(self, X: Array) -> Floats:
        """The relevant inputs of the rows X, scaled such that their distances are Euclidean."""
        return self._bundles.metric.scaled(X)

    def sample(self, most: int) -> Floats:
        """Positions of at most so many rows, by `least_hashes`; of shape (rows, columns)."""
        return self._bundles.sample(most)

    def query(self, X: Array, k: int) -> NoReturn:
        """Refuse: rows are found by `Bundles.answers`."""
        raise NotImplementedError

    def nearest(self, positions: Floats, k: int) -> NoReturn:
        """Refuse: rows are found by `Bundles.answers`."""
        raise NotImplementedError


def lay_out(table: ClusterTable, remaining: Remaining) -> Bundles:
    """Cut the rows of a table that are not active into bundles. Two passes over them, of which the second moves them.

    Parameters
    ----------
    table : ClusterTable
        Of Dask collections.
    remaining : Remaining
    """
    client, (_, d) = table.client, table.shape
    levels = _levels(client, (*table.shape, table.q))
    seen = table.map(_Surveyed(remaining, d, max(n_sampled(d), PER_BUNDLE * 2**levels)), Survey.merged)
    metric = seen.metric(remaining.kernel.centre, remaining.kernel.metric())
    boxes = Bisection.of(metric.scaled(seen.rows), levels)
    layout = BundleLayout(metric, boxes, np.ascontiguousarray(seen.rows[: n_sampled(d)]), float_type(table))
    bundles: list[Bundles] = []

    def attempt() -> bool:
        layout_there, split = shared(client, layout), table.submitted(_Split(remaining, layout))
        parts = [client.map(getitem, [piece] * len(boxes), range(len(boxes)), pure=False) for piece in split]
        homes = cycle(workers_of(client))  # so that no worker gets many of them; any other will do if it is lost
        futures = [
            submit(client, Bundle, list(each), layout_there, workers=[next(homes)], allow_other_workers=True)
            for each in zip(*parts, strict=True)
        ]
        bundles.append(Bundles(client, futures, layout))
        return True

    insist(attempt)
    return bundles[0]


def _levels(client: Client, shape: tuple[int, int, int]) -> int:
    """How often rows are bisected: `PER_WORKER` bundles a worker, more if the workers' memory is small."""
    n, d, q = shape
    workers = workers_of(client).values()
    limits = [int(worker.get("memory_limit") or 0) for worker in workers]
    most = min((limit for limit in limits if limit), default=0) / COPIES
    by_memory = 8 * n * (2 * d + q + 2) / most if most else 1
    return ceil(log2(max(PER_WORKER * len(limits), by_memory, 1)))


@dataclass(frozen=True)
class _Surveyed:
    """A function of a block that surveys those rows that are not active."""

    remaining: Remaining
    d: int
    most: int

    def __call__(self, block: Block) -> Survey:
        rows = self.remaining.inputs(block)
        return Survey([rows] if len(rows) else [], self.d, self.most)


@dataclass(frozen=True)
class _Split:
    """A function of a block that returns its rows that are not active, for every bundle."""

    remaining: Remaining
    layout: BundleLayout

    def __call__(self, block: Block) -> list[Observed]:
        X, values, noise = self.remaining.observed(block)
        place = self.layout.boxes.locate(self.layout.metric.scaled(X))
        order, count = np.argsort(place, kind="stable"), len(self.layout.boxes)
        edges = np.searchsorted(place[order], np.arange(1, count))
        return [(X[which], values[which], noise[which]) for which in np.split(order, edges)]


def _summary(store: RowStore) -> Summary:
    Z = store.Z[:, :-1]
    return Summary(len(store), store.values.shape[1], Z.min(axis=0), Z.max(axis=0))


def _below(store: RowStore, level: float) -> Floats:
    """Positions of the rows whose coordinate that decides ties is no larger than a number."""
    return np.asarray(store.Z[store.Z[:, -1] <= level])


def _on_bundle(bundle: Bundle, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """A function of the store of a bundle; runs on a worker."""
    with on_this_thread():
        return function(bundle.store, *arguments)


def _answer(function: Callable[..., Any], parts: list[Observed], arguments: tuple[Any, ...]) -> Any:
    """A function of the rows that were gathered for a block; runs on a worker."""
    with on_this_thread():
        return function(together(parts), *arguments)


def together(parts: list[Observed]) -> Observed:
    """Inputs, residuals and noise variances of several parts of the rows, one after the other."""
    X, values, noise = (np.concatenate(part) for part in zip(*parts, strict=True))
    return X, values, noise


def _home(asked: list[NearestRequest], boxes: Bisection) -> list[Indices]:
    """The bundles in whose boxes the positions of requests are."""
    return [boxes.locate(request.positions) for request in asked]


def _first(bundle: Bundle, asked: list[NearestRequest], home: list[Indices], number: int) -> list[Floats]:
    """How far the k-th nearest row of a bundle is from the positions at home there: squared distances."""
    at_home = zip(asked, home, strict=True)
    with on_this_thread():
        return [bundle.radius(NearestRequest(Z[there == number], k)) for (Z, k), there in at_home]


def _radius(home: list[Indices], at_home: list[list[Floats]]) -> list[Floats]:
    """The squared distances that all bundles have found, in the order of the positions."""
    found = list[Floats]()
    for place, there in enumerate(home):
        radius = np.empty(len(there))
        for number, parts in enumerate(at_home):
            radius[there == number] = parts[place]
        found.append(radius)
    return found


def _near(bundle: Bundle, asked: list[NearestRequest], radius: list[Floats], low: Floats, high: Floats) -> Observed:
    """The rows of a bundle that may be among the nearest of the positions of some requests."""
    found, store = [np.empty(0, dtype=np.intp)], bundle.store
    with on_this_thread():
        for (Z, k), furthest in zip(asked, radius, strict=True):
            gap = np.square(np.maximum(np.maximum(low - Z, Z - high), 0)).sum(axis=1)
            if (reach := gap <= SLACK * furthest).any():
                found.append(np.asarray(bundle.within(NearestRequest(Z[reach], k), furthest[reach])))
    which = np.unique(np.concatenate(found))
    return store.X[which], store.values[which], store.noises[which]
