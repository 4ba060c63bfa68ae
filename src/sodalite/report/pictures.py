"""What the model has learnt, as numbers to draw: its function, the effect of each input, and where its rows lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from ..core.types import Floats, Indices
from .importance import Pair
from .predictions import of_target
from .rows import Input, LabelledRows, Material
from .stages import MOST_STAGES, Stages, some_stages

BAND = float(ndtri(0.975))  # half the width of a Gaussian's 95 % interval, in standard deviations
ENDS = np.array([0.025, 0.975])  # cumulative probabilities at the ends of a 95 % interval

# Sizes of the pictures. Larger ones look the same, and make the page and its computation larger.
N_SHOWN = 1500  # most rows that are drawn as dots
N_LINE = 500  # points of a curve
N_SIDE = 40  # points along each side of a map
N_MAP_STAGES = 24  # most stages of a map, each of N_SIDE^2 numbers
N_EFFECT = 25  # values of an input at which its effect is computed
N_PAIR = 15  # values of each of two inputs at which their effect together is computed
N_PAIRS = 2  # most pairs of inputs whose effect together is shown
N_BACKGROUND = 30  # rows that an effect is averaged over
N_INPUTS = 6  # most inputs whose effect is shown
FEW_VALUES = 12  # distinct values of an input, up to which its effect is computed at each of them
MARGIN = 0.03  # share of the rows' range that is shown beyond it, on either side


@dataclass(frozen=True)
class PosteriorView:
    """The function of one or two inputs at some stages: its mean and band, with the rows and the active rows."""

    inputs: tuple[Input, ...]
    target: str
    axes: tuple[Floats, ...]
    """Values of each input at which the curve or the map is drawn."""
    stages: Indices
    mean: Floats
    """Of shape (stages, points); a map's points row by row, the first input along the row."""
    lower: Floats
    """The lower end of the Gaussian process's 95 % interval of observations; of shape (stages, points)."""
    upper: Floats
    """The upper end of that interval; of shape (stages, points)."""
    final_mean: Floats
    """The mean of the finished model, which may know more than the active rows; of shape (points,)."""
    final_lower: Floats
    """The lower end of the finished model's 95 % interval, by the distribution of errors it has learnt; (points,)."""
    final_upper: Floats
    """The upper end of that interval; of shape (points,)."""
    X: Floats
    """The rows that are drawn; of shape (rows, 1) or (rows, 2)."""
    y: Floats
    """Their targets; of shape (rows,)."""
    unsettled: Floats
    """s + abs(r) of the rows that are drawn, at every stage; of shape (stages, rows), and empty for two inputs."""
    active_X: Floats
    """The active rows, in the order of their choice; of shape (m, 1) or (m, 2)."""
    active_y: Floats


def posterior_view(material: Material, stages: Stages, generator: np.random.Generator) -> PosteriorView:
    """Compute the function at some stages, for a model of one or two inputs that are numbers."""
    if not material.plain:
        raise ValueError("the posterior can be drawn for one or two inputs that are numbers; this model has others.")
    rows = _shown(material, generator)
    count = N_LINE if len(material.inputs) == 1 else N_SIDE
    places = [part.places[0] for part in material.inputs]
    axes = tuple(_axis(material, place, count) for place in places)
    mesh = zip(material.inputs, np.meshgrid(*axes), strict=True)
    grid = np.column_stack([part.rows(values.ravel()) for part, values in mesh])
    shown = some_stages(len(stages), MOST_STAGES if len(axes) == 1 else N_MAP_STAGES)
    mean, s2 = stages.predict(grid, shown)
    noise = np.maximum(material.kernel.noise(material.kernel.prepare(grid)), 0)
    half = BAND * np.sqrt(s2 + noise)
    final = of_target(material.posterior.predictive(grid), rows.target)
    final_lower, final_upper = final.quantiles(ENDS)[:, 0].T
    unsettled: Floats = np.empty((0, 0))
    if len(axes) == 1:
        at_rows, s2_rows = stages.predict(rows.X, shown)
        unsettled = np.sqrt(s2_rows) + np.abs(rows.y - at_rows)
    offset = material.offset_at(grid)
    return PosteriorView(
        inputs=material.inputs,
        target=material.target,
        axes=axes,
        stages=shown,
        mean=material.in_units(mean, offset),
        lower=material.in_units(mean - half, offset),
        upper=material.in_units(mean + half, offset),
        final_mean=material.in_units(final.mean[:, 0], offset),
        final_lower=material.in_units(final_lower, offset),
        final_upper=material.in_units(final_upper, offset),
        X=rows.X[:, places],
        y=material.in_units(rows.y, rows.own_offset),
        unsettled=material.unit * unsettled,
        active_X=material.active.X[:, places],
        active_y=material.in_units(material.active.y, material.active.own_offset),
    )


@dataclass(frozen=True)
class Effect:
    """The partial dependence on a column: the mean prediction when it changes and the others stay as they are."""

    input: Input
    values: Floats | Indices
    """Values of the column, for levels their places; of shape (values,), as the next three."""
    mean: Floats
    lower: Floats
    """The lower end of a band that holds the average of the function with 95 % probability, or more."""
    upper: Floats
    """The upper end of that band."""


