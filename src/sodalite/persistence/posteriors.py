"""What a model file holds of each posterior, beside what every model has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np

from ..core.memory import available, parse_bytes
from ..core.types import Floats
from ..fitting.fitted import Fitted
from ..kernels import CompiledKernel
from ..kernels.neighbours import distinct
from ..posteriors import POSTERIORS, Evidence, Local, Posterior, SubsetOfData
from ..posteriors.local import POWERS
from ..posteriors.projected import (
    DeterministicTraining,
    FullyIndependentTraining,
    Projected,
    SubsetOfRegressors,
    Variational,
)
from .checks import Remainder, check_projection, check_residuals
from .error_bars import scale_arrays, scale_from_json, scale_shapes, scale_to_json
from .fields import count, real

Shapes: TypeAlias = dict[str, tuple[int | None, ...]]
"""The shapes of arrays by their names; None stands for any number."""


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model."""

    n: int
    """Rows of the fit."""
    m: int
    """Active rows."""
    d: int
    """Inputs."""
    q: int
    """Targets."""


@dataclass(frozen=True)
class Stored:
    """The content of a model file from which a posterior is restored."""

    evidence: Evidence
    """The rows that the file holds, which of them are active, and the kernel."""
    about: Mapping[str, Any]
    """The JSON field "posterior"."""
    arrays: Mapping[str, Floats]
    likelihood: Any
    """The JSON field "log_marginal_likelihood"."""
    memory_limit: int | float | str | None
    """That of the estimator."""


class PosteriorFormat(Protocol):
    """How one kind of posterior is stored."""

    holds_all_rows: ClassVar[bool]
    """Whether the file holds all rows of the fit, or the active rows alone."""

    def shapes(self, about: Mapping[str, Any], sizes: Sizes) -> Shapes:
        """Return the shapes of its own arrays; `about` is the JSON field "posterior"."""
        ...

    def describe(self, fitted: Fitted) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Return its own JSON fields, and its own arrays."""
        ...

    def restore(self, stored: Stored) -> Posterior:
        """Return the posterior; a ValueError says what no posterior can have."""
        ...

    def without_cache(self, posterior: Posterior) -> Posterior:
        """Return a posterior for a few predictions, which fill no cache of the one that is given."""
        ...


class SubsetFormat:
    """The subset of data: it follows from the active rows and the factor, which every model has."""

    holds_all_rows: ClassVar[bool] = False

    def shapes(self, about: Mapping[str, Any], sizes: Sizes) -> Shapes:
        """Return no shapes: it has no arrays of its own."""
        return {}

    def describe(self, fitted: Fitted) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Return no fields and no arrays."""
        return {}, {}

    def restore(self, stored: Stored) -> Posterior:
        """Return the posterior given the active rows. O(m^3)."""
        evidence = stored.evidence
        scale = scale_from_json(evidence.kernel, stored.arrays, stored.about.get("scale"))
        return replace(SubsetOfData.condition(evidence), scale=scale)

    def without_cache(self, posterior: Posterior) -> Posterior:
        """Return the posterior itself, which has no cache."""
        return posterior


