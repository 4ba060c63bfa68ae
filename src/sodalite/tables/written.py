"""Numbers and dates as people write them in texts: with currencies, per cent, thousands separators, local dates."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import numpy as np

from ..core.types import Floats
from .base import is_number
from .values import CODES, days_of, moment

LEVEL_CODES = frozenset(["", "na", "n/a", "#n/a", "nan", "null", "?", "<na>", "n.a."])
"""Texts, in lower case, that mean a missing value in a column of texts; others may be levels, such as "none"."""

SIGNS = r"[$€£¥₹]|USD|EUR|CHF|GBP|US\$"
MULTIPLES = {"k": 1e3, "K": 1e3, "M": 1e6, "m": 1e6, "mn": 1e6, "B": 1e9, "bn": 1e9, "Bn": 1e9}
MULTIPLES |= {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
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
    texts: Sequence[str], decimal: str | None = None, thousands: str | None = None, prefer: str = "."
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

    Examples
    --------
    >>> read_numbers(["$1,234.50", "$-3"])[0].tolist()
    [1234.5, -3.0]
    >>> read_numbers(["1.234,5 %", "7 %"])
    (array([1234.5,    7. ]), Written(decimal=',', thousands='.', unit='%'))
    """
    plain = decimal in (None, ".") and not thousands and all(map(is_number, texts))
    if plain and (decimal or prefer == "."):
        return np.array([float(text) for text in texts]), Written()
    marks = [decimal] if decimal else [mark for mark in (prefer, _other(prefer)) if mark != thousands]
    tried = [_read(texts, mark, thousands) for mark in marks]
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


