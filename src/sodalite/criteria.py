"""Criteria: which row comes next.

A criterion gives every row a score, and the row with the largest is taken. A pointwise criterion is one function of
three arrays over the rows: the latent standard deviation s, the absolute residual ``abs(r)`` and the noise variance.
Any callable with these three arguments will do; those with a name are in `CRITERIA`.

With several targets, ``abs(r)`` is the root mean square of a row's residuals over the targets.

The row that scores highest may be an outlier, with a wrong target. Two criteria are meant for such data:
`Sampled` draws rows with probabilities proportional to their scores, and `Lookahead` takes the rows that most help to
predict others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from .core.types import Floats, Mask
from .core.validation import check_count, unknown

PointwiseCriterion = Callable[[Floats, Floats, Floats], Floats]

TIE = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-5}
"""Tie tolerance, relative to the largest score. It exceeds the rounding error of a score: duplicate rows have equal
scores but for rounding (docs/method.rst, `ties`)."""

DRAWN = 256  # random rows that `Random` draws at a time: a constant, so that the order for m rows begins that for m + 1


@dataclass(frozen=True)
class Delta:
    """The paper's criterion, s + abs(r): rows where the model is unsure, or wrong. Each term can be weighted.

    Parameters
    ----------
    uncertainty : float, default=1
        The weight of s.
    underfit : float, default=1
        The weight of abs(r).

    Examples
    --------
    >>> Delta()(np.array([1.0, 2.0]), np.array([0.5, 0.1]), np.zeros(2))
    array([1.5, 2.1])
    """

    uncertainty: float = 1.0
    underfit: float = 1.0

    @property
    def monotone(self) -> bool:
        """Whether the score never falls when s or abs(r) grows, so that bounds on these bound the score."""
        return self.uncertainty >= 0 and self.underfit >= 0

    def __call__(self, s: Floats, abs_r: Floats, noise: Floats, out: Floats | None = None) -> Floats:
        first = s if self.uncertainty == 1 else self.uncertainty * s
        second = abs_r if self.underfit == 1 else self.underfit * abs_r
        return np.add(first, second, out=out)


@dataclass(frozen=True)
class Product:
    """s abs(r): rows where the model is unsure and wrong.

    Examples
    --------
    >>> Product()(np.array([1.0, 2.0]), np.array([0.5, 0.1]), np.zeros(2))
    array([0.5, 0.2])
    """

    @property
    def monotone(self) -> bool:
        """Whether the score never falls when s or abs(r) grows, so that bounds on these bound the score."""
        return True

    def __call__(self, s: Floats, abs_r: Floats, noise: Floats, out: Floats | None = None) -> Floats:
        return np.multiply(s, abs_r, out=out)


@dataclass(frozen=True)
class Sampled:
    """Sample rows with probabilities proportional to their scores, instead of taking the row with the largest.

    Every row has one random weight for the whole selection (`sampling_weights`), and the row with the largest product
    of score and weight is taken: the Gumbel-max trick, log(score) + Gumbel number, without the logarithm. As long as
    scores do not change, this draws rows one after the other without replacement, each with probability
    score / (sum of the remaining rows' scores). Since the pick is a maximum like any other, the picks do not depend on
    the size of the blocks.

    Parameters
    ----------
    criterion : callable
        A pointwise criterion that is never negative. A row of score 0 is never taken.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF, WhiteKernel
    >>> from sodalite import select
    >>> X = np.linspace(0, 10, 200)[:, None]
    >>> squared = Sampled(lambda s, abs_r, noise: s**2)
    >>> kernel = RBF(1.0) + WhiteKernel(0.01)
    >>> chosen = select(X, np.sin(X[:, 0]), kernel, n_active=12, criterion=squared, random_state=0)
    >>> len(chosen)
    12
    """

    criterion: PointwiseCriterion

    def __post_init__(self) -> None:
        if not callable(self.criterion) or isinstance(self.criterion, Sampled):
            raise TypeError(
                f"criterion must be a callable of (s, abs_r, noise) if it is to be sampled, such as Delta() or "
                f"Product() of sodalite.criteria; got {self.criterion!r} of type {type(self.criterion).__name__}."
            )

    def __call__(self, s: Floats, abs_r: Floats, noise: Floats) -> Floats:
        """The scores before sampling, which the rows' probabilities are proportional to."""
        return self.criterion(s, abs_r, noise)


@dataclass(frozen=True)
class Lookahead:
    """Take the row that, once active, most raises the log density of other rows' targets.

    For each block of picks, candidates are drawn with probabilities proportional to s abs(r), and a random sample of
    the remainder is drawn to judge them. A candidate j changes the variance and the residual of each row of the sample,

        p^2 = s2(j) + noise(j)        nu(x) = cov(j, x) / p        zeta = r(j) / p
        s2(x) <- s2(x) - nu(x)^2      r(x) <- r(x) - zeta nu(x)

    and so the row's log density, log N(r(x); 0, s2(x) + noise(x)). The candidate that raises the sample's mean log
    density the most is taken. An outlier lowers the density of its neighbours, so it is not taken. A candidate that is
    itself in the sample is judged by the sample's other rows, since an active row is not part of the remainder.

    The gain times the size of the remainder estimates the gain of J, the log density of the active targets plus the
    remainder's log densities: the candidate's own term only moves from the second part to the first.

    The criterion is meant for noisy targets. With very little noise the log density has almost no upper bound. Then
    making a few rows nearly certain gains more than predicting many rows better, and `Delta` is the better criterion.

    Each pick costs O(n_candidates n_sample) beyond the product over all rows; a block O((n_candidates + n_sample) t
    n_candidates) and n random numbers. The candidates and the sample of a block follow from `random_state` and the
    stage at which it begins.

    Parameters
    ----------
    n_candidates : int, default=256
        Candidates of a block.
    n_sample : int, default=1000
        Rows that judge the candidates; all of the remainder, if that is smaller.
    block : int, default=32
        Picks, at most n_candidates, before candidates and sample are drawn anew.
    """

    n_candidates: int = 256
    n_sample: int = 1000
    block: int = 32

    def __post_init__(self) -> None:
        for name in ("n_candidates", "n_sample", "block"):
            check_count(name, getattr(self, name))
        if self.block > self.n_candidates:
            raise ValueError(
                f"block must be at most n_candidates, since the picks of a block are chosen among them; "
                f"got block={self.block} and n_candidates={self.n_candidates}. Lower the one or raise the other."
            )


@dataclass(frozen=True)
class Random:
    """Take the rows in a random order that does not depend on how many are taken."""

    def _order(self, n: int, m: int, generator: np.random.Generator, start: list[int]) -> list[int]:
        """The first m indices of a random order of n rows that begins with `start`. O(m) memory for m << n."""
        chosen = dict.fromkeys(start)
        while len(chosen) < m:
            chosen.update(dict.fromkeys(generator.integers(n, size=DRAWN).tolist()))
        return list(chosen)[:m]


Criterion = PointwiseCriterion | Lookahead | Random

CRITERIA: dict[str, Criterion] = {
    "delta": Delta(),
    "uncertainty": Delta(underfit=0),
    "underfit": Delta(uncertainty=0),
    "sampled": Sampled(Product()),
    "lookahead": Lookahead(),
    "random": Random(),
}


def resolve_criterion(criterion: str | Criterion) -> Criterion:
    """The criterion that an argument `criterion` means: one of `CRITERIA` by name, or the object itself."""
    if isinstance(criterion, str):
        if criterion in CRITERIA:
            return CRITERIA[criterion]
        raise unknown("criterion", CRITERIA, criterion, " or a callable")
    if isinstance(criterion, Lookahead | Random) or callable(criterion):
        return criterion
    raise TypeError(
        f"criterion must be one of {', '.join(map(repr, CRITERIA))} or a callable of (s, abs_r, noise); "
        f"got {criterion!r} of type {type(criterion).__name__}."
    )


@dataclass(frozen=True)
class CriterionTraits:
    """How a criterion chooses rows, whatever its class. A selection asks a criterion for nothing else."""

    pointwise: PointwiseCriterion | None
    """The function of s, abs(r) and the noise that is maximised; None for `Lookahead` and `Random`."""
    monotone: bool
    """Whether the score never falls when s or abs(r) grows, so that bounds on these bound the score."""
    sampled: bool
    """Whether each row's score is multiplied by a random weight (`Sampled`)."""
    lookahead: Lookahead | None
    """The settings of a selection that looks ahead, or None."""
    order: Callable[[int, int, np.random.Generator, list[int]], list[int]] | None
    """Draws the rows in an order that no criterion decides (`Random`), or None."""

    @classmethod
    def of(cls, criterion: Criterion) -> CriterionTraits:
        """The traits of a criterion; a user's callable is monotone if it has an attribute `monotone` that is true."""
        if isinstance(criterion, Lookahead):
            return cls(None, False, False, criterion, None)
        if isinstance(criterion, Random):
            return cls(None, False, False, None, criterion._order)
        sampled = isinstance(criterion, Sampled)
        monotone = bool(
            getattr(criterion.criterion if isinstance(criterion, Sampled) else criterion, "monotone", False)
        )
        return cls(criterion, monotone, sampled, None, None)

    @property
    def inner(self) -> PointwiseCriterion | None:
        """The pointwise criterion before sampling."""
        return self.pointwise.criterion if isinstance(self.pointwise, Sampled) else self.pointwise

    @property
    def draws(self) -> bool:
        """Whether the criterion needs a seed, for random weights or for samples."""
        return self.sampled or self.lookahead is not None

    def bound(self, s: Floats, abs_r: Floats, noise: Floats, weights: Floats, out: Floats) -> Floats:
        """Upper bounds of the scores of a monotone criterion, of shape (stages, n), from upper bounds of s and abs(r).

        Parameters
        ----------
        s : array of shape (n,)
        abs_r : array of shape (stages, n)
        noise, weights : arrays of shape (n,) or (1,)
            The noise variances, and the random weights of a sampled criterion.
        out : array of shape (stages, n)
            Memory that may be used for the result.
        """
        assert self.inner is not None
        if isinstance(self.inner, Delta | Product):
            bound = self.inner(s, abs_r, noise, out=out)
        else:
            bound = evaluate(self.inner, np.broadcast_to(s, abs_r.shape), abs_r, noise)
        if self.sampled:
            bound *= weights
        return bound


def evaluate(
    criterion: PointwiseCriterion, s: Floats, abs_r: Floats, noise: Floats, weights: Floats | float = 1.0
) -> Floats:
    """The score of every row, in a fresh array of the shape of s. The result of a user's callable is checked.

    Parameters
    ----------
    criterion : callable
        A user's callable is called with flat arrays, whatever the shape of s: it is pointwise.
    s, abs_r : arrays of shape (..., n)
    noise, weights : arrays that broadcast to that shape
        The noise variances, and the random weights of a sampled criterion.
    """
    if isinstance(criterion, Sampled):
        chance = evaluate(criterion.criterion, s, abs_r, noise)
        negative = (chance < 0) & (chance > -np.inf)
        if negative.any():
            raise ValueError(
                f"criterion must not be negative where it is sampled: a row's chance is proportional to it; "
                f"{negative.sum()} of {chance.size} are, the least {chance[negative].min():.3g}. "
                f"Return 0 for rows never to take."
            )
        return np.where(chance > 0, chance * weights, -np.inf)
    if isinstance(criterion, Delta | Product):
        return criterion(s, abs_r, noise)
    value = np.array(criterion(s.ravel(), abs_r.ravel(), np.broadcast_to(noise, s.shape).ravel()), dtype=np.float64)
    if value.shape != (s.size,):
        raise ValueError(f"criterion must return one value per row: an array of shape ({s.size},); got {value.shape}.")
    bad: Mask = np.isnan(value) | np.isposinf(value)
    if bad.any():
        raise ValueError(
            f"criterion must return numbers, or -inf for rows never to take; {bad.sum()} of {s.size} are not."
        )
    return value.reshape(s.shape)


def best(scores: Floats, dtype: DTypeLike = np.float64) -> int:
    """The place of the largest score; of several that are tied, the first (docs/method.rst, `ties`)."""
    return int((scores >= tie_threshold(scores.max(), dtype)).argmax())


def tie_threshold(top: float, dtype: DTypeLike = np.float64) -> float:
    """The least score that is tied with the largest score, `top`."""
    return float(top - TIE[np.dtype(dtype)] * abs(top)) if np.isfinite(top) else float(top)


def seed_from(generator: np.random.Generator) -> int:
    """A seed for all random weights and samples of one selection."""
    return int(generator.integers(2**63))


def sampling_weights(seed: int, stage: int, begin: int, end: int) -> Floats:
    """The random weights of rows `begin` to `end`, of shape (end - begin,): 1 / e, with e exponentially distributed.

    Among rows with scores, the row with the largest product of score and weight is row j with a probability
    proportional to its score; the rows with the c largest products are a sample without replacement. A weight depends
    only on the seed, the stage and the row, so that each shard draws the weights of its own rows. O(end - begin).
    """
    # Philox computes its numbers from a key and a counter, four for each count: it can start at any row.
    skip, count = begin % 4, int(begin) // 4
    philox = np.random.Philox(key=np.array([seed, stage], dtype=np.uint64), counter=count)
    bits = philox.random_raw(end - 4 * count)[skip:]
    uniform = ((bits >> np.uint64(12)) + 0.5) * 2.0**-52  # 52 random bits, strictly between 0 and 1
    return np.asarray(-1 / np.log(uniform))
