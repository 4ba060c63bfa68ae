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
LIST = "margin:0;padding:0;list-style:none"


def with_summary(model: Any, html: str) -> str:
    """Scikit-learn's HTML of an estimator, with a summary if it is fitted."""
    return html + summary(model) if hasattr(model, "fitted_") else html


def summary(model: FittedModel) -> str:
    """The summary of a fitted model, as HTML that needs nothing else."""
    shown = [(heading, text) for heading, text in summarize(model).lines() if heading in SHOWN]
    lines = "".join(f"<li><b>{escape(heading)}:</b> {escape(text)}</li>" for heading, text in shown)
    return f'<div style="{STYLE}"><ul style="{LIST}">{lines}</ul>{curve_svg(model.fitted_.selection.rmse)}</div>'


def curve_svg(rmse: Floats) -> str:
    """The RMSE of the rows not chosen yet, at stages 1 to m, as an SVG element; both axes are logarithmic."""
    t = np.arange(1, len(rmse) + 1)
    good = np.isfinite(rmse) & (np.asarray(rmse) > 0)
    if good.sum() < 2:
        return ""
    t, values = t[good], np.asarray(rmse)[good]
    if len(t) > MOST_POINTS:
        some = np.unique(np.geomspace(1, len(t), MOST_POINTS).astype(int)) - 1
        t, values = t[some], values[some]
    x = EDGE + (WIDTH - 2 * EDGE) * np.log(t / t[0]) / np.log(t[-1] / t[0])
    low, high = np.log(values.min()), np.log(values.max())
    y = EDGE + (HEIGHT - 2 * EDGE) * (high - np.log(values)) / (high - low if high > low else 1.0)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    text = f"RMSE of the rows not chosen yet, from {values[0]:.3g} after {t[0]} to {values[-1]:.3g} after {t[-1]} rows"
    return (
        f'<svg role="img" aria-label="{escape(text)}" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'style="display:block;max-width:100%;margin-top:.5em"><title>{escape(text)}</title>'
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" fill="none" stroke="currentColor" '
        f'stroke-opacity="0.2"/><polyline points="{points}" fill="none" stroke="#0072b2" stroke-width="2"/></svg>'
        f'<span style="opacity:.75">{escape(text)}.</span>'
    )
