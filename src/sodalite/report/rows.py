"""A fitted model, and the rows at hand to show and to judge it by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.types import Floats, Indices, Mask
from ..core.validation import check_target, check_targets
from ..fitting.fitted import Fitted, FittedModel
from ..kernels import CompiledKernel
from ..kernels.neighbours import places_among
from ..posteriors import Evidence, Posterior, SubsetOfData
from ..selection.loop import Selection
from ..selection.rows import ArrayRows
from ..tables import Means, encoded_rows
from .inputs import Input, inputs_of, targets_of

ENOUGH = 30  # unseen rows from which on they alone judge the model; fewer say little about its coverage

HOW = {
    "held out": "rows held out of the fit, predicted before the model had seen them",
    "unseen": "rows that the fit has not seen",
    "left out": "rows of the fit, each predicted from the others",
    "unsure": "rows that the fit may have seen; those that it keeps are predicted from the others",
    "active": "rows that the model keeps, each predicted from the others",
}
"""Which rows judge a model, in words."""


@dataclass(frozen=True)
class LabelledRows:
    """Rows with their targets, as the model sees them."""

    X: Floats
    """Of shape (n, d)."""
    Y: Floats
    """All targets on the model's scale, less the mean function, scaled; of shape (n, q)."""
    key: Floats
    """What the rows are recognised by beside X: targets before the mean function, or scaled ones; of shape (n, q)."""
    offset: Floats
    """What the mean function has predicted, for rows of the fit without their folds, on the model's scale; of shape
    (n, q)."""
    alpha: Floats
    """Noise variance beyond the kernel's; of shape (n,)."""
    place: Indices
    """The place of each row among the active rows, in the order of their choice; -1 for others. Of shape (n,)."""
    target: int = 0
    """Which target is shown, counted from 0."""

    @property
    def own_offset(self) -> Floats:
        """What the mean function has predicted for the target that is shown, on the model's scale; of shape (n,)."""
        return np.asarray(self.offset[:, self.target])

    @property
    def y(self) -> Floats:
        """The target that is shown, less the mean function, scaled; of shape (n,)."""
        return np.asarray(self.Y[:, self.target])

    def __len__(self) -> int:
        return len(self.X)

    def take(self, which: Indices | Mask) -> LabelledRows:
        """The rows at some places."""
        names = ("X", "Y", "key", "offset", "alpha", "place")
        return replace(self, **{name: getattr(self, name)[which] for name in names})

    def some(self, most: int, generator: np.random.Generator) -> LabelledRows:
        """At most so many of the rows, drawn at random, in order."""
        return self if len(self) <= most else self.take(np.sort(generator.permutation(len(self))[:most]))


@dataclass(frozen=True)
class Material:
    """A fitted model and the rows that everything in a report is computed from."""

    fitted: Fitted
    base: SubsetOfData
    """The posterior given the active rows alone."""
    inputs: tuple[Input, ...]
    name: str
    """The target's name."""
    active: LabelledRows
    pool: LabelledRows
    """Rows of the fit: all, if the model or the data have them; else the active ones."""
    whole: bool
    """Whether `pool` has more than the active rows."""
    shown: LabelledRows
    """Rows to draw: those of the user, else `pool`."""
    judges: LabelledRows
    """Rows that the model is judged by."""
    how: str
    """Which rows the judges are: a key of `HOW`."""
    n_given: int = 0
    """Rows of the user."""
    n_unseen: int = 0
    """How many of these the fit has not seen; 0 where that is not known."""

    @property
    def posterior(self) -> Posterior:
        """The posterior of the scaled targets."""
        return self.fitted.posterior

    @property
    def kernel(self) -> CompiledKernel:
        """The kernel that was found."""
        return self.posterior.kernel

    @property
    def selection(self) -> Selection:
        """The choice of the active rows."""
        return self.fitted.selection

    @property
    def unit(self) -> float:
        """One unit of the scaled target, on the model's scale."""
        return float(self.fitted.scaling.std[self.active.target])

    @property
    def shift(self) -> float:
        """The target, on the model's scale, where the scaled target and the mean function are 0."""
        return float(self.fitted.scaling.mean[self.active.target])

    @property
    def plain(self) -> bool:
        """Whether the model can be drawn as a curve or a map: it has one or two inputs, all numbers."""
        return len(self.inputs) <= 2 and all(part.is_axis for part in self.inputs)

    def in_units(self, y: Floats, offset: Floats | float = 0.0) -> Floats:
        """Scaled targets, or means of them, in units of the target; `offset` is what the mean function predicts."""
        return self.fitted.target.undone(np.asarray(y * self.unit + (self.shift + offset)))

    def offset_at(self, X: Floats) -> Floats:
        """What the mean function predicts for the target at new rows; of shape (rows,)."""
        offset = self.fitted.mean_function(X)
        return np.zeros(len(X)) if isinstance(offset, float) else np.asarray(offset[:, self.active.target])

    def predictions(self, X: Floats) -> Floats:
        """Predictions of the target in its own units; of shape (rows,)."""
        return np.asarray(self.fitted.mean(X)[:, self.active.target])

    def noise(self, rows: LabelledRows) -> Floats:
        """The noise variances of some rows, scaled, no less than the floor; of shape (n,)."""
        noise = self.kernel.noise(self.kernel.prepare(rows.X)) + rows.alpha
        return np.asarray(np.maximum(noise, self.selection.noise_floor))


