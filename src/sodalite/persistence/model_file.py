"""Read and write model files as containers of JSON and arrays (`sodalite.core.container`)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core import container
from ..core.container import MAPPED, Header, Kind, digest
from ..core.types import Array

__all__ = [
    "FORMAT",
    "HEADER",
    "MAPPED",
    "VERSION",
    "Header",
    "ModelFileError",
    "check_path",
    "digest",
    "read",
    "read_header",
    "write",
]

FORMAT = "sodalite-model"
VERSION = 7
HEADER = "header.sodalite"  # the model file of a folder, beside the files of rows


class ModelFileError(ValueError):
    """Raised if a model file cannot be read or written; one line names the file and says what is wrong."""


KIND = Kind(FORMAT, VERSION, "model", "model file", ModelFileError, "Copy it again, or fit it again.")


def check_path(path: str | os.PathLike[str]) -> None:
    """Refuse a path to which no model file can be written, before any long work."""
    container.check_path(KIND, path)


def write(path: str | os.PathLike[str], content: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write a file, whole or not at all."""
    container.write(KIND, path, content, arrays)


def read_header(path: str | os.PathLike[str]) -> Header:
    """Read the JSON, and the types and shapes of the arrays."""
    header = container.read_header(KIND, header_path(path))
    if header_path(path) == path:
        return header
    return replace(header, n_bytes=sum(file.stat().st_size for file in Path(path).iterdir()))


def read(
    path: str | os.PathLike[str], check: Callable[[Header], None] | None = None
) -> tuple[Header, dict[str, Array]]:
    """Read a whole file, and check it by its checksums; `check` is called with the header before arrays are read."""
    return container.read(KIND, header_path(path), check)


def header_path(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """The model file in a folder of model files; any other path as it is."""
    return Path(path) / HEADER if (Path(path) / HEADER).is_file() else path
