"""The judgement of a model by rows that were held out of its fit, as the model's file keeps it.

The model that `sodalite fit` writes has seen all rows, so that nobody can judge it by those held out later. What they
said is kept, in a form that is bounded: all numbers, and the predictions of at most `N_JUDGES` rows to draw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from .. import metrics
from ..core.json import plain
from ..core.types import Floats, Indices
from ..fitting.fitted import FittedModel
from ..posteriors.predictive import Predictive
from .honesty import LEVEL, ErrorHistogram, GroupCoverage, PitHistogram, by_region
from .judgement import N_JUDGES, Judgement, judgement_of
from .rows import Input
from .words import bars_of

DIGITS = 6  # significant digits of what is drawn
DRAWN = ("mean", "error", "std", "below", "above", "pit")
"""What is kept of every row that is drawn. `error` is the target less the mean, `below` and `above` the distances of
the mean from the ends of the 95 % interval."""
NUMBERS = ("rmse", "mean_rmse", "nlpd", "coverage", "r2", "outside")


def judge_held_out(
    model: FittedModel, X: Floats, y: Floats, found: Predictive, generator: np.random.Generator
) -> Judgement:
    """How good the predictions of rows were that had been held out; rows are grouped by the prediction.

    Parameters
    ----------
    model : GreedyGPRegressor
        Fitted without these rows.
    X : array of shape (rows, d)
    y : array of shape (rows,)
    found : Predictive
        The predictions, in units of y.
    generator : numpy.random.Generator
        For the rows that are drawn in pictures where there are many.
    """
    fitted = model.fitted_
    bars = bars_of(fitted.posterior)
    offset = None if fitted.mean_function.is_constant else fitted.scaling.mean + fitted.mean_function(X)
    novelty = fitted.posterior.novelty(X) if found.novelty is None else found.novelty
    return judgement_of(
        "held out",
        y,
        found,
        X=X,
        novelty=novelty,
        n_given=len(y),
        mean_rmse=None if offset is None else metrics.rmse(y, np.asarray(offset)[:, 0]),
        outside=None if bars is None else bars.outside,
        matters=None,
        drawn=np.sort(generator.permutation(len(y))[:N_JUDGES]),
    )


def by_input(
    judgement: Judgement, name: str, inputs: Sequence[Input], X: Floats, y: Floats, found: Predictive
) -> Judgement:
    """The judgement of `judge_held_out`, with rows grouped by the input of that name."""
    matters = next((part for part in inputs if part.name == name), None)
    inside = np.abs(2 * found.cumulative(y[:, None])[:, 0] - 1) <= LEVEL
    return replace(judgement, regions=by_region(X, found.mean[:, 0], inside, matters))


def judgement_to_json(found: Judgement) -> dict[str, Any]:
    """A judgement as JSON, for the file of a model."""
    rows = [found.mean, found.y - found.mean, found.std, found.mean - found.lower, found.upper - found.mean, found.pit]
    return {
        "n_judges": found.n_judges,
        "n_outside": found.n_outside,
        "coverages": found.coverages,
        **plain({name: getattr(found, name) for name in NUMBERS}),
        **plain({name: getattr(found, name) for name in ("levels", "shares", "low", "high")}, DIGITS),
        **plain({name: asdict(getattr(found, name)) for name in ("histogram", "errors")}, DIGITS),
        **{name: _packed_groups(getattr(found, name)) for name in ("regions", "distances")},
        "rows": plain(dict(zip(DRAWN, rows, strict=True)), DIGITS),
    }


def judgement_from_json(content: Any) -> Judgement:
    """The judgement from its JSON; all else is refused with a ValueError."""
    try:
        return _from_json(content)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        message = "the file's record of the rows held out makes no sense; fit the model again"
        raise ValueError(f"{message} ({type(error).__name__}: {error}).") from None


def _from_json(content: Any) -> Judgement:
    rows = {name: _floats(content["rows"][name]) for name in DRAWN}
    if len({len(part) for part in rows.values()}) > 1:
        raise ValueError("rows are not equally many")
    numbers = {name: None if content[name] is None else float(content[name]) for name in NUMBERS}
    mean, n = rows["mean"], int(content["n_judges"])
    curve = {name: _floats(content[name]) for name in ("levels", "shares", "low", "high")}
    bars, errors = content["histogram"], content["errors"]
    return Judgement(
        how="held out",
        n_judges=n,
        n_given=n,
        y=mean + rows["error"],
        mean=mean,
        std=rows["std"],
        lower=mean - rows["below"],
        upper=mean + rows["above"],
        pit=rows["pit"],
        rmse=_known(numbers["rmse"]),
        mean_rmse=numbers["mean_rmse"],
        nlpd=_known(numbers["nlpd"]),
        coverage=_known(numbers["coverage"]),
        coverages={str(level): float(share) for level, share in content["coverages"].items()},
        r2=_known(numbers["r2"]),
        **curve,
        histogram=PitHistogram(**{name: _floats(bars[name]) for name in ("density", "low", "high")}),
        errors=ErrorHistogram(
            edges=_floats(errors["edges"]),
            density=_floats(errors["density"]),
            expected=_floats(errors["expected"]),
            is_gaussian=bool(errors["is_gaussian"]),
        ),
        regions=_groups(content["regions"]),
        distances=_groups(content["distances"]),
        n_outside=None if content["n_outside"] is None else int(content["n_outside"]),
        outside=numbers["outside"],
    )


def _packed_groups(found: GroupCoverage | None) -> Any:
    return None if found is None else plain(asdict(found), DIGITS)


def _groups(content: Mapping[str, Any] | None) -> GroupCoverage | None:
    if content is None:
        return None
    labels = tuple(str(label) for label in content["labels"])
    counts: Indices = np.array([int(count) for count in content["counts"]])
    parts = [_floats(content[name]) for name in ("shares", "low", "high")]
    if any(len(part) != len(labels) for part in (counts, *parts)):
        raise ValueError("groups are not equally many")
    return GroupCoverage(str(content["by"]), labels, counts, *parts)


def _floats(values: Any) -> Floats:
    """A list of numbers as an array; null is NaN."""
    found = np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
    if not len(found):
        raise ValueError("there are no numbers")
    return found


def _known(value: float | None) -> float:
    return float("nan") if value is None else value
