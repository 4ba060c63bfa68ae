"""Compiling scikit-learn's kernel objects into expression trees that evaluate fast."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from math import inf, pi
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from sklearn.gaussian_process import kernels as spec

from ..core.types import Array, Floats, Indices, Mask
from ..core.validation import is_whole
from . import nodes, stationary
from .nodes import DiagonalPullback, Features, Node, Value
from .periodic import PeriodicColumn

SOME = 1024  # rows in each of three places of X that the inputs are centred on

# The hyperparameters of the kernels that have nodes, in the order of theta: scikit-learn sorts them by name.
HYPERPARAMETERS = {
    spec.ConstantKernel: ("constant_value",),
    spec.WhiteKernel: ("noise_level",),
    spec.DotProduct: ("sigma_0",),
    spec.RBF: ("length_scale",),
    spec.Matern: ("length_scale",),
    spec.RationalQuadratic: ("alpha", "length_scale"),
    spec.ExpSineSquared: ("length_scale", "periodicity"),
    PeriodicColumn: ("length_scale", "periodicity"),
}


@dataclass(frozen=True)
class Cycle:
    """A period in one of d inputs."""

    period: Floats
    """The step from a row to the same phase of the next cycle, of shape (d,): zero but in one input."""
    weights: Floats
    """Weights of the squared differences in each input, of shape (d,), for the distance of rows within one cycle."""


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel's latent covariance, its noise, and the gradients of both.

    Rows are passed in the form that `prepare` gives them, so that work done once per row (centring, scaling, norms) is
    not repeated for every block.
    """

    spec: spec.Kernel
    dtype: np.dtype[Any]
    centre: Floats
    """A point amid the rows, of shape (d,), which inputs are centred on."""
    _root: Node

    @property
    def root(self) -> Node:
        """The root of the expression tree."""
        return self._root

    def prepare(self, X: Array) -> Features:
        """The rows of X (n x d), ready for `block`, `diag` and `noise`. O(n d)."""
        return self._root.prepare(X)

    def block(self, a: Features, b: Features, out: Floats | None = None) -> Floats:
        """k(A, B), the latent covariance: without noise, even where a row of A is a row of B. O(n_a n_b d).

        `out` is memory that may be used for the result. Rows may be stacked, as by ``take(a, indices)`` with indices of
        shape (..., rows); the result then holds one block for each.
        """
        return self._block(a, b, self._root.block(a, b, out))

    def diag(self, a: Features) -> Floats:
        """k(x, x) of every row, without noise."""
        return self._full(shape_of(a), self._root.diag(a)[0])

    def noise(self, a: Features) -> Floats:
        """The noise variance of every row, which ``WhiteKernel`` adds to the diagonal; always in float64."""
        return np.array(np.broadcast_to(self._root.diag(a)[1], shape_of(a)), dtype=np.float64)

    def vjp(self, a: Features, b: Features) -> tuple[Floats, Callable[[Floats], Floats]]:
        """k(A, B), and the function that turns dJ/dk(A, B) into dJ/dtheta (scikit-learn's log-parameters).

        The block must not be written to, since the function may use it.
        """
        value, pull = self._root.vjp(a, b)
        return self._block(a, b, value), lambda G: pull(G, 1.0)

    def diag_vjp(self, a: Features) -> tuple[Floats, Floats, DiagonalPullback]:
        """Latent and noise variances, and the function that turns the derivatives by both into dJ/dtheta."""
        latent, noise, pull = self._root.diag_vjp(a)
        shape = (n_rows(a),)
        return self._full(shape, latent), self._full(shape, noise), pull

    def metric(self) -> Floats | None:
        """Weights of the squared differences in each input, of shape (d,), for the distance of rows by the kernel.

        They are large for inputs that the covariance falls fast along. None if the covariance is no function of such a
        distance (periodic, linear and unknown kernels).
        """
        found = self._root.curvature()
        if found is None or not found[0] > 0:
            return None
        weights = np.array(np.broadcast_to(found[1] / found[0], self.centre.shape), dtype=np.float64)
        return weights if np.isfinite(weights).all() and weights.any() else None

    def cycles(self) -> list[Cycle]:
        """The periods of the kernel's components that are periodic in one input."""
        found, one = [], self.centre.size == 1
        for leaf in leaves(self.spec):
            if type(leaf) is PeriodicColumn or (one and type(leaf) is spec.ExpSineSquared):
                unit = np.zeros(self.centre.size)
                unit[getattr(leaf, "column", 0)] = 1.0
                rate = 2 * pi / (leaf.periodicity * leaf.length_scale)
                found.append(Cycle(unit * leaf.periodicity, unit * rate**2))
        return found

    def with_theta(self, theta: Floats) -> CompiledKernel:
        """The kernel with other log-parameters."""
        kernel, rest = _at(self.spec, theta)
        if len(rest):
            raise ValueError(f"theta must have an entry for each free parameter of {self.spec}; got {len(theta)}.")
        return compile_centred(kernel, self.centre, self.dtype)

    def in_double(self) -> CompiledKernel:
        """The kernel with float64 as its type."""
        return self if self.dtype == np.float64 else compile_centred(self.spec, self.centre, np.dtype(np.float64))

    def _block(self, a: Features, b: Features, value: Value) -> Floats:
        """A node's block as an array; `value` may be one number for all entries."""
        if isinstance(value, np.ndarray):
            return value
        first, second = shape_of(a), shape_of(b)
        return self._full((*np.broadcast_shapes(first[:-1], second[:-1]), first[-1], second[-1]), value)

    def _full(self, shape: tuple[int, ...], value: Value) -> Floats:
        with np.errstate(over="ignore"):  # infinite variances are checked for by the caller
            return np.array(np.broadcast_to(value, shape), dtype=self.dtype)


