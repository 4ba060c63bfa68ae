"""Files that are written whole or not at all, and paths that are checked before any long work."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EDQUOT, EFBIG, EINVAL, ENOSPC
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: the temporary folders of killed processes are not removed
    fcntl = None  # type: ignore[assignment]

MOST_NAME = 40  # characters of a file's name that its temporary folder's name repeats: 160 bytes, of at most 255
SUFFIX = ".unfinished"  # end of the name of a temporary folder
LOCK = "lock"  # the file in a temporary folder that its process holds a lock on
SPECIAL = "it is a device or a pipe, not a file"


def check_readable(path: str | os.PathLike[str]) -> None:
    """Refuse all but files and folders, before opening them: a pipe may never answer, and a device may never end.

    Raises
    ------
    OSError
        With the reason, in words, as its `strerror`.
    """
    mode = _mode(path)
    if mode is None:
        raise FileNotFoundError(None, "there is no such file", os.fspath(path))
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(EINVAL, SPECIAL, os.fspath(path))


def check_writable(path: str | os.PathLike[str]) -> None:
    """Check, before any long work, that a file can be written at a path; nothing is left behind.

    Raises
    ------
    OSError
        With the reason, in words, as its `strerror`.
    """
    mode = _mode(path)
    path = Path(path)
    if mode is not None and stat.S_ISDIR(mode):
        raise IsADirectoryError(None, "it is a folder", str(path))
    if mode is not None and not stat.S_ISREG(mode):
        with open(path, "ab"):
            return
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(None, f"there is no folder {target.parent}", str(path))
    if mode is not None and not os.access(path, os.W_OK):
        raise PermissionError(None, "the file is there already, and is write-protected", str(path))
    try:
        with _temporary_folder(target):
            pass
    except OSError as error:
        raise type(error)(error.errno, (error.strerror or str(error)).lower(), str(path)) from None


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a device or a pipe, which can be written to but must not be replaced."""
    try:
        mode = _mode(path)
    except OSError:
        return False
    return mode is not None and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def said_if_full(folder: str) -> Iterator[None]:
    """Within this context, the error of a full disk names the folder for temporary files, and the remedy."""
    try:
        yield
    except OSError as error:
        if error.errno not in (ENOSPC, EDQUOT, EFBIG):
            raise
        raise OSError(error.errno, no_room(folder)) from None


def no_room(folder: str, needed: int | None = None) -> str:
    """The message that a folder for temporary files is full, or has less room than is needed, in bytes."""
    words = "is full" if needed is None else f"has no room for {needed / 1e6:.0f} MB"
    return (
        f"the folder for temporary files, {folder}, {words}: rows that exceed the memory limit are laid out there. "
        f"Free some room, set the environment variable TMPDIR to a folder on a larger disk, or raise memory_limit."
    )


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path to write to; on success, the file there atomically replaces the one at `path`.

    The new file is flushed to the disk before it replaces the old one, so that even a power cut leaves no half-written
    file. Links are followed. Devices and pipes are written to directly.

    The temporary file is in a hidden folder beside the target. A process that is killed leaves that folder behind; the
    next process that writes to the same path removes it.
    """
    if is_special(path):
        yield Path(path)
        return
    target = Path(os.path.realpath(path))
    with _temporary_folder(target) as folder:
        unfinished = folder / target.name
        unfinished.touch()
        mode = (target if target.exists() else unfinished).stat().st_mode  # kept, whatever mode the writer sets
        yield unfinished
        os.chmod(unfinished, stat.S_IMODE(mode))
        _sync(unfinished)
        os.replace(unfinished, target)
    _sync_folder(target.parent)


@contextmanager
def _temporary_folder(target: Path) -> Iterator[Path]:
    """A hidden folder beside a file, removed at the end; folders that killed processes left behind are removed first.

    It is a folder rather than a file, since some writers make temporary files beside the file that they write.
    """
    prefix = f".{target.name[:MOST_NAME]}."
    _remove_abandoned(target.parent, prefix)
    lock = None
    while lock is None:
        folder = target.parent / f"{prefix}{secrets.token_hex(4)}{SUFFIX}"
        folder.mkdir()
        try:
            lock = _lock(folder)
        except (BlockingIOError, FileNotFoundError):  # another process took it for abandoned before it was locked
            continue
        except OSError:  # a file system without locks, where processes do not remove each other's folders
            break
    try:
        yield folder
    finally:
        _remove(folder, lock)


def _remove_abandoned(parent: Path, prefix: str) -> None:
    """Remove the temporary folders whose processes have ended; a process's lock ends with it, however it ends."""
    name = re.compile(re.escape(prefix) + "[0-9a-f]{8}" + re.escape(SUFFIX))
    with suppress(OSError), os.scandir(parent) as entries:
        for folder in [Path(entry.path) for entry in entries if name.fullmatch(entry.name)]:
            with suppress(OSError):
                _remove(folder, _lock(folder))


