"""Training data from a table: the columns that a model uses are chosen, examined and encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from ..core.types import Floats, Indices
from ..core.words import counted
from .base import Table, TableError, is_total, listed
from .column import Column, Lookup, Options, Reading, blanked
from .columns import examine, notes_of, reading_notes
from .leaks import leaks
from .levels import Coding, are_series, level_points, with_means
from .means import Means, Points
from .numbers import Numbers, sentinel_note
from .preprocessing import Preprocessing, check_columns
from .values import Values, table_column
from .written_dates import read_clocks, read_dates, read_durations
from .written_numbers import is_code, read_numbers

TEXTUAL = 0.5  # share of a target's different texts that are no numbers, above which it is no column of numbers
SHOWN = 3  # texts of a target that a message shows
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
        for place, found in means.items():
            X[test, place] = found[self.codings[place].codes[test]]
        return X, replace(self.preprocessing, columns=_with_new_means(self.preprocessing.columns, means))


def _with_new_means(columns: Sequence[Column], means: Mapping[int, Floats]) -> tuple[Column, ...]:
    """Columns with other mean targets of levels, which are given by the places of the inputs."""
    places = np.cumsum([0, *(len(column.names) for column in columns)]).tolist()
    return tuple(
        replace(column, means=tuple(means[place].tolist())) if isinstance(column, Means) and place in means else column
        for place, column in zip(places, columns, strict=False)
    )


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
    options = replace(options or Options(prefer=table.prefer), missing=missing, chosen=features is not None)
    names = _inputs(table, target, features, dict.fromkeys(exclude))
    if not len(table):
        raise TableError(f"{table.name} has column names but no rows.")
    y, said, problems = _target(table, target, options)
    get = cache(lambda name: table_column(table, name))
    totals = _totals([*names, target], get, len(table))
    known = np.setdiff1d(np.flatnonzero(~np.isnan(y)), [*totals, *leave_out])
    if not len(known):
        raise TableError(f"{table.name}: the target {target!r} has no values at all.")
    given = known
    if not problems:
        known = given[_first_of_copies(table.names, names, lambda name: get(name).take(given), y[given])]
    n_copies = len(given) - len(known)
    found = learn_columns(names, lambda name: get(name).take(known), replace(options, y=y[known]), seed)
    lost = int(np.isnan(np.delete(y, list(totals))).sum())
    without = {target: lost} if lost else {}
    _check(table, target, found, [*problems, *found.problems], found.missing | without if missing == "error" else {})
    mapping = Preprocessing(target, found.columns, missing, options.na_values, table.encoding)
    inside = np.setdiff1d(np.arange(len(table)), list(totals))
    gaps = {name: int(blanked(get(name).take(inside), options.na_values).missing.sum()) for name in mapping.sources}
    gaps = {name: count for name, count in gaps.items() if count} | found.missing | without
    whole = np.flatnonzero(~np.isnan(found.X).any(axis=1))
    if not len(whole):
        raise TableError(f"{table.name}: every row misses a value: {counted(gaps)}. Leave out columns with `exclude`.")
    X, y, rows = found.X[whole], y[known][whole], known[whole]
    notes = [*table.notes, *said, *notes_of(found.readings)]
    notes += leaks(X, y, mapping.names, mapping.groups, mapping.dates)
    if lost:
        notes.append(f"{lost} row{'s' * (lost > 1)} without a target {'are' if lost > 1 else 'is'} left out.")
    if n_copies:
        what = "row is a copy of another" if n_copies == 1 else "rows are copies of others"
        notes.append(f"{n_copies} {what} in all columns, and {'is' if n_copies == 1 else 'are'} left out.")
    places = {row: table.place(row) for row in totals}
    notes += [f"{places[row][0].upper()}{places[row][1:]} is left out: it says {totals[row]!r}." for row in totals]
    notes += reading_notes(found.readings)
    codings = {place: coding.take(whole) for place, coding in found.codings.items()}
    readings = tuple(found.readings)
    return Training(mapping, X, y, rows, gaps, readings, tuple(notes), codings, lambda row: table.place(int(rows[row])))


def _first_of_copies(every: Sequence[str], names: Sequence[str], get: Lookup, y: Floats) -> Indices:
    """The rows of a table without copies of others, in increasing order.

    Rows that agree in all columns are copies if the targets tell: they seldom agree otherwise, and rows of equal inputs
    seldom have different ones. Small whole numbers agree by chance.

    Parameters
    ----------
    every, names : sequence of str
        The columns of the table, and the inputs among them.
    get : callable
        The values of a column.
    y : array of shape (n,)
    """
    n, alike = len(y), np.unique(y, return_inverse=True)[1]
    both = _groups((get(name) for name in names), alike)
    n_both = int(both.max()) + 1
    if n_both == n or int(alike.max()) + 1 < SELDOM * n_both:
        return np.arange(n)
    inputs = _groups((get(name) for name in names), np.zeros(n, dtype=np.intp))
    n_inputs = int(inputs.max()) + 1
    repeated = np.count_nonzero(np.bincount(inputs) > 1)
    if n_both - n_inputs > (1 - AGREE) * repeated:
        return np.arange(n)
    rest = [name for name in every if name not in set(names)]
    return np.sort(np.unique(_groups((get(name) for name in rest), both), return_index=True)[1])


def _groups(columns: Iterable[Values], groups: Indices) -> Indices:
    """A number for each row, the same for rows of one of the given groups that agree in all columns; of shape (n,)."""
    for values in columns:
        if int(groups.max()) + 1 == len(groups):  # all rows differ already
            break
        codes = np.unique(values.data, return_inverse=True)[1]
        groups = np.unique(groups * (int(codes.max()) + 1) + codes, return_inverse=True)[1]
    return groups


def _totals(names: Sequence[str], get: Lookup, n: int) -> dict[int, str]:
    """Rows at the end of n that have sums or means of the others, and the texts that say so, which are in no other."""
    found = {}
    for values in (get(name) for name in names if n > LAST):
        words = [text for text in values.levels if is_total(text)] if values.kind == "text" else []
        for word in words:
            rows = np.flatnonzero(values.data == values.levels.index(word)).tolist()
            if len(rows) == 1 and rows[0] >= n - LAST:
                found[rows[0]] = word.strip()
    return found


def _target(table: Table, name: str, options: Options) -> tuple[Floats, list[str], list[str]]:
    """The target of a table, of shape (n,), notes, and problems; zeros if there are any."""
    try:
        return *target_values(table_column(table, name), name, table.name, options), []
    except TableError as error:
        problem = str(error).removeprefix(f"{table.name}: ")
        others = [other for other in table.names if other != name and table_column(table, other).kind == "number"]
        if others and problem.endswith("as the target."):
            problem = f"{problem.removesuffix('.')}: {listed(others)}."
        return np.zeros(len(table)), [], [problem]


def _check(table: Table, target: str, found: Learnt, problems: Sequence[str], refused: Mapping[str, int]) -> None:
    """Refuse a table with problems, without inputs, or with missing values that are to be refused."""
    if refused and not problems:
        raise TableError(
            f"{table.name} has missing values: {counted(refused)}. Leave out the rows with "
            f'missing="drop", put medians in their place with missing="median", tell the model where they are with '
            f'missing="indicator", or leave out the columns with `exclude`.'
        )
    if problems:
        raise TableError.of(table.name, problems)
    if not found.columns:
        reasons = "; ".join(f"{reading.name!r} is {reading.words}" for reading in found.readings[:5])
        raise TableError(f"{table.name}: no column is left to predict {target!r} from. {reasons}.")


@dataclass(frozen=True)
class Learnt:
    """The columns of training data, examined and encoded."""

    columns: tuple[Column, ...]
    readings: list[Reading]
    problems: list[str]
    X: Floats
    """Of shape (n, inputs); mean targets of levels are cross-fitted."""
    missing: dict[str, int]
    codings: dict[int, Coding]
    """As in `Training`."""

    def with_columns(self, columns: tuple[Column, ...]) -> Learnt:
        """The columns learnt further; readings refer to the new ones."""
        new = {id(old): column for old, column in zip(self.columns, columns, strict=True)}
        readings = [replace(reading, column=new.get(id(reading.column))) for reading in self.readings]
        return replace(self, columns=columns, readings=readings)


def learn_columns(names: Sequence[str], get: Lookup, options: Options, seed: int) -> Learnt:
    """Examine and encode columns; if all of them would be left out as ids, they are kept."""
    readings, problems = examine(names, get, options)
    if not options.chosen and not problems and all(reading.column is None for reading in readings):
        readings, problems = examine(names, get, replace(options, chosen=True))
    columns = tuple(reading.column for reading in readings if reading.column is not None)
    if problems or not columns:
        return Learnt((), readings, problems, np.empty((0, 0)), {}, {})
    mapping = Preprocessing(None, columns, "drop", options.na_values)
    encoded = mapping.encode_columns(get, "the table")
    places = np.cumsum([0, *(len(column.names) for column in columns)]).tolist()
    codings = {
        place: column.coding(blanked(get(column.name), options.na_values))
        for place, column in zip(places, columns, strict=False)
        if isinstance(column, Means)
    }
    learnt = Learnt(columns, readings, problems, encoded.X, encoded.missing, codings)
    if options.y is None or not codings:
        return learnt
    X, means = with_means(learnt.X, codings, options.y, seed)
    return _with_points(replace(learnt.with_columns(_with_new_means(columns, means)), X=X), options.y)


def _with_points(found: Learnt, y: Floats) -> Learnt:
    """Columns of which the only one with many levels has points in the place of means, if its levels are series.

    Points need more inputs than means; those of several columns would be more than a fit can learn about.
    """
    if len(found.codings) != 1:
        return found
    [(place, coding)] = found.codings.items()
    others = np.delete(found.X, place, axis=1)
    if (coding.codes < 0).any() or not are_series(coding, found.X[:, place], others, y):
        return found
    points = level_points(coding.n_levels)[coding.codes]
    X = np.concatenate([found.X[:, :place], points, found.X[:, place + 1 :]], axis=1)
    learnt = replace(found, X=X, codings={}).with_columns(tuple(map(_as_points, found.columns)))
    readings = [
        replace(reading, words=reading.words.replace("by their mean target", "each for itself"))
        if isinstance(reading.column, Points)
        else reading
        for reading in learnt.readings
    ]
    return replace(learnt, readings=readings)


def _as_points(column: Column) -> Column:
    """A column of mean targets with points instead; any other as it is."""
    if not isinstance(column, Means):
        return column
    return Points(column.name, column.levels, column.folds, fill=column.fill, complete=column.complete)


def target_values(values: Values, name: str, source: str, options: Options) -> tuple[Floats, list[str]]:
    """The target column, of shape (n,), NaN where a value is missing, and notes; all but numbers are refused."""
    values = blanked(values, options.na_values)
    column, said = Numbers(name), list[str]()
    if values.kind == "text":
        texts = [text for text in values.levels if not is_code(text)]
        numbers, written = read_numbers(texts, options.decimal, options.thousands, options.prefer)
        if np.isnan(numbers).mean() > TEXTUAL:
            raise TableError(f"{source}: the target {name!r} {_no_numbers(values, texts)}")
        column = Numbers(name, written.form)
        said = [f"The target {name!r} is read as {written.words()}."] if written.words() else []
    elif values.kind not in ("number", "empty"):
        raise TableError(f"{source}: the target {name!r} {_no_numbers(values, [])}")
    try:
        y = column.values(values, source)
        return y, [*said, *sentinel_note(f"The target {name!r}", y[~np.isnan(y)], options)]
    except TableError as error:
        words = str(error).replace(f": column {name!r}", f": the target {name!r}", 1)
        drop = " Rows without a target are left out; texts that mean a missing value are named by `na_values`."
        raise TableError(words + (drop if values.kind == "text" else "")) from None


def _no_numbers(values: Values, texts: Sequence[str]) -> str:
    """What a target holds that is no column of numbers, and what can be done about it."""
    is_truth = bool(texts) and {text.lower() for text in texts} <= {"false", "true"}
    if values.kind == "bool" or is_truth or (len(texts) == 2 and not read_dates(texts)[1]):
        levels = (is_truth and "true and false") or " and ".join(map(repr, sorted(texts))) or "true and false"
        return f"holds {levels}, but must hold numbers. Write 0 and 1 for them to predict the share of the second."
    if values.kind in ("date", "clock", "time") or read_dates(texts)[1] or not np.isnan(read_clocks(texts)).any():
        what = "times" if values.kind in ("clock", "time") or (texts and not read_dates(texts)[1]) else "dates"
        return f"holds {what}, but must hold numbers. Write how long they are after the first, in days for instance."
    if texts and not np.isnan(read_durations(texts)).any():
        return f"holds durations such as {texts[0]!r}, but must hold numbers. Write them in minutes, for instance."
    if values.kind == "text":
        different = f"{len(texts):,} different texts, such as " if len(texts) > SHOWN else ""
        shown = listed([text[:LONGEST] for text in texts[:SHOWN]])
        return f"holds {different}{shown}, but must hold numbers. Name a column of numbers as the target."
    return f"holds {values.type_name}, but must hold numbers. Name a column of numbers as the target."


def _inputs(table: Table, target: str, features: Sequence[str] | None, exclude: Mapping[str, None]) -> list[str]:
    """The columns that the target is predicted from, checked."""
    check_columns(table.name, table.names, [target, *(features or []), *exclude])
    if features is None:
        names = [name for name in table.names if name != target and name not in exclude]
    else:
        names = [name for name in dict.fromkeys(features) if name not in exclude]
    if target in names:
        raise TableError(f"{target!r} is the target, and cannot be among the features too.")
    if not names:
        raise TableError(f"{table.name}: no column is left to predict {target!r} from.")
    return names
