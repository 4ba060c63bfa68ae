"""Whether the rows that a checkpoint says were chosen fit the data: their inputs, noise, scores and RMSE.

A checksum tells damage, not forgery. So what is cheap to compute again from the data is computed again: O(t^3) for the
factor of the t rows and their scores; and O(n t) for the RMSE of a few stages, if the selection is not to go on. If it
goes on, its rows are taken again anyway, and the RMSE of every stage is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ..core.jitter import JITTER
from ..core.threads import threaded_map
from ..core.types import Array
from ..kernels import CompiledKernel, Features
from ..scores import Score, ScoreTraits, evaluate
from .shard import magnitude
from .source import Source

CHEAP = 10**9  # products that the RMSE of every stage may take: a second, where the choice took longer
ENTRIES = 2**20  # covariances of the chosen rows with others that are held at a time, per thread: 8 MB
RELATIVE = 1e-6  # tolerance of every comparison, relative to the value: far above the rounding of a sum of n terms
GROWTH = 16  # of rounding over the stages; 1.1 was the most seen over 70 runs with kernels of hardly any noise
CORNERS = ((-1, -1), (-1, 1), (1, -1), (1, 1))  # of a standard deviation and a residual that are known but for rounding


@dataclass(frozen=True)
class Request:
    """What a selection is asked for: the data, the kernel and the score."""

    source: Source
    kernel: CompiledKernel
    score: Score
    order: Sequence[int]
    """The rows that are taken whatever their score: those given, the first, or a random order."""
    n_given: int
    """The stage from which on the rules may end the selection."""
    m: int
    """The most rows to choose."""
    unit: float
    """What one unit of y is worth where RMSE is reported."""

    def rows(self, indices: Array) -> tuple[Array, Array, Array]:
        """The inputs, the targets and the noise beyond the kernel's of some rows, in float64."""
        source = self.source
        X, y = _take(source.X, indices), source.y[indices]
        own = np.zeros(len(indices)) if source.alpha is None else source.alpha[indices]
        return np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64), np.asarray(own, dtype=np.float64)


@dataclass(frozen=True)
class Verified:
    """The chosen rows, seen to be rows of the data."""

    request: Request
    X: Array
    y: Array
    factor: Array
    """The lower Cholesky factor of their covariance, noise included."""
    tolerance: float
    """By how much an RMSE may differ for rounding alone, in units of y."""

    def differs(self, recorded: Array, computed: Array, slack: Array | float = 0.0) -> Array:
        """The stages, from 0, whose recorded RMSE is none that rounding could have made of the computed one."""
        recorded, computed = np.asarray(recorded), np.asarray(computed)
        far = np.abs(recorded - computed) > RELATIVE * computed + self.tolerance + slack
        return np.flatnonzero(far | (np.isnan(recorded) != np.isnan(computed)))

    def check_path(self, rmse: Array, end: int) -> None:
        """Refuse a recorded RMSE path that is not that of the data. O(n t), or all stages where that is cheap.

        Parameters
        ----------
        rmse : array of shape (t,)
        end : int
            The stage at which the selection ends. It and the one before are compared, the last, and some of the first.
        """
        request, t, (n, q) = self.request, len(rmse), self.request.source.y.shape
        every = n * t * t * q <= CHEAP
        wanted = range(1, t + 1) if every else {end - 1, end, t, *(2**i for i in range(t.bit_length()))}
        stages = sorted(stage for stage in wanted if 1 <= stage < n)
        if not stages:
            return
        z = solve_triangular(self.factor, self.y, lower=True)
        weights = np.zeros((len(z), len(stages), q))
        for place, t in enumerate(stages):
            weights[:t, place] = solve_triangular(self.factor[:t, :t], z[:t], lower=True, trans="T")
        kernel = request.kernel.in_double()
        squares = Squares(kernel, kernel.prepare(self.X), weights)
        total = request.source.total(squares)[0]
        own = squares.of(self.X, self.y)
        active = np.array([own[:t, place].sum() for place, t in enumerate(stages)])
        left = (n - np.array(stages)) * q
        computed = request.unit * np.sqrt(np.maximum(total - active, 0) / left)
        slack = request.unit * np.sqrt(64 * np.finfo(np.float64).eps * total / left)  # what cancels
        wrong = self.differs(rmse[np.array(stages) - 1], computed, slack)
        if len(wrong):
            t = stages[wrong[0]]
            raise ValueError(disagreement(t, rmse[t - 1], computed[wrong[0]]))


