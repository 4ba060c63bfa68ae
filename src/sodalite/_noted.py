"""The hyperparameters that were found, as a checkpoint keeps them: numbers for the kernels that are given."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel

from ._described import described
from .checkpoint import Checkpoint, CheckpointError
from .hyperparameters import Found, Round


def note_of(found: Found, kernels: Sequence[Kernel]) -> dict[str, Any] | None:
    """What was found as JSON; None where the kernel is none of those that were given: it will be searched for again."""
    kernel = _note(found.kernel, kernels)
    rounds = [{**vars(part), "kernel": _note(part.kernel, kernels)} for part in found.rounds]
    if kernel is None or any(part["kernel"] is None for part in rounds):
        return None
    for part in rounds:
        part["objective"] = float(part["objective"]) if np.isfinite(part["objective"]) else None
        part["kept"] = bool(part["kept"])
    return {"kernel": kernel, "rounds": rounds}


def found_before(keeper: Checkpoint, kernels: Sequence[Kernel]) -> Found | None:
    """What a checkpoint says was found; None if it says nothing."""
    if keeper.found is None:
        return None
    try:
        rounds = []
        for part in keeper.found["rounds"]:
            value = -np.inf if part["objective"] is None else float(part["objective"])
            rounds.append(replace(Round(**part), kernel=_kernel(part["kernel"], kernels), objective=value))
        return Found(_kernel(keeper.found["kernel"], kernels), tuple(rounds))
    except (ValueError, TypeError, LookupError) as error:
        raise CheckpointError(f"{keeper.path} is no valid checkpoint: {error!r}.") from error


def _note(kernel: Kernel, kernels: Sequence[Kernel]) -> dict[str, Any] | None:
    """Which of some kernels one is, and at what values of its parameters; None if it is none of them."""
    given = kernel.get_params()
    values = {part.name: described(given[part.name]) for part in kernel.hyperparameters}
    for which in range(len(kernels)):
        note = {"which": which, "values": values}
        with suppress(ValueError):  # it has other parameters
            if described(_kernel(note, kernels)) == described(kernel):
                return note
    return None


def _kernel(note: dict[str, Any], kernels: Sequence[Kernel]) -> Kernel:
    """The kernel that `_note` was given."""
    kernel = clone(kernels[note["which"]])
    values = {name: np.array(value) if isinstance(value, list) else value for name, value in note["values"].items()}
    if set(values) != {part.name for part in kernel.hyperparameters}:
        raise ValueError("a kernel in it has other parameters")
    for value in values.values():
        if not np.all(np.isfinite(value)):
            raise ValueError("a kernel in it has parameters that are no numbers")
    return kernel.set_params(**values)
