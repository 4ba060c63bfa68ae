"""Arrays of other libraries than NumPy, where scikit-learn's ``array_api_dispatch`` is on: PyTorch, CuPy, JAX, ...

All work is done by NumPy, on the processor. Arguments are copied there. Results are returned as arrays of the other
library, on the device and in the floating-point type of X.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from sklearn import get_config


def in_numpy(*values: Any) -> tuple[Any, ...]:
    """The values, with arrays of other libraries as NumPy arrays; unchanged if dispatch is off."""
    return tuple(_copied(value) if _is_foreign(value) else value for value in values)


def in_library_of(X: Any, values: Any) -> Any:
    """A NumPy array, or a tuple of them, as arrays of X's library; unchanged if dispatch is off."""
    if not _is_foreign(X):
        return values
    return tuple(_like(X, part) for part in values) if isinstance(values, tuple) else _like(X, values)


def _is_foreign(value: Any) -> bool:
    """Whether a value is an array of another library, and dispatch is on."""
    if isinstance(value, np.ndarray | np.generic) or hasattr(value, "__dask_graph__"):
        return False
    return bool(get_config()["array_api_dispatch"]) and (hasattr(value, "__array_namespace__") or _is_torch(value))


def _is_torch(value: Any) -> bool:
    """Whether a value is a tensor of PyTorch, which has no ``__array_namespace__``."""
    return type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach")


def _copied(value: Any) -> Any:
    """An array of another library as a NumPy array."""
    if _is_torch(value):
        return value.detach().cpu().numpy()
    if hasattr(value, "get"):  # CuPy's, on a graphics card
        return value.get()
    options: tuple[dict[str, Any], ...] = {"device": "cpu"}, {}
    for where in options:  # NumPy before 2.1 has no argument `device`
        try:
            return np.from_dlpack(value, **where)
        except (AttributeError, BufferError, TypeError, RuntimeError):
            continue
    return np.asarray(value)


def _like(X: Any, values: Any) -> Any:
    """A NumPy array as one of X's library, on X's device, in X's type if that is a floating-point one."""
    if _is_torch(X):
        torch = sys.modules["torch"]
        dtype = X.dtype if X.is_floating_point() else torch.get_default_dtype()
        return torch.asarray(np.ascontiguousarray(values), dtype=dtype, device=X.device)
    library = X.__array_namespace__()
    dtype = X.dtype
    if not library.isdtype(dtype, "real floating"):  # the device's default, which may not be float64
        dtype = library.__array_namespace_info__().default_dtypes(device=X.device)["real floating"]
    return library.asarray(np.ascontiguousarray(values), dtype=dtype, device=X.device)
