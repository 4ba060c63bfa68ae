"""The gradient of a projected process's log evidence by the kernel's log-parameters, for fixed active rows.

Let A = Q + D with Q = W'W be the covariance of all targets (`sodalite.posteriors.projected` has the letters), J the log
evidence, a = A^-1 y, C = k(I, X) and P = k(I, I)^-1 C. Then

    dJ/dA = G = (a a' - A^-1) / 2      dJ/dC = 2 P G      dJ/dk(I, I) = -P G P'
    P A^-1 = L_u^-T B^-1 W D^-1        P a = L_u^-T B^-1 b, the weights of the mean

The diagonal of G gets another term where J depends on k - Q: fitc has k - Q in D, vfe subtracts (k - Q) / 2D from J.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..core.types import Floats
from ..selection.rows import Block, add
from .base import Evidence

if TYPE_CHECKING:
    from .projected import Projected


def evidence_gradient(made: Projected, evidence: Evidence) -> Floats:
    """The gradient of `log_marginal_likelihood` of a projected process, of shape (p,). O(n m^2), in blocks.

    Parameters
    ----------
    made : Projected
        The result of ``condition(evidence)``. The noise floor counts as a constant.
    evidence : Evidence
        Of rows on this machine.
    """
    kernel, m = evidence.kernel, len(made.inverse)
    share = partial(_share, made, evidence.selection.noise_floor)
    gradient, by_active = evidence.rows.map(share, add, evidence.block_rows(m))
    by_diagonal = by_active.diagonal().copy()
    np.fill_diagonal(by_active, 0)
    _, pull = kernel.vjp(made.rows, made.rows)
    _, _, pull_diagonal = kernel.diag_vjp(made.rows)
    return gradient + pull(by_active) + pull_diagonal(by_diagonal, np.zeros(m))


def _share(made: Projected, floor: float, block: Block) -> tuple[Floats, Floats]:
    """Some rows' share of the gradient through k(I, X) and k(X, X), of shape (p,), and of dJ/dk(I, I), (m, m)."""
    kernel, q = made.kernel, block.y.shape[1]
    rows = kernel.prepare(np.asarray(block.X, dtype=np.float64))
    C, pull = kernel.vjp(made.rows, rows)
    latent, noise, pull_diagonal = kernel.diag_vjp(rows)
    total = noise if block.alpha is None else noise + block.alpha
    at_floor = total < floor
    total = np.maximum(total, floor)
    W = made.inverse @ C
    U = made.root @ W
    rest = latent - np.einsum("ij,ij->j", W, W)
    is_left = rest > 0  # where rounding makes k - Q negative, it is taken for 0
    rest = np.where(is_left, rest, 0.0)
    D = total + rest if made.own_noise else total
    a = (block.y - C.T @ made.weights) / D[:, None]
    P = made.inverse.T @ W
    # The diagonal of G is g = dJ/dD; by_rest is dJ/d(k - Q).
    g = 0.5 * (np.einsum("ij,ij->i", a, a) - q / D + q * np.einsum("ij,ij->j", U, U) / D**2)
    by_noise, by_rest = g, np.zeros(len(D))
    if made.own_noise:
        by_rest = np.where(is_left, g, 0.0)
    if made.bound:
        by_noise, by_rest = g + 0.5 * q * rest / total**2, np.where(is_left, -0.5 * q / total, 0.0)
    PG = 0.5 * (made.weights @ a.T - q * (made.inverse.T @ (made.root.T @ U)) / D) - P * by_rest
    gradient = pull(2 * PG) + pull_diagonal(by_rest, np.where(at_floor, 0.0, by_noise))
    return gradient, -(PG @ P.T)
