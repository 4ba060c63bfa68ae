"""How the columns of training data are read: each by the first transformer that takes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from ..core.types import Floats
from ..exceptions import TableError
from .base import listed
from .categories import Levels, Means, OneHot, Points, Ranks, are_names, read_codes, read_keys, read_levels
from .column import Lookup, Options, Reading, is_named
from .dates import Dates, Times
from .numbers import FEWEST, Numbers, read_numbers, sentinel_note
from .places import Places, find_pair
from .values import Values

SHOWN = 8  # names of columns that a note shows
TEXTUAL = 0.5  # share of a target's different texts that are no numbers, above which it is no column of numbers
SHOWN_TEXTS, LONGEST = 3, 30  # texts of a target that a message shows, and the characters of each

TRANSFORMERS: tuple[type, ...] = (Numbers, Dates, Times, Places, OneHot, Ranks, Means, Points)
"""All transformers; `sodalite.core.state` writes them to model files and reads them."""

Reader = Callable[[str, Values, Options], Reading | None]
"""A function of a column's name, its values and the options: how it is read, or None if it is for another reader."""


def leave_out(name: str, values: Values, options: Options) -> Reading | None:
    """A column that cannot be an input: without values, or with row numbers or ids that differ in every row."""
    if values.kind == "other":
        remedy = options.leave_out([name])
        raise TableError(f"column {name!r} holds {values.type_name}, which cannot be an input; {remedy}.")
    if values.missing.all() or (values.kind == "text" and not values.used_texts):
        return Reading.left_out(name, "it has no values at all")
    n, is_id = len(values), is_named(name, "id")
    if options.chosen or n < FEWEST or values.missing.any() or name in options.order:
        return None
    if values.kind == "number" and np.all(values.data == np.floor(values.data)):
        if values.data[0] in (0, 1) and np.all(np.diff(values.data) == 1) and not is_named(name, "time"):
            return Reading.left_out(name, f"it counts the rows; {options.keep}")
        if is_id and len(np.unique(values.data)) == n:
            return Reading.left_out(name, f"an id, different in every row; {options.keep}")
    elif values.kind == "text" and is_id and not values.ordered and are_names(values):
        return Reading.left_out(name, f"an id, different in most rows; {options.keep}")
    return None


READERS: tuple[Reader, ...] = (
    leave_out,
    Ranks.read,
    Dates.read,
    read_keys,
    Numbers.read,
    Places.read,
    Times.read,
    read_codes,
    read_levels,
)
"""What looks at a column, in this order, until one takes it."""


def read_column(name: str, values: Values, options: Options) -> Reading:
    """How a column is read by itself."""
    asked = (read(name, values, options) for read in READERS)
    return next(reading for reading in asked if reading is not None)


def target_values(values: Values, name: str, source: str, options: Options) -> tuple[Floats, list[str]]:
    """The target column, of shape (n,), NaN where a value is missing, and notes; all but numbers are refused."""
    values = values.blanked(options.na_values)
    texts = values.used_texts if values.kind == "text" else ()
    numbers, written = read_numbers(texts, options.decimal, options.thousands, options.prefer)
    if values.kind not in ("number", "empty") and not (texts and np.isnan(numbers).mean() <= TEXTUAL):
        shown = listed([text[:LONGEST] for text in texts[:SHOWN_TEXTS]])
        what = f"{len(texts):,} different texts, such as {shown}" if len(texts) > 2 else values.type_name
        with suppress(TableError):
            reading = read_column(name, values, replace(options, chosen=True, y=None))
            what = what if isinstance(reading.column, Levels) and len(texts) > 2 else reading.words
        raise TableError(
            f"{source}: the target {name!r} holds {what}, but must hold numbers. Write it as numbers, such as 0 and 1 "
            f"for two levels or days for dates, or name another target."
        )
    try:
        y = Numbers(name, written.form, written.unit).numbers(values)
    except TableError as error:
        words = str(error).replace("column", "the target", 1)
        drop = " Rows without a target are left out; texts that mean a missing value are named by `na_values`."
        raise TableError(f"{source}: {words}{drop if texts else ''}") from None
    notes = [f"The target {name!r} is read as {written.words}."] if written.words else []
    return y, [*notes, *sentinel_note(f"The target {name!r}", y[~np.isnan(y)])]


def examine(names: Sequence[str], get: Lookup, options: Options) -> tuple[list[Reading], list[str]]:
    """How each of some columns is read, and all problems with them.

    Left out is what others tell: an indicator that is equal to another in all rows, and levels that are those of
    another column under other names.

    `get` returns the values of a column by its name, of the rows that have a target.
    """
    pair = find_pair(names, get, options)
    readings, problems = list[Reading](), list[str]()
    gaps, partitions = set[bytes](), dict[bytes, str]()
    for name in names:
        try:
            if pair is not None and name in pair.sources:
                if name != pair.name:
                    continue
                reading = pair.located(get, options)
            else:
                reading = read_column(name, get(name), options)
        except TableError as problem:
            problems.append(str(problem))
            continue
        column = reading.column
        if column is not None and column.indicator:
            own = column.encode(get).X[:, -1].tobytes()
            if own in gaps:
                reading = replace(reading, column=replace(column, indicator=False))
            gaps.add(own)
        if isinstance(column, Levels) and len(column.levels) > 2 and not options.chosen:
            codes = column.codes(column.texts(get(name)))
            _, first, groups = np.unique(codes, return_index=True, return_inverse=True)
            partition = first[groups].tobytes()  # the first row of each row's level
            if partition in partitions:
                words = f"its levels are those of {partitions[partition]!r} under other names; {options.keep}"
                reading = Reading.left_out(name, words)
            partitions.setdefault(partition, name)
        readings.append(reading)
    return readings, problems


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
        sources = [] if reading.column is None else reading.column.sources
        if sources and not any(repr(sources[0]) in note for note in reading.notes):
            names.setdefault(reading.words, []).append(repr(reading.name))
    parts = []
    for words, some in names.items():
        more = f" and {len(some) - SHOWN} more" if len(some) > SHOWN else ""
        parts.append(f"{', '.join(some[:SHOWN])}{more} ({words})")
    return [f"Columns as they are read: {', '.join(parts)}."] if parts else []