@dataclass(frozen=True)
class Squares:
    """The squared residuals of rows, given the rows chosen up to each of several stages. O(rows t)."""

    kernel: CompiledKernel
    rows: Features
    """The chosen rows, prepared."""
    weights: Array
    """Of shape (t, stages, q)."""

    def of(self, X: Array, y: Array) -> Array:
        """Of each row at each stage, summed over the targets; of shape (rows, stages)."""
        K = self.kernel.block(self.rows, self.kernel.prepare(np.asarray(X)))
        mean = (K.T @ self.weights.reshape(len(K), -1)).reshape(-1, *self.weights.shape[1:])
        return np.asarray(np.square(np.asarray(y, dtype=np.float64)[:, None] - mean).sum(axis=2))

    def __call__(self, X: Any, y: Array, alpha: Array | None) -> tuple[Array]:
        """The sum over rows, of shape (stages,), in blocks of bounded memory."""
        n, size = len(y), max(1, ENTRIES // max(self.weights[..., 0].size, X.shape[1]))
        blocks = [slice(begin, min(begin + size, n)) for begin in range(0, n, size)]
        return (np.sum(threaded_map(lambda here: self.of(X[here], y[here]).sum(axis=0), blocks), axis=0),)


def verify(
    request: Request, indices: Array, X: Array, noise: Array, scores: Array, noise_floor: float
) -> Verified | None:
    """Check chosen rows against the data; a ValueError says what does not fit.

    Parameters
    ----------
    request : Request
    indices, X, noise, scores : arrays of shape (t,), (t, d), (t,), (t,)
        What is recorded of the rows.
    noise_floor : float
        The least noise variance that a row was given.

    Returns
    -------
    Verified or None
        None where their covariance is not positive definite to working precision: then nothing more can be said
        before they are taken again.
    """
    given = min(len(request.order), len(indices))
    if not np.array_equal(indices[:given], np.asarray(request.order[:given])):
        place = int(np.argmax(indices[:given] != np.asarray(request.order[:given])))
        raise ValueError(
            f"it records row {indices[place]} as number {place + 1}, but this run begins with row "
            f"{request.order[place]}"
        )
    true_X, y, own = request.rows(indices)
    if not np.array_equal(X, true_X):
        row = indices[np.flatnonzero((true_X != X).any(axis=1))[0]]
        raise ValueError(f"the inputs that it records for row {row} are not those of the data")
    kernel, eps = request.kernel.in_double(), float(np.finfo(request.kernel.dtype).eps)
    rows = kernel.prepare(true_X)
    prior = kernel.diag(rows)
    if not noise_floor >= (1 - RELATIVE) * JITTER[request.kernel.dtype] * prior.max():
        raise ValueError(f"its noise_floor, {noise_floor:.3g}, is less than any run has with this kernel")
    expected = np.maximum(kernel.noise(rows) + own, noise_floor)
    wrong = np.abs(noise - expected) > RELATIVE * expected + 64 * eps * prior
    if wrong.any():
        row = indices[np.flatnonzero(wrong)[0]]
        raise ValueError(f"the noise that it records for row {row} is not what the kernel says")
    try:
        factor = np.asarray(cholesky(kernel.block(rows, rows) + np.diag(expected), lower=True))
    except (np.linalg.LinAlgError, ValueError):
        return None
    # The covariance's own error, which adds up over the stages, times its condition number.
    worst = GROWTH * rounding(request.kernel, true_X) * float((prior + expected).sum() / expected.min())
    _check_scores(request, indices, scores, factor, expected, y, worst)
    return Verified(request, true_X, y, factor, request.unit * worst * float(np.abs(y).max()))


def rounding(kernel: CompiledKernel, X: Array) -> float:
    """The relative error that covariances of some rows may have: more, the farther these are from the centre.

    Squared distances are differences of squared norms, whose digits cancel.
    """
    weights = kernel.metric()
    if weights is None:  # a thousand periods, say
        return 1e3 * float(np.finfo(kernel.dtype).eps)
    norms = np.square(X - kernel.centre) @ weights
    return float(np.finfo(kernel.dtype).eps) * (1 + float(norms.max(initial=0.0)))


def disagreement(t: int, recorded: float, computed: float) -> str:
    """Say that a recorded RMSE is none of the data."""
    return (
        f"it records an RMSE of {recorded:.6g} with {t} rows, but with this kernel the data give {computed:.6g}: its "
        f"rows, its kernel or its RMSE are not those of this run"
    )


def _check_scores(
    request: Request, indices: Array, scores: Array, factor: Array, noise: Array, y: Array, worst: float
) -> None:
    """Refuse scores that the chosen rows cannot have had when their turns came."""
    traits, given = ScoreTraits.of(request.score), min(len(request.order), len(indices))
    if not np.isnan(scores[:given]).all() or not np.isfinite(scores[given:]).all():
        raise ValueError("it records scores for rows that were given, or none for rows that were chosen")
    score = traits.inner
    if given == len(indices) or not traits.monotone or score is None:
        return  # of looking ahead, it depends on the rows that were judged; a function of one's own may do anything
    pivot = factor.diagonal()
    s = np.sqrt(np.maximum(pivot**2 - noise, 0))
    r = magnitude((solve_triangular(factor, y, lower=True) * pivot[:, None]).T)
    ds, dr = np.sqrt(worst) * pivot.max() + RELATIVE * s, worst * np.abs(y).max() + RELATIVE * r
    expected = evaluate(score, s, r, noise)
    corners = [evaluate(score, np.maximum(s + a * ds, 0), np.maximum(r + b * dr, 0), noise) for a, b in CORNERS]
    slack = np.abs(corners - expected).max(axis=0)
    wrong = np.flatnonzero(np.abs(scores - expected)[given:] > slack[given:])
    if len(wrong):
        at = wrong[0] + given
        raise ValueError(
            f"it records a score of {scores[at]:.6g} for row {indices[at]}, but the data give {expected[at]:.6g}"
        )


def _take(X: Any, indices: Array) -> Array:
    """Some rows, in any order, of an array or of anything that can be sliced."""
    try:
        found = np.asarray(X[indices])
    except (TypeError, ValueError, IndexError, NotImplementedError, AttributeError):
        found = np.empty(0)
    if found.shape == (len(indices), X.shape[1]):
        return found
    return np.concatenate([np.asarray(X[index : index + 1]) for index in indices.tolist()])
