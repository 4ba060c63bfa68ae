"""Training data from a table: the columns that a model uses are chosen, examined and encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np

from ..core.types import Floats, Indices
from ..core.words import counted
from ..exceptions import TableError
from .base import Table, is_total, listed, table_error
from .categories import Means, Points
from .column import Column, Lookup, Options, Reading
from .columns import examine, notes_of, reading_notes
from .leaks import leaks
from .levels import Coding, are_series, level_points, with_means
from .numbers import Numbers, sentinel_note
from .preprocessing import Preprocessing, check_columns
from .values import Values, table_column
from .written_dates import read_clocks, read_dates, read_durations
from .written_numbers import read_numbers

TEXTUAL = 0.5  # share of a target's different texts that are no numbers, above which it is no column of numbers
SHOWN = 3  # texts of a target that a message shows
NAME_ANOTHER = "Name a column of numbers as the target"
LONGEST = 30  # characters of each of them
AGREE = 0.95  # share of the rows of equal inputs, at least, whose targets agree too if rows are copies
SELDOM = 0.5  # different targets, as a share of different rows, below which targets agree by chance
LAST = 5  # rows at the end of a table among which there may be one of totals; footnotes may follow it


@dataclass(frozen=True)
class Training:
    """The training data of a model, from a table."""

    preprocessing: Preprocessing
    X: Any
    """An array of shape (n, inputs); for a table that is left on disk, a `sodalite.tables.ParquetRows`."""
    y: Floats
    """The target, of shape (n,)."""
    rows: Indices
    """The indices of these rows in the table, of shape (n,); rows with missing values may have been dropped."""
    missing: dict[str, int]
    """The number of missing values of each column that has any."""
    readings: tuple[Reading, ...] = ()
    """How each column is read, those that are left out among them."""
    notes: tuple[str, ...] = ()
    """What was noticed in the table, and what was done about it: sentences."""
    codings: dict[int, Coding] = field(default_factory=dict)
    """For inputs that are mean targets of levels, by their places: the level of each row."""
    place: Callable[[int], str] = "row {}".format
    """The name of one of these rows in messages, such as "line 7"."""

    def without(self, test: Indices, seed: int = 0) -> tuple[Any, Preprocessing]:
        """X and the preprocessing as they are if the targets of some rows are not known.

        Mean targets of levels come from the other rows, for which they are cross-fitted, as they are in `X`.
        """
        if not self.codings or not len(test):
            return self.X, self.preprocessing
        X, rest = np.array(self.X), np.setdiff1d(np.arange(len(self.y)), test)
        codings = {place: coding.take(rest) for place, coding in self.codings.items()}
        X[rest], means = with_means(X[rest], codings, self.y[rest], seed)
        for place, each in means.items():
            X[test, place] = each[self.codings[place].codes[test]]
        return X, replace(self.preprocessing, columns=_with_new_means(self.preprocessing.columns, means))


def learn(
    table: Table,
    target: str,
    features: Sequence[str] | None = None,
    exclude: Iterable[str] = (),
    missing: str = "indicator",
    options: Options | None = None,
    seed: int = 0,
    leave_out: Sequence[int] | Indices = (),
) -> Training:
    """The training data of a table: its columns chosen, examined and encoded.

    Parameters
    ----------
    table : Table
    target : str
        The column that is to be predicted; it must hold numbers.
    features : sequence of str, optional
        The columns to predict it from; all others unless given, but for ids and columns of one value.
    exclude : iterable of str
        Columns to leave out.
    missing : {"indicator", "median", "drop", "error"}
        Replace missing values by the column's median and add an input that says where; replace them alone; leave out
        the rows that have some; or refuse them. For texts, missing is a level of its own in the first two. Rows without
        a target are left out unless missing values are refused.
    options : Options, optional
        How columns are to be read; `missing` in it is not used.
    seed : int
        For the folds of cross-fitted means.
    leave_out : sequence of int
        Rows of the table to leave out.
    """
    options = options or Options(prefer=table.reader.prefer)
    options = replace(options, missing=missing, chosen=features is not None)
    names = _inputs(table, target, features, set(exclude))
    if not len(table):
        raise TableError(f"{table.name} has column names but no rows.")
    y: Floats = np.zeros(len(table))
    target_notes, problems = list[str](), list[str]()
    try:
        y, target_notes = target_values(table_column(table, target), target, table.name, options)
    except TableError as error:
        others = [name for name in table.names if name != target and table_column(table, name).kind == "number"]
        known = f": {listed(others)}." if others else "."
        problems = [str(error).removeprefix(f"{table.name}: ").replace(f"{NAME_ANOTHER}.", f"{NAME_ANOTHER}{known}")]
    get = cache(lambda name: table_column(table, name).blanked(options.na_values))
    totals = _totals([*names, target], get, len(table))
    with_target = np.setdiff1d(np.flatnonzero(~np.isnan(y)), [*totals, *leave_out])
    if not len(with_target):
        raise TableError(f"{table.name}: the target {target!r} has no values at all.")
    first = slice(None) if problems else _first_of_copies(table.names, names, get, y, with_target)
    rows = with_target[first]
    some = cache(lambda name: get(name).take(rows))
    learnt = learn_columns(names, some, replace(options, y=y[rows]), seed)
    lost = int(np.isnan(np.delete(y, list(totals))).sum())
    without = {target: lost} if lost else {}
    if missing == "error" and learnt.missing | without and not problems + learnt.problems:
        raise TableError(
            f"{table.name} has missing values: {counted(learnt.missing | without)}. Leave out the rows with "
            f'missing="drop", put medians in their place with missing="median", tell the model where they are with '
            f'missing="indicator", or leave out the columns with `exclude`.'
        )
    learnt.check(table.name, f"{table.name}: no column is left to predict {target!r} from", problems)
    mapping = Preprocessing(target, learnt.columns, missing, options.na_values, table.reader.encoding)
    gaps = {name: int(np.delete(get(name).missing, list(totals)).sum()) for name in mapping.sources}
    gaps = {name: count for name, count in gaps.items() if count} | learnt.missing | without
    whole = np.flatnonzero(~np.isnan(learnt.X).any(axis=1))
    if not len(whole):
        raise TableError(f"{table.name}: every row misses a value: {counted(gaps)}. Leave out columns with `exclude`.")
    X, y, n_copies, rows = learnt.X[whole], y[rows][whole], len(with_target) - len(rows), rows[whole]
    notes = [*table.notes, *target_notes, *notes_of(learnt.readings), *leaks(X, y, mapping, options)]
    if lost:
        notes.append(f"{lost} row{'s' * (lost > 1)} without a target {'are' if lost > 1 else 'is'} left out.")
    if n_copies:
        what = "row is a copy of another" if n_copies == 1 else "rows are copies of others"
        notes.append(f"{n_copies} {what} in all columns, and {'is' if n_copies == 1 else 'are'} left out.")
    for row, words in totals.items():
        place = table.place(row)
        notes.append(f"{place[0].upper()}{place[1:]} is left out: it says {words!r}.")
    notes += reading_notes(learnt.readings)
    codings = {place: coding.take(whole) for place, coding in learnt.codings.items()}
    readings, where = tuple(learnt.readings), lambda row: table.place(int(rows[row]))
    return Training(mapping, X, y, rows, gaps, readings, tuple(notes), codings, where)


def _inputs(table: Table, target: str, features: Sequence[str] | None, exclude: set[str]) -> list[str]:
    """The columns that the target is predicted from, checked."""
    check_columns(table.name, table.names, [target, *(features or []), *exclude])
    every = [name for name in table.names if name != target] if features is None else dict.fromkeys(features)
    names = [name for name in every if name not in exclude]
    if target in names:
        raise TableError(f"{target!r} is the target, and cannot be among the features too.")
    if not names:
        raise TableError(f"{table.name}: no column is left to predict {target!r} from.")
    return names


def _totals(names: Sequence[str], get: Lookup, n: int) -> dict[int, str]:
    """Rows at the end of n that have sums or means of the others, and the texts that say so, which are in no other."""
    totals = {}
    for values in (get(name) for name in names if n > LAST):
        words = [text for text in values.levels if is_total(text)] if values.kind == "text" else []
        for word in words:
            rows = np.flatnonzero(values.data == values.levels.index(word)).tolist()
            if len(rows) == 1 and rows[0] >= n - LAST:
                totals[rows[0]] = word.strip()
    return totals


def _first_of_copies(every: Sequence[str], names: Sequence[str], get: Lookup, y: Floats, rows: Indices) -> Indices:
    """The places of some rows that are no copies of others, in increasing order.

    Rows that agree in all columns are copies if the targets tell: they seldom agree otherwise, and rows of equal inputs
    seldom have different ones. Small whole numbers agree by chance.

    Parameters
    ----------
    every, names : sequence of str
        The columns of the table, and the inputs among them.
    get : callable
        The values of a column.
    y : array of shape (rows of the table,)
    rows : array of int
    """
    n, alike = len(rows), np.unique(y[rows], return_inverse=True)[1]

    def groups(columns: Iterable[str], groups: Indices) -> Indices:
        """A number for each row, the same for rows of one group that agree in all columns; of shape (n,)."""
        for name in columns:
            if int(groups.max()) + 1 == n:  # all rows differ already
                break
            codes = np.unique(get(name).data[rows], return_inverse=True)[1]
            groups = np.unique(groups * (int(codes.max()) + 1) + codes, return_inverse=True)[1]
        return groups

    both = groups(names, alike)
    n_both = int(both.max()) + 1
    if n_both == n or int(alike.max()) + 1 < SELDOM * n_both:
        return np.arange(n)
    inputs = groups(names, np.zeros(n, dtype=np.intp))
    if n_both - int(inputs.max()) - 1 > (1 - AGREE) * np.count_nonzero(np.bincount(inputs) > 1):
        return np.arange(n)
    rest = [name for name in every if name not in set(names)]
    return np.sort(np.unique(groups(rest, both), return_index=True)[1])


@dataclass(frozen=True)
class Learnt:
    """The columns of training data, examined and encoded."""

    readings: list[Reading]
    problems: list[str]
    X: Floats
    """Of shape (n, inputs); mean targets of levels are cross-fitted."""
    missing: dict[str, int]
    codings: dict[int, Coding]
    """As in `Training`."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are used."""
        return tuple(reading.column for reading in self.readings if reading.column is not None)

    def with_columns(self, columns: Sequence[Column]) -> Learnt:
        """The columns learnt further: others in the place of those that are used."""
        new = iter(columns)
        readings = [each if each.column is None else replace(each, column=next(new)) for each in self.readings]
        return replace(self, readings=readings)

    def check(self, source: str, nothing: str, problems: Sequence[str] = ()) -> None:
        """Refuse a table with problems, these or others, or without inputs, which is said in some words."""
        if problems := [*problems, *self.problems]:
            raise table_error(source, problems)
        if not self.columns:
            reasons = "; ".join(f"{reading.name!r} is {reading.words}" for reading in self.readings[:5])
            raise TableError(f"{nothing}. {reasons}.")


