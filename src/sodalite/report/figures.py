"""The report's figures without a slider: how good the model is, which inputs matter, where its rows lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.types import Floats, Indices, Mask
from . import charts
from .build import Report
from .charts import Figure, Trace, short
from .honesty import LEVEL, GroupCoverage
from .pictures import BAND
from .rows import Input
from .words import HARDLY, coverages_words

FEWEST_BARS = 5  # inputs whose importance is drawn, even if they hardly matter
MOST_BARS = 15  # most inputs whose importance is drawn; the caption counts the others
LONGEST_LABEL = 24  # characters of a label at an axis: more would leave no room for the figure on a phone
FURTHEST = 6.0  # normal scores beyond which rows are drawn at the edge of a figure


def judgement_figures(report: Report) -> list[Figure]:
    """How good the model is: predictions against targets, and errors."""
    return _said_by_whom(report, [_truth(report), _residuals(report), _cloud(report)])


def honesty_figures(report: Report) -> list[Figure]:
    """Whether the error bars are honest: at every level, by PIT values, by region, and by distance from the data."""
    found = report.judgement
    made = [_calibration(report), _pit(report)]
    if found.regions is not None:
        made.append(_regions(report, found.regions))
    if found.distances is not None:
        made.append(_distances(report, found.distances))
    return _said_by_whom(report, made)


def _said_by_whom(report: Report, figures: list[Figure]) -> list[Figure]:
    """Figures whose captions say which rows judge the model."""
    found = report.judgement
    shown = {key: f" {found.drawn_words}" for key in ("truth", "cloud") if found.drawn_words}
    return [
        replace(part, caption=f"{part.caption} Judged by {found.words}.{shown.get(part.key, '')}") for part in figures
    ]


def _truth(report: Report) -> Figure:
    found = report.judgement
    ends = [min(found.y.min(), found.mean.min()), max(found.y.max(), found.mean.max())]
    traces = [charts.line(charts.rounded(ends), ends, "grey", "predicted = true", dash="dot")]
    for colour, symbol, rows, name in (
        ("blue", "circle", found.inside, "in its 95 % interval"),
        ("orange", "x", ~found.inside, "outside it"),
    ):
        marker = {"color": f"@{colour}", "symbol": symbol, "size": 6, "opacity": 0.6}
        x, y = charts.rounded(found.mean[rows]), charts.rounded(found.y[rows])
        traces.append({"type": "scatter", "mode": "markers", "x": x, "y": y, "marker": marker, "name": name})
    caption = (
        "Good predictions lie along the dotted line; about one row in twenty should be a cross, outside its 95 % "
        "interval."
    )
    out = 100 * (1 - found.coverage)
    alt = f"RMSE {short(found.rmse)}; {out:.1f} % of the rows are outside their 95 % intervals, where 5 % should be."
    layout = charts.layout_of(f"predicted {report.summary.target}", f"true {report.summary.target}")
    return Figure("truth", "Predicted against true", caption, alt, traces, layout)


def _residuals(report: Report) -> Figure:
    found, z = report.judgement.errors, report.judgement.standardised
    at = (found.edges[1:] + found.edges[:-1]) / 2
    bars = _bars(at, found.density, "rows")
    traces = [bars, charts.line(charts.rounded(at), found.expected, "orange", "as it should be")]
    compared = ""
    if not found.is_gaussian:
        bell = np.exp(-0.5 * at**2) / np.sqrt(2 * np.pi)
        traces.append(charts.line(charts.rounded(at), bell, "grey", "Gaussian", dash="dot"))
        compared = " The dotted curve is a Gaussian, for comparison."
    caption = (
        "Each error divided by the standard deviation that the model gave it. The bars should follow the solid curve: "
        f"the distribution of errors that the model has learnt, averaged over the rows.{compared} Bars at the ends "
        "hold all that is further out. Where they are taller than the curve, some rows are further off than the model "
        "thinks possible, and are worth a look."
    )
    alt = (
        f"The standardised errors have mean {short(z.mean())} and standard deviation {short(z.std())}; ideal: 0 and 1. "
        f"{_share(np.abs(z) <= 1)} of them are below 1 in size."
    )
    layout = charts.layout_of("error / its standard deviation", "density of rows", bargap=0.05)
    return Figure("residuals", "Standardised errors", caption, alt, traces, layout)


def _cloud(report: Report) -> Figure:
    found = report.judgement
    mean, scores = found.mean, np.clip(found.scores, -FURTHEST, FURTHEST)
    traces = [charts.dots(charts.rounded(mean), charts.rounded(scores), "rows")]
    for at in (-BAND, BAND):
        ends = [float(mean.min()), float(mean.max())]
        limit = charts.line(charts.rounded(ends), [at, at], "orange", "95 % between these", dash="dash")
        traces.append({**limit, "showlegend": at > 0})
    caption = (
        "How surprising each row is, against its prediction: its place in the predicted distribution, in standard "
        "deviations of a Gaussian. The dashed lines are the ends of the 95 % intervals. A level cloud, as wide "
        "everywhere, is good. A slope or a bend is something that the model has missed; a funnel, noise that changes "
        f"with {report.summary.target}."
    )
    tie = float(np.corrcoef(mean, scores)[0, 1]) if len(scores) > 2 and mean.std() > 0 and scores.std() > 0 else 0.0
    alt = f"The correlation of surprise and prediction is {tie:.2f}; 0 is ideal."
    layout = charts.layout_of(f"predicted {report.summary.target}", "surprise, standard deviations")
    return Figure("cloud", "Errors against predictions", caption, alt, traces, layout, wide=True)


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
        "For intervals of each probability, the share of the rows that are in theirs. Above the dotted line the "
        "intervals are wider than they need to be, below it the model is too sure of itself. Whiskers: 95 % intervals "
        "of what the share would be with more rows. Intervals are by the distribution of errors that the model has "
        "learnt."
    )
    axis = {"range": [0, 102], "tick0": 0, "dtick": 20}
    layout = charts.layout_of("intervals should hold, % of rows", "they hold, %", xaxis=axis, yaxis=axis)
    alt = f"The {coverages_words(found.coverages)}."
    return Figure("calibration", "At every level", caption, alt, [ideal, actual], layout)


def _pit(report: Report) -> Figure:
    found = report.judgement.histogram
    count = len(found.density)
    edges = 100 * np.arange(count + 1) / count
    bars = _bars((edges[1:] + edges[:-1]) / 2, found.density, "rows")
    allowed = charts.band([0, 100], found.low[[0, 0]], found.high[[0, 0]], "orange", "chance allows")
    even = charts.line([0, 100], [1, 1], "orange", "honest", dash="dash")
    beyond = int(((found.density < found.low) | (found.density > found.high)).sum())
    caption = (
        f"Where each {report.summary.target} lies in its predicted distribution: at 0 % it is lower than the model "
        "thought possible, at 50 % in the middle, at 100 % higher than thought possible (PIT values). All places are "
        "equally likely if the distribution is right, so the bars should be level. By chance, 19 bars in 20 end in "
        "the shaded range. A hill: the error bars are too wide. A valley: too narrow. A slope: predictions are too "
        "high or too low."
    )
    alt = (
        f"{beyond} of {count} bars end outside the range that chance allows; the tallest is {found.density.max():.2f}."
    )
    layout = charts.layout_of(
        "place in the predicted distribution, %",
        "rows, 1 if honest",
        xaxis={"range": [0, 100], "tick0": 0, "dtick": 20},
        yaxis={"rangemode": "tozero"},
        bargap=0.05,
    )
    return Figure("pit", "In every part of the distribution", caption, alt, [bars, *allowed, even], layout)


def _regions(report: Report, found: GroupCoverage) -> Figure:
    inputs = any(part == found.by for part in report.summary.inputs)
    of = f"{found.by}, the input that matters most" if inputs and len(report.summary.inputs) > 1 else f"the {found.by}"
    of = found.by if inputs and len(report.summary.inputs) == 1 else of
    caption = (
        f"The share of the rows in their 95 % intervals, for groups of rows by {of}. Dots should be in the bars, the "
        "range that chance allows for that many rows if the intervals are honest there. Below: the model is too sure "
        "of itself in that region. Above: too careful."
    )
    x = found.by if inputs else f"predicted {report.summary.target}"
    return _groups("regions", "In every region", caption, found, x)


def _distances(report: Report, found: GroupCoverage) -> Figure:
    caption = (
        "The share of the rows in their 95 % intervals, for groups of rows by how far they are from the others: the "
        "novelty, 0 % beside other rows and 100 % far from all of them. On the left many rows say what to expect, on "
        "the right few do. Dots should be in the bars, the range that chance allows."
    )
    return _groups("distances", "Near the data and far from them", caption, found, "novelty, %")


def _groups(key: str, title: str, caption: str, found: GroupCoverage, x: str) -> Figure:
    """The coverage of groups of rows, beside the range that chance allows."""
    places = list(range(len(found.labels)))
    labels = [_cut_short(label) for label in found.labels]
    allowed = {
        "type": "bar",
        "x": places,
        "base": charts.rounded(100 * found.low),
        "y": charts.rounded(100 * (found.high - found.low)),
        "width": 0.7,
        "marker": {"color": "@orange_band", "line": {"width": 0}},
        "name": "chance allows",
        "hoverinfo": "skip",
    }
    traces = [allowed, charts.line([-0.5, len(places) - 0.5], [100 * LEVEL] * 2, "orange", "honest", dash="dash")]
    text = [f"{count:,} rows" for count in found.counts.tolist()]
    dots = charts.line(places, 100 * found.shares, "blue", "this model")
    traces.append({**dots, "mode": "markers", "marker": {"color": "@blue", "size": 9}, "text": text})
    beyond = int((~found.is_allowed).sum())
    alt = (
        f"{beyond} of {len(places)} groups are outside the range that chance allows; the shares in the 95 % intervals "
        f"are {', '.join(f'{100 * share:.1f} %' for share in found.shares)}."
    )
    ticks = [label.replace(" to ", "<br>to<br>").replace("outside the ", "outside<br>the<br>") for label in labels]
    low = 100 * min(float(found.shares.min()), float(found.low.min()))
    layout = charts.layout_of(
        x,
        "rows in the 95 % interval, %",
        xaxis={
            "tickvals": places,
            "ticktext": ticks,
            "range": [-0.5, len(places) - 0.5],
            "tickangle": 0,
        },
        yaxis={"range": [max(low - 0.08 * (100 - low) - 0.5, -2), 100.8 + 0.02 * (100 - low)]},
    )
    return Figure(key, title, caption, alt, traces, layout)


def _bars(x: Floats, y: Floats, name: str) -> Trace:
    """Bars without gaps for their outlines."""
    marker = {"color": "@blue", "opacity": 0.65, "line": {"width": 0}}
    return {"type": "bar", "x": charts.rounded(x), "y": charts.rounded(y), "marker": marker, "name": name}


def _cut_short(label: str) -> str:
    """A label of at most `LONGEST_LABEL` characters."""
    return charts.plain_text(label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…")


def _share(which: Mask) -> str:
    """The share of rows, in words."""
    return f"{100 * float(np.mean(which)):.0f} %"


def importance_figure(report: Report) -> Figure | None:
    """What each input brings to the predictions' variance, as bars with their errors; None for one input."""
    if report.importance is None:
        return None
    every = report.importance.effects
    matter = sum(part.total > HARDLY for part in every)
    shown = every[: min(max(matter, FEWEST_BARS), MOST_BARS)]
    names = [_cut_short(part.name) for part in shown]

    def bars(values: Sequence[float], errors: Sequence[float], color: str, name: str) -> Trace:
        whiskers = {"type": "data", "array": charts.rounded(errors), "color": "@muted", "thickness": 1.5, "width": 3}
        marker = {"color": color}
        horizontal = {"type": "bar", "orientation": "h", "y": names, "name": name, "marker": marker}
        return {**horizontal, "x": charts.rounded(values), "error_x": whiskers}

    traces = [
        bars([part.first for part in shown], [part.first_error for part in shown], "@muted", "alone"),
        bars([part.total for part in shown], [part.total_error for part in shown], "@blue", "alone and with others"),
    ]
    caption = (
        "The share of the predictions' variance that each input brings: alone, and alone and together with others, "
        "which is how much predictions change if the input takes the values of other rows. Whiskers are standard "
        "errors. An input without a bar could be left out."
    )
    more = len(every) - len(shown)
    less = "matter less" if matter > len(shown) else "hardly matter"
    caption += f" {more} more {less}." if more else ""
    pairs = ", ".join(f"{a} and {b} ({100 * share:.0f} %)" for (a, b), share in _pairs(report))
    caption += f" Acting together: {pairs}." if pairs else ""
    alt = f"Shares of the variance: {', '.join(f'{part.name} {part.total:.2g}' for part in shown)}."
    axis = {"autorange": "reversed", "type": "category"}
    layout = charts.layout_of("share of the variance", "", yaxis=axis, barmode="group")
    return Figure("importance", "Which inputs matter", caption, alt, traces, layout, 130 + 40 * max(len(shown), 2))


