"""Readings of latitudes and longitudes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .calendar import axes_of, centre_of
from .column_names import latitude_stem, longitude_stem
from .column_readings import Options, Reading, with_gaps
from .columns import Column, Lookup, encode_values, number_values
from .values import Values
from .written import is_code, read_numbers


def pair_of_places(names: Sequence[str], get: Lookup, options: Options) -> tuple[str, str] | None:
    """The columns of latitudes and longitudes: as given, or by their names and ranges."""
    if options.latlon is not None:
        return options.latlon
    longitudes = {name: stem for name in names if (stem := longitude_stem(name)) is not None}
    for name in names:
        stem = latitude_stem(name)
        partner = [other for other, its_stem in longitudes.items() if its_stem == stem]
        if len(partner) != 1:
            continue
        marks = {_mark_of_degrees(get(part), most, options) for part, most in ((name, 90), (partner[0], 360))}
        if len(marks) == 1 and marks != {None}:
            return name, partner[0]
    return None


def _mark_of_degrees(values: Values, most: float, options: Options) -> str | None:
    """The decimal mark of different numbers of degrees, at most so many; None if the values are something else."""
    data, mark = values.data, "."
    if values.kind == "text":
        texts = [text for text in values.levels if not is_code(text)]
        data, written = read_numbers(texts, options.decimal, options.thousands, options.prefer)
        mark = written.form
        if not texts or written.unit or np.isnan(data).any():
            return None
    elif values.kind != "number":
        return None
    return mark if np.nanmax(np.abs(data)) <= most and np.nanmax(data) > np.nanmin(data) else None


def read_as_places(pair: tuple[str, str], get: Lookup, options: Options) -> Reading:
    """Latitudes and longitudes as points on the sphere."""
    mark = _mark_of_degrees(get(pair[0]), 90, options) or "."
    form = None if mark == "." else mark
    both = [number_values(get(name), Column(name, "number", form=form), "") for name in pair]
    column = Column(pair[0], "place", partner=pair[1], centre=(0.0, 0.0), parts=("up",), form=form)
    encode_values(column, get, "")  # refuses what is no place
    centre = centre_of(both[0], both[1])
    column = replace(column, centre=centre, parts=axes_of(both[0], both[1], centre))
    gaps = np.isnan(both[0]) | np.isnan(both[1])
    flat = with_gaps(Column(pair[0], "number"), np.where(gaps, np.nan, 0.0), options)
    column = replace(column, fill=flat.fill, indicator=flat.indicator)
    words = f"latitude and longitude, in km {', '.join(column.parts)}"
    commas = ", with decimal commas" if form is not None and form[0] == "," else ""
    note = f"{pair[0]!r} and {pair[1]!r} are read as places on the globe{commas}."
    return Reading(column.label, words + commas, column, int(gaps.sum()), (note,))
