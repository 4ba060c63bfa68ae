"""How many threads the linear algebra uses.

The wheels of NumPy and SciPy each bring an OpenBLAS with a pool of threads of its own. Code that calls both in turn has
the two pools fight for the same cores, and threads that wait for each other spin: a likelihood of 1000 rows then takes
three times as long as with one thread each, and twenty times as long while something else is running. So every product
and factorization here runs on the thread that asks for it, and there are as many of those as there are cores.

A KeyboardInterrupt can be raised between any two steps of the main thread. So what is changed for a while (thread
counts) is noted before it is changed, is changed back by steps that may be done twice, and threads keep what they work
on alive themselves: whoever started them may be gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from math import prod
from numbers import Integral
from threading import Event, RLock, local
from typing import Any, TypeVar

import numpy as np
from joblib import cpu_count
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
U = TypeVar("U")


class Workspace(local):
    """Arrays that a thread uses again and again.

    A fresh array of a few megabytes is fresh memory from the system each time, and mapping its pages in takes longer
    than most of what is done with it.
    """

    def __init__(self) -> None:
        self._arrays: dict[tuple[str, Any], Any] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
        """An array of that shape whose contents are anything; it is valid until the next call with the same name."""
        size = prod(shape)
        key = name, np.dtype(dtype)
        if key not in self._arrays or self._arrays[key].size < size:
            self._arrays[key] = np.empty(size, dtype=dtype)
        return self._arrays[key][:size].reshape(shape)


workspace = Workspace()

_alone = local()
_broken = local()  # of a thread of `threaded_map`: the events that tell that its call was broken off

_lock = RLock()  # the collector may close a block while this thread opens another
_open: set[object] = set()  # the blocks that are open now, in all threads
_before: list[int] = []  # the thread counts from before the first of them; empty while the counts are as they were


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Linear algebra on the calling thread alone, until the last such block of the process is left."""
    libraries, block = _libraries(), object()

    def leave() -> None:
        with _lock:
            _open.discard(block)
            if not _open and _before:
                _set(libraries, list(_before))
                _before.clear()

    try:
        with _lock:
            _open.add(block)
            if not _before:
                _before[:] = [library.num_threads for library in libraries]
            _set(libraries, [1] * len(libraries))  # also where a block is open: somebody may have changed it since
        yield
    finally:
        try:
            leave()
        except BaseException:  # interrupted
            leave()
            raise


@contextmanager
def one_openmp_thread() -> Iterator[None]:
    """The same for scikit-learn's compiled loops, which wait for each other in OpenMP; a count of each thread's own."""
    libraries = _openmp()
    before = [library.num_threads for library in libraries]

    def leave() -> None:
        for library, count in zip(libraries, before, strict=True):
            library.set_num_threads(count)

    try:
        for library in libraries:
            library.set_num_threads(1)
        yield
    finally:
        try:
            leave()
        except BaseException:  # interrupted
            leave()
            raise


@contextmanager
def on_this_thread() -> Iterator[None]:
    """What would be shared out among threads is done on the calling one: where others have work for all cores."""
    before = getattr(_alone, "here", False)
    _alone.here = True
    try:
        yield
    finally:
        _alone.here = before


class BrokenOff(BaseException):
    """Raised on a thread of `threaded_map` whose call was interrupted: nobody waits for its result any more."""


def raise_if_broken_off() -> None:
    """Raise `BrokenOff` if nobody waits for this thread's work any more; for work that takes seconds, between steps."""
    if any(event.is_set() for event in getattr(_broken, "off", ())):
        raise BrokenOff


def threaded_map(function: Callable[[T], U], items: Sequence[T]) -> list[U]:
    """Apply a function to all items, on as many threads as there are cores, each with its own linear algebra.

    When it is interrupted, items that have not been begun are dropped, and those that have been are waited for, unless
    another interrupt comes.
    """
    workers = max(1, min(n_threads(None), len(items)))
    with one_blas_thread():
        if workers == 1:
            return [function(item) for item in items]
        event = Event()
        off = (*getattr(_broken, "off", ()), event)  # also if the call that this call is a part of is broken off

        def work(item: T) -> U:
            _broken.off = off
            raise_if_broken_off()
            return function(item)

        pool = ThreadPoolExecutor(workers)
        try:
            return list(pool.map(work, items))
        except BaseException:
            event.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def n_threads(n_jobs: int | None) -> int:
    """Threads for an `n_jobs` of scikit-learn's kind; None means all cores here."""
    if n_jobs is None:
        return 1 if getattr(_alone, "here", False) else _cores()
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool):
        raise TypeError(f"n_jobs must be a whole number or None; got {n_jobs!r}.")
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: -1 means all cores, 1 one thread.")
    return int(n_jobs) if n_jobs > 0 else max(1, _cores() + 1 + int(n_jobs))


@cache
def _cores() -> int:
    return int(cpu_count())


@cache
def _libraries() -> list[Any]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@cache
def _openmp() -> list[Any]:
    return list(ThreadpoolController().select(user_api="openmp").lib_controllers)


def _set(libraries: list[Any], counts: Sequence[int]) -> None:
    """Set the libraries' thread counts, from whatever thread.

    Later versions of threadpoolctl let the first thread that sets one keep the others from it, until it is told to let
    go. The counts are the whole process's, and so is the lock that is held here.
    """
    for library, count in zip(libraries, counts, strict=True):
        let_go = getattr(library, "clear_controlling_thread", lambda force: None)
        let_go(force=True)
        library.set_num_threads(count)
        let_go(force=True)
