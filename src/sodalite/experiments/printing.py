"""Text and tables on a terminal or in a pipe."""

from __future__ import annotations

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
