"""J over all rows of a cluster, with its gradient: an objective for more rows than fit on one machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.types import Floats, Indices
from ..hyperparameters.joint import RemainderSums, joint_density
from ..kernels import compile_kernel
from .table import ClusterTable, Part


class JointDensity:
    """The log density of all targets given the active rows, per target value, as a function of log-parameters.

    `sodalite.hyperparameters.joint.Joint` is the same for rows on this machine. The active rows are fetched once. Every
    evaluation then sends O(m^2) numbers to the workers, which do O(n m^2) work, and O(m^2) numbers come back.

    Parameters
    ----------
    table : ClusterTable
        All rows, from `sodalite.cluster.table.share_out`.
    kernel : scikit-learn kernel
    active : array of int
        The active rows.
    """

    def __init__(self, table: ClusterTable, kernel: Kernel, active: Indices) -> None:
        self.table, self.active = table, np.asarray(active)
        self.kernel = compile_kernel(kernel, table.X)
        self.X = table.X[self.active].astype(np.float64)
        self.y = table.y[self.active]
        self.alpha = None if table.alpha is None else table.alpha[self.active]

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """Return the value and the gradient; minus infinity where the covariance is not positive definite."""
        kernel, size = self.kernel.with_theta(theta), self.table.n * self.table.q

        def total(sums: RemainderSums) -> tuple[Floats, ...]:
            return self.table.total_of_parts(_OverRemainder(sums, self.active))

        value, gradient = joint_density(kernel, self.X, self.y, self.alpha, total)
        return value / size, gradient / size


@dataclass(frozen=True)
class _OverRemainder:
    """Sums over those rows of a part that are not active."""

    sums: RemainderSums
    active: Indices

    def __call__(self, part: Part) -> tuple[Floats, ...]:
        others = np.setdiff1d(np.arange(part.begin, part.end), self.active) - part.begin
        alpha = None if part.alpha is None else part.alpha[others]
        return self.sums(part.X[others], part.y[others], alpha)
