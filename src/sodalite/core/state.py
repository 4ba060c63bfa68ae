"""State as data: objects as a tree of JSON values and named arrays, and back.

`Converter` holds a dataclass by its fields. A class that keeps more than it needs has a method ``saved()`` instead,
which returns arguments of its classmethod ``restore``. Any other class that is registered, such as a kernel of
scikit-learn's, is held by its parameters (``get_params``).

Annotations say what a value may be: a class that they name, or a registered one where they name a base class, a
protocol or ``Any``. A class is never looked up by its name in a module, and a tree of anything else than what is asked
for is refused with a `StateError`.

In the tree, an object is ``{"class": name, field: value, ...}``, an array ``{"array": name}`` or, if it is small,
``{"array": values, "shape": shape, "type": type}``, and a number that JSON does not have ``{"number": "nan"}``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from math import isfinite, prod
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

SMALL = 64  # numbers up to which an array stands in the tree, where it can be read without the arrays

NUMBERS = ("nan", "inf", "-inf")
TYPES = ("float64", "float32", "int64")
SEQUENCES = (tuple, list, Sequence)


class StateError(ValueError):
    """A tree that does not hold what is asked for; the message names the place in the tree."""


class UnknownClassError(TypeError):
    """An object of a class that is neither registered nor named by an annotation; `kind` is the class."""

    def __init__(self, where: str, kind: type) -> None:
        super().__init__(f"{where or 'the value'} is an object of the class {kind.__name__}, which is not registered")
        self.kind = kind


class Converter:
    """Converts objects to trees and arrays, and back.

    Parameters
    ----------
    classes : mapping or iterable of type
        The classes that may stand where an annotation does not name them; with the names that they have in trees, if
        these are not their own.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Line:
    ...     slope: float
    ...     inputs: tuple[str, ...]
    >>> tree, arrays = Converter([Line]).dump(Line(0.5, ("a", "b")))
    >>> tree
    {'class': 'Line', 'slope': 0.5, 'inputs': ['a', 'b']}
    >>> Converter([Line]).load(tree)
    Line(slope=0.5, inputs=('a', 'b'))
    """

    def __init__(self, classes: Mapping[str, type] | Iterable[type] = ()) -> None:
        self.classes = dict(classes) if isinstance(classes, Mapping) else {kind.__name__: kind for kind in classes}

    def dump(
        self, value: Any, hint: Any = Any, where: str = "", in_tree: bool = False, by_rows: Collection[str] = ()
    ) -> tuple[Any, dict[str, Any]]:
        """Return the tree of a value, and the arrays in it by their names, which begin with `where`.

        `hint` is the value's type, as in an annotation. An array may be anything that has a shape and a type, and is
        sliced by rows; one that occurs twice is returned once. With `in_tree`, all arrays stand in the tree. Arrays
        whose columns are contiguous are returned transposed, but for those named in `by_rows`.
        """
        writer = _Writer({kind: name for name, kind in self.classes.items()}, by_rows)
        return writer.tree(value, hint, where, in_tree), writer.arrays

    def load(self, tree: Any, hint: Any = Any, arrays: Mapping[str, Any] | None = None, where: str = "") -> Any:
        """Return the value of a tree of `dump`."""
        return _Reader(self.classes, {} if arrays is None else arrays).value(tree, hint, where)


@dataclass(frozen=True)
class _Writer:
    """Makes trees, and collects the arrays."""

    names: Mapping[type, str]
    by_rows: Collection[str]
    arrays: dict[str, Any] = field(default_factory=dict)
    known: dict[int, tuple[str, Any]] = field(default_factory=dict)
    """The name of every array in `arrays` and the array, which must live as long as its identity is the key."""

    def tree(self, value: Any, hint: Any, where: str, in_tree: bool = False) -> Any:
        """The tree of a value; with `in_tree`, all arrays stand in the tree: those of a kernel."""
        if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.ndim):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if isfinite(value) else {"number": str(value)}
        if isinstance(value, np.dtype):
            return value.name
        if isinstance(value, tuple | list):
            each = _element_hints(hint, len(value))
            parts = [self.tree(part, each[at], _joined(where, at), in_tree) for at, part in enumerate(value)]
            return {"list": parts} if isinstance(value, list) and get_origin(hint) not in SEQUENCES else parts
        if isinstance(value, dict):
            each = get_args(hint)[1:] or (Any,)
            return {key: self.tree(part, each[0], _joined(where, key), in_tree) for key, part in value.items()}
        if _is_array(value):
            return self._array(value, where, in_tree)
        kind: type = type(value)
        if kind not in self.names and kind not in _concrete(hint):
            raise UnknownClassError(where, kind)
        hints, tree = _hints(kind), {"class": self.names.get(kind, kind.__name__)}
        for name, part in _parts(value).items():
            tree[name] = self.tree(part, hints.get(name, Any), _joined(where, name), in_tree or not hints)
        return tree

    def _array(self, array: Any, where: str, in_tree: bool) -> dict[str, Any]:
        is_short = isinstance(array, np.ndarray) and array.size <= SMALL
        if in_tree or (is_short and array.dtype.name in TYPES):
            values = [self.tree(value, Any, where) for value in array.ravel().tolist()]
            return {"array": values, "shape": list(array.shape), "type": array.dtype.name}
        name, _ = self.known.setdefault(id(array), (where, array))
        by_columns = isinstance(array, np.ndarray) and array.flags.f_contiguous and not array.flags.c_contiguous
        by_columns &= where not in self.by_rows
        self.arrays[name] = array.T if by_columns else array
        return {"array": name, "by_columns": by_columns}


@dataclass(frozen=True)
class _Reader:
    """Makes values from trees."""

    classes: Mapping[str, type]
    arrays: Mapping[str, Any]

    def value(self, tree: Any, hint: Any, where: str) -> Any:
        """The value of a tree, which must be of the type that `hint` says."""
        origin, arguments = get_origin(hint) or hint, get_args(hint)
        if origin in (Union, UnionType):
            return self._one_of(tree, arguments, where)
        if isinstance(tree, dict) and origin in (dict, Mapping):
            each = arguments[1:] or (Any,)
            return {key: self.value(part, each[0], _joined(where, key)) for key, part in tree.items()}
        if isinstance(tree, list):
            each = _element_hints(hint, len(tree))
            if len(each) != len(tree) or not (origin in SEQUENCES or _is_open(hint)):
                raise _wrong(tree, hint, where)
            parts = [self.value(part, each[at], _joined(where, at)) for at, part in enumerate(tree)]
            return parts if origin is list else tuple(parts)
        value = self._leaf(tree, hint, where) if isinstance(tree, dict) else tree
        if not _fits(value, hint):
            raise _wrong(tree, hint, where)
        return np.dtype(value) if origin is np.dtype else value

    def _one_of(self, tree: Any, hints: tuple[Any, ...], where: str) -> Any:
        """The value of a tree, by the first of several types that it fits."""
        if tree is None and NoneType in hints:
            return None
        hints = tuple(hint for hint in hints if hint is not NoneType)
        for hint in hints[:-1]:
            try:
                return self.value(tree, hint, where)
            except StateError:
                continue
        return self.value(tree, hints[-1], where)

    def _leaf(self, tree: dict[str, Any], hint: Any, where: str) -> Any:
        """The number, the array or the object of a tree."""
        if tree.get("number") in NUMBERS:
            return float(tree["number"])
        if isinstance(tree.get("list"), list):
            return list(self.value(tree["list"], Any, where))
        if "array" in tree:
            return self._array(tree, where)
        name = tree.get("class")
        kind = next((kind for kind in _concrete(hint) if kind.__name__ == name), None) or self.classes.get(str(name))
        if kind is None or not (_is_open(hint) or (isinstance(hint, type) and issubclass(kind, hint))):
            raise _wrong(name, hint, where)
        make, hints = _maker(kind), _hints(kind)
        parameters = inspect.signature(make).parameters
        needed = {key for key, parameter in parameters.items() if parameter.default is parameter.empty}
        parts = {key: part for key, part in tree.items() if key != "class"}
        if not needed <= set(parts) <= set(parameters):
            raise StateError(f"{where} must have {', '.join(parameters)}; it has {', '.join(parts):.200}")
        return make(**{key: self.value(part, hints.get(key, Any), _joined(where, key)) for key, part in parts.items()})

    def _array(self, tree: dict[str, Any], where: str) -> Any:
        """The array of a name, or of values in the tree."""
        values = tree["array"]
        if isinstance(values, list):
            kind, shape = tree.get("type"), self.value(tree.get("shape"), tuple[int, ...], where)
            numbers = self.value(values, tuple[int, ...] if kind == "int64" else tuple[float, ...], where)
            if kind not in TYPES or prod(shape) != len(values) or min(shape, default=0) < 0:
                raise StateError(f"{where} has {len(values)} values, which do not fit {shape} and {kind!r:.20}")
            try:
                return np.array(numbers, dtype=kind).reshape(shape)
            except OverflowError as error:
                raise StateError(f"{where} has too large a number") from error
        if not isinstance(values, str) or values not in self.arrays:
            raise StateError(f"{where} is an array that is missing")
        array = self.arrays[values]
        return array.T if tree.get("by_columns") else array


def _is_array(value: Any) -> bool:
    """Whether a value is an array, or is read as one."""
    return hasattr(value, "shape") and hasattr(value, "dtype") and not is_dataclass(value)


def _is_open(hint: Any) -> bool:
    """Whether a value of any registered class may stand where this annotation does."""
    return hint is Any or get_origin(hint) is Callable or getattr(hint, "_is_protocol", False)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value that is not a sequence may stand where an annotation does."""
    origin = get_origin(hint) or hint
    if origin is Literal:
        return value in get_args(hint)
    if _is_open(hint):
        return callable(value) or origin is not Callable
    if _is_array(value):
        return origin is np.ndarray
    if origin is np.dtype:
        return value in TYPES
    if hint is float:
        return type(value) in (int, float)
    return type(value) is hint if hint in (int, bool, str) else isinstance(origin, type) and isinstance(value, origin)


