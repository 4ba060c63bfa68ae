"""Which row to take next.

A pointwise score is one function of three arrays over the rows: the latent standard deviation s, the absolute
residual ``abs(r)`` and the noise variance. The row with the largest score is taken. Any callable with these three
arguments will do; those with a name are in `SCORES`.

With several targets, ``abs(r)`` is the root mean square of a row's residuals over the targets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .validation import unknown

Array = NDArray[Any]
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
class Random:
    """No score at all: the rows come in a random order that does not depend on how many are taken."""

    def order(self, n: int, m: int, generator: np.random.Generator, start: list[int]) -> list[int]:
        """The first m rows of a random order of n that begins with `start`. O(m) memory for m << n."""
        chosen = dict.fromkeys(start)
        while len(chosen) < m:
            # Always drawn 256 at a time, so that the order for m rows is the start of the order for m + 1.
            chosen.update(dict.fromkeys(generator.integers(n, size=256).tolist()))
        return list(chosen)[:m]


SCORES: dict[str, PointwiseScore | Random] = {
    "delta": Delta(),
    "uncertainty": Delta(underfit=0),
    "underfit": Delta(uncertainty=0),
    "random": Random(),
}


def resolve_score(score: str | PointwiseScore | Random) -> PointwiseScore | Random:
    """The score of that name, or the callable itself."""
    if isinstance(score, str):
        if score in SCORES:
            return SCORES[score]
        raise unknown("score", SCORES, score, " or a callable")
    if isinstance(score, Random) or callable(score):
        return score
    raise TypeError(
        f"score must be one of {', '.join(map(repr, SCORES))} or a callable of (s, abs_r, noise); "
        f"got {score!r} of type {type(score).__name__}."
    )


def evaluate(score: PointwiseScore, s: Array, abs_r: Array, noise: Array) -> Array:
    """The score of every row, in a fresh array, checked: a user's callable may return anything.

    A callable is shown flat arrays, whatever the shape of these: it is pointwise.
    """
    if isinstance(score, Delta):
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
