"""How much memory may be used, and how the rows are divided into shards that fit into it."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from dataclasses import dataclass
from errno import ENOSPC
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from .files import no_room
from .threads import n_threads

UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}

SHARD_ROWS = 8192  # rows of a shard: its arrays for a block fit the cache, and NumPy's calls are few
LEAST_ROWS = 256  # rows of the smallest shard: with fewer, calls take longer than the work in them

# Sizes of what a selection allocates, which `make_plan` counts on.
BLOCK = 128  # the most picks in a block
SLAB = 256  # active rows whose covariances with a shard are held at a time: 16 MB a thread with 8192 rows in float64
# Picks between two updates of the variances that bound the scores. With more, the bounds are looser and more rows are
# scored exactly; with fewer, there are more passes over all rows.
STRIDE = 16
FIXED = 6 * 2**20  # bytes allowed for small arrays, which are not counted one by one


def parse_bytes(limit: Any) -> int:
    """A `memory_limit` in bytes, from a number or a string such as ``"300MB"``.

    Examples
    --------
    >>> parse_bytes("1.5 GB")
    1500000000
    """
    if isinstance(limit, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([KMGT]?I?B?)\s*", limit.upper())
        unit = match and (match[2] if match[2].endswith("B") or not match[2] else match[2] + "B")
        if not match or unit not in UNITS:
            raise ValueError(
                f"memory_limit must be a number of bytes or a string such as '300MB' or '4GB'; got {limit!r}."
            )
        return int(float(match[1]) * UNITS[str(unit)])
    if isinstance(limit, bool) or not isinstance(limit, Real):
        raise TypeError(f"memory_limit must be a number of bytes or a string such as '300MB'; got {limit!r}.")
    if not float(limit) > 0:
        raise ValueError(f"memory_limit must be positive; got {limit!r}.")
    return int(min(float(limit), sys.maxsize))


def available() -> int:
    """Bytes that can be had without swapping: the system's free memory, or less if a control group limits it.

    The numbers are read from Linux's files. psutil has no notion of control groups, so within a container it would
    report the memory of the whole machine; and it would be a further dependency.
    """
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 2**32
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    for limit, usage in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            free = min(free, max(int(Path(limit).read_text()) - int(Path(usage).read_text()), 0))
        except (OSError, ValueError):  # no such group, or "max": no limit
            continue
    return free


def limit_from(memory_limit: float | str | None) -> int:
    """The bytes that an argument `memory_limit` allows; None allows half of what is free."""
    return available() // 2 if memory_limit is None else parse_bytes(memory_limit)


def bytes_of(features: Any) -> int:
    """The bytes of an array, or of nested tuples of arrays."""
    return sum(map(bytes_of, features)) if isinstance(features, tuple) else int(features.nbytes)


def fits_in_memory(n: int, d: int, q: int, memory_limit: float | str | None) -> bool:
    """Whether the posterior "local" can keep n rows of d inputs and q targets in memory, within the memory limit."""
    return bytes_in_memory(n, d, q) <= limit_from(memory_limit)


def bytes_in_memory(n: int, d: int, q: int) -> int:
    """The rows, the distinct ones, these prepared, a tree; residuals and noise."""
    return 8 * n * (5 * d + 4 * q + 8)


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


@dataclass(frozen=True)
class MemoryPlan:
    """How a selection is laid out on this machine."""

    parts: list[tuple[int, int]]
    """The shards: the first row of each, and the one after the last."""
    n_threads: int
    keep: bool
    """Whether the rows' coordinates v are kept, O(n m), or their covariances evaluated anew for every block."""


def most_candidates(n: int) -> int:
    """The largest size of the candidate set of n rows: n / 50, at least 512, at most 4000.

    A small share of the rows, so that the guess costs little beside the block product. Of more rows, more come close to
    being picked, and only a panel that holds them guesses well: beyond 2.5 million rows it may hold n / 625, at most
    16 000.
    """
    return min(max(n // 50, 512), max(4000, min(n // 625, 16_000)), n)


def make_plan(
    n: int,
    m: int,
    q: int,
    dtype: DTypeLike,
    n_jobs: int | None,
    memory_limit: float | str | None,
    width: int = 0,
    held: int = 0,
) -> MemoryPlan:
    """Divide n rows into shards for the available threads, within a limit on memory.

    Parameters
    ----------
    n, m, q : int
        Rows, active rows, targets.
    dtype : float64 or float32
    n_jobs : int, optional
    memory_limit : int, str, optional
        By default half of what is free.
    width : int
        Bytes of a row, prepared for the kernel.
    held : int
        Bytes that the data take while they are read, where they are not in memory.
    """
    limit, threads, item = limit_from(memory_limit), n_threads(n_jobs), np.dtype(dtype).itemsize
    shared = _bytes_of_rows(n, q) + _bytes_of_driver(n, m) + held
    per_row = _bytes_per_worked_row(q, item, width)
    size = min(SHARD_ROWS, max(n // threads, LEAST_ROWS))
    while size > LEAST_ROWS and shared + threads * size * per_row > limit:
        size //= 2
    needed = shared + threads * size * per_row
    if needed > limit:
        least = shared + threads * LEAST_ROWS * per_row
        reading = f" Reading X takes {held / 1e6:.0f} MB of these: smaller row groups would take less."
        raise ValueError(
            f"memory_limit is {limit / 1e6:.0f} MB, but {n} rows and {m} active rows need at least "
            f"{least / 1e6 + 1:.0f} MB. Raise it, or ask for fewer threads (n_jobs) or a smaller n_active."
            f"{reading if held > limit / 4 else ''}"
        )
    keep = needed + n * (m * item + width) <= limit
    count = -(-n // size)
    if count > threads:
        count = threads * -(-count // threads)  # the same number for each thread: none waits for another's last shard
    edges = np.linspace(0, n, count + 1).astype(int).tolist()
    return MemoryPlan(list(pairwise(edges)), threads, keep)


def _bytes_of_rows(n: int, q: int) -> int:
    """The state of all rows: variance, residuals, mask, noise variance, random weight."""
    return n * (8 + 8 * q + 1 + 8 + 8)


def _bytes_of_driver(n: int, m: int) -> int:
    """The factor of the active rows; the candidates' coordinates, and their covariances with likely picks."""
    return 8 * m * m + 8 * most_candidates(n) * (m + 4 * min(m, BLOCK)) + FIXED


def _bytes_per_worked_row(q: int, item: int, width: int) -> int:
    """Per row of a shard that a thread works on: coordinates, residual paths, a slab of covariances, score bounds."""
    return BLOCK * (3 * item + 8 * q) + SLAB * item + 3 * STRIDE * 8 + 3 * width
