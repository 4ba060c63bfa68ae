"""A selection's progress on disk, so that one that was broken off goes on where it was.

A checkpoint holds the rows chosen so far, with their RMSE path, the hyperparameters that were found, the state of the
random numbers, and what tells whether the data and the arguments are the same (`sodalite.fingerprint`). It is written
after a block of picks, when some seconds have passed since the last time, and when the selection ends, however it does.

To go on, the rows are taken again in blocks, as rows are that were given: one product over all rows for each block. The
rules are first asked about the path that is on file: so a selection that had ended ends at once, and one that is asked
for more goes on.
"""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from json import dumps, loads
from pathlib import Path
from time import monotonic
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky
from sklearn.gaussian_process.kernels import Kernel

from . import __version__
from ._container import Kind, check_path, read, write
from ._described import described, seed_of, state_from, state_of
from .fingerprint import fingerprint
from .kernels import CompiledKernel
from .loop import Problem, Selection, State
from .stopping import Rule, Stage

Array = NDArray[Any]

SECONDS = 5.0  # between two writes, at least
SHARE = 0.01  # of the time that writing may take

REMEDY = "Nothing was changed; give another path, or remove the file to begin anew."
FLOATS = ("rmse", "scores", "seconds", "noise")  # one for each row that is chosen


class CheckpointError(ValueError):
    """A checkpoint that cannot be read, cannot be written, or is of another run: nothing was changed."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written while a selection went on."""


KIND = Kind("sodalite-checkpoint", 1, "checkpoint", "checkpoint", CheckpointError)


@dataclass(frozen=True)
class Stored:
    """How far a selection had come; t rows."""

    indices: Array
    rmse: Array
    scores: Array
    seconds: Array
    """When each stage ended, in seconds of choosing."""
    X: Array
    noise: Array
    order: Array
    """The rows that will be chosen whatever `n_active` is: these, or (looking ahead) some more or a few less, ..."""
    gains: Array
    """... and the score of each."""
    noise_floor: float
    n_proposed: int
    ended: str
    """Why it had ended, if no rule says so; or nothing."""


