"""An ONNX graph under construction."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

Tensor: TypeAlias = str
"""A tensor of the graph, by its name."""
Value: TypeAlias = Tensor | float
"""A tensor, or a number that stands for a tensor of equal entries."""


class Graph:
    """The nodes and the constants of an ONNX graph, in the order in which they were added.

    Parameters
    ----------
    onnx : module
        The library.
    numbers : iterator of int, optional
        The numbers of the tensors' names; shared by a graph and those inside it.
    """

    def __init__(self, onnx: Any, numbers: Iterator[int] | None = None) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.onnx = onnx
        self._numbers = itertools.count() if numbers is None else numbers

    def inner(self) -> Graph:
        """Return an empty graph for the body of a loop, with names that this graph does not use."""
        return Graph(self.onnx, self._numbers)

    def name(self) -> Tensor:
        """Return a new name."""
        return f"t{next(self._numbers)}"

    def constant(self, value: ArrayLike) -> Tensor:
        """Add numbers that do not depend on the input: float64, or int64 for integers."""
        array = np.array(value)
        array = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)
        name = self.name()
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def __call__(self, operation: str, *inputs: Tensor | ArrayLike, **attributes: Any) -> Tensor:
        """Add a node with one output, and return its name. Inputs that are not tensors become constants."""
        return self.outputs(1, operation, *inputs, **attributes)[0]

    def outputs(self, n_outputs: int, operation: str, *inputs: Tensor | ArrayLike, **attributes: Any) -> list[Tensor]:
        """Add a node, and return the names of its outputs."""
        given = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        names = [self.name() for _ in range(n_outputs)]
        self.nodes.append(self.onnx.helper.make_node(operation, given, names, **attributes))
        return names

    def add(self, a: Value, b: Value) -> Value:
        """Return the sum of two values; numbers are added here, not in the graph."""
        if not isinstance(a, str) and not isinstance(b, str):
            return a + b
        if not isinstance(b, str):
            a, b = b, a
        return b if a == 0 else self("Add", a, b)

    def multiply(self, a: Value, b: Value) -> Value:
        """Return the product of two values; numbers are multiplied here, not in the graph."""
        if not isinstance(a, str) and not isinstance(b, str):
            return a * b
        return 0.0 if 0 in (a, b) else self("Mul", a, b)

    def power(self, value: Value, exponent: float) -> Value:
        """Return a power of a value."""
        return self("Pow", value, exponent) if isinstance(value, str) else value**exponent

    def product(self, a: Tensor | ArrayLike, b: Tensor | ArrayLike) -> Tensor:
        """Return the matrix product.

        onnxruntime fuses a matrix product with a scalar that multiplies a factor or the result, and keeps that scalar
        in float32. A sum of one tensor on either side prevents the fusion.
        """
        a, b = (self("Sum", value) if isinstance(value, str) else value for value in (a, b))
        return self("Sum", self("MatMul", a, b))

    def sum_of(self, values: Tensor, axis: int) -> Tensor:
        """Return the sum over an axis, which is kept with length 1."""
        return self("ReduceSum", values, axes=[axis], keepdims=1)

    def positive(self, values: Value) -> Value:
        """Return the larger of each value and 0."""
        return self("Max", values, 0.0) if isinstance(values, str) else max(values, 0.0)

    def nearest(self, distance: Tensor, k: int) -> Tensor:
        """Return the places of the k smallest entries of each row, the smallest first; of shape (rows, k)."""
        return self.outputs(2, "TopK", distance, [k], axis=1, largest=0, sorted=1)[1]

    def transposed(self, values: Tensor) -> Tensor:
        """Return the transposes of a stack of matrices."""
        return self("Transpose", values, perm=[0, 2, 1])
