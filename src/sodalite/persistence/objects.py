"""Kernels and parameters as JSON, and back. Only classes on a fixed list are ever made from a file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from math import inf, isfinite
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as spec

from .. import hyperparameters, scores, stopping
from ..core.json import encoded, shown
from ..core.types import Floats
from ..kernels import KERNEL_CLASSES
from .fields import wrong

KERNELS = {kind.__name__: kind for kind in KERNEL_CLASSES}
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
"""The objects that a parameter in a file can be, by the names that stand in files."""

RETIRED = {(hyperparameters.Weave, "start")}
"""Fields that objects have in files of earlier versions, and that are ignored."""

RENAMED: dict[tuple[type, str], str] = {(hyperparameters.Weave, "n_neighbours"): "n_neighbors"}
"""Fields that have another name in files of earlier versions."""

POSITIVE = ("length_scale", "alpha", "periodicity", "nu", "exponent")  # parameters of kernels that must be above 0
NOT_NEGATIVE = ("constant_value", "noise_level")  # parameters of kernels that may be 0
SMALLEST = 5e-324  # the least positive float64
DEEPEST = 20  # levels of sums and products: scikit-learn takes time 2^levels for the bounds, which a later fit needs
MOST = 10**6  # largest number of rows, starts or steps that an object in a file may ask a later fit for
INFINITE = ("inf", "-inf", "nan")  # numbers that JSON does not have, as they stand in files


class Lost(Exception):
    """Raised for a value that JSON cannot hold."""


def kernel_to_json(kernel: spec.Kernel, depth: int = 0) -> dict[str, Any]:
    """Return a kernel as JSON; a TypeError refuses a kernel of the user's own, or one of too many terms.

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
    """Return the kernel of which `kernel_to_json` made this; a ValueError refuses anything else."""
    return _kernel(content, 0)


def _kernel(content: Any, depth: int) -> spec.Kernel:
    if depth > DEEPEST:
        raise ValueError(f"a kernel is nested more than {DEEPEST} levels deep")
    name = content.get("name") if isinstance(content, dict) else None
    kind = KERNELS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise wrong("a kernel", f"one of {', '.join(KERNELS)}", content)
    given = {key: value for key, value in content.items() if key != "name"}
    needed = inspect.signature(kind).parameters
    if set(given) != set(needed):
        raise ValueError(f"{name} must have the parameters {', '.join(needed)}; it has {shown(', '.join(given))}")
    kernel = kind(**{key: _kernel_parameter(kind.__name__, key, value, depth) for key, value in given.items()})
    if not {"k1", "kernel"} & set(given):  # scikit-learn does not compare bounds and parameters of a leaf before
        with np.errstate(divide="ignore"):  # the logarithm of a noise of 0
            if not len(kernel.theta) == len(kernel.bounds):
                raise ValueError(
                    f"a {kind.__name__} has {len(kernel.bounds)} bounds for {len(kernel.theta)} parameters"
                )
    return kernel


def _kernel_parameter(kind: str, key: str, value: Any, depth: int) -> Any:
    """A parameter of a kernel of this kind, checked."""
    name = f"{kind}'s {key}"
    if key in ("k1", "k2", "kernel"):
        return _kernel(value, depth + 1)
    if key == "column":
        if type(value) is not int or not 0 <= value < MOST:
            raise wrong(name, f"a whole number from 0 to {MOST - 1}", value)
        return value
    return _bounds(value, name) if key.endswith("_bounds") else _numbers(value, name, key)


def to_json(value: Any) -> Any:
    """Return a parameter's value as JSON; `Lost` is raised for an object that no file can hold."""
    if isinstance(value, spec.Kernel):
        return {"kernel": kernel_to_json(value)}
    name = next((name for name, kind in OBJECTS.items() if type(value) is kind), None)
    if name is not None:
        return {"object": name, "fields": {part.name: to_json(getattr(value, part.name)) for part in fields(value)}}
    if isinstance(value, tuple | list):
        return [to_json(part) for part in value]
    return _plain(value)


