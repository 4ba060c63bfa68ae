"""The facts about a fitted model, each computed once: what the terminal, the page, a notebook and JSON show of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from html import escape
from math import isfinite, log
from typing import Any

import numpy as np

from ..core.state import Converter
from ..core.types import Floats
from ..core.version import __version__
from ..core.words import counted
from ..fitting.advice import no_better_words, remedy_words
from ..fitting.fitted import Fitted, FittedModel
from ..posteriors import Local
from ..posteriors.baselines import Baselines
from ..posteriors.calibration import AWAY_COVERAGE, COVERAGES
from ..stopping import in_words
from .inputs import inputs_of, targets_of
from .judgement import Judgement, Scores, by_level
from .words import (
    POSTERIORS,
    TargetSummary,
    bars_of,
    distribution_words,
    kernel_shape,
    mean_words,
    readable,
)

N_ROWS = 1000  # about how many rows the kernel is described by: a summary must not be waited for
N_LEFT_OUT = 200  # rows by which each of several targets is judged: its RMSE to about 5 %
WORTH_SAYING = 0.01  # share by which a typical error must be smaller than another to be called so
SIMPLE = {"sodalite": "this model", "linear": "a straight line", "constant": "the mean of all rows"}
"""Names of models for people."""
IN_NOTEBOOK = ("target", "beside simple ways", "typical error", "error bars", "noise", "function", "rows kept")
"""Headings of the facts that a notebook shows."""
STYLE = "margin:.6em 0;padding:.5em .8em;max-width:42em;border-left:3px solid #0072b2;font:.9em/1.5 sans-serif"


@dataclass(frozen=True)
class ColumnRead:
    """How a column of the table was read."""

    name: str
    read_as: str
    """What it was read as, or why it was left out."""
    used: bool
    missing: int = 0
    """Missing values."""


WHERE = {
    "near": "among them",
    "holes": "in holes between them",
    "ends": "beyond their ends",
}
"""How far rows are from those that they are predicted from, in words."""


@dataclass(frozen=True)
class Distance:
    """How well rows are predicted that are so far from the rows that they are predicted from."""

    where: str
    """A key of `WHERE`."""
    n_rows: int
    rmse: float
    """In units of `Summary.unit`."""
    level: float
    """The probability of the intervals that are counted."""
    share: float
    """The share of the targets in them."""

    @property
    def cells(self) -> list[str]:
        """A row of a table with the columns of `Summary.by_distance`."""
        held = f"{100 * self.share:.0f} % of {100 * self.level:.0f} %"
        return [WHERE[self.where], f"{self.n_rows:,}", readable(self.rmse, 4), held]


@dataclass(frozen=True)
class Record:
    """What `sodalite fit` notes in the file of a model, since the model itself does not tell."""

    data: str = ""
    """Where the rows came from."""
    n_rows: int = 0
    notes: tuple[str, ...] = ()
    """What was noticed in the table, and what was done about it."""
    columns: tuple[ColumnRead, ...] = ()
    importance: tuple[tuple[str, float], ...] = ()
    """The inputs' shares of the predictions' variance; empty if they were not measured."""
    variance: float | None = None
    """The target's variance."""
    judgement: Judgement | None = None
    """How good the model was on rows held out; None if there were none."""
    simple: tuple[Scores, ...] = ()
    """How good simpler models were on them."""


