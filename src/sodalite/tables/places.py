"""Places: latitude and longitude, in two columns or in one, as points in kilometres."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..core.types import Floats
from ..exceptions import TableError
from .column import Coded, Column, Lookup, Options, Reading, is_named, match_name
from .values import Values, parts_of

AXES = ("east", "north", "up")
"""The axes of a place: kilometres from the centre of the data, `up` being towards the sky there."""
RADIUS = 6371.0  # the Earth's mean radius, in kilometres
CAP = 10.0  # degrees around the centre within which a map is flat to 1.5 %: cos 10 degrees; `up` is left out then
FARTHEST = (90.0, 360.0)  # the largest latitude and longitude, in degrees
ANGLE = (
    r"(?i:(?P<N>[NSEW])?\s*(?P<minus>[-+\x{2212}])?\s*(?P<D>\d+(?:[.,]\d+)?)\s*(?:[\x{b0}\x{ba}\x{ad}]|deg)?"
    r"\s*(?:(?P<M>[0-5]?\d(?:[.,]\d+)?)\s*['\x{2019}\x{2032}m]?\s*)?"
    r"(?:(?P<S>[0-5]?\d(?:[.,]\d+)?)\s*(?:''|[\"\x{201d}\x{2033}s])?\s*)?(?P<N2>[NSEW])?)"
)
PAIR = r"\(?(?P<first>[^,;]*?[^,;\s])\s*(?:[,;]\s*|\s+)(?P<second>[^,;]+?)\)?"
MARKED = r"(?i:.*(?:\d\.\d{3,}\D+\d+\.\d{3,}|[\x{b0}\x{ba}NSEW]).*)"  # three decimals in both, or marks of degrees


@dataclass(frozen=True)
class Places(Column):
    """Latitudes and longitudes as points: `name` is the column of latitudes, or of both."""

    kind: ClassVar[str] = "place"
    kinds: ClassVar[tuple[str, ...]] = ("number",)
    needs: ClassVar[str] = "degrees, as 47.5 or 47\u00b030'00\" N for instance"
    partner: str | None = None
    """The column of longitudes; None if both stand in one cell."""
    centre: tuple[float, float] = (0.0, 0.0)
    """The latitude and the longitude of the origin."""
    parts: tuple[str, ...] = ("up",)
    """The axes, of `AXES`."""

    @property
    def sources(self) -> list[str]:
        return [self.name] if self.partner is None else [self.name, self.partner]

    def inputs(self) -> list[str]:
        return [f"{self.label} {axis}" for axis in self.parts]

    def parse(self, texts: tuple[str, ...]) -> Floats:
        return read_degrees(texts) if self.partner else read_pairs(texts)

    def encode(self, get: Lookup) -> Coded:
        both = self.angles(get)
        gaps = np.asarray(np.isnan(both).any(axis=0))
        if self.fill is not None:  # a missing place is at the centre
            both = np.where(gaps, np.array(self.centre)[:, None], both)
        return self.coded(self.points(*both), gaps)

    def expand(self, data: Floats) -> Floats:
        """Latitudes and longitudes, one after the other, as inputs."""
        return self.points(*data.reshape(-1, 2).T)

    def points(self, latitude: Floats, longitude: Floats) -> Floats:
        """The inputs at some latitudes and longitudes, of shape (n, axes)."""
        return place(latitude, longitude, self.centre, self.parts)

    def degrees(self, X: Floats) -> list[Floats]:
        """The latitudes and longitudes of inputs of shape (n, axes); those at the centre may have been missing."""
        return degrees_of(X[:, : len(self.parts)], self.centre)

    def angles(self, get: Lookup) -> Floats:
        """Latitudes and longitudes, of shape (2, n), NaN where one is missing."""
        parts = [replace(self, name=name).numbers(get(name)).T for name in self.sources]
        both = np.vstack([*parts, *parts] if self.partner is None and parts[0].ndim == 1 else parts)
        for at, (data, most) in enumerate(zip(both, FARTHEST, strict=True)):
            far = np.flatnonzero(np.abs(data) > most)
            if len(far):
                name, what = self.sources[-at], "longitude" if at else "latitude"
                where = get(name).place(int(far[0]))
                raise TableError(f"column {name!r} has {data[far[0]]:g} in {where}, which is not a {what} in degrees.")
        return both

    @classmethod
    def read(cls, name: str, values: Values, options: Options) -> Reading | None:
        """A column of texts that each hold a latitude and a longitude."""
        texts = values.used_texts if values.kind == "text" else ()
        if not texts or not (is_named(name, "place") or parts_of(texts, MARKED).match.all()):
            return None
        both = read_pairs(texts)
        if np.isnan(both).any() or (np.abs(both) > FARTHEST).any():
            return None
        return cls(name).located(lambda name: values, options)

    def located(self, get: Lookup, options: Options) -> Reading:
        """The reading of these columns, whose values are known to be places."""
        both, how = self.angles(get), ""
        x, y, z = np.nanmean(_sphere(*both), axis=0).tolist()  # the direction of the mean of their points
        centre = float(np.degrees(np.arctan2(z, np.hypot(x, y)))), float(np.degrees(np.arctan2(y, x)))
        up = place(both[0], both[1], centre, AXES)[:, 2]
        column = replace(
            self, centre=centre, parts=AXES[:2] if np.nanmin(up) >= RADIUS * (np.cos(np.radians(CAP)) - 1) else AXES
        )
        texts = [text for name in self.sources if get(name).kind == "text" for text in get(name).used_texts]
        if texts:
            has_marks = self.partner is None or any(re.search(r"[^\d.,+\u2212\s-]", text) for text in texts)
            how = ", in degrees as people write them" if has_marks else ", with decimal commas"
        are = "are" if self.partner else "is"
        note = f"{' and '.join(map(repr, self.sources))} {are} read as places on the globe{how}."
        words = f"latitude and longitude, in km {', '.join(column.parts)}{how}"
        return column.reading(words, both.sum(axis=0), options, [note], fill=0.0, values=both.T)


def find_pair(names: Sequence[str], get: Lookup, options: Options) -> Places | None:
    """The columns of latitudes and longitudes: as given, or by their names and ranges."""
    if options.latlon is not None:
        return Places(options.latlon[0], partner=options.latlon[1])
    stems: dict[str, dict[tuple[str, ...], list[str]]] = {"latitude": {}, "longitude": {}}
    for name in names:  # the word for a latitude or longitude, and what stands before and after it
        for what, by_stem in stems.items():
            if match := match_name(name, what):
                by_stem.setdefault(tuple((match[group] or "").lower() for group in (1, 3)), []).append(name)
    for stem, (latitude, *_) in stems["latitude"].items():
        longitudes = stems["longitude"].get(stem, [])
        if len(longitudes) == 1 and all(map(_are_degrees, map(get, (latitude, *longitudes)), FARTHEST)):
            return Places(latitude, partner=longitudes[0])
    return None


def _are_degrees(values: Values, most: float) -> bool:
    """Whether values are different numbers of degrees, at most so many."""
    data = read_degrees(values.used_texts) if values.kind == "text" else values.known
    is_angle = values.kind in ("number", "text") and len(data) > 0 and not np.isnan(data).any()
    return is_angle and bool(np.abs(data).max() <= most and np.ptp(data) > 0)


def read_degrees(texts: tuple[str, ...]) -> Floats:
    r"""Texts as degrees, NaN where one is something else; south and west are negative.

    Examples
    --------
    >>> read_degrees(("43.6532\u00b0 N", "79\u00b023'00\" W", "-12,5", "47 30.5 N", "north")).round(4).tolist()
    [43.6532, -79.3833, -12.5, 47.5083, nan]
    """
    parts = parts_of(texts, ANGLE)
    sides = np.char.upper(np.char.add(parts["N"].map(str), parts["N2"].map(str)))
    is_negative = np.isin(sides, ("S", "W")) | np.isin(parts["minus"].map(str), ("-", "\u2212"))
    degrees = parts.number("D") + parts.number("M") / 60 + parts.number("S") / 3600
    return np.where(parts.match & (np.char.str_len(sides) < 2), np.where(is_negative, -degrees, degrees), np.nan)


def read_pairs(texts: tuple[str, ...]) -> Floats:
    """Texts such as "47.37, 8.54" as latitude and longitude; of shape (n, 2), NaN where one is something else."""
    parts = parts_of(texts, PAIR)
    return np.column_stack([read_degrees(tuple(part.each))[part.codes] for part in parts.parts.values()])


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
    frame = _frame(centre)
    kept = [AXES.index(axis) for axis in axes]
    return np.asarray(RADIUS * (_sphere(latitude, longitude) - frame[2]) @ frame[kept].T)


def degrees_of(X: Floats, centre: tuple[float, float]) -> list[Floats]:
    """The latitudes and longitudes of points of `place`, of shape (n, 2) or (n, 3): the inverse.

    Examples
    --------
    >>> degrees_of(place(np.array([47.0, 48.0]), np.array([8.0, 9.5]), (47.0, 8.0), ("east", "north")), (47.0, 8.0))
    [array([47., 48.]), array([8. , 9.5])]
    """
    if X.shape[1] < len(AXES):  # the third is known, since points are on the sphere
        X = np.column_stack([X, np.sqrt(np.maximum(RADIUS**2 - np.square(X).sum(axis=1), 0)) - RADIUS])
    frame = _frame(centre)
    x, y, z = (frame[2] + X / RADIUS @ frame).T
    return [np.degrees(np.arctan2(z, np.hypot(x, y))), np.degrees(np.arctan2(y, x))]


def _frame(centre: tuple[float, float]) -> Floats:
    """Unit vectors east, north and up of a place, of shape (3, 3)."""
    phi, lam = np.radians(centre)
    east = np.array([-np.sin(lam), np.cos(lam), 0.0])
    up = np.array([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)])
    return np.stack([east, np.cross(up, east), up])


def _sphere(latitude: Floats, longitude: Floats) -> Floats:
    """Places as points on the unit sphere, of shape (n, 3)."""
    phi, lam = np.radians(latitude), np.radians(longitude)
    return np.column_stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)])
