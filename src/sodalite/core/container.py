"""Container files: one JSON text and named arrays, with checksums of both. Reading one runs no code that is in it.

The layout is that of safetensors, the length of the header, the header, which is JSON, and the arrays, so that other
programs can read the arrays. Model files and checkpoints are such files (`Kind`).

A file is written in blocks, so that arrays may be larger than memory, and every block has a checksum. Arrays are read
and checked at once, but for those that were written as mapped: these stay on disk (`MappedArray`), and each of their
blocks is checked when it is first used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, Any
from zlib import crc32

import numpy as np

from .files import SPECIAL, check_readable, check_writable, is_special, replacing, what_is
from .memory import available
from .types import Array

VERSION = 1
BLOCK = 2**17  # bytes that have one checksum: to check them takes less than a tenth of a millisecond
SUM = 8  # digits of a checksum
MOST_HEADER = 2**28  # bytes; a header has some 100 bytes for each megabyte of the arrays
TYPES: dict[str, np.dtype[Any]] = {"F64": np.dtype("<f8"), "F32": np.dtype("<f4"), "I64": np.dtype("<i8")}


@dataclass(frozen=True)
class Kind:
    """A kind of container files, such as model files."""

    format: str
    """The name of the format, which every file holds."""
    noun: str
    """The word for such a file in messages."""
    error: type[ValueError]
    """Raised for a file that cannot be read or written. Its message is one line that names the file and the problem."""
    remedy: str = ""
    """The end of the message for a damaged file: what to do about it."""

    def damaged(self, words: str) -> ValueError:
        """Return the error for a damaged file, with the remedy."""
        return self.error(f"{words} {self.remedy}".rstrip())


@dataclass(frozen=True)
class Header:
    """The contents of a file without the values of its arrays."""

    content: dict[str, Any]
    """The JSON text, parsed."""
    arrays: dict[str, tuple[str, tuple[int, ...]]]
    """The type and the shape of each array."""
    n_bytes: int
    """The size of the file."""
    places: dict[str, int]
    """Where each array begins in the file."""
    sums: dict[str, str]
    """The checksums of the blocks of each array, one after the other."""
    mapped: tuple[str, ...]
    """The arrays that are not read, but mapped."""


def check_path(kind: Kind, path: str | os.PathLike[str]) -> None:
    """Check, before any long work, that a file can be written at a path."""
    try:
        if is_special(path):
            raise OSError(None, SPECIAL)
        check_writable(path)
    except OSError as error:
        raise kind.error(f"{path} cannot be written: {error.strerror or error}.") from None


def write(
    kind: Kind,
    path: str | os.PathLike[str],
    content: Mapping[str, Any],
    arrays: Mapping[str, Any],
    mapped: Collection[str] = (),
) -> None:
    """Write a file. If that fails, nothing is left behind and an earlier file stays as it was.

    Arrays may be anything that has a shape and a type, and is sliced by rows. Those named in `mapped` stay on disk when
    the file is read.
    """
    check_path(kind, path)
    codes = {dtype: code for code, dtype in TYPES.items()}
    types = {name: _type(array) for name, array in arrays.items()}
    names = sorted(arrays, key=lambda name: (-types[name].itemsize, name))  # so that all are aligned
    layout, at = {}, 0
    for name in names:
        size = prod(arrays[name].shape) * types[name].itemsize
        shape = list(arrays[name].shape)
        layout[name] = {"dtype": codes[types[name]], "shape": shape, "data_offsets": [at, at + size]}
        at += size
    try:
        with replacing(path) as unfinished, open(unfinished, "wb") as file:
            # The checksums are known at the end; they have as many digits whatever they are.
            sums = {name: "0" * SUM * -(-len(arrays[name]) // _block_rows(arrays[name], types[name])) for name in names}
            file.write(_header(kind, content, layout, sums, mapped))
            sums = {name: _write_array(file, arrays[name], types[name]) for name in names}
            file.seek(0)
            file.write(_header(kind, content, layout, sums, mapped))
    except OSError as error:
        raise kind.error(f"{path} could not be written: {error.strerror or error}.") from None


def read_header(kind: Kind, path: str | os.PathLike[str]) -> Header:
    """Return the header of a file, checked: its contents without the values of its arrays."""
    try:
        check_readable(path)
        if Path(path).is_dir():
            os.listdir(path)  # which may be forbidden
            raise kind.error(f"{path} is a folder, not a {kind.noun}.")
        size = os.stat(path).st_size
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            text = file.read(length) if length <= min(size, MOST_HEADER) else b""
    except FileNotFoundError:
        raise kind.error(f"{path}: there is no such file.") from None
    except OSError as error:
        raise kind.error(f"{path} cannot be read: {error.strerror or error}.") from None
    try:
        layout = json.loads(text)
        about = layout.pop("__metadata__", {})
        arrays, places = _places(layout, 8 + length, size)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        if (what := what_is(path)) is not None:
            raise kind.error(f"{path} is no {kind.noun}, but {what}.") from None
        raise kind.damaged(f"{path} is truncated, damaged or no {kind.noun}.") from None
    if about.get("format") != kind.format:
        raise kind.error(f"{path} is no {kind.noun} of sodalite's, though it is in the safetensors format.")
    version = str(about.get("version"))[:9]
    if version.isdecimal() and int(version) > VERSION:
        raise kind.error(
            f"{path} was written by a later version of sodalite (file format {version}; this one reads up to "
            f"{VERSION}). Upgrade with: pip install --upgrade sodalite"
        )
    if version != str(VERSION):
        raise kind.damaged(f"{path} is damaged: {version!r} is not a version of the format.")
    described = str(about.get("text"))
    if about.get("sha256") != _hash(described, layout):
        raise kind.damaged(f"{path} is damaged: its description is not the one that was written (checksum).")
    try:
        whole = json.loads(described)
        content, sums, mapped = dict(whole["content"]), dict(whole["checksums"]), tuple(whole["mapped"])
        is_valid = set(sums) == set(layout) >= set(mapped) and all(isinstance(each, str) for each in sums.values())
    except (ValueError, TypeError, LookupError, RecursionError):
        is_valid = False
    if not is_valid:
        raise kind.damaged(f"{path} is no valid {kind.noun}: its description cannot be read.")
    return Header(content, arrays, size, places, sums, mapped)


def read(kind: Kind, path: str | os.PathLike[str]) -> tuple[Header, dict[str, Any]]:
    """Return the header and the arrays of a file; all but those that are mapped are read and checked."""
    header = read_header(kind, path)
    sizes = {name: prod(shape) * np.dtype(dtype).itemsize for name, (dtype, shape) in header.arrays.items()}
    size = sum(sizes[name] for name in sizes if name not in header.mapped)
    if size > (free := available()):
        raise kind.error(
            f"{path} cannot be read: it takes {size / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are "
            f"free. Free some, or use a larger machine."
        )
    arrays: dict[str, Any] = {}
    everything: mmap | None = None
    with open(path, "rb") as file:
        for name, (dtype, shape) in header.arrays.items():
            file.seek(begin := header.places[name])
            words = f"{path} is damaged: array {name!r}"
            if name in header.mapped and sizes[name] > 0:
                everything = everything or mmap(file.fileno(), 0, access=ACCESS_READ)
                array = np.frombuffer(everything, dtype, prod(shape), begin).reshape(shape)
                arrays[name] = MappedArray(array, header.sums[name], kind, words, everything.size, begin + sizes[name])
            else:
                array = np.fromfile(file, dtype=dtype, count=prod(shape))
                if array.size < prod(shape):
                    raise kind.damaged(f"{path} was truncated while it was read.")
                arrays[name] = array = array.reshape(shape)
                MappedArray(array, header.sums[name], kind, words).check()
    return header, arrays


class MappedArray:
    """An array of a file that is mapped into memory; each of its blocks is checked when it is first read.

    Parameters
    ----------
    array : array
        At least one dimension.
    sums : str
        The checksums of its blocks.
    kind : Kind
    words : str
        The beginning of the message for an array that is not the one that was written.
    size : callable
        The size of the file, which is compared with that in `end` before anything is read: the system ends a process
        that reads a map beyond the end of its file.
    end : int
        Where the array ends in the file.
    """

    def __init__(
        self, array: Array, sums: str, kind: Kind, words: str, size: Callable[[], int] = int, end: int = 0
    ) -> None:
        self.shape, self.dtype, self.ndim, self.size = array.shape, array.dtype, array.ndim, array.size
        self._array, self._sums, self._kind, self._words = array, sums, kind, words
        self._file_size, self._end = size, end
        self._rows = _block_rows(array, array.dtype)
        self._checked = np.zeros(len(sums) // SUM, dtype=bool)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, key: Any) -> Array:
        rows = key[0] if isinstance(key, tuple) else key
        if isinstance(rows, slice):
            begin, end, _ = rows.indices(len(self))
            blocks = np.arange(begin // self._rows, -(-max(begin, end) // self._rows))
        else:
            which = np.flatnonzero(rows) if np.asarray(rows).dtype == np.bool_ else np.asarray(rows, dtype=np.intp)
            blocks = np.unique(which % max(len(self), 1) // self._rows)
        for block in blocks[~self._checked[blocks]]:
            self._check(int(block))
        self._check_size()
        return np.array(self._array[key])  # a copy: the file may be truncated later

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype=dtype)

    def __reduce__(self) -> Any:
        return np.asarray, (np.array(self[:]),)  # pickles as an array in memory: the file may be gone when it is loaded

    def check(self) -> None:
        """Check all blocks."""
        for block in np.flatnonzero(~self._checked):
            self._check(int(block))

    def _check_size(self) -> None:
        if self._file_size() < self._end:
            raise self._kind.damaged(f"{self._words} is no longer there: the file was truncated after it was opened.")

    def _check(self, block: int) -> None:
        self._check_size()
        part = self._array[block * self._rows : (block + 1) * self._rows]
        if _sum(np.ascontiguousarray(part)) != self._sums[block * SUM : (block + 1) * SUM]:
            raise self._kind.damaged(f"{self._words} is not the one that was written (checksum).")
        self._checked[block] = True


def _header(
    kind: Kind, content: Mapping[str, Any], layout: Mapping[str, Any], sums: Mapping[str, str], mapped: Collection[str]
) -> bytes:
    """The header of a file with its length, such that the arrays are aligned."""
    text = json.dumps({"content": content, "checksums": sums, "mapped": sorted(mapped)}, allow_nan=False)
    about = {"format": kind.format, "version": str(VERSION), "text": text, "sha256": _hash(text, layout)}
    header = json.dumps({"__metadata__": about, **layout}).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header


def _hash(text: str, layout: Mapping[str, Any]) -> str:
    """The SHA-256 checksum of a text and of the layout of the arrays."""
    return sha256((text + json.dumps(layout, sort_keys=True)).encode()).hexdigest()


def _places(
    layout: Mapping[str, Any], begin: int, size: int
) -> tuple[dict[str, tuple[str, tuple[int, ...]]], dict[str, int]]:
    """The types and shapes of arrays, and where they are in a file of some size; any error if they do not fill it."""
    arrays, places, at = {}, {}, begin
    for name, part in layout.items():
        shape, dtype = tuple(part["shape"]), TYPES[part["dtype"]]
        if not shape or any(type(number) is not int or not 0 <= number <= size for number in shape):
            raise ValueError
        arrays[name], places[name] = (dtype.name, shape), at
        at += prod(shape) * dtype.itemsize
        if part["data_offsets"] != [places[name] - begin, at - begin]:
            raise ValueError
    if at != size:
        raise ValueError
    return arrays, places


def _type(array: Any) -> np.dtype[Any]:
    """The type that an array has in a file."""
    dtype = np.dtype(array.dtype)
    return TYPES["I64" if dtype.kind in "iu" else "F32" if dtype == np.float32 else "F64"]


def _block_rows(array: Any, dtype: np.dtype[Any]) -> int:
    """How many rows have one checksum."""
    return int(max(1, BLOCK // max(prod(array.shape[1:]) * dtype.itemsize, 1)))


def _write_array(file: IO[bytes], array: Any, dtype: np.dtype[Any]) -> str:
    """Write an array in a type that files have, a block at a time; return the checksums of the blocks."""
    sums, rows = [], _block_rows(array, dtype)
    for begin in range(0, len(array), rows):
        block = np.ascontiguousarray(array[begin : begin + rows], dtype=dtype)
        file.write(block.reshape(-1).view(np.uint8).data)
        sums.append(_sum(block))
    return "".join(sums)


def _sum(block: Array) -> str:
    """The checksum (CRC-32) of a block."""
    return f"{crc32(block.reshape(-1).view(np.uint8).data):0{SUM}x}"
