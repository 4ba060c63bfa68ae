"""Files of named arrays, and one JSON text about them, in the safetensors format, with checksums over both.

The format's own header says where each array is, so that the text can be read without the arrays. Nothing in the file
is ever run. There are several kinds: model files, checkpoints.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from .files import check_readable, check_writable, is_special, replacing
from .memory import available
from .types import Array

DEEPEST = 100  # levels of nesting in the text; Python's 1000 frames allow for some recursion at each
TYPES = {"F64": np.dtype(np.float64), "F32": np.dtype(np.float32), "I64": np.dtype(np.int64)}


@dataclass(frozen=True)
class Kind:
    """What some files have in common."""

    format: str
    """The name of the format, in every file."""
    version: int
    """The one that is written; those before it are read."""
    key: str
    """What the text is called in the file's header."""
    noun: str
    """What messages call such a file."""
    error: type[ValueError]
    """For one that cannot be read or written: one line that names the file and says what is wrong."""
    remedy: str = ""
    """What to do about one that is damaged."""


@dataclass(frozen=True)
class Header:
    """What is in a file, but for the arrays."""

    content: dict[str, Any]
    arrays: dict[str, tuple[str, tuple[int, ...]]]
    """The type and the shape of each."""
    version: int
    n_bytes: int
    """The size of the file."""


def check_path(kind: Kind, path: str | os.PathLike[str]) -> None:
    """See that a file can be written there, before any long work."""
    try:
        if is_special(path):
            raise OSError(None, "it is a device or a pipe, not a file")
        check_writable(path)
    except OSError as error:
        raise kind.error(f"{path} cannot be written: {error.strerror or error}.") from None


def write(kind: Kind, path: str | os.PathLike[str], content: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a file, whole or not at all."""
    check_path(kind, path)
    if too_deep(content):
        raise kind.error(
            f"{path} could not be written: what it says is nested more than {DEEPEST} levels deep. Use a "
            f"kernel of fewer terms, or shorter notes."
        )
    ready = {}
    for name, array in arrays.items():
        little = array.dtype.newbyteorder("<")
        ready[name] = np.ascontiguousarray(array, dtype=little)
        if little not in TYPES.values():
            raise TypeError(f"{name} must be float64, float32 or int64; got {array.dtype}.")
    text = json.dumps({**content, "arrays_sha256": digest(ready)}, allow_nan=False, ensure_ascii=True)
    about = {"format": kind.format, "version": str(kind.version), kind.key: text, f"{kind.key}_sha256": _hash(text)}
    try:
        with replacing(path) as unfinished:
            save_file(ready, unfinished, about)
    except (OSError, SafetensorError) as error:
        raise kind.error(f"{path} could not be written: {getattr(error, 'strerror', None) or error}.") from None


def read_header(kind: Kind, path: str | os.PathLike[str]) -> Header:
    """What is in a file, without its arrays."""
    with _opened(kind, path) as file:
        return _header(kind, path, file)


def read(
    kind: Kind, path: str | os.PathLike[str], check: Callable[[Header], None] | None = None
) -> tuple[Header, dict[str, Array]]:
    """Read a file, and check it by its checksums.

    Parameters
    ----------
    kind : Kind
    path : str or path-like
    check : callable, optional
        Called with the header before memory is taken for the arrays, to refuse shapes and types that make no sense.
    """
    with _opened(kind, path) as file:
        header = _header(kind, path, file)
        if check is not None:
            check(header)
        if header.n_bytes > (free := available()):
            raise kind.error(
                f"{path} cannot be read: it takes {header.n_bytes / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are "
                f"free. Free some, or use a larger machine."
            )
        arrays = {name: np.asarray(file.get_tensor(name)) for name in header.arrays}
    if digest(arrays) != header.content.get("arrays_sha256"):
        words = f"{path} is damaged: its arrays are not those that were written (checksum). {kind.remedy}"
        raise kind.error(words.rstrip())
    return header, arrays


def too_deep(content: Any) -> bool:
    """Whether some JSON is nested more than `DEEPEST` levels deep: later recursion over it would fail."""
    level = [content]
    for _ in range(DEEPEST + 1):
        level = [
            part
            for whole in level
            if isinstance(whole, Mapping | list | tuple)
            for part in (whole.values() if isinstance(whole, Mapping) else whole)
        ]
        if not level:
            return False
    return True


def digest(arrays: Mapping[str, Array]) -> str:
    """The SHA-256 of some arrays: their names, types, shapes and bytes."""
    total = sha256()
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


@contextmanager
def _opened(kind: Kind, path: str | os.PathLike[str]) -> Iterator[Any]:
    try:
        check_readable(path)
        if Path(path).is_dir():
            raise kind.error(f"{path} is a folder, not a {kind.noun}.")
        with safe_open(path, framework="numpy") as file:
            yield file
    except FileNotFoundError:
        raise kind.error(f"{path}: there is no such file.") from None
    except OSError as error:
        raise kind.error(f"{path} cannot be read: {error.strerror or error}.") from None
    except SafetensorError as error:
        words = f"{path} is truncated, damaged or no {kind.noun} ({str(error).rstrip('.')}). {kind.remedy}"
        raise kind.error(words.rstrip()) from None


def _header(kind: Kind, path: str | os.PathLike[str], file: Any) -> Header:
    about = file.metadata() or {}
    if about.get("format") != kind.format:
        raise kind.error(f"{path} is no {kind.noun} of sodalite's, though it is in the safetensors format.")
    version = about.get("version", "")
    if not re.fullmatch("[1-9][0-9]{0,5}", version):
        shown = repr(version if len(version) <= 20 else version[:20] + "...")
        raise kind.error(f"{path} is damaged: {shown} is no version of the format. {kind.remedy}".rstrip())
    if int(version) > kind.version:
        raise kind.error(
            f"{path} was written by a later version of sodalite (file format {version}; this one reads up to "
            f"{kind.version}). Upgrade with: pip install --upgrade sodalite"
        )
    text = about.get(kind.key, "")
    if _hash(text) != about.get(f"{kind.key}_sha256"):
        words = f"{path} is damaged: its description is not the one that was written (checksum). {kind.remedy}"
        raise kind.error(words.rstrip())
    try:
        content = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise kind.error(f"{path} is no valid {kind.noun}: its description is not JSON. {kind.remedy}".rstrip())
    if too_deep(content):
        raise kind.error(
            f"{path} is no valid {kind.noun}: its description is nested more than {DEEPEST} levels deep. "
            f"{kind.remedy}".rstrip()
        )
    arrays = {}
    for name in file.keys():  # noqa: SIM118 (this is no dict)
        part = file.get_slice(name)
        if part.get_dtype() not in TYPES:
            raise kind.error(f"{path} is no valid {kind.noun}: array {name!r} holds {part.get_dtype()}.")
        arrays[name] = str(TYPES[part.get_dtype()]), tuple(part.get_shape())
    return Header(content, arrays, int(version), os.stat(path).st_size)


def _finite(text: str) -> float:
    """A number of the text; `write` has neither NaN nor infinite ones."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()
