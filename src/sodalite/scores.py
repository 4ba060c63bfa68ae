"""Which row to take next.

A pointwise score is one function of three arrays over the rows: the latent standard deviation s, the absolute
residual ``abs(r)`` and the noise variance. The row with the largest score is taken. Any callable with these three
arguments will do; those with a name are in `SCORES`.

With several targets, ``abs(r)`` is the root mean square of a row's residuals over the targets.

The row that scores highest may be one whose target is plain wrong. Two kinds of score are meant for such data:
`Sampled` draws rows with chances that go with their score, and `Lookahead` takes those that help to predict others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from .core.types import Array
from .core.validation import unknown

PointwiseScore = Callable[[Array, Array, Array], Array]

TIE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-5}
"""Scores within this share of the largest are tied. Rows that are duplicates have equal scores but for rounding."""


@dataclass(frozen=True)
class Delta:
    """The paper's score, s + abs(r): where the model is unsure, or wrong. Each term can be weighted.

    Examples
    --------
    >>> Delta()(np.array([1.0, 2.0]), np.array([0.5, 0.1]), np.zeros(2))
    array([1.5, 2.1])
    """

    uncertainty: float = 1.0
    underfit: float = 1.0

    @property
    def monotone(self) -> bool:
        """Whether the score never falls when s or abs(r) grows, so that a bound on them bounds it."""
        return self.uncertainty >= 0 and self.underfit >= 0

    def __call__(self, s: Array, abs_r: Array, noise: Array, out: Array | None = None) -> Array:
        first = s if self.uncertainty == 1 else self.uncertainty * s
        second = abs_r if self.underfit == 1 else self.underfit * abs_r
        return np.add(first, second, out=out)


@dataclass(frozen=True)
class Product:
    """s abs(r): where the model is unsure and wrong.

    Examples
    --------
    >>> Product()(np.array([1.0, 2.0]), np.array([0.5, 0.1]), np.zeros(2))
    array([0.5, 0.2])
    """

    @property
    def monotone(self) -> bool:
        """As for `Delta`: it never falls when s or abs(r) grows."""
        return True

    def __call__(self, s: Array, abs_r: Array, noise: Array, out: Array | None = None) -> Array:
        return np.multiply(s, abs_r, out=out)


@dataclass(frozen=True)
class Sampled:
    """Sample a score instead of maximising it: each row is drawn with a chance that is proportional to its score.

    Every row is given one random number for the whole selection, its `luck`, and the row whose score times luck is
    largest is taken: the Gumbel-max trick, log(score) + Gumbel number, without the logarithm. While scores do not
    change that draws rows one after the other, without replacement, each with the chance that its score is of the sum
    over those left; and since it is a maximum like any other, the picks are exact whatever the size of the blocks.

    Parameters
    ----------
    score : callable
        A pointwise score that is never negative. A row of score 0 is never taken.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> from sodalite import select
    >>> X = np.linspace(0, 10, 200)[:, None]
    >>> squared = Sampled(lambda s, abs_r, noise: s**2)
    >>> chosen = select(X, np.sin(X[:, 0]), RBF(1.0) + WhiteKernel(0.01), n_active=12, score=squared, random_state=0)
    >>> len(chosen)
    12
    """

    score: PointwiseScore

    def __post_init__(self) -> None:
        if not callable(self.score) or isinstance(self.score, Sampled):
            raise TypeError(
                f"score must be a callable of (s, abs_r, noise) if it is to be sampled, such as Delta() or Product() "
                f"of sodalite.scores; got {self.score!r} of type {type(self.score).__name__}."
            )

    def __call__(self, s: Array, abs_r: Array, noise: Array) -> Array:
        """What the rows' chances are proportional to."""
        return self.score(s, abs_r, noise)


