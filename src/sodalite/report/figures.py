"""The figures of a report, as plotly takes them; their words are in page.html, colours ("@blue") in page.css."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from ..core.types import Floats
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
"""A curve, some points or bars, as plotly takes them."""


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
    target = report.target.name
    figures = {
        "truth": _truth(report.judgement, target),
        "cloud": _cloud(report.judgement, target),
        "calibration": _shares(report.judgement.levels, "probability of the intervals", "rows in their intervals, %"),
        "pit": _shares(report.judgement.parts, "place in the predicted distribution", "rows, %"),
    }
    names = {"prediction": f"predicted {target}", "novelty": "novelty, %"}
    for key, groups in (("regions", report.judgement.regions), ("distances", report.judgement.distances)):
        if groups is not None:
            figures[key] = _shares(groups, names.get(groups.by, groups.by), "rows in the 95 % interval, %")
    if report.view is not None:
        figures |= _curve(report.view) if len(report.view.axes) == 1 else _maps(report.view)
    if len(report.importance.effects) > 1:
        figures["importance"] = _importance(report.importance)
    figures |= {f"effect{place}": part for place, part in enumerate(_effects(report.effects, target))}
    figures |= {f"interaction{place}": _interaction(part, target) for place, part in enumerate(report.interactions)}
    if report.curve is not None:
        figures["rmse"] = _learning(report.curve, target)
    return figures


def most_important(importance: Importance) -> int:
    """How many inputs have a bar."""
    matter = sum(part.total > HARDLY for part in importance.effects)
    return min(max(matter, FEWEST_BARS), MOST_BARS, len(importance.effects))


# --- how good the model is ---


def _truth(judgement: Judgement, target: str) -> Figure:
    ends = [min(judgement.y.min(), judgement.mean.min()), max(judgement.y.max(), judgement.mean.max())]
    traces = [_line(rounded(ends), ends, "grey", "predicted = true", dash="dot")]
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
        ends = rounded([mean.min(), mean.max()])
        traces.append({**_line(ends, [at, at], "orange", "95 % between these", dash="dash"), "showlegend": at > 0})
    return Figure(traces, _layout(f"predicted {target}", "surprise, standard deviations"))


def _shares(part: Shares, x: str, y: str) -> Figure:
    """Shares of rows, beside the ranges that chance allows."""
    places, shares = np.arange(len(part.labels)), 100 * part.shares
    low, high, honest = 100 * part.low, 100 * part.high, rounded(100 * part.honest)
    allowed = _bars(places, high - low, "chance allows", "@orange_band") | {"base": rounded(low), "hoverinfo": "skip"}
    if len(set(honest)) == 1:
        honest_line = _line([-0.5, len(places) - 0.5], honest[:1] * 2, "orange", "honest", dash="dash")
    else:
        honest_line = _line(places, honest, "orange", "honest", dash="dash")
    dots = _dots(places, shares, "this model") | {"marker": {"color": "@blue", "size": 9}}
    dots["text"] = [f"{count:,.0f} rows" for count in part.counts]
    labels = [_short_label(label) for label in part.labels]
    texts = [label.replace(" to ", "<br>to<br>").replace("outside the ", "outside<br>the<br>") for label in labels]
    x_axis = {"tickvals": places.tolist(), "ticktext": texts, "range": [-0.5, len(places) - 0.5], "tickangle": 0}
    ends = _padded(min(shares.min(), low.min()), max(shares.max(), high.max()))
    return Figure([allowed, honest_line, dots], _layout(x, y, xaxis=x_axis, yaxis={"range": ends}, bargap=0.3))


# --- what it has learnt ---


def _curve(view: PosteriorView) -> dict[str, Figure]:
    """The curve of one input: rows, prediction and band."""
    part = view.inputs[0]
    x = _shown(view.axes[0], part)
    traces = [
        *_band(x, view.lower[0], view.upper[0], "blue", "95 % interval"),
        _dots(_shown(view.X[:, 0], part), view.y, "rows", many=True),
        *_picks(_shown(view.active_X[:, 0], part), view.active_y),
        _line(x, view.mean[0], "blue", "prediction"),
    ]
    bands = zip(view.lower, view.upper, view.mean, strict=True)
    frames: list[dict[int, Trace]] = [
        {0: {"y": rounded(low)}, 1: {"y": rounded(high)}, 5: {"y": rounded(mean)}} for low, high, mean in bands
    ]
    low, high = min(view.y.min(), view.lower[-1].min()), max(view.y.max(), view.upper[-1].max())
    y_axis, x_axis = {"range": _padded(low, high)}, {"range": _shown(view.axes[0][[0, -1]], part)}
    return {"view": Figure(traces, _layout(part.name, view.target, xaxis=x_axis, yaxis=y_axis), 440, frames)}


def _maps(view: PosteriorView) -> dict[str, Figure]:
    """Two maps: the mean, and half the width of the 95 % interval."""
    half = (view.upper - view.lower) / 2
    return {"mean": _map(view, view.mean, "Cividis", view.mean[-1]), "half": _map(view, half, "Viridis", half)}


def _map(view: PosteriorView, values: Floats, colours: str, span: Floats) -> Figure:
    """A map of the values at each position of the slider, with colours over the range of `span`."""
    first, second = view.inputs
    x, y = _shown(view.axes[0], first), _shown(view.axes[1], second)
    frames = [{0: {"z": np.reshape(rounded(part), (len(y), len(x))).tolist()}} for part in values]
    heat = _heat(x, y, frames[0][0]["z"], colours) | {"zmin": float(span.min()), "zmax": float(span.max())}
    rows = _dots(_shown(view.X[:, 0], first), _shown(view.X[:, 1], second), "rows", many=True)
    spots = _picks(_shown(view.active_X[:, 0], first), _shown(view.active_X[:, 1], second))
    layout = _layout(first.name, second.name, xaxis={"range": [x[0], x[-1]]}, yaxis={"range": [y[0], y[-1]]})
    return Figure([heat | {"zsmooth": "best"}, rows, *spots], layout, 420, frames)


# --- what matters ---


def _importance(importance: Importance) -> Figure:
    """What each input brings to the predictions' variance, as bars with their errors."""
    shown = importance.effects[: most_important(importance)]
    traces = []
    for name, colour, values, errors in (
        ("alone", "@muted", [part.first for part in shown], [part.first_error for part in shown]),
        ("alone and with others", "@blue", [part.total for part in shown], [part.total_error for part in shown]),
    ):
        bars = _bars(values, [_short_label(part.name) for part in shown], name, colour)
        traces.append(bars | {"orientation": "h", "error_x": _whiskers(errors, np.minimum(errors, values), "muted")})
    axis = {"autorange": "reversed", "type": "category"}
    layout = _layout("share of the variance", "", yaxis=axis, barmode="group")
    return Figure(traces, layout, 130 + 40 * max(len(shown), 2))


