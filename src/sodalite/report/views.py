"""The function itself, for one or two inputs, at every position of a slider over the stages."""

from __future__ import annotations

import numpy as np

from . import charts
from .build import Report
from .charts import Figure, Trace, short
from .pictures import PosteriorView

N_BARS = 400  # rows that have a bar


def view_figures(report: Report) -> list[Figure]:
    """A curve, or two maps; nothing where there are more inputs."""
    if report.view is None:
        return []
    return [_curve(report, report.view)] if len(report.view.axes) == 1 else _maps(report, report.view)


def slider_labels(report: Report) -> list[str]:
    """What each position of the slider is, in words."""
    if report.view is None:
        return []
    labels = [
        f"{stage:,} active row{'s' * (stage != 1)} of {report.n_active:,}" for stage in report.view.stages.tolist()
    ]
    near = ", with the rows near each prediction" if report.posterior == "local" else ""
    return [*labels, f"The finished model: {report.n_active:,} active rows{near}"]


def _curve(report: Report, view: PosteriorView) -> Figure:
    part = view.inputs[0]
    x = charts.shown(view.axes[0], part)
    some = np.unique(np.linspace(0, len(view.X) - 1, N_BARS).astype(int))
    means, halves = [*view.mean, view.final_mean], [*view.half, view.final_half]
    left = np.abs(view.y - np.interp(view.X[:, 0], view.axes[0], view.final_mean))
    unsettled = [*view.unsettled, left]
    bars = {
        "type": "bar",
        "x": charts.shown(view.X[some, 0], part),
        "y": charts.rounded(unsettled[0][some]),
        "width": charts.bar_width(view.axes[0], part),
        "marker": {"color": "@amber", "line": {"width": 0}},
        "name": "unsettled",
        "showlegend": False,
        "yaxis": "y2",
    }
    traces = [
        *charts.band(x, means[0] - halves[0], means[0] + halves[0], "blue", "95 % band"),
        charts.dots(charts.shown(view.X[:, 0], part), charts.rounded(view.y), "rows"),
        charts.line(x, means[0], "blue", "prediction"),
        *charts.picks(charts.shown(view.active_X[:, 0], part), charts.rounded(view.active_y)),
        bars,
    ]
    frames: list[dict[int, Trace]] = [
        {
            0: {"y": charts.rounded(mean - half)},
            1: {"y": charts.rounded(mean + half)},
            3: {"y": charts.rounded(mean)},
            6: {"y": charts.rounded(row[some])},
        }
        for mean, half, row in zip(means, halves, unsettled, strict=True)
    ]
    low = min(float(view.y.min()), float((view.final_mean - view.final_half).min()))
    high = max(float(view.y.max()), float((view.final_mean + view.final_half).max()))
    margin = 0.06 * (high - low) or 1.0
    layout = charts.layout_of(
        part.name,
        report.target,
        xaxis={"anchor": "y2", "range": charts.shown(view.axes[0][[0, -1]], part)},
        yaxis={"domain": [0.3, 1], "range": [low - margin, high + margin]},
        yaxis2={"title": {"text": "unsettled"}, "domain": [0, 0.22], "rangemode": "tozero", "nticks": 4},
        barmode="overlay",  # rows at one place are not stacked
    )
    caption = (
        "Move the slider to see the model grow, row by row. The band should hold 95 % of the rows, and is wide where "
        "little is known; the ring is the row that comes next. The bars say how unsettled each row is: how unsure the "
        "model is of the function there, plus how far off the row is. The last position is the finished model with the "
        "error bars that it gives; the bars are its errors alone."
    )
    ends = short(view.final_mean.min()), short(view.final_mean.max())
    alt = (
        f"{report.target} against {part.name}: the rows, the prediction with its 95 % band and the active rows, at "
        f"{len(frames)} positions of a slider. The finished prediction runs from {ends[0]} to {ends[1]}."
    )
    return Figure("view", "The rows and the prediction", caption, alt, traces, layout, 540, frames, wide=True)


def _maps(report: Report, view: PosteriorView) -> list[Figure]:
    first, second = view.inputs
    x, y = charts.shown(view.axes[0], first), charts.shown(view.axes[1], second)
    shape = len(view.axes[1]), len(view.axes[0])
    rows = charts.dots(charts.shown(view.X[:, 0], first), charts.shown(view.X[:, 1], second), "rows")
    spots = charts.picks(charts.shown(view.active_X[:, 0], first), charts.shown(view.active_X[:, 1], second))
    about = (
        f"The prediction of {report.target} everywhere. Move the slider to see the rows being chosen; the ring is the "
        f"row that comes next.",
        "Half the width of the 95 % band: dark where the model is sure. Expect it to be bright where there are no "
        "rows, and no darker than the noise allows.",
    )
    made = []
    for key, title, values, scale, caption in (
        ("mean", "What is predicted", [*view.mean, view.final_mean], "Cividis", about[0]),
        ("half", "How sure that is", [*view.half, view.final_half], "Viridis", about[1]),
    ):
        ends = values[-1] if key == "mean" else np.array(values)
        heat = {
            "type": "heatmap",
            "x": x,
            "y": y,
            "z": _square(values[0], shape),
            "zmin": float(ends.min()),
            "zmax": float(ends.max()),
            "zsmooth": "best",
            "colorscale": scale,
            "colorbar": {"thickness": 12, "outlinewidth": 0},
            "hovertemplate": f"%{{z:.4g}}<extra>{title.lower()}</extra>",
        }
        frames = [{0: {"z": _square(part, shape)}} for part in values]
        last = short(values[-1].min()), short(values[-1].max())
        alt = f"A map by {first.name} and {second.name}: {last[0]} to {last[1]} in the finished model."
        layout = charts.layout_of(
            first.name, second.name, xaxis={"range": [x[0], x[-1]]}, yaxis={"range": [y[0], y[-1]]}
        )
        made.append(Figure(key, title, caption, alt, [heat, rows, *spots], layout, 420, frames))
    return made


def _square(values: np.ndarray, shape: tuple[int, int]) -> list[list[float]]:
    return np.reshape(charts.rounded(values), shape).tolist()  # type: ignore[no-any-return]
