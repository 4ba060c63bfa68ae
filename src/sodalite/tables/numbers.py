"""Numbers: as they are, or as people write them, with currencies, units, per cent, separators, feet and inches."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from ..core.optional import require
from ..core.types import Floats
from ..exceptions import TableError
from .base import CORRECT, is_number
from .column import Column, Options, Reading
from .values import Parts, Values, parts_of

SHOWN = 3  # ways to write numbers of which a note shows an example
MOST_SHOWN = 1000  # texts among which these are sought
FEWEST = 10  # rows below which a code for missing values cannot be told from a value
SENTINELS = (-1.0, -9.0, -99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0, -99.9, -999.9, 99.99, 999.99)
"""Numbers by which missing values are often coded."""

SIGNS = r"[$€£¥₹]|USD|EUR|CHF|GBP|US\$"
MULTIPLES = {"k": 1e3, "K": 1e3, "M": 1e6, "m": 1e6, "mn": 1e6, "B": 1e9, "bn": 1e9, "Bn": 1e9}
MULTIPLES |= {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
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
_UNSEPARATED = str.maketrans("", "", _QUOTES + SPACES)
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
            column, words = cls(name, written.form, written.unit), written.words
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


class Written(NamedTuple):
    """How numbers are written in a column of texts."""

    form: str = "."
    """The marks by which further texts are read: the decimal mark and, if it is unusual, that between thousands."""
    unit: str = ""
    """The unit of `UNITS` that numbers are converted to; empty if they have none of these."""
    words: str = ""
    """What was read, in words; empty for plain numbers."""


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
    >>> read_numbers(("1.234,5 %", "7 %"))[1].words
    'numbers such as 1.234,5 % (1234.5), 7 % (7)'
    >>> read_numbers(("185 cm", "1.7 m"))[1]
    Written(form='.', unit='cm', words='numbers in cm such as 185 cm (185), 1.7 m (170)')
    """
    plain = np.array([float(text) if is_number(text) else np.nan for text in texts])
    is_usual = decimal in (None, ".") and not thousands and (decimal or prefer == ".")
    if is_usual and not unit and all(map(is_number, texts)):
        return plain, Written()
    feet, written, doubt = [FEET.fullmatch(text) for text in texts], texts, ""
    if any(feet):
        decimal = decimal or "."
        whole = (match and f"{int(match['feet']) + float(match['inches'] or 0) / 12!r} ft" for match in feet)
        texts = tuple(
            number.replace(".", decimal) if number else text for number, text in zip(whole, texts, strict=True)
        )
    parts = parts_of(tuple(text.replace(thousands, "") if thousands else text for text in texts), NUMBER)
    if not parts.match.any():
        return plain, Written()
    others = {",": ".", ".": ","}
    if decimal is None:
        decimal, doubt = (others[thousands], "") if thousands in others else decimal_mark(parts["digits"].each, prefer)
    between = others.get(decimal, ",") if thousands is None else thousands
    numbers = _without_units(parts, decimal, between)
    prefix, suffix = (parts[name].map(str).tolist() for name in ("prefix", "suffix"))
    stands = [before or after for before, after in zip(prefix, suffix, strict=True)]
    counts = Counter(np.array(stands)[~np.isnan(numbers)].tolist())
    singular = {one: one[:-1] if one.endswith("s") and one[:-1] in counts else one for one in counts}  # of years
    units = set(singular.values())
    numbers = np.where(parts.match, numbers, plain)  # such as inf
    quantities = {UNITS[one][0] if one in UNITS else "" for one in units}
    if units == {"m"} and all(text.endswith(" m") for text in texts):
        unit = unit or "m"  # 1.85 m is a length, 1.5m are millions
    if len(quantities) == 1 and quantities != {""} and (len(units) > 1 or unit):
        unit = unit or max(dict.fromkeys(singular.values()), key=lambda one: counts[one])  # of two, the first
        if quantities != {UNITS[unit][0]}:
            return plain, Written()
        sizes = {one: UNITS[each][1] / UNITS[unit][1] for one, each in singular.items()}
        numbers = numbers * np.array([sizes.get(one, 1.0) for one in stands])
    elif len({"" if one in MULTIPLES else one for one in units}) > 1:
        return plain, Written()  # some have a unit and some do not: these are not the same quantity
    else:
        unit = "".join(units & set(UNITS) - set(MULTIPLES)) if len(units) == 1 else ""
        numbers = numbers * parts["suffix"].map(lambda one: MULTIPLES.get(one, 1.0))
    shapes: dict[str, str] = {}  # an example of each way to write a number
    for text, number in zip(written[:MOST_SHOWN], numbers.tolist(), strict=False):
        if len(shapes) < SHOWN and not np.isnan(number) and (not is_number(text) or float(text) != number):
            shapes.setdefault(re.sub(r"\d+", "0", text), f"{text} ({number:.10g})")
    used = "" if not thousands or thousands in others else thousands
    shown, converted = ", ".join(shapes.values()), f" in {unit}" if unit and (len(units) > 1 or any(feet)) else ""
    return numbers, Written(decimal + used, unit, f"numbers{converted} such as {shown}{doubt}" if shapes else "")


