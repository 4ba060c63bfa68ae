"""The loop: guess a block of picks, verify it with one product over all rows, accept the picks that are right.

The greedy choice is sequential: each pick depends on those before. So the picks of a block are guessed among a panel
of candidates (`sodalite.selection.panel`), without reading any other row. One product over all rows then gives the
variance and the residual of every row at each intermediate stage, hence its score. A guess that has the highest score
of all rows is the pick of Algorithm 1. From the first guess that has not, the picks are rejected. So the picks are
those of Algorithm 1, to the last index, and the stopping rules are asked about every stage (docs/method.rst,
`speculation`).

Forced rows, and those drawn at random or chosen by look-ahead (`sodalite.selection.lookahead`) come in blocks as well;
they are not verified.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from ..core.types import Floats, Indices
from ..criteria import Lookahead, tie_threshold
from ..exceptions import SelectionInterrupted
from ..kernels.jitter import covariance_factor
from ..stopping import Rule, Stage
from .lookahead import look_ahead
from .messages import BlockReport, Candidates, Picks
from .panel import Guess, Panel
from .plan import BLOCK, most_candidates
from .proposal import make_block
from .state import FIRST_BLOCK, Problem, State

# Most picks in a block, where the v's are kept and where they are not. Where they are not, a block also evaluates the
# covariances with all active rows, however few its picks: longer blocks pay.
LARGEST_BLOCK = {True: 64, False: BLOCK}
LEAST_PANEL = 200  # least number of candidates for a block
PER_PICK = 8  # least number of candidates for every pick of a block
SHRINK, ENLARGE = 0.9, 1.3  # factor on the number of candidates after a block without rejected picks, and with some
# Candidates that the shards together are asked for, per candidate of the panel: the best rows are not spread evenly
# over the shards. With fewer, a shard may withhold a row that belongs in the panel.
SPREAD = 3
# The candidate threshold is this share below the least potential in the last panel, or below the last threshold where
# fewer rows than asked for reached it: potentials fall as rows become active.
CUT_MARGIN, LOWER_CUT = 0.05, 0.1


@dataclass(frozen=True)
class Selection:
    """The rows that were chosen, and how the selection ended. `indices`, `rmse`, `factor`, `scores` have one length."""

    indices: Indices
    """The active rows, in the order of their selection; in their own order if all are active without a choice."""
    rmse: Floats
    """The remainder's RMSE after every stage: ``rmse[t - 1]`` is that of the rows other than the first t chosen,
    predicted from these. NaN once every row is active, and throughout if all are active without a choice. Rows that are
    predicted badly leave the remainder for the active set, so with a criterion that sees the residual this can fall
    below the error on new rows."""
    factor: Floats
    """The lower Cholesky factor of k(I, I) + noise, rows in the order of `indices`."""
    scores: Floats
    """The score that each row had when it was chosen; NaN for rows that were forced or drawn at random, and if there
    was no choice. With ``"lookahead"``, the gain in the sample's log density, per row of the sample and target."""
    stop_reason: str
    """Why it ended: ``"n_active"``, ``"all_rows"`` (fewer rows than that), ``"tol"``, ``"target_rmse"``,
    ``"time_limit"``, ``"criterion"`` (no row is left that scores more than -inf), ``"interrupted"``, or the reason of a
    rule of your own."""
    noise_floor: float
    """The noise floor: the least noise variance of a row (`sodalite.kernels.jitter`)."""
    n_proposed: int
    """How many rows were proposed, each at the cost of a product over all rows, for the rows that were accepted; 0
    where none had to be chosen."""

    @property
    def is_ranked(self) -> bool:
        """Whether rows were chosen one after the other; if not, all of them are active, in their own order."""
        return self.n_proposed > 0

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"Selection({len(self)} rows, rmse={self.rmse[-1]:.4g}, stop_reason={self.stop_reason!r})"


@dataclass(frozen=True)
class BlockOutcome:
    """How verification and the stopping rules end a block."""

    n_accepted: int
    """Picks that are accepted, from the first."""
    winner: int | None
    """The row to pick instead of the first rejected pick; None if no pick is wrong."""
    rmse: list[float]
    """RMSE of the remainder after each accepted pick."""
    seconds: list[float]
    """When the stage of each accepted pick ended."""
    stop_reason: str | None
    """Why the selection ends after the accepted picks; None if it goes on."""


