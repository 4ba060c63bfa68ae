"""How columns are to be read, how each is read, and the readings of numbers and dates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..core.types import Floats
from .advice import IN_COMMANDS, Advice
from .base import is_number
from .calendar import circles_of
from .column_names import is_date, is_month
from .columns import Column, date_values, number_values
from .values import Values
from .written import DURATIONS, ISO, LEVEL_CODES, as_code, example, is_code, read_dates

MISSING = ("error", "drop", "median", "indicator")
FEWEST = 10  # rows below which nothing is taken for an id: too few to tell
SENTINELS = (-1.0, -9.0, -99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0, -99.9, -999.9, 99.99, 999.99)
"""Numbers by which missing values are often coded."""


@dataclass(frozen=True)
class Options:
    """How columns are to be read, where that is not left to their values."""

    missing: str = "indicator"
    """What is done about missing values: one of `MISSING`."""
    order: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The levels of columns, in order."""
    latlon: tuple[str, str] | None = None
    """The columns of latitudes and longitudes; found by their names if None."""
    date_format: str | Mapping[str, str] | None = None
    """The format of dates in texts, as strptime takes it, for all columns or by column."""
    na_values: tuple[str, ...] = ()
    """Values that mean a missing value, beside the usual ones."""
    decimal: str | None = None
    thousands: str | None = None
    prefer: str = "."
    """The decimal mark where both are possible."""
    advice: Advice = IN_COMMANDS
    """The words in which messages name these options."""

    def format_of(self, name: str) -> str | None:
        """The format of dates that was given for a column."""
        return self.date_format.get(name) if isinstance(self.date_format, Mapping) else self.date_format


@dataclass(frozen=True)
class Reading:
    """How one column is read."""

    name: str
    words: str
    """What it is read as, or why it is left out."""
    column: Column | None = None
    """None if it is left out."""
    missing: int = 0
    notes: tuple[str, ...] = ()
    """What was noticed: sentences."""

    def as_dict(self) -> dict[str, Any]:
        """The reading as what JSON can hold."""
        inputs = [] if self.column is None else self.column.names
        used = self.column is not None
        return {"column": self.name, "used": used, "read_as": self.words, "inputs": inputs, "missing": self.missing}


class Unreadable(Exception):
    """A column cannot be an input as it is; the message says what to do."""


class NotAnInput(Exception):
    """A column is no input; the message is the reason."""


def blanked(values: Values, codes: Sequence[str]) -> Values:
    """Values with some codes as missing ones."""
    if values.kind == "text":
        tests = [as_code(code) for code in codes]
        known = [is_code(text, LEVEL_CODES) or any(test(text) for test in tests) for text in values.levels]
        gaps = np.array([*known, True])
        data = np.where(gaps[values.data], -1, values.data)
        return (
            replace(values, data=data)
            if (data >= 0).any() or not len(data)
            else Values("empty", np.full(len(data), np.nan))
        )
    numbers = [float(code) for code in codes if is_number(code)]
    if values.kind != "number" or not numbers:
        return values
    data = np.where(np.isin(values.data, numbers), np.nan, values.data)
    return replace(values, data=data, kind="number" if not np.isnan(data).all() else "empty")


def with_gaps(column: Column, data: Floats, options: Options) -> Column:
    """The column with what takes the place of missing values; `data`, of shape (n,), has NaN there."""
    gaps = bool(np.isnan(data).any())
    if options.missing not in ("median", "indicator") or np.isnan(data).all():
        return column
    if options.missing == "indicator" and not gaps:
        return column
    return replace(column, fill=float(np.nanmedian(data)), indicator=gaps and options.missing == "indicator")


# Numbers


def read_as_numbers(
    name: str, values: Values, options: Options, chosen: bool, form: str | None = None, said: str = ""
) -> Reading:
    """Numbers; of texts, `form` says how they are written, and `said` what they are, in words."""
    data = number_values(values, Column(name, "number", form=form), "")
    known = data[~np.isnan(data)]
    if not chosen and np.ptp(known) == 0 and (len(known) == len(data) or options.missing in ("drop", "error")):
        raise NotAnInput(f"all its values are {known[0]:g}")
    column = with_gaps(Column(name, "number", form=form), data, options)
    notes = [f"{name!r} is read as {said}."] if said else []
    notes += sentinel_note(repr(name), known, options)
    return Reading(name, said or "numbers", column, int(np.isnan(data).sum()), tuple(notes))


def sentinel_note(what: str, known: Floats, options: Options) -> list[str]:
    """A note of values that may be a code for missing ones: repeated, and far from all others."""
    for code in SENTINELS:
        count = int((known == code).sum())
        others = known[known != code]
        if count < 2 or len(others) < FEWEST or not (code < others.min() or code > others.max()):
            continue
        gap = min(abs(code - others.min()), abs(code - others.max()))
        if gap > max(float(np.ptp(others)) * (0.5 if abs(code) > 90 else 3), 1e-12) and abs(code) > 1:
            remedy = f"if it means missing, {options.advice.na_values} {code:g}"
            return [f"{what} is {code:g} in {count} rows, far from others: {remedy}."]
    return []


# Dates


def form_of_date_code(name: str, values: Values, options: Options) -> str | None:
    """The form of numbers that are dates, such as 20260131 or the month 202601, or have a given one; else None."""
    if isinstance(options.date_format, Mapping) and name in options.date_format:
        return options.format_of(name) or "%Y%m%d"
    known = np.unique(values.data[~np.isnan(values.data)])
    if not len(known) or not np.all(known == np.floor(known)):
        return None
    texts = [f"{value:.0f}" for value in known.tolist()]
    for form, least, most, is_named in (
        ("%Y%m%d", 19000101, 21001231, is_date(name)),
        ("%Y%m", 190001, 210012, is_date(name) or is_month(name)),
    ):
        if is_named and least <= known[0] and known[-1] <= most and read_dates(texts, form)[1]:
            return options.format_of(name) or form
    return None


def read_as_dates(name: str, values: Values, options: Options, form: str | None = None) -> Reading:
    """Dates, times of day and durations."""
    kind = "date" if values.kind == "date" or form not in (None, DURATIONS) else "time"
    column = Column(name, kind, form=form)
    values = date_values(values, column, "")
    days = np.asarray(values.data, dtype=np.float64)
    known = days[~np.isnan(days)]
    if not len(known):
        raise NotAnInput("it has no values at all")
    if np.ptp(known) == 0:
        raise NotAnInput("all its values are equal")
    if kind == "date":
        column = replace(column, parts=circles_of(days if values.wall is None else values.wall), zone=values.zone)
        dates = "dates" if form in (None, ISO) else f"dates such as {example(form)}"
        words = dates + "".join(f", {part}" for part in column.parts)
    else:
        column = replace(column, parts=("hour",) if values.kind == "clock" else ())
        words = dates = "times of day" if values.kind == "clock" else "durations, in days"
    notes = [] if form in (None, ISO) else [f"{name!r} is read as {dates}."]
    return Reading(name, words, with_gaps(column, days, options), int(np.isnan(days).sum()), tuple(notes))
