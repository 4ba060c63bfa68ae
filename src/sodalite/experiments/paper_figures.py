"""The paper's figures 1 and 2: their data, and how they are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from sklearn.gaussian_process.kernels import RBF

from ..core.optional import require
from ..core.threads import one_blas_thread
from ..core.types import Floats, Indices
from ..criteria import Delta, best
from ..fitting.select import select
from ..plot import BLUE, GREY, VERMILION
from ..posteriors import draw
from .paper import GRID, INTERVAL, SETTINGS, Setting, generator_of, greedy, observe, posterior

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORANGE = "#E69F00"  # Okabe and Ito's, as the colours of `sodalite.plot` and those of the lines
LINES = (BLUE, VERMILION, "#009E73", "#CC79A7", "#56B4E9")

BAND = 1.96  # half the width of a 95 % band, in standard deviations, as the paper writes it
HEADROOM = 1.4  # height of the bars' axis over the tallest bar: room for the arrow


@dataclass(frozen=True)
class StageView:
    """The greedy training at one stage, as a panel of figure 1 shows it."""

    active: Indices
    """I_t, in the order of choice."""
    remainder: Indices
    """R_t."""
    delta: Floats
    """The score of each remainder row."""
    following: int
    """The row of the largest score, which comes next."""
    rmse: float
    """The RMSE of the remainder."""
    mean: Floats
    """The posterior mean on the grid; `std` is the latent standard deviation there."""
    std: Floats


@dataclass(frozen=True)
class Demonstration:
    """The first stages of one draw of the greedy training, which figure 1 shows."""

    setting: Setting
    number: int
    """The number of the draw, counted from 0."""
    x: Floats
    y: Floats
    stages: tuple[StageView, ...]
    n_stages: int
    """Stages until the training terminates."""


def demonstration(seed: int = 0, setting: Setting = SETTINGS[1], n_shown: int = 4) -> Demonstration:
    """The first `n_shown` stages of the first draw that has so many."""
    for number in count():
        generator = generator_of(seed, setting.stream, number)
        X, y = observe(setting, generator)
        chosen = greedy(setting, setting.kernel, X, y, generator)
        if len(chosen) >= n_shown:
            break

    def stage(t: int) -> StageView:
        active, remainder = chosen.indices[:t], np.setdiff1d(np.arange(len(y)), chosen.indices[:t])
        selection = select(X, y, setting.kernel, n_active=t, criterion="delta", first=active)
        known = posterior(setting.kernel, X, y, selection)
        mean, variance = known.mean_and_variance(X[remainder])
        delta = Delta()(np.sqrt(variance), np.abs(mean[:, 0] - y[remainder]), np.zeros(len(remainder)))
        mean, variance = known.mean_and_variance(GRID[:, None])
        following, error = int(remainder[best(delta)]), float(chosen.rmse[t - 1])
        return StageView(active, remainder, delta, following, error, mean[:, 0], np.sqrt(variance))

    return Demonstration(setting, number, X[:, 0], y, tuple(map(stage, range(1, n_shown + 1))), len(chosen))


@dataclass(frozen=True)
class PriorSamples:
    """Functions drawn from the prior with squared-exponential covariance, a column each: a panel of figure 2."""

    length_scale: float
    sigma_f: float
    x: Floats
    samples: Floats


PRIORS = ((0.5, 1.0), (2.0, 1.0), (2.0, 2.0))
"""Length-scale and sigma_f of the panels of figure 2: each differs in one of the two from the panel before."""


def prior_samples(seed: int = 0, size: int = 5) -> tuple[PriorSamples, ...]:
    """Functions drawn from the priors of `PRIORS`, which figure 2 shows."""
    x = np.linspace(0, 10, 400)
    panels = []
    for place, (length_scale, sigma_f) in enumerate(PRIORS):
        K = sigma_f**2 * RBF(length_scale)(x[:, None])
        with one_blas_thread():  # an eigendecomposition of this size is far slower on more, where cores are shared
            samples = draw(np.zeros(len(x)), K, size, generator_of(seed, len(SETTINGS), place))
        panels.append(PriorSamples(length_scale, sigma_f, x, samples))
    return tuple(panels)


def figure1(data: Demonstration) -> Figure:
    """The first stages of the greedy training: a panel each, with the rows' Delta as bars below it."""
    figure: Figure = require("matplotlib.figure", "plot").Figure(figsize=(10, 8.4), layout="constrained")
    axes = figure.subplots(4, 2, sharex=True, height_ratios=[3, 1, 3, 1])
    fits, bars = axes[::2].ravel(), axes[1::2].ravel()
    highest = max(view.delta.max() for view in data.stages)
    for fit, bar, stage in zip(fits, bars, data.stages, strict=True):
        if fit is not fits[0]:
            fit.sharey(fits[0])
        fit.plot(GRID, data.setting.function(GRID), color=GREY, lw=1.2, alpha=0.6, label="True function")
        low, high = stage.mean - BAND * stage.std, stage.mean + BAND * stage.std
        fit.fill_between(GRID, low, high, color=BLUE, alpha=0.18, lw=0, label="95 % band, without noise")
        fit.plot(GRID, stage.mean, color=BLUE, lw=1.8, label="Posterior mean")
        for rows, label, style in (
            (stage.remainder, "Remainder", {"ms": 4, "mfc": "white", "mec": "black", "mew": 0.9}),
            (stage.active, "Active points", {"ms": 7, "color": "black"}),
            (stage.following, "Next active point", {"ms": 11, "mfc": "none", "mec": VERMILION, "mew": 1.8}),
        ):
            fit.plot(data.x[rows], data.y[rows], "o", label=label, **style)
        fit.set_title(f"Stage {len(stage.active)}: remainder RMSE {stage.rmse:.2f}", fontsize=11)
        fit.set(xticks=range(0, 21, 5), xlim=(INTERVAL[0] - 0.4, INTERVAL[1] + 0.4))
        bar.vlines(data.x[stage.remainder], 0, stage.delta, color=ORANGE, lw=2, label=r"$\Delta$ of the remainder")
        arrow = {"arrowstyle": "-|>", "color": VERMILION, "shrinkA": 0, "shrinkB": 1}
        tip = (data.x[stage.following], stage.delta.max())
        bar.annotate("", tip, xytext=(0, 11), textcoords="offset points", arrowprops=arrow)
        bar.set_ylim(0, HEADROOM * highest)
    for row, label in enumerate(("y", r"$\Delta$") * 2):
        axes[row, 0].set_ylabel(label)
    for ax in axes[-1]:
        ax.set_xlabel("x")
    handles = {
        label: handle for ax in figure.axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(
        f"Greedy training on {data.setting.name} with the kernel of the authors' scripts: "
        f"stages 1 to {len(data.stages)}\nThis draw terminates after {data.n_stages} stages (the paper's after 13)",
        fontsize=12,
    )
    return figure


def figure2(panels: tuple[PriorSamples, ...]) -> Figure:
    """Samples from the prior with squared-exponential covariance, and their 95 % bands."""
    figure: Figure = require("matplotlib.figure", "plot").Figure(figsize=(11, 3.8), layout="constrained")
    axes = figure.subplots(1, len(panels), sharex=True, sharey=True)
    for ax, panel in zip(axes, panels, strict=True):
        edge = BAND * panel.sigma_f
        ax.axhspan(-edge, edge, color=GREY, alpha=0.2, lw=0, label=rf"95 % band, $\pm {BAND}\,\sigma_f$")
        for column, colour in enumerate(LINES[: panel.samples.shape[1]]):
            ax.plot(panel.x, panel.samples[:, column], color=colour, lw=1.4)
        ax.set_title(rf"length-scale $\ell = {panel.length_scale:g}$, $\sigma_f = {panel.sigma_f:g}$", fontsize=11)
        ax.set_xlabel("x")
        ax.margins(x=0)
    axes[0].set_ylabel("f(x)")
    axes[0].legend(loc="upper left", frameon=False)
    figure.suptitle("Samples from the GP prior with squared-exponential covariance")
    return figure
