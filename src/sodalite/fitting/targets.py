"""The scale on which a target is learnt, and distributions on the target's own scale (docs/method.rst, `target-scale`).

A Gaussian process takes errors to be as large upwards as downwards, and as large for large targets as for small ones.
Costs and counts are not so, but their logarithms or roots may be. So the process may learn t = T(y) with an increasing
function T. A quantile of y is then the inverse of that of t, the density of y is that of t times T'(y), and the mean is
that of the distribution of y, not the inverse of the mean of t.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, log
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from ..core.types import Floats, Indices, Mask
from ..core.validation import unknown
from ..posteriors.calibration import ErrorBars, nlpd_of, shares_inside
from ..posteriors.predictive import Distribution, Predictive
from ..selection.rows import Block

AUTO = "auto"
"""The name of a scale that is chosen by the log density of rows left out."""

TINY = 1e-300  # the least variance whose logarithm is taken
OFFSET = 0.375  # added to a count before its square root is taken (Anscombe 1948), which makes its variance steadier
POWERS = (0.0, 2.0)  # of Yeo and Johnson: within them, every number is the power of some target
# Nodes of the quadrature for means, as standard normal scores. What lies beyond the ends counts as if it were there:
# 0.13 % on either side. Of an exponential with heavy tails, there would be no mean otherwise.
SCORES = np.linspace(-3, 3, 25)
WEIGHTS = np.diff(np.concatenate([[0.0], ndtr(0.5 * (SCORES[1:] + SCORES[:-1])), [1.0]]))


@dataclass(frozen=True)
class Target:
    """A scale of the targets: an increasing function T(y), and the bounds within which predictions of y stay."""

    name: str | None = "standardize"
    """One of `NAMES`, or None: "standardize" and None leave targets as they are, before they are centred and scaled."""
    low: float = -inf
    high: float = inf
    power: float = 1.0
    """Of "power": that of Yeo and Johnson (2000), for targets less `centre`, in units of `unit`."""
    centre: float = 0.0
    unit: float = 1.0
    reach: float = inf
    """How far from its median, in units of T, a distribution counts for a mean: half the range of the targets."""

    @classmethod
    def fit(cls, name: str | None, y: Floats, bounds: tuple[float, float] = (-inf, inf)) -> Target:
        """Return the scale of that name, with parameters that suit targets of shape (n, q); an error if none does."""
        low, high = bounds
        if name == "log":
            found = cls(name, 0.0 if low == -inf else low, high)
        elif name == "logit":
            found = cls(name, 0.0 if low == -inf else low, 1.0 if high == inf else high)
        elif name == "sqrt":
            found = cls(name, max(low, 0.0), high)
        elif name == "power":
            begins_at_zero = y.min() == 0 and np.count_nonzero(y == 0) > 1  # such as costs, of which some are nothing
            found = cls(name, 0.0 if begins_at_zero and low == -inf else low, high, *_most_normal(y))
        else:
            return cls(name, low, high)
        if y.shape[1] > 1:
            raise ValueError(f"target={name!r} is for one target; got {y.shape[1]}. Use target='standardize'.")
        if (fault := found.fault(y)) is not None:
            raise ValueError(f"target={name!r} is for {fault}")
        return replace(found, reach=0.5 * float(np.ptp(found.scaled(y))))

    def fault(self, y: Floats) -> str | None:
        """For which targets the scale is, and which of y are others; None if all suit it."""
        least, most = float(np.min(y)), float(np.max(y))
        if self.name == "log" and not least > self.low:
            return f"targets above {self.low:g}; the least is {least:g}."
        if self.name == "logit" and not (
            np.isfinite([self.low, self.high]).all() and self.low < least <= most < self.high
        ):
            return f"targets between {self.low:g} and {self.high:g}; they are from {least:g} to {most:g}."
        if self.name == "sqrt" and least < self.low:
            return f"targets from {self.low:g}; the least is {least:g}."
        return None

    @property
    def is_plain(self) -> bool:
        """Whether T(y) is y, and without bounds."""
        return self.is_linear and self.low == -inf and self.high == inf

    @property
    def is_linear(self) -> bool:
        """Whether T(y) is y."""
        return self.name in (None, "standardize")

    @property
    def is_standardized(self) -> bool:
        """Whether targets on this scale are centred and scaled."""
        return self.name is not None

    def __call__(self, block: Block) -> tuple[Floats, Floats | None]:
        """T of the targets, of shape (rows, q), and alpha in units of these; see `Rows.with_targets`."""
        y, alpha = np.asarray(block.y, dtype=np.float64), block.alpha
        if alpha is not None and not self.is_linear:
            alpha = alpha * np.exp(2 * self.log_slope(y)[:, 0])
        return self.scaled(y), alpha

    def scaled(self, y: Floats) -> Floats:
        """T(y), of any shape."""
        if self.name == "log":
            return np.asarray(np.log(y - self.low))
        if self.name == "logit":
            return np.asarray(np.log(y - self.low) - np.log(self.high - y))
        if self.name == "sqrt":
            return np.asarray(np.sqrt(y - self.low + OFFSET))
        return y if self.is_linear else _powers((y - self.centre) / self.unit, self.power)

    def undone(self, t: Floats) -> Floats:
        """The targets y of T(y) = t, within the bounds; of any shape."""
        y: Floats
        with np.errstate(over="ignore"):
            if self.name == "log":
                y = self.low + np.exp(t)
            elif self.name == "logit":
                y = self.low + (self.high - self.low) / (1 + np.exp(-t))
            elif self.name == "sqrt":
                y = self.low + np.square(np.maximum(t, 0)) - OFFSET
            else:
                y = t if self.is_linear else self.centre + self.unit * _roots(t, self.power)
        return np.asarray(np.clip(y, self.low, self.high))

    def log_slope(self, y: Floats) -> Floats:
        """Log T'(y), of any shape."""
        if self.name == "log":
            return np.asarray(-np.log(y - self.low))
        if self.name == "logit":
            return np.asarray(np.log(self.high - self.low) - np.log(y - self.low) - np.log(self.high - y))
        if self.name == "sqrt":
            return np.asarray(-np.log(2.0) - 0.5 * np.log(y - self.low + OFFSET))
        if self.is_linear:
            return np.zeros(np.shape(y))
        z = (y - self.centre) / self.unit
        return np.asarray((self.power - 1) * np.sign(z) * np.log1p(np.abs(z)) - np.log(self.unit))

    def contains(self, y: Floats) -> Mask:
        """Whether targets have a T(y), of any shape."""
        inside = (y >= self.low) & (y <= self.high)
        return inside & (y > self.low) & (y < self.high) if self.name in ("log", "logit") else inside

    def distribution(self, predictive: Predictive) -> Distribution:
        """The distribution of y, from that of T(y)."""
        return predictive if self.is_plain else OnOwnScale(predictive, self)

    def __str__(self) -> str:
        return WORDS.get(self.name or "", "")


