"""The gradient of a projected process's log evidence by the kernel's log-parameters, the active rows held.

With A = Q + D, Q = W'W, the covariance of all targets (see `sodalite.posteriors.projected` for the letters),
a = A^-1 y and C = k(I, X), P = k(I, I)^-1 C,

    dJ/dA = G = (a a' - A^-1) / 2      dJ/dC = 2 P G      dJ/dk(I, I) = -P G P'
    P A^-1 = L_u^-T B^-1 W D^-1        P a = L_u^-T B^-1 b, the weights of the mean

where, for the sake of k - Q, G changes on its diagonal: fitc has k - Q in D, vfe subtracts (k - Q) / 2D from J.
"""

from __future__ import annotations

import numpy as np

from ..core.types import Array
from .base import Evidence
from .projected import Projected


def evidence_gradient(made: Projected, evidence: Evidence) -> Array:
    """The gradient of `log_marginal_likelihood` of the posterior that the evidence gives; O(n m^2), in blocks.

    Parameters
    ----------
    made : Projected
        What ``condition(evidence)`` returned. The noise floor is taken as constant.
    evidence : Evidence
        Of rows on this machine.
    """
    kernel, m, (n, q) = evidence.kernel, len(made.inverse), evidence.y.shape
    gradient, by_active = np.zeros(kernel.spec.n_dims), np.zeros((m, m))
    size = evidence.block_rows(m)
    for begin in range(0, n, size):
        here = slice(begin, begin + size)
        rows = kernel.prepare(np.asarray(evidence.X[here], dtype=np.float64))
        C, pull = kernel.vjp(made.rows, rows)
        latent, noise, pull_diagonal = kernel.diag_vjp(rows)
        total = noise if evidence.alpha is None else noise + evidence.alpha[here]
        floored = total < evidence.selection.noise_floor
        total = np.maximum(total, evidence.selection.noise_floor)
        W = made.inverse @ C
        U = made.root @ W
        rest = latent - np.einsum("ij,ij->j", W, W)
        left = rest > 0  # what rounding made negative was taken for 0
        rest = np.where(left, rest, 0.0)
        D = total + rest if made.own_noise else total
        a = (evidence.y[here] - C.T @ made.weights) / D[:, None]
        P = made.inverse.T @ W
        # g is dJ/dD, the diagonal of G, and `extra` is dJ/d(k - Q).
        g = 0.5 * (np.einsum("ij,ij->i", a, a) - q / D + q * np.einsum("ij,ij->j", U, U) / D**2)
        by_noise, extra = g, np.zeros(len(D))
        if made.own_noise:
            extra = np.where(left, g, 0.0)
        if made.bound:
            by_noise, extra = g + 0.5 * q * rest / total**2, np.where(left, -0.5 * q / total, 0.0)
        PG = 0.5 * (made.weights @ a.T - q * (made.inverse.T @ (made.root.T @ U)) / D) - P * extra
        by_active -= PG @ P.T
        gradient += pull(2 * PG) + pull_diagonal(extra, np.where(floored, 0.0, by_noise))
    by_diagonal = by_active.diagonal().copy()
    np.fill_diagonal(by_active, 0)
    _, pull = kernel.vjp(made.rows, made.rows)
    _, _, pull_diagonal = kernel.diag_vjp(made.rows)
    return gradient + pull(by_active) + pull_diagonal(by_diagonal, np.zeros(m))
