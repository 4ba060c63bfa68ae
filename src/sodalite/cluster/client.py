"""The Dask cluster: its client, its workers, and errors of the cluster in words.

Waiting, retries and giving up workers are Dask's: see the options in the user guide ("Lost workers").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any, TypeAlias

from ..core.optional import require

Client: TypeAlias = Any
"""A ``dask.distributed.Client``; the library is optional, and its types are not checked."""
DaskFuture: TypeAlias = Any
"""A ``dask.distributed.Future``."""

PATIENCE = 60.0  # seconds to wait for a first worker: the cluster may be starting
GONE = (
    "The cluster no longer has the rows: its scheduler was stopped, restarted or cannot be reached, or the client was "
    "closed. Connect a new client and fit again (a run with a checkpoint continues from it), or load a file to which "
    "the model was saved."
)


def find_client(client: Client | None) -> Client:
    """Return the client, or if it is None the current one; an error says if there is none, or it is closed."""
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
        words = "has lost its scheduler" if client.status == "connecting" else f"is {client.status}"
        raise ValueError(f"executor is a client that {words}; make a new one.")
    return client


@contextmanager
def cluster_errors(client: Client) -> Iterator[None]:
    """Raise a RuntimeError that says what to do where workers or the scheduler are lost for good."""
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker, NoValidWorkerError, NoWorkerError

    try:
        yield
    except KilledWorker as error:
        raise RuntimeError(
            f"{error.allowed_failures + 1} workers in a row were lost while they computed the same result. If they run "
            f"out of memory, use smaller partitions or more workers."
        ) from error
    except (NoWorkerError, NoValidWorkerError) as error:
        raise RuntimeError(
            "No worker of the cluster is left, and none came within 'distributed.scheduler.no-workers-timeout' of "
            "Dask's configuration. Start workers and begin again; a run with a checkpoint continues from it."
        ) from error
    except (Exception, CancelledError) as error:
        if client.status == "running" and not isinstance(error, CancelledError | CommClosedError):
            raise
        raise RuntimeError(GONE) from error


def gather(client: Client, futures: Iterable[DaskFuture]) -> list[Any]:
    """Return the results of futures in their order, however long the cluster takes."""
    with cluster_errors(client):
        return list(client.gather(list(futures)))


def check_there(client: Client, futures: Iterable[DaskFuture]) -> None:
    """Refuse futures that the cluster no longer knows."""
    if client.status != "running" or any(future.status == "cancelled" for future in futures):
        raise RuntimeError(GONE)


def workers_of(client: Client) -> dict[str, Any]:
    """Return the workers by their addresses, in order; wait up to `PATIENCE` seconds for a first one."""
    with cluster_errors(client):
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            raise RuntimeError(
                f"The cluster has no worker, and none came within {PATIENCE:.0f} seconds: start workers."
            ) from error
        return dict(sorted(client.scheduler_info(n_workers=-1)["workers"].items()))


def share(client: Client, value: Any) -> DaskFuture:
    """Return a future of a value, which may be large: it is sent once, and workers copy it from each other.

    It is the argument of a task, so Dask can make it again if workers are lost.
    """
    with cluster_errors(client), no_warning_of_size():
        return client.submit(_identity, value, pure=False)


@contextmanager
def no_warning_of_size() -> Iterator[None]:
    """Let arguments of tasks be large without Dask's warning."""
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 PiB"}):
        yield


def _identity(value: Any) -> Any:
    return value
