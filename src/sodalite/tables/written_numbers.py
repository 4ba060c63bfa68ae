"""Numbers as people write them in texts: with currencies, units, per cent, thousands separators, feet and inches."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ..core.types import Floats
from .base import is_number

CODE = re.compile(r"[A-Za-z]{0,3}[-/.]?[0-9]+[-/.]?[A-Za-z]{0,3}")  # a code of digits and few letters
SIGNS = r"[$€£¥₹]|USD|EUR|CHF|GBP|US\$"
MULTIPLES = {"k": 1e3, "K": 1e3, "M": 1e6, "m": 1e6, "mn": 1e6, "B": 1e9, "bn": 1e9, "Bn": 1e9}
MULTIPLES |= {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
MULTIPLE_WORDS = {1e3: "thousands", 1e6: "millions", 1e9: "billions", 1e12: "trillions"}
QUANTITIES = {
    "length": {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "km": 1e3, "in": 0.0254, "ft": 0.3048, "yd": 0.9144, "mi": 1609.344},
    "mass": {"mg": 1e-6, "g": 1e-3, "kg": 1.0, "t": 1e3, "lb": 0.45359237, "lbs": 0.45359237, "oz": 0.028349523125},
    "volume": {"ml": 1e-3, "mL": 1e-3, "cl": 1e-2, "dl": 0.1, "l": 1.0, "L": 1.0},
}
"""The sizes of units: numbers with several units of one quantity are converted to one of them."""
UNITS = {unit: (what, size) for what, units in QUANTITIES.items() for unit, size in units.items()}
FEET = re.compile(
    r"(?P<feet>\d+)\s*(?:['\u2019\u2032]|ft\.?|feet)\s*"
    r"(?:(?P<inches>\d|1[01]|\d\.\d+|1[01]\.\d+)\s*(?:\"|''|[\u201d\u2033]|in\.?|inches)?)?"
)
"""Feet and inches, such as 5'11"; 1'200 has a separator of thousands."""
SPACES = "\u00a0\u202f\u2009 "  # spaces that separate thousands
NUMBER = re.compile(
    rf"(?P<about>[<>\u2264\u2265~\u2248]=?)?\s*(?P<open>\()?\s*(?P<sign>[-+\u2212])?\s*(?P<prefix>{SIGNS})?\s*(?P<sign2>[-+\u2212])?"
    rf"\s*(?P<digits>[0-9.,'\u2019{SPACES}]*[0-9.,])(?P<exponent>[eE][-+]?\d+)?\s*(?P<more>\+|\*{{1,3}})?\s*"
    rf"(?P<suffix>%|{SIGNS}|thousand|million|billion|trillion|[A-Za-zµ°²³/]{{1,6}})?\s*\)?"
)


@dataclass(frozen=True)
class Written:
    """How numbers are written in a column of texts."""

    decimal: str = "."
    thousands: str = ""
    """The separator that occurs; empty if none does."""
    unit: str = ""
    """A currency, "%" or a unit that stands at every number, or that others are converted to."""
    words: str = field(default="", compare=False)
    """What was read, in words; empty for plain numbers."""

    @property
    def form(self) -> str:
        """The marks by which further texts of the column are read: the decimal mark and, if it is unusual, the other.

        Examples
        --------
        >>> Written(",", ".").form, Written(".", "_").form
        (',', '._')
        """
        return self.decimal + ("" if self.thousands in (",", ".", "'", "\u2019", *SPACES) else self.thousands)

    def doubtful(self, number: str) -> Written:
        """The same, with how to overrule it if numbers such as this one can be read in two ways."""
        mark = "," if "," in number else "."
        what, option = ("separates thousands", "thousands") if mark == self.decimal else ("is decimal", "decimal")
        return replace(self, words=f"{self.words} (if the mark in {number!r} {what}, --{option} {mark})")


class _Number(NamedTuple):
    """One text as a number, and what stands with it."""

    value: float
    unit: str = ""
    separators: str = ""
    multiple: str = ""
    in_brackets: bool = False
    marks: tuple[str, ...] = ()
    """Marks that are passed over, such as < and +."""


def read_numbers(
    texts: Sequence[str], decimal: str | None = None, thousands: str | None = None, prefer: str = ".", unit: str = ""
) -> tuple[Floats, Written]:
    """Texts as numbers, NaN for other texts, and how they are written.

    Parameters
    ----------
    texts : sequence of str
        The different texts of a column.
    decimal, thousands : str, optional
        The marks; found from the texts unless given.
    prefer : {".", ","}
        The decimal mark where both readings are possible, as for "1,234".
    unit : str
        The unit, one of `UNITS`, that numbers with others of the same quantity are converted to; found unless given.

    Examples
    --------
    >>> read_numbers(["$1,234.50", "$-3"])[0].tolist()
    [1234.5, -3.0]
    >>> read_numbers(["1.234,5 %", "7 %"])[1]
    Written(decimal=',', thousands='.', unit='%', words="numbers with '%', decimal commas, '.' between thousands")
    """
    is_plain = decimal in (None, ".") and not thousands and not unit and all(map(is_number, texts))
    if is_plain and (decimal or prefer == "."):
        return np.array([float(text) for text in texts]), Written()
    marks = [decimal] if decimal else [mark for mark in (prefer, _other(prefer)) if mark != thousands]
    tried = [_read(texts, mark, thousands, unit) for mark in marks]
    counts = [int(np.isfinite(numbers).sum()) for numbers, _ in tried]
    tried = [each for each, count in zip(tried, counts, strict=True) if count == max(counts)]
    if np.array_equal(tried[0][0], tried[-1][0], equal_nan=True):
        return tried[0]
    return _likelier(texts, tried, prefer)


def _other(mark: str) -> str:
    """The comma for the point, and the point for the comma."""
    return "," if mark == "." else "."


def _likelier(texts: Sequence[str], tried: Sequence[tuple[Floats, Written]], prefer: str) -> tuple[Floats, Written]:
    """The likelier of two readings of one column, each of which reads all texts and takes one mark for decimal.

    Three digits follow the mark wherever the readings differ. If all numbers that are 1000 or more have the mark, and
    as many digits before it as numbers of several sizes have, it separates thousands. Where a point is the usual
    decimal mark, a point is decimal.
    """
    by_mark = {written.decimal: (numbers, written) for numbers, written in tried}
    digits = [match["digits"].strip() for text in texts if (match := NUMBER.fullmatch(text.strip()))]
    used = {mark for number in digits for mark in number if mark in ",."}
    if len(used) > 1 or (used == {"."} and prefer == "."):
        return by_mark[prefer]
    mark = used.pop()
    before = {len(number.partition(mark)[0]) for number in digits if mark in number}
    whole = [number for number in digits if mark not in number and number.strip("0")]
    if any(len(number) > 3 for number in whole):
        return by_mark[mark]
    if len(before) > 1 or whole:
        return by_mark[_other(mark)]
    numbers, written = by_mark[prefer]
    return numbers, written.doubtful(next(number for number in digits if mark in number))


def _read(texts: Sequence[str], decimal: str, thousands: str | None, unit: str) -> tuple[Floats, Written]:
    """Texts as numbers by one decimal mark, and in one unit."""
    parsed = {at: found for at, text in enumerate(texts) if (found := _number(text, decimal, thousands)) is not None}
    every = list(parsed.values())
    counts = Counter(number.unit or number.multiple for number in every)
    singular = {each: each[:-1] if each[:-1] in counts and each.endswith("s") else each for each in counts}  # years
    units = {singular[number.unit or number.multiple] for number in every}
    quantities = {UNITS[each][0] if each in UNITS else each for each in units}
    numbers, others, multiples = np.full(len(texts), np.nan), list[str](), set[str]()
    is_quantity = len(quantities) == 1 and quantities <= set(QUANTITIES)
    if is_quantity and (UNITS[unit][0] in quantities if unit else len(units) > 1):
        unit = unit or max(units, key=lambda each: counts[each])
        others = sorted(units - {unit})
        for at, number in parsed.items():
            own = number.unit or number.multiple
            numbers[at] = number.value * (1.0 if own == unit else UNITS[own][1] / UNITS[unit][1])
    elif len({singular.get(number.unit, "") for number in every}) > 1:
        # Some have a unit and some do not: these are not the same quantity.
        return np.array([float(text) if is_number(text) else np.nan for text in texts]), Written()
    else:
        unit = singular[every[0].unit] if every and every[0].unit else ""
        multiples = {number.multiple for number in every} - {""}
        for at, number in parsed.items():
            numbers[at] = number.value * MULTIPLES.get(number.multiple, 1.0)
    separator = "".join(sorted({mark for number in every for mark in number.separators}))[:1]
    words = [repr(unit)] if unit else []
    words += [f"{', '.join(map(repr, others))} converted to it"] if others else []
    words += ["decimal commas"] if decimal == "," and any("," in text for text in texts) else []
    words += [f"{repr(separator) if separator not in SPACES else 'blanks'} between thousands"] if separator else []
    words += [f"{multiple!r} for {MULTIPLE_WORDS[MULTIPLES[multiple]]}" for multiple in sorted(multiples)]
    words += ["negative ones in brackets"] if any(number.in_brackets for number in every) else []
    if marks := sorted({mark for number in every for mark in number.marks}):
        shown = " and ".join(map(repr, marks))
        words.append(f"{shown} at some of them, which {'are' if len(marks) > 1 else 'is'} passed over")
    return numbers, Written(decimal, separator, unit, f"numbers with {', '.join(words)}" if words else "")


def _number(text: str, decimal: str, thousands: str | None) -> _Number | None:
    """One text as a number; None if it is something else."""
    separators = thousands if thousands and thousands in text else ""
    text = (text.replace(thousands, "") if thousands else text).strip()
    if match := FEET.fullmatch(text):
        return _Number(int(match["feet"]) + float(match["inches"] or 0) / 12, "ft")
    match = NUMBER.fullmatch(text)
    if match is None:
        return _Number(float(text)) if is_number(text) and (decimal == "." or "." not in text) else None
    digits, suffix = match["digits"], match["suffix"] or ""
    value = _digits(digits, decimal, _other(decimal) if thousands is None else thousands)
    if value is None:
        return None
    value *= float(f"1{match['exponent']}") if match["exponent"] else 1.0
    is_negative = (match["sign"] or match["sign2"] or "+") in "-\u2212" or bool(match["open"])
    multiple = suffix if suffix in MULTIPLES else ""
    return _Number(
        -value if is_negative else value,
        match["prefix"] or ("" if multiple else suffix),
        separators + "".join(mark for mark in digits if not mark.isdigit() and mark != decimal),
        multiple,
        bool(match["open"]),
        tuple(filter(None, (match["about"], match["more"]))),
    )


def _digits(digits: str, decimal: str, thousands: str) -> float | None:
    """A number without sign; None if its separators are not in their places."""
    whole, mark, rest = digits.partition(decimal)
    groups = re.split(rf"[{re.escape(thousands)}'\u2019{SPACES}]", whole.strip())
    first = groups[0]
    grouped = 1 <= len(first) <= 3 and first[0] != "0" and all(len(group) == 3 for group in groups[1:])
    if (len(groups) > 1 and not grouped) or (mark and not (rest.isdigit() or not rest)):
        return None
    joined = "".join(groups)
    return float(f"{joined or 0}.{rest or 0}") if (joined + rest).isdigit() else None


def in_several_currencies(texts: Sequence[str]) -> tuple[str, str] | None:
    """Two texts, where all are amounts but in different currencies, such as $ and €; None if they are anything else."""
    examples: dict[str, str] = {}
    for text in texts:
        match = NUMBER.fullmatch(text.strip())
        if match is None or not re.fullmatch(SIGNS, sign := match["prefix"] or match["suffix"] or ""):
            return None
        examples.setdefault(sign, text)
    first, *others = examples.values() or [""]
    return (first, others[0]) if others else None
