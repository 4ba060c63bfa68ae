"""The figures of a report: how good the model is, what it has learnt, what matters, how it was found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.types import Floats, Indices
from . import charts
from .build import Report
from .charts import Figure, Trace, short
from .honesty import LEVEL, GroupCoverage
from .pictures import BAND, PosteriorView
from .rows import Input
from .stages import N_DRAWS, JudgedCurve, LearningCurve
from .words import HARDLY, coverages_words

FEWEST_BARS = 5  # inputs whose importance is drawn, even if they hardly matter
MOST_BARS = 15  # most inputs whose importance is drawn; the caption counts the others
DRAWS_IN_WORDS = {1: "one draw", 3: "three draws"}  # by N_DRAWS
RMSE_TITLE = "Error against the rows kept"
LONGEST_LABEL = 24  # characters of a label at an axis: more would leave no room for the figure on a phone
N_BARS = 200  # most rows that have a bar in the picture of a curve: more would hide each other
FURTHEST = 6.0  # normal scores beyond which rows are drawn at the edge of a figure


def judgement_figures(report: Report) -> list[Figure]:
    """How good the model is: predictions against targets, and errors."""
    return _said_by_whom(report, [_truth(report), _cloud(report)])


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
    whiskers = charts.whiskers(100 * (found.high - found.shares), 100 * (found.shares - found.low))
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
    bars = {
        "type": "bar",
        "x": charts.rounded((edges[1:] + edges[:-1]) / 2),
        "y": charts.rounded(found.density),
        "marker": {"color": "@blue", "opacity": 0.65, "line": {"width": 0}},
        "name": "rows",
    }
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
    x = f"predicted {report.summary.target}" if found.by == "prediction" else found.by
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


def _cut_short(label: str) -> str:
    """A label of at most `LONGEST_LABEL` characters."""
    return charts.plain_text(label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…")


def importance_figure(report: Report) -> Figure | None:
    """What each input brings to the predictions' variance, as bars with their errors; None for one input."""
    if report.importance is None:
        return None
    every = report.importance.effects
    matter = sum(part.total > HARDLY for part in every)
    shown = every[: min(max(matter, FEWEST_BARS), MOST_BARS)]
    names = [_cut_short(part.name) for part in shown]

    def bars(values: Sequence[float], errors: Sequence[float], color: str, name: str) -> Trace:
        whiskers = charts.whiskers(errors, errors, "muted")
        horizontal = {"type": "bar", "orientation": "h", "y": names, "name": name, "marker": {"color": color}}
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
    pairs = ", ".join(f"{' and '.join(pair.names)} ({100 * pair.share:.0f} %)" for pair in report.importance.pairs)
    caption += f" Acting together: {pairs}." if pairs else ""
    alt = f"Shares of the variance: {', '.join(f'{part.name} {part.total:.2g}' for part in shown)}."
    axis = {"autorange": "reversed", "type": "category"}
    layout = charts.layout_of("share of the variance", "", yaxis=axis, barmode="group")
    return Figure("importance", "Which inputs matter", caption, alt, traces, layout, 130 + 40 * max(len(shown), 2))


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
        kinds = [{"type": "category"} if one.has_levels else {"nticks": 6} for one in part.inputs]
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
    if not part.has_levels:
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
        levels = part.input.has_levels
        x = _labels(part.input, part.values)
        traces = [charts.line(x, part.mean, "blue", "prediction")]
        if levels or len(part.values) <= 12:
            whiskers = charts.whiskers(np.maximum(part.upper - part.mean, 0), np.maximum(part.mean - part.lower, 0))
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


def view_figures(report: Report) -> list[Figure]:
    """A curve for one input; for more, two maps by the two that matter most."""
    if report.view is None:
        return []
    return [_curve_figure(report, report.view)] if len(report.view.axes) == 1 else _maps(report, report.view)


def slider_labels(report: Report) -> list[str]:
    """What each position of the slider shows, in words: the stages, then the finished model."""
    if report.view is None:
        return []
    labels = [f"{stage:,} of {report.summary.n_active:,} rows kept" for stage in report.view.stages.tolist()]
    near = ", and the rows near each prediction" if report.summary.asks_neighbours else ""
    return [*labels, f"The finished model: {report.summary.n_active:,} rows kept{near}"]


def _curve_figure(report: Report, view: PosteriorView) -> Figure:
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
