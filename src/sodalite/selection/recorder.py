"""The rows that a selection has chosen so far, from which it can go on: after an interrupt, or where shards were lost.

To go on, the recorded rows are taken again in blocks, as forced rows are: one product over all rows for each block.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ..core.types import Floats, Indices
from ..kernels import CompiledKernel
from ..kernels.jitter import covariance_factor
from .loop import Selection
from .rows import Rows
from .state import Problem, State

SAME_FLOOR = 1e-6  # relative difference up to which two noise floors are the same: rounding is far less, a step tenfold


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


class Recorder:
    """Notes the rows that are chosen, block by block, and has a selection go on from those of an earlier run.

    Parameters
    ----------
    stored : RecordedSelection, optional
        The earlier run.
    """

    def __init__(self, stored: RecordedSelection | None = None) -> None:
        self.stored = stored
        self._state: tuple[State, float] | None = None  # that of the last block, and its noise floor
        self._ended = ""  # as in `RecordedSelection`
        self._n_replayed = 0  # rows of the earlier run that are taken again; until then nothing is noted

    @property
    def recorded(self) -> RecordedSelection | None:
        """The rows chosen so far, or those of the earlier run as long as these are more."""
        return self.stored if self._state is None else RecordedSelection.of(*self._state, self._ended)

    def resumed(self, problem: Problem, noise_floor: float) -> Problem:
        """The problem, with the rows recorded at this noise floor to be taken first, and recorded as it goes on.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the recorded noise floor is higher: this one has failed already.
        """
        problem = replace(problem, on_block=lambda state: self.on_block(state, noise_floor))
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

    def begin_again(self) -> int:
        """Have the selection go on from the rows chosen so far; return how many there are."""
        self.stored = self.recorded
        return 0 if self.stored is None else len(self.stored.indices)

    def on_block(self, state: State, noise_floor: float) -> None:
        """Note the rows chosen so far, unless the earlier run has more."""
        if len(state.rmse) >= self._n_replayed:
            self._state = state, noise_floor

    def record_end(self, selection: Selection) -> Selection:
        """Record that the selection has ended; returns the selection."""
        self._ended = "criterion" if selection.stop_reason == "criterion" else ""  # the path gives all other reasons
        return selection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is left to do where the rows are noted nowhere else."""
