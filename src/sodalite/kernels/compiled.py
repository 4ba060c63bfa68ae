"""Compiling scikit-learn's kernel objects into expression trees that evaluate fast."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from sklearn.gaussian_process import kernels as spec

from ..core.types import Array, Floats, Indices, Mask
from .nodes import NODES, DiagonalPullback, Features, Node, Value, node_of
from .periodic import Cycle, Periodic

SOME = 1024  # rows in each of three places of X that the inputs are centred on


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
    root: Node
    """The root of the expression tree."""

    def saved(self) -> dict[str, Any]:
        """The arguments of `restore`."""
        return {"kernel": self.spec, "centre": self.centre, "dtype": self.dtype}

    @classmethod
    def restore(cls, kernel: spec.Kernel, centre: Floats, dtype: np.dtype[Any]) -> CompiledKernel:
        """The kernel that `saved` describes."""
        return compile_centred(kernel, centre, dtype)

    def prepare(self, X: Array) -> Features:
        """The rows of X (n x d), ready for `block`, `diag` and `noise`. O(n d)."""
        return self.root.prepare(X)

    def block(self, a: Features, b: Features, out: Floats | None = None) -> Floats:
        """k(A, B), the latent covariance: without noise, even where a row of A is a row of B. O(n_a n_b d).

        `out` is memory that may be used for the result. Rows may be stacked, as by ``take(a, indices)`` with indices of
        shape (..., rows); the result then holds one block for each.
        """
        return self._block(a, b, self.root.block(a, b, out))

    def diag(self, a: Features) -> Floats:
        """k(x, x) of every row, without noise."""
        return self._full(shape_of(a), self.root.diag(a)[0])

    def noise(self, a: Features) -> Floats:
        """The noise variance of every row, which ``WhiteKernel`` adds to the diagonal; always in float64."""
        return np.array(np.broadcast_to(self.root.diag(a)[1], shape_of(a)), dtype=np.float64)

    def vjp(self, a: Features, b: Features) -> tuple[Floats, Callable[[Floats], Floats]]:
        """k(A, B), and the function that turns dJ/dk(A, B) into dJ/dtheta (scikit-learn's log-parameters).

        The block must not be written to, since the function may use it.
        """
        value, pull = self.root.vjp(a, b)
        return self._block(a, b, value), lambda G: pull(G, 1.0)

    def diag_vjp(self, a: Features) -> tuple[Floats, Floats, DiagonalPullback]:
        """Latent and noise variances, and the function that turns the derivatives by both into dJ/dtheta."""
        latent, noise, pull = self.root.diag_vjp(a)
        shape = (n_rows(a),)
        return self._full(shape, latent), self._full(shape, noise), pull

    def metric(self) -> Floats | None:
        """Weights of the squared differences in each input, of shape (d,), for the distance of rows by the kernel.

        They are large for inputs that the covariance falls fast along. None if the covariance is no function of such a
        distance (periodic, linear and unknown kernels).
        """
        found = self.root.curvature()
        if found is None or not found[0] > 0:
            return None
        weights = np.array(np.broadcast_to(found[1] / found[0], self.centre.shape), dtype=np.float64)
        return weights if np.isfinite(weights).all() and weights.any() else None

    def cycles(self) -> list[Cycle]:
        """The periods of the kernel's components that are periodic in one input."""
        return [leaf.cycle(self.centre.size) for leaf in self.root.leaves() if isinstance(leaf, Periodic)]

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
    return compile_around(kernel, np.concatenate([X[part] for part in central_rows(len(X))]), dtype)


def central_rows(n: int) -> list[Indices]:
    """The first, middle and last `SOME` of n rows, since rows may be sorted: those that inputs are centred on."""
    begins = (0, n // 2, max(n - SOME, 0))
    return [np.arange(begin, min(begin + SOME, n)) for begin in begins]


def compile_around(kernel: spec.Kernel, some: Array, dtype: DTypeLike = np.float64) -> CompiledKernel:
    """Compile a scikit-learn kernel for rows of which `some`, by their `central_rows`, are known: `compile_kernel`."""
    if not isinstance(kernel, spec.Kernel):
        raise TypeError(
            f"kernel must be a kernel object of sklearn.gaussian_process.kernels, such as RBF() + WhiteKernel(); "
            f"got {kernel!r} of type {type(kernel).__name__}."
        )
    return compile_centred(kernel, _centre(some), np.dtype(dtype))


def _centre(some: Array) -> Floats:
    """A point amid most of some rows, of shape (d,)."""
    with np.errstate(over="ignore", invalid="ignore"):  # rows with values that large are refused when they are read
        some = some.astype(np.float64, copy=False)
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
    return CompiledKernel(kernel, dtype, centre, node_of(kernel, centre, dtype))


def _at(kernel: spec.Kernel, theta: Floats) -> tuple[spec.Kernel, Floats]:
    """A copy of a kernel with the first of some log-parameters, and the log-parameters that are left.

    The copy equals scikit-learn's ``clone_with_theta``, which inspects every part of the kernel and so takes a third of
    the time of a small table's likelihood.
    """
    node = NODES.get(type(kernel))
    if node is None:
        size = kernel.n_dims
        return kernel.clone_with_theta(theta[:size]), theta[size:]
    changed = copy(kernel)
    for name in node.operands:
        part, theta = _at(getattr(kernel, name), theta)
        setattr(changed, name, part)
    for name in node.parameters:
        part = getattr(kernel, "hyperparameter_" + name)
        if not part.fixed:
            setattr(changed, name, np.exp(theta[: part.n_elements] if part.n_elements > 1 else theta[0]))
            theta = theta[part.n_elements :]
    return changed, theta


def leaves(kernel: spec.Kernel) -> list[spec.Kernel]:
    """The leaves of a scikit-learn kernel, in order: the kernels in it that are no sum, product or power."""
    parts = [getattr(kernel, name, None) for name in ("k1", "k2", "kernel")]
    inner = [part for part in parts if isinstance(part, spec.Kernel)]
    return [leaf for part in inner for leaf in leaves(part)] if inner else [kernel]
