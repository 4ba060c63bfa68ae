"""Dates, as days and points on the circles of the calendar; times of day, on a circle too; and durations, in days."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..core.types import Floats
from ..exceptions import TableError
from .base import CORRECT
from .column import Coded, Column, Lookup, Options, Reading
from .column_names import is_named
from .values import OFFSETS, Values, in_zone
from .written_dates import (
    ISO,
    are_dates,
    dates_of,
    example,
    forms_of,
    others_than,
    read_clocks,
    read_dates,
    read_durations,
    read_styles,
)

STRAY = 0.1  # share of different texts, up to which those that are not dates are errors among dates
CODED = (("%Y%m%d", 19000101, 21001231), ("%Y%m", 190001, 210012))
"""Forms of dates that are whole numbers, with the least and the largest of them."""

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
        days, wall = self.filled(days), self.filled(wall)
        return self.coded(np.column_stack([days, *(circle(wall, part) for part in self.parts)]), gaps)

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
        if values.kind == "date" and values.written is not None and options.format_of(name):
            values = values.texts()
        forms = _forms(name, values, options) if values.kind in ("number", "text") else ()
        if forms is None or values.kind not in ("number", "text", "date"):
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


def _forms(name: str, values: Values, options: Options) -> tuple[str, ...] | None:
    """How the dates of a column are written in texts or as numbers; None if it does not hold dates."""
    asked = options.format_of(name)
    is_asked = isinstance(options.date_format, Mapping) and name in options.date_format
    if values.kind == "number":
        form = _form_of_code(name, values.known)
        return ((asked or form or "%Y%m%d"),) if is_asked or form else None
    texts = values.used_texts
    if asked is not None and (is_asked or are_dates(texts, asked)):
        return (asked,)
    styles = read_styles(texts)
    for form in styles:
        others = set(others_than(texts, form)) if len(styles) > 1 else ()
        _refuse_two_ways(name, tuple(text for text in texts if text not in others) if others else texts)
    if not styles:
        _refuse_strays(name, values, texts)
    return tuple(styles) or None


def _form_of_code(name: str, known: Floats) -> str | None:
    """The form of numbers that are dates, such as 20260131 or the month 202601; None for any others."""
    is_date, numbers = is_named(name, "date"), np.unique(known)
    if not (is_date or is_named(name, "month")) or not len(numbers) or not np.all(numbers == np.floor(numbers)):
        return None
    for form, least, most in CODED:
        is_within = (is_date or form == "%Y%m") and least <= numbers[0] and numbers[-1] <= most
        if is_within and are_dates(tuple(f"{number:.0f}" for number in numbers.tolist()), form):
            return form
    return None


def _refuse_two_ways(name: str, texts: tuple[str, ...]) -> None:
    """Raise an error for dates that can be read in two ways."""
    first, *others = read_dates(texts)
    for other in others:
        if not np.array_equal(dates_of(texts, [first]), dates_of(texts, [other])):
            days = ("first" if form.startswith("%d") else "second" for form in (first, other))
            shown = (f"date_format={form!r} (day {day})" for form, day in zip((first, other), days, strict=True))
            raise TableError(
                f"column {name!r} holds dates such as {texts[0]!r}, which can be read in two ways. "
                f"Give {' or '.join(shown)}."
            )


def _refuse_strays(name: str, values: Values, texts: tuple[str, ...]) -> None:
    """Raise an error for few texts among many dates."""
    for form in dict.fromkeys(form for text in texts[:2] for form in forms_of(text)):
        bad = others_than(texts, form)
        if len(bad) <= STRAY * len(texts):
            raise TableError(
                f"column {name!r} holds {bad[0]!r} in {values.first_place(bad[0])} where dates such as {example(form)} "
                f"are needed. {CORRECT} If it means that the value is missing, say so with `na_values`."
            )


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

    def encode(self, get: Lookup) -> Coded:
        days = self.numbers(get(self.name))
        whole = self.filled(days)
        return self.coded(circle(whole, "hour") if self.parts else whole[:, None], np.isnan(days))

    @classmethod
    def read(cls, name: str, values: Values, options: Options) -> Reading | None:
        """A column of times or durations, or of texts that all are."""
        if values.kind not in ("text", *cls.kinds):
            return None
        is_clock = values.kind == "clock"
        if values.kind == "text":
            texts = values.used_texts
            if not texts[0].lstrip("-")[:1].isdigit():
                return None
            is_clock = not is_named(name, "duration") and not np.isnan(read_clocks(texts)).any()
            if not is_clock and np.isnan(read_durations(texts)).any():
                return None
        column = cls(name, ("hour",) if is_clock else ())
        days = column.numbers(values)
        if np.ptp(days[~np.isnan(days)]) == 0:
            return Reading.left_out(name, "all its values are equal")
        return column.reading("times of day" if is_clock else "durations, in days", days, options)


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
