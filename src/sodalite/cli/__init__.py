"""The command line: one module a command, each a thin layer over a function that tests and notebooks can call."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """The entry point of the command `sodalite`."""
    _open_closed_streams()
    try:
        from ..core.optional import require

        try:
            require("click", "cli")
            require("rich", "cli")
        except ModuleNotFoundError as error:
            sys.exit(str(error))
        from .app import app

        app()
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        sys.exit(130)


def _open_closed_streams() -> None:
    """Open descriptors 0 to 2 if they are closed, as by ``2>&-``: a file opened later would get messages written to it.

    Messages to a closed standard error are dropped. `sys.stdin` and `sys.stdout` stay None: a command that needs a
    closed one refuses to begin.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
