"""The picks on real data: the block engine against one row at a time, over the whole path."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from sodalite import reference, select

from .common import load

SETS = ("kin40k", "protein", "keggdirected", "elevators", "pol", "bike_noleak")


def main() -> None:
    print(
        f"{'set':13} {'rows':>6} {'noise':>6} {'v kept':>6} {'same picks':>11} {'proposed':>9} {'RMSE differs by':>16}"
    )
    for name in SETS:
        data = load(name)
        if data is None:
            continue
        X, y = data[0], data[1]
        scale = np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0) * np.sqrt(X.shape[1])
        for noise in (0.01, 0.3):
            kernel = ConstantKernel(1.0) * RBF(scale) + WhiteKernel(noise)
            indices, rmse, _ = reference.one_at_a_time(X, y, kernel, n_active=300, first=0)
            for limit in (None, 24 * len(X) + 40e6):
                chosen = select(X, y, kernel, n_active=300, first=0, criterion="delta", memory_limit=limit)
                same = int(np.sum(chosen.indices == indices))
                differs = float(np.abs(chosen.rmse / rmse - 1).max())
                print(
                    f"{name:13} {len(X):6} {noise:6} {'yes' if limit is None else 'no':>6} {same:7}/300 "
                    f"{chosen.n_proposed / len(chosen):9.2f} {differs:16.1e}",
                    flush=True,
                )
