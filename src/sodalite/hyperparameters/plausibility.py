"""The likelihood of a kernel's parameters times a weak prior (docs/method.rst, `exact-search`).

Few rows leave a likelihood flat in many directions. The prior keeps what they cannot tell near what is plausible:
length-scales about their inputs' spread, alike in units of it, and variances about the variance of the targets.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.types import Floats
from ..kernels import variation
from .likelihood import Likelihood
from .parameters import free_parameters, natural_scale

# The prior of a log-parameter is Student's t. Narrower priors hold small tables closer to what is typical; wider ones
# let a few rows choose extreme length-scales and noise (tests/hyperparameters/test_scales.py has such tables).
TYPICAL_NOISE = 0.1  # prior median of the noise, as a share of the targets' variance
TYPICAL_LENGTH = 2.0  # prior median of the length-scales' geometric mean, in units of spread times sqrt(d)
WIDTHS = {"length_scale": 1.0, "constant_value": 2.0, "noise_level": 3.0}  # scales of the priors, in logarithms
BETWEEN = 0.5  # scale of the prior of an input's log length-scale about the mean of all inputs', in logarithms
TAILS = 3.0  # degrees of freedom: heavy tails, since an input that does not matter may have any length-scale


@dataclass(frozen=True)
class Prior:
    """A product of Student t distributions of some log-parameters; the others have a flat prior.

    The logarithms of a vector of length-scales have one for their mean, and one for each one's difference from it.
    """

    parts: tuple[tuple[slice, Floats, float], ...]
    """For each vector of parameters: its slice of theta, the medians, and the scale of the prior of the mean."""

    @classmethod
    def of(cls, kernel: Kernel, X: Floats, y: Floats) -> Prior:
        """The prior for a kernel of rows X; of the targets, it knows only the variance."""
        variance, parts = variation(y), []
        for name, here in free_parameters(kernel):
            if name == "length_scale":
                parts.append((here, natural_scale(X, here) + log(TYPICAL_LENGTH), WIDTHS[name]))
            elif name in WIDTHS:
                typical = variance * (TYPICAL_NOISE if name == "noise_level" else 1.0)
                parts.append((here, np.full(1, log(typical)), WIDTHS[name]))
        return cls(tuple(parts))

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """The log density but for a constant, and its gradient, of shape (p,)."""
        value, gradient = 0.0, np.zeros(len(theta))
        for here, median, width in self.parts:
            off = theta[here] - median
            mean = off.mean()
            common, slope = _log_t(np.array([mean]), width)
            each, slopes = _log_t(off - mean, BETWEEN)
            value += common + each
            gradient[here] += slope / len(off) + slopes - slopes.mean()
        return value, gradient


def _log_t(x: Floats, width: float) -> tuple[float, Floats]:
    """The sum of the log densities of Student's t but for a constant, and the derivatives by x."""
    scaled = TAILS * width**2 + x * x
    weight = 0.5 * (TAILS + 1)
    return -weight * float(np.log(scaled / (TAILS * width**2)).sum()), -2 * weight * x / scaled


class Plausibility:
    """Log likelihood plus log prior, per target value, and the gradient by a kernel's log-parameters.

    Parameters
    ----------
    kernel : scikit-learn kernel
    X, y, alpha : arrays of shape (n, d), (n, q), and (n,) or None
    """

    def __init__(self, kernel: Kernel, X: Floats, y: Floats, alpha: Floats | None) -> None:
        self.likelihood, self.prior, self.size = Likelihood(kernel, X, y, alpha), Prior.of(kernel, X, y), y.size

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """The value and the gradient; minus infinity where the covariance is not positive definite."""
        value, gradient = self.likelihood(theta)
        extra, slope = self.prior(theta)
        return value + extra / self.size, gradient + slope / self.size
