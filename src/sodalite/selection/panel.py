"""The guess: which rows will be picked next, by the plain greedy loop among some candidates.

It never touches the other rows, so it is cheap; and it is right for as long as the best row of all is a candidate. Most
candidates stay from one block to the next, and with them their coordinates in the active rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..core.threads import threaded_map
from ..core.types import Array
from ..kernels import CompiledKernel, Features, take
from ..scores import PointwiseScore, best, evaluate
from .shard import Rows, magnitude, outlook

COLUMNS = 512  # of a slab of covariances
SOME = 2048  # rows that become candidates at a time: their coordinates are large


@dataclass(frozen=True)
class Guess:
    """The picks that the candidates alone would lead to."""

    rows: Rows
    """The picks, in order."""
    v: Array
    """Their coordinates in the active rows; of shape (b, t)."""
    factor: Array
    """L_S, the lower Cholesky factor of the picks' own Schur complement; of shape (b, b)."""
    zeta: Array
    """The standardised residual of every pick; of shape (b, q)."""
    scores: Array
    """The score of every pick when its turn comes; NaN for picks that were given."""

    def after(self, kept: int) -> Guess:
        """The later picks alone, once the first are active."""
        t, rest = self.v.shape[1], slice(kept, None)
        v = np.hstack([self.v, self.factor])[rest, : t + kept]
        places = np.arange(len(self.factor))[rest]
        return Guess(self.rows.take(places), v, self.factor[rest, rest], self.zeta[rest], self.scores[rest])


