"""The lower Cholesky factor L of k(I, I) + noise."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky

from ..core.jitter import with_jitter
from ..core.threads import one_blas_thread
from ..core.types import Floats


def covariance_factor(K: Floats, noise: Floats) -> Floats:
    """L, the lower Cholesky factor of K + diag(noise). O(m^3).

    Parameters
    ----------
    K : array of shape (m, m)
        Latent covariances.
    noise : array of shape (m,)
        Noise variances.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the sum is not positive definite to working precision.
    """
    return np.asarray(cholesky(K + np.diag(noise), lower=True))


def floored_factor(K: Floats, noise: Floats, prior_variance: float) -> tuple[Floats, float]:
    """L with no noise variance below the noise floor, and that floor (docs/method.rst, `noise-floor`). O(m^3).

    The floor is a small share of `prior_variance`, raised until the factor exists.
    """

    def attempt(floor: float) -> tuple[Floats, float]:
        return covariance_factor(K, np.maximum(noise, floor)), floor

    with one_blas_thread():
        return with_jitter(attempt, prior_variance)
