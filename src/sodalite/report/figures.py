"""The figures of a report: as plotly takes them, and as `sodalite.plot` draws them with matplotlib.

Their words are in page.html, colours ("@blue") in page.css; numbers are rounded where a page is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from ..core.types import Floats
from .ahead import Ahead
from .build import Report
from .importance import Importance
from .inputs import Input, date_texts
from .judgement import Judgement, Shares
from .pictures import BAND, Effect, Interaction, PosteriorView
from .stages import LearningCurve
from .words import HARDLY

FEWEST_BARS = 5  # inputs whose importance is drawn, even if they hardly matter
MOST_BARS = 15  # most inputs whose importance is drawn; the caption counts the others
LONGEST_LABEL = 24  # characters of a label at an axis: more would leave no room for the figure on a phone
FURTHEST = 6.0  # normal scores beyond which rows are drawn at the edge of a figure

Trace = dict[str, Any]
"""A curve, some points or bars, as plotly takes them, with arrays for numbers."""


@dataclass(frozen=True)
class Figure:
    """A figure as plotly takes it."""

    data: list[Trace]
    layout: dict[str, Any]
    height: int = 340
    """In pixels."""
    frames: list[dict[int, Trace]] = field(default_factory=list)
    """For each position of the slider, what changes in which trace (counted from 0)."""


def figures_of(report: Report) -> dict[str, Figure]:
    """All figures that there are, by the ids of their elements on the page."""
    target, regions = report.target.name, report.judgement.regions
    figures = {
        "truth": _truth(report.judgement, target),
        "cloud": _cloud(report.judgement, target),
        "calibration": shares(report.judgement.levels, "probability of the intervals", "rows in their intervals, %"),
    }
    if regions is not None:
        by = f"predicted {target}" if regions.by == "prediction" else regions.by
        figures["regions"] = shares(regions, by, "rows in the 95 % interval, %")
    if report.ahead is not None and report.ahead.is_curve:
        figures |= {f"ahead{place}": part for place, part in enumerate(_ahead(report.ahead, target))}
    if report.view is not None:
        figures |= views(report.view)
    if len(report.importance.effects) > 1:
        figures["importance"] = bars(report.importance, most_important(report.importance))
    figures |= {f"effect{place}": part for place, part in enumerate(lines(report.effects, target))}
    figures |= {f"interaction{place}": _interaction(part, target) for place, part in enumerate(report.interactions)}
    if report.curve is not None:
        figures["rmse"] = learning(report.curve, target)
    return figures


def most_important(importance: Importance) -> int:
    """How many inputs have a bar."""
    matter = sum(part.total > HARDLY for part in importance.effects)
    return min(max(matter, FEWEST_BARS), MOST_BARS, len(importance.effects))


# --- how good the model is ---


def _truth(judgement: Judgement, target: str) -> Figure:
    ends = [min(judgement.y.min(), judgement.mean.min()), max(judgement.y.max(), judgement.mean.max())]
    traces = [_line(ends, ends, "grey", "predicted = true", dash="dot")]
    for colour, symbol, rows, name in (
        ("blue", "circle", judgement.inside, "in its 95 % interval"),
        ("orange", "x", ~judgement.inside, "outside it"),
    ):
        marker = {"color": f"@{colour}", "symbol": symbol, "size": 6, "opacity": 0.6}
        traces.append({**_dots(judgement.mean[rows], judgement.y[rows], name), "marker": marker})
    return Figure(traces, _layout(f"predicted {target}", f"true {target}"))


def _cloud(judgement: Judgement, target: str) -> Figure:
    mean = judgement.mean
    traces = [_dots(mean, np.clip(judgement.normal_scores, -FURTHEST, FURTHEST), "rows")]
    for at in (-BAND, BAND):
        edge = _line([mean.min(), mean.max()], [at, at], "orange", "95 % between these", dash="dash")
        traces.append({**edge, "showlegend": at > 0})
    return Figure(traces, _layout(f"predicted {target}", "surprise, standard deviations"))


def shares(part: Shares, x: str, y: str) -> Figure:
    """Shares of rows, beside the ranges that chance allows."""
    places, low, high, honest = np.arange(len(part.labels)), 100 * part.low, 100 * part.high, 100 * part.honest
    allowed = _bars(places, high - low, "chance allows", "@orange_band") | {"base": low, "hoverinfo": "skip"}
    known = _line(places, honest, "orange", "honest", dash="dash")
    if len(np.unique(honest)) == 1:
        known |= {"x": [-0.5, len(places) - 0.5], "y": honest[[0, 0]]}
    dots = _dots(places, 100 * part.shares, "this model") | {"marker": {"color": "@blue", "size": 9}}
    dots["text"] = [f"{count:,.0f} rows" for count in part.counts]
    texts = [_short_label(label).replace(" to ", "<br>to<br>") for label in part.labels]
    x_axis = {"tickvals": places, "ticktext": texts, "range": [-0.5, len(places) - 0.5], "tickangle": 0}
    ends = _padded(min((100 * part.shares).min(), low.min()), max((100 * part.shares).max(), high.max()))
    layout = _layout(x, y, xaxis=x_axis, yaxis={"range": ends}, bargap=0.3)
    return Figure([allowed, known, dots], layout)


# --- what it has learnt ---


def views(view: PosteriorView) -> dict[str, Figure]:
    """The curve of one input, or two maps of two: the mean, and half the width of the 95 % interval."""
    if len(view.axes) == 1:
        return {"view": _curve(view)}
    half = (view.upper - view.lower) / 2
    return {"mean": _map(view, view.mean, "Cividis", view.mean[-1]), "half": _map(view, half, "Viridis", half[-1])}


def _curve(view: PosteriorView) -> Figure:
    """Rows, prediction and band."""
    part = view.inputs[0]
    x = _shown(view.axes[0], part)
    traces = [
        *_band(x, view.lower[0], view.upper[0], "blue", "95 % interval"),
        _dots(_shown(view.X[:, 0], part), view.y, "rows", many=True),
        *_picks(_shown(view.active_X[:, 0], part), view.active_y, len(view.stages)),
        _line(x, view.mean[0], "blue", "prediction"),
    ]
    bands = zip(view.lower, view.upper, view.mean, strict=True)
    frames: list[dict[int, Trace]] = [{0: {"y": low}, 1: {"y": high}, 5: {"y": mean}} for low, high, mean in bands]
    low, high = min(view.y.min(), view.lower[-1].min()), max(view.y.max(), view.upper[-1].max())
    y_axis, x_axis = {"range": _padded(low, high)}, {"range": _shown(view.axes[0][[0, -1]], part)}
    return Figure(traces, _layout(part.name, view.target, xaxis=x_axis, yaxis=y_axis), 440, frames)


def _map(view: PosteriorView, values: Floats, colours: str, span: Floats) -> Figure:
    """A map of the values at each position of the slider, with colours over the range of `span`."""
    first, second = view.inputs
    x, y = _shown(view.axes[0], first), _shown(view.axes[1], second)
    frames = [{0: {"z": part.reshape(len(y), len(x))}} for part in values]
    heat = _heat(x, y, frames[0][0]["z"], colours) | {"zmin": float(span.min()), "zmax": float(span.max())}
    rows = _dots(_shown(view.X[:, 0], first), _shown(view.X[:, 1], second), "rows", many=True)
    spots = _picks(_shown(view.active_X[:, 0], first), _shown(view.active_X[:, 1], second), len(view.stages))
    layout = _layout(first.name, second.name, xaxis={"range": [x[0], x[-1]]}, yaxis={"range": [y[0], y[-1]]})
    return Figure([heat | {"zsmooth": "best"}, rows, *spots], layout, 420, frames)


def _ahead(ahead: Ahead, target: str) -> Iterator[Figure]:
    """The last stretches of time, a small figure for each, with one scale for all."""
    longest = ahead.stretches[0]
    ends = np.concatenate([ahead.y, longest.y, *(np.append(part.lower, part.upper) for part in ahead.stretches)])
    scale = {"range": _padded(ends.min(), ends.max())}
    for part in ahead.stretches:
        x, known = _shown(part.time, ahead.input), longest.time < part.time[0]
        before = _shown(np.append(ahead.time, longest.time[known]), ahead.input)
        traces = [
            *_band(x, part.lower, part.upper, "blue", "95 % interval"),
            _line(x, part.mean, "blue", "prediction"),
            _dots(before, np.append(ahead.y, longest.y[known]), "rows before"),
            _dots(x, part.y, "rows after") | {"marker": {"color": "@orange", "size": 5}},
        ]
        yield Figure(traces, _layout(ahead.input.name, target, xaxis={"nticks": 5}, yaxis=scale), 300)


# --- what matters ---


def bars(importance: Importance, most: int) -> Figure:
    """What each of the most important inputs brings to the predictions' variance, with its standard error."""
    traces, names = [], [_short_label(part.name) for part in importance.effects[:most]]
    for name, key, colour in (("alone", "first", "@muted"), ("alone and with others", "total", "@blue")):
        values = np.array([getattr(part, key) for part in importance.effects[:most]])
        errors = np.array([getattr(part, f"{key}_error") for part in importance.effects[:most]])
        whiskers = _whiskers(errors, np.minimum(errors, values), "muted")
        traces.append(_bars(values, names, name, colour) | {"orientation": "h", "error_x": whiskers})
    axis = {"autorange": "reversed", "type": "category"}
    layout = _layout("share of the predictions' variance", "", yaxis=axis, barmode="group")
    return Figure(traces, layout, 130 + 40 * max(len(names), 2))


