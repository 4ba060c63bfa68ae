"""Whether intervals hold what they promise in gaps: stretches of a series, or holes in a map, that no row is in.

Of every set, gaps of 8, 32 and 128 rows are cut out, each a twentieth of the rows together, and single rows at random.
The default is fitted to the rest. Shown are the share of the rows cut out in the 90 % interval, and the root mean
square of their errors in predicted standard deviations. Errors in a gap are alike: 128 rows of one gap say little more
than one row, so a single share is uncertain by ten points and more, and the last line tells the most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sodalite import GreedyGPRegressor
from sodalite.metrics import interval_coverage

from .common import run_sets
from .ordinary_sets import SETS as ORDINARY

SETS = (
    *("jfk_hourly", "seattle_hourly", "sf_hourly", "co2_weekly", "melbourne_daily", "clemson_daily", "seattle_daily"),
    *("electricity_england", "electricity_victoria", "sunspots_monthly", "ice_core_temperature", "ice_core_co2"),
    *("bank_calls", "gasoline_weekly", "dow_jones", "dax", "glucose", "sea_surface", "chicago_trains", "tree_rings"),
    *("volcano", "radar_image", "airports_altitude", "quakes_depth"),
)
SIZES = (1, 8, 32, 128)  # rows of a gap
SHARE = 0.05  # of all rows that gaps of one size cut out
MOST = 3000  # rows of a set: the first ones of a series, or random ones
COVERAGE = 0.9


@dataclass(frozen=True)
class Result:
    """What was measured on one set, for each of `SIZES`."""

    name: str
    rows: int
    shares: tuple[float, ...]
    """Of the rows cut out in the interval."""
    errors: tuple[float, ...]
    """The root mean square of their errors, in standard deviations."""


def gaps(X: np.ndarray, generator: np.random.Generator) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the size of a gap and its rows: rows in a row of one input, or those nearest to one of them."""
    n = len(X)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    order = np.argsort(Z[:, 0])
    for size in SIZES:
        for _ in range(max(1, int(SHARE * n / size))):
            if Z.shape[1] == 1:
                begin = generator.integers(1, n - size)
                yield size, order[begin : begin + size]
            else:
                yield size, np.argsort(np.square(Z - Z[generator.integers(n)]).sum(axis=1))[:size]


def measure(name: str) -> Result:
    X, y = next(each for each in ORDINARY if each.name == name).load()
    generator = np.random.default_rng(0)
    if len(X) > MOST:
        some = np.argsort(X[:, 0])[:MOST] if X.shape[1] == 1 else generator.permutation(len(X))[:MOST]
        X, y = X[some], y[some]
    gap = np.zeros(len(X), dtype=int)
    for size, rows in gaps(X, generator):
        gap[rows[gap[rows] == 0]] = size
    model = GreedyGPRegressor(random_state=0).fit(X[gap == 0], y[gap == 0])
    shares, errors = [], []
    for size in SIZES:
        T, t = X[gap == size], y[gap == size]
        mean, std = model.predict(T, return_std=True)
        shares.append(interval_coverage(t, *model.predict_interval(T, coverage=COVERAGE)))
        errors.append(float(np.sqrt(np.mean(np.square((t - mean) / std)))))
    return Result(name, len(X), tuple(shares), tuple(errors))


def table(results: Sequence[Result]) -> list[str]:
    """The results as lines, the worst gaps first, and means over the sets."""
    sizes = " ".join(f"{size:>6}" for size in SIZES)
    lines = [
        f"{'':21} {'':>6}   in the {COVERAGE:.0%} interval           error / standard deviation",
        f"{'set, rows of a gap':21} {'rows':>6}   {sizes}   {sizes}",
    ]
    ordered = sorted(results, key=lambda result: np.mean(result.shares[1:]))
    lines += [_line(result.name, f"{result.rows:>6}", result.shares, result.errors) for result in ordered]
    shares = np.mean([result.shares for result in results], axis=0)
    errors = np.sqrt(np.mean(np.square([result.errors for result in results]), axis=0))
    return [*lines, _line("mean", "", shares, errors)]


def _line(name: str, rows: str, shares: Sequence[float], errors: Sequence[float]) -> str:
    shown = " ".join(f"{share:6.3f}" for share in shares) + "   " + " ".join(f"{error:6.2f}" for error in errors)
    return f"{name:21} {rows:>6}   {shown}"


def main(arguments: Sequence[str] = ()) -> None:
    run_sets("gaps", __doc__, SETS, Result, measure, table, arguments)
