"""Which row to take next.

A pointwise score is one function of three arrays over the rows: the latent standard deviation s, the absolute
residual ``abs(r)`` and the noise variance. The row with the largest score is taken. Any callable with these three
arguments will do; those with a name are in `SCORES`.

With several targets, ``abs(r)`` is the root mean square of a row's residuals over the targets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
PointwiseScore = Callable[[Array, Array, Array], Array]

TIE = 1e-9
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

    def __call__(self, s: Array, abs_r: Array, noise: Array) -> Array:
        if self.underfit == 0:
            return self.uncertainty * s
        if self.uncertainty == 0:
            return self.underfit * abs_r
        return self.uncertainty * s + self.underfit * abs_r


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
        close = get_close_matches(score, SCORES, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"score must be one of {', '.join(map(repr, SCORES))} or a callable; got {score!r}.{hint}")
    if isinstance(score, Random) or callable(score):
        return score
    raise TypeError(
        f"score must be one of {', '.join(map(repr, SCORES))} or a callable of (s, abs_r, noise); "
        f"got {score!r} of type {type(score).__name__}."
    )


def evaluate(score: PointwiseScore, s: Array, abs_r: Array, noise: Array) -> Array:
    """The score of every row, checked: a user's callable may return anything."""
    value = np.asarray(score(s, abs_r, noise))
    if value.shape != s.shape:
        raise ValueError(f"score must return one value per row: an array of shape {s.shape}; got shape {value.shape}.")
    if np.isnan(value).any():
        raise ValueError(f"score returned NaN for {int(np.isnan(value).sum())} of {value.size} rows.")
    return value


def best(score: Array) -> int:
    """The place of the largest score; of several that are tied (`TIE`), the first."""
    top = score.max()
    if not np.isfinite(top):
        return int(score.argmax())
    return int((score >= top - TIE * abs(top)).argmax())