def lines(effects: tuple[Effect, ...], target: str) -> Iterator[Figure]:
    """Partial dependence, a small figure for each input, with one scale for all."""
    if not effects:
        return
    axis = {"range": _padded(min(part.lower.min() for part in effects), max(part.upper.max() for part in effects))}
    for part in effects:
        x = _shown(part.values, part.input)
        traces = [_line(x, part.mean, "blue", "prediction")]
        if part.input.levels or len(x) <= 12:
            whiskers = _whiskers(np.maximum(part.upper - part.mean, 0), np.maximum(part.mean - part.lower, 0))
            traces[0] |= {"mode": "markers", "error_y": whiskers}
        else:
            traces = [*_band(x, part.lower, part.upper, "blue"), *traces]
        layout = _layout(part.input.name, target, xaxis=_kind(part.input), yaxis=axis, showlegend=False)
        yield Figure(traces, layout, 250)


def _interaction(part: Interaction, target: str) -> Figure:
    """The prediction as two inputs change."""
    (x, y), (first, second) = map(_shown, part.values, part.inputs), part.inputs
    heat = _heat(x, y, part.mean, "Cividis")
    heat["colorbar"] |= {"title": {"text": literal(target)}}
    return Figure([heat], _layout(first.name, second.name, xaxis=_kind(first), yaxis=_kind(second)), 360)


