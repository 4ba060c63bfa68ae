"""The figures of a report drawn by matplotlib.

`plot` returns a display, as scikit-learn's plots do: its attributes ``ax_`` and ``figure_`` are where it was drawn, and
``data`` holds the numbers, which are those of the HTML report (`sodalite.report`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import unescape
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .core.optional import require
from .core.validation import unknown
from .fitting.fitted import FittedModel
from .report import figures
from .report.figures import Figure, Trace
from .report.importance import Importance, importance
from .report.judgement import judge
from .report.pictures import N_INPUTS, Effect, PosteriorView, effects, posterior_view
from .report.rows import Material, gather
from .report.stages import LearningCurve, Stages, learning_curve

# Colours of Okabe and Ito, which colour-blind people can tell apart, and a grey.
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#777777"
COLOURS = {"blue": BLUE, "orange": VERMILION, "green": "#009E73", "text": "black", "surface": "white", "clear": "none"}
"""What the names of colours in figures are; all others are grey."""
DASHES = {"solid": "-", "dash": "--", "dot": ":"}
COLUMNS = 3  # the most plots side by side: a figure of three is as wide as a page


class Display:
    """What was drawn of a model, and where."""

    ax_: Any
    """The axes; an array of them where there are several."""
    figure_: Any
    """Their figure."""

    def __init__(self, kind: str, data: Any, target: str) -> None:
        self.kind, self.data, self.target = kind, data, target

    def plot(self, ax: Any = None, stage: int | None = None) -> Self:
        """Draw it, on new axes by default.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a sequence of them for several inputs.
        stage : int, optional
            Of a posterior, how many rows are active: one of ``data.stages``. By default it is the finished model.
        """
        drawn = KINDS[self.kind].figures(self.data, self.target)
        count, place = len(drawn), -1
        if stage is not None:
            if stage not in self.data.stages:
                raise ValueError(f"stage must be one of {self.data.stages.tolist()}; got {stage!r}.")
            place = int(np.searchsorted(self.data.stages, stage))
        if ax is None:
            across, down = min(count, COLUMNS), -(-count // COLUMNS)
            wide, high = (6.4, drawn[0].height / 85) if count == 1 else (3.4, 2.8)
            subplots = require("matplotlib.pyplot", "plot").subplots
            ax = subplots(down, across, figsize=(wide * across, high * down), squeeze=False, layout="constrained")
            ax = ax[1].ravel()
            for spare in ax[count:]:
                spare.remove()
            ax = ax[:count]
        axes = list(np.ravel(ax))
        if len(axes) != count:
            raise ValueError(f"ax must be {count} axes for this display; got {len(axes)}.")
        for one, figure in zip(axes, drawn, strict=True):
            _draw(one, figure, place, stage)
        self.ax_, self.figure_ = axes[0] if count == 1 else np.array(axes, dtype=object), axes[0].figure
        return self


def plot(
    model: FittedModel,
    kind: str | None = None,
    X: Any = None,
    y: Any = None,
    *,
    ax: Any = None,
    target: int = 0,
    random_state: int = 0,
) -> Display:
    """Draw a fitted model.

    Parameters
    ----------
    model : GreedyGPRegressor
        Fitted.
    kind : {"posterior", "learning", "calibration", "importance", "dependence"}, default=None
        What to draw: the rows, those that the model keeps and the prediction with its 95 % interval; RMSE against the
        number of rows kept, beside that of random rows; the share of rows in intervals of each probability; what each
        input brings to the predictions' variance; or the prediction as one input changes, averaged over rows, with a
        band of at least 95 % without the noise. None means "posterior" for one or two inputs that are numbers, and
        "dependence" for more. Intervals are by the distribution of errors that the model has learnt.
    X, y : array-like, optional
        Rows to show and to judge by; by default those that the model holds.
    ax : matplotlib axes, optional
        Where to draw; for "dependence", as many as there are inputs, and at most six. New ones by default.
    target : int, default=0
        Which target, of several.
    random_state : int, default=0
        For the rows that are drawn where there are too many.

    Returns
    -------
    The display; its attributes ``ax_`` and ``figure_`` are where it was drawn.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sodalite import GreedyGPRegressor
    >>> X = np.linspace(0, 10, 60)[:, None]
    >>> model = GreedyGPRegressor(n_active=10, hyperparameters="fixed", random_state=0).fit(X, np.sin(X[:, 0]))
    >>> plot(model).ax_.get_ylabel()
    'y'
    """
    check_is_fitted(model, "posterior_")
    if kind is not None and kind not in KINDS:
        raise unknown("kind", KINDS, kind)
    material = gather(model, X, y, target)
    kind = kind or ("posterior" if material.plain else "dependence")
    data = KINDS[kind].compute(material, np.random.default_rng(random_state))
    return Display(kind, data, material.name).plot(ax=ax)


# --- figures on matplotlib's axes ---


def _draw(ax: Any, figure: Figure, place: int, count: int | None) -> None:
    """Draw a figure at a position of its slider, with so many of the rows kept; None for all."""
    changes, below = figure.frames[place] if figure.frames else {}, None
    for at, trace in enumerate(figure.data):
        part = {**trace, **changes.get(at, {})}
        x, y, label = _values(part["x"]), _values(part["y"]), part.get("name") or None
        if part["type"] == "heatmap":
            shown = ax.pcolormesh(x, y, part["z"], cmap=part["colorscale"].lower(), shading="gouraud")
            ax.figure.colorbar(shown, ax=ax)
        elif part["type"] == "bar":
            _draw_bars(ax, part, x, y, at)
        elif "fill" in part:
            ax.fill_between(x, below, y, color=_colour(part["fillcolor"]), alpha=0.18, lw=0, label=label)
        elif part["mode"] == "lines":
            below, style = y, part["line"]
            if style["width"]:  # the lower end of a band is not drawn
                ax.plot(x, y, DASHES[style["dash"]], color=_colour(style["color"]), label=label)
        elif "error_y" in part:
            ends = [part["error_y"][name] for name in ("arrayminus", "array")]
            ax.errorbar(x, y, yerr=ends, color=BLUE, fmt="o", capsize=2)
        elif part.get("meta") != "next" and len(x):
            size, colour = part["marker"]["size"], _colour(part["marker"]["color"])
            kept = slice(count if part.get("meta") == "so far" else None)
            mark = {"diamond": "D", "x": "x"}.get(part["marker"].get("symbol", ""), "o")
            edge = "white" if part.get("meta") == "so far" else colour
            ax.plot(x[kept], y[kept], mark, color=colour, mec=edge, mew=0.6, ms=0.7 * size, label=label)
    for name in ("x", "y"):
        axis = figure.layout[f"{name}axis"]
        ax.set(**{f"{name}label": _literal(axis["title"]["text"])})
        if axis.get("type") == "log":
            ax.set(**{f"{name}scale": "log"})
        if "ticktext" in axis:
            ax.set(**{f"{name}ticks": axis["tickvals"], f"{name}ticklabels": axis["ticktext"]})
            ax.tick_params(name, labelsize="x-small")
        if "range" in axis:
            ax.set(**{f"{name}lim": _values(axis["range"])})
        if axis.get("autorange") == "reversed" and not ax.yaxis_inverted():
            ax.invert_yaxis()
    if figure.layout.get("showlegend", True) and ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), ncols=4)


def _draw_bars(ax: Any, part: Trace, x: Any, y: Any, at: int) -> None:
    """Bars: of horizontal ones, two beside each other for every label."""
    colour, label = _colour(part["marker"]["color"]), part["name"]
    if part.get("orientation") != "h":
        ax.bar(x, y, 0.7, bottom=part["base"], color=colour, alpha=0.25, label=label)
        return
    height, ends = 0.38, [part["error_x"][name] for name in ("arrayminus", "array")]
    places = np.arange(len(y))
    ax.barh(places + (at - 0.5) * height, x, height, xerr=ends, color=colour, label=label, ecolor="0.4", capsize=2)
    ax.set_yticks(places, [_literal(name) for name in y])


def _values(values: Sequence[Any]) -> Any:
    """What matplotlib draws: dates and numbers as such, levels by their names."""
    if len(values) and isinstance(values[0], str):
        try:
            return np.array(values, dtype="datetime64[s]")
        except ValueError:
            return [_literal(value) for value in values]
    return np.asarray(values)


def _colour(name: str) -> str:
    return COLOURS.get(name.removeprefix("@").removesuffix("_band"), GREY)


def _literal(name: str) -> str:
    """A name that matplotlib shows as it is: text between dollar signs would be read as a formula."""
    return unescape(name).replace("$", r"\$")


# --- what each kind computes, and its figures ---


def _view(material: Material, generator: np.random.Generator) -> PosteriorView:
    view = posterior_view(material, Stages.of_model(material), generator) if material.plain else None
    if view is None:
        raise ValueError("the posterior can be drawn for one or two inputs that are numbers; this model has others.")
    return view


def _curve(material: Material, generator: np.random.Generator) -> LearningCurve:
    if not material.selection.is_ranked:
        raise ValueError(
            "all rows of this model are active and none had to be chosen, so there is no learning curve; fit it with a "
            "smaller n_active, or rank the rows with sodalite.select."
        )
    return learning_curve(material, Stages.of_model(material), generator)


def _shares(material: Material, generator: np.random.Generator) -> Importance:
    return importance(material.predictions, material.pool.X, material.inputs, generator)


def _effects(material: Material, generator: np.random.Generator) -> tuple[Effect, ...]:
    names = [effect.name for effect in _shares(material, generator).effects]
    return effects(material, names[:N_INPUTS], generator)


class Kind(NamedTuple):
    """A kind of plot."""

    compute: Callable[[Material, np.random.Generator], Any]
    figures: Callable[[Any, str], list[Figure]]
    """The figures of what was computed, and of the target's name."""


KINDS = {
    "posterior": Kind(_view, lambda view, target: list(figures.views(view).values())[:1]),
    "learning": Kind(_curve, lambda curve, target: [figures.learning(curve, target)]),
    "calibration": Kind(
        judge,
        lambda judgement, target: [
            figures.shares(judgement.levels, "probability of the intervals", "rows in their intervals, %")
        ],
    ),
    "importance": Kind(_shares, lambda shares, target: [figures.bars(shares, len(shares.effects))]),
    "dependence": Kind(_effects, lambda effects, target: list(figures.lines(effects, target))),
}
