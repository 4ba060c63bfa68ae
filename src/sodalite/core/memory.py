"""How much memory may be used, and how the rows are cut up to keep to it."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from .threads import n_threads

UNITS = {
    "": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}


def parse_bytes(limit: Any, name: str = "memory_limit") -> int:
    """A number of bytes from a number or a string such as ``"300MB"``.

    Examples
    --------
    >>> parse_bytes("1.5 GB")
    1500000000
    """
    if isinstance(limit, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([KMGT]?I?B?)\s*", limit.upper())
        unit = match and (match[2] if match[2].endswith("B") or not match[2] else match[2] + "B")
        if not match or unit not in UNITS | {"B": 1}:
            raise ValueError(f"{name} must be a number of bytes or a string such as '300MB' or '4GB'; got {limit!r}.")
        return int(float(match[1]) * (UNITS | {"B": 1})[str(unit)])
    if isinstance(limit, bool) or not isinstance(limit, Real):
        raise TypeError(f"{name} must be a number of bytes or a string such as '300MB'; got {limit!r}.")
    if not float(limit) > 0:
        raise ValueError(f"{name} must be positive; got {limit!r}.")
    return int(min(float(limit), sys.maxsize))


def available() -> int:
    """Bytes that can be had without swapping: what the system says is free, or what a control group leaves of it."""
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


def bytes_of(features: Any) -> int:
    """The bytes of an array, or of tuples of arrays."""
    return sum(map(bytes_of, features)) if isinstance(features, tuple) else int(features.nbytes)


def check_all_rows(n: int, d: int, q: int, memory_limit: Any) -> None:
    """Refuse to have all rows in memory, and what "local" needs beside them, where that is more than the limit."""
    limit = available() // 2 if memory_limit is None else parse_bytes(memory_limit)
    needed = 8 * n * (5 * d + 4 * q + 8)  # the rows, the distinct ones, these prepared, a tree; residuals and noise
    if needed > limit:
        raise ValueError(
            f"posterior='local' keeps all {n} rows in memory, which takes about {needed / 1e6:.0f} MB, but "
            f"{'half of what is free' if memory_limit is None else 'memory_limit'} is {limit / 1e6:.0f} MB. Use "
            f"posterior='vfe', which makes one pass over the rows where they are, or 'sod', or raise memory_limit."
        )


@dataclass(frozen=True)
class Plan:
    """How a selection is laid out on this machine."""

    parts: list[tuple[int, int]]
    """The shards: first row, and the one after the last."""
    n_threads: int
    keep: bool
    """Whether the rows' v's are kept, O(n m), or the covariances evaluated anew for every block."""


def most_candidates(n: int) -> int:
    """The most rows that a panel may hold: a small share of all, so that the guess costs little beside the product.

    Of more rows, more come close to being picked, and only a panel that has them guesses well.
    """
    return min(max(n // 50, 512), max(4000, min(n // 625, 16_000)), n)


ROWS = 8192  # of a shard: its arrays for a block fit the cache, and NumPy's calls are few
LEAST_ROWS = 256


def make_plan(
    n: int, m: int, q: int, dtype: Any, n_jobs: int | None, memory_limit: Any, width: int = 0, held: int = 0
) -> Plan:
    """Cut n rows into shards for the threads that there are, within a limit on memory.

    Parameters
    ----------
    n, m, q : int
        Rows, active rows, targets.
    dtype : float64 or float32
    n_jobs : int, optional
    memory_limit : int, str, optional
        By default half of what is free.
    width : int
        Bytes of a row, ready for the kernel.
    held : int
        Bytes that the data take while they are read, where they are not in memory.
    """
    limit = available() // 2 if memory_limit is None else parse_bytes(memory_limit)
    threads = n_threads(n_jobs)
    item = np.dtype(dtype).itemsize
    # Per row: variance, residuals, mask, a noise variance, luck, and a copy of the residuals while a block is added.
    state = n * (8 + 8 * q + 1 + 8 + 8)
    # The active rows' factor; the candidates' coordinates, and their covariances with the likely picks among them.
    driver = 8 * m * m + 8 * most_candidates(n) * (m + 4 * min(m, 128)) + 6 * 2**20 + held
    # Per row of a shard that a thread works on: raw and mixed coordinates, the residual path, a slab of covariances.
    work = 128 * (3 * item + 8 * q) + 256 * item + 3 * 16 * 8 + 3 * width
    rows = min(ROWS, max(n // threads, LEAST_ROWS))
    while rows > LEAST_ROWS and state + driver + threads * rows * work > limit:
        rows //= 2
    if state + driver + threads * rows * work > limit:
        needed = state + driver + threads * LEAST_ROWS * work
        large = held > limit / 4
        raise ValueError(
            f"memory_limit is {limit / 1e6:.0f} MB, but {n} rows and {m} active rows need at least "
            f"{needed / 1e6 + 1:.0f} MB. Raise it, or ask for fewer threads (n_jobs) or a smaller n_active."
            + f" Reading X takes {held / 1e6:.0f} MB of these: smaller row groups would take less."
            * large
        )
    keep = state + driver + threads * rows * work + n * (m * item + width) <= limit
    count = -(-n // rows)
    if count > threads:
        count = threads * -(-count // threads)  # as many for each thread: none waits for another's last
    edges = np.linspace(0, n, count + 1).astype(int).tolist()
    return Plan(list(pairwise(edges)), threads, keep)
