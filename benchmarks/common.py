"""Data sets, timing and synthetic problems that the benchmarks share."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, WhiteKernel

from .evidence import record

DATA = Path(os.environ.get("SODALITE_DATA", "../shared/data"))
OPENML = {"pumadyn32nm": "puma32H", "elevators": "elevators", "pol": "pol"}  # names there; nearly the same rows


def load(name: str, split: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """X and y of the training rows, then of the test rows, with targets standardised by the training ones.

    They are read from the folder $SODALITE_DATA (NAME.npz with X and y; splits/NAME.npz with standard splits). Data
    sets that are not there come from OpenML, with a random split. None if neither has them.
    """
    file = DATA / f"{name}.npz"
    if file.exists():
        with np.load(file) as data:
            X, y = data["X"].astype(float), data["y"].astype(float)
    elif name in OPENML:
        from sklearn.datasets import fetch_openml

        try:
            X, y = fetch_openml(OPENML[name], version=1, return_X_y=True, as_frame=False)
            X, y = X.astype(float), y.astype(float)
        except OSError as error:
            print(f"{name}: not in {DATA}, and not to be had from OpenML ({error}); skipped")
            return None
    else:
        print(f"{name}: not in {DATA} (set SODALITE_DATA to a folder that has it); skipped")
        return None
    splits = DATA / "splits" / f"{name}.npz"
    if splits.exists():
        with np.load(splits) as data:
            test = np.unpackbits(data["test_mask_packed"], axis=0)[: len(y)].astype(bool)[:, split]
    else:
        test = np.random.default_rng(split).random(len(y)) < 0.1
    mean, std = y[~test].mean(), y[~test].std()
    return X[~test], (y[~test] - mean) / std, X[test], (y[test] - mean) / std


def run_sets(
    name: str,
    about: str,
    sets: Sequence[str],
    kind: Callable[..., Any],
    measure: Callable[[str], Any],
    table: Callable[[Sequence[Any]], list[str]],
    arguments: Sequence[str],
) -> None:
    """Measure all sets, or those that `--only` names, print a table, and record it as evidence if it is complete.

    Results are kept in benchmarks/results/NAME.json: a run of some sets replaces these there.

    Parameters
    ----------
    name, about : str
        The benchmark, and what it says of itself.
    sets : sequence of str
    kind : dataclass
        The result of a set, with a field `name`.
    measure : callable
        Returns the result of a set; None if the set is not to be had.
    table : callable
        Lines that show some results.
    arguments : sequence of str
        Those of the command line.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks {name}", description=about.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=sets, metavar="NAME", help=f"some sets only, of {', '.join(sets)}")
    only = parser.parse_args(arguments).only
    path = Path(f"benchmarks/results/{name}.json")
    before = json.loads(path.read_text()) if only and path.exists() else []
    results = [kind(**values) for values in before if values["name"] not in only]
    for each in only or sets:
        result = measure(each)
        if result is None:
            continue
        results.append(result)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([asdict(one) for one in results], indent=1))
        print("\n".join(table([result])), flush=True)
    lines = table(results)
    print("\n" + "\n".join(lines))
    if {result.name for result in results} == set(sets):
        record(name, f"python -m benchmarks {name}", {f"{name}.txt": lines})


def seconds(function: Callable[[], Any], repeats: int = 3) -> float:
    """The median time of some calls, in seconds."""
    times = []
    for _ in range(repeats):
        begin = perf_counter()
        function()
        times.append(perf_counter() - begin)
    return median(times)


def standardised(X: np.ndarray, X_test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inputs in standard deviations of the training rows from their means; constant columns become 0 there."""
    mean, std = X.mean(axis=0), X.std(axis=0)
    std[std == 0] = 1
    return (X - mean) / std, (X_test - mean) / std


def smooth_problem(
    n: int, noise: float, d: int = 8, seed: int = 0, n_features: int = 1000, dtype: str = "float64"
) -> tuple[np.ndarray, np.ndarray, Kernel]:
    """Rows X and y of a function with noise, and the kernel from whose prior it is drawn, by random features.

    The prior variance is 1, `noise` the variance of the noise.
    """
    generator = np.random.default_rng(seed)
    scale = np.sqrt(d)
    X = generator.standard_normal((n, d), dtype=dtype)
    W = generator.normal(size=(d, n_features)) / scale
    phase = generator.uniform(0, 2 * np.pi, n_features)
    weights = generator.normal(size=n_features) * np.sqrt(2 / n_features)
    y = generator.standard_normal(n, dtype=dtype) * np.sqrt(noise, dtype=dtype)
    for begin in range(0, n, 10_000):
        part = slice(begin, begin + 10_000)
        y[part] += np.cos(X[part] @ W + phase) @ weights
    kernel = ConstantKernel(1.0) * RBF(np.full(d, scale)) + WhiteKernel(noise)
    return X, y, kernel
