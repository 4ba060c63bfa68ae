"""Checkpoints: a selection recorded on disk, so that an interrupted one can be continued.

A checkpoint holds the rows chosen so far with their RMSE path, the hyperparameters that were found, the state of the
random numbers, and what identifies the data and the arguments (`sodalite.core.fingerprint`). It is written after a
block of picks if some seconds have passed since the last write, and when the selection ends for whatever reason.

To continue, the recorded rows are taken again in blocks, as given rows are: one product over all rows for each block.
The stopping rules are first asked about the recorded RMSE path. So a selection that had ended ends at once, and one
that is asked for more rows goes on.

A file may be damaged, which its checksums show, or forged. Against forgery its contents are compared with the data and
the arguments (`sodalite.selection.verification`): that its rows are rows of the data, with their noise, scores and
RMSE. Whether other rows would have been better is not checked, since that takes as long as the selection.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
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
from ..core.warn import warn
from ..scores import ScoreTraits
from ..stopping import Rule
from .loop import Selection, first_stop
from .rows import Rows, fingerprints
from .state import Problem, State
from .stored import ARRAYS, INTEGERS, StoredSelection
from .verification import Request, Verified, disagreement, verify

SECONDS = 5.0  # least time between two writes: what a killed run loses at most, but for the block that it was at
SHARE = 0.01  # most of the time that may be spent on writing: large checkpoints are written less often
SAME_FLOOR = 1e-6  # relative difference up to which two noise floors are the same: rounding is far less, a step tenfold

REMEDY = "Nothing was changed; give another path, or remove the file to begin anew."
CONTENT = {"library", "about", "generator", "kernel", "found", "selection"}

File = tuple[dict[str, Any], dict[str, Array]]
"""The contents of a checkpoint: its JSON and its arrays."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be read, cannot be written, or is of another run: nothing was changed."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written while a selection went on."""


KIND = Kind("sodalite-checkpoint", "checkpoint", CheckpointError)


class Checkpoint:
    """The checkpoint of one run: the selection that its file records, and the file that is written as the run goes on.

    Parameters
    ----------
    path : str or path-like
    about : dict
        What must be the same for a selection to be continued: names, and values that JSON can hold.
    generator : numpy.random.Generator
        The random numbers of the run.
    file : (dict, dict), optional
        The contents of the file when the run begins.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        about: dict[str, Any],
        generator: np.random.Generator,
        file: File | None = None,
    ) -> None:
        self.path, self.about = Path(path), about
        self.stored: StoredSelection | None = None
        """The selection that the file records."""
        self.found: dict[str, Any] | None = None
        """The search for the kernel, as JSON (`sodalite.hyperparameters.record`); None if it is to be repeated."""
        self.kernel: Any = None
        """The kernel that was found, as JSON."""
        self._verified: Verified | None = None
        self._generator, self._generator_state = generator, state_of(generator)
        self._state: tuple[State, float] | None = None  # what the next write records, and its noise floor
        self._ended = ""  # as in `StoredSelection`
        self._next_write = 0.0  # the time of `monotonic` before which nothing is written
        self._n_replayed = 0  # recorded rows that this run takes again; until then nothing is written
        if file is not None:
            self._recall(*file)

    def record_kernel(self, kernel: Kernel, found: dict[str, Any] | None) -> None:
        """Write the kernel that was found, and the state of the random numbers when the selection begins.

        Without `found`, a run that continues this one searches for the kernel again, with the same random numbers.
        """
        earlier, self.kernel = self.kernel, described(kernel)
        if earlier is not None and earlier != self.kernel:
            raise CheckpointError(
                f"checkpoint {self.path} cannot be continued, since another kernel was found this time. {REMEDY}"
            )
        if found is not None:
            self.found, self._generator_state = found, state_of(self._generator)
        self._write()

    # --- continuing ---

    def verify(self, request: Request) -> None:
        """Check the recorded rows against the data; a CheckpointError says what does not fit. O(t^3)."""
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
        """The selection, if the rules end it at a recorded stage; else None."""
        stored, verified = self.stored, self._verified
        if stored is None or verified is None:
            return None
        path, seconds, n = stored.rmse.tolist(), stored.seconds.tolist(), request.data.shape[0]
        found = first_stop(rule, path, seconds, n=n, m=request.m, begin=request.first_checked)
        if found is None and not stored.ended:
            return None
        t, reason = found or (len(path), stored.ended)
        try:
            verified.check_path(stored.rmse, t)
        except ValueError as error:
            raise invalid(self.path, error) from error
        arrays = stored.indices[:t], stored.rmse[:t], verified.factor[:t, :t].copy(), stored.scores[:t]
        return Selection(*arrays, reason, stored.noise_floor, stored.n_proposed)

    def resumed(self, problem: Problem, noise_floor: float) -> Problem:
        """The problem, with the rows recorded at this noise floor to be taken first, and recorded as it goes on.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the recorded noise floor is higher: this one has failed already.
        CheckpointError
            If the recorded noise floor is none that this run can have.
        """
        problem = replace(problem, on_block=lambda state: self._on_block(state, noise_floor))
        self._state, self._n_replayed = None, 0
        if self.stored is None or not self._reached(self.stored, noise_floor):
            return problem
        return self._with_stored_rows(self.stored, problem)

    def _reached(self, stored: StoredSelection, noise_floor: float) -> bool:
        """Whether rows are recorded at this noise floor, and not at a lower one; raises as `resumed` does."""
        floors = noise_floor * 10.0 ** np.arange(-STEPS, STEPS + 1)
        if not np.isclose(stored.noise_floor, floors, rtol=SAME_FLOOR, atol=0).any():
            raise invalid(self.path, f"its noise_floor, {stored.noise_floor:.6g}, is none that this run can have")
        if stored.noise_floor > noise_floor * (1 + SAME_FLOOR):
            raise np.linalg.LinAlgError("not positive definite, as was found before")
        return stored.noise_floor >= noise_floor * (1 - SAME_FLOOR)

    def _with_stored_rows(self, stored: StoredSelection, problem: Problem) -> Problem:
        """The problem, with the recorded rows to be taken first. The rules have been asked about these stages."""
        t = self._n_replayed = len(stored.indices)
        first_checked = max(problem.first_checked, t + 1)
        problem = replace(problem, earlier_seconds=stored.seconds, first_checked=first_checked)
        if len(problem.order) >= t:  # a random order, which has these rows
            return problem
        return replace(problem, order=stored.order[: problem.m], gains=stored.gains[: problem.m])

    # --- recording ---

    def record_end(self, selection: Selection) -> Selection:
        """Record that the selection has ended; returns the selection."""
        self._ended = "score" if selection.stop_reason == "score" else ""  # the path gives all other reasons
        return selection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Write the rows chosen so far, however the selection ends."""
        if self._state is not None:
            self._write()

    def _on_block(self, state: State, noise_floor: float) -> None:
        """Compare rows that are taken again with the recorded ones; write the others, if it is time."""
        self._compare_path(state)
        if len(state.rmse) < self._n_replayed:  # the file records more
            return
        self._state = state, noise_floor
        if monotonic() >= self._next_write:
            self._write()

    def _compare_path(self, state: State) -> None:
        """Refuse a recorded RMSE that the same rows do not have when they are taken again."""
        if not self._n_replayed or self.stored is None or self._verified is None:
            return
        common = min(len(state.rmse), self._n_replayed)
        wrong = self._verified.differs(self.stored.rmse[:common], np.array(state.rmse[:common]))
        if len(wrong):
            at = int(wrong[0])
            raise invalid(self.path, disagreement(at + 1, self.stored.rmse[at], state.rmse[at]))

    def _write(self) -> None:
        """Write the file, unless it records more than this run knows. A failure is a warning."""
        began = monotonic()
        if self._state is None and self.stored is not None:
            return
        selection, arrays = (None, {}) if self._state is None else _recorded(*self._state, self._ended)
        content = {
            "library": __version__,
            "about": self.about,
            "generator": self._generator_state,
            "kernel": self.kernel,
            "found": self.found,
            "selection": selection,
        }
        try:
            write(KIND, self.path, content, arrays)
        except CheckpointError as error:
            warn(f"{error} The selection goes on without it.", CheckpointWarning)
        self._next_write = monotonic() + max(SECONDS, (monotonic() - began) / SHARE)

    def _recall(self, content: dict[str, Any], arrays: dict[str, Array]) -> None:
        """Check the contents of the file, and take them over."""
        try:
            if set(content) != CONTENT:
                raise ValueError(f"it has the fields {', '.join(sorted(content))}, not {', '.join(sorted(CONTENT))}")
            self.kernel, self.found, state = content["kernel"], content["found"], content["generator"]
            if self.about["by"] == "select" and not self.kernel is self.found is None:
                raise ValueError("it names a kernel that was found, but select is given its kernel")
            fresh = self.found is None and self.about["random_state"] is not None
            if fresh and state != loads(dumps(self._generator_state)):
                raise ValueError("the state of its random numbers is not that of this random_state")
            with suppress(AttributeError):  # a user's own bit generator may have no state to set
                self._generator.bit_generator.state = state_from(state, self._generator_state)
            self._generator_state = state
            if content["selection"] is not None:
                self.stored = StoredSelection.checked(content["selection"], arrays, *self.about["X"][:2])
            elif arrays:
                raise ValueError("it has arrays, but says nothing of a selection")
        except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
            raise invalid(self.path, error) from error


def _recorded(state: State, noise_floor: float, ended: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """What a checkpoint records of a selection: JSON and arrays, as `StoredSelection.checked` takes them."""
    t = len(state.rmse)  # complete rows: an interrupt may fall between the lists
    arrays: dict[str, Array] = {
        "indices": np.array(state.indices[:t], dtype=np.int64),
        "rmse": np.array(state.rmse),
        "scores": np.array(state.scores[:t]),
        "seconds": np.array(state.seconds[:t]),
        "X": state.X[:t],
        "noise": state.noise[:t],
    }
    if state.looks_ahead:
        arrays["order"] = np.asarray(state.order[: state.n_decided], dtype=np.int64)
        arrays["gains"] = state.gains[: state.n_decided]
    else:
        arrays["order"], arrays["gains"] = arrays["indices"], arrays["scores"]
    return {"noise_floor": float(noise_floor), "n_proposed": state.n_proposed, "ended": ended}, arrays


def invalid(path: str | os.PathLike[str], reason: Exception | str) -> CheckpointError:
    """The error for a checkpoint whose contents are wrong, or do not fit the data."""
    if isinstance(reason, KeyError):
        reason = f"it has no {reason}"
    return CheckpointError(f"{path} is no valid checkpoint: {str(reason).rstrip('.')}. {REMEDY}")


def check_checkpoint(path: Any) -> File | None:
    """The contents of a checkpoint, or None if there is none; refuses a path where none can be written.

    Called before any long work.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"checkpoint must be the path of a file; got {path!r} of type {type(path).__name__}.")
    check_path(KIND, path)
    if not Path(path).exists():
        return None
    try:
        header, arrays = read(KIND, path)
        _check_arrays(path, header)
    except CheckpointError as error:
        if REMEDY in str(error):
            raise
        raise CheckpointError(f"{error} {REMEDY}") from None
    if not isinstance(header.content.get("about"), dict):
        raise invalid(path, "it does not say which data and arguments it is of")
    return header.content, arrays


