"""The expression tree that a kernel compiles to: leaves, sums, products and powers.

Every node evaluates the latent covariance, separately the noise (the part that scikit-learn's ``WhiteKernel`` adds to
the diagonal), and the gradients of both by reverse mode. The nodes are named like scikit-learn's kernels.

All that is known of a kernel is declared by its node: which of scikit-learn's classes it stands for and their
parameters (`declares`), its values and gradients, its words in a report, and how it is handed to other libraries.
`NODES` lists them. Stationary kernels are in `sodalite.kernels.stationary`, periodic ones in
`sodalite.kernels.periodic`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from sklearn.gaussian_process import kernels as spec

from ..core.types import Array, Floats

Value = Floats | float  # an array, or a float that stands for an array of equal entries
Features = Any  # rows as a node needs them: an array for a leaf, a pair of Features for a node with two operands
Pullback = Callable[[Floats, Value], Floats]  # (G, w), with dJ/dK = G w -> dJ/d(log of the free parameters)
DiagonalPullback = Callable[[Floats, Floats], Floats]  # (dJ/dlatent, dJ/dnoise) -> dJ/d(log of the free parameters)

FEW = 32  # rows whose square block by an unknown kernel costs little more than its diagonal
ROUNDING = 1e-8  # noise over variance below which an unknown kernel's noise is taken for a rounding error


class Maker(Protocol):
    """How another library makes kernels, which can be added and multiplied. `free` parameters may be trained."""

    def constant(self, value: float, free: bool) -> Any:
        """Return a constant covariance."""
        ...

    def scaled(self, value: float, free: bool, kernel: Any) -> Any:
        """Return a constant times a kernel."""
        ...

    def squared_exponential(self, scale: Floats, free: bool) -> Any:
        """Return a squared-exponential kernel; `scale` are its length-scales, one or one per input."""
        ...

    def matern(self, scale: Floats, free: bool, nu: float) -> Any:
        """Return a Matern kernel with `nu` of 1/2, 3/2 or 5/2."""
        ...

    def rational_quadratic(self, scale: Floats, free: bool, alpha: float, alpha_is_free: bool) -> Any:
        """Return a rational quadratic kernel."""
        ...


class Node(ABC):
    """One operation of a kernel's expression tree.

    Features may be stacked, of shape (stack, rows, width). Then all methods but `diag_vjp` return one block for each,
    and a pullback sums the gradients of all.
    """

    parameters: ClassVar[tuple[str, ...]] = ()
    """The hyperparameters of scikit-learn's kernel, in the order of theta: by their names."""
    operands: ClassVar[tuple[str, ...]] = ()
    """The attributes of scikit-learn's kernel that are kernels."""
    handed_over: ClassVar[str] = ""
    """The user's name for a kernel that other libraries have too."""
    words: str = ""
    """The kind of covariance, in a report; empty for constants and noise."""
    title: str = ""
    """The user's name for the kernel in the refusal of `hand_over`."""

    @classmethod
    @abstractmethod
    def of(cls, kernel: spec.Kernel, centre: Floats, dtype: np.dtype[Any]) -> Node:
        """The node of a kernel of scikit-learn's, for inputs that are centred on a point of shape (d,)."""

    @abstractmethod
    def prepare(self, X: Array) -> Features:
        """The features of the rows X, of shape (n, d), which the other methods take."""

    @abstractmethod
    def block(self, a: Features, b: Features, out: Floats | None = None) -> Value:
        """The latent covariances of the rows a with the rows b; `out` is memory that may be used for them."""

    @abstractmethod
    def diag(self, a: Features) -> tuple[Value, Value]:
        """The latent variance and the noise variance of every row."""

    @abstractmethod
    def vjp(self, a: Features, b: Features) -> tuple[Value, Pullback]:
        """The block, and the function that turns dJ/d(block) into the gradient by the free log-parameters."""

    @abstractmethod
    def diag_vjp(self, a: Features) -> tuple[Value, Value, DiagonalPullback]:
        """Latent and noise variances, and the function that turns the derivatives by both into the gradient."""

    def curvature(self) -> tuple[float, Value] | None:
        """The variance, and minus the second derivative of the covariance by each input at distance zero.

        Only the ratios between the inputs matter, so roughly right is enough. None where the covariance is not a
        function of a distance.
        """
        return None

    def leaves(self) -> list[Node]:
        """The leaves of the tree below the node, in order."""
        return [self]

    def hand_over(self, maker: Maker) -> Any:
        """The latent part as another library's kernel; None for noise. Kernels that others do not have are refused."""
        raise refusal(self.title)


