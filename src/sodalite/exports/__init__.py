"""To other libraries: a fitted model as GPyTorch's or GPflow's, as an ONNX file, and BoTorch's inducing points.

Each needs the library in question, which is imported when it is asked for and not before.
"""

from .botorch import greedy_allocator
from .gpflow import to_gpflow
from .gpytorch import to_gpytorch
from .onnx import to_onnx

__all__ = ["greedy_allocator", "to_gpflow", "to_gpytorch", "to_onnx"]
