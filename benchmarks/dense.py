"""Large data sets in few dimensions: the kernel learnt at the density of the data, against a kernel of a thin sample.

The default as it is, on us_elevation and chm (first split, all rows), beside a kernel that is learnt from a random
sample of 100 000 rows alone.
"""

from __future__ import annotations

from contextlib import nullcontext
from time import perf_counter
from unittest.mock import patch

import numpy as np

from sodalite import GreedyGPRegressor
from sodalite.metrics import nlpd, rmse

from .common import load

SETS = ("us_elevation", "chm")


def measure(name: str, at_density: bool) -> str | None:
    """A line with the errors of the default on the test rows of a set; None if it is not to be had."""
    data = load(name)
    if data is None:
        return None
    X, y, X_test, y_test = data
    begin = perf_counter()
    windows = "sodalite.hyperparameters.weave.with_windows"
    with nullcontext() if at_density else patch(windows, return_value=None):
        model = GreedyGPRegressor(random_state=0).fit(X, y)
    seconds = perf_counter() - begin
    mean, std = model.predict(X_test, return_std=True)
    learnt = -float(np.mean(model.log_density(X_test, y_test)))
    way = "at full density" if at_density else "from a sample"
    return (
        f"{name:14} {len(X):8} rows, kernel {way:16} RMSE {rmse(y_test, mean):.4f}, NLPD Gaussian "
        f"{nlpd(y_test, mean, std):.3f}, learnt {learnt:.3f}; fit {seconds:.0f} s; {model.kernel_}"
    )


def main() -> None:
    for name in SETS:
        for at_density in (False, True):
            if (line := measure(name, at_density)) is not None:
                print(line, flush=True)
