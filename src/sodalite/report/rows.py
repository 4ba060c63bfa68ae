"""A fitted model, and the rows at hand to show and to judge it by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..core.types import Floats, Indices, Mask
from ..core.validation import check_target, check_targets
from ..fitting.fitted import Fitted, FittedModel
from ..fitting.means import MeanFunction
from ..kernels import CompiledKernel
from ..kernels.neighbours import places_among
from ..posteriors import Evidence, Posterior, SubsetOfData
from ..selection.loop import Selection
from ..selection.rows import ArrayRows
from ..tables import Dates, Means, Numbers, Times, encoded_rows
from ..tables.categories import Levels
from ..tables.values import OFFSETS, Values, in_zone

ENOUGH = 30  # unseen rows from which on they alone judge the model; fewer say little about its coverage

HOW = {
    "held out": "rows held out of the fit, predicted before the model had seen them",
    "unseen": "rows that the fit has not seen",
    "left out": "rows of the fit, each predicted from the others",
    "unsure": "of the rows given, which the fit may have seen; those that it keeps are predicted from the others",
    "active": "rows that the model keeps, each predicted from the others",
}
"""Which rows judge a model, in words."""


@dataclass(frozen=True)
class Input:
    """A column that the target is predicted from, and the model's inputs that it became."""

    name: str
    kind: str
    """"number", "date", "time", "levels", or "means": levels that an input tells by their mean targets."""
    places: tuple[int, ...]
    """The model's inputs (columns of X), counted from 0: one for each level, or one for all of them; for any other kind
    the first is the value, and others tell the parts of the calendar or where values are missing."""
    column: Numbers | Dates | Levels | None = None
    """How the column becomes inputs, where it is more than one of them or has levels."""

    @property
    def has_levels(self) -> bool:
        """Whether the values of the column are levels, with names."""
        return isinstance(self.column, Levels)

    @property
    def levels(self) -> tuple[str, ...]:
        """The names of the levels."""
        return self.column.levels if isinstance(self.column, Levels) else ()

    @property
    def is_axis(self) -> bool:
        """Whether the value of the column tells all its inputs, so that a curve can be drawn along it."""
        if self.has_levels or (isinstance(self.column, Dates) and self.column.zone == OFFSETS):
            return False
        return len(self.places) == 1 or self.column is not None

    def rows(self, values: Floats) -> Floats:
        """The inputs at some values of the column, of shape (values, places)."""
        column = self.column
        if column is None or isinstance(column, Levels):
            return values[:, None]
        zone = column.zone if isinstance(column, Dates) else None
        wall = None if zone is None else in_zone(values, zone)
        found = Values("date" if isinstance(column, Dates) else "number", values, wall=wall, zone=zone)
        return column.encode(lambda name: found).X

    @property
    def codes(self) -> Floats:
        """The inputs at each level, of shape (levels, places)."""
        assert isinstance(self.column, Levels)
        known = self.column.vectors()[:-1]
        return np.pad(known, ((0, 0), (0, len(self.places) - known.shape[1])))

    def level_of(self, X: Floats) -> Indices:
        """The place of the level of each row of X, of shape (n,)."""
        distance = np.square(X[:, None, self.places] - self.codes).sum(axis=2)
        return np.asarray(np.argmin(distance, axis=1))


