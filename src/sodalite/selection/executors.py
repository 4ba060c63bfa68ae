"""Where the shards live. An executor has one method: `call` a method of every shard, and return all the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from ..core.threads import Pool, one_blas_thread
from .shard import Shard


class Executor(Protocol):
    """The extension point: anything that can call a method of every shard.

    If it has an attribute `n_workers`, those who follow the selection are told how many there are.
    """

    n_shards: int

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call the method of that name of every shard, in any order; return their answers in the shards' order."""
        ...


class ThreadExecutor:
    """Shards on this machine, built by calling `make` with each of `parts`, and shared out among threads.

    The linear algebra of each runs on its thread alone.
    """

    def __init__(self, make: Callable[[Any], Shard], parts: Sequence[Any], n_threads: int) -> None:
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
        """Call a method of every shard."""
        return self._pool.map(lambda shard: getattr(shard, method)(*arguments), self._shards)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._pool.close()
        finally:  # also if that is interrupted
            self._blas.__exit__(None, None, None)
