"""Stationary kernels, functions of the scaled distance: squared-exponential, Matern, rational quadratic."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np
from sklearn.gaussian_process import kernels as spec

from ..core.types import Array, Floats
from .nodes import DiagonalPullback, Features, Maker, Node, Opaque, Pullback, Value, declares, is_free, weighted_sum

# The largest distance of a row from the centre along an input, in length-scales. Rows further out are moved there: the
# type cannot represent much larger squared distances, of which some thousand may be summed.
REACH = {np.dtype(np.float64): 1e140, np.dtype(np.float32): 1e15}

SMOOTHNESS = {0.5: "Matern 1/2, rough", 1.5: "Matern 3/2", 2.5: "Matern 5/2"}
"""The Matern kernels with a closed form, by their smoothness nu, in words."""


@dataclass(frozen=True)
class Stationary(Node):
    """A function of e, minus half the squared distance of the scaled rows. A kernel defines `value` and `derivatives`.

    It may have log-parameters of its own, besides the length-scales that scale the rows. The features of a row x are
    x/l, then -|x/l|^2/2, then 1. With the last two columns of one side swapped, the product of two rows' features is
    minus half their squared distance: one matrix product gives all distances of a block.
    """

    length_scale: Floats
    """Of shape (1,), or (d,) for one length-scale per input."""
    free: tuple[bool, ...]
    """Which parameters are free: the length-scale, then the kernel's own."""
    centre: Floats
    dtype: np.dtype[Any]
    own_first: ClassVar[bool] = False
    """Whether the kernel's own parameters come before the length-scale in theta: scikit-learn sorts them by name."""

    @classmethod
    def of(cls, kernel: spec.Kernel, centre: Floats, dtype: np.dtype[Any]) -> Node:
        return cls(length_scales(kernel, centre), (is_free(kernel, "length_scale"),), centre, dtype)

    @abstractmethod
    def value(self, e: Floats) -> Floats:
        """k(e) for e <= 0, computed in place if possible."""

    @abstractmethod
    def derivatives(self, e: Floats) -> tuple[Floats, Floats, tuple[Floats, ...]]:
        """k, dk/de, and dk/dlog(parameter) for each of the kernel's own parameters; e is not changed."""

    def prepare(self, X: Array) -> Features:
        n, d = X.shape
        features = np.empty((n, d + 2), dtype=self.dtype)
        with np.errstate(over="ignore"):
            scaled = (X - self.centre) / self.length_scale
        features[:, :d] = np.clip(scaled, -REACH[self.dtype], REACH[self.dtype], out=scaled)
        scaled = features[:, :d].astype(np.float64, copy=False)  # as stored, so that the norm fits the rounded row
        features[:, d] = -0.5 * np.einsum("ij,ij->i", scaled, scaled)
        features[:, d + 1] = 1
        return features

    def block(self, a: Features, b: Features, out: Floats | None = None) -> Value:
        return self.value(self._exponents(a, b, out))

    def diag(self, a: Features) -> tuple[Value, Value]:
        return 1.0, 0.0

    def vjp(self, a: Features, b: Features) -> tuple[Value, Pullback]:
        e = self._exponents(a, b)
        k, slope, others = self.derivatives(e)

        def pull(G: Floats, w: Value) -> Floats:
            own = [weighted_sum(G, w * other) for other, free in zip(others, self.free[1:], strict=True) if free]
            scale = self._scale_gradient(a, b, e, G, slope, w) if self.free[0] else np.empty(0)
            return np.concatenate([own, scale] if self.own_first else [scale, own])

        return k, pull

    def diag_vjp(self, a: Features) -> tuple[Value, Value, DiagonalPullback]:
        size = sum(self.free[1:]) + (self.length_scale.size if self.free[0] else 0)
        return 1.0, 0.0, lambda g, g_noise: np.zeros(size)

    def curvature(self) -> tuple[float, Value] | None:
        return 1.0, self.length_scale**-2.0

    def _exponents(self, a: Features, b: Features, out: Floats | None = None) -> Floats:
        """Minus half the squared distances of the rows a and b; the swapped copy is made of the smaller side."""
        small = a.shape[-2] <= b.shape[-2]
        e = np.matmul(_swapped(a) if small else a, (b if small else _swapped(b)).swapaxes(-1, -2), out=out)
        return np.asarray(np.minimum(e, 0, out=e))  # rounding may leave a small positive number

    def _scale_gradient(self, a: Features, b: Features, e: Floats, G: Floats, slope: Floats, w: Value) -> Floats:
        """The sum of W de/dlog(l), with W = G slope w and de/dlog(l_i) = (a_i - b_i)^2, by one product with W."""
        W = G * slope
        if isinstance(w, np.ndarray):
            W *= w
            w = 1.0
        if self.length_scale.size == 1:
            return np.array([-2 * w * weighted_sum(W, e)])
        d = self.length_scale.size
        weighted = W @ b[..., [*range(d), d + 1]]  # the last column of these features is 1, so it sums W's rows
        x, y = a[..., :d].reshape(-1, d), b[..., :d].reshape(-1, d)
        squares = weighted[..., d].ravel() @ (x * x) + W.sum(axis=-2).ravel() @ (y * y)
        cross = np.einsum("ij,ij->j", x, weighted[..., :d].reshape(-1, d))
        return np.asarray(w * (squares - 2 * cross), dtype=np.float64)


