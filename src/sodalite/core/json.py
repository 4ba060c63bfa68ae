"""Arguments and random states as JSON: what tells one run from another."""

from __future__ import annotations

import re
from collections.abc import Callable
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


def state_from(value: Any, like: Any) -> Any:
    """Turn what `state_of` gave into the state that NumPy takes.

    NumPy believes whatever it is given, and would read beyond its arrays. So anything but a state of the same kind of
    generator is refused with a ValueError.

    Parameters
    ----------
    value : dict
    like : dict
        What `state_of` gives for the generator whose state it shall be.
    """
    if isinstance(like, dict) and set(like) == {"array", "dtype"}:
        return _array_from(value, like)
    if isinstance(like, dict):
        if not isinstance(value, dict) or set(value) != set(like):
            raise ValueError("the state of its random numbers is of another kind of generator")
        for name, part in value.items():
            if name in MOST and not (type(part) is int and 0 <= part <= MOST[name](like)):
                raise ValueError(f"the state of its random numbers has {name} {shown(part)}")
        return {name: state_from(part, like[name]) for name, part in value.items()}
    if type(value) is not type(like) or (isinstance(like, str) and value != like):
        raise ValueError(f"the state of its random numbers has {shown(value)} where {shown(like)} could be")
    return value


MOST: dict[
    str, Callable[[Any], int]
] = {  # the largest value of each number of a state that NumPy uses as a place or a flag, given a valid state
    "pos": lambda like: len(like["key"]["array"]),
    "buffer_pos": lambda like: len(like["buffer"]["array"]),
    "has_uint32": lambda like: 1,
    "uinteger": lambda like: 2**32 - 1,
}


def _array_from(value: Any, like: Any) -> Any:
    parts = value.get("array") if isinstance(value, dict) else None
    limits = np.iinfo(like["dtype"])
    if (
        not isinstance(parts, list)
        or value.get("dtype") != like["dtype"]
        or len(parts) != len(like["array"])
        or not all(type(part) is int and limits.min <= part <= limits.max for part in parts)
    ):
        raise ValueError(f"the state of its random numbers lacks {len(like['array'])} numbers of type {like['dtype']}")
    return np.array(parts, dtype=like["dtype"])


def shown(value: Any, most: int = 60) -> str:
    """Show a value of a file in a message, in at most so many characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."
