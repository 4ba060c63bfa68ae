"""The rows of a data set, wherever they are: in memory, on disk or on the workers of a cluster.

`Rows` is the protocol. `ArrayRows` are rows on this machine, in arrays or in array-likes that are read by slices;
`sodalite.cluster.rows.DaskRows` are rows on a cluster. A pass over all rows is a function of a `Block` that is
given to `Rows.map`; those that several steps of a fit need are functions in this module.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import DTypeLike
from sklearn.gaussian_process.kernels import Kernel

from ..core.files import said_if_full
from ..core.fingerprint import BLOCK as HASHED
from ..core.fingerprint import of_block
from ..core.memory import bytes_of
from ..core.threads import on_this_thread, threaded_map
from ..core.types import Array, Floats, Indices, Mask
from ..core.validation import LARGEST, check_not_large, check_not_small, float_type, reads_from_disk
from ..criteria import PointwiseCriterion
from ..kernels import CompiledKernel
from ..kernels.compiled import central_rows, compile_around
from ..kernels.default import steady
from .executors import Executor, ThreadExecutor
from .plan import fits_in_memory, make_plan
from .shard import Shard

BLOCK = 2**20  # numbers of X in a block, 8 MB
SHARES = 4  # results are combined in so many shares, whatever the number of cores: so rounding is the same
LONG = 64  # consecutive rows, on average, from which on a slice is read sooner than rows by their numbers
NOISE_ALONE = 4.0  # ratio of a row's own noise variance to that of the targets above which the row says nothing
ALL = sys.maxsize  # for `Rows.map`: blocks as large as possible, for functions of targets alone

T = TypeVar("T")


class Sliced(Protocol):
    """An array, a memory map or anything else that is indexed by a slice of rows or by their indices."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> Any: ...
    def __len__(self) -> int: ...
    def __getitem__(self, rows: Any, /) -> Any: ...


class Block:
    """Some rows, in memory.

    Parameters
    ----------
    X : array of shape (rows, d), or function
        Inputs, or a function that reads them: it is called when they are first used.
    y : array of shape (rows, q)
    alpha : array of shape (rows,), optional
        Noise variances beyond the kernel's.
    begin : int
        The number of the first row, if the rows are consecutive.
    """

    def __init__(self, X: Array | Callable[[], Array], y: Floats, alpha: Floats | None = None, begin: int = 0) -> None:
        self._X, self.y, self.alpha, self.begin = X, y, alpha, begin

    def __len__(self) -> int:
        return len(self.y)

    @property
    def X(self) -> Array:
        """Inputs, of shape (rows, d)."""
        if callable(self._X):
            self._X = self._X()
        return self._X

    def find(self, rows: Indices) -> tuple[slice, Indices]:
        """Which of some rows are in this block, and at which places. The rows' numbers are in increasing order."""
        first, last = np.searchsorted(rows, [self.begin, self.begin + len(self)])
        return slice(first, last), rows[first:last] - self.begin

    def between(self, begin: int, end: int) -> Block:
        """Consecutive rows of these, by their places."""
        here = slice(begin, end)
        alpha = None if self.alpha is None else self.alpha[here]
        return Block(lambda: self.X[here], self.y[here], alpha, self.begin + begin)

    def __reduce__(self) -> Any:
        return Block, (self.X, self.y, self.alpha, self.begin)


@dataclass(frozen=True)
class ShardSetup:
    """What a selection needs of its shards."""

    kernel: CompiledKernel
    criterion: PointwiseCriterion | None
    """The criterion that shards evaluate; None if every pick is forced."""
    m: int
    """The most active rows."""
    seed: int
    """Seed of the rows' random weights, for a sampled criterion."""
    memory_limit: float | str | None = None
    """Bytes, or a string such as "4GB"; half of the free memory if None."""

    def shard(self, read: Callable[[], Array], block: Block) -> Shard:
        """The shard of some consecutive rows, whose inputs a function reads whenever they are needed."""
        return Shard(read, block.y, block.begin, self.kernel, self.criterion, self.m, block.alpha, self.seed)


