"""Parts of messages to users, and how they are printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GLUE = "\ue000"  # stands for a space at which no line is broken; rich breaks lines at no-break spaces too


def glued(text: str) -> str:
    """A text in which no line is broken between a number and its per cent; to be printed by `print_tidily`."""
    return text.replace(" %", f"{GLUE}%")


def print_tidily(console: Any, *parts: Any) -> None:
    """Print texts and tables of rich, without the spaces that it puts at the ends of lines."""
    from rich.text import Text

    with console.capture() as captured:
        for part in parts:
            console.print(part)
    lines = [line.rstrip() for line in captured.get().replace(GLUE, " ").splitlines()]
    console.print(Text.from_ansi("\n".join(lines)), soft_wrap=True)


def counted(counts: Mapping[str, int], most: int = 8) -> str:
    """Names with their counts as a part of a sentence; of more than `most`, the most frequent.

    Examples
    --------
    >>> counted({"a": 1, "b": 3, "c": 2}, most=2)
    "'b' (3), 'c' (2) and 1 more"
    """
    ranked = sorted(counts.items(), key=lambda pair: -pair[1]) if len(counts) > most else list(counts.items())
    shown = ", ".join(f"{name!r} ({count})" for name, count in ranked[:most])
    return shown + (f" and {len(counts) - most} more" if len(counts) > most else "")
