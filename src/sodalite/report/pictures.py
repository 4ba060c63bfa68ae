"""What the model has learnt, as numbers to draw: its function, the effect of each input, and where its rows lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from ..core.types import Floats, Indices
from .importance import Pair
from .judgement import of_target
from .rows import Input, LabelledRows, Material
from .stages import Stages, some_stages

BAND = float(ndtri(0.975))  # half the width of a Gaussian's 95 % interval, in standard deviations
ENDS = np.array([0.025, 0.975])  # cumulative probabilities at the ends of a 95 % interval

# Sizes of the pictures. Larger ones look the same, and make the page and its computation larger.
N_SHOWN = 1000  # most rows that are drawn as dots
N_LINE = 360  # points of a curve
N_SIDE = 28  # points along each side of a map
N_AVERAGED_SIDE = 20  # points along each side of a map that is an average over rows
N_AVERAGED = 10  # rows that a map of an average is averaged over: each costs as much as a map
N_CURVE_STAGES = 20  # most stages of a curve, each of three curves and many bars
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

    Of a model with more inputs, it is an average over some rows, whose other inputs stay as they are.
    """

    inputs: tuple[Input, ...]
    target: str
    axes: tuple[Floats, ...]
    """Values of each input at which the curve or the map is drawn."""
    stages: Indices
    """Empty where all rows are active, and none had to be chosen."""
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
    n_averaged: int = 1
    """Rows that the function is averaged over; 1 where it has no other inputs."""


def posterior_view(
    material: Material, stages: Stages, generator: np.random.Generator, names: Sequence[str] = ()
) -> PosteriorView | None:
    """Compute the function at some stages; None if fewer than two of several inputs are numbers.

    Parameters
    ----------
    material : Material
    stages : Stages
    generator : numpy.random.Generator
    names : sequence of str
        The inputs, those that matter most first: of more than two, the first two that are numbers are drawn.
    """
    by_name = {part.name: part for part in material.inputs}
    inputs = material.inputs if material.plain else tuple(by_name[name] for name in names if by_name[name].is_axis)[:2]
    if not material.plain and len(inputs) < 2:
        return None
    rows = _shown(material, generator)
    others = None if material.plain else material.pool.some(N_AVERAGED, generator).X
    count = N_LINE if len(inputs) == 1 else N_SIDE if others is None else N_AVERAGED_SIDE
    places = [part.places[0] for part in inputs]
    axes = tuple(_axis(material, place, count, trim=others is not None) for place in places)
    grid = _grid(material, inputs, axes, others)
    n_averaged = 1 if others is None else len(others)
    shown: Indices = np.empty(0, dtype=np.intp)
    if material.selection.is_ranked:
        shown = some_stages(len(stages), N_CURVE_STAGES if len(axes) == 1 else N_MAP_STAGES)
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

    def averaged(values: Floats) -> Floats:
        """Scaled values at the grid, of shape (..., points x rows), in units of the target, averaged over the rows."""
        found = material.in_units(values, offset)
        return np.asarray(found.reshape(*found.shape[:-1], n_averaged, values.shape[-1] // n_averaged).mean(axis=-2))

    return PosteriorView(
        inputs=inputs,
        target=material.target,
        axes=axes,
        stages=shown,
        mean=averaged(mean),
        lower=averaged(mean - half),
        upper=averaged(mean + half),
        final_mean=averaged(final.mean[:, 0]),
        final_lower=averaged(final_lower),
        final_upper=averaged(final_upper),
        n_averaged=n_averaged,
        X=rows.X[:, places],
        y=material.in_units(rows.y, rows.own_offset),
        unsettled=material.unit * unsettled,
        active_X=material.active.X[:, places],
        active_y=material.in_units(material.active.y, material.active.own_offset),
    )


def _grid(material: Material, inputs: tuple[Input, ...], axes: tuple[Floats, ...], others: Floats | None) -> Floats:
    """The inputs at all points of the axes: of shape (points, d), or (rows x points, d) with the rows `others`."""
    values = [part.ravel() for part in np.meshgrid(*axes)]
    if others is None:
        return np.column_stack([part.rows(own) for part, own in zip(inputs, values, strict=True)])
    grid = np.repeat(others, len(values[0]), axis=0)
    for part, own in zip(inputs, values, strict=True):
        grid[:, part.places] = np.tile(part.rows(own), (len(others), 1))
    return grid


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
    """Values of a column at which predictions are drawn; for levels, their places: of many, of those with most rows."""
    if not part.has_levels:
        return _values(material.pool.X[:, part.places[0]], count)
    if len(part.levels) <= N_LEVELS:
        return np.arange(len(part.levels))
    counts = np.bincount(part.level_of(material.pool.X), minlength=len(part.levels))
    return np.sort(np.argsort(-counts, kind="stable")[:N_LEVELS])


def _set(rows: Floats, part: Input, value: float) -> None:
    """Give all rows, of shape (..., d), one value of a column, for a level its place."""
    if part.has_levels:
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


def _shown(material: Material, generator: np.random.Generator) -> LabelledRows:
    """The rows that are drawn as dots."""
    return material.shown.some(N_SHOWN, generator)


def _axis(material: Material, place: int, count: int, trim: bool) -> Floats:
    """Evenly spaced values of an input, over the range of all rows and a little beyond; of shape (count,).

    With `trim`, over the range of all but a few rows at either end: other inputs differ too, so few are beyond.
    """
    every = np.concatenate([material.pool.X[:, place], material.shown.X[:, place]])
    low, high = (float(end) for end in (np.quantile(every, TRIMMED) if trim else (every.min(), every.max())))
    if not high > low:
        low, high = float(every.min()), float(every.max())
    margin = MARGIN * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, count)


def _values(column: Floats, count: int) -> Floats:
    """Values at which an effect is computed: the distinct ones, if they are few, else evenly over 96 % of the rows."""
    seen = np.unique(column)
    if len(seen) <= FEW_VALUES:
        return seen
    low, high = np.quantile(column, [0.02, 0.98])
    return np.linspace(low, high, count) if high > low else np.linspace(seen[0], seen[-1], count)
