"""The result of a search as a checkpoint stores it: which of the competing kernels, at which parameters."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel

from ..core.json import described, shown
from ..selection.checkpoint import Checkpoint, invalid
from .exact import MOST_OPTIMISTIC
from .task import Found, Method, Round
from .weave import Weave

ROUND = {"name", "kernel", "objective", "kept", "seconds", "n_active"}  # keys of a round in a file
SLACK = 1e-6  # how far the logarithm of a parameter may lie outside its bounds: far above rounding, and harmless


def method_note(method: Method) -> Any:
    """Describe a method as JSON, by which a checkpoint knows whether a later run searches the same way.

    The description has the names that the first version gave to the fields, so that its checkpoints can be continued.
    """
    text = described(method)
    return text.replace("n_neighbors=", "n_neighbours=") if isinstance(method, Weave) else text


def note_of(found: Found, kernels: Sequence[Kernel]) -> dict[str, Any] | None:
    """Describe the result of a search as JSON; None where a kernel has none of the given forms, or exceeds its bounds.

    Without a note, a run that is continued searches again.
    """
    kernel = _note(found.kernel, kernels)
    rounds = [{**vars(part), "kernel": _note(part.kernel, kernels)} for part in found.rounds]
    if kernel is None or any(part["kernel"] is None for part in rounds):
        return None
    for part in rounds:
        part["objective"] = float(part["objective"]) if np.isfinite(part["objective"]) else None
        part["kept"] = bool(part["kept"])
        part["seconds"] = float(part["seconds"])
    return {"kernel": kernel, "rounds": rounds, "optimism": float(found.optimism)}


def found_before(checkpoint: Checkpoint, kernels: Sequence[Kernel]) -> Found | None:
    """The result of a search that a checkpoint holds, checked against the competing kernels; None if it holds none."""
    found = checkpoint.found
    if found is None:
        return None
    try:
        if not isinstance(found, dict) or set(found) != {"kernel", "rounds", "optimism"}:
            raise ValueError("the kernel found in it must have the fields kernel, rounds and optimism")
        rounds, optimism = found["rounds"], found["optimism"]
        if not isinstance(rounds, list):
            raise ValueError(f"rounds, the steps of its search for the kernel, must be a list; it is {shown(rounds)}")
        if type(optimism) is not float or not 1 <= optimism <= MOST_OPTIMISTIC:
            raise ValueError(f"optimism must be a number from 1 to {MOST_OPTIMISTIC}; it is {shown(optimism)}")
        kernel = _kernel(found["kernel"], kernels)
        if described(kernel) != checkpoint.kernel:
            raise ValueError("it names two different kernels as the one that was found")
        return Found(kernel, tuple(_round(part, kernels) for part in rounds), optimism)
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise invalid(checkpoint.path, error) from error


def _round(content: Any, kernels: Sequence[Kernel]) -> Round:
    """The round that a file describes; a ValueError where it is none."""
    if not isinstance(content, dict) or set(content) != ROUND:
        raise ValueError(
            f"a round of its search for the kernel must have the fields {', '.join(sorted(ROUND))}; "
            f"it is {shown(content)}"
        )
    number, seconds, count = content["objective"], content["seconds"], content["n_active"]
    fits = {
        "name": isinstance(content["name"], str),
        "objective": number is None or type(number) in (int, float),
        "kept": isinstance(content["kept"], bool),
        "seconds": type(seconds) in (int, float) and seconds >= 0,
        "n_active": count is None or (type(count) is int and count >= 0),
    }
    for name, fit in fits.items():
        if not fit:
            raise ValueError(f"a round of its search for the kernel has an impossible {name}, {shown(content[name])}")
    value = -np.inf if number is None else float(number)
    return Round(content["name"], _kernel(content["kernel"], kernels), value, content["kept"], float(seconds), count)


def _note(kernel: Kernel, kernels: Sequence[Kernel]) -> dict[str, Any] | None:
    """The position of a kernel among some, and the values of its parameters; None if it has none of their forms."""
    given = kernel.get_params()
    values = {part.name: described(given[part.name]) for part in kernel.hyperparameters}
    for which in range(len(kernels)):
        note = {"which": which, "values": values}
        with suppress(ValueError):  # a kernel with other parameters
            if described(_kernel(note, kernels)) == described(kernel):
                return note
    return None


def _kernel(note: Any, kernels: Sequence[Kernel]) -> Kernel:
    """The kernel that a note describes; a ValueError where no competing kernel can have become it."""
    if not isinstance(note, dict) or set(note) != {"which", "values"} or not isinstance(note["values"], dict):
        raise ValueError(f"a kernel in it must have the fields which and values; it is {shown(note)}")
    which, values = note["which"], note["values"]
    if type(which) is not int or not 0 <= which < len(kernels):
        raise ValueError(
            f"a kernel in it is number {shown(which)}, but {len(kernels)} compete in this fit, numbered from 0"
        )
    given = kernels[which]
    parts, before = given.hyperparameters, given.get_params()
    if set(values) != {part.name for part in parts}:
        raise ValueError("a kernel in it has other parameters than the kernel that competes in this fit")
    for part in parts:
        value, same = values[part.name], described(before[part.name])
        each = value if isinstance(value, list) else [value]
        if value == same:
            continue
        if part.fixed:
            raise ValueError(f"a kernel in it has {part.name} {shown(value)}, which is fixed at {shown(same)}")
        if len(each) != part.n_elements:
            raise ValueError(f"a kernel in it has {part.name} {shown(value)}, where {part.n_elements} numbers belong")
        if not all(type(number) in (int, float) and number > 0 for number in each):
            raise ValueError(f"a kernel in it has {part.name} {shown(value)}, which is no positive number")
        with np.errstate(divide="ignore"):  # a bound of 0
            logs, bounds = np.log(np.array(each, dtype=np.float64)), np.log(part.bounds)
        if (logs < bounds[:, 0] - SLACK).any() or (logs > bounds[:, 1] + SLACK).any():
            raise ValueError(f"a kernel in it has {part.name} {shown(value)}, beyond the bounds of this fit's kernel")
    return clone(given).set_params(
        **{name: np.array(value) if isinstance(value, list) else value for name, value in values.items()}
    )
