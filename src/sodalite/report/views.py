"""The report's figures with a slider over the stages: the function itself, for one or two inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.types import Floats
from . import charts
from .build import Report
from .charts import Figure, Trace, short
from .pictures import PosteriorView

N_BARS = 200  # most rows that have a bar: more would hide each other


def view_figures(report: Report) -> list[Figure]:
    """A curve for one input; for more, two maps by the two that matter most."""
    if report.view is None:
        return []
    return [_curve(report, report.view)] if len(report.view.axes) == 1 else _maps(report, report.view)


def slider_labels(report: Report) -> list[str]:
    """What each position of the slider shows, in words: the stages, then the finished model."""
    if report.view is None:
        return []
    labels = [f"{stage:,} of {report.summary.n_active:,} rows kept" for stage in report.view.stages.tolist()]
    near = ", and the rows near each prediction" if report.summary.asks_neighbours else ""
    return [*labels, f"The finished model: {report.summary.n_active:,} rows kept{near}"]


def _curve(report: Report, view: PosteriorView) -> Figure:
    """The curve: rows, prediction and band, and below them how unsettled each row is."""
    part = view.inputs[0]
    means, lower, upper = _every_position(view)
    final_errors = np.abs(view.y - np.interp(view.X[:, 0], view.axes[0], view.final_mean))
    some = np.unique(np.linspace(0, len(view.X) - 1, N_BARS).astype(int))
    bars = [values[some] for values in (*view.unsettled, final_errors)]
    frames: list[dict[int, Trace]] = [  # by the places of the traces in `_curve_traces`
        {
            0: {"y": charts.rounded(low)},
            1: {"y": charts.rounded(high)},
            5: {"y": charts.rounded(mean)},
            6: {"y": charts.rounded(heights)},
        }
        for mean, low, high, heights in zip(means, lower, upper, bars, strict=True)
    ]
    caption = (
        "Move the slider to see the model grow, row by row. The band should hold 95 % of the rows, and is wide where "
        "little is known; the ring is the row that comes next. The bars say how unsettled each row is: how unsure the "
        "model is of the function there, plus how far off the row is. The last position is the finished model with its "
        "95 % intervals, by the distribution of errors that it has learnt: they need not reach as far up as down. The "
        "bars are its errors alone."
        if len(view.stages)
        else "The band should hold 95 % of the rows, by the distribution of errors that the model has learnt: it is "
        "wide where little is known, and need not reach as far up as down. The bars are the model's errors."
    )
    ends = short(view.final_mean.min()), short(view.final_mean.max())
    positions = f", at {len(frames)} positions of a slider" if len(frames) > 1 else ""
    alt = (
        f"{report.summary.target} against {part.name}: the rows, the prediction with its 95 % interval and the rows "
        f"kept{positions}. The finished prediction runs from {ends[0]} to {ends[1]}."
    )
    traces, layout = _curve_traces(view, view.X[some, 0], bars[0]), _curve_layout(report, view)
    return Figure("view", "The rows and the prediction", caption, alt, traces, layout, 540, frames, wide=True)


def _every_position(view: PosteriorView) -> tuple[list[Floats], list[Floats], list[Floats]]:
    """Means, and lower and upper ends of 95 % intervals, at every position of the slider: stages, then the model."""
    return [*view.mean, view.final_mean], [*view.lower, view.final_lower], [*view.upper, view.final_upper]


def _curve_traces(view: PosteriorView, bar_places: Floats, bar_heights: Floats) -> list[Trace]:
    """The first position of the slider: two of the band, rows, two of the rows kept, prediction, bars."""
    part = view.inputs[0]
    x, (means, lower, upper) = charts.as_shown(view.axes[0], part), _every_position(view)
    bars = {
        "type": "bar",
        "x": charts.as_shown(bar_places, part),
        "y": charts.rounded(bar_heights),
        "width": charts.bar_width(view.axes[0], part),
        "marker": {"color": "@amber", "line": {"width": 0}},
        "name": "unsettled",
        "showlegend": False,
        "yaxis": "y2",
    }
    return [
        *charts.band(x, lower[0], upper[0], "blue", "95 % interval"),
        charts.dots(charts.as_shown(view.X[:, 0], part), charts.rounded(view.y), "rows"),
        *charts.picks(charts.as_shown(view.active_X[:, 0], part), charts.rounded(view.active_y)),
        charts.line(x, means[0], "blue", "prediction"),
        bars,
    ]


def _curve_layout(report: Report, view: PosteriorView) -> dict[str, Any]:
    """Axes that hold the rows and the finished model, at every position of the slider."""
    low = min(float(view.y.min()), float(view.final_lower.min()))
    high = max(float(view.y.max()), float(view.final_upper.max()))
    margin = 0.06 * (high - low) or 1.0
    part = view.inputs[0]
    return charts.layout_of(
        part.name,
        report.summary.target,
        xaxis={"anchor": "y2", "range": charts.as_shown(view.axes[0][[0, -1]], part)},
        yaxis={"domain": [0.3, 1], "range": [low - margin, high + margin]},
        yaxis2={"title": {"text": "unsettled"}, "domain": [0, 0.22], "rangemode": "tozero", "nticks": 4},
        barmode="overlay",  # rows at one place are not stacked
    )


def _maps(report: Report, view: PosteriorView) -> list[Figure]:
    """Two maps: the mean, and half the width of the 95 % interval."""
    means, lower, upper = _every_position(view)
    halves: list[Floats] = [(high - low) / 2 for low, high in zip(lower, upper, strict=True)]
    average = ""
    if view.n_averaged > 1:
        average = (
            f" by the two inputs that matter most, averaged over {view.n_averaged} rows whose other inputs stay as "
            "they are"
        )
    about_means = f"The prediction of {report.summary.target}{average or ' everywhere'}."
    if len(view.stages):
        about_means += " Move the slider to see the rows being chosen; the ring is the row that comes next."
    about_halves = (
        f"Half the width of the 95 % interval of a new {report.summary.target}{average and ', averaged likewise'}: "
        "dark where the model is sure. Expect it to be bright where there are no rows, and no darker than noise allows."
    )
    if len(view.stages):
        about_halves += (
            " The last position of the slider has the distribution of errors that the finished model has learnt."
        )
    return [
        _map(view, "mean", "What is predicted", about_means, means, "Cividis", means[-1]),
        _map(view, "half", "How sure that is", about_halves, halves, "Viridis", np.array(halves)),
    ]


def _map(
    view: PosteriorView, key: str, title: str, caption: str, values: list[Floats], colours: str, span: Floats
) -> Figure:
    """A map of the values at each position of the slider, with colours over the range of `span`."""
    first, second = view.inputs
    x, y = charts.as_shown(view.axes[0], first), charts.as_shown(view.axes[1], second)
    shape = len(view.axes[1]), len(view.axes[0])
    heat = {
        "type": "heatmap",
        "x": x,
        "y": y,
        "z": _square(values[0], shape),
        "zmin": float(span.min()),
        "zmax": float(span.max()),
        "zsmooth": "best",
        "colorscale": colours,
        "colorbar": {"thickness": 12, "outlinewidth": 0},
        "hovertemplate": f"%{{z:.4g}}<extra>{title.lower()}</extra>",
    }
    rows = charts.dots(charts.as_shown(view.X[:, 0], first), charts.as_shown(view.X[:, 1], second), "rows")
    spots = charts.picks(charts.as_shown(view.active_X[:, 0], first), charts.as_shown(view.active_X[:, 1], second))
    frames = [{0: {"z": _square(part, shape)}} for part in values]
    last = short(values[-1].min()), short(values[-1].max())
    alt = f"A map by {first.name} and {second.name}: {last[0]} to {last[1]} in the finished model."
    layout = charts.layout_of(first.name, second.name, xaxis={"range": [x[0], x[-1]]}, yaxis={"range": [y[0], y[-1]]})
    return Figure(key, title, caption, alt, [heat, rows, *spots], layout, 420, frames)


def _square(values: Floats, shape: tuple[int, int]) -> list[list[float]]:
    """A map's values as rows of numbers."""
    return np.reshape(charts.rounded(values), shape).tolist()  # type: ignore[no-any-return]
