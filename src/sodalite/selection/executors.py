"""Executors, which hold the shards: `call` calls a method of every shard and returns the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from ..core.threads import Pool, one_blas_thread
from .shard import Shard

T = TypeVar("T")


class ShardsLostError(RuntimeError):
    """Shards do not know the calls so far, since they were lost and made again: the selection has to begin again."""


class Executor(Protocol):
    """The extension point: anything that can call a method of every shard."""

    n_shards: int
    n_workers: int
    """Threads, or workers of a cluster, that the shards are on, for those who follow the selection; 0 if unknown."""

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every shard, in any order; return the answers in the order of the shards."""
        ...


class ThreadExecutor:
    """Shards on this machine, on several threads. The linear algebra of a shard runs on one thread.

    Parameters
    ----------
    make : callable
        Makes the shard of a part.
    parts : sequence
        What the shards are made of.
    n_threads : int
        The most threads.
    """

    def __init__(self, make: Callable[[T], Shard], parts: Sequence[T], n_threads: int) -> None:
        self.n_shards = len(parts)
        self.n_threads = self.n_workers = min(n_threads, len(parts))
        self._pool = Pool(self.n_threads)
        self._blas = one_blas_thread()
        self._blas.__enter__()
        try:
            self._shards = self._pool.map(make, parts)
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every shard; return the answers in the order of the shards."""
        return self._pool.map(lambda shard: getattr(shard, method)(*arguments), self._shards)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._pool.close()
        finally:  # also if closing is interrupted
            self._blas.__exit__(None, None, None)
