"""Training data from a table: the columns that a model uses are chosen, read and encoded."""

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
from .base import Table, check_columns, listed, table_error
from .categories import Means, Points
from .column import Column, Lookup, Options, Reading
from .columns import examine, notes_of, reading_notes, target_values
from .leaks import leaks
from .levels import Coding, are_series, level_points, with_means
from .preprocessing import Preprocessing
from .values import table_column

AGREE = 0.95  # share of the rows of equal inputs, at least, whose targets agree too if rows are copies
SELDOM = 0.5  # different targets, as a share of different rows, below which targets agree by chance
TOTALS = frozenset(["total", "totals", "grand total", "sum", "summe", "gesamt", "total général", "suma", "totale"])
TOTALS |= {"average", "averages", "mean", "means", "subtotal", "durchschnitt", "mittelwert", "moyenne", "media"}
"""What a cell says in a row of sums or means of the rows above, in lower case."""
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
) -> Training:
    """The training data of a table: its columns chosen, read and encoded.

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
    """
    options = options or Options(prefer=table.reader.prefer)
    options = replace(options, missing=missing, chosen=features is not None)
    check_columns(table.name, table.names, [target, *(features or []), *exclude])
    every = [name for name in table.names if name != target] if features is None else dict.fromkeys(features)
    names = [name for name in every if name not in set(exclude)]
    if target in names:
        raise TableError(f"{target!r} is the target, and cannot be among the features too.")
    if not names:
        raise TableError(f"{table.name}: no column is left to predict {target!r} from.")
    if not len(table):
        raise TableError(f"{table.name} has column names but no rows.")
    get = cache(lambda name: table_column(table, name).blanked(options.na_values))
    y: Floats = np.zeros(len(table))
    target_notes, problems = list[str](), list[str]()
    try:
        y, target_notes = target_values(table_column(table, target), target, table.name, options)
    except TableError as error:
        others = [name for name in table.names if name != target and table_column(table, name).kind == "number"]
        known = f" Columns of numbers are {listed(others)}." if others else ""
        problems = [f"{str(error).removeprefix(f'{table.name}: ')}{known}"]
    totals = _totals([*names, target], get, len(table))
    is_used = ~np.isnan(y)
    is_used[list(totals)] = False
    with_target = np.flatnonzero(is_used)
    if not len(with_target):
        raise TableError(f"{table.name}: the target {target!r} has no values at all.")
    rows = with_target if problems else _without_copies(table.names, names, get, y, with_target)
    lost, n_copies = int(np.isnan(np.delete(y, list(totals))).sum()), len(with_target) - len(rows)
    without = {target: lost} if lost else {}
    some = cache(lambda name: get(name).take(rows))
    learnt = learn_columns(table.name, names, some, replace(options, y=y[rows]), seed, problems, without)
    mapping = replace(learnt.preprocessing, target=target, encoding=table.reader.encoding)
    gaps = {name: int(np.delete(get(name).missing, list(totals)).sum()) for name in mapping.sources}
    gaps = {name: count for name, count in gaps.items() if count} | learnt.missing | without
    whole = np.flatnonzero(~np.isnan(learnt.X).any(axis=1))
    if not len(whole):
        raise TableError(f"{table.name}: every row misses a value: {counted(gaps)}. Leave out columns with `exclude`.")
    X, y, rows = learnt.X[whole], y[rows][whole], rows[whole]
    notes = [*table.notes, *target_notes, *learnt.notes]
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
    return Training(
        mapping, X, y, rows, gaps, learnt.readings, tuple(notes), codings, lambda row: table.place(int(rows[row]))
    )


def _totals(names: Sequence[str], get: Lookup, n: int) -> dict[int, str]:
    """Rows at the end of n that have sums or means of the others, and the texts that say so, which are in no other."""
    totals = {}
    for values in (get(name) for name in names if n > LAST):
        for row in range(n - LAST, n) if values.kind == "text" else ():
            text = values.levels[values.data[row]] if values.data[row] >= 0 else ""
            if text.rstrip(":").lower() in TOTALS and np.count_nonzero(values.data == values.data[row]) == 1:
                totals[row] = text
    return totals


