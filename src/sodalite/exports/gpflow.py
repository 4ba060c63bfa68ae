"""A fitted model as GPflow's sparse regression (SGPR)."""

from __future__ import annotations

from typing import Any

from ..core.optional import require
from ..kernels import stationary
from .handover import hand_over


def to_gpflow(model: Any, X: Any = None, y: Any = None) -> Any:
    """A fitted model as a ``gpflow.models.SGPR`` whose inducing points are the active rows, ready to train on.

    Kernel and noise are at the values found, in float64; those that are fixed stay so. The targets are the scaled ones,
    (y - y_mean) / y_std, and so are its predictions: its attributes `y_mean` and `y_std` say by what.

    Parameters
    ----------
    model : GreedyGPRegressor
        Fitted. Its kernel may hold ConstantKernel, RBF, Matern, RationalQuadratic and WhiteKernel.
    X, y : array-like of shape (n, d) and (n,) or (n, q), default=None
        The rows to train on, in the units of the fit; those of the fit by default. A model from a file may not have
        them.

    Notes
    -----
    It predicts the mean and the variance of the posterior "vfe", but for what GPflow adds to the diagonal
    (``gpflow.config.default_jitter()``).
    """
    gpflow = require("gpflow", "gpflow")
    parts = hand_over(model, _Maker(gpflow), X, y)
    likelihood = gpflow.likelihoods.Gaussian(parts.noise, variance_lower_bound=min(1e-6, 0.1 * parts.noise))
    gpflow.set_trainable(likelihood, parts.noise_is_free)
    found = gpflow.models.SGPR((parts.X, parts.Y), parts.kernel, parts.inducing, likelihood=likelihood)
    found.y_mean, found.y_std = parts.y_mean, parts.y_std
    return found


class _Maker:
    """Kernels as GPflow has them: each has a variance, which is 1 unless a constant multiplies it."""

    def __init__(self, gpflow: Any) -> None:
        self._gpflow = gpflow

    def constant(self, value: float, free: bool) -> Any:
        kernel = self._gpflow.kernels.Constant(value)
        self._gpflow.set_trainable(kernel, free)
        return kernel

    def scaled(self, value: float, free: bool, kernel: Any) -> Any:
        if not isinstance(kernel, self._gpflow.kernels.IsotropicStationary):
            return self.constant(value, free) * kernel
        kernel.variance.assign(value * kernel.variance)
        self._gpflow.set_trainable(kernel.variance, free or kernel.variance.trainable)
        return kernel

    def stationary(self, node: stationary.Stationary) -> Any:
        kinds, profile = self._gpflow.kernels, node.profile
        scale = node.length_scale if node.length_scale.size > 1 else float(node.length_scale[0])
        options = {"variance": 1.0, "lengthscales": scale}
        if isinstance(profile, stationary.Matern):
            kind = {0.5: kinds.Matern12, 1.5: kinds.Matern32, 2.5: kinds.Matern52}[profile.nu]
            kernel = kind(**options)
        elif isinstance(profile, stationary.RationalQuadratic):
            kernel = kinds.RationalQuadratic(alpha=profile.alpha, **options)
            self._gpflow.set_trainable(kernel.alpha, node.free[1])
        else:
            kernel = kinds.SquaredExponential(**options)
        self._gpflow.set_trainable(kernel.variance, False)
        self._gpflow.set_trainable(kernel.lengthscales, node.free[0])
        return kernel
