"""A report as one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib.resources import files

import numpy as np

from ..core.optional import require
from .build import Report
from .charts import Figure
from .figures import (
    curve_figures,
    effect_figures,
    honesty_figures,
    importance_figure,
    interaction_figures,
    judgement_figures,
    slider_labels,
    view_figures,
)
from .honesty import GroupCoverage
from .summary import Grid, score_cells
from .words import CRITERIA, coverages_words, readable

MOST_NAMES = 12  # inputs that are listed by name; more would be a wall of text
MOST_NUMBERS = 30  # numbers of a kernel's parameter that are printed; of more, the first few


def to_html(report: Report) -> str:
    """The report as the text of one HTML file: figures, captions and numbers, with plotly inside.

    Parameters
    ----------
    report : Report

    Examples
    --------
    >>> from sodalite import GreedyGPRegressor
    >>> from sodalite.report import make_report
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> model = GreedyGPRegressor(n_active=10, hyperparameters="fixed", random_state=0).fit(X, np.sin(X[:, 0]))
    >>> page = to_html(make_report(model))
    >>> len(page) < 7e6
    True
    """
    jinja2, plotly = require("jinja2", "report"), require("plotly.offline", "report").get_plotlyjs()
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, loader=jinja2.FunctionLoader(_file)
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    figures = list(_figures(report))
    labels = slider_labels(report)
    content = {
        "figures": {part.key: {"data": part.traces, "layout": part.layout, "frames": part.frames} for part in figures},
        "stages": [] if report.view is None else report.view.stages.tolist(),
        "labels": labels,
    }
    text: str = environment.get_template("page.html").render(
        report=report,
        summary=report.summary,
        judgement=report.judgement,
        title=f"{report.summary.target}, predicted from {_listed(report.summary.inputs)}",
        figures={part.key: part for part in figures},
        labels=labels,
        tiles=_tiles(report),
        facts=[pair for pair in _facts(report) if pair[1]],
        about=[pair for pair in _about(report) if pair[1]],
        tables=dict(_tables(report)),
        content=content,
        plotly=plotly,
        style=_file("page.css"),
        script=_file("page.js"),
    )
    return text


def _figures(report: Report) -> Iterator[Figure]:
    """All figures that there are."""
    yield from view_figures(report)
    yield from effect_figures(report)
    yield from interaction_figures(report)
    yield from judgement_figures(report)
    yield from honesty_figures(report)
    yield from curve_figures(report)
    if (importance := importance_figure(report)) is not None:
        yield importance


def _tiles(report: Report) -> list[tuple[str, str]]:
    """The numbers that lead the page, each with what it is."""
    judgement, summary = report.judgement, report.summary
    target, gain = summary.target, summary.gain
    where = f", on {judgement.n_judges:,} rows held out" if judgement.how == "held out" else ""
    share = "more than 99.9 %" if judgement.r2 > 0.9995 else f"{max(100 * judgement.r2, 0):.1f} %"
    explained = "" if np.isnan(judgement.r2) else f"; {share} of the variance explained"
    tiles = [(readable(judgement.rmse, 4), f"typical error of {target} (RMSE){explained}{where}")]
    if gain is not None and summary.best_simple is not None:
        size = "smaller" if gain >= 0 else "larger"
        name = summary.best_simple.name
        tiles.append((f"{100 * abs(gain):.0f} % {size}", f"typical error than that of the best simple way, {name}"))
    if summary.words.error_bar:
        tiles.append((summary.words.error_bar, f"error bar of a new {target} near the data (standard deviation)"))
    tiles.append((f"{100 * judgement.coverage:.1f} %", f"of the rows are in their 95 % intervals{where}"))
    return tiles


def _facts(report: Report) -> list[tuple[str, str]]:
    """What the first numbers mean, in sentences with headings; empty where there is nothing to say."""
    judgement, words = report.judgement, report.summary.words
    held_out = " held out" if judgement.how == "held out" else ""
    return [
        ("Beside simple ways", report.summary.verdict),
        ("Error bars", words.error_bars()),
        ("Coverage", f"{coverages_words(judgement.coverages)}{held_out}."),
        ("Noise", words.noise(report.summary.target)),
    ]


def _about(report: Report) -> list[tuple[str, str]]:
    """What the model is, and what it was made from."""
    summary, judgement = report.summary, report.judgement
    facts = dict(summary.lines())
    shape = f"{summary.words.shape}; it says how smooth the function is taken to be." if summary.words.shape else ""
    return [
        ("inputs", _listed(summary.inputs, MOST_NAMES)),
        ("rows from", summary.data),
        ("active rows (those kept)", summary.rows_kept),
        ("each chosen as", "" if report.curve is None else CRITERIA.get(summary.criterion, summary.criterion)),
        ("predicts from", facts["predicts from"]),
        ("kernel", shape),
        ("its parameters, for targets scaled to unit variance", abridged(summary.kernel)),
        ("mean function", f"{summary.mean} {judgement.mean_words}".strip()),
        ("distribution of errors", summary.errors),
        ("judged by", judgement.words),
    ]


def _tables(report: Report) -> Iterator[tuple[str, Grid]]:
    """Numbers in tables, each with its heading."""
    summary, judgement, curve = report.summary, report.judgement, report.curve
    if judgement.how != "held out":
        here = ["this model", *score_cells(judgement.rmse, judgement.nlpd, judgement.coverages)]
        yield f"Judged here, by {judgement.words}", Grid(summary.comparison().head, [here])
    columns = [[part.name, part.read_as, f"{part.missing or ''}"] for part in summary.columns]
    yield "How the columns were read", Grid(["column", "read as", "missing"], columns)
    intervals = zip(judgement.levels, judgement.shares, judgement.low, judgement.high, strict=True)
    yield (
        "The intervals in a table",
        Grid(
            ["the interval should hold", "it holds", "chance allows"],
            [[f"{100 * level:.0f} %", *_held(share, low, high)] for level, share, low, high in intervals],
        ),
    )
    for groups in (judgement.regions, judgement.distances):
        if groups is not None:
            yield f"The 95 % intervals by {groups.by} in a table", _group_table(groups)
    if curve is not None:
        names, values = ["active rows", "RMSE of the rest"], [curve.stages, curve.remainder]
        if (judged := curve.judged) is not None:
            names, values = ["active rows", "RMSE", "J per row"], [curve.stages, judged.rmse, judged.density]
        rows = [[f"{value:,.5g}" for value in row] for row in zip(*values, strict=True)]
        yield "The learning curve in a table", Grid(names, rows)
    if report.importance is not None:
        effects = [
            [part.name, *(f"{value:.3f}" for value in (part.total, part.total_error, part.first, part.first_error))]
            for part in report.importance.effects
        ]
        yield "The inputs' shares of the variance in a table", Grid(["input", "in all", "±", "alone", "±"], effects)
    if report.history:
        rounds = [
            [
                str(place + 1),
                part.name,
                f"{part.objective:.4f}",
                "yes" if part.kept else "no",
                f"{part.seconds:.1f}",
                abridged(part.kernel),
            ]
            for place, part in enumerate(report.history)
        ]
        head = ["round", "what was done", "log density", "kept", "seconds", "kernel"]
        yield "How the kernel was found, round by round", Grid(head, rounds)


def _group_table(groups: GroupCoverage) -> Grid:
    """The coverage of groups of rows."""
    parts = zip(groups.labels, groups.counts.tolist(), groups.shares, groups.low, groups.high, strict=True)
    rows = [[label, f"{count:,}", *_held(share, low, high)] for label, count, share, low, high in parts]
    return Grid([groups.by, "rows", "in the 95 % interval", "chance allows"], rows)


def _held(share: float, low: float, high: float) -> tuple[str, str]:
    """A share of rows, and the range that chance allows for it."""
    return f"{100 * share:.1f} %", f"{100 * low:.1f} to {100 * high:.1f} %"


def _listed(names: Sequence[str], most: int = 4) -> str:
    """Names as part of a sentence: "a, b and c", or "a, b, c and 7 others"."""
    names = list(names)
    if len(names) > most:
        return f"{', '.join(names[: most - 1])} and {len(names) - most + 1} others"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def abridged(kernel: str) -> str:
    """A kernel's text with long lists of length-scales cut short.

    Examples
    --------
    >>> abridged("RBF(length_scale=[1, 2])")
    'RBF(length_scale=[1, 2])'
    >>> abridged(f"RBF(length_scale={list(range(300))})")
    'RBF(length_scale=[0, 1, 2, 3, 4, 5 and 294 more])'
    """

    def cut(found: re.Match[str]) -> str:
        parts = found[1].split(", ")
        return found[0] if len(parts) <= MOST_NUMBERS else f"[{', '.join(parts[:6])} and {len(parts) - 6} more]"

    return re.sub(r"\[([^][]*)\]", cut, kernel)


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