@declares(spec.RBF, parameters=("length_scale",))
@dataclass(frozen=True)
class SquaredExponential(Stationary):
    """exp(e), the paper's kernel."""

    handed_over = "RBF"
    words = "squared-exponential, very smooth"

    def value(self, e: Floats) -> Floats:
        return np.exp(e, out=e)

    def derivatives(self, e: Floats) -> tuple[Floats, Floats, tuple[Floats, ...]]:
        k = np.exp(e)
        return k, k, ()

    def hand_over(self, maker: Maker) -> Any:
        return maker.squared_exponential(self.length_scale, self.free[0])


@declares(spec.Matern, parameters=("length_scale",))
@dataclass(frozen=True)
class Matern(Stationary):
    """Half-integer Matern kernels: a polynomial in rho = sqrt(-4 nu e) times exp(-rho)."""

    nu: float
    words: str
    handed_over = "Matern (nu of 1/2, 3/2, 5/2 or infinity)"

    @classmethod
    def of(cls, kernel: spec.Kernel, centre: Floats, dtype: np.dtype[Any]) -> Node:
        if kernel.nu == inf:
            return SquaredExponential.of(kernel, centre, dtype)
        if kernel.nu not in SMOOTHNESS:
            return Opaque(kernel, dtype, f"Matern {kernel.nu:g}")
        scale, free = length_scales(kernel, centre), (is_free(kernel, "length_scale"),)
        return cls(scale, free, centre, dtype, float(kernel.nu), SMOOTHNESS[kernel.nu])

    def value(self, e: Floats) -> Floats:
        e *= -4 * self.nu
        rho = np.sqrt(e, out=e)
        decay = np.exp(-rho)
        if self.nu == 0.5:
            return decay
        if self.nu == 1.5:
            rho += 1
        else:
            rho += 1 + rho * rho / 3
        rho *= decay
        return rho

    def derivatives(self, e: Floats) -> tuple[Floats, Floats, tuple[Floats, ...]]:
        rho = np.multiply(e, -4 * self.nu)
        np.sqrt(rho, out=rho)
        decay = np.exp(np.negative(rho))
        if self.nu == 0.5:
            # dk/de is infinite at e = 0, but it is multiplied by e there, and the product tends to 0.
            return decay, np.divide(decay, rho, out=np.zeros_like(rho), where=rho > 1e-8), ()
        once = rho + 1
        once *= decay
        if self.nu == 1.5:
            decay *= 3
            return once, decay, ()
        rho *= rho
        rho *= decay
        rho *= 1 / 3
        rho += once
        once *= 5 / 3
        return rho, once, ()

    def hand_over(self, maker: Maker) -> Any:
        return maker.matern(self.length_scale, self.free[0], self.nu)


@declares(spec.RationalQuadratic, parameters=("alpha", "length_scale"))
@dataclass(frozen=True)
class RationalQuadratic(Stationary):
    """(1 - e / alpha)^-alpha: a mixture of squared-exponentials of many length-scales."""

    alpha: float
    own_first = True
    handed_over = "RationalQuadratic"
    words = "rational quadratic"

    @classmethod
    def of(cls, kernel: spec.Kernel, centre: Floats, dtype: np.dtype[Any]) -> Node:
        scale = length_scales(kernel, centre)
        if scale.size > 1:
            raise ValueError(f"a RationalQuadratic kernel takes one length-scale for all columns; got {scale.size}.")
        free = (is_free(kernel, "length_scale"), is_free(kernel, "alpha"))
        return cls(scale, free, centre, dtype, float(kernel.alpha))

    def value(self, e: Floats) -> Floats:
        e *= -1 / self.alpha
        np.log1p(e, out=e)
        e *= -self.alpha
        return np.exp(e, out=e)

    def derivatives(self, e: Floats) -> tuple[Floats, Floats, tuple[Floats, ...]]:
        ratio = -e / self.alpha
        log = np.log1p(ratio)
        k = np.exp(-self.alpha * log)
        return k, k / (1 + ratio), (self.alpha * k * (ratio / (1 + ratio) - log),)

    def hand_over(self, maker: Maker) -> Any:
        return maker.rational_quadratic(self.length_scale, self.free[0], self.alpha, self.free[1])


def length_scales(kernel: spec.Kernel, centre: Floats) -> Floats:
    """The length-scales of a kernel, of shape (1,) or (d,)."""
    scale = np.atleast_1d(np.asarray(kernel.length_scale, dtype=np.float64))
    if scale.ndim != 1 or scale.size not in (1, centre.size):
        raise ValueError(
            f"kernel {kernel} has {scale.size} length-scales, but X has {centre.size} columns; "
            f"give one length-scale, or one per column."
        )
    return scale


def _swapped(features: Floats) -> Floats:
    """A copy of a stationary node's features with the last two columns swapped."""
    d = features.shape[-1] - 2
    return features[..., [*range(d), d + 1, d]]