class Checkpoint:
    """A file that is written as a selection goes on, and what was in it before.

    Parameters
    ----------
    path : str or path-like
    about : dict
        What must be the same for a selection to go on: names and values that JSON can hold.
    generator : numpy.random.Generator
        The random numbers of the run.
    file : (dict, dict), optional
        What was in the file before.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        about: dict[str, Any],
        generator: np.random.Generator,
        file: tuple[dict[str, Any], dict[str, Array]] | None = None,
    ) -> None:
        self.path, self.about = Path(path), about
        self.stored: Stored | None = None
        self.found: dict[str, Any] | None = None
        self._kernel: Any = None
        self._generator, self._random = generator, state_of(generator)
        self._state: tuple[State, float] | None = None
        self._ended, self._next, self._least = "", 0.0, 0
        if file is not None:
            self._recall(*file)

    # --- what was found ---

    def keep(self, kernel: Kernel, found: dict[str, Any] | None) -> None:
        """Write what was found before the selection begins, and the state of the random numbers then.

        Without `found`, it will be searched for again, with the random numbers of the beginning.
        """
        then, self._kernel = self._kernel, described(kernel)
        if then is not None and then != self._kernel:
            raise CheckpointError(
                f"checkpoint {self.path} cannot be continued, since another kernel was found this time. {REMEDY}"
            )
        if found is not None:
            self.found, self._random = found, state_of(self._generator)
        self._write()

    def finished(self, rule: Rule, kernel: CompiledKernel, n: int, m: int, n_given: int) -> Selection | None:
        """The selection, if the rules say that it ends at a stage that is on file; else None."""
        stored = self.stored
        if stored is None:
            return None
        path, seconds = stored.rmse.tolist(), stored.seconds.tolist()
        for t in range(1, len(path) + 1):
            reason: str | None = "all_rows" if t == n else None
            if reason is None and t >= n_given:
                reason = rule.check(Stage(path[:t], seconds[t - 1], n, m))
            if reason is None and t == len(path) and stored.ended:
                reason = stored.ended
            if reason:
                kernel = kernel.in_double()
                rows = kernel.prepare(stored.X[:t])
                factor = cholesky(kernel.block(rows, rows) + np.diag(stored.noise[:t]), lower=True)
                arrays = stored.indices[:t], stored.rmse[:t], np.asarray(factor), stored.scores[:t]
                return Selection(*arrays, reason, stored.noise_floor, stored.n_proposed)
        return None

    def resumed(self, problem: Problem, noise_floor: float) -> Problem:
        """The problem from where it had got to with this noise floor, to be written down as it goes on.

        Raises
        ------
        numpy.linalg.LinAlgError
            Where it had got to a higher floor, since this one had failed.
        """
        problem = replace(problem, note=lambda state: self._note(state, noise_floor))
        stored, self._state, self._least = self.stored, None, 0
        if stored is None or stored.noise_floor < noise_floor * (1 - 1e-9):
            return problem
        if stored.noise_floor > noise_floor * (1 + 1e-9):
            raise np.linalg.LinAlgError("not positive definite, as it was found before")
        t = self._least = len(stored.indices)
        problem = replace(problem, before=stored.seconds, n_given=max(problem.n_given, t + 1))
        if len(problem.order) >= t:  # a random order
            return problem
        return replace(problem, order=stored.order[: problem.m], gains=stored.gains[: problem.m])

    def ended(self, selection: Selection) -> Selection:
        """The same; a second run will know that it had come to an end."""
        self._ended = "score" if selection.stop_reason == "score" else ""  # all other reasons follow from the path
        return selection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Write how far it came, however it ended."""
        if self._state is not None:
            self._write()

    # --- how ---

    def _note(self, state: State, noise_floor: float) -> None:
        if len(state.rmse) < self._least:  # there is more on file
            return
        self._state = state, noise_floor
        if monotonic() >= self._next:
            self._write()

    def _write(self) -> None:
        began = monotonic()
        arrays: dict[str, Array] = {}
        content = {
            "library": __version__,
            "about": self.about,
            "generator": self._random,
            "kernel": self._kernel,
            "found": self.found,
            "selection": None,
        }
        if self._state is not None:
            state, noise_floor = self._state
            t = len(state.rmse)  # the last to be extended
            arrays = {
                "indices": np.array(state.indices[:t], dtype=np.int64),
                "rmse": np.array(state.rmse),
                "scores": np.array(state.scores[:t]),
                "seconds": np.array(state.seconds[:t]),
                "X": state.X[:t],
                "noise": state.noise[:t],
                "order": np.asarray(state.order[: state.n_decided], dtype=np.int64),
                "gains": state.gains[: state.n_decided],
            }
            if not state.looks_ahead:
                arrays["order"], arrays["gains"] = arrays["indices"], arrays["scores"]
            content["selection"] = {
                "noise_floor": float(noise_floor),
                "n_proposed": state.n_proposed,
                "ended": self._ended,
            }
        elif self.stored is not None:  # nothing is known that is not on file
            return
        try:
            write(KIND, self.path, content, arrays)
        except CheckpointError as error:
            warnings.warn(f"{error} The selection goes on without.", CheckpointWarning, stacklevel=2)
        self._next = monotonic() + max(SECONDS, (monotonic() - began) / SHARE)

    def _recall(self, content: dict[str, Any], arrays: dict[str, Array]) -> None:
        """What the file says, checked."""
        try:
            with suppress(AttributeError):  # a bit generator of one's own
                self._generator.bit_generator.state = state_from(content["generator"])
            self._random, self._kernel, self.found = content["generator"], content["kernel"], content["found"]
            if content["selection"] is not None:
                self.stored = _stored(content["selection"], arrays, *self.about["X"][:2])
        except (ValueError, TypeError, LookupError, OverflowError) as error:
            raise CheckpointError(f"{self.path} is no valid checkpoint: {error!r}.") from error