class Rows(Protocol):
    """All rows of a data set: inputs X, targets y and, for some, noise variances alpha beyond the kernel's."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and inputs, (n, d)."""
        ...

    @property
    def q(self) -> int:
        """Targets."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of X."""
        ...

    @property
    def has_alpha(self) -> bool:
        """Whether the rows have noise variances of their own."""
        ...

    def take(self, which: Indices) -> Block:
        """Some rows by their numbers, in that order."""
        ...

    def blocks(self) -> Iterator[Block]:
        """All rows in their order, a bounded number at a time."""
        ...

    @overload
    def map(self, function: Callable[[Block], T], *, most: int = 0) -> list[T]: ...
    @overload
    def map(self, function: Callable[[Block], T], combine: Callable[[T, T], T], most: int = 0) -> T: ...
    def map(self, function: Any, combine: Any = None, most: int = 0) -> Any:
        """Call a function for blocks of all rows, where the rows are: on threads, or on workers.

        Parameters
        ----------
        function : callable
            Takes a `Block`; can be pickled.
        combine : callable, optional
            Makes one result of two. Results are combined two by two, in any order; without it, they are returned as a
            list, in the order of the blocks.
        most : int
            The most rows of a block; by default, so many that X has `BLOCK` numbers. A function that holds more than
            that for a row asks for fewer.
        """
        ...

    def with_targets(self, function: Callable[[Block], tuple[Floats, Floats | None]]) -> Rows:
        """The rows with other targets and alpha, which a function of a block returns."""
        ...

    def shards(self, setup: ShardSetup) -> AbstractContextManager[tuple[Executor, bool]]:
        """The shards of all rows, and whether they keep the v's of their rows."""
        ...


@dataclass(frozen=True)
class ArrayRows:
    """Rows on this machine: arrays, or an X that is read by slices."""

    X: Any
    """Inputs, of shape (n, d): an array in memory, or anything that is `Sliced`."""
    y: Floats
    alpha: Floats | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and inputs, (n, d)."""
        n, d = self.X.shape
        return int(n), int(d)

    @property
    def q(self) -> int:
        """Targets."""
        return int(self.y.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of X."""
        dtype: np.dtype[Any] = np.dtype(self.X.dtype)
        return dtype

    @property
    def has_alpha(self) -> bool:
        """Whether the rows have noise variances of their own."""
        return self.alpha is not None

    @property
    def on_disk(self) -> bool:
        """Whether rows of X are read when they are needed: a memory map, or an X other than an array."""
        return reads_from_disk(self.X)

    @property
    def held(self) -> int:
        """Bytes that a reader of rows on disk takes for itself."""
        return int(getattr(self.X, "held_bytes", 0))

    def take(self, which: Indices) -> Block:
        """Some rows by their numbers, in that order."""
        return Block(_rows_of(self.X, which), self.y[which], None if self.alpha is None else self.alpha[which])

    def blocks(self) -> Iterator[Block]:
        """All rows in their order, a bounded number at a time."""
        yield from map(self._block, spans(*self.shape))

    def map(self, function: Any, combine: Any = None, most: int = 0) -> Any:
        """Call a function for blocks of all rows, on threads: see `Rows.map`."""
        parts = spans(*self.shape, most)
        if len(parts) == 1:
            found = function(self._block(parts[0]))
            return [found] if combine is None else found

        def call(part: slice) -> Any:
            with on_this_thread():  # other threads have other blocks
                return function(self._block(part))

        if combine is None:
            return threaded_map(call, parts)
        shares = [parts[at::SHARES] for at in range(min(SHARES, len(parts)))]
        return reduce(combine, threaded_map(lambda share: reduce(combine, map(call, share)), shares))

    def with_targets(self, function: Callable[[Block], tuple[Floats, Floats | None]]) -> ArrayRows:
        """The rows with other targets and alpha, which a function of a block returns."""
        y, alpha = zip(*self.map(function), strict=True)
        return ArrayRows(self.X, np.concatenate(y), None if alpha[0] is None else np.concatenate(alpha))

    @contextmanager
    def shards(self, setup: ShardSetup) -> Iterator[tuple[Executor, bool]]:
        """The shards of all rows on threads of this machine, and whether they keep the v's of their rows."""
        kernel = setup.kernel
        width = bytes_of(kernel.prepare(np.asarray(self.X[:1])))
        plan = make_plan(len(self.y), setup.m, self.q, kernel.dtype, setup.memory_limit, width, self.held)
        setup = setup if plan.keep else replace(setup, m=0)

        def make(part: tuple[int, int]) -> Shard:
            here = slice(*part)
            return setup.shard(lambda: self.X[here], self._block(here))

        with ThreadExecutor(make, plan.parts, plan.n_threads) as threads:
            yield threads, plan.keep

    def _block(self, here: slice) -> Block:
        """Consecutive rows, whose X is read when it is first used."""
        alpha = None if self.alpha is None else self.alpha[here]
        return Block(lambda: np.asarray(self.X[here]), self.y[here], alpha, here.start)


