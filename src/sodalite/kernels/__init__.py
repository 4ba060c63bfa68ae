"""Kernels: covariance functions, compiled from scikit-learn's kernel objects; default kernels; nearest neighbours.

A user writes a kernel with scikit-learn's objects. Evaluating those objects costs 8 to 18 ns per entry, and their
gradients fill an n x n x p array. So the kernel is taken as a specification and compiled into a small expression tree
(`compile_kernel`), which

* evaluates blocks k(A, B) and diagonals of the *latent* covariance, at about 1 ns per entry;
* keeps the noise apart: `CompiledKernel.noise` is what scikit-learn's ``WhiteKernel`` adds to the diagonal;
* differentiates by reverse mode: given dJ/dK it returns dJ/dlog(parameters), in memory of the size of K.

Kernels without a node of their own (a user's subclass, say) are called as they are.
"""

from ..core.types import Array
from .checks import check_bounds, check_hyperparameters, check_numeric, warn_at_bounds
from .compiled import CompiledKernel, compile_kernel, leaves, n_rows, take
from .default import default_kernel, default_kernels, robust_spread, spacing, spread, variation
from .nodes import NODES, Features
from .periodic import PeriodicColumn
from .stationary import REACH

KERNEL_CLASSES = tuple(NODES)
"""The classes of kernels that are known: those of scikit-learn, and `PeriodicColumn`."""

__all__ = [
    "KERNEL_CLASSES",
    "NODES",
    "REACH",
    "Array",
    "CompiledKernel",
    "Features",
    "PeriodicColumn",
    "check_bounds",
    "check_hyperparameters",
    "check_numeric",
    "compile_kernel",
    "default_kernel",
    "default_kernels",
    "leaves",
    "n_rows",
    "robust_spread",
    "spacing",
    "spread",
    "take",
    "variation",
    "warn_at_bounds",
]
