"""Other components of a kernel that compete, where there are too many rows for an exact likelihood.

A second scale, or a period that the targets show. The likelihoods of a few sets of rows say whether one is worth a
trial, and where it should start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import log

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.types import Array
from ..kernels import compile_kernel
from ..kernels.neighbours import Neighbours
from .exact import Form, period_forms, second_scale_form
from .objectives import Groups, Neighbourhoods
from .subset import climb, climb_all, free_parameters, log_marginal_likelihood

FEW_INPUTS = 3  # up to which a second scale is tried (with more, it was never better), and all periods
LEAST_GAIN = 5.0  # nats by which another component must make other rows, some thousand, more likely
FLATTER = 300.0  # by which a length-scale is longer in an input that a component is all but constant in
STEPS = 20  # of every climb
N_CLIMBED = 2  # starts of another component that are climbed
WINDOW = 192  # rows of a set whose likelihood is raised, or judges


def candidates(rows: Groups, others: Array, errors: Array) -> list[tuple[str, Form]]:
    """Components that may be worth a trial, each with its name, in the order of trial.

    With few inputs, periods are sought in the targets: rows that lie close together predict each other so well that
    their errors show no period, which would still be worth knowing where rows are missing. With many inputs, no rows
    lie close together, and periods are sought in the errors that the best kernel so far makes on `others`.
    """
    if rows.X.shape[1] <= FEW_INPUTS:
        return [second_scale_form(), *period_forms(rows.X, rows.y)]
    return period_forms(others, errors)


def enriched(
    kernel: Kernel,
    form: Form,
    rows: Groups,
    density: Callable[[Kernel], float],
    generator: np.random.Generator,
) -> list[tuple[Kernel, float]]:
    """The kernel with another component, if that makes other rows more likely, and by how much per target value.

    Likelihoods are those of windows of neighbouring rows and of random rows. Some are raised, from the best of a grid
    of variances and length-scales of what was there and variances of the new component, and for the kernel as it was;
    others judge. Where several starts lead to something, the one that `density` says predicts rows best comes first.
    """
    richer = form(kernel)
    windows = _windows(kernel, rows, generator)
    objective, coarse = (Neighbourhoods(richer, rows.X, rows.y, some, rows.alpha) for some in (windows, windows[1:3]))
    starts = sorted(_grid(kernel, richer), key=lambda theta: -coarse(theta)[0])
    ends = climb_all(objective, starts[:N_CLIMBED], richer.bounds, STEPS)
    without = Neighbourhoods(kernel, rows.X, rows.y, windows, rows.alpha)
    raised = kernel.clone_with_theta(climb(without, kernel.theta, kernel.bounds, STEPS)[1])
    windows = _windows(kernel, rows, generator)
    plain = max((_likelihoods(each, rows, windows) for each in (kernel, raised)), key=np.sum)
    found = []
    for _, theta in ends:
        tried = richer.clone_with_theta(theta)
        gains = _likelihoods(tried, rows, windows) - plain
        if gains.sum() > LEAST_GAIN and np.median(gains) > 0:
            found.append((tried, float(gains.sum()) / (sum(map(len, windows)) * rows.y.shape[1])))
    return found if len(found) < 2 else sorted(found, key=lambda each: -density(each[0]))


def _windows(kernel: Kernel, rows: Groups, generator: np.random.Generator) -> list[Array]:
    """Two windows of neighbouring rows and two random sets of rows."""
    order = generator.permutation(len(rows.X))
    size = min(WINDOW, len(order))
    near = Neighbours(compile_kernel(kernel, rows.X), rows.X)
    return [*near.query(rows.X[order[:2]], size), order[:size], order[-size:]]


def _grid(kernel: Kernel, richer: Kernel) -> Iterator[Array]:
    """Log-parameters of a kernel that has one component more than another, to start from.

    The other's variances are less and its length-scales longer by some factors; so is the new component's variance,
    whose place among the parameters is before the noise, which comes last. With a few inputs, the new component may
    also be all but constant in one of them: a season that is the same every year, for one.
    """
    new, old = int(kernel.n_dims) - 1, free_parameters(kernel)
    scales = [here for name, here in free_parameters(richer) if name == "length_scale" and here.start > new]
    several = bool(scales) and 1 < scales[0].stop - scales[0].start <= FEW_INPUTS
    inputs = range(scales[0].start, scales[0].stop) if several else ()
    for less, longer, share, flat in product((1.0, 0.03), (1.0, 8.0, 64.0), (1.0, 0.1, 0.01), (None, *inputs)):
        theta = richer.theta.copy()
        for name, here in old:
            theta[here] += {"constant_value": log(less), "length_scale": log(longer)}.get(name, 0.0)
        theta[new] += log(share)
        if flat is not None:
            theta[flat] += log(FLATTER)
        yield np.clip(theta, richer.bounds[:, 0], richer.bounds[:, 1])


def _likelihoods(kernel: Kernel, rows: Groups, windows: Sequence[Array]) -> Array:
    """The log likelihood of each of some sets of rows."""
    compiled = compile_kernel(kernel, rows.X)
    return np.array([log_marginal_likelihood(compiled, rows.X[w], rows.y[w], rows.alpha[w])[0] for w in windows])
