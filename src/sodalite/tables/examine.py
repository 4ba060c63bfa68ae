"""How the columns of training data are read: what each holds, its encoding, and what was noticed on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..core.types import Floats
from .base import TableError
from .column_names import is_group, is_id, is_time
from .column_places import pair_of_places, read_as_places
from .column_readings import (
    FEWEST,
    NotAnInput,
    Options,
    Reading,
    Unreadable,
    blanked,
    form_of_date_code,
    read_as_dates,
    read_as_numbers,
)
from .column_texts import codes_of, read_as_levels, read_as_ordered, read_as_texts
from .columns import Lookup, encode_values
from .levels import UNIQUE
from .values import Values


def examine(
    names: Sequence[str], raw: Lookup, options: Options, chosen: bool = False, y: Floats | None = None
) -> tuple[list[Reading], list[str]]:
    """How each of some columns is read, and all problems with them.

    Parameters
    ----------
    names : sequence of str
    raw : callable
        The values of a column by its name, of the rows that have a target.
    options : Options
    chosen : bool
        Whether the columns were named by the user: none is left out then.
    y : array of shape (n,), optional
        The target, for the mean targets of levels.
    """

    def get(name: str) -> Values:
        return blanked(raw(name), options.na_values)

    pair = pair_of_places(names, get, options)
    readings, problems = [], []
    for name in names:
        if pair is not None and name == pair[1]:
            continue
        try:
            if pair is not None and name == pair[0]:
                found = read_as_places(pair, get, options)
            else:
                found = _reading(name, get(name), options, chosen, y)
            readings.append(found)
        except NotAnInput as reason:
            readings.append(Reading(name, f"left out: {reason}"))
        except Unreadable as problem:
            problems.append(str(problem))
        except TableError as error:
            problems.append(str(error).partition(": ")[2])
    readings = _once(readings, get)
    return (readings if chosen else _without_twins(readings, get, options)), problems


def _reading(name: str, values: Values, options: Options, chosen: bool, y: Floats | None) -> Reading:
    """How one column is read."""
    if values.kind == "other":
        raise Unreadable(
            f"column {name!r} holds {values.type_name}, which cannot be an input; {options.advice.leave_out([name])}."
        )
    if values.kind == "empty" or bool(values.missing.all()):
        raise NotAnInput("it has no values at all")
    if name in options.order:
        return read_as_ordered(name, values, options)
    if not chosen:
        _check_id(name, values, options)
    if values.kind in ("date", "clock", "time"):
        return read_as_dates(name, values, options)
    if values.kind == "text":
        return read_as_texts(name, values, options, chosen, y)
    if values.kind == "bool":
        return read_as_levels(name, values, options, chosen, y)
    if (form := form_of_date_code(name, values, options)) is not None:
        return read_as_dates(name, values, options, form)
    if _is_key(name, values):
        return read_as_levels(name, values, options, chosen, y)
    return read_as_numbers(name, values, options, chosen)


# Columns that are no inputs


def _check_id(name: str, values: Values, options: Options) -> None:
    """Leave out row numbers, and ids that differ in every row."""
    n = len(values)
    if n < FEWEST or values.missing.any() or values.kind not in ("number", "text"):
        return
    keep = options.advice.keep
    if values.kind == "number":
        whole = bool(np.all(values.data == np.floor(values.data)))
        steps = np.diff(values.data)
        if whole and values.data[0] in (0, 1) and bool(np.all(steps == 1)) and not is_time(name):
            raise NotAnInput(f"it counts the rows; {keep}")
        if whole and is_id(name) and len(np.unique(values.data)) == n:
            raise NotAnInput(f"an id, different in every row; {keep}")
    elif is_id(name) and np.count_nonzero(values.used()) > UNIQUE * n:
        raise NotAnInput(f"an id, different in most rows; {keep}")


def _is_key(name: str, values: Values) -> bool:
    """Whether numbers are ids of groups of rows, and so levels."""
    known = values.data[~np.isnan(values.data)]
    whole = bool(np.all(known == np.floor(known)))
    return (is_id(name) or is_group(name)) and whole and 2 < len(np.unique(known)) <= len(known) / 2


def _without_twins(readings: list[Reading], get: Lookup, options: Options) -> list[Reading]:
    """Readings that leave out columns whose levels are those of an earlier one under other names, such as codes."""
    seen: dict[bytes, str] = {}
    found = []
    for reading in readings:
        column = reading.column
        if column is not None and column.kind in ("text", "means", "ordered") and len(column.levels) > 2:
            _, first, groups = np.unique(codes_of(column, get(column.name)), return_index=True, return_inverse=True)
            partition = first[groups].tobytes()  # the first row of each row's level
            if partition in seen:
                words = f"left out: its levels are those of {seen[partition]!r} under other names"
                reading = Reading(reading.name, f"{words}; {options.advice.keep}")
            seen.setdefault(partition, reading.name)
        found.append(reading)
    return found


def _once(readings: list[Reading], get: Lookup) -> list[Reading]:
    """Readings of which no two have indicators that are equal in all rows."""
    seen: set[bytes] = set()
    found = []
    for reading in readings:
        column = reading.column
        if column is not None and column.indicator:
            gaps = encode_values(column, get).X[:, -1].tobytes()
            if gaps in seen:
                reading = replace(reading, column=replace(column, indicator=False))
            seen.add(gaps)
        found.append(reading)
    return found
