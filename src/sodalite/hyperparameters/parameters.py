"""The free parameters of a kernel: their names, and the length-scales that the data suggest."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
from sklearn.gaussian_process.kernels import ExpSineSquared, Kernel

from ..core.types import Floats
from ..kernels import robust_spread

VARIANCES = ("constant_value", "noise_level")  # names of parameters that are variances


def free_parameters(kernel: Kernel) -> list[tuple[str, slice]]:
    """The names of a kernel's free parameters, each with the slice of theta that holds it.

    A periodic kernel's length-scale is relative to its period, not to the inputs, so its name is
    ``periodic_length_scale``.
    """
    found, at = [], 0
    owners = kernel.get_params()
    for parameter in kernel.hyperparameters:
        if not parameter.fixed:
            owner, _, name = parameter.name.rpartition("__")
            is_periodic = isinstance(owners.get(owner, kernel), ExpSineSquared)
            found.append(("periodic_" + name if is_periodic else name, slice(at, at + parameter.n_elements)))
            at += parameter.n_elements
    return found


def natural_scale(X: Floats, here: slice) -> Floats:
    """Logarithms of the length-scales at which inputs begin to matter: their spread times sqrt(d).

    `here` is the slice of theta that holds the length-scales: one for each input, of shape (d,), or one for all, (1,).
    """
    scale = np.log(robust_spread(X) * sqrt(X.shape[1]))
    return np.asarray(scale if here.stop - here.start == len(scale) else scale.mean(keepdims=True))


def set_shares(variance: float, share: float, theta: Floats, parameters: list[tuple[str, slice]]) -> None:
    """Set the log-variances in theta: a share of a variance for the noise, and the rest for the signal."""
    for name, here in parameters:
        if name in VARIANCES:
            theta[here] = log(variance * (share if name == "noise_level" else 1 - share))


def is_within_bounds(kernel: Kernel) -> bool:
    """Whether all hyperparameters of a kernel are within their bounds."""
    low, high = kernel.bounds.T if kernel.n_dims else (kernel.theta, kernel.theta)
    return bool(((low <= kernel.theta) & (kernel.theta <= high)).all())


def clipped(theta: Floats, kernel: Kernel) -> Floats:
    """Log-parameters of shape (..., p), moved into the kernel's bounds."""
    low, high = kernel.bounds.T
    return np.asarray(np.clip(theta, low, high))