def _without_units(parts: Parts, decimal: str, between: str) -> Floats:
    """The numbers of parts by `NUMBER`, with a mark between thousands; NaN where marks are not in their places."""
    arrow, compute = require("pyarrow", "cli"), require("pyarrow.compute", "cli")
    mark, separator = re.escape(decimal), f"[{re.escape(between)}{_QUOTES}{SPACES}]"
    grouped = rf"^(?:[0-9]+|[1-9][0-9]{{0,2}}(?:{separator}[0-9]{{3}})+)?(?:{mark}[0-9]*)?$"
    digits = compute.utf8_trim_whitespace(arrow.array(parts["digits"].each, arrow.string()))
    bare = compute.replace_substring(compute.replace_substring_regex(digits, separator, ""), decimal, ".")
    in_place = [compute.match_substring_regex(digits, pattern) for pattern in (grouped, "[0-9]")]
    found = compute.if_else(compute.and_(*in_place), bare, None).cast(arrow.float64()).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = found[parts["digits"].codes] * parts["exponent"].map(lambda exponent: float(f"1{exponent}"))
    signs = [parts[name].map(lambda sign: sign not in ("", "+")) for name in ("open", "sign", "sign2")]
    return np.asarray(np.where(np.logical_or.reduce(signs), -numbers, numbers))


def decimal_mark(digits: Sequence[str], prefer: str) -> tuple[str, str]:
    """The decimal mark of numbers without signs and units, and how to overrule it, in words, if they leave it open.

    A mark with other than three digits after it, or with none but zeros before it, is decimal. If three follow every
    mark, it separates thousands if all numbers of 1000 and more have it, and numbers of several sizes occur. Where a
    point is the usual decimal mark, a point is decimal.
    """
    plain = [number.translate(_UNSEPARATED) for number in digits]
    marked = [number for number in plain if "," in number or "." in number]
    unclear = [number for number in marked if re.fullmatch(r"[1-9]\d{0,2}[.,]\d{3}", number)]
    clear = set[str]()
    for number in set(marked) - set(unclear):
        mark = number[max(number.rfind(","), number.rfind("."))]
        clear.add({",": ".", ".": ","}[mark] if number.count(mark) > 1 else mark)
    used = {mark for number in unclear for mark in number if mark in ",."}
    if len(clear) == 1 and (mark := clear.pop()):
        return mark, ""
    if clear or len(used) != 1 or used == {prefer} == {"."}:
        return prefer, ""
    mark = used.pop()
    whole = [number for number in plain if number.isdigit() and number.strip("0")]
    if any(len(number) > 3 for number in whole):
        return mark, ""
    if whole or len({len(number) for number in unclear}) > 1:
        return {",": ".", ".": ","}[mark], ""
    what, option = ("separates thousands", "thousands") if mark == prefer else ("is decimal", "decimal")
    return prefer, f" (if the mark in {unclear[0]!r} {what}, {option}={mark!r})"
