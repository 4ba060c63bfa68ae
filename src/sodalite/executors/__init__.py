"""Where the shards live. An executor has one method: `call` a method of every shard, and return all the answers."""

from __future__ import annotations

from typing import Any, Protocol

from .threads import ThreadExecutor

__all__ = ["Executor", "ThreadExecutor"]


class Executor(Protocol):
    """The extension point: anything that can call a method of every shard.

    If it has an attribute `n_workers`, those who follow the selection are told how many there are.
    """

    n_shards: int

    def call(self, method: str, *arguments: Any) -> list[Any]:
        """Call the method of that name of every shard, in any order; return their answers in the shards' order."""
        ...
