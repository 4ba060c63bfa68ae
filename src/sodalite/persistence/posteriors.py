"""How a model file holds each posterior, beside what every model has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..core.types import Floats
from ..core.validation import float_type
from ..fitting.fitted import Fitted
from ..kernels.neighbours import distinct
from ..posteriors import POSTERIORS, Local, Posterior, SubsetOfData
from ..posteriors.coordinates import cache_limit
from ..posteriors.projected import (
    DeterministicTraining,
    FullyIndependentTraining,
    Projected,
    SubsetOfRegressors,
    Variational,
)
from ..posteriors.remote import RemoteLocal
from ..selection.rows import ArrayRows
from .checks import RemainderRows, check_projection, check_residuals
from .error_bars import scale_arrays, scale_from_json, scale_shapes, scale_to_json
from .fields import count, real
from .folder import FolderLocalFormat
from .formats import (
    AllRows,
    FileContent,
    PosteriorFormat,
    Shapes,
    Sizes,
    sharing_from_json,
    sharing_to_json,
    with_centres,
)
from .mapped import LEAST_ROWS, MappedLocalFormat
from .means import judges_of


class ActiveRowsFormat:
    """Base of the formats of posteriors that need the active rows alone."""

    holds_all_rows: ClassVar[bool] = False
    mapped: ClassVar[tuple[str, ...]] = ()

    def all_rows(self, stored: FileContent) -> AllRows:
        """Return nothing: the file holds the active rows alone."""
        return AllRows()

    def without_cache(self, posterior: Posterior) -> Posterior:
        """Return the posterior itself, which has no cache."""
        return posterior


class SubsetFormat(ActiveRowsFormat):
    """The subset of data: it follows from the active rows and the factor, which every model has."""

    def shapes(self, about: Mapping[str, Any], sizes: Sizes) -> Shapes:
        """Return no shapes: it has no arrays of its own."""
        return {}

    def describe(self, fitted: Fitted) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Return no fields and no arrays."""
        return {}, {}

    def restore(self, stored: FileContent) -> Posterior:
        """Return the posterior given the active rows. O(m^3)."""
        evidence = stored.evidence
        scale = scale_from_json(evidence.kernel, stored.arrays, stored.about.get("scale"))
        return replace(SubsetOfData.condition(evidence), scale=scale)


