"""From scikit-learn's kernel objects to the expression that stands for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, pi
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels as spec

from ..core.types import Array
from . import nodes, stationary
from .nodes import DiagonalPullback, Features, Node, Value
from .periodic import PeriodicColumn


@dataclass(frozen=True)
class Cycle:
    """A period of one input."""

    period: Array
    """What takes a row to the same place of the next cycle; of shape (d,)."""
    weights: Array
    """Of the squared differences in each input, which say how near rows of the same cycle are; of shape (d,)."""


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel's latent covariance, its noise, and the gradients of both.

    The rows are passed in the form that `prepare` gives them, so that work done once per row (centring,
    scaling, norms) is not done again for every block.
    """

    spec: spec.Kernel
    dtype: np.dtype[Any]
    centre: Array
    _root: Node

    @property
    def root(self) -> Node:
        """The expression that the kernel was compiled to."""
        return self._root

    def prepare(self, X: Array) -> Features:
        """The rows of X (n x d), ready for `block`, `diag` and `noise`. O(n d)."""
        return self._root.prepare(X)

    def block(self, a: Features, b: Features, out: Array | None = None) -> Array:
        """k(A, B), the latent covariance: no noise, also where a row of A is a row of B. O(n_a n_b d).

        `out` is memory that may be used for the result; it need not be. Rows may be stacked, as by ``take(a, indices)``
        with indices of shape (..., rows): one block for each.
        """
        return self._block(a, b, self._root.block(a, b, out))

    def diag(self, a: Features) -> Array:
        """k(x, x) for every row, without the noise."""
        return self._full(shape_of(a), self._root.diag(a)[0])

    def noise(self, a: Features) -> Array:
        """The noise variance of every row, what ``WhiteKernel`` adds to the diagonal; always in float64."""
        return np.array(np.broadcast_to(self._root.diag(a)[1], shape_of(a)), dtype=np.float64)

    def vjp(self, a: Features, b: Features) -> tuple[Array, Callable[[Array], Array]]:
        """k(A, B), and the function that turns dJ/dk(A, B) into dJ/dtheta (scikit-learn's log-parameters).

        The block is not to be written to: the function may need it.
        """
        value, pull = self._root.vjp(a, b)
        return self._block(a, b, value), lambda G: pull(G, 1.0)

    def diag_vjp(self, a: Features) -> tuple[Array, Array, DiagonalPullback]:
        """Diagonal and noise, and the function that turns the derivatives by both into dJ/dtheta."""
        latent, noise, pull = self._root.diag_vjp(a)
        shape = (n_rows(a),)
        return self._full(shape, latent), self._full(shape, noise), pull

    def metric(self) -> Array | None:
        """Weights of the squared differences in each input: small where the kernel says that two rows are near.

        None where the covariance is no function of such a distance (periodic or linear kernels, and unknown ones).
        """
        found = self._root.curvature()
        if found is None or not found[0] > 0:
            return None
        weights = np.array(np.broadcast_to(found[1] / found[0], self.centre.shape), dtype=np.float64)
        return weights if np.isfinite(weights).all() and weights.any() else None

    def cycles(self) -> list[Cycle]:
        """The periods in it that are those of one input."""
        found, one = [], self.centre.size == 1
        for leaf in leaves(self.spec):
            if type(leaf) is PeriodicColumn or (one and type(leaf) is spec.ExpSineSquared):
                unit = np.zeros(self.centre.size)
                unit[getattr(leaf, "column", 0)] = 1.0
                rate = 2 * pi / (leaf.periodicity * leaf.length_scale)
                found.append(Cycle(unit * leaf.periodicity, unit * rate**2))
        return found

    def with_theta(self, theta: Array) -> CompiledKernel:
        """The same kernel at other log-parameters."""
        return _compile(self.spec.clone_with_theta(theta), self.centre, self.dtype)

    def in_double(self) -> CompiledKernel:
        """The same kernel in float64."""
        return self if self.dtype == np.float64 else _compile(self.spec, self.centre, np.dtype(np.float64))

    def _block(self, a: Features, b: Features, value: Value) -> Array:
        if isinstance(value, np.ndarray):
            return value
        first, second = shape_of(a), shape_of(b)
        return self._full((*np.broadcast_shapes(first[:-1], second[:-1]), first[-1], second[-1]), value)

    def _full(self, shape: tuple[int, ...], value: Value) -> Array:
        with np.errstate(over="ignore"):  # an infinite variance is told of by whoever asked for it
            return np.array(np.broadcast_to(value, shape), dtype=self.dtype)


