"""The loop: guess a block of picks, verify it with one product over all rows, commit what stands.

The greedy choice is sequential: each pick depends on those before. So the picks of a block are guessed among a panel
of candidates (`sodalite.panel`), which touches no other row. One product over all rows then gives every row's variance
and residual at each intermediate stage, hence its score. Where the guess is the row with the highest score of all, it
is what one stage at a time would have taken; from the first pick where it is not, the block is taken back. So the picks
are Algorithm 1's, to the last index, and the stopping rules are asked about every stage.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import sqrt
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from .executors import Executor
from .kernels import CompiledKernel
from .panel import guess
from .scores import PointwiseScore, tie_threshold
from .shard import Block, Report, Rows
from .stopping import Rule, Stage

Array = NDArray[Any]
Callback = Callable[[Stage], None]

LARGEST = {True: 64, False: 128}  # picks in a block, where the v's are kept and where they are not
SHARE = 0.1  # of a block's work that the panel may cost


@dataclass(frozen=True)
class Selection:
    """The rows that were chosen, and how it went. `indices`, `rmse` and `factor` are all of the same length."""

    indices: Array
    """The active rows, in the order in which they were chosen."""
    rmse: Array
    """The remainder's RMSE after every stage: ``rmse[t - 1]`` is that of the rows other than the first t chosen,
    predicted from these. NaN once every row is active."""
    factor: Array
    """The lower Cholesky factor of k(I, I) + noise, rows in the order of `indices`."""
    scores: Array
    """The score that each row had when it was chosen; NaN for rows that were given or drawn at random."""
    stop_reason: str
    """Why it ended: ``"n_active"``, ``"all_rows"`` (fewer rows than that), ``"tol"``, ``"target_rmse"``,
    ``"time_limit"``, ``"interrupted"``, or the reason of a rule of your own."""
    noise_floor: float
    """The least noise variance that a row was given (`sodalite.jitter`)."""
    n_proposed: int
    """How many rows were proposed, and so carried through all others, for the rows that were kept."""

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"Selection({len(self)} rows, rmse={self.rmse[-1]:.4g}, stop_reason={self.stop_reason!r})"


class SelectionInterrupted(KeyboardInterrupt):
    """Ctrl-C during a selection: the rows chosen so far are in the attribute `selection`."""

    def __init__(self, selection: Selection) -> None:
        super().__init__(f"Interrupted after {len(selection)} rows; see the attribute `selection` of this exception.")
        self.selection = selection


@dataclass(frozen=True)
class Problem:
    """Everything that a selection is about, checked and prepared."""

    executor: Executor
    kernel: CompiledKernel
    n: int
    m: int
    d: int
    q: int
    order: Array
    """Rows that are taken whatever their score: those given, the first, or a random order."""
    n_given: int
    """The stage from which on the rules may end the selection."""
    score: PointwiseScore | None
    rule: Rule
    callback: Callback | None
    unit: float
    """What one unit of y is worth where RMSE is reported."""
    keep: bool
    """Whether the shards keep the rows' v's."""


@dataclass
class State:
    """What the driver knows at stage t, the length of `indices`."""

    factor: Array
    X: Array
    """The inputs of the active rows."""
    indices: list[int] = field(default_factory=list)
    rmse: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    pending: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Picks of the last block that did not stand; the shards still hold their coordinates."""
    pending_factor: Array = field(default_factory=lambda: np.empty((0, 0)))
    """What turns these coordinates into the covariances of the pending rows, given the active ones, with all rows."""
    n_proposed: int = 0
    size: int = 8
    """How many picks the next block will have."""

    @property
    def t(self) -> int:
        return len(self.indices)

    def selection(self, stop_reason: str, noise_floor: float) -> Selection:
        t = len(self.rmse)  # the last to be extended
        return Selection(
            np.array(self.indices[:t], dtype=np.int64),
            np.array(self.rmse),
            self.factor[:t, :t].copy(),
            np.array(self.scores[:t]),
            stop_reason,
            noise_floor,
            self.n_proposed,
        )


