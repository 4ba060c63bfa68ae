"""The result of a search, as a checkpoint holds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.gaussian_process.kernels import Kernel

from ..core.state import Converter, StateError, UnknownClassError
from ..kernels import KERNEL_CLASSES
from ..selection.checkpoint import Checkpoint, invalid
from .task import Found


def note_of(found: Found, kernels: Sequence[Kernel]) -> Any:
    """Describe the result of a search among some kernels as JSON; None if it has a kernel of an unknown class.

    Without a note, a run that is continued searches again.
    """
    try:
        return _converter(kernels).dump(found)[0]
    except UnknownClassError:
        return None


def found_before(checkpoint: Checkpoint, kernels: Sequence[Kernel]) -> Found | None:
    """The result of a search among some kernels that a checkpoint holds; None if it holds none."""
    try:
        found: Found | None = _converter(kernels).load(checkpoint.record.found, Found | None, where="found")
    except StateError as error:
        raise invalid(checkpoint.path, error) from error
    return found


def _converter(kernels: Sequence[Kernel]) -> Converter:
    """A converter of kernels of the classes of the library, of scikit-learn and of some kernels."""
    parts = [part for kernel in kernels for part in (kernel, *kernel.get_params().values())]
    kinds: tuple[type, ...] = (Found, *KERNEL_CLASSES, *(type(part) for part in parts if isinstance(part, Kernel)))
    return Converter({f"{kind.__module__}.{kind.__qualname__}": kind for kind in kinds})
