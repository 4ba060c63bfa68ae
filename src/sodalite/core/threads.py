"""Threads: as many as BLAS would use, each with linear algebra of its own.

The wheels of NumPy and SciPy each bring an OpenBLAS with a pool of threads of its own. In code that calls both in turn,
the two pools compete for the same cores, and waiting threads spin: a likelihood of 1000 rows then takes three times as
long as with one thread each, and twenty times as long while something else is running. So every product and
factorisation here runs on the thread that calls it (`one_blas_thread`), and there are as many threads as BLAS would
have used (`n_threads`, `threaded_map`).

A KeyboardInterrupt can be raised between any two steps of the main thread. Therefore

* the old thread counts are stored before they are changed, and restored by steps that may be repeated;
* threads hold references to their own work, since the function that started them may have been left;
* threads are started and waited for by functions in C alone. The standard library's threads, events and futures use
  condition variables written in Python, which may hang after an interrupt.
"""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from math import prod
from queue import Empty, SimpleQueue
from threading import RLock, local
from typing import Any, TypeVar

import numpy as np
from joblib import cpu_count
from numpy.typing import DTypeLike
from threadpoolctl import ThreadpoolController

from .types import Array

T = TypeVar("T")
U = TypeVar("U")


class Workspace(local):
    """Arrays that a thread reuses, by name.

    A new array of a few megabytes is new memory from the system each time, and mapping its pages takes longer than most
    operations on the array.
    """

    def __init__(self) -> None:
        self._arrays: dict[tuple[str, np.dtype[Any]], Array] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> Array:
        """An uninitialised array of this shape; it is valid until the next call with the same name."""
        size = prod(shape)
        key = name, np.dtype(dtype)
        if key not in self._arrays or self._arrays[key].size < size:
            self._arrays[key] = np.empty(size, dtype=dtype)
        return self._arrays[key][:size].reshape(shape)


workspace = Workspace()


def keep_memory() -> None:
    """Have the C library keep memory that arrays free for the next arrays, as far as that is in its power.

    The GNU library gives free memory back to the system beyond twice the largest block that was ever freed, up to 64
    MB. Mapping it again takes half of the time of a small table's likelihood.
    """
    np.empty(31 * 2**20, dtype=np.uint8)  # never written to, so that it costs a few microseconds


_serial = local()  # `here`: whether `on_this_thread` is in force on a thread
_served = local()  # `call`: the call of `Pool.map` that a thread of a pool works for

_lock = RLock()  # reentrant: the garbage collector may leave one block while this thread enters another
_open: set[object] = set()  # the `one_blas_thread` blocks that are open now, in all threads
_before: list[int] = []  # the libraries' thread counts before the first of these blocks; empty while none is open


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run linear algebra on the calling thread alone, until the last such block of the process is left."""
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
            _set(libraries, [1] * len(libraries))  # also within another block: other code may have changed the counts
        yield
    finally:
        try:
            leave()
        except BaseException:  # interrupted; not in a function of its own, where another interrupt could come first
            leave()
            raise


@contextmanager
def one_openmp_thread() -> Iterator[None]:
    """Run scikit-learn's compiled OpenMP loops on the calling thread alone; OpenMP keeps a count for each thread."""
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
    """Make `threaded_map` serial on the calling thread; for workers of a cluster, which keep all cores busy already."""
    before = getattr(_serial, "here", False)
    _serial.here = True
    try:
        yield
    finally:
        _serial.here = before


class BrokenOff(BaseException):
    """Raised on a thread of a `Pool` whose call was interrupted or has failed, so that its result is not needed."""


class _Call:
    """A call of `Pool.map`; `parent` is the call that it is nested in, if any."""

    def __init__(self) -> None:
        self.off = False
        """Whether the call was interrupted or has failed."""
        self.parent: _Call | None = getattr(_served, "call", None)


def raise_if_broken_off() -> None:
    """Raise `BrokenOff` if this thread's result is no longer needed; long work calls this every few seconds."""
    call: _Call | None = getattr(_served, "call", None)
    while call is not None:
        if call.off:
            raise BrokenOff
        call = call.parent


