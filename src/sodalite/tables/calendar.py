"""The calendar on circles: which parts of it vary over some dates, and where dates are on them."""

from __future__ import annotations

import numpy as np

from ..core.types import Floats

CIRCLES = ("hour", "weekday", "season")
"""The calendar parts of a date, each a point on a circle: the time of day, the day of the week and of the year."""

FEW_DAYS = 2.0  # span of the dates, in days, from which the time of day is more than the date itself
FEW_WEEKS = 21.0  # span, in days, from which the weekday is more than the date itself
FEW_YEARS = 1.5 * 365.25  # span, in days, from which the season is more than the date itself
WEEKDAYS_APART = 3.5  # most days between dates, on average, for weekdays: rarer dates fall on them by chance
SEASONS_APART = 200.0  # most days between dates, on average, for seasons: a year needs two dates to have any


def circles_of(days: Floats) -> tuple[str, ...]:
    """The calendar parts that vary over some dates, and are no function of the date alone.

    Parameters
    ----------
    days : array of shape (n,)
        Days since 1970 by the clock; NaN where missing.
    """
    days = days[~np.isnan(days)]
    if not len(days):
        return ()
    span, whole = float(np.ptp(days)), np.unique(np.floor(days))
    found = []
    if span >= FEW_DAYS and np.ptp(_phase(days, "hour")) > 0:
        found.append("hour")
    of_month = np.unique(_day_of_month(whole))
    months = len(of_month) == 1 or set(of_month.tolist()) <= {28, 29, 30, 31}  # one date a month, the first or the last
    apart = span / max(len(whole) - 1, 1)
    if span >= FEW_WEEKS and apart <= WEEKDAYS_APART and len(np.unique(_phase(whole, "weekday"))) > 1 and not months:
        found.append("weekday")
    if span >= FEW_YEARS and apart <= SEASONS_APART and len(np.unique(np.floor(12 * _phase(whole, "season")))) > 2:
        found.append("season")
    return tuple(found)


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


def _day_of_month(days: Floats) -> Floats:
    dates = days.astype("datetime64[D]")
    return np.asarray((dates - dates.astype("datetime64[M]")).astype(np.int64) + 1)
