"""Mean functions: a regressor predicts, and the Gaussian process learns what it leaves."""

from __future__ import annotations

from typing import Any

from ...core.validation import unknown
from .folds import SEED, MeanFunction, Regressor, SeesAllRows, Trial, fit_folds, predicted
from .frames import WithColumns
from .linear import LinearMean
from .trees import TreesMean

__all__ = [
    "AUTO",
    "MEANS",
    "SEED",
    "LinearMean",
    "MeanFunction",
    "Regressor",
    "SeesAllRows",
    "TreesMean",
    "Trial",
    "WithColumns",
    "fit_folds",
    "is_auto",
    "is_named",
    "name_of",
    "predicted",
    "resolve_mean",
]

AUTO = "auto"
"""The name of a mean that is chosen by the log density of rows left out."""

MEANS: dict[str, type[Regressor]] = {"linear": LinearMean, "trees": TreesMean}
"""The other mean functions that have a name."""


def resolve_mean(mean: Any) -> Regressor | None:
    """Return a regressor that is not fitted, from its name or itself; None for a constant, and for `AUTO`."""
    if mean is None or is_auto(mean):
        return None
    if isinstance(mean, str) and mean in MEANS:
        return MEANS[mean]()
    if isinstance(mean, str | type) or not all(callable(getattr(mean, name, None)) for name in ("fit", "predict")):
        raise unknown("mean", [AUTO, *MEANS], mean, ", None or a regressor with fit and predict")
    return mean  # type: ignore[no-any-return]


def is_auto(mean: Any) -> bool:
    """Return whether a mean is to be chosen."""
    return isinstance(mean, str) and mean == AUTO


def is_named(regressor: Regressor) -> bool:
    """Return whether a regressor is one of those that have a name, which take arrays and can be saved."""
    return type(regressor) in MEANS.values()


def name_of(regressor: Regressor) -> str:
    """Return the name of a mean function in files and reports: its own, or that of the regressor's class."""
    if isinstance(regressor, WithColumns):
        return name_of(regressor.regressor)
    names = [name for name, kind in MEANS.items() if type(regressor) is kind]
    return names[0] if names else type(regressor).__name__
