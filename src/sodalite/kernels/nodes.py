"""The expression that a kernel compiles to: leaves, sums, products and powers.

Every node evaluates the latent covariance, apart from it the noise (what scikit-learn's ``WhiteKernel`` adds to the
diagonal), and the gradient of both by reverse mode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.gaussian_process import kernels as spec

from ..core.types import Array

Value = Any  # an array, or a float that stands for an array of equal entries
Features = Any  # the rows as a node wants them: an array for a leaf, a pair of Features for a pair of nodes
Pullback = Callable[[Array, Value], Array]  # (G, w), where dJ/dK = G w -> dJ/d(log of the free parameters)
DiagonalPullback = Callable[[Array, Array], Array]  # (dJ/dlatent, dJ/dnoise) -> the same


class Node(Protocol):
    """One operation of the kernel's expression.

    Features may be stacked, of shape (stack, rows, width): then all but `diag_vjp` give one block for each, and a
    pullback adds up the gradients of all.
    """

    def prepare(self, X: Array) -> Features: ...
    def block(self, a: Features, b: Features, out: Array | None = None) -> Value: ...
    def diag(self, a: Features) -> tuple[Value, Value]: ...
    def vjp(self, a: Features, b: Features) -> tuple[Value, Pullback]: ...
    def diag_vjp(self, a: Features) -> tuple[Value, Value, DiagonalPullback]: ...
    def curvature(self) -> tuple[float, Value] | None:
        """The variance, and minus the covariance's second derivative by each input where the distance is zero.

        Roughly: what matters is how the inputs compare. None where the covariance is no function of a distance.
        """
        ...


class Leaf:
    """What leaves without inputs of their own share: one log-parameter, free or fixed."""

    def prepare(self, X: Array) -> Features:
        return np.empty((X.shape[0], 0))


@dataclass(frozen=True)
class Constant(Leaf):
    """The same covariance everywhere."""

    value: float
    free: bool

    def block(self, a: Features, b: Features, out: Array | None = None) -> Value:
        return self.value

    def diag(self, a: Features) -> tuple[Value, Value]:
        return self.value, 0.0

    def vjp(self, a: Features, b: Features) -> tuple[Value, Pullback]:
        return self.value, lambda G, w: _gradient(self.free, self.value * weighted_sum(G, w))

    def diag_vjp(self, a: Features) -> tuple[Value, Value, DiagonalPullback]:
        return self.value, 0.0, lambda g, g_noise: _gradient(self.free, self.value * g.sum())

    def curvature(self) -> tuple[float, Value] | None:
        return self.value, 0.0


@dataclass(frozen=True)
class White(Leaf):
    """Noise: nothing between rows, something on the diagonal."""

    value: float
    free: bool

    def block(self, a: Features, b: Features, out: Array | None = None) -> Value:
        return 0.0

    def diag(self, a: Features) -> tuple[Value, Value]:
        return 0.0, self.value

    def vjp(self, a: Features, b: Features) -> tuple[Value, Pullback]:
        return 0.0, lambda G, w: _gradient(self.free, 0.0)

    def diag_vjp(self, a: Features) -> tuple[Value, Value, DiagonalPullback]:
        return 0.0, self.value, lambda g, g_noise: _gradient(self.free, self.value * g_noise.sum())

    def curvature(self) -> tuple[float, Value] | None:
        return 0.0, 0.0


@dataclass(frozen=True)
class DotProduct:
    """sigma_0^2 + a.b: not stationary, so its inputs are the rows as they are, not centred."""

    sigma_0: float
    free: bool
    dtype: np.dtype[Any]

    def prepare(self, X: Array) -> Features:
        with np.errstate(over="ignore"):  # an infinite variance is told of by whoever asked for it
            return X.astype(self.dtype)

    def block(self, a: Features, b: Features, out: Array | None = None) -> Value:
        K = np.matmul(a, b.swapaxes(-1, -2), out=out)
        K += self.sigma_0**2
        return K

    def diag(self, a: Features) -> tuple[Value, Value]:
        return np.einsum("...j,...j->...", a, a) + self.sigma_0**2, 0.0

    def vjp(self, a: Features, b: Features) -> tuple[Value, Pullback]:
        return self.block(a, b), lambda G, w: _gradient(self.free, 2 * self.sigma_0**2 * weighted_sum(G, w))

    def diag_vjp(self, a: Features) -> tuple[Value, Value, DiagonalPullback]:
        return *self.diag(a), lambda g, g_noise: _gradient(self.free, 2 * self.sigma_0**2 * g.sum())

    def curvature(self) -> tuple[float, Value] | None:
        return None


@dataclass(frozen=True)
class Opaque:
    """A kernel that is not known here, called as it is. Its gradient fills an array of n x n x parameters.

    It may hold noise (a subclass of ``WhiteKernel``, say). By scikit-learn's convention, noise is what k(X) and
    `kernel.diag` have on the diagonal and k(X, X) has not.
    """

    kernel: spec.Kernel
    dtype: np.dtype[Any]

    def prepare(self, X: Array) -> Features:
        return np.asarray(X, dtype=np.float64)

    def block(self, a: Features, b: Features, out: Array | None = None) -> Value:
        if a.ndim > 2 or b.ndim > 2:
            return np.stack([self.block(*pair) for pair in zip(a, b, strict=True)])
        if not (len(a) and len(b)):  # some of scikit-learn's kernels insist on a row
            return np.empty((len(a), len(b)), dtype=self.dtype)
        return np.array(self.kernel(a, b), dtype=self.dtype)

    def diag(self, a: Features) -> tuple[Value, Value]:
        latent, noise = self._diagonal(a)
        return latent.astype(self.dtype), noise.astype(self.dtype)

    def vjp(self, a: Features, b: Features) -> tuple[Value, Pullback]:
        def pull(G: Array, w: Value) -> Array:
            if a.ndim > 2:
                parts = zip(a, b, np.broadcast_to(w, G.shape), G, strict=True)
                pulled = [self.vjp(left, right)[1](g, weight) for left, right, weight, g in parts]
                return np.asarray(np.sum(pulled, axis=0))
            # Scikit-learn differentiates k(X) alone, so a block is cut out of the joint rows' matrix; also where both
            # are the same rows, since the diagonal of k(X) has the noise on it.
            _, gradient = self.kernel(np.vstack([a, b]), eval_gradient=True)
            return np.asarray(np.einsum("ij,ijp->p", G * w, gradient[: len(a), len(a) :]), dtype=np.float64)

        return self.block(a, b), pull

    def diag_vjp(self, a: Features) -> tuple[Value, Value, DiagonalPullback]:
        latent, noise = self._diagonal(a)

        def pull(g: Array, g_noise: Array) -> Array:
            total = np.zeros(self.kernel.n_dims)
            g_noise = np.where(noise > 0, g_noise, g)  # where there is none, k(x, x) is all latent
            if not np.any(g) and not np.any(g_noise):
                return total
            for rows in _few(len(a)):
                twice, k = np.vstack([a[rows], a[rows]]), len(a[rows])
                _, gradient = self.kernel(twice, eval_gradient=True)
                here = np.arange(k)
                total += (g - g_noise)[rows] @ gradient[here, k + here] + g_noise[rows] @ gradient[here, here]
            return total

        return latent.astype(self.dtype), noise.astype(self.dtype), pull

    def curvature(self) -> tuple[float, Value] | None:
        return None

    def _diagonal(self, a: Features) -> tuple[Array, Array]:
        if a.ndim > 2:
            latent, noise = self._diagonal(a.reshape(-1, a.shape[-1]))
            return latent.reshape(a.shape[:-1]), noise.reshape(a.shape[:-1])
        total = np.array(self.kernel.diag(a) if len(a) else [], dtype=np.float64)
        latent = np.empty_like(total)
        for rows in _few(len(a)):
            latent[rows] = np.diag(self.kernel(a[rows], a[rows]))
        noise = total - latent
        noise[np.abs(noise) < 1e-8 * np.abs(total)] = 0  # rounding
        return total - noise, noise


def _few(n: int, size: int = 32) -> list[slice]:
    """Slices of few rows each: their square block costs little more than its diagonal."""
    return [slice(begin, min(begin + size, n)) for begin in range(0, n, size)]


@dataclass(frozen=True)
class Sum:
    """Latent f + g, noise u + v."""

    left: Node
    right: Node

    def prepare(self, X: Array) -> Features:
        return self.left.prepare(X), self.right.prepare(X)

    def block(self, a: Features, b: Features, out: Array | None = None) -> Value:
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


@dataclass(frozen=True)
class Product:
    """Latent f g; the noise is the rest of (f + u)(g + v), where u and v are the two factors' noise."""

    left: Node
    right: Node

    def prepare(self, X: Array) -> Features:
        return self.left.prepare(X), self.right.prepare(X)

    def block(self, a: Features, b: Features, out: Array | None = None) -> Value:
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

        def pull(d: Array, e: Array) -> Array:
            return np.concatenate([pull_left(d * g + e * v, e * (g + v)), pull_right(d * f + e * u, e * (f + u))])

        return f * g, f * v + u * g + u * v, pull

    def curvature(self) -> tuple[float, Value] | None:
        left, right = self.left.curvature(), self.right.curvature()
        return left and right and (left[0] * right[0], left[0] * right[1] + left[1] * right[0])


