"""The report's figures that stand still: how good the model is, what matters, and how it was found."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import charts
from .build import Report
from .charts import Figure, Trace, short
from .curve import N_DRAWS
from .pictures import BAND

MOST_BARS = 15  # inputs whose relevance is drawn
EDGE = 4.0  # standard deviations, beyond which errors are drawn at the edge
WORDS = {1: "one draw", 3: "three draws"}


def curve_figures(report: Report) -> list[Figure]:
    """The learning curve: RMSE, and J."""
    curve, last = report.curve, int(report.curve.stages[-1])
    ticks = charts.log_ticks(last)
    x = {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:,}" for tick in ticks]}
    rmse = charts.layout_of("active rows", f"RMSE, {report.target}", xaxis=x, yaxis=_log_axis(report))
    title = "Error against the rows kept"
    if curve.rmse is None or curve.random_rmse is None or curve.density is None or curve.random_density is None:
        good = curve.remainder[np.isfinite(curve.remainder)]
        caption = (
            "The typical error (RMSE) of the rows not chosen yet, as the fit saw it. Where the curve is flat, more "
            "rows add little. It is no test error: the rows that became active have left it."
        )
        alt = f"The error falls from {short(good[0])} to {short(good[-1])}." if len(good) else "All rows are active."
        return [Figure("rmse", title, caption, alt, [charts.line(curve.stages, curve.remainder, "blue", "")], rmse)]

    diamond = charts.line([last], [report.judgement.rmse], "green", "the finished model")
    diamond |= {"mode": "markers", "marker": {"color": "@green", "size": 11, "symbol": "diamond"}}
    traces = [*_random(curve.random_stages, curve.random_rmse)]
    traces += [charts.line(curve.stages, curve.rmse, "blue", "chosen rows"), diamond]
    if curve.noise > 0:
        traces.append(charts.line([1, last], [curve.noise] * 2, "grey", "noise", dash="dot"))
    both = curve.equal
    equal = f" {both[0]:,} chosen rows are as good as {both[1]:,} random ones." if both else ""
    near = " The finished model also asks the rows nearest to each prediction: the diamond."
    caption = (
        f"The typical error (RMSE) of any row, predicted from so many active rows and nothing else. Dashed: rows drawn "
        f"at random instead, the mean and the range of {WORDS[N_DRAWS]}.{equal}"
        f"{near if report.posterior == 'local' else ''} Where the curve is flat, more rows add little."
    )
    alt = (
        f"With {last} active rows the error is {short(curve.rmse[-1])}, with one {short(curve.rmse[0])}; random rows "
        f"end at {short(curve.random_rmse[:, -1].mean())}, the finished model has {short(report.judgement.rmse)}."
    )
    first = Figure("rmse", title, caption, alt, traces, rmse)
    traces = [*_random(curve.random_stages, curve.random_density)]
    traces.append(charts.line(curve.stages, curve.density, "blue", "chosen rows"))
    caption = (
        "J, the log density of all the targets under the model, per row; more is better. It judges the error bars "
        "along with the predictions: to be sure and wrong costs most. Where it falls, rows make the model too sure of "
        "itself."
    )
    ends = short(curve.density[0]), short(curve.density[-1]), short(curve.random_density[:, -1].mean())
    alt = f"J goes from {ends[0]} to {ends[1]}; random rows end at {ends[2]}."
    # The first few stages may be so bad that nothing else could be told apart.
    every = np.concatenate([curve.density, curve.random_density.ravel()])
    low, high = np.quantile(every, 0.2), every.max()
    low = max(every.min(), low - 1.5 * (high - low))
    margin = 0.05 * (high - low) or 1.0
    layout = charts.layout_of("active rows", "J per row", xaxis=x, yaxis={"range": [low - margin, high + margin]})
    return [first, Figure("density", "Log density against the rows kept", caption, alt, traces, layout)]


def judgement_figures(report: Report) -> list[Figure]:
    """Predicted against true, calibration, residuals."""
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
    """Length-scales as bars; None for one input."""
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


def history_figure(report: Report) -> Figure | None:
    """What each round was worth; None where there were none."""
    rounds = [(place + 1, part) for place, part in enumerate(report.history) if np.isfinite(part.objective)]
    if len(rounds) < 2:
        return None
    sizes = list(dict.fromkeys(part.n_active for _, part in rounds))
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
    for kept, colour, symbol, name in ((True, "green", "circle", "kept"), (False, "orange", "x", "not kept")):
        some = [(place, part) for place, part in rounds if part.kept == kept]
        points = charts.line([place for place, _ in some], [part.objective for _, part in some], colour, name)
        points |= {"mode": "markers", "marker": {"color": f"@{colour}", "symbol": symbol, "size": 10}}
        traces.append({**points, "text": [part.name for _, part in some]})
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


def _random(stages: Any, values: Any) -> list[Trace]:
    """Random subsets: their range, and their mean."""
    x = stages.tolist()
    mean = charts.line(x, values.mean(axis=0), "orange", "random rows", dash="dash")
    return [*charts.band(x, values.min(axis=0), values.max(axis=0), "orange"), mean]


def _log_axis(report: Report) -> dict[str, Any]:
    """A logarithmic axis for the errors, with round numbers on it."""
    curve = report.curve
    parts = [curve.remainder] if curve.rmse is None else [curve.rmse, np.ravel(curve.random_rmse)]  # type: ignore[arg-type]
    values = np.concatenate([*parts, [report.judgement.rmse], [curve.noise] if curve.rmse is not None else []])
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