def from_json(content: Any) -> Any:
    """Return the value of which `to_json` made this; a ValueError refuses anything else."""
    if isinstance(content, list):
        return tuple(from_json(part) for part in content)
    if not isinstance(content, dict):
        return float(content) if isinstance(content, str) and content in INFINITE else content
    if set(content) == {"kernel"}:
        return kernel_from_json(content["kernel"])
    return _object(content)


def _object(content: Mapping[str, Any]) -> Any:
    """An object of `OBJECTS`, its fields checked by their annotations."""
    name, given = content.get("object"), content.get("fields")
    kind = OBJECTS.get(name) if isinstance(name, str) else None
    if kind is None or set(content) != {"object", "fields"} or not isinstance(given, dict):
        raise wrong("a parameter that is an object", f"one of {', '.join(OBJECTS)}, with its fields", content)
    annotations = {part.name: part.type for part in fields(kind)}
    given = {RENAMED.get((kind, field), field): value for field, value in given.items() if (kind, field) not in RETIRED}
    if not set(given) <= set(annotations):
        raise ValueError(
            f"{name} has the fields {', '.join(annotations)}; in the file it has {shown(', '.join(given))}"
        )
    values = {field: from_json(value) for field, value in given.items()}
    for field, value in values.items():
        fits, needed = FIELDS.get(str(annotations[field]), (_anything, ""))
        if not fits(value):
            raise wrong(f"{field} of a {kind.__name__}", needed, value)
    return kind(**values)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_rules(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(rule, stopping.Rule) for rule in value)


def _anything(value: Any) -> bool:
    return True


FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "int": (_is_count, f"a whole number from 0 to {MOST}"),
    "float": (_is_number, "a number"),
    "tuple[Rule, ...]": (_are_rules, "stopping rules"),
}
"""For an annotation: what a field's value must be, as a function and in words. The classes check all other fields."""


def _plain(value: Any) -> Any:
    """Numbers, texts and arrays of numbers as JSON has them; infinite ones as texts."""

    def lose(value: Any) -> Any:
        raise Lost(repr(value))

    return encoded(value, lambda number: number if isfinite(number) else str(number), lose)


def _number(value: Any, name: str) -> float | int:
    if isinstance(value, str) and value in INFINITE:
        return float(value)
    if not _is_number(value):
        raise wrong(name, "a number", value)
    return value  # type: ignore[no-any-return]


def _numbers(value: Any, name: str, key: str) -> float | int | Floats:
    """The value of a kernel's parameter: a number, or an array of numbers, in the range that the parameter has."""
    found = [_number(part, name) for part in (value if isinstance(value, list) else [value])]
    most = inf if key == "nu" else np.finfo(np.float64).max
    least = SMALLEST if key in POSITIVE else 0.0 if key in NOT_NEGATIVE else -most
    if not found or not all(least <= part <= most for part in found):
        sign = " above 0" if key in POSITIVE else " of at least 0" if key in NOT_NEGATIVE else ""
        raise wrong(name, f"a {'' if most == inf else 'finite '}number{sign}", value)
    return np.array(found, dtype=np.float64) if isinstance(value, list) else found[0]


def _bounds(value: Any, name: str) -> Any:
    """The bounds of a kernel's parameter: a pair, an array of pairs, or the word fixed."""
    if isinstance(value, str) and value == "fixed":
        return value
    many = isinstance(value, list) and bool(value) and isinstance(value[0], list)
    pairs = value if many else [value]
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise wrong(name, "a lower and an upper bound", value)
    ends = np.array([[float(_number(end, name)) for end in pair] for pair in pairs])
    if not (ends[:, 0] <= ends[:, 1]).all():
        raise wrong(name, "a lower and an upper bound", value)
    return ends if many else (value[0], value[1])
