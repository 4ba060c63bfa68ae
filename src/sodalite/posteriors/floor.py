"""Whether the noise floor (`sodalite.core.jitter`) gave rows more noise than a user's `alpha` says."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from ..core.jitter import JitterWarning
from ..core.types import Array
from ..kernels import CompiledKernel
from .base import Evidence

BLOCK = 2**16  # rows that are looked at at a time
ROUNDING = 1e-6  # relative: alpha at the floor, but for the rounding of its scaling, is not below it


@dataclass(frozen=True)
class Floored:
    """How many rows with an `alpha` of their own have less noise than the floor, and the sum of their alphas."""

    kernel: CompiledKernel
    floor: float

    def __call__(self, X: Array, y: Array, alpha: Array | None) -> tuple[Array, ...]:
        """The two sums over some rows, as an array of shape (2,)."""
        found = np.zeros(2)
        if alpha is None:
            return (found,)
        # An alpha of 0 is that of a row with no noise of its own, as all rows have without alpha.
        small = np.flatnonzero((alpha > 0) & (alpha < (1 - ROUNDING) * self.floor))
        for begin in range(0, len(small), BLOCK):
            rows = small[begin : begin + BLOCK]
            noise = self.kernel.noise(self.kernel.prepare(np.asarray(X[rows], dtype=np.float64)))
            low = alpha[rows][noise + alpha[rows] < (1 - ROUNDING) * self.floor]
            found += len(low), low.sum()
        return (found,)


def warn_of_floor(evidence: Evidence, unit: float) -> None:
    """Warn where the noise floor is above the noise that `alpha` and the kernel give to rows. O(n).

    Parameters
    ----------
    evidence : Evidence
    unit : float
        What one unit of the scaled targets is, in those of y.
    """
    if evidence.alpha is None:
        return
    floor = evidence.selection.noise_floor
    count, total = evidence.source.total(Floored(evidence.kernel, floor))[0]
    if count:
        warnings.warn(
            f"alpha is {total / count * unit**2:.3g} in {count:.0f} rows (on average), below the noise floor of "
            f"{floor * unit**2:.3g}, which is what these rows have instead: with less noise, rounding would make the "
            f"covariance of rows that are close to each other singular. Give alpha of at least the floor to decide it "
            f"yourself; dtype='float64' has a lower one than dtype='float32'.",
            JitterWarning,
            stacklevel=5,
        )
