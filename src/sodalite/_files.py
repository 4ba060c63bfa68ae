"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def check_writable(path: str | os.PathLike[str]) -> None:
    """Find out, before any long work, whether a file can be written there; nothing is left behind.

    Raises
    ------
    OSError
        With the reason, in words, as its `strerror`.
    """
    path = Path(path)
    folder = Path(os.path.realpath(path)).parent
    if path.is_dir():
        raise IsADirectoryError(None, "it is a folder", str(path))
    if is_special(path):
        with open(path, "ab"):
            return
    if not folder.is_dir():
        raise FileNotFoundError(None, f"there is no folder {folder}", str(path))
    if path.exists() and not os.access(path, os.W_OK):
        raise PermissionError(None, "the file is there already, and is not to be written to", str(path))
    trial = folder / f".{path.name[:100]}.{secrets.token_hex(4)}"
    try:
        trial.touch()
    except OSError as error:
        raise type(error)(error.errno, (error.strerror or str(error)).lower(), str(path)) from None
    trial.unlink()


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether this is a device or a pipe, which must be written to and never replaced."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path beside that of a file, to write to: it takes the file's place at the end, unless something goes wrong.

    What was written is on the disk before it takes the place, so that not even a power cut leaves half a file. Links
    are followed. Devices and pipes are written to as they are.
    """
    if is_special(path):
        yield Path(path)
        return
    target = Path(os.path.realpath(path))
    unfinished = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}")
    try:
        unfinished.touch()
        mode = (target if target.exists() else unfinished).stat().st_mode  # whatever the writer makes of it
        yield unfinished
        os.chmod(unfinished, stat.S_IMODE(mode))
        _sync(unfinished)
        os.replace(unfinished, target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    if os.name == "posix":
        with suppress(OSError):  # not every file system can
            _sync(target.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
