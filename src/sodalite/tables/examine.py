"""How the columns of training data are read: what each holds, its encoding, and what was noticed on the way."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np

from ..core.types import Array, Floats
from .advice import IN_COMMANDS, Advice
from .base import CORRECT, TableError, is_number, listed
from .calendar import axes_of, centre_of, circles_of
from .column_names import is_date, is_group, is_id, is_month, is_time, latitude_stem, longitude_stem
from .columns import FOLDED, GAP, OTHER, Column, Lookup, date_values, encode_values, level_values, number_values
from .levels import FEWEST_ROWS, MOST_LEVELS, UNIQUE, Coding, frequent_levels, in_order, level_means, rare_levels
from .values import Values
from .written import (
    DURATIONS,
    ISO,
    as_code,
    example,
    in_several_units,
    is_code,
    read_clocks,
    read_dates,
    read_durations,
    read_numbers,
)

MISSING = ("error", "drop", "median", "indicator")
SHOWN = 30  # characters of a text that are shown in a list of several
FEWEST = 10  # rows below which nothing is taken for an id: too few to tell
SENTINELS = (-1.0, -9.0, -99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0, -99.9, -999.9, 99.99, 999.99)
"""Numbers by which missing values are often coded."""
STRAY = 0.1  # share of different texts, up to which those that are no dates are errors among dates
CODE = re.compile(r"[A-Za-z]{0,3}[-/.]?[0-9]+[-/.]?[A-Za-z]{0,3}")  # a code of digits and few letters


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

    pair = _pair(names, get, options)
    readings, problems = [], []
    for name in names:
        if pair is not None and name == pair[1]:
            continue
        try:
            if pair is not None and name == pair[0]:
                found = _place(pair, get, options)
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


def blanked(values: Values, codes: Sequence[str]) -> Values:
    """Values with some codes as missing ones."""
    if not codes:
        return values
    tests = [as_code(code) for code in codes]
    if values.kind == "text":
        gaps = np.array([any(test(text) for test in tests) for text in values.levels] + [True])
        data = np.where(gaps[values.data], -1, values.data)
        return replace(values, data=data) if (data >= 0).any() else Values("empty", np.full(len(data), np.nan))
    numbers = [float(code) for code in codes if is_number(code)]
    if values.kind != "number" or not numbers:
        return values
    data = np.where(np.isin(values.data, numbers), np.nan, values.data)
    return replace(values, data=data, kind="number" if not np.isnan(data).all() else "empty")


def _reading(name: str, values: Values, options: Options, chosen: bool, y: Floats | None) -> Reading:
    """How one column is read."""
    if values.kind == "other":
        raise Unreadable(
            f"column {name!r} holds {values.type_name}, which cannot be an input; {options.advice.leave_out([name])}."
        )
    if values.kind == "empty" or bool(values.missing.all()):
        raise NotAnInput("it has no values at all")
    if name in options.order:
        return _ordered(name, values, options)
    if not chosen:
        _check_id(name, values, options)
    if values.kind in ("date", "clock", "time"):
        return _date(name, values, options)
    if values.kind == "text":
        return _text(name, values, options, chosen, y)
    if values.kind == "bool":
        return _levels(name, values, options, chosen, y)
    if (form := _form_of_date_code(name, values, options)) is not None:
        return _date(name, values, options, form)
    if _is_key(name, values):
        return _levels(name, values, options, chosen, y)
    return _number(name, values, options, chosen)


# Numbers


def _number(
    name: str, values: Values, options: Options, chosen: bool, form: str | None = None, said: str = ""
) -> Reading:
    data = number_values(values, Column(name, "number", form=form), "")
    known = data[~np.isnan(data)]
    if not chosen and np.ptp(known) == 0 and (len(known) == len(data) or options.missing in ("drop", "error")):
        raise NotAnInput(f"all its values are {known[0]:g}")
    column = _with_gaps(Column(name, "number", form=form), data, options)
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


def _with_gaps(column: Column, data: Floats, options: Options) -> Column:
    """The column with what takes the place of missing values; `data`, of shape (n,), has NaN there."""
    gaps = bool(np.isnan(data).any())
    if options.missing not in ("median", "indicator") or np.isnan(data).all():
        return column
    if options.missing == "indicator" and not gaps:
        return column
    return replace(column, fill=float(np.nanmedian(data)), indicator=gaps and options.missing == "indicator")


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


# Ids


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


# Dates


def _form_of_date_code(name: str, values: Values, options: Options) -> str | None:
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


def _date(name: str, values: Values, options: Options, form: str | None = None) -> Reading:
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
    return Reading(name, words, _with_gaps(column, days, options), int(np.isnan(days).sum()), tuple(notes))


# Texts


def _text(name: str, values: Values, options: Options, chosen: bool, y: Floats | None) -> Reading:
    """Texts: numbers or dates as people write them, or levels."""
    used = values.used() > 0
    texts = [text for text, there in zip(values.levels, used.tolist(), strict=True) if there and not is_code(text)]
    if not texts:
        raise NotAnInput("it has no values at all")
    given = options.format_of(name)
    if given is not None and (isinstance(options.date_format, Mapping) or read_dates(texts, given)[1]):
        return _date(name, values, options, given)
    if values.ordered:
        return _ordered(name, values, options)
    numbers, written = read_numbers(texts, options.decimal, options.thousands, options.prefer)
    share = float(np.mean(~np.isnan(numbers)))
    if share == 1.0:
        return _number(name, values, options, chosen, written.form, written.words())
    if not np.isnan(read_clocks(texts)).any():
        return _date(name, values, options)
    if not np.isnan(read_durations(texts)).any():
        return _date(name, values, options, DURATIONS)
    if share > 0.5:
        bad = [text for text, is_bad in zip(texts, np.isnan(numbers).tolist(), strict=True) if is_bad]
        if _are_codes(name, texts):
            why = f"values such as {bad[0]!r} are codes"
        elif len(texts) <= MOST_LEVELS and _are_frequent(values, bad):
            why = f"it has {len(texts)} different values, and {bad[0]!r} is no number"
        else:
            _refuse_texts(name, values, options, bad)
        reading = _levels(name, values, options, chosen, y)
        return replace(reading, notes=(*reading.notes, f"{name!r} is read as levels, since {why}."))
    dates, forms = read_dates(texts)
    if forms:
        others = [form for form in forms[1:] if read_dates(texts, form)[0] != dates]
        if others:
            shown = " or ".join(
                f"{form!r} (day {'first' if form.startswith('%d') else 'second'})" for form in (forms[0], others[0])
            )
            raise Unreadable(
                f"column {name!r} holds dates such as {texts[0]!r}, which can be read in two ways. Give "
                f"{options.advice.date_format} {shown}."
            )
        return _date(name, values, options, forms[0])
    _refuse_among_dates(name, values, texts, options)
    if not chosen and (units := in_several_units(texts)):
        raise NotAnInput(f"numbers in different units, such as {units[0]!r} and {units[1]!r}; write them in one")
    return _levels(name, values, options, chosen, y)


def _refuse_among_dates(name: str, values: Values, texts: Sequence[str], options: Options) -> None:
    """Raise an error for few texts among many dates of one form."""
    for form in dict.fromkeys(form for text in texts[:2] for form in read_dates([text])[1]):
        dates = read_dates(texts, form)[0]
        bad = [text for text, date in zip(texts, dates, strict=True) if date is None]
        if len(bad) <= STRAY * len(texts):
            row = int(np.flatnonzero(values.data == values.levels.index(bad[0]))[0])
            raise Unreadable(
                f"column {name!r} holds {bad[0]!r} in {values.place(row)} where dates such as {example(form)} are "
                f"needed. {CORRECT} If it means that the value is missing, say so with {options.advice.na_values}."
            )


def _are_codes(name: str, texts: Sequence[str]) -> bool:
    """Whether texts, most of which are numbers, are codes, such as '001' and '136A' of families.

    All are digits with few letters, and either some have leading zeros or the column's name says that they are codes.
    """
    if not all(CODE.fullmatch(text.strip()) for text in texts):
        return False
    padded = any(text.strip().startswith("0") and len(text.strip()) > 1 for text in texts)
    return padded or is_id(name) or is_group(name)


def _are_frequent(values: Values, texts: Sequence[str]) -> bool:
    """Whether each of some texts is in several rows, so that it is hardly a slip of the pen."""
    counts = dict(zip(values.levels, values.used().tolist(), strict=True))
    return all(counts[text] >= FEWEST_ROWS for text in texts)


def _refuse_texts(name: str, values: Values, options: Options, bad: list[str]) -> NoReturn:
    """Raise the error for texts among numbers."""
    row = int(np.flatnonzero(values.data == values.levels.index(bad[0]))[0])
    more = (
        ""
        if len(bad) == 1
        else f" and {bad[1]!r}"
        if len(bad) == 2
        else f" and {len(bad) - 1} more, such as {bad[1]!r}"
    )
    raise Unreadable(
        f"column {name!r} holds text where a number is needed: {bad[0]!r} in {values.place(row)}{more}. {CORRECT} "
        f"If it means that the value is missing, say so with {options.advice.na_values}. To do without the column, "
        f"{options.advice.leave_out([name])}."
    )


def _levels(name: str, values: Values, options: Options, chosen: bool, y: Floats | None) -> Reading:
    """Levels; those that differ in capitals alone, as "yes" and "Yes" do, count as one."""
    plain = level_values(Column(name, "text"), values)
    spellings = Counter(level.lower() for level in plain.levels)
    several = [level for level, count in spellings.items() if count > 1]
    if not several or min(map(len, several)) == 1:  # "a" and "A" may well be different codes
        return _as_levels(name, plain, options, chosen, y)
    found = _as_levels(name, level_values(Column(name, "text", form=FOLDED), values), options, chosen, y)
    column = None if found.column is None else replace(found.column, form=FOLDED)
    return replace(found, column=column, notes=(*found.notes, f"{name!r}: capitals in its levels are ignored."))


def _as_levels(name: str, values: Values, options: Options, chosen: bool, y: Floats | None) -> Reading:
    """Levels: an input for each, or one input for all."""
    if values.kind == "text" and {level.lower() for level in values.levels} <= {"false", "true"}:
        values = replace(values, levels=tuple(level.lower() for level in values.levels))
    gaps, n = int(values.missing.sum()), len(values)
    used = frequent_levels(values, len(values.levels))
    as_level = gaps > 0 and options.missing in ("median", "indicator")
    if len(used) < 2 and not (as_level and options.missing == "indicator") and not chosen:
        raise NotAnInput(f"all its values are {used[0]!r}" if used else "it has no values at all")
    if len(used) > MOST_LEVELS and len(used) > UNIQUE * (n - gaps) and not chosen:
        raise NotAnInput(f"a text that differs in most rows; {options.advice.keep}")
    fill = GAP if options.missing == "median" or as_level else None
    if len(used) == 2:
        return _ranks(name, values, tuple(sorted(used)), options, "two levels")
    if len(used) > MOST_LEVELS and y is not None:
        levels = in_order(used) + ((GAP,) if as_level else ())
        codes = codes_of(Column(name, "means", levels), values)
        means = level_means(Coding(codes, len(levels)), y)
        column = Column(name, "means", levels, means=tuple(means.tolist()))
        return Reading(name, f"{len(used)} levels, by their mean target", column, gaps)
    rare = rare_levels(values)
    if len(used) > MOST_LEVELS:
        rare = sorted({*rare, *used[MOST_LEVELS - 1 :]})
    shared = set(rare)
    levels = tuple(sorted(level for level in used if level not in shared))
    levels += ((OTHER,) if rare else ()) + ((GAP,) if as_level else ())
    notes = (
        (f"{name!r}: {len(rare)} rare levels share one input ({listed([level[:SHOWN] for level in rare])}).",)
        if rare
        else ()
    )
    column = Column(name, "text", levels, fill, other=OTHER if rare else None, rare=tuple(rare))
    return Reading(name, f"{len(levels)} level{'s' * (len(levels) > 1)}", column, gaps, notes)


def codes_of(column: Column, values: Values) -> Array:
    """The level of each row, by its place among those of the column; -1 for none."""
    values = level_values(column, values)
    places = {level: at for at, level in enumerate(column.levels)}
    codes = np.array([places.get(level, -1) for level in values.levels] + [places.get(GAP, -1)])
    return np.asarray(codes[values.data])


def _ordered(name: str, values: Values, options: Options) -> Reading:
    """Levels in an order that was given."""
    values = level_values(Column(name, "text"), values)
    given = tuple(options.order.get(name, values.levels))
    strange = [level for level in frequent_levels(values, len(values.levels)) if level not in given]
    if strange:
        raise Unreadable(
            f"column {name!r} has levels that {options.advice.order} does not name: {listed(strange)}. Add them."
        )
    return _ranks(name, values, given, options, f"{len(given)} levels in order")


def _ranks(name: str, values: Values, levels: tuple[str, ...], options: Options, words: str) -> Reading:
    """Levels as one input, their places."""
    column = Column(name, "ordered", levels)
    ranks = np.where(values.missing, np.nan, codes_of(column, values))
    words += f": {listed(levels, 3)}" if len(levels) <= 3 else ""
    return Reading(name, words, _with_gaps(column, ranks, options), int(values.missing.sum()))


# Places


def _pair(names: Sequence[str], get: Lookup, options: Options) -> tuple[str, str] | None:
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


def _place(pair: tuple[str, str], get: Lookup, options: Options) -> Reading:
    """Latitudes and longitudes as points on the sphere."""
    mark = _mark_of_degrees(get(pair[0]), 90, options) or "."
    form = None if mark == "." else mark
    both = [number_values(get(name), Column(name, "number", form=form), "") for name in pair]
    column = Column(pair[0], "place", partner=pair[1], centre=(0.0, 0.0), parts=("up",), form=form)
    encode_values(column, get, "")  # refuses what is no place
    centre = centre_of(both[0], both[1])
    column = replace(column, centre=centre, parts=axes_of(both[0], both[1], centre))
    gaps = np.isnan(both[0]) | np.isnan(both[1])
    flat = _with_gaps(Column(pair[0], "number"), np.where(gaps, np.nan, 0.0), options)
    column = replace(column, fill=flat.fill, indicator=flat.indicator)
    words = f"latitude and longitude, in km {', '.join(column.parts)}"
    commas = ", with decimal commas" if form is not None and form[0] == "," else ""
    note = f"{pair[0]!r} and {pair[1]!r} are read as places on the globe{commas}."
    return Reading(column.label, words + commas, column, int(gaps.sum()), (note,))