N = TypeVar("N", bound=type[Node])

NODES: dict[type[spec.Kernel], type[Node]] = {}
"""The node of every known class of kernels. Exact types count: a subclass may be another function."""


def declares(*kinds: type[spec.Kernel], parameters: tuple[str, ...] = ()) -> Callable[[N], N]:
    """Enter a node into `NODES`, for some of scikit-learn's classes with these hyperparameters, sorted by name."""

    def enter(node: N) -> N:
        node.parameters, node.title = parameters, kinds[0].__name__
        NODES.update(dict.fromkeys(kinds, node))
        return node

    return enter


def refusal(name: str) -> ValueError:
    """The error for a kernel that other libraries do not have."""
    known = ", ".join(node.handed_over for node in NODES.values() if node.handed_over)
    return ValueError(f"The kernel has {name} in it, which cannot be handed over; these can: {known}.")


def node_of(kernel: spec.Kernel, centre: Floats, dtype: np.dtype[Any]) -> Node:
    """The node of a kernel of scikit-learn's, for inputs that are centred on a point of shape (d,)."""
    return NODES.get(type(kernel), Opaque).of(kernel, centre, dtype)


@dataclass(frozen=True)
class Uniform(Node):
    """Base of the leaves with one parameter that do not depend on the inputs: their features are empty."""

    value: float
    free: bool

    @classmethod
    def of(cls, kernel: spec.Kernel, centre: Floats, dtype: np.dtype[Any]) -> Node:
        (name,) = cls.parameters
        return cls(float(getattr(kernel, name)), is_free(kernel, name))

    def prepare(self, X: Array) -> Features:
        return np.empty((X.shape[0], 0))


@declares(spec.ConstantKernel, parameters=("constant_value",))
class Constant(Uniform):
    """A constant covariance."""

    handed_over = "ConstantKernel"

    def block(self, a: Features, b: Features, out: Floats | None = None) -> Value:
        return self.value

    def diag(self, a: Features) -> tuple[Value, Value]:
        return self.value, 0.0

    def vjp(self, a: Features, b: Features) -> tuple[Value, Pullback]:
        return self.value, lambda G, w: _gradient(self.free, self.value * weighted_sum(G, w))

    def diag_vjp(self, a: Features) -> tuple[Value, Value, DiagonalPullback]:
        return self.value, 0.0, lambda g, g_noise: _gradient(self.free, self.value * g.sum())

    def curvature(self) -> tuple[float, Value] | None:
        return self.value, 0.0

    def hand_over(self, maker: Maker) -> Any:
        return maker.constant(self.value, self.free)


@declares(spec.WhiteKernel, parameters=("noise_level",))
class White(Uniform):
    """Independent noise: no covariance between rows, a noise variance on the diagonal."""

    handed_over = "WhiteKernel"

    def block(self, a: Features, b: Features, out: Floats | None = None) -> Value:
        return 0.0

    def diag(self, a: Features) -> tuple[Value, Value]:
        return 0.0, self.value

    def vjp(self, a: Features, b: Features) -> tuple[Value, Pullback]:
        return 0.0, lambda G, w: _gradient(self.free, 0.0)

    def diag_vjp(self, a: Features) -> tuple[Value, Value, DiagonalPullback]:
        return 0.0, self.value, lambda g, g_noise: _gradient(self.free, self.value * g_noise.sum())

    def curvature(self) -> tuple[float, Value] | None:
        return 0.0, 0.0

    def hand_over(self, maker: Maker) -> Any:
        return None


