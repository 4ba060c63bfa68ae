"""Models for other libraries: GPyTorch, GPflow, ONNX files; and inducing points for BoTorch.

Each function imports the library that it needs when it is called.
"""

from .botorch import greedy_allocator
from .gpflow import to_gpflow
from .gpytorch import to_gpytorch
from .onnx import to_onnx

__all__ = ["greedy_allocator", "to_gpflow", "to_gpytorch", "to_onnx"]
