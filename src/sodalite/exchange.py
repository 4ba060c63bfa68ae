"""Active rows that no longer help, given up for others that do.

An active row that is given up joins the remainder, and its own term of J only moves from one part to the other. So what
J loses is what the other rows' densities lose. With P = (k(I, I) + noise)^-1, a = P y and g(x) = P k(I, x), without the
active row i

    mu(x) falls by g_i(x) a_i / P_ii        s^2(x) grows by g_i(x)^2 / P_ii

for all i at once. Each time, the row that a sample of the remainder misses least is given up, and P, a and g are
brought up to date by an update of rank one. It is looking ahead (`sodalite.lookahead`), backwards.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.gaussian_process.kernels import Kernel

from .hyperparameters.joint import Joint
from .kernels import compile_kernel
from .loop import Selection
from .threads import one_blas_thread

Array = NDArray[Any]

N_SAMPLE = 1000  # rows of the remainder that say which active row is missed least, ...
N_JUDGED = 4000  # ... and of all rows, which say whether an exchange was worth it
TRIES = 3


def exchanged(
    selection: Selection,
    choose: Callable[[Array], Selection],
    kernel: Kernel,
    X: Array,
    y: Array,
    alpha: Array | None,
    n_old: int,
    generator: np.random.Generator,
) -> Selection:
    """A better choice of as many rows, if giving up some for others leads to one; else the same.

    As large a share of the active rows is given up as is new among all rows, less those that are new already; if J does
    not rise, half as many, and half of these again.

    Parameters
    ----------
    selection : Selection
    choose : callable
        Goes on choosing from some active rows.
    kernel, X, y, alpha
        The kernel and all rows; y of shape (n, q), alpha the rows' own noise or None.
    n_old : int
        How many of the rows were there before; those from there on are new.
    generator : numpy.random.Generator
    """
    n, m = len(X), len(selection)
    rows = np.sort(generator.permutation(n)[:N_JUDGED])

    def joint(choice: Selection) -> float:
        return Joint(kernel, X, y, choice.indices, rows, alpha)(kernel.theta)[0]

    count = min(ceil(m * (n - n_old) / n) - int((selection.indices >= n_old).sum()), m - 1)
    if count < 1 or m == n:
        return selection
    remainder = generator.permutation(np.setdiff1d(np.arange(n), selection.indices))[:N_SAMPLE]
    order = least_missed(kernel, X, y, alpha, selection, remainder, count)
    before = joint(selection)
    for _ in range(TRIES):
        other = choose(np.delete(selection.indices, order[:count]))
        if joint(other) > before:
            return other
        count //= 2
        if not count:
            break
    return selection


@one_blas_thread()
def least_missed(
    kernel: Kernel, X: Array, y: Array, alpha: Array | None, selection: Selection, sample: Array, count: int
) -> list[int]:
    """The places of active rows that may be given up, the one least missed first. O(m^3 + m^2 sample) for up to m rows.

    Parameters
    ----------
    kernel, X, y, alpha
        As in `exchanged`.
    selection : Selection
    sample : array of int
        Rows that are not active.
    count : int
        How many to give up: fewer than there are.
    """
    compiled, active, q = compile_kernel(kernel, X), selection.indices, y.shape[1]
    rows, others = compiled.prepare(X[active]), compiled.prepare(X[sample])

    def noise(rows: Any, places: Array) -> Array:
        own = 0.0 if alpha is None else alpha[places]
        return np.maximum(compiled.noise(rows) + own, selection.noise_floor)

    A, C = compiled.block(rows, rows), compiled.block(rows, others)
    A = A + np.diag(noise(rows, active))
    P = cho_solve(cho_factor(A, lower=True), np.eye(len(active)))
    a, g = P @ y[active], P @ C
    r = y[sample] - C.T @ a
    variance = np.maximum(compiled.diag(others) - np.einsum("ij,ij->j", C, g), 0) + noise(others, sample)
    left, found = np.ones(len(active), dtype=bool), []
    for _ in range(count):
        pivot = np.where(left, np.diag(P), 1.0)
        step = a / pivot[:, None]  # times g, what residuals would grow by
        squares = (r * r).sum(axis=1) + 2 * g * (step @ r.T) + g**2 * (step * step).sum(axis=1)[:, None]
        wider = variance + g**2 / pivot[:, None]
        cost = (squares / wider + q * np.log(wider)).sum(axis=1)  # minus twice the log density, but for a constant
        i = int(np.where(left, cost, np.inf).argmin())
        found.append(i)
        left[i] = False
        r, variance = r + np.multiply.outer(g[i], step[i]), wider[i]
        share = P[:, i] / pivot[i]
        g, a, P = (part - np.multiply.outer(share, part[i]) for part in (g, a, P))
    return found
