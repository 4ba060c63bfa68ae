"""The textbook's formulas with full matrices and explicit inverses: slow, plain, and the oracle for the posteriors."""

from __future__ import annotations

import numpy as np
from scipy.stats import multivariate_normal

from sodalite.criteria import Delta
from sodalite.kernels import compile_kernel
from sodalite.posteriors import Evidence, Judging
from sodalite.selection.grow import grow
from sodalite.selection.rows import ArrayRows
from sodalite.stopping import Size


def given(kernel, X, Y, m, *, first=0, alpha=None, dtype="float64", calibrate=False, **options):
    """What a posterior is built from, with m active rows chosen by the greedy criterion, or those of `first`."""
    source = ArrayRows(X, Y, alpha)
    selection = grow(
        source,
        compile_kernel(kernel, X, dtype),
        n_active=m,
        criterion=Delta(),
        rule=Size(m),
        first=first,
        generator=np.random.default_rng(0),
    )
    judging = Judging() if calibrate else None
    return Evidence(compile_kernel(kernel, X), source, selection, judging=judging, **options)


def noise_of(kernel, X, alpha=None, floor=0.0):
    """What is added to the diagonal of each row."""
    own = kernel.diag(X) - np.diag(kernel(X, X))
    return np.maximum(own + (0 if alpha is None else alpha), floor)


def exact(kernel, X, Y, T, noise):
    """Equations 2.23, 2.24 and 2.30 of Rasmussen and Williams (2006): mean, latent covariance and log evidence."""
    A = kernel(X, X) + np.diag(noise)
    cross = kernel(T, X)
    inverse = np.linalg.inv(A)
    return cross @ inverse @ Y, kernel(T, T) - cross @ inverse @ cross.T, evidence_of(A, Y)


def evidence_of(A, Y):
    """Log N(y; 0, A), summed over the targets."""
    return sum(multivariate_normal.logpdf(y, np.zeros(len(y)), A, allow_singular=True) for y in Y.T)


def projected(name, kernel, X, Y, T, noise, active):
    """The same of a projected process, from n x n matrices.

    Q(a, b) = k(a, u) k(u, u)^-1 k(u, b). Quinonero-Candela and Rasmussen (2005), equations 16 (sor), 20 (dtc) and 24
    (fitc); Titsias (2009), equation 9 (vfe).
    """
    inverse = np.linalg.inv(kernel(X[active], X[active]))

    def Q(a, b):
        return kernel(a, X[active]) @ inverse @ kernel(X[active], b)

    rest = np.diag(kernel(X, X)) - np.diag(Q(X, X))
    A = Q(X, X) + np.diag(noise + rest if name == "fitc" else noise)
    weights = Q(T, X) @ np.linalg.inv(A)
    prior = Q(T, T) if name == "sor" else kernel(T, T)
    evidence = evidence_of(A, Y)
    if name == "vfe":
        evidence -= 0.5 * Y.shape[1] * np.sum(rest / noise)
    return weights @ Y, prior - weights @ Q(X, T), evidence