def _read(texts: Sequence[str], decimal: str, thousands: str | None) -> tuple[Floats, Written]:
    """Texts as numbers by one decimal mark."""
    found, units, separators = np.full(len(texts), np.nan), set(), set()
    letters, marks, has_brackets = set(), set(), False
    other = _other(decimal) if thousands is None else thousands
    for place, given in enumerate(texts):
        text = given.replace(thousands, "") if thousands else given
        plain = decimal == "." and is_number(text)
        match = NUMBER.fullmatch(text.strip())
        if match is None:
            if plain:
                found[place] = float(text)
            continue
        digits = match["digits"]
        number = _digits(digits, decimal, other)
        if number is None:
            continue
        suffix = match["suffix"] or ""
        if match["exponent"]:
            number *= 10.0 ** int(match["exponent"][1:])
        if suffix in MULTIPLES:
            letters.add(suffix)
            number, suffix = number * MULTIPLES[suffix], ""
        unit = match["prefix"] or suffix
        marks |= {match["about"] or "", match["more"] or ""} - {""}
        negative = (match["sign"] or match["sign2"] or "+") in "-\u2212" or bool(match["open"])
        has_brackets |= bool(match["open"])
        found[place] = -number if negative else number
        units.add(unit)
        separators |= {mark for mark in digits if not mark.isdigit() and mark != decimal}
        separators |= {thousands} if thousands and thousands in given else set()
    units = {unit.removesuffix("s") if unit.removesuffix("s") in units else unit for unit in units}  # "year", "years"
    if len(units) > 1:  # some with a unit, some without: these are not the same quantity
        found = np.array([float(text) if is_number(text) else np.nan for text in texts])
        return found, Written()
    return found, Written(
        decimal,
        "".join(sorted(separators))[:1],
        "".join(units),
        any(decimal in text for text in texts),
        " ".join(sorted(letters)),
        has_brackets,
        " ".join(sorted(marks)),
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


# Dates

CLOCKS = ("", " %H:%M", " %H:%M:%S", " %H:%M:%S.%f", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S", "T%H:%M")
DAYS_FIRST = ("%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y", "%d.%m.%y", "%d/%m/%y", "%d-%m-%y", "%d %m %Y")
MONTHS_FIRST = ("%m/%d/%Y", "%m-%d-%Y", "%m/%d/%y", "%m-%d-%y", "%m.%d.%Y")
OTHERS = (
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%d %b %Y",
    "%d %B %Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%b %d %Y",
    "%B %d %Y",
    "%a %b %d %Y",
    "%A, %B %d, %Y",
    "%d. %B %Y",
    "%d %b %y",
    "%Y %b %d",
    "%Y %m %d",
)
MONTHS = ("%Y-%m", "%Y/%m", "%m/%Y", "%b %Y", "%B %Y", "%b-%Y", "%Y %b", "%YM%m", "%b-%y", "%b %y")
ISO = "ISO 8601"
QUARTERS, WEEKS, DURATIONS = "quarters", "weeks", "durations"
SHOWS = {ISO: "2026-01-31", QUARTERS: "2026Q1", WEEKS: "2026-W05"}
"""Examples of the forms that are no formats of strptime."""

SAMPLE = 40  # different texts by which most formats are ruled out before all are read


def read_dates(texts: Sequence[str], form: str | None = None) -> tuple[list[dt.datetime | None], list[str]]:
    """Texts as dates, None where one is none, and the forms in which all of them can be read: none, one or several.

    With several, the dates are those of the first.

    Examples
    --------
    >>> read_dates(["31.01.2026", "1.2.2026"])[1]
    ['%d.%m.%Y']
    >>> read_dates(["02/01/2026", "03/04/2026"])[1]
    ['%d/%m/%Y', '%m/%d/%Y']
    """
    if form is not None:
        found = [_parsed(text, form) for text in texts]
        return found, [form] if all(value is not None for value in found) else []
    sample = texts[:: max(len(texts) // SAMPLE, 1)]
    fitting = [form for form in _forms(sample) if all(_parsed(text, form) is not None for text in sample)]
    fitting = [form for form in fitting if all(_parsed(text, form) is not None for text in texts)]
    return [_parsed(text, fitting[0]) for text in texts] if fitting else [], fitting


def _forms(texts: Sequence[str]) -> Iterable[str]:
    """Forms that some texts may have, by the look of the first one."""
    first = texts[0].strip() if texts else ""
    if not any(mark.isdigit() for mark in first) or len(first) < 4 or is_number(first):
        return
    yield QUARTERS
    if len(first) < 5:
        return
    yield ISO
    yield WEEKS
    clocks = CLOCKS if ":" in first else CLOCKS[:1]
    for day in (*DAYS_FIRST, *MONTHS_FIRST, *OTHERS):
        for clock in clocks:
            yield day + clock
    yield from MONTHS


def _parsed(text: str, form: str) -> dt.datetime | None:
    """One date, or None."""
    text = text.strip()
    try:
        if form == ISO:
            if not re.match(r"\d{4}-\d", text) or text.count("-") == 1:
                return None
            return moment(dt.datetime.fromisoformat(text))
        if form == QUARTERS:
            if match := re.fullmatch(r"(?:[Qq]([1-4])|([1-4])[Qq])[ /'-]?(\d{4}|\d\d)", text):
                return dt.datetime(_year(match[3]), 3 * int(match[1] or match[2]) - 2, 1)
            match = re.fullmatch(r"(\d{4})[ -]?[Qq:]([1-4])", text)
            return match and dt.datetime(int(match[1]), 3 * int(match[2]) - 2, 1)
        if form == WEEKS:
            match = re.fullmatch(r"(\d{4})[ -]?[Ww](\d{1,2})", text)
            return match and dt.datetime.fromisocalendar(int(match[1]), int(match[2]), 1)
        return dt.datetime.strptime(text, form)
    except (ValueError, OverflowError):
        return None


def _year(text: str) -> int:
    """A year of four digits or, as strptime has them, of two."""
    return int(text) if len(text) == 4 else dt.datetime.strptime(text, "%y").year


def read_clocks(texts: Sequence[str]) -> Floats:
    """Times of day, such as 12:30 or 3:15 PM, as days; NaN where a text is none."""
    found = np.full(len(texts), np.nan)
    for place, text in enumerate(texts):
        for form in ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p"):
            try:
                found[place] = days_of(dt.datetime.strptime(text.strip(), form).replace(1970, 1, 1))[0]
                break
            except ValueError:
                continue
    return found


DURATION = re.compile(
    r"(?P<sign>-?)(?P<days>\d+) days?,? \+?(?P<hours>\d{1,2}):(?P<minutes>\d\d):(?P<seconds>\d\d(\.\d+)?)"
)
STOPWATCH = re.compile(r"(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>[0-5]\d(?:\.\d+)?)")
NUMBERED = r"(\d+(?:\.\d+)?)\s*"
IN_UNITS = re.compile(
    rf"(?:{NUMBERED}d(?:ays?)?)?,?\s*(?:{NUMBERED}h(?:(?:ou)?rs?)?)?,?\s*(?:{NUMBERED}m(?:in(?:ute)?s?)?)?"
    rf",?\s*(?:{NUMBERED}s(?:ec(?:ond)?s?)?)?"
)


def read_durations(texts: Sequence[str]) -> Floats:
    """Durations as days, NaN where a text is none: as pandas and Python write them, by a stopwatch, or in units.

    Examples
    --------
    >>> read_durations(["1 days 12:00:00", "-1 days +18:00:00", "2 days, 0:00:00", "noon"]).tolist()
    [1.5, -0.25, 2.0, nan]
    >>> (read_durations(["57:18", "1:02:33.5", "5h 10m", "1 d 3 h", "90 min"]) * 24).round(4).tolist()
    [0.955, 1.0426, 5.1667, 27.0, 1.5]
    """
    found = np.full(len(texts), np.nan)
    for place, given in enumerate(texts):
        text = given.strip()
        if match := DURATION.fullmatch(text):
            found[place] = (-1 if match["sign"] else 1) * int(match["days"]) + _days(0, *match.group(3, 4, 5))
        elif match := STOPWATCH.fullmatch(text):
            if match["hours"] is None or int(match["minutes"]) < 60:
                found[place] = _days(0, *match.groups())
        elif (match := IN_UNITS.fullmatch(text.lower())) and any(match.groups()):
            found[place] = _days(*match.groups())
    return found


def _days(days: Any, hours: Any, minutes: Any, seconds: Any) -> float:
    """A duration in days, of parts that are numbers, texts of numbers, or None."""
    parts = zip((days, hours, minutes, seconds), (1, 24, 1440, 86_400), strict=True)
    return sum(float(part or 0) / unit for part, unit in parts)


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


def example(form: str) -> str:
    """How the last day of January 2026 looks in a form.

    Examples
    --------
    >>> example("%d/%m/%Y")
    '31/01/2026'
    """
    return SHOWS.get(form) or dt.datetime(2026, 1, 31, 12, 30).strftime(form)


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
