"""A report as one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from ..fitting.advice import no_better_words
from ..posteriors.calibration import COVERAGES
from ..stopping import in_words
from .build import HeldOut, Report
from .charts import Figure
from .curve import LearningCurve
from .figures import (
    effect_figures,
    honesty_figures,
    importance_figure,
    interaction_figures,
    judgement_figures,
    map_figure,
)
from .honesty import GroupCoverage
from .learning import curve_figures, history_figure
from .packing import element, pack_once
from .plotly_bundle import plotly_source
from .views import slider_labels, view_figures
from .words import POSTERIORS, SCORES, baseline_words, coverages_words, readable

MOST_NAMES = 12  # inputs that are listed by name; more would be a wall of text
MOST_NUMBERS = 30  # numbers of a kernel's parameter that are printed; of more, the first few

# The page may run its own scripts and styles, and load nothing.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


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
    >>> len(page) < 2e6
    True
    """
    plotly = plotly_source()
    figures = _Figures.of(report)
    content = {
        "figures": {
            part.key: {"data": part.traces, "layout": part.layout, "frames": part.frames} for part in figures.every
        },
        "stages": report.view.stages.tolist() if report.view is not None else [],
        "labels": slider_labels(report),
    }
    title = f"{report.target}, predicted from {_listed(report.inputs)}"
    return _PAGE.format(
        policy=POLICY,
        title=escape(title),
        style=_file("page.css"),
        sections="\n".join(_sections(report, figures)),
        version=escape(report.version),
        plotly=element("plotly", plotly, pack_once(plotly)),
        content=element("content", _json(content)),
        unpack=_file("unpack.js"),
        script=_file("page.js"),
    )


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<header>
<p class="kind">A Gaussian process on the rows that it chose</p>
<h1>{title}</h1>
</header>
<main>
<noscript><p class="note">The figures need JavaScript, which is off. The numbers at the end do not.</p></noscript>
{sections}
</main>
<footer>Made by Sodalite {version}. This file needs no network.</footer>
{plotly}
{content}
<script>
{unpack}{script}
</script>
</body>
</html>
"""


@dataclass(frozen=True)
class _Figures:
    """The figures of a page, by what they show."""

    views: list[Figure]
    effects: list[Figure]
    judged: list[Figure]
    honesty: list[Figure]
    curves: list[Figure]
    interactions: list[Figure]
    importance: Figure | None
    where: Figure | None
    history: Figure | None

    @classmethod
    def of(cls, report: Report) -> _Figures:
        """Draw all figures of a report."""
        return cls(
            views=view_figures(report),
            effects=effect_figures(report),
            judged=judgement_figures(report),
            honesty=honesty_figures(report),
            curves=curve_figures(report),
            interactions=interaction_figures(report),
            importance=importance_figure(report),
            where=map_figure(report),
            history=history_figure(report),
        )

    @property
    def every(self) -> list[Figure]:
        """All figures that there are."""
        single = (self.importance, self.where, self.history)
        several = (self.views, self.effects, self.interactions, self.judged, self.honesty, self.curves)
        return [*(part for parts in several for part in parts), *(part for part in single if part is not None)]


def _sections(report: Report, figures: _Figures) -> Iterator[str]:
    """The sections of the page, in order."""
    yield _section("The model in short", _short(report))
    if figures.views:
        labels = slider_labels(report)
        slider = _slider(labels, figures.views) if len(labels) > 1 else ""
        yield _section("What the model has learnt", slider + _grid(figures.views))
    if figures.effects:
        yield _section("What each input does", _effects(figures.effects))
    if figures.interactions:
        yield _section("What inputs do together", _grid(figures.interactions))
    if figures.importance or figures.where:
        heading = "The inputs" + " and the active rows" * bool(figures.where)
        yield _section(heading, _grid([figures.importance, figures.where]))
    yield _section("How good it is", _grid(figures.judged))
    yield _section("Are the error bars honest?", _grid(figures.honesty))
    if figures.curves:
        yield _section("How many rows it needs", _grid(figures.curves))
    if figures.history:
        yield _section("How the kernel was found", _grid([figures.history]) + _rounds(report))
    yield _section("The numbers", _numbers(report))


def _section(heading: str, body: str) -> str:
    return f"<section>\n<h2>{escape(heading)}</h2>\n{body}\n</section>"


def _short(report: Report) -> str:
    """The model in short: a few numbers, some sentences, and which rows they are from."""
    shown = "".join(f"<div><dt>{escape(text)}</dt><dd>{escape(number)}</dd></div>" for number, text in _tiles(report))
    facts = "".join(f"<li><b>{name}:</b> {escape(line)}</li>" for name, line in _facts(report) if line)
    sources = " ".join(escape(line) for line in report.sources)
    return f'<dl class="tiles">{shown}</dl>\n<ul class="facts">{facts}</ul>\n<p class="note">{sources}</p>'


def _tiles(report: Report) -> list[tuple[str, str]]:
    """The numbers that lead the page, each with what it is."""
    found, words, target = report.judgement, report.words, report.target
    share = "more than 99.9 %" if found.r2 > 0.9995 else f"{max(100 * found.r2, 0):.1f} %"
    explained = "" if np.isnan(found.r2) else f"; {share} of the variance explained"
    wide = f", typically {readable(float(np.median(found.upper - found.lower)))} wide"
    where = f", on {found.n_judges:,} rows held out" if found.how == "held out" else ""
    return [
        (f"{report.n_active:,}", f"active rows, of {report.n_rows:,}"),
        (readable(found.rmse, 4), f"typical error of {target} (RMSE){explained}{where}"),
        (f"{100 * found.coverage:.1f} %", f"of the rows are in their 95 % intervals{wide}{where}"),
        (f"± {readable(words.std)}", f"standard deviation of a new {target} near the data")
        if words.std is not None
        else (readable(words.noise_std), "standard deviation of the noise, by the kernel"),
    ]


def _coverage(report: Report) -> str:
    """How many rows are in their intervals, in a sentence."""
    found = report.judgement
    return f"{coverages_words(found.coverages)}{' held out' if found.how == 'held out' else ''}."


def _facts(report: Report) -> list[tuple[str, str]]:
    """Sentences about the model, each with its heading; empty where there is nothing to say."""
    words = report.words
    return [
        ("Inputs", words.inputs() if len(report.inputs) > 1 else ""),
        ("Error bars", words.error_bars()),
        ("Coverage", _coverage(report)),
        ("Noise", words.noise(report.target)),
        ("Beside simple ways", (report.baselines and no_better_words(report.baselines, report.mean or None)) or ""),
        ("Outside the data", report.judgement.outside_words),
        ("Kernel", f"{words.shape}; it says how smooth the function is taken to be." if words.shape else ""),
        ("Mean function", f"{report.mean} {report.judgement.mean_words}".strip()),
        ("Predicts from", f"{POSTERIORS.get(report.posterior, report.posterior)}."),
    ]


def _grid(figures: Sequence[Figure | None]) -> str:
    return f'<div class="grid">{"".join(_figure(part) for part in figures if part is not None)}</div>'


def _figure(part: Figure, heading: bool = True) -> str:
    title = f"<h3>{escape(part.title)}</h3>" if heading else ""
    caption = f"<figcaption>{escape(part.caption)}</figcaption>" if part.caption else ""
    return (
        f'<figure class="{"wide" if part.wide else ""}">{title}'
        f'<div class="plot" id="{part.key}" role="img" aria-label="{escape(f"{part.title}. {part.alt}")}" '
        f'style="height:{part.height}px"></div>{caption}</figure>'
    )


def _effects(figures: list[Figure]) -> str:
    text = (
        "The prediction when one input changes and the others stay as they are, averaged over some rows. Its band "
        "holds that average with at least 95 % probability, by the distribution of errors that the model has learnt; "
        "noise is not in it. All have one vertical scale: the "
        "steepest matter most. A wide band means that few rows are near. Inputs that depend on each other may be "
        "misleading here."
    )
    shown = "".join(_figure(part, heading=False) for part in figures)
    return f'<p class="lead">{escape(text)}</p><div class="grid small">{shown}</div>'


def _slider(labels: list[str], views: list[Figure]) -> str:
    last = len(labels) - 1
    names = " ".join(part.key for part in views)
    return (
        '<div class="slider"><label for="stage">Stage</label>'
        f'<input type="range" id="stage" min="0" max="{last}" value="{last}" step="1" aria-controls="{names}" '
        f'aria-valuetext="{escape(labels[-1])}">'
        '<button type="button" id="play">Play</button>'
        f'<output for="stage" id="stage-label">{escape(labels[-1])}</output></div>'
    )


def _rounds(report: Report) -> str:
    head = ["round", "what was done", "log density", "kept", "seconds", "kernel"]
    rows = [
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
    return _folded("Every round in a table", _table(head, rows, left=(1, 3, 5)))


def _numbers(report: Report) -> str:
    """All numbers as tables, those that few will want folded up."""
    parts = [
        _about(report),
        _comparison(report),
        f"<p class='lead'>RMSE, the root mean square error, is in units of {escape(report.target)}. NLPD is the mean "
        "negative log predictive density by the distribution of errors that the model has learnt: it judges the error "
        "bars too, and less is better. The other columns are the shares of the rows, in %, in intervals of these "
        "probabilities.</p>",
        *([] if report.curve is None else [_folded("The learning curve in a table", _curve_table(report.curve))]),
        _folded("The intervals in a table", _interval_table(report)),
        *(
            _folded(f"The 95 % intervals by {escape(part.by)} in a table", _group_table(part))
            for part in (report.judgement.regions, report.judgement.distances)
            if part is not None
        ),
    ]
    if report.importance is not None:
        rows = [
            [part.name, *(f"{value:.3f}" for value in (part.total, part.total_error, part.first, part.first_error))]
            for part in report.importance.effects
        ]
        head = ["input", "in all", "± ", "alone", "±"]
        parts.append(_folded("The inputs' shares of the variance in a table", _table(head, rows)))
    return "\n".join(parts)


def _about(report: Report) -> str:
    """What the model is, and what it was made from."""
    about = [
        ("target", report.target),
        ("inputs", _listed(report.inputs, MOST_NAMES)),
        *([("rows from", report.data)] if report.data else []),
        ("rows in the fit", f"{report.n_rows:,}"),
        ("active rows", f"{report.n_active:,} ({in_words(report.stop_reason)})"),
        ("each chosen as", "" if report.curve is None else SCORES.get(report.score, report.score)),
        ("predicts from", f"{POSTERIORS.get(report.posterior, report.posterior)} ({report.posterior})"),
        ("kernel, for targets scaled to unit variance", abridged(report.kernel)),
        ("distribution of errors", report.errors),
        ("judged by", report.judgement.words),
        ("beside simple ways", "" if report.baselines is None else baseline_words(report.baselines)),
    ]
    return _table(["", ""], [list(pair) for pair in about if pair[1]], left=(0, 1), header=False)


def _comparison(report: Report) -> str:
    """How good the model is here, and beside simpler ones on the rows that were held out."""
    found = report.judgement
    here = [["this model, judged here", *_scores(found.rmse, found.nlpd, found.coverages)]]
    rows = [] if found.how == "held out" else here
    names = {"sodalite": "this model", "linear": "a straight line", "constant": "a constant"}
    rows += [
        [
            f"{names.get(part.model, part.model)}, {report.n_held_out:,} rows held out",
            *_scores(part.rmse, part.nlpd, _coverages(part)),
        ]
        for part in report.held_out
    ]
    return _table(["model", "RMSE", "NLPD", *(f"in {100 * level:.0f}\N{NO-BREAK SPACE}%" for level in COVERAGES)], rows)


def _coverages(part: HeldOut) -> dict[str, float]:
    """The shares of the rows in their intervals, as far as they are known: files of earlier versions have one."""
    return part.coverages or ({} if part.coverage is None else {"0.95": part.coverage})


def _curve_table(curve: LearningCurve) -> str:
    if (known := curve.judged) is None:
        head, values = ["active rows", "RMSE of the rest"], [curve.stages, curve.remainder]
    else:
        head, values = ["active rows", "RMSE", "J per row"], [curve.stages, known.rmse, known.density]
    return _table(head, [[f"{value:,.5g}" for value in row] for row in zip(*values, strict=True)])


def _interval_table(report: Report) -> str:
    found = report.judgement
    rows = [
        [f"{100 * level:.0f} %", f"{100 * share:.1f} %", f"{100 * low:.1f} to {100 * high:.1f} %"]
        for level, share, low, high in zip(found.levels, found.shares, found.low, found.high, strict=True)
    ]
    return _table(["the interval should hold", "it holds", "chance allows"], rows)


def _group_table(found: GroupCoverage) -> str:
    rows = [
        [label, f"{count:,}", f"{100 * share:.1f} %", f"{100 * low:.1f} to {100 * high:.1f} %"]
        for label, count, share, low, high in zip(
            found.labels, found.counts.tolist(), found.shares, found.low, found.high, strict=True
        )
    ]
    return _table([found.by, "rows", "in the 95 % interval", "chance allows"], rows)


def _folded(heading: str, body: str) -> str:
    """A part of the page that is shown when its heading is clicked."""
    return f"<details><summary>{heading}</summary>{body}</details>"


def _scores(rmse: float, nlpd: float | None, shares: Mapping[str, float]) -> list[str]:
    """RMSE, NLPD and coverage of intervals as a table shows them; empty where they are not known."""
    held = [f"{100 * shares[level]:.1f}" if level in shares else "" for level in map("{:g}".format, COVERAGES)]
    return [f"{rmse:.4g}", "" if nlpd is None else f"{nlpd:.4g}", *held]


def _table(head: list[str], rows: list[list[str]], left: tuple[int, ...] = (0,), header: bool = True) -> str:
    """A table of texts. The columns `left` are aligned left; without `header`, the first column is the heading."""

    def cell(tag: str, place: int, text: str) -> str:
        return f"<{tag}{' class=left' if place in left else ''}>{escape(text)}</{tag}>"

    top = f"<thead><tr>{''.join(cell('th', i, text) for i, text in enumerate(head))}</tr></thead>" if header else ""
    body = "".join(
        f"<tr>{''.join(cell('td' if header or i else 'th', i, text) for i, text in enumerate(row))}</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table>{top}<tbody>{body}</tbody></table></div>'


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


def _json(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), allow_nan=False)


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