@declares(spec.DotProduct, parameters=("sigma_0",))
@dataclass(frozen=True)
class DotProduct(Node):
    """sigma_0^2 + a.b: not stationary, so its inputs are the rows as they are, not centred."""

    sigma_0: float
    free: bool
    dtype: np.dtype[Any]
    words = "linear"

    @classmethod
    def of(cls, kernel: spec.Kernel, centre: Floats, dtype: np.dtype[Any]) -> Node:
        return cls(float(kernel.sigma_0), is_free(kernel, "sigma_0"), dtype)

    def prepare(self, X: Array) -> Features:
        with np.errstate(over="ignore"):  # infinite variances are checked for by the caller
            return X.astype(self.dtype)

    def block(self, a: Features, b: Features, out: Floats | None = None) -> Value:
        K = np.matmul(a, b.swapaxes(-1, -2), out=out)
        K += self.sigma_0**2
        return K

    def diag(self, a: Features) -> tuple[Value, Value]:
        return np.einsum("...j,...j->...", a, a) + self.sigma_0**2, 0.0

    def vjp(self, a: Features, b: Features) -> tuple[Value, Pullback]:
        return self.block(a, b), lambda G, w: _gradient(self.free, 2 * self.sigma_0**2 * weighted_sum(G, w))

    def diag_vjp(self, a: Features) -> tuple[Value, Value, DiagonalPullback]:
        return *self.diag(a), lambda g, g_noise: _gradient(self.free, 2 * self.sigma_0**2 * g.sum())


@dataclass(frozen=True)
class Opaque(Node):
    """A kernel that has no node of its own and is called as it is. Its gradient fills an n x n x parameters array.

    The kernel may contain noise (a subclass of ``WhiteKernel``, say). By scikit-learn's convention, noise is the part
    of the diagonal that k(X) and `kernel.diag` have and k(X, X) has not.
    """

    kernel: spec.Kernel
    dtype: np.dtype[Any]
    words: str

    @classmethod
    def of(cls, kernel: spec.Kernel, centre: Floats, dtype: np.dtype[Any]) -> Node:
        if isinstance(kernel, spec.CompoundKernel):
            raise TypeError(
                "a CompoundKernel is several kernels side by side, not a covariance; use a sum or a product."
            )
        has_shape = not isinstance(kernel, spec.ConstantKernel | spec.WhiteKernel)
        return cls(kernel, dtype, type(kernel).__name__ if has_shape else "")

    def hand_over(self, maker: Maker) -> Any:
        raise refusal(repr(self.kernel))

    def prepare(self, X: Array) -> Features:
        return np.asarray(X, dtype=np.float64)

    def block(self, a: Features, b: Features, out: Floats | None = None) -> Value:
        if a.ndim > 2 or b.ndim > 2:
            return np.stack([self.block(*pair) for pair in zip(a, b, strict=True)])
        if not (len(a) and len(b)):  # some of scikit-learn's kernels insist on a row
            return np.empty((len(a), len(b)), dtype=self.dtype)
        return np.array(self.kernel(a, b), dtype=self.dtype)

    def diag(self, a: Features) -> tuple[Value, Value]:
        latent, noise = self._diagonal(a)
        return latent.astype(self.dtype), noise.astype(self.dtype)

    def vjp(self, a: Features, b: Features) -> tuple[Value, Pullback]:
        def pull(G: Floats, w: Value) -> Floats:
            if a.ndim > 2:
                parts = zip(a, b, np.broadcast_to(w, G.shape), G, strict=True)
                pulled = [self.vjp(left, right)[1](g, weight) for left, right, weight, g in parts]
                return np.asarray(np.sum(pulled, axis=0))
            # Scikit-learn differentiates k(X) only, so the block is cut out of the matrix of a and b together. That is
            # also done if a and b are the same rows, since the diagonal of k(X) has the noise on it.
            _, gradient = self.kernel(np.vstack([a, b]), eval_gradient=True)
            return np.asarray(np.einsum("ij,ijp->p", G * w, gradient[: len(a), len(a) :]), dtype=np.float64)

        return self.block(a, b), pull

    def diag_vjp(self, a: Features) -> tuple[Value, Value, DiagonalPullback]:
        latent, noise = self._diagonal(a)

        def pull(g: Floats, g_noise: Floats) -> Floats:
            total = np.zeros(self.kernel.n_dims)
            g_noise = np.where(noise > 0, g_noise, g)  # without noise, k(x, x) is all latent
            if not np.any(g) and not np.any(g_noise):
                return total
            for rows in _few(len(a)):
                twice, k = np.vstack([a[rows], a[rows]]), len(a[rows])
                _, gradient = self.kernel(twice, eval_gradient=True)
                here = np.arange(k)
                total += (g - g_noise)[rows] @ gradient[here, k + here] + g_noise[rows] @ gradient[here, here]
            return total

        return latent.astype(self.dtype), noise.astype(self.dtype), pull

    def _diagonal(self, a: Features) -> tuple[Floats, Floats]:
        """The latent variance and the noise variance of every row, in float64."""
        if a.ndim > 2:
            latent, noise = self._diagonal(a.reshape(-1, a.shape[-1]))
            return latent.reshape(a.shape[:-1]), noise.reshape(a.shape[:-1])
        total = np.array(self.kernel.diag(a) if len(a) else [], dtype=np.float64)
        latent = np.empty_like(total)
        for rows in _few(len(a)):
            latent[rows] = np.diag(self.kernel(a[rows], a[rows]))
        noise = total - latent
        noise[np.abs(noise) < ROUNDING * np.abs(total)] = 0
        return total - noise, noise


