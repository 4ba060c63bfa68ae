"""Read fields of a model file's JSON: each function returns the value, or raises a ValueError that names the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.json import shown


def mapping(value: Any, name: str) -> Mapping[str, Any]:
    """Return a JSON object."""
    if not isinstance(value, dict):
        raise wrong(name, "an object with fields", value)
    return value


def count(value: Any, name: str, least: int = 0, most: int = 2**63 - 1) -> int:
    """Return a whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise wrong(name, f"a whole number from {least} to {most}", value)
    return value


def real(value: Any, name: str, least: float = 0.0, most: float = np.inf) -> float:
    """Return a finite number from `least` to `most`."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < np.inf
    if not is_number or not least <= value <= most:
        low = "" if least == -np.inf else f" of at least {least:g}"
        high = "" if most == np.inf else f" and at most {most:g}"
        raise wrong(name, f"a finite number{low}{high}", value)
    return float(value)


def text(value: Any, name: str) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise wrong(name, "a text", value)
    return value


def flag(value: Any, name: str) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise wrong(name, "true or false", value)
    return value


def wrong(name: str, needed: str, value: Any) -> ValueError:
    """Return the error for a field of a wrong value."""
    return ValueError(f"{name} must be {needed}; it is {shown(value)}")
