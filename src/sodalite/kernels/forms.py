"""Components that are tried besides the default kernel: a trend, a second scale, and periods found in the data.

The search that tries them is in docs/method.rst, `components`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.gaussian_process import kernels as spec

from ..core.types import Floats, Indices
from .default import robust_spread, spread, variation
from .periodic import PeriodicColumn

FLAT = 10.0  # length-scales of a trend, in spreads of the inputs: within the data it bends by less than 1 %
LONG = 3.0  # start of the length-scales along which a cycle changes its shape, in spreads of the inputs
MOST_PERIODS = 2  # periods that are tried: a day and a year, say
CYCLES = 2.0  # the fewest cycles of a period that the rows must span
PEAK = 12.0  # least power of a peak over the median power around it; of white noise 2^-12 of all frequencies exceed it
CHANCE = 0.05  # mean number of peaks that white noise may show in all inputs: raises PEAK if there are many frequencies
WEAKEST = 0.02  # least power of a peak over that of the strongest; weaker ones are not worth a trial
HARMONIC = 0.03  # largest relative distance of a harmonic from a multiple of the stronger frequency
GRID = 2**18  # largest number of bins of the input: 2 MB, and a transform of a few tens of milliseconds
OVERSAMPLED = 4  # frequencies per independent frequency, so that a peak is not missed between two of them
FEWEST = 16  # distinct inputs below which no period is sought
WIDTH = 1.5  # ratio of a peak's frequency to those at the ends of its surroundings
MEASURED = 60  # frequencies at which the power of the surroundings is measured; between them it is interpolated
NEAR = 12  # least distance of a peak from the ends of its surroundings, in independent frequencies
REGULAR = 0.15  # largest relative difference of an input's steps from their median: months differ by 10 %
TINY = float(np.finfo(float).tiny)


def with_component(kernel: spec.Kernel, component: spec.Kernel) -> spec.Kernel:
    """A kernel signal + noise with one more component of the signal; the noise stays last."""
    return spec.Sum(spec.Sum(kernel.k1, component), kernel.k2)


def with_trend(kernel: spec.Kernel, X: Floats, y: Floats) -> spec.Kernel:
    """The kernel with a component that is nearly linear in every input.

    Its length-scales are fixed at `FLAT` times the inputs' spread, so that its variance is its only parameter. A
    variance of `FLAT`^2 means a slope of about one.

    Parameters
    ----------
    kernel : scikit-learn kernel
        Signal + noise.
    X : array of shape (n, d)
    y : array of shape (n,) or (n, q)
    """
    variance = variation(y)
    scale = FLAT * robust_spread(X) * np.sqrt(X.shape[1])
    level = spec.ConstantKernel(FLAT * variance, (1e-3 * variance, 1e2 * FLAT**2 * variance))
    return with_component(kernel, level * spec.RBF(scale, "fixed"))


def second_scale(kernel: spec.Kernel, ratio: float, share: float) -> spec.Kernel:
    """The kernel with a second component like its first, with other length-scales.

    Parameters
    ----------
    kernel : scikit-learn kernel
        Constant x stationary + noise.
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


def with_period(kernel: spec.Kernel, period: float, column: int, X: Floats, y: Floats) -> spec.Kernel:
    """The kernel with a quasi-periodic component: a cycle in one input, whose shape changes slowly along all inputs.

    Parameters
    ----------
    kernel : scikit-learn kernel
        Signal + noise.
    period : float
        In units of the input. One that is a whole number of steps of a regular input is not sought any further.
    column : int
        The number of the input.
    X : array of shape (n, d)
    y : array of shape (n,) or (n, q)
    """
    variance, span = variation(y), float(np.ptp(X[:, column]))
    is_whole = _in_steps(X[:, column], period) == period
    shape = 1.0, period, (0.1, 10.0), "fixed" if is_whole else (period / 1.05, period * 1.05)
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


def candidate_periods(X: Floats, y: Floats) -> list[tuple[int, float]]:
    """At most `MOST_PERIODS` pairs (input, period) at which the targets show a period, the most prominent first.

    A linear trend in all inputs is removed first.

    Parameters
    ----------
    X : array of shape (n, d)
    y : array of shape (n, q)
    """
    design = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / spread(X)])
    y = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    columns = range(X.shape[1])
    found = [
        (height, column, _in_steps(X[:, column], period))
        for column in columns
        for period, height in _peaks(X[:, column], y, CHANCE / len(columns))
    ]
    if len(columns) > 1:
        found.sort(reverse=True)
    return [(column, period) for _, column, period in found[:MOST_PERIODS]]


def _in_steps(x: Floats, period: float) -> float:
    """The whole number of steps of a regular input that a period cannot be told from, such as 12 months; or the period.

    It cannot be told if both differ by less than one step over all rows. A season that is a little off its true length
    does no harm among the rows, but leads further astray with every cycle ahead of them.
    """
    places = np.unique(x)
    steps = np.diff(places)
    step = float(np.median(steps))
    count = round(period / step) if step > 0 else 0
    if count < 2 or not np.allclose(steps, step, rtol=REGULAR):
        return period
    drift = abs(period - count * step) * (places[-1] - places[0]) / period
    return count * step if drift < step else period


