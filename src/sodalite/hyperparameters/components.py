"""Other components of a kernel that compete: a trend, a second scale, periods (docs/method.rst, `components`).

A kernel has the form signal + noise, and a component is added to the signal. On a small table the exact likelihood says
whether it stays (`sodalite.hyperparameters.exact`). With more rows, the likelihoods of a few sets of rows say whether a
component is worth a trial, and where it should start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from math import inf, log

import numpy as np
from sklearn.gaussian_process import kernels as spec
from sklearn.gaussian_process.kernels import Kernel

from ..core.types import Floats, Indices
from ..kernels import compile_kernel
from ..kernels.forms import candidate_periods, second_scale, with_period, with_trend
from ..kernels.neighbours import Neighbours
from .climb import Objective, climb, climb_all
from .likelihood import log_marginal_likelihood
from .objectives import Groups, Neighbourhoods
from .parameters import VARIANCES, clipped, free_parameters

Form = Callable[[Kernel], Kernel]
"""Adds a component to a kernel."""

FEWEST = 8  # rows of a small table below which no component is tried: they could not tell
SECOND_SCALE = {"ratio": 0.3, "share": 0.2}  # where a second scale starts: its length-scales and variance, as shares
FEW_INPUTS = 3  # inputs up to which periods are sought in the targets themselves
LEAST_GAIN = 5.0  # nats by which a component must make the rows of the judging windows, 4 * WINDOW, more likely
STEPS = 20  # steps of every climb, with and without the component: enough to compare them
N_CLIMBED = 2  # points of the grid that are climbed from; each costs as much as all of the grid
WINDOW = 192  # rows in a set whose likelihood is raised, or judges: O(WINDOW^3) each

# A far scale: where its length-scales and its variance start, as multiples of the first component's, and by how much
# all other variances may be less. Each is a factor between the first and the last of those that are tried.
FAR_RATIOS, FAR_SHARES, FAR_LESS = (2.0, 8.0, 32.0, 128.0, 512.0), (0.03, 0.1, 0.3, 1.0, 10.0), (0.01, 0.1, 0.3, 1.0)
FAR_WINDOW = 384  # rows in a random set whose likelihood places a far scale, or judges it: O(FAR_WINDOW^3)

# The grid of starting points: factors by which parameters differ from those that the kernel and the form suggest.
LESS = (1.0, 0.03)  # variances of the components that were there
LONGER = (1.0, 8.0, 64.0)  # length-scales of the components that were there
SHARES = (1.0, 0.1, 0.01)  # variance of the new component
FLATTER = 300.0  # the new component's length-scale in an input that it hardly depends on


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


def candidates(X: Floats, y: Floats, X_judged: Floats, errors: Floats) -> list[tuple[str, Form]]:
    """Components that may be worth a trial, each with its name, in the order of trial.

    With few inputs, periods are sought in the targets y of rows X: rows that lie close together predict each other so
    well that their errors show no period, although it would help where rows are missing. With many inputs, no rows lie
    close together, and periods are sought in the errors of the best kernel so far, of shape (rows, q), at `X_judged`.
    """
    return period_forms(X, y) if X.shape[1] <= FEW_INPUTS else period_forms(X_judged, errors)


def enriched(
    kernel: Kernel,
    form: Form,
    groups: Groups,
    density: Callable[[Kernel], float],
    generator: np.random.Generator,
    end: float = inf,
) -> list[tuple[Kernel, float]]:
    """Kernels with one more component that make other rows more likely, each with its gain per target value.

    The kernel with the component and the kernel without it are both raised on some windows of rows, and compared on
    other windows.

    Parameters
    ----------
    kernel : scikit-learn kernel
    form : callable
        Adds the component.
    groups : Groups
    density : callable
        How well a kernel predicts; where several starts lead to a gain, the kernel that predicts best comes first.
    generator : numpy.random.Generator
        Draws the windows.
    end : float
        A time by `time.perf_counter`, after which no step of a climb begins but the first.
    """
    windows = _windows(kernel, groups, generator)
    tried = _raised_with(kernel, form(kernel), groups, windows, end)
    objective = Neighbourhoods(kernel, groups.X, groups.y, windows, groups.alpha)
    without = kernel.clone_with_theta(climb(objective, kernel.theta, kernel.bounds, STEPS, end)[1])

    judging = _windows(kernel, groups, generator)
    size = sum(map(len, judging)) * groups.y.shape[1]
    before = max((_likelihoods(each, groups, judging) for each in (kernel, without)), key=np.sum)
    found = []
    for richer in tried:
        gains = _likelihoods(richer, groups, judging) - before
        if gains.sum() > LEAST_GAIN and np.median(gains) > 0:
            found.append((richer, float(gains.sum()) / size))
    return found if len(found) < 2 else sorted(found, key=lambda each: -density(each[0]))


def two_scales(kernels: Sequence[Kernel]) -> Kernel | None:
    """The sum of a smooth component and a rough one, from which to climb; None if there is none of either.

    Parameters
    ----------
    kernels : sequence of scikit-learn kernels
        The best first, each the sum of one component and noise.
    """
    rough = next((each for each in kernels if _is_rough(each)), None)
    smooth = next((each for each in kernels if not _is_rough(each)), None)
    if rough is None or smooth is None:
        return None
    less_noise = min((rough, smooth), key=lambda each: each.k2.noise_level).k2
    return spec.Sum(spec.Sum(_half(smooth.k1), _half(rough.k1)), less_noise)


def _half(component: Kernel) -> Kernel:
    """A component with half the variance."""
    theta = component.theta.copy()
    theta[0] -= log(2)
    return component.clone_with_theta(theta)


def _is_rough(kernel: Kernel) -> bool:
    """Whether the component of a kernel is a Matern 1/2."""
    return getattr(kernel.k1.k2, "nu", None) == 0.5


def with_far_scale(
    kernel: Kernel, groups: Groups, scattered: Indices, generator: np.random.Generator, end: float = inf
) -> Kernel | None:
    """The kernel with a component of longer length-scales, if that makes rows far from each other more likely.

    Rows that lie close together predict each other by a short length-scale, however the function varies over long
    distances. Where rows are missing, such a kernel knows nothing but the mean of all targets.

    Only three numbers are sought, by the likelihood of random rows: the length-scales and the variance of the new
    component, as multiples of the first component's, and a factor of all other variances. These, noise included, keep
    their ratios, on which predictions from near rows depend. (Shorter length-scales instead of less noise, at the same
    variance / length-scale^(2 nu), gave the same in gaps of 24 real sets, and error bars of half the size in a hole of
    a map of mountains, where they were right before.)

    Parameters
    ----------
    kernel : scikit-learn kernel
    groups : Groups
    scattered : array of int
        Which rows of `groups` are a random sample of all rows.
    generator : numpy.random.Generator
    end : float
        A time by `time.perf_counter`, after which no step of the climb begins but the first.
    """
    first, second, *judging = np.array_split(generator.permutation(scattered)[: 4 * FAR_WINDOW], 4)
    richer = second_scale(kernel, ratio=1.0, share=1.0)
    directions = _far_directions(kernel, richer)

    def along(likelihoods: Neighbourhoods) -> Objective:
        def value_and_gradient(place: Floats) -> tuple[float, Floats]:
            value, gradient = likelihoods(clipped(richer.theta + directions @ place, richer))
            return value, directions.T @ gradient

        return value_and_gradient

    objective, coarse = (
        along(Neighbourhoods(richer, groups.X, groups.y, some, groups.alpha))
        for some in ([first, second], [first[:WINDOW]])
    )
    factors = [np.log(each) for each in (FAR_RATIOS, FAR_SHARES, FAR_LESS)]
    start = max(map(np.array, product(*factors)), key=lambda place: coarse(place)[0])
    bounds = np.array([(each[0], each[-1]) for each in factors])
    place = climb(objective, start, bounds, STEPS, end)[1]
    found = richer.clone_with_theta(clipped(richer.theta + directions @ place, richer))
    gains = _likelihoods(found, groups, judging) - _likelihoods(kernel, groups, judging)
    return found if gains.sum() > LEAST_GAIN and gains.min() > 0 else None


def _far_directions(kernel: Kernel, richer: Kernel) -> Floats:
    """How log-parameters change with the logarithms of the three factors of a far scale; of shape (p, 3).

    The parameters of the new component come after those of the other kernel, but before its noise, which is last.
    """
    new = range(int(kernel.n_dims) - 1, int(richer.n_dims) - 1)
    directions = np.zeros((richer.n_dims, 3))
    for name, here in free_parameters(richer):
        if here.start in new:
            directions[here, 0 if name == "length_scale" else 1] = 1
        elif name in VARIANCES:
            directions[here, 2] = 1
    return directions


def _raised_with(kernel: Kernel, richer: Kernel, groups: Groups, windows: list[Indices], end: float) -> list[Kernel]:
    """The kernel with one more component, `richer`, climbed from the best points of a grid, the highest first.

    The points are compared on one window of neighbours and one of random rows.
    """
    objective, coarse = (
        Neighbourhoods(richer, groups.X, groups.y, some, groups.alpha) for some in (windows, windows[1:3])
    )
    starts = sorted(_grid(kernel, richer), key=lambda theta: -coarse(theta)[0])
    ends = climb_all(objective, starts[:N_CLIMBED], richer.bounds, STEPS, end)
    return [richer.clone_with_theta(theta) for _, theta in ends]


def _windows(kernel: Kernel, groups: Groups, generator: np.random.Generator) -> list[Indices]:
    """Two windows of neighbouring rows, then two of random rows."""
    order = generator.permutation(len(groups.X))
    size = min(WINDOW, len(order))
    near = Neighbours(compile_kernel(kernel, groups.X), groups.X)
    return [*near.query(groups.X[order[:2]], size), order[:size], order[-size:]]


def _grid(kernel: Kernel, richer: Kernel) -> Iterator[Floats]:
    """Log-parameters, each of shape (p,), from which to climb with a kernel that has one component more than another.

    The parameters of the new component come after those of the other kernel, but before its noise, which is last; the
    variance is the first of them. With a few inputs, the new component may also be nearly constant in one of them: for
    instance a season that is the same every year.
    """
    new, old = int(kernel.n_dims) - 1, free_parameters(kernel)
    scales = [here for name, here in free_parameters(richer) if name == "length_scale" and here.start > new]
    has_several = bool(scales) and 1 < scales[0].stop - scales[0].start <= FEW_INPUTS
    inputs = range(scales[0].start, scales[0].stop) if has_several else ()
    for less, longer, share, flat in product(LESS, LONGER, SHARES, (None, *inputs)):
        theta = richer.theta.copy()
        for name, here in old:
            theta[here] += {"constant_value": log(less), "length_scale": log(longer)}.get(name, 0.0)
        theta[new] += log(share)
        if flat is not None:
            theta[flat] += log(FLATTER)
        yield clipped(theta, richer)


def _likelihoods(kernel: Kernel, groups: Groups, windows: Sequence[Indices]) -> Floats:
    """The log likelihood of every window; of shape (windows,)."""
    compiled = compile_kernel(kernel, groups.X)
    X, y, alpha = groups.X, groups.y, groups.alpha
    return np.array([log_marginal_likelihood(compiled, X[w], y[w], alpha[w])[0] for w in windows])
