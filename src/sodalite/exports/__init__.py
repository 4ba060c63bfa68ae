"""Models for other libraries: scikit-learn, GPyTorch and GPflow; and inducing points for BoTorch.

Each function imports the library that it needs when it is called.
"""

from .botorch import greedy_allocator
from .gpflow import to_gpflow
from .gpytorch import to_gpytorch
from .sklearn import to_sklearn

__all__ = ["greedy_allocator", "to_gpflow", "to_gpytorch", "to_sklearn"]
