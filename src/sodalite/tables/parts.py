"""Texts taken apart: the groups of a pattern in all of some texts at once, as numbers by NumPy's arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..core.optional import require
from ..core.types import Array, Floats


@dataclass(frozen=True)
class Part:
    """One part of each of some texts."""

    codes: Array
    """Which of the different parts each text has, of shape (n,)."""
    each: list[str]
    """The different parts; an empty one for texts that have none."""

    def map(self, function: Callable[[str], Any]) -> Array:
        """What a function returns for the part of each text, of shape (n,)."""
        return np.array([function(part) for part in self.each])[self.codes]

    def among(self, which: Array) -> set[str]:
        """The different parts of some texts, but for the empty one."""
        return {self.each[at] for at in np.unique(self.codes[which])} - {""}


@dataclass(frozen=True)
class Parts:
    """The named groups of a pattern in some texts: how numbers, dates, durations and places are taken from them."""

    match: Array
    """Whether each text matches; of shape (n,)."""
    parts: dict[str, Part]

    def __getitem__(self, name: str) -> Part:
        return self.parts[name]

    def number(self, letter: str) -> Floats:
        """The number in the groups whose names begin with a letter, 0 where they are empty; of shape (n,)."""
        groups = (part for name, part in self.parts.items() if name.startswith(letter))
        return np.asarray(sum(part.map(lambda text: float(text.replace(",", ".") or 0)) for part in groups) + 0.0)

    def either(self, one: str, other: str) -> Part:
        """The part of a group or, where that is empty, of another."""
        first, second = self[one], self[other]
        codes = np.where(first.map(bool), first.codes, len(first.each) + second.codes)
        return Part(codes, first.each + second.each)


@lru_cache(maxsize=6)  # several transformers ask about the same texts, and encoding asks again
def parts_of(texts: tuple[str, ...], pattern: str) -> Parts:
    """The named groups of a pattern, of Arrow's regular expressions, which must match the whole of each text."""
    arrow, compute = require("pyarrow", "cli"), require("pyarrow.compute", "cli")
    groups = compute.extract_regex(compute.utf8_trim_whitespace(arrow.array(texts, arrow.string())), f"^(?:{pattern})$")
    parts = {}
    for group in groups.type:
        coded = compute.struct_field(groups, group.name).fill_null("").dictionary_encode()
        parts[group.name] = Part(coded.indices.to_numpy(), coded.dictionary.to_pylist())
    return Parts(groups.is_valid().to_numpy(zero_copy_only=False), parts)
