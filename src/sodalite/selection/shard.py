"""A block of rows, and what is known of each: the only thing in a selection that changes in place.

A shard answers a few calls. `extend` adds a block of picks to the model of its rows and reports what the driver needs
to verify them; `settle` takes back those that did not stand, at once where the v's are kept, and otherwise with the
next block, which needs the same covariances; `candidates` names the rows that now score highest, and `draw` some at
random; and `coordinates` hands out the v's of some rows, where they are kept. Its state is O(rows): inputs, variance,
residual; and O(rows m) with the v's.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..core.threads import workspace
from ..core.types import Array
from ..core.validation import check_not_large
from ..kernels import CompiledKernel, Features, take
from ..scores import TIE, PointwiseScore, ScoreTraits, best, evaluate, sampling_weights

SLAB = 256  # active rows whose covariance with a shard is held at a time, where it is evaluated anew
STRIDE = 16  # stages between two looks at the variance, while the score's bound is followed
GROWTH, SETTLED = 1.4, 400  # of its standard deviation that a residual is thought to grow by, and when by less
NEAR = 3  # ties: how far below the expected score a row is still reported, so that ties can be settled
LEAST = 1e-30  # the prior variance in float32, at least: the noise floor, its 1e-5th, must not vanish


class StageError(RuntimeError):
    """A shard was asked something about another stage than the one that it is at."""


@dataclass(frozen=True)
class Block:
    """Picks to be added, all that a shard needs to know of them, and the scores that they should have.

    The coordinates of a row x in the block are ``mix @ [pending(x), k(new, x) - coefficients @ v(x)]``, where pending
    are the coordinates left over from picks of the block before that did not stand. Where no v's are kept, nothing is
    left over: such picks come first among the new ones, to be taken back.
    """

    stage: int
    """t: how many rows were active before."""
    picks: Array
    """The rows, in order; of shape (b,)."""
    mix: Array
    """Of shape (b, pending + new)."""
    n_pending: int
    new: Array
    """The inputs of the picks that are not pending, and of those to be taken back; of shape (new, d)."""
    coefficients: Array
    """Of shape (new, t): the v's of the new picks, or, where no v's are kept, P = k(new, I) (K_II + noise)^-1."""
    active: Array | None
    """The inputs of the active rows, of shape (t, d), where no v's are kept."""
    zeta: Array
    """The standardised residual of every pick in every target; of shape (b, q)."""
    expected: Array | None
    """The score of every pick when its turn comes; None if the picks are not to be verified."""
    undo: Array | None = None
    """What turns the first covariances into coordinates in the picks that are to be taken back, if there are any."""

    def __len__(self) -> int:
        return len(self.picks)


@dataclass(frozen=True)
class Report:
    """What a shard found when it added a block."""

    sse: Array
    """The remaining rows' sum of squared residuals after each pick; of shape (b,)."""
    stages: Array
    """For each row that scored as high as the expected pick, or nearly, and as the best row here: at which turn, ..."""
    rows: Array
    """... the row, ..."""
    scores: Array
    """... and its score."""
    n_seen: int
    """For how many picks such rows were looked for."""


@dataclass(frozen=True)
class Rows:
    """Some rows and what is known of them: candidates to be picked."""

    index: Array
    X: Array
    s2: Array
    r: Array
    """Of shape (rows, q)."""
    noise: Array
    luck: Array
    """For a score that is sampled (`sodalite.scores.Sampled`)."""
    score: Array
    potential: Array
    """The score that a row would have if its residual grew by some of its standard deviation."""

    def take(self, places: Array) -> Rows:
        """Some of them."""
        return Rows(*(getattr(self, field.name)[places] for field in fields(self)))

    @staticmethod
    def join(parts: list[Rows]) -> Rows:
        """All of them, in the order of their indices, each once."""
        joined = Rows(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Rows)))
        return joined.take(np.unique(joined.index, return_index=True)[1])


