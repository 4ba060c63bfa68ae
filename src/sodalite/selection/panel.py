"""The panel of candidates, and the guess of the next picks among them (docs/method.rst, `speculation`, Propose).

The guess is the plain greedy loop over the candidates alone. It reads no other row, so it is cheap; and it is right as
long as the best row of all is a candidate. Most candidates stay from one block to the next, and the panel caches their
coordinates v.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.threads import threaded_map
from ..core.types import Floats, Indices
from ..criteria import PointwiseCriterion, best, evaluate
from ..kernels import CompiledKernel, Features, take
from .messages import Candidates
from .ranking import magnitude, score_and_potential

Coordinates = Callable[[Candidates], Floats]
"""A function that returns the v's of some rows; of shape (rows, t)."""

COLUMNS = 512  # candidates at a time whose covariances one thread computes: the slab fits its cache
SERIAL = 2e7  # multiplications up to which covariances are computed on one thread: starting threads would take longer
ADMITTED = 2048  # rows that become candidates at a time: their v's, of shape (rows, t), are held twice meanwhile
# Candidates whose covariances are computed in one product: this many per pick before the first pick, and this many in
# all for a pick that is not among them. With fewer there are more products; with more, most are for nothing.
FIRST_LIKELY, MORE_LIKELY = 3, 32


@dataclass(frozen=True)
class Guess:
    """The next b picks, if no row but the candidates is considered."""

    rows: Candidates
    """The picks, in order."""
    v: Floats
    """Coordinates of the picks in the active rows; of shape (b, t)."""
    factor: Floats
    """L_S, the lower Cholesky factor of the picks' own Schur complement; of shape (b, b)."""
    zeta: Floats
    """Standardised residual of every pick; of shape (b, q)."""
    scores: Floats
    """Score of every pick at its turn; NaN for forced picks."""

    def __len__(self) -> int:
        return len(self.factor)

    def after(self, n_accepted: int) -> Guess:
        """The picks after the first `n_accepted`, with coordinates in the rows that are active then."""
        t, rest = self.v.shape[1], slice(n_accepted, None)
        v = np.hstack([self.v, self.factor])[rest, : t + n_accepted]
        places = np.arange(len(self))[rest]
        return Guess(self.rows.take(places), v, self.factor[rest, rest], self.zeta[rest], self.scores[rest])


