"""Dates, times of day and durations as people write them in texts.

A form of dates is a format of strptime, or one of two that it does not have; a time of day, with an offset from UTC,
may follow it. All texts are taken apart at once, and only different days are read one by one.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ..core.types import Floats
from .parts import Parts, parts_of
from .values import DAY

ISO = "%Y-%m-%d"  # ISO 8601, the form that needs no mention
QUARTERS, WEEKS = "quarters", "weeks"
FORMS: tuple[str, ...] = (
    *(QUARTERS, ISO, WEEKS),
    *("%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y", "%d.%m.%y", "%d/%m/%y", "%d-%m-%y", "%d %m %Y"),
    *("%m/%d/%Y", "%m-%d-%Y", "%m/%d/%y", "%m-%d-%y", "%m.%d.%Y", "%Y/%m/%d", "%Y.%m.%d", "%Y %b %d", "%Y %m %d"),
    *("%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y", "%d %b %y"),
    *("%a %b %d %Y", "%A, %B %d, %Y", "%d. %B %Y"),
    *("%Y-%m", "%Y/%m", "%m/%Y", "%b %Y", "%B %Y", "%b-%Y", "%Y %b", "%YM%m", "%b-%y", "%b %y"),
)
"""How days are written: formats of strptime, and two that it does not have."""
SHOWS = {QUARTERS: "2026Q1", WEEKS: "2026-W05"}
"""Examples of the latter."""
WITH_CLOCK = re.compile("%[HIMSfpzXcT]")  # a user's format that has the time of day too
MOST_STYLES = 4  # styles of dates in one column

QUARTER = re.compile(r"(?:[Qq]([1-4])|([1-4])[Qq])[ /'-]?(\d{4}|\d\d)|(\d{4})[ -]?[Qq:]([1-4])")
WEEK = re.compile(r"(\d{4})[ -]?[Ww](\d{1,2})")
CLOCK = r"(?P<H>\d{1,2}):(?P<M>[0-5]\d)(?::(?P<S>[0-5]\d(?:\.\d+)?))?(?: ?(?P<half>[AaPp])[Mm])?"
DATE = rf"(?P<day>.+?)(?:(?:\s+|T){CLOCK}\s*(?P<zone>Z|[+-]\d\d:?\d\d)?)?"
DURATIONS = (
    r"(?P<days>-?\d+) days?,? \+?(?P<hours>\d{1,2}):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?)",  # by pandas
    r"(?:(?P<hours>\d+):(?P<minutes>[0-5]?\d)|(?P<m>\d+)):(?P<seconds>[0-5]\d(?:\.\d+)?)",  # by a stopwatch
    r"(?i:(?:(?P<days>\d+(?:\.\d+)?)\s*d(?:ays?)?)?,?\s*(?:(?P<hours>\d+(?:\.\d+)?)\s*h(?:(?:ou)?rs?)?)?,?\s*"
    r"(?:(?P<minutes>\d+(?:\.\d+)?)\s*m(?:in(?:ute)?s?)?)?,?\s*(?:(?P<seconds>\d+(?:\.\d+)?)\s*s(?:ec(?:ond)?s?)?)?)",
)


@lru_cache(maxsize=4)  # what decides how a column is read, and what encodes it, ask for the same
def _dates(texts: tuple[str, ...], form: str) -> Floats:
    """What `dates_of` returns for one form."""
    if WITH_CLOCK.search(form):
        return np.array([_moment(text, form) for text in texts])
    parts = parts_of(texts, DATE)
    wall = np.round(parts["day"].map(lambda text: _day(text, form)) * DAY + _clock(parts) * DAY)
    utc, has_offset = wall - np.round(parts["zone"].map(_offset) * DAY), parts["zone"].map(bool)
    return np.column_stack([utc / DAY, wall / DAY, np.where(np.isnan(wall), np.nan, has_offset)])


@lru_cache(maxsize=2**16)
def _day(text: str, form: str) -> float:
    """Days since 1970 of one text; NaN if it is not a day of that form."""
    try:
        if form == WEEKS:
            match = WEEK.fullmatch(text)
            day = dt.date.fromisocalendar(int(match[1]), int(match[2]), 1) if match else None
            return np.nan if day is None else float((day - dt.date(1970, 1, 1)).days)
        if form == QUARTERS:
            match = QUARTER.fullmatch(text)
            year = (match[3] or match[4]) if match else ""
            text = f"{year} {3 * int(match[1] or match[2] or match[5]) - 2}" if match else ""
            form = "%Y %m" if len(year) == 4 else "%y %m"
    except ValueError:
        return np.nan
    return _moment(text, form)[1]


def _moment(text: str, form: str) -> tuple[float, float, float]:
    """What `dates_of` returns for one text, by a format of strptime."""
    try:
        moment = dt.datetime.strptime(text, form)
    except (ValueError, OverflowError):
        return np.nan, np.nan, np.nan
    day, offset = dt.timedelta(days=1), moment.utcoffset()
    wall = moment.replace(tzinfo=None) - dt.datetime(1970, 1, 1)
    return (wall - (offset or dt.timedelta(0))) / day, wall / day, float(offset is not None)


def _clock(parts: Parts) -> Floats:
    """The times of day in parts, as days; 0 where there is none, and NaN for such as 25:00."""
    hour, half = parts.number("H"), parts["half"].map(str.lower)
    is_right = np.where(half == "", hour < 24, (hour >= 1) & (hour <= 12))
    hour = np.where(half == "", hour, hour % 12 + 12 * (half == "p"))
    return np.where(is_right, (3600 * hour + 60 * parts.number("M") + parts.number("S")) / 86_400, np.nan)


def _offset(text: str) -> float:
    """An offset from UTC, such as +02:00, in days."""
    sign, digits = text[:1], text[1:].replace(":", "")
    return 0.0 if not digits else (-1 if sign == "-" else 1) * (int(digits[:2]) * 60 + int(digits[2:])) / 1440


def dates_of(texts: tuple[str, ...], forms: Sequence[str]) -> Floats:
    """Days since 1970 in UTC, days by the clock, and whether there is an offset; of shape (n, 3), NaN for other texts.

    Each text is read by the first form that fits it.
    """
    first, *others = (_dates(texts, form) for form in forms)
    for other in others:
        first = np.where(np.isnan(first), other, first)
    return first


def are_dates(texts: tuple[str, ...], form: str) -> bool:
    """Whether all of some texts are dates of a form."""
    return not np.isnan(_dates(texts, form)).any()


def read_dates(texts: tuple[str, ...]) -> list[str]:
    """The forms in which all of some texts are dates: none, one or several.

    Examples
    --------
    >>> read_dates(("31.01.2026", "1.2.2026")), read_dates(("02/01/2026", "03/04/2026 10:30"))
    (['%d.%m.%Y'], ['%d/%m/%Y', '%m/%d/%Y'])
    """
    forms = forms_of(texts[0]) if texts else []
    return [form for form in forms if are_dates(texts, form)]


def forms_of(text: str) -> list[str]:
    """The forms in which a text is a date."""
    day = re.fullmatch(DATE, text)
    return [form for form in FORMS if not np.isnan(_day(day["day"], form))] if day else []


def read_styles(texts: tuple[str, ...]) -> list[str]:
    """The forms of dates in one or several styles, at most `MOST_STYLES`; empty if some texts are not dates.

    Examples
    --------
    >>> read_styles(("2026-01-31", "31.01.2026", "1 Feb 2026", "13.02.2026"))
    ['%Y-%m-%d', '%d.%m.%Y', '%d %b %Y']
    """
    styles, rest = list[str](), texts
    while rest and len(styles) < MOST_STYLES:
        if forms := read_dates(rest):
            return [*styles, forms[0]]
        left = {form: others_than(rest, form) for form in forms_of(rest[0])}
        if not left:
            return []
        styles.append(min(left, key=lambda form: len(left[form])))
        rest = left[styles[-1]]
    return [] if rest else styles


def others_than(texts: tuple[str, ...], form: str) -> tuple[str, ...]:
    """Those of some texts that are not dates of a form."""
    return tuple(texts[at] for at in np.flatnonzero(np.isnan(_dates(texts, form)[:, 0])).tolist())


def read_clocks(texts: tuple[str, ...]) -> Floats:
    """Times of day, such as 12:30 or 3:15 PM, as days; NaN for other texts.

    Examples
    --------
    >>> (read_clocks(("6:00", "12:15 AM", "13:00 PM", "noon")) * 24).tolist()
    [6.0, 0.25, nan, nan]
    """
    parts = parts_of(texts, CLOCK)
    return np.where(parts.match, _clock(parts), np.nan)


def read_durations(texts: tuple[str, ...]) -> Floats:
    """Durations as days, NaN for other texts: as pandas and Python write them, by a stopwatch, or in units.

    Examples
    --------
    >>> read_durations(("1 days 12:00:00", "-1 days +18:00:00", "2 days, 0:00:00", "noon")).tolist()
    [1.5, -0.25, 2.0, nan]
    >>> (read_durations(("57:18", "1:02:33.5", "5h 10m", "1 d 3 h", "90 min")) * 24).round(4).tolist()
    [0.955, 1.0426, 5.1667, 27.0, 1.5]
    """
    durations = np.full(len(texts), np.nan)
    for pattern in DURATIONS:
        parts = parts_of(texts, pattern)
        hours = parts.number("h") + parts.number("m") / 60 + parts.number("s") / 3600
        has_any = np.logical_or.reduce([part.map(bool) for part in parts.parts.values()])
        durations = np.where(np.isnan(durations) & has_any, parts.number("d") + hours / 24, durations)
    return durations


def example(form: str) -> str:
    """How the last day of January 2026 looks in a form.

    Examples
    --------
    >>> example("%d/%m/%Y"), example("weeks")
    ('31/01/2026', '2026-W05')
    """
    return SHOWS.get(form) or dt.datetime(2026, 1, 31, 12, 30).strftime(form)
