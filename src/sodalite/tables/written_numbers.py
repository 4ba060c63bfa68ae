"""Numbers as people write them in texts: with currencies, units, per cent, thousands separators, feet and inches."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

import numpy as np

from ..core.types import Floats
from .base import is_number
from .values import CODES

CODE = re.compile(r"[A-Za-z]{0,3}[-/.]?[0-9]+[-/.]?[A-Za-z]{0,3}")  # a code of digits and few letters
LEVEL_CODES = frozenset(["", "na", "n/a", "#n/a", "nan", "null", "?", "<na>", "n.a."])
"""Texts, in lower case, that mean a missing value in a column of texts; others may be levels, such as "none"."""

SIGNS = r"[$€£¥₹]|USD|EUR|CHF|GBP|US\$"
MULTIPLES = {"k": 1e3, "K": 1e3, "M": 1e6, "m": 1e6, "mn": 1e6, "B": 1e9, "bn": 1e9, "Bn": 1e9}
MULTIPLES |= {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
UNITS = {"mm": ("length", 1e-3), "cm": ("length", 1e-2), "m": ("length", 1.0), "km": ("length", 1e3)}
UNITS |= {"in": ("length", 0.0254), "ft": ("length", 0.3048), "yd": ("length", 0.9144), "mi": ("length", 1609.344)}
UNITS |= {"mg": ("mass", 1e-6), "g": ("mass", 1e-3), "kg": ("mass", 1.0), "t": ("mass", 1e3)}
UNITS |= {
    "lb": ("mass", 0.45359237),
    "lbs": ("mass", 0.45359237),
    "oz": ("mass", 0.028349523125),
    "ml": ("volume", 1e-3),
    "mL": ("volume", 1e-3),
}
UNITS |= {"cl": ("volume", 1e-2), "dl": ("volume", 0.1), "l": ("volume", 1.0), "L": ("volume", 1.0)}
"""What a unit measures, and its size: numbers with several units of one quantity are converted to one of them."""
FEET = re.compile(
    r"(?P<feet>\d+)\s*(?:['\u2019\u2032]|ft\.?|feet)\s*"
    r"(?:(?P<inches>\d|1[01]|\d\.\d+|1[01]\.\d+)\s*(?:\"|''|[\u201d\u2033]|in\.?|inches)?)?"
)
"""Feet and inches, such as 5'11"; 1'200 has a separator of thousands."""
MULTIPLE_WORDS = {1e3: "thousands", 1e6: "millions", 1e9: "billions", 1e12: "trillions"}
LONG_MULTIPLES = "|".join(word for word in MULTIPLES if len(word) > 5)
SPACES = "\u00a0\u202f\u2009 "  # spaces that separate thousands
NUMBER = re.compile(
    rf"(?P<about>[<>\u2264\u2265~\u2248]=?)?\s*(?P<open>\()?\s*(?P<sign>[-+\u2212])?\s*(?P<prefix>{SIGNS})?\s*(?P<sign2>[-+\u2212])?"
    rf"\s*(?P<digits>[0-9.,'\u2019{SPACES}]*[0-9.,])(?P<exponent>[eE][-+]?\d+)?\s*(?P<more>\+|\*{{1,3}})?\s*"
    rf"(?P<suffix>%|{SIGNS}|{LONG_MULTIPLES}|[A-Za-zµ°²³/]{{1,6}})?\s*\)?"
)


@dataclass(frozen=True)
class Written:
    """How numbers are written in a column of texts."""

    decimal: str = "."
    thousands: str = ""
    """The separator that occurs; empty if none does."""
    unit: str = ""
    """A currency, "%" or a unit that stands at every number."""
    has_decimals: bool = field(default=False, compare=False, repr=False)
    """Whether the decimal mark occurs."""
    letters: str = field(default="", compare=False, repr=False)
    """The letters that multiply numbers, such as k for thousands; empty if none does."""
    has_brackets: bool = field(default=False, compare=False, repr=False)
    """Whether negative numbers stand in brackets."""
    marks: str = field(default="", compare=False, repr=False)
    """Marks at some numbers that are passed over, such as < and +, between blanks; empty if there are none."""
    converted: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Other units, which are converted to `unit`."""
    doubt: str = field(default="", compare=False, repr=False)
    """A number, if all that have its mark can be read in two ways and nothing tells which one; else empty."""

    @property
    def form(self) -> str:
        """The marks by which further texts of the column are read: the decimal mark and, if it is unusual, the other.

        Examples
        --------
        >>> Written(",", ".").form, Written(".", "_").form
        (',', '._')
        """
        return self.decimal + ("" if self.thousands in (",", ".", "'", "\u2019", *SPACES) else self.thousands)

    def words(self) -> str:
        """What was read, in words; empty for plain numbers."""
        parts = [repr(self.unit)] if self.unit else []
        parts += [f"{', '.join(map(repr, self.converted))} converted to it"] if self.converted else []
        if self.decimal == "," and self.has_decimals:
            parts.append("decimal commas")
        if self.thousands:
            mark = repr(self.thousands) if self.thousands.isprintable() and self.thousands.strip() else "blanks"
            parts.append(f"{mark} between thousands")
        parts += [f"{letter!r} for {MULTIPLE_WORDS[MULTIPLES[letter]]}" for letter in self.letters.split()]
        if self.has_brackets:
            parts.append("negative ones in brackets")
        if self.marks:
            shown = " and ".join(map(repr, self.marks.split()))
            parts.append(f"{shown} at some of them, which {'are' if ' ' in self.marks else 'is'} passed over")
        return f"numbers with {', '.join(parts)}{self._other_way()}" if parts else ""

    def _other_way(self) -> str:
        """How a reading that is in doubt is overruled."""
        if not self.doubt:
            return ""
        mark = "," if "," in self.doubt else "."
        what, option = ("separates thousands", "thousands") if mark == self.decimal else ("is decimal", "decimal")
        return f" (if the mark in {self.doubt!r} {what}, --{option} {mark})"


