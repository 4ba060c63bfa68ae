"""The loop: guess a block of picks, verify it with one product over all rows, commit what stands.

The greedy choice is sequential: each pick depends on those before. So the picks of a block are guessed among a panel
of candidates (`sodalite.selection.panel`), which touches no other row. One product over all rows then gives every row's
variance and residual at each intermediate stage, hence its score. Where the guess is the row with the highest score of
all, it is what one stage at a time would have taken; from the first pick where it is not, the block is taken back. So
the picks are Algorithm 1's, to the last index, and the stopping rules are asked about every stage.

Rows that are given, drawn at random or chosen by looking ahead (`sodalite.selection.lookahead`) come in blocks as well;
of these there is nothing to verify.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from time import perf_counter
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ..core.memory import most_candidates
from ..core.types import Array
from ..kernels import CompiledKernel
from ..scores import Lookahead, PointwiseScore, tie_threshold
from ..stopping import Callback, Rule, Stage
from .executors import Executor
from .lookahead import look_ahead
from .panel import Guess, Panel
from .shard import Block, Report, Rows

LARGEST = {True: 64, False: 128}  # picks in a block, where the v's are kept and where they are not


@dataclass(frozen=True)
class Selection:
    """The rows that were chosen, and how it went. `indices`, `rmse` and `factor` are all of the same length."""

    indices: Array
    """The active rows, in the order in which they were chosen."""
    rmse: Array
    """The remainder's RMSE after every stage: ``rmse[t - 1]`` is that of the rows other than the first t chosen,
    predicted from these. NaN once every row is active. Rows that are predicted badly leave the remainder for the active
    set, so with a score that sees the residual this can fall below the error on new rows."""
    factor: Array
    """The lower Cholesky factor of k(I, I) + noise, rows in the order of `indices`."""
    scores: Array
    """The score that each row had when it was chosen; NaN for rows that were given or drawn at random. With
    ``"lookahead"``, by how much the row raised the sample's log density, per row of the sample and target."""
    stop_reason: str
    """Why it ended: ``"n_active"``, ``"all_rows"`` (fewer rows than that), ``"tol"``, ``"target_rmse"``,
    ``"time_limit"``, ``"score"`` (no row is left that scores more than -inf), ``"interrupted"``, or the reason of a
    rule of your own."""
    noise_floor: float
    """The least noise variance that a row was given (`sodalite.core.jitter`)."""
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
    lookahead: Lookahead | None
    seed: int
    """For the random numbers of `lookahead`."""
    rule: Rule
    callback: Callback | None
    unit: float
    """What one unit of y is worth where RMSE is reported."""
    keep: bool
    """Whether the shards keep the rows' v's."""
    time_limit: float = inf
    """Seconds, for those who say how long it will take."""
    gains: Array | None = None
    """The scores of the rows of `order`, where they are known, ..."""
    before: Array = field(default_factory=lambda: np.empty(0))
    """... and when the first of these had been taken, in seconds: in an earlier run, of which this is the rest."""
    note: Callable[[State], None] | None = None
    """Called with the state after every block."""


@dataclass
class State:
    """What the driver knows at stage t, the length of `indices`."""

    panel: Panel
    factor: Array
    X: Array
    """The inputs of the active rows, ..."""
    noise: Array
    """... and their noise variances."""
    order: Array
    """Rows that are taken whatever their score: the problem's, and those that looking ahead has added, ..."""
    gains: Array
    """... with what it says of each."""
    indices: list[int] = field(default_factory=list)
    rmse: list[float] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """When each stage ended."""
    pending: Guess | None = None
    """Picks of the last block that did not stand. The shards still hold their coordinates, which its factor turns into
    the covariances, given the active rows, with all rows; or have to evaluate these once more, to take the picks back.
    """
    cut: float = -np.inf
    """The potential below which rows were no candidates for the last block, and a little less."""
    n_proposed: int = 0
    size: int = 8
    """How many picks the next block will have, ..."""
    candidates: int = 500
    """... and among how many rows they are guessed."""
    looks_ahead: bool = False
    n_decided: int = 0
    """How many rows of `order` would be the same with any larger m."""
    began: float = 0.0
    """What the clock would have said at stage 0, had no time passed but for choosing."""

    @property
    def t(self) -> int:
        return len(self.indices)

    def selection(self, kernel: CompiledKernel, stop_reason: str, noise_floor: float) -> Selection:
        """What has been chosen so far."""
        t = len(self.rmse)  # the last to be extended
        factor = self.factor[:t, :t].copy()
        if kernel.dtype != np.float64:  # its entries are no better than that; what it is used for deserves better
            kernel = kernel.in_double()
            rows = kernel.prepare(self.X[:t])
            K = kernel.block(rows, rows) + np.diag(self.noise[:t])
            factor = np.asarray(cholesky(K, lower=True))
        return Selection(
            np.array(self.indices[:t], dtype=np.int64),
            np.array(self.rmse),
            factor,
            np.array(self.scores[:t]),
            stop_reason,
            noise_floor,
            self.n_proposed,
        )


