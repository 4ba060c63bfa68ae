"""The noise floor: the least noise variance on the diagonal of a covariance matrix that is factorised.

The paper's noiseless case inverts K_II itself, which rounding makes singular as soon as two active rows are close. So
the noise of a row is never taken below `JITTER` times the largest prior variance. A kernel with more noise than that is
not changed. If a factorisation fails all the same (the kernel is not quite positive definite), the floor is raised
tenfold, with a warning, and the work is done again (docs/method.rst, `noise-floor`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import DTypeLike

from .warn import warn

JITTER = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}
"""The noise floor over the largest prior variance, by the type of the factor. It is above the rounding error of the
covariances (2e-16 and 1e-7). A smaller floor lets more factorisations fail, a larger one changes more kernels."""

STEPS = 5  # how often the floor is raised tenfold before the error; a kernel that needs more is hardly a covariance

T = TypeVar("T")


class JitterWarning(UserWarning):
    """The diagonal of a covariance matrix was raised: it was not positive definite, or alpha was below the floor."""


def with_jitter(attempt: Callable[[float], T], prior_variance: float, dtype: DTypeLike = np.float64) -> T:
    """The result of ``attempt(floor)``; the noise floor is raised tenfold after each `LinAlgError`.

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
