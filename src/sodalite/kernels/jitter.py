"""The noise floor: the least noise variance on the diagonal of a covariance matrix that is factorised.

The paper's noiseless case inverts K_II itself, which rounding makes singular as soon as two active rows are close. So
the noise of a row is never taken below `JITTER` times the largest prior variance. A kernel with more noise than that is
not changed. If a factorisation fails all the same, the floor is raised tenfold until it succeeds (docs/method.rst,
`noise-floor`):

* for the active rows, with a warning, and at most `STEPS` times: the kernel is then likely not a covariance;
* for a neighbourhood, silently: its covariance given the active rows carries the rounding errors of their factor;
* a likelihood is minus infinity instead: the search looks elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg import cholesky
from scipy.linalg.lapack import dpotrf

from ..core.threads import one_blas_thread
from ..core.types import Floats, Mask
from ..core.warn import warn
from ..exceptions import JitterWarning

JITTER = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}
"""The noise floor over the largest prior variance, by the type of the factor. It is above the rounding error of the
covariances (2e-16 and 1e-7). A smaller floor lets more factorisations fail, a larger one changes more kernels."""

LEAST = JITTER[np.dtype(np.float64)]

STEPS = 5  # how often the floor is raised tenfold before the error; a kernel that needs more is hardly a covariance
MOST_STEPS = 16  # in a neighbourhood: the last jitter is 1e5 prior variances, more than the sum of any row of it

T = TypeVar("T")


class NoiseFloor:
    """The least noise variance of a row, as a share of the largest prior variance, and its derivatives.

    A row at the floor has noise that changes with the largest prior variance, not with its own noise parameters. So
    the derivative of an objective J by such noise belongs to the prior variance of one row.

    Parameters
    ----------
    latent : array of shape (n,)
        Prior variances k(x, x).
    least : float
        The share.
    """

    def __init__(self, latent: Floats, least: float = LEAST) -> None:
        self.latent, self.least = latent, least
        self.value = least * float(latent.max())

    def by_latent(self, by_floor: float) -> Floats:
        """dJ/dk(x, x), of shape (n,), as far as it goes through the floor, from dJ/dfloor."""
        gradient = np.zeros(len(self.latent))
        gradient[self.latent.argmax()] = self.least * by_floor
        return gradient


def split_by_floor(by_noise: Floats, at_floor: Mask) -> tuple[Floats, float]:
    """dJ/d(a row's own noise), which is zero at the floor, and dJ/dfloor, from dJ/d(noise as it is used)."""
    return np.where(at_floor, 0.0, by_noise), float(by_noise[at_floor].sum())


def with_jitter(attempt: Callable[[float], T], prior_variance: float, dtype: DTypeLike = np.float64) -> T:
    """The result of ``attempt(floor)``; the noise floor is raised tenfold after each `LinAlgError`, with a warning.

    Parameters
    ----------
    attempt : callable
        Takes the least noise variance that a row may have.
    prior_variance : float
        The largest k(x, x), which the floor is relative to.
    dtype : float64 or float32
        The type of the factor.
    """
    floor = JITTER[np.dtype(dtype)] * prior_variance
    for step in range(STEPS + 1):
        try:
            return attempt(floor)
        except np.linalg.LinAlgError:
            if step == STEPS:
                break
            floor *= 10
            warn(
                f"The covariance of the active rows is not positive definite to working precision; "
                f"trying again with at least {floor:.3g} of noise on its diagonal. "
                f"Adding a WhiteKernel to the kernel avoids this.",
                JitterWarning,
            )
    raise np.linalg.LinAlgError(
        f"The covariance of the active rows is not positive definite, even with {floor:.3g} of noise on its "
        f"diagonal. The kernel may not be a covariance function; if it is, add a WhiteKernel to it."
    )


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
    """L with no noise variance below the noise floor, and that floor, which is raised until the factor exists. O(m^3).

    Parameters
    ----------
    K, noise : arrays of shape (m, m) and (m,)
        Latent covariances and noise variances.
    prior_variance : float
        The largest k(x, x).
    """

    def attempt(floor: float) -> tuple[Floats, float]:
        return covariance_factor(K, np.maximum(noise, floor)), floor

    with one_blas_thread():
        return with_jitter(attempt, prior_variance)


def residual_factor(covariance: Callable[[], Floats], diagonal: Floats, prior_variance: float) -> Floats:
    """L, the lower factor of a covariance given other rows, with as much jitter as that takes. O(h^3).

    The rounding errors of such a covariance are those of the other rows' factor, which may be any share of the prior
    variance. So the diagonal is raised tenfold each time, in the end until it dominates its rows.

    Parameters
    ----------
    covariance : callable
        Returns a fresh column-major array of shape (h, h) with the covariances in its lower half.
    diagonal : array of shape (h,)
        The variances, noise included, which replace the diagonal.
    prior_variance : float
        The largest k(x, x).

    Returns
    -------
    array of shape (h, h)
        Above the diagonal it holds anything.
    """
    for jitter in (0.0, *(LEAST * prior_variance * 10.0**step for step in range(MOST_STEPS))):
        C = covariance()
        np.fill_diagonal(C, diagonal + jitter)
        L, failed = dpotrf(C, lower=1, clean=0, overwrite_a=1)
        if not failed:
            return np.asarray(L)
    raise np.linalg.LinAlgError(
        "The covariance of the rows of a neighbourhood is not positive definite, whatever noise is on its "
        "diagonal: the kernel is not a covariance function, or not finite. Use another kernel."
    )
