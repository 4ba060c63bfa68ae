"""Kernels and parameters as JSON, and back, by a fixed list of names: what is not on it is not made."""

from __future__ import annotations

import inspect
from dataclasses import fields
from math import inf, isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as spec

from .. import hyperparameters, scores, stopping
from ..core.json import shown
from ..kernels import PeriodicColumn

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
        PeriodicColumn,
    )
}
"""The kernels that a file can hold."""

OBJECTS = {
    "scores.Delta": scores.Delta,
    "scores.Lookahead": scores.Lookahead,
    "scores.Product": scores.Product,
    "scores.Random": scores.Random,
    "scores.Sampled": scores.Sampled,
    "stopping.AllOf": stopping.AllOf,
    "stopping.AnyOf": stopping.AnyOf,
    "stopping.Decrease": stopping.Decrease,
    "stopping.Size": stopping.Size,
    "stopping.TargetRMSE": stopping.TargetRMSE,
    "stopping.TimeLimit": stopping.TimeLimit,
    "hyperparameters.Fixed": hyperparameters.Fixed,
    "hyperparameters.Subset": hyperparameters.Subset,
    "hyperparameters.Weave": hyperparameters.Weave,
}
"""The objects that a parameter in a file can be."""

RETIRED = {(hyperparameters.Weave, "start")}
"""Fields that objects had in files of earlier versions."""

RENAMED: dict[tuple[type, str], str] = {(hyperparameters.Weave, "n_neighbours"): "n_neighbors"}
"""Fields that have another name in files of earlier versions."""

POSITIVE = ("length_scale", "alpha", "periodicity", "nu", "exponent")  # parameters of kernels
NOT_NEGATIVE = ("constant_value", "noise_level")
DEEPEST = 20  # levels of a kernel: scikit-learn takes time 2^levels for its bounds, which a later fit asks for
MOST = 10**6  # of rows, starts, steps and the like, that an object may ask a later fit for


class Lost(Exception):
    """A value that JSON cannot hold: its `repr` is kept."""


def kernel_to_json(kernel: spec.Kernel, depth: int = 0) -> dict[str, Any]:
    """A kernel as JSON; one of a user's own, or one of too many terms, is refused with a TypeError.

    Examples
    --------
    >>> kernel_to_json(spec.WhiteKernel(0.5, "fixed"))
    {'name': 'WhiteKernel', 'noise_level': 0.5, 'noise_level_bounds': 'fixed'}
    """
    name = type(kernel).__name__
    if KERNELS.get(name) is not type(kernel):
        raise TypeError(
            f"a model file can hold these kernels ({', '.join(KERNELS)}), but not {type(kernel).__module__}."
            f"{name}, which would need code to be run. Use pickle or joblib.dump instead."
        )
    if depth > DEEPEST:
        raise TypeError(
            f"a model file can hold kernels that are nested up to {DEEPEST} levels deep: sums or products of up to "
            f"{DEEPEST + 1} terms. Use fewer terms, or pickle or joblib.dump."
        )
    content: dict[str, Any] = {"name": name}
    for key, value in kernel.get_params(deep=False).items():
        content[key] = kernel_to_json(value, depth + 1) if isinstance(value, spec.Kernel) else _plain(value)
    return content


def kernel_from_json(content: Any) -> spec.Kernel:
    """What `kernel_to_json` gave; anything else is refused with a ValueError."""
    return _kernel(content, 0)


def _kernel(content: Any, depth: int) -> spec.Kernel:
    if depth > DEEPEST:
        raise ValueError(f"a kernel in it is nested more than {DEEPEST} levels deep")
    name = content.get("name") if isinstance(content, dict) else None
    kind = KERNELS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"a kernel in it is {shown(content)}, which is none of {', '.join(KERNELS)}")
    given = {key: value for key, value in content.items() if key != "name"}
    if set(given) != set(inspect.signature(kind).parameters):
        raise ValueError(f"a {kind.__name__} in it has parameters {shown(', '.join(given))}")
    values: dict[str, Any] = {}
    for key, value in given.items():
        if key in ("k1", "k2", "kernel"):
            values[key] = _kernel(value, depth + 1)
        elif key == "column":
            if type(value) is not int or not 0 <= value < MOST:
                raise ValueError(f"{kind.__name__}'s column is {shown(value)}")
            values[key] = value
        elif key.endswith("_bounds"):
            values[key] = _bounds(value, f"{kind.__name__}'s {key}")
        else:
            values[key] = _numbers(value, f"{kind.__name__}'s {key}", key)
    kernel = kind(**values)
    if not {"k1", "kernel"} & set(values):
        with np.errstate(divide="ignore"):  # the logarithm of a noise of 0
            if not len(kernel.theta) == len(kernel.bounds):  # scikit-learn looks at a leaf's bounds no earlier
                raise ValueError(f"a {kind.__name__} in it has bounds that do not fit its parameters")
    return kernel


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
        return float(content) if isinstance(content, str) and content in ("inf", "-inf", "nan") else content
    if set(content) == {"kernel"}:
        return kernel_from_json(content["kernel"])
    name, given = content.get("object"), content.get("fields")
    kind = OBJECTS.get(name) if isinstance(name, str) else None
    if kind is None or set(content) != {"object", "fields"} or not isinstance(given, dict):
        raise ValueError(f"a parameter in it is {shown(content)}, which is none of the objects that are known")
    given = {RENAMED.get((kind, field), field): value for field, value in given.items() if (kind, field) not in RETIRED}
    if not set(given) <= {part.name for part in fields(kind)}:
        raise ValueError(f"a {kind.__name__} in it has fields {shown(', '.join(given))}")
    values = {name: from_json(value) for name, value in given.items()}
    for part in fields(kind):
        if part.name in values and not _fits(values[part.name], part.type):
            raise ValueError(f"a {kind.__name__} in it has {part.name} {shown(values[part.name])}")
    return kind(**values)


def _fits(value: Any, annotation: Any) -> bool:
    """Whether a value can be that of a field with this annotation; of types that are not listed, any can."""
    if annotation == "int":
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST
    if annotation == "float":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if annotation == "Subset":
        return isinstance(value, hyperparameters.Subset)
    if annotation == "tuple[Rule, ...]":
        return isinstance(value, tuple) and all(isinstance(rule, stopping.Rule) for rule in value)
    return True


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
    if isinstance(value, str) and value in ("inf", "-inf", "nan"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{shown(value)} is no number, where one belongs")
    return value


def _numbers(value: Any, what: str, key: str) -> Any:
    """One number, or an array of some."""
    found = [_number(part) for part in (value if isinstance(value, list) else [value])]
    most = inf if key == "nu" else np.finfo(np.float64).max
    least = 5e-324 if key in POSITIVE else 0.0 if key in NOT_NEGATIVE else -most
    if not found or not all(least <= part <= most for part in found):
        raise ValueError(f"{what} is {shown(value)}")
    return np.array(found, dtype=np.float64) if isinstance(value, list) else found[0]


def _bounds(value: Any, what: str) -> Any:
    """A pair, an array of pairs, or the word fixed."""
    if isinstance(value, str) and value == "fixed":
        return value
    many = isinstance(value, list) and bool(value) and isinstance(value[0], list)
    pairs = value if many else [value]
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise ValueError(f"{what} is {shown(value)}, where a lower and an upper bound belong")
    ends = np.array([[float(_number(end)) for end in pair] for pair in pairs])
    if not (ends[:, 0] <= ends[:, 1]).all():
        raise ValueError(f"{what} is {shown(value)}, where a lower and an upper bound belong")
    return ends if many else (value[0], value[1])
