"""Rows chosen by `sodalite.select` as BoTorch's inducing points."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.gaussian_process import kernels as spec

from ..core.optional import require
from ..core.types import Floats
from ..criteria import Criterion
from ..fitting.pipeline import RandomState
from ..fitting.select import select


def greedy_allocator(
    y: ArrayLike | None = None,
    *,
    criterion: str | Criterion | None = None,
    noise: float = 0.1,
    random_state: RandomState = 0,
) -> Any:
    """Return a BoTorch ``InducingPointAllocator`` that takes the rows which `sodalite.select` chooses.

    Parameters
    ----------
    y : array-like of shape (n,), default=None
        The targets of the rows that BoTorch will pass, in their order; they are standardised here. Without targets,
        rows are chosen by their uncertainty alone.
    criterion : str or callable, default=None
        Which row comes next: see `sodalite.select`. None means "lookahead" with targets, and "uncertainty" without.
    noise : float, default=0.1
        The noise variance of the standardised targets, in the selection.
    random_state : int, default=0
        For the first row, and for criteria that draw rows.
    """
    torch = require("torch", "botorch")
    base = require("botorch.models.utils.inducing_point_allocators", "botorch").InducingPointAllocator
    standardised: Floats | None = None
    if y is not None:
        targets = np.asarray(y, dtype=np.float64).reshape(-1)
        standardised = (targets - targets.mean()) / (targets.std() or 1.0)
    chosen_criterion = criterion or ("uncertainty" if y is None else "lookahead")

    class GreedyAllocator(base):  # type: ignore[misc, valid-type]
        """Inducing points by the greedy choice of rows."""

        def _get_quality_function(self) -> Any:
            raise NotImplementedError("Rows are chosen by `sodalite.select`, not by a quality function of each row.")

        def allocate_inducing_points(
            self, inputs: Any, covar_module: Any, num_inducing: int, input_batch_shape: Any
        ) -> Any:
            """Return the inducing points, of shape (..., m, d)."""
            if standardised is not None and len(standardised) != inputs.shape[-2]:
                raise ValueError(f"y has {len(standardised)} targets, but BoTorch asks about {inputs.shape[-2]} rows.")
            if not len(input_batch_shape):  # several tasks share the points of the first
                return self._choose(inputs[0] if inputs.ndim > 2 else inputs, covar_module, num_inducing)
            stacked = inputs.expand(*input_batch_shape, *inputs.shape[-2:]).flatten(end_dim=-3)
            chosen = torch.stack([self._choose(part, covar_module, num_inducing) for part in stacked])
            return chosen.reshape(*input_batch_shape, *chosen.shape[-2:])

        @staticmethod
        def _choose(inputs: Any, covar_module: Any, count: int) -> Any:
            X = inputs.detach().cpu().double().numpy()
            kernel = TorchKernel(covar_module, inputs) + spec.WhiteKernel(noise)
            targets = np.zeros(len(X)) if standardised is None else standardised
            chosen = select(
                X,
                targets,
                kernel,
                n_active=min(count, len(X)),
                criterion=chosen_criterion,
                random_state=random_state,
            )
            return inputs[torch.from_numpy(chosen.indices)]

    return GreedyAllocator()


class TorchKernel(spec.StationaryKernelMixin, spec.Kernel):  # type: ignore[misc]
    """A GPyTorch covariance module as a scikit-learn kernel without parameters; that of the first of several tasks.

    Parameters
    ----------
    module : gpytorch.kernels.Kernel
    like : torch.Tensor
        Inputs are converted to its type and device.
    """

    def __init__(self, module: Any, like: Any) -> None:
        self.module = module
        self.like = like

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        K = self._numbers(self.module(self._tensor(X), self._tensor(X if Y is None else Y)).to_dense(), 2)
        return (K, np.empty((*K.shape, 0))) if eval_gradient else K

    def diag(self, X: Any) -> Any:
        """Return k(x, x) of every row."""
        return self._numbers(self.module(self._tensor(X), diag=True), 1)

    def _tensor(self, X: Any) -> Any:
        return self.like.new_tensor(X)

    @staticmethod
    def _numbers(values: Any, ndim: int) -> Any:
        while values.ndim > ndim:
            values = values[0]
        return values.detach().cpu().double().numpy()
