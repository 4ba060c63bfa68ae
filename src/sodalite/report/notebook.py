"""A fitted model in a notebook: a few lines and its learning curve, below scikit-learn's diagram."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from ..core.types import Floats
from ..fitting.fitted import FittedModel
from .summary import summarize

WIDTH, HEIGHT, EDGE = 300, 84, 4  # size of the curve and of the margin around it, in pixels
MOST_POINTS = 200  # points of the curve: more are closer than pixels
SHOWN = ("target", "beside simple ways", "error bars", "noise", "function", "rows kept")
"""Headings of the facts that a notebook shows."""
STYLE = (
    "margin:.6em 0;padding:.5em .8em;max-width:42em;border-left:3px solid #0072b2;font-family:sans-serif;"
    "font-size:.9em;line-height:1.5;color:inherit"
)


def with_summary(model: Any, html: str) -> str:
    """Scikit-learn's HTML of an estimator, with a summary if it is fitted."""
    return html + summary(model) if hasattr(model, "fitted_") else html


def summary(model: FittedModel) -> str:
    """The summary of a fitted model, as HTML that needs nothing else."""
    shown = [(heading, text) for heading, text in summarize(model).lines() if heading in SHOWN]
    lines = "".join(f"<div><b>{escape(heading)}:</b> {escape(text)}</div>" for heading, text in shown)
    return f'<div style="{STYLE}">{lines}{curve_svg(model.fitted_.selection.rmse)}</div>'


def curve_svg(rmse: Floats) -> str:
    """The RMSE of the rows not chosen yet, at stages 1 to m, as an SVG element; both axes are logarithmic."""
    values = np.asarray(rmse)
    t = np.flatnonzero(np.isfinite(values) & (values > 0)) + 1
    if len(t) < 2:
        return ""
    t = t[np.unique(np.geomspace(1, len(t), min(len(t), MOST_POINTS)).astype(int)) - 1]
    values = values[t - 1]
    x = EDGE + (WIDTH - 2 * EDGE) * np.log(t / t[0]) / np.log(t[-1] / t[0])
    fall = np.log(values.max() / values)
    y = EDGE + (HEIGHT - 2 * EDGE) * fall / (fall.max() or 1.0)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    text = f"RMSE of the rows not chosen yet, from {values[0]:.3g} after {t[0]} to {values[-1]:.3g} after {t[-1]} rows"
    return (
        f'<svg role="img" aria-label="{text}" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'style="display:block;max-width:100%;margin-top:.5em"><title>{text}</title>'
        f'<polyline points="{points}" fill="none" stroke="#0072b2" stroke-width="2"/></svg>'
        f'<span style="opacity:.75">{text}.</span>'
    )