class Panel:
    """The candidates, and the coordinates v of each in the active rows.

    Parameters
    ----------
    kernel : CompiledKernel
    criterion : callable or None
        The pointwise criterion; None if every pick is forced.
    m : int
        The most active rows.
    size : int
        The number of candidates that memory is reserved for; it grows where more come.
    """

    def __init__(self, kernel: CompiledKernel, criterion: PointwiseCriterion | None, m: int, size: int) -> None:
        self.kernel, self.criterion = kernel, criterion
        self._index = np.full(size, -1)  # the row in each slot; -1 for none
        self._v: Floats = np.empty((size, m))  # the coordinates of the row in each slot
        self._slots: Indices = np.empty(0, dtype=np.int64)  # the slot of each candidate of the last guess
        self._greedy: _Greedy  # the last guess

    def guess(
        self,
        candidates: Candidates,
        t: int,
        coordinates: Coordinates,
        count: int,
        forced: Indices | None,
        least_pivot: float,
    ) -> Guess:
        """Pick `count` of the candidates, one at a time. O(b c (t + b + d)).

        Parameters
        ----------
        candidates : Candidates
            In the order of their indices, so that a tie goes to the lowest.
        t : int
            The stage.
        coordinates : callable
            Returns the v's of rows that have just become candidates.
        count : int
            The most picks: there are fewer where no candidate may be taken any more.
        forced : array of int, optional
            Places of the candidates to pick, in order, whatever their score.
        least_pivot : float
            Least s^2 + noise of a pick; below it, the covariance is not positive definite.
        """
        self._slots = self._admit(candidates, t, coordinates)
        v = self._v[:, :t]
        count = min(count, len(candidates)) if forced is None else len(forced)
        greedy = self._greedy = _Greedy(candidates, count, self.kernel.dtype)
        covariances = _Covariances(self.kernel, candidates, v, self._slots)
        if forced is not None:
            _take_forced(greedy, covariances, forced, least_pivot)
        else:
            assert self.criterion is not None
            _take_best(greedy, covariances, count, self.criterion, least_pivot)
        return greedy.guess(v[self._slots[greedy.places[: greedy.n_picked]]])

    def commit(self, t: int, n_accepted: int) -> None:
        """Extend the v's of the candidates from stage t by the first `n_accepted` picks of the last guess."""
        self._v[self._slots, t : t + n_accepted] = self._greedy.U[:n_accepted].T

    def left(self, t: int, n_accepted: int) -> Candidates:
        """The candidates of the last guess, of stage t, without its first picks and updated for them."""
        assert self.criterion is not None
        rows, U, zeta = self._greedy.candidates, self._greedy.U[:n_accepted], self._greedy.zeta[:n_accepted]
        s2 = rows.s2 - np.einsum("ij,ij->j", U, U)
        r = rows.r - U.T @ zeta
        score, potential = score_and_potential(self.criterion, t + n_accepted, s2, r.T, rows.noise, rows.weight)
        others = np.setdiff1d(np.arange(len(rows)), self._greedy.places[:n_accepted])
        return replace(rows, s2=s2, r=r, score=score, potential=potential).take(others)

    def _admit(self, candidates: Candidates, t: int, coordinates: Coordinates) -> Indices:
        """Make just these rows the candidates; return the slot of each."""
        order = np.argsort(self._index)
        at = np.searchsorted(self._index, candidates.index, sorter=order)
        known = at < len(order)
        known[known] = self._index[order[at[known]]] == candidates.index[known]
        slots = np.full(len(candidates), -1)
        slots[known] = order[at[known]]
        new = np.flatnonzero(~known)
        slots[new] = self._free_slots(slots[known], len(new))
        self._index[:] = -1
        self._index[slots] = candidates.index
        for begin in range(0, len(new), ADMITTED):
            some = new[begin : begin + ADMITTED]
            self._v[slots[some], :t] = coordinates(candidates.take(some))
        return slots

    def _free_slots(self, used: Indices, count: int) -> Indices:
        """The places of `count` slots that are not used; the arrays grow if there are too few."""
        free = np.setdiff1d(np.arange(len(self._index)), used)
        if len(free) < count:
            more = count - len(free)
            free = np.concatenate([free, np.arange(len(self._index), len(self._index) + more)])
            self._index = np.concatenate([self._index, np.full(more, -1)])
            self._v = np.concatenate([self._v, np.empty((more, self._v.shape[1]))])
        return free[:count]


class _Greedy:
    """The greedy loop over the candidates, one stage at a time (docs/method.rst, `one-stage`).

    The first `n_picked` rows of the arrays are filled.
    """

    def __init__(self, candidates: Candidates, count: int, dtype: np.dtype[Any]) -> None:
        c, q = len(candidates), candidates.r.shape[1]
        self.candidates, self.dtype = candidates, dtype
        self.s2, self.r = candidates.s2.copy(), candidates.r.copy()
        self.remains = np.ones(c, dtype=bool)
        self.n_picked = 0
        self.places = np.empty(count, dtype=np.int64)  # the picks
        self.scores: Floats = np.empty(count)  # of the picks, at their turns
        self.zeta: Floats = np.empty((count, q))
        self.factor = np.zeros((count, count))  # L_S
        self.U: Floats = np.empty((count, c))  # coordinates of the candidates in the picks

    def values(self, criterion: PointwiseCriterion) -> Floats:
        """Scores of the candidates now; -inf for those that are picked."""
        rows = self.candidates
        value = evaluate(criterion, np.sqrt(np.maximum(self.s2, 0)), magnitude(self.r.T), rows.noise, rows.weight)
        value[~self.remains] = -np.inf
        return value

    def best(self, value: Floats) -> int:
        """Place of the candidate of the highest score; of tied ones, the first (docs/method.rst, `ties`)."""
        return int(np.flatnonzero(self.remains)[best(value[self.remains], self.dtype)])

    def pivot(self, j: int) -> float:
        """p^2 = s^2 + noise of candidate j."""
        return float(self.s2[j] + self.candidates.noise[j])

    def take(self, j: int, c: Floats, score: float = np.nan) -> None:
        """Pick candidate j, whose covariances with all candidates, given the active rows, are c."""
        i, U = self.n_picked, self.U
        p = np.sqrt(self.pivot(j))
        self.factor[i, :i], self.factor[i, i] = U[:i, j], p
        U[i] = (c - U[:i, j] @ U[:i]) / p
        self.zeta[i] = self.r[j] / p
        self.s2 -= U[i] * U[i]
        self.r -= np.multiply.outer(U[i], self.zeta[i])
        self.remains[j] = False
        self.places[i], self.scores[i] = j, score
        self.n_picked += 1

    def guess(self, v: Floats) -> Guess:
        """The picks, whose coordinates in the active rows are v."""
        b = self.n_picked
        return Guess(self.candidates.take(self.places[:b]), v, self.factor[:b, :b], self.zeta[:b], self.scores[:b])