def run(problem: Problem, noise_floor: float) -> Selection:
    """Choose rows as Algorithm 1 does, a block at a time (docs/method.rst, `speculation`).

    Raises
    ------
    SelectionInterrupted
        On Ctrl-C, with the rows chosen so far.
    numpy.linalg.LinAlgError
        If the covariance of the active rows is not positive definite with this noise floor.
    """
    problem.executor.call("start", noise_floor)
    state = _start(problem)
    try:
        reason, t = _choose(problem, state, noise_floor)
        return _selection(problem, state, t, reason, noise_floor)
    except KeyboardInterrupt as interrupt:
        if not state.rmse:
            raise
        t = len(state.rmse)  # complete rows, see `_commit`
        raise SelectionInterrupted(_selection(problem, state, t, "interrupted", noise_floor)) from interrupt


def _start(problem: Problem) -> State:
    """The state at stage 0."""
    m, most = problem.m, most_candidates(problem.n)
    panel = Panel(problem.kernel, problem.criterion, m, most)
    gains = np.full(len(problem.order), np.nan) if problem.gains is None else problem.gains
    state = State(panel, np.zeros((m, m)), np.empty((m, problem.d)), np.empty(m), problem.order, gains)
    if not problem.keep:  # a block costs the same however few of its picks are accepted
        state.panel_size = most
    state.looks_ahead, state.n_decided = problem.lookahead is not None, len(problem.order)
    state.clock_start = perf_counter() - float(problem.earlier_seconds[-1:].sum())
    return state


def _selection(problem: Problem, state: State, t: int, stop_reason: str, noise_floor: float) -> Selection:
    """The first t rows that were chosen."""
    kernel = problem.kernel
    factor = state.factor[:t, :t].copy()
    if kernel.dtype != np.float64:  # L has float32's errors, and predictions deserve better
        kernel = kernel.in_double()
        rows = kernel.prepare(state.X[:t])
        factor = covariance_factor(kernel.block(rows, rows), state.noise[:t])
    return Selection(
        np.array(state.indices[:t], dtype=np.int64),
        np.array(state.rmse[:t]),
        factor,
        np.array(state.scores[:t]),
        stop_reason,
        noise_floor,
        state.n_proposed,
    )


def _choose(problem: Problem, state: State, noise_floor: float) -> tuple[str, int]:
    """Propose, verify and commit blocks until the selection ends; return the stop reason and the last stage."""
    candidates: Candidates | None = _given_rows(problem, state)
    while candidates is not None:
        guess, block = _propose(problem, state, candidates, noise_floor)
        outcome = _outcome(problem, state, block, problem.executor.call("extend", block))
        count = 0 if outcome.stop_reason else _panel_size(problem, state)
        wanted = _wanted(block, outcome)
        parts = _settle(problem, state, block, outcome, count, wanted)
        _commit(problem, state, guess, outcome)
        last = _tell(problem, state, outcome.n_accepted)
        if outcome.stop_reason and last in (None, state.t):
            return outcome.stop_reason, state.t
        if last is not None:
            return "callback", last
        candidates = _next_candidates(problem, state, outcome, parts, count, wanted)
    return "criterion", state.t


# --- propose ---


def _propose(problem: Problem, state: State, candidates: Candidates, noise_floor: float) -> tuple[Guess, Picks]:
    """Guess the next picks among the candidates, and make a block of them for the shards.

    See docs/method.rst, `speculation`, Propose.
    """
    t, forced = state.t, None
    if t < len(state.order):
        forced = np.searchsorted(candidates.index, state.order[t : t + len(candidates)])
    guess = state.panel.guess(
        candidates,
        t,
        lambda rows: _coordinates(problem, state, rows),
        min(state.block_size, problem.m - t),
        forced,
        0.5 * noise_floor,  # p^2 = s^2 + noise is at least the floor, but for rounding
    )
    block, n_new = make_block(
        guess,
        state.rejected,
        keep=problem.keep,
        factor=state.factor[:t, :t],
        X_active=state.X[:t],
        verified=forced is None and len(candidates) > 1,  # a single candidate is known to be the best row of all
        dtype=problem.kernel.dtype,
    )
    state.n_proposed += n_new
    return guess, block


def _coordinates(problem: Problem, state: State, rows: Candidates) -> Floats:
    """The v's of some rows, of shape (rows, t): from the shards that keep them, or by solving L v = k(I, x)."""
    t = state.t
    v: Floats = np.empty((len(rows), t))
    if problem.keep:
        for places, found in problem.executor.call("coordinates", rows.index):
            v[places] = found
    elif t:
        kernel = problem.kernel
        K = kernel.block(kernel.prepare(state.X[:t]), kernel.prepare(rows.X)).astype(np.float64)
        v[:] = solve_triangular(state.factor[:t, :t], K, lower=True).T
    return v


