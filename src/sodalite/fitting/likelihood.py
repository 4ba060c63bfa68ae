"""The log marginal likelihood of a fitted model at other hyperparameters; the active rows stay as they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..core.types import Floats
from ..hyperparameters import log_marginal_likelihood
from ..kernels import CompiledKernel
from ..posteriors import Evidence, Projected
from .fitted import Fitted


def likelihood_at(
    theta: ArrayLike, fitted: Fitted, memory_limit: int | float | str | None = None
) -> tuple[float, Floats]:
    """Return ``posterior.log_marginal_likelihood`` at some log-parameters, and its gradient by them.

    The projected processes ("sor", "dtc", "fitc", "vfe") have a likelihood of all rows, which costs O(n m^2); the other
    posteriors one of the active rows, which costs O(m^3).

    Parameters
    ----------
    theta : array-like of shape (p,)
        The log-parameters, as in ``kernel.theta``.
    fitted : Fitted
    memory_limit : int or str, optional
        Bytes for a pass over all rows.

    Returns
    -------
    value : float
        Minus infinity where the covariance is not positive definite.
    gradient : ndarray of shape (p,)
    """
    theta, p = np.asarray(theta, dtype=np.float64), fitted.posterior.kernel.spec.n_dims
    if theta.shape != (p,):
        raise ValueError(f"theta must have one entry for each of the {p} free parameters; got shape {theta.shape}.")
    kernel = fitted.posterior.kernel.with_theta(theta)
    if isinstance(fitted.posterior, Projected):
        return _of_all_rows(kernel, type(fitted.posterior), fitted, memory_limit)
    return _of_active_rows(kernel, fitted)


def _of_all_rows(
    kernel: CompiledKernel, kind: type[Projected], fitted: Fitted, memory_limit: int | float | str | None
) -> tuple[float, Floats]:
    """The log marginal likelihood of all rows by the model's kind of posterior, and its gradient."""
    if fitted.rows is None:
        raise ValueError(
            "This model holds its active rows alone, since it comes from a file or from a cluster, but its "
            "likelihood is that of all rows. Fit it again, or use posterior='sod' or 'local'."
        )
    evidence = Evidence(kernel, fitted.rows, fitted.selection, memory_limit)
    try:
        posterior = kind.condition(evidence)
    except np.linalg.LinAlgError:
        return -np.inf, np.zeros(kernel.spec.n_dims)
    return posterior.log_marginal_likelihood, posterior.gradient(evidence)


def _of_active_rows(kernel: CompiledKernel, fitted: Fitted) -> tuple[float, Floats]:
    """The log marginal likelihood of the active rows, and its gradient."""
    before, selection = fitted.posterior.kernel, fitted.selection
    X = np.asarray(fitted.X_active, dtype=np.float64)
    features = before.prepare(X)
    prior = before.diag(features)
    if fitted.rows is None:  # alpha is not stored: the diagonal of L L' is prior + noise + alpha
        diagonal = np.einsum("ij,ij->i", selection.factor, selection.factor)
        alpha = np.maximum(diagonal - prior - before.noise(features), 0)
    else:
        alpha = None if fitted.rows.alpha is None else fitted.rows.alpha[selection.indices]
    largest = float(prior.max())
    relative_floor = selection.noise_floor / largest if largest > 0 else 0.0
    return log_marginal_likelihood(kernel, X, fitted.y_active, alpha, relative_floor)
