"""What rounds of a weave raise, beyond the likelihood of a subset: each value with its gradient.

* `Neighbourhoods`: exact likelihoods of many small blocks of rows, added up. The rows of a block are near each other,
  so they see the short length-scales that a random subset is too thin for.
* `Foresight`: how well rows are predicted from their neighbours, themselves left out. What matters to `local`.

What matters to the other posteriors is J: `sodalite.hyperparameters.joint`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.jitter import JITTER
from ..core.threads import threaded_map
from ..core.types import Array
from ..kernels import CompiledKernel, compile_kernel, take
from ..kernels.neighbours import Neighbours, distinct
from .subset import log_marginal_likelihood

STACK = 2**18  # covariances that are held at a time, per thread
FAR = 1e8  # times the largest variance: noise that takes an observation out
LEAST = JITTER[np.dtype(np.float64)]  # times the prior variance: the least noise that a row has


class Groups:
    """All rows, those with the same inputs taken together."""

    def __init__(self, X: Array, y: Array, alpha: Array | None = None) -> None:
        self.X, self.y = np.asarray(X, dtype=np.float64), y.reshape(len(X), -1)
        self.alpha = np.zeros(len(X)) if alpha is None else alpha
        first, self.group = distinct(self.X)
        self.count = np.bincount(self.group).astype(np.float64)
        self.places = self.X[first]
        self.sum = np.stack([np.bincount(self.group, c) for c in self.y.T], axis=1)
        self.sum_alpha = np.bincount(self.group, self.alpha)


class Foresight:
    """The log density of some observations, each given its nearest rows but not itself, per target value.

    A product of predictive densities rather than one density of all targets, so that raising it is raising what the
    predictions of `local` are worth. With A the covariance of a row's neighbours and itself, last,
    p = A^-1 e and a = A^-1 y, it is log N(a_last / p_last; 0, 1 / p_last), and

        dJ/dA = (a_last / p_last) (p a' + a p') / 2 - (1 / p_last + (a_last / p_last)^2) p p' / 2

    O(k^3) a row, batched; no row's neighbours change while it is raised.
    """

    def __init__(self, rows: Groups, kernel: Kernel, some: Array, k: int) -> None:
        self.kernel = compile_kernel(kernel, rows.X)
        found = Neighbours(self.kernel, rows.places).query(rows.X[some], k + 1)
        own = found == rows.group[some, None]
        self.n_rows, self.q = len(some), rows.y.shape[1]
        self.X = np.concatenate([rows.places[found], rows.X[some, None]], axis=1)
        # A row's own observation is taken out of its group's mean.
        count = rows.count[found] - own
        total = rows.sum[found] - own[..., None] * rows.y[some, None]
        extra = rows.sum_alpha[found] - own * rows.alpha[some, None]
        self.empty = count == 0
        count = np.maximum(count, 1)
        self.y = np.concatenate([total / count[..., None], rows.y[some, None]], axis=1)
        self.share = np.concatenate([1 / count, np.ones((len(some), 1))], axis=1)
        self.alpha = np.concatenate([extra / count**2, rows.alpha[some, None]], axis=1)

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """The value and the gradient by the kernel's log-parameters."""
        kernel = self.kernel.with_theta(theta)
        parts = threaded_map(lambda here: self._part(kernel, here), self._blocks())
        total = self.n_rows * self.q
        return float(sum(value for value, _ in parts)) / total, np.sum([g for _, g in parts], axis=0) / total

    def value(self, theta: Array) -> float:
        """The value alone, at half the cost."""
        kernel = self.kernel.with_theta(theta)
        parts = threaded_map(lambda here: self._density(*self._solve(kernel, here)[:2]), self._blocks())
        return sum(parts) / (self.n_rows * self.q)

    def _blocks(self) -> list[slice]:
        size = max(1, STACK // self.X.shape[1] ** 2)
        return [slice(a, a + size) for a in range(0, self.n_rows, size)]

    def _solve(self, kernel: CompiledKernel, here: slice) -> tuple[Array, Array, Callable[[Array], Array]]:
        """p, a, and the function that turns dJ/dA into the gradient."""
        y = self.y[here]
        out = np.zeros(y.shape[:2], dtype=bool)
        out[:, :-1] = self.empty[here]
        A, pull = stacked_covariance(kernel, self.X[here], self.share[here], self.alpha[here], out)
        right = np.concatenate([np.zeros((*y.shape[:2], 1)), y], axis=2)
        right[:, -1, 0] = 1
        solved = np.linalg.solve(A, right)
        return solved[..., 0], solved[..., 1:], pull

    def _part(self, kernel: CompiledKernel, here: slice) -> tuple[float, Array]:
        p, a, pull = self._solve(kernel, here)
        value, last = self._density(p, a), p[:, -1]
        if not np.isfinite(value):
            return -np.inf, np.zeros(kernel.spec.n_dims)
        error = a[:, -1] / last[:, None]
        # dJ/dA = (p u' + u p') / 2
        weight = self.q / last + np.einsum("ij,ij->i", error, error)
        u = np.einsum("iq,isq->is", error, a) - 0.5 * weight[:, None] * p
        G = p[:, :, None] * u[:, None, :]
        return value, pull(0.5 * (G + G.swapaxes(1, 2)))

    def _density(self, p: Array, a: Array) -> float:
        last = p[:, -1]
        if not (last > 0).all():
            return -np.inf
        error = np.square(a[:, -1]).sum(axis=1) / last**2
        return float(0.5 * (self.q * np.log(last / (2 * pi)) - error * last).sum())


class Neighbourhoods:
    """The sum of the exact log likelihoods of some blocks of rows, per target value. O(size^3) a block."""

    def __init__(self, kernel: Kernel, X: Array, y: Array, blocks: list[Array], alpha: Array | None = None) -> None:
        self.kernel = compile_kernel(kernel, X)
        alpha = np.zeros(len(X)) if alpha is None else alpha
        self.size = sum(len(rows) for rows in blocks) * y.shape[1]
        self.stacks = []
        for size in {len(rows) for rows in blocks}:
            same = np.array([rows for rows in blocks if len(rows) == size])
            count = max(1, STACK // 4 // size**2)
            for begin in range(0, len(same), count):
                rows = same[begin : begin + count]
                self.stacks.append((X[rows], y[rows], alpha[rows]))

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """The value and the gradient by the kernel's log-parameters."""
        kernel = self.kernel.with_theta(theta)
        found = threaded_map(lambda stack: self._part(kernel, *stack), self.stacks)
        return sum(value for value, _ in found) / self.size, np.sum([g for _, g in found], axis=0) / self.size

    def _part(self, kernel: CompiledKernel, X: Array, y: Array, alpha: Array) -> tuple[float, Array]:
        """-y'a/2 - log|A|/2 - n/2 log 2 pi with a = A^-1 y, and dJ/dA = (a a' - A^-1) / 2, for every block."""
        if len(X) == 1:  # a large one
            return log_marginal_likelihood(kernel, X[0], y[0], alpha[0])
        (stack, size, q), nothing = y.shape, np.zeros(y.shape[:2], dtype=bool)
        A, pull = stacked_covariance(kernel, X, np.ones((stack, size)), alpha, nothing)
        if not np.isfinite(A).all():
            return -np.inf, np.zeros(kernel.spec.n_dims)
        sign, log_determinant = np.linalg.slogdet(A)
        if not (sign > 0).all():
            return -np.inf, np.zeros(kernel.spec.n_dims)
        inverse = np.linalg.inv(A)
        a = inverse @ y
        value = -0.5 * float(np.vdot(y, a) + q * (log_determinant.sum() + stack * size * log(2 * pi)))
        G = a @ a.swapaxes(1, 2)
        G -= q * inverse
        G *= 0.5
        return value, pull(G)


def stacked_covariance(
    kernel: CompiledKernel, X: Array, share: Array, alpha: Array, out: Array
) -> tuple[Array, Callable[[Array], Array]]:
    """The covariances of a stack of blocks of rows, noise included, and the function from dJ/dA to the gradient.

    Parameters
    ----------
    kernel : CompiledKernel
    X : array of shape (stack, size, d)
    share : array of shape (stack, size)
        What the kernel's noise is multiplied by: less than 1 where a row stands for several.
    alpha : array of shape (stack, size)
        Noise beyond the kernel's.
    out : array of bool of shape (stack, size)
        Rows that are not to count.
    """
    stack, size, d = X.shape
    flat = kernel.prepare(X.reshape(-1, d))
    features = take(flat, np.arange(stack * size).reshape(stack, size))
    K, pull = kernel.vjp(features, features)
    latent, noise, pull_diagonal = kernel.diag_vjp(flat)
    noise = noise.reshape(stack, size) * share + alpha
    floor = LEAST * float(latent.max())
    floored = (noise <= floor) & ~out
    A, diagonal = K.copy(), np.arange(size)
    level = np.where(out, FAR * float(latent.max() + noise.max()), np.maximum(noise, floor))
    A[:, diagonal, diagonal] = latent.reshape(stack, size) + level

    def gradient(G: Array) -> Array:
        on_diagonal = G[:, diagonal, diagonal]
        G[:, diagonal, diagonal] = 0
        # Rows at the floor have noise that moves with the largest prior variance.
        by_latent = on_diagonal.flatten()
        by_latent[latent.argmax()] += LEAST * on_diagonal[floored].sum()
        return pull(G) + pull_diagonal(by_latent, np.where(floored | out, 0.0, on_diagonal * share).ravel())

    return A, gradient