# --- verify ---


def _outcome(problem: Problem, state: State, block: Picks, reports: list[BlockReport]) -> BlockOutcome:
    """The accepted picks of a block: those that are right, up to a stage at which a rule ends the selection."""
    n_right, winner = _verify(block, reports, problem.kernel.dtype)
    rmse = _rmse_path(problem, state, reports)[:n_right]
    seconds = _seconds(problem, state, n_right)
    found = first_stop(
        problem.rule,
        state.rmse + rmse,
        state.seconds + seconds,
        n=problem.n,
        m=problem.m,
        begin=max(problem.first_checked, state.t + 1),
    )
    if found is None:
        return BlockOutcome(n_right, winner, rmse, seconds, None)
    n_accepted = found[0] - state.t
    return BlockOutcome(n_accepted, winner, rmse[:n_accepted], seconds[:n_accepted], found[1])


def _verify(block: Picks, reports: list[BlockReport], dtype: np.dtype[Any]) -> tuple[int, int | None]:
    """How many picks, from the first, are those of Algorithm 1, and the row to pick instead of the first wrong one.

    See docs/method.rst, `speculation`, Verify, and `ties`.
    """
    if block.expected is None:
        return len(block), None
    report = BlockReport.join(reports)
    rivals = report.rivals
    for i, pick in enumerate(block.picks[: report.n_searched]):
        here = rivals.turn == i
        if not here.any():  # rounding put the score of the pick itself below what was expected
            return max(i, 1), None
        tied = rivals.score[here] >= tie_threshold(rivals.score[here].max(), dtype)
        winner = int(rivals.index[here][tied].min())
        if winner != pick:
            return i, winner
    return report.n_searched, None


def _rmse_path(problem: Problem, state: State, reports: list[BlockReport]) -> list[float]:
    """RMSE of the remainder after every pick of the block; NaN where no row remains."""
    sse = np.sum([report.sse for report in reports], axis=0)
    left = problem.n - state.t - 1 - np.arange(len(sse))
    with np.errstate(invalid="ignore", divide="ignore"):
        rmse: list[float] = (problem.unit * np.sqrt(np.where(left > 0, sse, np.nan) / (left * problem.q))).tolist()
    return rmse


def _seconds(problem: Problem, state: State, count: int) -> list[float]:
    """When each of the next `count` stages ended: now, or in the interrupted run that this one continues."""
    if state.t < len(problem.earlier_seconds):  # rows that are taken again take no time
        state.clock_start = perf_counter() - float(problem.earlier_seconds[-1])
    now = perf_counter() - state.clock_start
    earlier: list[float] = problem.earlier_seconds[state.t : state.t + count].tolist()
    return earlier + [now] * (count - len(earlier))


def first_stop(
    rule: Rule, rmse: Sequence[float], seconds: Sequence[float], *, n: int, m: int, begin: int
) -> tuple[int, str] | None:
    """The first stage at which a selection ends, and why; None if it does not end at these.

    Parameters
    ----------
    rule : Rule
    rmse, seconds : sequences of float
        RMSE and end of every stage, from stage 1.
    n, m : int
    begin : int
        The first stage at which the rule may end the selection. With all n rows it ends in any case.
    """
    for t in range(min(begin, n), len(rmse) + 1):
        reason = "all_rows" if t == n else rule.check(Stage(rmse[:t], seconds[t - 1], n, m))
        if reason:
            return t, reason
    return None


# --- commit ---


