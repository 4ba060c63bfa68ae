"""The facts about a fitted model, each computed once: what the terminal, the page, a notebook and JSON show of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, log
from typing import Any, NamedTuple

import numpy as np

from ..core.json import plain
from ..core.state import Converter
from ..core.types import Floats
from ..core.version import __version__
from ..core.words import counted
from ..fitting.advice import no_better_words
from ..fitting.fitted import FittedModel
from ..posteriors import Local
from ..posteriors.baselines import Baselines
from ..posteriors.calibration import COVERAGES, ErrorBars
from ..stopping import in_words
from .rows import inputs_of, target_of
from .words import POSTERIORS, KernelWords, bars_of, error_words, kernel_words, mean_words, readable

N_ROWS = 1000  # about how many rows the kernel is described by: a summary must not be waited for
WORTH_SAYING = 0.01  # share by which a typical error must be smaller than another to be called so
SIMPLE = {"sodalite": "this model", "linear": "a straight line", "constant": "the mean of all rows"}
"""Names of models for people."""


@dataclass(frozen=True)
class HeldOut:
    """How good a model was on rows that it had not seen."""

    model: str
    """"sodalite", or the name of a simpler model."""
    rmse: float
    nlpd: float | None = None
    """The mean negative log predictive density; None for a model without error bars."""
    coverage: float | None = None
    """The share of the targets in their 95 % intervals; None for a model without error bars."""
    coverages: dict[str, float] | None = None
    """The share of the targets in the intervals of each probability, "0.5", "0.8", "0.95" and "0.99"; None for a model
    without error bars."""

    @property
    def name(self) -> str:
        """The name of the model in a sentence."""
        return SIMPLE.get(self.model, f"the {self.model}")


@dataclass(frozen=True)
class ColumnRead:
    """How a column of the table was read."""

    name: str
    read_as: str
    """What it was read as, or why it was left out."""
    used: bool
    missing: int = 0
    """Missing values."""


class Grid(NamedTuple):
    """A table of texts."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Summary:
    """What there is to know of a fitted model without its rows."""

    target: str
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
    words: KernelWords
    errors: str
    """The distribution of errors that the model has learnt, in sentences."""
    mean: str
    """What is predicted before the Gaussian process, in sentences; empty for a constant that nothing competed with."""
    baselines: Baselines | None
    """The model beside simple ones by rows of the fit, each predicted from the others."""
    scores: tuple[HeldOut, ...]
    """The model and simpler ones: by rows held out, else by rows of the fit, each predicted from the others."""
    n_held_out: int
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
    def rows_kept(self) -> str:
        """How many rows the model keeps, and why no more."""
        return f"{self.n_active:,} row{'s' * (self.n_active != 1)} of {self.n_rows:,} ({in_words(self.stop_reason)})"

    @property
    def best_simple(self) -> HeldOut | None:
        """The simple model with the smallest error; None if none is known."""
        simple = [part for part in self.scores[1:] if isfinite(part.rmse)]
        return min(simple, key=lambda part: part.rmse, default=None)

    @property
    def gain(self) -> float | None:
        """The share by which the typical error is smaller than that of the best simple model."""
        best = self.best_simple
        return None if best is None or not best.rmse else 1 - self.scores[0].rmse / best.rmse

    @property
    def verdict(self) -> str:
        """The model beside the best simple one, in a sentence or two; empty if that is not known."""
        best, gain = self.best_simple, self.gain
        if best is None or gain is None:
            return ""
        if gain >= WORTH_SAYING:
            text = f"The typical error is {100 * gain:.0f} % smaller than that of the best simple way, {best.name}."
        else:
            text = f"The typical error is no smaller than that of the best simple way, {best.name}."
        advice = no_better_advice(self.scores, self.n_held_out, self.baselines, self.mean)
        return f"{text} {advice}" if advice else text

    def comparison(self) -> Grid:
        """The model and simpler ones in a table."""
        head = ["", "RMSE", "NLPD", *(f"in {100 * level:g} %" for level in COVERAGES)]
        return Grid(head, [[part.name, *score_cells(part.rmse, part.nlpd, part.coverages)] for part in self.scores])

    def lines(self) -> list[tuple[str, str]]:
        """The facts as headings and sentences, for a terminal, a page or a notebook."""
        missing = {part.name: part.missing for part in self.columns if part.missing}
        lines = [
            ("target", self.target),
            ("beside simple ways", self.verdict),
            ("inputs", self.words.inputs() if len(self.inputs) > 1 else ""),
            ("error bars", self.words.error_bars()),
            ("errors", self.errors),
            ("noise", self.words.noise()),
            ("function", self.words.shape),
            ("mean", self.mean),
            ("rows kept", self.rows_kept),
            ("predicts from", f"{POSTERIORS.get(self.posterior, self.posterior)} ({self.posterior})"),
            ("columns", "\n".join(self.notes)),
            ("missing", counted(missing) if missing else ""),
        ]
        return [(heading, text) for heading, text in lines if text]

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON; numbers that are not finite are null."""
        content: dict[str, Any] = plain(self)
        return content

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON that `from_json` reads, for the file of a model."""
        tree: dict[str, Any] = Converter().dump(self, Summary)[0]
        return tree

    @classmethod
    def from_json(cls, content: Any) -> Summary:
        """The summary from its JSON; all else is refused with a ValueError."""
        summary: Summary = Converter().load(content, cls, where="summary")
        return summary


