"""Rows that join a full model, with and without an exchange of active rows.

The new rows are those with the largest values of the first input, where the model has seen none.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np

from sodalite import GreedyGPRegressor
from sodalite.metrics import nlpd, rmse

from .common import load
from .evidence import record

SETS = ("elevators", "kin40k", "protein", "jacksboro_dem")
ROWS, ACTIVE = 20_000, 300  # most rows of a set; active rows


def main() -> None:
    lines = [
        f"{'':20} {'as they are':>15}   {'exchanged':>15}",
        f"{'':14} {'new':>5} {'RMSE':>7} {'NLPD':>7}   {'RMSE':>7} {'NLPD':>7}  new ones active",
    ]
    print("\n".join(lines))
    for name in SETS:
        data = load(name)
        if data is None:
            continue
        X, y, X_test, y_test = data
        some = np.random.default_rng(0).permutation(len(X))[:ROWS]
        some = some[np.argsort(X[some, 0], kind="stable")]
        for new in (0.5, 0.1):
            n_old = round((1 - new) * len(some))
            old, late = some[:n_old], some[n_old:]
            model = GreedyGPRegressor(posterior="sod", n_active=ACTIVE, hyperparameters="subset", random_state=0)
            model.fit(X[old], y[old])
            found = []
            for exchange in (False, True):
                joined = deepcopy(model).partial_fit(X[late], y[late], exchange=exchange)
                mean, std = joined.predict(X_test, return_std=True)
                found += [rmse(y_test, mean), nlpd(y_test, mean, std)]
            moved = int(np.sum(joined.active_indices_ >= n_old))
            lines.append(
                f"{name:14} {new:5.0%} {found[0]:7.3f} {found[1]:7.3f}   {found[2]:7.3f} {found[3]:7.3f}  {moved:15}"
            )
            print(lines[-1], flush=True)
    record("joining", "python -m benchmarks joining", {"joining.txt": lines})