def run(problem: Problem, noise_floor: float) -> Selection:
    """Algorithm 1, a block at a time."""
    began = perf_counter()
    call = problem.executor.call
    call("start", noise_floor)
    state = State(np.zeros((problem.m, problem.m)), np.empty((problem.m, problem.d)))
    try:
        rows = _given_rows(problem, state)
        while True:
            proposal = _propose(problem, state, rows, noise_floor)
            block = proposal.block
            reports = call("extend", block)
            kept, winner = _verify(block, reports)
            rmse = _rmse_path(problem, state, reports)
            kept, reason = _stop(problem, state, rmse[:kept], began)
            wanted = np.concatenate([block.picks[kept:], [] if winner is None else [winner]]).astype(np.int64)
            count = 0 if reason else _panel_size(problem, state)
            parts = call("settle", block, kept, -(-3 * count // problem.executor.n_shards) + bool(count), wanted)
            _commit(problem, state, proposal, kept, rmse)
            for t in range(state.t - kept, state.t):
                if problem.callback is not None:
                    problem.callback(Stage(state.rmse[: t + 1], perf_counter() - began, problem.n, problem.m))
            if reason:
                return state.selection(reason, noise_floor)
            rows = _given_rows(problem, state) if state.t < len(problem.order) else _shortlist(parts, count, wanted)
    except KeyboardInterrupt as interrupt:
        if not state.rmse:
            raise
        raise SelectionInterrupted(state.selection("interrupted", noise_floor)) from interrupt


def _panel_size(problem: Problem, state: State) -> int:
    """Candidates: as many as keep the panel's work, c^2 t, a small share of the block's, 2 b t n."""
    return int(min(max(sqrt(SHARE * 2 * state.size * problem.n), 4 * state.size), 2048, problem.n))


def _given_rows(problem: Problem, state: State) -> Rows:
    """The next rows of the order that is given."""
    rows = problem.order[state.t : state.t + LARGEST[problem.keep]]
    return Rows.join(problem.executor.call("candidates", 0, rows))


def _shortlist(parts: list[Rows], count: int, wanted: Array) -> Rows:
    """The best of all shards' candidates, and those that are wanted."""
    rows = Rows.join(parts)
    if len(rows.index) > count:
        top = np.argpartition(-rows.score, count - 1)[:count]
        rows = rows.take(np.union1d(top, np.flatnonzero(np.isin(rows.index, wanted))))
    return rows


@dataclass(frozen=True)
class Proposal:
    """A block for the shards, and what the driver needs to commit it."""

    block: Block
    factor: Array
    """L_S; of shape (b, b)."""
    v: Array
    """The picks' coordinates in the active rows; of shape (t, b)."""
    X: Array
    """The picks' inputs; of shape (b, d)."""
    scores: Array


def _propose(problem: Problem, state: State, rows: Rows, noise_floor: float) -> Proposal:
    """Guess the next picks among some rows, and write them down as a block for the shards."""
    t = state.t
    v = _coordinates(problem, state, rows)
    given = None
    if t < len(problem.order):
        given = np.searchsorted(rows.index, problem.order[t : t + len(rows.index)])
    size = min(state.size, problem.m - t)
    made = guess(problem.kernel, rows, v, size, problem.score, given, 0.5 * noise_floor)
    places, b = made.places, len(made.places)
    picks = rows.index[places]

    # The coordinates in the picks are L_S^-1 C, where C holds the picks' covariances with all rows, given the active
    # ones. Of pending picks, C is a small matrix times what the shards hold; the others' is a product to be made.
    inverse = solve_triangular(made.factor, np.eye(b), lower=True)
    old = np.flatnonzero(np.isin(picks, state.pending))
    new = np.setdiff1d(np.arange(b), old)
    p = len(state.pending) if len(old) else 0
    mix = np.empty((b, p + len(new)))
    if p:
        at = {row: place for place, row in enumerate(state.pending.tolist())}
        mix[:, :p] = inverse[:, old] @ state.pending_factor[[at[row] for row in picks[old].tolist()]]
    mix[:, p:] = inverse[:, new]
    coefficients = v[:, places[new]]
    if not problem.keep and t:
        coefficients = solve_triangular(state.factor[:t, :t], coefficients, lower=True, trans="T")
    dtype = problem.kernel.dtype
    block = Block(
        stage=t,
        picks=picks,
        mix=mix.astype(dtype),
        n_pending=p,
        new=rows.X[places[new]],
        coefficients=np.ascontiguousarray(coefficients.T, dtype=dtype),
        active=None if problem.keep else state.X[:t],
        zeta=made.zeta,
        expected=made.scores if given is None else None,
    )
    state.n_proposed += len(new)
    return Proposal(block, made.factor, v[:, places], rows.X[places], made.scores)


def _coordinates(problem: Problem, state: State, rows: Rows) -> Array:
    """The v's of some rows, of shape (t, rows): from the shards that keep them, or by solving L v = k(I, x)."""
    t = state.t
    if not problem.keep:
        kernel = problem.kernel
        if not t:
            return np.empty((0, len(rows.index)))
        K = kernel.block(kernel.prepare(state.X[:t]), kernel.prepare(rows.X)).astype(np.float64)
        return np.asarray(solve_triangular(state.factor[:t, :t], K, lower=True))
    v = np.empty((t, len(rows.index)))
    for places, found in problem.executor.call("coordinates", rows.index):
        v[:, places] = found
    return v


def _verify(block: Block, reports: list[Report]) -> tuple[int, int | None]:
    """How many picks are what one stage at a time would have taken, and, if not all are, the row to take instead."""
    if block.expected is None:
        return len(block), None
    stages = np.concatenate([report.stages for report in reports])
    rows = np.concatenate([report.rows for report in reports])
    scores = np.concatenate([report.scores for report in reports])
    for i, pick in enumerate(block.picks):
        here = stages == i
        if not here.any():  # rounding put the pick's own score below what was expected
            return max(i, 1), None
        tied = scores[here] >= tie_threshold(scores[here].max())
        winner = int(rows[here][tied].min())
        if winner != pick:
            return i, winner
    return len(block), None


def _rmse_path(problem: Problem, state: State, reports: list[Report]) -> list[float]:
    """The remainder's RMSE after every pick of the block."""
    sse = np.sum([report.sse for report in reports], axis=0)
    left = problem.n - state.t - 1 - np.arange(len(sse))
    with np.errstate(invalid="ignore", divide="ignore"):
        rmse: list[float] = (problem.unit * np.sqrt(np.where(left > 0, sse, np.nan) / (left * problem.q))).tolist()
    return rmse


def _stop(problem: Problem, state: State, rmse: list[float], began: float) -> tuple[int, str | None]:
    """How many of the verified picks there are up to the stage that ends the selection, and why it does."""
    path = state.rmse + rmse
    seconds = perf_counter() - began
    for t in range(state.t + 1, len(path) + 1):
        reason = None
        if t == problem.n:
            reason = "all_rows"
        elif t >= problem.n_given:
            reason = problem.rule.check(Stage(path[:t], seconds, problem.n, problem.m))
        if reason:
            return t - state.t, reason
    return len(rmse), None


def _commit(problem: Problem, state: State, proposal: Proposal, kept: int, rmse: list[float]) -> None:
    """Add the picks that stand to what the driver knows, and choose the next block's size by how many did."""
    t, b = state.t, len(proposal.block)
    rows = slice(t, t + kept)
    state.factor[rows, :t] = proposal.v[:, :kept].T
    state.factor[rows, rows] = proposal.factor[:kept, :kept]
    state.X[rows] = proposal.X[:kept]
    if problem.keep:
        state.pending = proposal.block.picks[kept:]
        state.pending_factor = proposal.factor[kept:, kept:]
    state.size = min(max(2 * b, state.size), LARGEST[problem.keep]) if kept == b else max(kept + kept // 4, 4)
    state.indices += proposal.block.picks[:kept].tolist()
    state.scores += proposal.scores[:kept].tolist()
    state.rmse += rmse[:kept]
