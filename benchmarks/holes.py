"""Holes in maps: whether what is predicted in them is as good as by kernels given by hand, and as sure as it says.

From every map, clouds (ellipses of 4 to 30 % of the extent) or squares are cut until 30 % of its rows are gone. The
default is fitted to the rest, and so are two kernels whose parameters are searched: a Matern 1/2, and the sum of a
short Matern 3/2 and a long Matern 1/2. Shown are minus the mean log density, the interval score of 95 % intervals and
the RMSE of the rows that were cut out, in standard deviations of the targets, and the share of them in these intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module

import numpy as np
from sklearn.gaussian_process.kernels import ConstantKernel, Kernel, Matern, WhiteKernel

from sodalite import GreedyGPRegressor
from sodalite.metrics import interval_coverage, interval_score, rmse

from .common import DATA, run_sets
from .ordinary_sets import SETS as ORDINARY

MOST = 30_000  # rows of a map, drawn at random
SHARE = 0.3  # of the rows that are cut out
BOUNDS = (1e-5, 1e5)
ORDINARY_MAPS = ("volcano", "radar_image", "airports_altitude", "quakes_depth", "bicycle_track")
FILES = ("us_elevation", "jacksboro_dem", "precip_global", "chm")
SHAPES = ("clouds", "squares")
SETS = tuple(f"{name} {shape}" for name in (*FILES, "topobathy", *ORDINARY_MAPS) for shape in SHAPES)


@dataclass(frozen=True)
class Result:
    """What was measured on a map: for every way, NLPD, interval score, RMSE and the share in 95 % intervals."""

    name: str
    rows: int
    ways: dict[str, tuple[float, ...]] = field(default_factory=dict)


def load(name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Two inputs and a target for every row of a map; None if it is not to be had."""
    if name in FILES:
        file = DATA / f"{name}.npz"
        if not file.exists():
            print(f"{name}: not in {DATA} (set SODALITE_DATA to a folder that has it); skipped")
            return None
        with np.load(file) as data:
            X, y = data["X"].astype(float), data["y"].astype(float)
        if name == "precip_global":  # its last year
            year = X[:, 0] == X[:, 0].max()
            X, y = X[year, 1:], y[year]
    elif name == "topobathy":
        with import_module("matplotlib.cbook").get_sample_data("topobathy.npz") as data:
            longitude, latitude, height = data["longitude"], data["latitude"], data["topo"]
        X = np.stack([each.ravel() for each in np.meshgrid(longitude, latitude)], axis=1).astype(float)
        y = height.astype(float).ravel()
    else:
        X, y = next(each for each in ORDINARY if each.name == name).load()
    some = np.random.default_rng(0).permutation(len(X))[:MOST]
    return X[some], y[some]


def cut(X: np.ndarray, shape: str, generator: np.random.Generator) -> np.ndarray:
    """Which rows are in holes; of shape (n,)."""
    place = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    gone = np.zeros(len(X), dtype=bool)
    while gone.mean() < SHARE:
        away = place - place[generator.integers(len(X))]
        if shape == "squares":
            gone |= np.abs(away).max(axis=1) < generator.uniform(0.02, 0.12)
            continue
        angle, radii = generator.uniform(0, np.pi), generator.uniform(0.02, 0.15, 2)
        turned = away @ np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        gone |= np.square(turned / radii).sum(axis=1) < 1
    return gone


def ways(X: np.ndarray) -> dict[str, Kernel | None]:
    """The kernels that are compared, by name; None for the default."""
    long = ConstantKernel(1.0) * Matern(X.std(axis=0), BOUNDS, nu=0.5)
    short = ConstantKernel(0.3) * Matern(0.05 * X.std(axis=0), BOUNDS, nu=1.5)
    return {"default": None, "Matern 1/2": long + WhiteKernel(0.01), "two scales": short + long + WhiteKernel(0.01)}


def measure(name: str) -> Result | None:
    which, shape = name.split()
    if (loaded := load(which)) is None:
        return None
    X, y = loaded
    gone = cut(X, shape, np.random.default_rng(SETS.index(name)))
    T, t, std = X[gone], y[gone], float(y[~gone].std())
    found = {}
    for way, kernel in ways(X[~gone]).items():
        model = GreedyGPRegressor(kernel, random_state=0).fit(X[~gone], y[~gone])
        low, high = model.predict_interval(T, coverage=0.95)
        found[way] = (
            -float(model.log_density(T, t).mean()) - np.log(std),
            interval_score(t, low, high, coverage=0.95) / std,
            rmse(t, model.predict(T)) / std,
            interval_coverage(t, low, high),
        )
    return Result(name, len(X), found)


def table(results: Sequence[Result]) -> list[str]:
    """The results as lines, by map, and how often the default is the best."""
    names = list(results[0].ways)
    heading = " ".join(f"{name:^27}" for name in names)
    columns = " ".join(f"{'NLPD':>6} {'score':>6} {'RMSE':>6} {'inside':>6}" for _ in names)
    lines = [f"{'':25} {'':>6}  {heading}".rstrip(), f"{'map, holes':25} {'rows':>6}  {columns}"]
    for result in results:
        shown = " ".join("{:6.3f} {:6.2f} {:6.3f} {:6.3f}".format(*result.ways[name]) for name in names)
        lines.append(f"{result.name:25} {result.rows:>6}  {shown}")
    if len(results) > 1:
        counts = [sum(_is_best(result, place) for result in results) for place in (0, 1)]
        inside = sum(0.92 <= result.ways["default"][3] <= 0.975 for result in results)
        lines.append(
            f"of {len(results)}: the default has the best NLPD on {counts[0]}, the best interval score on {counts[1]} "
            f"(ties within .01 count); its 95 % intervals hold 92 to 97.5 % on {inside}"
        )
    return lines


def _is_best(result: Result, place: int) -> bool:
    mine, others = result.ways["default"][place], [found[place] for found in result.ways.values()]
    return bool(mine <= min(others) + 0.01)


def main(arguments: Sequence[str] = ()) -> None:
    run_sets("holes", __doc__, SETS, Result, measure, table, arguments)
