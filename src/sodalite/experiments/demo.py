"""The embedded data set, fitted four ways with one kernel: the default, sod, a random subset, all rows."""

from __future__ import annotations

import warnings
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor

from .. import metrics
from ..datasets import load_mauna_loa
from ..estimator import GreedyGPRegressor
from ..exceptions import NoBetterWarning
from .printing import print_tidily


class ModelResult(NamedTuple):
    """How good one model of so many active rows is on the rows held out, in ppm of CO2.

    The coverage is the share of these rows in their 95 % bands; the seconds are those of fit and prediction.
    """

    name: str
    n_rows: int
    rmse: float
    nlpd: float
    coverage: float
    seconds: float


class ModelComparison(NamedTuple):
    """Four models of the same data with the same kernel."""

    n_train: int
    n_test: int
    kernel: str
    stop_reason: str
    results: tuple[ModelResult, ...]


def compare(n_active: int = 200, seed: int = 0) -> ModelComparison:
    """Fit and predict with the default model, and with its kernel in three other ways."""
    X, y = load_mauna_loa()
    generator = np.random.default_rng(seed)
    held_out = generator.permutation(len(y)) < len(y) // 5
    X_train, y_train, X_test, y_test = X[~held_out], y[~held_out], X[held_out], y[held_out]

    def judge(name: str, model: GreedyGPRegressor | GaussianProcessRegressor) -> ModelResult:
        begin = perf_counter()
        mean, std = model.fit(X_train, y_train).predict(X_test, return_std=True)
        seconds = perf_counter() - begin
        if isinstance(model, GreedyGPRegressor):  # by the distribution that it has learnt
            nlpd = -float(np.mean(model.log_density(X_test, y_test)))
            coverage = metrics.interval_coverage(y_test, *model.predict_interval(X_test))
        else:
            nlpd, coverage = metrics.nlpd(y_test, mean, std), metrics.coverage(y_test, mean, std)
        return ModelResult(name, len(model.X_train_), metrics.rmse(y_test, mean), nlpd, coverage, seconds)

    default = GreedyGPRegressor(n_active=n_active, random_state=seed)
    first = judge("default (local)", default)
    kernel = default.kernel_
    alone: dict[str, Any] = {"n_active": n_active, "hyperparameters": "fixed", "posterior": "sod", "random_state": seed}
    others = {
        "active rows (sod)": GreedyGPRegressor(kernel, **alone),
        "random rows (sod)": GreedyGPRegressor(kernel, criterion="random", **alone),
        "all rows (full GP)": GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoBetterWarning)  # what they lack is what they are here to show
        results = (first, *(judge(name, model) for name, model in others.items()))
    return ModelComparison(len(y_train), len(y_test), str(kernel), default.selection_.stop_reason, results)


def show(comparison: ModelComparison) -> None:
    """Print a comparison for a person to read."""
    from rich.console import Console
    from rich.table import Table

    console, first = Console(highlight=False), comparison.results[0]
    console.print("[bold]Weekly CO2 at Mauna Loa, 1958 to 2001[/bold] (parts per million against the year)")
    grid = Table.grid(padding=(0, 2))
    grid.add_row("rows", f"{comparison.n_train} to learn from, {comparison.n_test} held out")
    grid.add_row("active rows", f"{first.n_rows} ({first.n_rows / comparison.n_train:.0%} of the rows)")
    kernel = comparison.kernel.replace(" + ", "\n+ ")
    grid.add_row("kernel found", f"{kernel}\nfor targets scaled to unit variance")
    table = Table(title="On the held-out rows, noise included", title_justify="left", title_style="")
    for heading in ("model", "rows", "RMSE", "NLPD", "in 95 % band", "fit + predict"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    for part in comparison.results:
        numbers = f"{part.rmse:.3f}", f"{part.nlpd:.3f}", f"{part.coverage:.1%}", f"{part.seconds:.2f} s"
        table.add_row(part.name, str(part.n_rows), *numbers)
    print_tidily(console, grid, "", table)
    console.print("RMSE in ppm; NLPD, the mean negative log predictive density: less is better.")
    console.print("The default's time includes finding the kernel, which the others start from.")
    console.print("The default sees all rows, a few near each query; the full GP is scikit-learn's.")
