"""Queries a second of the posterior "local", mean and standard deviation, beside the floor.

The floor is what a batch cannot do without: the products of the neighbours' v's, the solutions of the small systems,
and the neighbours' search, each timed alone on the same numbers.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from sodalite import select
from sodalite.core.threads import threaded_map
from sodalite.kernels import compile_kernel
from sodalite.posteriors import Evidence, Local
from sodalite.selection.source import Arrays

from .common import seconds, smooth_problem


def floor(local: Local, X: np.ndarray, found: np.ndarray, batch: int = 32) -> float:
    """The products and the small systems alone, in the same batches on the same threads."""
    k = found.shape[1]
    C = np.eye(k) + 0.1
    right = np.ones((batch, k, 1))
    stacked = np.broadcast_to(C, (batch, k, k)).copy()
    assert local.V is not None

    def part(rows: np.ndarray) -> None:
        V = local.V[rows]
        V @ V.swapaxes(-1, -2)
        np.linalg.solve(stacked[: len(rows)], right[: len(rows)])

    return seconds(lambda: threaded_map(part, [found[a : a + batch] for a in range(0, len(X), batch)]))


def main(n: int = 30_000, d: int = 8, m: int = 500, k: int = 32, queries: int = 10_000) -> None:
    X, y, kernel = smooth_problem(n + queries, 0.05, d)
    chosen = select(X[:n], y[:n], kernel, n_active=m, first=0)
    compiled = compile_kernel(kernel, X[:n])
    for calibrate in (False, True):
        evidence = Evidence(compiled, Arrays(X[:n], y[:n, None]), chosen, n_neighbors=k, calibrate=calibrate)
        begin = perf_counter()
        local = Local.condition(evidence)
        conditioning = perf_counter() - begin
        taken = seconds(lambda: local.mean_and_variance(X[n:], noisy=True))  # noqa: B023
        print(
            f"n {n} d {d} m {m} k {k}, calibrate {calibrate}: conditioning {conditioning:.2f} s; "
            f"{queries / taken:.0f} queries/s",
            flush=True,
        )
    search = seconds(lambda: local.near.query(X[n:], k))
    found = local.near.query(X[n:], k)
    least = search + floor(local, X[n:], found)
    print(
        f"floor: {queries / least:.0f} queries/s (search {search:.2f} s, products and systems {least - search:.2f} s); "
        f"ours takes {taken / least:.1f} times as long"
    )
