"""Verification of a checkpoint: whether the recorded rows have the inputs, noise, scores and RMSE that the data give.

A checksum shows damage, not forgery. So what is cheap to compute is computed again from the data: O(t^3) for the factor
of the t rows and their scores, and O(n t) for the RMSE of a few stages, if the selection has ended. If it is continued,
its rows are taken again anyway, and the RMSE of every stage is compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from ..core.jitter import JITTER, covariance_factor
from ..core.types import Floats, Indices
from ..kernels import CompiledKernel, Features
from ..scores import Score, ScoreTraits, evaluate
from .ranking import magnitude
from .rows import Block, Rows, add

CHEAP = 10**9  # most multiplications, n t^2 q, for which the RMSE of every stage is compared: about a second
ENTRIES = 2**20  # covariances of recorded rows with other rows that a thread holds at a time: 8 MB
RELATIVE = 1e-6  # tolerance of every comparison, relative to the value: far above the rounding of a sum of n terms
# Allowance for the growth of rounding errors over the stages: a factor on the error of the covariances times their
# condition number. The largest seen over 70 runs with kernels of hardly any noise was 1.1.
ROUNDING_GROWTH = 16
CORNERS = ((-1, -1), (-1, 1), (1, -1), (1, 1))  # signs of the errors of s and abs(r) at the corners of their bounds


@dataclass(frozen=True)
class Request:
    """The selection that a run is asked for: data, kernel, score and first rows."""

    data: Rows
    kernel: CompiledKernel
    score: Score
    order: Sequence[int]
    """The rows to take first, whatever their score: those given, the first row, or a random order."""
    first_checked: int
    """The first stage at which a stopping rule may end the selection."""
    m: int
    """The most rows to choose."""
    unit: float
    """The value of one unit of y where RMSE is reported."""

    def rows(self, indices: Indices) -> tuple[Floats, Floats, Floats]:
        """Inputs, targets and alpha (0 where there is none) of some rows, in float64."""
        some = self.data.take(indices)
        alpha = np.zeros(len(indices)) if some.alpha is None else some.alpha
        return some.X.astype(np.float64), some.y.astype(np.float64), alpha.astype(np.float64)


@dataclass(frozen=True)
class Verified:
    """Recorded rows that are rows of the data, with the right noise and scores."""

    request: Request
    X: Floats
    y: Floats
    factor: Floats
    """L, the lower Cholesky factor of k(I, I) + noise; of shape (t, t)."""
    tolerance: float
    """The largest error of an RMSE that rounding explains, in the units in which RMSE is reported."""

    def differs(self, recorded: Floats, computed: Floats, slack: Floats | float = 0.0) -> Indices:
        """Places at which the recorded and the computed RMSE differ by more than rounding explains."""
        far = np.abs(recorded - computed) > RELATIVE * computed + self.tolerance + slack
        return np.flatnonzero(far | (np.isnan(recorded) != np.isnan(computed)))

    def check_path(self, rmse: Floats, end: int) -> None:
        """Refuse a recorded RMSE path that is not that of the data. O(n t); all stages where O(n t^2) is cheap.

        Parameters
        ----------
        rmse : array of shape (t,)
        end : int
            The stage at which the selection ends. Compared are this stage, the one before, the last that is recorded,
            and the powers of 2.
        """
        t, n, q = len(rmse), self.request.data.shape[0], self.request.data.q
        every = n * t * t * q <= CHEAP
        wanted = range(1, t + 1) if every else {end - 1, end, t, *(2**i for i in range(t.bit_length()))}
        stages = sorted(stage for stage in wanted if 1 <= stage < n)
        if not stages:
            return
        computed, slack = self._rmse(stages)
        wrong = self.differs(rmse[np.array(stages) - 1], computed, slack)
        if len(wrong):
            t = stages[wrong[0]]
            raise ValueError(disagreement(t, rmse[t - 1], computed[wrong[0]]))

    def _rmse(self, stages: list[int]) -> tuple[Floats, Floats]:
        """RMSE of the remainder at some stages, and the error of each for cancellation. O(n t stages)."""
        request, n, q = self.request, self.request.data.shape[0], self.request.data.q
        z = solve_triangular(self.factor, self.y, lower=True)
        weights = np.zeros((len(z), len(stages), q))  # L^-T z of the first t rows, at every stage t
        for place, t in enumerate(stages):
            weights[:t, place] = solve_triangular(self.factor[:t, :t], z[:t], lower=True, trans="T")
        kernel = request.kernel.in_double()
        squares = Squares(kernel, kernel.prepare(self.X), weights)
        (total,) = request.data.map(squares, add, max(1, ENTRIES // weights[..., 0].size))
        own = squares.of(self.X, self.y)
        active = np.array([own[:t, place].sum() for place, t in enumerate(stages)])
        left = (n - np.array(stages)) * q
        rmse = request.unit * np.sqrt(np.maximum(total - active, 0) / left)
        return rmse, request.unit * np.sqrt(64 * np.finfo(np.float64).eps * total / left)


@dataclass(frozen=True)
class Squares:
    """Squared residuals of rows at several stages, as sums over blocks of rows. O(rows t stages)."""

    kernel: CompiledKernel
    rows: Features
    """The recorded rows, prepared for the kernel."""
    weights: Floats
    """(k(I, I) + noise)^-1 y_I at every stage, 0 for rows of later stages; of shape (t, stages, q)."""

    def of(self, X: Floats, y: Floats) -> Floats:
        """Squared residual of each row at each stage, summed over the targets; of shape (rows, stages)."""
        K = self.kernel.block(self.rows, self.kernel.prepare(np.asarray(X)))
        mean = (K.T @ self.weights.reshape(len(K), -1)).reshape(-1, *self.weights.shape[1:])
        return np.asarray(np.square(np.asarray(y, dtype=np.float64)[:, None] - mean).sum(axis=2))

    def __call__(self, block: Block) -> tuple[Floats]:
        """The sum over the rows of a block, of shape (stages,)."""
        return (self.of(block.X, block.y).sum(axis=0),)


def verify(
    request: Request, indices: Indices, X: Floats, noise: Floats, scores: Floats, noise_floor: float
) -> Verified | None:
    """Check recorded rows against the data; a ValueError says what does not fit. O(t^3).

    Parameters
    ----------
    request : Request
    indices, X, noise, scores : arrays of shape (t,), (t, d), (t,), (t,)
        The recorded rows, with their inputs, noise variances and scores.
    noise_floor : float
        The recorded noise floor.

    Returns
    -------
    Verified or None
        None if the covariance of the rows is not positive definite to working precision: then scores and RMSE cannot
        be compared before the rows are taken again.
    """
    _check_order(request, indices)
    true_X, y, alpha = request.rows(indices)
    if not np.array_equal(X, true_X):
        row = indices[np.flatnonzero((true_X != X).any(axis=1))[0]]
        raise ValueError(f"the inputs that it records for row {row} are not those of the data")
    kernel, eps = request.kernel.in_double(), float(np.finfo(request.kernel.dtype).eps)
    rows = kernel.prepare(true_X)
    prior = kernel.diag(rows)
    if not noise_floor >= (1 - RELATIVE) * JITTER[request.kernel.dtype] * prior.max():
        raise ValueError(f"its noise_floor, {noise_floor:.3g}, is less than any run has with this kernel")
    expected = np.maximum(kernel.noise(rows) + alpha, noise_floor)
    wrong = np.abs(noise - expected) > RELATIVE * expected + 64 * eps * prior
    if wrong.any():
        row = indices[np.flatnonzero(wrong)[0]]
        raise ValueError(f"the noise that it records for row {row} is not what the kernel says")
    try:
        factor = covariance_factor(kernel.block(rows, rows), expected)
    except (np.linalg.LinAlgError, ValueError):
        return None
    # The relative error of the covariances, times their condition number.
    error = ROUNDING_GROWTH * rounding(request.kernel, true_X) * float((prior + expected).sum() / expected.min())
    _check_scores(request, indices, scores, factor, expected, y, error)
    return Verified(request, true_X, y, factor, request.unit * error * float(np.abs(y).max()))


def _check_order(request: Request, indices: Indices) -> None:
    """Refuse recorded rows that do not begin with those that this run takes first."""
    given = min(len(request.order), len(indices))
    if not np.array_equal(indices[:given], np.asarray(request.order[:given])):
        place = int(np.argmax(indices[:given] != np.asarray(request.order[:given])))
        raise ValueError(
            f"it records row {indices[place]} as number {place + 1}, but this run begins with row "
            f"{request.order[place]}"
        )


def rounding(kernel: CompiledKernel, X: Floats) -> float:
    """The largest relative error of the covariances of some rows."""
    return float(roundings(kernel, X).max(initial=np.finfo(kernel.dtype).eps))


def roundings(kernel: CompiledKernel, X: Floats) -> Floats:
    """The relative error of the covariances of each row with others, of shape (n,); of two rows, the lesser holds.

    It grows with the distance from the centre: squared distances are differences of squared norms, whose leading digits
    cancel if both rows are far out. If one of them is not, nothing cancels.
    """
    weights, eps = kernel.metric(), float(np.finfo(kernel.dtype).eps)
    if weights is None:  # a kernel without a distance, such as a periodic one: enough for a thousand periods
        return np.full(len(X), 1e3 * eps)
    return np.asarray(eps * (1 + np.square(X - kernel.centre) @ weights))


def disagreement(t: int, recorded: float, computed: float) -> str:
    """The message for a recorded RMSE that is not that of the data at stage t."""
    return (
        f"it records an RMSE of {recorded:.6g} with {t} rows, but with this kernel the data give {computed:.6g}: its "
        f"rows, its kernel or its RMSE are not those of this run"
    )


def _check_scores(
    request: Request, indices: Indices, scores: Floats, factor: Floats, noise: Floats, y: Floats, error: float
) -> None:
    """Refuse scores that the recorded rows cannot have had at their turns; `error` is relative, from rounding."""
    traits, given = ScoreTraits.of(request.score), min(len(request.order), len(indices))
    if not np.isnan(scores[:given]).all() or not np.isfinite(scores[given:]).all():
        raise ValueError("it records scores for rows that were given, or none for rows that were chosen")
    score = traits.inner
    if given == len(indices) or not traits.monotone or score is None:
        return  # look-ahead depends on a random sample, and a user's score that is not monotone may be anything
    pivot = factor.diagonal()
    s = np.sqrt(np.maximum(pivot**2 - noise, 0))
    r = magnitude((solve_triangular(factor, y, lower=True) * pivot[:, None]).T)
    ds, dr = np.sqrt(error) * pivot.max() + RELATIVE * s, error * np.abs(y).max() + RELATIVE * r
    expected = evaluate(score, s, r, noise)
    corners = [evaluate(score, np.maximum(s + a * ds, 0), np.maximum(r + b * dr, 0), noise) for a, b in CORNERS]
    slack = np.abs(corners - expected).max(axis=0)
    wrong = np.flatnonzero(np.abs(scores - expected)[given:] > slack[given:])
    if len(wrong):
        at = wrong[0] + given
        raise ValueError(
            f"it records a score of {scores[at]:.6g} for row {indices[at]}, but the data give {expected[at]:.6g}"
        )
