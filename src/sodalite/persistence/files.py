"""Model files: containers of the state of a fitted model."""

from __future__ import annotations

import os

from ..core import container
from ..core.container import Header, Kind
from ..exceptions import ModelFileError

KIND = Kind("sodalite-model", "model file", ModelFileError, "Copy it again, or fit it again.")


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a path to which no model file can be written, before any long work."""
    container.check_path(KIND, path)


def read_header(path: str | os.PathLike[str]) -> Header:
    """Return the header of a model file: all but the values of its arrays."""
    return container.read_header(KIND, path)
