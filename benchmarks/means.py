"""The mean functions beside the default and beside boosted trees alone, on the real sets; worst first.

For every set: RMSE of boosted trees alone (LightGBM, two numbers of leaves, up to 1000 rounds, stopped early by a tenth
of the rows), RMSE and NLPD of models with a constant, a straight line and trees, and of the default, which mean that
chose, and how long it took. All of them are means over as many splits as it takes to test 5000 rows, at most ten.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numpy as np

from sodalite import GreedyGPRegressor
from sodalite.metrics import rmse

from .calibration import ENOUGH, MOST_SPLITS, SETS
from .common import load, run_sets


@dataclass(frozen=True)
class Result:
    """What was measured on one set."""

    name: str
    rows: int
    trees_alone: float
    """RMSE of boosted trees without a Gaussian process."""
    models: dict[str, tuple[float, float]]
    """RMSE and NLPD on the test rows of every model that competed."""
    chosen: dict[str, int]
    """How often each was."""
    seconds: float
    """Of a default fit."""

    @property
    def worse(self) -> float:
        """RMSE of the default, over that with a constant or of trees alone, whichever is better."""
        return self.models["default"][0] / min(self.models["constant"][0], self.trees_alone)

    @property
    def lost(self) -> float:
        """NLPD of the default, less that of the better of those with a constant and with trees."""
        return self.models["default"][1] - min(self.models["constant"][1], self.models["trees"][1])

    @property
    def choice(self) -> str:
        """The models that were chosen, each with the number of splits."""
        return ", ".join(f"{name} {count}" for name, count in sorted(self.chosen.items(), key=lambda part: -part[1]))


class Split(NamedTuple):
    """What was measured on one split."""

    tested: int
    trees_alone: float
    models: dict[str, tuple[float, float]]
    chosen: str
    seconds: float


def trees_alone(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> np.ndarray:
    """Predictions of boosted trees; the number of leaves and of rounds is chosen by a tenth of the rows."""
    import lightgbm

    left = np.random.default_rng(0).random(len(X)) < 0.1
    found = []
    for leaves in (31, 127):
        model = lightgbm.LGBMRegressor(
            n_estimators=1000, learning_rate=0.05, num_leaves=leaves, verbose=-1, random_state=0
        )
        stop = lightgbm.early_stopping(50, verbose=False)
        model.fit(X[~left], y[~left], eval_set=[(X[left], y[left])], callbacks=[stop])
        found.append((rmse(y[left], model.booster_.predict(X[left])), leaves, model))
    return np.asarray(min(found, key=lambda part: part[:2])[2].booster_.predict(X_test))


def measure(name: str) -> Result | None:
    data = load(name)
    if data is None:
        return None
    parts = [measure_split(*data)]
    while sum(part.tested for part in parts) < ENOUGH and len(parts) < MOST_SPLITS:
        parts.append(measure_split(*load(name, len(parts))))
    means = {mean: tuple(np.mean([part.models[mean] for part in parts], axis=0).tolist()) for mean in parts[0].models}
    return Result(
        name,
        len(data[0]),
        float(np.mean([part.trees_alone for part in parts])),
        means,
        dict(Counter(part.chosen for part in parts)),
        float(np.mean([part.seconds for part in parts])),
    )


def measure_split(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray) -> Split:
    figures, models = {}, {}
    for name, mean in (("constant", None), ("linear", "linear"), ("trees", "trees"), ("default", "auto")):
        begin = perf_counter()
        models[name] = GreedyGPRegressor(mean=mean, random_state=0).fit(X, y)
        seconds = perf_counter() - begin
        error = rmse(y_test, models[name].predict(X_test))
        figures[name] = error, -float(models[name].log_density(X_test, y_test).mean())
    alone = rmse(y_test, trees_alone(X, y, X_test))
    return Split(len(X_test), alone, figures, str(models["default"].mean_), seconds)


def table(results: Sequence[Result]) -> list[str]:
    """The results as lines, the worst at the top."""
    names = ("constant", "linear", "trees", "default")
    lines = [
        f"{'set':16} {'rows':>7}  {'trees alone':>11}   "
        + "   ".join(f"{name:>14}" for name in names)
        + f"   {'chosen':24} {'RMSE':>6} {'NLPD':>7}   {'s':>6}"
    ]
    for result in sorted(results, key=lambda result: -result.worse):
        figures = [result.models.get(name, (np.nan, np.nan)) for name in names]
        words = "   ".join(f"{error:6.4f} {density:7.3f}" for error, density in figures)
        lines.append(
            f"{result.name:16} {result.rows:>7}  {result.trees_alone:11.4f}   {words}   {result.choice:24} "
            f"{result.worse:6.3f} {result.lost:+7.3f}   {result.seconds:6.0f}"
        )
    return lines


def main(arguments: Sequence[str] = ()) -> None:
    warnings.simplefilter("ignore")
    run_sets("means", __doc__, SETS, Result, measure, table, arguments)
