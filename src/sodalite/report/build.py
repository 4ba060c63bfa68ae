"""A report as data: everything that the page shows, thinned, and nothing about how it looks."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.json import plain
from ..exceptions import JitterWarning
from ..fitting.fitted import FittedModel
from ..hyperparameters import Round
from ..tables.encoder import without_pipeline
from .ahead import Ahead, ahead
from .importance import Importance, importance, totals
from .judgement import Judgement, judge
from .pictures import (
    LEAST_INPUTS,
    N_INPUTS,
    N_PAIRS,
    Effect,
    Interaction,
    PosteriorView,
    effects,
    interactions,
    posterior_view,
)
from .rows import Material, gather
from .stages import LearningCurve, Stages, learning_curve
from .summary import Summary, record_of, summarize
from .words import HARDLY, TargetSummary


@dataclass(frozen=True)
class Report:
    """All numbers and words that a report shows of a fitted model."""

    summary: Summary
    target: TargetSummary
    """The target that is shown, of those in the summary."""
    importance: Importance
    """What each input brings to the predictions' variance."""
    sources: tuple[str, ...]
    """What the pictures are made from and what judges the model, in sentences."""
    curve: LearningCurve | None
    """None where all rows are active, and none had to be chosen."""
    judgement: Judgement
    view: PosteriorView | None
    """The function of the one or two inputs that matter most; None if fewer than two of several are numbers."""
    ahead: Ahead | None
    """The last stretches of time, predicted from what came before; None without a time."""
    effects: tuple[Effect, ...]
    """What each input does; empty where the view shows all of the function."""
    interactions: tuple[Interaction, ...]
    """What pairs of inputs do together; empty where none do."""
    history: tuple[Round, ...]
    """How the kernel was found."""

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON, numbers to six digits."""
        content: dict[str, Any] = plain(self, digits=6)
        return content


def make_report(model: FittedModel, X: Any = None, y: Any = None, *, target: int = 0, random_state: int = 0) -> Report:
    """Compute all numbers and words that a report shows of a fitted model.

    Parameters
    ----------
    model : GreedyGPRegressor
        Fitted, or loaded from a file; or a pipeline of a `sodalite.TableEncoder` and a fitted model.
    X, y : array-like of shape (n, d) and (n,), optional
        Rows to judge the model by. Those that the fit has not seen judge it if there are at least 30 of them. If there
        are none, and `sodalite fit` has held out rows, what these said is in the model's file and is shown. Else rows
        of the fit judge it, each predicted from the others: those given or, without X and y, those that the model
        holds, which are all, or, if it comes from a file and its posterior is not "local", the active ones.
    target : int, default=0
        Which target, of several.
    random_state : int, default=0
        For the rows that are drawn where there are too many.

    Returns
    -------
    Report

    Examples
    --------
    >>> from sodalite import GreedyGPRegressor
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> model = GreedyGPRegressor(n_active=10, hyperparameters="fixed", random_state=0).fit(X, np.sin(X[:, 0]))
    >>> report = make_report(model)
    >>> report.summary.n_active, report.view.stages.tolist()
    (10, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    """
    model = without_pipeline(model)
    check_is_fitted(model, "posterior_")
    material = gather(model, X, y, target)
    draws = partial(np.random.default_rng, random_state)  # every part has draws of its own
    stages = Stages.of_model(material)
    shares = importance(material.predictions, material.pool.X, material.inputs, draws())
    names = [effect.name for effect in shares.effects]
    judgement = judge(material, draws(), next(part for part in material.inputs if part.name == names[0]))
    curve = None
    if material.selection.is_ranked:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", JitterWarning)  # of random subsets, which the model does not use
            curve = learning_curve(material, stages, draws())
        curve = replace(curve, finished=judgement.rmse, words=judgement.words)
    held_out, summary = record_of(model).judgement, summarize(model)
    if held_out is not None and material.how != "unseen" and target == 0:
        judgement = held_out
    shown = summary.targets[target]
    matter = sum(effect.total > HARDLY for effect in shares.effects)
    return Report(
        summary=summary,
        target=shown if shown.importance else replace(shown, importance=totals(shares)),
        importance=shares,
        sources=_sources(material, judgement),
        curve=curve,
        judgement=judgement,
        view=posterior_view(material, stages, draws(), names),
        ahead=ahead(model, material, draws()),
        effects=() if material.plain else effects(material, names[: min(max(matter, LEAST_INPUTS), N_INPUTS)], draws()),
        interactions=interactions(material, shares.pairs[:N_PAIRS], draws()),
        history=tuple(model.rounds_),
    )


def _sources(material: Material, judgement: Judgement) -> tuple[str, ...]:
    """Which rows are shown and which judge the model, in two sentences."""
    n, m, n_given, unseen = material.fitted.n_rows, len(material.active), material.n_given, material.n_unseen
    all_unseen, how = len(material.judges) == n_given, judgement.how
    if n_given:
        shown = f"{n_given:,} row{'s' * (n_given > 1)} of yours {'are' if n_given > 1 else 'is'} shown."
    elif material.whole:
        shown = f"Made from the {n:,} rows of the fit, which the model holds."
    else:
        shown = f"Made from the {m:,} rows that the model keeps, of {n:,} in the fit."
    words = {
        "held out": f"Judged by {judgement.words}.",
        "unseen": "The fit has not seen them, so they judge the model fairly."
        if all_unseen
        else f"{n_given - unseen:,} were in the fit; the other {unseen:,} judge the model.",
        "active": "They were chosen, not drawn at random, so they say little about new rows. Give it rows to judge it "
        "by.",
        "unsure": f"{int((material.judges.place >= 0).sum()):,} of them are among the {m:,} rows that the model keeps; "
        "which of the others were in the fit, its file does not say. Rows that the fit has seen make a model look a "
        "little better than it is.",
        "left out": f"{'The fit has seen them' if n_given else 'No other rows were given'}, so each row that judges "
        "the model is predicted from the others.",
    }
    if unseen and how == "left out":
        few = (
            f"Only {unseen:,} of them {'have' if unseen > 1 else 'has'} not been in the fit: too few to judge the model"
        )
        return shown, f"{few} by. The others judge it, each predicted from the rest of the fit."
    return shown, words[how]