def learn_columns(names: Sequence[str], get: Lookup, options: Options, seed: int) -> Learnt:
    """Examine and encode columns; if all of them would be left out as ids, they are kept."""
    readings, problems = examine(names, get, options)
    if not options.chosen and not problems and all(reading.column is None for reading in readings):
        readings, problems = examine(names, get, replace(options, chosen=True))
    learnt = Learnt(readings, problems, np.empty((0, 0)), {}, {})
    columns = learnt.columns
    if problems or not columns:
        return learnt
    encoded = Preprocessing(None, columns, "drop").encode_columns(get, "the table")
    places = zip(_places(columns), columns, strict=True)
    codings = {place: column.coding(get(column.name)) for place, column in places if isinstance(column, Means)}
    learnt = replace(learnt, X=encoded.X, missing=encoded.missing, codings=codings)
    if options.y is None or not codings:
        return learnt
    X, means = with_means(learnt.X, codings, options.y, seed)
    return _with_points(replace(learnt.with_columns(_with_new_means(columns, means)), X=X), options.y)


def _places(columns: Sequence[Column]) -> list[int]:
    """The place of the first input of each column."""
    return list(accumulate((len(column.names) for column in columns[:-1]), initial=0))


def _with_new_means(columns: Sequence[Column], means: Mapping[int, Floats]) -> tuple[Column, ...]:
    """Columns with other mean targets of levels, which are given by the places of the inputs."""
    return tuple(
        replace(column, means=tuple(means[place].tolist())) if isinstance(column, Means) and place in means else column
        for place, column in zip(_places(columns), columns, strict=True)
    )