WORDS = {"log": "logarithm", "power": "power", "logit": "log odds", "sqrt": "square root"}
"""The scales other than the target's own, in words."""
NAMES = ("standardize", *WORDS)


def check_target(target: Any, bounds: Any) -> tuple[float, float]:
    """Refuse a name that is not known, and return the bounds as two numbers."""
    if target is not None and not (isinstance(target, str) and target in (AUTO, *NAMES)):
        raise unknown("target", [AUTO, *NAMES], target, " or None")
    if bounds is None:
        return -inf, inf
    try:
        low, high = (end if value is None else float(value) for value, end in zip(bounds, (-inf, inf), strict=True))
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds must be two numbers, of which one may be None, such as (0, None); got {bounds!r}."
        ) from None
    if not low < high:
        raise ValueError(f"bounds must rise: the first is less than the second; got {bounds!r}.")
    return low, high


@dataclass(frozen=True)
class OnOwnScale:
    """The distribution of targets y with a `sodalite.posteriors.predictive.Predictive` distribution of T(y)."""

    inner: Predictive
    target: Target

    @property
    def novelty(self) -> Floats | None:
        """That of the distribution of T(y)."""
        return self.inner.novelty

    def with_novelty(self, novelty: Floats) -> OnOwnScale:
        """The distribution with novelties, of shape (n,)."""
        return replace(self, inner=self.inner.with_novelty(novelty))

    def take(self, which: Indices) -> OnOwnScale:
        """The distributions of some rows."""
        return replace(self, inner=self.inner.take(which))

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation by quadrature over the quantiles, each of shape (n, q)."""
        median, reach = self.inner.quantiles(np.full(1, 0.5)), self.target.reach
        t = np.clip(self.inner.quantiles(ndtr(SCORES)), median - reach, median + reach)
        y = self.target.undone(t)
        mean = y @ WEIGHTS
        return mean, np.sqrt(np.square(y - mean[..., None]) @ WEIGHTS)

    @property
    def mean(self) -> Floats:
        """Of shape (n, q)."""
        return self._moments[0]

    @property
    def std(self) -> Floats:
        """Of shape (n, q)."""
        return self._moments[1]

    def quantiles(self, levels: Floats) -> Floats:
        """The quantiles of the same levels for every row, of shape (levels,); the result is (n, q, levels)."""
        return self.target.undone(self.inner.quantiles(levels))

    def log_density(self, y: Floats) -> Floats:
        """The log density of targets of shape (n, q), one by one; of shape (n, q)."""
        inside = self.target.contains(y)
        y = np.where(inside, y, self.target.undone(np.zeros(1)))
        return np.where(inside, self.inner.log_density(self.target.scaled(y)) + self.target.log_slope(y), -inf)

    def cumulative(self, y: Floats) -> Floats:
        """The cumulative probability of targets of shape (n, q)."""
        inside = self.target.contains(y)
        found = self.inner.cumulative(self.target.scaled(np.where(inside, y, self.target.undone(np.zeros(1)))))
        return np.where(inside, found, y >= self.target.high)

    def summarised(self, y: Floats, bars: ErrorBars, unit: Floats) -> ErrorBars:
        """The summary of leave-one-out errors of targets y, of shape (n, q), in units of y.

        Parameters
        ----------
        y : array of shape (n, q)
        bars : ErrorBars
            Those of T(y), in units of `unit`, of shape (q,).
        """
        slope = np.exp(self.target.log_slope(self.target.undone(self.inner.mean)))
        noise = np.minimum(bars.noise * unit / slope, self.std)
        ranges = np.quantile(np.stack([noise.mean(axis=1), self.std.mean(axis=1)]), [0.1, 0.9], axis=1).T.tolist()
        return replace(
            bars,
            noise=float(np.sqrt(np.mean(np.square(noise)))),
            noise_range=tuple(ranges[0]),
            std=float(np.sqrt(np.mean(np.square(self.std)))),
            std_range=tuple(ranges[1]),
            rmse=float(np.sqrt(np.mean(np.square(y - self.mean)))),
            nlpd=nlpd_of(self, y),
            shares=shares_inside(self.cumulative(y)),
        )


def _powers(z: Floats, power: float) -> Floats:
    """The power transform of Yeo and Johnson."""
    size = np.log1p(np.abs(z))
    return np.where(z >= 0, _power(size, power), -_power(size, 2 - power))


def _power(logarithm: Floats, power: float) -> Floats:
    """((exp log)^power - 1) / power, and its limit at a power of 0."""
    return np.asarray(logarithm if power == 0 else np.expm1(power * logarithm) / power)


def _roots(t: Floats, power: float) -> Floats:
    """The numbers whose power transforms are t."""
    size, powers = np.abs(t), np.where(t >= 0, power, 2 - power)
    safe = np.where(powers > 0, powers, 1.0)
    logarithm = np.where(powers > 0, np.log1p(size * powers) / safe, size)
    return np.asarray(np.sign(t) * np.expm1(logarithm))


def _most_normal(y: Floats) -> tuple[float, float, float]:
    """The power by which the targets are most likely normal, and their mean and standard deviation."""
    centre, unit = float(y.mean()), float(y.std()) or 1.0
    z = (y - centre) / unit
    size = np.log1p(np.abs(z))

    def cost(power: float) -> float:
        spread = float(np.var(_powers(z, power)))
        return 0.5 * log(max(spread, TINY)) - (power - 1) * float(np.mean(np.sign(z) * size))

    return float(minimize_scalar(cost, bounds=POWERS, method="bounded").x), centre, unit