# --- how many rows it needs ---


def learning(curve: LearningCurve, target: str) -> Figure:
    """The RMSE of any row or, without rows to judge by, that of the remainder."""
    axis, last = {"type": "log", "exponentformat": "none"}, int(curve.stages[-1])
    if curve.rmse is None or curve.random_rmse is None or curve.random_stages is None:
        traces = [_line(curve.stages, curve.remainder, "blue", "rows not chosen yet")]
    else:
        t, drawn = curve.random_stages, curve.random_rmse
        traces = [
            *_band(t, drawn.min(axis=0), drawn.max(axis=0), "orange"),
            _line(t, drawn.mean(axis=0), "orange", "random rows", dash="dash"),
            _line(curve.stages, curve.rmse, "blue", "chosen rows"),
        ]
        if np.isfinite(curve.finished):
            marker = {"color": "@green", "size": 11, "symbol": "diamond"}
            traces.append({**_dots([last], [curve.finished], "the finished model"), "marker": marker})
    if curve.noise > 0:
        traces.append(_line([1, last], [curve.noise] * 2, "grey", "noise", dash="dot"))
    return Figure(traces, _layout("rows kept", f"RMSE, {target}", xaxis=axis, yaxis=axis))


# --- the parts that figures share ---


def _layout(x: str, y: str, **more: Any) -> dict[str, Any]:
    """Plotly's layout of two axes with these titles, and with further options; the page adds fonts and colours."""
    axes = {
        name: {"title": {"text": literal(text)}, **more.pop(name, {})} for name, text in (("xaxis", x), ("yaxis", y))
    }
    return {**axes, "margin": {"t": 8, "r": 12, "b": 48}, **more}


def _line(x: Any, y: Any, colour: str, name: str, dash: str = "solid") -> Trace:
    """A line through points; a caller may change its mode to markers."""
    style = {"color": f"@{colour}", "width": 2, "dash": dash}
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "name": name, "line": style}


