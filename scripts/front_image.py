"""The picture on the documentation's first page, docs/images/front.png: a hill, measured, estimated, and how surely.

`python -m scripts.front_image`, with the extra `docs`. The data and the fit are those of examples/plot_map.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Run the example up to its figure, and draw three of its maps."""
    code = (ROOT / "examples" / "plot_map.py").read_text(encoding="utf-8").partition("# What was measured")[0]
    found: dict[str, Any] = {}
    exec(code, found)
    shape, measured = found["height"].shape, found["measured"]
    panels = {
        "measured": np.where(measured, found["y"], np.nan),
        "estimated": found["mean"],
        "how surely": found["std"],
    }
    fig, axes = plt.subplots(1, 3, figsize=(11, 2.9), layout="constrained")
    for ax, (name, values) in zip(axes, panels.items(), strict=True):
        field = values.reshape(shape).T
        if name == "how surely":
            ax.imshow(field, origin="lower", cmap="magma_r", interpolation="bilinear")
        else:
            ax.imshow(field, origin="lower", cmap="terrain", vmin=80, vmax=200, interpolation="nearest")
        if name == "estimated":
            ax.contour(field, levels=range(100, 200, 10), colors="k", linewidths=0.5)
        ax.set_title(name, fontsize=17)
        ax.set(xticks=[], yticks=[])
    path = ROOT / "docs" / "images" / "front.png"
    fig.savefig(path, dpi=110)
    print(path)


if __name__ == "__main__":
    main()
