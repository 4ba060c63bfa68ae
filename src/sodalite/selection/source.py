"""Sources of rows: a data set in memory, on disk or on a cluster, as the steps of a fit use it.

`Source` is the protocol. `Arrays` is the source for this machine, and that for a cluster is
`sodalite.cluster.table.ClusterTable`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal, Protocol, Self, TypeVar

import numpy as np

from ..core.files import said_if_full
from ..core.fingerprint import fingerprint
from ..core.memory import bytes_of, check_disk, fits_in_memory, make_plan, too_many_rows
from ..core.types import Floats, Indices, Mask
from ..core.validation import check_by_number, check_finite, float_type, reads_from_disk, scaled_alpha
from ..kernels import CompiledKernel, spread
from ..scores import PointwiseScore
from .executors import Executor, ThreadExecutor
from .shard import Shard

NOISE_ALONE = 4.0  # ratio of a row's own noise variance to that of the targets above which the row says nothing
BLOCK = 2**20  # numbers of X that are read at a time, 8 MB

T = TypeVar("T")

Needs = Literal["passes", "all", "all in memory"]
"""What a posterior needs of the rows: passes over them where they are, or all of them on this machine, or in memory."""

Sums = Callable[[Any, Any, Any], tuple[Floats, ...]]
"""A function of X, y and alpha of some rows, whose results for parts of the rows add up to that for all rows."""


class Sliced(Protocol):
    """An array, a memory map or anything else that is indexed by a slice of rows or by their indices."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Any: ...
    def __len__(self) -> int: ...
    def __getitem__(self, rows: Any, /) -> Any: ...


@dataclass(frozen=True)
class Scaling:
    """The targets' means and standard deviations, by which they are centred and scaled; each of shape (q,)."""

    mean: Floats
    std: Floats

    def __call__(self, y: Floats, alpha: Floats | None) -> tuple[Floats, Floats | None]:
        """Scaled targets, of shape (rows, q), and the rows' own noise variances in the units of these."""
        return (y - self.mean) / self.std, None if alpha is None else scaled_alpha(alpha, self.std)

    def undone(self, y: Floats) -> Floats:
        """Targets in their own units, from scaled ones; of shape (rows, q)."""
        return np.asarray(y * self.std + self.mean)

    @property
    def unit(self) -> float:
        """The value of one unit of the scaled target in the target's own unit; 1 for several targets."""
        return float(self.std[0]) if len(self.std) == 1 else 1.0


@dataclass(frozen=True)
class ShardSetup:
    """What a selection needs of its shards."""

    kernel: CompiledKernel
    score: PointwiseScore | None
    """The score that shards evaluate; None if every pick is given."""
    m: int
    """The most active rows."""
    seed: int
    """Seed of the rows' random weights, for a sampled score."""
    n_jobs: int | None = None
    memory_limit: float | str | None = None
    """Bytes, or a string such as "4GB"; half of the free memory if None."""


class Source(Protocol):
    """All rows of a data set, as the steps of a fit use them."""

    @property
    def X(self) -> Sliced:
        """Inputs, of shape (n, d)."""
        ...

    @property
    def y(self) -> Sliced:
        """Targets, of shape (n, q)."""
        ...

    @property
    def alpha(self) -> Sliced | None:
        """Noise variance of each row beyond the kernel's, of shape (n,); None if there is none."""
        ...

    @property
    def here(self) -> Arrays | None:
        """The rows, if they are on this machine; None if they are elsewhere."""
        ...

    def check(self, needs: Needs, memory_limit: float | str | None, say: Callable[[str], None]) -> Self:
        """The source, once its rows are checked: a model can be fitted to them.

        If all rows are needed, they will be in memory if there is enough. If not, they will be on disk; an error says
        if there is no room for them, or if they are needed in memory. `say` is called with the name of a step that
        takes long.
        """
        ...

    def check_room(self, m: int, dtype: np.dtype[Any], n_jobs: int | None, memory_limit: float | str | None) -> None:
        """Refuse a memory limit within which m rows cannot be chosen."""
        ...

    def moments(self) -> Scaling:
        """Means and standard deviations of the targets; a standard deviation of 1 for a constant target."""
        ...

    def scaled(self, scaling: Scaling) -> Self:
        """The source with scaled targets and alpha."""
        ...

    def less(self, function: Callable[[Any], Floats | float], rows: Indices, known: Floats) -> Self:
        """The source with the targets' residuals: less what a function of X, of shape (rows, d), predicts.

        For the rows that are given, in increasing order, `known` is subtracted instead, of shape (rows, q).
        """
        ...

    def total(self, sums: Sums) -> tuple[Floats, ...]:
        """The sums over all rows that a function returns for parts of them."""
        ...

    def combined(self, function: Callable[[int, Any], T], combine: Callable[[T, T], T]) -> T:
        """The results of a function for parts of the rows, combined two by two, in any order.

        The function gets the number of a part's first row, and the part's rows of X, of shape (rows, d).
        """
        ...

    def fingerprints(self) -> dict[str, int]:
        """Fingerprints of X, of y and, if there is one, of alpha (`sodalite.core.fingerprint`)."""
        ...

    def shards(self, setup: ShardSetup) -> AbstractContextManager[tuple[Executor, bool]]:
        """The shards of all rows, and whether they keep the v's of their rows."""
        ...


