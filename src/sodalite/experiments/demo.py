"""The embedded data set, fitted three ways with one kernel: greedy, a random subset of the same size, all rows."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor

from .. import metrics
from ..datasets import load_mauna_loa
from ..estimator import GreedyGPRegressor
from ..hyperparameters import Subset


@dataclass(frozen=True)
class Result:
    """One model on the held-out rows."""

    name: str
    n_rows: int
    rmse: float
    nlpd: float
    coverage: float
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """Three models of the same data with the same kernel."""

    n_train: int
    n_test: int
    kernel: str
    kernel_seconds: float
    stop_reason: str
    results: tuple[Result, ...]


def compare(n_active: int = 200, seed: int = 0) -> Comparison:
    """Find a kernel on a subset of the training rows, then fit and predict with it three ways."""
    X, y = load_mauna_loa()
    generator = np.random.default_rng(seed)
    held_out = generator.permutation(len(y)) < len(y) // 5
    X_train, y_train, X_test, y_test = X[~held_out], y[~held_out], X[held_out], y[held_out]

    begin = perf_counter()
    plain: dict[str, Any] = {"posterior": "sod", "random_state": seed}
    tiny = GreedyGPRegressor(n_active=1, hyperparameters=Subset(), **plain).fit(X_train, y_train)
    kernel_seconds = perf_counter() - begin

    fixed = {"kernel": tiny.kernel_, "hyperparameters": "fixed", "n_active": n_active, **plain}
    greedy = GreedyGPRegressor(**fixed)
    models: dict[str, Any] = {
        "greedy": greedy,
        "random subset": GreedyGPRegressor(**fixed, score="random"),
        "full GP": GaussianProcessRegressor(tiny.kernel_, optimizer=None, normalize_y=True),
    }
    results = []
    for name, model in models.items():
        begin = perf_counter()
        mean, std = model.fit(X_train, y_train).predict(X_test, return_std=True)
        seconds = perf_counter() - begin
        scores = metrics.rmse(y_test, mean), metrics.nlpd(y_test, mean, std), metrics.coverage(y_test, mean, std)
        results.append(Result(name, len(model.X_train_), *scores, seconds))
    reason = greedy.selection_.stop_reason
    return Comparison(len(y_train), len(y_test), str(tiny.kernel_), kernel_seconds, reason, tuple(results))


def show(comparison: Comparison) -> None:
    """Print a comparison for a person to read."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    greedy = comparison.results[0]
    console.print("[bold]Weekly CO2 at Mauna Loa, 1958 to 2001[/bold] (parts per million against the year)")
    console.print(f"rows          {comparison.n_train} to learn from, {comparison.n_test} held out")
    console.print(f"active rows   {greedy.n_rows} ({greedy.n_rows / comparison.n_train:.0%} of the rows)")
    kernel = comparison.kernel.replace(" + ", "\n              + ")
    console.print(f"kernel found  {kernel}")
    console.print(f"              for targets scaled to unit variance; took {comparison.kernel_seconds:.1f} s\n")
    table = Table(title="On the held-out rows, noise included", title_justify="left", title_style="")
    for heading in ("model", "rows", "RMSE", "NLPD", "in 95 % band", "fit + predict"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for result in comparison.results:
        table.add_row(
            result.name,
            str(result.n_rows),
            f"{result.rmse:.3f}",
            f"{result.nlpd:.3f}",
            f"{result.coverage:.1%}",
            f"{result.seconds:.2f} s",
        )
    console.print(table)
    console.print("RMSE in ppm; NLPD, the mean negative log predictive density: less is better.")
    console.print("The full GP is scikit-learn's. All three have the kernel above.")
