"""What each stage of the error bars is worth: log density and coverage without it.

The default is fitted to samples of real sets, to maps with holes, and to scenarios of `sure`. Then its error bars are
learnt again without one of their stages, everything else being the same. Shown are the means over the sets of a kind:
by how much minus the mean log density rises without the stage, and the share of new rows in 90 % intervals.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from unittest import mock

import numpy as np

from sodalite import GreedyGPRegressor
from sodalite.posteriors import Posterior, calibration, shape

from .common import load, run_sets
from .holes import cut
from .holes import load as load_map
from .sure import SCENARIOS, Problem

MOST, MOST_NEW = 3000, 2000  # rows of a fit, and rows that are predicted
REPETITIONS = 4  # of a scenario
MOST_LOST = 10.0  # nats that a row may lose in the mean, so that one hopeless repetition does not decide
NEAR = ("concrete", "airfoil", "mauna_loa_weekly", "protein", "kin40k", "bike_noleak", "keggdirected")
MAPS = ("jacksboro_dem", "topobathy", "us_elevation")
FORESEEN = (
    *("control", "exponential", "quadratic", "far_off", "random_walk", "nearly_copies", "new_groups", "loud_half"),
    *("near_a_jump", "breaks_before", "eight_rows"),
)
SETS = (*(f"near {name}" for name in NEAR), *(f"holes {name}" for name in MAPS), *(f"sure {name}" for name in FORESEEN))
KINDS = {"near": "among the rows", "holes": "in holes", "sure": "scenarios"}


@dataclass(frozen=True)
class Learnt:
    """What the error bars of a model were learnt from."""

    posterior: Posterior
    arguments: tuple

    def scale(self, **changes: object) -> calibration.Scale:
        """The error bars with changes of `Judging`."""
        rows, found, judging = self.arguments
        return self.posterior.scale_from(rows, found, replace(judging, **changes))


def _without(module: object, **values: object) -> Callable[[Learnt], calibration.Scale]:
    def learn(learnt: Learnt) -> calibration.Scale:
        with mock.patch.multiple(module, **values):
            return learnt.scale()

    return learn


def _without_pairs(learnt: Learnt) -> calibration.Scale:
    with mock.patch.object(type(learnt.posterior), "correlations", return_value=None):
        return learnt.scale()


def _without_growth(learnt: Learnt) -> calibration.Scale:
    together = learnt.arguments[2].together
    if together is not None:
        together = replace(together, beyond=np.zeros_like(together.beyond))
    scale = learnt.scale(together=together)
    return replace(scale, widths=tuple(replace(width, growth=0 * width.growth) for width in scale.widths))


STAGES: dict[str, Callable[[Learnt], calibration.Scale]] = {
    "all stages": Learnt.scale,
    "errors near by": _without(calibration, FEW=10**9),
    "novelty, near the rows": _without(calibration, KNOWN=1e9),
    "pairs": _without_pairs,
    "rows left out together": lambda learnt: learnt.scale(together=None),
    "middle of gaps": _without(shape, MIDDLE=1e-6),
    "growth beyond the ends": _without_growth,
    "caution": _without(shape, CAUTION=0.0, END_CAUTION=0.0),
    "optimism": lambda learnt: learnt.scale(optimism=1.0),
    "tails of a t": _without(shape, NU=(999.0, 1000.0)),
    "skewness": _without(shape, DEGREES=()),
}


@dataclass(frozen=True)
class Result:
    """What was measured on a set: for every stage, NLPD and the share in 90 % intervals without it."""

    name: str
    rows: int
    without: dict[str, tuple[float, ...]] = field(default_factory=dict)


def problems(name: str) -> list[Problem] | None:
    """Rows and queries of a set; None if it is not to be had."""
    kind, which = name.split()
    generator = np.random.default_rng(0)
    if kind == "sure":
        return [SCENARIOS[which](np.random.default_rng(seed)) for seed in range(REPETITIONS)]
    if kind == "holes":
        found = load_map(which)
        if found is None:
            return None
        X, y = (part[: 2 * MOST] for part in found)
        gone = cut(X, "clouds", generator)
        y = (y - y[~gone].mean()) / y[~gone].std()
        data = X[~gone], y[~gone], X[gone], y[gone]
    else:
        data = load(which)
        if data is None:
            return None
    some, new = (generator.permutation(len(part))[:most] for part, most in ((data[0], MOST), (data[2], MOST_NEW)))
    return [(data[0][some], data[1][some], data[2][new], data[3][new])]


def measure(name: str) -> Result | None:
    found = problems(name)
    if found is None:
        return None
    measured, last, whole = {stage: [] for stage in STAGES}, [], Posterior.scale_from

    def scale_from(self, *arguments):
        last.append(Learnt(self, arguments))
        return whole(self, *arguments)

    for X, y, T, t in found:
        with warnings.catch_warnings(), mock.patch.object(Posterior, "scale_from", scale_from):
            warnings.simplefilter("ignore")
            model = GreedyGPRegressor(random_state=0).fit(X, y)
            learnt, fitted = last[-1], model.fitted_
            for stage, learn in STAGES.items():
                model.fitted_ = replace(fitted, posterior=replace(fitted.posterior, scale=learn(learnt)))
                density = np.clip(model.log_density(T, t).mean(), -MOST_LOST, None)
                measured[stage].append((-density, np.mean(np.abs(2 * model.pit(T, t) - 1) <= 0.9)))
    return Result(name, len(found[0][0]), {stage: tuple(np.mean(each, axis=0)) for stage, each in measured.items()})


def table(results: Sequence[Result]) -> list[str]:
    """The results as lines: means over the sets of every kind."""
    of_kind = {kind: [result for result in results if result.name.startswith(kind)] for kind in KINDS}
    of_kind = {kind: some for kind, some in of_kind.items() if some}
    lines = [
        f"{'':24} " + "   ".join(f"{f'{KINDS[kind]} ({len(some)})':>20}" for kind, some in of_kind.items()),
        f"{'without':24} " + "   ".join(f"{'NLPD':>10} {'in 90 %':>9}" for _ in of_kind),
    ]
    for stage in STAGES:
        cells = []
        for some in of_kind.values():
            found, whole = (np.mean([each.without[what] for each in some], axis=0) for what in (stage, "all stages"))
            shown = f"{found[0]:10.3f}" if stage == "all stages" else f"{found[0] - whole[0]:+10.3f}"
            cells.append(f"{shown} {found[1]:9.3f}")
        lines.append(f"{'(all stages)' if stage == 'all stages' else stage:24} " + "   ".join(cells))
    return lines


def main(arguments: Sequence[str] = ()) -> None:
    run_sets("ablation", __doc__, SETS, Result, measure, table, arguments)