@dataclass(frozen=True)
class LabelledRows:
    """Rows with their targets, as the model sees them."""

    X: Floats
    """Of shape (n, d)."""
    Y: Floats
    """All targets, less the mean function, scaled; of shape (n, q)."""
    given: Floats
    """What the rows are recognised by beside X: targets as they were given, or scaled ones; of shape (n, q)."""
    offset: Floats
    """What the mean function has predicted, for rows of the fit without their folds, in units of y; of shape (n, q)."""
    alpha: Floats
    """Noise variance beyond the kernel's; of shape (n,)."""
    place: Indices
    """The place of each row among the active rows, in the order of their choice; -1 for others. Of shape (n,)."""
    target: int = 0
    """Which target is shown, counted from 0."""

    @property
    def own_offset(self) -> Floats:
        """What the mean function has predicted for the target that is shown, in units of y; of shape (n,)."""
        return np.asarray(self.offset[:, self.target])

    @property
    def y(self) -> Floats:
        """The target that is shown, less the mean function, scaled; of shape (n,)."""
        return np.asarray(self.Y[:, self.target])

    def __len__(self) -> int:
        return len(self.X)

    def take(self, which: Indices | Mask) -> LabelledRows:
        """The rows at some places."""
        names = ("X", "Y", "given", "offset", "alpha", "place")
        return replace(self, **{name: getattr(self, name)[which] for name in names})

    def some(self, most: int, generator: np.random.Generator) -> LabelledRows:
        """At most so many of the rows, drawn at random, in order."""
        return self if len(self) <= most else self.take(np.sort(generator.permutation(len(self))[:most]))


@dataclass(frozen=True)
class Material:
    """A fitted model and the rows that everything in a report is computed from."""

    kernel: CompiledKernel
    posterior: Posterior
    base: SubsetOfData
    """The posterior given the active rows alone."""
    selection: Selection
    mean_function: MeanFunction
    unit: float
    """One unit of the scaled target, in units of the target."""
    shift: float
    """The target where the scaled target and the mean function are 0."""
    inputs: tuple[Input, ...]
    target: str
    """The target's name."""
    n_rows: int
    """Rows that the model was fitted to."""
    active: LabelledRows
    pool: LabelledRows
    """Rows of the fit: all, if the model or the data have them; else the active ones."""
    whole: bool
    """Whether `pool` has more than the active rows."""
    shown: LabelledRows
    """Rows to draw: those that were given, else `pool`."""
    judges: LabelledRows
    """Rows that the model is judged by."""
    how: str
    """Which rows the judges are: a key of `HOW`."""
    n_given: int
    """Rows that were given beside the model."""
    n_unseen: int
    """How many of these the fit has not seen; 0 where that is not known."""

    def in_units(self, y: Floats, offset: Floats | float = 0.0) -> Floats:
        """Scaled targets, or means of them, in units of the target; `offset` is what the mean function predicts."""
        return np.asarray(y * self.unit + (self.shift + offset))

    def offset_at(self, X: Floats) -> Floats:
        """What the mean function predicts for the target at new rows; of shape (rows,)."""
        found = self.mean_function(X)
        return np.zeros(len(X)) if isinstance(found, float) else np.asarray(found[:, self.active.target])

    def predictions(self, X: Floats) -> Floats:
        """Predictions of the target in its own units; of shape (rows,)."""
        return self.in_units(self.posterior.mean(X)[:, self.active.target], self.offset_at(X))

    @property
    def plain(self) -> bool:
        """Whether the model can be drawn as a curve or a map: it has one or two inputs, all numbers."""
        return len(self.inputs) <= 2 and all(part.is_axis for part in self.inputs)


class _Roles(NamedTuple):
    """Which rows are shown, and which judge the model; the fields are those of `Material`."""

    pool: LabelledRows
    shown: LabelledRows
    judges: LabelledRows
    how: str
    n_unseen: int = 0


