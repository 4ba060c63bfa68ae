"""A kernel's covariances in an ONNX graph: one class for each kind of node of a compiled kernel.

The features of rows are those of `sodalite.kernels`: a tensor for a leaf, a pair for a sum or a product, and None for a
leaf without inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from ..core.types import Floats
from ..kernels import nodes, stationary
from .handover import part_name
from .onnx_graph import Graph, Tensor, Value

Features: TypeAlias = "Tensor | tuple[Features, Features] | None"


class OnnxNode(Protocol):
    """The covariance of one node of a kernel, in a graph."""

    @property
    def has_inputs(self) -> bool:
        """Whether the covariance depends on the rows."""
        ...

    @property
    def is_noise(self) -> bool:
        """Whether it is zero between rows."""
        ...

    def prepare(self, g: Graph, X: Tensor) -> Features:
        """Return the features of the rows X."""
        ...

    def constants(self, g: Graph, features: Any) -> Features:
        """Return features of rows that belong to the model, given as arrays, as constants."""
        ...

    def right_side(self, g: Graph, features: Any) -> Features:
        """Return features as the right factor of the product in `block`.

        They are given as arrays of shape (rows, width), or as tensors of stacks of those.
        """
        ...

    def block(self, g: Graph, a: Any, b: Any) -> Value:
        """Return k(A, B) without noise; the features of B are those of `right_side`."""
        ...

    def diagonal(self, g: Graph, a: Any) -> tuple[Value, Value]:
        """Return k(x, x) of some rows without noise, of shape (rows, 1), and the noise."""
        ...


@dataclass(frozen=True)
class OnnxConstant:
    """A leaf without inputs: a constant covariance, or noise on the diagonal."""

    covariance: float
    noise: float
    is_noise: bool
    has_inputs: bool = False

    def prepare(self, g: Graph, X: Tensor) -> Features:
        return None

    def constants(self, g: Graph, features: Any) -> Features:
        return None

    def right_side(self, g: Graph, features: Any) -> Features:
        return None

    def block(self, g: Graph, a: Any, b: Any) -> Value:
        return self.covariance

    def diagonal(self, g: Graph, a: Any) -> tuple[Value, Value]:
        return self.covariance, self.noise


@dataclass(frozen=True)
class OnnxDotProduct:
    """sigma_0^2 + a.b; its features are the rows themselves."""

    bias: float
    has_inputs: bool = True
    is_noise: bool = False

    def prepare(self, g: Graph, X: Tensor) -> Features:
        return X

    def constants(self, g: Graph, features: Floats) -> Features:
        return g.constant(features)

    def right_side(self, g: Graph, features: Tensor | Floats) -> Features:
        return g.transposed(features) if isinstance(features, str) else g.constant(features.T)

    def block(self, g: Graph, a: Tensor, b: Tensor) -> Value:
        return g("Add", g.product(a, b), self.bias)

    def diagonal(self, g: Graph, a: Tensor) -> tuple[Value, Value]:
        return g("Add", g.sum_of(g("Mul", a, a), 1), self.bias), 0.0


@dataclass(frozen=True)
class OnnxStationary:
    """A function of the scaled distance; its features are x/l, then -|x/l|^2/2, then 1."""

    node: stationary.Stationary
    profile: Callable[[Graph, Tensor], Tensor]
    """The covariance as a function of minus half the squared distance."""
    has_inputs: bool = True
    is_noise: bool = False

    def prepare(self, g: Graph, X: Tensor) -> Features:
        if self.node.column is not None:
            X = g("Gather", X, [self.node.column], axis=1)
        scaled = g("Div", g("Sub", X, self.node.centre), self.node.length_scale)
        norm = g("Mul", g.sum_of(g("Mul", scaled, scaled), 1), -0.5)
        one = g("Add", g("Mul", norm, 0.0), 1.0)  # of as many rows
        return g("Concat", scaled, norm, one, axis=1)

    def constants(self, g: Graph, features: Floats) -> Features:
        return g.constant(features)

    def right_side(self, g: Graph, features: Tensor | Floats) -> Features:
        width = len(self.node.centre) + 2
        swapped = [*range(width - 2), width - 1, width - 2]  # so that the product is minus half the squared distance
        if isinstance(features, str):
            return g.transposed(g("Gather", features, swapped, axis=2))
        return g.constant(features[:, swapped].T)

    def block(self, g: Graph, a: Tensor, b: Tensor) -> Value:
        return self.profile(g, g("Min", g.product(a, b), 0.0))

    def diagonal(self, g: Graph, a: Tensor) -> tuple[Value, Value]:
        return 1.0, 0.0


@dataclass(frozen=True)
class OnnxPower:
    """A power of a kernel; the noise is the rest of (f + u)^p."""

    base: OnnxNode
    exponent: float

    @property
    def has_inputs(self) -> bool:
        return self.base.has_inputs

    @property
    def is_noise(self) -> bool:
        return self.base.is_noise

    def prepare(self, g: Graph, X: Tensor) -> Features:
        return self.base.prepare(g, X)

    def constants(self, g: Graph, features: Any) -> Features:
        return self.base.constants(g, features)

    def right_side(self, g: Graph, features: Any) -> Features:
        return self.base.right_side(g, features)

    def block(self, g: Graph, a: Any, b: Any) -> Value:
        return g.power(self.base.block(g, a, b), self.exponent)

    def diagonal(self, g: Graph, a: Any) -> tuple[Value, Value]:
        f, u = self.base.diagonal(g, a)
        latent, both = g.power(f, self.exponent), g.power(g.add(f, u), self.exponent)
        return latent, g.add(both, g.multiply(latent, -1.0))


@dataclass(frozen=True)
class OnnxPair:
    """The features of a sum and of a product: a pair."""

    left: OnnxNode
    right: OnnxNode

    def prepare(self, g: Graph, X: Tensor) -> Features:
        return self.left.prepare(g, X), self.right.prepare(g, X)

    def constants(self, g: Graph, features: Any) -> Features:
        return self.left.constants(g, features[0]), self.right.constants(g, features[1])

    def right_side(self, g: Graph, features: Any) -> Features:
        return self.left.right_side(g, features[0]), self.right.right_side(g, features[1])


@dataclass(frozen=True)
class OnnxSum(OnnxPair):
    """Latent f + h, noise u + v."""

    @property
    def has_inputs(self) -> bool:
        return self.left.has_inputs or self.right.has_inputs

    @property
    def is_noise(self) -> bool:
        return self.left.is_noise and self.right.is_noise

    def block(self, g: Graph, a: Any, b: Any) -> Value:
        return g.add(self.left.block(g, a[0], b[0]), self.right.block(g, a[1], b[1]))

    def diagonal(self, g: Graph, a: Any) -> tuple[Value, Value]:
        (f, u), (h, v) = self.left.diagonal(g, a[0]), self.right.diagonal(g, a[1])
        return g.add(f, h), g.add(u, v)


@dataclass(frozen=True)
class OnnxProduct(OnnxPair):
    """Latent f h; the noise is the rest of (f + u)(h + v)."""

    @property
    def has_inputs(self) -> bool:
        return not self.is_noise and (self.left.has_inputs or self.right.has_inputs)

    @property
    def is_noise(self) -> bool:
        return self.left.is_noise or self.right.is_noise

    def block(self, g: Graph, a: Any, b: Any) -> Value:
        return g.multiply(self.left.block(g, a[0], b[0]), self.right.block(g, a[1], b[1]))

    def diagonal(self, g: Graph, a: Any) -> tuple[Value, Value]:
        (f, u), (h, v) = self.left.diagonal(g, a[0]), self.right.diagonal(g, a[1])
        return g.multiply(f, h), g.add(g.multiply(g.add(f, u), v), g.multiply(u, h))


def translate(node: nodes.Node) -> OnnxNode:
    """Return a compiled kernel's node for a graph; a ValueError names a part that no graph can hold."""
    return TRANSLATIONS[type(node)](node)