def _few(n: int) -> list[slice]:
    """Slices of `FEW` rows each."""
    return [slice(begin, min(begin + FEW, n)) for begin in range(0, n, FEW)]


@dataclass(frozen=True)
class TwoKernels(Node):
    """Base of the nodes with two operands: their features are those of both."""

    left: Node
    right: Node
    operands = ("k1", "k2")

    @classmethod
    def of(cls, kernel: spec.Kernel, centre: Floats, dtype: np.dtype[Any]) -> Node:
        return cls(node_of(kernel.k1, centre, dtype), node_of(kernel.k2, centre, dtype))

    def prepare(self, X: Array) -> Features:
        return self.left.prepare(X), self.right.prepare(X)

    def leaves(self) -> list[Node]:
        return [*self.left.leaves(), *self.right.leaves()]


@declares(spec.Sum)
@dataclass(frozen=True)
class Sum(TwoKernels):
    """Latent f + g, noise u + v."""

    handed_over = "sums"

    def block(self, a: Features, b: Features, out: Floats | None = None) -> Value:
        return _merge(np.add, self.left, self.right, a, b, out)

    def diag(self, a: Features) -> tuple[Value, Value]:
        (f, u), (g, v) = self.left.diag(a[0]), self.right.diag(a[1])
        return f + g, u + v

    def vjp(self, a: Features, b: Features) -> tuple[Value, Pullback]:
        f, pull_left = self.left.vjp(a[0], b[0])
        g, pull_right = self.right.vjp(a[1], b[1])
        total = f if _is_zero(g) else g if _is_zero(f) else f + g
        return total, lambda G, w: np.concatenate([pull_left(G, w), pull_right(G, w)])

    def diag_vjp(self, a: Features) -> tuple[Value, Value, DiagonalPullback]:
        f, u, pull_left = self.left.diag_vjp(a[0])
        g, v, pull_right = self.right.diag_vjp(a[1])
        return f + g, u + v, lambda d, e: np.concatenate([pull_left(d, e), pull_right(d, e)])

    def curvature(self) -> tuple[float, Value] | None:
        left, right = self.left.curvature(), self.right.curvature()
        return left and right and (left[0] + right[0], left[1] + right[1])

    def hand_over(self, maker: Maker) -> Any:
        left, right = self.left.hand_over(maker), self.right.hand_over(maker)
        if left is None or right is None:
            return right if left is None else left
        return left + right


@declares(spec.Product)
@dataclass(frozen=True)
class Product(TwoKernels):
    """Latent f g; the noise is the rest of (f + u)(g + v), where u and v are the two factors' noise."""

    handed_over = "products"

    def block(self, a: Features, b: Features, out: Floats | None = None) -> Value:
        return _merge(np.multiply, self.left, self.right, a, b, out)

    def diag(self, a: Features) -> tuple[Value, Value]:
        (f, u), (g, v) = self.left.diag(a[0]), self.right.diag(a[1])
        return f * g, f * v + u * g + u * v

    def vjp(self, a: Features, b: Features) -> tuple[Value, Pullback]:
        f, pull_left = self.left.vjp(a[0], b[0])
        g, pull_right = self.right.vjp(a[1], b[1])
        return f * g, lambda G, w: np.concatenate([pull_left(G, w * g), pull_right(G, w * f)])

    def diag_vjp(self, a: Features) -> tuple[Value, Value, DiagonalPullback]:
        f, u, pull_left = self.left.diag_vjp(a[0])
        g, v, pull_right = self.right.diag_vjp(a[1])

        def pull(d: Floats, e: Floats) -> Floats:
            return np.concatenate([pull_left(d * g + e * v, e * (g + v)), pull_right(d * f + e * u, e * (f + u))])

        return f * g, f * v + u * g + u * v, pull

    def curvature(self) -> tuple[float, Value] | None:
        left, right = self.left.curvature(), self.right.curvature()
        return left and right and (left[0] * right[0], left[0] * right[1] + left[1] * right[0])

    def hand_over(self, maker: Maker) -> Any:
        for constant, other in ((self.left, self.right), (self.right, self.left)):
            if isinstance(constant, Constant):
                kernel = other.hand_over(maker)
                return None if kernel is None else maker.scaled(constant.value, constant.free, kernel)
        left, right = self.left.hand_over(maker), self.right.hand_over(maker)
        return None if left is None or right is None else left * right