def _band(x: Any, low: Floats, high: Floats, colour: str, name: str = "") -> list[Trace]:
    """The area between two curves, as two traces."""
    edge = {"type": "scatter", "mode": "lines", "x": x, "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
    fill = {"fill": "tonexty", "fillcolor": f"@{colour}_band", "showlegend": bool(name), "name": name}
    return [{**edge, "y": low}, {**edge, "y": high, **fill}]


def _whiskers(up: Floats, down: Floats, colour: str = "blue") -> dict[str, Any]:
    """Error bars of these lengths."""
    ends = {"array": up, "arrayminus": down}
    return {"type": "data", "symmetric": False, **ends, "color": f"@{colour}", "thickness": 1.5, "width": 3}


def _bars(x: Any, y: Any, name: str, colour: str) -> Trace:
    """Bars; of horizontal ones, y are the labels."""
    return {"type": "bar", "x": x, "y": y, "marker": {"color": colour, "line": {"width": 0}}, "name": name}


def _heat(x: Any, y: Any, z: Floats, colours: str) -> Trace:
    """A map of values."""
    bar = {"thickness": 12, "outlinewidth": 0}
    return {"type": "heatmap", "x": x, "y": y, "z": z, "colorscale": colours, "colorbar": bar}


def _dots(x: Any, y: Any, name: str, many: bool = False) -> Trace:
    """Small points; `many` have fewer on a phone, where they would hide what is behind them."""
    trace = {"type": "scatter", "mode": "markers", "x": x, "y": y, "marker": {"color": "@dot", "size": 4}, "name": name}
    return trace | ({"meta": "many"} if many else {})


def _picks(x: Any, y: Any, n_stages: int) -> list[Trace]:
    """The active rows and a ring for the next one, as two traces; page.js shows as many as the slider says.

    Where no row had to be chosen, there are none: all rows are active.
    """
    x, y = (x, y) if n_stages else ([], [])
    size = float(np.clip(7 * np.sqrt(60 / max(len(x), 1)), 3, 7))  # many are small, to leave what is behind them
    spot = {"color": "@text", "size": size, "line": {"width": size / 6, "color": "@surface"}}
    ring = {"color": "@clear", "size": 15, "line": {"width": 2.5, "color": "@orange"}}
    traces = [
        {**_dots(x, y, "rows kept"), "marker": spot, "meta": "so far"},
        {**_dots(x, y, "the next"), "marker": ring, "meta": "next"},
    ]
    return [trace | {"showlegend": bool(n_stages)} for trace in traces]


def _shown(values: Floats, part: Input) -> Any:
    """Values of an input as an axis shows them: dates as dates, levels by their names."""
    if part.levels:
        return [literal(part.levels[int(place)]) for place in values]
    return date_texts(values) if part.kind == "date" else values


def _kind(part: Input) -> dict[str, Any]:
    """The kind of the axis of an input."""
    return {"type": "category"} if part.levels else {"nticks": 6}


def _padded(low: float, high: float) -> list[float]:
    """The ends of an axis that holds a range."""
    margin = 0.05 * (high - low) or 1.0
    return [float(low - margin), float(high + margin)]


def _short_label(label: str) -> str:
    """A label of at most `LONGEST_LABEL` characters."""
    return literal(label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…")


def literal(text: str) -> str:
    """A text that plotly shows as it is: it would follow HTML tags."""
    return escape(text, quote=False)


def rounded(value: Any) -> Any:
    """A tree as JSON, its arrays and lists of numbers rounded to at most 1/2500 of their range; None for NaN.

    Examples
    --------
    >>> rounded({"y": np.array([1000.123456789, 1001.0, np.nan])})
    {'y': [1000.1235, 1001.0, None]}
    """
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, Figure):
        return rounded(vars(value))
    if not isinstance(value, list | np.ndarray):
        return value
    if not len(value):
        return []
    if isinstance(value, list) and not isinstance(value[0], float | int | np.number):
        return [rounded(part) for part in value]
    numbers = np.asarray(value, dtype=np.float64)
    finite = numbers[np.isfinite(numbers)]
    spread = float(np.ptp(finite)) if finite.size else 0.0
    spread = spread or float(np.abs(finite).max(initial=0.0)) or 1.0
    found: list[Any] = (np.round(numbers, int(np.ceil(3.4 - np.log10(spread)))) + 0.0).tolist()
    return found if finite.size == numbers.size else [number if np.isfinite(number) else None for number in found]
