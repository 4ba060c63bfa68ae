"""The log marginal likelihood of some rows, with its gradient, and its product with a weak prior.

The former is in docs/method.rst, `hyperparameters`, the latter in `exact-search`. Few rows leave a likelihood flat in
many directions. The prior keeps what they cannot tell near what is plausible: length-scales about their inputs' spread,
alike in units of it, and variances about the variance of the targets.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi

import numpy as np
from scipy.linalg import blas, lapack
from sklearn.gaussian_process.kernels import Kernel

from ..core.types import Array, Floats
from ..kernels import CompiledKernel, compile_kernel, take, variation
from ..kernels.jitter import LEAST, NoiseFloor, split_by_floor
from .parameters import free_parameters, natural_scale

PANEL = 256  # rows of the covariance that are evaluated at a time: the products of a panel stay in the cache

# The prior of a log-parameter is Student's t. Narrower priors hold small tables closer to what is typical; wider ones
# let a few rows choose extreme length-scales and noise (tests/hyperparameters/test_scales.py has such tables).
TYPICAL_NOISE = 0.1  # prior median of the noise, as a share of the targets' variance
TYPICAL_LENGTH = 2.0  # prior median of the length-scales' geometric mean, in units of spread times sqrt(d)
WIDTHS = {"length_scale": 1.0, "constant_value": 2.0, "noise_level": 3.0}  # scales of the priors, in logarithms
BETWEEN = 0.5  # scale of the prior of an input's log length-scale about the mean of all inputs', in logarithms
TAILS = 3.0  # degrees of freedom: heavy tails, since an input that does not matter may have any length-scale


class Likelihood:
    """The log marginal likelihood of some rows, per target value, and its gradient by a kernel's log-parameters.

    Several targets share the kernel, and their likelihoods add up. One evaluation costs O(n^3) time, O(n^2) memory.

    Parameters
    ----------
    kernel : scikit-learn kernel
    X, y, alpha : arrays of shape (n, d), (n, q) or (n,), and (n,) or None
    """

    def __init__(self, kernel: Kernel, X: Array, y: Floats, alpha: Floats | None = None) -> None:
        self.kernel = compile_kernel(kernel, X)
        self.X, self.alpha = X, alpha
        self.y = y.reshape(len(X), -1)

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """The value and the gradient; minus infinity where the covariance is not positive definite."""
        value, gradient = log_marginal_likelihood(self.kernel.with_theta(theta), self.X, self.y, self.alpha)
        return value / self.y.size, gradient / self.y.size


def log_marginal_likelihood(
    kernel: CompiledKernel, X: Array, y: Floats, alpha: Floats | None = None, least: float = LEAST
) -> tuple[float, Floats]:
    """Log p(y | X) = -y'a/2 - sum log L_ii - n/2 log 2 pi with a = (K + noise)^-1 y, and its gradient.

    Algorithm 2.1 and equation 5.9 of Rasmussen and Williams (2006). K, its factor, its inverse and the derivative
    dJ/dK = (a a' - (K + noise)^-1) / 2 are symmetric, so only lower triangles are computed: K in panels of rows, each
    with its own pullback through the kernel.

    Parameters
    ----------
    kernel : CompiledKernel
    X, y : arrays of shape (n, d) and (n, q)
    alpha : array of shape (n,), default=None
        Noise variances beyond the kernel's.
    least : float
        The noise floor, as a share of the largest prior variance.
    """
    n = len(y)
    features = kernel.prepare(X)
    panels = [slice(begin, min(begin + PANEL, n)) for begin in range(0, n, PANEL)]
    A = np.zeros((n, n))
    pulls = []
    for panel in panels:
        A[panel, : panel.stop], pull = kernel.vjp(take(features, panel), take(features, slice(0, panel.stop)))
        pulls.append(pull)
    latent, noise, pull_diagonal = kernel.diag_vjp(features)
    floor = NoiseFloor(latent, least)
    total = noise if alpha is None else noise + alpha
    A.flat[:: n + 1] += np.maximum(total, floor.value)

    solved = _value_and_derivative(A, y)
    if solved is None:
        return -np.inf, np.zeros(kernel.spec.n_dims)
    value, G = solved
    by_noise, by_floor = split_by_floor(np.diag(G), total <= floor.value)
    gradient = pull_diagonal(floor.by_latent(by_floor), by_noise)
    for panel, pull in zip(panels, pulls, strict=True):
        gradient += pull(G[panel, : panel.stop])
    return value, gradient


def _value_and_derivative(A: Floats, y: Floats) -> tuple[float, Floats] | None:
    """Log N(y; 0, A) and its derivative by A, from the lower triangle of A, which is overwritten.

    The derivative G, of shape (n, n), is zero above the diagonal: an entry below it counts for its mirror image too.
    None where A is not positive definite.
    """
    n, q = y.shape
    # LAPACK stores columns: what it sees as the upper triangle of A' is the lower triangle of A.
    L, failed = lapack.dpotrf(A.T, lower=0, clean=1, overwrite_a=1)
    if failed:
        return None
    log_determinant = 2 * float(np.log(np.diag(L)).sum())
    a, _ = lapack.dpotrs(L, y, lower=0)
    value = -0.5 * float(np.vdot(y, a)) - 0.5 * q * (log_determinant + n * log(2 * pi))
    inverse, _ = lapack.dpotri(L, lower=0, overwrite_c=1)
    G = blas.dsyrk(1.0, a, beta=-q, c=inverse, lower=0, overwrite_c=1).T
    G.flat[:: n + 1] *= 0.5
    return value, G


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
