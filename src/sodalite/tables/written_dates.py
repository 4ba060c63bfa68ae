"""Dates, times of day and durations as people write them in texts.

A date is a day, as a form says it is written, and perhaps a time of day with an offset from UTC. The three parts of all
texts are taken apart at once, and only different days are read one by one.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..core.types import Array, Floats
from .base import is_number
from .values import DAY, Part, parts_of

EPOCH = dt.date(1970, 1, 1)
ISO = "%Y-%m-%d"  # ISO 8601, the form that needs no mention
QUARTERS, WEEKS = "quarters", "weeks"
DAYS_FIRST = ("%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y", "%d.%m.%y", "%d/%m/%y", "%d-%m-%y", "%d %m %Y")
MONTHS_FIRST = ("%m/%d/%Y", "%m-%d-%Y", "%m/%d/%y", "%m-%d-%y", "%m.%d.%Y")
OTHERS: tuple[str, ...] = (
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%d %b %Y",
    "%d %B %Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%b %d, %Y",
    "%B %d, %Y",
)
OTHERS += ("%b %d %Y", "%B %d %Y", "%a %b %d %Y", "%A, %B %d, %Y", "%d. %B %Y", "%d %b %y", "%Y %b %d", "%Y %m %d")
MONTHS = ("%Y-%m", "%Y/%m", "%m/%Y", "%b %Y", "%B %Y", "%b-%Y", "%Y %b", "%YM%m", "%b-%y", "%b %y")
FORMS = (QUARTERS, ISO, WEEKS, *DAYS_FIRST, *MONTHS_FIRST, *OTHERS, *MONTHS)
"""How days are written: formats of strptime, and two that it does not have."""
SHOWS = {QUARTERS: "2026Q1", WEEKS: "2026-W05"}
"""Examples of the latter."""
WITH_CLOCK = re.compile("%[HIMSfpzXcT]")  # a user's format that has the time of day too
MOST_STYLES = 4  # styles of dates in one column

CLOCK = r"\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?(?: ?[AaPp][Mm])?"
PARTS = rf"^(?P<day>.+?)(?:(?:\s+|T)(?P<clock>{CLOCK})\s*(?P<zone>Z|[+-]\d\d:?\d\d)?)?$"
QUARTER = re.compile(r"(?:[Qq]([1-4])|([1-4])[Qq])[ /'-]?(\d{4}|\d\d)|(\d{4})[ -]?[Qq:]([1-4])")
WEEK = re.compile(r"(\d{4})[ -]?[Ww](\d{1,2})")


def are_dates(texts: Sequence[str], form: str) -> bool:
    """Whether all of some texts are dates of a form."""
    if WITH_CLOCK.search(form):
        return None not in [_parsed(text, form) for text in texts]
    parts = parts_of(tuple(texts), PARTS)
    return all(_day(day, form) is not None for day in parts["day"].each) and not np.isnan(_times(parts)).any()


def dates_of(texts: Sequence[str], forms: Sequence[str]) -> tuple[Floats, Floats, Array]:
    """Days since 1970 in UTC, and by the clock, NaN for other texts, and which have an offset; each of shape (n,).

    Each text is read by the first form that fits it.
    """
    parts = parts_of(tuple(texts), PARTS)
    wall = (
        parts["day"].map(lambda text: next((day for form in forms if (day := _day(text, form)) is not None), np.nan))
        * DAY
    )
    wall, shift, aware = wall + np.round(_times(parts) * DAY), parts["zone"].map(_offset), parts["zone"].map(bool)
    for form in filter(WITH_CLOCK.search, forms):
        for at, text in enumerate(texts):
            if (moment := _parsed(text, form)) is not None:
                offset, microsecond = moment.utcoffset(), dt.timedelta(microseconds=1)
                wall[at] = (moment.replace(tzinfo=None) - dt.datetime(1970, 1, 1)) / microsecond
                shift[at], aware[at] = (offset or dt.timedelta(0)) / microsecond, offset is not None
    return (wall - shift) / DAY, wall / DAY, aware


def read_dates(texts: Sequence[str]) -> list[str]:
    """The forms in which all of some texts are dates: none, one or several.

    Examples
    --------
    >>> read_dates(["31.01.2026", "1.2.2026"]), read_dates(["02/01/2026", "03/04/2026 10:30"])
    (['%d.%m.%Y'], ['%d/%m/%Y', '%m/%d/%Y'])
    """
    if not texts or not _may_be_date(texts[0]):
        return []
    return [form for form in FORMS if are_dates(texts[:1], form) and are_dates(texts, form)]


def read_styles(texts: Sequence[str]) -> list[str]:
    """The forms of dates that are written in several styles, at most `MOST_STYLES`; empty if some texts are not dates.

    Examples
    --------
    >>> read_styles(["2026-01-31", "31.01.2026", "1 Feb 2026", "13.02.2026"])
    ['%Y-%m-%d', '%d.%m.%Y', '%d %b %Y']
    """
    styles: list[str] = []
    rest = list(texts)
    while rest and len(styles) < MOST_STYLES:
        left = {form: others_than(rest, [form]) for form in read_dates(rest[:1])}
        if not left:
            return []
        best = min(left, key=lambda form: len(left[form]))
        styles, rest = [*styles, best], left[best]
    return [] if rest else styles


def others_than(texts: Sequence[str], forms: Sequence[str]) -> list[str]:
    """Those of some texts that are not dates in any of some forms."""
    lost = np.isnan(dates_of(texts, forms)[0]).tolist()
    return [text for text, is_lost in zip(texts, lost, strict=True) if is_lost]


def _may_be_date(text: str) -> bool:
    """Whether a text looks like a date: it has digits, but is not a number."""
    return any(mark.isdigit() for mark in text) and len(text.strip()) > 3 and not is_number(text)


@lru_cache(maxsize=2**16)
def _day(text: str, form: str) -> float | None:
    """Days since 1970 of one text; None if it is not a day of that form, or the form has a time of day too."""
    try:
        if form == QUARTERS:
            if (match := QUARTER.fullmatch(text)) is None:
                return None
            year = match[3] or match[4]
            first = dt.datetime.strptime(year, "%Y" if len(year) == 4 else "%y")
            moment: dt.date | None = first.replace(month=3 * int(match[1] or match[2] or match[5]) - 2).date()
        elif form == WEEKS:
            match = WEEK.fullmatch(text)
            moment = match and dt.date.fromisocalendar(int(match[1]), int(match[2]), 1)
        else:
            whole = None if WITH_CLOCK.search(form) else _parsed(text, form)
            moment = whole and whole.date()
    except ValueError:
        return None
    return None if moment is None else float((moment - EPOCH).days)


def _times(parts: dict[str, Part]) -> Floats:
    """The times of day as days; 0 for an empty text, and NaN for any other."""
    return parts["clock"].map(lambda text: float(read_clocks([text])[0]) if text else 0.0)


def _parsed(text: str, form: str) -> dt.datetime | None:
    """One text by a format of strptime; None if it is something else."""
    try:
        return dt.datetime.strptime(text.strip(), form)
    except (ValueError, OverflowError):
        return None


def _offset(text: str) -> float:
    """An offset from UTC, such as +02:00, in microseconds."""
    sign, digits = text[:1], text[1:].replace(":", "")
    return 0.0 if not digits else (-1 if sign == "-" else 1) * (int(digits[:2]) * 60 + int(digits[2:])) * DAY / 1440


TIME = re.compile(
    r"(?P<hours>\d{1,2}):(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d(?:\.\d+)?))?(?: ?(?P<half>[AaPp])[Mm])?"
)
DURATION = re.compile(
    r"(?P<sign>-?)(?P<days>\d+) days?,? \+?(?P<hours>\d{1,2}):(?P<minutes>\d\d):(?P<seconds>\d\d(\.\d+)?)"
)
STOPWATCH = re.compile(r"(?:(?P<hours>\d+):)?(?P<minutes>\d+):(?P<seconds>[0-5]\d(?:\.\d+)?)")
NUMBERED = r"(\d+(?:\.\d+)?)\s*"
IN_UNITS = re.compile(
    rf"(?:{NUMBERED}d(?:ays?)?)?,?\s*(?:{NUMBERED}h(?:(?:ou)?rs?)?)?,?\s*(?:{NUMBERED}m(?:in(?:ute)?s?)?)?"
    rf",?\s*(?:{NUMBERED}s(?:ec(?:ond)?s?)?)?"
)


def read_clocks(texts: Sequence[str]) -> Floats:
    """Times of day, such as 12:30 or 3:15 PM, as days; NaN for other texts.

    Examples
    --------
    >>> (read_clocks(["6:00", "12:15 AM", "13:00 PM", "noon"]) * 24).tolist()
    [6.0, 0.25, nan, nan]
    """
    matches = (TIME.fullmatch(text.strip()) for text in texts)
    return np.array([np.nan if match is None else _clock(match) for match in matches])


def _clock(match: re.Match[str]) -> float:
    hours, half = int(match["hours"]), (match["half"] or "").lower()
    if hours > 23 or (half and not 1 <= hours <= 12):
        return np.nan
    hours = hours % 12 + 12 * (half == "p") if half else hours
    return _days(0, hours, match["minutes"], match["seconds"])


def read_durations(texts: Sequence[str]) -> Floats:
    """Durations as days, NaN for other texts: as pandas and Python write them, by a stopwatch, or in units.

    Examples
    --------
    >>> read_durations(["1 days 12:00:00", "-1 days +18:00:00", "2 days, 0:00:00", "noon"]).tolist()
    [1.5, -0.25, 2.0, nan]
    >>> (read_durations(["57:18", "1:02:33.5", "5h 10m", "1 d 3 h", "90 min"]) * 24).round(4).tolist()
    [0.955, 1.0426, 5.1667, 27.0, 1.5]
    """
    return np.array([_duration(text.strip()) for text in texts], dtype=np.float64)


def _duration(text: str) -> float:
    if match := DURATION.fullmatch(text):
        return (-1 if match["sign"] else 1) * int(match["days"]) + _days(0, *match.group(3, 4, 5))
    if match := STOPWATCH.fullmatch(text):
        return _days(0, *match.groups()) if match["hours"] is None or int(match["minutes"]) < 60 else np.nan
    match = IN_UNITS.fullmatch(text.lower())
    return _days(*match.groups()) if match and any(match.groups()) else np.nan


def _days(days: Any, hours: Any, minutes: Any, seconds: Any) -> float:
    """A duration in days, of parts that are numbers, texts of numbers, or None."""
    parts = zip((days, hours, minutes, seconds), (1, 24, 1440, 86_400), strict=True)
    return sum(float(part or 0) / unit for part, unit in parts)


def example(form: str) -> str:
    """How the last day of January 2026 looks in a form.

    Examples
    --------
    >>> example("%d/%m/%Y"), example("weeks")
    ('31/01/2026', '2026-W05')
    """
    return SHOWS.get(form) or dt.datetime(2026, 1, 31, 12, 30).strftime(form)
