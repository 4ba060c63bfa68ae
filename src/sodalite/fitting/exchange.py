"""Replace active rows that have become unimportant by others, after new rows have joined a model.

J is the log density of the active targets plus that of the remainder given the active rows. An active row that is
removed joins the remainder: its own term moves from the one part to the other, so J loses what the densities of the
other rows lose. With P = (k(I, I) + noise)^-1, a = P y_I and g(x) = P k(I, x), removing the active row i changes

    mu(x) by -g_i(x) a_i / P_ii        s^2(x) by g_i(x)^2 / P_ii

for all i at once. Rows are removed one by one, each time the one whose removal costs a sample of the remainder the
least log density; P, a and g then follow by an update of rank one. It is the look-ahead of `sodalite.selection`
backwards (docs/method.rst, `look-ahead`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import numpy as np

from ..core.threads import one_blas_thread
from ..core.types import Floats, Indices
from ..hyperparameters.joint import Joint
from ..posteriors import Evidence
from ..posteriors.sod import SubsetOfData
from ..selection.lookahead import draw_sample
from ..selection.loop import Selection
from ..selection.rows import in_memory

N_SAMPLE = 1000  # rows of the remainder by which removals are compared, as in `Lookahead`: O(m) each for a removal
N_JUDGED = 4000  # rows on which J before and after is compared; more than N_SAMPLE, since this decides what is kept
TRIES = 3  # exchanges that are tried, each of half as many rows; every one costs a selection


def exchanged(
    evidence: Evidence, choose: Callable[[Indices], Selection], n_old: int, generator: np.random.Generator
) -> Selection:
    """Return a selection of as many rows with a larger J, if exchanging active rows finds one; else the present one.

    The share of active rows that are removed is the share of new rows among all rows, less the new rows that are active
    already. If J of a sample of all rows does not rise, half as many are tried, up to `TRIES` times.

    Parameters
    ----------
    evidence : Evidence
        All rows, and the present selection.
    choose : callable
        Continues a selection from some active rows, given as indices.
    n_old : int
        The number of rows before the new ones joined; rows from this index on are new.
    generator : numpy.random.Generator
    """
    selection, n = evidence.selection, evidence.rows.shape[0]
    active, m = selection.indices, len(selection)
    count = min(ceil(m * (n - n_old) / n) - int((active >= n_old).sum()), m - 1)
    if count < 1 or m == n:
        return selection
    order = least_missed(evidence, draw_sample(active, n, N_SAMPLE, generator), count)
    judged = np.sort(generator.permutation(n)[:N_JUDGED])
    before = _joint(evidence, selection, judged)
    for _ in range(TRIES):
        other = choose(np.delete(active, order[:count]))
        if _joint(evidence, other, judged) > before:
            return other
        count //= 2
        if not count:
            break
    return selection


def _joint(evidence: Evidence, selection: Selection, sample: Indices) -> float:
    """J per target value, with the remainder estimated from the rows `sample`."""
    kernel, rows = evidence.kernel.spec, in_memory(evidence.rows)
    return Joint(kernel, rows.X, rows.y, selection.indices, sample, rows.alpha)(kernel.theta)[0]


@one_blas_thread()
def least_missed(evidence: Evidence, sample: Indices, count: int) -> list[int]:
    """Return the places of active rows to remove, in the order of removal. O(m^3 + m^2 sample) for up to m rows.

    Parameters
    ----------
    evidence : Evidence
    sample : array of int
        Rows that are not active, by whose log density removals are compared.
    count : int
        The number of rows to remove, fewer than there are active ones.
    """
    (block, noise), base = evidence.read(sample), SubsetOfData.condition(evidence)
    mean, variance = base.mean_and_variance(block.X)
    r, variance = block.y - mean, variance + noise
    P, a = base.inverse.T @ base.inverse, base.weights
    g = P @ base.kernel.block(base.rows, base.kernel.prepare(block.X))
    left, removed = np.ones(len(a), dtype=bool), []
    for _ in range(count):
        pivot = np.where(left, np.diag(P), 1.0)
        step = a / pivot[:, None]  # the residuals of x grow by g_i(x) times this
        wider = variance + g**2 / pivot[:, None]
        i = int(np.where(left, _cost(r, wider, g, step), np.inf).argmin())
        removed.append(i)
        left[i] = False
        r, variance = r + np.multiply.outer(g[i], step[i]), wider[i]
        share = P[:, i] / pivot[i]
        g, a, P = (part - np.multiply.outer(share, part[i]) for part in (g, a, P))
    return removed


def _cost(r: Floats, wider: Floats, g: Floats, step: Floats) -> Floats:
    """Minus twice the sample's log density after the removal of each active row, up to a constant; of shape (m,).

    Parameters
    ----------
    r : array of shape (sample, q)
        Residuals now.
    wider : array of shape (m, sample)
        Variances of the observations, after each removal.
    g, step : arrays of shape (m, sample), (m, q)
        The residuals after each removal are r + g_i(x) step_i.
    """
    squares = (r * r).sum(axis=1) + 2 * g * (step @ r.T) + g**2 * (step * step).sum(axis=1)[:, None]
    return np.asarray((squares / wider + r.shape[1] * np.log(wider)).sum(axis=1))
