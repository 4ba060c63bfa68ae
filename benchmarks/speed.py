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

from sodalite import reference, select
from sodalite.core.threads import n_threads, one_blas_thread
from sodalite.kernels import CompiledKernel
from sodalite.selection import loop, plan, shard

from . import evidence
from .common import seconds, smooth_problem

NOISE = {"low noise (1 %)": 0.01, "high noise (40 %)": 0.4}  # noise variance; the signal's is 1


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
    rows = plan.SHARD_ROWS
    V = [arena((m, min(rows, n - begin)), float) for begin in range(0, n, rows)]
    out = [np.ones((max(blocks), part.shape[1])) for part in V]
    total = 0.0
    with one_blas_thread(), ThreadPoolExecutor(n_threads()) as pool:
        t = 0
        for b in blocks:
            A = np.full((b, t), 0.5)
            begin = perf_counter()
            list(pool.map(lambda at: np.matmul(A, V[at][:t], out=out[at][:b]), range(len(V))))  # noqa: B023
            total += perf_counter() - begin
            t += b
    return total


def against_products(n: int = 200_000, m: int = 1000, repeats: int = 3) -> dict[str, float]:
    """Our time over that of the bare products, measured in turn: the ratio by the noise of the data."""
    ratios = {}
    arena = Arena(n * m)
    fresh = shard.storage
    for name, noise in NOISE.items():
        X, y, kernel = smooth_problem(n, noise)
        blocks: list[int] = []
        commit = loop._commit

        def record(problem, state, guess, outcome, commit=commit, blocks=blocks):
            blocks.append(outcome.n_accepted)
            return commit(problem, state, guess, outcome)

        ours, bare, first_touch = [], [], []
        for _ in range(repeats):
            begin = perf_counter()
            select(X, y, kernel, n_active=m, first=0, criterion="delta")
            first_touch.append(perf_counter() - begin)
            blocks.clear()
            arena.used, shard.storage, loop._commit = 0, arena, record
            begin = perf_counter()
            chosen = select(X, y, kernel, n_active=m, first=0, criterion="delta")
            ours.append(perf_counter() - begin)
            shard.storage, loop._commit = fresh, commit
            bare.append(bare_products(n, m, [b for b in blocks if b], arena))
        ratios[name] = float(median(np.array(ours) / bare))
        print(
            f"{name:18} n {n} m {m}: ours {median(ours):.2f} s, bare products {median(bare):.2f} s, "
            f"ratio {ratios[name]:.2f}\n"
            f"{'':18} (with fresh memory {median(first_touch):.2f} s); {len(blocks)} blocks, "
            f"{chosen.n_proposed / m:.2f} rows proposed per row kept",
            flush=True,
        )
    return ratios


def against_one_at_a_time(n: int = 100_000, m: int = 1000, repeats: int = 3) -> None:
    """The same picks, one row at a time over all rows, measured in turn and in the same memory."""
    arena = Arena(n * m)
    fresh = shard.storage
    for name, noise in NOISE.items():
        X, y, kernel = smooth_problem(n, noise)
        ours, theirs = [], []
        for _ in range(repeats):
            arena.used, shard.storage = 0, arena
            ours.append(seconds(lambda: select(X, y, kernel, n_active=m, first=0, criterion="delta"), 1))  # noqa: B023
            shard.storage, arena.used = fresh, 0
            V = arena((m, n), float)
            theirs.append(seconds(lambda: reference.one_at_a_time(X, y, kernel, n_active=m, first=0, V=V), 1))  # noqa: B023
        print(
            f"{name:18} n {n} m {m}: one at a time {median(theirs):.1f} s, ours {median(ours):.2f} s: "
            f"{median(np.array(theirs) / ours):.1f} times as fast",
            flush=True,
        )


