"""The log marginal likelihood of a fitted model at other hyperparameters, its active rows held."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.types import Array
from ..hyperparameters import log_marginal_likelihood
from ..posteriors.base import Evidence
from ..posteriors.gradient import evidence_gradient
from ..posteriors.projected import Projected
from .fitted import Fitted


def likelihood_at(theta: Any, fitted: Fitted, memory_limit: Any = None) -> tuple[float, Array]:
    """What ``posterior.log_marginal_likelihood`` is at some log-parameters, and its gradient by them.

    Parameters
    ----------
    theta : array-like of shape (p,)
        The log-parameters, as in ``kernel.theta``.
    fitted : Fitted
        O(m^3) for "sod" and "local", which need the active rows alone; O(n m^2) for the others, which need all rows.
    memory_limit : int or str, optional

    Returns
    -------
    value : float
        Minus infinity where the covariance is not positive definite.
    gradient : ndarray of shape (p,)
    """
    posterior, selection, rows = fitted.posterior, fitted.selection, fitted.rows
    theta, p = np.asarray(theta, dtype=np.float64), posterior.kernel.spec.n_dims
    if theta.shape != (p,):
        raise ValueError(f"theta must have one entry for each of the {p} free parameters; got shape {theta.shape}.")
    kernel = posterior.kernel.with_theta(theta)
    if isinstance(posterior, Projected):
        if rows is None:
            raise ValueError(
                "This model holds its active rows alone, since it comes from a file or from a cluster, but its "
                "likelihood is that of all rows. Fit it again, or use posterior='sod' or 'local'."
            )
        evidence = Evidence(kernel, rows, selection, memory_limit)
        try:
            made = type(posterior).condition(evidence)
        except np.linalg.LinAlgError:
            return -np.inf, np.zeros(p)
        return made.log_marginal_likelihood, evidence_gradient(made, evidence)
    X, y = np.asarray(fitted.X_active, dtype=np.float64), fitted.y_active
    features = posterior.kernel.prepare(X)
    latent = posterior.kernel.diag(features)
    if rows is None:  # of the rows' own noise, there is what is in the factor
        total = np.einsum("ij,ij->i", selection.factor, selection.factor) - latent
        alpha = np.maximum(total - posterior.kernel.noise(features), 0)
    else:
        alpha = None if rows.alpha is None else rows.alpha[selection.indices]
    prior = float(latent.max())
    return log_marginal_likelihood(kernel, X, y, alpha, selection.noise_floor / prior if prior > 0 else 0.0)
