"""Models in files: `save` and `load`.

A file holds what prediction needs, in the safetensors format: arrays, and one JSON text with the kernel, the
parameters, the stages of the selection, and how a table's columns become numbers. Loading a file runs no code from it,
so files of unknown origin are safe. pickle, joblib and skops work too, with the risks that each of them has.
"""

from __future__ import annotations

from .classes import TRUSTED_TYPES
from .model import check_file, check_path, load, read_header, save

__all__ = ["TRUSTED_TYPES", "check_file", "check_path", "load", "read_header", "save"]
