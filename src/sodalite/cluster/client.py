"""The cluster: which client speaks for it, which workers there are, and whether an answer can still come."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from math import inf
from threading import Thread
from time import monotonic, sleep
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from ..core.optional import require

PATIENCE = 60.0  # seconds to wait for a worker when none is left
TRIES = 20  # times in a row that something may fail because workers are lost
LOOK = 1.0  # seconds between two looks at whether the workers are still there
TIMEOUT = "sodalite.worker-timeout", "5 minutes"  # the key in Dask's configuration, and Dask's own time for it
SILENCE = 15.0  # seconds after which a silent worker is named; its heartbeats come every half second to some seconds
CLOSING = 10.0  # seconds for a worker's nanny to end it


class LostError(Exception):
    """What was asked for was on a worker that is gone; it has to be asked for again."""


class _Heard(NamedTuple):
    """When a worker was heard from last: by the scheduler's clock, and when this was first seen, by ours."""

    seen: float
    since: float
    named: bool = False
    """Whether its silence has been told of."""


_heard: WeakKeyDictionary[Any, dict[str, _Heard]] = WeakKeyDictionary()  # of every client, by the workers' addresses


def worker_timeout() -> float:
    """Seconds of silence after which a worker is given up, from Dask's configuration; infinite if that is None."""
    import dask
    from dask.utils import parse_timedelta

    key, default = TIMEOUT
    value = dask.config.get(key, default)
    try:
        seconds = inf if value is None else float(parse_timedelta(value))
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{key} in Dask's configuration must be a time such as '5 minutes'; got {value!r}.") from error
    if not seconds > 0:
        raise ValueError(f"{key} in Dask's configuration must be more than 0; got {value!r}.")
    return seconds


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
    worker_timeout()  # refuses what is no time
    return client


def workers_of(client: Any) -> dict[str, Any]:
    """The workers that there are, by their addresses, in order; waits a while for the first.

    One that has been silent for too long (stopped, or cut off) is taken out of the cluster.
    """
    until = monotonic() + PATIENCE
    while True:
        if client.status != "running":
            raise RuntimeError(f"The client was {client.status} while it was needed.")
        workers = _without_silent(client, client.scheduler_info(n_workers=-1)["workers"])
        if workers:
            return dict(sorted(workers.items()))
        if monotonic() > until:
            raise RuntimeError(
                f"No worker of the cluster is left, and none came within {PATIENCE:.0f} seconds. Start "
                f"workers and begin again; what had a checkpoint goes on from there."
            )
        sleep(0.2)


def _without_silent(client: Any, workers: dict[str, Any]) -> dict[str, Any]:
    """The workers that are heard from. Silence is told of; after too long, a worker is closed or removed by Dask."""
    now, timeout = monotonic(), worker_timeout()
    before, heard = _heard.get(client, {}), {}
    for address, worker in workers.items():
        last = before.get(address)
        if last is None or last.seen != worker["last_seen"]:
            last = _Heard(worker["last_seen"], now)
        silent, name = now - last.since, f"Worker {worker['name']} ({address}) of the cluster"
        if silent > timeout:
            warnings.warn(
                f"{name} has not been heard from for {silent:.0f} seconds: it is given up, and others do its work.",
                stacklevel=2,
            )
            _close(client, address)
            continue
        if silent > min(SILENCE, timeout / 2) and not last.named:
            until = "for ever" if timeout == inf else f"until {timeout:.0f} seconds have passed"
            warnings.warn(
                f"{name} has not been heard from for {silent:.0f} seconds. It is waited for {until}; set "
                f"{TIMEOUT[0]!r} in Dask's configuration to change that.",
                stacklevel=2,
            )
            last = last._replace(named=True)
        heard[address] = last
    _heard[client] = heard
    return {address: workers[address] for address in heard}


def _close(client: Any, address: str) -> None:
    """Have a worker ended by its nanny, if it has one, and in any case forgotten by the scheduler."""
    client.sync(
        client.scheduler.restart_workers,
        workers=[address],
        timeout=CLOSING,
        wait_for_workers=False,
        on_error="return",
        stimulus_id=f"sodalite-silent-{address}",
    )


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
            workers = workers_of(client)
            if home is not None and home not in workers:
                raise LostError(f"{home} is gone") from error
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


def scatter(client: Any, rows: Any, home: str) -> Any:
    """A future of something that is sent to a worker. It is waited for as every `answer` is, so in a thread."""
    sent: Future[Any] = Future()

    def send() -> None:
        try:
            sent.set_result(client.scatter([rows], workers=[home], hash=False)[0])
        except BaseException as error:
            sent.set_exception(error)

    Thread(target=send, daemon=True).start()
    return answer(client, sent, home)


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
