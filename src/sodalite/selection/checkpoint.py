"""Checkpoints: a selection recorded on disk, so that an interrupted one can be continued.

A checkpoint holds the rows chosen so far with their RMSE path, the hyperparameters that were found, the state of the
random numbers, and what identifies the data and the arguments (`sodalite.core.fingerprint`). It is written after a
block of picks if some seconds have passed since the last write, and when the selection ends for whatever reason.

To continue, the recorded rows are taken again in blocks, as forced rows are: one product over all rows for each block.
The stopping rules are first asked about the recorded RMSE path. So a selection that had ended ends at once, and one
that is asked for more rows goes on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from json import dumps, loads
from pathlib import Path
from time import monotonic
from typing import Any, Self

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.container import Kind, check_path, read, write
from ..core.jitter import covariance_factor
from ..core.json import described, seed_of, shown, state_from, state_of
from ..core.state import Converter
from ..core.types import Floats, Indices
from ..core.version import __version__
from ..core.warn import warn
from ..exceptions import CheckpointError, CheckpointWarning
from ..kernels import CompiledKernel
from ..stopping import Rule
from .loop import Selection, first_stop
from .rows import Rows, fingerprints
from .state import Problem, State

SECONDS = 5.0  # least time between two writes: what a killed run loses at most, but for the block that it was at
SHARE = 0.01  # most of the time that may be spent on writing: large checkpoints are written less often
SAME_FLOOR = 1e-6  # relative difference up to which two noise floors are the same: rounding is far less, a step tenfold

REMEDY = "Nothing was changed; give another path, or remove the file to begin anew."


KIND = Kind("sodalite-checkpoint", "checkpoint", CheckpointError, REMEDY)


@dataclass(frozen=True)
class RecordedSelection:
    """The first t rows of a selection."""

    indices: Indices
    rmse: Floats
    scores: Floats
    seconds: Floats
    """When each stage ended, in seconds since the selection began."""
    order: Indices
    """The rows that a run with any larger `n_active` chooses: those of `indices`. With look-ahead there may be some
    more, of a block that has been decided, or fewer, where `n_active` cut a block short."""
    gains: Floats
    """Scores of the rows of `order`."""
    noise_floor: float
    n_proposed: int
    ended: str
    """The stop reason, where no rule gives it: "criterion", or "" for any other."""

    @classmethod
    def of(cls, state: State, noise_floor: float, ended: str) -> RecordedSelection:
        """What is recorded of a selection that goes on."""
        t = len(state.rmse)  # complete rows: an interrupt may fall between the lists
        indices, scores = np.array(state.indices[:t], dtype=np.int64), np.array(state.scores[:t])
        order: Indices = indices
        gains: Floats = scores
        if state.looks_ahead:
            order, gains = state.order[: state.n_decided], state.gains[: state.n_decided]
        path, seconds = np.array(state.rmse), np.array(state.seconds[:t])
        return cls(indices, path, scores, seconds, order, gains, float(noise_floor), state.n_proposed, ended)

    def factor(self, rows: Rows, kernel: CompiledKernel, t: int) -> Floats:
        """L of the first t rows. O(t^3)."""
        some, kernel = rows.take(self.indices[:t]), kernel.in_double()
        features = kernel.prepare(some.X.astype(np.float64))
        noise = kernel.noise(features) + (0 if some.alpha is None else some.alpha)
        return covariance_factor(kernel.block(features, features), np.maximum(noise, self.noise_floor))


@dataclass(frozen=True)
class Record:
    """The contents of a checkpoint."""

    about: Mapping[str, Any]
    """What must be the same for a selection to be continued, as JSON."""
    generator: Any
    """The state of the random numbers when the selection begins, as JSON."""
    kernel: Any = None
    """The kernel that was found, as JSON."""
    found: Any = None
    """The search for the kernel, as JSON (`sodalite.hyperparameters.record`); None if it is to be repeated."""
    selection: RecordedSelection | None = None


class Checkpoint:
    """The checkpoint of one run: the record that its file holds, and the file that is written as the run goes on.

    Parameters
    ----------
    path : str or path-like
    about : dict
        What must be the same for a selection to be continued: names, and values that JSON can hold.
    generator : numpy.random.Generator
        The random numbers of the run. It is set to the state that is recorded.
    record : Record, optional
        The contents of the file when the run begins.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        about: dict[str, Any],
        generator: np.random.Generator,
        record: Record | None = None,
    ) -> None:
        self.path = Path(path)
        self.record = Record(about, state_of(generator)) if record is None else replace(record, about=about)
        self.stored = self.record.selection
        """The selection that the file had when the run began."""
        self._generator = generator
        self._state: tuple[State, float] | None = None  # what the next write records, and its noise floor
        self._ended = ""  # as in `RecordedSelection`
        self._next_write = 0.0  # the time of `monotonic` before which nothing is written
        self._n_replayed = 0  # recorded rows that this run takes again; until then nothing is written
        if record is not None:
            try:
                with suppress(AttributeError):  # a user's own bit generator may have no state to set
                    generator.bit_generator.state = state_from(record.generator)
            except (ValueError, TypeError, LookupError, ArithmeticError) as error:
                raise invalid(path, error) from error

    def record_kernel(self, kernel: Kernel, found: Any) -> None:
        """Write the kernel that was found, and the state of the random numbers when the selection begins.

        With None as `found`, a run that continues this one searches for the kernel again, with the same random numbers.
        """
        earlier, now = self.record.kernel, described(kernel)
        if earlier is not None and earlier != loads(dumps(now)):
            raise CheckpointError(
                f"checkpoint {self.path} cannot be continued, since another kernel was found this time. {REMEDY}"
            )
        self.record = replace(self.record, kernel=now)
        if found is not None:
            self.record = replace(self.record, found=found, generator=state_of(self._generator))
        self._write()

    # Continuing

    def finished(self, rule: Rule, rows: Rows, kernel: CompiledKernel, m: int, first_checked: int) -> Selection | None:
        """The selection of at most m rows, if the rule ends it at a recorded stage, the first one checked or later."""
        stored = self.stored
        if stored is None:
            return None
        path, seconds = stored.rmse.tolist(), stored.seconds.tolist()
        found = first_stop(rule, path, seconds, n=rows.shape[0], m=m, begin=first_checked)
        if found is None and not stored.ended:
            return None
        t, reason = found or (len(path), stored.ended)
        try:
            factor = stored.factor(rows, kernel, t)
        except np.linalg.LinAlgError:  # the rows are taken again, and the noise floor is raised
            return None
        arrays = stored.indices[:t], stored.rmse[:t], factor, stored.scores[:t]
        return Selection(*arrays, reason, stored.noise_floor, stored.n_proposed)

    def resumed(self, problem: Problem, noise_floor: float) -> Problem:
        """The problem, with the rows recorded at this noise floor to be taken first, and recorded as it goes on.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the recorded noise floor is higher: this one has failed already.
        """
        problem = replace(problem, on_block=lambda state: self._on_block(state, noise_floor))
        stored = self.stored
        self._state, self._n_replayed = None, 0
        if stored is not None and stored.noise_floor > noise_floor * (1 + SAME_FLOOR):
            raise np.linalg.LinAlgError("not positive definite, as was found before")
        if stored is None or stored.noise_floor < noise_floor * (1 - SAME_FLOOR):
            return problem
        t = self._n_replayed = len(stored.indices)  # the rules have been asked about these stages
        first_checked = max(problem.first_checked, t + 1)
        problem = replace(problem, earlier_seconds=stored.seconds, first_checked=first_checked)
        if len(problem.order) >= t:  # a random order, which has these rows
            return problem
        return replace(problem, order=stored.order[: problem.m], gains=stored.gains[: problem.m])

    # Recording

    def record_end(self, selection: Selection) -> Selection:
        """Record that the selection has ended; returns the selection."""
        self._ended = "criterion" if selection.stop_reason == "criterion" else ""  # the path gives all other reasons
        return selection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Write the rows chosen so far, however the selection ends."""
        if self._state is not None:
            self._write()

    def _on_block(self, state: State, noise_floor: float) -> None:
        """Write the rows chosen so far, if it is time, unless the file records more."""
        if len(state.rmse) < self._n_replayed:
            return
        self._state = state, noise_floor
        if monotonic() >= self._next_write:
            self._write()

    def _write(self) -> None:
        """Write the file, unless it records more than this run knows. A failure is a warning."""
        began = monotonic()
        if self._state is None and self.stored is not None:
            return
        selection = None if self._state is None else RecordedSelection.of(*self._state, self._ended)
        tree, arrays = Converter().dump(selection, RecordedSelection, "selection")
        try:
            write(KIND, self.path, {"library": __version__, **vars(self.record), "selection": tree}, arrays)
        except CheckpointError as error:
            warn(f"{error} The selection goes on without it.", CheckpointWarning)
        self._next_write = monotonic() + max(SECONDS, (monotonic() - began) / SHARE)


def invalid(path: str | os.PathLike[str], reason: Exception | str) -> CheckpointError:
    """The error for a checkpoint whose contents make no sense."""
    words = f"it has no {reason}" if isinstance(reason, KeyError) else str(reason).rstrip(".")
    return CheckpointError(f"{path} is not a valid checkpoint: {words}. {REMEDY}")


def check_checkpoint(path: Any) -> Record | None:
    """The contents of a checkpoint, or None without a file; refuses a path that cannot be written.

    Called before any long work.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"checkpoint must be the path of a file; got {path!r} of type {type(path).__name__}.")
    check_path(KIND, path)
    if not Path(path).exists():
        return None
    try:
        header, arrays = read(KIND, path)
    except CheckpointError as error:
        raise error if REMEDY in str(error) else CheckpointError(f"{error} {REMEDY}") from None
    try:
        selection = Converter().load(header.content["selection"], RecordedSelection | None, arrays, "selection")
        content = {name: header.content[name] for name in ("about", "generator", "kernel", "found")}
        if not isinstance(content["about"], dict):
            raise ValueError("it does not say which data and arguments it is of")
        return Record(**content, selection=selection)
    except (ValueError, LookupError) as error:
        raise invalid(path, error) from error


