"""A small ONNX graph under construction, and a kernel's covariances in it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..kernels import nodes, stationary
from .handover import part_name

Tensor = str  # a tensor of the graph, by its name
Value = Any  # a Tensor, or a float that stands for one of equal entries
Features = Any  # a Tensor for a leaf, a pair of Features for a pair of nodes, None for a leaf without inputs


class Graph:
    """Nodes and constants that grow one by one; calling it adds a node and returns its output's name."""

    def __init__(self, onnx: Any, numbers: Iterator[int] | None = None) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.onnx = onnx
        self._numbers = itertools.count() if numbers is None else numbers

    def inner(self) -> Graph:
        """An empty graph for the inside of a loop, whose names are not those of this one."""
        return Graph(self.onnx, self._numbers)

    def name(self) -> Tensor:
        """A name that is not taken."""
        return f"t{next(self._numbers)}"

    def constant(self, value: Any) -> Tensor:
        """Numbers that do not depend on the input: float64, or int64 for indices."""
        array = np.array(value)
        array = array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)
        name = self.name()
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def __call__(self, operation: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        given = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(operation, given, names, **attributes))
        return names[0] if outputs == 1 else names

    def add(self, a: Value, b: Value) -> Value:
        """The sum of two values."""
        if not isinstance(a, str) and not isinstance(b, str):
            return a + b
        if not isinstance(b, str):
            a, b = b, a
        return b if not isinstance(a, str) and a == 0 else self("Add", a, b)

    def multiply(self, a: Value, b: Value) -> Value:
        """The product of two values."""
        if not isinstance(a, str) and not isinstance(b, str):
            return a * b
        if any(not isinstance(value, str) and value == 0 for value in (a, b)):
            return 0.0
        return self("Mul", a, b)

    def product(self, a: Value, b: Value) -> Tensor:
        """The matrix product.

        onnxruntime makes one operation of it and of a scalar that multiplies a factor or the result, and keeps that
        scalar in float32. So something stands between them: the sum of one tensor.
        """
        a, b = (self("Sum", value) if isinstance(value, str) else value for value in (a, b))
        return self("Sum", self("MatMul", a, b))  # type: ignore[no-any-return]

    def sum_of(self, values: Tensor, axis: int) -> Tensor:
        """The sum over an axis, which stays as one of length 1."""
        return self("ReduceSum", values, axes=[axis], keepdims=1)  # type: ignore[no-any-return]

    def positive(self, values: Value) -> Value:
        """Not below zero."""
        return self("Max", values, 0.0) if isinstance(values, str) else max(values, 0.0)

    def turned(self, values: Tensor) -> Tensor:
        """A stack of matrices, transposed."""
        return self("Transpose", values, perm=[0, 2, 1])  # type: ignore[no-any-return]


def check(node: Any) -> None:
    """Refuse a kernel that no graph can hold, by naming the part."""
    if isinstance(node, nodes.Opaque):
        raise ValueError(
            f"The kernel has {part_name(node)} in it, which is Python code and cannot become an ONNX graph. Use "
            f"kernels of scikit-learn (Matern with nu of 1/2, 3/2, 5/2 or infinity)."
        )
    for part in ("left", "right", "base"):
        if hasattr(node, part):
            check(getattr(node, part))


def has_inputs(node: Any) -> bool:
    """Whether the covariance depends on the rows at all."""
    if isinstance(node, nodes.Sum):
        return has_inputs(node.left) or has_inputs(node.right)
    if isinstance(node, nodes.Product):
        return not (_is_noise(node.left) or _is_noise(node.right)) and (has_inputs(node.left) or has_inputs(node.right))
    if isinstance(node, nodes.Power):
        return has_inputs(node.base)
    return not isinstance(node, nodes.Constant | nodes.White)


def _is_noise(node: Any) -> bool:
    if isinstance(node, nodes.Sum):
        return _is_noise(node.left) and _is_noise(node.right)
    if isinstance(node, nodes.Product):
        return _is_noise(node.left) or _is_noise(node.right)
    return _is_noise(node.base) if isinstance(node, nodes.Power) else isinstance(node, nodes.White)


def prepare(g: Graph, node: Any, X: Tensor) -> Features:
    """The features of the rows X, as `sodalite.kernels` has them."""
    if isinstance(node, nodes.Sum | nodes.Product):
        return prepare(g, node.left, X), prepare(g, node.right, X)
    if isinstance(node, nodes.Power):
        return prepare(g, node.base, X)
    if isinstance(node, stationary.Stationary):
        if node.column is not None:
            X = g("Gather", X, [node.column], axis=1)
        scaled = g("Div", g("Sub", X, node.centre), node.length_scale)
        norm = g("Mul", g.sum_of(g("Mul", scaled, scaled), 1), -0.5)
        return g("Concat", scaled, norm, g("Add", g("Mul", norm, 0.0), 1.0), axis=1)
    return X if isinstance(node, nodes.DotProduct) else None


