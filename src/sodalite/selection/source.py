"""All rows of a data set, wherever they are: in memory, on disk or on a cluster.

`Source` is what the steps of a fit ask of them. `Arrays` is the one for this machine;
`sodalite.cluster.table.ClusterTable` the one for a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from ..core.fingerprint import fingerprint
from ..core.memory import bytes_of, check_all_rows, make_plan
from ..core.types import Array
from ..core.validation import check_by_number, check_finite, is_on_disk, scaled_alpha
from ..kernels import CompiledKernel, spread
from ..scores import PointwiseScore
from .executors import Executor, ThreadExecutor
from .shard import Shard

Sums = Callable[[Any, Any, Any], tuple[Array, ...]]
"""A function of X, y and alpha of some rows, whose results for parts of the rows add up to that for all."""


class Sliced(Protocol):
    """Something that gives rows when it is indexed by a slice or by their numbers: an array, a memory map, ..."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Any: ...
    def __len__(self) -> int: ...
    def __getitem__(self, rows: Any, /) -> Any: ...


@dataclass(frozen=True)
class Scaling:
    """The targets' means and standard deviations, by which they are centred and scaled; each of shape (q,)."""

    mean: Array
    std: Array

    def __call__(self, y: Array, alpha: Array | None) -> tuple[Array, Array | None]:
        """Scaled targets, of shape (rows, q), and the rows' own noise variances in their units."""
        return (y - self.mean) / self.std, None if alpha is None else scaled_alpha(alpha, self.std)

    @property
    def unit(self) -> float:
        """What one unit of the scaled targets is worth where one number stands for all; 1 for several targets."""
        return float(self.std[0]) if len(self.std) == 1 else 1.0


@dataclass(frozen=True)
class ShardSetup:
    """What the shards of a selection are made for."""

    kernel: CompiledKernel
    score: PointwiseScore | None
    """The score that shards evaluate; None if every pick is given."""
    m: int
    """The most active rows."""
    seed: int
    """What the rows' random numbers follow from, where the score is sampled."""
    n_jobs: int | None = None
    memory_limit: Any = None


class Source(Protocol):
    """All rows of a data set: what the steps of a fit ask of them."""

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

    def check(self, needs_all_rows: bool, memory_limit: Any, say: Callable[[str], None]) -> Self:
        """The rows, seen to be such that a model can be fitted to them.

        With `needs_all_rows`, all of them will be needed in memory; an error says if there is no room. `say` is told
        what is being done if it takes long.
        """
        ...

    def check_room(self, m: int, dtype: np.dtype[Any], n_jobs: int | None, memory_limit: Any) -> None:
        """Refuse a memory limit in which m rows cannot be chosen."""
        ...

    def moments(self) -> Scaling:
        """The targets' means and standard deviations; 1 for a target that is constant."""
        ...

    def scaled(self, scaling: Scaling) -> Self:
        """The same rows, with scaled targets."""
        ...

    def total(self, sums: Sums) -> tuple[Array, ...]:
        """What a function of X, y and alpha of some rows comes to over all rows."""
        ...

    def fingerprints(self) -> dict[str, int]:
        """A number of X, of y and, if there is any, of alpha, by which they are known again."""
        ...

    def shards(self, setup: ShardSetup) -> AbstractContextManager[tuple[Executor, bool]]:
        """The shards of all rows, and whether they keep the coordinates v of their rows."""
        ...


@dataclass(frozen=True)
class Arrays:
    """Rows on this machine: arrays, or anything that gives rows of X when it is sliced."""

    X: Any
    y: Array
    alpha: Array | None = None

    @property
    def on_disk(self) -> bool:
        """Whether rows of X are read when they are asked for."""
        return is_on_disk(self.X)

    def check(self, needs_all_rows: bool, memory_limit: Any, say: Callable[[str], None]) -> Arrays:
        """The rows, after a pass over those on disk; arrays have been checked when they were given."""
        if not self.on_disk:
            return self
        if needs_all_rows:
            check_all_rows(self.X.shape[0], self.X.shape[1], self.y.shape[1], memory_limit)
        check_by_number(self.X)
        say("Looking at all rows")
        check_finite(self.X)
        return in_memory(self) if needs_all_rows else self

    def check_room(self, m: int, dtype: np.dtype[Any], n_jobs: int | None, memory_limit: Any) -> None:
        """Refuse a memory limit in which m rows cannot be chosen."""
        make_plan(len(self.X), m, self.y.shape[1], dtype, n_jobs, memory_limit, held=self._held)

    def moments(self) -> Scaling:
        """The targets' means and standard deviations; 1 for a target that is constant."""
        # The mean of equal numbers need not be that number, and what is left would be taken for a signal.
        mean = np.where(np.ptp(self.y, axis=0) > 0, self.y.mean(axis=0), self.y[0])
        return Scaling(mean, spread(self.y))

    def scaled(self, scaling: Scaling) -> Arrays:
        """The same rows, with scaled targets."""
        y, alpha = scaling(self.y, self.alpha)
        return replace(self, y=y, alpha=alpha)

    def total(self, sums: Sums) -> tuple[Array, ...]:
        """What a function of X, y and alpha of some rows comes to over all rows."""
        return sums(self.X, self.y, self.alpha)

    def fingerprints(self) -> dict[str, int]:
        """A number of X, of y and, if there is any, of alpha, by which they are known again."""
        parts = {"X": self.X, "y": self.y} | ({} if self.alpha is None else {"alpha": self.alpha})
        return {name: fingerprint(part) for name, part in parts.items()}

    @contextmanager
    def shards(self, setup: ShardSetup) -> Iterator[tuple[Executor, bool]]:
        """The shards of all rows, on threads, and whether they keep the coordinates v of their rows."""
        X, y, alpha, kernel = self.X, self.y, self.alpha, setup.kernel
        width = bytes_of(kernel.prepare(np.asarray(X[:1])))
        plan = make_plan(len(y), setup.m, y.shape[1], kernel.dtype, setup.n_jobs, setup.memory_limit, width, self._held)

        def make(part: tuple[int, int]) -> Shard:
            own = None if alpha is None else alpha[slice(*part)]
            return Shard(X, y[slice(*part)], *part, kernel, setup.score, setup.m if plan.keep else 0, own, setup.seed)

        with ThreadExecutor(make, plan.parts, plan.n_threads) as threads:
            yield threads, plan.keep

    @property
    def _held(self) -> int:
        """Bytes that a reader of rows on disk keeps for itself."""
        return int(getattr(self.X, "held_bytes", 0))


def in_memory(source: Source) -> Arrays:
    """All rows of a source, read or fetched."""
    X = source.X
    if isinstance(source, Arrays) and not source.on_disk:
        return source
    alpha = source.alpha
    inputs = np.asarray(X[:], dtype=np.float32 if X.dtype == np.float32 else np.float64)
    return Arrays(inputs, np.asarray(source.y[:]), None if alpha is None else np.asarray(alpha[:]))


def sample(source: Source, most: int, generator: np.random.Generator) -> Arrays:
    """At most so many rows of a source, in order, drawn at random if it has more."""
    n = len(source.X)
    if n <= most:
        return in_memory(source)
    rows = np.sort(generator.choice(n, most, replace=False))
    alpha = source.alpha
    return Arrays(np.asarray(source.X[rows]), source.y[rows], None if alpha is None else alpha[rows])
