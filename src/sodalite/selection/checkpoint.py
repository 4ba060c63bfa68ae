"""A selection's progress on disk, so that one that was broken off goes on where it was.

A checkpoint holds the rows chosen so far, with their RMSE path, the hyperparameters that were found, the state of the
random numbers, and what tells whether the data and the arguments are the same (`sodalite.core.fingerprint`). It is
written after a block of picks, when some seconds have passed since the last time, and when the selection ends, however
it does.

To go on, the rows are taken again in blocks, as rows are that were given: one product over all rows for each block. The
rules are first asked about the path that is on file: so a selection that had ended ends at once, and one that is asked
for more goes on.

A file may have been damaged, or made by somebody. Its checksums tell the former. Against the latter, what it says is
checked against the data and the arguments (`sodalite.selection.verification`): that its rows are rows of the data,
with their noise, scores and RMSE. Not checked is what would take the whole choice to find out: whether other rows would
have been better.
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
from sklearn.gaussian_process.kernels import Kernel

from ..core.container import Header, Kind, check_path, read, write
from ..core.jitter import STEPS
from ..core.json import described, seed_of, shown, state_from, state_of
from ..core.types import Array
from ..core.version import __version__
from ..scores import ScoreTraits
from ..stopping import Rule, Stage
from .loop import Problem, Selection, State
from .source import Source
from .verification import Request, Verified, disagreement, verify

SECONDS = 5.0  # between two writes, at least
SHARE = 0.01  # of the time that writing may take

REMEDY = "Nothing was changed; give another path, or remove the file to begin anew."
FLOATS = ("rmse", "scores", "seconds", "noise")  # one for each row that is chosen
INTEGERS = ("indices", "order")
ARRAYS = {*FLOATS, *INTEGERS, "X", "gains"}
CONTENT = {"library", "about", "generator", "kernel", "found", "selection", "arrays_sha256"}

File = tuple[dict[str, Any], dict[str, Array]]  # what is in a checkpoint: its text and its arrays


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
        file: File | None = None,
    ) -> None:
        self.path, self.about = Path(path), about
        self.stored: Stored | None = None
        self.found: dict[str, Any] | None = None
        self.kernel: Any = None
        self._verified: Verified | None = None
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
        then, self.kernel = self.kernel, described(kernel)
        if then is not None and then != self.kernel:
            raise CheckpointError(
                f"checkpoint {self.path} cannot be continued, since another kernel was found this time. {REMEDY}"
            )
        if found is not None:
            self.found, self._random = found, state_of(self._generator)
        self._write()

    def verify(self, request: Request) -> None:
        """Check the rows on file against the data; a CheckpointError says what does not fit. O(t^3)."""
        stored = self.stored
        if stored is None:
            return
        try:
            ahead = len(stored.order) - len(stored.indices)
            if ahead > ScoreTraits.of(request.score).most_ahead:
                raise ValueError(
                    f"it records {ahead} rows beyond those chosen, where this score can have none or fewer"
                )
            rows = stored.indices, stored.X, stored.noise, stored.scores
            self._verified = verify(request, *rows, stored.noise_floor)
        except ValueError as error:
            raise invalid(self.path, error) from error

    def finished(self, rule: Rule, request: Request) -> Selection | None:
        """Return the selection, if the rules say that it ends at a stage that is on file; else None."""
        stored, verified = self.stored, self._verified
        if stored is None or verified is None:
            return None
        path, seconds, n = stored.rmse.tolist(), stored.seconds.tolist(), len(request.source.y)
        for t in range(1, len(path) + 1):
            reason: str | None = "all_rows" if t == n else None
            if reason is None and t >= request.n_given:
                reason = rule.check(Stage(path[:t], seconds[t - 1], n, request.m))
            if reason is None and t == len(path) and stored.ended:
                reason = stored.ended
            if reason:
                try:
                    verified.check_path(stored.rmse, t)
                except ValueError as error:
                    raise invalid(self.path, error) from error
                arrays = stored.indices[:t], stored.rmse[:t], verified.factor[:t, :t].copy(), stored.scores[:t]
                return Selection(*arrays, reason, stored.noise_floor, stored.n_proposed)
        return None

    def resumed(self, problem: Problem, noise_floor: float) -> Problem:
        """The problem from where it had got to with this noise floor, to be written down as it goes on.

        Raises
        ------
        numpy.linalg.LinAlgError
            Where it had got to a higher floor, since this one had failed.
        CheckpointError
            Where it had got to a floor that there is not.
        """
        problem = replace(problem, note=lambda state: self._note(state, noise_floor))
        stored, self._state, self._least = self.stored, None, 0
        if stored is None:
            return problem
        floors = noise_floor * 10.0 ** np.arange(-STEPS, STEPS + 1)
        if not np.isclose(stored.noise_floor, floors, rtol=1e-6, atol=0).any():
            raise invalid(self.path, f"its noise_floor, {stored.noise_floor:.6g}, is none that this run can have")
        if stored.noise_floor < noise_floor * (1 - 1e-6):
            return problem
        if stored.noise_floor > noise_floor * (1 + 1e-6):
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
        if self._least and self.stored is not None and self._verified is not None:  # rows are taken again
            common = min(len(state.rmse), self._least)
            wrong = self._verified.differs(self.stored.rmse[:common], np.array(state.rmse[:common]))
            if len(wrong):
                at = int(wrong[0])
                raise invalid(self.path, disagreement(at + 1, self.stored.rmse[at], state.rmse[at]))
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
            "kernel": self.kernel,
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
        """Take over what the file says, checked."""
        try:
            if set(content) != CONTENT:
                raise ValueError(f"it has the fields {', '.join(sorted(content))}, not {', '.join(sorted(CONTENT))}")
            self.kernel, self.found, state = content["kernel"], content["found"], content["generator"]
            if self.about["by"] == "select" and not self.kernel is self.found is None:
                raise ValueError("it names a kernel that was found, but select is given its kernel")
            fresh = self.found is None and self.about["random_state"] is not None
            if fresh and state != loads(dumps(self._random)):
                raise ValueError("the state of its random numbers is not that of this random_state")
            with suppress(AttributeError):  # a bit generator of one's own
                self._generator.bit_generator.state = state_from(state, self._random)
            self._random = state
            if content["selection"] is not None:
                self.stored = _stored(content["selection"], arrays, *self.about["X"][:2])
            elif arrays:
                raise ValueError("it has arrays, but says nothing of a selection")
        except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
            raise invalid(self.path, error) from error


def invalid(path: Any, reason: Exception | str) -> CheckpointError:
    """The error for a checkpoint whose contents make no sense, or do not fit the data."""
    if isinstance(reason, KeyError):
        reason = f"it has no {reason}"
    return CheckpointError(f"{path} is no valid checkpoint: {str(reason).rstrip('.')}. {REMEDY}")


def check_checkpoint(path: Any) -> File | None:
    """See, before any long work, that a checkpoint can be written there, and if there is one, that it can be read.

    Returns what is in it, or None.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"checkpoint must be the path of a file; got {path!r} of type {type(path).__name__}.")
    check_path(KIND, path)
    if not Path(path).exists():
        return None
    try:
        header, arrays = read(KIND, path, lambda header: _check_arrays(path, header))
    except CheckpointError as error:
        if REMEDY in str(error):
            raise
        raise CheckpointError(f"{error} {REMEDY}") from None
    if not isinstance(header.content.get("about"), dict):
        raise invalid(path, "it does not say which data and arguments it is of")
    return header.content, arrays