def read_numbers(
    texts: Sequence[str], decimal: str | None = None, thousands: str | None = None, prefer: str = ".", unit: str = ""
) -> tuple[Floats, Written]:
    """Texts as numbers, NaN where one is none, and how they are written.

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
    >>> read_numbers(["1.234,5 %", "7 %"])
    (array([1234.5,    7. ]), Written(decimal=',', thousands='.', unit='%'))
    """
    plain = decimal in (None, ".") and not thousands and not unit and all(map(is_number, texts))
    if plain and (decimal or prefer == "."):
        return np.array([float(text) for text in texts]), Written()
    marks = [decimal] if decimal else [mark for mark in (prefer, _other(prefer)) if mark != thousands]
    tried = [_read(texts, mark, thousands, unit) for mark in marks]
    best = max(int(np.isfinite(found).sum()) for found, _ in tried)
    tried = [(found, written) for found, written in tried if int(np.isfinite(found).sum()) == best]
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
    by_mark = {written.decimal: (found, written) for found, written in tried}
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
    found, written = by_mark[prefer]
    return found, replace(written, doubt=next(number for number in digits if mark in number))


def _read(texts: Sequence[str], decimal: str, thousands: str | None, unit: str = "") -> tuple[Floats, Written]:
    """Texts as numbers by one decimal mark, and in one unit."""
    found, plain, units, separators = np.full(len(texts), np.nan), np.full(len(texts), np.nan), {}, set()
    letters, marks, has_brackets = set(), set(), False
    other = _other(decimal) if thousands is None else thousands
    for place, given in enumerate(texts):
        text = (given.replace(thousands, "") if thousands else given).strip()
        if match := FEET.fullmatch(text):
            found[place] = plain[place] = int(match["feet"]) + float(match["inches"] or 0) / 12
            units[place] = "ft"
            continue
        match = NUMBER.fullmatch(text)
        if match is None:
            if is_number(text) and (decimal == "." or "." not in text):
                found[place] = plain[place] = float(text)
            continue
        digits = match["digits"]
        number = _digits(digits, decimal, other)
        if number is None:
            continue
        suffix = match["suffix"] or ""
        if match["exponent"]:
            number *= float(f"1{match['exponent']}")
        negative = (match["sign"] or match["sign2"] or "+") in "-\u2212" or bool(match["open"])
        number = -number if negative else number
        plain[place], found[place] = number, number * MULTIPLES.get(suffix, 1.0)
        letters |= {suffix} & set(MULTIPLES)
        units[place] = match["prefix"] or suffix
        marks |= {match["about"] or "", match["more"] or ""} - {""}
        has_brackets |= bool(match["open"])
        separators |= {mark for mark in digits if not mark.isdigit() and mark != decimal}
        separators |= {thousands} if thousands and thousands in given else set()
    used = set(units.values())
    units = {at: one.removesuffix("s") if one.removesuffix("s") in used else one for at, one in units.items()}
    converted = _converted(plain, units, unit)
    if converted is not None:
        found, unit, others = converted
        letters = set()
    else:
        used, others = {"" if one in MULTIPLES else one for one in units.values()}, ()
        if len(used) > 1:  # some with a unit, some without: these are not the same quantity
            return np.array([float(text) if is_number(text) else np.nan for text in texts]), Written()
        unit = "".join(used)
    return found, Written(
        decimal,
        "".join(sorted(separators))[:1],
        unit,
        any(decimal in text for text in texts),
        " ".join(sorted(letters)),
        has_brackets,
        " ".join(sorted(marks)),
        converted=others,
    )


def _converted(plain: Floats, units: Mapping[int, str], unit: str) -> tuple[Floats, str, tuple[str, ...]] | None:
    """Numbers in one unit, that unit, and the others; None if the units are not of one quantity, or all the same.

    Parameters
    ----------
    plain : array of shape (n,)
        The numbers as they stand.
    units : mapping of int to str
        The unit of each number, by its place.
    unit : str
        The unit that the numbers are to have; the most frequent one if empty.
    """
    counts = Counter(units.values())
    quantities = {UNITS[each][0] if each in UNITS else each for each in counts}
    if len(quantities) != 1 or not quantities <= {what for what, _ in UNITS.values()}:
        return None
    if (not unit and len(counts) == 1) or (unit and UNITS[unit][0] not in quantities):
        return None
    unit = unit or counts.most_common(1)[0][0]
    factors = np.full(len(plain), np.nan)
    for place, each in units.items():
        factors[place] = 1.0 if each == unit else UNITS[each][1] / UNITS[unit][1]
    return plain * factors, unit, tuple(sorted(set(counts) - {unit}))


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


def is_code(text: str, codes: frozenset[str] = CODES) -> bool:
    """Whether a text means that a value is missing."""
    return text.strip().lower() in codes


def as_code(text: str) -> Callable[[str], bool]:
    """Whether a text is equal to a code of the user's, as texts or as numbers."""
    number = float(text) if is_number(text) else None

    def equal(other: str) -> bool:
        if other.strip() == text.strip():
            return True
        return number is not None and is_number(other) and isfinite(number) and float(other) == number

    return equal
