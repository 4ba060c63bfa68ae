"""Arguments, results and random states as JSON values.

`encoded` is the one encoder. Its callers differ in two things only, how they write numbers that are not finite and what
they do with other objects: `described` (which arguments a run had), `plain` (results for people and programs), and
`sodalite.persistence` (parameters in model files).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from hashlib import sha256
from json import dumps
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel


def encoded(value: Any, number: Callable[[float], Any], other: Callable[[Any], Any]) -> Any:
    """A value as JSON: None, texts, truth values, numbers, and lists, tuples and arrays of these.

    Parameters
    ----------
    value : object
    number : callable
        Encodes a float, which may be infinite or NaN.
    other : callable
        Encodes any other object, or raises an error.
    """
    if type(value) is float:  # most values are floats or ints, and the checks by Real and Integral below are slow
        return number(value)
    if type(value) is int:
        return value
    if isinstance(value, np.ndarray | np.bool_):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [encoded(part, number, other) for part in value]
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return number(float(value))
    return other(value)


def plain(value: Any, digits: int | None = None) -> Any:
    """Results as JSON, dataclasses and dicts as objects; a number that is not finite is null.

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

    def number(value: float) -> float | None:
        if not isfinite(value):
            return None
        return value if digits is None else float(f"{value:.{digits}g}")

    def other(value: Any) -> Any:
        if is_dataclass(value) and not isinstance(value, type):
            value = {part.name: getattr(value, part.name) for part in fields(value)}
        return {key: encoded(part, number, other) for key, part in value.items()} if isinstance(value, dict) else value

    return encoded(value, number, other)


def described(value: Any) -> Any:
    """An argument as JSON, equal for two arguments of equal meaning; a function is described by its name.

    Examples
    --------
    >>> from sodalite.scores import Delta
    >>> described(Delta(underfit=0.5))
    'Delta(uncertainty=1.0, underfit=0.5)'
    """
    return encoded(value, lambda number: number if isfinite(number) else repr(number), _described_object)


def _described_object(value: Any) -> Any:
    if isinstance(value, Kernel):
        parts = {name: described(part) for name, part in value.get_params(deep=False).items()}
        return {"kernel": type(value).__qualname__, **parts}
    if isinstance(value, range):
        return list(value)
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def seed_of(random_state: Any, generator: np.random.Generator) -> Any:
    """The identity of a random state, for a file: None, the seed, or a hash of the generator's state."""
    if random_state is None or isinstance(random_state, Integral):
        return random_state
    return sha256(dumps(state_of(generator), sort_keys=True).encode()).hexdigest()[:16]


def state_of(generator: np.random.Generator) -> Any:
    """The state of a generator as JSON; `state_from` reads it."""
    return _without_arrays(generator.bit_generator.state)


def _without_arrays(value: Any) -> Any:
    """A generator's state with each array as ``{"array": [...], "dtype": "..."}``."""
    if isinstance(value, dict):
        return {name: _without_arrays(part) for name, part in value.items()}
    return {"array": value.tolist(), "dtype": str(value.dtype)} if isinstance(value, np.ndarray) else value


def state_from(value: Any) -> Any:
    """The state of a generator from the JSON that `state_of` wrote."""
    if isinstance(value, dict) and set(value) == {"array", "dtype"}:
        return np.array(value["array"], dtype=value["dtype"])
    return {name: state_from(part) for name, part in value.items()} if isinstance(value, dict) else value


def shown(value: Any, most: int = 60) -> str:
    """The `repr` of a value for a message, cut to at most so many characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."