def _rows_of(X: Sliced, which: Indices) -> Array:
    """Some rows of X by their numbers; by slices if these are long, or if X takes nothing else."""
    runs = np.split(which, np.flatnonzero(np.diff(which) != 1) + 1)
    if len(which) < LONG * len(runs):
        try:
            found = np.asarray(X[which])
        except (TypeError, ValueError, IndexError, NotImplementedError, AttributeError):
            found = np.empty(0)
        if found.shape == (len(which), X.shape[1]):
            return found
    return np.concatenate([np.asarray(X[run[0] : run[-1] + 1]) for run in runs])


def spans(n: int, d: int, most: int = 0) -> list[slice]:
    """The blocks of n rows of d inputs, as `Rows.map` has them."""
    size = min(most or max(1, BLOCK // d), n)
    return [slice(begin, min(begin + size, n)) for begin in range(0, n, size)]


@dataclass(frozen=True)
class Scaling:
    """The targets' means and standard deviations, by which they are centred and scaled; each of shape (q,)."""

    mean: Floats
    std: Floats

    def __call__(self, block: Block) -> tuple[Floats, Floats | None]:
        """Scaled targets, of shape (rows, q), and the rows' own noise variances in the units of these."""
        alpha = block.alpha
        return self.scaled(block.y), None if alpha is None else self.scaled_alpha(alpha)

    def scaled(self, y: Floats) -> Floats:
        """Targets, of shape (rows, q), centred and scaled."""
        return np.asarray((y - self.mean) / self.std)

    def scaled_alpha(self, alpha: Floats) -> Floats:
        """Noise variances, of shape (n,), in units of the scaled targets; of several targets, they are so already."""
        if len(self.std) == 1:
            with np.errstate(over="ignore"):
                alpha = alpha / self.std[0] ** 2
        return np.minimum(alpha, LARGEST)  # a row with that much noise has no influence, with more noise neither

    def undone(self, y: Floats) -> Floats:
        """Targets in their own units, from scaled ones; of shape (rows, q)."""
        return np.asarray(y * self.std + self.mean)

    @property
    def unit(self) -> float:
        """The value of one unit of the scaled target in the target's own unit; 1 for several targets."""
        return float(self.std[0]) if len(self.std) == 1 else 1.0


@dataclass(frozen=True)
class Residuals:
    """Targets less what a function of X predicts, or less what is known for some rows; see `Rows.with_targets`."""

    function: Callable[[Array], Floats | float]
    rows: Indices
    """Rows whose predictions are known, in increasing order."""
    known: Floats
    """These predictions, of shape (rows, q)."""

    def __call__(self, block: Block) -> tuple[Floats, Floats | None]:
        """The residuals, of shape (rows, q), and alpha as it is."""
        which, places = block.find(self.rows)
        y, rest = np.array(block.y, dtype=np.float64), np.ones(len(block), dtype=bool)
        y[places] -= self.known[which]
        rest[places] = False
        if rest.any():
            y[rest] -= self.function(block.X[rest])
        return y, block.alpha


@dataclass(frozen=True)
class Weighted:
    """Noise variances divided by the rows' weights; see `Rows.with_targets`.

    The kernel's noise, which every row has, is not part of alpha. So a row of weight w gets

        alpha / w + noise(x) (scale / w - base),

    which makes its noise (alpha + noise(x)) / w with a scale and base of 1. A row of weight 0 gets huge noise.
    """

    weights: Floats
    """Of all rows, of shape (n,)."""
    kernel: CompiledKernel | None = None
    """The kernel whose noise is divided, in float64; None to divide alpha alone."""
    scale: float = 1.0
    base: float = 1.0

    @property
    def adds_alpha(self) -> bool:
        """Whether rows have an alpha afterwards that had none."""
        return self.kernel is not None or not self.weights.all()

    def __call__(self, block: Block) -> tuple[Floats, Floats | None]:
        """The targets, of shape (rows, q), and alpha in units of these."""
        if block.alpha is None and not self.adds_alpha:
            return block.y, None
        weights = self.weights[block.begin : block.begin + len(block)]
        out, inverse = weights == 0, 1 / np.maximum(weights, 1 / LARGEST)
        alpha = np.zeros(len(block)) if block.alpha is None else block.alpha * inverse
        if self.kernel is not None:
            noise = self.kernel.noise(self.kernel.prepare(np.asarray(block.X, dtype=np.float64)))
            alpha = alpha + noise * (self.scale * inverse - self.base)
        return np.where(out[:, None], 0.0, block.y), np.where(out, LARGEST, np.minimum(alpha, LARGEST))


# Passes over all rows


def add(first: tuple[Floats, ...], second: tuple[Floats, ...]) -> tuple[Floats, ...]:
    """The sums of two tuples of arrays, for `Rows.map`."""
    return tuple(a + b for a, b in zip(first, second, strict=True))


def targets(rows: Rows) -> tuple[Floats, Floats | None]:
    """The targets of all rows, of shape (n, q), and their alpha, of shape (n,)."""
    y, alpha = zip(*rows.map(_targets, most=ALL), strict=True)
    return np.concatenate(y), None if alpha[0] is None else np.concatenate(alpha)


def _targets(block: Block) -> tuple[Floats, Floats | None]:
    return block.y, block.alpha


def check_inputs(rows: ArrayRows) -> None:
    """Refuse rows on disk with values that are NaN, infinite or too large, and columns of values that are too small."""
    check_not_small("X", np.max(rows.map(_largest), axis=0))


def _largest(block: Block) -> Floats:
    """The largest absolute value of every input; an error names the first row that is not finite or too large."""
    bad = np.flatnonzero(~np.isfinite(block.X).all(axis=1))
    if len(bad):
        row = block.begin + bad[0]
        raise ValueError(f"X contains NaN or infinite values, in row {row} for one. Drop such rows.")
    return check_not_large("X", block.X, block.begin)


def check_size_of_targets(rows: Rows) -> None:
    """Refuse targets so small that their squares would underflow."""
    check_not_small("y", np.max(rows.map(_largest_targets, most=ALL), axis=0))


def _largest_targets(block: Block) -> Floats:
    return np.asarray(np.abs(block.y).max(axis=0))


def fingerprints(rows: Rows) -> dict[str, int]:
    """Fingerprints of X, of y and, if there is one, of alpha (`sodalite.core.fingerprint`)."""
    parts = rows.map(_fingerprint, most=HASHED // max(*rows.shape[1:], rows.q) + 1)
    names = ("X", "y", "alpha") if rows.has_alpha else ("X", "y")
    return {name: sum(same) % 2**64 for name, same in zip(names, zip(*parts, strict=True), strict=True)}


def _fingerprint(block: Block) -> list[int]:
    arrays = [block.X, block.y] if block.alpha is None else [block.X, block.y, block.alpha]
    return [of_block(array, block.begin) for array in arrays]


def moments(rows: Rows, weights: Floats | None = None) -> Scaling:
    """Means and standard deviations of the targets; a standard deviation of 1 for a constant target.

    Rows that are noise alone do not count. Two passes, so that no digits cancel.
    """
    if weights is not None:
        y, counts = targets(rows)[0], weights > 0
        mean = np.average(y, axis=0, weights=weights)
        std = np.sqrt(np.average(np.square(y - mean), axis=0, weights=weights))
        return Scaling(mean, steady(std, np.abs(y[counts]).max(axis=0)))
    noise = noise_alone(rows)
    if noise.any():
        y = targets(rows)[0][~noise]
        rows = ArrayRows(y, y)
    totals, least, most = (np.array(part) for part in zip(*rows.map(_range, most=ALL), strict=True))
    n, low, high = rows.shape[0], least.min(axis=0), most.max(axis=0)
    # The computed mean of equal numbers may differ from them by rounding, which would be taken for a signal.
    mean = np.where(high > low, totals.sum(axis=0) / n, low)
    (squares,) = rows.map(_Deviations(mean), add, ALL)
    return Scaling(mean, steady(np.sqrt(squares / n), np.maximum(np.abs(low), np.abs(high))))


def _range(block: Block) -> tuple[Floats, Floats, Floats]:
    return block.y.sum(axis=0), block.y.min(axis=0), block.y.max(axis=0)


@dataclass(frozen=True)
class _Deviations:
    """The sums of each target's squared deviations from a value."""

    middle: Floats

    def __call__(self, block: Block) -> tuple[Floats]:
        return (np.square(block.y - self.middle).sum(axis=0),)


def noise_alone(rows: Rows) -> Mask:
    """Which rows are noise alone: their alpha is far larger than the variance of the targets of rows without it.

    Of several targets, whose alpha is in other units, only rows of weight 0 (`Weighted`). Of shape (n,).
    """
    nothing = np.zeros(rows.shape[0], dtype=bool)
    if not rows.has_alpha:
        return nothing
    y, alpha = targets(rows)
    assert alpha is not None
    if rows.q > 1:
        return np.asarray(alpha >= LARGEST)
    squares = np.square(y[:, 0] - np.median(y))
    alone = alpha > NOISE_ALONE * np.maximum(squares - alpha, 0).mean()
    return nothing if alone.all() else np.asarray(alone)


# Rows on this machine


def check_plan(rows: Rows, m: int, memory_limit: float | str | None) -> None:
    """Refuse a memory limit within which m of these rows cannot be chosen on this machine."""
    if isinstance(rows, ArrayRows):
        make_plan(rows.shape[0], m, rows.q, np.float64, memory_limit, held=rows.held)


def bring_here(rows: Rows, memory_limit: float | str | None) -> ArrayRows:
    """All rows on this machine: as they are, or else in memory if they fit, or on disk, in a file that has no name."""
    if isinstance(rows, ArrayRows):
        return rows
    return in_memory(rows) if fits_in_memory(*rows.shape, rows.q, memory_limit) else on_disk(rows)


def in_memory(rows: Rows) -> ArrayRows:
    """All rows, as arrays in memory."""
    if isinstance(rows, ArrayRows) and not rows.on_disk:
        return rows
    X = np.empty(rows.shape, dtype=float_type(rows))
    for block in rows.blocks():
        X[block.begin : block.begin + len(block)] = block.X
    return ArrayRows(X, *targets(rows))


def on_disk(rows: Rows) -> ArrayRows:
    """A copy of all rows whose inputs are in a temporary file, which is gone once the array is."""
    dtype = float_type(rows)
    with said_if_full(tempfile.gettempdir()), tempfile.TemporaryFile(prefix="sodalite-") as file:
        for block in rows.blocks():
            file.write(np.ascontiguousarray(block.X, dtype=dtype).data)
        file.flush()
        return ArrayRows(np.memmap(file, dtype=dtype, mode="r", shape=rows.shape), *targets(rows))


def sample(rows: Rows, most: int, generator: np.random.Generator) -> ArrayRows:
    """A random sample of at most `most` rows, in their order."""
    n = rows.shape[0]
    if n <= most:
        return in_memory(rows)
    some = rows.take(np.sort(generator.choice(n, most, replace=False)))
    return ArrayRows(some.X, some.y, some.alpha)


def compiled_for(rows: Rows, kernel: Kernel, dtype: DTypeLike = np.float64) -> CompiledKernel:
    """A kernel compiled for the rows: inputs are centred on some of them."""
    some = np.concatenate([rows.take(part).X for part in central_rows(rows.shape[0])])
    return compile_around(kernel, some, dtype)
