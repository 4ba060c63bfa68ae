"""The Dask cluster: its client, its workers, and waiting for results although workers may be lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future
from math import inf
from threading import Thread
from time import monotonic, sleep
from typing import Any, NamedTuple, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from ..core.optional import require
from ..core.warn import warn

Client: TypeAlias = Any
"""A ``dask.distributed.Client``; the library is optional, and its types are not checked."""
DaskFuture: TypeAlias = Any
"""A ``dask.distributed.Future``, or the ActorFuture of an actor's method."""

K = TypeVar("K")

PATIENCE = 60.0  # seconds to wait for a first worker when none is left: new ones may be starting
TRIES = 20  # consecutive failures by lost workers before an error; with the pauses between them, about 17 seconds
LOOK = 1.0  # seconds between two checks that a worker is still there, while its result is awaited
TIMEOUT = "sodalite.worker-timeout", "5 minutes"  # key in Dask's configuration, and default: Dask's own worker timeout
SILENCE = 15.0  # seconds without a heartbeat before a warning; heartbeats come every half second to some seconds
CLOSING = 10.0  # seconds for a worker's nanny to end it


class LostError(Exception):
    """Raised if the worker that held or computed a result is gone: the result must be requested again."""


class _Heartbeat(NamedTuple):
    """The last heartbeat of a worker."""

    seen: float
    """Its time by the scheduler's clock."""
    since: float
    """When we first saw it, by our monotonic clock."""
    warned: bool = False
    """Whether the user has been warned that no other has come since."""


_heartbeats: WeakKeyDictionary[Client, dict[str, _Heartbeat]] = WeakKeyDictionary()  # by client and worker address


def worker_timeout() -> float:
    """Return the seconds without a heartbeat after which a worker is removed; infinite if it is configured as None."""
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


def find_client(client: Client | None) -> Client:
    """Return the given client, or the current one; an error says if there is none, or it is closed."""
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
    worker_timeout()  # refuses a wrong configuration before any long work
    return client


def workers_of(client: Client) -> dict[str, Any]:
    """Return the workers by their addresses, in order. Waits up to `PATIENCE` seconds for the first.

    A worker without heartbeats for too long (stopped, or cut off) is removed from the cluster.
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
                f"workers and begin again; a run with a checkpoint continues from it."
            )
        sleep(0.2)


def _without_silent(client: Client, workers: dict[str, Any]) -> dict[str, Any]:
    """The workers with recent heartbeats. The user is warned of others, and after the timeout they are closed."""
    now, timeout = monotonic(), worker_timeout()
    before, heard = _heartbeats.get(client, {}), {}
    for address, worker in workers.items():
        last = before.get(address)
        if last is None or last.seen != worker["last_seen"]:
            last = _Heartbeat(worker["last_seen"], now)
        silent, name = now - last.since, f"Worker {worker['name']} ({address}) of the cluster"
        if silent > timeout:
            warn(f"{name} has not been heard from for {silent:.0f} seconds: it is given up, and others do its work.")
            _close(client, address)
            continue
        if silent > min(SILENCE, timeout / 2) and not last.warned:
            until = "for ever" if timeout == inf else f"until {timeout:.0f} seconds have passed"
            warn(
                f"{name} has not been heard from for {silent:.0f} seconds. It is waited for {until}; set "
                f"{TIMEOUT[0]!r} in Dask's configuration to change that."
            )
            last = last._replace(warned=True)
        heard[address] = last
    _heartbeats[client] = heard
    return {address: workers[address] for address in heard}


def _close(client: Client, address: str) -> None:
    """Let a worker's nanny, if it has one, end it, and in any case let the scheduler forget it."""
    client.sync(
        client.scheduler.restart_workers,
        workers=[address],
        timeout=CLOSING,
        wait_for_workers=False,
        on_error="return",
        stimulus_id=f"sodalite-silent-{address}",
    )


def memory_for_coordinates(client: Client) -> int:
    """Return the bytes that the coordinates v of all rows may take: half of the memory limits of all workers."""
    return sum(int(worker.get("memory_limit") or 0) for worker in workers_of(client).values()) // 2


def answer(client: Client, future: DaskFuture, home: str | None = None) -> Any:
    """Wait for the result of a future or of an actor's method, as long as its worker is there.

    Parameters
    ----------
    client : distributed.Client
    future : distributed.Future or ActorFuture
    home : str, optional
        The worker that computes it; None if any worker may.

    Raises
    ------
    LostError
        If the worker is gone. An error of the computation itself is raised as it is.
    """
    while True:
        try:
            return future.result(timeout=LOOK)
        except TimeoutError as error:
            if future.done():
                try:  # it has finished just now, or failed with a TimeoutError of its own
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


def raise_if_lost(future: DaskFuture, error: BaseException) -> None:
    """Raise a LostError if an error is Dask's or the network's, rather than one of the computation."""
    from_dask = type(error).__module__.startswith(("distributed", "tornado"))
    lost_actor = isinstance(error, RuntimeError) and str(error).startswith("Worker holding Actor was lost")
    # A computation may raise an OSError too, by reading a file: the status of its future is then "error".
    from_network = isinstance(error, OSError | CancelledError) and getattr(future, "status", "") != "error"
    if from_dask or lost_actor or from_network:
        raise LostError(str(error)) from error


def submit(client: Client, function: Callable[..., Any], *arguments: Any, **options: Any) -> DaskFuture:
    """Return a future of a function's result; never that of an earlier call with equal arguments."""
    return client.submit(function, *arguments, pure=False, **options)


def shared(client: Client, value: Any) -> DaskFuture:
    """Return a future of a value, which may be large: it is sent once, and workers copy it from each other."""
    return submit(client, _identity, value)


def _identity(value: Any) -> Any:
    return value


def scatter(client: Client, value: Any, home: str) -> DaskFuture:
    """Send a value to a worker, and return a future of it. Sent by a thread, so that a lost worker can be noticed."""
    sent: Future[Any] = Future()

    def send() -> None:
        try:
            sent.set_result(client.scatter([value], workers=[home], hash=False)[0])
        except BaseException as error:
            sent.set_exception(error)

    Thread(target=send, daemon=True).start()
    return answer(client, sent, home)


def insist(attempt: Callable[[], bool]) -> None:
    """Call a function until it returns True, up to `TRIES` times; it may raise a LostError, or return False.

    The number is limited, since rows that are too large for a worker's memory kill one worker after the other.
    """
    for number in range(TRIES):
        try:
            if attempt():
                return
        except LostError:
            pass
        sleep(min(0.05 * 2**number, 1.0))
    raise RuntimeError(
        f"The workers that computed the same result were lost {TRIES} times in a row. If they run out of memory, use "
        f"smaller partitions or more workers."
    )


def gathered(
    client: Client,
    keys: Iterable[K],
    send: Callable[[list[K]], dict[K, DaskFuture]],
    on_loss: Callable[[], None] = lambda: None,
) -> dict[K, Any]:
    """Return the results of some jobs by their keys; those that are lost with a worker begin anew.

    Parameters
    ----------
    client : distributed.Client
    keys : iterable
    send : callable
        Begins some or all of the jobs of given keys, and returns their futures.
    on_loss : callable
        Called when a result is lost.
    """
    left, found = dict.fromkeys(keys), dict[K, Any]()

    def attempt() -> bool:
        before = len(left)
        for key, future in send(list(left)).items():
            try:
                found[key] = answer(client, future)
            except LostError:
                on_loss()
                continue
            del left[key]
        return len(left) < before

    while left:
        insist(attempt)
    return found