def effects(material: Material, names: list[str], generator: np.random.Generator) -> tuple[Effect, ...]:
    """Compute the partial dependence on some columns.

    The band is the mean of the rows' 95 % intervals. The interval of a mean is no wider than that if errors are
    Gaussian or Student's t. The intervals are those of the learnt distribution, with the distances of their ends from
    the prediction multiplied by the share that the function itself has in the standard deviation.
    """
    pool = material.pool
    background = pool.some(N_BACKGROUND, generator)
    found = []
    for part in (part for name in names for part in material.inputs if part.name == name):
        values = _values_of(material, part, N_EFFECT)
        grid = np.repeat(background.X[None], len(values), axis=0)
        for rows, value in zip(grid, values, strict=True):
            _set(rows, part, value)
        flat = grid.reshape(-1, grid.shape[2])
        offset, lines = material.offset_at(flat), _interval_without_noise(material, flat, pool.target)
        averages = (material.in_units(line, offset).reshape(grid.shape[:2]).mean(axis=1) for line in lines)
        found.append(Effect(part, values, *averages))
    return tuple(found)


@dataclass(frozen=True)
class Interaction:
    """The mean prediction as two columns change and the others stay as they are."""

    inputs: tuple[Input, Input]
    values: tuple[Floats | Indices, Floats | Indices]
    """Values of each column, for levels their places."""
    mean: Floats
    """Of shape (values of the second, values of the first)."""
    share: float
    """What the two bring to the predictions' variance, beyond what each brings alone."""


def interactions(material: Material, pairs: Sequence[Pair], generator: np.random.Generator) -> tuple[Interaction, ...]:
    """Compute the mean prediction for pairs of columns that act together."""
    background, by_name = material.pool.some(N_BACKGROUND, generator), {part.name: part for part in material.inputs}
    found = []
    for pair in pairs:
        first, second = (by_name[name] for name in pair.names)
        a, b = (_values_of(material, part, N_PAIR) for part in (first, second))
        grid = np.repeat(np.repeat(background.X[None, None], len(a), axis=1), len(b), axis=0)
        for j, value in enumerate(a):
            _set(grid[:, j], first, value)
        for i, value in enumerate(b):
            _set(grid[i], second, value)
        mean = material.predictions(grid.reshape(-1, grid.shape[-1])).reshape(grid.shape[:3]).mean(axis=2)
        found.append(Interaction((first, second), (a, b), mean, pair.share))
    return tuple(found)


def _values_of(material: Material, part: Input, count: int) -> Floats | Indices:
    """Values of a column at which predictions are drawn; for levels, their places."""
    return np.arange(len(part.levels)) if part.kind == "levels" else _values(material.pool.X[:, part.places[0]], count)


def _set(rows: Floats, part: Input, value: float) -> None:
    """Give all rows, of shape (..., d), one value of a column, for a level its place."""
    if part.kind == "levels":
        rows[..., part.places] = part.codes[int(value)]
    elif part.is_axis:
        rows[..., part.places] = part.rows(np.array([value]))[0]
    else:
        rows[..., part.places[0]] = value


def _interval_without_noise(material: Material, X: Floats, target: int) -> tuple[Floats, Floats, Floats]:
    """Means, and the lower and upper ends of 95 % intervals of the function itself, scaled; each of shape (rows,)."""
    found = of_target(material.posterior.predictive(X), target)
    latent = np.sqrt(material.posterior.mean_and_variance(X)[1])
    mean, std = found.mean[:, 0], found.std[:, 0]
    share = np.divide(latent, std, out=np.zeros(len(std)), where=std > 0)
    lower, upper = (found.quantiles(ENDS)[:, 0] - found.mean).T * share
    return mean, mean + lower, mean + upper


@dataclass(frozen=True)
class ActiveMap:
    """Where the active rows lie, in two columns that hold numbers."""

    inputs: tuple[Input, Input]
    rows: Floats
    """Some of all rows; of shape (rows, 2)."""
    active: Floats
    """The active rows, in the order of their choice; of shape (active rows, 2)."""


def active_map(material: Material, names: list[str], generator: np.random.Generator) -> ActiveMap | None:
    """Locate the active rows in the first two of some columns that hold numbers; None if there are not two."""
    pair = [part for name in names for part in material.inputs if part.name == name and part.kind != "levels"][:2]
    if len(pair) < 2:
        return None
    places = [pair[0].places[0], pair[1].places[0]]
    rows = _shown(material, generator)
    some = material.active.some(N_SHOWN, generator)
    some = some.take(np.argsort(some.place))
    return ActiveMap((pair[0], pair[1]), rows.X[:, places], some.X[:, places])


def _shown(material: Material, generator: np.random.Generator) -> LabelledRows:
    """The rows that are drawn as dots."""
    return material.shown.some(N_SHOWN, generator)


def _axis(material: Material, place: int, count: int) -> Floats:
    """Evenly spaced values of an input, over the range of all rows and a little beyond; of shape (count,)."""
    every = material.pool.X[:, place], material.shown.X[:, place]
    low, high = float(min(part.min() for part in every)), float(max(part.max() for part in every))
    margin = MARGIN * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, count)


def _values(column: Floats, count: int) -> Floats:
    """Values at which an effect is computed: the distinct ones, if they are few, else evenly over 96 % of the rows."""
    seen = np.unique(column)
    if len(seen) <= FEW_VALUES:
        return seen
    low, high = np.quantile(column, [0.02, 0.98])
    return np.linspace(low, high, count) if high > low else np.linspace(seen[0], seen[-1], count)
