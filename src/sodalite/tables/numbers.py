"""Columns of numbers: as they are, or in texts with currencies, units, per cent and separators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..core.types import Floats
from ..exceptions import TableError
from .base import CORRECT
from .column import Coded, Column, Lookup, Options, Reading
from .values import Values
from .written_numbers import UNITS, read_numbers

FEWEST = 10  # rows below which a code for missing values cannot be told from a value
SENTINELS = (-1.0, -9.0, -99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0, -99.9, -999.9, 99.99, 999.99)
"""Numbers by which missing values are often coded."""


@dataclass(frozen=True)
class Numbers(Column):
    """Numbers, which stay as they are."""

    kind: ClassVar[str] = "number"
    kinds: ClassVar[tuple[str, ...]] = ("number", "bool")
    form: str = "."
    """The decimal mark in texts and, if it is unusual, the mark between thousands."""
    unit: str = ""
    """The unit of `UNITS` that numbers in texts are converted to; empty if they have none of these."""

    def encode(self, get: Lookup) -> Coded:
        numbers = self.numbers(get(self.name))
        return self.coded(self.filled(numbers)[:, None], np.isnan(numbers))

    def parse(self, texts: tuple[str, ...]) -> Floats:
        return read_numbers(texts, self.form[0], self.form[1:] or None, unit=self.unit)[0]

    def numbers(self, values: Values) -> Floats:
        """The numbers, of shape (n,), NaN where one is missing; all else, and infinite numbers, are refused."""
        as_written = values.written is not None and (self.form != "." or self.unit)
        data = super().numbers(values.texts() if as_written else values)
        infinite = np.flatnonzero(np.isinf(data))
        if len(infinite):
            raise TableError(
                f"column {self.name!r} has {len(infinite)} infinite value{'s' * (len(infinite) > 1)}, "
                f"the first in {values.place(int(infinite[0]))}. {CORRECT}"
            )
        return data

    @classmethod
    def read(cls, name: str, values: Values, options: Options) -> Reading | None:
        """A column whose values are numbers, or whose texts all are."""
        column, words = cls(name), ""
        if values.kind == "text":
            numbers, written = read_numbers(values.used_texts, options.decimal, options.thousands, options.prefer)
            if np.isnan(numbers).any():
                return None
            column, words = cls(name, written.form, written.unit if written.unit in UNITS else ""), written.words
        elif values.kind != "number":
            return None
        data = column.numbers(values)
        known = data[~np.isnan(data)]
        is_whole = len(known) == len(data) or options.missing in ("drop", "error")
        if not options.chosen and np.ptp(known) == 0 and is_whole:
            return Reading.left_out(name, f"all its values are {known[0]:g}")
        notes = [f"{name!r} is read as {words}."] if words else []
        return column.reading(words or "numbers", data, options, notes + sentinel_note(repr(name), known))


def sentinel_note(what: str, known: Floats) -> list[str]:
    """A note of values that may be a code for missing ones: repeated, and far from all others or more than any other.

    `what` is the column, in words, and `known` are its values that are not missing.
    """
    values, counts = np.unique(known, return_counts=True)
    for code in SENTINELS:
        count = int(counts[values == code].sum())
        others, often = values[values != code], int(counts[values != code].max(initial=0))
        if count < 2 or len(known) - count < FEWEST:
            continue
        gap = max(code - others.max(), others.min() - code, 0.0)
        is_far = gap > max(float(np.ptp(others)) * (0.5 if abs(code) > 90 else 3), 1e-12) and abs(code) > 1
        if is_far or (code <= -99 and count >= 3 and count > 3 * often):
            where = "far from others" if is_far else "more often than any other value"
            return [f"{what} is {code:g} in {count} rows, {where}: if it means missing, na_values=['{code:g}']."]
    return []
