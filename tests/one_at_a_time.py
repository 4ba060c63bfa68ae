"""The greedy loop on the factor, one row at a time over all rows: the oracle that is fast enough for real data."""

import numpy as np

from sodalite.core.jitter import JITTER
from sodalite.kernels import compile_kernel, take
from sodalite.scores import Delta, best


def select(X, y, kernel, *, n_active, first, score=None, tol=None, V=None, alpha=0.0):
    """Indices, RMSE path and factor. y may have several columns. O(n m) memory, which may be given as V.

    `alpha` is noise variance that the rows have beyond the kernel's.
    """
    score = score or Delta()
    n, Y = len(X), np.asarray(y, dtype=float).reshape(len(X), -1)
    compiled = compile_kernel(kernel, X)
    features = compiled.prepare(X)
    s2, r = compiled.diag(features), Y.copy()
    noise = np.maximum(compiled.noise(features) + alpha, JITTER[np.dtype(float)] * s2.max())
    V, L = np.empty((n_active, n)) if V is None else V, np.zeros((n_active, n_active))
    left = np.ones(n, dtype=bool)
    indices, rmse = [], []
    j = first
    while True:
        t = len(indices)
        p = np.sqrt(s2[j] + noise[j])
        L[t, :t], L[t, t] = V[:t, j], p
        V[t] = (compiled.block(take(features, [j]), features)[0] - V[:t, j] @ V[:t]) / p
        s2 -= V[t] ** 2
        r -= np.multiply.outer(V[t], r[j] / p)
        left[j] = False
        indices.append(j)
        rmse.append(np.sqrt(np.mean(r[left] ** 2)) if left.any() else np.nan)
        if not left.any() or t + 1 == n_active or (tol is not None and t and rmse[-2] - rmse[-1] < tol):
            return np.array(indices), np.array(rmse), L[: t + 1, : t + 1]
        rows = np.flatnonzero(left)
        abs_r = np.sqrt(np.mean(r[rows] ** 2, axis=1))
        j = int(rows[best(score(np.sqrt(np.maximum(s2[rows], 0)), abs_r, noise[rows]))])