@dataclass(frozen=True)
class Power:
    """Latent f^p; the noise is the rest of (f + u)^p."""

    base: Node
    exponent: float

    def prepare(self, X: Array) -> Features:
        return self.base.prepare(X)

    def block(self, a: Features, b: Features, out: Array | None = None) -> Value:
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
        if self.exponent < 1:
            # Infinite at 0. But f is 0 only where it has underflowed or is noise's latent part, and then so is df.
            f = np.where(np.equal(f, 0), np.inf, f)
        slope = self.exponent * f ** (self.exponent - 1)
        return slope if isinstance(f, np.ndarray) and f.ndim else float(slope)


def _gradient(free: bool, value: float) -> Array:
    return np.array([value], dtype=np.float64) if free else np.empty(0)


def weighted_sum(G: Array, w: Value) -> float:
    """The sum of G w, without an array for the product."""
    return float(np.vdot(G, w) if isinstance(w, np.ndarray) else w * G.sum())


def _is_zero(value: Value) -> bool:
    return not isinstance(value, np.ndarray) and value == 0


def _merge(operation: np.ufunc, left: Node, right: Node, a: Features, b: Features, out: Array | None) -> Value:
    """The sum or product of two nodes' blocks, in the array of one of them if there is one: blocks are fresh."""
    f = left.block(a[0], b[0], out)
    g = right.block(a[1], b[1], None if isinstance(f, np.ndarray) else out)
    if isinstance(f, np.ndarray):
        return f if operation is np.add and _is_zero(g) else operation(f, g, out=f)
    if isinstance(g, np.ndarray):
        return operation(f, g, out=g)
    return operation(f, g)
