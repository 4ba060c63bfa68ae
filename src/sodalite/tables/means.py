"""Many levels: one input with the mean target of each, or, where each has a curve of its own, points on a sphere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..core.types import Floats
from .base import is_number
from .categories import MOST_LEVELS, Levels, differ_in_capitals, frequent_levels, level_values, read_few
from .column import GAP, Options, Reading
from .column_names import is_group, is_id
from .levels import Coding, level_means, level_points
from .numbers import SENTINELS
from .values import Values

POINT = ("point x", "point y", "point z")
"""The inputs of a level that has a point on a sphere."""
UNIQUE = 0.5  # different texts as a share of the rows, above which they are names of rows, from which nothing is learnt
SPARSE = 4  # rows of a level, on average, below which its mean target tells little


@dataclass(frozen=True)
class Means(Levels):
    """One input: the mean target of the level, adjusted for other columns."""

    kind: ClassVar[str] = "means"
    means: tuple[float, ...] = ()
    """The mean of each level, and of levels that are not known at the end."""

    def inputs(self) -> list[str]:
        return [self.name]

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
        return [f"{self.name} {axis}" for axis in POINT]

    def vectors(self) -> Floats:
        return level_points(len(self.levels))


def read_levels(name: str, values: Values, options: Options) -> Reading | None:
    """A column of texts, of truth values, or of numbers that are names of groups of rows."""
    if values.kind not in ("text", "bool") and not _is_key(name, values):
        return None
    texts = level_values(values)
    folds = differ_in_capitals(texts.levels)
    if folds or {level.lower() for level in texts.levels} <= {"false", "true"}:
        texts = level_values(values, True)
    found: Reading = _read_many(name, texts, options, folds) or read_few(name, texts, options, folds)
    notes = (*found.notes, *_code_note(name, texts, options))
    return replace(found, notes=(*notes, f"{name!r}: capitals in its levels are ignored.") if folds else notes)


def _read_many(name: str, values: Values, options: Options, folds: bool) -> Reading | None:
    """Levels that are too many for an input each, if there is a target."""
    gaps, used = int(values.missing.sum()), frequent_levels(values)
    n = len(values) - gaps
    if len(used) <= MOST_LEVELS:
        return None
    if len(used) > UNIQUE * n and not options.chosen:
        return Reading.left_out(name, f"a text that differs in most rows; {options.advice.keep}")
    if options.y is None:
        return None
    levels = in_order(used) + ((GAP,) if gaps and options.fills else ())
    column = Means(name, levels, folds, fill=GAP if options.fills else None, complete=not gaps)
    means = level_means(column.coding(values), options.y)
    notes = []
    if n < SPARSE * len(used):
        notes.append(
            f"{name!r} has {len(used)} levels in {n} rows, such as {used[-1][:30]!r}, so that few rows tell the mean "
            f"target of each. If it is not to be read as levels, correct it, or {options.advice.leave_out([name])}."
        )
    column = replace(column, means=tuple(means.tolist()))
    return Reading(name, f"{len(used)} levels, by their mean target", column, gaps, tuple(notes))


def _code_note(name: str, values: Values, options: Options) -> list[str]:
    """A note of a level such as -999, if the others are not numbers."""
    used = frequent_levels(values)
    numbers = [level for level in used if is_number(level)]
    codes = [level for level in numbers if float(level) in SENTINELS]
    if len(codes) != 1 or len(numbers) > 1 or len(used) < 2:
        return []
    count = int(values.used()[values.levels.index(codes[0])])
    remedy = f"if it means missing, na_values=['{codes[0]}']"
    return [f"{name!r} is {codes[0]} in {count} rows, and a text in others: {remedy}."]


def _is_key(name: str, values: Values) -> bool:
    """Whether numbers are ids of groups of rows, and so levels."""
    if values.kind != "number":
        return False
    known = values.data[~np.isnan(values.data)]
    whole = bool(np.all(known == np.floor(known)))
    return (is_id(name) or is_group(name)) and whole and 2 < len(np.unique(known)) <= len(known) / 2


def in_order(levels: Sequence[str]) -> tuple[str, ...]:
    """Levels sorted: by their values if all are numbers, else by their letters.

    Examples
    --------
    >>> in_order(["10", "9", "100"]), in_order(["Chur", "Bern"])
    (('9', '10', '100'), ('Bern', 'Chur'))
    """
    return tuple(sorted(levels, key=float if all(map(is_number, levels)) else None))
