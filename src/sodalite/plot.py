"""Pictures of a fitted model on matplotlib's axes.

Each is a display, as in scikit-learn: ``from_estimator`` computes what it shows, ``plot`` draws it, and the attributes
``ax_`` and ``figure_`` are where it was drawn. The numbers are those of the HTML report (`sodalite.report`). `plot`
chooses the display that suits the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, TypeAlias

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

Axes: TypeAlias = Any  # matplotlib's, which is an extra

# Colours of Okabe and Ito, which colour-blind people can tell apart, and a grey.
BLUE, VERMILION, GREY = "#0072B2", "#D55E00", "#777777"

COLUMNS = 3  # the most plots side by side: a figure of three is as wide as a page


def _literal(name: str) -> str:
    """A name that matplotlib shows as it is: text between dollar signs would be read as a formula."""
    return name.replace("$", r"\$")


class _Display:
    """The base class of all displays."""

    ax_: Any
    """The axes; an array of them where there are several."""
    figure_: Any
    """Their figure."""

    @classmethod
    def from_estimator(
        cls, model: FittedModel, X: Any = None, y: Any = None, *, ax: Any = None, target: int = 0, random_state: int = 0
    ) -> Self:
        """Compute what the display shows, and draw it.

        Parameters
        ----------
        model : GreedyGPRegressor
            Fitted.
        X, y : array-like, optional
            Rows to show and to judge by; by default those that the model holds.
        ax : matplotlib axes, optional
            Where to draw; a sequence of them for a display that needs several. New ones by default.
        target : int, default=0
            Which target, of several.
        random_state : int, default=0
            For the rows that are drawn where there are too many.
        """
        check_is_fitted(model, "posterior_")
        material = gather(model, X, y, target)
        return cls._of(model, material, np.random.default_rng(random_state)).plot(ax=ax)

    @classmethod
    def _of(cls, model: FittedModel, material: Material, generator: np.random.Generator) -> Self:
        """Compute what the display shows."""
        raise NotImplementedError

    def plot(self, ax: Any = None) -> Self:
        """Draw the display, on new axes by default."""
        raise NotImplementedError

    def _axes(self, ax: Any, count: int = 1, size: tuple[float, float] = (6.4, 4.2)) -> list[Axes]:
        """The axes to draw on, those given or new ones of a size in inches; sets `ax_` and `figure_`."""
        if ax is None:
            across = min(count, COLUMNS)
            down = -(-count // across)
            subplots, shape = require("matplotlib.pyplot", "plot").subplots, (size[0] * across, size[1] * down)
            ax = subplots(down, across, figsize=shape, squeeze=False, layout="constrained")[1].ravel()
            for spare in ax[count:]:
                spare.remove()
            ax = ax[:count]
        axes = list(np.ravel(ax))
        if len(axes) != count:
            raise ValueError(f"ax must be {count} axes for this display; got {len(axes)}.")
        self.ax_ = axes[0] if count == 1 else np.array(axes, dtype=object)
        self.figure_ = axes[0].figure
        return axes


@dataclass(kw_only=True, eq=False, repr=False)
class LearningCurveDisplay(_Display):
    """RMSE against the number of active rows, beside that of random rows."""

    curve: LearningCurve
    target: str = "target"
    """The target's name."""

    @classmethod
    def _of(cls, model: FittedModel, material: Material, generator: np.random.Generator) -> Self:
        if not material.selection.is_ranked:
            raise ValueError(
                "all rows of this model are active and none had to be chosen, so there is no learning curve; fit it "
                "with a smaller n_active, or rank the rows with sodalite.select."
            )
        return cls(curve=learning_curve(material, Stages.of_model(material), generator), target=material.name)

    def plot(self, ax: Any = None) -> Self:
        (ax,) = self._axes(ax)
        curve, t, drawn = self.curve, self.curve.random_stages, self.curve.random_rmse
        if curve.rmse is None or drawn is None:
            ax.plot(curve.stages, curve.remainder, color=BLUE, label="rows not chosen yet")
        else:
            ax.fill_between(t, drawn.min(axis=0), drawn.max(axis=0), color=VERMILION, alpha=0.15, lw=0)
            ax.plot(t, drawn.mean(axis=0), "--", color=VERMILION, label="random rows")
            ax.plot(curve.stages, curve.rmse, color=BLUE, label="chosen rows")
        if curve.noise > 0:
            ax.axhline(curve.noise, color=GREY, ls=":", label="noise")
        ax.set(xscale="log", yscale="log", xlabel="active rows", ylabel=f"RMSE, {_literal(self.target)}")
        ax.legend(frameon=False)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class PosteriorDisplay(_Display):
    """The rows, the active ones and the prediction with its 95 % interval, for one or two inputs.

    The finished model's interval is by the distribution of errors that it has learnt, a stage's that of the Gaussian
    process given the rows chosen so far.
    """

    view: PosteriorView

    @classmethod
    def _of(cls, model: FittedModel, material: Material, generator: np.random.Generator) -> Self:
        view = posterior_view(material, Stages.of_model(material), generator) if material.plain else None
        if view is None:
            raise ValueError(
                "the posterior can be drawn for one or two inputs that are numbers; this model has others."
            )
        return cls(view=view)

    def plot(self, ax: Any = None, stage: int | None = None) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; new ones by default.
        stage : int, optional
            How many rows are active, one of ``view.stages``; by default the finished model is drawn.
        """
        view, place, count = self.view, -1, len(self.view.active_X)
        if stage is not None:
            if stage not in view.stages:
                raise ValueError(f"stage must be one of {view.stages.tolist()}; got {stage!r}.")
            place, count = int(np.searchsorted(view.stages, stage)), stage
        (ax,) = self._axes(ax)
        names = [_literal(part.name) + " (days since 1970)" * (part.kind == "date") for part in view.inputs]
        if len(view.axes) == 1:
            x = view.axes[0]
            ax.fill_between(
                x, view.lower[place], view.upper[place], color=BLUE, alpha=0.18, lw=0, label="95 % interval"
            )
            ax.plot(view.X[:, 0], view.y, ".", color=GREY, ms=3, alpha=0.6, label="rows")
            ax.plot(x, view.mean[place], color=BLUE, label="prediction")
            ax.plot(view.active_X[:count, 0], view.active_y[:count], "k.", ms=5, label="active rows")
            ax.set(xlabel=names[0], ylabel=_literal(view.target))
            ax.legend(frameon=False)
            return self
        mean = view.mean[place].reshape(len(view.axes[1]), len(view.axes[0]))
        drawn = ax.contourf(*view.axes, mean, levels=16, cmap="cividis")
        self.figure_.colorbar(drawn, ax=ax, label=_literal(view.target))
        ax.plot(*view.X.T, ".", color="0.75", ms=2, alpha=0.7, label="rows")
        ax.plot(*view.active_X[:count].T, "o", mfc="black", mec="white", ms=5, label="active rows")
        (left, right), (bottom, top) = ((axis[0], axis[-1]) for axis in view.axes)
        ax.set(xlabel=names[0], ylabel=names[1], xlim=(left, right), ylim=(bottom, top))
        ax.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class CalibrationDisplay(_Display):
    """The share of the rows in intervals of each probability; on the diagonal, the error bars are honest.

    The intervals are by the distribution of errors that the model has learnt.
    """

    judgement: Judgement

    @classmethod
    def _of(cls, model: FittedModel, material: Material, generator: np.random.Generator) -> Self:
        return cls(judgement=judge(material, generator))

    def plot(self, ax: Any = None) -> Self:
        (ax,) = self._axes(ax)
        found = self.judgement.levels
        ax.fill_between(found.honest, found.low, found.high, color=GREY, alpha=0.25, lw=0, label="chance allows")
        ax.plot([0, 1], [0, 1], ":", color=GREY, label="honest error bars")
        ax.plot(found.honest, found.shares, "o-", color=BLUE, ms=4, label="this model")
        ax.set(xlabel="the interval should hold", ylabel="it holds", xlim=(0, 1.02), ylim=(0, 1.02))
        ax.set_title(f"{self.judgement.n_judges:,} rows", fontsize="medium")
        ax.legend(frameon=False)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class ImportanceDisplay(_Display):
    """What each input brings to the predictions' variance, alone and together with others, with standard errors."""

    importance: Importance

    @classmethod
    def _of(cls, model: FittedModel, material: Material, generator: np.random.Generator) -> Self:
        return cls(importance=importance_of(material, generator))

    def plot(self, ax: Any = None) -> Self:
        effects = self.importance.effects
        (ax,) = self._axes(ax, size=(6.4, 1.4 + 0.45 * len(effects)))
        place, height = np.arange(len(effects)), 0.38
        sides = [("alone", "first", GREY, -height / 2), ("alone and with others", "total", BLUE, height / 2)]
        for label, name, color, shift in sides:
            values = [getattr(part, name) for part in effects]
            errors = [getattr(part, f"{name}_error") for part in effects]
            ax.barh(place + shift, values, height, xerr=errors, color=color, label=label, ecolor="0.4", capsize=2)
        ax.set_yticks(place, [_literal(part.name) for part in effects])
        ax.invert_yaxis()
        ax.set_xlabel("share of the predictions' variance")
        ax.legend(frameon=False)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class PartialDependenceDisplay(_Display):
    """The prediction when one input changes, averaged over rows, with a band of at least 95 %.

    The band is by the distribution of errors that the model has learnt, without the noise. Scikit-learn's display of
    that name has no error bars.
    """

    effects: tuple[Effect, ...]
    target: str = "target"
    """The target's name. For several effects, `ax_` is an array of axes."""

    @classmethod
    def _of(cls, model: FittedModel, material: Material, generator: np.random.Generator) -> Self:
        names = [effect.name for effect in importance_of(material, generator).effects]
        return cls(effects=effects(material, names[:N_INPUTS], generator), target=material.name)

    def plot(self, ax: Any = None) -> Self:
        axes = self._axes(ax, len(self.effects), (3.4, 2.8))
        low = min(float(part.lower.min()) for part in self.effects)
        high = max(float(part.upper.max()) for part in self.effects)
        for here, part in zip(axes, self.effects, strict=True):
            if part.input.levels:
                bars = np.maximum([part.mean - part.lower, part.upper - part.mean], 0)
                at = np.arange(len(part.values))
                here.errorbar(at, part.mean, yerr=bars, color=BLUE, fmt="o", capsize=2)
                here.set_xticks(at, [_literal(part.input.levels[int(place)]) for place in part.values])
            else:
                here.fill_between(part.values, part.lower, part.upper, color=BLUE, alpha=0.18, lw=0)
                here.plot(part.values, part.mean, color=BLUE)
            here.set(xlabel=_literal(part.input.name), ylabel=_literal(self.target), ylim=(low, high))
        return self


DISPLAYS: dict[str, type[_Display]] = {
    "posterior": PosteriorDisplay,
    "learning": LearningCurveDisplay,
    "calibration": CalibrationDisplay,
    "importance": ImportanceDisplay,
    "dependence": PartialDependenceDisplay,
}


def plot(model: FittedModel, kind: str | None = None, X: Any = None, y: Any = None, *, ax: Any = None) -> _Display:
    """Draw a fitted model.

    Parameters
    ----------
    model : GreedyGPRegressor
        Fitted.
    kind : {"posterior", "learning", "calibration", "importance", "dependence"}, default=None
        What to draw. None means the posterior for one or two inputs that are numbers, and partial dependence for more.
    X, y : array-like, optional
        Rows to show and to judge by; unless given, those that the model holds.
    ax : matplotlib axes, optional
        Where to draw; for "dependence", as many as there are inputs, and at most six.

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
    'target'
    """
    check_is_fitted(model, "posterior_")
    if kind is None:
        kind = "posterior" if gather(model).plain else "dependence"
    if kind not in DISPLAYS:
        raise unknown("kind", DISPLAYS, kind)
    return DISPLAYS[kind].from_estimator(model, X, y, ax=ax)
