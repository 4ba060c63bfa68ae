"""Plotly's source, in the form that browsers start fastest."""

from __future__ import annotations

from ..core.optional import require

BEGIN, END = "this, () => {", "}));"  # around the one function that all of plotly.js is in
LONGEST_HEAD = 1000  # characters before that function; if there are more, the bundle has another form


def plotly_source() -> str:
    """The whole of plotly.js, to be put into a page."""
    return read_once(require("plotly.offline", "report").get_plotlyjs())


def read_once(source: str) -> str:
    """Put a bundle's one function in parentheses, so that browsers parse it once; other forms stay as they are.

    A browser only skims a function when it meets it, and parses it when it is called, unless a parenthesis says that
    the call is near. All of plotly is in one such function, and to parse it takes as long as to draw several figures
    (`python -m benchmarks page`).

    Examples
    --------
    >>> read_once("(function (root, make) {make()} (this, () => {one();}));")
    '(function (root, make) {make()} (this, (() => {one();})));'
    >>> read_once("one();")
    'one();'
    """
    head, begin, rest = source.partition(BEGIN)
    body, end, tail = rest.rpartition(END)
    if not begin or not end or tail.strip() or len(head) > LONGEST_HEAD:
        return source
    return f"{head}this, (() => {{{body}}})));{tail}"
