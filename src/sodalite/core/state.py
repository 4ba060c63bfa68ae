"""State as data: objects as a tree of JSON values and named arrays, and back.

`Converter` holds a dataclass by its fields. A class that keeps more than it needs has a method ``saved()`` instead,
which returns arguments of its classmethod ``restore``. Any other class that is registered, such as a kernel of
scikit-learn's, is held by its parameters (``get_params``).

Known are the classes that are registered, and those that annotations name: of what is asked for, of the fields of known
classes, and of the arguments of their ``restore``. A class is never looked up by its name in a module.

A tree is a JSON value. A list in it is a tuple. An object of a class is ``{"class": name, field: value, ...}``, an
array ``{"array": name, ...}`` or, if it is small, ``{"array": values, "shape": ..., "type": ...}``, and what else JSON
does not have is an object of one key: ``{"number": "nan"}``, ``{"list": [...]}``, ``{"dtype": name}`` and, if its keys
could be taken for these, ``{"dict": {...}}``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from math import isfinite, prod
from types import UnionType
from typing import Any, get_args, get_type_hints

import numpy as np

from ..exceptions import INVALID

SMALL = 64  # numbers up to which an array stands in the tree, where it can be read without the arrays
DEEPEST = 30  # levels of nesting: so deep, scikit-learn takes minutes for the bounds of a kernel
TAGS = {"number", "list", "dtype", "dict"}  # the key of an object that stands for what JSON does not have


class StateError(ValueError):
    """A tree that does not hold what is asked for, or is nested too deep; the message names the place in the tree."""


class UnknownClassError(TypeError):
    """An object of a class that is not known; `kind` is the class."""

    def __init__(self, where: str, kind: type) -> None:
        super().__init__(f"{where or 'the value'} is an object of the class {kind.__name__}, which is not registered")
        self.kind = kind


def reason_of(error: Exception) -> str:
    """What is wrong with some data, for a message."""
    return f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".") or repr(error)


class Converter:
    """Converts objects to trees and arrays, and back.

    Parameters
    ----------
    classes : mapping or iterable of type
        Classes that no annotation names; with the names that they have in trees, if these are not their own.

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

    def known(self, hint: Any = Any) -> dict[str, type]:
        """Return all classes that may stand in the tree of a value of this type, by their names."""
        registered = set(self.classes.values())
        named = {kind.__name__: kind for kind in _named(hint, *self.classes.values()) if kind not in registered}
        return named | self.classes

    def dump(
        self, value: Any, hint: Any = Any, where: str = "", by_rows: Collection[str] = ()
    ) -> tuple[Any, dict[str, Any]]:
        """Return the tree of a value, and the arrays in it by their names, which begin with `where`.

        `hint` is the value's type, as in an annotation. An array may be anything that has a shape and a type, and is
        sliced by rows; one that occurs twice is returned once. Arrays whose columns are contiguous are returned
        transposed, but for those named in `by_rows`.
        """
        writer = _Writer({kind: name for name, kind in self.known(hint).items()}, by_rows)
        return writer.tree(value, (where,) if where else ()), writer.arrays

    def load(self, tree: Any, hint: Any = Any, arrays: Mapping[str, Any] | None = None, where: str = "") -> Any:
        """Return the value of a tree of `dump`; raise a `StateError` if it has none."""
        reader = _Reader(self.known(hint), {} if arrays is None else arrays)
        value = reader.value(tree, (where,) if where else ())
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        if isinstance(kinds[0], type) and kinds[0] is not Any and not isinstance(value, kinds):
            raise StateError(f"{where or 'the value'} must be a {kinds[0].__name__}; it is {tree!r:.60}")
        return value


@dataclass(frozen=True)
class _Writer:
    """Makes trees, and collects the arrays."""

    names: Mapping[type, str]
    by_rows: Collection[str]
    arrays: dict[str, Any] = field(default_factory=dict)
    known: dict[int, tuple[str, Any]] = field(default_factory=dict)
    """The name of every array in `arrays` and the array, which must live as long as its identity is the key."""

    def tree(self, value: Any, where: tuple[Any, ...], in_tree: bool = False) -> Any:
        """The tree of a value; with `in_tree`, all arrays stand in the tree: those of a kernel."""
        _check_depth(where)
        if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.ndim):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if isfinite(value) else {"number": str(value)}
        if isinstance(value, np.dtype):
            return {"dtype": value.name}
        if isinstance(value, tuple | list):
            parts = [self.tree(part, (*where, at), in_tree) for at, part in enumerate(value)]
            return {"list": parts} if isinstance(value, list) else parts
        if isinstance(value, dict):
            tree = {key: self.tree(part, (*where, key), in_tree) for key, part in value.items()}
            return {"dict": tree} if _is_tagged(tree) else tree
        if hasattr(value, "shape") and hasattr(value, "dtype") and not is_dataclass(value):
            return self._array(value, where, in_tree)
        kind: type = type(value)
        if kind not in self.names:
            raise UnknownClassError(_joined(where), kind)
        in_tree = in_tree or not _is_typed(kind)
        tree = {name: self.tree(part, (*where, name), in_tree) for name, part in _parts(value).items()}
        return {"class": self.names[kind]} | tree

    def _array(self, array: Any, where: tuple[Any, ...], in_tree: bool) -> dict[str, Any]:
        if in_tree or (isinstance(array, np.ndarray) and array.size <= SMALL):
            values = [self.tree(value, ()) for value in array.ravel().tolist()]
            return {"array": values, "shape": list(array.shape), "type": array.dtype.name}
        name, _ = self.known.setdefault(id(array), (_joined(where), array))
        by_columns = isinstance(array, np.ndarray) and array.flags.f_contiguous and not array.flags.c_contiguous
        by_columns &= _joined(where) not in self.by_rows
        self.arrays[name] = array.T if by_columns else array
        return {"array": name, "by_columns": by_columns}


