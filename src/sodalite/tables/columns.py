"""How the columns of training data are read: each by the first transformer that takes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..exceptions import TableError
from .base import CORRECT
from .categories import FEWEST_ROWS, MOST_LEVELS, Levels, Means, OneHot, Points, Ranks, are_names, read_levels
from .column import Lookup, Options, Reading
from .column_names import is_id, is_named
from .dates import Dates, Times
from .numbers import CODE, FEWEST, Numbers, in_several_currencies, read_numbers
from .places import Places, find_pair
from .values import Values

SHOWN = 8  # names of columns that a note shows

TRANSFORMERS: tuple[type, ...] = (Numbers, Dates, Times, Places, OneHot, Ranks, Means, Points)
"""All transformers; `sodalite.core.state` writes them to model files and reads them."""

Reader = Callable[[str, Values, Options], Reading | None]
"""A function of a column's name, its values and the options: how it is read, or None if it is for another reader."""


def refuse_unusable(name: str, values: Values, options: Options) -> Reading | None:
    """A column that cannot be an input, or that has no values."""
    if values.kind == "other":
        remedy = options.leave_out([name])
        raise TableError(f"column {name!r} holds {values.type_name}, which cannot be an input; {remedy}.")
    is_empty = bool(values.missing.all()) or (values.kind == "text" and not values.used_texts)
    return Reading.left_out(name, "it has no values at all") if is_empty else None


def leave_out_ids(name: str, values: Values, options: Options) -> Reading | None:
    """Row numbers, and ids that differ in every row."""
    n = len(values)
    if options.chosen or n < FEWEST or values.missing.any():
        return None
    if values.kind == "number":
        whole = bool(np.all(values.data == np.floor(values.data)))
        counts = values.data[0] in (0, 1) and bool(np.all(np.diff(values.data) == 1))
        if whole and counts and not is_named(name, "time"):
            return Reading.left_out(name, f"it counts the rows; {options.keep}")
        if whole and is_id(name) and len(np.unique(values.data)) == n:
            return Reading.left_out(name, f"an id, different in every row; {options.keep}")
    elif values.kind == "text" and is_id(name) and are_names(values):
        return Reading.left_out(name, f"an id, different in most rows; {options.keep}")
    return None


def read_keys(name: str, values: Values, options: Options) -> Reading | None:
    """Numbers that are names of groups of rows."""
    return read_levels(name, values, options) if values.kind == "number" else None


def read_codes(name: str, values: Values, options: Options) -> Reading | None:
    """Levels that mostly are numbers, such as '001' and '136A'; texts among numbers that are not levels are refused."""
    if values.kind != "text":
        return None
    texts = values.used_texts
    numbers = read_numbers(texts, options.decimal, options.thousands, options.prefer)[0]
    bad = [texts[at] for at in np.flatnonzero(np.isnan(numbers)).tolist()]
    if len(bad) >= 0.5 * len(texts):
        return None
    counts = dict(zip(values.levels, values.counts().tolist(), strict=True))
    is_padded = any(text.startswith("0") and len(text) > 1 for text in texts)
    if all(map(CODE.fullmatch, texts)) and (is_padded or is_id(name) or is_named(name, "group")):
        why = f"values such as {bad[0]!r} are codes"
    elif len(texts) <= MOST_LEVELS and all(counts[text] >= FEWEST_ROWS for text in bad):  # hardly slips of the pen
        why = f"it has {len(texts)} different values, and {bad[0]!r} is no number"
    else:
        more = {1: "", 2: f" and {bad[-1]!r}"}.get(len(bad), f" and {len(bad) - 1} more, such as {bad[1 % len(bad)]!r}")
        raise TableError(
            f"column {name!r} holds text where a number is needed: {bad[0]!r} in {values.first_place(bad[0])}{more}. "
            f"{CORRECT} If it means that the value is missing, say so with `na_values`. To do without the column, "
            f"{options.leave_out([name])}."
        )
    reading = read_levels(name, values, options)
    return reading and replace(reading, notes=(*reading.notes, f"{name!r} is read as levels, since {why}."))


