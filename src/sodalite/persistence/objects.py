"""Kernels and parameters as JSON, and back, by a fixed list of names: what is not on it is not made."""

from __future__ import annotations

import inspect
from dataclasses import fields
from math import inf, isfinite, isnan
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as spec

from .. import hyperparameters, scores, stopping

KERNELS = {
    kind.__name__: kind
    for kind in (
        spec.RBF,
        spec.Matern,
        spec.RationalQuadratic,
        spec.ExpSineSquared,
        spec.DotProduct,
        spec.ConstantKernel,
        spec.WhiteKernel,
        spec.Sum,
        spec.Product,
        spec.Exponentiation,
    )
}
"""The kernels that a file can hold."""

OBJECTS = {
    f"{kind.__module__.removeprefix('sodalite.').partition('.')[0]}.{kind.__name__}": kind
    for kind in (
        scores.Delta,
        scores.Lookahead,
        scores.Product,
        scores.Random,
        scores.Sampled,
        stopping.AllOf,
        stopping.AnyOf,
        stopping.Decrease,
        stopping.Size,
        stopping.TargetRMSE,
        stopping.TimeLimit,
        hyperparameters.Fixed,
        hyperparameters.Subset,
        hyperparameters.Weave,
    )
}
"""The objects that a parameter in a file can be."""

POSITIVE = ("length_scale", "alpha", "periodicity", "nu")  # parameters of kernels


class Lost(Exception):
    """A value that JSON cannot hold: its `repr` is kept."""


def kernel_to_json(kernel: spec.Kernel) -> dict[str, Any]:
    """A kernel as JSON; one of a user's own is refused with a TypeError.

    Examples
    --------
    >>> kernel_to_json(spec.WhiteKernel(0.5, "fixed"))
    {'name': 'WhiteKernel', 'noise_level': 0.5, 'noise_level_bounds': 'fixed'}
    """
    name = type(kernel).__name__
    if KERNELS.get(name) is not type(kernel):
        raise TypeError(
            f"a model file can hold scikit-learn's kernels ({', '.join(KERNELS)}), but not {type(kernel).__module__}."
            f"{name}, which would need code to be run. Use pickle or joblib.dump instead."
        )
    content: dict[str, Any] = {"name": name}
    for key, value in kernel.get_params(deep=False).items():
        content[key] = kernel_to_json(value) if isinstance(value, spec.Kernel) else _plain(value)
    return content


def kernel_from_json(content: Any) -> spec.Kernel:
    """What `kernel_to_json` gave; anything else is refused with a ValueError."""
    kind = KERNELS.get(content.get("name")) if isinstance(content, dict) else None
    if kind is None:
        raise ValueError("a kernel in it is none of those that are known")
    given = {key: value for key, value in content.items() if key != "name"}
    if set(given) != set(inspect.signature(kind).parameters):
        raise ValueError(f"a {kind.__name__} in it has parameters {', '.join(given)}")
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key in ("k1", "k2", "kernel"):
            values[key] = kernel_from_json(value)
        elif key.endswith("_bounds"):
            values[key] = _bounds(value, f"{kind.__name__}'s {key}")
        else:
            values[key] = _numbers(value, f"{kind.__name__}'s {key}", key)
    return kind(**values)


def to_json(value: Any) -> Any:
    """A parameter's value as JSON. Raises `Lost` where it is an object that no file can hold."""
    if isinstance(value, spec.Kernel):
        return {"kernel": kernel_to_json(value)}
    name = next((name for name, kind in OBJECTS.items() if type(value) is kind), None)
    if name is not None:
        return {"object": name, "fields": {part.name: to_json(getattr(value, part.name)) for part in fields(value)}}
    if isinstance(value, tuple | list):
        return [to_json(part) for part in value]
    return _plain(value)


def from_json(content: Any) -> Any:
    """What `to_json` was given; anything that it cannot have given is refused with a ValueError."""
    if isinstance(content, list):
        return tuple(from_json(part) for part in content)
    if not isinstance(content, dict):
        return _number(content) if content in ("inf", "-inf", "nan") else content
    if set(content) == {"kernel"}:
        return kernel_from_json(content["kernel"])
    kind = OBJECTS.get(content.get("object", ""))
    if kind is None or set(content) != {"object", "fields"}:
        raise ValueError("a parameter in it is an object that is not known")
    return kind(**{name: from_json(value) for name, value in content["fields"].items()})


def _plain(value: Any) -> Any:
    """Numbers, texts and arrays of numbers as JSON has them; infinite ones as texts."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if isfinite(value) else str(float(value))
    raise Lost(repr(value))


def _number(value: Any) -> float | int:
    if value in ("inf", "-inf", "nan"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is no number")
    return value


def _numbers(value: Any, what: str, key: str) -> Any:
    """One number, or an array of some."""
    found = [_number(part) for part in (value if isinstance(value, list) else [value])]
    most = inf if key == "nu" else np.finfo(np.float64).max
    if not found or any(isnan(part) or abs(part) > most or (key in POSITIVE and part <= 0) for part in found):
        raise ValueError(f"{what} is {value}")
    return np.array(found, dtype=np.float64) if isinstance(value, list) else found[0]


def _bounds(value: Any, what: str) -> Any:
    """A pair, an array of pairs, or the word fixed."""
    if value == "fixed":
        return value
    pairs = np.array([[_number(end) for end in pair] for pair in (value if isinstance(value[0], list) else [value])])
    if pairs.ndim != 2 or pairs.shape[1] != 2 or np.isnan(pairs).any() or (pairs[:, 0] > pairs[:, 1]).any():
        raise ValueError(f"{what} is {value}")
    return pairs if isinstance(value[0], list) else (value[0], value[1])