@dataclass(frozen=True)
class _Reader:
    """Makes values from trees."""

    classes: Mapping[str, type]
    arrays: Mapping[str, Any]

    def value(self, tree: Any, where: tuple[Any, ...]) -> Any:
        """The value of a tree."""
        _check_depth(where)
        if isinstance(tree, list):
            return tuple(self.value(part, (*where, at)) for at, part in enumerate(tree))
        if not isinstance(tree, dict):
            return tree
        try:
            if "array" in tree:
                return self._array(**tree)
            if "class" in tree:
                return self._object(tree, where)
            if _is_tagged(tree):
                return self._tagged(*next(iter(tree.items())), where)
            return {key: self.value(part, (*where, key)) for key, part in tree.items()}
        except StateError:
            raise
        except INVALID as error:
            raise StateError(f"{_joined(where) or 'the value'}: {reason_of(error)}") from error

    def _tagged(self, tag: str, content: Any, where: tuple[Any, ...]) -> Any:
        """What JSON does not have."""
        if tag == "number":
            return float(content)
        if tag == "list":
            return [self.value(part, (*where, at)) for at, part in enumerate(content)]
        if tag == "dict":
            return {key: self.value(part, (*where, key)) for key, part in content.items()}
        return _number_type(content)

    def _object(self, tree: dict[str, Any], where: tuple[Any, ...]) -> Any:
        """The object of a class that is known."""
        if tree["class"] not in self.classes:
            raise ValueError(f"there is no class {tree['class']!r:.60}")
        kind = self.classes[tree["class"]]
        make = getattr(kind, "restore", kind)
        parts = {name: self.value(part, (*where, name)) for name, part in tree.items() if name != "class"}
        inspect.signature(make).bind(**parts)
        return make(**parts)

    def _array(self, array: Any, by_columns: bool = False, shape: Any = None, type: str = "") -> Any:  # noqa: A002
        """The array of a name, or of values in the tree."""
        if isinstance(array, str):
            if array not in self.arrays:
                raise ValueError(f"the array {array!r:.60} is missing")
            return self.arrays[array].T if by_columns else self.arrays[array]
        if prod(shape) != len(array):
            raise ValueError(f"{len(array)} values do not fit the shape {shape!r:.60}")
        return np.array([self.value(each, ()) for each in array], dtype=_number_type(type)).reshape(shape)


def _is_tagged(tree: dict[str, Any]) -> bool:
    """Whether JSON is not a plain object."""
    return "class" in tree or "array" in tree or (len(tree) == 1 and not TAGS.isdisjoint(tree))


def _number_type(name: str) -> np.dtype[Any]:
    """The type of numbers of a name; NumPy would read other types too, and Python's objects among them."""
    dtype = np.dtype(name)
    if dtype.kind not in "biuf":
        raise ValueError(f"{name!r:.60} is not a type of numbers")
    return dtype


def _check_depth(where: tuple[Any, ...]) -> None:
    if len(where) > DEEPEST:
        raise StateError(f"{where[0]} is nested more than {DEEPEST} levels deep: use a kernel of fewer terms")


def _joined(where: tuple[Any, ...]) -> str:
    return ".".join(map(str, where))


def _is_typed(kind: type) -> bool:
    """Whether annotations say what a class is made of, rather than scikit-learn's ``get_params``."""
    return hasattr(kind, "saved") or is_dataclass(kind)


def _parts(value: Any) -> dict[str, Any]:
    """What an object is made of."""
    if hasattr(value, "saved"):
        return dict(value.saved())
    if is_dataclass(value):
        return {part.name: getattr(value, part.name) for part in fields(value) if part.init}
    return dict(value.get_params(deep=False))


@cache
def _named(*hints: Any) -> tuple[type, ...]:
    """The classes that annotations name, with those that are named by the annotations of what these are made of."""
    found, left = dict[type, None](), list(hints)
    while left:
        hint = left.pop()
        left += hint if isinstance(hint, list) else get_args(hint)
        if isinstance(hint, type) and _is_typed(hint) and hint not in found:
            found[hint] = None
            maker: Callable[..., Any] = getattr(hint, "restore", hint)
            left += get_type_hints(maker).values()
    return tuple(found)
