"""Check that the arrays of a model file fit each other and the kernel; a ValueError says which does not.

Checksums reveal damage, but not a file that someone made on purpose. So every value is checked, and samples of what can
be computed again are, such that predictions are finite numbers. Shapes have been checked before (`layout`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..core.jitter import JITTER
from ..core.types import Array, Floats, Indices
from ..kernels import CompiledKernel, leaves
from ..posteriors import Evidence, Posterior, SubsetOfData
from ..selection.verification import ROUNDING_GROWTH, roundings

LARGEST = 1e150  # largest value that predictions can square: float64 ends at 1.8e308
N_SAMPLE = 256  # rows, evenly spread, whose covariances and residuals are computed again, at O(m) each
N_PREDICTED = 8  # rows that are predicted; predictions that overflow do so at most rows
CLOSE = 1e-6  # tolerance relative to the largest value: far above rounding, far below errors that predictions show
N_ROUNDINGS = 64  # tolerance for computed covariances, in multiples of `covariance_errors`
JITTER_SHARE = 1e-3  # tolerance for w(x).w(x) = k(x, x), relative to the prior: the jitter of K_II is at most 1e-5
USELESS = 0.01  # relative error of covariances above which predictions mean nothing


@dataclass(frozen=True)
class ArrayRule:
    """The types and values that an array of a model file may have."""

    dtypes: tuple[str, ...] = ("float64",)
    sign: Literal["any", "positive", "not negative"] = "any"
    may_be_missing: bool = False
    """Whether NaN is allowed."""
    in_user_units: bool = False
    """Whether values may exceed `LARGEST`: predictions subtract and divide before they square."""
    lower_triangle: bool = False
    """Whether it is a Cholesky factor, or the inverse of one."""

    def check(self, name: str, array: Array) -> None:
        """Refuse values that the array cannot have."""
        if not self.may_be_missing and not np.isfinite(array).all():
            raise ValueError(f"array {name!r} has NaN or infinite values")
        if not self.in_user_units and (np.abs(array) > LARGEST).any():
            raise ValueError(f"array {name!r} has values above {LARGEST:g}, which predictions cannot use")
        if self.sign == "positive" and (array <= 0).any():
            raise ValueError(f"array {name!r} must be positive; its least value is {array.min():g}")
        if self.sign == "not negative" and (array < 0).any():
            raise ValueError(f"array {name!r} must not be negative; its least value is {array.min():g}")
        if self.lower_triangle and (np.triu(array, 1).any() or (array.diagonal() <= 0).any()):
            raise ValueError(f"array {name!r} must be a lower triangle with a positive diagonal")


RULES = {
    "X": ArrayRule(("float64", "float32"), in_user_units=True),
    "Y": ArrayRule(),
    "alpha": ArrayRule(sign="not negative"),
    "centre": ArrayRule(in_user_units=True),
    "y_mean": ArrayRule(in_user_units=True),
    "y_std": ArrayRule(sign="positive", in_user_units=True),
    "active": ArrayRule(("int64",)),
    "rmse": ArrayRule(may_be_missing=True),
    "scores": ArrayRule(may_be_missing=True),
    "factor": ArrayRule(lower_triangle=True),
    "inverse": ArrayRule(lower_triangle=True),
    "root": ArrayRule(lower_triangle=True),
    "weights": ArrayRule(),
    "residuals": ArrayRule(),
    "noises": ArrayRule(sign="positive"),
    "scale_X": ArrayRule(in_user_units=True),
    "scale_squares": ArrayRule(sign="not negative"),
    "scale_novelty": ArrayRule(sign="not negative"),
    "scale_counts": ArrayRule(sign="positive"),
    "scale_sums": ArrayRule(sign="not negative"),
    "centres": ArrayRule(),
    "rows": ArrayRule(("float64", "float32"), in_user_units=True),
    "positions": ArrayRule(),
    "some_rows": ArrayRule(in_user_units=True),
    "cell_low": ArrayRule(in_user_units=True),
    "cell_high": ArrayRule(in_user_units=True),
    "cell_ends": ArrayRule(("int64",), sign="positive"),
    "cell_sums": ArrayRule(("int64",), sign="not negative"),
    "all_X": ArrayRule(("float64", "float32"), in_user_units=True),
    "all_Y": ArrayRule(),
    "all_alpha": ArrayRule(sign="not negative"),
    "all_targets": ArrayRule(),
    "all_judges": ArrayRule(("int64",), sign="not negative"),
    "all_X_sums": ArrayRule(("int64",), sign="not negative"),
    "all_Y_sums": ArrayRule(("int64",), sign="not negative"),
    "all_alpha_sums": ArrayRule(("int64",), sign="not negative"),
    "all_targets_sums": ArrayRule(("int64",), sign="not negative"),
    "all_judges_sums": ArrayRule(("int64",), sign="not negative"),
    "scale_errors": ArrayRule(),
    "scale_variances": ArrayRule(sign="positive"),
    "judges": ArrayRule(("int64",), sign="not negative"),
    "targets": ArrayRule(),
    "mean_centre": ArrayRule(in_user_units=True),
    "mean_unit": ArrayRule(sign="positive", in_user_units=True),
    "mean_coef": ArrayRule(in_user_units=True),
    "mean_inputs": ArrayRule(in_user_units=True),
    "mean_n_trees": ArrayRule(("int64",), sign="positive"),
    "tree_n_leaves": ArrayRule(("int64",), sign="positive"),
    "tree_feature": ArrayRule(("int64",), sign="not negative"),
    "tree_threshold": ArrayRule(in_user_units=True),
    "tree_left": ArrayRule(("int64",)),
    "tree_right": ArrayRule(("int64",)),
    "tree_value": ArrayRule(),
}
"""Every array that a model file can have."""


def check_array_values(arrays: Mapping[str, Array]) -> None:
    """Refuse arrays with values that they cannot have, each looked at by itself."""
    for name, array in arrays.items():
        RULES[name].check(name, array)


def check_stages(active: Indices, rmse: Floats, scores: Floats, n: int) -> None:
    """Refuse active rows that are not m different ones of n, and an RMSE or a score that no stage can have.

    All three arrays are of shape (m,): one entry a stage.
    """
    m = len(active)
    if active.min() < 0 or active.max() >= n or len(np.unique(active)) < m:
        raise ValueError(f"array 'active' must hold {m} different rows, numbered from 0 to {n - 1}")
    with_remainder = rmse[: n - 1]  # once all n rows are active, none is left to have an error
    wrong = ~np.isfinite(with_remainder) | (with_remainder < 0)
    if wrong.any():
        t = int(wrong.argmax())
        raise ValueError(f"array 'rmse' must be a number of at least 0; at stage {t + 1} it is {rmse[t]:g}")
    if np.isposinf(scores).any():
        raise ValueError("array 'scores' must not be infinite")


def check_factor(kernel: CompiledKernel, X: Floats, factor: Floats, noise: Floats, noise_is_known: bool) -> None:
    """Refuse an L that is not the factor of K_II + noise. O(m^2) for each of a sample of rows.

    Parameters
    ----------
    kernel : CompiledKernel
    X : array of shape (m, d)
        The active rows.
    factor : array of shape (m, m)
    noise : array of shape (m,)
        The noise variances of the rows.
    noise_is_known : bool
        Whether `noise` is all noise. If not, the rows' own noise (alpha), which the file does not hold, may be missing.
    """
    features = kernel.prepare(X)
    prior, errors = kernel.diag(features), covariance_errors(kernel, X)
    _check_kernel(kernel, X, prior, noise, float(errors.max()))
    tolerance = (CLOSE + N_ROUNDINGS * errors) * float((prior + noise).max())
    excess = np.einsum("ij,ij->i", factor, factor) - prior - noise
    if not (excess >= -tolerance).all() or (noise_is_known and not (excess <= tolerance).all()):
        raise ValueError("array 'factor' does not fit the kernel: it gives other variances of the active rows")
    if not (factor.diagonal() ** 2 >= 0.25 * noise).all():  # a pivot is s^2 + noise, so no less than the noise
        raise ValueError("array 'factor' is singular to working precision")
    sample = spread_out(len(X))
    difference = factor[sample] @ factor.T - kernel.block(kernel.prepare(X[sample]), features)
    difference[np.arange(len(sample)), sample] = 0  # the diagonal has the noise too, and was checked above
    if not (np.abs(difference) <= np.minimum.outer(tolerance[sample], tolerance)).all():
        raise ValueError("array 'factor' does not fit the kernel: it gives other covariances of the active rows")


def _check_kernel(kernel: CompiledKernel, X: Floats, prior: Floats, noise: Floats, error: float) -> None:
    """Refuse a kernel without usable variances at the active rows; `error` is the relative error of covariances."""
    low, high = X.min(axis=0), X.max(axis=0)
    is_outside = np.maximum(low - kernel.centre, kernel.centre - high) > high - low
    if is_outside.any() and not error < USELESS:
        raise ValueError("array 'centre' is so far from the active rows that covariances cannot be computed")
    if not np.isfinite(prior).all() or (prior < 0).any() or (noise < 0).any():
        raise ValueError("its kernel gives variances that are negative or not finite")
    if not noise.min() >= 0.5 * JITTER[np.dtype(np.float64)] * prior.max():
        raise ValueError("noise_floor is smaller than in any fit with this kernel")


def check_projection(kernel: CompiledKernel, X: Floats, inverse: Floats, root: Floats) -> None:
    """Refuse L_u^-1 and the inverse factor of B, of a projected process, if they do not fit the kernel.

    Parameters
    ----------
    kernel : CompiledKernel
    X : array of shape (m, d)
        The active rows.
    inverse, root : arrays of shape (m, m)
        See `sodalite.posteriors.projected.Projected`.
    """
    features, sample = kernel.prepare(X), spread_out(len(X))
    prior, W = kernel.diag(features), inverse @ kernel.block(features, kernel.prepare(X[sample]))
    tolerance = (JITTER_SHARE + N_ROUNDINGS * covariance_errors(kernel, X[sample])) * float(prior.max())
    if not (np.abs(np.einsum("ij,ij->j", W, W) - prior[sample]) <= tolerance).all():
        raise ValueError("array 'inverse' does not fit the kernel's covariances of the active rows")
    if not (np.einsum("ij,ij->j", root, root) <= 1 + CLOSE).all():  # B is at least the identity
        raise ValueError("array 'root' must be an inverse Cholesky factor whose columns have norms of at most 1")


@dataclass(frozen=True)
class RemainderRows:
    """The rows that are not active, grouped into sets of equal inputs."""

    indices: Indices
    """The rows, of shape (rows,)."""
    first: Indices
    """For each set, the place of its first row among `indices`; of shape (sets,)."""
    group: Indices
    """For each row, the place of its set; of shape (rows,)."""


def check_residuals(
    evidence: Evidence, base: SubsetOfData, remainder: RemainderRows, residuals: Floats, noises: Floats
) -> None:
    """Refuse residuals and noise variances of the remainder that do not follow from the data and the kernel.

    Parameters
    ----------
    evidence : Evidence
    base : SubsetOfData
        The posterior given the active rows alone.
    remainder : RemainderRows
    residuals, noises : arrays of shape (sets, q), (sets,)
        Of the mean target of each set of equal rows: its residual given `base`, and its noise variance.
    """
    n_sets = len(remainder.first)
    if not n_sets == len(residuals) == len(noises):
        raise ValueError(
            f"arrays 'residuals' and 'noises' must have one entry for each of the {n_sets} different rows that are "
            f"not active; they have {len(residuals)} and {len(noises)}"
        )
    if not n_sets:
        return
    means = _check_noises(evidence, remainder, noises)
    X = np.asarray(evidence.X[remainder.indices][remainder.first], dtype=np.float64)
    _check_residual_sizes(evidence.kernel, base, X, means, residuals)
    sample, active = spread_out(n_sets), evidence.selection.indices
    total = np.square(base.factor).sum()  # the trace of K_II + noise
    least = evidence.noise(active).min()
    most = roundings(evidence.kernel, np.asarray(evidence.X[active], dtype=np.float64)).max()
    errors = np.minimum(roundings(evidence.kernel, X[sample]), most)
    worst = ROUNDING_GROWTH * errors * float(total / least)  # rounding times the condition number
    tolerance = CLOSE * np.abs(means).max() + worst[:, None] * np.abs(evidence.y[:]).max()
    if not (np.abs(means[sample] - base.mean(X[sample]) - residuals[sample]) <= tolerance).all():
        raise ValueError("array 'residuals' does not follow from the rows and the kernel")


def _check_noises(evidence: Evidence, remainder: RemainderRows, noises: Floats) -> Floats:
    """Refuse noise variances of the sets that do not fit the kernel; return the sets' mean targets, (sets, q)."""
    noise, y, n_sets = evidence.noise(remainder.indices), evidence.y[remainder.indices], len(remainder.first)
    precision = np.bincount(remainder.group, 1 / noise, minlength=n_sets)
    if not (np.abs(noises * precision - 1) <= CLOSE).all():
        raise ValueError("array 'noises' does not fit the kernel's noise")
    sums = [np.bincount(remainder.group, column / noise, minlength=n_sets) for column in y.T]
    return np.asarray(np.stack(sums, axis=1) / precision[:, None])


