"""Levels of texts: an input for each, one for all in order, or, if they are many, their mean targets or points."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..core.types import Array, Floats
from .base import is_code, is_number, listed
from .column import GAP, NONE, Coded, Column, Lookup, Options, Reading, Unreadable
from .column_names import is_id, is_named
from .levels import Coding, level_means, level_points
from .numbers import SENTINELS
from .values import LEVEL_CODES, Values

MOST_LEVELS = 12  # levels that each become an input, with a length-scale that the fit has to find
FEWEST_ROWS = 3  # rows of a level below which it is rare, and shares an input with other rare ones
FEWEST_TO_SHARE = 30  # rows of a table below which all levels are rare, and none are shared
MOST_KNOWN = 16  # known levels, evenly spread, that tell how far a level may be from others: their variance to a third
UNIQUE = 0.5  # different texts as a share of the rows, above which they are names of rows, from which nothing is learnt
SPARSE = 4  # rows of a level, on average, below which its mean target tells little
OTHER = "(other)"  # the level that rare and unseen levels share
ANSWERS = ({"y", "n"}, {"t", "f"}, {"m", "f"})  # pairs of letters that mean the same in capitals
SHOWN = 30  # characters of a text that are shown in a list of several


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

    def inputs(self) -> list[str]:
        return [self.name]

    def texts(self, values: Values) -> Values:
        """The values as texts that may be compared with the levels."""
        is_truth = bool({"false", "true"} & set(self.levels)) and set(self.levels) <= {"false", "true", GAP, OTHER}
        if values.kind == "number" and is_truth:
            values = replace(values, kind="bool", written=None)
        return level_values(values, self.folds or is_truth, self.levels)

    def codes(self, values: Values) -> Array:
        """The level of each row of some texts, by its place; -1 for one that is not known, -2 for a missing one.

        New rows may have f for F, and 00104 or 104.0 for 104, where these are of one level.
        """
        exact = {level: at for at, level in enumerate(self.levels)}
        by_letters, by_number = (_unique([key(level) for level in self.levels]) for key in (str.lower, _plain))
        places = [
            exact.get(text, by_letters.get(text.lower(), by_number.get(_plain(text), -1))) for text in values.levels
        ]
        return np.array([*places, exact.get(GAP, -2)])[values.data]

    def encode(self, get: Lookup, source: str = "the table") -> Coded:
        values = self.texts(get(self.name))
        code = self.codes(values)
        gaps, strange = values.data < 0, code == -1
        counts = np.bincount(values.data[strange], minlength=len(values.levels)).tolist()
        unknown = {level: n for level, n in zip(values.levels, counts, strict=True) if n and level not in self.rare}
        is_new = np.array([*(level in unknown for level in values.levels), False])[values.data]
        unseen = np.where(is_new, values.data, -1)
        X = self.vectors()[np.maximum(code, -1)]
        lost = code == -2
        if lost.any() and not isinstance(self.fill, str):
            X[lost] = np.nan if self.fill is None else self.fill
        else:  # as a level that is not known
            unseen = np.where(lost, len(values.levels), unseen)
        return self.coded(X, gaps)._replace(unknown=unknown, unseen=unseen if (unseen >= 0).any() else NONE)

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

    def reading(self, values: Values, options: Options, words: str) -> Reading:
        """The reading of a column of these levels, whose gaps become a median."""
        column = self.with_gaps(np.where(values.missing, np.nan, self.codes(values)), options)
        words += f": {listed(self.levels, 3)}" if len(self.levels) <= 3 else ""
        return Reading(self.name, words, column, int(values.missing.sum()))

    @classmethod
    def read(cls, name: str, values: Values, options: Options) -> Reading | None:
        """A column whose levels are in an order that was given, or that its type has."""
        if name not in options.order and not (values.kind == "text" and values.ordered):
            return None
        values = level_values(values)
        levels = tuple(options.order.get(name, values.levels))
        strange = [level for level in frequent_levels(values) if level not in levels]
        if strange:
            raise Unreadable(f"column {name!r} has levels that `order` does not name: {listed(strange)}. Add them.")
        return cls(name, levels).reading(values, options, f"{len(levels)} levels in order")


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


def read_levels(name: str, values: Values, options: Options) -> Reading | None:
    """A column of texts, of truth values, or of numbers that are names of groups of rows."""
    if values.kind not in ("text", "bool") and not _is_key(name, values):
        return None
    texts = level_values(values, as_written=False)
    folds = _differ_in_capitals(texts.levels)
    if folds or {level.lower() for level in texts.levels} <= {"false", "true"}:
        texts = level_values(values, True, as_written=False)
    reading = _read_many(name, texts, options, folds) or _read_few(name, texts, options, folds)
    notes = (*reading.notes, *_code_note(name, texts))
    return replace(reading, notes=(*notes, f"{name!r}: capitals in its levels are ignored.") if folds else notes)


def _read_few(name: str, values: Values, options: Options, folds: bool) -> Reading:
    """Levels as one input if there are two, else an input for each; rare ones, and the rarest of many, share one."""
    gaps, used = int(values.missing.sum()), frequent_levels(values)
    with_level = gaps > 0 and options.fills
    if len(used) < 2 and not (with_level and options.missing == "indicator") and not options.chosen:
        return Reading.left_out(name, f"all its values are {used[0]!r}" if used else "it has no values at all")
    if len(used) == 2:
        return Ranks(name, tuple(sorted(used)), folds).reading(values, options, "two levels")
    counts = zip(values.levels, values.counts().tolist(), strict=True)
    rare = [level for level, count in counts if 0 < count < FEWEST_ROWS]
    rare = rare if len(rare) > 1 and len(values) >= FEWEST_TO_SHARE else []
    if len(used) > MOST_LEVELS:
        rare = sorted({*rare, *used[MOST_LEVELS - 1 :]})
    levels = tuple(sorted(set(used) - set(rare))) + ((OTHER,) if rare else ()) + ((GAP,) if with_level else ())
    shown = listed([level[:SHOWN] for level in rare])
    notes = (f"{name!r}: {len(rare)} rare levels share one input ({shown}).",) if rare else ()
    fill = GAP if options.fills else None
    column = OneHot(name, levels, folds, tuple(rare), fill=fill, complete=not gaps)
    return Reading(name, f"{len(levels)} level{'s' * (len(levels) > 1)}", column, gaps, notes)


def _read_many(name: str, values: Values, options: Options, folds: bool) -> Reading | None:
    """Levels that are too many for an input each, if there is a target."""
    gaps, used = int(values.missing.sum()), frequent_levels(values)
    n = len(values) - gaps
    if len(used) <= MOST_LEVELS:
        return None
    if len(used) > UNIQUE * n and not options.chosen:
        return Reading.left_out(name, f"a text that differs in most rows; {options.keep}")
    if options.y is None:
        return None
    levels = in_order(used) + ((GAP,) if gaps and options.fills else ())
    column = Means(name, levels, folds, fill=GAP if options.fills else None, complete=not gaps)
    means = level_means(column.coding(values), options.y)
    notes = []
    if n < SPARSE * len(used):
        notes.append(
            f"{name!r} has {len(used)} levels in {n} rows, such as {used[-1][:SHOWN]!r}, so that few rows tell the "
            f"mean target of each. If it is not to be read as levels, correct it, or {options.leave_out([name])}."
        )
    column = replace(column, means=tuple(means.tolist()))
    return Reading(name, f"{len(used)} levels, by their mean target", column, gaps, tuple(notes))


def _code_note(name: str, values: Values) -> list[str]:
    """A note of a level such as -999, if the others are not numbers."""
    used = frequent_levels(values)
    numbers = [level for level in used if is_number(level)]
    if len(numbers) != 1 or len(used) < 2 or float(numbers[0]) not in SENTINELS:
        return []
    count = int(values.counts()[values.levels.index(numbers[0])])
    remedy = f"if it means missing, na_values=['{numbers[0]}']"
    return [f"{name!r} is {numbers[0]} in {count} rows, and a text in others: {remedy}."]


def _is_key(name: str, values: Values) -> bool:
    """Whether numbers are ids of groups of rows, and so levels."""
    if values.kind != "number" or not (is_id(name) or is_named(name, "group")):
        return False
    known = values.known
    return bool(np.all(known == np.floor(known))) and 2 < len(np.unique(known)) <= len(known) / 2


def level_values(values: Values, folds: bool = False, levels: Sequence[str] = (), as_written: bool = True) -> Values:
    """Values as texts without blanks around them; those that mean a missing value are missing, unless they are levels.

    With `folds`, they are in lower case.
    """
    values = values.texts(as_written)
    names = [text.strip().lower() if folds else text.strip() for text in values.levels]
    gaps = [is_code(text, LEVEL_CODES) and text not in levels for text in names]
    places = {name: at for at, name in enumerate(dict.fromkeys(names))}  # two texts may differ in blanks alone
    codes = [-1 if gap else places[name] for name, gap in zip(names, gaps, strict=True)]
    return Values("text", np.array([*codes, -1])[values.data], tuple(places), values.ordered, place=values.place)


def frequent_levels(values: Values) -> list[str]:
    """The levels that occur, those with most rows first."""
    counts = values.counts()
    return [values.levels[at] for at in np.argsort(-counts, kind="stable").tolist() if counts[at]]


def in_order(levels: Sequence[str]) -> tuple[str, ...]:
    """Levels sorted: by their values if all are numbers, else by their letters.

    Examples
    --------
    >>> in_order(["10", "9", "100"]), in_order(["Chur", "Bern"])
    (('9', '10', '100'), ('Bern', 'Chur'))
    """
    return tuple(sorted(levels, key=float if all(map(is_number, levels)) else None))


def _differ_in_capitals(levels: Sequence[str]) -> bool:
    """Whether some levels differ in capitals alone and mean the same, as "yes" and "Yes"; "a" and "A" may not."""
    spellings = Counter(level.lower() for level in levels)
    several = [level for level, count in spellings.items() if count > 1]
    return bool(several) and (min(map(len, several)) > 1 or set(spellings) in ANSWERS)


def _plain(level: str) -> str:
    """A level without leading zeros or a fraction of zero, if it is a number; else an empty text."""
    return f"{float(level):.15g}" if is_number(level) else ""


def _unique(keys: Sequence[str]) -> dict[str, int]:
    """The places of keys that occur once, but for empty ones."""
    counts = Counter(keys)
    return {key: at for at, key in enumerate(keys) if key and counts[key] == 1}
