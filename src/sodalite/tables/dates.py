"""Dates: days since 1970 and, for each part of the calendar that varies, a point on a circle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..core.types import Floats
from .base import CORRECT, TableError
from .calendar import circle, circles_of
from .column import Coded, Column, Lookup, Options, Reading, Unreadable, first_row, numbers_of, used_texts, with_gaps
from .column_names import is_date, is_month
from .values import OFFSETS, Values, days_of, in_zone
from .written_dates import ISO, dates_in, example, read_dates, read_styles

STRAY = 0.1  # share of different texts, up to which those that are not dates are errors among dates
CODED = (("%Y%m%d", 19000101, 21001231), ("%Y%m", 190001, 210012))
"""Forms of dates that are whole numbers, with the least and the largest of them."""


@dataclass(frozen=True)
class Dates(Column):
    """Dates as days since 1970, and the parts of the calendar as points on circles."""

    kind: ClassVar[str] = "date"
    forms: tuple[str, ...] = ()
    """How dates are written in texts; ISO 8601 if empty."""
    parts: tuple[str, ...] = ()
    """The parts of the calendar (`sodalite.tables.calendar.CIRCLES`)."""
    zone: str | None = None
    """The time zone whose clock tells the parts of the calendar."""

    def inputs(self) -> list[str]:
        return [self.name, *(f"{self.name} {part} {axis}" for part in self.parts for axis in ("cos", "sin"))]

    def encode(self, get: Lookup, source: str = "the table") -> Coded:
        found = self.values(get(self.name), source)
        days: Floats = np.asarray(found.data, dtype=np.float64)
        gaps, wall = np.isnan(days), days if found.wall is None else found.wall
        if self.parts:
            if self.zone is not None and found.zone is None and not gaps.all():
                raise TableError(f"{source}: column {self.name!r} must hold dates with a time zone, as the model's do.")
            if self.zone not in (None, OFFSETS, found.zone):
                wall = in_zone(days, str(self.zone))
            elif self.zone is None and found.zone is not None:
                wall = days
        days, wall = self.filled(days), self.filled(wall)
        return self.coded(np.column_stack([days, *(circle(wall, part) for part in self.parts)]), gaps)

    def values(self, values: Values, source: str) -> Values:
        """The dates, read from texts if need be; all else is refused."""
        if values.kind in ("date", "empty"):
            return values
        shown = example((self.forms or (ISO,))[0])
        message = f"{source}: column {self.name!r} must hold dates, as {shown} for instance, but it "
        if values.kind == "number" and self.forms:
            values = values.texts()
        if values.kind != "text":
            raise TableError(f"{message}holds {values.type_name}.")
        found = dates_in(values.levels, (*self.forms, ISO))
        both = np.array([days_of(value) for value in found]).reshape(-1, 2)
        days, wall = (numbers_of(values, part, lambda shown, more: f"{message}has {shown}.") for part in both.T)
        used = values.used() > 0
        aware = {date.tzinfo is not None for date, there in zip(found, used.tolist(), strict=True) if date and there}
        if len(aware) > 1:
            raise TableError(f"{message}has some with a time zone and some without.")
        zone = OFFSETS if True in aware else None
        return Values("date", days, wall=wall if zone else None, zone=zone, place=values.place)

    @classmethod
    def read(cls, name: str, values: Values, options: Options) -> Reading | None:
        """A column of dates, of texts that all are dates, or of numbers such as 20260131 in a column named so."""
        asked = options.format_of(name)
        if values.kind == "number":
            form = _form_of_code(name, values, options)
            return None if form is None else cls(name, (form,))._reading(values, options)
        if values.kind == "date":
            return cls(name)._reading(values, options)
        if values.kind != "text":
            return None
        texts = used_texts(values)
        if asked is not None and (isinstance(options.date_format, Mapping) or read_dates(texts, asked)[1]):
            return cls(name, (asked,))._reading(values, options)
        dates, forms = read_dates(texts)
        if forms:
            _refuse_two_ways(name, texts, dates, forms, options)
            return cls(name, () if forms[0] == ISO else (forms[0],))._reading(values, options)
        if styles := read_styles(texts):
            for form in styles:
                some = [text for text in texts if read_dates([text], form)[1]]
                _refuse_two_ways(name, some, *read_dates(some), options)
            return cls(name, tuple(styles))._reading(values, options)
        _refuse_strays(name, values, texts, options)
        return None

    def _reading(self, values: Values, options: Options) -> Reading:
        found = self.values(values, "")
        days = np.asarray(found.data, dtype=np.float64)
        known = days[~np.isnan(days)]
        if not len(known) or np.ptp(known) == 0:
            return Reading.left_out(self.name, "all its values are equal" if len(known) else "it has no values at all")
        parts = circles_of(days if found.wall is None else found.wall)
        column = with_gaps(replace(self, parts=parts, zone=found.zone), days, options)
        shown = [example(form) for form in self.forms]
        dates = f"dates such as {' and '.join(shown)}" if shown else "dates"
        notes = (f"{self.name!r} is read as {dates}.",) if shown and self.forms != (ISO,) else ()
        return Reading(self.name, ", ".join([dates, *parts]), column, int(np.isnan(days).sum()), notes)


def _form_of_code(name: str, values: Values, options: Options) -> str | None:
    """The form of numbers that are dates, such as 20260131 or the month 202601, or have a given one; else None."""
    if isinstance(options.date_format, Mapping) and name in options.date_format:
        return options.format_of(name) or "%Y%m%d"
    known = np.unique(values.data[~np.isnan(values.data)])
    if not len(known) or not np.all(known == np.floor(known)):
        return None
    texts = [f"{value:.0f}" for value in known.tolist()] if is_date(name) or is_month(name) else []
    for form, least, most in CODED:
        is_named = is_date(name) or (form == "%Y%m" and is_month(name))
        if is_named and least <= known[0] and known[-1] <= most and read_dates(texts, form)[1]:
            return options.format_of(name) or form
    return None


def _refuse_two_ways(
    name: str, texts: Sequence[str], dates: Sequence[object], forms: Sequence[str], options: Options
) -> None:
    """Raise an error for dates that can be read in two ways."""
    others = [form for form in forms[1:] if read_dates(texts, form)[0] != dates]
    if others:
        first = ["first" if form.startswith("%d") else "second" for form in (forms[0], others[0])]
        shown = " or ".join(
            f"date_format={form!r} (day {place})" for form, place in zip((forms[0], others[0]), first, strict=True)
        )
        raise Unreadable(
            f"column {name!r} holds dates such as {texts[0]!r}, which can be read in two ways. Give {shown}."
        )


def _refuse_strays(name: str, values: Values, texts: Sequence[str], options: Options) -> None:
    """Raise an error for few texts among many dates."""
    forms = dict.fromkeys(form for text in texts[:2] for form in read_dates([text])[1])
    for form in forms:
        bad = [text for text in texts if dates_in([text], [form]) == [None]]
        if len(bad) <= STRAY * len(texts):
            place = values.place(first_row(values, [values.levels.index(bad[0])]))
            raise Unreadable(
                f"column {name!r} holds {bad[0]!r} in {place} where dates such as {example(form)} are needed. "
                f"{CORRECT} If it means that the value is missing, say so with `na_values`."
            )
