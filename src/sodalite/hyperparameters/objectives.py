"""Objectives that the rounds of a weave raise, each with its gradient (docs/method.rst, `weave`).

* `Neighbourhoods`: exact likelihoods of many small blocks of rows, added up. The rows of a block are near each other,
  so they see the short length-scales that a random subset is too thin for.
* `Foresight`: leave-one-out log densities of rows given their neighbours, which is what `local` predicts.

The objective for the other posteriors is J: `sodalite.hyperparameters.joint`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.threads import threaded_map
from ..core.types import Array, Floats, Indices, Mask
from ..kernels import CompiledKernel, compile_kernel, take
from ..kernels.jitter import NoiseFloor, split_by_floor
from ..kernels.neighbours import Neighbours, distinct
from .likelihood import log_marginal_likelihood

STACK = 2**18  # covariances that one thread holds at a time: 2 MB, and their derivatives several times as much
FAR = 1e8  # noise of a row that does not count, in units of the largest variance: its weight is nearly zero


class Groups:
    """All rows, grouped by their inputs: rows with the same inputs are one group.

    Parameters
    ----------
    X, y, alpha : arrays of shape (n, d), (n, q) or (n,), and (n,) or None
    """

    def __init__(self, X: Array, y: Floats, alpha: Floats | None = None) -> None:
        self.X, self.y = np.asarray(X, dtype=np.float64), y.reshape(len(X), -1)
        self.alpha = np.zeros(len(X)) if alpha is None else alpha
        first, self.group = distinct(self.X)
        """The group of every row; of shape (n,)."""
        self.count = np.bincount(self.group).astype(np.float64)
        """How many rows a group has; of shape (groups,)."""
        self.places = self.X[first]
        """The inputs of every group; of shape (groups, d)."""
        self.sum = np.stack([np.bincount(self.group, column) for column in self.y.T], axis=1)
        """The sum of a group's targets; of shape (groups, q)."""
        self.sum_alpha = np.bincount(self.group, self.alpha)


