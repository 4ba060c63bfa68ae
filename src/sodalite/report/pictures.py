"""What the model has learnt, as numbers to draw: its function, and what one input does, or two together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from ..core.types import Floats, Indices
from .importance import Pair
from .inputs import Input
from .judgement import of_target
from .rows import Material
from .stages import Stages, some_stages

BAND = float(ndtri(0.975))  # half the width of a Gaussian's 95 % interval, in standard deviations
ENDS = np.array([0.025, 0.975])  # cumulative probabilities at the ends of a 95 % interval

# Sizes of the pictures. Larger ones look the same, and make the page and its computation larger.
N_SHOWN = 1000  # most rows that are drawn as dots
N_LINE = 360  # points of a curve
N_SIDE = 28  # points along each side of a map
N_AVERAGED_SIDE = 20  # points along each side of a map that is an average over rows
N_AVERAGED = 10  # rows that a map of an average is averaged over: each costs as much as a map
N_CURVE_STAGES = 20  # most stages of a curve, each of three curves
N_MAP_STAGES = 16  # most stages of a map, each of N_SIDE^2 numbers
N_LEVELS = 13  # levels at which predictions are drawn: all that have an input each, and missing values
N_EFFECT = 25  # values of an input at which its effect is computed
N_PAIR = 15  # values of each of two inputs at which their effect together is computed
N_PAIRS = 2  # most pairs of inputs whose effect together is shown
N_BACKGROUND = 30  # rows that an effect is averaged over
LEAST_INPUTS = 3  # inputs whose effect is shown even if they hardly matter
N_INPUTS = 6  # most inputs whose effect is shown
FEW_VALUES = 12  # distinct values of an input, up to which its effect is computed at each of them
TRIMMED = (0.005, 0.995)  # quantiles of an input that a map of an average is drawn between
MARGIN = 0.03  # share of the rows' range that is shown beyond it, on either side


@dataclass(frozen=True)
class PosteriorView:
    """The function of one or two inputs at some stages: its mean and band, with the rows and the active rows.

    Of a model with more inputs, it is an average over some rows, whose other inputs stay as they are. A map's points
    are row by row, the first input along the row. Bands hold 95 % of the observations: by the Gaussian process at a
    stage, by the distribution of errors that it has learnt for the finished model.
    """

    inputs: tuple[Input, ...]
    target: str
    axes: tuple[Floats, ...]
    """Values of each input at which the curve or the map is drawn."""
    stages: Indices
    """Active rows at each stage; empty where all rows are active, and none had to be chosen."""
    mean: Floats
    """Of shape (stages + 1, points): the stages, then the finished model, which may know more than the active rows."""
    lower: Floats
    """The lower end of the band, of the same shape."""
    upper: Floats
    """The upper end of the band, of the same shape."""
    X: Floats
    """The values of the inputs of the rows that are drawn; of shape (rows, 1) or (rows, 2)."""
    y: Floats
    """Their targets; of shape (rows,)."""
    active_X: Floats
    """The active rows, in the order of their choice; of shape (m, 1) or (m, 2)."""
    active_y: Floats
    n_averaged: int = 1
    """Rows that the function is averaged over; 1 where it has no other inputs."""


def posterior_view(
    material: Material, stages: Stages, generator: np.random.Generator, names: Sequence[str] = ()
) -> PosteriorView | None:
    """Compute the function at some stages; None if fewer than two of several inputs are numbers.

    `names` are those of the inputs, those that matter most first: of more than two, the first two that are numbers are
    drawn.
    """
    plain, by_name = material.plain, {part.name: part for part in material.inputs}
    inputs = material.inputs if plain else tuple(by_name[name] for name in names if by_name[name].is_axis)[:2]
    if not plain and len(inputs) < 2:
        return None
    inputs = _as_on_maps(inputs)
    rows = material.shown.some(N_SHOWN, generator)
    others = material.pool.X[:1] if plain else material.pool.some(N_AVERAGED, generator).X
    count = N_LINE if len(inputs) == 1 else N_SIDE if plain else N_AVERAGED_SIDE
    axes = tuple(_axis(material, part, count, trim=not plain) for part in inputs)
    grid = _grid(others, inputs, axes)
    shown: Indices = np.empty(0, dtype=np.intp)
    if material.selection.is_ranked:
        shown = some_stages(len(stages), N_CURVE_STAGES if len(axes) == 1 else N_MAP_STAGES)
    mean, s2 = stages.predict(grid, shown)
    half = BAND * np.sqrt(s2 + np.maximum(material.kernel.noise(material.kernel.prepare(grid)), 0))
    final = of_target(material.posterior.predictive(grid), rows.target)
    lower, upper = final.quantiles(ENDS)[:, 0].T
    offset = material.offset_at(grid)

    def averaged(at_stages: Floats, finished: Floats) -> Floats:
        """Scaled values at the grid in units of the target, averaged over the rows."""
        units = material.in_units(np.vstack([at_stages, finished]), offset)
        return np.asarray(units.reshape(len(units), -1, len(others)).mean(axis=2))

    return PosteriorView(
        inputs=inputs,
        target=material.name,
        axes=axes,
        stages=shown,
        mean=averaged(mean, final.mean[:, 0]),
        lower=averaged(mean - half, lower),
        upper=averaged(mean + half, upper),
        n_averaged=len(others),
        X=np.column_stack([part.values(rows.X) for part in inputs]),
        y=material.in_units(rows.y, rows.own_offset),
        active_X=np.column_stack([part.values(material.active.X) for part in inputs]),
        active_y=material.in_units(material.active.y, material.active.own_offset),
    )


@dataclass(frozen=True)
class Effect:
    """The partial dependence on a column: the mean prediction when it changes and the others stay as they are."""

    input: Input
    values: Floats
    """Values of the column, for levels their numbers; of shape (values,), as the next three."""
    mean: Floats
    lower: Floats
    """The lower end of a band that holds the average of the function with 95 % probability, or more."""
    upper: Floats
    """The upper end of that band."""


def effects(material: Material, names: Sequence[str], generator: np.random.Generator) -> tuple[Effect, ...]:
    """Compute the partial dependence on some columns.

    The band is the mean of the rows' 95 % intervals. The interval of a mean is no wider than that if errors are
    Gaussian or Student's t. The intervals are those of the learnt distribution, with the distances of their ends from
    the prediction multiplied by the share that the function itself has in the standard deviation.
    """
    background, by_name = material.pool.some(N_BACKGROUND, generator), {part.name: part for part in material.inputs}
    drawn = []
    for part in (by_name[name] for name in names):
        values = _values(material, part, N_EFFECT)
        grid = _grid(background.X, (part,), (values,))
        offset, predictive = material.offset_at(grid), of_target(material.posterior.predictive(grid), background.target)
        latent, std = np.sqrt(material.posterior.mean_and_variance(grid)[1]), predictive.std[:, 0]
        share = np.divide(latent, std, out=np.zeros(len(std)), where=std > 0)
        middle, ends = predictive.mean[:, 0], (predictive.quantiles(ENDS)[:, 0] - predictive.mean).T * share
        lines = (middle, *(middle + end for end in ends))
        averages = (material.in_units(line, offset).reshape(len(values), -1).mean(axis=1) for line in lines)
        drawn.append(Effect(part, values, *averages))
    return tuple(drawn)


@dataclass(frozen=True)
class Interaction:
    """The mean prediction as two columns change and the others stay as they are."""

    inputs: tuple[Input, ...]
    values: tuple[Floats, ...]
    """Values of each column, for levels their numbers."""
    mean: Floats
    """Of shape (values of the second, values of the first)."""
    share: float
    """What the two bring to the predictions' variance, beyond what each brings alone."""