def score_cells(rmse: float, nlpd: float | None, coverages: dict[str, float] | None) -> list[str]:
    """An RMSE, an NLPD and shares of rows in intervals as a table shows them; empty where they are not known."""
    density = "" if nlpd is None else f"{nlpd:.3f}" if abs(nlpd) < 1e4 else f"{nlpd:.1e}"
    shares = [coverages.get(f"{level:g}") if coverages else None for level in COVERAGES]
    held = ["" if share is None else f"{100 * share:.1f} %" for share in shares]
    return [readable(rmse, 4) if isfinite(rmse) else "-", density, *held]


def summarize(model: FittedModel, target: int = 0) -> Summary:
    """Summarize a fitted model; `target` is the number of the target, of several."""
    fitted, about = model.fitted_, getattr(model, "about_", None) or {}
    scale, bars = fitted.posterior.scale, bars_of(fitted.posterior)
    unit = float(fitted.scaling.std[target])
    criterion = model.get_params(deep=False)["criterion"]
    scores = tuple(HeldOut(**part) for part in about.get("test") or ())
    if not scores:
        scores = scores_left_out(model.baselines_, bars, fitted.scaling.std.tolist())
    known = about.get("kernel")
    words = kernel_words(model.kernel_, _some_rows(model), (), unit, unit**2, bars)
    return Summary(
        target=target_of(model, target),
        inputs=tuple(part.name for part in inputs_of(model)),
        data=str(about.get("data", "")),
        n_rows=fitted.n_rows,
        n_active=len(fitted.selection),
        stop_reason=fitted.selection.stop_reason,
        posterior=fitted.posterior.name,
        asks_neighbours=isinstance(fitted.posterior, Local),
        criterion=criterion if isinstance(criterion, str) else type(criterion).__name__,
        kernel=str(model.kernel_),
        words=KernelWords.from_dict(known) if known else words,
        errors=error_words(None if scale is None else scale.shape, target),
        mean=mean_words(fitted.mean_function),
        baselines=model.baselines_,
        scores=scores,
        n_held_out=int(about.get("n_test") or 0),
        columns=tuple(ColumnRead(**part) for part in about.get("columns") or ()),
        notes=tuple(about.get("notes") or ()),
        version=__version__,
    )


def _some_rows(model: FittedModel) -> Floats:
    """Rows of the fit to describe the kernel by."""
    fitted = model.fitted_
    known = fitted.X_active if fitted.rows is None else fitted.rows.X
    return np.asarray(known[:: max(len(known) // N_ROWS, 1)], dtype=np.float64)


def no_better_advice(scores: Sequence[HeldOut], n_held_out: int, baselines: Baselines | None, mean: str) -> str | None:
    """What to try where a model is no better than a simple one, by the rows that the scores are of; None if it is.

    `mean` says what the mean function of the model is; empty for a constant.
    """
    if baselines is None or not n_held_out:
        return None if baselines is None else no_better_words(baselines, mean or None)
    own, neighbours, line, constant = (part.rmse for part in scores)
    judged = Baselines(n_held_out, own, constant=constant, line=line, neighbours=neighbours, k=baselines.k)
    return no_better_words(judged, mean or None, "rows held out")


def scores_left_out(baselines: Baselines | None, bars: ErrorBars | None, units: Sequence[float]) -> tuple[HeldOut, ...]:
    """The model and simpler ones by rows of the fit, each predicted from the others; empty if that is not known."""
    own = left_out(bars, units)
    if baselines is None:
        return () if own is None else (own,)
    return own or HeldOut("sodalite", baselines.model), *simple_left_out(baselines)


def simple_left_out(baselines: Baselines) -> tuple[HeldOut, ...]:
    """Simple models by rows of the fit, each predicted from the others."""
    names = (nearest_words(baselines.k), "linear", "constant")
    errors = (baselines.neighbours, baselines.line, baselines.constant)
    return tuple(HeldOut(name, error) for name, error in zip(names, errors, strict=True))


def left_out(bars: ErrorBars | None, units: Sequence[float]) -> HeldOut | None:
    """The model by rows of its fit, each predicted from the others; None if that is not known.

    `units` are what one unit of each scaled target is, in units of the target.
    """
    if bars is None:
        return None
    # Densities are per unit of every target. Errors are scaled: with several targets, no unit is that of all of them.
    nlpd = None if bars.nlpd is None else bars.nlpd + sum(log(unit) for unit in units)
    rmse, coverages = bars.rmse * (float(units[0]) if len(units) == 1 else 1.0), by_level(bars.shares)
    return HeldOut("sodalite", rmse, nlpd, coverages["0.95"], coverages)


def nearest_words(k: int) -> str:
    """The name of the mean of the k nearest rows."""
    return "nearest row" if k == 1 else f"{k} nearest rows"


def by_level(shares: Sequence[float]) -> dict[str, float]:
    """Shares of rows in the intervals of `COVERAGES`, by these probabilities."""
    return {f"{level:g}": share for level, share in zip(COVERAGES, shares, strict=True)}
