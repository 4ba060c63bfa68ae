"""The estimator's parameters in a model file: as JSON, back, and checked."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.json import shown
from ..core.memory import available, parse_bytes
from ..core.threads import n_threads
from ..estimator import GreedyGPRegressor
from ..fitting.pipeline import Settings
from .fields import count, mapping, text, wrong
from .objects import Lost, from_json, to_json

MOST_THREADS = 8  # threads per core that n_jobs may ask for: room for a larger machine's files, but not for any number
MOST_SHOWN = 200  # characters of a parameter that a file cannot hold
BOOLEANS = ("calibrate", "normalize_y", "verbose")


def parameters_to_json(model: GreedyGPRegressor) -> dict[str, Any]:
    """Return all parameters but `checkpoint`: a path belongs to a machine, not to a model."""
    given = model.get_params(deep=False).items()
    return {name: parameter_to_json(name, value) for name, value in given if name != "checkpoint"}


def parameter_to_json(name: str, value: Any) -> dict[str, Any]:
    """Return a parameter's value, or, for an object of the user's own, its `repr` under the key "lost"."""
    if name == "dtype":
        value = str(np.dtype(value))
    try:
        return {"value": to_json(value)}
    except Lost:
        return {"lost": repr(value)[:MOST_SHOWN]}


def parameters_from_json(content: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the parameters, those that were lost at their defaults; and a note for the user about each of these."""
    defaults = {name: parameter.default for name, parameter in inspect.signature(GreedyGPRegressor).parameters.items()}
    unknown = sorted(set(mapping(content, "params")) - set(defaults))
    if unknown:
        raise ValueError(f"it has a parameter {shown(unknown[0])}, which GreedyGPRegressor does not have")
    if "checkpoint" in content:
        raise ValueError(
            "it sets the parameter checkpoint, a path that a later fit would write to; no saved model has one"
        )
    values, notes = dict(defaults), []
    for name, part in content.items():
        if "lost" in mapping(part, f"the parameter {name}"):
            notes.append(
                f"the parameter {name} was {text(part['lost'], name)[:MOST_SHOWN]}, which a file cannot hold, and is "
                f"{defaults[name]!r} now. Predictions are not affected; another fit would be."
            )
        else:
            values[name] = from_json(part["value"])
    return values, notes


def check_parameters(model: GreedyGPRegressor) -> None:
    """Refuse parameters that a later fit would refuse, and types that no saved model has."""
    Settings.of(model.get_params(deep=False))
    n_threads(model.n_jobs)
    if model.memory_limit is not None:
        parse_bytes(model.memory_limit)
    if model.kernel is not None and not isinstance(model.kernel, Kernel):
        raise wrong("the parameter kernel", "a kernel or null", model.kernel)
    for name in BOOLEANS:
        if not isinstance(getattr(model, name), bool | int):
            raise wrong(f"the parameter {name}", "true or false", getattr(model, name))
    if model.random_state is not None:
        count(model.random_state, "the parameter random_state")
    first = () if model.first is None else model.first
    for row in first if isinstance(first, tuple) else (first,):
        count(row, "the parameter first")


def reset_unaffordable(model: GreedyGPRegressor) -> list[str]:
    """Set n_jobs and memory_limit to None if they ask for more than this machine has; return notes for the user."""
    notes = []
    threads, memory = MOST_THREADS * n_threads(-1), available()
    if model.n_jobs is not None and model.n_jobs > threads:
        notes.append(f"the parameter n_jobs was {shown(model.n_jobs)}, more than {threads} threads, and is None now.")
        model.n_jobs = None
    if model.memory_limit is not None and parse_bytes(model.memory_limit) > memory:
        notes.append(
            f"the parameter memory_limit was {shown(model.memory_limit)}, more than the {memory / 1e9:.1f} GB that are "
            f"free, and is None now."
        )
        model.memory_limit = None
    return notes
