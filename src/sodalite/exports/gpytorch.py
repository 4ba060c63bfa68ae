"""A fitted model as GPyTorch's sparse regression (SGPR)."""

from __future__ import annotations

from typing import Any

from ..core.optional import require
from ..kernels import stationary
from .handover import Handover, hand_over


def to_gpytorch(model: Any, X: Any = None, y: Any = None) -> Any:
    """A fitted model as a ``gpytorch.models.ExactGP`` whose inducing points are the active rows, ready to train on.

    Kernel and noise are at the values found, in float64; those that are fixed stay so. The targets are the scaled ones,
    (y - y_mean) / y_std, and so are its predictions: its buffers `y_mean` and `y_std` say by what. The likelihood is
    its attribute `likelihood`.

    Parameters
    ----------
    model : GreedyGPRegressor
        Fitted, with one target. Its kernel may hold ConstantKernel, RBF, Matern, RationalQuadratic and WhiteKernel.
    X, y : array-like of shape (n, d) and (n,), default=None
        The rows to train on, in the units of the fit; those of the fit by default. A model from a file may not have
        them.

    Notes
    -----
    With ``gpytorch.settings.sgpr_diagonal_correction(False)`` it predicts the mean of the posterior "vfe"; with that
    setting on, as GPyTorch has it by default, that of "fitc".
    """
    gpytorch, torch = require("gpytorch", "gpytorch"), require("torch", "gpytorch")
    parts = hand_over(model, _Maker(gpytorch, torch), X, y)
    if parts.Y.shape[1] > 1:
        raise ValueError(
            f"to_gpytorch hands over models of one target; this one has {parts.Y.shape[1]}. Fit one for each."
        )
    return _model(gpytorch, torch, parts)


def _model(gpytorch: Any, torch: Any, parts: Handover) -> Any:
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


class _Maker:
    """Kernels as GPyTorch has them."""

    def __init__(self, gpytorch: Any, torch: Any) -> None:
        self._kernels, self._torch = gpytorch.kernels, torch

    def constant(self, value: float, free: bool) -> Any:
        return self._set(self._kernels.ConstantKernel(), "constant", value, free)

    def scaled(self, value: float, free: bool, kernel: Any) -> Any:
        return self._set(self._kernels.ScaleKernel(kernel), "outputscale", value, free)

    def stationary(self, node: stationary.Stationary) -> Any:
        kinds, d = self._kernels, node.length_scale.size
        options = {"ard_num_dims": d} if d > 1 else {}
        profile = node.profile
        if isinstance(profile, stationary.Matern):
            kernel = kinds.MaternKernel(nu=profile.nu, **options)
        elif isinstance(profile, stationary.RationalQuadratic):
            kernel = self._set(kinds.RQKernel(**options), "alpha", profile.alpha, node.free[1])
        else:
            kernel = kinds.RBFKernel(**options)
        return self._set(kernel, "lengthscale", node.length_scale, node.free[0])

    def _set(self, kernel: Any, name: str, value: Any, free: bool) -> Any:
        kernel = kernel.double()
        raw = getattr(kernel, f"raw_{name}")
        setattr(kernel, name, self._torch.as_tensor(value, dtype=self._torch.float64).expand(raw.shape))
        raw.requires_grad_(free)
        return kernel
