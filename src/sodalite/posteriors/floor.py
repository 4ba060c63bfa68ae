"""A warning where the noise floor gives rows more noise than a user's `alpha` (docs/method.rst, `noise-floor`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.types import Floats
from ..core.warn import warn
from ..exceptions import JitterWarning
from ..kernels import CompiledKernel
from ..selection.rows import Block
from .base import Evidence

BLOCK = 2**16  # rows that are prepared at a time, so that memory is bounded
ROUNDING = 1e-6  # relative tolerance: alpha equal to the floor, but for the rounding of its scaling, is not below it


@dataclass(frozen=True)
class Floored:
    """Count the rows whose noise is below the floor although they have an `alpha`, and add up their alphas.

    A function of a block, for `Rows.map`.
    """

    kernel: CompiledKernel
    floor: float

    def __call__(self, block: Block) -> Floats:
        """The count and the sum, of shape (2,)."""
        found, alpha = np.zeros(2), block.alpha
        if alpha is None:
            return found
        # An alpha of 0 means that the row has no noise of its own, as all rows do without alpha.
        small = np.flatnonzero((alpha > 0) & (alpha < (1 - ROUNDING) * self.floor))
        for begin in range(0, len(small), BLOCK):
            which = small[begin : begin + BLOCK]
            noise = self.kernel.noise(self.kernel.prepare(np.asarray(block.X[which], dtype=np.float64)))
            low = alpha[which][noise + alpha[which] < (1 - ROUNDING) * self.floor]
            found += len(low), low.sum()
        return found


def warn_of_floor(evidence: Evidence, unit: float) -> None:
    """Warn if rows have less noise, by `alpha` and the kernel, than the noise floor. O(n).

    Parameters
    ----------
    evidence : Evidence
    unit : float
        One unit of the scaled targets, in units of y.
    """
    if not evidence.rows.has_alpha:
        return
    floor = evidence.selection.noise_floor
    count, total = evidence.rows.map(Floored(evidence.kernel, floor), np.add)
    if count:
        warn(
            f"alpha is {total / count * unit**2:.3g} in {count:.0f} rows (on average), below the noise floor of "
            f"{floor * unit**2:.3g}, which is what these rows have instead: with less noise, rounding would make the "
            f"covariance of rows that are close to each other singular. Give alpha of at least the floor to decide it "
            f"yourself; dtype='float64' has a lower one than dtype='float32'.",
            JitterWarning,
        )
