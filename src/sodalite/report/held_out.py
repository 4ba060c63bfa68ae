"""The judgement of a model by rows that were held out of its fit, as the model's file keeps it.

The model that `sodalite fit` writes has seen all rows, so that nobody can judge it by those held out later. What they
said is kept, in a form that is bounded: all numbers, and the predictions of at most `N_JUDGES` rows to draw. Targets
and ends of intervals are kept as distances from the mean, of which few digits are enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import metrics
from ..core.state import Converter
from ..core.types import Floats
from ..fitting.fitted import FittedModel
from ..posteriors.predictive import Predictive
from .honesty import LEVEL, by_region
from .judgement import N_JUDGES, Judgement, judgement_of
from .rows import Input
from .words import bars_of

DIGITS = 6  # significant digits of what is drawn


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
    mean = found.mean
    relative = replace(found, y=found.y - mean, lower=mean - found.lower, upper=found.upper - mean)
    tree: dict[str, Any] = _rounded(Converter().dump(relative, Judgement, in_tree=True)[0])
    return tree


def judgement_from_json(content: Any) -> Judgement:
    """The judgement from its JSON; all else is refused with a ValueError."""
    try:
        found: Judgement = Converter().load(content, Judgement, where="judgement")
        return replace(found, y=found.mean + found.y, lower=found.mean - found.lower, upper=found.mean + found.upper)
    except (TypeError, ValueError) as error:
        message = "the file's record of the rows held out makes no sense; fit the model again"
        raise ValueError(f"{message} ({type(error).__name__}: {error}).") from None


def _rounded(tree: Any) -> Any:
    """The JSON of `sodalite.core.state` with the numbers of arrays rounded to `DIGITS`."""
    if not isinstance(tree, dict):
        return tree
    if "array" in tree:
        return {**tree, "array": [float(f"{x:.{DIGITS}g}") if isinstance(x, float) else x for x in tree["array"]]}
    return {name: _rounded(part) for name, part in tree.items()}
