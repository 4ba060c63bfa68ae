"""Checks, before any long work, that there is room for the rows of a fit in memory or on disk."""

from __future__ import annotations

import shutil
import tempfile
from errno import ENOSPC

from ..core.files import no_room
from ..core.memory import limit_from
from ..selection.plan import bytes_in_memory


def too_many_rows(n: int, d: int, q: int, memory_limit: float | str | None) -> ValueError:
    """The error for rows that a posterior needs in memory, and that do not fit."""
    needed, limit = bytes_in_memory(n, d, q), limit_from(memory_limit)
    return ValueError(
        f"the posterior keeps all {n} rows in memory, which takes about {needed / 1e6:.0f} MB, but "
        f"{'half of what is free' if memory_limit is None else 'memory_limit'} is {limit / 1e6:.0f} MB. Use "
        f"posterior='local' or 'vfe', which read the rows where they are, or raise memory_limit."
    )


def check_limit(needed: int, memory_limit: float | str | None) -> None:
    """Refuse a memory limit that is smaller than a fit to rows on disk needs, in bytes."""
    if needed > (limit := limit_from(memory_limit)):
        raise ValueError(
            f"{'Half of what is free' if memory_limit is None else 'memory_limit'} is {limit / 1e6:.0f} MB, but "
            f"posterior='local' needs at least {needed / 1e6 + 1:.0f} MB for these rows, which are on disk. Raise "
            f"memory_limit, or use posterior='vfe'."
        )


def check_disk(n: int, d: int, q: int) -> None:
    """Refuse rows that exceed the memory limit if the folder for temporary files has no room for them.

    Rows are laid out there twice: in buckets, and then in the order of cells.
    """
    needed = 2 * n * 8 * (2 * d + q + 3)
    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError as error:
        raise OSError(error.errno, f"there is no folder for temporary files: {error.strerror}. Set TMPDIR.") from None
    if shutil.disk_usage(folder).free < needed:
        raise OSError(ENOSPC, no_room(folder, needed))
