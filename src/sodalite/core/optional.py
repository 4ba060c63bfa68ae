"""Imports of optional dependencies; the error for a missing one says which command installs it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def require(module: str, extra: str) -> Any:
    """Import an optional module; if it is missing, the error names the extra of this package that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0]:
            raise
        raise ModuleNotFoundError(
            f"This needs {error.name}, which is not installed. Install it with: pip install 'sodalite[{extra}]'",
            name=error.name,
        ) from None
