"""Container files: named arrays and one JSON text, in the safetensors format, with checksums of both.

Model files and checkpoints are such files (`Kind`). The format's header says where each array is, so that the text can
be read without the arrays. Reading a file runs no code that is in it.

Arrays that the text lists as `MAPPED` are written a block at a time and not read, but mapped into memory. The checksum
of the arrays does not cover them; who writes them has to see to it that damage to them is noticed (`block_sums`).
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
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from .files import SPECIAL, check_readable, check_writable, is_special, replacing, what_is
from .memory import available
from .types import Array

DEEPEST = 100  # levels of nesting in the text: a few function calls at each level stay within Python's limit of 1000
MAPPED = "mapped_arrays"  # the field of the text that names the arrays which are mapped
BLOCK = 2**20  # bytes of a mapped array that are written, or verified, at a time
TYPES = {"F64": np.dtype(np.float64), "F32": np.dtype(np.float32), "I64": np.dtype(np.int64)}


@dataclass(frozen=True)
class Kind:
    """A kind of container files, such as model files."""

    format: str
    """The name of the format, which every file holds."""
    version: int
    """The version that is written; earlier versions can be read."""
    key: str
    """The name of the text in the file's header."""
    noun: str
    """The word for such a file in messages."""
    error: type[ValueError]
    """Raised for a file that cannot be read or written. Its message is one line that names the file and the problem."""
    remedy: str = ""
    """The end of the message for a damaged file: what to do about it."""


@dataclass(frozen=True)
class Header:
    """The contents of a file without the values of its arrays."""

    content: dict[str, Any]
    """The JSON text, parsed."""
    arrays: dict[str, tuple[str, tuple[int, ...]]]
    """The type and the shape of each array."""
    version: int
    """The version of the format that the file was written in."""
    n_bytes: int
    """The size of the file."""


def check_path(kind: Kind, path: str | os.PathLike[str]) -> None:
    """Check, before any long work, that a file can be written at a path."""
    try:
        if is_special(path):
            raise OSError(None, SPECIAL)
        check_writable(path)
    except OSError as error:
        raise kind.error(f"{path} cannot be written: {error.strerror or error}.") from None


