"""Algorithm 1 of the paper, line by line, in the paper's notation. Slow and short: the oracle of the tests.

    V. Lalchand and A. C. Faul (2018), A Fast and Greedy Subset-of-Data (SoD) Scheme for Sparsification in
    Gaussian processes.

It stores the full covariance matrix and the remainder's full posterior covariance, as the paper does. It shares nothing
with the fast code but the rule for ties and the noise floor (docs/method.rst, `ties` and `noise-floor`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from .core.jitter import JITTER
from .core.types import Floats, Indices
from .scores import best


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
    score: Callable[[Floats, Floats, Floats], Floats] = delta,
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
    score : callable of (std, abs(error), noise variance)
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
        Delta = score(std, error, noise[R])
        if Delta.max() == -np.inf:  # a metric of the user's own that rejects every row
            return ReferenceSelection(np.array(I), R, np.array(rmse), "score", inverse, mu, Sigma)
        i = int(R[best(Delta)])
        inverse = grow_inverse(inverse, K[I, i], K[i, i] + noise[i])
        I.append(i)


def grow_inverse(inverse: Floats, column: Floats, corner: float) -> Floats:
    """The inverse of [[A, c], [c', a]] from that of A, by the Schur complement (appendix A.1, A.2). O(t^2)."""
    g = inverse @ column
    schur = corner - column @ g
    return np.block([[inverse + np.outer(g, g) / schur, -g[:, None] / schur], [-g[None, :] / schur, 1 / schur]])
