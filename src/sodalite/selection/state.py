"""The problem of a selection, and the state that the loop keeps from block to block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

import numpy as np

from ..core.types import Floats, Indices
from ..criteria import Lookahead, PointwiseCriterion
from ..kernels import CompiledKernel
from ..stopping import Callback, Rule
from .executors import Executor
from .panel import Guess, Panel

FIRST_BLOCK = 8  # picks of the first block, and the least after rejected picks
FIRST_PANEL = 500  # candidates for the first block


@dataclass(frozen=True)
class Problem:
    """The input of a selection: the rows on their shards, the kernel, the criterion and the rules, all checked."""

    executor: Executor
    kernel: CompiledKernel
    n: int
    m: int
    d: int
    q: int
    order: Indices
    """The rows to take first, whatever their score: forced rows, the first row, or a random order."""
    first_checked: int
    """The first stage at which a stopping rule may end the selection."""
    criterion: PointwiseCriterion | None
    lookahead: Lookahead | None
    seed: int
    """Seed of the random numbers of `lookahead`."""
    rule: Rule
    callback: Callback | None
    unit: float
    """The value of one unit of y where RMSE is reported."""
    keep: bool
    """Whether the shards keep the v's of their rows."""
    time_limit: float = inf
    """Seconds after which a rule ends the selection; for callbacks that estimate the time left."""
    gains: Floats | None = None
    """Scores of the rows of `order`; None without scores."""
    earlier_seconds: Floats = field(default_factory=lambda: np.empty(0))
    """When each stage of the run that this one continues ended; the rows of these stages come first in `order`."""
    on_block: Callable[[State], None] | None = None
    """Called after every block."""


@dataclass
class State:
    """What the loop knows at stage t, the length of `indices`."""

    panel: Panel
    factor: Floats
    """L in its first t rows and columns; of shape (m, m)."""
    X: Floats
    """Inputs of the active rows; of shape (m, d)."""
    noise: Floats
    """Noise variances of the active rows; of shape (m,)."""
    order: Indices
    """The rows to take whatever their score: those of the problem, then those that look-ahead has decided on."""
    gains: Floats
    """Scores of the rows of `order`; NaN for rows without one."""
    indices: list[int] = field(default_factory=list)
    rmse: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """When each stage ended, in seconds since the selection began."""
    rejected: Guess | None = None
    """The rejected picks of the last block. The shards still store their coordinates, or have still to take them back
    (`sodalite.selection.proposal`)."""
    cut: float = -inf
    """Candidate threshold: shards name rows of at least this potential."""
    n_proposed: int = 0
    block_size: int = FIRST_BLOCK
    """Picks of the next block, at most."""
    panel_size: int = FIRST_PANEL
    """Candidates among which they are guessed."""
    looks_ahead: bool = False
    n_decided: int = 0
    """How many rows of `order` would be the same with any larger m."""
    clock_start: float = 0.0
    """`perf_counter` at stage 0, as if the run that this one continues had not been interrupted."""

    @property
    def t(self) -> int:
        """The stage: the number of active rows."""
        return len(self.indices)
