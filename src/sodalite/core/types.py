"""Types of arrays for annotations. Shapes are given in the docstrings.

`Floats` may be float64 or float32: the selection runs in either. A function that needs one of the two says so.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]  # of any type: an argument that has not been checked
Floats: TypeAlias = NDArray[np.floating[Any]]
Indices: TypeAlias = NDArray[np.integer[Any]]  # of rows or columns, counted from 0
Mask: TypeAlias = NDArray[np.bool_]