class Foresight:
    """The mean leave-one-out log density of some observations, each given its nearest rows, per target value.

    These are predictive densities rather than one density of all targets, so raising them improves the predictions of
    `local`. Let A be the covariance of a row's neighbours and the row itself, which comes last, e the last unit vector,
    p = A^-1 e and a = A^-1 y. The log density is log N(a_last / p_last; 0, 1 / p_last), and

        dJ/dA = (a_last / p_last) (p a' + a p') / 2 - (1 / p_last + (a_last / p_last)^2) p p' / 2

    O(k^3) a row, batched. The neighbours are those by the kernel as given, whatever theta is.

    Parameters
    ----------
    groups : Groups
    kernel : scikit-learn kernel
    which : array of int
        The rows that are predicted.
    k : int
        Groups that each is predicted from, without its own.
    """

    def __init__(self, groups: Groups, kernel: Kernel, which: Indices, k: int) -> None:
        self.kernel = compile_kernel(kernel, groups.X)
        found = Neighbours(self.kernel, groups.places).query(groups.X[which], k + 1)
        own = found == groups.group[which, None]
        self.n_rows, self.q = len(which), groups.y.shape[1]
        self.X = np.concatenate([groups.places[found], groups.X[which, None]], axis=1)
        # A row's own observation is left out of the mean of its group.
        count = groups.count[found] - own
        total = groups.sum[found] - own[..., None] * groups.y[which, None]
        extra = groups.sum_alpha[found] - own * groups.alpha[which, None]
        self.empty = count == 0
        count = np.maximum(count, 1)
        self.y = np.concatenate([total / count[..., None], groups.y[which, None]], axis=1)
        self.share = np.concatenate([1 / count, np.ones((len(which), 1))], axis=1)
        self.alpha = np.concatenate([extra / count**2, groups.alpha[which, None]], axis=1)

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """The value and the gradient by the kernel's log-parameters."""
        kernel = self.kernel.with_theta(theta)
        parts = threaded_map(lambda here: self._part(kernel, here), self._blocks())
        total = self.n_rows * self.q
        return float(sum(value for value, _ in parts)) / total, np.sum([g for _, g in parts], axis=0) / total

    def value(self, theta: Floats) -> float:
        """The value alone, at half the cost."""
        kernel = self.kernel.with_theta(theta)
        parts = threaded_map(lambda here: self._density(*self._solve(kernel, here)[:2]), self._blocks())
        return sum(parts) / (self.n_rows * self.q)

    def _blocks(self) -> list[slice]:
        """Rows that are worked on at a time."""
        size = max(1, STACK // self.X.shape[1] ** 2)
        return [slice(begin, begin + size) for begin in range(0, self.n_rows, size)]

    def _solve(self, kernel: CompiledKernel, here: slice) -> tuple[Floats, Floats, Callable[[Floats], Floats]]:
        """p, of shape (rows, size), a, of shape (rows, size, q), and the function from dJ/dA to the gradient."""
        y = self.y[here]
        out = np.zeros(y.shape[:2], dtype=bool)
        out[:, :-1] = self.empty[here]
        A, pull = stacked_covariance(kernel, self.X[here], self.share[here], self.alpha[here], out)
        right = np.concatenate([np.zeros((*y.shape[:2], 1)), y], axis=2)
        right[:, -1, 0] = 1
        solved = np.linalg.solve(A, right)
        return solved[..., 0], solved[..., 1:], pull

    def _part(self, kernel: CompiledKernel, here: slice) -> tuple[float, Floats]:
        """The sum of the log densities of some rows, and its gradient."""
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

    def _density(self, p: Floats, a: Floats) -> float:
        """The sum of the log densities of some rows; minus infinity where a covariance is not positive definite."""
        last = p[:, -1]
        if not (last > 0).all():
            return -np.inf
        error = np.square(a[:, -1]).sum(axis=1) / last**2
        return float(0.5 * (self.q * np.log(last / (2 * pi)) - error * last).sum())


class Neighbourhoods:
    """The sum of the exact log likelihoods of some blocks of rows, per target value. O(size^3) a block.

    Parameters
    ----------
    kernel : scikit-learn kernel
    X, y, alpha : arrays of shape (n, d), (n, q), and (n,) or None
    blocks : list of arrays of int
        The rows of every block. Blocks of the same size are worked on together.
    """

    def __init__(
        self, kernel: Kernel, X: Floats, y: Floats, blocks: list[Indices], alpha: Floats | None = None
    ) -> None:
        self.kernel = compile_kernel(kernel, X)
        alpha = np.zeros(len(X)) if alpha is None else alpha
        self.size = sum(len(block) for block in blocks) * y.shape[1]
        self.stacks = []
        for size in {len(block) for block in blocks}:
            same = np.array([block for block in blocks if len(block) == size])
            count = max(1, STACK // 4 // size**2)
            for begin in range(0, len(same), count):
                stack = same[begin : begin + count]
                self.stacks.append((X[stack], y[stack], alpha[stack]))

    def __call__(self, theta: Floats) -> tuple[float, Floats]:
        """The value and the gradient by the kernel's log-parameters."""
        kernel = self.kernel.with_theta(theta)
        found = threaded_map(lambda stack: self._part(kernel, *stack), self.stacks)
        return sum(value for value, _ in found) / self.size, np.sum([g for _, g in found], axis=0) / self.size

    def _part(self, kernel: CompiledKernel, X: Floats, y: Floats, alpha: Floats) -> tuple[float, Floats]:
        """The sum of the log likelihoods of a stack of blocks, and its gradient.

        -y'a/2 - log|A|/2 - n/2 log 2 pi with a = A^-1 y, and dJ/dA = (a a' - A^-1) / 2, for every block.
        """
        if len(X) == 1:  # a large block
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
    kernel: CompiledKernel, X: Floats, share: Floats, alpha: Floats, out: Mask
) -> tuple[Floats, Callable[[Floats], Floats]]:
    """The covariances A of a stack of blocks of rows, noise included, and the function from dJ/dA to the gradient.

    Parameters
    ----------
    kernel : CompiledKernel
    X : array of shape (stack, size, d)
    share : array of shape (stack, size)
        Factor of the kernel's noise: 1 / c for the mean of c observations.
    alpha : array of shape (stack, size)
        Noise variances beyond the kernel's.
    out : array of bool of shape (stack, size)
        Rows that do not count: they get so much noise that their weight is nearly zero.
    """
    stack, size, d = X.shape
    flat = kernel.prepare(X.reshape(-1, d))
    features = take(flat, np.arange(stack * size).reshape(stack, size))
    K, pull = kernel.vjp(features, features)
    latent, noise, pull_diagonal = kernel.diag_vjp(flat)
    noise = noise.reshape(stack, size) * share + alpha
    floor = NoiseFloor(latent)
    at_floor = (noise <= floor.value) & ~out
    A, diagonal = K.copy(), np.arange(size)
    level = np.where(out, FAR * float(latent.max() + noise.max()), np.maximum(noise, floor.value))
    A[:, diagonal, diagonal] = latent.reshape(stack, size) + level

    def gradient(G: Floats) -> Floats:
        by_diagonal = G[:, diagonal, diagonal]
        G[:, diagonal, diagonal] = 0
        by_noise, by_floor = split_by_floor(by_diagonal, at_floor)
        by_latent = by_diagonal.ravel() + floor.by_latent(by_floor)
        return pull(G) + pull_diagonal(by_latent, np.where(out, 0.0, by_noise * share).ravel())

    return A, gradient