def run(problem: Problem, noise_floor: float) -> Selection:
    """Algorithm 1, a block at a time."""
    call = problem.executor.call
    call("start", noise_floor)
    m, d = problem.m, problem.d
    most, order = most_candidates(problem.n), problem.order
    panel = Panel(problem.kernel, problem.score, m, most)
    gains = np.full(len(order), np.nan) if problem.gains is None else problem.gains
    state = State(panel, np.zeros((m, m)), np.empty((m, d)), np.empty(m), order, gains)
    if not problem.keep:  # a block costs the same however few picks stand
        state.candidates = most
    state.looks_ahead, state.n_decided = problem.lookahead is not None, len(order)
    state.began = perf_counter() - float(problem.before[-1:].sum())
    try:
        rows = _given_rows(problem, state)
        while True:
            block, made = _propose(problem, state, rows, noise_floor)
            reports = call("extend", block)
            kept, winner = _verify(block, reports, problem.kernel.dtype)
            rmse = _rmse_path(problem, state, reports)
            seconds = _seconds(problem, state, kept)
            kept, reason = _stop(problem, state, rmse[:kept], seconds)
            wanted = np.concatenate([block.picks[kept:], [] if winner is None else [winner]]).astype(np.int64)
            count = 0 if reason else _panel_size(problem, state)
            share = -(-3 * count // problem.executor.n_shards)
            parts = call("settle", block, kept, share, state.cut, wanted)
            if count and kept < len(block) and block.expected is not None:
                parts.append(panel.left(state.t, kept))
            _commit(problem, state, block, made, kept, rmse, seconds)
            if problem.note is not None:
                problem.note(state)
            if problem.callback is not None:
                for stage in _stages(problem, state, kept):
                    problem.callback(stage)
            if reason:
                return state.selection(problem.kernel, reason, noise_floor)
            if problem.lookahead is not None and state.t == len(state.order):
                _look_ahead(problem, state, problem.lookahead)
                if state.t == len(state.order):
                    return state.selection(problem.kernel, "score", noise_floor)
            if state.t < len(state.order):
                rows = _given_rows(problem, state)
            else:
                rows = _shortlist(state, parts, count, wanted, problem.kernel.dtype)
                if not kept:  # not even the first stood, as may happen in a tie: the row to take is known for sure
                    rows = rows.take(np.flatnonzero(rows.index == winner))
                if not (rows.score > -np.inf).any():
                    return state.selection(problem.kernel, "score", noise_floor)
    except KeyboardInterrupt as interrupt:
        if not state.rmse:
            raise
        raise SelectionInterrupted(state.selection(problem.kernel, "interrupted", noise_floor)) from interrupt


def _panel_size(problem: Problem, state: State) -> int:
    """Candidates: as many as the hits so far ask for, within bounds."""
    return min(max(state.candidates, 8 * state.size), most_candidates(problem.n))


def _given_rows(problem: Problem, state: State) -> Rows:
    """The next rows of the order that is given."""
    rows = state.order[state.t : state.t + LARGEST[problem.keep]]
    return Rows.join(problem.executor.call("candidates", 0, 0.0, rows))


def _look_ahead(problem: Problem, state: State, lookahead: Lookahead) -> None:
    """Add the next rows to the order, if there are any that have a chance."""
    count = min(lookahead.block, problem.m - state.t)
    picks, gains = look_ahead(
        lookahead,
        problem.kernel,
        problem.executor.call,
        lambda rows: _coordinates(problem, state, rows),
        state.order,
        problem.n,
        count,
        problem.seed,
    )
    state.order, state.gains = np.concatenate([state.order, picks]), np.concatenate([state.gains, gains])
    if count == lookahead.block:  # with a larger m, a shorter block would have had more picks
        state.n_decided = len(state.order)


def _shortlist(state: State, parts: list[Rows], count: int, wanted: Array, dtype: Any) -> Rows:
    """The best of all shards' candidates, and those that are wanted."""
    rows = Rows.join(parts)
    if len(rows.index) <= count:
        state.cut -= 0.1 * abs(state.cut) if np.isfinite(state.cut) else 0
        return rows
    top = np.argpartition(-rows.potential, count - 1)[:count]
    state.cut = float(rows.potential[top].min())
    state.cut -= 0.05 * abs(state.cut)
    needed = np.isin(rows.index, wanted) | (rows.score >= tie_threshold(rows.score.max(), dtype))
    return rows.take(np.union1d(top, np.flatnonzero(needed)))


def _propose(problem: Problem, state: State, rows: Rows, noise_floor: float) -> tuple[Block, Guess]:
    """Guess the next picks among some rows, and write them down as a block for the shards."""
    t = state.t
    given = None
    if t < len(state.order):
        given = np.searchsorted(rows.index, state.order[t : t + len(rows.index)])
    size = min(state.size, problem.m - t)
    made = state.panel.guess(rows, t, lambda new: _coordinates(problem, state, new), size, given, 0.5 * noise_floor)
    picks, b = made.rows.index, len(made.factor)

    # The coordinates in the picks are L_S^-1 C, where C holds the picks' covariances with all rows, given the active
    # ones. Of pending picks, C is a small matrix times what the shards hold, if they keep v's; else, it is made again
    # for all of them, since those that did not stand are still to be taken back. The others' is a product to be made.
    inverse = solve_triangular(made.factor, np.eye(b), lower=True)
    fallen = state.pending
    at = {} if fallen is None else {row: place for place, row in enumerate(fallen.rows.index.tolist())}
    old = np.flatnonzero([row in at for row in picks.tolist()])
    new = np.setdiff1d(np.arange(b), old)
    X, coefficients, undo = made.rows.X[new], made.v[new], None
    pending = 0
    if fallen is not None and (len(old) or not problem.keep):
        pending, places = len(at), [at[row] for row in picks[old].tolist()]
        again = inverse[:, old] @ np.eye(pending)[places]
        if problem.keep:
            again = again @ fallen.factor
        else:
            X, coefficients = np.concatenate([fallen.rows.X, X]), np.concatenate([fallen.v, coefficients])
            undo = solve_triangular(fallen.factor, np.eye(pending), lower=True)
    mix = np.hstack([again, inverse[:, new]]) if pending else inverse
    if not problem.keep and t:
        coefficients = solve_triangular(state.factor[:t, :t], coefficients.T, lower=True, trans="T").T
    dtype = problem.kernel.dtype
    state.n_proposed += len(new)
    block = Block(
        stage=t,
        picks=picks,
        mix=mix.astype(dtype),
        n_pending=pending if problem.keep else 0,
        new=X,
        coefficients=np.ascontiguousarray(coefficients, dtype=dtype),
        active=None if problem.keep else state.X[:t],
        zeta=made.zeta,
        expected=made.scores if given is None and len(rows.index) > 1 else None,  # one candidate is the best of all
        undo=None if undo is None else undo.astype(dtype),
    )
    return block, made


def _coordinates(problem: Problem, state: State, rows: Rows) -> Array:
    """The v's of some rows, of shape (rows, t): from the shards that keep them, or by solving L v = k(I, x)."""
    t = state.t
    v = np.empty((len(rows.index), t))
    if problem.keep:
        for places, found in problem.executor.call("coordinates", rows.index):
            v[places] = found
    elif t:
        kernel = problem.kernel
        K = kernel.block(kernel.prepare(state.X[:t]), kernel.prepare(rows.X)).astype(np.float64)
        v[:] = solve_triangular(state.factor[:t, :t], K, lower=True).T
    return v


def _verify(block: Block, reports: list[Report], dtype: Any) -> tuple[int, int | None]:
    """How many picks are what one stage at a time would have taken, and, if not all are, the row to take instead."""
    if block.expected is None:
        return len(block), None
    stages = np.concatenate([report.stages for report in reports])
    rows = np.concatenate([report.rows for report in reports])
    scores = np.concatenate([report.scores for report in reports])
    n_seen = min(report.n_seen for report in reports)
    for i, pick in enumerate(block.picks[:n_seen]):
        here = stages == i
        if not here.any():  # rounding put the pick's own score below what was expected
            return max(i, 1), None
        tied = scores[here] >= tie_threshold(scores[here].max(), dtype)
        winner = int(rows[here][tied].min())
        if winner != pick:
            return i, winner
    return n_seen, None


def _rmse_path(problem: Problem, state: State, reports: list[Report]) -> list[float]:
    """The remainder's RMSE after every pick of the block."""
    sse = np.sum([report.sse for report in reports], axis=0)
    left = problem.n - state.t - 1 - np.arange(len(sse))
    with np.errstate(invalid="ignore", divide="ignore"):
        rmse: list[float] = (problem.unit * np.sqrt(np.where(left > 0, sse, np.nan) / (left * problem.q))).tolist()
    return rmse


def _seconds(problem: Problem, state: State, kept: int) -> list[float]:
    """When each of the next stages ended: now, or when it did in an earlier run."""
    if state.t < len(problem.before):  # the clock stands still while rows are taken again
        state.began = perf_counter() - float(problem.before[-1])
    now = perf_counter() - state.began
    earlier: list[float] = problem.before[state.t : state.t + kept].tolist()
    return earlier + [now] * (kept - len(earlier))


def _stages(problem: Problem, state: State, kept: int) -> Iterator[Stage]:
    """The last stages, as callbacks see them."""
    workers = getattr(problem.executor, "n_workers", 0)
    for t in range(state.t - kept + 1, state.t + 1):
        path, times = state.rmse[:t], state.seconds[:t]
        yield Stage(path, times[-1], problem.n, problem.m, times, workers, problem.time_limit)


def _stop(problem: Problem, state: State, rmse: list[float], seconds: list[float]) -> tuple[int, str | None]:
    """How many of the verified picks there are up to the stage that ends the selection, and why it does."""
    path = state.rmse + rmse
    for t in range(state.t + 1, len(path) + 1):
        reason = None
        if t == problem.n:
            reason = "all_rows"
        elif t >= problem.n_given:
            reason = problem.rule.check(Stage(path[:t], seconds[t - state.t - 1], problem.n, problem.m))
        if reason:
            return t - state.t, reason
    return len(rmse), None


def _commit(
    problem: Problem, state: State, block: Block, made: Guess, kept: int, rmse: list[float], seconds: list[float]
) -> None:
    """Add the picks that stand to what the driver knows, and choose the next block's size by how many did."""
    t, b = state.t, len(block)
    rows = slice(t, t + kept)
    state.factor[rows, :t] = made.v[:kept]
    state.factor[rows, rows] = made.factor[:kept, :kept]
    state.X[rows] = made.rows.X[:kept]
    state.noise[rows] = made.rows.noise[:kept]
    state.panel.commit(t, kept)
    state.pending = made.after(kept) if kept < b else None
    if kept == b:
        state.size = min(max(2 * b, state.size), LARGEST[problem.keep])
        state.candidates = max(int(0.9 * state.candidates), 200)
    else:
        state.size = min(max(kept + kept // 4, 8), LARGEST[problem.keep])
        state.candidates = min(int(1.3 * state.candidates), most_candidates(problem.n))
    state.indices += block.picks[:kept].tolist()
    if t < len(state.order):
        state.scores += state.gains[t : t + kept].tolist()
    else:
        state.scores += (made.scores[:kept] / made.rows.luck[:kept]).tolist()
    state.seconds += seconds[:kept]
    state.rmse += rmse[:kept]