def _check_arrays(path: str | os.PathLike[str], header: Header) -> None:
    """Refuse arrays whose names, types or shapes are not those of a checkpoint."""
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
    path: str | os.PathLike[str],
    file: File | None,
    by: str,
    rows: Rows,
    generator: np.random.Generator,
    **arguments: Any,
) -> Checkpoint:
    """The checkpoint of a run on these data with these arguments. One pass over the rows.

    Parameters
    ----------
    path : str or path-like
    file : (dict, dict), optional
        The contents of the file: what `check_checkpoint` returned.
    by : str
        The function that writes it: "select" or "fit".
    rows : Rows
        The rows, as the user gave them.
    generator : numpy.random.Generator
        It is set to the state that it had when the recorded selection began.
    **arguments
        Other arguments that must be the same, such as the score and `random_state`.

    Raises
    ------
    CheckpointError
        If the file is of another run, or its contents are wrong. The file is not changed.
    """
    arguments["random_state"] = seed_of(arguments["random_state"], generator)
    about = {"by": by, **{name: described(value) for name, value in arguments.items()}}
    (n, d), q = rows.shape, rows.q
    about |= {"X": [n, d, str(rows.dtype)], "y": [n, q], "alpha": rows.has_alpha}
    if file is not None:  # first without reading all rows
        _compare(path, file[0]["about"], about)
    about["values"] = {name: f"{number:016x}" for name, number in fingerprints(rows).items()}
    if file is not None:
        _compare(path, file[0]["about"], about)
    return Checkpoint(path, about, generator, file)


def _compare(path: str | os.PathLike[str], recorded: dict[str, Any], about: dict[str, Any]) -> None:
    """Refuse a checkpoint of another run; say what is different."""
    different = [name for name in about if recorded.get(name) != loads(dumps(about[name]))]
    if not different:
        return
    name, old, new = different[0], recorded.get(different[0]), about[different[0]]
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


def _shape(parts: Any) -> str:
    """A shape and a type in words, such as "600 x 2 of float64"."""
    if not isinstance(parts, list) or not all(isinstance(part, str | int) for part in parts):
        return shown(parts)
    sizes = " x ".join(str(part) for part in parts if not isinstance(part, str))
    return " of ".join([sizes, *(part for part in parts if isinstance(part, str))])
