"""Dates, times of day and durations as people write them in texts, whose parts become days by NumPy's arithmetic.

A form of dates is a format of strptime, or one of two that it does not have; a time of day, with an offset from UTC,
may follow it. The letter with which the name of a part begins says what it is.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np

from ..core.types import Floats
from .values import DAY, Parts, parts_of

ISO = "%Y-%m-%d"  # ISO 8601, the form that needs no mention
QUARTERS, WEEKS = "quarters", "weeks"
DAYS_FIRST = ("%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y", "%d.%m.%y", "%d/%m/%y", "%d-%m-%y", "%d %m %Y")
MONTHS_FIRST = ("%m/%d/%Y", "%m-%d-%Y", "%m/%d/%y", "%m-%d-%y", "%m.%d.%Y")
YEARS_FIRST = ("%Y/%m/%d", "%Y.%m.%d", "%Y %b %d", "%Y %m %d")
IN_WORDS = ("%d %b %Y", "%d %B %Y", "%d-%b-%Y", "%d-%b-%y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y", "%B %d %Y")
IN_WORDS += ("%a %b %d %Y", "%A, %B %d, %Y", "%d. %B %Y", "%d %b %y")
MONTHS = ("%Y-%m", "%Y/%m", "%m/%Y", "%b %Y", "%B %Y", "%b-%Y", "%Y %b", "%YM%m", "%b-%y", "%b %y")
FORMS = (QUARTERS, ISO, WEEKS, *DAYS_FIRST, *MONTHS_FIRST, *YEARS_FIRST, *IN_WORDS, *MONTHS)
SHOWS = {QUARTERS: "2026Q1", WEEKS: "2026-W05"}
"""Examples of the forms that strptime does not have."""
MOST_STYLES = 4  # styles of dates in one column
FEW = 100  # texts that tell most forms that the others cannot have

NAMES = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october")
NAMES += ("november", "december")
MONTH_NUMBERS = {name[:length]: at for at, name in enumerate(NAMES, 1) for length in (3, None)}
TOKENS = {"Y": r"(?P<Y>\d{4})", "y": r"(?P<y>\d\d)", "m": r"(?P<m>\d{1,2})", "d": r"(?P<d>\d{1,2})"}
TOKENS |= {"b": "(?P<b>[A-Za-z]{3})", "B": "(?P<b>[A-Za-z]{4,9}|(?i:may))", "a": "[A-Za-z]{3}", "A": "[A-Za-z]{6,9}"}
"""The patterns of strptime's directives."""
CLOCK = r"(?P<H>\d{1,2}):(?P<M>[0-5]\d)(?::(?P<S>[0-5]\d(?:\.\d+)?))?(?: ?(?P<half>[AaPp])[Mm])?"
ZONE = r"(?P<zone>Z|[+-]\d\d:?\d\d)"
PATTERNS = {
    QUARTERS: r"(?:[Qq](?P<q>[1-4])|(?P<q2>[1-4])[Qq])[ /'-]?(?:(?P<Y>\d{4})|(?P<y>\d\d))"
    r"|(?P<Y2>\d{4})[ -]?[Qq:](?P<q3>[1-4])",
    WEEKS: r"(?P<Y>\d{4})[ -]?[Ww](?P<w>\d{1,2})",
}
DURATIONS = (
    r"(?P<days>-?\d+) days?,? \+?(?P<hours>\d{1,2}):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d+)?)",  # by pandas
    r"(?:(?P<hours>\d+):(?P<minutes>[0-5]?\d)|(?P<m>\d+)):(?P<seconds>[0-5]\d(?:\.\d+)?)",  # by a stopwatch
    r"(?i:(?:(?P<days>\d+(?:\.\d+)?)\s*d(?:ays?)?)?,?\s*(?:(?P<hours>\d+(?:\.\d+)?)\s*h(?:(?:ou)?rs?)?)?,?\s*"
    r"(?:(?P<minutes>\d+(?:\.\d+)?)\s*m(?:in(?:ute)?s?)?)?,?\s*(?:(?P<seconds>\d+(?:\.\d+)?)\s*s(?:ec(?:ond)?s?)?)?)",
)


@cache
def _pattern(form: str) -> str | None:
    """The pattern of dates of a form; None of a format with other directives than days have, such as the hour."""
    pattern = PATTERNS.get(form)
    if pattern is None:
        if not set(re.findall("%(.)", form)) <= set(TOKENS):
            return None
        pattern = re.sub("%(.)", lambda match: TOKENS[match[1]], re.escape(form).replace("\\ ", r"\s+"))
    return rf"(?:{pattern})(?:(?:\s+|T){CLOCK}\s*{ZONE}?)?"


@lru_cache(maxsize=8)  # what decides how a column is read, and what encodes it, ask for the same
def _dates(texts: tuple[str, ...], form: str) -> Floats:
    """What `dates_of` returns for one form."""
    pattern = _pattern(form)
    if pattern is None:
        return np.array([_by_strptime(text, form) for text in texts]).reshape(-1, 3)
    parts = parts_of(texts, pattern)
    wall = np.round(_days(parts) * DAY + _clock(parts) * DAY)
    utc, has_offset = wall - np.round(parts["zone"].map(_offset) * DAY), parts["zone"].map(bool)
    return np.column_stack([utc / DAY, wall / DAY, np.where(np.isnan(wall), np.nan, has_offset)])


def _days(parts: Parts) -> Floats:
    """The days since 1970 of dates in parts; NaN for texts that are none, such as the 31st of February."""
    short, names = parts.number("y"), set(parts.parts)
    year = np.where(parts.number("Y") > 0, parts.number("Y"), short + np.where(short < 69, 2000, 1900))
    if "b" in names:
        month = parts["b"].map(lambda text: MONTH_NUMBERS.get(text.lower(), 0))
    else:
        month = 3 * parts.number("q") - 2 if "q" in names else parts.number("m") if "m" in names else np.ones(len(year))
    is_right = parts.match & (month >= 1) & (month <= 12)
    months = np.where(is_right, 12 * (year - 1970) + month - 1, 0).astype("datetime64[M]")
    first, after = (
        each.astype("datetime64[D]").astype(np.float64) for each in (months, months + (12 if "w" in names else 1))
    )
    if "w" in names:  # weeks begin on Monday; the first has the first Thursday of the year
        within = first + -first % 7 + 7 * (parts.number("w") - 1)
        days = within - 3
    else:
        within = days = first + (parts.number("d") - 1 if "d" in names else 0)
    return np.where(is_right & (first <= within) & (within < after), days, np.nan)


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


def _by_strptime(text: str, form: str) -> tuple[float, float, float]:
    """What `dates_of` returns for one text, by a format of the user's that has the time of day too."""
    try:
        moment = dt.datetime.strptime(text, form)
    except (ValueError, OverflowError):
        return np.nan, np.nan, np.nan
    day, offset = dt.timedelta(days=1), moment.utcoffset()
    wall = moment.replace(tzinfo=None) - dt.datetime(1970, 1, 1)
    return (wall - (offset or dt.timedelta(0))) / day, wall / day, float(offset is not None)


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
    return [form for form in forms if are_dates(texts[:FEW], form) and are_dates(texts, form)]


def forms_of(text: str) -> list[str]:
    """The forms that a text has, whether or not there is such a date."""
    return [form for form in FORMS if re.fullmatch(_pattern(form) or "", text)]


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