def interactions(material: Material, pairs: Sequence[Pair], generator: np.random.Generator) -> tuple[Interaction, ...]:
    """Compute the mean prediction for pairs of columns that act together."""
    background, by_name = material.pool.some(N_BACKGROUND, generator), {part.name: part for part in material.inputs}
    drawn = []
    for pair in pairs:
        parts = _as_on_maps((by_name[pair.names[0]], by_name[pair.names[1]]))
        a, b = (_values(material, part, N_PAIR) for part in parts)
        predicted = material.predictions(_grid(background.X, parts, (a, b)))
        mean = predicted.reshape(len(b), len(a), -1).mean(axis=2)
        drawn.append(Interaction(parts, (a, b), mean, pair.share))
    return tuple(drawn)


def _as_on_maps(inputs: tuple[Input, ...]) -> tuple[Input, ...]:
    """Inputs in the order of the axes: as on a map, longitudes go to the right."""
    are_places = all(part.kind == "place" for part in inputs)
    return tuple(sorted(inputs, key=lambda part: -part.axis)) if are_places else inputs


def _grid(rows: Floats, parts: Sequence[Input], axes: Sequence[Floats]) -> Floats:
    """Some rows at every point of a grid of values of some columns; of shape (points x rows, d)."""
    points = [values.ravel() for values in np.meshgrid(*axes)]
    grid = np.tile(rows, (len(points[0]), 1))
    for part, values in zip(parts, points, strict=True):
        part.put(grid, np.repeat(values, len(rows)))
    return grid


def _axis(material: Material, part: Input, count: int, trim: bool) -> Floats:
    """Evenly spaced values of an input, over the range of all rows and a little beyond; of shape (count,).

    With `trim`, over the range of all but a few rows at either end: other inputs differ too, so few are beyond.
    """
    every = np.concatenate([part.values(material.pool.X), part.values(material.shown.X)])
    low, high = (float(end) for end in (np.quantile(every, TRIMMED) if trim else (every.min(), every.max())))
    if not high > low:
        low, high = float(every.min()), float(every.max())
    margin = MARGIN * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, count)


def _values(material: Material, part: Input, count: int) -> Floats:
    """Values at which predictions are drawn: few distinct ones, or evenly over 96 % of the rows.

    Of many levels, they are those with most rows.
    """
    column = part.values(material.pool.X)
    if part.levels:
        counts = np.bincount(column.astype(int), minlength=len(part.levels))
        return np.sort(np.argsort(-counts, kind="stable")[:N_LEVELS]).astype(np.float64)
    seen = np.unique(column)
    if len(seen) <= FEW_VALUES:
        return np.asarray(seen)
    low, high = np.quantile(column, [0.02, 0.98])
    return np.linspace(low, high, count) if high > low else np.linspace(seen[0], seen[-1], count)
