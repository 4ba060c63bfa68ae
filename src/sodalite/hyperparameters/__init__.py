"""How the kernel's hyperparameters are found."""

from __future__ import annotations

from typing import Any

from ..core.validation import unknown
from .subset import (
    Fixed,
    Found,
    Likelihood,
    Method,
    Round,
    Subset,
    Task,
    climb,
    climb_all,
    free_parameters,
    log_marginal_likelihood,
    natural_scale,
    revive,
    starting_points,
)
from .weave import Weave

__all__ = [
    "HYPERPARAMETERS",
    "Fixed",
    "Found",
    "Likelihood",
    "Method",
    "Round",
    "Subset",
    "Task",
    "Weave",
    "climb",
    "climb_all",
    "free_parameters",
    "log_marginal_likelihood",
    "natural_scale",
    "resolve_hyperparameters",
    "revive",
    "starting_points",
    "takes_kernel_as_given",
]

HYPERPARAMETERS: dict[str, Method] = {"weave": Weave(), "subset": Subset(), "fixed": Fixed()}


def resolve_hyperparameters(hyperparameters: Any) -> Method:
    """The method of that name, or the object itself."""
    if isinstance(hyperparameters, str):
        if hyperparameters in HYPERPARAMETERS:
            return HYPERPARAMETERS[hyperparameters]
        raise unknown("hyperparameters", HYPERPARAMETERS, hyperparameters)
    if callable(getattr(hyperparameters, "find", None)) and not isinstance(hyperparameters, type):
        return hyperparameters  # type: ignore[no-any-return]
    names = ", ".join(map(repr, HYPERPARAMETERS))
    raise TypeError(
        f"hyperparameters must be one of {names}, or an object with a method find, such as "
        f"sodalite.hyperparameters.Subset(n_rows=2000); got {hyperparameters!r}."
    )


def takes_kernel_as_given(method: Method) -> bool:
    """Whether a method uses the kernel as it is given, so that it needs neither rows nor valid bounds.

    A method of your own may have an attribute of this name; without one, it is taken to search.
    """
    return bool(getattr(method, "takes_kernel_as_given", False))
