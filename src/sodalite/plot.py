"""The data of a report drawn by matplotlib.

`plot` returns a display, as scikit-learn's plots do: its attributes ``ax_`` and ``figure_`` are where it was drawn, and
``data`` holds the numbers, which are those of the HTML report (`sodalite.report`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .core.optional import require
from .core.validation import unknown
from .fitting.fitted import FittedModel
from .report.build import importance_of
from .report.importance import Importance
from .report.judgement import Judgement, judge
from .report.pictures import N_INPUTS, Effect, PosteriorView, effects, posterior_view
from .report.rows import Material, gather
from .report.stages import LearningCurve, Stages, learning_curve

# Colours of Okabe and Ito, which colour-blind people can tell apart, and a grey.
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#777777"

COLUMNS = 3  # the most plots side by side: a figure of three is as wide as a page


class Display:
    """What was drawn of a model, and where."""

    ax_: Any
    """The axes; an array of them where there are several."""
    figure_: Any
    """Their figure."""

    def __init__(self, kind: str, data: Any, target: str) -> None:
        self.kind, self.data, self.target = kind, data, target

    def plot(self, ax: Any = None, **options: Any) -> Self:
        """Draw it, on new axes by default; a posterior takes `stage`, how many rows are active: one of ``data.stages``.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a sequence of them for several inputs.
        """
        count, size = KINDS[self.kind].axes(self.data)
        if ax is None:
            across, down = min(count, COLUMNS), -(-count // COLUMNS)
            subplots, shape = require("matplotlib.pyplot", "plot").subplots, (size[0] * across, size[1] * down)
            ax = subplots(down, across, figsize=shape, squeeze=False, layout="constrained")[1].ravel()
            for spare in ax[count:]:
                spare.remove()
            ax = ax[:count]
        axes = list(np.ravel(ax))
        if len(axes) != count:
            raise ValueError(f"ax must be {count} axes for this display; got {len(axes)}.")
        KINDS[self.kind].draw(axes, self.data, _literal(self.target), **options)
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
        What to draw: the rows, the active ones and the prediction with its 95 % interval; RMSE against the number of
        active rows, beside that of random rows; the share of rows in intervals of each probability; what each input
        brings to the predictions' variance; or the prediction as one input changes, averaged over rows, with a band of
        at least 95 % without the noise. None means "posterior" for one or two inputs that are numbers, and
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


# --- what each kind computes, and how it is drawn ---


def _view(material: Material, generator: np.random.Generator) -> PosteriorView:
    view = posterior_view(material, Stages.of_model(material), generator) if material.plain else None
    if view is None:
        raise ValueError("the posterior can be drawn for one or two inputs that are numbers; this model has others.")
    return view


def _draw_view(axes: list[Any], view: PosteriorView, target: str, stage: int | None = None) -> None:
    (ax,), place, count = axes, -1, len(view.active_X)
    if stage is not None:
        if stage not in view.stages:
            raise ValueError(f"stage must be one of {view.stages.tolist()}; got {stage!r}.")
        place, count = int(np.searchsorted(view.stages, stage)), stage
    names = [_literal(part.name) + " (days since 1970)" * (part.kind == "date") for part in view.inputs]
    if len(view.axes) == 1:
        x = view.axes[0]
        ax.fill_between(x, view.lower[place], view.upper[place], color=BLUE, alpha=0.18, lw=0, label="95 % interval")
        ax.plot(view.X[:, 0], view.y, ".", color=GREY, ms=3, alpha=0.6, label="rows")
        ax.plot(x, view.mean[place], color=BLUE, label="prediction")
        ax.plot(view.active_X[:count, 0], view.active_y[:count], "k.", ms=5, label="active rows")
        ax.set(xlabel=names[0], ylabel=target)
        ax.legend(frameon=False)
        return
    mean = view.mean[place].reshape(len(view.axes[1]), len(view.axes[0]))
    ax.figure.colorbar(ax.contourf(*view.axes, mean, levels=16, cmap="cividis"), ax=ax, label=target)
    ax.plot(*view.X.T, ".", color="0.75", ms=2, alpha=0.7, label="rows")
    ax.plot(*view.active_X[:count].T, "o", mfc="black", mec="white", ms=5, label="active rows")
    x_ends, y_ends = ((axis[0], axis[-1]) for axis in view.axes)
    ax.set(xlabel=names[0], ylabel=names[1], xlim=x_ends, ylim=y_ends)
    ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)


def _curve(material: Material, generator: np.random.Generator) -> LearningCurve:
    if not material.selection.is_ranked:
        raise ValueError(
            "all rows of this model are active and none had to be chosen, so there is no learning curve; fit it with a "
            "smaller n_active, or rank the rows with sodalite.select."
        )
    return learning_curve(material, Stages.of_model(material), generator)


def _draw_curve(axes: list[Any], curve: LearningCurve, target: str) -> None:
    (ax,), t, drawn = axes, curve.random_stages, curve.random_rmse
    if curve.rmse is None or drawn is None:
        ax.plot(curve.stages, curve.remainder, color=BLUE, label="rows not chosen yet")
    else:
        ax.fill_between(t, drawn.min(axis=0), drawn.max(axis=0), color=VERMILION, alpha=0.15, lw=0)
        ax.plot(t, drawn.mean(axis=0), "--", color=VERMILION, label="random rows")
        ax.plot(curve.stages, curve.rmse, color=BLUE, label="chosen rows")
    if curve.noise > 0:
        ax.axhline(curve.noise, color=GREY, ls=":", label="noise")
    ax.set(xscale="log", yscale="log", xlabel="active rows", ylabel=f"RMSE, {target}")
    ax.legend(frameon=False)


def _draw_calibration(axes: list[Any], judgement: Judgement, target: str) -> None:
    (ax,), shares = axes, judgement.levels
    ax.fill_between(shares.honest, shares.low, shares.high, color=GREY, alpha=0.25, lw=0, label="chance allows")
    ax.plot([0, 1], [0, 1], ":", color=GREY, label="honest error bars")
    ax.plot(shares.honest, shares.shares, "o-", color=BLUE, ms=4, label="this model")
    ax.set(xlabel="the interval should hold", ylabel="it holds", xlim=(0, 1.02), ylim=(0, 1.02))
    ax.set_title(f"{judgement.n_judges:,} rows", fontsize="medium")
    ax.legend(frameon=False)


def _draw_importance(axes: list[Any], importance: Importance, target: str) -> None:
    (ax,), effects, height = axes, importance.effects, 0.38
    place = np.arange(len(effects))
    sides = [("alone", "first", GREY, -height / 2), ("alone and with others", "total", BLUE, height / 2)]
    for label, name, color, shift in sides:
        values = [getattr(part, name) for part in effects]
        errors = [getattr(part, f"{name}_error") for part in effects]
        ax.barh(place + shift, values, height, xerr=errors, color=color, label=label, ecolor="0.4", capsize=2)
    ax.set_yticks(place, [_literal(part.name) for part in effects])
    ax.invert_yaxis()
    ax.set_xlabel("share of the predictions' variance")
    ax.legend(frameon=False)


def _effects(material: Material, generator: np.random.Generator) -> tuple[Effect, ...]:
    names = [effect.name for effect in importance_of(material, generator).effects]
    return effects(material, names[:N_INPUTS], generator)


def _draw_effects(axes: list[Any], effects: tuple[Effect, ...], target: str) -> None:
    ends = min(float(part.lower.min()) for part in effects), max(float(part.upper.max()) for part in effects)
    for ax, part in zip(axes, effects, strict=True):
        if part.input.levels:
            bars = np.maximum([part.mean - part.lower, part.upper - part.mean], 0)
            at = np.arange(len(part.values))
            ax.errorbar(at, part.mean, yerr=bars, color=BLUE, fmt="o", capsize=2)
            ax.set_xticks(at, [_literal(part.input.levels[int(place)]) for place in part.values])
        else:
            ax.fill_between(part.values, part.lower, part.upper, color=BLUE, alpha=0.18, lw=0)
            ax.plot(part.values, part.mean, color=BLUE)
        ax.set(xlabel=_literal(part.input.name), ylabel=target, ylim=ends)


def _literal(name: str) -> str:
    """A name that matplotlib shows as it is: text between dollar signs would be read as a formula."""
    return name.replace("$", r"\$")


class Kind(NamedTuple):
    """A kind of plot."""

    compute: Callable[[Material, np.random.Generator], Any]
    draw: Callable[..., None]
    axes: Callable[[Any], tuple[int, tuple[float, float]]] = lambda data: (1, (6.4, 4.2))
    """How many axes the data need, and the size of each in inches."""


KINDS = {
    "posterior": Kind(_view, _draw_view),
    "learning": Kind(_curve, _draw_curve),
    "calibration": Kind(judge, _draw_calibration),
    "importance": Kind(importance_of, _draw_importance, lambda data: (1, (6.4, 1.4 + 0.45 * len(data.effects)))),
    "dependence": Kind(_effects, _draw_effects, lambda data: (len(data), (3.4, 2.8))),
}
