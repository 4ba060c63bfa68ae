"""Checkpoints: a selection recorded on disk, so that an interrupted one can be continued.

A checkpoint holds the rows chosen so far with their RMSE path, the hyperparameters that were found, the state of the
random numbers, and what identifies the data and the arguments (`sodalite.core.fingerprint`). It is written after a
block of picks if some seconds have passed since the last write, and when the selection ends for whatever reason.

To continue, the stopping rules are first asked about the recorded RMSE path. So a selection that had ended ends at
once, and one that is asked for more rows goes on (`sodalite.selection.recorder`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from json import dumps
from math import isfinite
from numbers import Integral
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel

from ..core.container import Kind, check_path, read, write
from ..core.json import plain
from ..core.state import Converter, StateError, reason_of
from ..core.version import __version__
from ..core.warn import warn
from ..exceptions import INVALID, CheckpointError, CheckpointWarning
from ..kernels import CompiledKernel
from ..stopping import Rule
from .loop import Selection, first_stop
from .recorder import RecordedSelection, Recorder
from .rows import Rows, fingerprints
from .state import State

SECONDS = 5.0  # least time between two writes: what a killed run loses at most, but for the block that it was at
SHARE = 0.01  # most of the time that may be spent on writing: large checkpoints are written less often

REMEDY = "Nothing was changed; give another path, or remove the file to begin anew."


KIND = Kind("sodalite-checkpoint", "checkpoint", CheckpointError, REMEDY)


@dataclass(frozen=True)
class Record:
    """The contents of a checkpoint."""

    about: dict[str, Any]
    """What must be the same for a selection to be continued, as `described`."""
    generator: dict[str, Any]
    """The state of the random numbers when the selection begins."""
    kernel: Any = None
    """The kernel that was found, as `described`."""
    found: Any = None
    """The search for the kernel, as JSON (`sodalite.hyperparameters.record`); None if it is to be repeated."""
    selection: RecordedSelection | None = None
    library: str = __version__
    """The version that wrote it."""


class Checkpoint(Recorder):
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
        self.record = Record(about, _state_of(generator)) if record is None else replace(record, about=about)
        super().__init__(self.record.selection)
        self._generator = generator
        self._next_write = 0.0  # the time of `monotonic` before which nothing is written
        if record is not None:
            try:
                with suppress(AttributeError):  # a user's own bit generator may have no state to set
                    generator.bit_generator.state = record.generator
            except INVALID as error:
                raise invalid(path, error) from error

    def record_kernel(self, kernel: Kernel, found: Any) -> None:
        """Write the kernel that was found, and the state of the random numbers when the selection begins.

        With None as `found`, a run that continues this one searches for the kernel again, with the same random numbers.
        """
        earlier, now = self.record.kernel, described(kernel)
        if earlier is not None and earlier != now:
            raise CheckpointError(
                f"checkpoint {self.path} cannot be continued, since another kernel was found this time. {REMEDY}"
            )
        self.record = replace(self.record, kernel=now)
        if found is not None:
            self.record = replace(self.record, found=found, generator=_state_of(self._generator))
        self._write()

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

    def __exit__(self, *error: object) -> None:
        """Write the rows chosen so far, however the selection ends."""
        self._write()

    def on_block(self, state: State, noise_floor: float) -> None:
        """Note the rows chosen so far, and write them if it is time."""
        super().on_block(state, noise_floor)
        if monotonic() >= self._next_write:
            self._write()

    def _write(self) -> None:
        """Write the file, unless it had all that is known when the run began. A failure is a warning."""
        began, selection = monotonic(), self.recorded
        if selection is not None and selection is self.record.selection:
            return
        try:
            write(KIND, self.path, *Converter().dump(replace(self.record, selection=selection), Record))
        except CheckpointError as error:
            warn(f"{error} The selection goes on without it.", CheckpointWarning)
        self._next_write = monotonic() + max(SECONDS, (monotonic() - began) / SHARE)


def invalid(path: str | os.PathLike[str], reason: Exception) -> CheckpointError:
    """The error for a checkpoint whose contents make no sense."""
    return CheckpointError(f"{path} is not a valid checkpoint: {reason_of(reason)}. {REMEDY}")


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
        record: Record = Converter().load(header.content, Record, arrays)
    except StateError as error:
        raise invalid(path, error) from error
    return record


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
    different = [name for name in about if recorded.get(name) != about[name]]
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


def _state_of(generator: np.random.Generator) -> dict[str, Any]:
    return dict(generator.bit_generator.state)


def described(value: Any) -> Any:
    """An argument as JSON, equal for two arguments of equal meaning; a function is described by its name.

    Examples
    --------
    >>> from sodalite.criteria import Delta
    >>> described(Delta(underfit=0.5))
    'Delta(uncertainty=1.0, underfit=0.5)'
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple | range):
        return [described(part) for part in value]
    if isinstance(value, Kernel):
        parts = {name: described(part) for name, part in value.get_params(deep=False).items()}
        return {"kernel": type(value).__qualname__, **parts}
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and isfinite(value)):
        return value
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def seed_of(random_state: Any, generator: np.random.Generator) -> Any:
    """The identity of a random state, for a file: None, the seed, or a hash of the generator's state."""
    if random_state is None or isinstance(random_state, Integral):
        return described(random_state)
    return sha256(dumps(plain(generator.bit_generator.state), sort_keys=True).encode()).hexdigest()[:16]


def shown(value: Any, most: int = 60) -> str:
    """The `repr` of a value for a message, cut to at most so many characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."
