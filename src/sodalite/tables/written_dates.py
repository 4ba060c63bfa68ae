"""Dates, times of day and durations as people write them in texts."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..core.types import Floats
from .base import is_number
from .values import days_of, moment

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

MOST_STYLES = 4  # styles of dates in one column
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
    every = {form: [_parsed(text, form) for text in texts] for form in fitting}
    fitting = [form for form, dates in every.items() if None not in dates]
    return every[fitting[0]] if fitting else [], fitting


def read_styles(texts: Sequence[str]) -> list[str]:
    """The forms of dates that are written in several styles, at most `MOST_STYLES`; empty if some texts are not dates.

    Examples
    --------
    >>> read_styles(["2026-01-31", "31.01.2026", "1 Feb 2026", "13.02.2026"])
    ['ISO 8601', '%d.%m.%Y', '%d %b %Y']
    """
    found: list[str] = []
    rest = list(texts)
    while rest and len(found) < MOST_STYLES:
        forms = read_dates(rest[:1])[1]
        left = {form: [text for text in rest if _parsed(text, form) is None] for form in forms}
        if not left:
            return []
        best = min(left, key=lambda form: len(left[form]))
        found, rest = [*found, best], left[best]
    return [] if rest else found


def dates_in(texts: Sequence[str], forms: Sequence[str]) -> list[dt.datetime | None]:
    """Texts as dates, each by the first of some forms that reads it; None where none does."""
    return [next((date for form in forms if (date := _parsed(text, form)) is not None), None) for text in texts]


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


def example(form: str) -> str:
    """How the last day of January 2026 looks in a form.

    Examples
    --------
    >>> example("%d/%m/%Y")
    '31/01/2026'
    """
    return SHOWS.get(form) or dt.datetime(2026, 1, 31, 12, 30).strftime(form)
