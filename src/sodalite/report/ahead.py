"""How well the last stretches of time would have been predicted from what came before them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from .. import metrics
from ..core.types import Floats, Mask
from ..fitting.fitted import FittedModel
from ..tables import Dates
from .inputs import Input, date_texts
from .rows import Material

SHARES = (0.3, 0.2, 0.1, 0.05)  # shares of the rows that are predicted from those before
FEWEST = (
    40  # rows below which nothing is predicted ahead, and times below which an input is not taken for a course of time
)
MOST_KNOWN = 500  # rows that each fit sees, half of them the last ones before the stretch: under a second
MOST_SHOWN = 150  # rows of a stretch that are predicted and drawn
SEASONS = {"hour": 1.0, "weekday": 7.0, "season": 365.25}
"""Days of the seasons that a date tells."""


@dataclass(frozen=True)
class Stretch:
    """The last rows in time, predicted from those before; arrays of shape (rows,), in the order of time."""

    share: float
    """Of all rows."""
    begin: str
    """The first time of the stretch."""
    rmse: float
    coverage: float
    """The share of the rows in their 95 % intervals."""
    simple: dict[str, float]
    """The RMSE of simple forecasts, by what they are."""
    time: Floats
    y: Floats
    mean: Floats
    lower: Floats
    """The lower end of the 95 % interval."""
    upper: Floats
    """The upper end of the 95 % interval."""

    @property
    def words(self) -> str:
        """Which stretch it is."""
        return f"the last {100 * self.share:.0f} %"


@dataclass(frozen=True)
class Ahead:
    """The last stretches of time, the longest first."""

    input: Input
    """The time."""
    stretches: tuple[Stretch, ...]
    time: Floats
    """Times of the rows before the longest stretch that a picture shows, as many as it has; of shape (rows,)."""
    y: Floats
    is_curve: bool
    """Whether the time is the only input, so that predictions are a curve."""


def time_of(material: Material) -> Input | None:
    """The input that is a time: a date, or the only input if rows are in its order; None without one."""
    for part in material.inputs:
        values = part.values(material.pool.X) if part.is_axis else np.zeros(1)
        is_order = len(material.inputs) == 1 and bool((np.diff(values) >= 0).all())
        if (part.kind == "date" or is_order) and len(np.unique(values)) >= FEWEST:
            return part
    return None


def ahead(model: FittedModel, material: Material, generator: np.random.Generator) -> Ahead | None:
    """Predict the last stretches of time from what came before; None without a time, or for few rows.

    Each is a fit of its own with the kernel that was found, to at most `MOST_KNOWN` rows. The kernel has seen the rows
    of the stretch, and so have mean targets of levels: a forecast would be a little worse.
    """
    part = time_of(material) if material.whole else None
    if part is None:
        return None
    rows = material.pool
    X, y, time = rows.X, material.in_units(rows.y, rows.own_offset), part.values(rows.X)
    own, fitted = model.get_params(deep=False), material.fitted
    mean = fitted.mean_function
    settings = {"kernel": model.kernel_, "hyperparameters": "fixed", "target": fitted.target.name, "time_limit": None}
    if own["mean"] == "auto":
        settings["mean"] = None if mean.is_constant else mean.name
    known = clone(model).set_params(**settings, verbose=False)
    stretches = list[Stretch]()
    for share in SHARES:
        after = time > np.quantile(time, 1 - share)
        if after.sum() > 1 and not any(part.time[0] == time[after].min() for part in stretches):
            stretches.append(_stretch(known, part, share, X, y, time, after, generator))
    if not stretches:
        return None
    first = stretches[0].time
    before = np.flatnonzero((time < first[0]) & (time >= 2 * first[0] - first[-1]))
    before = np.sort(generator.permutation(before)[:MOST_SHOWN])
    return Ahead(part, tuple(stretches), time[before], y[before], len(material.inputs) == 1)


def _stretch(
    model: Any,
    part: Input,
    share: float,
    X: Floats,
    y: Floats,
    time: Floats,
    after: Mask,
    generator: np.random.Generator,
) -> Stretch:
    """Predict the rows after a time from those before it."""
    order = np.argsort(time, kind="stable")
    before, rows = order[~after[order]], order[after[order]]
    rows = np.sort(generator.permutation(len(rows))[:MOST_SHOWN]) if len(rows) > MOST_SHOWN else np.arange(len(rows))
    rows = order[after[order]][rows]
    if len(before) > MOST_KNOWN:
        late = MOST_KNOWN // 2
        before = np.concatenate([np.sort(generator.choice(before[:-late], late, replace=False)), before[-late:]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a model that nobody will use
        model.fit(X[before], y[before])
        mean, (lower, upper) = model.predict(X[rows]), model.predict_interval(X[rows])
    simple = {"the mean before": np.full(len(rows), y[before].mean())}
    if X.shape[1] == 1 or (isinstance(part.column, Dates) and len(part.places) == X.shape[1]):
        simple = {"the last value": np.full(len(rows), y[before[-1]])}
        for name in getattr(part.column, "parts", ()):
            period = SEASONS.get(name, np.inf)
            if time[before[-1]] - time[before[0]] >= 2 * period:
                behind = np.ceil((time[rows] - time[before[-1]]) / period) * period
                simple[f"the last {name.replace('weekday', 'week').replace('season', 'year')}"] = np.interp(
                    time[rows] - behind, time[before], y[before]
                )
    return Stretch(
        share=share,
        begin=date_texts(time[rows[:1]])[0][:10] if part.kind == "date" else f"{time[rows[0]]:.6g}",
        rmse=metrics.rmse(y[rows], mean),
        coverage=metrics.interval_coverage(y[rows], lower, upper),
        simple={name: metrics.rmse(y[rows], forecast) for name, forecast in simple.items()},
        time=time[rows],
        y=y[rows],
        mean=mean,
        lower=lower,
        upper=upper,
    )
