"""`sodalite reproduce`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from ..core.files import check_writable, replacing
from ..core.optional import require
from ..experiments import paper
from ..experiments.paper_figures import demonstration, figure1, figure2, prior_samples
from ..experiments.paper_table import show
from ._common import refused_by_system
from .options import Reproduce

FILES = ("table.json", "figure1.png", "figure2.png")  # what is written to the folder
DPI = 200  # dots an inch of the figures: sharp in print


def command(options: Reproduce) -> None:
    """Run the experiment, write its table and figures to a folder, and print them."""
    seed, draws, subset, output = options.seed, options.draws, options.subset, options.output
    require("matplotlib", "plot")
    prepare(output)

    errors = Console(stderr=True)
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("Drawing", total=draws * len(paper.SETTINGS))
        result = paper.experiment(draws, seed, n_subset=subset, progress=lambda: bar.advance(task))
        readings = [asdict(reading) for reading in paper.readings()]
        table = json.dumps({**result.as_dict(), "readings": readings}, indent=2) + "\n"
        pictures = figure1(demonstration(seed)), figure2(prior_samples(seed))
        writers: list[Callable[[Path], object]] = [partial(Path.write_text, data=table, encoding="utf-8")]
        writers += [partial(picture.savefig, format="png", dpi=DPI) for picture in pictures]
        with refused_by_system(f"Could not write to {output}"):
            for name, writer in zip(FILES, writers, strict=True):
                with replacing(output / name) as path:
                    writer(path)
    console = Console()
    show(result, console)
    console.print(f"Wrote {', '.join(FILES)} to {output}", soft_wrap=True, highlight=False, markup=False)


def prepare(output: Path) -> None:
    """Make the folder and see that files can be written there, before any long work."""
    words = "Invalid value for '--output': cannot write"
    with refused_by_system(f"{words} to '{output}'"):
        if output.exists() and not output.is_dir():
            raise NotADirectoryError(None, "it is a file, not a folder")
        output.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        with refused_by_system(f"{words} '{output / name}'"):
            check_writable(output / name)
