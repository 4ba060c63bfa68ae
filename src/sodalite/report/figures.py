"""The report's figures without a slider: how good the model is, which inputs matter, where its rows lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import charts
from .build import Report
from .charts import Figure, short
from .pictures import BAND

MOST_BARS = 15  # most inputs whose relevance is drawn; the caption counts the others
EDGE = 4.0  # standard deviations beyond which errors are drawn at the edge: a normal one is there once in 16 000


def judgement_figures(report: Report) -> list[Figure]:
    """How good the model is: predictions against targets, calibration, and standardised errors."""
    return [_truth(report), _calibration(report), _residuals(report), _cloud(report)]


def _truth(report: Report) -> Figure:
    found = report.judgement
    inside = np.abs(found.standardised) <= BAND
    ends = [min(found.y.min(), found.mean.min()), max(found.y.max(), found.mean.max())]
    traces = [charts.line(charts.rounded(ends), ends, "grey", "predicted = true", dash="dot")]
    for colour, symbol, rows, name in (
        ("blue", "circle", inside, "in its 95 % band"),
        ("orange", "x", ~inside, "outside it"),
    ):
        marker = {"color": f"@{colour}", "symbol": symbol, "size": 6, "opacity": 0.6}
        x, y = charts.rounded(found.mean[rows]), charts.rounded(found.y[rows])
        traces.append({"type": "scatter", "mode": "markers", "x": x, "y": y, "marker": marker, "name": name})
    caption = (
        f"Judged by {found.words}. Good predictions lie along the dotted line, evenly on both sides of it; about one "
        f"row in twenty should be a cross."
    )
    out = 100 * (1 - found.coverage)
    alt = f"RMSE {short(found.rmse)}; {out:.1f} % of the rows are outside their 95 % bands, where 5 % should be."
    layout = charts.layout_of(f"predicted {report.target}", f"true {report.target}")
    return Figure("truth", "Predicted against true", caption, alt, traces, layout)


def _calibration(report: Report) -> Figure:
    found = report.judgement
    whiskers = {
        "type": "data",
        "symmetric": False,
        "array": charts.rounded(100 * (found.high - found.shares)),
        "arrayminus": charts.rounded(100 * (found.shares - found.low)),
        "color": "@blue",
        "thickness": 1.2,
        "width": 3,
    }
    actual = charts.line(100 * found.levels, 100 * found.shares, "blue", "this model")
    actual |= {"mode": "lines+markers", "error_y": whiskers}
    ideal = charts.line([0, 100], [0, 100], "grey", "honest error bars", dash="dot")
    caption = (
        "For intervals of each probability, the share of the rows that are in theirs. Above the dotted line the error "
        "bars are wider than they need to be, below it the model is too sure of itself. Whiskers: 95 % intervals of "
        "what the share would be with more rows."
    )
    half = float(np.interp(0.5, found.levels, found.shares))
    alt = f"The 95 % intervals hold {100 * found.coverage:.1f} % of the rows, the 50 % ones {100 * half:.1f} %."
    axis = {"range": [0, 102], "tick0": 0, "dtick": 20}
    layout = charts.layout_of("intervals should hold, % of rows", "they hold, %", xaxis=axis, yaxis=axis)
    return Figure("calibration", "Are the error bars honest?", caption, alt, [ideal, actual], layout)


def _residuals(report: Report) -> Figure:
    z = report.judgement.standardised
    edges = np.linspace(-EDGE, EDGE, 33)
    density = np.histogram(np.clip(z, -EDGE, EDGE), edges)[0] / (len(z) * (edges[1] - edges[0]))
    bars = {
        "type": "bar",
        "x": charts.rounded((edges[1:] + edges[:-1]) / 2),
        "y": charts.rounded(density),
        "marker": {"color": "@blue", "opacity": 0.65, "line": {"width": 0}},
        "name": "rows",
    }
    at = np.linspace(-EDGE, EDGE, 121)
    bell = charts.line(at, np.exp(-0.5 * at**2) / np.sqrt(2 * np.pi), "orange", "as it should be")
    caption = (
        "Each error divided by the standard deviation that the model gave it. The bars should follow the curve. Taller "
        "in the middle: the error bars are too wide for most rows. Bars at the ends: some rows are further off than "
        "the model thinks possible, and are worth a look."
    )
    alt = (
        f"The standardised errors have mean {short(z.mean())} and standard deviation {short(z.std())}; ideal: 0 and 1."
    )
    layout = charts.layout_of("error / its standard deviation", "density of rows", bargap=0.05)
    return Figure("residuals", "Standardised errors", caption, alt, [bars, bell], layout)


def _cloud(report: Report) -> Figure:
    found = report.judgement
    mean, z = found.mean, found.standardised
    traces = [charts.dots(charts.rounded(mean), charts.rounded(np.clip(z, -1.5 * EDGE, 1.5 * EDGE)), "rows")]
    for at in (-BAND, BAND):
        ends = [float(mean.min()), float(mean.max())]
        limit = charts.line(charts.rounded(ends), [at, at], "orange", "95 % between these", dash="dash")
        traces.append({**limit, "showlegend": at > 0})
    caption = (
        "The same errors against the prediction. A level cloud is good. A slope or a bend is something that the model "
        "has missed; a funnel, noise that changes with the target."
    )
    tie = float(np.corrcoef(mean, z)[0, 1]) if len(z) > 2 and mean.std() > 0 and z.std() > 0 else 0.0
    alt = f"The correlation of standardised errors and predictions is {tie:.2f}; 0 is ideal."
    layout = charts.layout_of(f"predicted {report.target}", "error / its standard deviation")
    return Figure("cloud", "Errors against predictions", caption, alt, traces, layout)


def relevance_figure(report: Report) -> Figure | None:
    """The relevance of the inputs as bars; None for one input."""
    pairs = report.words.relevance[:MOST_BARS]
    if len(pairs) < 2:
        return None
    names = [charts.plain_text(name if len(name) <= 24 else name[:23] + "…") for name, _ in pairs]
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": charts.rounded([value for _, value in pairs]),
        "y": names,
        "marker": {"color": "@blue"},
    }
    caption = (
        "How many of the kernel's length-scales fit into one standard deviation of each input: along an input with a "
        "long bar the function changes quickly. One with hardly a bar could be left out."
    )
    more = len(report.words.relevance) - len(pairs)
    caption += f" {more} more matter less." if more else ""
    alt = f"Relevance: {', '.join(f'{name} {value:.2g}' for name, value in pairs)}."
    axis = {"autorange": "reversed", "type": "category"}
    layout = charts.layout_of("length-scales in a standard deviation", "", yaxis=axis)
    return Figure("relevance", "Which inputs matter", caption, alt, [bars], layout, 110 + 26 * max(len(pairs), 2))


def effect_figures(report: Report) -> list[Figure]:
    """Partial dependence, a small figure for each input, with one scale for all."""
    if not report.effects:
        return []
    low = min(float((part.mean - part.half).min()) for part in report.effects)
    high = max(float((part.mean + part.half).max()) for part in report.effects)
    margin = 0.05 * (high - low) or 1.0
    made = []
    for place, part in enumerate(report.effects):
        levels = part.input.kind == "levels"
        x = list(map(charts.plain_text, part.input.levels)) if levels else charts.shown(part.values, part.input)
        traces = [charts.line(x, part.mean, "blue", "prediction")]
        if levels or len(part.values) <= 12:
            whiskers = {"type": "data", "array": charts.rounded(part.half), "color": "@blue", "thickness": 1.5}
            traces[0] |= {"mode": "markers", "error_y": whiskers}
        else:
            traces = [*charts.band(x, part.mean - part.half, part.mean + part.half, "blue"), *traces]
        ends = short(part.mean.min()), short(part.mean.max())
        alt = f"As {part.input.name} changes, {report.target} goes between {ends[0]} and {ends[1]}."
        axis = {"range": [low - margin, high + margin]}
        kind: dict[str, Any] = {"type": "category"} if levels else {"nticks": 6}
        layout = charts.layout_of(part.input.name, report.target, xaxis=kind, yaxis=axis, showlegend=False)
        made.append(Figure(f"effect{place}", f"Effect of {part.input.name}", "", alt, traces, layout, 250))
    return made


def map_figure(report: Report) -> Figure | None:
    """Where the active rows lie; None where there are not two inputs that are numbers."""
    found = report.map
    if found is None:
        return None
    first, second = found.inputs
    marker = {
        "size": 8,
        "color": list(range(1, len(found.active) + 1)),
        "colorscale": "Cividis",
        "line": {"width": 1, "color": "@muted"},
        "colorbar": {"title": {"text": "order"}, "thickness": 12, "outlinewidth": 0},
    }
    x, y = charts.shown(found.active[:, 0], first), charts.shown(found.active[:, 1], second)
    active = {"type": "scatter", "mode": "markers", "x": x, "y": y, "marker": marker, "name": "active rows"}
    x, y = charts.shown(found.rows[:, 0], first), charts.shown(found.rows[:, 1], second)
    caption = (
        "The rows that the model keeps, in the two inputs that matter most; the dark ones were chosen first. They "
        "gather where the function is hard to follow, and along the edges. Where there are rows but none of them is "
        "active, the others explain them."
    )
    alt = f"{len(found.active)} active rows among {len(found.rows)} rows, by {first.name} and {second.name}."
    layout = charts.layout_of(first.name, second.name)
    return Figure("map", "Where the active rows lie", caption, alt, [charts.dots(x, y, "rows"), active], layout, 380)