def against_reference(n: int = 3000, m: int = 300) -> None:
    """Algorithm 1 as the paper states it."""
    X, y, kernel = smooth_problem(n, 0.1)
    ours = seconds(lambda: select(X, y, kernel, n_active=m, first=0, criterion="delta"))
    begin = perf_counter()
    slow = reference.select(X, y, kernel, n_active=m, first=0)
    theirs = perf_counter() - begin
    same = np.array_equal(slow.indices, select(X, y, kernel, n_active=m, first=0, criterion="delta").indices)
    print(f"reference, n {n} m {m}: {theirs:.1f} s, ours {ours:.2f} s: {theirs / ours:.0f} times as fast; same: {same}")


PARTS = {
    "the product": "product",
    "the covariances with the picks": "kernel",
    "from covariances to coordinates": "mix",
    "residuals after every pick": "path",
    "sums of squares and rivals": "scan",
    "taking back and candidates": "settle",
}


def profile(n: int = 200_000, m: int = 1000) -> None:
    """Where the time goes: the shards' parts, shared out over the threads, and the driver, while they wait.

    The floor is what no arrangement of these steps can do without: the product, one exponential for every covariance,
    and the triangular product that turns covariances into coordinates, at the rates that they reach here alone.
    """
    arena = Arena(n * m)
    fresh, spent, lock = shard.storage, dict.fromkeys(PARTS.values(), 0.0), Lock()

    def timed(function, part):
        def call(*arguments, **options):
            begin = perf_counter()
            result = function(*arguments, **options)
            with lock:
                spent[part(arguments) if callable(part) else part] += perf_counter() - begin
            return result

        return call

    class Watched:
        """NumPy, with its products timed: those with the v's are long, those with the picks short."""

        matmul = staticmethod(timed(np.matmul, lambda arguments: "product" if arguments[0].shape[1] > 64 else "mix"))

        def __getattr__(self, name):
            return getattr(np, name)

    places = [(CompiledKernel, "block", "kernel"), (shard.Shard, "_residual_path", "path")]
    places += [(shard.Shard, "_scan", "scan"), (shard.Shard, "settle", "settle")]
    for name, noise in NOISE.items():
        X, y, kernel = smooth_problem(n, noise)
        saved = [getattr(owner, method) for owner, method, _ in places]
        for (owner, method, part), function in zip(places, saved, strict=True):
            setattr(owner, method, timed(function, part))
        arena.used, shard.storage, shard.np = 0, arena, Watched()
        spent.update(dict.fromkeys(spent, 0.0))
        begin = perf_counter()
        chosen = select(X, y, kernel, n_active=m, first=0, criterion="delta")
        total = perf_counter() - begin
        for (owner, method, _), function in zip(places, saved, strict=True):
            setattr(owner, method, function)
        shard.storage, shard.np = fresh, np
        threads = n_threads()
        parts = {what: spent[part] / threads for what, part in PARTS.items()}
        print(f"{name}: {total:.2f} s")
        for what, seconds_ in parts.items():
            print(f"    {what:34} {seconds_:5.2f} s")
        print(f"    {'guessing the picks, and waiting':34} {total - sum(parts.values()):5.2f} s")
        exponential, triangular = rates()
        floor = parts["the product"] + n * chosen.n_proposed * (exponential + triangular) / threads
        print(
            f"    the floor here: {floor:.2f} s, {floor / parts['the product']:.2f} times the "
            f"product (an exponential takes {1e9 * exponential:.1f} ns, a row's coordinate {1e9 * triangular:.1f} ns)"
        )


def rates(b: int = 64, rows: int = 8000) -> tuple[float, float]:
    """Seconds for one exponential, and for one coordinate from the covariances of a block, on one thread."""
    generator = np.random.default_rng(0)
    E, out, mix = -generator.random((b, rows)), np.empty((b, rows)), np.tril(generator.random((b, b)))

    def multiply() -> None:
        for begin in range(0, b, 16):
            np.matmul(mix[begin : begin + 16, : begin + 16], E[: begin + 16], out=out[begin : begin + 16])

    with one_blas_thread():
        exponential = seconds(lambda: np.exp(E, out=out), 50)
        triangular = seconds(multiply, 50)
    return exponential / E.size, triangular / E.size


def main() -> None:
    against_reference()
    against_one_at_a_time()
    ratios = against_products()
    profile()
    evidence.record("speed", "python -m benchmarks speed", values=ratios)
