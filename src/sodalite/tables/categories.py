"""Levels of texts: an input for each, one for all in order, or, if they are many, their mean targets or points."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..core.types import Array, Floats
from ..exceptions import TableError
from .base import CORRECT, is_number, listed
from .column import GAP, MOST_KNOWN, NONE, Coded, Column, Lookup, Options, Reading, is_named
from .levels import Coding, level_means, level_points
from .numbers import SENTINELS, read_numbers
from .values import Values

MOST_LEVELS = 12  # levels that each become an input, with a length-scale that the fit has to find
FEWEST_ROWS = 3  # rows of a level below which it is rare, and shares an input with other rare ones
FEWEST_TO_SHARE = 30  # rows of a table below which all levels are rare, and none are shared
ALONE = 1 / 3  # rows that no other row has the level of, as a share, above which levels are names of rows
SPARSE = 4  # rows of a level, on average, below which its mean target tells little
OTHER = "(other)"  # the level that rare and unseen levels share
ANSWERS = ({"y", "n"}, {"t", "f"}, {"m", "f"})  # pairs of letters that mean the same in capitals
SHOWN = 30  # characters of a text that are shown in a list of several
CODE = re.compile(r"[A-Za-z]{0,3}[-/.]?[0-9]+[-/.]?[A-Za-z]{0,3}")  # a code of digits and few letters


@dataclass(frozen=True)
class Levels(Column):
    """A column of texts, or of truth values as "false" and "true"."""

    levels: tuple[str, ...] = ()
    """The levels in the training data."""
    folds: bool = False
    """Whether levels differed in capitals in some rows, and are in lower case."""
    rare: tuple[str, ...] = ()
    """Levels of few rows in the training data, which share the level `OTHER`."""

    @abstractmethod
    def vectors(self) -> Floats:
        """The inputs at each level, and of levels that are not known at the end; of shape (levels + 1, inputs)."""

    def texts(self, values: Values) -> Values:
        """The values as texts that may be compared with the levels."""
        is_truth = bool({"false", "true"} & set(self.levels)) and set(self.levels) <= {"false", "true", GAP, OTHER}
        if values.kind == "number" and is_truth:
            values = replace(values, kind="bool", written=None)
        return values.texts(folds=self.folds or is_truth)

    def codes(self, values: Values) -> Array:
        """The level of each row of some texts, by its place; -1 for one that is not known, -2 for a missing one.

        New rows may have f for F, and 00104 or 104.0 for 104, where these are of one level.
        """
        exact = {level: at for at, level in enumerate(self.levels)}
        others = []
        for key in (str.lower, _plain):
            keys = [key(level) for level in self.levels]
            counts = Counter(keys)
            others.append({one: at for at, one in enumerate(keys) if one and counts[one] == 1})
        by_letters, by_number = others
        places = [
            exact.get(text, by_letters.get(text.lower(), by_number.get(_plain(text), -1))) for text in values.levels
        ]
        return np.array([*places, exact.get(GAP, -2)])[values.data]

    def encode(self, get: Lookup) -> Coded:
        values = self.texts(get(self.name))
        code = self.codes(values)
        new = replace(values, data=np.where(code == -1, values.data, -1)).counts()
        unknown = {level: count for level, count in new.items() if level not in self.rare}
        is_new = np.array([*(level in unknown for level in values.levels), False])[values.data]
        unseen = np.where(is_new, values.data, -1)
        X, lost = self.vectors()[np.maximum(code, -1)], code == -2
        if not isinstance(self.fill, str):
            X[lost] = np.nan if self.fill is None else self.fill
        if self.complete and self.fill is not None:  # as a level that is not known
            unseen = np.where(lost, len(values.levels), unseen)
        unseen = unseen if (unseen >= 0).any() else NONE
        return self.coded(X, values.missing)._replace(unknown=unknown, unseen=unseen)

    def known(self) -> Floats:
        """At most `MOST_KNOWN` of the levels as inputs; of more, they are spread evenly over all of them."""
        vectors = self.vectors()
        known = [at for at, level in enumerate(self.levels) if level not in (GAP, OTHER)]
        known.sort(key=lambda at: vectors[at, 0] if vectors.shape[1] == 1 else at)
        if len(known) > MOST_KNOWN:
            known = [known[int((at + 0.5) * len(known) / MOST_KNOWN)] for at in range(MOST_KNOWN)]
        return np.column_stack([vectors[known], np.zeros((len(known), int(self.indicator)))])


@dataclass(frozen=True)
class OneHot(Levels):
    """An input for each level, which is 1 in the rows that have it."""

    kind: ClassVar[str] = "text"

    def inputs(self) -> list[str]:
        return [f"{self.name}={level}" for level in self.levels]

    def vectors(self) -> Floats:
        one = np.eye(len(self.levels))
        return np.vstack([one, one[self.levels.index(OTHER)] if OTHER in self.levels else np.zeros(len(one))])


@dataclass(frozen=True)
class Ranks(Levels):
    """One input: the place of the level in their order."""

    kind: ClassVar[str] = "ordered"

    def vectors(self) -> Floats:
        n = len(self.levels)
        return np.append(np.arange(float(n)), (n - 1) / 2)[:, None]

    def ranked(self, values: Values, options: Options, words: str) -> Reading:
        """The reading of a column of these levels, whose gaps become a median."""
        words += f": {listed(self.levels, 3)}" if len(self.levels) <= 3 else ""
        return self.reading(words, np.where(values.missing, np.nan, self.codes(values)), options)

    @classmethod
    def read(cls, name: str, values: Values, options: Options) -> Reading | None:
        """A column whose levels are in an order that was given, or that its type has."""
        if name not in options.order and not (values.kind == "text" and values.ordered):
            return None
        values = values.texts()
        levels = tuple(options.order.get(name, values.levels))
        if strange := [level for level in values.counts() if level not in levels]:
            raise TableError(f"column {name!r} has levels that `order` does not name: {listed(strange)}. Add them.")
        return cls(name, levels).ranked(values, options, f"{len(levels)} levels in order")


@dataclass(frozen=True)
class Means(Levels):
    """One input: the mean target of the level, adjusted for other columns."""

    kind: ClassVar[str] = "means"
    means: tuple[float, ...] = ()
    """The mean of each level, and of levels that are not known at the end."""

    def vectors(self) -> Floats:
        return np.array(self.means)[:, None]

    def coding(self, values: Values) -> Coding:
        """The levels of training data."""
        return Coding(np.maximum(self.codes(self.texts(values)), -1), len(self.levels))


@dataclass(frozen=True)
class Points(Levels):
    """Three inputs: a point on a sphere for each level, and its centre for levels that are not known."""

    kind: ClassVar[str] = "points"

    def inputs(self) -> list[str]:
        return [f"{self.name} point {axis}" for axis in "xyz"]

    def vectors(self) -> Floats:
        return level_points(len(self.levels))


def read_codes(name: str, values: Values, options: Options) -> Reading | None:
    """Levels that mostly are numbers, such as '001' and '136A'; texts among numbers that are not levels are refused."""
    if values.kind != "text":
        return None
    texts, counts = values.used_texts, values.counts()
    numbers = read_numbers(texts, options.decimal, options.thousands, options.prefer)[0]
    bad = [texts[at] for at in np.flatnonzero(np.isnan(numbers)).tolist()]
    if len(bad) >= 0.5 * len(texts):
        return None
    is_padded = any(text.startswith("0") and len(text) > 1 for text in texts)
    if all(map(CODE.fullmatch, texts)) and (is_padded or is_named(name, "id") or is_named(name, "group")):
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


def read_keys(name: str, values: Values, options: Options) -> Reading | None:
    """Numbers that are names of groups of rows."""
    known = (
        values.known if values.kind == "number" and (is_named(name, "id") or is_named(name, "group")) else np.empty(0)
    )
    is_key = bool(np.all(known == np.floor(known))) and 2 < len(np.unique(known)) <= len(known) / 2
    return read_levels(name, values, options) if is_key else None


def read_levels(name: str, values: Values, options: Options) -> Reading:
    """A column of texts, of truth values, or of numbers that are names of groups of rows.

    Two levels are one input, and others one for each; rare ones share one, and so do the rarest of many if there is no
    target.
    """
    texts = values.texts(as_written=False)
    spellings = Counter(level.lower() for level in texts.levels)
    several = [level for level, count in spellings.items() if count > 1]
    # Levels that differ in capitals alone, as "yes" and "Yes", mean the same; "a" and "A" may not.
    folds = bool(several) and (min(map(len, several)) > 1 or set(spellings) in ANSWERS)
    if folds or set(spellings) <= {"false", "true"}:
        texts = values.texts(as_written=False, folds=True)
    counts, gaps = texts.counts(), int(texts.missing.sum())
    used, notes, with_gap = list(counts), list[str](), gaps > 0 and options.fills
    if len(used) < 2 and not (with_gap and options.missing == "indicator") and not options.chosen:
        return Reading.left_out(name, f"all its values are {used[0]!r}" if used else "it has no values at all")
    if len(used) > MOST_LEVELS and are_names(texts) and not options.chosen:
        return Reading.left_out(name, f"a text that differs in most rows; {options.keep}")
    fill, gap = GAP if options.fills else None, (GAP,) if with_gap else ()
    if len(used) == 2:
        reading = Ranks(name, tuple(sorted(used)), folds).ranked(texts, options, "two levels")
    elif len(used) > MOST_LEVELS and options.y is not None:
        # Levels are sorted: by their values if all are numbers, else by their letters.
        levels = tuple(sorted(used, key=float if all(map(is_number, used)) else None)) + gap
        column = Means(name, levels, folds, fill=fill, complete=not gaps)
        means = level_means(column.coding(texts), options.y)
        if len(texts) - gaps < SPARSE * len(used):
            notes.append(
                f"{name!r} has {len(used)} levels in {len(texts) - gaps} rows, such as {used[-1][:SHOWN]!r}, so that "
                f"few rows tell the mean target of each. If it is not to be read as levels, correct it, or "
                f"{options.leave_out([name])}."
            )
        column = replace(column, means=tuple(means.tolist()))
        reading = Reading(name, f"{len(used)} levels, by their mean target", column, gaps)
    else:
        rare = [level for level in texts.levels if 0 < counts.get(level, 0) < FEWEST_ROWS]
        rare = rare if len(rare) > 1 and len(texts) >= FEWEST_TO_SHARE else []
        if len(used) > MOST_LEVELS:
            rare = sorted({*rare, *used[MOST_LEVELS - 1 :]})
        levels = tuple(sorted(set(used) - set(rare))) + ((OTHER,) if rare else ()) + gap
        if rare:
            shown = listed([level[:SHOWN] for level in rare])
            notes.append(f"{name!r}: {len(rare)} rare levels share one input ({shown}).")
        one_hot = OneHot(name, levels, folds, tuple(rare), fill=fill, complete=not gaps)
        reading = Reading(name, f"{len(levels)} level{'s' * (len(levels) > 1)}", one_hot, gaps)
    notes += [f"{name!r}: capitals in its levels are ignored."] if folds else []
    codes = [level for level in used if is_number(level)]
    if len(codes) == 1 < len(used) and float(codes[0]) in SENTINELS:
        remedy = f"if it means missing, na_values=['{codes[0]}']"
        notes.append(f"{name!r} is {codes[0]} in {counts[codes[0]]} rows, and a text in others: {remedy}.")
    return replace(reading, notes=(*reading.notes, *notes))


def are_names(values: Values) -> bool:
    """Whether texts are names of rows, from which nothing is learnt: many rows have one that no other row has."""
    counts = np.array(list(values.counts().values()))
    return bool(np.count_nonzero(counts == 1) > ALONE * counts.sum())


def _plain(level: str) -> str:
    """A level without leading zeros or a fraction of zero, if it is a number; else an empty text."""
    return f"{float(level):.15g}" if is_number(level) else ""
