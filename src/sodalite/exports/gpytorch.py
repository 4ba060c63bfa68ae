"""A fitted model as GPyTorch's sparse regression (SGPR)."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from ..core.optional import require
from ..core.types import Floats
from ..fitting.fitted import FittedModel
from .handover import Handover, hand_over


def to_gpytorch(model: FittedModel, X: ArrayLike | None = None, y: ArrayLike | None = None) -> Any:
    """Return a fitted model as a ``gpytorch.models.ExactGP`` whose inducing points are the active rows.

    It can be trained further. Kernel and noise have the values that were found, in float64; parameters that are fixed
    stay fixed. Targets and predictions are scaled: (y - y_mean) / y_std, with its buffers `y_mean` and `y_std`. Its
    attribute `likelihood` is the likelihood.

    Parameters
    ----------
    model : GreedyGPRegressor
        Fitted, with one target. Its kernel may hold ConstantKernel, RBF, Matern, RationalQuadratic and WhiteKernel.
    X, y : array-like of shape (n, d) and (n,), default=None
        The rows to train on, in the units of the fit; by default those of the fit. A model from a file may not have
        them.

    Notes
    -----
    With ``gpytorch.settings.sgpr_diagonal_correction(False)`` its mean is that of the posterior "vfe"; with that
    setting on, which is GPyTorch's default, that of "fitc".
    """
    gpytorch, torch = require("gpytorch", "gpytorch"), require("torch", "gpytorch")
    parts = hand_over(model, GPyTorchMaker(gpytorch, torch), X, y)
    if parts.Y.shape[1] > 1:
        raise ValueError(
            f"to_gpytorch hands over models of one target; this one has {parts.Y.shape[1]}. Fit one for each."
        )
    return _model(gpytorch, torch, parts)


def _model(gpytorch: Any, torch: Any, parts: Handover) -> Any:
    """The model, of a class that can only be defined once GPyTorch is imported."""

    class SparseGP(gpytorch.models.ExactGP):  # type: ignore[misc]
        """Sparse regression on inducing points."""

        def __init__(self, x: Any, t: Any, likelihood: Any) -> None:
            super().__init__(x, t, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.InducingPointKernel(
                parts.kernel, torch.from_numpy(parts.inducing), likelihood
            )
            self.register_buffer("y_mean", torch.from_numpy(parts.y_mean))
            self.register_buffer("y_std", torch.from_numpy(parts.y_std))

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    least = gpytorch.constraints.GreaterThan(min(1e-4, 0.1 * parts.noise))
    likelihood = gpytorch.likelihoods.GaussianLikelihood(noise_constraint=least).double()
    likelihood.noise = parts.noise
    likelihood.noise_covar.raw_noise.requires_grad_(parts.noise_is_free)
    return SparseGP(torch.from_numpy(parts.X), torch.from_numpy(parts.Y[:, 0].copy()), likelihood).double()


class GPyTorchMaker:
    """Makes GPyTorch's kernels."""

    def __init__(self, gpytorch: Any, torch: Any) -> None:
        self._kernels, self._torch = gpytorch.kernels, torch

    def constant(self, value: float, free: bool) -> Any:
        return self._set(self._kernels.ConstantKernel(), "constant", value, free)

    def scaled(self, value: float, free: bool, kernel: Any) -> Any:
        return self._set(self._kernels.ScaleKernel(kernel), "outputscale", value, free)

    def squared_exponential(self, scale: Floats, free: bool) -> Any:
        return self._set(self._kernels.RBFKernel(**_options(scale)), "lengthscale", scale, free)

    def matern(self, scale: Floats, free: bool, nu: float) -> Any:
        return self._set(self._kernels.MaternKernel(nu=nu, **_options(scale)), "lengthscale", scale, free)

    def rational_quadratic(self, scale: Floats, free: bool, alpha: float, alpha_is_free: bool) -> Any:
        kernel = self._set(self._kernels.RQKernel(**_options(scale)), "alpha", alpha, alpha_is_free)
        return self._set(kernel, "lengthscale", scale, free)

    def _set(self, kernel: Any, name: str, value: float | Floats, free: bool) -> Any:
        """A kernel in float64 with a parameter at this value, which may be trained if it is free."""
        kernel = kernel.double()
        raw = getattr(kernel, f"raw_{name}")
        setattr(kernel, name, self._torch.as_tensor(value, dtype=self._torch.float64).expand(raw.shape))
        raw.requires_grad_(free)
        return kernel


def _options(scale: Floats) -> dict[str, Any]:
    """The arguments of a stationary kernel: the number of inputs, if each has a length-scale."""
    return {"ard_num_dims": scale.size} if scale.size > 1 else {}
