"""Parts of messages to users."""

from __future__ import annotations

from collections.abc import Mapping


def counted(counts: Mapping[str, int], most: int = 8) -> str:
    """Names with their counts as a part of a sentence; of more than `most`, the most frequent.

    Examples
    --------
    >>> counted({"a": 1, "b": 3, "c": 2}, most=2)
    "'b' (3), 'c' (2) and 1 more"
    """
    ranked = sorted(counts.items(), key=lambda pair: -pair[1]) if len(counts) > most else list(counts.items())
    shown = ", ".join(f"{name!r} ({count})" for name, count in ranked[:most])
    return shown + (f" and {len(counts) - most} more" if len(counts) > most else "")