@dataclass(frozen=True)
class ProjectedFormat:
    """A projected process: the factors and weights, which are sums over all rows."""

    kind: type[Projected]

    holds_all_rows: ClassVar[bool] = False

    def shapes(self, about: Mapping[str, Any], sizes: Sizes) -> Shapes:
        """Return the shapes of the two inverse factors and of the weights."""
        m = sizes.m
        return {"inverse": (m, m), "root": (m, m), "weights": (m, sizes.q)}

    def describe(self, fitted: Fitted) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Return no fields; the two inverse factors and the weights."""
        posterior = fitted.posterior
        assert isinstance(posterior, Projected)
        return {}, {"inverse": posterior.inverse, "root": posterior.root, "weights": posterior.weights}

    def restore(self, stored: Stored) -> Posterior:
        """Return the posterior with the stored factors, a sample of which is checked against the kernel."""
        kernel, X, arrays = stored.evidence.kernel, np.asarray(stored.evidence.X), stored.arrays
        inverse, root = arrays["inverse"], arrays["root"]
        check_projection(kernel, np.asarray(X, dtype=np.float64), inverse, root)
        value = real(stored.likelihood, "log_marginal_likelihood", -np.inf)
        scale = scale_from_json(kernel, arrays, stored.about.get("scale"))
        return self.kind(kernel, kernel.prepare(X), inverse, root, arrays["weights"], value, scale)

    def without_cache(self, posterior: Posterior) -> Posterior:
        """Return the posterior itself, which has no cache."""
        return posterior


class LocalFormat:
    """The local posterior: all rows, and the residuals of the remainder given the active rows."""

    holds_all_rows: ClassVar[bool] = True

    def shapes(self, about: Mapping[str, Any], sizes: Sizes) -> Shapes:
        """Return the shapes of residuals and noises, of alpha if there is one, and of what version 1 does not list."""
        shapes: Shapes = {"residuals": (None, sizes.q), "noises": (None,)}
        if about["alpha"]:
            shapes |= {"alpha": (sizes.n,)}
        if isinstance(shared := about.get("shared"), dict) and shared.get("centres"):
            shapes |= {"centres": (None, None)}
        return shapes | scale_shapes(about["scale"], sizes.d, sizes.q, old=("scale_X", "scale_squares"))

    def describe(self, fitted: Fitted) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Return the number of neighbours and whether rows have noise of their own; and the arrays."""
        posterior, rows = fitted.posterior, fitted.rows
        assert isinstance(posterior, Local)
        assert rows is not None
        arrays = {"residuals": posterior.r, "noises": posterior.noises}
        if rows.alpha is not None:
            arrays["alpha"] = rows.alpha
        about: dict[str, Any] = {"k": int(posterior.k), "alpha": rows.alpha is not None}
        if (shared := posterior.shared) is not None:
            arrays["centres"] = shared.cells.centres
            about["shared"] = {"cell": shared.cell, "rows": shared.h, "power": posterior.power, "centres": True}
        return about, arrays

    def restore(self, stored: Stored) -> Posterior:
        """Return the posterior with the stored residuals, a sample of which is computed again."""
        evidence, arrays = stored.evidence, stored.arrays
        indices = np.delete(np.arange(len(evidence.X)), evidence.selection.indices)
        X = np.asarray(evidence.X[indices], dtype=np.float64)
        first, group = distinct(X)
        base = SubsetOfData.condition(evidence)
        residuals, noises = arrays["residuals"], arrays["noises"]
        check_residuals(evidence, base, Remainder(indices, first, group), residuals, noises)
        k = count(stored.about["k"], "k, the number of neighbours,", most=len(first))
        scale = scale_from_json(evidence.kernel, arrays, stored.about["scale"])
        limit = available() // 4 if stored.memory_limit is None else parse_bytes(stored.memory_limit)
        shared = stored.about.get("shared")
        sharing = (0, 0, 0) if shared is None else _sharing(evidence.kernel, shared, len(first))
        given = evidence.kernel, base, X[first], residuals, noises, k, scale, limit
        return _with_centres(Local.restore(*given, *sharing, arrays.get("centres")))

    def without_cache(self, posterior: Posterior) -> Posterior:
        """Return a copy that keeps neither coordinates v of the rows nor factors."""
        assert isinstance(posterior, Local)
        return posterior.without_cache()


def _with_centres(posterior: Local) -> Local:
    """Return a posterior, once the centres of its cells have been checked."""
    if posterior.shared is not None:
        assert posterior.near.index is not None
        needed, found = len(posterior.near.index.columns), posterior.shared.cells.centres.shape[1]
        if found != needed:
            raise ValueError(f"array 'centres' must have {needed} columns, as the metric has; it has {found}")
    return posterior


def _sharing(kernel: CompiledKernel, shared: Any, n: int) -> tuple[int, int, int]:
    """Return the checked rows of a cell and of a neighbourhood, and the power of the precisions."""
    most = {"cell": n, "rows": n, "power": max(POWERS)}
    if not isinstance(shared, dict) or kernel.metric() is None:
        raise ValueError("the field 'shared' of the posterior must be an object, and its kernel must have a metric.")
    cell, h, power = (
        count(shared.get(name), f"{name}, of the shared neighbourhoods,", most=most[name]) for name in most
    )
    if not (cell and h):
        raise ValueError(f"cells and neighbourhoods of shared rows must not be empty; got {shared}.")
    return cell, h, power


FORMATS: dict[str, PosteriorFormat] = {
    SubsetOfData.name: SubsetFormat(),
    **{
        kind.name: ProjectedFormat(kind)
        for kind in (SubsetOfRegressors, DeterministicTraining, FullyIndependentTraining, Variational)
    },
    Local.name: LocalFormat(),
}
"""The posteriors that a file can hold, by their names."""


def describe_posterior(fitted: Fitted) -> tuple[dict[str, Any], dict[str, Floats]]:
    """Return the JSON field "posterior" of a model, and the arrays that depend on the posterior.

    Raises
    ------
    TypeError
        For a posterior of the user's own.
    """
    posterior = fitted.posterior
    if POSTERIORS.get(posterior.name) is not type(posterior):
        raise TypeError(
            f"a model file can hold the posteriors {', '.join(FORMATS)}, but not {type(posterior).__name__}, "
            f"which would need code to be run. Use pickle or joblib.dump instead."
        )
    kind = FORMATS[posterior.name]
    fields, arrays = kind.describe(fitted)
    arrays |= scale_arrays(posterior.scale)
    if kind.holds_all_rows:
        assert fitted.rows is not None
        arrays |= {"X": fitted.rows.X, "Y": fitted.rows.y}
    else:
        arrays |= {"X": fitted.X_active, "Y": fitted.y_active}
    return {"name": posterior.name, **fields, "scale": scale_to_json(posterior.scale)}, arrays
