"""pumadyn32nm: of 32 inputs, four matter. A likelihood that is fooled calls it all noise, or finds two of them."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from sodalite import GreedyGPRegressor
from sodalite.metrics import rmse

from .common import load


def main() -> None:
    data = load("pumadyn32nm")
    if data is None:
        return
    X, y, X_test, y_test = data
    print("1000 active rows, hyperparameters='subset'; RMSE in standard deviations of the target")
    for seed in range(5):
        begin = perf_counter()
        model = GreedyGPRegressor(n_active=1000, hyperparameters="subset", random_state=seed).fit(X, y)
        took = perf_counter() - begin
        scale = np.asarray(model.kernel_.k1.k2.length_scale) / X.std(axis=0)
        relevant = np.flatnonzero(scale < 20).tolist()
        error = rmse(y_test, model.predict(X_test))
        print(f"seed {seed}: RMSE {error:.3f}, inputs that matter {relevant}, {took:.1f} s", flush=True)
