"""A contiguous part of the rows, with the variance and the residual of each: all that changes during a selection.

The loop calls these methods of every shard. `extend` adds a block of picks to the model of its rows and reports what
the loop needs to verify them. `settle` takes the rejected picks back, at once where the v's are kept, and otherwise
with the next block, which needs the same covariances. `candidates` names rows that may be picked next, `draw` draws
some at random, and `coordinates` returns the v's of some rows, where they are kept. A shard takes O(rows) memory for
inputs, variances and residuals, and O(rows m) for the v's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.threads import workspace
from ..core.types import Array, Floats, Indices
from ..core.validation import check_not_large
from ..criteria import TIE, CriterionTraits, PointwiseCriterion, best, sampling_weights
from ..kernels import CompiledKernel, Features, take
from .messages import BlockReport, Candidates, Picks, Rivals
from .plan import SLAB
from .ranking import largest, magnitude, score_and_potential, values_at
from .rivals import RivalSearch

# Rows of the triangular `mix` that are multiplied at a time: with fewer, less is multiplied by zeros, in more calls.
TRIANGLE = 16
# Least prior variance in float32: the noise floor, 1e-5 of it, must be a normal number of that type.
LEAST_PRIOR = 1e-30


class Shard:
    """Rows `begin` to `end` of the data.

    Parameters
    ----------
    read : callable
        Returns the inputs of the shard's rows, of shape (rows, d), whenever they are needed.
    y : array of shape (rows, q)
        Targets of the shard's rows.
    begin : int
        The first row.
    kernel : CompiledKernel
    criterion : callable or None
        The pointwise criterion; None if every pick is forced.
    capacity : int
        The most active rows, if the v's are to be kept; 0 if not.
    alpha : array of shape (rows,), optional
        Noise variance beyond the kernel's.
    seed : int
        Seed of the rows' random weights, for a sampled criterion.
    """

    def __init__(
        self,
        read: Callable[[], Array],
        y: Floats,
        begin: int,
        kernel: CompiledKernel,
        criterion: PointwiseCriterion | None,
        capacity: int,
        alpha: Floats | None = None,
        seed: int = 0,
    ) -> None:
        self.read, self.y, self.begin, self.end = read, y, begin, begin + len(y)
        self.kernel, self.criterion, self.alpha = kernel, criterion, alpha
        self.sampled = criterion is not None and CriterionTraits.of(criterion).sampled
        self.weight = sampling_weights(seed, 0, begin, self.end) if self.sampled else np.ones(1)
        self.V = storage((capacity, len(y)), kernel.dtype) if capacity else None
        self._prepared: Features = None

    # --- calls from the loop ---

    def peak(self) -> float:
        """The largest prior variance of a row. Refuses rows that are not finite."""
        X = self._read()
        if not np.isfinite(X).all():
            bad = np.flatnonzero(~np.isfinite(X).all(axis=1)) + self.begin
            raise ValueError(
                f"X contains NaN or infinite values, in row {bad[0]} for one. Drop such rows, or fill them in, with "
                f"sklearn.impute.SimpleImputer for instance."
            )
        check_not_large("X", X, self.begin)
        peak = float(self.kernel.diag(self._features()).max())
        if not np.isfinite(peak):
            raise ValueError(
                f"kernel returned NaN or infinite variances for some of rows {self.begin} to {self.end - 1}. If values "
                f"of X are very large there, divide X by a number; float64 holds larger ones than float32."
            )
        if self.kernel.dtype == np.float32 and peak < LEAST_PRIOR:
            double = self.kernel.in_double()
            peak = float(double.diag(double.prepare(X)).max())
            if 0 < peak < LEAST_PRIOR:  # 0 where the kernel is noise and nothing else
                raise ValueError(
                    f"kernel has variances of at most {peak:.3g}, too small for dtype='float32'. Use 'float64', "
                    f"or scale y and the kernel."
                )
        return peak

    def start(self, noise_floor: float) -> None:
        """Go to stage 0, with the least noise variance that a row may have (docs/method.rst, `noise-floor`)."""
        features = self._features()
        self.s2: Floats = self.kernel.diag(features).astype(np.float64)
        self.r: Floats = np.array(self.y.T, dtype=np.float64, order="C")  # of shape (q, rows)
        noise = self.kernel.noise(features).astype(np.float64)
        if self.alpha is not None:
            noise += self.alpha
        noise = np.maximum(noise, noise_floor)
        self.noise = noise if np.ptp(noise) > 0 else noise[:1].copy()  # a copy, since a view would hold all of them
        self.active = np.empty(0, dtype=np.int64)  # places of this shard's active rows
        self.remains = np.ones(self.end - self.begin, dtype=bool)  # whether each row is in the remainder
        # The last block, and how many of its picks were accepted, while s2 and r still include the rejected ones.
        self.stale: tuple[Picks, int] | None = None
        self.t = 0

    def extend(self, block: Picks) -> BlockReport:
        """Add a block of picks to the model of every row, as if all were accepted. O(rows b (t + b)).

        See docs/method.rst, `blocks`.
        """
        C = self._covariances(block)
        N = self._coordinates_in(block, C)
        if self.stale:
            assert block.undo is not None
            self._take_back(block.undo @ C[: len(block.undo)])
        path = self._residual_path(block, N)
        report, s2 = self._scan(block, N, path)
        if not np.isfinite(report.sse).all():
            bad = np.flatnonzero(~np.isfinite(N).all(axis=0)) + self.begin
            raise ValueError(f"kernel returned NaN or infinite values for {len(bad)} rows, row {bad[0]} the first.")
        self.r, self.s2 = path[:, -1].copy(), s2
        self.t += len(block)
        return report

    def settle(self, block: Picks, n_accepted: int, count: int, cut: float, wanted: Indices) -> Candidates:
        """Take back all but the first `n_accepted` picks of the last block; return the next candidates.

        See docs/method.rst, `speculation`, Commit. The other arguments are those of `candidates`.
        """
        if n_accepted < len(block):
            self.stale = block, n_accepted
            self.t = block.stage + n_accepted
            if self.V is not None:
                self._take_back(self.V[self.t : block.stage + len(block)])
        accepted = self._places(block.picks[:n_accepted])
        self.active = np.concatenate([self.active, accepted])
        self.remains[accepted] = False
        return self.candidates(count, cut, wanted)

    def candidates(self, count: int, cut: float, wanted: Indices) -> Candidates:
        """Rows that may be picked soon: at most `count` of the highest potential, if it is at least `cut`.

        The row of the highest score is always among them, and so are the rows of index `wanted`. If `count` is 0, only
        these last are returned.
        """
        places = self._places(wanted)
        score = potential = np.full(len(self.s2), np.nan)
        if self.criterion is not None and count and len(self.active) < len(self.s2):
            score, potential = score_and_potential(self.criterion, self.t, self.s2, self.r, self.noise, self.weight)
            score[self.active] = potential[self.active] = -np.inf
            places = np.concatenate([self._promising(score, potential, count, cut), places])
        found = self._candidates(places, score, potential)
        if not self.stale:
            return found
        found = self._corrected(found)
        if count and not (found.score > -np.inf).any():  # perhaps because of rejected picks that s2 and r include
            self._restore()
            return self.candidates(count, cut, wanted)
        return found

    def draw(self, count: int, seed: int, stage: int, wanted: Indices) -> Candidates:
        """Rows drawn without replacement in proportion to s abs(r), and those of index `wanted`. O(rows).

        The score of a row is s abs(r) times a random weight for this stage. The `count` largest of all shards are the
        draw, so at most `count` of one shard. The score of rows that are active, or have no chance, is 0.
        """
        self._restore()
        score = (
            np.sqrt(np.maximum(self.s2, 0)) * magnitude(self.r) * sampling_weights(seed, stage, self.begin, self.end)
        )
        score[self.active] = 0
        top = largest(score, np.flatnonzero(score), count)
        return self._candidates(np.union1d(top, self._places(wanted)), score, score)

    def coordinates(self, index: Indices) -> tuple[Indices, Floats]:
        """Which of some rows are in this shard, of shape (rows,), and their v's, of shape (rows, t)."""
        assert self.V is not None
        here = np.flatnonzero((index >= self.begin) & (index < self.end))
        return here, self.V[: self.t, index[here] - self.begin].T

    # --- candidates ---

    def _promising(self, score: Floats, potential: Floats, count: int, cut: float) -> Indices:
        """Places of the rows of high potential, and of the row of the highest score."""
        top = largest(potential, np.flatnonzero(potential >= cut), count)
        top = top[np.isfinite(potential[top])]
        if not self.sampled:  # duplicates have random weights of their own there
            top = _without_duplicates(top, potential, self.kernel.dtype)
        first = best(score, self.kernel.dtype) if score.max() > -np.inf else int(self.remains.argmax())
        return np.concatenate([top, [first]]).astype(np.int64)

    def _places(self, index: Indices) -> Indices:
        """Places in this shard of those of some rows that are here."""
        return index[(index >= self.begin) & (index < self.end)] - self.begin

    def _candidates(self, places: Indices, score: Floats, potential: Floats) -> Candidates:
        """The rows at some places, from the scores and potentials of all rows."""
        X, r = self._read()[places], self.r[:, places].T
        noise, weight = values_at(self.noise, places), values_at(self.weight, places)
        return Candidates(places + self.begin, X, self.s2[places], r, noise, weight, score[places], potential[places])

    def _corrected(self, rows: Candidates) -> Candidates:
        """Candidates without the rejected picks that s2 and r still include."""
        assert self.stale is not None
        block, n_accepted = self.stale
        N = self._coordinates_in(block, self._covariances(block, rows.X))[n_accepted:]
        s2 = rows.s2 + np.einsum("ij,ij->j", N, N, dtype=np.float64)
        r = rows.r + N.T @ block.zeta[n_accepted:]
        score, potential = rows.score, rows.potential
        if self.criterion is not None:
            score, potential = score_and_potential(self.criterion, self.t, s2, r.T, rows.noise, rows.weight)
            gone = ~self.remains[rows.index - self.begin]
            score[gone] = potential[gone] = -np.inf
        return replace(rows, s2=s2, r=r, score=score, potential=potential)

    # --- rejected picks ---

    def _take_back(self, N: Floats) -> None:
        """Remove the rejected picks from s2 and r, by all rows' coordinates in them; of shape (rejected, rows)."""
        assert self.stale is not None
        block, n_accepted = self.stale
        self.s2 += np.einsum("ij,ij->j", N, N, dtype=np.float64)
        self.r += block.zeta[n_accepted:].T @ N
        self.stale = None

    def _restore(self) -> None:
        """Remove rejected picks from s2 and r now, without waiting for the next block. O(rows b (t + b))."""
        if self.stale:
            block, n_accepted = self.stale
            self._take_back(self._coordinates_in(block, self._covariances(block))[n_accepted:])

    # --- inputs ---

    def _read(self) -> Array:
        """Inputs of the shard's rows."""
        X = np.asarray(self.read())
        if len(X) != self.end - self.begin:
            raise ValueError(
                f"X changed its length while it was read: of rows {self.begin} to {self.end - 1}, {len(X)} came."
            )
        return X

    def _features(self) -> Features:
        """The rows, prepared for the kernel; cached where the v's are kept, which take more memory."""
        if self._prepared is not None:
            return self._prepared
        features = self.kernel.prepare(self._read())
        if self.V is not None:
            self._prepared = features
        return features

    # --- a block of picks (docs/method.rst, `blocks`) ---

    def _covariances(self, block: Picks, X: Floats | None = None) -> Floats:
        """The stored coordinates and the covariances C that `block.mix` turns into N; of shape (pending + new, rows).

        Of the shard's rows, or of rows with inputs X.
        """
        t, pending = block.stage, block.n_pending
        n_rows, dtype = self.end - self.begin if X is None else len(X), self.kernel.dtype
        raw: Floats = workspace.array("raw", (block.mix.shape[1], n_rows), dtype)
        if pending:
            assert self.V is not None
            raw[:pending] = self.V[t : t + pending]
        if len(block.X_new):
            features = self._features() if X is None else self.kernel.prepare(X)
            C = self.kernel.block(self.kernel.prepare(block.X_new), features, out=raw[pending:])
            self._subtract_explained(C, block, features)
            if C.base is not raw.base:
                raw[pending:] = C
        return raw

    def _subtract_explained(self, C: Floats, block: Picks, features: Features) -> None:
        """Turn k(X_new, x) into the covariance given the active rows: C -= v(X_new) . v(x), or C -= P k(I, x)."""
        t, dtype = block.stage, self.kernel.dtype
        product = workspace.array("product", C.shape, dtype)
        if self.V is not None:
            C -= np.matmul(block.coefficients, self.V[:t], out=product)
            return
        active = self.kernel.prepare(block.X_active) if block.X_active is not None else None
        for begin in range(0, t, SLAB):
            slab = slice(begin, min(begin + SLAB, t))
            K = workspace.array("slab", (slab.stop - slab.start, C.shape[1]), dtype)
            K = self.kernel.block(take(active, slab), features, out=K)
            C -= np.matmul(block.coefficients[:, slab], K, out=product)

    def _coordinates_in(self, block: Picks, raw: Floats) -> Floats:
        """N, the coordinates in a block's picks of the rows that have these covariances; of shape (b, rows)."""
        b, t, n_rows = len(block), block.stage, raw.shape[1]
        N: Floats = self.V[t : t + b] if self.V is not None else workspace.array("mixed", (b, n_rows), raw.dtype)
        if block.n_pending or block.undo is not None:
            return np.matmul(block.mix, raw, out=N)
        for begin in range(0, b, TRIANGLE):  # without rejected picks, `mix` is lower triangular
            end = min(begin + TRIANGLE, b)
            np.matmul(block.mix[begin:end, :end], raw[:end], out=N[begin:end])
        return N

    def _residual_path(self, block: Picks, N: Floats) -> Floats:
        """Residuals before the first pick and after every pick; of shape (q, b + 1, rows)."""
        q, b = self.r.shape[0], len(block)
        path: Floats = workspace.array("path", (q, b + 1, self.r.shape[1]))
        for target in range(q):
            here = path[target]
            here[0] = self.r[target]
            np.multiply(N, block.zeta[:, target, None], out=here[1:])
            for i in range(b):
                np.subtract(here[i], here[i + 1], out=here[i + 1])
        return path

    def _scan(self, block: Picks, N: Floats, path: Floats) -> tuple[BlockReport, Floats]:
        """The report on a block, and all rows' variances after its last pick.

        `path` is changed meanwhile: the residuals of active rows count as 0.
        """
        here = (block.picks >= self.begin) & (block.picks < self.end)
        picked = [(int(turn), int(block.picks[turn]) - self.begin) for turn in np.flatnonzero(here)]
        final = path[:, -1].copy()
        path[:, :, self.active] = 0
        for turn, place in picked:
            path[:, turn + 1 :, place] = 0
        sse = np.einsum("qij,qij->i", path[:, 1:], path[:, 1:])
        rivals, n_searched, s2 = self._rivals(block, N, path, picked)
        path[:, -1] = final
        return BlockReport(sse, rivals, n_searched), s2

    def _rivals(
        self, block: Picks, N: Floats, path: Floats, picked: list[tuple[int, int]]
    ) -> tuple[Rivals, int, Floats]:
        """The rivals of the block's picks, the number of picks searched, and the variances after the last pick."""
        if block.expected is None or self.criterion is None:
            return Rivals.empty(), len(block), self.s2 - np.einsum("ij,ij->j", N, N, dtype=np.float64)
        dtype, noise, weight = self.kernel.dtype, self.noise, self.weight
        search = RivalSearch(self.criterion, dtype, noise, weight, self.active, self.remains, picked, block.expected)
        rivals, n_searched, s2 = search.run(N, path, self.s2)
        return replace(rivals, index=rivals.index + self.begin), n_searched, s2


def storage(shape: tuple[int, int], dtype: np.dtype[Any]) -> Floats:
    """Memory for the v's of a shard's rows: a function of its own, so that a benchmark can pass mapped memory."""
    return np.empty(shape, dtype=dtype)


def _without_duplicates(places: Indices, value: Floats, dtype: np.dtype[Any]) -> Indices:
    """The first of each set of places whose values are equal within the tie tolerance.

    Duplicated rows have equal values; all of them as candidates would leave no room for other rows.
    """
    if not len(places):
        return places
    places = np.sort(places)
    key = np.round(value[places] / max(float(np.abs(value[places]).max(initial=0.0)), 1e-300) / TIE[dtype])
    _, first = np.unique(key, return_index=True)
    return places[np.sort(first)]