def _wrong(tree: Any, hint: Any, where: str) -> StateError:
    """The error for a tree that does not fit an annotation."""
    words = getattr(hint, "__name__", None) or str(hint).replace("typing.", "")
    return StateError(f"{where or 'the value'} must be of the type {words}; it is {tree!r:.60}")


def _joined(where: str, name: str | int) -> str:
    return f"{where}.{name}" if where else str(name)


def _element_hints(hint: Any, n: int) -> tuple[Any, ...]:
    """The types of the n elements of a sequence."""
    if get_origin(hint) in (Union, UnionType):
        hint = next((part for part in get_args(hint) if get_origin(part) in SEQUENCES), Any)
    arguments = get_args(hint)
    if get_origin(hint) not in SEQUENCES:
        return (Any,) * n
    if get_origin(hint) is tuple and arguments[-1:] != (...,):
        return arguments
    return arguments[:1] * n


def _concrete(hint: Any) -> tuple[type, ...]:
    """The classes that an annotation names."""
    if get_origin(hint) in (Union, UnionType):
        return tuple(kind for part in get_args(hint) for kind in _concrete(part))
    return (hint,) if isinstance(hint, type) else ()


def _maker(kind: type) -> Callable[..., Any]:
    """What makes an object of a class from its parts."""
    return getattr(kind, "restore", kind)


def _is_typed(kind: type) -> bool:
    return hasattr(kind, "saved") or is_dataclass(kind)


def _parts(value: Any) -> dict[str, Any]:
    """What an object is made of."""
    if hasattr(value, "saved"):
        return dict(value.saved())
    if is_dataclass(value):
        return {part.name: getattr(value, part.name) for part in fields(value) if part.init}
    return dict(value.get_params(deep=False))


@cache
def _hints(kind: type) -> dict[str, Any]:
    """The types of the parts of a class; none of a class that is held by its parameters."""
    return get_type_hints(_maker(kind) if hasattr(kind, "restore") else kind) if _is_typed(kind) else {}