class Pool:
    """A pool of threads that apply functions to items."""

    def __init__(self, n_threads: int) -> None:
        self._tasks: SimpleQueue[Any] = SimpleQueue()
        self._ended: SimpleQueue[None] = SimpleQueue()
        self._n, self._started = n_threads, 0

    def map(self, function: Callable[[T], U], items: Iterable[T]) -> list[U]:
        """Apply a function to all items; return the results in the order of the items.

        If the function fails for some items, items that have not been started are dropped, and the error of the first
        is raised. After an interrupt they are dropped as well; `close` waits for those that have been started.
        """
        call, answers = _Call(), SimpleQueue[tuple[int, Any, BaseException | None]]()
        try:
            count = 0
            for count, item in enumerate(items, 1):
                self._tasks.put((call, function, count - 1, item, answers))
            while self._started < min(self._n, count):
                start_new_thread(_serve, (self._tasks, self._ended))
                self._started += 1
            results: list[Any] = [None] * count
            errors: dict[int, BaseException] = {}
            for _ in range(count):
                place, results[place], error = answers.get()
                if error is not None:
                    call.off, errors[place] = True, error
        except BaseException:
            call.off = True
            raise
        if errors:  # dropped items have the error BrokenOff, which is never the first cause
            raise errors[min(errors, key=lambda place: (isinstance(errors[place], BrokenOff), place))]
        return results

    def close(self) -> None:
        """End the threads once they have finished the items that they have started; drop all others."""
        try:
            while True:
                self._tasks.get_nowait()
        except Empty:
            pass
        self._dismiss()
        while self._started:
            self._ended.get()
            self._started -= 1

    def _dismiss(self) -> None:
        """Tell all threads to end."""
        for _ in range(self._n):
            self._tasks.put(None)

    def __del__(self) -> None:
        if hasattr(self, "_started"):  # else __init__ was interrupted, and there are no threads
            self._dismiss()  # the pool may never have been closed


def _serve(tasks: SimpleQueue[Any], ended: SimpleQueue[None]) -> None:
    """The main function of a pool's thread: do tasks until one of them is None."""
    try:
        while _serve_one(tasks):
            pass
    finally:
        ended.put(None)


def _serve_one(tasks: SimpleQueue[Any]) -> bool:
    """Do the next task; return False if it is None. A function of its own, so that no task outlives its work."""
    task = tasks.get()
    if task is None:
        return False
    call, function, place, item, answers = task
    _served.call = call
    try:
        raise_if_broken_off()
        answers.put((place, function(item), None))
    except BaseException as error:
        answers.put((place, None, error))
    return True


def threaded_map(function: Callable[[T], U], items: Sequence[T]) -> list[U]:
    """Apply a function to all items, on `n_threads` threads; return the results in order.

    Linear algebra runs on the thread that calls it. After an interrupt, items that have not been started are dropped,
    and those that have been are waited for, unless another interrupt comes.
    """
    workers = max(1, min(n_threads(), len(items)))
    with one_blas_thread():
        if workers == 1:
            return [function(item) for item in items]
        pool = Pool(workers)
        try:
            return pool.map(function, items)
        finally:
            pool.close()


def n_threads() -> int:
    """The number of threads to use here: as many as BLAS would, by the environment and threadpoolctl; at most `cores`.

    So ``OMP_NUM_THREADS=4`` and ``threadpool_limits(4)`` mean four threads for sodalite too.
    """
    if getattr(_serial, "here", False):
        return 1
    with _lock:
        counts = list(_before) or [library.num_threads for library in _libraries()]
    return max(1, min([cores(), *counts]))


@cache
def cores() -> int:
    """The cores of this machine that may be used, as joblib counts them."""
    return int(cpu_count())


@cache
def _libraries() -> list[Any]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


@cache
def _openmp() -> list[Any]:
    return list(ThreadpoolController().select(user_api="openmp").lib_controllers)


def _set(libraries: list[Any], counts: Sequence[int]) -> None:
    """Set the libraries' thread counts, which belong to the whole process, from any thread. The caller holds `_lock`.

    In later versions of threadpoolctl, the first thread that sets a count controls it, and other threads cannot change
    it until it is released.
    """
    for library, count in zip(libraries, counts, strict=True):
        release = getattr(library, "clear_controlling_thread", lambda force: None)
        release(force=True)
        library.set_num_threads(count)
        release(force=True)