@dataclass(frozen=True)
class Summary:
    """What there is to know of a fitted model without its rows."""

    targets: tuple[TargetSummary, ...]
    inputs: tuple[str, ...]
    data: str
    """Where the rows of the fit came from; empty if that is not known."""
    n_rows: int
    n_active: int
    stop_reason: str
    posterior: str
    asks_neighbours: bool
    """Whether each prediction also uses the rows nearest to it."""
    criterion: str
    kernel: str
    shape: str
    """The kinds of covariance in the kernel."""
    mean: str
    """What is predicted before the Gaussian process, in sentences; empty for a constant that nothing competed with."""
    scores: tuple[Scores, ...]
    """The model, the nearest rows, a line and a constant: by rows held out, else by rows of the fit, left out."""
    n_held_out: int
    n_judges: int
    """How many rows the scores are of."""
    n_nearest: int
    """How many of the nearest rows the simple model averages; 0 if that is not known."""
    distances: tuple[Distance, ...]
    """How good predictions are among the rows of the fit and, if that is known, away from them."""
    columns: tuple[ColumnRead, ...]
    """The columns of the table; empty where there was none."""
    notes: tuple[str, ...]
    """What was noticed in the table, and what was done about it."""
    version: str
    """Of the library that made the summary."""

    @property
    def judged_by(self) -> str:
        """Which rows the scores are of."""
        how = " rows held out" if self.n_held_out else " rows, each predicted from the others"
        return f"{self.n_judges:,}{how}" if self.n_judges else ""

    @property
    def unit(self) -> str:
        """What the typical errors are in units of."""
        return self.targets[0].name if len(self.targets) == 1 else "each target's standard deviation"

    @property
    def missing(self) -> dict[str, int]:
        """For each column of the table that misses values, how many."""
        return {part.name: part.missing for part in self.columns if part.missing}

    @property
    def rows_kept(self) -> str:
        """How many rows the model keeps, and why no more."""
        return f"{self.n_active:,} row{'s' * (self.n_active != 1)} of {self.n_rows:,} ({in_words(self.stop_reason)})"

    @property
    def predicts_from(self) -> str:
        """Which rows predictions are made from."""
        return f"{POSTERIORS.get(self.posterior, self.posterior)} ({self.posterior})"

    @property
    def best_simple(self) -> Scores | None:
        """The simple model with the smallest error; None if none is known."""
        simple = [part for part in self.scores[1:] if isfinite(part.rmse)]
        return min(simple, key=lambda part: part.rmse, default=None)

    @property
    def gain(self) -> float | None:
        """The share by which the typical error is smaller than that of the best simple model."""
        best = self.best_simple
        return None if best is None or not best.rmse else 1 - self.scores[0].rmse / best.rmse

    @property
    def _baselines(self) -> Baselines | None:
        """The scores as the advice takes them; None if simple models are not known."""
        if len(self.scores) < 4:
            return None
        own, neighbours, line, constant = (part.rmse for part in self.scores)
        return Baselines(self.n_judges, own, constant, line, neighbours, self.n_nearest)

    @property
    def advice(self) -> str:
        """A warning where the model is no better than a simple one, and what to try; empty if it is better."""
        by = {"judged_by": "rows held out"} if self.n_held_out else {}
        return "" if self._baselines is None else no_better_words(self._baselines, self.mean or None, **by) or ""

    @property
    def remedy(self) -> str:
        """What to try where the model is no better than a simple one; empty if it is better."""
        return "" if self._baselines is None else remedy_words(self._baselines, self.mean or None)

    @property
    def verdict(self) -> str:
        """The model beside the best simple one, in a sentence or two; empty if that is not known."""
        best, gain = self.best_simple, self.gain
        if best is None or gain is None:
            return ""
        size = f"{100 * gain:.0f} % smaller" if gain >= WORTH_SAYING else "no smaller"
        words = f"The typical error is {size} than that of the best simple way, {simple_name(best)}."
        return f"{words} {self.remedy}".strip()

    def comparison(self, *more: Scores) -> tuple[list[str], list[list[str]]]:
        """The model and simpler ones, or other scores, as the head and the rows of a table.

        Cells are empty where a number is not known.
        """
        rows = []
        for part in more or self.scores:
            density = "" if part.nlpd is None else f"{part.nlpd:.3f}" if abs(part.nlpd) < 1e4 else f"{part.nlpd:.1e}"
            shares = [part.coverages.get(f"{level:g}") if part.coverages else None for level in COVERAGES]
            held = ["" if share is None else f"{100 * share:.1f} %" for share in shares]
            rows.append([simple_name(part), readable(part.rmse, 4) if isfinite(part.rmse) else "-", density, *held])
        return ["", "RMSE", "NLPD", *(f"in {100 * level:g} %" for level in COVERAGES)], rows

    def by_distance(self) -> tuple[list[str], list[list[str]]]:
        """The errors by distance from the rows, as the head and the rows of a table; without rows if not known."""
        head = ["by distance from the other rows", "rows", "RMSE", "in their intervals"]
        return head, [part.cells for part in self.distances] if len(self.distances) > 1 else []

    def lines(self) -> list[tuple[str, str]]:
        """The facts as headings and sentences, for a terminal, a page or a notebook."""
        lines = [("beside simple ways", self.verdict)]
        for target in self.targets:
            lines += [
                ("target", target.name),
                ("inputs", target.inputs if len(self.inputs) > 1 else ""),
                ("typical error", target.typical_error),
                ("error bars", target.error_bars),
                ("errors", target.errors),
                ("noise", target.noise),
            ]
        lines += [
            ("function", self.shape),
            ("mean", self.mean),
            ("rows kept", self.rows_kept),
            ("predicts from", self.predicts_from),
            ("columns", "\n".join(self.notes)),
            ("missing", counted(self.missing) if self.missing else ""),
        ]
        return [(heading, text) for heading, text in lines if text]

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON that `from_json` reads, for the file of a model."""
        tree: dict[str, Any] = Converter().dump(self, Summary)[0]
        return tree

    @classmethod
    def from_json(cls, content: Any) -> Summary:
        """The summary from its JSON; all else is refused with a ValueError."""
        summary: Summary = Converter().load(content, cls, where="summary")
        return summary


def with_summary(model: Any, html: str) -> str:
    """Scikit-learn's HTML of an estimator, for a notebook, with a few facts below it if the model is fitted."""
    if not hasattr(model, "fitted_"):
        return html
    shown = [(heading, text) for heading, text in summarize(model).lines() if heading in IN_NOTEBOOK]
    lines = "".join(f"<div><b>{escape(heading)}:</b> {escape(text)}</div>" for heading, text in shown)
    return f'{html}<div style="{STYLE}">{lines}</div>'


