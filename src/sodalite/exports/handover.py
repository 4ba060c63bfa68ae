"""What another library is given: the rows, the active ones as inducing points, the kernel and the noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.types import Array
from ..kernels import nodes, stationary

KNOWN = "ConstantKernel, RBF, Matern (nu of 1/2, 3/2, 5/2 or infinity), RationalQuadratic, WhiteKernel, sums, products"


@dataclass(frozen=True)
class Handover:
    """A model in parts that any library has."""

    X: Array
    """The training rows; of shape (n, d)."""
    Y: Array
    """The scaled targets, (y - y_mean) / y_std; of shape (n, q)."""
    inducing: Array
    """The active rows; of shape (m, d)."""
    kernel: Any
    """The library's own kernel: the latent part."""
    noise: float
    """The noise variance, in units of the scaled targets squared."""
    noise_is_free: bool
    """Whether it is to be trained."""
    y_mean: Array
    y_std: Array


class Maker(Protocol):
    """How a library makes kernels; two of them can be added and multiplied."""

    def constant(self, value: float, free: bool) -> Any:
        """The same covariance everywhere."""
        ...

    def scaled(self, value: float, free: bool, kernel: Any) -> Any:
        """A constant times a kernel."""
        ...

    def stationary(self, node: stationary.Stationary) -> Any:
        """A squared-exponential, Matern or rational quadratic kernel."""
        ...


def hand_over(model: Any, maker: Maker, X: Any, y: Any) -> Handover:
    """A fitted model in parts; of rows that are not given, those of the fit."""
    check_is_fitted(model, "posterior_")
    compiled = model.posterior_.kernel
    kernel = build(compiled.root, maker)
    if kernel is None:
        raise ValueError(f"The kernel {model.kernel_} is noise and nothing else: there is nothing to hand over.")
    if (X is None) != (y is None):
        raise ValueError("X and y must be given together, or neither.")
    if X is None:
        X, Y = _own_rows(model)
    else:
        X, Y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        q, d = len(model.y_mean_), model.n_features_in_
        if X.ndim != 2 or X.shape[1] != d:
            raise ValueError(f"X must have shape (n, {d}), as the rows of the fit; got {X.shape}.")
        if Y.shape not in ((len(X), q), *([(len(X),)] if q == 1 else [])):
            raise ValueError(f"y must hold {q} target{'s' * (q > 1)} of each of the {len(X)} rows; got {Y.shape}.")
        Y = (Y.reshape(len(X), q) - model.y_mean_) / model.y_std_
    noise = float(compiled.noise(compiled.prepare(X[:1]))[0])  # of stationary kernels, the same everywhere
    return Handover(
        X=np.array(X, dtype=np.float64),
        Y=np.array(Y, dtype=np.float64),
        inducing=np.array(model.X_train_, dtype=np.float64),
        kernel=kernel,
        noise=max(noise, float(model.selection_.noise_floor)),
        noise_is_free=_noise_is_free(compiled.root),
        y_mean=model.y_mean_.copy(),
        y_std=model.y_std_.copy(),
    )


def build(node: Any, maker: Maker) -> Any:
    """The latent part of a compiled kernel as another library's; None where there is none, as of noise."""
    if isinstance(node, nodes.White):
        return None
    if isinstance(node, nodes.Constant):
        return maker.constant(node.value, node.free)
    if isinstance(node, nodes.Sum):
        left, right = build(node.left, maker), build(node.right, maker)
        if left is None or right is None:
            return right if left is None else left
        return left + right
    if isinstance(node, nodes.Product):
        for constant, other in ((node.left, node.right), (node.right, node.left)):
            if isinstance(constant, nodes.Constant):
                kernel = build(other, maker)
                return None if kernel is None else maker.scaled(constant.value, constant.free, kernel)
        left, right = build(node.left, maker), build(node.right, maker)
        return None if left is None or right is None else left * right
    if isinstance(node, stationary.Stationary) and not isinstance(node.profile, stationary.Periodic):
        return maker.stationary(node)
    raise ValueError(f"The kernel has {part_name(node)} in it, which cannot be handed over; these can: {KNOWN}.")


def part_name(node: Any) -> str:
    """What the user calls a part of a kernel."""
    if isinstance(node, nodes.Opaque):
        return repr(node.kernel)
    if isinstance(node, nodes.Power):
        return f"a power (Exponentiation, {node.exponent:g})"
    if isinstance(node, nodes.DotProduct):
        return "a DotProduct"
    return "an ExpSineSquared"


def _own_rows(model: Any) -> tuple[Array, Array]:
    rows = model.fitted_.rows
    if rows is None:
        raise ValueError(
            "This model comes from a file that holds its active rows alone: pass the training rows as X and y."
        )
    if rows.alpha is not None:
        raise ValueError(
            "The model was fitted with noise of each row's own (alpha), which cannot be handed over. Pass the rows as "
            "X and y to have the kernel's noise for all."
        )
    return rows.X, rows.y


def _noise_is_free(node: Any) -> bool:
    if isinstance(node, nodes.Sum | nodes.Product):
        return _noise_is_free(node.left) or _noise_is_free(node.right)
    return isinstance(node, nodes.White) and node.free
