"""Arguments and random states as JSON: what tells one run from another."""

from __future__ import annotations

import re
from hashlib import sha256
from json import dumps
from math import isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel


def described(value: Any) -> Any:
    """An argument as JSON, such that two that mean the same are equal; functions go by their names.

    Examples
    --------
    >>> from sodalite.scores import Delta
    >>> described(Delta(underfit=0.5))
    'Delta(uncertainty=1.0, underfit=0.5)'
    """
    if isinstance(value, Kernel):
        parts = {name: described(part) for name, part in value.get_params(deep=False).items()}
        return {"kernel": type(value).__qualname__, **parts}
    if isinstance(value, np.ndarray):
        return described(value.tolist())
    if isinstance(value, list | tuple | range):
        return [described(part) for part in value]
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real) and isfinite(value):
        return float(value)
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def seed_of(random_state: Any, generator: np.random.Generator) -> Any:
    """What tells one random state from another."""
    if random_state is None or isinstance(random_state, Integral):
        return random_state
    return sha256(dumps(state_of(generator), sort_keys=True).encode()).hexdigest()[:16]


def state_of(generator: np.random.Generator) -> Any:
    """The state of a generator."""
    return _lists(generator.bit_generator.state)


def _lists(value: Any) -> Any:
    """Arrays as JSON has them."""
    if isinstance(value, dict):
        return {name: _lists(part) for name, part in value.items()}
    return {"array": value.tolist(), "dtype": str(value.dtype)} if isinstance(value, np.ndarray) else value


def state_from(value: Any) -> Any:
    """What `state_of` gave, as NumPy wants it."""
    if not isinstance(value, dict):
        return value
    if set(value) == {"array", "dtype"}:
        return np.array(value["array"], dtype=value["dtype"])
    return {name: state_from(part) for name, part in value.items()}
