"""A fitted model in a notebook: a few lines below scikit-learn's diagram."""

from __future__ import annotations

from html import escape
from typing import Any

from .summary import summarize

SHOWN = ("target", "beside simple ways", "error bars", "noise", "function", "rows kept")
"""Headings of the facts that a notebook shows."""
STYLE = "margin:.6em 0;padding:.5em .8em;max-width:42em;border-left:3px solid #0072b2;font:.9em/1.5 sans-serif"


def with_summary(model: Any, html: str) -> str:
    """Scikit-learn's HTML of an estimator, with a summary if it is fitted."""
    if not hasattr(model, "fitted_"):
        return html
    shown = [(heading, text) for heading, text in summarize(model).lines() if heading in SHOWN]
    lines = "".join(f"<div><b>{escape(heading)}:</b> {escape(text)}</div>" for heading, text in shown)
    return f'{html}<div style="{STYLE}">{lines}</div>'