def leave_out_currencies(name: str, values: Values, options: Options) -> Reading | None:
    """Amounts in several currencies."""
    both = in_several_currencies(values.used_texts) if values.kind == "text" and not options.chosen else None
    return both and Reading.left_out(
        name, f"amounts in different currencies, such as {both[0]!r} and {both[1]!r}; write them in one"
    )


READERS: tuple[Reader, ...] = (
    refuse_unusable,
    Ranks.read,
    leave_out_ids,
    Dates.read,
    read_keys,
    Numbers.read,
    Places.read,
    Times.read,
    read_codes,
    leave_out_currencies,
    read_levels,
)
"""What looks at a column, in this order, until one takes it."""


def examine(names: Sequence[str], get: Lookup, options: Options) -> tuple[list[Reading], list[str]]:
    """How each of some columns is read, and all problems with them.

    `get` returns the values of a column by its name, of the rows that have a target.
    """
    pair = find_pair(names, get, options)
    readings, problems = list[Reading](), list[str]()
    for name in names:
        try:
            if pair is None or name not in pair.sources:
                asked = (read(name, get(name), options) for read in READERS)
                readings.append(next(reading for reading in asked if reading is not None))
            elif name == pair.name:
                readings.append(pair.located(get, options))
        except TableError as problem:
            problems.append(str(problem))
    return _without_repetition(readings, get, options), problems


def _without_repetition(readings: list[Reading], get: Lookup, options: Options) -> list[Reading]:
    """Readings without what others tell: indicators that are equal in all rows, and levels under other names."""
    gaps, partitions = set[bytes](), dict[bytes, str]()
    different = []
    for reading in readings:
        column = reading.column
        if column is not None and column.indicator:
            own = column.encode(get).X[:, -1].tobytes()
            if own in gaps:
                reading = replace(reading, column=replace(column, indicator=False))
            gaps.add(own)
        if isinstance(column, Levels) and len(column.levels) > 2 and not options.chosen:
            codes = column.codes(column.texts(get(column.name)))
            _, first, groups = np.unique(codes, return_index=True, return_inverse=True)
            partition = first[groups].tobytes()  # the first row of each row's level
            if partition in partitions:
                words = f"its levels are those of {partitions[partition]!r} under other names; {options.keep}"
                reading = Reading.left_out(reading.name, words)
            partitions.setdefault(partition, reading.name)
        different.append(reading)
    return different


def notes_of(readings: Sequence[Reading]) -> list[str]:
    """The notes of readings and what is left out, those that say the same of several columns in one sentence."""
    subjects: dict[str, list[str]] = {}
    for reading in sorted(readings, key=lambda reading: reading.column is None):
        is_named = f"{reading.name!r} is "
        for note in reading.notes if reading.column is not None else [f"{is_named}{reading.words}."]:
            subject = repr(reading.name) if note.startswith(is_named) else ""
            subjects.setdefault(note.removeprefix(is_named), []).append(subject)
    notes = []
    for words, names in subjects.items():
        are = f"{', '.join(names[:-1])} and {names[-1]} are each" if len(names) > 1 else f"{names[0]} is"
        notes.append(f"{are} {words}" if names[0] else words)
    return notes


def left_out_notes(readings: Sequence[Reading]) -> list[str]:
    """Sentences about columns that are left out, one for all that have the same reason."""
    return notes_of([reading for reading in readings if reading.column is None])


def reading_notes(readings: Sequence[Reading]) -> list[str]:
    """A sentence on how columns are read that have no note of their own."""
    names: dict[str, list[str]] = {}
    for reading in readings:
        if reading.column is not None and not any(repr(reading.name) in note for note in reading.notes):
            names.setdefault(reading.words, []).append(repr(reading.name))
    parts = [
        f"{', '.join(some[:SHOWN])}{f' and {len(some) - SHOWN} more' if len(some) > SHOWN else ''} ({words})"
        for words, some in names.items()
    ]
    return [f"Columns as they are read: {', '.join(parts)}."] if parts else []