def constants(g: Graph, node: Any, features: Any) -> Features:
    """Features that are known, of rows that belong to the model."""
    if isinstance(node, nodes.Sum | nodes.Product):
        return constants(g, node.left, features[0]), constants(g, node.right, features[1])
    if isinstance(node, nodes.Power):
        return constants(g, node.base, features)
    return None if isinstance(node, nodes.Constant | nodes.White) else g.constant(features)


def each(function: Any, features: Features) -> Features:
    """A function of every leaf's features."""
    if isinstance(features, tuple):
        return tuple(each(function, part) for part in features)
    return None if features is None else function(features)


def right_side(g: Graph, node: Any, features: Any) -> Features:
    """Features as the right factor of the product in `block`: transposed, and a distance's last two swapped.

    They are arrays, of shape (rows, width), or tensors of stacks of those.
    """
    if isinstance(node, nodes.Sum | nodes.Product):
        return right_side(g, node.left, features[0]), right_side(g, node.right, features[1])
    if isinstance(node, nodes.Power):
        return right_side(g, node.base, features)
    if isinstance(node, nodes.Constant | nodes.White):
        return None
    swap = isinstance(node, stationary.Stationary)
    if isinstance(features, str):
        if swap:
            features = g("Gather", features, _swapped(len(node.centre) + 2), axis=2)
        return g.turned(features)
    return g.constant((features[:, _swapped(features.shape[1])] if swap else features).T)


def block(g: Graph, node: Any, a: Features, b: Features) -> Value:
    """k(A, B) without noise; B's features are those of a right side."""
    if isinstance(node, nodes.Sum):
        return g.add(block(g, node.left, a[0], b[0]), block(g, node.right, a[1], b[1]))
    if isinstance(node, nodes.Product):
        return g.multiply(block(g, node.left, a[0], b[0]), block(g, node.right, a[1], b[1]))
    if isinstance(node, nodes.Power):
        return _power(g, block(g, node.base, a, b), node.exponent)
    if isinstance(node, stationary.Stationary):
        return _profile(g, node.profile, g("Min", g.product(a, b), 0.0))
    if isinstance(node, nodes.DotProduct):
        return g("Add", g.product(a, b), node.sigma_0**2)
    return node.value if isinstance(node, nodes.Constant) else 0.0


def diagonal(g: Graph, node: Any, a: Features) -> tuple[Value, Value]:
    """k(x, x) of some rows, of shape (rows, 1), and apart from it the noise."""
    if isinstance(node, nodes.Sum | nodes.Product):
        (f, u), (h, v) = diagonal(g, node.left, a[0]), diagonal(g, node.right, a[1])
        if isinstance(node, nodes.Sum):
            return g.add(f, h), g.add(u, v)
        return g.multiply(f, h), g.add(g.multiply(g.add(f, u), v), g.multiply(u, h))
    if isinstance(node, nodes.Power):
        f, u = diagonal(g, node.base, a)
        latent, both = _power(g, f, node.exponent), _power(g, g.add(f, u), node.exponent)
        return latent, g.add(both, g.multiply(latent, -1.0))
    if isinstance(node, nodes.DotProduct):
        return g("Add", g.sum_of(g("Mul", a, a), 1), node.sigma_0**2), 0.0
    if isinstance(node, nodes.White):
        return 0.0, node.value
    return node.value if isinstance(node, nodes.Constant) else 1.0, 0.0


def _profile(g: Graph, profile: Any, e: Tensor) -> Tensor:
    """A stationary kernel of minus half the squared distance."""
    if isinstance(profile, stationary.Matern):
        rho = g("Sqrt", g("Mul", e, -4 * profile.nu))
        decay: Tensor = g("Exp", g("Neg", rho))
        if profile.nu == 0.5:
            return decay
        factor = g("Add", rho, 1.0)
        if profile.nu == 2.5:
            factor = g("Add", factor, g("Mul", g("Mul", rho, rho), 1 / 3))
        return g("Mul", factor, decay)  # type: ignore[no-any-return]
    if isinstance(profile, stationary.RationalQuadratic):
        log = g("Log", g("Add", g("Mul", e, -1 / profile.alpha), 1.0))
        e = g("Mul", log, -profile.alpha)
    elif isinstance(profile, stationary.Periodic):
        sine = g("Sin", g("Sqrt", g("Mul", e, -2.0)))
        e = g("Mul", g("Mul", sine, sine), -2 / profile.length_scale**2)
    return g("Exp", e)  # type: ignore[no-any-return]


def _power(g: Graph, value: Value, exponent: float) -> Value:
    return g("Pow", value, exponent) if isinstance(value, str) else value**exponent


def _swapped(width: int) -> list[int]:
    return [*range(width - 2), width - 1, width - 2]
