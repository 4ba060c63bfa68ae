"""Data, timing and problems that the benchmarks share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, WhiteKernel

DATA = Path(os.environ.get("SODALITE_DATA", "../shared/data"))
OPENML = {"pumadyn32nm": "puma32H", "elevators": "elevators", "pol": "pol"}  # near equivalents


def load(name: str, split: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """Training and test rows of a standard split, the targets standardised by the training ones.

    From the folder $SODALITE_DATA (NAME.npz with X and y; splits/NAME.npz); without it, from OpenML with a random
    split; None if neither can be had.
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


def seconds(function: Callable[[], Any], repeats: int = 3) -> float:
    """The median time of some calls."""
    times = []
    for _ in range(repeats):
        begin = perf_counter()
        function()
        times.append(perf_counter() - begin)
    return median(times)


def smooth_problem(n: int, noise: float, d: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray, Kernel]:
    """Rows of a function drawn (by random features) from the kernel's own prior, of variance 1, and that noise."""
    generator = np.random.default_rng(seed)
    scale = np.sqrt(d)
    X = generator.normal(size=(n, d))
    W = generator.normal(size=(d, 1000)) / scale
    phase = generator.uniform(0, 2 * np.pi, 1000)
    weights = generator.normal(size=1000) * np.sqrt(2 / 1000)
    f = np.concatenate([np.cos(part @ W + phase) @ weights for part in np.array_split(X, max(1, n // 10_000))])
    kernel = ConstantKernel(1.0) * RBF(np.full(d, scale)) + WhiteKernel(noise)
    return X, f + np.sqrt(noise) * generator.normal(size=n), kernel
