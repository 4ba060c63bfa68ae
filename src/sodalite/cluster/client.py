"""The cluster: which client speaks for it, which workers there are, and whether an answer can still come."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError
from time import monotonic, sleep
from typing import Any

from .._optional import require

PATIENCE = 60.0  # seconds to wait for a worker when none is left
TRIES = 20  # times in a row that something may fail because workers are lost
LOOK = 1.0  # seconds between two looks at whether the workers are still there


class LostError(Exception):
    """What was asked for was on a worker that is gone; it has to be asked for again."""


def find_client(client: Any) -> Any:
    """The client that is given, or the one that is there."""
    distributed = require("distributed", "dask")
    if client is None:
        try:
            client = distributed.get_client()
        except ValueError as error:
            raise ValueError(
                "X is a Dask collection, but there is no client. Make one with dask.distributed.Client(...), and pass "
                "it as executor."
            ) from error
    if not isinstance(client, distributed.Client):
        raise TypeError(f"executor must be a dask.distributed.Client or None; got {client!r}.")
    if client.status != "running":
        raise ValueError(f"executor is a client that is {client.status}; make a new one.")
    return client


def workers_of(client: Any) -> dict[str, Any]:
    """The workers that there are, by their addresses, in order; waits a while for the first."""
    until = monotonic() + PATIENCE
    while True:
        if client.status != "running":
            raise RuntimeError(f"The client was {client.status} while it was needed.")
        workers = client.scheduler_info(n_workers=-1)["workers"]
        if workers:
            return dict(sorted(workers.items()))
        if monotonic() > until:
            raise RuntimeError(
                f"No worker of the cluster is left, and none came within {PATIENCE:.0f} seconds. Start "
                f"workers and begin again; what had a checkpoint goes on from there."
            )
        sleep(0.2)


def room(client: Any) -> int:
    """Bytes that the rows' v's may take: half of what all workers may use."""
    return sum(int(worker.get("memory_limit") or 0) for worker in workers_of(client).values()) // 2


def answer(client: Any, future: Any, home: str | None = None) -> Any:
    """The result of a future or of an actor's method, however long that takes, but only while it can still come.

    Parameters
    ----------
    client : distributed.Client
    future : distributed.Future or ActorFuture
    home : str, optional
        The worker that it comes from. If it comes from any, it is waited for while there is one.

    Raises
    ------
    LostError
        If the worker is gone. An error of the work itself is raised as it is.
    """
    while True:
        try:
            return future.result(timeout=LOOK)
        except TimeoutError as error:
            if future.done():
                try:  # in the meantime, or by an error of that type
                    return future.result(timeout=LOOK)
                except Exception as later:
                    raise_if_lost(future, later)
                    raise
            if home is not None and home not in workers_of(client):
                raise LostError(f"{home} is gone") from error
            workers_of(client)
        except (Exception, CancelledError) as error:
            raise_if_lost(future, error)
            raise


def raise_if_lost(future: Any, error: BaseException) -> None:
    """Tell errors on the way to the workers, Dask's own, from those of the work that was done there."""
    ours = type(error).__module__.startswith(("distributed", "tornado"))
    if isinstance(error, RuntimeError) and str(error).startswith("Worker holding Actor was lost"):
        ours = True
    # The work may fail with an OSError as well, by reading a file: then its future says that it has failed.
    way = isinstance(error, OSError | CancelledError) and getattr(future, "status", "") != "error"
    if ours or way:
        raise LostError(str(error)) from error


def submit(client: Any, function: Any, *arguments: Any, **options: Any) -> Any:
    """A future of a function's result; never one of an earlier call."""
    return client.submit(function, *arguments, pure=False, **options)


def insist(attempt: Callable[[], bool]) -> None:
    """Try until an attempt gets something done, though workers are lost meanwhile; but not for ever.

    Rows that are too large for a worker's memory would kill one after the other.
    """
    for number in range(TRIES):
        try:
            if attempt():
                return
        except LostError:
            pass
        sleep(min(0.05 * 2**number, 1.0))
    raise RuntimeError(
        f"{TRIES} times in a row, the workers that were asked for the same thing were lost. If they run out of memory, "
        f"use smaller partitions or more workers."
    )
