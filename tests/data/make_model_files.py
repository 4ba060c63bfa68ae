"""Made the model files of this folder, one function a format version, and what they predict. They are not made again:

later versions must read them as they are. A new format version gets files, and a function, of its own.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, RationalQuadratic, WhiteKernel

import sodalite
import sodalite.persistence.posteriors
from sodalite.hyperparameters import Subset
from sodalite.kernels import PeriodicColumn
from sodalite.tables import Column, Preprocessing

FOLDER = Path(__file__).parent


def version_1() -> None:
    """One file for each kind of posterior, with what a file can hold between them."""
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, size=(60, 2))
    X[50:] = X[40:50]  # copies
    y = 100 + 10 * np.sin(2 * X[:, 0]) + 3 * X[:, 1] + random.normal(size=60)
    queries = random.uniform(-2, 2, size=(8, 2))
    plain = {"n_active": 10, "random_state": 0, "hyperparameters": "fixed"}
    kernel = ConstantKernel(1.2) * Matern([0.7, 1.9], nu=1.5) + WhiteKernel(0.05)
    mixed = (
        RBF([1.0, 2.0]) * RationalQuadratic(1.1, 0.8) + 0.1 * PeriodicColumn(0, 1.4, 2.3, "fixed") + WhiteKernel(0.1)
    )
    local = sodalite.GreedyGPRegressor(kernel, **plain).fit(X, y, alpha=np.linspace(0, 1, 60))
    local.preprocessing_ = Preprocessing("y", (Column("a", "number", fill=0.5), Column("b", "date")), "median")
    local.about_ = {"data": "a table", "test": []}
    models = {
        "local": local,
        "sod": sodalite.GreedyGPRegressor(
            n_active=10, posterior="sod", hyperparameters=Subset(n_rows=50, n_starts=2, n_steps=5), random_state=0
        ).fit(X, y),
        "vfe": sodalite.GreedyGPRegressor(mixed, posterior="vfe", tol=1e-3, **plain).fit(X, np.stack([y, -y], axis=1)),
    }
    predicted = {"X": queries.tolist()}
    for name, model in models.items():
        sodalite.save(model, FOLDER / f"version_1_{name}.sodalite")
        mean, std = model.predict(queries, return_std=True)
        predicted[name] = {"mean": mean.tolist(), "std": std.tolist()}
    (FOLDER / "version_1.json").write_text(json.dumps(predicted, indent=1) + "\n")


def version_2() -> None:
    """Models with a learnt distribution of errors."""
    _learnt(2)


def version_5() -> None:
    """As version 2, but the file says how many places near by the widths of errors depend on."""
    _learnt(5)


def version_6() -> None:
    """As version 2, but error bars beyond the data change by the logarithm of the novelty."""
    _learnt(6)


def version_7() -> None:
    """As version 6, but noise is the same everywhere: widths of errors are in units of the standard deviation."""
    _learnt(7, noise=(0.5, 0.5))


def _learnt(version: int, noise: tuple[float, float] = (2.0, 0.1)) -> None:
    """Models with a distribution of errors by place, by place of fewer rows, and of two targets."""
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, size=(160, 2))
    X[150:] = X[140:150]  # copies
    error = random.standard_t(2.5, size=160) * np.where(X[:, 1] > 0, *noise)
    y = 100 + 10 * np.sin(2 * X[:, 0]) + 3 * X[:, 1] + error
    queries, levels = random.uniform(-3, 3, size=(8, 2)), [0.01, 0.5, 0.9]
    plain = {"n_active": 10, "random_state": 0, "hyperparameters": "fixed"}
    kernel = ConstantKernel(1.2) * Matern([0.7, 1.9], nu=1.5) + WhiteKernel(0.05)
    local = sodalite.GreedyGPRegressor(kernel, **plain).fit(X, y)
    local.preprocessing_ = Preprocessing("y", (Column("a", "number", fill=0.5), Column("b", "date")), "median")
    local.about_ = {"data": "a table", "test": []}
    search = Subset(n_rows=50, n_starts=2, n_steps=5)
    models = {
        "local": local,
        "sod": sodalite.GreedyGPRegressor(n_active=10, posterior="sod", hyperparameters=search, random_state=0).fit(
            X, y
        ),
        "vfe": sodalite.GreedyGPRegressor(kernel, posterior="vfe", **plain).fit(X, np.stack([y, error**2], axis=1)),
    }
    _write(version, models, queries, levels)


def version_3() -> None:
    """Models with a mean function: trees, a line, and trees for two targets."""
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, size=(160, 2))
    y = 100 + 10 * (X[:, 0] > 0.3) + 3 * X[:, 1] + random.normal(size=160)
    queries, levels = random.uniform(-3, 3, size=(8, 2)), [0.01, 0.5, 0.9]
    plain = {"n_active": 10, "random_state": 0, "hyperparameters": "fixed"}
    kernel = ConstantKernel(1.2) * Matern([0.7, 1.9], nu=1.5) + WhiteKernel(0.5)
    local = sodalite.GreedyGPRegressor(kernel, mean="auto", **plain).fit(X, y)
    assert local.mean_.name == "trees"
    local.preprocessing_ = Preprocessing("y", (Column("a", "number", fill=0.5), Column("b", "date")), "median")
    local.about_ = {"data": "a table", "test": []}
    search = Subset(n_rows=50, n_starts=2, n_steps=5)
    other = {"mean": "linear", "posterior": "sod", "hyperparameters": search, "n_active": 10, "random_state": 0}
    vfe = sodalite.GreedyGPRegressor(kernel, mean="trees", posterior="vfe", **plain)
    models = {
        "local": local,
        "sod": sodalite.GreedyGPRegressor(**other).fit(X, y),
        "vfe": vfe.fit(X, np.stack([y, X[:, 0] * y], axis=1)),
    }
    _write(3, models, queries, levels)


def version_4() -> None:
    """A model whose rows are mapped, with neighbourhoods that queries share; the others as before."""
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, size=(400, 2))
    X[350:] = X[300:350]  # copies
    y = 100 + 10 * (X[:, 0] > 0.3) + 3 * X[:, 1] + random.normal(size=400)
    queries, levels = random.uniform(-3, 3, size=(8, 2)), [0.01, 0.5, 0.9]
    plain = {"n_active": 10, "random_state": 0, "hyperparameters": "fixed"}
    kernel = ConstantKernel(1.2) * Matern([0.7, 1.9], nu=1.5) + WhiteKernel(0.5)
    local = sodalite.GreedyGPRegressor(kernel, mean="trees", **plain).fit(X, y, alpha=np.linspace(0, 1, 400))
    local.fitted_ = replace(local.fitted_, posterior=local.posterior_.sharing(cell=40, h=100, power=2))
    local.preprocessing_ = Preprocessing("y", (Column("a", "number", fill=0.5), Column("b", "date")), "median")
    local.about_ = {"data": "a table", "test": []}
    search = Subset(n_rows=50, n_starts=2, n_steps=5)
    other = {"posterior": "sod", "hyperparameters": search, "n_active": 10, "random_state": 0}
    models = {
        "local": local,
        "sod": sodalite.GreedyGPRegressor(mean="linear", **other).fit(X, y),
        "vfe": sodalite.GreedyGPRegressor(kernel, posterior="vfe", **plain).fit(X, np.stack([y, -y], axis=1)),
    }
    sodalite.persistence.posteriors.LEAST_ROWS = 100
    _write(4, models, queries, levels)


def _write(version: int, models: dict[str, sodalite.GreedyGPRegressor], queries: np.ndarray, levels: list) -> None:
    """Write models and what they predict."""
    predicted = {"X": queries.tolist(), "levels": levels}
    for name, model in models.items():
        sodalite.save(model, FOLDER / f"version_{version}_{name}.sodalite")
        mean, std = model.predict(queries, return_std=True)
        quantiles = model.predict_quantiles(queries, levels)
        predicted[name] = {"mean": mean.tolist(), "std": std.tolist(), "quantiles": quantiles.tolist()}
    (FOLDER / f"version_{version}.json").write_text(json.dumps(predicted, indent=1) + "\n")


if __name__ == "__main__":
    version_7()