class _Covariances:
    """Covariances, given the active rows, of some candidates with all candidates.

    They are computed for the likeliest picks in one product, and for others when they are picked.
    """

    def __init__(self, kernel: CompiledKernel, candidates: Candidates, v: Floats, slots: Indices) -> None:
        self._kernel, self._v, self._slots = kernel, v, slots
        self._features, self._potential = kernel.prepare(candidates.X), candidates.potential
        self._computed: dict[int, Floats] = {}

    def __contains__(self, j: int) -> bool:
        return j in self._computed

    def __getitem__(self, j: int) -> Floats:
        return self._computed[j]

    def compute(self, places: Indices) -> None:
        """Compute the covariances of the candidates at some places."""
        C = schur(self._kernel, self._features, self._v, self._slots, places)
        self._computed.update(zip(places.tolist(), C, strict=True))

    def likely(self, value: Floats, j: int, count: int) -> Indices:
        """Places of the likeliest picks of the block whose covariances are not known, candidate j among them."""
        first = not self._computed
        size = min(FIRST_LIKELY * count if first else MORE_LIKELY, len(value))
        promise = value + self._potential if first else value
        likely = np.union1d(np.argpartition(-promise, size - 1)[:size], [j])
        return likely[[place not in self._computed for place in likely.tolist()]]


def _take_forced(greedy: _Greedy, covariances: _Covariances, forced: Indices, least_pivot: float) -> None:
    """Pick the candidates at these places, in order."""
    covariances.compute(forced)
    for j in forced.tolist():
        if not greedy.pivot(j) > least_pivot:
            raise np.linalg.LinAlgError("not positive definite")
        greedy.take(j, covariances[j])


def _take_best(
    greedy: _Greedy, covariances: _Covariances, count: int, criterion: PointwiseCriterion, least_pivot: float
) -> None:
    """Pick the candidate of the highest score, `count` times or until none may be taken."""
    for i in range(count):
        value = greedy.values(criterion)
        j = greedy.best(value)
        if i and value[j] == -np.inf:  # no candidate that is left may be taken
            return
        if not greedy.pivot(j) > least_pivot:
            if i:
                return
            raise np.linalg.LinAlgError("not positive definite")
        if j not in covariances:
            covariances.compute(covariances.likely(value, j, count))
        greedy.take(j, covariances[j], float(value[j]))


def schur(kernel: CompiledKernel, features: Features, v: Floats, slots: Indices, places: Indices) -> Floats:
    """Covariances C, given the active rows, of some candidates with all candidates; of shape (places, c).

    Parameters
    ----------
    kernel : CompiledKernel
    features : Features
        The c candidates, prepared for the kernel.
    v : array of shape (slots, t)
        Coordinates in the active rows.
    slots : array of int, of shape (c,)
        The row of `v` that belongs to each candidate.
    places : array of int
    """
    C: Floats = np.empty((len(places), len(slots)))
    rows, coordinates = take(features, places), v[slots[places]]

    def fill(part: slice) -> None:  # in place and by parts: C is large, and a second array of its size too much
        product = coordinates @ v[slots[part]].T
        np.subtract(kernel.block(rows, take(features, part)), product, out=C[:, part])

    parts = [slice(begin, begin + COLUMNS) for begin in range(0, len(slots), COLUMNS)]
    if C.size * v.shape[1] < SERIAL:
        parts = [slice(None)]
    threaded_map(fill, parts)
    return C
