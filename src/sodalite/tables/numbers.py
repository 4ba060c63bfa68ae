"""Numbers: as they are, or as people write them, with currencies, units, per cent, separators, feet and inches."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from ..core.optional import require
from ..core.types import Floats
from ..exceptions import TableError
from .base import CORRECT, is_number
from .column import Coded, Column, Lookup, Options, Reading
from .parts import Parts, parts_of
from .values import Values

FEWEST = 10  # rows below which a code for missing values cannot be told from a value
SENTINELS = (-1.0, -9.0, -99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0, -99.9, -999.9, 99.99, 999.99)
"""Numbers by which missing values are often coded."""

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
SPACES = "\u00a0\u202f\u2009 "  # spaces that separate thousands
_GAP = rf"[\s{SPACES}]*"
_MINUS, _QUOTES, _ABOUT = "[-\u2212]", "'\u2019", "<>\u2264\u2265~\u2248"
FEET = re.compile(
    r"(?P<feet>\d+)\s*(?:['\u2019\u2032]|ft\.?|feet)\s*"
    r"(?:(?P<inches>\d|1[01]|\d\.\d+|1[01]\.\d+)\s*(?:\"|''|[\u201d\u2033]|in\.?|inches)?)?"
)
"""Feet and inches, such as 5'11"; 1'200 has a separator of thousands."""
NUMBER = (
    rf"(?P<about>[{_ABOUT}]=?)?{_GAP}(?P<open>\()?{_GAP}(?P<sign>\+|{_MINUS})?{_GAP}(?P<prefix>{SIGNS})?{_GAP}"
    rf"(?P<sign2>\+|{_MINUS})?{_GAP}(?P<digits>[0-9.,{_QUOTES}{SPACES}]*[0-9.,])(?P<exponent>[eE][-+]?[0-9]+)?{_GAP}"
    rf"(?P<more>\+|\*{{1,3}})?{_GAP}(?P<suffix>%|{SIGNS}|thousand|million|billion|trillion|[A-Za-zµ°²³/]{{1,6}})?{_GAP}\)?"
)


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


def read_numbers(
    texts: tuple[str, ...], decimal: str | None = None, thousands: str | None = None, prefer: str = ".", unit: str = ""
) -> tuple[Floats, Written]:
    """Texts as numbers, NaN for other texts, and how they are written.

    Parameters
    ----------
    texts : tuple of str
        The different texts of a column.
    decimal, thousands : str, optional
        The marks; found from the texts unless given.
    prefer : {".", ","}
        The decimal mark where both readings are possible, as for "1,234".
    unit : str
        The unit, one of `UNITS`, that numbers with others of the same quantity are converted to; found unless given.

    Examples
    --------
    >>> read_numbers(("$1,234.50", "$-3"))[0].tolist()
    [1234.5, -3.0]
    >>> read_numbers(("1.234,5 %", "7 %"))[1]
    Written(decimal=',', thousands='.', unit='%', words="numbers with '%', decimal commas, '.' between thousands")
    """
    is_plain = decimal in (None, ".") and not thousands and not unit and all(map(is_number, texts))
    if is_plain and (decimal or prefer == "."):
        return _plain(texts), Written()
    if any(FEET.fullmatch(text) for text in texts):
        decimal = decimal or "."
        texts = tuple(_in_feet(text, decimal) for text in texts)
    parts = parts_of(tuple(text.replace(thousands, "") if thousands else text for text in texts), NUMBER)
    if not parts.match.any():
        return _plain(texts), Written()
    other = "," if prefer == "." else "."
    marks = [decimal] if decimal else [mark for mark in (prefer, other) if mark != thousands]
    tried = [_read(texts, parts, mark, thousands, unit) for mark in marks]
    most = max(int(np.isfinite(numbers).sum()) for numbers, _ in tried)
    first, *others = (each for each in tried if np.isfinite(each[0]).sum() == most)
    if not others or np.array_equal(first[0], others[0][0], equal_nan=True):
        return first
    return _likelier([digits.strip() for digits in parts["digits"].each if digits.strip()], first, others[0])


def _plain(texts: Sequence[str]) -> Floats:
    """Texts as numbers, NaN for those that Python's float does not read."""
    return np.array([float(text) if is_number(text) else np.nan for text in texts])


def _in_feet(text: str, decimal: str) -> str:
    """Feet and inches as feet, with a decimal mark; any other text as it is."""
    match = FEET.fullmatch(text)
    return f"{int(match['feet']) + float(match['inches'] or 0) / 12!r} ft".replace(".", decimal) if match else text


def _likelier(
    digits: Sequence[str], usual: tuple[Floats, Written], other: tuple[Floats, Written]
) -> tuple[Floats, Written]:
    """The likelier of two readings of one column, each of which reads all texts and takes one mark for decimal.

    Three digits follow the mark wherever the readings differ. If all numbers that are 1000 or more have the mark, and
    as many digits before it as numbers of several sizes have, it separates thousands. Where a point is the usual
    decimal mark, a point is decimal. `digits` are the numbers without sign and unit, as they stand.
    """
    used = {mark for number in digits for mark in number if mark in ",."}
    if len(used) > 1 or used == {usual[1].decimal} == {"."}:
        return usual
    mark = used.pop()
    decimal, separating = (usual, other) if usual[1].decimal == mark else (other, usual)
    before = {len(number.partition(mark)[0]) for number in digits if mark in number}
    whole = [number for number in digits if mark not in number and number.strip("0")]
    if any(len(number) > 3 for number in whole):
        return decimal
    if len(before) > 1 or whole:
        return separating
    numbers, written = usual
    number = next(number for number in digits if mark in number)
    what, option = ("separates thousands", "thousands") if mark == written.decimal else ("is decimal", "decimal")
    doubt = f" (if the mark in {number!r} {what}, --{option} {mark})"
    return numbers, replace(written, words=written.words + doubt)