def gather(model: FittedModel, X: Any = None, y: Any = None, target: int = 0) -> Material:
    """A fitted model's rows and those that were given, sorted by whether the fit has seen them.

    Parameters
    ----------
    model : GreedyGPRegressor
        Fitted, or loaded from a file.
    X, y : array-like of shape (n, d), (n,) or (n, q), optional
        Rows to judge the model by. Those that the model was fitted to are found among them.
    target : int
        Which target, of several.
    """
    fitted = model.fitted_
    check_target(target, fitted.q)
    active, own = _active_rows(fitted, target), _rows_of_fit(fitted, target)
    if X is None:
        pool = active if own is None else own
        judges = pool if own is None or fitted.judges is None else own.take(fitted.judges)
        given, roles = None, _Roles(pool, pool, judges, "active" if own is None else "left out")
    else:
        given = _checked(model, X, y, target)
        given = _as_fitted(model, given, active if own is None else own)
        given = replace(given, place=match(active, given))
        roles = _roles_of_given(given) if own is None else _roles_beside_fit(given, own, fitted.judges)
    return Material(
        kernel=fitted.posterior.kernel,
        posterior=fitted.posterior,
        base=_base(fitted, active),
        selection=fitted.selection,
        mean_function=fitted.mean_function,
        unit=float(fitted.scaling.std[target]),
        shift=float(fitted.scaling.mean[target]),
        inputs=inputs_of(model),
        target=target_of(model, target),
        n_rows=fitted.n_rows,
        active=active,
        whole=own is not None or given is not None,
        n_given=0 if given is None else len(given),
        **roles._asdict(),
    )


def _active_rows(fitted: Fitted, target: int) -> LabelledRows:
    """The active rows, in the order of their choice."""
    m, X = len(fitted.selection), np.asarray(fitted.X_active, dtype=np.float64)
    own = None if fitted.rows is None else fitted.rows.alpha
    alpha = np.zeros(m) if own is None else own[fitted.selection.indices]
    return _labelled(fitted, X, fitted.y_active, fitted.targets_active, alpha, np.arange(m), target)


def _rows_of_fit(fitted: Fitted, target: int) -> LabelledRows | None:
    """All rows of the fit, read into memory if they are in a file; None if the model does not hold them."""
    own = fitted.rows
    if own is None:
        return None
    X, Y = (np.asarray(part, dtype=np.float64) for part in (own.X, own.y))
    alpha = np.zeros(fitted.n_rows) if own.alpha is None else np.asarray(own.alpha)
    targets = None if fitted.targets is None else np.asarray(fitted.targets)
    place = np.full(fitted.n_rows, -1)
    place[fitted.selection.indices] = np.arange(len(fitted.selection))
    return _labelled(fitted, X, Y, targets, alpha, place, target)


def _labelled(
    fitted: Fitted, X: Floats, Y: Floats, given: Floats | None, alpha: Floats, place: Indices, target: int
) -> LabelledRows:
    """Rows of the fit; `given` are the targets as they were given, None for a constant mean function."""
    offset = np.zeros(Y.shape) if given is None else given - fitted.scaling.undone(Y)
    return LabelledRows(X, Y, Y if given is None else given, offset, alpha, place, target)


def _roles_beside_fit(given: LabelledRows, own: LabelledRows, judges: Indices | None) -> _Roles:
    """The roles where all rows of the fit are known: unseen rows judge the model, if there are enough of them.

    If not, those of the fit do, each predicted from the others; of these, `judges` if the mean function has seen the
    rest.
    """
    known = match(own, given)
    unseen = known < 0
    if unseen.sum() >= ENOUGH or unseen.all():
        return _Roles(own, given, given.take(unseen), "unseen", int(unseen.sum()))
    seen = np.unique(known[~unseen])
    fair = seen if judges is None else np.intersect1d(seen, judges)
    return _Roles(own, given, own.take(fair if len(fair) else seen), "left out", int(unseen.sum()))


def _roles_of_given(given: LabelledRows) -> _Roles:
    """The roles where only active rows are known: if some of the given rows are active, others may be of the fit."""
    return _Roles(given, given, given, "unsure" if (given.place >= 0).any() else "unseen")


def _base(fitted: Fitted, active: LabelledRows) -> SubsetOfData:
    """The posterior given the active rows alone."""
    chosen = replace(fitted.selection, indices=np.arange(len(active)))
    return SubsetOfData.condition(Evidence(fitted.posterior.kernel, ArrayRows(active.X, active.Y), chosen))


