"""A report as one HTML file that needs nothing else: no network, no other file."""

from __future__ import annotations

import re
from importlib.resources import files

import numpy as np

from ..core.optional import require
from .ahead import Ahead
from .build import Report
from .figures import figures_of, most_important, rounded
from .summary import simple_name
from .words import CRITERIA, listed, readable

MOST_NUMBERS = 30  # numbers of a kernel's parameter that are printed; of more, the first few
FILTERS = {
    "readable": readable,
    "short": lambda value: f"{float(value):.3g}",
    "count": lambda value: f"{value:,}",
    "percent": lambda share: f"{100 * share:.1f} %",
    "listed": listed,
    "simple_name": simple_name,
    "abridged": lambda kernel: abridged(kernel),
    "rows": lambda count: f"{count:,} row{'s' * (count != 1)}",
}
"""What the template calls to write numbers and names."""


def to_html(report: Report) -> str:
    """The report as the text of one HTML file: figures, captions and numbers, with plotly inside.

    Parameters
    ----------
    report : Report

    Examples
    --------
    >>> from sodalite import GreedyGPRegressor
    >>> from sodalite.report import make_report
    >>> import numpy as np
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
    environment.filters |= FILTERS
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    figures, labels = figures_of(report), slider_labels(report)
    text: str = environment.get_template("page.html").render(
        report=report,
        summary=report.summary,
        target=report.target,
        judgement=report.judgement,
        curve=report.curve,
        view=report.view,
        figures=figures,
        stretches=None if report.ahead is None else _table(report.ahead),
        n_bars=most_important(report.importance),
        chosen_as=CRITERIA.get(report.summary.criterion, report.summary.criterion),
        labels=labels,
        content={
            "figures": rounded(figures),
            "stages": [] if report.view is None else report.view.stages.tolist(),
            "labels": labels,
        },
        plotly=plotly,
        style=_file("page.css"),
        script=_file("page.js"),
    )
    return text


def _table(ahead: Ahead) -> tuple[list[str], list[list[str]]]:
    """The errors of forecasts of the last stretches of time, as the head and the rows of a table."""
    names = list(ahead.stretches[0].simple)
    head = ["stretch", "from", "rows drawn", "RMSE", *(f"of {name}" for name in names), "in 95 % intervals"]
    rows = []
    for part in ahead.stretches:
        errors = [readable(rmse, 4) for rmse in (part.rmse, *(part.simple.get(name, np.nan) for name in names))]
        rows.append([part.words, part.begin, f"{len(part.time):,}", *errors, f"{100 * part.coverage:.0f} %"])
    return head, rows


def slider_labels(report: Report) -> list[str]:
    """What each position of the slider shows, in words: the stages, then the finished model."""
    if report.view is None:
        return []
    n_active = f"{report.summary.n_active:,}"
    labels = [f"{stage:,} of {n_active} rows kept" for stage in report.view.stages.tolist()]
    near = ", and the rows near each prediction" if report.summary.asks_neighbours else ""
    return [*labels, f"The finished model: {n_active} rows kept{near}"]


def abridged(kernel: str) -> str:
    """A kernel's text with long lists of length-scales cut short.

    Examples
    --------
    >>> abridged("RBF(length_scale=[1, 2])")
    'RBF(length_scale=[1, 2])'
    >>> abridged(f"RBF(length_scale={list(range(300))})")
    'RBF(length_scale=[0, 1, 2, 3, 4, 5 and 294 more])'
    """

    def cut(match: re.Match[str]) -> str:
        parts = match[1].split(", ")
        return match[0] if len(parts) <= MOST_NUMBERS else f"[{', '.join(parts[:6])} and {len(parts) - 6} more]"

    return re.sub(r"\[([^][]*)\]", cut, kernel)


def _file(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")