def _pairs(report: Report) -> list[tuple[tuple[str, str], float]]:
    """The pairs of inputs that act together, and their shares of the variance."""
    return [] if report.importance is None else [(pair.names, pair.share) for pair in report.importance.pairs]


def interaction_figures(report: Report) -> list[Figure]:
    """The prediction as two inputs change, a map for each pair that acts together."""
    made = []
    for place, part in enumerate(report.interactions):
        first, second = part.inputs
        map_ = {
            "type": "heatmap",
            "x": _labels(first, part.values[0]),
            "y": _labels(second, part.values[1]),
            "z": charts.rounded(part.mean),
            "colorscale": "Cividis",
            "colorbar": {
                "title": {"text": charts.plain_text(report.summary.target)},
                "thickness": 12,
                "outlinewidth": 0,
            },
        }
        kinds = [{"type": "category"} if one.kind == "levels" else {"nticks": 6} for one in part.inputs]
        layout = charts.layout_of(first.name, second.name, xaxis=kinds[0], yaxis=kinds[1])
        ends = short(part.mean.min()), short(part.mean.max())
        alt = f"As {first.name} and {second.name} change, {report.summary.target} goes between {ends[0]} and {ends[1]}."
        caption = (
            f"The prediction as both change and the other inputs stay as they are, averaged over some rows. Together "
            f"they bring {100 * part.share:.0f} % of the predictions' variance, beyond what each brings alone."
        )
        title = f"{first.name} and {second.name} together"
        made.append(Figure(f"interaction{place}", title, caption, alt, [map_], layout, 360))
    return made


