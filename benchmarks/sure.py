"""Wrong but sure: whether intervals hold where the queries are unlike the rows, in scenarios with known truth.

Each scenario draws rows and queries anew for every repetition. The default is fitted to the rows. Shown are the share
of the queries in 90 and 95 % intervals, the mean novelty that the model reports, and the median width of the 90 %
interval beside that of the errors' own 5 to 95 % range. The first scenarios are such that the rows could tell; in the
last ones no row could.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sodalite import GreedyGPRegressor
from sodalite.metrics import interval_coverage

from .common import run_sets

REPETITIONS = 50
Problem = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""X and y of the rows, then of the queries."""


def smooth(x: np.ndarray, generator: np.random.Generator, scale: float = 1.0, waves: int = 200) -> np.ndarray:
    """A draw of a smooth random function of x, of shape (n, d), with standard deviation 1."""
    frequencies = generator.normal(size=(x.shape[1], waves)) / scale
    phases = generator.uniform(0, 2 * np.pi, waves)
    return np.cos(x @ frequencies + phases) @ generator.normal(size=waves) * np.sqrt(2 / waves)


def _series(values: np.ndarray, ahead: int) -> Problem:
    """A series, of which the last `ahead` steps are the queries."""
    t = np.arange(len(values), dtype=float)[:, None]
    return t[:-ahead], values[:-ahead], t[-ahead:], values[-ahead:]


def control(generator: np.random.Generator) -> Problem:
    X = generator.uniform(0, 10, (400, 1))
    y = smooth(X, generator) + 0.2 * generator.normal(size=400)
    return X[:300], y[:300], X[300:], y[300:]


def exponential(generator: np.random.Generator, ahead: int = 100) -> Problem:
    t = np.arange(300.0 + ahead)
    return _series(np.exp(t / generator.uniform(80, 150)) + 0.1 * generator.normal(size=len(t)), ahead)


def exponential_near(generator: np.random.Generator) -> Problem:
    return exponential(generator, 10)


def quadratic(generator: np.random.Generator) -> Problem:
    t = np.arange(400.0) / 100
    return _series(generator.uniform(0.5, 2) * t**2 + 0.3 * generator.normal(size=400), 100)


def season_and_trend(generator: np.random.Generator) -> Problem:
    t = np.arange(340.0)
    season = generator.uniform(0.5, 2) * np.sin(2 * np.pi * t / 12 + generator.uniform(0, 6))
    return _series(season + generator.uniform(0.005, 0.02) * t + 0.2 * generator.normal(size=340), 40)


def random_walk(generator: np.random.Generator) -> Problem:
    return _series(np.cumsum(generator.normal(size=400)), 100)


def far_off(generator: np.random.Generator) -> Problem:
    """Queries far from the rows along an input on which the function depends slowly."""
    slow = generator.uniform(1.5, 4.0)

    def inputs(n: int, reach: float) -> np.ndarray:
        return np.stack([generator.uniform(0, 5, n), generator.uniform(*reach, n)], axis=1)

    X, T = inputs(300, (0, 1)), inputs(100, (1.5, 4))
    noise = generator.normal(size=400)
    both = np.concatenate([X, T])
    y = smooth(both[:, :1], generator) + smooth(both[:, 1:], generator, slow) + 0.1 * noise
    return X, y[:300], T, y[300:]


def copies(generator: np.random.Generator, jitter: float = 0.0) -> Problem:
    """Rows that stand there five times, with the same error."""
    places = generator.uniform(0, 10, (160, 1))
    y = smooth(places, generator) + 0.5 * generator.normal(size=160)
    X = np.repeat(places[:60], 5, axis=0)
    X = X + jitter * generator.normal(size=X.shape)
    return X, np.repeat(y[:60], 5), places[60:], y[60:]


def nearly_copies(generator: np.random.Generator) -> Problem:
    return copies(generator, 1e-3)


def new_groups(generator: np.random.Generator) -> Problem:
    """Groups, as a number, of which the queries' are new, between and beyond those of the rows."""
    effects = generator.normal(size=40)
    group = generator.permutation(40)
    X = np.stack([np.repeat(group, 10), generator.uniform(0, 1, 400)], axis=1).astype(float)
    y = effects[X[:, 0].astype(int)] + X[:, 1] + 0.3 * generator.normal(size=400)
    return X[:300], y[:300], X[300:], y[300:]


def loud_half(generator: np.random.Generator) -> Problem:
    """The loud half of a map."""
    X = generator.uniform(0, 5, (900, 2))
    noise = np.where(X[:, 0] > 2.5, 1.0, 0.1)
    y = smooth(X, generator) + noise * generator.normal(size=900)
    loud = np.flatnonzero(X[600:, 0] > 2.5) + 600
    return X[:600], y[:600], X[loud], y[loud]


def near_a_jump(generator: np.random.Generator) -> Problem:
    X = generator.uniform(0, 10, (1300, 1))
    y = np.where(X[:, 0] > 5, 3.0, 0.0) + 0.3 * smooth(X, generator) + 0.1 * generator.normal(size=1300)
    near = np.flatnonzero(np.abs(X[300:, 0] - 5) < 0.3) + 300
    return X[:300], y[:300], X[near], y[near]