def write(kind: Kind, path: str | os.PathLike[str], content: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Write a file; if that fails, nothing is left behind and an earlier file stays as it was.

    Arrays that the content lists as `MAPPED` may be anything that has a shape and a type, and is sliced by rows.
    """
    check_path(kind, path)
    if too_deep(content):
        raise kind.error(
            f"{path} could not be written: its description is nested more than {DEEPEST} levels deep. Use a "
            f"kernel of fewer terms, or shorter notes."
        )
    ready, mapped = {}, content.get(MAPPED, ())
    for name, array in arrays.items():
        little = np.dtype(array.dtype).newbyteorder("<")
        ready[name] = array if name in mapped else np.ascontiguousarray(array, dtype=little)
        if little not in TYPES.values():
            raise TypeError(f"{name} must be float64, float32 or int64; got {array.dtype}.")
    read = {name: array for name, array in ready.items() if name not in mapped}
    text = json.dumps({**content, "arrays_sha256": digest(read)}, allow_nan=False, ensure_ascii=True)
    about = {"format": kind.format, "version": str(kind.version), kind.key: text, f"{kind.key}_sha256": _hash(text)}
    try:
        with replacing(path) as unfinished:
            (_save_by_blocks if mapped else save_file)(ready, unfinished, about)
    except (OSError, SafetensorError) as error:
        raise kind.error(f"{path} could not be written: {getattr(error, 'strerror', None) or error}.") from None


def read_header(kind: Kind, path: str | os.PathLike[str]) -> Header:
    """The header of a file: its contents without the values of its arrays."""
    with _opened(kind, path) as file:
        return _header(kind, path, file)


def read(
    kind: Kind, path: str | os.PathLike[str], check: Callable[[Header], None] | None = None
) -> tuple[Header, dict[str, Array]]:
    """The header and the arrays of a file, verified by its checksums.

    Parameters
    ----------
    kind : Kind
    path : str or path-like
    check : callable, optional
        Called with the header before the arrays are read, to refuse invalid shapes and types.
    """
    with _opened(kind, path) as file:
        header = _header(kind, path, file)
        if check is not None:
            check(header)
        mapped = _mapped(kind, path, header)
        size = header.n_bytes - sum(array.nbytes for array in mapped.values())
        if size > (free := available()):
            raise kind.error(
                f"{path} cannot be read: it takes {size / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are "
                f"free. Free some, or use a larger machine."
            )
        arrays = {name: np.asarray(file.get_tensor(name)) for name in header.arrays if name not in mapped}
    if digest(arrays) != header.content.get("arrays_sha256"):
        raise _damaged(kind, f"{path} is damaged: its arrays are not those that were written (checksum).")
    return header, arrays | mapped


def block_sums(array: Any) -> NDArray[np.int64]:
    """A checksum (CRC-32) of every block of `block_rows` rows of an array, or of anything that is sliced by rows."""
    size = block_rows(array)
    return np.array([block_sum(array[begin : begin + size]) for begin in range(0, len(array), size)], dtype=np.int64)


def block_rows(array: Any) -> int:
    """How many rows are in a block of about 1 MB."""
    width = int(np.prod(array.shape[1:])) * np.dtype(array.dtype).itemsize
    return int(max(1, BLOCK // max(width, 1)))


def block_sum(*arrays: Any) -> int:
    """The checksum (CRC-32) of some arrays, one after the other."""
    total = 0
    for array in arrays:
        total = crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, total)
    return total


def _save_by_blocks(arrays: Mapping[str, Any], path: Path, about: Mapping[str, str]) -> None:
    """Write a safetensors file, of whose arrays only a block is in memory at a time."""
    codes = {kind: code for code, kind in TYPES.items()}
    names = sorted(arrays, key=lambda name: (-np.dtype(arrays[name].dtype).itemsize, name))  # so that all are aligned
    header: dict[str, Any] = {"__metadata__": dict(about)}
    at = 0
    for name in names:
        shape, kind = arrays[name].shape, np.dtype(arrays[name].dtype).newbyteorder("<")
        size = int(np.prod(shape)) * kind.itemsize
        header[name] = {"dtype": codes[kind], "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            array, rows = arrays[name], block_rows(arrays[name])
            for begin in range(0, len(array), rows):
                block = np.asarray(array[begin : begin + rows])
                file.write(np.ascontiguousarray(block, dtype=block.dtype.newbyteorder("<")).data)


def _mapped(kind: Kind, path: str | os.PathLike[str], header: Header) -> dict[str, Array]:
    """The arrays of a file that are not read, but mapped into memory."""
    names = header.content.get(MAPPED, [])
    if not isinstance(names, list) or not all(isinstance(name, str) and name in header.arrays for name in names):
        raise _damaged(kind, f"{path} is no valid {kind.noun}: it lists arrays to be mapped that it does not have.")
    if not names:
        return {}
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        places = json.loads(file.read(size))
    found = {}
    for name in names:
        dtype, shape = header.arrays[name]
        at = 8 + size + int(places[name]["data_offsets"][0])
        if 0 in shape:
            found[name] = np.empty(shape, dtype=dtype)
        else:
            found[name] = np.asarray(np.memmap(path, dtype=dtype, mode="r", offset=at, shape=shape))
    return found


def too_deep(content: Any) -> bool:
    """Whether JSON content is nested more than `DEEPEST` levels deep, so that recursive functions might fail on it."""
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
    """The SHA-256 checksum of named arrays: of their names, types, shapes and bytes."""
    total = sha256()
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


@contextmanager
def _opened(kind: Kind, path: str | os.PathLike[str]) -> Iterator[Any]:
    """The open safetensors file; errors in opening and reading it are raised as the kind's error."""
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
        if (what := what_is(path)) is not None:
            raise kind.error(f"{path} is no {kind.noun}, but {what}.") from None
        words = f"{path} is truncated, damaged or no {kind.noun} ({str(error).rstrip('.')})."
        raise _damaged(kind, words) from None


def _damaged(kind: Kind, words: str) -> ValueError:
    """The error for a damaged file, with the kind's remedy."""
    return kind.error(f"{words} {kind.remedy}".rstrip())


def _header(kind: Kind, path: str | os.PathLike[str], file: Any) -> Header:
    """The header of an open file, checked in the order in which a later check relies on an earlier one."""
    about = file.metadata() or {}
    version = _version(kind, path, about)
    return Header(_content(kind, path, about), _layout(kind, path, file), version, os.stat(path).st_size)


def _version(kind: Kind, path: str | os.PathLike[str], about: Mapping[str, str]) -> int:
    """The format's version; a file of another format or of a later version is refused."""
    if about.get("format") != kind.format:
        raise kind.error(f"{path} is no {kind.noun} of sodalite's, though it is in the safetensors format.")
    version = about.get("version", "")
    if not re.fullmatch("[1-9][0-9]{0,5}", version):
        shown = repr(version if len(version) <= 20 else version[:20] + "...")
        raise _damaged(kind, f"{path} is damaged: {shown} is no version of the format.")
    if int(version) > kind.version:
        raise kind.error(
            f"{path} was written by a later version of sodalite (file format {version}; this one reads up to "
            f"{kind.version}). Upgrade with: pip install --upgrade sodalite"
        )
    return int(version)


def _content(kind: Kind, path: str | os.PathLike[str], about: Mapping[str, str]) -> dict[str, Any]:
    """The JSON text of a file, verified and parsed."""
    text = about.get(kind.key, "")
    if _hash(text) != about.get(f"{kind.key}_sha256"):
        raise _damaged(kind, f"{path} is damaged: its description is not the one that was written (checksum).")
    try:
        content = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise _damaged(kind, f"{path} is no valid {kind.noun}: its description is not JSON.")
    if too_deep(content):
        words = f"{path} is no valid {kind.noun}: its description is nested more than {DEEPEST} levels deep."
        raise _damaged(kind, words)
    return content


def _layout(kind: Kind, path: str | os.PathLike[str], file: Any) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The type and the shape of each array, without its values."""
    arrays = {}
    for name in file.keys():  # noqa: SIM118 (this is no dict)
        part = file.get_slice(name)
        if part.get_dtype() not in TYPES:
            raise kind.error(f"{path} is no valid {kind.noun}: array {name!r} holds {part.get_dtype()}.")
        arrays[name] = str(TYPES[part.get_dtype()]), tuple(part.get_shape())
    return arrays


def _finite(text: str) -> float:
    """A number of the JSON text. NaN and infinite numbers are refused, since `write` never writes them."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()