@dataclass(frozen=True)
class _Periodogram:
    """The power of the targets by frequency."""

    power: Floats
    """Of shape (frequencies,): at 0, `resolution`, 2 `resolution`, ..."""
    resolution: float
    """The distance of two frequencies."""
    span: float
    """The width of the input."""
    first: int
    """The first frequency searched: `CYCLES` in the span."""
    last: int
    """The one after the last frequency searched: half the mean sampling rate."""


def _peaks(x: Floats, y: Floats, chance: float) -> list[tuple[float, float]]:
    """At most `MOST_PERIODS` periods at which a periodogram stands out, with the power over its surroundings.

    The strongest comes first, and none is a fraction of a stronger one. A peak must exceed the median power of its
    surroundings by `PEAK`, and by as much as white noise hardly ever does. O(n log n).

    Parameters
    ----------
    x : array of shape (n,)
    y : array of shape (n, q)
    chance : float
        The mean number of peaks that white noise may show.
    """
    spectrum = _periodogram(x, y)
    if spectrum is None:
        return []
    height = spectrum.power / np.maximum(_surroundings(spectrum), TINY)
    found: list[tuple[float, float]] = []
    for peak in _maxima(spectrum, height, chance):
        frequency = _refined(spectrum.power, int(peak)) * spectrum.resolution
        if not _is_harmonic(frequency, [period for period, _ in found], spectrum.span):
            found.append((float(1 / frequency), float(height[peak])))
        if len(found) == MOST_PERIODS:
            break
    return found


def _periodogram(x: Floats, y: Floats) -> _Periodogram | None:
    """The periodogram of the targets, summed over all of them; None if there are too few rows or no power.

    The rows need not be evenly spaced: sums over bins no wider than half their median spacing are transformed, as Press
    and Rybicki (1989) do for Lomb and Scargle's periodogram. A linear trend is removed first, and the ends are tapered.
    """
    places = np.unique(x)
    if len(places) < FEWEST:
        return None
    span = float(places[-1] - places[0])
    bins = int(min(GRID, np.ceil(2 * span / float(np.median(np.diff(places))))))
    step = span / bins
    at = np.minimum(((x - places[0]) / step).astype(np.intp), bins - 1)
    size = 1 << int(np.ceil(np.log2(OVERSAMPLED * bins)))
    power = np.zeros(size // 2 + 1)
    for column in _tapered(x, y, places[0], span).T:
        power += np.square(np.abs(np.fft.rfft(np.bincount(at, column, minlength=bins), size)))
    resolution = 1 / (size * step)
    first = int(np.ceil(CYCLES / span / resolution))
    last = min(len(power), int(len(places) / 2 / span / resolution) + 1)
    if last - first < 3 or not power[first:last].any():
        return None
    return _Periodogram(power, resolution, span, first, last)


def _tapered(x: Floats, y: Floats, begin: float, span: float) -> Floats:
    """The targets, of shape (n, q), without their linear trend, times a taper that is 0 at both ends of the input."""
    taper = np.sin(np.pi * (x - begin) / span) ** 2
    design = np.stack([np.ones_like(x), (x - x.mean()) / span], axis=1)
    root = np.sqrt(taper)[:, None]
    weights = np.linalg.lstsq(design * root, y * root, rcond=None)[0]
    return np.asarray((y - design @ weights) * taper[:, None])


def _maxima(spectrum: _Periodogram, height: Floats, chance: float) -> Indices:
    """The local maxima of the power that stand out from their surroundings, the strongest first."""
    power = spectrum.power
    inside = np.arange(max(spectrum.first, 1), spectrum.last - 1)
    least = max(PEAK, np.log2(len(inside) / OVERSAMPLED / chance))
    tops = inside[(power[inside] >= power[inside - 1]) & (power[inside] > power[inside + 1]) & (height[inside] > least)]
    tops = tops[np.argsort(-power[tops])]
    return np.asarray(tops[power[tops] > WEAKEST * power[tops].max(initial=0.0)])


def _refined(power: Floats, peak: int) -> float:
    """The place of a maximum between the frequencies, by a parabola through the logarithms of three powers."""
    a, b, c = np.log(np.maximum(power[peak - 1 : peak + 2], TINY))
    return float(peak + (0.5 * (a - c) / (a - 2 * b + c) if a - 2 * b + c < 0 else 0.0))


def _is_harmonic(frequency: float, periods: list[float], span: float) -> bool:
    """Whether a frequency is a multiple of that of one of the periods, within `HARMONIC` and the resolution."""
    cycles = [frequency * period for period in periods]
    return any(abs(count - round(count)) <= HARMONIC * count + 2 / span / frequency for count in cycles if count > 0.5)


def _surroundings(spectrum: _Periodogram) -> Floats:
    """The median power around each frequency, of shape (frequencies,), interpolated; infinite where none is searched.

    The surroundings reach as far as a factor of `WIDTH` in frequency, or `NEAR` independent frequencies.
    """
    power, first, last = spectrum.power, spectrum.first, spectrum.last
    background = np.full(len(power), np.inf)
    centres = np.unique(np.geomspace(max(first, 1), last - 1, MEASURED).astype(int))
    wide = NEAR / spectrum.span / spectrum.resolution
    levels = [
        np.median(power[max(1, int(min(c / WIDTH, c - wide))) : max(int(max(c * WIDTH, c + wide)), c + 2)])
        for c in centres
    ]
    logs = np.log(np.maximum(levels, TINY))
    background[first:last] = np.exp(np.interp(np.log(np.arange(max(first, 1), last)), np.log(centres), logs))
    return background
