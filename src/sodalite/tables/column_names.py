"""What the name of a column says about its values: an id, a time, a date, a group of rows, a coordinate."""

from __future__ import annotations

import re

_ID = re.compile(
    r"|id|.*[_ .-]id|.*[a-z]ID|index|idx|row[_ .]?(names?|numbers?|id)?|unnamed.*|key|uuid|guid|no\.?|nr\.?|#", re.I
)
_ENDS_IN_ID = re.compile(r"(?i:id|uuid|guid|.*[_ .-]id)|.*[a-z]I[Dd]|[CFGOPRSTU]ID")  # "carId", not "Madrid" nor "BID"
_PATTERNS = {
    "time": r"t|x|time|year|day|date|week|month|hour|minute|second|step|period|age|age_.*|days?|years?|.*_time|.*year",
    "date": r".*(date|day|time)(?![a-z]).*|.*(date|datum)",
    "month": r"(.*[_ .])?(month|yearmonth|year[_ .]month|ym|yyyymm|period)",
    "group": r"(.*[_ .])?(subject|participant|patient|person|individual|user|customer|client|student|school|store|shop"
    r"|site|station|batch|plot|block|group|cluster|zip|zip[_ .]?code|post(al)?[_ .]?code|fips)",
    "duration": r"(.*[^a-z])?(lap|durations?|elapsed|pace|split|runtime|took"
    r"|(finish|race|net|gun|chip|swim|run|bike)[_ .]?time)([^a-z].*)?",
    "place": r"(.*[^a-z])?(coord(inate)?s?|location|position|gps|geo|latlon|latlng|lat[_ /,-]+(lon|lng|long)"
    r"|point|place)([^a-z].*)?",
    "latitude": r"(.*[^a-z])?(lat|latitude)([^a-z].*)?",
    "longitude": r"(.*[^a-z])?(lon|long|lng|longitude)([^a-z].*)?",
}
_COMPILED = {what: re.compile(pattern, re.I) for what, pattern in _PATTERNS.items()}


def is_named(name: str, what: str) -> bool:
    """Whether a column's name says what it holds.

    "time" (a column that counts may tell the time), "date" (numbers such as 20260131), "month" (202601), "group"
    (numbers that are names of groups; plurals are counts), "duration" (12:30 is no time of day), or "place".

    Examples
    --------
    >>> [is_named(name, "duration") for name in ("Lap time", "finish_time", "duration", "departure time", "time")]
    [True, True, True, False, False]
    >>> [is_named(name, "group") for name in ("station", "zip_code", "stations", "depth")]
    [True, True, False, False]
    """
    return _COMPILED[what].fullmatch(name) is not None


def is_id(name: str) -> bool:
    """Whether a column has the name of an id, or none.

    Examples
    --------
    >>> [is_id(name) for name in ("id", "carId", "row_id", "Unnamed: 0", "PID", "Madrid", "idea")]
    [True, True, True, True, True, False, False]
    """
    name = name.strip()
    return bool(_ID.fullmatch(name)) and (not name.lower().endswith("id") or bool(_ENDS_IN_ID.fullmatch(name)))


def stem(name: str, what: str) -> tuple[str, str] | None:
    """What stands before and after the word for a latitude or longitude, in lower case; None if there is no such word.

    Examples
    --------
    >>> stem("home_Lat", "latitude"), stem("latency", "latitude")
    (('home_', ''), None)
    """
    match = _COMPILED[what].fullmatch(name)
    return None if match is None else ((match[1] or "").lower(), (match[3] or "").lower())
