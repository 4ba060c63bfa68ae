"""The paper's figures 1 and 2, drawn from the data of `sodalite.experiments.paper`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.optional import require
from ..plot import BLUE, GREY, VERMILION
from .paper import GRID, INTERVAL, Demonstration, PriorSamples, StageView

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORANGE = "#E69F00"  # Okabe and Ito's, as the colours of `sodalite.plot` and those of the lines
LINES = (BLUE, VERMILION, "#009E73", "#CC79A7", "#56B4E9")

BAND = 1.96  # half the width of a 95 % band, in standard deviations, as the paper writes it
HEADROOM = 1.4  # height of the bars' axis over the tallest bar: room for the arrow


def figure1(data: Demonstration) -> Figure:
    """The first stages of the greedy training: a panel each, with the rows' Delta as bars below it."""
    figure: Figure = require("matplotlib.figure", "plot").Figure(figsize=(10, 8.4), layout="constrained")
    grid = figure.add_gridspec(4, 2, height_ratios=[3, 1, 3, 1])
    shared: dict[str, Any] = {"fit": None, "bars": None}
    for place, stage in enumerate(data.stages):
        row, column = 2 * (place // 2), place % 2
        fit = figure.add_subplot(grid[row, column], sharex=shared["fit"], sharey=shared["fit"])
        bars = figure.add_subplot(grid[row + 1, column], sharex=fit, sharey=shared["bars"])
        shared = {"fit": shared["fit"] or fit, "bars": shared["bars"] or bars}
        _fit(fit, data, stage)
        _bars(bars, data, stage)
        fit.tick_params(labelbottom=False)
        if column == 0:
            fit.set_ylabel("y")
            bars.set_ylabel(r"$\Delta$")
        if row == 2:
            bars.set_xlabel("x")
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


def _fit(ax: Any, data: Demonstration, stage: StageView) -> None:
    """Draw the data, the posterior and the true function at a stage."""
    ax.plot(GRID, data.setting.function(GRID), color=GREY, lw=1.2, alpha=0.6, label="True function")
    low, high = stage.mean - BAND * stage.std, stage.mean + BAND * stage.std
    ax.fill_between(GRID, low, high, color=BLUE, alpha=0.18, lw=0, label="95 % band, without noise")
    ax.plot(GRID, stage.mean, color=BLUE, lw=1.8, label="Posterior mean")
    x, y = data.x, data.y
    ax.plot(x[stage.remainder], y[stage.remainder], "o", ms=4, mfc="white", mec="black", mew=0.9, label="Remainder")
    ax.plot(x[stage.active], y[stage.active], "o", ms=7, color="black", label="Active points")
    following = stage.following
    ax.plot(x[following], y[following], "o", ms=11, mfc="none", mec=VERMILION, mew=1.8, label="Next active point")
    ax.set_title(f"Stage {len(stage.active)}: remainder RMSE {stage.rmse:.2f}", fontsize=11)
    ax.set_xticks(range(0, 21, 5))
    ax.set_xlim(INTERVAL[0] - 0.4, INTERVAL[1] + 0.4)


def _bars(ax: Any, data: Demonstration, stage: StageView) -> None:
    """Draw the selection metric of each remainder row, with an arrow at the next one."""
    ax.vlines(data.x[stage.remainder], 0, stage.delta, color=ORANGE, lw=2, label=r"$\Delta$ of the remainder")
    ax.annotate(
        "",
        (data.x[stage.following], stage.delta.max()),
        xytext=(0, 11),
        textcoords="offset points",
        arrowprops={"arrowstyle": "-|>", "color": VERMILION, "shrinkA": 0, "shrinkB": 1},
    )
    ax.set_ylim(0, HEADROOM * max(view.delta.max() for view in data.stages))
