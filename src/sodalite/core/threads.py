"""How many threads the linear algebra uses.

The wheels of NumPy and SciPy each bring an OpenBLAS with a pool of threads of its own. Code that calls both in turn has
the two pools fight for the same cores, and threads that wait for each other spin: a likelihood of 1000 rows then takes
three times as long as with one thread each, and twenty times as long while something else is running. So every product
and factorization here runs on the thread that asks for it, and there are as many of those as there are cores.

A KeyboardInterrupt can be raised between any two steps of the main thread. So what is changed for a while (thread
counts) is noted before it is changed, is changed back by steps that may be done twice, and threads keep what they work
on alive themselves: whoever started them may be gone. They are started and waited for by functions in C alone: the
standard library's threads, events and futures are made of conditions in Python, which may hang after an interrupt.
"""

from __future__ import annotations

from _thread import start_new_thread
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from math import prod
from numbers import Integral
from queue import Empty, SimpleQueue
from threading import RLock, local
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
_served = local()  # of a thread of a `Pool`: the call that it works for

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
    """Raised on a thread of a `Pool` whose call was interrupted or has failed: nobody waits for its result any more."""


class _Call:
    """A call of `Pool.map`, which may be a part of another."""

    def __init__(self) -> None:
        self.off = False
        self.whole: _Call | None = getattr(_served, "call", None)


def raise_if_broken_off() -> None:
    """Raise `BrokenOff` if nobody waits for this thread's work any more; for work that takes seconds, between steps."""
    call: _Call | None = getattr(_served, "call", None)
    while call is not None:
        if call.off:
            raise BrokenOff
        call = call.whole


class Pool:
    """Some threads that apply functions to items."""

    def __init__(self, n_threads: int) -> None:
        self._tasks: SimpleQueue[Any] = SimpleQueue()
        self._ended: SimpleQueue[None] = SimpleQueue()
        self._n, self._started = n_threads, 0

    def map(self, function: Callable[[T], U], items: Iterable[T]) -> list[U]:
        """Apply a function to all items; return the results in the same order.

        If that fails for some, those that have not been begun are dropped, and the first's error is raised. If it is
        interrupted, they are dropped as well, and those that have been begun are waited for by `close`.
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
        if errors:  # of which those of items that were dropped come after another
            raise errors[min(errors, key=lambda place: (isinstance(errors[place], BrokenOff), place))]
        return results

    def close(self) -> None:
        """End the threads, once they have done what they have begun; drop all else."""
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
        for _ in range(self._n):
            self._tasks.put(None)

    def __del__(self) -> None:
        if hasattr(self, "_started"):  # or it was interrupted before it had a thread
            self._dismiss()  # also the threads of a pool that nobody has closed


def _serve(tasks: SimpleQueue[Any], ended: SimpleQueue[None]) -> None:
    """Do tasks until there is a None among them: what a thread of a pool does."""
    try:
        while _serve_one(tasks):
            pass
    finally:
        ended.put(None)


def _serve_one(tasks: SimpleQueue[Any]) -> bool:
    """Do a task; in a function of its own, so that nothing of it is kept while the next is waited for."""
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
    """Apply a function to all items, on as many threads as there are cores, each with its own linear algebra.

    When it is interrupted, items that have not been begun are dropped, and those that have been are waited for, unless
    another interrupt comes.
    """
    workers = max(1, min(n_threads(None), len(items)))
    with one_blas_thread():
        if workers == 1:
            return [function(item) for item in items]
        pool = Pool(workers)
        try:
            return pool.map(function, items)
        finally:
            pool.close()


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
