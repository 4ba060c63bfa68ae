"""Paths of tables: the Parquet files of a folder, and outputs that would overwrite what is read."""

from __future__ import annotations

import os
from pathlib import Path

from ..core.files import is_special

PARQUET = (".parquet", ".pq")  # suffixes of Parquet files; files of a folder with other suffixes are not read


def overwrites(output: str | os.PathLike[str], source: str | os.PathLike[str] | int) -> bool:
    """Whether writing a file would overwrite data that is read: the same file, or a Parquet file of the same folder.

    Links, hard or symbolic, are followed. A model may be written into a folder of tables.

    Parameters
    ----------
    output : str or path-like
        The file to write.
    source : str, path-like or int
        The file to read, a folder of Parquet files, or the descriptor of an open file.
    """
    if is_special(output):
        return False
    try:
        if os.path.samestat(os.stat(output), os.stat(source)):
            return True
    except (OSError, ValueError):  # one of them is not there
        pass
    if isinstance(source, int):
        return False
    target, origin = Path(os.path.realpath(output)), Path(os.path.realpath(source))
    if not origin.is_dir():
        return target == origin
    within = target.suffix.lower() in PARQUET and origin in target.parents
    return within or (target.exists() and any(os.path.samefile(target, file) for file in parquet_files(origin)))


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files in and below a folder, sorted by name, without names that begin with a dot or an underscore."""
    found = sorted(file for file in folder.rglob("*") if file.suffix.lower() in PARQUET and file.is_file())
    return [file for file in found if not any(part[0] in "._" for part in file.relative_to(folder).parts)]
