"""How many threads the linear algebra uses.

The wheels of NumPy and SciPy each bring an OpenBLAS with a pool of threads of its own. Code that calls both in turn has
the two pools fight for the same cores: a likelihood of 1000 rows then takes three times as long as with one thread
each. So NumPy's products, which are many and small here, run on one thread, and SciPy's factorizations on as many as
are free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from math import prod
from numbers import Integral
from threading import Lock, local
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

_lock = Lock()
_held: list[int] = []  # the thread counts asked for by the blocks that are open now
_before: dict[int, int] = {}  # the thread counts from before the first of them


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Factorizations on `count` threads, products on one, until the last such block of the process is left."""
    libraries = _libraries()
    with _lock:
        if not _held:
            _before.update({at: library.num_threads for at, library in enumerate(libraries)})
        _held.append(count)
        _set(libraries, min(_held))
    try:
        yield
    finally:
        with _lock:
            _held.remove(count)
            if _held:
                _set(libraries, min(_held))
            else:
                for at, library in enumerate(libraries):
                    library.set_num_threads(_before[at])


def all_cores() -> AbstractContextManager[None]:
    """Factorizations on all cores, products on one."""
    return blas_threads(_cores())


def threaded_map(function: Callable[[T], U], items: Sequence[T]) -> list[U]:
    """Apply a function to all items, on as many threads as there are cores, sharing the cores among them."""
    workers = max(1, min(_cores(), len(items)))
    with blas_threads(max(1, _cores() // workers)):
        if workers == 1:
            return [function(item) for item in items]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(function, items))


def n_threads(n_jobs: int | None) -> int:
    """Threads for an `n_jobs` of scikit-learn's kind; None means all cores here."""
    if n_jobs is None:
        return _cores()
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


def _set(libraries: list[Any], count: int) -> None:
    for library in libraries:
        of_numpy_alone = len(libraries) > 1 and "numpy.libs" in library.filepath
        library.set_num_threads(1 if of_numpy_alone else count)