def _without_copies(every: Sequence[str], names: Sequence[str], get: Lookup, y: Floats, rows: Indices) -> Indices:
    """The rows that are no copies of others, in increasing order.

    Rows that agree in all columns are copies if the targets tell: they seldom agree otherwise, and rows of equal inputs
    seldom have different ones. Small whole numbers agree by chance. `names` are the inputs among all columns.
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
        return rows
    inputs = groups(names, np.zeros(n, dtype=np.intp))
    if n_both - int(inputs.max()) - 1 > (1 - AGREE) * np.count_nonzero(np.bincount(inputs) > 1):
        return rows
    rest = [name for name in every if name not in set(names)]
    return np.asarray(rows[np.sort(np.unique(groups(rest, both), return_index=True)[1])])


def learn_columns(
    source: str,
    names: Sequence[str],
    get: Lookup,
    options: Options,
    seed: int = 0,
    problems: Sequence[str] = (),
    missing: Mapping[str, int] | None = None,
) -> Training:
    """Read and encode columns; if all of them would be left out as ids, they are kept.

    All that is wrong is refused in one message: `problems` and missing values of others, and those of these columns.
    """
    readings, more = examine(names, get, options)
    if not options.chosen and not more and all(reading.column is None for reading in readings):
        readings, more = examine(names, get, replace(options, chosen=True))
    if more := [*problems, *more]:
        raise table_error(source, more)
    columns = tuple(reading.column for reading in readings if reading.column is not None)
    if not columns:
        reasons = "; ".join(f"{reading.name!r} is {reading.words}" for reading in readings[:5])
        raise TableError(f"{source} has no column that can be an input. {reasons}.")
    encoded = Preprocessing(None, columns, "drop").encode_columns(get, source)
    gaps = {**encoded.missing, **(missing or {})}
    if options.missing == "error" and gaps:
        raise TableError(
            f'{source} has missing values: {counted(gaps)}. Leave out the rows with missing="drop", put medians in '
            f'their place with missing="median", tell the model where they are with missing="indicator", or leave out '
            f"the columns."
        )
    place, X, codings = 0, encoded.X, dict[int, Coding]()
    for column in columns:
        if isinstance(column, Means):
            codings[place] = column.coding(get(column.name))
        place += len(column.names)
    if options.y is not None and codings:
        X, means = with_means(X, codings, options.y, seed)
        columns = _with_new_means(columns, means)
        [(place, coding), *others] = codings.items()
        # Points need more inputs than means; those of several columns would be more than a fit can learn about.
        is_alone = not others and not (coding.codes < 0).any()
        if is_alone and are_series(coding, X[:, place], np.delete(X, place, axis=1), options.y):
            columns = tuple(
                Points(old.name, old.levels, old.folds, fill=old.fill, complete=old.complete)
                if isinstance(old, Means)
                else old
                for old in columns
            )
            points = level_points(coding.n_levels)[coding.codes]
            X, codings = np.concatenate([X[:, :place], points, X[:, place + 1 :]], axis=1), {}
    new = iter(columns)
    for at, reading in enumerate(readings):
        if reading.column is not None and isinstance(column := next(new), Points | Means):
            words = reading.words.replace("by their mean target", "each for itself")
            readings[at] = replace(reading, column=column, words=words if isinstance(column, Points) else reading.words)
    mapping = Preprocessing(None, columns, options.missing, options.na_values)
    whole, notes = ~np.isnan(X).any(axis=1), notes_of(readings)
    if options.y is not None:
        notes += leaks(X[whole], options.y[whole], mapping, options)
    y = np.empty(0) if options.y is None else options.y
    return Training(mapping, X, y, np.arange(len(X)), encoded.missing, tuple(readings), tuple(notes), codings)


def _with_new_means(columns: Sequence[Column], means: Mapping[int, Floats]) -> tuple[Column, ...]:
    """Columns with other mean targets of levels, which are given by the places of the inputs."""
    begins = accumulate((len(column.names) for column in columns), initial=0)
    return tuple(
        replace(column, means=tuple(means[place].tolist())) if isinstance(column, Means) and place in means else column
        for place, column in zip(begins, columns, strict=False)
    )
