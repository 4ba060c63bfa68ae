"""Plotly's source, as a page starts it fastest."""

from __future__ import annotations

from ..core.optional import require

BEGIN, END = "this, () => {", "}));"


def plotly_source() -> str:
    """The whole of plotly.js."""
    return read_once(require("plotly.offline", "report").get_plotlyjs())


def read_once(source: str) -> str:
    """A bundle whose function is in parentheses, or the bundle as it is where it has another form.

    A browser skims a function when it meets it and reads it again when it is called, unless a parenthesis says that
    the call is near. All of plotly is in one such function, and to read it takes as long as to draw several figures.

    Examples
    --------
    >>> read_once("(function (root, make) {make()} (this, () => {one();}));")
    '(function (root, make) {make()} (this, (() => {one();})));'
    >>> read_once("one();")
    'one();'
    """
    head, begin, rest = source.partition(BEGIN)
    body, end, tail = rest.rpartition(END)
    if not begin or not end or tail.strip() or len(head) > 1000:
        return source
    return f"{head}this, (() => {{{body}}})));{tail}"
