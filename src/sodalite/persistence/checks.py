"""Whether what a model file says makes sense: a ValueError says what does not.

Checksums tell damage, not forgery. So shapes are checked before any memory is taken for arrays, then every value, and
then whether the arrays fit together and the kernel, so that predictions are finite numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.jitter import JITTER
from ..core.json import shown
from ..core.types import Array
from ..kernels import CompiledKernel
from ..posteriors import POSTERIORS, Evidence, Local, SubsetOfData
from ..selection.verification import ROUNDING_GROWTH, rounding

LARGEST = 1e150  # of what is squared in predictions: float64 ends at 1e308
SOME = 256  # rows, evenly spread, for which covariances and residuals are computed again
CLOSE = 1e-6  # tolerance, relative to the largest value: far above rounding, far below what matters
USELESS = 0.01  # relative error of covariances, from which on predictions mean nothing
PLAIN = {"X", "centre", "scale_X", "y_mean", "y_std"}  # arrays in the user's own units, however large these are
POSITIVE = {"y_std", "noises"}
NOT_NEGATIVE = {"alpha", "scale_squares", "scale_novelty"}
FACTORS = {"factor", "inverse", "root"}  # lower triangles
MAY_BE_MISSING = {"rmse", "scores"}  # arrays that may hold NaN


@dataclass(frozen=True)
class Layout:
    """The sizes of a model, and the arrays that its file must have."""

    n: int
    m: int
    d: int
    q: int
    posterior: str
    shapes: dict[str, tuple[int | None, ...]]
    """None stands for any number."""

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Layout:
        """What a file's text asks for."""
        n, m, d, q = (count(content[key], key, 1) for key in ("n_rows", "n_active", "n_features", "n_targets"))
        if m > n:
            raise ValueError(f"it has {m} active rows, but only {n} rows")
        if not isinstance(content["flat"], bool) or (content["flat"] and q != 1):
            raise ValueError(f"it has {q} targets, but says that predictions have one dimension")
        about = mapping(content["posterior"], "posterior")
        name = about["name"]
        if not isinstance(name, str) or name not in POSTERIORS:
            raise ValueError(f"its posterior is {shown(name)}, which there is not")
        rows = n if name == "local" else m
        shapes: dict[str, tuple[int | None, ...]] = {"centre": (d,), "X": (rows, d), "Y": (rows, q), "factor": (m, m)}
        shapes |= dict.fromkeys(("active", "rmse", "scores"), (m,)) | dict.fromkeys(("y_mean", "y_std"), (q,))
        if name == "local":
            shapes |= {"residuals": (None, q), "noises": (None,)}
            if about["alpha"]:
                shapes |= {"alpha": (n,)}
            if about["scale"] is not None:
                shapes |= {"scale_X": (None, d), "scale_squares": (None,)}
                if mapping(about["scale"], "scale").get("novelty"):
                    shapes |= {"scale_novelty": (None,)}
        elif name != "sod":
            shapes |= {"inverse": (m, m), "root": (m, m), "weights": (m, q)}
        return cls(n, m, d, q, name, shapes)

    def check(self, arrays: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
        """Refuse arrays, given by their types and shapes, that are not those of the layout."""
        if set(arrays) != set(self.shapes):
            wrong = sorted(set(arrays) ^ set(self.shapes))
            raise ValueError(f"array {wrong[0]!r} {'should not be there' if wrong[0] in arrays else 'is missing'}")
        for name, wanted in self.shapes.items():
            dtype, shape = arrays[name]
            kinds = ("int64",) if name == "active" else ("float64", "float32") if name == "X" else ("float64",)
            if dtype not in kinds:
                raise ValueError(f"array {name!r} is of type {dtype}, where {kinds[0]} is needed")
            if len(shape) != len(wanted) or any(b not in (a, None) for a, b in zip(shape, wanted, strict=True)):
                words = str(wanted).replace("None", "any")
                raise ValueError(f"array {name!r} has shape {shape}, where {words} is needed")
            if any(size > self.n for size, free in zip(shape, wanted, strict=True) if free is None):
                raise ValueError(f"array {name!r} has shape {shape}, but the model has {self.n} rows")


def check_values(arrays: Mapping[str, Array], layout: Layout) -> None:
    """Refuse arrays of values that they cannot have."""
    for name, array in arrays.items():
        if name not in MAY_BE_MISSING and not np.isfinite(array).all():
            raise ValueError(f"array {name!r} has NaN or infinite values")
        if name not in PLAIN and (np.abs(array) > LARGEST).any():
            raise ValueError(f"array {name!r} has values above {LARGEST:g}, which predictions cannot use")
        if name in POSITIVE and (array <= 0).any():
            raise ValueError(f"array {name!r} must be positive, and has {array.min():g}")
        if name in NOT_NEGATIVE and (array < 0).any():
            raise ValueError(f"array {name!r} must not be negative, and has {array.min():g}")
        if name in FACTORS and (np.triu(array, 1).any() or (array.diagonal() <= 0).any()):
            raise ValueError(f"array {name!r} is no lower triangle with a positive diagonal")
    active, rmse, scores = arrays["active"], arrays["rmse"], arrays["scores"]
    if active.min() < 0 or active.max() >= layout.n or len(np.unique(active)) < layout.m:
        raise ValueError(f"its active rows are not {layout.m} different ones of {layout.n}")
    known = np.arange(1, layout.m + 1) < layout.n  # of all rows, none remains whose error it could be
    if not np.isfinite(rmse[known]).all() or (rmse[known] < 0).any() or np.isposinf(scores).any():
        raise ValueError("its RMSE or its scores have values that there cannot be")


def check_factor(kernel: CompiledKernel, X: Array, factor: Array, noise: Array, exact: bool) -> None:
    """Refuse a factor that is not that of the active rows' covariance. O(m^2) for a sample of its rows.

    Parameters
    ----------
    kernel : CompiledKernel
    X : array of shape (m, d)
    factor : array of shape (m, m)
    noise : array of shape (m,)
        The noise variances of the rows; without noise of their own, where that is not known.
    exact : bool
        Whether it is known.
    """
    rows = kernel.prepare(X)
    prior, some = kernel.diag(rows), spread_out(len(X))
    top = float((prior + noise).max())
    error = rounding(kernel, X)
    tolerance = (CLOSE + 64 * error) * top
    low, high = X.min(axis=0), X.max(axis=0)
    beyond = np.maximum(low - kernel.centre, kernel.centre - high) > high - low
    if beyond.any() and not error < USELESS:
        raise ValueError("array 'centre' is so far from the active rows that covariances cannot be computed")
    if not np.isfinite(prior).all() or (prior < 0).any() or (noise < 0).any():
        raise ValueError("its kernel gives variances that are negative or no finite numbers")
    if not noise.min() >= 0.5 * JITTER[np.dtype(np.float64)] * prior.max():
        raise ValueError("its noise_floor is less than any model has with this kernel")
    excess = np.einsum("ij,ij->i", factor, factor) - prior - noise
    if not (excess >= -tolerance).all() or (exact and not (excess <= tolerance).all()):
        raise ValueError("array 'factor' does not fit the kernel's variances of the active rows")
    if not (factor.diagonal() ** 2 >= 0.25 * noise).all():  # the noise is part of every pivot
        raise ValueError("array 'factor' is singular to working precision")
    here = np.arange(len(X))[some]
    difference = factor[some] @ factor.T - kernel.block(kernel.prepare(X[some]), rows)
    difference[np.arange(len(here)), here] = 0
    if not (np.abs(difference) <= tolerance).all():
        raise ValueError("array 'factor' does not fit the kernel's covariances of the active rows")


def check_projection(kernel: CompiledKernel, X: Array, inverse: Array, root: Array) -> None:
    """Refuse the inverse factors of a posterior that sees all rows through the active ones, if they cannot be."""
    rows, some = kernel.prepare(X), spread_out(len(X))
    W = inverse @ kernel.block(rows, kernel.prepare(X[some]))
    prior = kernel.diag(rows)
    # What W leaves of the variance is the jitter, at most 1e-5 of the largest.
    tolerance = (1e-3 + 64 * rounding(kernel, X)) * float(prior.max())
    if not (np.abs(np.einsum("ij,ij->j", W, W) - prior[some]) <= tolerance).all():
        raise ValueError("array 'inverse' does not fit the kernel's covariances of the active rows")
    if not (np.einsum("ij,ij->j", root, root) <= 1 + CLOSE).all():
        raise ValueError("array 'root' is no inverse factor of a matrix that is larger than the identity")


def check_rest(
    evidence: Evidence, base: SubsetOfData, first: Array, group: Array, rest: Array, residuals: Array, noises: Array
) -> None:
    """Refuse residuals and noises of the distinct rows of the remainder that do not follow from the data.

    Parameters
    ----------
    evidence : Evidence
    base : SubsetOfData
        The posterior given the active rows alone.
    first, group, rest : arrays of int
        The first row of each set of equal ones among the rows `rest`, and for each of these the place of its set.
    residuals, noises : arrays of shape (sets, q), (sets,)
    """
    if not len(first) == len(residuals) == len(noises):
        raise ValueError(
            f"it has {len(first)} rows that differ, but {len(residuals)} residuals and {len(noises)} noises"
        )
    if not len(first):
        return
    kernel, noise, Y = evidence.kernel, evidence.noise(rest), evidence.y[rest]
    precision = np.bincount(group, 1 / noise, minlength=len(first))
    if not (np.abs(noises * precision - 1) <= CLOSE).all():
        raise ValueError("array 'noises' does not fit the kernel's noise")
    means = np.stack([np.bincount(group, c / noise, minlength=len(first)) for c in Y.T], axis=1) / precision[:, None]
    X, some = np.asarray(evidence.X[rest][first], dtype=np.float64), spread_out(len(first))
    prior = kernel.diag(kernel.prepare(X)).max() + kernel.diag(base.rows).max()
    most = np.abs(means).max() + prior * np.abs(base.weights).sum()  # abs(k(x, I) w) is at most the prior times w's sum
    if not (np.abs(residuals) <= (1 + CLOSE) * most).all():
        raise ValueError("array 'residuals' is larger than the data allow")
    own = np.square(base.factor).sum(axis=1)
    worst = ROUNDING_GROWTH * rounding(kernel, X) * float(own.sum() / evidence.noise(evidence.selection.indices).min())
    tolerance = CLOSE * np.abs(means).max() + worst * np.abs(evidence.y[:]).max()
    if not (np.abs(means[some] - base.mean(X[some]) - residuals[some]) <= tolerance).all():
        raise ValueError("array 'residuals' does not follow from the rows and the kernel")


def check_predictions(posterior: Any, X: Array, y_mean: Array, y_std: Array) -> None:
    """Refuse a model that predicts, at some of its own rows, what is no finite number."""
    if isinstance(posterior, Local):
        posterior = replace(posterior, limit=0)  # so few queries are no reason to keep anything for later ones
    mean, variance = posterior.mean_and_variance(np.asarray(X[:8], dtype=np.float64), noisy=True)
    mean, std = mean * y_std + y_mean, np.sqrt(variance)[:, None] * y_std
    if not (np.isfinite(mean).all() and np.isfinite(std).all()):
        raise ValueError("its predictions at its own rows are no finite numbers")


def spread_out(n: int) -> Array:
    """At most `SOME` places among n, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, SOME)).astype(int))


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    """A part of the text that must be an object with fields."""
    if not isinstance(value, dict):
        raise ValueError(f"{what} is {shown(value)}, where fields and values belong")
    return value


def count(value: Any, what: str, least: int = 0, most: float = 2**63 - 1) -> int:
    """A whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{what} is {shown(value)}, where a whole number from {least} to {most} belongs")
    return value


def real(value: Any, what: str, least: float = 0.0, most: float = np.inf) -> float:
    """A finite number within bounds."""
    number = not isinstance(value, bool) and isinstance(value, int | float) and abs(value) < np.inf
    if not number or not least <= value <= most:
        words = f"of at least {least:g}" + (f" and at most {most:g}" if most < np.inf else "")
        raise ValueError(f"{what} is {shown(value)}, where a number {words} belongs")
    return float(value)


def text(value: Any, what: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise ValueError(f"{what} is {shown(value)}, where a text belongs")
    return value
