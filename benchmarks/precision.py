"""When float32 is safe: how long its picks are float64's, and how good they are, against the noise. With a figure.

The engine's products lose about 1e-7 of the prior variance in float32, so what matters is how that compares with the
noise variance, and how smooth the kernel is: nearly singular covariances magnify it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, WhiteKernel

from sodalite import GreedyGPRegressor, select

from .common import smooth_problem

FIGURE = Path("docs/images/float32.png")
NOISE = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
N, M = 20_000, 300  # rows, active rows


Problem = tuple[np.ndarray, np.ndarray, Kernel]
"""X, y and a kernel."""


def wave(n: int, noise: float) -> Problem:
    """One input, and far more rows than the function needs: the covariance of the picks is nearly singular."""
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 20, size=(n, 1))
    y = np.sin(X[:, 0]) + np.sqrt(noise) * generator.normal(size=n)
    return X, y, ConstantKernel(1.0) * RBF([1.0]) + WhiteKernel(noise)


PROBLEMS = {"8 inputs": smooth_problem, "1 input": wave}


def compare(problem: Callable[[int, float], Problem], noise: float) -> dict[str, float]:
    """The share of picks before float32's first other one, and its test RMSE over float64's."""
    X, y, kernel = problem(N + 2000, noise)
    X, y, X_test, y_test = X[:N], y[:N], X[N:], y[N:]
    chosen = {
        dtype: select(X, y, kernel, n_active=M, first=0, criterion="delta", dtype=dtype).indices
        for dtype in ("float64", "float32")
    }
    same = chosen["float64"] == chosen["float32"]
    prefix = M if same.all() else int(np.argmin(same))
    error = {}
    for dtype, rows in chosen.items():
        model = GreedyGPRegressor(kernel, n_active=M, hyperparameters="fixed", posterior="sod", target=None)
        error[dtype] = float(np.sqrt(np.mean((model.fit(X, y, first=rows).predict(X_test) - y_test) ** 2)))
    return {"prefix": prefix / M, "ratio": error["float32"] / error["float64"]}


def draw(results: dict[str, list[dict[str, float]]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes = figure.subplots(1, 2, sharex=True)
    for (name, line), colour in zip(results.items(), ("#0072B2", "#D55E00"), strict=True):
        axes[0].semilogx(NOISE, [point["prefix"] for point in line], "o-", color=colour, label=name)
        axes[1].semilogx(NOISE, [point["ratio"] for point in line], "o-", color=colour, label=name)
    axes[0].set_ylabel("share of picks before the first other one")
    axes[1].set_ylabel("test RMSE, float32 over float64")
    axes[1].axhline(1, color="#999999", linewidth=0.8)
    for axis in axes:
        axis.set_xlabel("noise variance / signal variance")
        axis.grid(alpha=0.3)
    axes[0].legend(frameon=False)
    figure.savefig(FIGURE, dpi=160)
    print(f"figure: {FIGURE}")


def main() -> None:
    results = {name: [compare(problem, noise) for noise in NOISE] for name, problem in PROBLEMS.items()}
    for name, line in results.items():
        for noise, point in zip(NOISE, line, strict=True):
            print(
                f"{name:9} noise {noise:7.0e}: the first {point['prefix']:4.0%} of {M} picks the same, "
                f"RMSE {point['ratio']:.3f} times float64's"
            )
    draw(results)
