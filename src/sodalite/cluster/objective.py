"""J over all rows of a cluster, with its gradient: what a kernel is worth, by more rows than fit one machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.types import Array
from ..hyperparameters.joint import Remainder, joint_density
from ..kernels import compile_kernel
from .table import Part, Table


class JointDensity:
    """The log density of all targets given the active rows, per target value, as a function of log-parameters.

    What `sodalite.hyperparameters.joint.Joint` is for rows at hand. The active rows are fetched once; then every
    evaluation sends O(m^2) numbers to the workers, which do O(n m^2) work, and as many come back.

    Parameters
    ----------
    table : Table
        All rows, as `sodalite.cluster.table.share_out` has them.
    kernel : scikit-learn kernel
    active : array of int
        The active rows.
    """

    def __init__(self, table: Table, kernel: Kernel, active: Array) -> None:
        self.table, self.active = table, np.asarray(active)
        self.kernel = compile_kernel(kernel, table.X)
        self.X = table.X[self.active].astype(np.float64)
        self.y = table.y[self.active]
        self.alpha = None if table.alpha is None else table.alpha[self.active]

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """The value and the gradient; minus infinity where the covariance is not positive definite."""
        kernel, size = self.kernel.with_theta(theta), self.table.n * self.table.q
        value, gradient = joint_density(
            kernel, self.X, self.y, self.alpha, lambda sums: self.table.total_of_parts(_Others(sums, self.active))
        )
        return value / size, gradient / size


@dataclass(frozen=True)
class _Others:
    """Sums over the rows of a part that are not active."""

    sums: Remainder
    active: Array

    def __call__(self, part: Part) -> tuple[Array, ...]:
        others = np.setdiff1d(np.arange(part.begin, part.end), self.active) - part.begin
        alpha = None if part.alpha is None else part.alpha[others]
        return self.sums(part.X[others], part.y[others], alpha)
