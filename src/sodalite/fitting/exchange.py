"""Active rows that no longer help, given up for others that do.

An active row that is given up joins the remainder, and its own term of J only moves from one part to the other. So what
J loses is what the other rows' densities lose. With P = (k(I, I) + noise)^-1, a = P y and g(x) = P k(I, x), without the
active row i

    mu(x) falls by g_i(x) a_i / P_ii        s^2(x) grows by g_i(x)^2 / P_ii

for all i at once. Each time, the row that a sample of the remainder misses least is given up, and P, a and g are
brought up to date by an update of rank one. It is looking ahead (`sodalite.selection.lookahead`), backwards.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import numpy as np

from ..core.threads import one_blas_thread
from ..core.types import Array
from ..hyperparameters.joint import Joint
from ..posteriors import Evidence
from ..posteriors.sod import SubsetOfData
from ..selection.lookahead import draw_sample
from ..selection.loop import Selection
from ..selection.source import in_memory

N_SAMPLE = 1000  # rows of the remainder that say which active row is missed least, ...
N_JUDGED = 4000  # ... and of all rows, which say whether an exchange was worth it
TRIES = 3


def exchanged(
    evidence: Evidence, choose: Callable[[Array], Selection], n_old: int, generator: np.random.Generator
) -> Selection:
    """A better choice of as many rows, if giving up some for others leads to one; else the same.

    As large a share of the active rows is given up as is new among all rows, less those that are new already; if J, of
    a sample of all rows, does not rise, half as many, and half of these again.

    Parameters
    ----------
    evidence : Evidence
        All rows, and the choice so far.
    choose : callable
        Goes on choosing from some active rows.
    n_old : int
        How many of the rows were there before; those from there on are new.
    generator : numpy.random.Generator
    """
    selection, n = evidence.selection, len(evidence.X)
    active, m = selection.indices, len(selection)
    count = min(ceil(m * (n - n_old) / n) - int((active >= n_old).sum()), m - 1)
    if count < 1 or m == n:
        return selection
    order = least_missed(evidence, draw_sample(active, n, N_SAMPLE, generator), count)
    judged = np.sort(generator.permutation(n)[:N_JUDGED])

    def joint(choice: Selection) -> float:
        kernel, rows = evidence.kernel.spec, in_memory(evidence.source)
        return Joint(kernel, rows.X, rows.y, choice.indices, judged, rows.alpha)(kernel.theta)[0]

    before = joint(selection)
    for _ in range(TRIES):
        other = choose(np.delete(active, order[:count]))
        if joint(other) > before:
            return other
        count //= 2
        if not count:
            break
    return selection


@one_blas_thread()
def least_missed(evidence: Evidence, sample: Array, count: int) -> list[int]:
    """The places of active rows that may be given up, the one least missed first. O(m^3 + m^2 sample) for up to m rows.

    Parameters
    ----------
    evidence : Evidence
    sample : array of int
        Rows that are not active.
    count : int
        How many to give up: fewer than there are.
    """
    X, y, base = evidence.X[sample], evidence.y[sample], SubsetOfData.condition(evidence)
    mean, variance = base.mean_and_variance(X)
    r, variance = y - mean, variance + evidence.noise(sample)
    P, a = base.inverse.T @ base.inverse, base.weights
    g = P @ base.kernel.block(base.rows, base.kernel.prepare(X))
    left, found = np.ones(len(a), dtype=bool), []
    for _ in range(count):
        pivot = np.where(left, np.diag(P), 1.0)
        step = a / pivot[:, None]  # times g, what residuals would grow by
        squares = (r * r).sum(axis=1) + 2 * g * (step @ r.T) + g**2 * (step * step).sum(axis=1)[:, None]
        wider = variance + g**2 / pivot[:, None]
        cost = (squares / wider + y.shape[1] * np.log(wider)).sum(
            axis=1
        )  # minus twice the log density, but for a constant
        i = int(np.where(left, cost, np.inf).argmin())
        found.append(i)
        left[i] = False
        r, variance = r + np.multiply.outer(g[i], step[i]), wider[i]
        share = P[:, i] / pivot[i]
        g, a, P = (part - np.multiply.outer(share, part[i]) for part in (g, a, P))
    return found
