"""Default fits from sixty to a quarter of a million rows, beside what people use today, in one run.

Seconds are wall time of learning and of predicting 1000 rows, importing excluded; of up to 2000 rows, the median of
three runs. scikit-learn's process searches for its hyperparameters from one start, on up to 2000 rows. Ratios are to
the default's time. Peers that are not installed are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from math import inf, nan
from statistics import median
from time import perf_counter

import numpy as np

from sodalite.metrics import nlpd

from .common import load, run_sets, smooth_problem, standardised
from .peers_models import Predictions, boosting, catboost, gpboost, sklearn_gpr, sodalite

N_TEST = 1000
REPEATED = 2000  # rows up to which the median of three runs is taken
MINUTE = 60.0  # seconds that a peer may take
SETS = {
    "concrete, 60 rows": ("concrete", 60),
    "concrete, 300 rows": ("concrete", 300),
    "kin40k, 1000 rows": ("kin40k", 1000),
    "kin40k, 2000 rows": ("kin40k", 2000),
    "protein, 10 000 rows": ("protein", 10_000),
    "kin40k, 10 000 rows": ("kin40k", 10_000),
    "kin40k, 36 000 rows": ("kin40k", 36_000),
    "synthetic, 100 000 rows": (None, 100_000),
    "synthetic, 250 000 rows": (None, 250_000),
}


@dataclass(frozen=True)
class Way:
    """A way to learn from rows and to predict others."""

    function: Callable[..., Predictions]
    module: str = "sodalite"
    most_rows: float = inf


WAYS = {
    "sodalite": Way(sodalite),
    "scikit-learn, searched": Way(sklearn_gpr, "sklearn", 2000),
    "gpboost, Vecchia": Way(partial(gpboost, approximation="vecchia"), "gpboost", 40_000),
    "catboost, uncertainty": Way(catboost, "catboost"),
    "boosted trees": Way(boosting, "sklearn"),
}


@dataclass(frozen=True)
class Measured:
    """What each way has taken, and how well it predicts; NaN where that is not known."""

    name: str
    rows: int
    seconds: dict[str, float]
    rmse: dict[str, float]
    nlpd: dict[str, float]


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """Training rows and test rows of a set; None if it is not to be had."""
    source, n = SETS[name]
    if source is None:
        X, y, _ = smooth_problem(n + N_TEST, 0.05)
        return X[:n], y[:n], X[n:], y[n:]
    if (data := load(source)) is None:
        return None
    X, y, X_test, y_test = data
    some = np.random.default_rng(0).permutation(len(X))[:n]
    return X[some], y[some], X_test[:N_TEST], y_test[:N_TEST]


def measure(name: str) -> Measured | None:
    """Time every way on a set."""
    if (data := rows_of(name)) is None:
        return None
    X, y, X_test, y_test = data
    Z, Z_test = standardised(X, X_test)
    seconds, rmse, density = {}, {}, {}
    for way, how in WAYS.items():
        if find_spec(how.module) is None or len(X) > how.most_rows:
            continue
        taken = []
        for _ in range(3 if len(X) <= REPEATED else 1):
            began = perf_counter()
            *_, prediction = how.function(Z, y, Z_test, MINUTE)
            taken.append(perf_counter() - began)
        seconds[way] = median(taken)
        rmse[way] = float(np.sqrt(np.mean(np.square(y_test - prediction.mean))))
        density[way] = nan
        if prediction.scores is not None:
            density[way] = float(prediction.scores(y_test)["nlpd"] or nan)
        elif prediction.std is not None:
            density[way] = float(nlpd(y_test, prediction.mean, prediction.std))
    return Measured(name, len(X), seconds, rmse, density)


def table(results: Sequence[Measured]) -> list[str]:
    """Lines that show some results."""
    lines = [f"{'':24} {'way':24} {'seconds':>8} {'ratio':>6} {'RMSE':>7} {'NLPD':>7}"]
    for each in results:
        ours = each.seconds["sodalite"]
        for place, way in enumerate(each.seconds):
            density = each.nlpd[way]
            shown = f"{density:7.3f}" if np.isfinite(density) else f"{'-':>7}"
            lines.append(
                f"{each.name if place == 0 else '':24} {way:24} {each.seconds[way]:8.2f} "
                f"{each.seconds[way] / ours:6.2f} {each.rmse[way]:7.4f} {shown}"
            )
    return lines


def main(arguments: Sequence[str] = ()) -> None:
    run_sets("fits", __doc__ or "", list(SETS), Measured, measure, table, arguments)
