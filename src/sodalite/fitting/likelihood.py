"""The log marginal likelihood of a fitted model at other hyperparameters, its active rows held."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..hyperparameters import log_marginal_likelihood
from ..kernels import Array
from ..posteriors.base import Evidence, Posterior
from ..posteriors.gradient import evidence_gradient
from ..posteriors.projected import Projected
from ..selection.loop import Selection


def likelihood_at(
    theta: Any,
    posterior: Posterior,
    selection: Selection,
    active: tuple[Array, Array],
    rows: tuple[Array, Array, Array | None] | None,
    memory_limit: Any = None,
) -> tuple[float, Array]:
    """What ``posterior.log_marginal_likelihood`` is at some log-parameters, and its gradient by them.

    Parameters
    ----------
    theta : array-like of shape (p,)
        The log-parameters, as in ``kernel.theta``.
    posterior : Posterior
    selection : Selection
    active : tuple of arrays of shape (m, d) and (m, q)
        The active rows: inputs and scaled targets. O(m^3) is all that "sod" and "local" take.
    rows : tuple of arrays of shape (n, d) and (n, q), and of shape (n,) or None; or None
        All rows, with the noise variances that they have beyond the kernel's, if they are at hand. The other posteriors
        need them: O(n m^2).
    memory_limit : int or str, optional

    Returns
    -------
    value : float
        Minus infinity where the covariance is not positive definite.
    gradient : ndarray of shape (p,)
    """
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
        X, y, alpha = rows
        evidence = Evidence(kernel, X, y, selection, alpha, memory_limit)
        try:
            made = type(posterior).condition(evidence)
        except np.linalg.LinAlgError:
            return -np.inf, np.zeros(p)
        return made.log_marginal_likelihood, evidence_gradient(made, evidence)
    X, y = np.asarray(active[0], dtype=np.float64), active[1]
    features = posterior.kernel.prepare(X)
    latent = posterior.kernel.diag(features)
    if rows is None:  # of the rows' own noise, there is what is in the factor
        total = np.einsum("ij,ij->i", selection.factor, selection.factor) - latent
        alpha = np.maximum(total - posterior.kernel.noise(features), 0)
    else:
        alpha = None if rows[2] is None else rows[2][selection.indices]
    prior = float(latent.max())
    return log_marginal_likelihood(kernel, X, y, alpha, selection.noise_floor / prior if prior > 0 else 0.0)
