"""A fitted model in a notebook: a few lines and its learning curve, below scikit-learn's diagram."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from ..core.types import Floats
from ..fitting.fitted import FittedModel
from .rows import target_of
from .words import bars_of, kernel_words

WIDTH, HEIGHT, EDGE = 300, 84, 4  # size of the curve and of the margin around it, in pixels
MOST_POINTS = 200  # points of the curve: more are closer than pixels
N_ROWS = 1000  # about how many rows the kernel is described by: a summary must not be waited for
STYLE = (
    "margin:.6em 0;padding:.5em .8em;max-width:42em;border-left:3px solid #0072b2;font-family:sans-serif;"
    "font-size:.9em;line-height:1.5;color:inherit"
)


def with_summary(model: Any, html: str) -> str:
    """Scikit-learn's HTML of an estimator, with a summary if it is fitted."""
    return html + summary(model) if hasattr(model, "fitted_") else html


def summary(model: FittedModel) -> str:
    """The summary of a fitted model, as HTML that needs nothing else."""
    fitted = model.fitted_
    known = fitted.X_active if fitted.rows is None else fitted.rows.X
    X = np.asarray(known[:: max(len(known) // N_ROWS, 1)], dtype=np.float64)
    unit = float(fitted.scaling.std[0])
    words = kernel_words(model.kernel_, X, (), unit, unit**2, bars_of(fitted.posterior))
    lines = [f"<b>{len(fitted.selection):,} active rows</b> of {fitted.n_rows:,}, for {escape(target_of(model))}."]
    if words.std is not None:
        lines.append(escape(words.error_bars()))
    if model.normalize_y or words.noise_std == 0:
        lines.append(f"Noise: {escape(words.noise())}")
    if words.shape:
        lines.append(f"Kernel: {escape(words.shape)}.")
    return f'<div style="{STYLE}">{"<br>".join(lines)}{curve_svg(fitted.selection.rmse)}</div>'


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