class Panel:
    """The candidates, and the coordinates v of each in the active rows.

    Parameters
    ----------
    kernel : CompiledKernel
    score : callable or None
    m : int
        The most active rows.
    size : int
        The most candidates, but for a few.
    """

    def __init__(self, kernel: CompiledKernel, score: PointwiseScore | None, m: int, size: int) -> None:
        self.kernel, self.score = kernel, score
        self._index = np.full(size, -1)  # of the row in each slot; -1 for none
        self._v = np.empty((size, m))  # one row a slot
        # Of the last guess: the candidates, which of them were picked, in order, their slots, ...
        self._rows: Rows
        self._places = self._slots = np.empty(0, dtype=np.int64)
        self._U = self._zeta = np.empty((0, 0))  # ... their coordinates in the picks, and the picks' residuals

    def guess(
        self,
        rows: Rows,
        t: int,
        coordinates: Callable[[Rows], Array],
        count: int,
        given: Array | None,
        least_pivot: float,
    ) -> Guess:
        """Pick `count` of some rows, one at a time.

        Parameters
        ----------
        rows : Rows
            The candidates, in the order of their indices, so that a tie goes to the lowest.
        t : int
            The stage.
        coordinates : callable
            Gives the v's of rows that have just become candidates; of shape (rows, t).
        count : int
        given : array of int, optional
            The candidates to pick, whatever their score.
        least_pivot : float
            A pivot below this means that the covariance is not positive definite.
        """
        slots = self._admit(rows, t, coordinates)
        v = self._v[:, :t]
        features = self.kernel.prepare(rows.X)
        s2, r = rows.s2.copy(), rows.r.copy()
        count = min(count, len(s2)) if given is None else len(given)
        U = np.empty((count, len(s2)))
        factor = np.zeros((count, count))
        zeta = np.empty((count, r.shape[1]))
        places = np.empty(count, dtype=np.int64)
        scores = np.full(count, np.nan)
        left = np.ones(len(s2), dtype=bool)
        # A pick needs its covariances, given the active rows, with all candidates. They are found for the likeliest
        # picks in one product, and for others as they turn up.
        found: dict[int, Array] = {}
        for i in range(count):
            if given is not None:
                j = int(given[i])
            else:
                assert self.score is not None
                value = evaluate(self.score, np.sqrt(np.maximum(s2, 0)), magnitude(r.T), rows.noise, rows.luck)
                value[~left] = -np.inf
                j = int(np.flatnonzero(left)[best(value[left], self.kernel.dtype)])
                if i and value[j] == -np.inf:  # what is left is never to be taken
                    count = i
                    break
                scores[i] = value[j]
            pivot = s2[j] + rows.noise[j]
            if not pivot > least_pivot:
                if i and given is None:
                    count = i
                    break
                raise np.linalg.LinAlgError("not positive definite")
            if j not in found:
                if given is not None:
                    likely = given[i:]
                else:
                    size = min(3 * count if not found else 32, len(s2))
                    hope = value if found else value + rows.potential
                    likely = np.union1d(np.argpartition(-hope, size - 1)[:size], [j])
                    likely = likely[[place not in found for place in likely.tolist()]]
                found.update(zip(likely.tolist(), schur(self.kernel, features, v, slots, likely), strict=True))
            p = np.sqrt(pivot)
            factor[i, :i], factor[i, i] = U[:i, j], p
            U[i] = (found[j] - U[:i, j] @ U[:i]) / p
            zeta[i] = r[j] / p
            s2 -= U[i] * U[i]
            r -= np.multiply.outer(U[i], zeta[i])
            left[j] = False
            places[i] = j
        self._rows, self._places, self._slots = rows, places[:count], slots
        self._U, self._zeta = U[:count], zeta[:count]
        return Guess(
            rows.take(places[:count]),
            v[slots[places[:count]]],
            factor[:count, :count],
            zeta[:count],
            scores[:count],
        )

    def commit(self, t: int, kept: int) -> None:
        """Go on from stage t by the first picks of the last guess."""
        self._v[self._slots, t : t + kept] = self._U[:kept].T

    def left(self, t: int, kept: int) -> Rows:
        """The candidates that are none of the first picks of the last guess, at stage t, as these leave them."""
        assert self.score is not None
        rows, U = self._rows, self._U[:kept]
        s2 = rows.s2 - np.einsum("ij,ij->j", U, U)
        r = rows.r - U.T @ self._zeta[:kept]
        score, potential = outlook(self.score, t + kept, s2, r.T, rows.noise, rows.luck)
        others = np.setdiff1d(np.arange(len(s2)), self._places[:kept])
        return replace(rows, s2=s2, r=r, score=score, potential=potential).take(others)

    def _admit(self, rows: Rows, t: int, coordinates: Callable[[Rows], Array]) -> Array:
        """Make just these rows the candidates; return the slot of each."""
        order = np.argsort(self._index)
        at = np.searchsorted(self._index, rows.index, sorter=order)
        known = at < len(order)
        known[known] = self._index[order[at[known]]] == rows.index[known]
        slots = np.full(len(rows.index), -1)
        slots[known] = order[at[known]]
        new = np.flatnonzero(~known)
        free = np.setdiff1d(np.arange(len(self._index)), slots[known])
        if len(free) < len(new):
            more = len(new) - len(free)
            free = np.concatenate([free, np.arange(len(self._index), len(self._index) + more)])
            self._index = np.concatenate([self._index, np.full(more, -1)])
            self._v = np.concatenate([self._v, np.empty((more, self._v.shape[1]))])
        slots[new] = free[: len(new)]
        self._index[:] = -1
        self._index[slots] = rows.index
        for begin in range(0, len(new), SOME):
            some = new[begin : begin + SOME]
            self._v[slots[some], :t] = coordinates(rows.take(some))
        return slots


def schur(kernel: CompiledKernel, features: Features, v: Array, places: Array, some: Array) -> Array:
    """The covariances, given the active rows, of some candidates with all of them.

    Parameters
    ----------
    kernel : CompiledKernel
    features : Features
        The candidates, ready for the kernel.
    v, places : Array
        Coordinates in the active rows, and where in them each candidate's are.
    some : array of int
    """
    C = np.empty((len(some), len(places)))
    left, coordinates = take(features, some), v[places[some]]

    def fill(part: slice) -> None:  # in place, a few columns at a time: C is large, and more than one of it too much
        product = coordinates @ v[places[part]].T
        np.subtract(kernel.block(left, take(features, part)), product, out=C[:, part])

    parts = [slice(begin, begin + COLUMNS) for begin in range(0, len(places), COLUMNS)]
    if C.size * v.shape[1] < 2e7:  # threads would cost more than they save
        parts = [slice(None)]
    threaded_map(fill, parts)
    return C