def _labels(part: Input, values: Floats | Indices) -> Any:
    """Values along an axis: the names of levels, or numbers and dates as they are shown."""
    if part.kind != "levels":
        return charts.as_shown(values, part)
    return [charts.plain_text(part.levels[int(place)]) for place in values]


def effect_figures(report: Report) -> list[Figure]:
    """Partial dependence, a small figure for each input, with one scale for all."""
    if not report.effects:
        return []
    low = min(float(part.lower.min()) for part in report.effects)
    high = max(float(part.upper.max()) for part in report.effects)
    margin = 0.05 * (high - low) or 1.0
    made = []
    for place, part in enumerate(report.effects):
        levels = part.input.kind == "levels"
        x = _labels(part.input, part.values)
        traces = [charts.line(x, part.mean, "blue", "prediction")]
        if levels or len(part.values) <= 12:
            whiskers = {
                "type": "data",
                "symmetric": False,
                "array": charts.rounded(np.maximum(part.upper - part.mean, 0)),
                "arrayminus": charts.rounded(np.maximum(part.mean - part.lower, 0)),
                "color": "@blue",
                "thickness": 1.5,
            }
            traces[0] |= {"mode": "markers", "error_y": whiskers}
        else:
            traces = [*charts.band(x, part.lower, part.upper, "blue"), *traces]
        ends = short(part.mean.min()), short(part.mean.max())
        alt = f"As {part.input.name} changes, {report.summary.target} goes between {ends[0]} and {ends[1]}."
        axis = {"range": [low - margin, high + margin]}
        kind: dict[str, Any] = {"type": "category"} if levels else {"nticks": 6}
        layout = charts.layout_of(part.input.name, report.summary.target, xaxis=kind, yaxis=axis, showlegend=False)
        made.append(Figure(f"effect{place}", f"Effect of {part.input.name}", "", alt, traces, layout, 250))
    return made
