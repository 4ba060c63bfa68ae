"""A fitted model in the parts that other libraries have: rows, inducing points, kernel and noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ..core.types import Floats
from ..fitting.fitted import Fitted, FittedModel
from ..kernels.nodes import Maker, White


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


def hand_over(model: FittedModel, maker: Maker, X: ArrayLike | None, y: ArrayLike | None) -> Handover:
    """Return a fitted model in parts. X and y are the rows to train on; by default those of the fit."""
    check_is_fitted(model, "fitted_")
    fitted = model.fitted_
    check_no_mean(fitted)
    compiled = fitted.posterior.kernel
    kernel = compiled.root.hand_over(maker)
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
        noise_is_free=any(leaf.free for leaf in compiled.root.leaves() if isinstance(leaf, White)),
        y_mean=fitted.scaling.mean.copy(),
        y_std=fitted.scaling.std.copy(),
    )


def check_no_mean(fitted: Fitted) -> None:
    """Refuse a model with a mean function, which no export can express."""
    if not fitted.target.is_plain:
        raise ValueError(
            f"The model learns its target on a scale of its own ({fitted.target or 'with bounds'}), which cannot be "
            'exported. Fit it with target="standardize" and without bounds.'
        )
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
    return X, fitted.scaling.scaled(y.reshape(len(X), q))
