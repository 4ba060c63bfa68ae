"""How much memory there is, and how much of it may be used."""

from __future__ import annotations

import os
import re
import sys
from numbers import Real
from pathlib import Path
from typing import Any

PREFIXES = " KMGT"


def parse_bytes(limit: Any) -> int:
    """A `memory_limit` in bytes, from a number or a string such as ``"300MB"``.

    Examples
    --------
    >>> parse_bytes("1.5 GB")
    1500000000
    """
    if isinstance(limit, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(?:([KMGT])(I?))?B?\s*", limit.upper())
        if not match:
            raise ValueError(
                f"memory_limit must be a number of bytes or a string such as '300MB' or '4GB'; got {limit!r}."
            )
        return int(float(match[1]) * (1024 if match[3] else 1000) ** PREFIXES.index(match[2] or " "))
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
