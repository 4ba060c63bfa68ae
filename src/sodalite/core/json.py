"""Results, arguments and random states as JSON values; the state of models is the matter of `sodalite.core.state`."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from hashlib import sha256
from json import dumps
from math import isfinite
from numbers import Integral
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


def described(value: Any) -> Any:
    """An argument as JSON, equal for two arguments of equal meaning; a function is described by its name.

    Examples
    --------
    >>> from sodalite.criteria import Delta
    >>> described(Delta(underfit=0.5))
    'Delta(uncertainty=1.0, underfit=0.5)'
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple | range):
        return [described(part) for part in value]
    if isinstance(value, Kernel):
        parts = {name: described(part) for name, part in value.get_params(deep=False).items()}
        return {"kernel": type(value).__qualname__, **parts}
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and isfinite(value)):
        return value
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def seed_of(random_state: Any, generator: np.random.Generator) -> Any:
    """The identity of a random state, for a file: None, the seed, or a hash of the generator's state."""
    if random_state is None or isinstance(random_state, Integral):
        return described(random_state)
    return sha256(dumps(state_of(generator), sort_keys=True).encode()).hexdigest()[:16]


def state_of(generator: np.random.Generator) -> Any:
    """The state of a generator as JSON; `state_from` reads it."""

    def without_arrays(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without_arrays(part) for name, part in value.items()}
        return {"array": value.tolist(), "dtype": str(value.dtype)} if isinstance(value, np.ndarray) else value

    return without_arrays(generator.bit_generator.state)


def state_from(value: Any) -> Any:
    """The state of a generator from the JSON that `state_of` wrote."""
    if isinstance(value, dict) and set(value) == {"array", "dtype"}:
        return np.array(value["array"], dtype=value["dtype"])
    return {name: state_from(part) for name, part in value.items()} if isinstance(value, dict) else value


def shown(value: Any, most: int = 60) -> str:
    """The `repr` of a value for a message, cut to at most so many characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."
