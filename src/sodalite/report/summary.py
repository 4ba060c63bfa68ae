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
from ..fitting.fitted import FittedModel
from ..posteriors import Local
from ..posteriors.baselines import Baselines
from ..posteriors.calibration import COVERAGES
from ..stopping import in_words
from .inputs import inputs_of, targets_of
from .judgement import Judgement, Scores, by_level
from .words import POSTERIORS, TargetSummary, away_words, bars_of, error_words, kernel_shape, mean_words, readable

N_ROWS = 1000  # about how many rows the kernel is described by: a summary must not be waited for
WORTH_SAYING = 0.01  # share by which a typical error must be smaller than another to be called so
SIMPLE = {"sodalite": "this model", "linear": "a straight line", "constant": "the mean of all rows"}
"""Names of models for people."""
IN_NOTEBOOK = ("target", "beside simple ways", "error bars", "noise", "function", "rows kept")
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
    baselines: Baselines | None
    """The model beside simple ones by rows of the fit, each predicted from the others."""
    scores: tuple[Scores, ...]
    """The model and simpler ones: by rows held out, else by rows of the fit, each predicted from the others."""
    n_held_out: int
    away: str
    """How well rows are predicted away from the others, in a sentence; empty if that is not known."""
    columns: tuple[ColumnRead, ...]
    """The columns of the table; empty where there was none."""
    notes: tuple[str, ...]
    """What was noticed in the table, and what was done about it."""
    version: str
    """Of the library that made the summary."""

    @property
    def judged_by(self) -> str:
        """Which rows the scores are of."""
        if self.n_held_out:
            return f"{self.n_held_out:,} rows held out"
        return "" if self.baselines is None else f"{self.baselines.n_rows:,} rows, each predicted from the others"

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
    def _judged(self) -> Baselines | None:
        """The errors of the model and of simple ones, by the rows that the scores are of."""
        if self.baselines is None or not self.n_held_out:
            return self.baselines
        own, neighbours, line, constant = (part.rmse for part in self.scores)
        return replace(
            self.baselines, n_rows=self.n_held_out, model=own, constant=constant, line=line, neighbours=neighbours
        )

    @property
    def advice(self) -> str:
        """A warning where the model is no better than a simple one, and what to try; empty if it is better."""
        by = {"judged_by": "rows held out"} if self.n_held_out else {}
        return "" if self._judged is None else no_better_words(self._judged, self.mean or None, **by) or ""

    @property
    def remedy(self) -> str:
        """What to try where the model is no better than a simple one; empty if it is better."""
        return "" if self._judged is None else remedy_words(self._judged, self.mean or None)

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
        """The model and simpler ones, or other scores, as the head and the rows of a table."""
        head = ["", "RMSE", "NLPD", *(f"in {100 * level:g} %" for level in COVERAGES)]
        return head, [_cells(part) for part in more or self.scores]

    def lines(self) -> list[tuple[str, str]]:
        """The facts as headings and sentences, for a terminal, a page or a notebook."""
        lines = [("beside simple ways", self.verdict)]
        for target in self.targets:
            lines += [
                ("target", target.name),
                ("inputs", target.inputs if len(self.inputs) > 1 else ""),
                ("error bars", target.error_bars),
                ("errors", target.errors),
                ("noise", target.noise),
            ]
        lines += [
            ("away from rows", self.away),
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


def _cells(scores: Scores) -> list[str]:
    """A row of a comparison: empty where a number is not known."""
    rmse, nlpd = scores.rmse, scores.nlpd
    density = "" if nlpd is None else f"{nlpd:.3f}" if abs(nlpd) < 1e4 else f"{nlpd:.1e}"
    shares = [scores.coverages.get(f"{level:g}") if scores.coverages else None for level in COVERAGES]
    held = ["" if share is None else f"{100 * share:.1f} %" for share in shares]
    return [simple_name(scores), readable(rmse, 4) if isfinite(rmse) else "-", density, *held]


def record_of(model: FittedModel) -> Record:
    """What `sodalite fit` noted of a model; empty for another, and without judgement if rows came later."""
    record = getattr(model, "about_", None)
    if not isinstance(record, Record):
        return Record()
    return record if record.n_rows == model.fitted_.n_rows else Record(record.data, 0, record.notes, record.columns)


def summarize(model: FittedModel) -> Summary:
    """Summarize a fitted model."""
    fitted, record = model.fitted_, record_of(model)
    scale, bars, held_out = fitted.posterior.scale, bars_of(fitted.posterior), record.judgement
    criterion = model.get_params(deep=False)["criterion"]
    rows, shape = _some_rows(model), None if scale is None else scale.shape
    units = fitted.units
    variances = (units**2 if fitted.targets is None else np.var(np.asarray(fitted.targets), axis=0)).tolist()
    targets = [
        TargetSummary.of(
            model.kernel_,
            rows,
            name,
            importance=record.importance,
            unit=unit,
            variance=record.variance or variances[at],
            bars=bars,
            errors=error_words(shape, at),
        )
        for at, (name, unit) in enumerate(zip(targets_of(model), units.tolist(), strict=True))
    ]
    return Summary(
        targets=tuple(targets),
        inputs=tuple(part.name for part in inputs_of(model)),
        data=record.data,
        n_rows=fitted.n_rows,
        n_active=len(fitted.selection),
        stop_reason=fitted.selection.stop_reason,
        posterior=fitted.posterior.name,
        asks_neighbours=isinstance(fitted.posterior, Local),
        criterion=criterion if isinstance(criterion, str) else type(criterion).__name__,
        kernel=str(model.kernel_),
        shape=kernel_shape(model.kernel_, rows),
        mean=mean_words(fitted.mean_function, fitted.target),
        baselines=model.baselines_,
        scores=_scores_left_out(model) if held_out is None else (held_out.scores, *record.simple),
        n_held_out=0 if held_out is None else held_out.n_judges,
        away=away_words(fitted.judged, fitted.target.is_linear),
        columns=record.columns,
        notes=record.notes,
        version=__version__,
    )


def _some_rows(model: FittedModel) -> Floats:
    """Rows of the fit to describe the kernel by."""
    fitted = model.fitted_
    known = fitted.X_active if fitted.rows is None else fitted.rows.X
    return np.asarray(known[:: max(len(known) // N_ROWS, 1)], dtype=np.float64)


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