def compile_kernel(kernel: spec.Kernel, X: Any, dtype: DTypeLike = np.float64) -> CompiledKernel:
    """Compile a scikit-learn kernel for rows like those of X.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The specification, with the values of its hyperparameters.
    X : array-like of shape (n, d)
        Rows like those that the kernel will be evaluated at. Inputs are centred on these rows, so that fewer digits
        cancel in distances. The number of length-scales must fit the number of columns.
    dtype : float64 or float32
        The type in which blocks are evaluated.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> X = np.array([[0.0], [1.0]])
    >>> k = compile_kernel(RBF(1.0) + WhiteKernel(0.1), X)
    >>> rows = k.prepare(X)
    >>> k.block(rows, rows).round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    >>> k.noise(rows)
    array([0.1, 0.1])
    """
    if not isinstance(kernel, spec.Kernel):
        raise TypeError(
            f"kernel must be a kernel object of sklearn.gaussian_process.kernels, such as RBF() + WhiteKernel(); "
            f"got {kernel!r} of type {type(kernel).__name__}."
        )
    return compile_centred(kernel, _centre(X), np.dtype(dtype))


def _centre(X: Any) -> Floats:
    """A point amid most rows, of shape (d,), from the first, middle and last `SOME` rows: rows may be sorted."""
    parts = [np.asarray(X[begin : begin + SOME]) for begin in (0, X.shape[0] // 2, max(X.shape[0] - SOME, 0))]
    with np.errstate(over="ignore", invalid="ignore"):  # rows with values that large are refused when they are read
        some = np.concatenate(parts).astype(np.float64, copy=False)
        low, middle, high = np.quantile(some, [0.16, 0.5, 0.84], axis=0)
        mean = some.mean(axis=0)
        centre: Floats = np.where(np.abs(mean - middle) <= high - low, mean, middle)  # an outlier can move a mean far
        return centre


def n_rows(features: Features) -> int:
    """The number of rows of prepared features."""
    return shape_of(features)[-1]


def shape_of(features: Features) -> tuple[int, ...]:
    """The shape of prepared features without their width: (n,), or (..., n) if they are stacked."""
    while isinstance(features, tuple):
        features = features[0]
    return tuple(features.shape[:-1])


def take(features: Features, which: Indices | Mask | slice | list[int]) -> Features:
    """The prepared features of some rows."""
    if isinstance(features, tuple):
        return tuple(take(part, which) for part in features)
    return features[which]


def compile_centred(kernel: spec.Kernel, centre: Floats, dtype: np.dtype[Any]) -> CompiledKernel:
    """Compile a scikit-learn kernel for inputs that are centred on a given point, of shape (d,)."""
    return CompiledKernel(kernel, dtype, centre, _node(kernel, centre, dtype))


def _at(kernel: spec.Kernel, theta: Floats) -> tuple[spec.Kernel, Floats]:
    """A copy of a kernel with the first of some log-parameters, and the log-parameters that are left.

    The copy equals scikit-learn's ``clone_with_theta``, which inspects every part of the kernel and so takes a third of
    the time of a small table's likelihood.
    """
    kind = type(kernel)
    if kind is spec.Sum or kind is spec.Product:
        first, theta = _at(kernel.k1, theta)
        second, theta = _at(kernel.k2, theta)
        return kind(first, second), theta
    if kind is spec.Exponentiation:
        base, theta = _at(kernel.kernel, theta)
        return kind(base, kernel.exponent), theta
    if kind not in HYPERPARAMETERS:
        size = kernel.n_dims
        return kernel.clone_with_theta(theta[:size]), theta[size:]
    made = copy(kernel)
    for name in HYPERPARAMETERS[kind]:
        part = getattr(kernel, "hyperparameter_" + name)
        if not part.fixed:
            setattr(made, name, np.exp(theta[: part.n_elements] if part.n_elements > 1 else theta[0]))
            theta = theta[part.n_elements :]
    return made, theta


def _node(kernel: spec.Kernel, centre: Floats, dtype: np.dtype[Any]) -> Node:
    """The node of a scikit-learn kernel, found by exact type: a subclass may be another function."""
    kind = type(kernel)
    if kind is spec.Sum or kind is spec.Product:
        pair = nodes.Sum if kind is spec.Sum else nodes.Product
        return pair(_node(kernel.k1, centre, dtype), _node(kernel.k2, centre, dtype))
    if kind is spec.Exponentiation:
        return nodes.Power(_node(kernel.kernel, centre, dtype), float(kernel.exponent))
    if kind is spec.ConstantKernel:
        return nodes.Constant(float(kernel.constant_value), _free(kernel, "constant_value"))
    if kind is spec.WhiteKernel:
        return nodes.White(float(kernel.noise_level), _free(kernel, "noise_level"))
    if kind is spec.DotProduct:
        return nodes.DotProduct(float(kernel.sigma_0), _free(kernel, "sigma_0"), dtype)
    if kind is spec.CompoundKernel:
        raise TypeError("a CompoundKernel is several kernels side by side, not a covariance; use a sum or a product.")
    return _stationary_node(kernel, centre, dtype) or nodes.Opaque(kernel, dtype)


def _stationary_node(kernel: spec.Kernel, centre: Floats, dtype: np.dtype[Any]) -> Node | None:
    """The node of a stationary kernel of scikit-learn's, or None for another kernel."""
    kind, profile = type(kernel), _profile(kernel)
    if profile is None:
        return None
    if kind is spec.ExpSineSquared or kind is PeriodicColumn:
        free = (_free(kernel, "periodicity"), _free(kernel, "length_scale"))
        period = np.array([float(kernel.periodicity) / pi])
        column = _column(kernel, centre) if kind is PeriodicColumn else None
        centre = centre if column is None else centre[[column]]
        return stationary.Stationary(profile, period, free, True, centre, dtype, column)
    scale = _length_scale(kernel, centre)
    if kind is spec.RationalQuadratic:
        if scale.size > 1:
            raise ValueError(f"a RationalQuadratic kernel takes one length-scale for all columns; got {scale.size}.")
        free = (_free(kernel, "length_scale"), _free(kernel, "alpha"))
        return stationary.Stationary(profile, scale, free, True, centre, dtype)
    return stationary.Stationary(profile, scale, (_free(kernel, "length_scale"),), False, centre, dtype)


def _profile(kernel: spec.Kernel) -> stationary.Profile | None:
    """The profile of a stationary kernel of scikit-learn's, or None for another kernel."""
    kind = type(kernel)
    if kind is spec.RBF or (kind is spec.Matern and kernel.nu == inf):
        return stationary.SquaredExponential()
    if kind is spec.Matern and kernel.nu in (0.5, 1.5, 2.5):
        return stationary.Matern(float(kernel.nu))
    if kind is spec.RationalQuadratic:
        return stationary.RationalQuadratic(float(kernel.alpha))
    if kind is spec.ExpSineSquared or kind is PeriodicColumn:
        return stationary.Periodic(float(kernel.length_scale))
    return None


def leaves(kernel: spec.Kernel) -> list[spec.Kernel]:
    """The leaves of a scikit-learn kernel, in order: the kernels in it that are no sum, product or power."""
    parts = [getattr(kernel, name, None) for name in ("k1", "k2", "kernel")]
    inner = [part for part in parts if isinstance(part, spec.Kernel)]
    return [leaf for part in inner for leaf in leaves(part)] if inner else [kernel]


def _length_scale(kernel: spec.Kernel, centre: Floats) -> Floats:
    """The length-scales of a kernel, of shape (1,) or (d,)."""
    scale = np.atleast_1d(np.asarray(kernel.length_scale, dtype=np.float64))
    if scale.ndim != 1 or scale.size not in (1, centre.size):
        raise ValueError(
            f"kernel {kernel} has {scale.size} length-scales, but X has {centre.size} columns; "
            f"give one length-scale, or one per column."
        )
    return scale


def _column(kernel: PeriodicColumn, centre: Floats) -> int:
    """The checked column of a periodic kernel."""
    column = kernel.column
    if not is_whole(column) or not 0 <= column < centre.size:
        raise ValueError(f"kernel {kernel} needs a column from 0 to {centre.size - 1}, the last of X; got {column!r}.")
    return int(column)


def _free(kernel: spec.Kernel, name: str) -> bool:
    """Whether a hyperparameter is free: not fixed."""
    return not getattr(kernel, "hyperparameter_" + name).fixed