def _check_arrays(path: Any, header: Header) -> None:
    """Refuse arrays that no checkpoint has, by their names, types and shapes alone."""
    if not header.arrays and header.content.get("selection") is None:
        return
    different = sorted(ARRAYS ^ set(header.arrays))
    if different:
        raise invalid(path, f"array {different[0]!r} {'is missing' if different[0] in ARRAYS else 'is unknown'}")
    t, decided = (max(header.arrays[name][1], default=0) for name in INTEGERS)
    for name, (dtype, shape) in header.arrays.items():
        length = decided if name in ("order", "gains") else t
        if shape[:1] != (length,) or len(shape) != 1 + (name == "X"):
            raise invalid(path, f"array {name!r} has shape {shape}, which does not fit {t} chosen rows")
        if dtype != ("int64" if name in INTEGERS else "float64"):
            raise invalid(path, f"array {name!r} is of type {dtype}")


def open_checkpoint(
    path: Any,
    file: File | None,
    by: str,
    source: Source,
    generator: np.random.Generator,
    **arguments: Any,
) -> Checkpoint:
    """The checkpoint of a run on these data with these arguments. One pass over the rows.

    Parameters
    ----------
    path : str or path-like
    file : (dict, dict), optional
        What is in it already: what `check_checkpoint` returned.
    by : str
        Who writes it.
    source : Source
        The rows, as they were given.
    generator : numpy.random.Generator
        Is set to the state that it had when the rows of the file began to be chosen.
    **arguments
        What else must be the same, for instance the score and `random_state`.

    Raises
    ------
    CheckpointError
        Where the file is of another run, or makes no sense. It is left as it is.
    """
    arguments["random_state"] = seed_of(arguments["random_state"], generator)
    about = {"by": by, **{name: described(value) for name, value in arguments.items()}}
    X, y = source.X, source.y
    about |= {"X": [*map(int, X.shape), str(X.dtype)], "y": [*map(int, y.shape)], "alpha": source.alpha is not None}
    if file is not None:  # what costs nothing first
        _compare(path, file[0]["about"], about)
    about["values"] = {name: f"{number:016x}" for name, number in source.fingerprints().items()}
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
        words = f"it was written by {old if isinstance(old, str) and len(old) < 20 else shown(old)}, and this is {new}"
    elif name == "values":
        changed = [part for part in new if not isinstance(old, dict) or old.get(part) != new[part]]
        words = f"it is of other data: {changed[0] if changed else 'X'} has other values"
    elif name in ("X", "y"):
        words = f"it is of other data: {name} was {_shape(old)} and is {_shape(new)}"
    elif isinstance(old, str | int | float | None) and isinstance(new, str | int | float | None):
        words = f"it is of another run: {name} was {shown(old, 300)} and is {shown(new, 300)}"
    else:
        words = f"it is of another run: {name} is another"
    raise CheckpointError(f"checkpoint {path} cannot be continued, since {words}. {REMEDY}")


