"""Other components of a kernel that compete: a trend, a second scale, periods (docs/method.rst, `components`).

A kernel has the form signal + noise, and a component is added to the signal. Whether it stays, the objective of the
search says (`sodalite.hyperparameters.search`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from sklearn.gaussian_process import kernels as spec
from sklearn.gaussian_process.kernels import Kernel

from ..core.types import Floats
from ..kernels.forms import candidate_periods, second_scale, with_period, with_trend
from .parameters import clipped

Form = Callable[[Kernel], Kernel]
"""Adds a component to a kernel."""

FEWEST = 8  # rows of a small table below which no component is tried: they could not tell
FEW_INPUTS = 3  # inputs up to which periods are sought in the targets of a large table: of more, others hide them
# Where other scales start: their length-scales and variance, as shares of those of the first component.
SECOND_SCALE = {"ratio": 0.3, "share": 0.2}
LONG_SCALE, SHORT_SCALE = {"ratio": 8.0, "share": 0.5}, {"ratio": 0.2, "share": 0.2}
LONGER, SHORTER = 2.0, 0.15  # factors of the length-scales of a smooth and a rough kernel in the sum of both


def small_table_forms(X: Floats, y: Floats) -> list[tuple[str, Form]]:
    """Components to try on a small table, each with its name, in the order of trial."""
    if len(X) < FEWEST:
        return []
    second = "a second scale", partial(second_scale, **SECOND_SCALE)
    return [("a trend", partial(with_trend, X=X, y=y)), second, *period_forms(X, y)]


def period_forms(X: Floats, y: Floats) -> list[tuple[str, Form]]:
    """Components with the periods that the targets show, each with its name."""
    return [
        (
            f"period {period:.4g}" + f" in column {column}" * (X.shape[1] > 1),
            partial(with_period, period=period, column=column, X=X, y=y),
        )
        for column, period in candidate_periods(X, y)
    ]


def large_table_forms(X: Floats, y: Floats) -> list[tuple[str, Form]]:
    """Components to try on a table that is too large for its likelihood, each with its name."""
    long, short = (partial(second_scale, **scale) for scale in (LONG_SCALE, SHORT_SCALE))
    trend = partial(with_trend, X=X, y=y)
    periods = period_forms(X, y) if X.shape[1] <= FEW_INPUTS else []
    return [("a trend", trend), ("a long scale", long), ("a short scale", short), *periods]


def two_scales(shapes: Sequence[Kernel]) -> list[tuple[str, Kernel]]:
    """Sums of a smooth and a rough component, each with its name, from which to climb: either may be the longer one.

    None if there are not both, each the sum of one component and noise; the best come first.
    """
    plain = [each for each in shapes if isinstance(each, spec.Sum) and isinstance(each.k1, spec.Product)]
    rough = [each for each in plain if getattr(each.k1.k2, "nu", None) == 0.5][:1]
    smooth = [each for each in plain if getattr(each.k1.k2, "nu", None) != 0.5][:1]
    found = []
    for one, other in zip(smooth, rough, strict=False):
        noise = min((one, other), key=lambda each: float(each.k2.noise_level)).k2
        for name, factors in (("a short rough scale", (1.0, SHORTER)), ("a long rough scale", (SHORTER, LONGER))):
            parts = [_scaled(each, factor) for each, factor in zip((one, other), factors, strict=True)]
            found.append((name, spec.Sum(spec.Sum(*parts), noise)))
    return found


def _scaled(kernel: Kernel, factor: float) -> Kernel:
    """The component of a kernel, with half the variance, and length-scales times a factor, within their bounds."""
    component = kernel.k1
    theta = component.theta + np.log(factor)
    theta[0] = component.theta[0] - np.log(2)
    return component.clone_with_theta(clipped(theta, component))