@dataclass(frozen=True)
class ProjectedFormat(ActiveRowsFormat):
    """A projected process: the factors and weights, which are sums over all rows."""

    kind: type[Projected]

    def shapes(self, about: Mapping[str, Any], sizes: Sizes) -> Shapes:
        """Return the shapes of the two inverse factors and of the weights."""
        m = sizes.m
        return {"inverse": (m, m), "root": (m, m), "weights": (m, sizes.q)}

    def describe(self, fitted: Fitted) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Return no fields; the two inverse factors and the weights."""
        posterior = fitted.posterior
        assert isinstance(posterior, Projected)
        return {}, {"inverse": posterior.inverse, "root": posterior.root, "weights": posterior.weights}

    def restore(self, stored: FileContent) -> Posterior:
        """Return the posterior with the stored factors, a sample of which is checked against the kernel."""
        kernel, X, arrays = stored.evidence.kernel, np.asarray(stored.evidence.X), stored.arrays
        inverse, root = arrays["inverse"], arrays["root"]
        check_projection(kernel, np.asarray(X, dtype=np.float64), inverse, root)
        value = real(stored.likelihood, "log_marginal_likelihood", -np.inf)
        scale = scale_from_json(kernel, arrays, stored.about.get("scale"))
        return self.kind(kernel, kernel.prepare(X), inverse, root, arrays["weights"], value, scale)


class LocalFormat:
    """The local posterior: all rows, and the residuals of the remainder given the active rows."""

    holds_all_rows: ClassVar[bool] = True
    mapped: ClassVar[tuple[str, ...]] = ()

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
        sharing, centres = sharing_to_json(posterior)
        return about | sharing, arrays | centres

    def restore(self, stored: FileContent) -> Posterior:
        """Return the posterior with the stored residuals, a sample of which is computed again."""
        evidence, arrays = stored.evidence, stored.arrays
        indices = np.delete(np.arange(len(evidence.X)), evidence.selection.indices)
        X = np.asarray(evidence.X[indices], dtype=np.float64)
        first, group = distinct(X)
        base = SubsetOfData.condition(evidence)
        residuals, noises = arrays["residuals"], arrays["noises"]
        check_residuals(evidence, base, RemainderRows(indices, first, group), residuals, noises)
        k = count(stored.about["k"], "k, the number of neighbours,", most=len(first))
        scale = scale_from_json(evidence.kernel, arrays, stored.about["scale"])
        limit = cache_limit(stored.memory_limit)
        shared = stored.about.get("shared")
        sharing = (0, 0, 0) if shared is None else sharing_from_json(evidence.kernel, shared, len(first))
        given = evidence.kernel, base, X[first], residuals, noises, k, scale, limit
        return with_centres(Local.restore(*given, *sharing, arrays.get("centres")))

    def all_rows(self, stored: FileContent) -> AllRows:
        """Return all rows of the fit."""
        arrays, rows = stored.arrays, stored.evidence.rows
        assert isinstance(rows, ArrayRows)
        return AllRows(rows, arrays.get("targets"), judges_of(arrays, rows.shape[0]))

    def without_cache(self, posterior: Posterior) -> Posterior:
        """Return a copy that keeps neither coordinates v of the rows nor factors."""
        assert isinstance(posterior, Local)
        return posterior.without_cache()


FORMATS: dict[str, PosteriorFormat] = {
    SubsetOfData.name: SubsetFormat(),
    **{
        kind.name: ProjectedFormat(kind)
        for kind in (SubsetOfRegressors, DeterministicTraining, FullyIndependentTraining, Variational)
    },
    Local.name: LocalFormat(),
}
"""The posteriors that a file can hold, by their names."""

MAPPED_LOCAL, FOLDER_LOCAL = MappedLocalFormat(), FolderLocalFormat()


def posterior_format(about: Mapping[str, Any]) -> PosteriorFormat:
    """Return how a posterior is stored, by the JSON field "posterior"."""
    if about["name"] == Local.name and "parts" in about:
        return FOLDER_LOCAL
    return MAPPED_LOCAL if about["name"] == Local.name and about.get("mapped") is True else FORMATS[about["name"]]


def saves_to_folder(fitted: Fitted) -> bool:
    """Whether a model is stored in a folder: if it has rows in cells, but not in their own order."""
    return isinstance(fitted.posterior, Local) and fitted.rows is None


def _format_for(fitted: Fitted) -> PosteriorFormat:
    """Return how a posterior is to be stored: mapped, if it has many rows."""
    posterior = fitted.posterior
    if saves_to_folder(fitted):
        return FOLDER_LOCAL
    if isinstance(posterior, Local) and (posterior.store is not None or len(posterior.X) >= LEAST_ROWS):
        return MAPPED_LOCAL
    return FORMATS[posterior.name]


def describe_posterior(fitted: Fitted) -> tuple[dict[str, Any], dict[str, Any], PosteriorFormat]:
    """Return the JSON field "posterior" of a model, the arrays that depend on the posterior, and its format.

    Raises
    ------
    TypeError
        For a posterior of the user's own.
    """
    posterior = fitted.posterior
    if type(posterior) not in (POSTERIORS.get(posterior.name), RemoteLocal):
        raise TypeError(
            f"a model file can hold the posteriors {', '.join(FORMATS)}, but not {type(posterior).__name__}, "
            f"which would need code to be run. Use pickle or joblib.dump instead."
        )
    kind = _format_for(fitted)
    fields, arrays = kind.describe(fitted)
    arrays |= scale_arrays(posterior.scale)
    if kind.holds_all_rows:
        assert fitted.rows is not None
        arrays |= {"X": fitted.rows.X, "Y": fitted.rows.y}
    else:
        X = fitted.X_active
        arrays |= {"X": np.asarray(X, dtype=float_type(X)), "Y": fitted.y_active}
    return {"name": posterior.name, **fields, "scale": scale_to_json(posterior.scale)}, arrays, kind
