"""Hyperparameters by maximum likelihood on a random subset of the rows: the paper's way (appendix A.3), made robust.

The method is described in docs/method.rst, `hyperparameters`. A likelihood has many maxima, and a single start can end
at one that explains everything as noise. So there are many starts, placed by the data. Each climbs a few steps on few
rows, the best two climb more steps on all rows of the subset, and the better of these goes on to its maximum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from time import perf_counter

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.types import Floats
from ..kernels import variation
from .climb import TIGHT, climb, climb_all
from .likelihood import Likelihood
from .parameters import clipped, free_parameters, natural_scale, set_shares
from .task import Found, Progress, Round, Task, arrays_of

SCREEN_STEPS = 20  # steps from every start, on few rows: enough to tell which starts are hopeless
SHORT_STEPS = 12  # steps from the best starts, on all rows of the subset
SCREEN_PART, SHORT_PART, OTHER_PART, LAST_PART = 4.0, 2.0, 1.0, 4.0  # weights of the parts of a search, by their time
N_LEADERS = 2  # starts that go on from few rows to all of them
NOISE_SHARES = (0.02, 0.5)  # shares of the noise in the targets' variance, in starts placed by the data


@dataclass(frozen=True)
class Subset:
    """Maximise the log marginal likelihood of a random subset of the rows.

    Parameters
    ----------
    n_rows : int, default=1000
        Rows in the subset. One evaluation costs O(n_rows^3).
    n_starts : int, default=12
        Starts that are tried on `n_screen` rows. The kernel as given is always one of them.
    n_screen : int, default=300
        Rows on which the starts are compared.
    n_steps : int, default=60
        Steps of the last climb.
    """

    n_rows: int = 1000
    n_starts: int = 12
    n_screen: int = 300
    n_steps: int = 60

    def find(self, task: Task, kernels: Sequence[Kernel], generator: np.random.Generator) -> Found:
        """The kernel that makes the subset most likely, at the best hyperparameters found.

        Parameters
        ----------
        task : Task
        kernels : sequence of scikit-learn kernels
            Where to start; their bounds and fixed parameters are kept to. Of several, the first is started from many
            places, the others from where it got to.
        generator : numpy.random.Generator
        """
        first = kernels[0]
        if first.n_dims == 0:
            return Found(first.clone_with_theta(first.theta))
        began = perf_counter()
        end = began + task.seconds
        part = task.take(generator.permutation(len(task.X))[: self.n_rows])
        X, y, alpha = arrays_of(part)
        starts = starting_points(first, X, y, self.n_starts, generator)
        total = SCREEN_PART + SHORT_PART + OTHER_PART * (len(kernels) - 1) + LAST_PART
        progress = Progress(task.report, total)
        progress.begin(f"{len(starts)} starts", SCREEN_PART)
        leaders = self._screened(first, X, y, alpha, starts, end)

        bounds = first.bounds
        whole = Likelihood(first, X, y, alpha)
        progress.begin("the best starts", SHORT_PART)
        ends = [climb_all(whole, [*leaders, starts[0]], bounds, SHORT_STEPS, end)[0]]
        for other in kernels[1:]:
            progress.begin("another shape", OTHER_PART)
            ends.append(climb(Likelihood(other, X, y, alpha), ends[0][1], bounds, SHORT_STEPS, end))
        rounds = []
        for kernel, (value, theta) in zip(kernels, ends, strict=True):
            rounds.append(Round("a short run", kernel.clone_with_theta(theta), value, False, perf_counter() - began))
            began = perf_counter()
        best = int(np.argmax([value for value, _ in ends]))
        progress.begin("the best shape", LAST_PART)
        whole = Likelihood(kernels[best], X, y, alpha)
        value, theta = climb(whole, ends[best][1], bounds, self.n_steps, end, TIGHT)
        found = kernels[best].clone_with_theta(theta)
        rounds.append(Round("to the end", found, value, True, perf_counter() - began))
        return Found(found, tuple(rounds))

    def _screened(
        self, kernel: Kernel, X: Floats, y: Floats, alpha: Floats | None, starts: list[Floats], end: float
    ) -> list[Floats]:
        """Log-parameters that the best starts get to on the first `n_screen` rows, revived if there are more rows."""
        few = slice(0, self.n_screen)
        screen = Likelihood(kernel, X[few], y[few], None if alpha is None else alpha[few])
        ends = climb_all(screen, starts, kernel.bounds, SCREEN_STEPS, end)[:N_LEADERS]
        leaders = [theta for _, theta in ends]
        return [revive(theta, kernel, X) for theta in leaders] if len(X) > self.n_screen else leaders


def starting_points(kernel: Kernel, X: Floats, y: Floats, count: int, generator: np.random.Generator) -> list[Floats]:
    """Log-parameters to start from, each of shape (p,): the kernel's own, then points placed by the data.

    Every other point sets all length-scales to a multiple of their inputs' spread times sqrt(d), and shares the
    targets' variance out between noise and signal; the rest are moved at random from the kernel's own.
    """
    starts = [kernel.theta]
    parameters, variance = free_parameters(kernel), variation(y)
    spacing = len(X) ** (-1 / X.shape[1])  # between rows, if they filled a cube: no shorter scale can be seen
    factors = (1.0, spacing**0.5, 0.5, spacing**0.75, 2.0)
    pairs = [(factor, share) for share in NOISE_SHARES for factor in factors]
    while len(starts) < count:
        theta = kernel.theta + generator.normal(0, 1, kernel.n_dims)
        if len(starts) % 2:
            factor, share = pairs[len(starts) // 2 % len(pairs)]
            for name, here in parameters:
                if name == "length_scale":
                    theta[here] = log(factor) + natural_scale(X, here)
            set_shares(variance, share, theta, parameters)
        starts.append(theta)
    return [clipped(theta, kernel) for theta in starts]


def revive(theta: Floats, kernel: Kernel, X: Floats) -> Floats:
    """Log-parameters with inputs that few rows made irrelevant brought back to where more rows can tell.

    An input whose length-scale has run off to infinity has no gradient left, so a likelihood that is raised on few rows
    first would never find it again. (On pumadyn32nm, 300 rows find two of the four inputs that matter.)
    """
    theta = theta.copy()
    for name, here in free_parameters(kernel):
        if name == "length_scale" and here.stop - here.start > 1:
            theta[here] = np.minimum(theta[here], log(2) + natural_scale(X, here))
    return clipped(theta, kernel)