def simple_name(scores: Scores) -> str:
    """The name of a model in a sentence."""
    return SIMPLE.get(scores.model, f"the {scores.model}")


def record_of(model: FittedModel) -> Record:
    """What `sodalite fit` noted of a model; empty for another, and without judgement if rows came later."""
    record = getattr(model, "about_", None)
    if not isinstance(record, Record):
        return Record()
    return record if record.n_rows == model.fitted_.n_rows else Record(record.data, 0, record.notes, record.columns)


def summarize(model: FittedModel) -> Summary:
    """Summarize a fitted model."""
    fitted, record = model.fitted_, record_of(model)
    held_out, baselines = record.judgement, model.baselines_
    criterion = model.get_params(deep=False)["criterion"]
    known = fitted.X_active if fitted.rows is None else fitted.rows.X
    X = np.asarray(known[:: max(len(known) // N_ROWS, 1)], dtype=np.float64)
    scores = _scores_left_out(model) if held_out is None else (held_out.scores, *record.simple)
    n_held_out = 0 if held_out is None else held_out.n_judges
    n_judges = n_held_out or (0 if baselines is None else baselines.n_rows)
    return Summary(
        targets=_targets(model, record, X),
        inputs=tuple(part.name for part in inputs_of(model)),
        data=record.data,
        n_rows=fitted.n_rows,
        n_active=len(fitted.selection),
        stop_reason=fitted.selection.stop_reason,
        posterior=fitted.posterior.name,
        asks_neighbours=isinstance(fitted.posterior, Local),
        criterion=criterion if isinstance(criterion, str) else type(criterion).__name__,
        kernel=str(model.kernel_),
        shape=kernel_shape(model.kernel_, X),
        mean=mean_words(fitted.mean_function, fitted.target),
        scores=scores,
        n_held_out=n_held_out,
        n_judges=n_judges,
        n_nearest=0 if baselines is None else baselines.k,
        distances=_distances(fitted, scores, n_judges),
        columns=record.columns,
        notes=record.notes,
        version=__version__,
    )


def _targets(model: FittedModel, record: Record, X: Floats) -> tuple[TargetSummary, ...]:
    """What the model says of each target; X are rows of the fit by which the kernel is described."""
    fitted, bars = model.fitted_, bars_of(model.fitted_.posterior)
    widths = () if fitted.posterior.scale is None else fitted.posterior.scale.widths
    variances = fitted.units**2 if fitted.targets is None else np.var(np.asarray(fitted.targets), axis=0)
    which = np.unique(np.linspace(0, fitted.n_rows - 1, N_LEFT_OUT).astype(int))
    left_out = fitted.left_out(which) if fitted.q > 1 else None
    targets = []
    for at, name in enumerate(targets_of(model)):
        variance = record.variance or float(variances[at])
        errors = distribution_words(widths[at].standard, widths[at].by_place) if widths else distribution_words(None)
        unit = float(fitted.units[at])
        target = TargetSummary.of(model.kernel_, X, name, record.importance, unit, variance, bars, errors)
        if left_out is not None:
            distribution, y = left_out
            inside = np.abs(2 * distribution.cumulative(y)[:, at] - 1) <= 0.95
            rmse = float(np.sqrt(np.mean(np.square(y - distribution.mean)[:, at])))
            target = replace(target, rmse=rmse, coverage=float(np.mean(inside)))
        targets.append(target)
    return tuple(targets)


def _distances(fitted: Fitted, scores: tuple[Scores, ...], n_rows: int) -> tuple[Distance, ...]:
    """The errors among the rows, by the scores of so many rows, and those away from them."""
    near = []
    if scores and scores[0].coverages:
        near.append(Distance("near", n_rows, scores[0].rmse, 0.95, scores[0].coverages["0.95"]))
    t, target = fitted.targets_active, fitted.target
    t = fitted.scaling.undone(fitted.y_active) if t is None else np.asarray(t)

    def in_units(rmse: float) -> float:
        """An RMSE on the scale on which the target is learnt, in units of the target: how far it changes targets."""
        if target.is_linear:
            return rmse
        return float(np.sqrt(np.mean(np.square(target.undone(t + rmse) - target.undone(t - rmse)))) / 2)

    away = [Distance(part.where, part.n_rows, in_units(part.rmse), AWAY_COVERAGE, part.share) for part in fitted.judged]
    return (*near, *away)


def _scores_left_out(model: FittedModel) -> tuple[Scores, ...]:
    """The model and simpler ones by rows of the fit, each predicted from the others; empty if that is not known."""
    bars, units, baselines = bars_of(model.fitted_.posterior), model.fitted_.units.tolist(), model.baselines_
    own = () if baselines is None else (Scores(rmse=baselines.model),)
    if bars is not None:
        # Densities are per unit of every target. Errors are scaled: with several, no unit is that of all of them.
        nlpd = None if bars.nlpd is None else bars.nlpd + sum(log(unit) for unit in units)
        rmse = bars.rmse * (float(units[0]) if len(units) == 1 else 1.0)
        own = (Scores(rmse=rmse, nlpd=nlpd, coverages=by_level(bars.shares)),)
    if baselines is None:
        return own
    names = (nearest_words(baselines.k), "linear", "constant")
    errors = (baselines.neighbours, baselines.line, baselines.constant)
    return *own, *(Scores(model=name, rmse=error) for name, error in zip(names, errors, strict=True))


def nearest_words(k: int) -> str:
    """The name of the mean of the k nearest rows."""
    return "nearest row" if k == 1 else f"{k} nearest rows"
