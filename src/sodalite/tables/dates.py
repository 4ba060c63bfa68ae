"""Dates, as days and points on the circles of the calendar; times of day, on a circle too; and durations, in days.

A form of dates is a format of strptime, or one of two that it does not have; a time of day, with an offset from UTC,
may follow it. All texts are taken apart at once, and only different days are read one by one.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np

from ..core.types import Floats
from ..exceptions import TableError
from .base import CORRECT
from .column import Coded, Column, Lookup, Options, Reading, is_named
from .values import DAY, OFFSETS, Parts, Values, in_zone, parts_of

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
CODED = (("%Y%m%d", 19000101, 21001231), ("%Y%m", 190001, 210012))
"""Forms of dates that are whole numbers, with the least and the largest of them."""
WITH_CLOCK = re.compile("%[HIMSfpzXcT]")  # a user's format that has the time of day too
MOST_STYLES = 4  # styles of dates in one column
STRAY = 0.1  # share of different texts, up to which those that are not dates are errors among dates

QUARTER = re.compile(r"(?:[Qq]([1-4])|([1-4])[Qq])[ /'-]?(\d{4}|\d\d)|(\d{4})[ -]?[Qq:]([1-4])")
WEEK = re.compile(r"(\d{4})[ -]?[Ww](\d{1,2})")
CLOCK = r"(?P<H>\d{1,2}):(?P<M>[0-5]\d)(?::(?P<S>[0-5]\d(?:\.\d+)?))?(?: ?(?P<half>[AaPp])[Mm])?"
DATE = rf"(?P<day>.+?)(?:(?:\s+|T){CLOCK}\s*(?P<zone>Z|[+-]\d\d:?\d\d)?)?"
_NUMBER = r"\d+(?:\.\d+)?"
DURATIONS = (
    r"(?P<D>-?\d+) days?,? \+?(?P<H>\d{1,2}):(?P<M>\d\d):(?P<S>\d\d(?:\.\d+)?)",  # by pandas
    r"(?P<H>\d+):(?P<M>[0-5]?\d):(?P<S>[0-5]\d(?:\.\d+)?)",  # by a stopwatch
    r"(?P<M>\d+):(?P<S>[0-5]\d(?:\.\d+)?)",
    rf"(?i:(?:(?P<D>{_NUMBER})\s*d(?:ays?)?)?,?\s*(?:(?P<H>{_NUMBER})\s*h(?:(?:ou)?rs?)?)?,?\s*"
    rf"(?:(?P<M>{_NUMBER})\s*m(?:in(?:ute)?s?)?)?,?\s*(?:(?P<S>{_NUMBER})\s*s(?:ec(?:ond)?s?)?)?)",
)
"""Patterns of durations, by days, hours, minutes and seconds."""

FEW_DAYS = 2.0  # span of the dates, in days, from which the time of day is more than the date itself
FEW_WEEKS = 21.0  # span, in days, from which the weekday is more than the date itself
FEW_YEARS = 1.5 * 365.25  # span, in days, from which the season is more than the date itself
WEEKDAYS_APART = 3.5  # most days between dates, on average, for weekdays: rarer dates fall on them by chance
SEASONS_APART = 200.0  # most days between dates, on average, for seasons: a year needs two dates to have any


@dataclass(frozen=True)
class Dates(Column):
    """Dates as days since 1970, and the parts of the calendar as points on circles."""

    kind: ClassVar[str] = "date"
    kinds: ClassVar[tuple[str, ...]] = ("date",)
    forms: tuple[str, ...] = ()
    """How dates are written in texts; ISO 8601 if empty."""
    parts: tuple[str, ...] = ()
    """The parts of the calendar: "hour", "weekday" and "season"."""
    zone: str | None = None
    """The time zone whose clock tells the parts of the calendar."""

    def inputs(self) -> list[str]:
        return [self.name, *(f"{self.name} {part} {axis}" for part in self.parts for axis in ("cos", "sin"))]

    @property
    def needs(self) -> str:
        return f"dates, as {example((*self.forms, ISO)[0])} for instance"

    def parse(self, texts: tuple[str, ...]) -> Floats:
        return dates_of(texts, (*self.forms, ISO))

    def encode(self, get: Lookup) -> Coded:
        dates = self.dates(get(self.name))
        days: Floats = np.asarray(dates.data, dtype=np.float64)
        gaps, wall = np.isnan(days), days if dates.wall is None else dates.wall
        if self.parts:
            if self.zone is not None and dates.zone is None and not gaps.all():
                raise TableError(f"column {self.name!r} must hold dates with a time zone, as the model's do.")
            if self.zone not in (None, OFFSETS, dates.zone):
                wall = in_zone(days, str(self.zone))
            elif self.zone is None and dates.zone is not None:
                wall = days
        return self.coded(self.expand(self.filled(days), self.filled(wall)), gaps)

    def expand(self, data: Floats, wall: Floats | None = None) -> Floats:
        """Days, of which a clock shows `wall`, as inputs."""
        if wall is None:
            wall = data if self.zone in (None, OFFSETS) else in_zone(data, str(self.zone))
        return np.column_stack([data, *(circle(wall, part) for part in self.parts)])

    def dates(self, values: Values) -> Values:
        """The dates, read from texts if need be; all else is refused."""
        are_texts = self.forms and (values.kind == "number" or values.written is not None)
        days = self.numbers(values.texts() if are_texts else values)
        if days.ndim == 1:
            return values
        days, wall, has_offset = days.T
        zones = set(has_offset[~np.isnan(days)].tolist())
        if len(zones) > 1:
            needs = f"must hold {self.needs}, but it has some with a time zone and some without"
            raise TableError(f"column {self.name!r} {needs}.")
        zone = OFFSETS if 1.0 in zones else None
        return Values("date", days, wall=wall if zone else None, zone=zone, place=values.place)

    @classmethod
    def read(cls, name: str, values: Values, options: Options) -> Reading | None:
        """A column of dates, of texts that all are dates, or of numbers such as 20260131 in a column named so."""
        form = options.date_format
        is_asked = isinstance(form, Mapping) and name in form
        form = form.get(name) if isinstance(form, Mapping) else form
        if values.kind == "date" and values.written is not None and form:
            values = values.texts()
        if values.kind == "date":
            forms: tuple[str, ...] = ()
        elif values.kind == "number":
            coded = _form_of_code(name, values.known)
            if not is_asked and coded is None:
                return None
            forms = (form or coded or ISO,)
        elif values.kind != "text":
            return None
        elif form is not None and (is_asked or not np.isnan(_dates(values.used_texts, form)).any()):
            forms = (form,)
        elif not (forms := _forms(name, values)):
            return None
        column = cls(name, () if forms == (ISO,) else forms)
        dates = column.dates(values)
        known, days = dates.known, np.asarray(dates.data, dtype=np.float64)
        if not len(known) or np.ptp(known) == 0:
            return Reading.left_out(name, "all its values are equal" if len(known) else "it has no values at all")
        parts = circles_of(days if dates.wall is None else dates.wall)
        words = f"dates such as {' and '.join(map(example, column.forms))}" if column.forms else "dates"
        notes = (f"{name!r} is read as {words}.",) if column.forms else ()
        return replace(column, parts=parts, zone=dates.zone).reading(", ".join([words, *parts]), days, options, notes)


def _forms(name: str, values: Values) -> tuple[str, ...]:
    """The forms of the dates in a column of texts; empty for any others.

    Dates that can be read in two ways are refused, and so are few texts among many dates.
    """
    styles, strays = find_forms(values.used_texts)
    for first, *others in styles:
        for other in others:
            text = values.used_texts[int(np.flatnonzero(~np.isnan(_dates(values.used_texts, first)[:, 0]))[0])]
            days = ("first" if form.startswith("%d") else "second" for form in (first, other))
            shown = (f"date_format={form!r} (day {day})" for form, day in zip((first, other), days, strict=True))
            raise TableError(
                f"column {name!r} holds dates such as {text!r}, which can be read in two ways. "
                f"Give {' or '.join(shown)}."
            )
    if strays:
        raise TableError(
            f"column {name!r} holds {strays[0]!r} in {values.first_place(strays[0])} where dates such as "
            f"{example(styles[0][0])} are needed. {CORRECT} If it means that the value is missing, say so with "
            f"`na_values`."
        )
    return tuple(first for first, *_ in styles)


def find_forms(texts: tuple[str, ...]) -> tuple[list[list[str]], list[str]]:
    """The styles in which texts are dates, at most `MOST_STYLES`, and few texts among them that are not dates.

    A style is a list of forms: several, if some dates of the style can be read in several ways. Both are empty if the
    texts are not dates.

    Examples
    --------
    >>> find_forms(("2026-01-31", "31.01.2026", "13.02.2026"))
    ([['%Y-%m-%d'], ['%d.%m.%Y']], [])
    >>> find_forms(("02/01/2026", "03/04/2026 10:30"))
    ([['%d/%m/%Y', '%m/%d/%Y']], [])
    """
    styles, strays, rest = list[list[str]](), list[str](), texts
    while rest and len(strays) <= STRAY * len(texts) and (styles or len(strays) < 2):
        left = dict[str, tuple[str, ...]]()
        if len(styles) < MOST_STYLES and (day := re.fullmatch(DATE, rest[0])):
            forms = [form for form in FORMS if not np.isnan(_day(day["day"], form))]
            unread = {form: np.isnan(_dates(rest, form)[:, 0]) for form in forms}
            left = {form: tuple(rest[at] for at in np.flatnonzero(gaps)) for form, gaps in unread.items()}
        if not left:
            strays, rest = [*strays, rest[0]], rest[1:]
            continue
        best = min(left, key=lambda form: len(left[form]))
        alike = [form for form in left if left[form] == left[best]]
        days = {form: _dates(rest, form)[:, 0] for form in alike}
        styles.append([form for form in alike if form == best or not np.array_equal(days[form], days[best], True)])
        rest = left[best]
    are_dates = styles and len(strays) <= STRAY * len(texts)
    return (styles, strays) if are_dates else ([], [])


def _form_of_code(name: str, known: Floats) -> str | None:
    """The form of numbers that are dates, such as 20260131 or the month 202601; None for any others."""
    is_date, numbers = is_named(name, "date"), np.unique(known)
    if not (is_date or is_named(name, "month")) or not len(numbers) or not np.all(numbers == np.floor(numbers)):
        return None
    for form, least, most in CODED:
        is_within = (is_date or form == "%Y%m") and least <= numbers[0] and numbers[-1] <= most
        if is_within and not np.isnan(_dates(tuple(f"{number:.0f}" for number in numbers.tolist()), form)).any():
            return form
    return None


def dates_of(texts: tuple[str, ...], forms: Sequence[str]) -> Floats:
    """Days since 1970 in UTC, days by the clock, and whether there is an offset; of shape (n, 3), NaN for other texts.

    Each text is read by the first form that fits it.
    """
    first, *others = (_dates(texts, form) for form in forms)
    for other in others:
        first = np.where(np.isnan(first), other, first)
    return first


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
    if form == WEEKS and (match := WEEK.fullmatch(text)):
        text, form = f"{match[1]} {match[2]} 1", "%G %V %u"
    elif form == QUARTERS and (match := QUARTER.fullmatch(text)):
        year, quarter = match[3] or match[4], match[1] or match[2] or match[5]
        text, form = f"{year} {3 * int(quarter) - 2}", "%Y %m" if len(year) == 4 else "%y %m"
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


def example(form: str) -> str:
    """How the last day of January 2026 looks in a form.

    Examples
    --------
    >>> example("%d/%m/%Y"), example("weeks")
    ('31/01/2026', '2026-W05')
    """
    return SHOWS.get(form) or dt.datetime(2026, 1, 31, 12, 30).strftime(form)


@dataclass(frozen=True)
class Times(Column):
    """Times of day as points on a circle, or durations as days."""

    kind: ClassVar[str] = "time"
    kinds: ClassVar[tuple[str, ...]] = ("clock", "time")
    parts: tuple[str, ...] = ()
    """("hour",) for times of day, and nothing for durations."""

    def inputs(self) -> list[str]:
        return [f"{self.name} hour {axis}" for axis in ("cos", "sin")] if self.parts else [self.name]

    @property
    def needs(self) -> str:
        return "times, as 12:30:00 for instance" if self.parts else "durations, as 1:02:33 or 5h 10m for instance"

    def parse(self, texts: tuple[str, ...]) -> Floats:
        return read_clocks(texts) if self.parts else read_durations(texts)

    def expand(self, data: Floats) -> Floats:
        return circle(data, "hour") if self.parts else data[:, None]

    @classmethod
    def read(cls, name: str, values: Values, options: Options) -> Reading | None:
        """A column of times or durations, or of texts that all are."""
        is_clock, texts = values.kind == "clock", values.used_texts if values.kind == "text" else ()
        if texts and texts[0].lstrip("-")[:1].isdigit():
            is_clock = not is_named(name, "duration") and not np.isnan(read_clocks(texts)).any()
            if not is_clock and np.isnan(read_durations(texts)).any():
                return None
        elif values.kind not in cls.kinds:
            return None
        column = cls(name, ("hour",) if is_clock else ())
        days = column.numbers(values)
        if np.ptp(days[~np.isnan(days)]) == 0:
            return Reading.left_out(name, "all its values are equal")
        return column.reading("times of day" if is_clock else "durations, in days", days, options)


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
        hours = parts.number("H") + parts.number("M") / 60 + parts.number("S") / 3600
        has_any = np.logical_or.reduce([part.map(bool) for part in parts.parts.values()])
        durations = np.where(np.isnan(durations) & has_any, parts.number("D") + hours / 24, durations)
    return durations


def circles_of(days: Floats) -> tuple[str, ...]:
    """The calendar parts that vary over some dates, and are not functions of the date alone.

    `days` are days since 1970 by the clock, of shape (n,), NaN where missing.
    """
    days = days[~np.isnan(days)]
    if not len(days):
        return ()
    span, whole, parts = float(np.ptp(days)), np.unique(np.floor(days)), []
    if span >= FEW_DAYS and np.ptp(_phase(days, "hour")) > 0:
        parts.append("hour")
    dates = whole.astype("datetime64[D]")
    of_month = set(((dates - dates.astype("datetime64[M]")).astype(np.int64) + 1).tolist())
    is_monthly = len(of_month) == 1 or of_month <= {28, 29, 30, 31}  # one date a month, the first or the last
    apart = span / max(len(whole) - 1, 1)
    if span >= FEW_WEEKS and apart <= WEEKDAYS_APART and np.ptp(_phase(whole, "weekday")) > 0 and not is_monthly:
        parts.append("weekday")
    if span >= FEW_YEARS and apart <= SEASONS_APART and len(np.unique(np.floor(12 * _phase(whole, "season")))) > 2:
        parts.append("season")
    return tuple(parts)


def circle(days: Floats, part: str) -> Floats:
    """A calendar part of dates as points on a circle, of shape (n, 2)."""
    angle = 2 * np.pi * _phase(days, part)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def _phase(days: Floats, part: str) -> Floats:
    """Where dates are in the day, the week or the year, from 0 to 1."""
    if part == "hour":
        return np.asarray(days % 1.0)
    if part == "weekday":
        return np.asarray((np.floor(days) + 3) % 7 / 7)  # the first of January 1970 was a Thursday
    known = ~np.isnan(days)
    year = np.floor(np.where(known, days, 0)).astype("datetime64[D]").astype("datetime64[Y]")
    begin, end = (part.astype("datetime64[D]").astype(np.int64) for part in (year, year + 1))
    return np.where(known, (days - begin) / (end - begin), np.nan)