@dataclass(frozen=True)
class Lookahead:
    """Take the row that most raises the density of other rows' targets, once it is active.

    For a block of picks, candidates are drawn in proportion to s abs(r), and beside them a random sample of the
    remainder. A candidate j changes the variance and the residual of each row of the sample,

        p^2 = s2(j) + noise(j)        nu(x) = cov(j, x) / p        zeta = r(j) / p
        s2(x) <- s2(x) - nu(x)^2      r(x) <- r(x) - zeta nu(x)

    hence its log density log N(r(x); 0, s2(x) + noise(x)), and the candidate that raises the sample's mean the most is
    taken. An outlier spoils its neighbours, so it is not. A candidate that is in the sample is judged by the other
    rows: once active it is none of the remainder. So the gain times the size of the remainder is an estimate of what J,
    the log density of the active targets plus the sum of the remainder's, gains: the row's own term only moves from the
    one to the other.

    It is meant for noisy targets. With hardly any noise the log density has hardly a bound, and more is gained by
    making a few rows all but certain than by serving many: `Delta` is better there.

    Each pick costs O(n_candidates n_sample) beyond the product over all rows; a block O((n_candidates + n_sample) t
    n_candidates) and n random numbers. The candidates and the sample of a block follow from `random_state` and the
    stage at which it begins.

    Parameters
    ----------
    n_candidates : int, default=256
        How many rows are looked at.
    n_sample : int, default=1000
        How many rows they are judged by; all that remain, if these are fewer.
    block : int, default=32
        Picks, at most n_candidates, before candidates and sample are drawn anew.
    """

    n_candidates: int = 256
    n_sample: int = 1000
    block: int = 32

    def __post_init__(self) -> None:
        for name in ("n_candidates", "n_sample", "block"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool):
                raise TypeError(f"{name} must be a whole number; got {value!r} of type {type(value).__name__}.")
            if value < 1:
                raise ValueError(f"{name} must be at least 1; got {value!r}.")
        if self.block > self.n_candidates:
            raise ValueError(
                f"block must be at most n_candidates, since the picks of a block are chosen among them; "
                f"got block={self.block} and n_candidates={self.n_candidates}. Lower the one or raise the other."
            )


@dataclass(frozen=True)
class Random:
    """No score at all: the rows come in a random order that does not depend on how many are taken."""

    def order(self, n: int, m: int, generator: np.random.Generator, start: list[int]) -> list[int]:
        """The first m rows of a random order of n that begins with `start`. O(m) memory for m << n."""
        chosen = dict.fromkeys(start)
        while len(chosen) < m:
            # Always drawn 256 at a time, so that the order for m rows is the start of the order for m + 1.
            chosen.update(dict.fromkeys(generator.integers(n, size=256).tolist()))
        return list(chosen)[:m]


Score = PointwiseScore | Lookahead | Random

SCORES: dict[str, Score] = {
    "delta": Delta(),
    "uncertainty": Delta(underfit=0),
    "underfit": Delta(uncertainty=0),
    "sampled": Sampled(Product()),
    "lookahead": Lookahead(),
    "random": Random(),
}


def resolve_score(score: str | Score) -> Score:
    """The score of that name, or the callable itself."""
    if isinstance(score, str):
        if score in SCORES:
            return SCORES[score]
        raise unknown("score", SCORES, score, " or a callable")
    if isinstance(score, Lookahead | Random) or callable(score):
        return score
    raise TypeError(
        f"score must be one of {', '.join(map(repr, SCORES))} or a callable of (s, abs_r, noise); "
        f"got {score!r} of type {type(score).__name__}."
    )


