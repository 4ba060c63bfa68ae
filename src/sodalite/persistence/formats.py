"""What a model file holds of a posterior: what the formats of the different posteriors share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

from ..core.types import Floats, Indices
from ..fitting.fitted import Fitted
from ..kernels import CompiledKernel
from ..posteriors import Evidence, Local, Posterior
from ..posteriors.tuning import POWERS
from ..selection.rows import ArrayRows
from .fields import count
from .model_file import ModelFileError

Shapes: TypeAlias = dict[str, tuple[int | None, ...]]
"""The shapes of arrays by their names; None stands for any number."""


def fits(shape: tuple[int, ...], needed: tuple[int | None, ...]) -> bool:
    """Return whether a shape is the one that is needed, in which None stands for any number."""
    return len(shape) == len(needed) and all(b in (a, None) for a, b in zip(shape, needed, strict=True))


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
class FileContent:
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
    damaged: Callable[[str], ModelFileError]
    """Makes the error for damage that is found when rows are used; it takes what is wrong."""
    path: str = ""
    """The file, or the folder of files."""


class AllRows(NamedTuple):
    """All rows of a fit, as far as a file holds them."""

    rows: ArrayRows | None = None
    """With scaled targets."""
    targets: Floats | None = None
    """Targets as they were given; None for a constant mean function."""
    judges: Indices | None = None
    """Rows that the mean function has not seen; None if any rows will do."""


class PosteriorFormat(Protocol):
    """How one kind of posterior is stored."""

    holds_all_rows: ClassVar[bool]
    """Whether the file holds all rows of the fit, or the active rows alone."""

    mapped: ClassVar[tuple[str, ...]]
    """The names of its arrays that are not read, but mapped into memory."""

    def shapes(self, about: Mapping[str, Any], sizes: Sizes) -> Shapes:
        """Return the shapes of its own arrays; `about` is the JSON field "posterior"."""
        ...

    def describe(self, fitted: Fitted) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return its own JSON fields, and its own arrays."""
        ...

    def restore(self, stored: FileContent) -> Posterior:
        """Return the posterior; a ValueError says what no posterior can have."""
        ...

    def all_rows(self, stored: FileContent) -> AllRows:
        """Return all rows of the fit, if the file holds them."""
        ...

    def without_cache(self, posterior: Posterior) -> Posterior:
        """Return a posterior for a few predictions, which fill no cache of the one that is given."""
        ...


def sharing_to_json(posterior: Local) -> tuple[dict[str, Any], dict[str, Floats]]:
    """Return the JSON field "shared" and the centres of the cells, if queries share neighbourhoods."""
    shared = posterior.shared
    if shared is None:
        return {}, {}
    about = {"cell": shared.cell, "rows": shared.h, "power": posterior.power, "centres": True}
    return {"shared": about}, {"centres": shared.cells.centres}


def with_centres(posterior: Local) -> Local:
    """Return a posterior, once the centres of its cells have been checked."""
    if posterior.shared is not None:
        assert posterior.near.index is not None
        needed, found = len(posterior.near.index.columns), posterior.shared.cells.centres.shape[1]
        if found != needed:
            raise ValueError(f"array 'centres' must have {needed} columns, as the metric has; it has {found}")
    return posterior


def sharing_from_json(kernel: CompiledKernel, shared: Any, n: int) -> tuple[int, int, int]:
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
