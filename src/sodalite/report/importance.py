"""What matters: the share of the predictions' variance that each input brings, alone and together with others.

The method is described in docs/method.rst, `importance`. Two samples A and B of rows are drawn. A(B, j) is A with the
columns of input j taken from B. With V the variance of the predictions f,

    total effect of j   = mean((f(A) - f(A(B, j)))^2) / (2 V)
    first-order effect  = cov(f(B), f(A(B, j))) / V

(Jansen 1999; Saltelli and others 2010). The first is how much predictions change if j takes the values of other rows,
as in a permutation of the column. The second is how much j explains by itself; the difference of the two is what j
brings together with other inputs. They are measured on the model, so an input that the model does not use has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from ..core.types import Floats, Indices
from ..selection.rows import Sliced
from .inputs import Input

N_ROWS = 1000  # rows of each sample: shares to about 0.03; each costs one prediction for every input
N_PREDICTIONS = 10_000  # predictions, a few seconds' work: with many inputs, samples are smaller
LEAST_ROWS = 100  # rows of each sample at least, up to 1000 inputs
MOST_PREDICTIONS = 100_000  # predictions at most, up to 10 000 inputs: each also costs in proportion to the inputs
FEWEST_ROWS = 10  # rows of each sample, whatever the number of inputs
N_RESAMPLES = 100  # bootstrap samples, by which the standard errors are estimated
N_TOGETHER = 4  # inputs, those that bring most together with others, whose pairs are looked at
WORTH = 0.02  # share of the variance from which on a pair is said to act together, if it is also twice its error


@dataclass(frozen=True)
class InputEffect:
    """The share of the variance of the predictions that an input brings."""

    name: str
    total: float
    """Alone and together with other inputs."""
    total_error: float
    """Standard error of `total`, by which rows were drawn."""
    first: float
    """Alone; an estimate that is negative by chance is 0."""
    first_error: float
    """Standard error of `first`."""


@dataclass(frozen=True)
class Pair:
    """The share of the variance that two inputs bring together, beyond what each brings alone."""

    names: tuple[str, str]
    share: float
    error: float
    """Standard error of `share`."""


@dataclass(frozen=True)
class Importance:
    """What each input brings, the most important first."""

    effects: tuple[InputEffect, ...]
    pairs: tuple[Pair, ...]
    """Pairs of inputs that act together, the strongest first."""

    def __str__(self) -> str:
        width = max(5, *(len(effect.name) for effect in self.effects))
        lines = [f"{'input':{width}}  {'in all':>13}  {'alone':>13}"]
        for effect in self.effects:
            all_words = f"{effect.total:.3f} ± {effect.total_error:.3f}"
            alone = f"{effect.first:.3f} ± {effect.first_error:.3f}"
            lines.append(f"{effect.name:{width}}  {all_words:>13}  {alone:>13}")
        lines += [f"{' and '.join(pair.names)} together: {pair.share:.3f} ± {pair.error:.3f}" for pair in self.pairs]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, dict[str, float]]:
        """Return the effects by the names of the inputs, for JSON or a data frame."""
        names = ("total", "total_error", "first", "first_error")
        return {effect.name: {name: getattr(effect, name) for name in names} for effect in self.effects}


def importance(
    predict: Callable[[Floats], Floats],
    X: Sliced,
    inputs: Sequence[Input],
    generator: np.random.Generator,
    n_predictions: int = N_PREDICTIONS,
) -> Importance:
    """Measure what each input brings to the variance of predictions. O(inputs) predictions of up to `N_ROWS` rows.

    `predict` returns predictions of one target, of shape (rows,), for rows such as those of X, of shape (n, d). About
    `n_predictions` are made; no fewer than `LEAST_ROWS` for every input, unless that makes more than
    `MOST_PREDICTIONS`.
    """
    least = int(np.clip(MOST_PREDICTIONS // len(inputs), FEWEST_ROWS, LEAST_ROWS))
    n = int(np.clip(n_predictions // (len(inputs) + 2), least, N_ROWS))
    A, B = (np.asarray(X[generator.integers(len(X), size=n)], dtype=np.float64) for _ in range(2))

    f_A, f_B = predict(A), predict(B)
    f_AB = np.array([predict(part.mixed(A, B)) for part in inputs]).reshape(len(inputs), n)
    draws = generator.integers(n, size=(N_RESAMPLES, n))
    total, total_error = _estimate(lambda rows: _total(f_A[rows], f_AB[:, rows]), draws)
    first, first_error = _estimate(lambda rows: _closed(f_A[rows], f_B[rows], f_AB[:, rows]), draws)
    effects = [
        InputEffect(part.name, *map(float, numbers))
        for part, *numbers in zip(inputs, total, total_error, np.clip(first, 0, total), first_error, strict=True)
    ]
    pairs = []
    for i, j in combinations(sorted(np.argsort(first - total)[:N_TOGETHER].tolist()), 2):
        both = predict(inputs[j].mixed(inputs[i].mixed(A, B), B))
        share, error = _estimate(partial(_together_at, f_A, f_B, np.array([both, f_AB[i], f_AB[j]])), draws)
        pairs.append(Pair((inputs[i].name, inputs[j].name), float(share), float(error)))
    shown = [pair for pair in pairs if pair.share > max(WORTH, 2 * pair.error)]
    effects.sort(key=lambda effect: -effect.total)
    return Importance(tuple(effects), tuple(sorted(shown, key=lambda pair: -pair.share)))


def totals(importance: Importance) -> tuple[tuple[str, float], ...]:
    """The inputs and their total effects, the most important first."""
    return tuple((effect.name, effect.total) for effect in importance.effects)


def _estimate(statistic: Callable[[Indices | slice], Floats], draws: Indices) -> tuple[Floats, Floats]:
    """A statistic of all rows, and its standard error by bootstrap samples, of shape (samples, rows)."""
    resampled = [statistic(rows) for rows in draws]
    return np.asarray(statistic(slice(None))), np.asarray(np.std(resampled, axis=0))


def _variance(f_A: Floats) -> float:
    """V, the variance of predictions; 1 if they are all equal, since every share is 0 then."""
    return float(np.var(f_A)) or 1.0


def _total(f_A: Floats, f_AB: Floats) -> Floats:
    """Total effects, of shape (inputs,)."""
    return np.asarray(np.mean(np.square(f_A - f_AB), axis=-1) / (2 * _variance(f_A)))


def _closed(f_A: Floats, f_B: Floats, f_AB: Floats) -> Floats:
    """First-order effects: the shares that the columns taken from B explain by themselves; of shape (inputs,)."""
    return np.asarray(np.mean((f_B - f_B.mean()) * (f_AB - f_A), axis=-1) / _variance(f_A))


def _together_at(f_A: Floats, f_B: Floats, f_AB: Floats, rows: Indices | slice) -> Floats:
    """The share that two inputs explain together, beyond what each does alone, by some rows.

    `f_AB`, of shape (3, n), are the predictions with both, and with each, taken from B.
    """
    both, one, other = _closed(f_A[rows], f_B[rows], f_AB[:, rows])
    return np.asarray(both - one - other)
