"""The parts that the report's figures share, as plotly takes them. Colours are names such as "@blue", for page.js."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from ..core.types import Array, Floats
from .rows import Input

Trace = dict[str, Any]
"""A curve, some points or bars, as plotly takes them."""

DAY = 86_400  # seconds; the model counts dates in days since 1970, plotly in milliseconds


@dataclass(frozen=True)
class Figure:
    """A figure as plotly takes it, with its words."""

    key: str
    """The id of its element on the page."""
    title: str
    caption: str
    """What the figure shows, and what to look for."""
    alt: str
    """What the figure says, for those who do not see it."""
    traces: list[Trace]
    layout: dict[str, Any]
    height: int = 340
    """In pixels."""
    frames: list[dict[int, Trace]] = field(default_factory=list)
    """For each position of the slider, what changes in which trace (counted from 0)."""
    wide: bool = False
    """Whether it takes the whole width of the page."""


def layout_of(x: str, y: str, **more: Any) -> dict[str, Any]:
    """Plotly's layout of two axes with these titles, and with further options; the page adds fonts and colours."""
    made: dict[str, Any] = {
        "xaxis": {"title": {"text": plain_text(x)}, **more.pop("xaxis", {})},
        "yaxis": {"title": {"text": plain_text(y)}, **more.pop("yaxis", {})},
        "margin": {"t": 8, "r": 12, "b": 48},
    }
    return made | more


def plain_text(text: str) -> str:
    """A text that plotly shows as it is: it would follow HTML tags."""
    return escape(text, quote=False)


def line(x: Any, y: Any, colour: str, name: str, dash: str = "solid") -> Trace:
    """A line through points; a caller may change its mode to markers."""
    style = {"color": f"@{colour}", "width": 2, "dash": dash}
    x = x.tolist() if isinstance(x, np.ndarray) else list(x)
    return {"type": "scatter", "mode": "lines", "x": x, "y": rounded(np.asarray(y)), "name": name, "line": style}


def band(x: Any, low: Floats, high: Floats, colour: str, name: str = "") -> list[Trace]:
    """The area between two curves, as two traces."""
    edge = {"type": "scatter", "mode": "lines", "x": x, "line": {"width": 0}, "hoverinfo": "skip", "showlegend": False}
    fill = {"fill": "tonexty", "fillcolor": f"@{colour}_band", "showlegend": bool(name), "name": name}
    return [{**edge, "y": rounded(low)}, {**edge, "y": rounded(high), **fill}]


def whiskers(up: Any, down: Any, colour: str = "blue") -> dict[str, Any]:
    """Error bars of these lengths."""
    ends = {"array": rounded(up), "arrayminus": rounded(down)}
    return {"type": "data", "symmetric": False, **ends, "color": f"@{colour}", "thickness": 1.5, "width": 3}


def dots(x: Any, y: Any, name: str) -> Trace:
    """Small points, for many rows."""
    marker = {"color": "@dot", "size": 4}
    return {"type": "scatter", "mode": "markers", "x": x, "y": y, "marker": marker, "name": name}


def picks(x: Any, y: Any) -> list[Trace]:
    """The active rows and a ring for the next one, as two traces; page.js shows as many as the slider says."""
    spot = {"color": "@text", "size": 7, "line": {"width": 1.2, "color": "@surface"}}
    ring = {"color": "@clear", "size": 15, "line": {"width": 2.5, "color": "@orange"}}
    base = {"type": "scatter", "mode": "markers", "x": x, "y": y}
    return [
        {**base, "marker": spot, "name": "rows kept", "meta": "so far"},
        {**base, "marker": ring, "name": "the next", "meta": "next"},
    ]


def as_shown(values: Array, part: Input) -> list[Any]:
    """Values of an input as an axis shows them: dates as dates."""
    if part.kind == "date":
        return [str(day) for day in (np.asarray(values) * DAY).astype("datetime64[s]")]
    return rounded(values)


def bar_width(axis: Floats, part: Input) -> float:
    """The width of a thin bar, 1/300 of the axis, in plotly's units."""
    width = float(axis[-1] - axis[0]) / 300
    return width * DAY * 1000 if part.kind == "date" else width


def rounded(values: Any) -> list[Any]:
    """Numbers rounded to at most 1/2500 of their range, which is finer than can be seen; None for NaN.

    Examples
    --------
    >>> rounded(np.array([1000.123456789, 1001.0, np.nan]))
    [1000.1235, 1001.0, None]
    """
    values = np.asarray(values, dtype=np.float64)
    finite = values[np.isfinite(values)]
    spread = float(np.ptp(finite)) if finite.size else 0.0
    spread = spread or float(np.abs(finite).max(initial=0.0)) or 1.0
    made: list[Any] = (np.round(values, int(np.ceil(3.4 - np.log10(spread)))) + 0.0).tolist()
    return made if finite.size == values.size else [value if np.isfinite(value) else None for value in made]


def log_ticks(most: int) -> list[int]:
    """Round numbers from 1 to the largest for a logarithmic axis, few enough to be read.

    Examples
    --------
    >>> log_ticks(300), log_ticks(1000)
    ([1, 2, 5, 10, 20, 50, 100, 200], [1, 10, 100, 1000])
    """
    found = [factor * 10**power for power in range(8) for factor in (1, 2, 5) if factor * 10**power <= most]
    return found if len(found) <= 8 else [tick for tick in found if str(tick)[0] == "1"]


def short(value: Any) -> str:
    """A number to three digits."""
    return f"{float(value):.3g}"
