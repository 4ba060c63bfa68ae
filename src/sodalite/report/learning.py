"""The report's figures of how the model was found: the learning curve, and the rounds of the search for its kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.types import Floats, Indices
from ..hyperparameters.task import FULL_DENSITY
from . import charts
from .build import Attempt, Report
from .charts import Figure, Trace, short
from .curve import N_DRAWS, JudgedCurve, LearningCurve

DRAWS_IN_WORDS = {1: "one draw", 3: "three draws"}  # by N_DRAWS
RMSE_TITLE = "Error against the rows kept"


def curve_figures(report: Report) -> list[Figure]:
    """The learning curve: the RMSE and J of any row, or, without rows to judge by, the RMSE of the remainder."""
    if (curve := report.curve) is None:
        return []
    if (known := curve.judged) is None:
        return [_remainder_figure(report, curve)]
    return [_rmse_figure(report, curve, known), _density_figure(curve, known)]


def _remainder_figure(report: Report, curve: LearningCurve) -> Figure:
    good = curve.remainder[np.isfinite(curve.remainder)]
    caption = (
        "The typical error (RMSE) of the rows not chosen yet, as the fit saw it. Where the curve is flat, more "
        "rows add little. It is no test error: the rows that became active have left it."
    )
    alt = f"The error falls from {short(good[0])} to {short(good[-1])}." if len(good) else "All rows are active."
    traces = [charts.line(curve.stages, curve.remainder, "blue", "")]
    return Figure("rmse", RMSE_TITLE, caption, alt, traces, _rmse_layout(report, curve))


def _rmse_figure(report: Report, curve: LearningCurve, known: JudgedCurve) -> Figure:
    last = int(curve.stages[-1])
    diamond = charts.line([last], [curve.finished], "green", "the finished model")
    diamond |= {"mode": "markers", "marker": {"color": "@green", "size": 11, "symbol": "diamond"}}
    traces = [*_random(known.random_stages, known.random_rmse)]
    traces += [charts.line(curve.stages, known.rmse, "blue", "chosen rows"), diamond]
    if curve.noise > 0:
        traces.append(charts.line([1, last], [curve.noise] * 2, "grey", "noise", dash="dot"))
    both = curve.equal
    equal = f" {both[0]:,} chosen rows are as good as {both[1]:,} random ones." if both else ""
    near = " The finished model also asks the rows nearest to each prediction: the diamond."
    caption = (
        f"The typical error (RMSE) of any row, predicted from so many active rows and nothing else. Dashed: rows drawn "
        f"at random instead, the mean and the range of {DRAWS_IN_WORDS[N_DRAWS]}.{equal}"
        f"{near if report.summary.asks_neighbours else ''} Where the curve is flat, more rows add little. "
        f"By {curve.words}."
    )
    alt = (
        f"With {last} active rows the error is {short(known.rmse[-1])}, with one {short(known.rmse[0])}; random rows "
        f"end at {short(known.random_rmse[:, -1].mean())}, the finished model has {short(curve.finished)}."
    )
    return Figure("rmse", RMSE_TITLE, caption, alt, traces, _rmse_layout(report, curve))


def _density_figure(curve: LearningCurve, known: JudgedCurve) -> Figure:
    traces = [*_random(known.random_stages, known.random_density)]
    traces.append(charts.line(curve.stages, known.density, "blue", "chosen rows"))
    caption = (
        "J, the log density of all the targets under the model, per row; more is better. It judges the error bars "
        "along with the predictions: to be sure and wrong costs most. Where it falls, rows make the model too sure of "
        "itself."
    )
    ends = short(known.density[0]), short(known.density[-1]), short(known.random_density[:, -1].mean())
    alt = f"J goes from {ends[0]} to {ends[1]}; random rows end at {ends[2]}."
    # The first few stages may be so bad that nothing else could be told apart.
    every = np.concatenate([known.density, known.random_density.ravel()])
    low, high = np.quantile(every, 0.2), every.max()
    low = max(every.min(), low - 1.5 * (high - low))
    margin = 0.05 * (high - low) or 1.0
    axis = {"range": [low - margin, high + margin]}
    layout = charts.layout_of("active rows", "J per row", xaxis=_stage_axis(curve), yaxis=axis)
    return Figure("density", "Log density against the rows kept", caption, alt, traces, layout)


def _rmse_layout(report: Report, curve: LearningCurve) -> dict[str, Any]:
    x, y = _stage_axis(curve), _log_axis(curve)
    return charts.layout_of("active rows", f"RMSE, {report.summary.target}", xaxis=x, yaxis=y)


def _stage_axis(curve: LearningCurve) -> dict[str, Any]:
    """A logarithmic axis for the active rows, with round numbers on it."""
    ticks = charts.log_ticks(int(curve.stages[-1]))
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:,}" for tick in ticks]}


def _random(stages: Indices, values: Floats) -> list[Trace]:
    """The range of random subsets and their mean; values of shape (draws, stages)."""
    x = stages.tolist()
    mean = charts.line(x, values.mean(axis=0), "orange", "random rows", dash="dash")
    return [*charts.band(x, values.min(axis=0), values.max(axis=0), "orange"), mean]


def _log_axis(curve: LearningCurve) -> dict[str, Any]:
    """A logarithmic axis for the errors, with round numbers on it."""
    known = curve.judged
    parts = [curve.remainder] if known is None else [known.rmse, known.random_rmse.ravel(), [curve.noise]]
    values = np.concatenate([*parts, [curve.finished]])
    values = values[np.isfinite(values) & (values > 0)]
    if not len(values):
        return {}
    low, high = float(values.min()), float(values.max())
    powers = range(int(np.floor(np.log10(low))) - 1, int(np.ceil(np.log10(high))) + 1)
    ticks = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    ticks = [tick for tick in ticks if low / 1.2 <= tick <= high * 1.2]
    if len(ticks) > 8:
        ticks = [tick for tick in ticks if f"{tick:e}"[0] == "1"]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks]} if len(ticks) > 1 else {}


def history_figure(report: Report) -> Figure | None:
    """The log density that each round of the search reached; None for fewer than two rounds."""
    # Where rows are windows, what came before was worth something by other rows, and does not compare.
    first = next((place for place, part in enumerate(report.history) if part.name == FULL_DENSITY), 0)
    rounds = [(place + 1, part) for place, part in enumerate(report.history) if np.isfinite(part.objective)]
    rounds = [each for each in rounds if each[0] > first]
    if len(rounds) < 2:
        return None
    sizes = list(dict.fromkeys(part.n_active for _, part in rounds))
    traces = [*_best_so_far(rounds, sizes), *_tried(rounds)]
    caption = (
        "The kernel's parameters are found in rounds. Each raises an objective on some rows, and is kept only if it "
        "predicts other rows better: if the log density of their targets is higher. Crosses were tried and dropped."
    )
    caption += "" if sizes == [None] else " With more active rows the scale is another, and so is the line."
    ends = short(rounds[0][1].objective), short(max(part.objective for _, part in rounds))
    alt = f"{len(rounds)} rounds took the log density from {ends[0]} to {ends[1]}."
    axis = {"dtick": 1 if len(rounds) < 16 else 5}
    layout = charts.layout_of("round", "log density per target", xaxis=axis)
    return Figure("history", "What each round was worth", caption, alt, traces, layout, wide=True)


NumberedRounds = list[tuple[int, Attempt]]
"""The rounds of a search, each with its number, counted from 1."""


def _best_so_far(rounds: NumberedRounds, sizes: list[int | None]) -> list[Trace]:
    """The best log density so far as steps: a line for every number of active rows."""
    traces = []
    for size in sizes:
        some = [(place, part) for place, part in rounds if part.n_active == size]
        best = [(place, part.objective) for place, part in some if part.kept]
        if best:
            best.append((some[-1][0], best[-1][1]))
            name = "the best" if size is None else f"the best with {size} active rows"
            steps = charts.line([place for place, _ in best], [value for _, value in best], "blue", name)
            steps["line"] |= {"shape": "hv"}
            traces.append(steps)
    return traces


def _tried(rounds: NumberedRounds) -> list[Trace]:
    """A point for every round: those that were kept, and those that were not."""
    traces = []
    for kept, colour, symbol, name in ((True, "green", "circle", "kept"), (False, "orange", "x", "not kept")):
        some = [(place, part) for place, part in rounds if part.kept == kept]
        points = charts.line([place for place, _ in some], [part.objective for _, part in some], colour, name)
        points |= {"mode": "markers", "marker": {"color": f"@{colour}", "symbol": symbol, "size": 10}}
        traces.append({**points, "text": [part.name for _, part in some]})
    return traces
