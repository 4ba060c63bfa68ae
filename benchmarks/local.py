"""Queries a second of the posterior "local", mean and standard deviation.

* Beside the floor: what a batch cannot do without, which is the products of the neighbours' v's, the solutions of the
  small systems, and the neighbours' search, each timed alone on the same numbers.
* On a table of the airline kind: 250 000 rows of whole numbers in 8 columns, with the search that a measurement chose,
  and with each search forced; and the latency of one row.
* Against the number of rows, up to `--most`, and against k.

With `--most 10000000` all lines are written to docs/local.txt.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from time import perf_counter

import numpy as np

from sodalite import GreedyGPRegressor, select
from sodalite.core.threads import threaded_map
from sodalite.kernels import compile_kernel
from sodalite.kernels.neighbours import FINDERS
from sodalite.posteriors import Evidence, Judging, Local
from sodalite.selection.rows import ArrayRows

from .common import seconds, smooth_problem
from .evidence import record

ROWS = (10_000, 100_000, 1_000_000, 10_000_000)
SIZES = (8, 16, 32, 64, 128)


def floor(local: Local, X: np.ndarray, found: np.ndarray, batch: int = 32) -> float:
    """The products and the small systems alone, in the same batches on the same threads."""
    k = found.shape[1]
    C = np.eye(k) + 0.1
    right = np.ones((batch, k, 1))
    stacked = np.broadcast_to(C, (batch, k, k)).copy()
    assert local.remainder.V is not None

    def part(rows: np.ndarray) -> None:
        V = local.remainder.V[rows]
        V @ V.swapaxes(-1, -2)
        np.linalg.solve(stacked[: len(rows)], right[: len(rows)])

    return seconds(lambda: threaded_map(part, [found[a : a + batch] for a in range(0, len(X), batch)]))


def beside_floor(n: int = 30_000, d: int = 8, m: int = 500, k: int = 32, queries: int = 10_000) -> Iterator[str]:
    """Yield lines with the rate with and without calibration, and that of the floor."""
    X, y, kernel = smooth_problem(n + queries, 0.05, d)
    chosen = select(X[:n], y[:n], kernel, n_active=m, first=0, criterion="delta")
    compiled = compile_kernel(kernel, X[:n])
    for calibrate in (False, True):
        judging, rows = Judging() if calibrate else None, ArrayRows(X[:n], y[:n, None])
        evidence = Evidence(compiled, rows, chosen, n_neighbors=k, judging=judging)
        begin = perf_counter()
        local = Local.condition(evidence)
        conditioning = perf_counter() - begin
        taken = seconds(lambda: local.mean_and_variance(X[n:], noisy=True))  # noqa: B023
        yield (
            f"n {n} d {d} m {m} k {k}, calibrate {calibrate}: conditioning {conditioning:.2f} s; "
            f"{queries / taken:.0f} queries/s"
        )
    search = seconds(lambda: local.near.query(X[n:], k))
    found = local.near.query(X[n:], k)
    least = search + floor(local, X[n:], found)
    yield (
        f"  floor: {queries / least:.0f} queries/s (search {search:.2f} s, products and systems "
        f"{least - search:.2f} s); ours takes {taken / least:.1f} times as long"
    )


def airline(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the airline kind: X with 8 columns of whole numbers, and delays y, standardised.

    The columns are month, day, weekday, minutes of departure and of arrival, minutes in the air, distance (of 400
    routes) and age of the plane. Most of a delay is noise.
    """
    generator = np.random.default_rng(seed)
    month, day = generator.integers(1, 13, n), generator.integers(1, 29, n)
    weekday = (28 * month + day) % 7 + 1
    peak = np.where(generator.random(n) < 0.5, 540, 1020)
    departure = np.clip(generator.normal(peak, 150), 0, 1439).round()
    routes = np.exp(generator.normal(6.4, 0.6, 400)).round().clip(60, 2700)
    distance = routes[generator.integers(400, size=n)]
    air = (20 + distance / 8 + generator.normal(0, 6, n)).round()
    age = generator.gamma(3, 4, n).round().clip(0, 40)
    X = np.column_stack([month, day, weekday, departure, (departure + air + 30) % 1440, air, distance, age])
    weather = generator.gamma(1, 0.5, (13, 29))[month, day] * departure / 1440
    season = 0.4 * np.cos(month / 12 * 2 * np.pi) + 0.6 * np.sin((departure - 300) / 1440 * 2 * np.pi - 2)
    y = weather + season + 0.2 * (weekday > 5) + (air - 20 - distance / 8) / 60 + generator.exponential(0.9, n)
    return X.astype(float), (y - y.mean()) / y.std()


def of_airline_kind(n: int = 250_000, queries: int = 20_000) -> Iterator[str]:
    """Yield lines with the rate of the default on a table of the airline kind, and the latency of one row."""
    X, y = airline(n + queries)
    begin = perf_counter()
    model = GreedyGPRegressor(random_state=0).fit(X[:n], y[:n])
    index, T = model.posterior_.near.index, X[n:]
    yield f"airline kind, n {n}: fit {perf_counter() - begin:.1f} s, k {model.posterior_.k}, search by {index.search}"
    own, rates = index.search, {}
    for search in sorted(FINDERS, key=lambda name: name == own):  # its own search last: latency follows
        index.search = search
        some = T if search == own else T[:4000]
        model.predict(some[:100], return_std=True)
        rates[search] = len(some) / seconds(lambda: model.predict(some, return_std=True))  # noqa: B023
    told = ", ".join(f"{rate:.0f} by {search}" for search, rate in rates.items())
    share = seconds(lambda: model.posterior_.near.query(T, model.posterior_.k)) * rates[own] / len(T)
    yield f"  {told} queries/s: {rates[own] / min(rates.values()):.1f} times the slowest; {share:.0%} is the search"
    one = seconds(lambda: model.predict(T[:1], return_std=True), repeats=200)
    yield f"  one row: {1e3 * one:.2f} ms"


def against_rows_and_k(most: int, m: int = 100, queries: int = 20_000) -> Iterator[str]:
    """Yield lines with the rate against the number of rows, and against k, for normal inputs in 8 dimensions."""
    for n in (rows for rows in ROWS if rows <= most):
        X, y, kernel = smooth_problem(n + queries, 0.05, 8, n_features=100, dtype="float32")
        chosen = select(X[:n], y[:n], kernel, n_active=m, first=0, criterion="delta")
        source = ArrayRows(X[:n], y[:n, None].astype(float))
        local = Local.condition(Evidence(compile_kernel(kernel, X[:n]), source, chosen, n_neighbors=32))
        for k in SIZES if n == 100_000 else (32,):
            model = replace(local, k=k)
            model.mean_and_variance(X[n : n + 1000], noisy=True)
            taken = seconds(lambda: model.mean_and_variance(X[n:], noisy=True))  # noqa: B023
            yield f"8 normal inputs, m {m}, n {n}, k {k}: {queries / taken:.0f} queries/s, by {local.near.index.search}"


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks local", description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=1_000_000, help="the most rows; 10000000 needs 20 GB of memory")
    most = parser.parse_args(arguments).most
    lines = []
    for text in chain(beside_floor(), of_airline_kind(), against_rows_and_k(most)):
        print(text, flush=True)
        lines.append(text)
    if most >= max(ROWS):
        record("local", f"python -m benchmarks local --most {max(ROWS)}", {"local.txt": lines})
