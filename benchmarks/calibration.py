"""How often 95 % intervals for new observations cover them, with the defaults, on the real sets."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import numpy as np

from sodalite import GreedyGPRegressor
from sodalite.metrics import coverage, nlpd, rmse

from .common import load

TEXT = Path("docs/calibration.txt")
SETS = ("protein", "elevators", "bike_noleak", "precip_global", "pol", "kin40k", "keggdirected", "pumadyn32nm")


def main() -> None:
    lines = [f"{'set':14} {'rows':>6}  {'RMSE':>6}  {'NLPD':>7}  in 50 %  in 95 %  in 99.9 %  NLPD, in 95 % unscaled"]
    for name in SETS:
        data = load(name)
        if data is None:
            continue
        X, y, X_test, y_test = data
        if len(X) > 50_000:
            some = np.random.default_rng(0).permutation(len(X))[:50_000]
            X, y = X[some], y[some]
        begin = perf_counter()
        model = GreedyGPRegressor(random_state=0).fit(X, y)
        mean, std = model.predict(X_test, return_std=True)
        seconds = perf_counter() - begin
        plain = GreedyGPRegressor(model.kernel_, hyperparameters="fixed", calibrate=False, random_state=0)
        mean_plain, std_plain = plain.fit(X, y).predict(X_test, return_std=True)
        shares = [coverage(y_test, mean, std, level) for level in (0.5, 0.95, 0.999)]
        lines.append(
            f"{name:14} {len(X):>6}  {rmse(y_test, mean):6.4f}  {nlpd(y_test, mean, std):7.3f}  "
            f"{shares[0]:7.3f}  {shares[1]:7.3f}  {shares[2]:9.4f}  "
            f"{nlpd(y_test, mean_plain, std_plain):7.3f}, {coverage(y_test, mean_plain, std_plain):.3f}"
        )
        print(f"{lines[-1]}   ({seconds:.0f} s)", flush=True)
    TEXT.write_text("\n".join(lines) + "\n")
    print(f"table: {TEXT}")
