"""Algorithm 1 of the paper, line by line, in the paper's notation. Slow and short: the oracle of the tests.

    V. Lalchand and A. C. Faul (2018), A Fast and Greedy Subset-of-Data (SoD) Scheme for Sparsification in
    Gaussian processes.

`select` stores the full covariance matrix and the remainder's full posterior covariance, as the paper does, and shares
nothing with the fast code but the rule for ties and the least noise that a factor is given. `one_at_a_time` makes the
same picks from the Cholesky factor, and is fast enough for tens of thousands of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from .core.types import Array, Floats, Indices
from .criteria import best
from .kernels import compile_kernel, take
from .kernels.jitter import JITTER


def delta(std: Floats, error: Floats, noise: Floats) -> Floats:
    """The paper's selection metric (section 3.1): uncertainty plus underfit, for every row of the remainder."""
    return std + error


@dataclass(frozen=True)
class ReferenceSelection:
    """The result of Algorithm 1, I_T and R_T, and the state of stage T."""

    indices: Indices
    """I_T, in the order of choice."""
    remainder: Indices
    """R_T."""
    rmse: Floats
    """RMSE_1 to RMSE_T."""
    stop_reason: str
    """Why the selection stopped, in the terms of `sodalite.stopping.REASONS`."""
    inverse: Floats
    """(K_I + sigma_n^2 I)^-1 at stage T."""
    mean: Floats
    """mu_T over the remainder."""
    covariance: Floats
    """Sigma_T over the remainder."""


def select(
    X: Floats,
    y: Floats,
    kernel: Kernel,
    *,
    n_active: int,
    tol: float | None = None,
    first: int | None = None,
    random_state: int | None = None,
    criterion: Callable[[Floats, Floats, Floats], Floats] = delta,
) -> ReferenceSelection:
    """Algorithm 1: greedy framework for Gaussian process regression. O(n^2 t) for stage t.

    Parameters
    ----------
    X, y : arrays of shape (N, d) and (N,)
    kernel : scikit-learn kernel
        The covariance, with a ``WhiteKernel`` for the noise.
    n_active : int
        The most stages.
    tol : float, optional
        The delta of the convergence condition.
    first : int, optional
        u_1; drawn at random if not given.
    random_state : int, optional
        The seed for u_1.
    criterion : callable of (std, abs(error), noise variance)
        The paper's general selection metric.
    """
    N = len(y)
    K = kernel(X, X)  # with two arguments, scikit-learn's kernels leave out the noise
    noise = np.maximum(kernel.diag(X) - np.diag(K), JITTER[np.dtype(np.float64)] * np.diag(K).max())

    # Initialisation: pick a random target u_1.
    u = int(np.random.default_rng(random_state).integers(N)) if first is None else first
    I = [u]
    inverse = np.array([[1 / (K[u, u] + noise[u])]])
    rmse: list[float] = []

    # for each stage t:
    while True:
        t = len(I)
        R = np.setdiff1d(np.arange(N), I)

        # GP train on (X(I_t), y(I_t)), GP predict on X(R_t): equation 3.
        K_RI = K[R][:, I]
        mu = K_RI @ inverse @ y[I]
        Sigma = K[R][:, R] - K_RI @ inverse @ K_RI.T
        error = np.abs(mu - y[R])
        rmse.append(float(np.sqrt(np.mean(error**2))) if len(R) else np.nan)

        # Convergence condition: (RMSE_{t-1} - RMSE_t) < delta. I_T, with T this stage, is what is returned.
        converged = tol is not None and t > 1 and rmse[-2] - rmse[-1] < tol
        if not len(R) or converged or t >= n_active:
            reason = "all_rows" if not len(R) else "tol" if converged else "n_active"
            return ReferenceSelection(np.array(I), R, np.array(rmse), reason, inverse, mu, Sigma)

        # Compute Delta_i for all i in R_t; select i = argmax Delta_i; I_{t+1} = I_t + {i}, R_{t+1} = R_t - {i}.
        std = np.sqrt(np.maximum(np.diag(Sigma), 0))
        Delta = criterion(std, error, noise[R])
        if Delta.max() == -np.inf:  # a metric of the user's own that rejects every row
            return ReferenceSelection(np.array(I), R, np.array(rmse), "criterion", inverse, mu, Sigma)
        i = int(R[best(Delta)])
        inverse = grow_inverse(inverse, K[I, i], K[i, i] + noise[i])
        I.append(i)


def grow_inverse(inverse: Floats, column: Floats, corner: float) -> Floats:
    """The inverse of [[A, c], [c', a]] from that of A, by the Schur complement (appendix A.1, A.2). O(t^2)."""
    g = inverse @ column
    schur = corner - column @ g
    return np.block([[inverse + np.outer(g, g) / schur, -g[:, None] / schur], [-g[None, :] / schur, 1 / schur]])


def one_at_a_time(
    X: Array,
    y: Array,
    kernel: Kernel,
    *,
    n_active: int,
    first: int,
    criterion: Callable[[Array, Array, Array], Array] = delta,
    tol: float | None = None,
    V: Floats | None = None,
    alpha: float | Floats = 0.0,
) -> tuple[Indices, Floats, Floats]:
    """Algorithm 1 on the Cholesky factor, one row at a time over all rows (docs/method.rst, `one-stage`).

    O(n (t + d)) for stage t, and O(n m) memory.

    Parameters
    ----------
    X, y : arrays of shape (n, d) and (n,) or (n, q)
    kernel : scikit-learn kernel
    n_active : int
        The most stages, m.
    first : int
        The first row.
    criterion : callable of (s, abs(r), noise variance)
    tol : float, optional
        Stop when the RMSE falls by less than this.
    V : array of shape (m, n), optional
        Memory for the coordinates v of all rows; allocated unless given.
    alpha : float or array of shape (n,)
        Noise variance of the rows beyond the kernel's.

    Returns
    -------
    indices : array of shape (t,)
    rmse : array of shape (t,)
        RMSE of the remainder after each stage; NaN if no row remains.
    factor : array of shape (t, t)
        L.
    """
    n, Y = len(X), np.asarray(y, dtype=float).reshape(len(X), -1)
    compiled = compile_kernel(kernel, X)
    features = compiled.prepare(X)
    s2, r = compiled.diag(features), Y.copy()
    noise = np.maximum(compiled.noise(features) + alpha, JITTER[np.dtype(float)] * s2.max())
    V, L = np.empty((n_active, n)) if V is None else V, np.zeros((n_active, n_active))
    remains = np.ones(n, dtype=bool)
    indices: list[int] = []
    rmse: list[float] = []
    j = first
    while True:
        t = len(indices)
        p = np.sqrt(s2[j] + noise[j])
        L[t, :t], L[t, t] = V[:t, j], p
        V[t] = (compiled.block(take(features, [j]), features)[0] - V[:t, j] @ V[:t]) / p
        s2 -= V[t] ** 2
        r -= np.multiply.outer(V[t], r[j] / p)
        remains[j] = False
        indices.append(j)
        rmse.append(float(np.sqrt(np.mean(r[remains] ** 2))) if remains.any() else np.nan)
        if not remains.any() or t + 1 == n_active or (tol is not None and t and rmse[-2] - rmse[-1] < tol):
            return np.array(indices), np.array(rmse), L[: t + 1, : t + 1]
        R = np.flatnonzero(remains)
        abs_r = np.sqrt(np.mean(r[R] ** 2, axis=1))
        j = int(R[best(criterion(np.sqrt(np.maximum(s2[R], 0)), abs_r, noise[R]))])
