"""Rows that would mislead a fit get noise of their own: those with gross errors in their targets, and copies.

The method is described in docs/method.rst, `gross-errors`. One wrong target among two hundred decides over the
likelihood: all that varies is taken for noise then, or for steep peaks. Rows that contradict all rows near by are
candidates. They get as much noise as they are off by, if the other rows are predicted better so, and if nothing
predicts the candidates themselves.

Observations that are repeated differ by their noise. Where all rows with equal inputs have equal targets too, they are
records that were kept twice, and say no more together than one of them: else their common error would be taken for
what all rows agree on, and error bars would be too small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, inf, sqrt

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.types import Array, Floats, Indices, Mask
from ..core.warn import warn
from ..exceptions import OutlierWarning
from ..hyperparameters.dense import leave_one_out
from ..hyperparameters.search import find_exactly
from ..hyperparameters.task import Fixed, Task
from ..kernels import default_kernels, robust_spread
from ..kernels.neighbours import Index, distinct
from ..selection.rows import NOISE_ALONE, ArrayRows

FEWEST, MOST = 20, 100_000  # rows: fewer do not tell what is usual, and among more a few wrong ones do little harm
N_KNOWN, N_NEAREST = 1000, 8  # rows, drawn at random, among which the nearest are sought, and how many of these
MAD = 1.4826  # the standard deviation of a normal distribution, in units of the median absolute deviation
FAR = 10.0  # robust standard deviations from the rows near by that make a candidate: a t of 3 degrees has one in 500
MOST_SHARE = 0.005  # share of the rows that may be candidates: more are no slips, but days off, or heavy tails
TRIMMED = 0.02  # share of counts, the furthest off, that do not tell what is usual
N_JUDGED, FEW = 500, 5  # rows, drawn at random, that judge candidates, O(n^3), and how many candidates at least
A_FEW, A_FEW_SHARE = 3, 0.1  # rows that may be candidates in any case, if they are no more than this share
LEAST_HARM = 0.02  # share that the others' mean square must grow by if one candidate has no noise of its own
LEAST_FALL, LEAST_GAIN = 0.2, 0.02  # shares that the others' mean square must fall by: of those judged, and of all
CERTAIN = 1.0  # standard errors by which it must fall; few rows beside a wrong one may bear most of its harm
STILL_OFF = 0.5  # the least RMSE of the candidates without noise of their own, in units of what they are off by
FURTHEST = 1e6  # standard deviations of the targets: an error that is larger does as much harm
LARGEST = 1e100  # error whose square is a noise variance: larger ones would be infinite
SHOWN = 5  # rows that a warning names
UNPREDICTED = 0.9  # the least RMSE of the candidates without noise of their own, in units of that with it

FEWEST_COPIED, COPIED_SHARE = 3, 0.1  # sets of equal rows, and share of the rows that are copies: fewer may be chance
SAFE = 100.0  # times the noise variance from which on a row is noise alone


@dataclass(frozen=True)
class Kept(Fixed):
    """Keep the kernel of another fit. Unlike with a kernel that a user fixes, gross errors are looked for."""

    alone: bool = False
    """Whether its mean function was all of the model."""


@dataclass(frozen=True)
class GrossErrors:
    """The rows with gross errors in their targets, in increasing order, and by how much each is off."""

    rows: Indices
    errors: Floats
    """In units of the target."""
    usual: float
    """The robust standard deviation of rows from those near by, in units of the target."""

    def words(self, place: Callable[[int], str] = "row {}".format) -> str:
        """A warning that names the rows, each by its index as `place` has it."""
        offs = [f"{place(int(row))} by {error:.3g}" for row, error in zip(self.rows, self.errors, strict=True)]
        named = ", ".join(offs[:SHOWN]) + (f" and {len(offs) - SHOWN} more" if len(offs) > SHOWN else "")
        one = len(offs) == 1
        return (
            f"{'A target is' if one else 'Targets are'} far off all rows near by: {named}, where {self.usual:.3g} is "
            f"usual. {'The row counts' if one else 'These rows count'} as noise, since {'it' if one else 'they'} would "
            "spoil the predictions of others."
        )

    def noise(self, n: int) -> Floats:
        """The noise variances of all n rows, as `alpha` of a fit; 0 for rows without gross errors."""
        alpha = np.zeros(n)
        alpha[self.rows] = np.square(np.minimum(np.abs(self.errors), LARGEST))
        return alpha


def without_copies(rows: ArrayRows) -> ArrayRows:
    """Rows in memory, copies of other rows with so much noise of their own that they count for nothing."""
    n = len(rows.y)
    if rows.alpha is not None or n > MOST:
        return rows
    X = np.asarray(rows.X)
    first, group = distinct(X)
    is_copy = np.ones(n, dtype=bool)
    is_copy[first] = False
    n_sets = int((np.bincount(group) > 1).sum())
    if n_sets < FEWEST_COPIED or is_copy.mean() < COPIED_SHARE or not np.array_equal(rows.y, rows.y[first][group]):
        return rows
    spread = float(np.max(rows.y[first].var(axis=0)))
    return replace(rows, alpha=np.where(is_copy, SAFE * NOISE_ALONE * spread, 0.0)) if spread > 0 else rows


def look_over(rows: ArrayRows, seconds: float = inf, kernel: Kernel | None = None) -> GrossErrors | None:
    """Find the rows in memory that have gross errors in their targets, and warn of them; None if there are none.

    Only rows of one target without a user's noise variances are looked at. `seconds` and `kernel` are as in
    `find_gross_errors`.
    """
    if rows.alpha is not None or rows.y.shape[1] > 1:
        return None
    errors = find_gross_errors(rows.X, rows.y[:, 0], seconds, kernel)
    if errors is not None:
        what = (
            "it, or pass alpha=0 to fit it as it is"
            if len(errors.rows) == 1
            else "them, or pass alpha=0 to fit them so"
        )
        bars = "Error bars are those of rows without such errors."
        warn(f"{errors.words()} {bars} Correct or drop {what}.", OutlierWarning)
    return errors


def find_gross_errors(X: Array, y: Floats, seconds: float = inf, kernel: Kernel | None = None) -> GrossErrors | None:
    """The rows with gross errors in their targets; None if there are none.

    Parameters
    ----------
    X : array of shape (n, d)
    y : array of shape (n,)
    seconds : float
        Time limit of each of two searches for a kernel, which take place only if there are candidates.
    kernel : scikit-learn kernel, optional
        The kernel of targets scaled to unit variance, if it is known: nothing is searched then.
    """
    n, generator = len(X), np.random.default_rng(0)
    if not FEWEST <= n <= MOST:
        return None
    off = _contradictions(X, y, generator)
    usual = _usual(np.abs(off))
    far = np.abs(off) > FAR * usual
    rows, others = np.flatnonzero(far), np.flatnonzero(~far)
    if usual == 0 or not 1 <= len(rows) <= max(min(A_FEW, A_FEW_SHARE * n), MOST_SHARE * n):
        return None
    judged = generator.permutation(rows)[: max(FEW, ceil(len(rows) * min(1.0, N_JUDGED / n)))]
    some = np.concatenate([judged, generator.permutation(others)[: N_JUDGED - len(judged)]])
    times = len(judged) / len(some) * n / len(rows)  # how many times as frequent candidates are there as in the data
    least = max(LEAST_FALL, LEAST_GAIN * times)
    found = _gross(np.asarray(X[some], dtype=np.float64), y[some], off[some], far[some], least, seconds, kernel)
    if not found.any():
        return None
    rows = rows[np.abs(off[rows]) >= np.abs(off[some[found]]).min()]
    return GrossErrors(rows, off[rows], usual)


def _usual(off: Floats) -> float:
    """The robust standard deviation of what rows are off by, in size; of counts, which often agree, at least a step."""
    middle = MAD * float(np.median(off))
    if middle > 0:
        return middle
    most = np.sort(off)[: int((1 - TRIMMED) * len(off))]
    step = float(off[off > 0].min(initial=inf))
    return max(float(np.sqrt(np.mean(np.square(np.minimum(most, LARGEST))))), step)


def _contradictions(X: Array, y: Floats, generator: np.random.Generator) -> Floats:
    """Every target less the median of those of the rows near by; of shape (n,)."""
    known = generator.permutation(len(X))[:N_KNOWN]
    places = np.asarray(X[known], dtype=np.float64)
    index = Index.of(places, np.median(places, axis=0), 1 / np.square(robust_spread(X)))
    near = known[index.query(X, N_NEAREST + 1)]
    left_out = near == np.arange(len(X))[:, None]
    left_out[~left_out.any(axis=1), -1] = True  # the row itself, or else the last, so that as many are left
    return np.asarray(y - np.median(y[near[~left_out].reshape(len(X), N_NEAREST)], axis=1))


def _gross(X: Floats, y: Floats, off: Floats, far: Mask, least: float, seconds: float, kernel: Kernel | None) -> Mask:
    """Which rows have gross errors: those that are far off, if noise for them helps to predict the others.

    It must not hurt these themselves, and each of them must do harm without it.

    Parameters
    ----------
    X, y : arrays of shape (n, d) and (n,)
    off, far : arrays of shape (n,)
        By how much each target is off, and whether that is far.
    least : float
        The share that the others' mean square must fall by.
    seconds : float
        Time limit of each of two searches.
    kernel : scikit-learn kernel or None
        That of the scaled targets; None to search for it, with noise for these rows and without.
    """
    unit, nothing = y[~far].std(), np.zeros(len(y), dtype=bool)
    scaled = np.clip((y - y[~far].mean()) / unit, -FURTHEST, FURTHEST)[:, None]
    noise = np.where(far, np.square(np.minimum(np.abs(off) / unit, FURTHEST)), 0.0)
    alike = _squares_left_out(kernel or _kernel(X, scaled, None, seconds), X, scaled, None)
    kernel = kernel or _kernel(X, scaled, noise, seconds)
    apart = _squares_left_out(kernel, X, scaled, noise)
    if alike is None or apart is None:
        return nothing
    fall, left = alike[~far] - apart[~far], apart[~far].mean()
    helps = fall.mean() >= max(least * alike[~far].mean(), CERTAIN * fall.std() / sqrt(len(fall)))
    least_own = max(UNPREDICTED**2 * apart[far].mean(), STILL_OFF**2 * noise[far].mean())
    if not helps or alike[far].mean() < least_own:
        return nothing
    found = nothing.copy()
    for row in np.flatnonzero(far):
        without = noise.copy()
        without[row] = 0.0
        squares = _squares_left_out(kernel, X, scaled, without)
        found[row] = squares is None or squares[~far].mean() - left >= LEAST_HARM * left
    return found


def _kernel(X: Floats, y: Floats, alpha: Floats | None, seconds: float) -> Kernel:
    """The kernel of a quick search. Targets with noise of their own must not tell how far targets vary."""
    if alpha is not None:
        y = np.where(alpha[:, None] > 0, 0.0, y)
    kernels = default_kernels(X, y)
    task = Task(X, y, alpha, seconds=seconds)
    return find_exactly(task, [kernels[(len(kernels) - 1) // 2]]).kernel


def _squares_left_out(kernel: Kernel, X: Floats, y: Floats, alpha: Floats | None) -> Floats | None:
    """The squared error of every row, predicted from the others; of shape (n,).

    None if the covariance is not positive definite.
    """
    found = leave_one_out(kernel, X, y, alpha)
    return None if found is None else (found[0] / found[1])[:, 0]
