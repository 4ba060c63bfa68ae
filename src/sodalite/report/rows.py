"""A fitted model, and the rows at hand to show and to judge it by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.types import Array
from ..core.validation import check_targets
from ..kernels import CompiledKernel
from ..kernels.neighbours import distinct
from ..posteriors import Evidence, Local, SubsetOfData
from ..selection.source import Arrays

ENOUGH = 30  # rows that the fit has not seen, from which they judge it


@dataclass(frozen=True)
class Input:
    """A column that the target is predicted from, and the model's inputs that it became."""

    name: str
    kind: str
    """"number", "date", "time" or "levels"."""
    places: tuple[int, ...]
    levels: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rows:
    """Some rows, as the model sees them."""

    X: Array
    """Of shape (n, d)."""
    Y: Array
    """All targets, scaled; of shape (n, q)."""
    alpha: Array
    """Noise variance beyond the kernel's; of shape (n,)."""
    place: Array
    """The place of each among the active rows; -1 for others."""
    target: int = 0

    @property
    def y(self) -> Array:
        """The target that is shown, scaled."""
        return np.asarray(self.Y[:, self.target])

    def __len__(self) -> int:
        return len(self.X)

    def take(self, places: Any) -> Rows:
        """Some of them."""
        return replace(self, X=self.X[places], Y=self.Y[places], alpha=self.alpha[places], place=self.place[places])

    def some(self, count: int, generator: np.random.Generator) -> Rows:
        """At most so many, drawn at random."""
        return self if len(self) <= count else self.take(np.sort(generator.permutation(len(self))[:count]))


@dataclass(frozen=True)
class Material:
    """What all pictures are made from."""

    kernel: CompiledKernel
    posterior: Any
    base: SubsetOfData
    """The posterior given the active rows alone."""
    selection: Any
    unit: float
    """What one unit of the scaled target is, and ..."""
    shift: float
    """... where its zero lies."""
    inputs: tuple[Input, ...]
    target: str
    n_rows: int
    """That the model was fitted to."""
    active: Rows
    pool: Rows
    """Rows of the fit: all, if the model or the data have them; else the active ones."""
    whole: bool
    """Whether `pool` has more than the active rows."""
    shown: Rows
    """Rows to draw: those that were given, else `pool`."""
    judges: Rows
    """Rows that the model is judged by."""
    how: str
    """What these are: one of `HOW`."""
    given: int
    """How many rows were given, beyond the model."""

    def in_units(self, y: Array) -> Array:
        """Scaled targets, or means of them, in units of the target."""
        return np.asarray(y * self.unit + self.shift)

    @property
    def plain(self) -> bool:
        """Whether there are one or two inputs, both numbers: what can be drawn."""
        return len(self.inputs) <= 2 and all(part.kind != "levels" for part in self.inputs)


HOW = {
    "unseen": "rows that the fit has not seen",
    "left out": "rows of the fit, each predicted from the others",
    "unsure": "of the rows given, which the fit may have seen; those that it keeps are predicted from the others",
    "active": "active rows, each predicted from the others",
}