class Shard:
    """Rows `begin` to `end` of the data.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Sliced by rows whenever they are needed; never copied whole.
    y : array of shape (rows, q)
        The shard's own targets.
    begin, end : int
    kernel : CompiledKernel
    score : callable or None
        The pointwise score; None if every pick is given.
    capacity : int
        The most active rows, if the v's are to be kept; 0 if not.
    alpha : array of shape (rows,), optional
        Noise variance beyond the kernel's.
    seed : int
        What the rows' luck follows from, where the score is sampled.
    """

    def __init__(
        self,
        X: Any,
        y: Array,
        begin: int,
        end: int,
        kernel: CompiledKernel,
        score: PointwiseScore | None,
        capacity: int,
        alpha: Array | None = None,
        seed: int = 0,
    ) -> None:
        self.X, self.y, self.begin, self.end = X, y, begin, end
        self.kernel, self.score, self.alpha = kernel, score, alpha
        self.traits = None if score is None else ScoreTraits.of(score)
        self.luck = (
            sampling_weights(seed, 0, begin, end) if self.traits is not None and self.traits.sampled else np.ones(1)
        )
        self.V = storage((capacity, end - begin), kernel.dtype) if capacity else None
        self._prepared: Features = None

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
        if self.kernel.dtype == np.float32 and peak < LEAST:
            double = self.kernel.in_double()
            peak = float(double.diag(double.prepare(X)).max())
            if 0 < peak < LEAST:  # 0 where the kernel is noise and nothing else
                raise ValueError(
                    f"kernel has variances of no more than {peak:.3g}, too small for dtype='float32'. Use 'float64', "
                    f"or scale y and the kernel."
                )
        return peak

    def start(self, noise_floor: float) -> None:
        """Go to stage 0, with the least noise variance that a row may have."""
        features = self._features()
        self.s2 = self.kernel.diag(features).astype(np.float64)
        self.r = np.array(self.y.T, dtype=np.float64, order="C")
        noise = self.kernel.noise(features).astype(np.float64)
        if self.alpha is not None:
            noise += self.alpha
        noise = np.maximum(noise, noise_floor)
        self.noise = noise if np.ptp(noise) > 0 else noise[:1].copy()  # a view would hold them all
        self.active = np.empty(0, dtype=np.int64)  # places of this shard's active rows, ...
        self.remains = np.ones(self.end - self.begin, dtype=bool)  # ... and all others
        self.stale: tuple[Block, int] | None = None  # a block, and how many of its picks stand; the others are in s2, r
        self.t = 0

    def extend(self, block: Block) -> Report:
        """Add a block of picks to the model of every row, as if all of them were to stand. O(rows b (t + b))."""
        if block.stage != self.t:
            raise StageError(f"A shard at stage {self.t} was sent a block of stage {block.stage}.")
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

    def settle(self, block: Block, kept: int, count: int, cut: float, wanted: Array) -> Rows:
        """Take back the picks of the last block after the first `kept`; return the next candidates."""
        if block.stage + len(block) != self.t:
            raise StageError(f"A shard at stage {self.t} was asked to settle a block of stage {block.stage}.")
        if kept < len(block):
            self.stale = block, kept
            self.t = block.stage + kept
            if self.V is not None:
                self._take_back(self.V[self.t : block.stage + len(block)])
        picks = block.picks[:kept]
        mine = picks[(picks >= self.begin) & (picks < self.end)] - self.begin
        self.active = np.concatenate([self.active, mine])
        self.remains[mine] = False
        return self.candidates(count, cut, wanted)

    def candidates(self, count: int, cut: float, wanted: Array) -> Rows:
        """Rows that may be picked soon: at most `count`, of a potential of at least `cut`; and those of `wanted`.

        What a row scores now says little of what it will score in 30 picks' time: its residual may grow, by an amount
        that goes with its standard deviation. So rows come by the score that they would have then.
        """
        places = wanted[(wanted >= self.begin) & (wanted < self.end)] - self.begin
        score = potential = np.full(len(self.s2), np.nan)
        if self.score is not None and count and len(self.active) < len(self.s2):
            score, potential = outlook(self.score, self.t, self.s2, self.r, self.noise, self.luck)
            score[self.active] = potential[self.active] = -np.inf
            top = np.flatnonzero(potential >= cut)
            if len(top) > count:
                top = top[np.argpartition(-potential[top], count)[:count]]
            top = top[np.isfinite(potential[top])]
            if self.traits is not None and not self.traits.sampled:
                top = _distinct(top, potential, self.kernel.dtype)
            first = best(score, self.kernel.dtype) if score.max() > -np.inf else int(self.remains.argmax())
            places = np.concatenate([top, [first], places]).astype(np.int64)
        rows = self._rows(places, score, potential)
        if not self.stale:
            return rows
        rows = self._exactly(rows)
        if count and not (rows.score > -np.inf).any():  # perhaps for what is still to be taken back
            self._restore()
            return self.candidates(count, cut, wanted)
        return rows

    def draw(self, count: int, seed: int, stage: int, wanted: Array) -> Rows:
        """Rows drawn without replacement in proportion to s abs(r); and those of `wanted`. O(rows).

        Every row has a score: s abs(r) times its luck at this stage. The `count` largest of all shards' are the draw,
        so at most that many of these rows can be in it. Rows that are active or have no chance score 0.
        """
        self._restore()
        score = (
            np.sqrt(np.maximum(self.s2, 0)) * magnitude(self.r) * sampling_weights(seed, stage, self.begin, self.end)
        )
        score[self.active] = 0
        top = np.flatnonzero(score)
        if len(top) > count:
            top = top[np.argpartition(-score[top], count)[:count]]
        mine = wanted[(wanted >= self.begin) & (wanted < self.end)] - self.begin
        return self._rows(np.union1d(top, mine), score, score)

    def coordinates(self, index: Array) -> tuple[Array, Array]:
        """Which of some rows are here, and their v's: arrays of shape (found,) and (found, t)."""
        assert self.V is not None
        places = np.flatnonzero((index >= self.begin) & (index < self.end))
        return places, self.V[: self.t, index[places] - self.begin].T

    # --- how ---

    def _take_back(self, N: Array) -> None:
        """Take back picks that did not stand, given all rows' coordinates in them."""
        assert self.stale is not None
        block, kept = self.stale
        self.s2 += np.einsum("ij,ij->j", N, N, dtype=np.float64)
        self.r += block.zeta[kept:].T @ N
        self.stale = None

    def _restore(self) -> None:
        """Take back at once what would be with the next block."""
        if self.stale:
            block, kept = self.stale
            self._take_back(self._coordinates_in(block, self._covariances(block))[kept:])

    def _exactly(self, rows: Rows) -> Rows:
        """A few rows as they will be when all is taken back."""
        assert self.stale is not None
        block, kept = self.stale
        N = self._coordinates_in(block, self._covariances(block, rows.X))[kept:]
        s2 = rows.s2 + np.einsum("ij,ij->j", N, N, dtype=np.float64)
        r = rows.r + N.T @ block.zeta[kept:]
        score, potential = rows.score, rows.potential
        if self.score is not None:
            score, potential = outlook(self.score, self.t, s2, r.T, rows.noise, rows.luck)
            gone = ~self.remains[rows.index - self.begin]
            score[gone] = potential[gone] = -np.inf
        return replace(rows, s2=s2, r=r, score=score, potential=potential)

    def _rows(self, places: Array, score: Array, potential: Array) -> Rows:
        """What is known of the rows at these places, given the scores of all."""
        X, r = self._read()[places], self.r[:, places].T
        noise, luck = _at(self.noise, places), _at(self.luck, places)
        return Rows(places + self.begin, X, self.s2[places], r, noise, luck, score[places], potential[places])

    def _read(self) -> Array:
        """The rows' inputs."""
        X = np.asarray(self.X[self.begin : self.end])
        if len(X) != self.end - self.begin:
            raise ValueError(
                f"X changed its length while it was read: of rows {self.begin} to {self.end - 1}, {len(X)} came."
            )
        return X

    def _features(self) -> Features:
        """The rows as the kernel wants them; kept where the v's are, which are larger."""
        if self._prepared is not None:
            return self._prepared
        features = self.kernel.prepare(self._read())
        if self.V is not None:
            self._prepared = features
        return features

    def _covariances(self, block: Block, X: Array | None = None) -> Array:
        """What the rows' coordinates in a block's picks are mixed from: of all rows, or of some rows of inputs X."""
        t, pending = block.stage, block.n_pending
        rows, dtype = self.end - self.begin if X is None else len(X), self.kernel.dtype
        raw = workspace.array("raw", (block.mix.shape[1], rows), dtype)
        if pending:
            assert self.V is not None
            raw[:pending] = self.V[t : t + pending]
        if len(block.new):
            features = self._features() if X is None else self.kernel.prepare(X)
            product = workspace.array("product", (len(block.new), rows), dtype)
            C = self.kernel.block(self.kernel.prepare(block.new), features, out=raw[pending:])
            if self.V is not None:
                C -= np.matmul(block.coefficients, self.V[:t], out=product)
            else:
                active = self.kernel.prepare(block.active) if block.active is not None else None
                for begin in range(0, t, SLAB):
                    slab = slice(begin, min(begin + SLAB, t))
                    K = workspace.array("slab", (slab.stop - slab.start, rows), dtype)
                    K = self.kernel.block(take(active, slab), features, out=K)
                    C -= np.matmul(block.coefficients[:, slab], K, out=product)
            if C.base is not raw.base:
                raw[pending:] = C
        return np.asarray(raw)

    def _coordinates_in(self, block: Block, raw: Array) -> Array:
        """The coordinates, in a block's picks, of the rows that have these covariances: N, of shape (b, rows)."""
        b, t, rows = len(block), block.stage, raw.shape[1]
        N: Array = self.V[t : t + b] if self.V is not None else workspace.array("mixed", (b, rows), raw.dtype)
        if block.n_pending or block.undo is not None:
            return np.matmul(block.mix, raw, out=N)
        for begin in range(0, b, STRIDE):  # with nothing left over, `mix` is lower triangular
            end = min(begin + STRIDE, b)
            np.matmul(block.mix[begin:end, :end], raw[:end], out=N[begin:end])
        return N

    def _residual_path(self, block: Block, N: Array) -> Array:
        """The residuals before the first pick and after every one; of shape (q, b + 1, rows)."""
        q, b = self.r.shape[0], len(block)
        path: Array = workspace.array("path", (q, b + 1, self.r.shape[1]))
        for target in range(q):
            here = path[target]
            here[0] = self.r[target]
            np.multiply(N, block.zeta[:, target, None], out=here[1:])
            for i in range(b):
                np.subtract(here[i], here[i + 1], out=here[i + 1])
        return path

    def _scan(self, block: Block, N: Array, path: Array) -> tuple[Report, Array]:
        """Sums of squares after every pick, the rows that rival one, and the variances after the last."""
        here = (block.picks >= self.begin) & (block.picks < self.end)
        taken = [(int(i), int(block.picks[i]) - self.begin) for i in np.flatnonzero(here)]
        final = path[:, -1].copy()  # what remains of active rows' residuals is kept, though not counted
        path[:, :, self.active] = 0
        for i, place in taken:
            path[:, i + 1 :, place] = 0
        sse = np.einsum("qij,qij->i", path[:, 1:], path[:, 1:])
        rivals, n_seen, s2 = self._rivals(block, N, path, taken)
        path[:, -1] = final
        return Report(sse, *rivals, n_seen), s2

    def _rivals(
        self, block: Block, N: Array, path: Array, taken: list[tuple[int, int]]
    ) -> tuple[tuple[Array, Array, Array], int, Array]:
        """The rows whose score comes near the expected pick's, or above; for how many picks; and the last variances.

        The variance only falls, so with a score that grows with it, a score taken at an old variance is a bound: it is
        followed for all rows, and the score itself only for those few whose bound is high enough. After a pick that
        some row has beaten, none are looked for: the block will end there.
        """
        none = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0)
        if block.expected is None or self.traits is None:
            return none, len(block), self.s2 - np.einsum("ij,ij->j", N, N, dtype=np.float64)
        found = [none]
        known = np.isfinite(block.expected)
        near = NEAR * TIE[self.kernel.dtype] * np.abs(np.where(known, block.expected, 0))
        low, high = np.where(known, block.expected - near, -np.inf), np.where(known, block.expected + near, np.inf)
        n_seen = len(block)
        s2 = self.s2.copy()
        for begin in range(0, len(block), STRIDE):
            stages = slice(begin, min(begin + STRIDE, len(block)))
            if begin >= n_seen:
                columns = none[0]
            elif self.traits.monotone:
                room = workspace.array("bound", (stages.stop - stages.start, len(s2)))
                abs_r = magnitude(path[:, stages], out=room)
                bound = self.traits.bound(np.sqrt(np.maximum(s2, 0)), abs_r, self.noise, self.luck, out=room)
                bound[:, self.active] = -np.inf
                some = bound.max(axis=1) >= low[stages]
                columns = np.flatnonzero((bound[some] >= low[stages][some, None]).any(axis=0) & self.remains)
            else:
                columns = np.flatnonzero(self.remains)
            if len(columns):
                abs_r = magnitude(path[:, stages, columns])
                found.append(self._exact(N, s2, abs_r, stages, columns, low, taken))
                turn, _, value = found[-1]
                if (value > high[turn]).any():
                    n_seen = stages.stop
            s2 -= np.einsum("ij,ij->j", N[stages], N[stages], dtype=np.float64)
        turns, rows, values = (np.concatenate(part) for part in zip(*found, strict=True))
        return (turns, rows, values), n_seen, s2

    def _exact(
        self,
        N: Array,
        s2: Array,
        abs_r: Array,
        stages: slice,
        columns: Array,
        low: Array,
        taken: list[tuple[int, int]],
    ) -> tuple[Array, Array, Array]:
        """The rows, of some, that have the highest score at each pick's turn, if it comes near the expected pick's."""
        assert self.score is not None
        squares = np.square(N[stages][:, columns], dtype=np.float64)
        variance = np.empty_like(squares)
        variance[0] = s2[columns]
        for i in range(len(squares) - 1):
            np.subtract(variance[i], squares[i], out=variance[i + 1])
        s = np.sqrt(np.maximum(variance, 0, out=variance), out=variance)
        score = evaluate(self.score, s, abs_r, _at(self.noise, columns), _at(self.luck, columns))
        for i, place in taken:
            score[max(i + 1 - stages.start, 0) :, columns == place] = np.nan
        top = np.fmax.reduce(score, axis=1)
        tied = np.where(np.isfinite(top), top - TIE[self.kernel.dtype] * np.abs(top), -np.inf)
        stage, column = np.nonzero(score >= np.maximum(low[stages], tied)[:, None])
        return stage + stages.start, columns[column] + self.begin, score[stage, column]