def check_checkpoint(path: Any) -> tuple[dict[str, Any], dict[str, Array]] | None:
    """See, before any long work, that a checkpoint can be written there, and if there is one, that it can be read.

    Returns what is in it, or None.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"checkpoint must be the path of a file; got {path!r} of type {type(path).__name__}.")
    check_path(KIND, path)
    if not Path(path).exists():
        return None
    try:
        header, arrays = read(KIND, path)
        if not isinstance(header.content.get("about"), dict):
            raise CheckpointError(f"{path} is no valid checkpoint: it does not say of what.")
    except CheckpointError as error:
        raise CheckpointError(f"{error} {REMEDY}") from None
    return header.content, arrays


def open_checkpoint(
    path: Any, by: str, X: Any, y: Any, alpha: Array | None, generator: np.random.Generator, **arguments: Any
) -> Checkpoint:
    """The checkpoint of a run on these data with these arguments. One pass over the rows.

    Parameters
    ----------
    path : str or path-like
    by : str
        Who writes it.
    X, y, alpha : arrays
    generator : numpy.random.Generator
        Is set to the state that it had when the rows of the file began to be chosen.
    **arguments
        What else must be the same, for instance the score and `random_state`.

    Raises
    ------
    CheckpointError
        Where the file cannot be read or written, or is of another run. It is left as it is.
    """
    file = check_checkpoint(path)
    arguments["random_state"] = seed_of(arguments["random_state"], generator)
    about = {"by": by, **{name: described(value) for name, value in arguments.items()}}
    about |= {"X": [*map(int, X.shape), str(X.dtype)], "y": [*map(int, (*y.shape, 1)[:2])], "alpha": alpha is not None}
    if file is not None:  # what costs nothing first
        _compare(path, file[0]["about"], about)
    values = {"X": X, "y": y} if alpha is None else {"X": X, "y": y, "alpha": alpha}
    about["values"] = {name: f"{fingerprint(part):016x}" for name, part in values.items()}
    if file is not None:
        _compare(path, file[0]["about"], about)
    return Checkpoint(path, about, generator, file)


def _compare(path: Any, then: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse a checkpoint of another run; say what is different."""
    different = [name for name in now if then.get(name) != loads(dumps(now[name]))]
    if not different:
        return
    name, old, new = different[0], then.get(different[0]), now[different[0]]
    if name == "by":
        words = f"it was written by {old}, and this is {new}"
    elif name == "values":
        changed = [part for part in new if not isinstance(old, dict) or old.get(part) != new[part]]
        words = f"it is of other data: {changed[0]} has other values"
    elif name in ("X", "y"):
        words = f"it is of other data: {name} was {_shape(old)} and is {_shape(new)}"
    elif isinstance(old, str | int | float | None) and isinstance(new, str | int | float | None):
        words = f"it is of another run: {name} was {old!r} and is {new!r}"
    else:
        words = f"it is of another run: {name} is another"
    raise CheckpointError(f"checkpoint {path} cannot be continued, since {words}. {REMEDY}")


def _stored(content: dict[str, Any], arrays: dict[str, Array], n: int, d: int) -> Stored:
    """What the file says of the selection, checked."""
    indices, order, t = arrays["indices"], arrays["order"], len(arrays["indices"])
    shapes = {"indices": (t,), "X": (t, d), "order": (len(order),), "gains": (len(order),)}
    shapes |= dict.fromkeys(FLOATS, (t,))
    for name, shape in shapes.items():
        kind = np.int64 if name in ("indices", "order") else np.float64
        if arrays[name].shape != shape or arrays[name].dtype != kind:
            raise ValueError(f"{name} has shape {arrays[name].shape}")
    for rows in (indices, order):
        if len(np.unique(rows)) < len(rows) or not np.all((rows >= 0) & (rows < n)):
            raise ValueError("rows that are not there, or twice")
    common = min(len(order), t)
    if not t or not np.array_equal(indices[:common], order[:common]):
        raise ValueError("rows in two orders")
    floor, ended = content["noise_floor"], content["ended"]
    if not isinstance(floor, float) or not 0 <= floor < np.inf or ended not in ("", "score"):
        raise ValueError(f"noise_floor is {floor!r}")
    given = {name: arrays[name] for name in shapes}
    return Stored(**given, noise_floor=floor, n_proposed=int(content["n_proposed"]), ended=ended)


def _shape(parts: Any) -> str:
    sizes = " x ".join(str(part) for part in parts if not isinstance(part, str))
    return " of ".join([sizes, *(part for part in parts if isinstance(part, str))])