def _settle(
    problem: Problem, state: State, block: Picks, outcome: BlockOutcome, count: int, wanted: Indices
) -> list[Candidates]:
    """Have the shards take the rejected picks back, and return `count` candidates or more, and those wanted.

    Where picks were rejected, the rows of the last panel stay candidates too.
    """
    share = -(-SPREAD * count // problem.executor.n_shards)
    parts: list[Candidates] = problem.executor.call("settle", block, outcome.n_accepted, share, state.cut, wanted)
    if count and outcome.n_accepted < len(block) and block.expected is not None:
        parts.append(state.panel.left(state.t, outcome.n_accepted))
    return parts


def _wanted(block: Picks, outcome: BlockOutcome) -> Indices:
    """Rows that are candidates for the next block in any case: the rejected picks, and the row that beat the first."""
    rejected = block.picks[outcome.n_accepted :]
    return rejected if outcome.winner is None else np.append(rejected, outcome.winner)


def _commit(problem: Problem, state: State, guess: Guess, outcome: BlockOutcome) -> None:
    """Make the accepted picks active, and set the size of the next block and of its panel.

    The RMSE path comes last: where Ctrl-C falls in here, its length says how many rows are complete.
    """
    t, n_accepted = state.t, outcome.n_accepted
    new = slice(t, t + n_accepted)
    state.factor[new, :t] = guess.v[:n_accepted]
    state.factor[new, new] = guess.factor[:n_accepted, :n_accepted]
    state.X[new] = guess.rows.X[:n_accepted]
    state.noise[new] = guess.rows.noise[:n_accepted]
    state.panel.commit(t, n_accepted)
    state.rejected = guess.after(n_accepted) if n_accepted < len(guess) else None
    _adapt(problem, state, n_accepted, len(guess))
    state.indices += guess.rows.index[:n_accepted].tolist()
    if t < len(state.order):
        state.scores += state.gains[new].tolist()
    else:
        state.scores += (guess.scores[:n_accepted] / guess.rows.weight[:n_accepted]).tolist()
    state.seconds += outcome.seconds
    state.rmse += outcome.rmse


def _adapt(problem: Problem, state: State, n_accepted: int, b: int) -> None:
    """Set the size of the next block, and of its panel, by how many of b picks were accepted.

    See docs/method.rst, `speculation`, Commit.
    """
    if n_accepted == b:
        size, panel = max(2 * b, state.block_size), max(int(SHRINK * state.panel_size), LEAST_PANEL)
    else:
        size = max(n_accepted + n_accepted // 4, FIRST_BLOCK)
        panel = min(int(ENLARGE * state.panel_size), most_candidates(problem.n))
    state.block_size, state.panel_size = min(size, LARGEST_BLOCK[problem.keep]), panel


def _tell(problem: Problem, state: State, n_accepted: int) -> int | None:
    """Call those who follow the selection, after a block; return the stage at which the callback ends it, if any."""
    if problem.on_block is not None:
        problem.on_block(state)
    if problem.callback is None:
        return None
    workers = problem.executor.n_workers
    for t in range(state.t - n_accepted + 1, state.t + 1):
        path, times = state.rmse[:t], state.seconds[:t]
        try:
            problem.callback(Stage(path, times[-1], problem.n, problem.m, times, workers, problem.time_limit))
        except StopIteration:
            if t >= problem.first_checked:
                return t
    return None


# --- candidates for the next block ---


def _next_candidates(
    problem: Problem, state: State, outcome: BlockOutcome, parts: list[Candidates], count: int, wanted: Indices
) -> Candidates | None:
    """The rows among which the next block is guessed; None if no row may be taken any more."""
    if problem.lookahead is not None and state.t == len(state.order):
        _look_ahead(problem, state, problem.lookahead)
        if state.t == len(state.order):
            return None
    if state.t < len(state.order):
        return _given_rows(problem, state)
    candidates = _shortlist(state, parts, count, wanted, problem.kernel.dtype)
    if not outcome.n_accepted:  # the first pick was wrong, as a tie can make it: the row to take is known
        candidates = candidates.take(np.flatnonzero(candidates.index == outcome.winner))
    return candidates if (candidates.score > -np.inf).any() else None


def _panel_size(problem: Problem, state: State) -> int:
    """The number of candidates for the next block."""
    return min(max(state.panel_size, PER_PICK * state.block_size), most_candidates(problem.n))


def _given_rows(problem: Problem, state: State) -> Candidates:
    """The next rows of `state.order`."""
    index = state.order[state.t : state.t + LARGEST_BLOCK[problem.keep]]
    return Candidates.join(problem.executor.call("candidates", 0, 0.0, index))


def _look_ahead(problem: Problem, state: State, lookahead: Lookahead) -> None:
    """Add the next picks of look-ahead to `state.order`, if any row has a chance (docs/method.rst, `look-ahead`)."""
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
    if count == lookahead.block:  # a block that m cuts short would have more picks with a larger m
        state.n_decided = len(state.order)


def _shortlist(state: State, parts: list[Candidates], count: int, wanted: Indices, dtype: np.dtype[Any]) -> Candidates:
    """The best `count` of all shards' candidates, and those wanted; sets the threshold for the next."""
    candidates = Candidates.join(parts)
    if len(candidates) > count:
        least = float(np.partition(candidates.potential, -count)[-count])
        state.cut = least - CUT_MARGIN * abs(least)
    elif np.isfinite(state.cut):
        state.cut -= LOWER_CUT * abs(state.cut)
    return candidates.shortlist(count, wanted, dtype)
