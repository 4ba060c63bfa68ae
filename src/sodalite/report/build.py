"""A report as data: everything that the page shows, thinned, and nothing about how it looks."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..core.jitter import JitterWarning
from ..core.json import plain
from ..fitting.fitted import FittedModel
from ..tables.encoder import without_pipeline
from .held_out import judgement_from_json
from .importance import Importance, importance
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
from .summary import Summary, summarize
from .words import HARDLY, KernelWords, bars_of, kernel_words

N_WORDS = 100_000  # most rows whose spread a kernel is described by: more change the words no longer


@dataclass(frozen=True)
class Attempt:
    """A round of the search for the kernel's parameters, as the report shows it."""

    name: str
    objective: float
    """Log density per target value of rows that the round did not use; more is better."""
    kept: bool
    seconds: float
    n_active: int | None
    """Active rows that the round conditioned on; None if it needs none."""
    kernel: str


@dataclass(frozen=True)
class Report:
    """All numbers and words that a report shows of a fitted model."""

    summary: Summary
    importance: Importance | None
    """What each input brings to the predictions' variance; None for one input."""
    sources: tuple[str, ...]
    """What the pictures are made from and what judges the model, in sentences."""
    curve: LearningCurve | None
    """None where all rows are active, and none had to be chosen."""
    judgement: Judgement
    view: PosteriorView | None
    """The function of the one or two inputs that matter most; None if fewer than two of several are numbers."""
    effects: tuple[Effect, ...]
    """What each input does; empty where the view shows all of the function."""
    interactions: tuple[Interaction, ...]
    """What pairs of inputs do together; empty where none do."""
    history: tuple[Attempt, ...]

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
    generator = np.random.default_rng(random_state)
    stages = stages_of(material)
    found = importance_of(material, np.random.default_rng(random_state))
    names = [effect.name for effect in found.effects]
    matters = next(part for part in material.inputs if part.name == names[0])
    curve = None
    if material.selection.is_ranked:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", JitterWarning)  # of random subsets, which are no part of the model
            curve = learning_curve(material, stages, generator)
    judgement = judge(material, stages, generator, matters)
    if curve is not None:
        curve = replace(curve, finished=judgement.rmse, words=judgement.words)
    if (kept := kept_judgement(model)) is not None and material.how != "unseen" and target == 0:
        judgement = kept
    summary = summarize(model, target)
    if material.whole or not summary.words.importance:
        summary = replace(summary, words=words_of(model, material, found))
    return Report(
        summary=summary,
        importance=found if len(names) > 1 else None,
        sources=_sources(material, judgement),
        curve=curve,
        judgement=judgement,
        view=posterior_view(material, stages, generator, names),
        effects=() if material.plain else effects(material, _worth_showing(found), generator),
        interactions=interactions(material, found.pairs[:N_PAIRS], np.random.default_rng(random_state)),
        history=tuple(
            Attempt(part.name, part.objective, part.kept, part.seconds, part.n_active, str(part.kernel))
            for part in model.rounds_
        ),
    )


def kept_judgement(model: FittedModel) -> Judgement | None:
    """How good the model was by rows held out, as its file says; None if it does not, or rows came later."""
    about = getattr(model, "about_", None) or {}
    content = about.get("judgement")
    return None if content is None or about.get("n_rows") != model.fitted_.n_rows else judgement_from_json(content)


def stages_of(material: Material) -> Stages:
    """The stages of the model's own selection, from its factor."""
    base = material.base
    return Stages(
        material.kernel,
        base.rows,
        np.asarray(base.inverse, dtype=np.float64),
        np.asarray(base.z[:, material.active.target], dtype=np.float64),
        float(material.selection.noise_floor),
    )


def _worth_showing(found: Importance) -> list[str]:
    """The inputs whose effects are drawn: those that matter, most important first, and a few in any case."""
    matter = sum(effect.total > HARDLY for effect in found.effects)
    return [effect.name for effect in found.effects][: min(max(matter, LEAST_INPUTS), N_INPUTS)]


def importance_of(material: Material, generator: np.random.Generator) -> Importance:
    """What each input brings to the predictions' variance, by the rows at hand."""
    return importance(material.predictions, material.pool.X, material.inputs, generator)


def words_of(model: FittedModel, material: Material, found: Importance) -> KernelWords:
    """The kernel in words, by the rows at hand."""
    pool = material.pool
    variance = float(np.var(material.in_units(pool.y, pool.own_offset)))
    bars = bars_of(material.posterior)
    return kernel_words(model.kernel_, pool.X[:N_WORDS], found.shares, material.unit, variance, bars)


def _sources(material: Material, judgement: Judgement) -> tuple[str, ...]:
    """Which rows are shown and which judge the model, in sentences."""
    n, m = material.n_rows, len(material.active)
    if judgement.how == "held out":
        if material.n_given:
            made = f"{material.n_given:,} row{'s' * (material.n_given > 1)} of the fit were given, and are shown."
        elif material.whole:
            made = f"Made from the {n:,} rows of the fit, which the model holds."
        else:
            made = f"Made from the {m:,} rows that the model keeps, of {n:,} in the fit."
        judges = f"The {judgement.n_judges:,} rows that the fit held out judge the model, as they did then"
        return made, f"{judges}: it had not seen them when it predicted them."
    if not material.n_given:
        if material.whole:
            return (
                f"Made from the {n:,} rows of the fit, which the model holds.",
                "No other rows were given, so each row that judges the model is predicted from the others.",
            )
        return (
            f"The model keeps {m:,} rows of the {n:,} in the fit, and no others were given.",
            "They were chosen, not drawn at random, so they say little about new rows. Give it rows to judge it by.",
        )
    given = f"{material.n_given:,} row{'s were' if material.n_given != 1 else ' was'} given"
    if material.how == "unseen":
        count = len(material.judges)
        if count == material.n_given:
            return (f"{given}, and are what is shown. The fit has not seen them, so they judge the model fairly.",)
        seen = f"{material.n_given - count:,} were in the fit; the other {count:,} judge the model."
        return (f"{given}, and are what is shown. {seen}",)
    if material.how == "left out":
        unseen = material.n_unseen
        if not unseen:
            return (f"{given}, and the fit has seen them: each that judges the model is predicted from the others.",)
        have = "has" if unseen == 1 else "have"
        return (
            f"{given}, of which {unseen:,} {have} not been in the fit: too few to judge the model by. The others judge "
            "it, each predicted from the rest of the fit.",
        )
    return (
        f"{given}. {int((material.judges.place >= 0).sum()):,} of them are among the {m:,} rows that the model keeps; "
        "which of the others were in the fit, its file does not say. Rows that the fit has seen make a model look "
        "a little better than it is.",
    )