def level_shifts(generator: np.random.Generator) -> Problem:
    """A series whose level shifts now and then, the next 30 steps."""
    shifts = np.cumsum(3 * generator.normal(size=530) * (generator.random(530) < 0.02))
    return _series(shifts + 0.3 * generator.normal(size=530), 30)


def breaks_before(generator: np.random.Generator) -> Problem:
    """A season whose amplitude breaks every hundred steps, also where the queries begin."""
    amplitude = np.repeat(generator.uniform(0.3, 3, 6), 100)
    t = np.arange(600.0)
    return tuple(
        part[:510] for part in _series((amplitude * np.sin(t / 3) + 0.1 * generator.normal(size=600))[:510], 10)
    )


def eight_rows(generator: np.random.Generator) -> Problem:
    X = generator.uniform(0, 5, (108, 1))
    y = smooth(X, generator) + 0.1 * generator.normal(size=108)
    return X[:8], y[:8], X[8:], y[8:]


def checkerboard(generator: np.random.Generator) -> Problem:
    X = generator.uniform(0, 6, (900, 2))
    y = (np.floor(X).sum(axis=1) % 2) + 0.1 * generator.normal(size=900)
    return X[:600], y[:600], X[600:], y[600:]


def counts(generator: np.random.Generator) -> Problem:
    X = generator.uniform(0, 10, (500, 1))
    y = generator.poisson(np.exp(0.7 * smooth(X, generator) + 0.5)).astype(float)
    return X[:300], y[:300], X[300:], y[300:]


def a_first_break(generator: np.random.Generator) -> Problem:
    """A season whose amplitude breaks for the first time where the queries begin."""
    t = np.arange(310.0)
    amplitude = np.where(t < 300, 1.0, generator.choice([0.2, 3.0]))
    return _series(amplitude * np.sin(t / 3) + 0.1 * generator.normal(size=310), 10)


def aliased(generator: np.random.Generator) -> Problem:
    """A function whose period is a little longer than the grid's step."""
    X = np.arange(200.0)[:, None]
    T = generator.uniform(0, 199, (100, 1))
    period = generator.uniform(1.01, 1.03)
    return X, np.sin(2 * np.pi * X[:, 0] / period), T, np.sin(2 * np.pi * T[:, 0] / period)


FORESEEN: tuple[Callable[[np.random.Generator], Problem], ...] = (
    *(control, checkerboard, counts, exponential, exponential_near, quadratic, season_and_trend, random_walk, far_off),
    *(copies, nearly_copies, new_groups, loud_half, near_a_jump, level_shifts, breaks_before, eight_rows),
)
SCENARIOS = {function.__name__: function for function in (*FORESEEN, a_first_break, aliased)}


@dataclass(frozen=True)
class Result:
    """What was measured in a scenario: means over the repetitions, but for the widths."""

    name: str
    share_90: float
    share_95: float
    novelty: float
    width: float
    """The median width of the 90 % interval."""
    range: float
    """From the 5 to the 95 % quantile of the errors."""


def measure(name: str) -> Result:
    shares, widths, errors, novelty = [], [], [], []
    for seed in range(REPETITIONS):
        X, y, T, t = SCENARIOS[name](np.random.default_rng(seed))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = GreedyGPRegressor(random_state=0).fit(X, y)
            intervals = [model.predict_interval(T, coverage=coverage) for coverage in (0.9, 0.95)]
            errors.append(t - model.predict(T))
            novelty.append(float(model.novelty(T).mean()))
        shares.append([interval_coverage(t, *each) for each in intervals])
        widths.append(float(np.median(intervals[0][1] - intervals[0][0])))
    low, high = np.quantile(np.concatenate(errors), [0.05, 0.95])
    return Result(
        name, *np.mean(shares, axis=0).tolist(), float(np.mean(novelty)), float(np.median(widths)), high - low
    )


def table(results: Sequence[Result]) -> list[str]:
    """The results as lines, in the order of the scenarios, and how many hold."""
    lines = [f"{'scenario':18} {'90 %':>6} {'95 %':>6} {'novelty':>7} {'width':>8} {'errors':>8}"]
    lines += [
        f"{r.name:18} {r.share_90:6.3f} {r.share_95:6.3f} {r.novelty:7.3f} {r.width:8.3f} {r.range:8.3f}"
        for r in results
    ]
    foreseen = [r for r in results if SCENARIOS[r.name] in FORESEEN]
    if len(results) > 1:
        held = sum(r.share_90 >= 0.8 for r in foreseen)
        lines.append(
            f"90 % intervals hold at least 80 % in {held} of the {len(foreseen)} that the rows could have foreseen"
        )
    return lines


def main(arguments: Sequence[str] = ()) -> None:
    run_sets("sure", __doc__, tuple(SCENARIOS), Result, measure, table, arguments)