def _check_residual_sizes(
    kernel: CompiledKernel, base: SubsetOfData, X: Floats, means: Floats, residuals: Floats
) -> None:
    """Refuse residuals that are larger than abs(target) + abs(k(x, I) w) can be, w the weights of `base`."""
    prior = kernel.diag(kernel.prepare(X)).max() + kernel.diag(base.rows).max()  # bounds abs(k(x, I))
    largest = np.abs(means).max() + prior * np.abs(base.weights).sum()
    if not (np.abs(residuals) <= (1 + CLOSE) * largest).all():
        raise ValueError("array 'residuals' has values that are larger than the targets and the kernel allow")


def check_some_predictions(posterior: Posterior, X: Floats, y_mean: Floats, y_std: Floats) -> None:
    """Refuse a model whose predictions at some of its active rows X are not finite."""
    mean, variance = posterior.mean_and_variance(np.asarray(X[:N_PREDICTED], dtype=np.float64), noisy=True)
    mean, std = mean * y_std + y_mean, np.sqrt(variance)[:, None] * y_std
    if not (np.isfinite(mean).all() and np.isfinite(std).all()):
        raise ValueError("its predictions at its own rows are not finite")


def covariance_errors(kernel: CompiledKernel, X: Floats) -> Floats:
    """Return the relative error of each row's covariances from rounding, of shape (n,).

    Matern 1/2 has a peak at distance zero, where it falls as the root of what squared distances have.
    """
    errors = roundings(kernel, X)
    peaked = any(getattr(leaf, "nu", None) == 0.5 for leaf in leaves(kernel.spec))
    return np.sqrt(errors) if peaked else errors


def spread_out(n: int) -> Indices:
    """Return at most `N_SAMPLE` places among n, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, N_SAMPLE)).astype(int))