@declares(spec.Exponentiation)
@dataclass(frozen=True)
class Power(Node):
    """Latent f^p; the noise is the rest of (f + u)^p."""

    base: Node
    exponent: float
    operands = ("kernel",)

    @classmethod
    def of(cls, kernel: spec.Kernel, centre: Floats, dtype: np.dtype[Any]) -> Node:
        return cls(node_of(kernel.kernel, centre, dtype), float(kernel.exponent))

    def prepare(self, X: Array) -> Features:
        return self.base.prepare(X)

    def leaves(self) -> list[Node]:
        return self.base.leaves()

    def block(self, a: Features, b: Features, out: Floats | None = None) -> Value:
        return self.base.block(a, b, out) ** self.exponent

    def diag(self, a: Features) -> tuple[Value, Value]:
        f, u = self.base.diag(a)
        return f**self.exponent, (f + u) ** self.exponent - f**self.exponent

    def vjp(self, a: Features, b: Features) -> tuple[Value, Pullback]:
        f, pull = self.base.vjp(a, b)
        return f**self.exponent, lambda G, w: pull(G, w * self._slope(f))

    def diag_vjp(self, a: Features) -> tuple[Value, Value, DiagonalPullback]:
        f, u, pull = self.base.diag_vjp(a)
        latent, noise = self.diag(a)
        return (
            latent,
            noise,
            lambda d, e: pull(d * self._slope(f) + e * (self._slope(f + u) - self._slope(f)), e * self._slope(f + u)),
        )

    def curvature(self) -> tuple[float, Value] | None:
        base = self.base.curvature()
        return base and (base[0] ** self.exponent, self._slope(base[0]) * base[1])

    def _slope(self, f: Value) -> Value:
        """The derivative p f^(p - 1) of f^p."""
        if self.exponent < 1:
            # The slope is infinite at f = 0. But f is 0 only where it has underflowed, or is the latent part of pure
            # noise, and there df is 0 too: with f = inf, the slope is 0.
            f = np.where(np.equal(f, 0), np.inf, f)
        slope = self.exponent * f ** (self.exponent - 1)
        return slope if isinstance(f, np.ndarray) and f.ndim else float(slope)


def is_free(kernel: spec.Kernel, name: str) -> bool:
    """Whether a hyperparameter of a kernel of scikit-learn's is free: not fixed."""
    return not getattr(kernel, "hyperparameter_" + name).fixed


def _gradient(free: bool, value: float) -> Floats:
    """The gradient of a node with one parameter; of shape (1,), or empty if the parameter is fixed."""
    return np.array([value], dtype=np.float64) if free else np.empty(0)


def weighted_sum(G: Floats, w: Value) -> float:
    """The sum of all entries of G w, without an array for the product."""
    return float(np.vdot(G, w) if isinstance(w, np.ndarray) else w * G.sum())


def _is_zero(value: Value) -> bool:
    """Whether a value is the number 0, which stands for an array of zeros."""
    return not isinstance(value, np.ndarray) and value == 0


def _merge(operation: np.ufunc, left: Node, right: Node, a: Features, b: Features, out: Floats | None) -> Value:
    """The sum or product of two nodes' blocks, in place in the first that is an array: blocks are fresh arrays."""
    f = left.block(a[0], b[0], out)
    g = right.block(a[1], b[1], None if isinstance(f, np.ndarray) else out)
    if isinstance(f, np.ndarray):
        return f if operation is np.add and _is_zero(g) else np.asarray(operation(f, g, out=f))
    if isinstance(g, np.ndarray):
        return np.asarray(operation(f, g, out=g))
    number: Value = operation(f, g)
    return number