def _with_points(learnt: Learnt, y: Floats) -> Learnt:
    """Columns of which the only one with many levels has points in the place of means, if its levels are series.

    Points need more inputs than means; those of several columns would be more than a fit can learn about.
    """
    if len(learnt.codings) != 1:
        return learnt
    [(place, coding)] = learnt.codings.items()
    X, others = learnt.X, np.delete(learnt.X, place, axis=1)
    if (coding.codes < 0).any() or not are_series(coding, X[:, place], others, y):
        return learnt
    points, readings = level_points(coding.n_levels)[coding.codes], []
    for reading in learnt.readings:
        if isinstance(old := reading.column, Means):
            column = Points(old.name, old.levels, old.folds, fill=old.fill, complete=old.complete)
            words = reading.words.replace("by their mean target", "each for itself")
            reading = replace(reading, column=column, words=words)
        readings.append(reading)
    X = np.concatenate([X[:, :place], points, X[:, place + 1 :]], axis=1)
    return replace(learnt, X=X, codings={}, readings=readings)


def target_values(values: Values, name: str, source: str, options: Options) -> tuple[Floats, list[str]]:
    """The target column, of shape (n,), NaN where a value is missing, and notes; all but numbers are refused."""
    values = values.blanked(options.na_values)
    column, notes = Numbers(name), list[str]()
    if values.kind == "text":
        texts = values.used_texts()
        numbers, written = read_numbers(texts, options.decimal, options.thousands, options.prefer)
        if np.isnan(numbers).mean() > TEXTUAL:
            raise TableError(f"{source}: the target {name!r} {_no_numbers(values, texts)}")
        column = Numbers(name, written.form)
        notes = [f"The target {name!r} is read as {written.words}."] if written.words else []
    elif values.kind not in ("number", "empty"):
        raise TableError(f"{source}: the target {name!r} {_no_numbers(values, [])}")
    try:
        y = column.values(values, source)
    except TableError as error:
        words = str(error).replace(f": column {name!r}", f": the target {name!r}", 1)
        drop = " Rows without a target are left out; texts that mean a missing value are named by `na_values`."
        raise TableError(words + (drop if values.kind == "text" else "")) from None
    return y, [*notes, *sentinel_note(f"The target {name!r}", y[~np.isnan(y)])]


