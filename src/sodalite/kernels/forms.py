"""Richer kernels that compete where none is given: a second scale, and periods that the data show."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process import kernels as spec

from ..core.types import Array
from .default import robust_spread, spread, variation
from .periodic import PeriodicColumn

FLAT = 10.0  # length-scales of a trend over the inputs' spread: in the data it bends by less than 1 %
LONG = 3.0  # first length-scales, over the inputs' spread, along which a cycle changes
CYCLES = 2.0  # the fewest cycles of a period that the rows must span
PEAK = 12.0  # power over the median power near by; by chance 2^-12 of the frequencies exceed it ...
CHANCE = 0.05  # ... so more is asked for where there are many: peaks that noise may show in all inputs together
WEAKEST = 0.02  # power of a period worth a trial, over that of the strongest
HARMONIC = 0.03  # relative distance from a multiple of a stronger frequency up to which a peak is part of that
GRID = 2**18  # the most bins of the periodogram
OVERSAMPLED = 4  # frequencies per independent one


def with_component(kernel: spec.Kernel, component: spec.Kernel) -> spec.Kernel:
    """A sum (signal + noise) with one more component of the signal, the noise still last."""
    return spec.Sum(spec.Sum(kernel.k1, component), kernel.k2)


def with_trend(kernel: spec.Kernel, X: Array, y: Array) -> spec.Kernel:
    """The kernel with a component that is all but a straight line in every input.

    Its length-scales are fixed at `FLAT` times the inputs' spread, so that its variance, the square of `FLAT` for a
    slope of one, is its only parameter.
    """
    variance = variation(y)
    scale = FLAT * robust_spread(X) * np.sqrt(X.shape[1])
    level = spec.ConstantKernel(FLAT * variance, (1e-3 * variance, 1e2 * FLAT**2 * variance))
    return with_component(kernel, level * spec.RBF(scale, "fixed"))


def second_scale(kernel: spec.Kernel, ratio: float, share: float) -> spec.Kernel:
    """The kernel with a second component like its first, of other length-scales.

    Parameters
    ----------
    kernel : scikit-learn kernel
        Constant x profile + noise.
    ratio : float
        The second length-scales over the first.
    share : float
        The second variance over the first.
    """
    first = kernel.k1
    while isinstance(first, spec.Sum):
        first = first.k1
    amplitude, profile = first.k1, first.k2
    low, high = amplitude.constant_value_bounds
    value = float(np.clip(share * amplitude.constant_value, low, high))
    scale = np.clip(np.asarray(profile.length_scale) * ratio, *np.asarray(profile.length_scale_bounds).T.reshape(2, -1))
    second = type(profile)(**{**profile.get_params(), "length_scale": scale})
    return with_component(kernel, spec.ConstantKernel(value, (1e-3 * low, high)) * second)


def with_period(kernel: spec.Kernel, period: float, column: int, X: Array, y: Array) -> spec.Kernel:
    """The kernel with a quasi-periodic component: a cycle in one input, whose shape changes slowly along all."""
    variance, span = variation(y), float(np.ptp(X[:, column]))
    shape = 1.0, period, (0.1, 10.0), (period / 1.05, period * 1.05)
    scale = LONG * robust_spread(X) * np.sqrt(X.shape[1])
    bounds = np.stack([1e-2 * scale, 1e3 * scale], axis=1)
    scale[column], bounds[column] = max(span, 4 * period), (period, 1e3 * span)
    if X.shape[1] == 1:
        cycle, drift = spec.ExpSineSquared(*shape), spec.RBF(scale[0], bounds[0])
    else:
        cycle, drift = PeriodicColumn(column, *shape), spec.RBF(scale, bounds)
    return with_component(
        kernel, spec.ConstantKernel(0.5 * variance, (1e-6 * variance, 1e4 * variance)) * cycle * drift
    )


def candidate_periods(X: Array, y: Array, most: int = 2) -> list[tuple[int, float]]:
    """Periods that the targets show (`peaks`), at most so many, each after the number of the input that has it.

    Those that stand out most come first. What a straight line in all inputs explains is taken out before.
    """
    design = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / spread(X)])
    y = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    columns = range(X.shape[1])
    found = [
        (height, column, period)
        for column in columns
        for period, height in peaks(X[:, column], y, most, CHANCE / len(columns))
    ]
    if len(columns) > 1:
        found.sort(reverse=True)
    return [(column, period) for _, column, period in found[:most]]


def peaks(x: Array, y: Array, most: int = 2, chance: float = CHANCE) -> list[tuple[float, float]]:
    """Periods at which a periodogram of the targets stands out from its surroundings, and by how much.

    The strongest comes first.

    The rows need not be evenly spaced: sums over bins no wider than half their median spacing are transformed, after
    the straight line is taken out and the ends are tapered, as Press and Rybicki (1989) do for Lomb and Scargle's
    periodogram. A peak must exceed the median power of its surroundings by
    `PEAK`, and by what white noise hardly ever does. O(n log n).

    Parameters
    ----------
    x : array of shape (n,)
    y : array of shape (n, q)
    most : int, default=2
        At most so many periods are returned, none a fraction of a stronger one.
    chance : float, default=0.05
        Peaks, on average, that white noise may show.
    """
    places = np.unique(x)
    if len(places) < 16:
        return []
    span = float(places[-1] - places[0])
    bins = int(min(GRID, np.ceil(2 * span / float(np.median(np.diff(places))))))
    step = span / bins
    at = np.minimum(((x - places[0]) / step).astype(np.intp), bins - 1)
    taper = np.sin(np.pi * (x - places[0]) / span) ** 2
    design = np.stack([np.ones_like(x), (x - x.mean()) / span], axis=1)
    root = np.sqrt(taper)[:, None]
    weights = np.linalg.lstsq(design * root, y * root, rcond=None)[0]
    left = (y - design @ weights) * taper[:, None]
    size = 1 << int(np.ceil(np.log2(OVERSAMPLED * bins)))
    power = np.zeros(size // 2 + 1)
    for column in left.T:
        power += np.square(np.abs(np.fft.rfft(np.bincount(at, column, minlength=bins), size)))
    resolution = 1 / (size * step)
    first = int(np.ceil(CYCLES / span / resolution))
    last = min(len(power), int(len(places) / 2 / span / resolution) + 1)
    if last - first < 3 or not power[first:last].any():
        return []
    height = power / np.maximum(_surroundings(power, first, last, resolution, span), np.finfo(float).tiny)
    inside = np.arange(max(first, 1), last - 1)
    least = max(PEAK, np.log2(len(inside) / OVERSAMPLED / chance))
    tops = inside[(power[inside] >= power[inside - 1]) & (power[inside] > power[inside + 1]) & (height[inside] > least)]
    found: list[tuple[float, float]] = []
    tops = tops[np.argsort(-power[tops])]
    for peak in tops[power[tops] > WEAKEST * power[tops].max(initial=0.0)]:
        a, b, c = np.log(np.maximum(power[peak - 1 : peak + 2], np.finfo(float).tiny))
        shift = 0.5 * (a - c) / (a - 2 * b + c) if a - 2 * b + c < 0 else 0.0
        frequency = (peak + shift) * resolution
        cycles = [frequency * period for period, _ in found]  # per period of a stronger one
        if all(abs(count - round(count)) > HARMONIC * count + 2 / span / frequency for count in cycles if count > 0.5):
            found.append((float(1 / frequency), float(height[peak])))
        if len(found) == most:
            break
    return found


def _surroundings(power: Array, first: int, last: int, resolution: float, span: float) -> Array:
    """The median power within a factor of 1.5 in frequency, or 12 independent frequencies, interpolated."""
    background = np.full(len(power), np.inf)
    centres = np.unique(np.geomspace(max(first, 1), last - 1, 60).astype(int))
    wide = 12 / span / resolution
    levels = [
        np.median(power[max(1, int(min(c / 1.5, c - wide))) : max(int(max(c * 1.5, c + wide)), c + 2)]) for c in centres
    ]
    logs = np.log(np.maximum(levels, np.finfo(float).tiny))
    background[first:last] = np.exp(np.interp(np.log(np.arange(max(first, 1), last)), np.log(centres), logs))
    return background
