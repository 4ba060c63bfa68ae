"""A fitted model: all that a fit has found, in one frozen object."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.types import Array
from ..hyperparameters import Round
from ..posteriors import Posterior
from ..posteriors.baselines import Baselines
from ..selection.loop import Selection
from ..selection.source import Arrays, Scaling


@dataclass(frozen=True)
class Fitted:
    """All that a fit has found. Targets are scaled, unless it says otherwise."""

    kernel: Kernel
    """With the hyperparameters that were found."""
    selection: Selection
    posterior: Posterior
    scaling: Scaling
    """What the targets were centred and scaled by."""
    target_shape: tuple[int, ...]
    """() for targets of shape (n,), (q,) for targets of shape (n, q)."""
    n_rows: int
    """Rows of the fit, active or not."""
    X_active: Array
    """Inputs of the active rows, of shape (m, d)."""
    y_active: Array
    """Targets of the active rows, of shape (m, q)."""
    optimism: float = 1.0
    """`sodalite.hyperparameters.Found.optimism`."""
    rounds: tuple[Round, ...] = ()
    """How the hyperparameters were found."""
    baselines: Baselines | None = None
    """The model beside simple ones; None if it has no leave-one-out errors."""
    rows: Arrays | None = None
    """All rows of the fit; None if they are not on this machine, or were not kept in a file."""

    def without_rows(self) -> Fitted:
        """The same model without the rows that no prediction needs."""
        return replace(self, rows=None)

    @property
    def q(self) -> int:
        """How many targets there are."""
        return len(self.scaling.mean)

    @property
    def y_train(self) -> Array:
        """Scaled targets of the active rows, of shape (m,) or (m, q) as y was."""
        return self.y_active.reshape(-1, *self.target_shape)

    def mean(self, X: Array) -> Array:
        """The predictive mean in units of y, of shape (n, q)."""
        return self._in_units(self.posterior.mean(X))

    def mean_and_std(self, X: Array) -> tuple[Array, Array]:
        """The mean and the standard deviation of new observations in units of y; of shape (n, q)."""
        mean, variance = self.posterior.mean_and_variance(X, noisy=True)
        return self._in_units(mean), np.multiply.outer(np.sqrt(variance), self.scaling.std)

    def mean_and_covariance(self, X: Array) -> tuple[Array, Array]:
        """The mean, of shape (n, q), and the covariance of new observations, of shape (n, n, q), in units of y."""
        mean, covariance = self.posterior.mean_and_covariance(X, noisy=True)
        return self._in_units(mean), np.multiply.outer(covariance, self.scaling.std**2)

    def mean_std_novelty(self, X: Array) -> tuple[Array, Array, Array]:
        """The mean and the standard deviation, of shape (n, q), and the novelty, of shape (n,), at once."""
        mean, variance, novelty = self.posterior.mean_variance_novelty(X, noisy=True)
        return self._in_units(mean), np.multiply.outer(np.sqrt(variance), self.scaling.std), novelty

    def _in_units(self, mean: Array) -> Array:
        return np.asarray(mean * self.scaling.std + self.scaling.mean)
