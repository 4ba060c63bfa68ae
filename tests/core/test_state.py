"""Objects become JSON and arrays, and the same objects again; anything else is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, nan
from typing import Any, Literal, Protocol

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Kernel, Sum, WhiteKernel

from sodalite.core.state import DEEPEST, SMALL, Converter, StateError, UnknownClassError


class Shape(Protocol):
    def area(self) -> float: ...


@dataclass(frozen=True)
class Square:
    side: float

    def area(self) -> float:
        return self.side**2

    def __call__(self, x: float) -> float:
        return self.side * x


@dataclass(frozen=True)
class Disc(Square):
    pass


class Sorted:
    """Holds more than what it is made of."""

    def __init__(self, values):
        self.values, self.order = values, sorted(values)

    def saved(self):
        return {"values": self.values}

    @classmethod
    def restore(cls, values: tuple[int, ...]) -> Sorted:
        return cls(values)

    def __eq__(self, other):
        return vars(self) == vars(other)

    __hash__ = None


@dataclass(frozen=True)
class Everything:
    whole: int = 3
    real: float = 0.1
    text: str = "ü"
    flag: bool = True
    choice: Literal["a", "b"] = "b"
    none: Square | None = None
    either: float | str | None = "nan"
    pair: tuple[float, int] = (1.5, 2)
    many: tuple[Square, ...] = (Square(1.0), Disc(inf))
    nested: tuple[tuple[Square, Sorted] | None, ...] = ((Square(2.0), Sorted((3, 1))), None)
    names: list[str] = field(default_factory=lambda: ["x"])
    counts: dict[str, int] = field(default_factory=lambda: {"a": 1})
    shape: Shape = Disc(2.0)
    function: Callable[[float], float] = Disc(3.0)
    kernel: Kernel = field(default_factory=lambda: RBF([1.0, 2.0], [[1e-3, 1e3]] * 2) + WhiteKernel(0.1, "fixed"))
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float32))
    anything: Any = (1, [2.0, "x"], None, -inf)
    derived: int = field(default=7, init=False)


CONVERTER = Converter([Disc, RBF, Sum, WhiteKernel])


def again(value, hint=Any, converter=CONVERTER):
    tree, arrays = converter.dump(value, hint)
    return converter.load(json.loads(json.dumps(tree, allow_nan=False)), hint, arrays)


def test_everything_is_what_it_was():
    assert again(Everything(), Everything) == Everything()
    assert again(nan, float) != again(nan, float)
    assert [type(part) for part in again(Everything(), Everything).anything] == [int, list, type(None), float]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("shape", [(0,), (3,), (0, 4), (2, 3), (SMALL + 1,), (20, 30), (2, 30, 4)])
def test_arrays_are_what_they_were(shape, dtype):
    array = np.random.default_rng(0).normal(scale=100, size=shape).astype(dtype)
    for one in (array, np.asfortranarray(array)):
        found = again(one, np.ndarray)
        np.testing.assert_array_equal(found, array, strict=True)
        if array.size > SMALL:
            assert found.flags.f_contiguous == one.flags.f_contiguous


def test_an_array_that_occurs_twice_is_held_once_and_a_small_one_stands_in_the_tree():
    array, odd = np.zeros(100), np.array([nan, inf])
    tree, arrays = Converter().dump((array, [array], odd), where="all")
    assert list(arrays) == ["all.0"]
    found = Converter().load(json.loads(json.dumps(tree, allow_nan=False)), arrays=arrays)
    assert found[0] is found[1][0] is array
    np.testing.assert_array_equal(found[2], odd)


def test_the_value_must_be_what_is_asked_for_and_its_names_are_no_tags():
    for wrong in ({"class": "Disc", "side": 1.0}, 3, None, []):
        with pytest.raises(StateError, match=r"^it must be a Everything"):
            CONVERTER.load(wrong, Everything, where="it")
    for value in ({"class": 1, "array": [2]}, {"number": "3"}, {"dict": {"list": ()}}, {"dtype": 1, "list": 2}):
        assert again(value, dict) == value


def test_what_is_nested_too_deep_is_neither_written_nor_read():
    deep, tree = (), []
    for _ in range(DEEPEST + 1):
        deep, tree = (deep,), [tree]
    with pytest.raises(StateError, match=f"more than {DEEPEST} levels deep"):
        CONVERTER.dump(deep)
    with pytest.raises(StateError, match=f"more than {DEEPEST} levels deep"):
        CONVERTER.load(tree)


@pytest.mark.parametrize("value", [object(), len, Square, {1, 2}, (Square(1.0),), {"a": Sorted((1,))}])
def test_a_class_that_is_not_registered_is_not_written(value):
    with pytest.raises(UnknownClassError, match="not registered"):
        CONVERTER.dump(value)


WRONG = {
    "whole": [{"number": "x"}, {"number": [3]}],
    "real": [{"array": [1.0], "shape": [2], "type": "float64"}, {"array": [1.0], "shape": [1], "type": "object"}],
    "none": [{"class": "Nothing"}, {"class": "Square"}, {"class": "Square", "side": 1.0, "more": 2}],
    "many": [[{"class": "Sum"}], [1, {"array": "missing"}]],
    "shape": [{"class": "Circle", "side": 1.0}, {"class": ["Disc"]}, {"class": "os.system"}],
    "function": [{"class": "builtins.len"}],
    "kernel": [{"class": "RBF", "evil": 1}, {"class": "Kernel"}],
    "dtype": [{"dtype": "object"}, {"dtype": "U9"}, {"dtype": 3}],
    "anything": [{"array": [1.0, "x"], "shape": [2], "type": "float64"}, {"list": 3}],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_what_makes_no_sense_is_refused_with_its_place(name, value):
    tree = CONVERTER.dump(Everything(), Everything, "it")[0]
    with pytest.raises(StateError, match=rf"^it\.{name}"):
        CONVERTER.load({**tree, name: value}, Everything, where="it")
