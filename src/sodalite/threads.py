"""How many threads the linear algebra uses.

The wheels of NumPy and SciPy each bring an OpenBLAS with a pool of threads of its own. Code that calls both in turn has
the two pools fight for the same cores: a likelihood of 1000 rows then takes three times as long as with one thread
each. So NumPy's products, which are many and small here, run on one thread, and SciPy's factorizations on as many as
are free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, TypeVar

from joblib import cpu_count
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
U = TypeVar("U")

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


def threaded_map(function: Callable[[T], U], items: Sequence[T]) -> list[U]:
    """Apply a function to all items, on as many threads as there are cores, sharing the cores among them."""
    workers = max(1, min(cpu_count(), len(items)))
    with blas_threads(max(1, cpu_count() // workers)):
        if workers == 1:
            return [function(item) for item in items]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(function, items))


@cache
def _libraries() -> list[Any]:
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _set(libraries: list[Any], count: int) -> None:
    for library in libraries:
        of_numpy_alone = len(libraries) > 1 and "numpy.libs" in library.filepath
        library.set_num_threads(1 if of_numpy_alone else count)