def storage(shape: tuple[int, int], dtype: Any) -> Array:
    """Memory for the v's of a shard's rows; apart, so that a benchmark can hand out memory already mapped in."""
    return np.empty(shape, dtype=dtype)


def outlook(score: PointwiseScore, t: int, s2: Array, r: Array, noise: Array, luck: Array) -> tuple[Array, Array]:
    """What rows score, and what they would if their residuals grew: the less, the more rows are active already."""
    s, abs_r = np.sqrt(np.maximum(s2, 0)), magnitude(r)
    now = evaluate(score, s, abs_r, noise, luck)
    abs_r += GROWTH / np.sqrt(1 + t / SETTLED) * s
    return now, evaluate(score, s, abs_r, noise, luck)


def magnitude(r: Array, out: Array | None = None) -> Array:
    """The root mean square over the targets, which come first: abs(r) where there is one."""
    if len(r) == 1:
        return np.asarray(np.abs(r[0], out=out))
    return np.asarray(np.sqrt(np.mean(np.square(r), axis=0)), dtype=np.float64)


def _at(values: Array, places: Array) -> Array:
    """One value for each place, of values that may all be the same and given once."""
    return values[places] if len(values) > 1 else np.repeat(values, len(places))


def _distinct(places: Array, value: Array, dtype: Any) -> Array:
    """Of rows with the same score (but for rounding) the first alone: duplicates would crowd the others out."""
    if not len(places):
        return places
    places = np.sort(places)
    key = np.round(value[places] / max(float(np.abs(value[places]).max(initial=0.0)), 1e-300) / TIE[dtype])
    _, first = np.unique(key, return_index=True)
    return places[np.sort(first)]