def inputs_of(model: FittedModel) -> tuple[Input, ...]:
    """The columns that a model was fitted to; those without names are called "input 1", "input 2" and so on."""
    mapping = getattr(model, "preprocessing_", None)
    if mapping is None:
        names = getattr(model, "feature_names_in_", None)
        names = [f"input {place + 1}" for place in range(model.n_features_in_)] if names is None else names
        return tuple(Input(str(name), "number", (place,)) for place, name in enumerate(names))
    found, begin = [], 0
    for column in mapping.columns:
        places = tuple(range(begin, begin + len(column.names)))
        begin += len(places)
        if isinstance(column, Levels):
            found.append(Input(column.name, "means" if isinstance(column, Means) else "levels", places, column))
        elif isinstance(column, Numbers | Dates) or (isinstance(column, Times) and not column.parts):
            more = column if len(places) > 1 and isinstance(column, Numbers | Dates) else None
            found.append(Input(column.name, column.kind, places, more))
        else:  # no one of its inputs stands for the column
            names = zip(column.names, places, strict=True)
            found += [Input(name, "number", (place,)) for name, place in names]
    return tuple(found)


def target_of(model: FittedModel, target: int = 0) -> str:
    """The name of the target; "target", or "target 1" of several, where none is known."""
    mapping = getattr(model, "preprocessing_", None)
    if mapping is not None and mapping.target:
        return str(mapping.target)
    return "target" if model.fitted_.q == 1 else f"target {target + 1}"


def _checked(model: FittedModel, X: Any, y: Any, target: int) -> LabelledRows:
    """Rows that were given, with scaled targets; their places are not known yet."""
    if y is None:
        raise ValueError("y must be given with X: without the targets, rows say nothing about how good a model is.")
    X = np.asarray(encoded_rows(model, X)[0], dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != model.n_features_in_:
        raise ValueError(f"X must have {model.n_features_in_} columns, as in the fit; got shape {X.shape}.")
    if not len(X) or not np.isfinite(X).all():
        raise ValueError("X has no rows, or values that are missing or infinite: leave those rows out.")
    y, q = check_targets(np.asarray(y, dtype=np.float64), len(X)), model.fitted_.q
    if y.shape[1:] not in (() if q == 1 else (q,), (q,)):
        raise ValueError(f"y must have {q} target{'s' * (q > 1)}, as in the fit; got shape {y.shape}.")
    fitted, Y = model.fitted_, y.reshape(len(X), q)
    offset: Floats = np.zeros(Y.shape) + fitted.mean_function(X)
    scaled: Floats = (Y - offset - fitted.scaling.mean) / fitted.scaling.std
    given = scaled if fitted.mean_function.is_constant else Y
    return LabelledRows(X, scaled, given, offset, np.zeros(len(X)), np.full(len(X), -1), target)


def _as_fitted(model: FittedModel, given: LabelledRows, known: LabelledRows) -> LabelledRows:
    """The rows given, those of the fit with the mean targets of levels that the fit saw.

    The fit's own means are cross-fitted, and would not be recognised by others.
    """
    mapping = getattr(model, "preprocessing_", None)
    columns = [] if mapping is None else [column for column in mapping.columns for _ in column.names]
    means = np.flatnonzero([isinstance(column, Means) for column in columns])
    if not len(means):
        return given
    known_others, given_others = (np.delete(rows.X, means, axis=1) for rows in (known, given))
    at = places_among(np.column_stack([known_others, known.given]), np.column_stack([given_others, given.given]))
    found, X = np.flatnonzero(at >= 0), np.array(given.X)
    X[np.ix_(found, means)] = known.X[np.ix_(at[found], means)]
    return replace(given, X=X)


def match(known: LabelledRows, rows: LabelledRows) -> Indices:
    """For each of the rows, the place of a known one with equal inputs and targets; -1 if there is none."""
    return places_among(np.column_stack([known.X, known.given]), np.column_stack([rows.X, rows.given]))
