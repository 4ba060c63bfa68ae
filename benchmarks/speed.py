"""The block engine's time, as a multiple of the products that it cannot do without, and against slower ways.

The bare products are those of the accepted blocks, (b x t) (t x n), on the same threads and the same shards. Memory
for both is mapped in beforehand: on a virtual machine, the first touch of a page may measure the host. The time with
fresh memory, which is what a user sees, is printed beside it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from statistics import median
from threading import Lock
from time import perf_counter

import numpy as np
from tests import one_at_a_time

from sodalite import loop, memory, reference, select, shard
from sodalite.threads import n_threads, one_blas_thread

from .common import seconds, smooth_problem

NOISE = {"low noise (1 %)": 0.01, "high noise (40 %)": 0.4}


class Arena:
    """Memory that is mapped in once and handed out again and again."""

    def __init__(self, size: int) -> None:
        self.memory, self.used, self.lock = np.ones(size), 0, Lock()

    def __call__(self, shape: tuple[int, int], dtype: object) -> np.ndarray:
        with self.lock:
            begin, self.used = self.used, self.used + shape[0] * shape[1]
        return self.memory[begin : self.used].reshape(shape)


def bare_products(n: int, m: int, blocks: list[int], arena: Arena) -> float:
    """The time of the products alone."""
    arena.used = 0
    rows = memory.ROWS
    V = [arena((m, min(rows, n - begin)), float) for begin in range(0, n, rows)]
    out = [np.ones((max(blocks), part.shape[1])) for part in V]
    total = 0.0
    with one_blas_thread(), ThreadPoolExecutor(n_threads(None)) as pool:
        t = 0
        for b in blocks:
            A = np.full((b, t), 0.5)
            begin = perf_counter()
            list(pool.map(lambda at: np.matmul(A, V[at][:t], out=out[at][:b]), range(len(V))))  # noqa: B023
            total += perf_counter() - begin
            t += b
    return total


def against_products(n: int = 200_000, m: int = 1000, repeats: int = 3) -> None:
    """Our time over that of the bare products, measured in turn."""
    arena = Arena(n * m)
    fresh = shard.storage
    for name, noise in NOISE.items():
        X, y, kernel = smooth_problem(n, noise)
        blocks: list[int] = []
        commit = loop._commit

        def record(problem, state, block, made, kept, rmse, commit=commit, blocks=blocks):
            blocks.append(kept)
            return commit(problem, state, block, made, kept, rmse)

        ours, bare, first_touch = [], [], []
        for _ in range(repeats):
            begin = perf_counter()
            select(X, y, kernel, n_active=m, first=0)
            first_touch.append(perf_counter() - begin)
            blocks.clear()
            arena.used, shard.storage, loop._commit = 0, arena, record
            begin = perf_counter()
            chosen = select(X, y, kernel, n_active=m, first=0)
            ours.append(perf_counter() - begin)
            shard.storage, loop._commit = fresh, commit
            bare.append(bare_products(n, m, [b for b in blocks if b], arena))
        print(
            f"{name:18} n {n} m {m}: ours {median(ours):.2f} s, bare products {median(bare):.2f} s, "
            f"ratio {median(np.array(ours) / bare):.2f}\n"
            f"{'':18} (with fresh memory {median(first_touch):.2f} s); {len(blocks)} blocks, "
            f"{chosen.n_proposed / m:.2f} rows proposed per row kept",
            flush=True,
        )


def against_one_at_a_time(n: int = 100_000, m: int = 1000) -> None:
    """The same picks, one row at a time over all rows."""
    for name, noise in NOISE.items():
        X, y, kernel = smooth_problem(n, noise)
        ours = seconds(lambda: select(X, y, kernel, n_active=m, first=0))  # noqa: B023
        theirs = seconds(lambda: one_at_a_time.select(X, y, kernel, n_active=m, first=0), 1)  # noqa: B023
        print(
            f"{name:18} n {n} m {m}: one at a time {theirs:.1f} s, ours {ours:.2f} s: {theirs / ours:.1f} times as fast"
        )


def against_reference(n: int = 3000, m: int = 300) -> None:
    """Algorithm 1 as the paper states it."""
    X, y, kernel = smooth_problem(n, 0.1)
    ours = seconds(lambda: select(X, y, kernel, n_active=m, first=0))
    begin = perf_counter()
    slow = reference.select(X, y, kernel, n_active=m, first=0)
    theirs = perf_counter() - begin
    same = np.array_equal(slow.indices, select(X, y, kernel, n_active=m, first=0).indices)
    print(f"reference, n {n} m {m}: {theirs:.1f} s, ours {ours:.2f} s: {theirs / ours:.0f} times as fast; same: {same}")


def main() -> None:
    against_reference()
    against_one_at_a_time()
    against_products()