def _no_numbers(values: Values, texts: Sequence[str]) -> str:
    """What a target holds that is no column of numbers, and what can be done about it."""
    is_truth = values.kind == "bool" or (bool(texts) and {text.lower() for text in texts} <= {"false", "true"})
    is_date = values.kind == "date" or bool(read_dates(texts))
    is_clock = values.kind in ("clock", "time") or (bool(texts) and not np.isnan(read_clocks(texts)).any())
    remedy = f"{NAME_ANOTHER}."
    if is_truth or (len(texts) == 2 and not is_date):
        what = "true and false" if is_truth else " and ".join(map(repr, sorted(texts)))
        remedy = "Write 0 and 1 for them to predict the share of the second."
    elif is_date or is_clock:
        what = "dates" if is_date else "times"
        remedy = "Write how long they are after the first, in days for instance."
    elif texts and not np.isnan(read_durations(texts)).any():
        what, remedy = f"durations such as {texts[0]!r}", "Write them in minutes, for instance."
    elif texts:
        different = f"{len(texts):,} different texts, such as " if len(texts) > SHOWN else ""
        what = f"{different}{listed([text[:LONGEST] for text in texts[:SHOWN]])}"
    else:
        what = values.type_name
    return f"holds {what}, but must hold numbers. {remedy}"
