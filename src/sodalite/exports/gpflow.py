"""A fitted model as GPflow's sparse regression (SGPR)."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from ..core.optional import require
from ..core.types import Floats
from ..fitting.fitted import FittedModel
from .handover import hand_over


def to_gpflow(model: FittedModel, X: ArrayLike | None = None, y: ArrayLike | None = None) -> Any:
    """Return a fitted model as a ``gpflow.models.SGPR`` whose inducing points are the active rows, for more training.

    Kernel and noise have the values that were found, in float64; parameters that are fixed stay fixed. Targets and
    predictions are scaled: (y - y_mean) / y_std, with its attributes `y_mean` and `y_std`.

    Parameters
    ----------
    model : GreedyGPRegressor
        Fitted. Its kernel may hold ConstantKernel, RBF, Matern, RationalQuadratic and WhiteKernel.
    X, y : array-like of shape (n, d) and (n,) or (n, q), default=None
        The rows to train on, in the units of the fit; by default those of the fit. A model from a file may not have
        them.

    Notes
    -----
    Its predictions are those of the posterior "vfe", except for the jitter that GPflow adds to the diagonal
    (``gpflow.config.default_jitter()``).
    """
    gpflow = require("gpflow", "gpflow")
    parts = hand_over(model, GPflowMaker(gpflow), X, y)
    likelihood = gpflow.likelihoods.Gaussian(parts.noise, variance_lower_bound=min(1e-6, 0.1 * parts.noise))
    gpflow.set_trainable(likelihood, parts.noise_is_free)
    process = gpflow.models.SGPR((parts.X, parts.Y), parts.kernel, parts.inducing, likelihood=likelihood)
    process.y_mean, process.y_std = parts.y_mean, parts.y_std
    return process


class GPflowMaker:
    """Makes GPflow's kernels. Each has a variance, which is 1 unless a constant multiplies it."""

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

    def squared_exponential(self, scale: Floats, free: bool) -> Any:
        return self._set(self._gpflow.kernels.SquaredExponential(**_options(scale)), free)

    def matern(self, scale: Floats, free: bool, nu: float) -> Any:
        kinds = self._gpflow.kernels
        kind = {0.5: kinds.Matern12, 1.5: kinds.Matern32, 2.5: kinds.Matern52}[nu]
        return self._set(kind(**_options(scale)), free)

    def rational_quadratic(self, scale: Floats, free: bool, alpha: float, alpha_is_free: bool) -> Any:
        kernel = self._gpflow.kernels.RationalQuadratic(alpha=alpha, **_options(scale))
        self._gpflow.set_trainable(kernel.alpha, alpha_is_free)
        return self._set(kernel, free)

    def _set(self, kernel: Any, free: bool) -> Any:
        """A kernel with a fixed variance, and a length-scale that may be trained if it is free."""
        self._gpflow.set_trainable(kernel.variance, False)
        self._gpflow.set_trainable(kernel.lengthscales, free)
        return kernel


def _options(scale: Floats) -> dict[str, Any]:
    """The arguments of a stationary kernel: a variance of 1, and one length-scale or one per input."""
    return {"variance": 1.0, "lengthscales": scale if scale.size > 1 else float(scale[0])}