def _effects(effects: tuple[Effect, ...], target: str) -> Iterator[Figure]:
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
        yield Figure(
            traces, _layout(part.input.name, target, xaxis=_kind(part.input), yaxis=axis, showlegend=False), 250
        )


def _interaction(part: Interaction, target: str) -> Figure:
    """The prediction as two inputs change."""
    (x, y), (first, second) = map(_shown, part.values, part.inputs), part.inputs
    heat = _heat(x, y, rounded(part.mean), "Cividis")
    heat["colorbar"] |= {"title": {"text": literal(target)}}
    return Figure([heat], _layout(first.name, second.name, xaxis=_kind(first), yaxis=_kind(second)), 360)


# --- how many rows it needs ---


def _learning(curve: LearningCurve, target: str) -> Figure:
    """The RMSE of any row or, without rows to judge by, that of the remainder."""
    axis, last = {"type": "log", "exponentformat": "none"}, int(curve.stages[-1])
    if curve.rmse is None or curve.random_rmse is None or curve.random_stages is None:
        traces = [_line(curve.stages, curve.remainder, "blue", "")]
    else:
        t, drawn = curve.random_stages.tolist(), curve.random_rmse
        traces = [
            *_band(t, drawn.min(axis=0), drawn.max(axis=0), "orange"),
            _line(t, drawn.mean(axis=0), "orange", "random rows", dash="dash"),
            _line(curve.stages, curve.rmse, "blue", "chosen rows"),
        ]
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
    x = x.tolist() if isinstance(x, np.ndarray) else list(x)
    return {"type": "scatter", "mode": "lines", "x": x, "y": rounded(y), "name": name, "line": style}