def gather(model: FittedModel, X: Any = None, y: Any = None, target: int = 0) -> Material:
    """A fitted model's rows and those of a user, sorted by whether the fit has seen them.

    Unseen rows judge the model, if there are enough of them. If not, rows of the fit do, each predicted from the
    others; of these, those that the mean function has not seen, if there are some. X, of shape (n, d), and y, of shape
    (n,) or (n, q), are the rows of the user: those that the model was fitted to are found among them.
    """
    fitted = model.fitted_
    check_target(target, fitted.q)
    m, rows, chosen, noise = len(fitted.selection), fitted.rows, fitted.selection.indices, np.zeros(fitted.n_rows)
    if rows is not None and rows.alpha is not None:
        noise = np.asarray(rows.alpha)
    alpha = np.zeros(m) if rows is None else noise[chosen]
    X_active = np.asarray(fitted.X_active, dtype=np.float64)
    active = _labelled(fitted, X_active, fitted.y_active, fitted.targets_active, alpha, np.arange(m), target)
    own = None
    if rows is not None:  # read into memory if they are in a file
        X_own, Y = (np.asarray(part, dtype=np.float64) for part in (rows.X, rows.y))
        targets = None if fitted.targets is None else np.asarray(fitted.targets)
        place = np.full(fitted.n_rows, -1)
        place[chosen] = np.arange(m)
        own = _labelled(fitted, X_own, Y, targets, noise, place, target)
    pool = active if own is None else own
    selection = replace(fitted.selection, indices=np.arange(m))
    material = Material(
        fitted=fitted,
        base=SubsetOfData.condition(Evidence(fitted.posterior.kernel, ArrayRows(active.X, active.Y), selection)),
        inputs=inputs_of(model),
        name=targets_of(model)[target],
        active=active,
        pool=pool,
        whole=own is not None,
        shown=pool,
        judges=pool if own is None or fitted.judges is None else own.take(fitted.judges),
        how="active" if own is None else "left out",
    )
    if X is None:
        return material
    extra = _as_fitted(model, _checked(model, X, y, target), pool)
    extra = replace(extra, place=match(active, extra))
    material = replace(material, whole=True, shown=extra, judges=extra, n_given=len(extra))
    if own is None:  # if some rows are active, others may be of the fit
        return replace(material, pool=extra, how="unsure" if (extra.place >= 0).any() else "unseen")
    known = match(own, extra)
    unseen = known < 0
    material = replace(material, n_unseen=int(unseen.sum()))
    if unseen.sum() >= ENOUGH or unseen.all():
        return replace(material, judges=extra.take(unseen), how="unseen")
    seen = np.unique(known[~unseen])
    fair = seen if fitted.judges is None else np.intersect1d(seen, fitted.judges)
    return replace(material, judges=own.take(fair if len(fair) else seen))


def _labelled(
    fitted: Fitted, X: Floats, Y: Floats, original: Floats | None, alpha: Floats, place: Indices, target: int
) -> LabelledRows:
    """Rows of the fit; `original` are the targets before the mean function, None for a constant mean function."""
    offset = np.zeros(Y.shape) if original is None else original - fitted.scaling.undone(Y)
    return LabelledRows(X, Y, Y if original is None else original, offset, alpha, place, target)


def _checked(model: FittedModel, X: Any, y: Any, target: int) -> LabelledRows:
    """Rows of a user, with scaled targets; their places are not known yet."""
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
    fitted = model.fitted_
    if (fault := fitted.target.fault(y)) is not None:
        raise ValueError(f"The model learns the {fitted.target} of targets, which is for {fault}")
    Y = fitted.target.scaled(y.reshape(len(X), q))
    offset: Floats = np.zeros(Y.shape) + fitted.mean_function(X)
    scaled: Floats = (Y - offset - fitted.scaling.mean) / fitted.scaling.std
    targets = scaled if fitted.mean_function.is_constant else Y
    return LabelledRows(X, scaled, targets, offset, np.zeros(len(X)), np.full(len(X), -1), target)


def _as_fitted(model: FittedModel, extra: LabelledRows, known: LabelledRows) -> LabelledRows:
    """Rows of a user, those of the fit among them with the mean targets of levels that the fit saw.

    The fit's own means are cross-fitted, and would not be recognised by others.
    """
    mapping = getattr(model, "preprocessing_", None)
    columns = [] if mapping is None else [column for column in mapping.columns for _ in column.names]
    means = np.flatnonzero([isinstance(column, Means) for column in columns])
    if not len(means):
        return extra
    known_others, extra_others = (np.delete(rows.X, means, axis=1) for rows in (known, extra))
    at = places_among(np.column_stack([known_others, known.key]), np.column_stack([extra_others, extra.key]))
    seen, X = np.flatnonzero(at >= 0), np.array(extra.X)
    X[np.ix_(seen, means)] = known.X[np.ix_(at[seen], means)]
    return replace(extra, X=X)


def match(known: LabelledRows, rows: LabelledRows) -> Indices:
    """For each of the rows, the place of a known one with equal inputs and targets; -1 if there is none."""
    return places_among(np.column_stack([known.X, known.key]), np.column_stack([rows.X, rows.key]))