def each(function: Callable[[Tensor], Tensor], features: Features) -> Features:
    """Apply a function to the features of every leaf."""
    if isinstance(features, tuple):
        return each(function, features[0]), each(function, features[1])
    return None if features is None else function(features)


def _refuse(node: nodes.Opaque) -> OnnxNode:
    raise ValueError(
        f"The kernel has {part_name(node)} in it, which is Python code and cannot become an ONNX graph. Use "
        f"kernels of scikit-learn (Matern with nu of 1/2, 3/2, 5/2 or infinity)."
    )


def _matern(profile: stationary.Matern) -> Callable[[Graph, Tensor], Tensor]:
    def value(g: Graph, e: Tensor) -> Tensor:
        rho = g("Sqrt", g("Mul", e, -4 * profile.nu))
        decay = g("Exp", g("Neg", rho))
        if profile.nu == 0.5:
            return decay
        factor = g("Add", rho, 1.0)
        if profile.nu == 2.5:
            factor = g("Add", factor, g("Mul", g("Mul", rho, rho), 1 / 3))
        return g("Mul", factor, decay)

    return value


def _rational_quadratic(profile: stationary.RationalQuadratic) -> Callable[[Graph, Tensor], Tensor]:
    def value(g: Graph, e: Tensor) -> Tensor:
        log = g("Log", g("Add", g("Mul", e, -1 / profile.alpha), 1.0))
        return g("Exp", g("Mul", log, -profile.alpha))

    return value


def _periodic(profile: stationary.Periodic) -> Callable[[Graph, Tensor], Tensor]:
    def value(g: Graph, e: Tensor) -> Tensor:
        sine = g("Sin", g("Sqrt", g("Mul", e, -2.0)))
        return g("Exp", g("Mul", g("Mul", sine, sine), -2 / profile.length_scale**2))

    return value


def _squared_exponential(profile: stationary.SquaredExponential) -> Callable[[Graph, Tensor], Tensor]:
    return lambda g, e: g("Exp", e)


PROFILES: dict[type, Callable[[Any], Callable[[Graph, Tensor], Tensor]]] = {
    stationary.SquaredExponential: _squared_exponential,
    stationary.Matern: _matern,
    stationary.RationalQuadratic: _rational_quadratic,
    stationary.Periodic: _periodic,
}
TRANSLATIONS: dict[type, Callable[[Any], OnnxNode]] = {
    nodes.Constant: lambda node: OnnxConstant(node.value, 0.0, is_noise=False),
    nodes.White: lambda node: OnnxConstant(0.0, node.value, is_noise=True),
    nodes.DotProduct: lambda node: OnnxDotProduct(node.sigma_0**2),
    nodes.Opaque: _refuse,
    nodes.Power: lambda node: OnnxPower(translate(node.base), node.exponent),
    nodes.Sum: lambda node: OnnxSum(translate(node.left), translate(node.right)),
    nodes.Product: lambda node: OnnxProduct(translate(node.left), translate(node.right)),
    stationary.Stationary: lambda node: OnnxStationary(node, PROFILES[type(node.profile)](node.profile)),
}
"""How each kind of node of `sodalite.kernels` is translated."""
