"""What the name of a column says about its values: an id, a time, a date, a group of rows, a coordinate."""

from __future__ import annotations

import re

ID = re.compile(
    r"|id|.*[_ .-]id|.*[a-z]ID|index|idx|row[_ .]?(names?|numbers?|id)?|unnamed.*|key|uuid|guid|no\.?|nr\.?|#", re.I
)
ENDS_IN_ID = re.compile(
    r"(?i:id|uuid|guid|.*[_ .-]id)|.*[a-z]I[Dd]|[CFGOPRSTU]ID"
)  # "carId", but not "Madrid" nor "BID"
TIME = re.compile(
    r"t|x|time|year|day|date|week|month|hour|minute|second|step|period|age|age_.*|days?|years?|.*_time|.*year", re.I
)
DATE = re.compile(r".*(date|day|time)(?![a-z]).*|.*(date|datum)", re.I)
MONTH = re.compile(r"(.*[_ .])?(month|yearmonth|year[_ .]month|ym|yyyymm|period)", re.I)
GROUP = re.compile(
    r"(.*[_ .])?(subject|participant|patient|person|individual|user|customer|client|student|school|store|shop|site|"
    r"station|batch|plot|block|group|cluster|zip|zip[_ .]?code|post(al)?[_ .]?code|fips)",
    re.I,
)
DURATION = re.compile(
    r"(^|[^a-z])(lap|durations?|elapsed|pace|split|runtime|took|(finish|race|net|gun|chip|swim|run|bike)[_ .]?time)"
    r"($|[^a-z])",
    re.I,
)
LATITUDE = re.compile(r"(.*[^a-z])?(lat|latitude)([^a-z].*)?", re.I)
LONGITUDE = re.compile(r"(.*[^a-z])?(lon|long|lng|longitude)([^a-z].*)?", re.I)


PLACE = re.compile(
    r"(.*[^a-z])?(coord(inate)?s?|location|position|gps|geo|latlon|latlng|lat[_ /,-]+(lon|lng|long)|point|place)"
    r"([^a-z].*)?",
    re.I,
)


def is_place(name: str) -> bool:
    """Whether texts such as "47.4, 8.5" are latitude and longitude by the name of their column."""
    return bool(PLACE.fullmatch(name))


def is_id(name: str) -> bool:
    """Whether a column has the name of an id, or none.

    Examples
    --------
    >>> [is_id(name) for name in ("id", "carId", "row_id", "Unnamed: 0", "PID", "Madrid", "idea")]
    [True, True, True, True, True, False, False]
    """
    name = name.strip()
    return bool(ID.fullmatch(name)) and (not name.lower().endswith("id") or bool(ENDS_IN_ID.fullmatch(name)))


def is_time(name: str) -> bool:
    """Whether a column that counts may tell the time, so that it is no row number."""
    return bool(TIME.fullmatch(name))


def is_date(name: str) -> bool:
    """Whether numbers such as 20260131 are dates by the name of their column."""
    return bool(DATE.fullmatch(name))


def is_month(name: str) -> bool:
    """Whether numbers such as 202601 are months by the name of their column."""
    return bool(MONTH.fullmatch(name))


def is_duration(name: str) -> bool:
    """Whether texts such as 12:30 are minutes and seconds, or hours and minutes, by the name of their column.

    Examples
    --------
    >>> [is_duration(name) for name in ("Lap time", "finish_time", "duration", "departure time", "time")]
    [True, True, True, False, False]
    """
    return bool(DURATION.search(name))


def is_group(name: str) -> bool:
    """Whether numbers are names of groups of rows, such as those of shops, by the name of their column.

    Plurals are counts: the station that has measured, but the number of stations.

    Examples
    --------
    >>> [is_group(name) for name in ("station", "zip_code", "stations", "depth")]
    [True, True, False, False]
    """
    return bool(GROUP.fullmatch(name))


def latitude_stem(name: str) -> tuple[str, str] | None:
    """What stands before and after the word for a latitude, in lower case; None if the name has no such word.

    Examples
    --------
    >>> latitude_stem("home_Lat"), latitude_stem("latency")
    (('home_', ''), None)
    """
    return _stem(LATITUDE, name)


def longitude_stem(name: str) -> tuple[str, str] | None:
    """What stands before and after the word for a longitude, in lower case; None if the name has no such word."""
    return _stem(LONGITUDE, name)


def _stem(pattern: re.Pattern[str], name: str) -> tuple[str, str] | None:
    match = pattern.fullmatch(name)
    return None if match is None else ((match[1] or "").lower(), (match[3] or "").lower())
