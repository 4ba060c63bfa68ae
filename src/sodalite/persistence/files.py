"""Model files: containers of the state of a fitted model, or folders of them."""

from __future__ import annotations

import os
from pathlib import Path

from ..core import container
from ..core.container import Header, Kind
from ..exceptions import ModelFileError

HEADER = "header.sodalite"  # the model file of a folder, beside the files of rows


KIND = Kind("sodalite-model", "model file", ModelFileError, "Copy it again, or fit it again.")


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a path to which no model file can be written, before any long work."""
    container.check_path(KIND, path)


def header_path(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Return the model file in a folder of model files; any other path as it is."""
    inside = Path(path) / HEADER
    return inside if os.path.isfile(inside) else path  # whatever else is wrong with a path is said when it is read


def read_header(path: str | os.PathLike[str]) -> Header:
    """Return the header of a model file: all but the values of its arrays."""
    return container.read_header(KIND, header_path(path))