def gather(model: Any, X: Any = None, y: Any = None, target: int = 0) -> Material:
    """What a fitted model holds, and rows that were given, sorted by whether the fit has seen them.

    Parameters
    ----------
    model : GreedyGPRegressor
        Fitted, or loaded from a file.
    X, y : array-like of shape (n, d), (n,) or (n, q), optional
        Rows to judge the model by. Those that the model was fitted to are found among them.
    target : int
        Which target, of several.
    """
    posterior, selection, q = model.posterior_, model.selection_, len(model.y_mean_)
    if not 0 <= target < q:
        raise ValueError(f"target must be from 0 to {q - 1}; got {target}.")
    m = len(selection)
    nothing = np.zeros(m)
    X_active = np.asarray(model.X_train_, dtype=np.float64)
    active = Rows(X_active, model.y_train_.reshape(m, q), nothing, np.arange(m), target)
    own, n_rows = model.fitted_.rows, model.fitted_.n_rows
    pool = active
    if own is not None:
        alpha = np.zeros(n_rows) if own.alpha is None else own.alpha
        place = np.full(n_rows, -1)
        place[selection.indices] = np.arange(m)
        pool = Rows(np.asarray(own.X, dtype=np.float64), own.y, alpha, place, target)
        active = replace(active, alpha=alpha[selection.indices])
    judges, how, given = pool, "active" if own is None else "left out", 0
    shown = pool
    if X is not None:
        rows = _given(model, X, y, target)
        given = len(rows)
        rows = shown = replace(rows, place=match(active, rows))
        if own is not None:
            known = match(pool, rows)
            unseen = known < 0
            if unseen.sum() >= ENOUGH or not (~unseen).any():
                judges, how = rows.take(unseen), "unseen"
            else:
                judges = pool.take(np.unique(known[~unseen]))
        else:
            pool = judges = rows
            how = "unsure" if (rows.place >= 0).any() else "unseen"
    base = posterior.base if isinstance(posterior, Local) else posterior
    if not isinstance(base, SubsetOfData):
        chosen = replace(selection, indices=np.arange(m))
        base = SubsetOfData.condition(Evidence(posterior.kernel, Arrays(active.X, active.Y), chosen))
    return Material(
        kernel=posterior.kernel,
        posterior=posterior,
        base=base,
        selection=selection,
        unit=float(model.y_std_[target]),
        shift=float(model.y_mean_[target]),
        inputs=inputs_of(model),
        target=target_of(model, target),
        n_rows=n_rows,
        active=active,
        pool=pool,
        whole=own is not None or given > 0,
        shown=shown,
        judges=judges,
        how=how,
        given=given,
    )


def inputs_of(model: Any) -> tuple[Input, ...]:
    """The columns that a model was fitted to; without names, they have numbers."""
    mapping = getattr(model, "preprocessing_", None)
    if mapping is None:
        names = getattr(model, "feature_names_in_", None)
        names = [f"input {place + 1}" for place in range(model.n_features_in_)] if names is None else names
        return tuple(Input(str(name), "number", (place,)) for place, name in enumerate(names))
    found, begin = [], 0
    for column in mapping.columns:
        places = tuple(range(begin, begin + len(column.names)))
        kind = "levels" if column.kind in ("bool", "text") else column.kind
        found.append(Input(column.name, kind, places, tuple(column.levels)))
        begin += len(places)
    return tuple(found)


def target_of(model: Any, target: int = 0) -> str:
    """The name of the target, if it is known."""
    mapping = getattr(model, "preprocessing_", None)
    if mapping is not None and mapping.target:
        return str(mapping.target)
    return "target" if len(model.y_mean_) == 1 else f"target {target + 1}"


def groups_of(inputs: tuple[Input, ...]) -> list[str]:
    """For each of the model's inputs, the column that it comes from."""
    return [part.name for part in inputs for _ in part.places]


def _given(model: Any, X: Any, y: Any, target: int) -> Rows:
    if y is None:
        raise ValueError("y must be given with X: without the targets, rows say nothing about how good a model is.")
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != model.n_features_in_:
        raise ValueError(f"X must have {model.n_features_in_} columns, as in the fit; got shape {X.shape}.")
    if not len(X) or not np.isfinite(X).all():
        raise ValueError("X has no rows, or values that are missing or infinite: leave those rows out.")
    y, q = check_targets(np.asarray(y, dtype=np.float64), len(X)), len(model.y_mean_)
    if y.shape[1:] not in (() if q == 1 else (q,), (q,)):
        raise ValueError(f"y must have {q} target{'s' * (q > 1)}, as in the fit; got shape {y.shape}.")
    Y = (y.reshape(len(X), q) - model.y_mean_) / model.y_std_
    return Rows(X, Y, np.zeros(len(X)), np.full(len(X), -1), target)


def match(known: Rows, rows: Rows) -> Array:
    """For each row, the place of one with the same inputs and targets among those that are known; -1 if there is none.

    O(n log n).
    """
    both = np.concatenate([np.column_stack([part.X, part.Y]) for part in (known, rows)])
    group = distinct(both)[1]
    where = np.full(len(both), -1)
    where[group[: len(known)]] = np.arange(len(known))
    return np.asarray(where[group[len(known) :]])
