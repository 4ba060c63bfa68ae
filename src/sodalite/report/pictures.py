"""What the model has learnt, as numbers to draw: its function, what each input does, and where its rows lie."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from ..core.types import Array
from .rows import Input, Material, Rows
from .stages import Stages, some_stages

BAND = float(ndtri(0.975))
N_SHOWN = 1500  # rows, of all
N_LINE = 500  # points of a curve
N_SIDE = 40  # points of each side of a map
N_MAP_STAGES = 24
N_EFFECT, N_BACKGROUND = 25, 30  # values of an input, and rows that each is put in
N_INPUTS = 6  # inputs whose effect is shown
MARGIN = 0.03  # of the range of the rows, that is shown beyond it


@dataclass(frozen=True)
class PosteriorView:
    """The rows, the active ones in order, and the mean and its band at some stages; of one or two inputs."""

    inputs: tuple[Input, ...]
    target: str
    axes: tuple[Array, ...]
    """Where the curve or the map is drawn: one array an input."""
    stages: Array
    mean: Array
    """Of shape (stages, points), a map's points row by row, the first input along the row."""
    half: Array
    """Half the width of the 95 % band of observations."""
    final_mean: Array
    """The same of the finished model, ..."""
    final_half: Array
    """... which may know more than the active rows."""
    X: Array
    """Some of all rows."""
    y: Array
    unsettled: Array
    """How unsure and how wrong the model is about each of these rows, s + abs(r), at every stage; (stages, rows)."""
    active_X: Array
    active_y: Array


def posterior_view(material: Material, stages: Stages, generator: np.random.Generator) -> PosteriorView:
    """The picture for one or two inputs that are numbers."""
    if not material.plain:
        raise ValueError("the posterior can be drawn for one or two inputs that are numbers; this model has others.")
    rows = _shown(material, generator)
    count = N_LINE if len(material.inputs) == 1 else N_SIDE
    axes = tuple(_axis(material, place, count) for place in range(len(material.inputs)))
    grid = np.column_stack([part.ravel() for part in np.meshgrid(*axes)])
    shown = some_stages(len(stages), 40 if len(axes) == 1 else N_MAP_STAGES)
    mean, s2 = stages.predict(grid, shown)
    noise = np.maximum(material.kernel.noise(material.kernel.prepare(grid)), 0)
    final, variance = material.posterior.mean_and_variance(grid, noisy=True)
    error, s2_rows = (np.empty((0, 0)),) * 2
    if len(axes) == 1:
        at_rows, s2_rows = stages.predict(rows.X, shown)
        error = rows.y - at_rows
    return PosteriorView(
        inputs=material.inputs,
        target=material.target,
        axes=axes,
        stages=shown,
        mean=material.in_units(mean),
        half=BAND * material.unit * np.sqrt(s2 + noise),
        final_mean=material.in_units(final[:, rows.target]),
        final_half=BAND * material.unit * np.sqrt(variance),
        X=rows.X,
        y=material.in_units(rows.y),
        unsettled=material.unit * (np.sqrt(s2_rows) + np.abs(error)),
        active_X=material.active.X,
        active_y=material.in_units(material.active.y),
    )


@dataclass(frozen=True)
class Effect:
    """What the prediction does, on average, when one column changes and the others stay as they are."""

    input: Input
    values: Array
    """Of the column; for levels, their places."""
    mean: Array
    half: Array
    """Half the width of a band that holds the average of the function with 95 % probability, or more."""


def effects(material: Material, names: list[str], generator: np.random.Generator) -> tuple[Effect, ...]:
    """The partial dependence on some columns.

    The standard deviation of a mean is at most the mean of the standard deviations, which is what is drawn.
    """
    pool = material.pool
    background = pool.some(N_BACKGROUND, generator)
    found = []
    for part in (part for name in names for part in material.inputs if part.name == name):
        values = np.arange(len(part.levels)) if part.kind == "levels" else _values(pool.X[:, part.places[0]])
        grid = np.repeat(background.X[None], len(values), axis=0)
        if part.kind == "levels":
            grid[:, :, part.places] = np.eye(len(part.levels))[:, None, :]
        else:
            grid[:, :, part.places[0]] = values[:, None]
        mean, variance = material.posterior.mean_and_variance(grid.reshape(-1, grid.shape[2]))
        mean = mean[:, pool.target].reshape(len(values), -1).mean(axis=1)
        half = BAND * np.sqrt(variance).reshape(len(values), -1).mean(axis=1)
        found.append(Effect(part, values, material.in_units(mean), material.unit * half))
    return tuple(found)


@dataclass(frozen=True)
class ActiveMap:
    """Where the active rows lie, in two columns."""

    inputs: tuple[Input, Input]
    rows: Array
    """Of shape (rows, 2)."""
    active: Array
    """In the order of their choice."""


def active_map(material: Material, names: list[str], generator: np.random.Generator) -> ActiveMap | None:
    """In the first two of some columns that hold numbers; None if there are not two."""
    pair = [part for name in names for part in material.inputs if part.name == name and part.kind != "levels"][:2]
    if len(pair) < 2:
        return None
    places = [pair[0].places[0], pair[1].places[0]]
    rows = _shown(material, generator)
    some = material.active.some(N_SHOWN, generator)
    some = some.take(np.argsort(some.place))
    return ActiveMap((pair[0], pair[1]), rows.X[:, places], some.X[:, places])


def _shown(material: Material, generator: np.random.Generator) -> Rows:
    return material.shown.some(N_SHOWN, generator)


def _axis(material: Material, place: int, count: int) -> Array:
    """Points over the range of all rows, and a little beyond."""
    every = material.pool.X[:, place], material.shown.X[:, place]
    low, high = float(min(part.min() for part in every)), float(max(part.max() for part in every))
    margin = MARGIN * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, count)


def _values(column: Array) -> Array:
    """Values of a column that stand for all: those that there are, if they are few, else evenly over most of them."""
    seen = np.unique(column)
    if len(seen) <= 12:
        return seen
    low, high = np.quantile(column, [0.02, 0.98])
    return np.linspace(low, high, N_EFFECT) if high > low else np.linspace(seen[0], seen[-1], N_EFFECT)