def _stored(content: Any, arrays: dict[str, Array], n: int, d: int) -> Stored:
    """Take what the file says of the selection, checked by itself; a ValueError says what is wrong."""
    if not isinstance(content, dict):
        raise ValueError(f"what it says of the selection is {shown(content)}")
    t = len(arrays["indices"])
    if not t:
        raise ValueError("it records a selection of no rows")
    if arrays["X"].shape[1] != d:
        raise ValueError(f"the rows that it records have {arrays['X'].shape[1]} inputs, but the data have {d}")
    for name in INTEGERS:
        rows = arrays[name]
        beyond = rows[(rows < 0) | (rows >= n)]
        if len(beyond):
            raise ValueError(f"it records row {beyond[0]} as chosen, but the data have rows 0 to {n - 1}")
        if len(np.unique(rows)) < len(rows):
            raise ValueError("it records a row as chosen twice")
    common = min(len(arrays["order"]), t)
    if not np.array_equal(arrays["indices"][:common], arrays["order"][:common]):
        raise ValueError("it records two different orders of the chosen rows")
    if not np.array_equal(arrays["scores"][:common], arrays["gains"][:common], equal_nan=True):
        raise ValueError("it records two different scores of a chosen row")
    _check_numbers(arrays, n)
    floor, ended, proposed = content["noise_floor"], content["ended"], content["n_proposed"]
    if type(floor) is not float or floor < 0:
        raise ValueError(f"noise_floor must be a number that is not negative; it is {shown(floor)}")
    if ended not in ("", "score"):
        raise ValueError(f"ended must be '' or 'score'; it is {shown(ended)}")
    if type(proposed) is not int or not t <= proposed < 2**63:
        raise ValueError(f"n_proposed must be a whole number of at least {t}, the rows chosen; it is {shown(proposed)}")
    return Stored(**arrays, noise_floor=floor, n_proposed=proposed, ended=ended)


def _check_numbers(arrays: dict[str, Array], n: int) -> None:
    """Refuse numbers of the chosen rows that none can have."""
    rmse, seconds = arrays["rmse"], arrays["seconds"]
    for name in ("X", "noise", "seconds"):
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"array {name!r} has NaN or infinite values")
    last = np.arange(1, len(rmse) + 1) == n  # no row remains whose error it could be
    if not np.isnan(rmse[last]).all() or not np.isfinite(rmse[~last]).all() or (rmse[~last] < 0).any():
        raise ValueError("it records an RMSE that is negative or no finite number")
    if seconds[0] < 0 or (np.diff(seconds) < 0).any():
        raise ValueError("the times that it records are negative, or run backwards")


def _shape(parts: Any) -> str:
    if not isinstance(parts, list) or not all(isinstance(part, str | int) for part in parts):
        return shown(parts)
    sizes = " x ".join(str(part) for part in parts if not isinstance(part, str))
    return " of ".join([sizes, *(part for part in parts if isinstance(part, str))])