def open_checkpoint(
    path: str | os.PathLike[str],
    record: Record | None,
    by: str,
    rows: Rows,
    generator: np.random.Generator,
    **arguments: Any,
) -> Checkpoint:
    """The checkpoint of a run on these data with these arguments. One pass over the rows.

    Parameters
    ----------
    path : str or path-like
    record : Record, optional
        The contents of the file: what `check_checkpoint` returned.
    by : str
        The function that writes it: "select" or "fit".
    rows : Rows
        The rows, as the user gave them.
    generator : numpy.random.Generator
        It is set to the state that it had when the recorded selection began.
    **arguments
        Other arguments that must be the same, such as the criterion and `random_state`.

    Raises
    ------
    CheckpointError
        If the file is of another run. The file is not changed.
    """
    arguments["random_state"] = seed_of(arguments["random_state"], generator)
    about = {"by": by, **{name: described(value) for name, value in arguments.items()}}
    (n, d), q = rows.shape, rows.q
    about |= {"X": f"{n} x {d} of {rows.dtype}", "y": f"{n} x {q}", "alpha": rows.has_alpha}
    if record is not None:  # first without reading all rows
        _compare(path, record.about, about)
    about |= {f"values of {name}": f"{number:016x}" for name, number in fingerprints(rows).items()}
    if record is not None:
        _compare(path, record.about, about)
    return Checkpoint(path, about, generator, record)


def _compare(path: str | os.PathLike[str], recorded: Mapping[str, Any], about: dict[str, Any]) -> None:
    """Refuse a checkpoint of another run; say what is different."""
    different = [name for name in about if recorded.get(name) != loads(dumps(about[name]))]
    if not different:
        return
    name, old, new = different[0], recorded.get(different[0]), about[different[0]]
    if name == "by":
        words = f"it was written by {old}, and this is {new}"
    elif name.startswith("values of"):
        words = f"it is of other data: {name.removeprefix('values of ')} has other values"
    elif name in ("X", "y"):
        words = f"it is of other data: {name} was {old} and is {new}"
    elif isinstance(old, str | int | float | None) and isinstance(new, str | int | float | None):
        words = f"it is of another run: {name} was {shown(old, 300)} and is {shown(new, 300)}"
    else:
        words = f"it is of another run: {name} is another"
    raise CheckpointError(f"checkpoint {path} cannot be continued, since {words}. {REMEDY}")