def compile_kernel(kernel: spec.Kernel, X: Any, dtype: Any = np.float64) -> CompiledKernel:
    """Compile a scikit-learn kernel for rows like those of X.

    Parameters
    ----------
    kernel : sklearn.gaussian_process.kernels.Kernel
        The specification. Its hyperparameters are taken at their present values.
    X : array of shape (n, d)
        Rows that the inputs are centred on before products (which would otherwise cancel), and whose width the
        kernel's length-scales must fit.
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
    # A point in the midst of most rows, so that their coordinates are small; sorted rows have theirs at neither end.
    parts = [np.asarray(X[begin : begin + 1024]) for begin in (0, X.shape[0] // 2, max(X.shape[0] - 1024, 0))]
    with np.errstate(over="ignore", invalid="ignore"):  # rows with values that large are refused when they are read
        some = np.concatenate(parts).astype(np.float64, copy=False)
        low, middle, high = np.quantile(some, [0.16, 0.5, 0.84], axis=0)
        mean = some.mean(axis=0)
        centre = np.where(np.abs(mean - middle) <= high - low, mean, middle)  # a mean may be an outlier's alone
    return _compile(kernel, centre, np.dtype(dtype))


def n_rows(features: Features) -> int:
    """How many rows some prepared features hold."""
    return shape_of(features)[-1]


def shape_of(features: Features) -> tuple[int, ...]:
    """How many rows some prepared features hold, after the shape of the stack that they are in."""
    while isinstance(features, tuple):
        features = features[0]
    return tuple(features.shape[:-1])


def take(features: Features, rows: Any) -> Features:
    """Some of the rows (an index, a mask or a slice) of prepared features."""
    if isinstance(features, tuple):
        return tuple(take(part, rows) for part in features)
    return features[rows]


def _compile(kernel: spec.Kernel, centre: Array, dtype: np.dtype[Any]) -> CompiledKernel:
    return CompiledKernel(kernel, dtype, centre, _node(kernel, centre, dtype))


def _node(kernel: spec.Kernel, centre: Array, dtype: np.dtype[Any]) -> Node:
    """The node of a scikit-learn kernel; by exact type, because a subclass may mean something else."""
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
    if kind is spec.RBF or (kind is spec.Matern and kernel.nu in (0.5, 1.5, 2.5, inf)):
        scale = _length_scale(kernel, centre)
        smooth = kind is spec.RBF or kernel.nu == inf
        profile: stationary.Profile = stationary.SquaredExponential() if smooth else stationary.Matern(float(kernel.nu))
        return stationary.Stationary(profile, scale, (_free(kernel, "length_scale"),), False, centre, dtype)
    if kind is spec.RationalQuadratic:
        free = (_free(kernel, "length_scale"), _free(kernel, "alpha"))
        scale = _length_scale(kernel, centre)
        if scale.size > 1:
            raise ValueError(f"a RationalQuadratic kernel takes one length-scale for all columns; got {scale.size}.")
        return stationary.Stationary(
            stationary.RationalQuadratic(float(kernel.alpha)), scale, free, True, centre, dtype
        )
    if kind is spec.ExpSineSquared or kind is PeriodicColumn:
        free = (_free(kernel, "periodicity"), _free(kernel, "length_scale"))
        period = np.array([float(kernel.periodicity) / pi])
        column = _column(kernel, centre) if kind is PeriodicColumn else None
        centre = centre if column is None else centre[[column]]
        profile = stationary.Periodic(float(kernel.length_scale))
        return stationary.Stationary(profile, period, free, True, centre, dtype, column)
    if kind is spec.CompoundKernel:
        raise TypeError("a CompoundKernel is several kernels side by side, not a covariance; use a sum or a product.")
    return nodes.Opaque(kernel, dtype)


def leaves(kernel: spec.Kernel) -> list[spec.Kernel]:
    """The kernels that a scikit-learn kernel is made of, none of them a sum, a product or a power, in order."""
    parts = [getattr(kernel, name, None) for name in ("k1", "k2", "kernel")]
    inner = [part for part in parts if isinstance(part, spec.Kernel)]
    return [leaf for part in inner for leaf in leaves(part)] if inner else [kernel]


def _length_scale(kernel: spec.Kernel, centre: Array) -> Array:
    scale = np.atleast_1d(np.asarray(kernel.length_scale, dtype=np.float64))
    if scale.ndim != 1 or scale.size not in (1, centre.size):
        raise ValueError(
            f"kernel {kernel} has {scale.size} length-scales, but X has {centre.size} columns; "
            f"give one length-scale, or one per column."
        )
    return scale


def _column(kernel: PeriodicColumn, centre: Array) -> int:
    column = kernel.column
    if isinstance(column, bool) or not isinstance(column, Integral) or not 0 <= column < centre.size:
        raise ValueError(f"kernel {kernel} needs a column from 0 to {centre.size - 1}, the last of X; got {column!r}.")
    return int(column)


def _free(kernel: spec.Kernel, name: str) -> bool:
    return not getattr(kernel, "hyperparameter_" + name).fixed