@dataclass(frozen=True)
class Arrays:
    """A source of rows on this machine: arrays, or an X that is read by slices."""

    X: Any
    """Inputs, of shape (n, d): an array in memory, or anything that is `Sliced`."""
    y: Floats
    alpha: Floats | None = None

    @property
    def here(self) -> Arrays:
        """The rows themselves."""
        return self

    @property
    def on_disk(self) -> bool:
        """Whether rows of X are read when they are needed: a memory map, or an X that is no array."""
        return reads_from_disk(self.X)

    def check(self, needs: Needs, memory_limit: float | str | None, say: Callable[[str], None]) -> Arrays:
        """The source, once rows on disk are checked; arrays in memory were checked when the user gave them."""
        if not self.on_disk:
            return self
        fits = needs != "passes" and check_room(self, needs, memory_limit)
        check_by_number(self.X)
        say("Looking at all rows")
        check_finite(self.X)
        return in_memory(self) if fits else self

    def check_room(self, m: int, dtype: np.dtype[Any], n_jobs: int | None, memory_limit: float | str | None) -> None:
        """Refuse a memory limit within which m rows cannot be chosen."""
        make_plan(len(self.X), m, self.y.shape[1], dtype, n_jobs, memory_limit, held=self._held)

    def moments(self) -> Scaling:
        """Means and standard deviations of the targets; a standard deviation of 1 for a constant target."""
        return moments_of(self.y if self.alpha is None else self.y[~noise_alone(self.y, self.alpha)])

    def scaled(self, scaling: Scaling) -> Arrays:
        """The source with scaled targets and alpha."""
        y, alpha = scaling(self.y, self.alpha)
        return replace(self, y=y, alpha=alpha)

    def less(self, function: Callable[[Any], Floats | float], rows: Indices, known: Floats) -> Arrays:
        """The source with the targets' residuals: less what a function predicts, or `known` for some rows."""
        X, y, size = self.X, self.y, max(1, BLOCK // self.X.shape[1])
        blocks = [slice(begin, begin + size) for begin in range(0, len(y), size)]
        parts = [residuals(X[block], y[block], block.start, function, rows, known) for block in blocks]
        return replace(self, y=np.concatenate(parts))

    def total(self, sums: Sums) -> tuple[Floats, ...]:
        """The sums over all rows that a function returns for parts of them."""
        return sums(self.X, self.y, self.alpha)

    def combined(self, function: Callable[[int, Any], T], combine: Callable[[T, T], T]) -> T:
        """The results of a function for parts of the rows, which are read one after the other, combined."""
        size = max(1, BLOCK // self.X.shape[1])
        parts = ((begin, np.asarray(self.X[begin : begin + size])) for begin in range(0, len(self.X), size))
        return reduce(combine, (function(*part) for part in parts))

    def fingerprints(self) -> dict[str, int]:
        """Fingerprints of X, of y and, if there is one, of alpha (`sodalite.core.fingerprint`)."""
        parts = {"X": self.X, "y": self.y} | ({} if self.alpha is None else {"alpha": self.alpha})
        return {name: fingerprint(part) for name, part in parts.items()}

    @contextmanager
    def shards(self, setup: ShardSetup) -> Iterator[tuple[Executor, bool]]:
        """The shards of all rows on threads of this machine, and whether they keep the v's of their rows."""
        X, y, alpha, kernel = self.X, self.y, self.alpha, setup.kernel
        width = bytes_of(kernel.prepare(np.asarray(X[:1])))
        plan = make_plan(len(y), setup.m, y.shape[1], kernel.dtype, setup.n_jobs, setup.memory_limit, width, self._held)

        def make(part: tuple[int, int]) -> Shard:
            rows, capacity = slice(*part), setup.m if plan.keep else 0
            noise = None if alpha is None else alpha[rows]
            return Shard(X, y[rows], *part, kernel, setup.score, capacity, noise, setup.seed)

        with ThreadExecutor(make, plan.parts, plan.n_threads) as threads:
            yield threads, plan.keep

    @property
    def _held(self) -> int:
        """Bytes that a reader of rows on disk takes for itself."""
        return int(getattr(self.X, "held_bytes", 0))


def moments_of(y: Floats) -> Scaling:
    """Means and standard deviations of targets of shape (n, q); a standard deviation of 1 for a constant target."""
    # The computed mean of equal numbers may differ from them by rounding, which would be taken for a signal.
    mean = np.where(np.ptp(y, axis=0) > 0, y.mean(axis=0), y[0])
    return Scaling(mean, spread(y))


def noise_alone(y: Floats, alpha: Floats) -> Mask:
    """Which rows are nothing but noise: their alpha is far larger than the variance of the targets of rows without it.

    None of several targets, whose alpha is in other units. Of shape (n,).
    """
    nothing = np.zeros(len(y), dtype=bool)
    if y.shape[1] > 1:
        return nothing
    squares = np.square(y[:, 0] - np.median(y))
    found = alpha > NOISE_ALONE * np.maximum(squares - alpha, 0).mean()
    return nothing if found.all() else np.asarray(found)


def residuals(
    X: Any, y: Floats, begin: int, function: Callable[[Any], Floats | float], rows: Indices, known: Floats
) -> Floats:
    """Targets less what a function of X predicts, or less `known`, for consecutive rows from `begin` on; (rows, q).

    `rows`, in increasing order, and `known`, of shape (rows, q), are as in `Source.less`; only some may be among these.
    """
    first, last = np.searchsorted(rows, [begin, begin + len(y)])
    places = rows[first:last] - begin
    out = np.array(y, dtype=np.float64)
    out[places] -= known[first:last]
    rest = np.ones(len(y), dtype=bool)
    rest[places] = False
    if rest.any():
        out[rest] -= function(np.asarray(X)[rest])
    return out


def check_room(source: Source, needs: Needs, memory_limit: float | str | None) -> bool:
    """Whether all rows of a source fit into memory; an error says so if they do not, and cannot be on disk either."""
    (n, d), q = source.X.shape, source.y.shape[1]
    if fits_in_memory(n, d, q, memory_limit):
        return True
    if needs == "all in memory":
        raise too_many_rows(n, d, q, memory_limit)
    check_disk(n, d, q)
    return False


def brought_here(source: Source, memory_limit: float | str | None) -> Arrays:
    """All rows of a source on this machine: in memory if they fit, else on disk, in a file that has no name."""
    if source.here is not None:
        return source.here
    n, d = source.X.shape
    return in_memory(source) if fits_in_memory(n, d, source.y.shape[1], memory_limit) else on_disk(source)


def on_disk(source: Source) -> Arrays:
    """A copy of a source whose inputs are in a temporary file, which is gone once the array is."""
    n, d = source.X.shape
    dtype = float_type(source.X)
    with said_if_full(tempfile.gettempdir()), tempfile.TemporaryFile(prefix="sodalite-") as file:
        for begin in range(0, n, size := BLOCK // d + 1):
            file.write(np.ascontiguousarray(source.X[begin : begin + size], dtype=dtype).data)
        file.flush()
        X = np.memmap(file, dtype=dtype, mode="r", shape=(n, d))
    alpha = source.alpha
    return Arrays(X, np.asarray(source.y[:]), None if alpha is None else np.asarray(alpha[:]))


def in_memory(source: Source) -> Arrays:
    """All rows of a source, as arrays in memory."""
    if (here := source.here) is not None and not here.on_disk:
        return here
    X, alpha = source.X, source.alpha
    return Arrays(
        np.asarray(X[:], dtype=float_type(X)), np.asarray(source.y[:]), None if alpha is None else np.asarray(alpha[:])
    )


def sample(source: Source, most: int, generator: np.random.Generator) -> Arrays:
    """A random sample of at most `most` rows of a source, in their order; all rows if it has no more."""
    n = len(source.X)
    if n <= most:
        return in_memory(source)
    indices = np.sort(generator.choice(n, most, replace=False))
    alpha = source.alpha
    return Arrays(np.asarray(source.X[indices]), source.y[indices], None if alpha is None else alpha[indices])