def _lock(folder: Path) -> int:
    """Lock a temporary folder; return the descriptor of the open lock file.

    Raises
    ------
    BlockingIOError
        If another process has locked it.
    FileNotFoundError
        If another process has removed it.
    OSError
        If the system or the file system has no locks.
    """
    if fcntl is None:
        raise OSError("no locks")
    path = folder / LOCK
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(handle), os.stat(path)):
            raise FileNotFoundError(path)
    except OSError:
        os.close(handle)
        raise
    return handle


def _remove(folder: Path, lock: int | None) -> None:
    """Remove a temporary folder, then unlock it; in this order, no other process finds it half removed."""
    shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        os.close(lock)
        with suppress(OSError):  # on network file systems, the lock file is there until it is closed
            folder.rmdir()


def _mode(path: str | os.PathLike[str]) -> int | None:
    """The mode of a file, or None if the file does not exist; links are followed."""
    if "\0" in os.fspath(path):
        raise OSError(EINVAL, "its name has a null character in it", os.fspath(path))
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _sync(path: Path) -> None:
    """Flush a file or folder to the disk."""
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(path: Path) -> None:
    """Flush the names of a folder's files to the disk, where the system and the file system can."""
    if os.name == "posix":
        with suppress(OSError):
            _sync(path)


SIGNATURES = {
    b"PAR1": "a Parquet table",
    b"ARROW1": "an Arrow or Feather table",
    b"PK\x03\x04": "a zip file, such as Excel's .xlsx or NumPy's .npz",
    b"\x93NUMPY": "a NumPy array",
    b"\x89HDF": "an HDF5 file",
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"%PDF": "a PDF document",
    b"\x1f\x8b": "a gzip file",
    b"SQLite format 3": "an SQLite database",
    b"\x80\x04\x95": "a pickle, whose loading could run any code",
    b"\x80\x05\x95": "a pickle, whose loading could run any code",
    b"\xd0\xcf\x11\xe0": "a file of an old Microsoft Office, such as .xls",
}
"""What files are, by their first bytes."""


def what_is(path: str | os.PathLike[str]) -> str | None:
    """What a file is by its first bytes, in a few words; None if that is not known."""
    try:
        with open(path, "rb") as file:
            head = file.read(2048)
    except OSError:
        return None
    for magic, words in SIGNATURES.items():
        if head.startswith(magic):
            return words
    try:
        text = head.decode("utf-8-sig", errors="strict" if len(head) < 2048 else "ignore")
    except UnicodeDecodeError:
        return None
    if not text.strip() or any(ord(mark) < 32 and mark not in "\t\r\n\f" for mark in text):
        return None
    start = text.lstrip()[:15].lower()
    if start.startswith(("<!doctype", "<html", "<?xml")):
        return "a page of HTML or XML"
    lines = text.splitlines()
    if start.startswith(("{", "[")):
        return "text, JSON by its look"
    marks = [mark for mark in ",;\t|" if len(lines) > 1 and mark in lines[0] and mark in lines[1]]
    return "a table of text, such as CSV" if marks else "text"