def _band(x: Any, low: Floats, high: Floats, colour: str, name: str = "") -> list[Trace]:
    """The area between two curves, as two traces."""
    edge = {"type": "scatter", "mode": "lines", "x": x, "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
    fill = {"fill": "tonexty", "fillcolor": f"@{colour}_band", "showlegend": bool(name), "name": name}
    return [{**edge, "y": rounded(low)}, {**edge, "y": rounded(high), **fill}]


def _whiskers(up: Any, down: Any, colour: str = "blue") -> dict[str, Any]:
    """Error bars of these lengths."""
    ends = {"array": rounded(up), "arrayminus": rounded(down)}
    return {"type": "data", "symmetric": False, **ends, "color": f"@{colour}", "thickness": 1.5, "width": 3}


def _bars(x: Any, y: Any, name: str, colour: str, **more: Any) -> Trace:
    """Bars; of horizontal ones, y are the labels."""
    y = list(y) if isinstance(y[0], str) else rounded(y)
    return {
        "type": "bar",
        "x": rounded(x),
        "y": y,
        "marker": {"color": colour, "line": {"width": 0}, **more},
        "name": name,
    }


def _heat(x: list[Any], y: list[Any], z: Any, colours: str) -> Trace:
    """A map of values."""
    bar = {"thickness": 12, "outlinewidth": 0}
    return {"type": "heatmap", "x": x, "y": y, "z": z, "colorscale": colours, "colorbar": bar}


def _dots(x: Any, y: Any, name: str, many: bool = False) -> Trace:
    """Small points; `many` have fewer on a phone, where they would hide what is behind them."""
    x, y = (part if isinstance(part, list) else rounded(part) for part in (x, y))
    marker = {"color": "@dot", "size": 4}
    trace = {"type": "scatter", "mode": "markers", "x": x, "y": y, "marker": marker, "name": name}
    return trace | ({"meta": "many"} if many else {})


def _picks(x: list[Any], y: Any) -> list[Trace]:
    """The active rows and a ring for the next one, as two traces; page.js shows as many as the slider says."""
    spot = {"color": "@text", "size": 7, "line": {"width": 1.2, "color": "@surface"}}
    ring = {"color": "@clear", "size": 15, "line": {"width": 2.5, "color": "@orange"}}
    return [
        {**_dots(x, y, "rows kept"), "marker": spot, "meta": "so far"},
        {**_dots(x, y, "the next"), "marker": ring, "meta": "next"},
    ]


def _shown(values: Floats, part: Input) -> list[Any]:
    """Values of an input as an axis shows them: dates as dates, levels by their names."""
    if part.levels:
        return [literal(part.levels[int(place)]) for place in values]
    return date_texts(values) if part.kind == "date" else rounded(values)


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


def rounded(values: Any) -> list[Any]:
    """Numbers rounded to at most 1/2500 of their range, which is finer than can be seen; None for NaN.

    Examples
    --------
    >>> rounded(np.array([1000.123456789, 1001.0, np.nan]))
    [1000.1235, 1001.0, None]
    """
    values = np.asarray(values, dtype=np.float64)
    finite = values[np.isfinite(values)]
    spread = float(np.ptp(finite)) if finite.size else 0.0
    spread = spread or float(np.abs(finite).max(initial=0.0)) or 1.0
    numbers: list[Any] = (np.round(values, int(np.ceil(3.4 - np.log10(spread)))) + 0.0).tolist()
    return numbers if finite.size == values.size else [value if np.isfinite(value) else None for value in numbers]
