"""A fitted model in the parts that other libraries have: rows, inducing points, kernel and noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ..core.types import Floats
from ..fitting.fitted import Fitted, FittedModel
from ..kernels import nodes, stationary

KNOWN = "ConstantKernel, RBF, Matern (nu of 1/2, 3/2, 5/2 or infinity), RationalQuadratic, WhiteKernel, sums, products"


@dataclass(frozen=True)
class Handover:
    """A model in parts that any library has."""

    X: Floats
    """The training rows, of shape (n, d)."""
    Y: Floats
    """The scaled targets, (y - y_mean) / y_std, of shape (n, q)."""
    inducing: Floats
    """The active rows, of shape (m, d)."""
    kernel: Any
    """The latent covariance, as the library's own kernel."""
    noise: float
    """The noise variance, in units of the scaled targets squared."""
    noise_is_free: bool
    """Whether the noise variance may be trained."""
    y_mean: Floats
    y_std: Floats


class Maker(Protocol):
    """How a library makes kernels. Its kernels can be added and multiplied."""

    def constant(self, value: float, free: bool) -> Any:
        """Return a constant covariance; `free` parameters may be trained."""
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


def hand_over(model: FittedModel, maker: Maker, X: ArrayLike | None, y: ArrayLike | None) -> Handover:
    """Return a fitted model in parts. X and y are the rows to train on; by default those of the fit."""
    check_is_fitted(model, "fitted_")
    fitted = model.fitted_
    check_no_mean(fitted)
    compiled = fitted.posterior.kernel
    kernel = build(compiled.root, maker)
    if kernel is None:
        raise ValueError(f"The kernel {fitted.kernel} is noise and nothing else: there is nothing to hand over.")
    if X is not None and y is not None:
        X, Y = _scaled_rows(fitted, np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64))
    elif X is None and y is None:
        X, Y = _own_rows(fitted)
    else:
        raise ValueError("X and y must be given together, or neither.")
    noise = float(compiled.noise(compiled.prepare(X[:1]))[0])  # these kernels have the same noise everywhere
    return Handover(
        X=np.array(X, dtype=np.float64),
        Y=np.array(Y, dtype=np.float64),
        inducing=np.array(fitted.X_active, dtype=np.float64),
        kernel=kernel,
        noise=max(noise, float(fitted.selection.noise_floor)),
        noise_is_free=_noise_is_free(compiled.root),
        y_mean=fitted.scaling.mean.copy(),
        y_std=fitted.scaling.std.copy(),
    )


def check_no_mean(fitted: Fitted) -> None:
    """Refuse a model with a mean function, which no export can express."""
    if not fitted.mean_function.is_constant:
        raise ValueError(
            f"The model has a mean function ({fitted.mean_function}), which cannot be exported. Fit it with mean=None."
        )


def _own_rows(fitted: Fitted) -> tuple[Floats, Floats]:
    """The rows of the fit, with scaled targets."""
    rows = fitted.rows
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


def _scaled_rows(fitted: Fitted, X: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Rows that the user gave, checked, with targets scaled as those of the fit."""
    q, d = fitted.q, fitted.X_active.shape[1]
    if X.ndim != 2 or X.shape[1] != d:
        raise ValueError(f"X must have shape (n, {d}), as the rows of the fit; got {X.shape}.")
    if y.shape not in ((len(X), q), *([(len(X),)] if q == 1 else [])):
        raise ValueError(f"y must hold {q} target{'s' * (q > 1)} of each of the {len(X)} rows; got {y.shape}.")
    return X, fitted.scaling(y.reshape(len(X), q), None)[0]


@singledispatch
def build(node: nodes.Node, maker: Maker) -> Any:
    """Return the latent part of a compiled kernel as another library's kernel; None for noise."""
    raise _refusal(node)


def _refusal(node: nodes.Node) -> ValueError:
    return ValueError(f"The kernel has {part_name(node)} in it, which cannot be handed over; these can: {KNOWN}.")


@build.register
def _(node: nodes.White, maker: Maker) -> Any:
    return None


@build.register
def _(node: nodes.Constant, maker: Maker) -> Any:
    return maker.constant(node.value, node.free)


@build.register
def _(node: nodes.Sum, maker: Maker) -> Any:
    left, right = build(node.left, maker), build(node.right, maker)
    if left is None or right is None:
        return right if left is None else left
    return left + right


@build.register
def _(node: nodes.Product, maker: Maker) -> Any:
    for constant, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(constant, nodes.Constant):
            kernel = build(other, maker)
            return None if kernel is None else maker.scaled(constant.value, constant.free, kernel)
    left, right = build(node.left, maker), build(node.right, maker)
    return None if left is None or right is None else left * right


@build.register
def _(node: stationary.Stationary, maker: Maker) -> Any:
    return _stationary(node.profile, node, maker)


@singledispatch
def _stationary(profile: stationary.Profile, node: stationary.Stationary, maker: Maker) -> Any:
    """The library's kernel for a profile."""
    raise _refusal(node)


@_stationary.register
def _(profile: stationary.SquaredExponential, node: stationary.Stationary, maker: Maker) -> Any:
    return maker.squared_exponential(node.length_scale, node.free[0])


@_stationary.register
def _(profile: stationary.Matern, node: stationary.Stationary, maker: Maker) -> Any:
    return maker.matern(node.length_scale, node.free[0], profile.nu)


@_stationary.register
def _(profile: stationary.RationalQuadratic, node: stationary.Stationary, maker: Maker) -> Any:
    return maker.rational_quadratic(node.length_scale, node.free[0], profile.alpha, node.free[1])


@singledispatch
def part_name(node: nodes.Node) -> str:
    """Return the user's name for a part of a kernel that cannot be handed over."""
    return "an ExpSineSquared"


@part_name.register
def _(node: nodes.Opaque) -> str:
    return repr(node.kernel)


@part_name.register
def _(node: nodes.Power) -> str:
    return f"a power (Exponentiation, {node.exponent:g})"


@part_name.register
def _(node: nodes.DotProduct) -> str:
    return "a DotProduct"


@singledispatch
def _noise_is_free(node: nodes.Node) -> bool:
    """Whether a kernel has noise whose variance may be trained."""
    return False


@_noise_is_free.register
def _(node: nodes.White) -> bool:
    return node.free


@_noise_is_free.register(nodes.Sum)
@_noise_is_free.register(nodes.Product)
def _(node: nodes.Sum | nodes.Product) -> bool:
    return _noise_is_free(node.left) or _noise_is_free(node.right)
