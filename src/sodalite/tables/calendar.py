"""Dates and places as inputs: time and the calendar on circles, and points on the sphere."""

from __future__ import annotations

import numpy as np

from ..core.types import Floats

CIRCLES = ("hour", "weekday", "season")
"""The calendar parts of a date, each a point on a circle: the time of day, the day of the week and of the year."""

AXES = ("east", "north", "up")
"""The axes of a place: kilometres from the centre of the data, `up` being towards the sky there."""

RADIUS = 6371.0  # the Earth's mean radius, in kilometres
CAP = 10.0  # degrees around the centre within which a map is flat to 1.5 %: cos 10 degrees; `up` is left out then
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


# Places


def centre_of(latitude: Floats, longitude: Floats) -> tuple[float, float]:
    """The latitude and the longitude of the centre of some places: the direction of the mean of their points."""
    x, y, z = np.nanmean(_sphere(latitude, longitude), axis=0).tolist()
    return float(np.degrees(np.arctan2(z, np.hypot(x, y)))), float(np.degrees(np.arctan2(y, x)))


def axes_of(latitude: Floats, longitude: Floats, centre: tuple[float, float]) -> tuple[str, ...]:
    """The axes that places need: two if all are near the centre, else three."""
    up = place(latitude, longitude, centre, AXES)[:, 2]
    return AXES[:2] if np.nanmin(up) >= RADIUS * (np.cos(np.radians(CAP)) - 1) else AXES


def place(latitude: Floats, longitude: Floats, centre: tuple[float, float], axes: tuple[str, ...]) -> Floats:
    """Places as points in kilometres, east, north and up of the centre, of shape (n, axes).

    With all three axes, the distances of points are those of straight lines through the Earth: there is no seam at 180
    degrees, and no pole. They differ from distances over ground by less than 1 % up to 3000 km.

    Examples
    --------
    >>> place(np.array([47.0, 48.0]), np.array([8.0, 8.0]), (47.0, 8.0), ("east", "north")).round(1) + 0.0
    array([[  0. ,   0. ],
           [  0. , 111.2]])
    """
    phi, lam = np.radians(centre)
    east = np.array([-np.sin(lam), np.cos(lam), 0.0])
    up = np.array([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)])
    frame = np.stack([east, np.cross(up, east), up])[[AXES.index(axis) for axis in axes]]
    return np.asarray(RADIUS * (_sphere(latitude, longitude) - up) @ frame.T)


def _sphere(latitude: Floats, longitude: Floats) -> Floats:
    """Places as points on the unit sphere, of shape (n, 3)."""
    phi, lam = np.radians(latitude), np.radians(longitude)
    return np.column_stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)])
