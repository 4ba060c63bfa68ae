"""The least noise that a factor is given.

The paper's noiseless case has K_II alone under the inverse, which rounding makes singular as soon as two
active rows are close. So the noise of a row is never taken below `JITTER` times the largest prior variance.
Where a kernel has real noise above that, nothing is added. If a factor fails all the same (a kernel that is
not quite positive definite), the floor is raised tenfold, with a warning, and the work is done again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

JITTER = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}
STEPS = 5

T = TypeVar("T")


class JitterWarning(UserWarning):
    """The diagonal of a covariance matrix was raised: it was not positive definite, or alpha was below the floor."""


def with_jitter(attempt: Callable[[float], T], prior_variance: float, dtype: Any = np.float64) -> T:
    """Call ``attempt(floor)``, raising the noise floor tenfold each time it ends in a `LinAlgError`.

    Parameters
    ----------
    attempt : callable
        Takes the least noise variance that a row may have.
    prior_variance : float
        The largest k(x, x): what the floor is relative to.
    dtype : float64 or float32
        The type that the factor is computed in.
    """
    floor = JITTER[np.dtype(dtype)] * prior_variance
    for step in range(STEPS + 1):
        try:
            return attempt(floor)
        except np.linalg.LinAlgError:
            if step == STEPS:
                break
            floor *= 10
            warnings.warn(
                f"The covariance of the active rows is not positive definite to working precision; "
                f"trying again with at least {floor:.3g} of noise on its diagonal. "
                f"Adding a WhiteKernel to the kernel avoids this.",
                JitterWarning,
                stacklevel=3,
            )
    raise np.linalg.LinAlgError(
        f"The covariance of the active rows is not positive definite, even with {floor:.3g} of noise on its "
        f"diagonal. The kernel may not be a covariance function; if it is, add a WhiteKernel to it."
    )
