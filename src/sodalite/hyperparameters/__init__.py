"""Methods that find the hyperparameters of a kernel (docs/method.rst, `hyperparameters`)."""

from __future__ import annotations

from typing import Any

from ..core.validation import unknown
from .climb import climb, climb_all
from .likelihood import Likelihood, log_marginal_likelihood
from .parameters import free_parameters, natural_scale
from .subset import Subset, revive, starting_points
from .task import Fixed, Found, Method, Round, Task
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
    "searches",
    "starting_points",
]

HYPERPARAMETERS: dict[str, Method] = {"weave": Weave(), "subset": Subset(), "fixed": Fixed()}


def resolve_hyperparameters(hyperparameters: Any) -> Method:
    """The method of a name, or an object with a method `find` as it is; an error that lists the names otherwise."""
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


def searches(method: Method) -> bool:
    """Whether a method searches for hyperparameters; `Fixed` does not, and needs neither rows nor valid bounds."""
    return not isinstance(method, Fixed) or type(method).find is not Fixed.find
