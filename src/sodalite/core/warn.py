"""Warnings that name the line of the user's own code."""

from __future__ import annotations

import sys
import warnings

PACKAGE = __name__.partition(".")[0]


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn of something at the nearest line of code that is no part of this package, however deep the call is."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
