"""`sodalite demo`."""

from __future__ import annotations

from ..experiments import demo
from .options import Demo


def command(options: Demo) -> None:
    """Compare models of the embedded data set, and print their errors."""
    demo.show(demo.compare(n_active=options.n_active, seed=options.seed))