@dataclass(frozen=True)
class ScoreTraits:
    """How a score chooses rows: all that a selection asks of it, whatever its class."""

    pointwise: PointwiseScore | None
    """The function of s, abs(r) and the noise whose largest value is taken; None if rows are not chosen by one."""
    monotone: bool
    """Whether it never falls when s or abs(r) grows, so that a bound on these bounds the score of many rows at once."""
    sampled: bool
    """Whether each row's value is multiplied by a random number of its own."""
    lookahead: Lookahead | None
    """How rows are chosen by looking ahead, if they are."""
    order: Callable[[int, int, np.random.Generator, list[int]], list[int]] | None
    """Draws rows in an order of its own: as `Random.order`."""

    @classmethod
    def of(cls, score: Score) -> ScoreTraits:
        """The traits of a score; a function of one's own is monotone if it has an attribute `monotone` that is true."""
        if isinstance(score, Lookahead):
            return cls(None, False, False, score, None)
        if isinstance(score, Random):
            return cls(None, False, False, None, score.order)
        sampled = isinstance(score, Sampled)
        monotone = bool(getattr(score.score if isinstance(score, Sampled) else score, "monotone", False))
        return cls(score, monotone, sampled, None, None)

    @property
    def inner(self) -> PointwiseScore | None:
        """The function itself, before it is sampled."""
        return self.pointwise.score if isinstance(self.pointwise, Sampled) else self.pointwise

    @property
    def draws(self) -> bool:
        """Whether it needs random numbers, beyond those of the first row and of an order."""
        return self.sampled or self.lookahead is not None

    @property
    def most_ahead(self) -> int:
        """The most rows that are decided before they are active."""
        return 0 if self.lookahead is None else self.lookahead.block

    def bound(self, s: Array, abs_r: Array, noise: Array, luck: Array, out: Array) -> Array:
        """The score of rows with at most these s, of shape (n,), and these abs(r), of shape (stages, n).

        For a score that is monotone.
        """
        assert self.inner is not None
        if isinstance(self.inner, Delta | Product):
            bound = self.inner(s, abs_r, noise, out=out)
        else:
            bound = evaluate(self.inner, np.broadcast_to(s, abs_r.shape), abs_r, noise)
        if self.sampled:
            bound *= luck
        return bound


def evaluate(score: PointwiseScore, s: Array, abs_r: Array, noise: Array, luck: Array | float = 1.0) -> Array:
    """The score of every row, in a fresh array, checked: a user's callable may return anything.

    A callable is shown flat arrays, whatever the shape of these: it is pointwise. `luck` is for one that is sampled.
    """
    if isinstance(score, Sampled):
        chance = evaluate(score.score, s, abs_r, noise)
        negative = (chance < 0) & (chance > -np.inf)
        if negative.any():
            raise ValueError(
                f"score must not be negative where it is sampled: a row's chance is proportional to it; "
                f"{negative.sum()} of {chance.size} are, the least {chance[negative].min():.3g}. "
                f"Return 0 for rows never to take."
            )
        return np.where(chance > 0, chance * luck, -np.inf)
    if isinstance(score, Delta | Product):
        return score(s, abs_r, noise)
    value = np.array(score(s.ravel(), abs_r.ravel(), np.broadcast_to(noise, s.shape).ravel()), dtype=np.float64)
    if value.shape != (s.size,):
        raise ValueError(f"score must return one value per row: an array of shape ({s.size},); got {value.shape}.")
    if np.isnan(value).any() or np.isposinf(value).any():
        bad = int((np.isnan(value) | np.isposinf(value)).sum())
        raise ValueError(f"score must return numbers, or -inf for rows never to take; {bad} of {s.size} are not.")
    return value.reshape(s.shape)


def best(score: Array, dtype: Any = np.float64) -> int:
    """The place of the largest score; of several that are tied (`TIE`), the first."""
    return int((score >= tie_threshold(score.max(), dtype)).argmax())


def tie_threshold(top: float, dtype: Any = np.float64) -> float:
    """The least score that is tied with the largest."""
    return float(top - TIE[np.dtype(dtype)] * abs(top)) if np.isfinite(top) else float(top)


def seed_from(generator: np.random.Generator) -> int:
    """What the luck of a whole selection follows from."""
    return int(generator.integers(2**63))


def luck(seed: int, stage: int, begin: int, end: int) -> Array:
    """The luck of rows `begin` to `end`: 1 / e, where e is exponentially distributed. O(end - begin).

    Of some rows, each with a score, the one whose score times luck is largest is row j with a chance proportional to
    its score; the c largest are a sample without replacement. A row's luck depends on the seed, the stage and the row
    alone, so whoever holds a row can draw it.
    """
    # Philox computes its numbers, four at a time, from a key and a counter: it can begin at any of them.
    skip, begin = begin % 4, int(begin) // 4
    philox = np.random.Philox(key=np.array([seed, stage], dtype=np.uint64), counter=begin)
    bits = philox.random_raw(end - 4 * begin)[skip:]
    return np.asarray(-1 / np.log(((bits >> np.uint64(12)) + 0.5) * 2.0**-52))  # of a uniform number, neither 0 nor 1