def _read(texts: Sequence[str], parts: Parts, decimal: str, thousands: str | None, unit: str) -> tuple[Floats, Written]:
    """Texts as numbers by one decimal mark, and in one unit; `parts` are those by `NUMBER`."""
    numbers = _numbers(parts, decimal, {",": ".", ".": ","}.get(decimal, ",") if thousands is None else thousands)
    is_read = ~np.isnan(numbers)
    for at in np.flatnonzero(~parts.match).tolist():  # such as inf
        numbers[at] = float(texts[at]) if is_number(texts[at]) else np.nan
    stands = parts.either("prefix", "suffix")
    counts = Counter(stands.each[at] for at in stands.codes[is_read].tolist())
    singular = {one: one[:-1] if one.endswith("s") and one[:-1] in counts else one for one in counts}  # of years
    units, multiples, others = set(singular.values()), set[str](), list[str]()
    (quantity, *more) = {UNITS[one][0] if one in UNITS else one for one in units} or {""}
    if not more and quantity in QUANTITIES and (UNITS[unit][0] == quantity if unit else len(units) > 1):
        unit = unit or max(units, key=lambda one: counts[one])
        others = sorted(units - {unit})
        sizes = {one: UNITS[each][1] / UNITS[unit][1] for one, each in singular.items() if each != unit}
        numbers = numbers * stands.map(lambda one: sizes.get(one, 1.0))
    elif len(own := {"" if one in MULTIPLES else one for one in units}) > 1:
        return _plain(texts), Written()  # some have a unit and some do not: these are not the same quantity
    else:
        unit, multiples = "".join(own), parts["suffix"].among(is_read) & set(MULTIPLES)
        numbers = numbers * parts["suffix"].map(lambda one: MULTIPLES.get(one, 1.0))
    marks = sorted(parts["about"].among(is_read) | parts["more"].among(is_read))
    separators = {mark for mark in "".join(parts["digits"].among(is_read)) if not mark.isdigit()} - {decimal}
    separators |= {thousands} if thousands and any(thousands in text for text in texts) else set()
    separator = min(separators, default="")
    words = [repr(unit)] if unit else []
    words += [f"{', '.join(map(repr, others))} converted to it"] if others else []
    words += ["decimal commas"] if decimal == "," and any("," in text for text in texts) else []
    words += [f"{repr(separator) if separator not in SPACES else 'blanks'} between thousands"] if separator else []
    words += [f"{multiple!r} for {MULTIPLE_WORDS[MULTIPLES[multiple]]}" for multiple in sorted(multiples)]
    words += ["negative ones in brackets"] if parts["open"].among(is_read) else []
    if marks:
        shown = " and ".join(map(repr, marks))
        words.append(f"{shown} at some of them, which {'are' if len(marks) > 1 else 'is'} passed over")
    return numbers, Written(decimal, separator, unit, f"numbers with {', '.join(words)}" if words else "")


def _numbers(parts: Parts, decimal: str, thousands: str) -> Floats:
    """Numbers in parts, without units; NaN where separators are not in their places."""
    arrow, compute = require("pyarrow", "cli"), require("pyarrow.compute", "cli")
    mark, separator = re.escape(decimal), f"[{re.escape(thousands)}{_QUOTES}{SPACES}]"
    grouped = rf"^(?:[0-9]+|[1-9][0-9]{{0,2}}(?:{separator}[0-9]{{3}})+)?(?:{mark}[0-9]*)?$"
    digits = compute.utf8_trim_whitespace(arrow.array(parts["digits"].each, arrow.string()))
    plain = compute.replace_substring(compute.replace_substring_regex(digits, separator, ""), decimal, ".")
    in_place = compute.and_(
        compute.match_substring_regex(digits, grouped), compute.match_substring_regex(digits, "[0-9]")
    )
    numbers = compute.if_else(in_place, plain, None).cast(arrow.float64()).to_numpy(zero_copy_only=False)
    signs = (parts[name].map(lambda mark: mark not in ("", "+")) for name in ("open", "sign", "sign2"))
    with np.errstate(over="ignore", invalid="ignore"):
        whole = numbers[parts["digits"].codes] * parts["exponent"].map(lambda exponent: float(f"1{exponent}"))
    return np.asarray(np.where(np.logical_or.reduce([*signs]), -whole, whole))


def in_several_currencies(texts: tuple[str, ...]) -> tuple[str, str] | None:
    """Two texts, where all are amounts but in different currencies, such as $ and €; None if they are anything else."""
    signs = parts_of(texts, NUMBER).either("prefix", "suffix")
    which, first = np.unique(signs.codes, return_index=True)
    used = {signs.each[at] for at in which}
    if len(used) < 2 or not all(re.fullmatch(SIGNS, sign) for sign in used):
        return None
    one, other = np.sort(first)[:2]
    return texts[one], texts[other]
