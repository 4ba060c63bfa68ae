"""Arrays of other libraries than NumPy, where scikit-learn's ``array_api_dispatch`` is on: PyTorch, CuPy, JAX, ...

All work is done by NumPy, on the processor. What comes in is copied there, and what goes out is given back as an array
of the library, on the device and in the floating-point type of the rows that were asked about.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from sklearn import get_config


def in_numpy(*values: Any) -> tuple[Any, ...]:
    """The values, those that are arrays of another library as NumPy's; all as they are if dispatch is off."""
    return tuple(_copied(value) if _is_foreign(value) else value for value in values)


def given_back(method: Callable[..., Any]) -> Callable[..., Any]:
    """A method of X that returns an array, or a tuple of them, in NumPy, as one that returns them as X is given."""

    @wraps(method)
    def wrapped(self: Any, X: Any, *arguments: Any, **options: Any) -> Any:
        if not _is_foreign(X):
            return method(self, X, *arguments, **options)
        found = method(self, _copied(X), *arguments, **options)
        return tuple(_like(X, part) for part in found) if isinstance(found, tuple) else _like(X, found)

    return wrapped


def _is_foreign(value: Any) -> bool:
    """Whether a value is an array of another library, to be answered in kind."""
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__dask_graph__"):
        return False
    return bool(get_config()["array_api_dispatch"]) and (hasattr(value, "__array_namespace__") or _is_torch(value))


def _is_torch(value: Any) -> bool:
    """PyTorch's tensors name no namespace."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach")


def _copied(value: Any) -> Any:
    if _is_torch(value):
        return value.detach().cpu().numpy()
    if hasattr(value, "get"):  # CuPy's, on a graphics card
        return value.get()
    options: tuple[dict[str, Any], ...] = {"device": "cpu"}, {}
    for where in options:  # NumPy before 2.1 knows no device
        try:
            return np.from_dlpack(value, **where)
        except (AttributeError, BufferError, TypeError, RuntimeError):
            continue
    return np.asarray(value)


def _like(X: Any, found: Any) -> Any:
    if _is_torch(X):
        torch = sys.modules["torch"]
        dtype = X.dtype if X.is_floating_point() else torch.get_default_dtype()
        return torch.asarray(np.ascontiguousarray(found), dtype=dtype, device=X.device)
    library = X.__array_namespace__()
    dtype = X.dtype
    if not library.isdtype(dtype, "real floating"):  # what the device has for real numbers, which may not be float64
        dtype = library.__array_namespace_info__().default_dtypes(device=X.device)["real floating"]
    return library.asarray(np.ascontiguousarray(found), dtype=dtype, device=X.device)
