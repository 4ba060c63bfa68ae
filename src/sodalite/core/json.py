"""Results as JSON values; the state of models is the matter of `sodalite.core.state`."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel


def plain(value: Any, digits: int | None = None) -> Any:
    """Results as JSON, dataclasses and dicts as objects, kernels as texts; a number that is not finite is null.

    Parameters
    ----------
    value : object
    digits : int, optional
        Significant digits of floats; all of them unless given.

    Examples
    --------
    >>> plain({"mean": np.array([2 / 3, np.nan]), "rows": (1, 2)}, digits=3)
    {'mean': [0.667, None], 'rows': [1, 2]}
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float):
        known = value if digits is None else float(f"{value:.{digits}g}")
        return known if isfinite(value) else None
    if isinstance(value, list | tuple):
        return [plain(part, digits) for part in value]
    if isinstance(value, Kernel):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        value = {part.name: getattr(value, part.name) for part in fields(value)}
    return {key: plain(part, digits) for key, part in value.items()} if isinstance(value, dict) else value
