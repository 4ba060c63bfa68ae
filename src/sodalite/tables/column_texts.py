"""Readings of texts: numbers and dates as people write them, and levels."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

import numpy as np

from ..core.types import Array, Floats
from .base import CORRECT, listed
from .column_names import is_duration, is_group, is_id
from .column_readings import NotAnInput, Options, Reading, Unreadable, read_as_dates, read_as_numbers, with_gaps
from .columns import FOLDED, GAP, OTHER, Column, level_values
from .levels import FEWEST_ROWS, MOST_LEVELS, UNIQUE, Coding, frequent_levels, in_order, level_means, rare_levels
from .values import Values
from .written import (
    DURATIONS,
    example,
    in_several_currencies,
    is_code,
    read_clocks,
    read_dates,
    read_durations,
    read_numbers,
)

SHOWN = 30  # characters of a text that are shown in a list of several
STRAY = 0.1  # share of different texts, up to which those that are no dates are errors among dates
CODE = re.compile(r"[A-Za-z]{0,3}[-/.]?[0-9]+[-/.]?[A-Za-z]{0,3}")  # a code of digits and few letters


def read_as_texts(name: str, values: Values, options: Options, chosen: bool, y: Floats | None) -> Reading:
    """Texts: numbers or dates as people write them, or levels."""
    used = values.used() > 0
    texts = [text for text, there in zip(values.levels, used.tolist(), strict=True) if there and not is_code(text)]
    if not texts:
        raise NotAnInput("it has no values at all")
    given = options.format_of(name)
    if given is not None and (isinstance(options.date_format, Mapping) or read_dates(texts, given)[1]):
        return read_as_dates(name, values, options, given)
    if values.ordered:
        return read_as_ordered(name, values, options)
    numbers, written = read_numbers(texts, options.decimal, options.thousands, options.prefer)
    share = float(np.mean(~np.isnan(numbers)))
    if share == 1.0:
        return read_as_numbers(name, values, options, chosen, written.form, written.words())
    if not is_duration(name) and not np.isnan(read_clocks(texts)).any():
        return read_as_dates(name, values, options)
    if not np.isnan(read_durations(texts)).any():
        return read_as_dates(name, values, options, DURATIONS)
    if share > 0.5:
        bad = [text for text, is_bad in zip(texts, np.isnan(numbers).tolist(), strict=True) if is_bad]
        if _are_codes(name, texts):
            why = f"values such as {bad[0]!r} are codes"
        elif len(texts) <= MOST_LEVELS and _are_frequent(values, bad):
            why = f"it has {len(texts)} different values, and {bad[0]!r} is no number"
        else:
            _refuse_texts(name, values, options, bad)
        reading = read_as_levels(name, values, options, chosen, y)
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
        return read_as_dates(name, values, options, forms[0])
    _refuse_among_dates(name, values, texts, options)
    if not chosen and (both := in_several_currencies(texts)):
        raise NotAnInput(f"amounts in different currencies, such as {both[0]!r} and {both[1]!r}; write them in one")
    return read_as_levels(name, values, options, chosen, y)


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


# Levels


def read_as_levels(name: str, values: Values, options: Options, chosen: bool, y: Floats | None) -> Reading:
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


def read_as_ordered(name: str, values: Values, options: Options) -> Reading:
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
    return Reading(name, words, with_gaps(column, ranks, options), int(values.missing.sum()))
