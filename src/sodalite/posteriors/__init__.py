"""Posteriors: the predictions that follow from the rows. One class each, all conditioned on the same `Evidence`."""

from __future__ import annotations

from typing import Any

from ..core.validation import unknown
from .base import Evidence, Judging, Posterior, Prediction, RowsOfFit
from .local import Local, Neighbors
from .projected import DeterministicTraining, FullyIndependentTraining, Projected, SubsetOfRegressors, Variational
from .sampling import draw, joint_samples
from .sod import SubsetOfData

__all__ = [
    "POSTERIORS",
    "Evidence",
    "Judging",
    "Local",
    "Neighbors",
    "Posterior",
    "Prediction",
    "Projected",
    "RowsOfFit",
    "SubsetOfData",
    "draw",
    "joint_samples",
    "resolve_posterior",
]

BUILT_IN: tuple[type[Posterior], ...] = (
    SubsetOfData,
    SubsetOfRegressors,
    DeterministicTraining,
    FullyIndependentTraining,
    Variational,
    Local,
)
POSTERIORS = {kind.name: kind for kind in BUILT_IN}


def resolve_posterior(posterior: Any) -> tuple[type[Posterior], int | None]:
    """The class that an argument `posterior` names or is, and the number of neighbours if it sets one."""
    if isinstance(posterior, Neighbors):
        return Local, posterior.n_neighbors
    if isinstance(posterior, str) and posterior in POSTERIORS:
        return POSTERIORS[posterior], None
    if isinstance(posterior, type) and issubclass(posterior, Posterior) and posterior is not Posterior:
        return posterior, None
    raise unknown("posterior", POSTERIORS, posterior, " or a class that derives from Posterior")
