"""The command line: one module a command, each a thin layer over a function that tests and notebooks can call."""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point of the command `sodalite`."""
    from ..core.optional import require

    try:
        require("click", "cli")
        require("rich", "cli")
    except ModuleNotFoundError as error:
        sys.exit(str(error))
    try:
        from .app import app

        app()
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        sys.exit(130)
