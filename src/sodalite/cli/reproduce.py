"""`sodalite reproduce`."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..core.files import check_writable, replacing
from ..core.optional import require
from ._common import Mistake, debug_option, plain_errors, seed_option

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ..experiments.paper import Experiment, Row

FILES = ("table.json", "figure1.png", "figure2.png")
DPI = 200


@click.command("reproduce")
@seed_option
@click.option("--draws", default=400, show_default=True, type=click.IntRange(1), help="Data sets drawn per function.")
@click.option(
    "--output",
    default="reproduce",
    show_default=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for table.json, figure1.png and figure2.png; made if need be.",
)
@debug_option
def command(seed: int, draws: int, output: Path, debug: bool) -> None:
    """Repeat the paper's experiment: its table and two of its figures.

    The paper reports one random draw of each of its data sets. This draws many, and shows where among them the paper's
    numbers fall.

    Example: sodalite reproduce --draws 100 --output results
    """
    with plain_errors(debug):
        run(seed, draws, output)


def run(seed: int, draws: int, output: Path) -> None:
    """Draw, write and show."""
    require("matplotlib", "plot")
    prepare(output)

    from rich.console import Console
    from rich.progress import Progress

    from ..experiments import paper
    from ..experiments.paper_figures import figure1, figure2

    errors = Console(stderr=True)
    with Progress(console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("Drawing", total=draws * len(paper.SETTINGS))
        result = paper.experiment(draws, seed, progress=lambda: bar.advance(task))
        table = json.dumps(result.as_dict(), indent=2) + "\n"
        pictures = figure1(paper.demonstration(seed)), figure2(paper.prior_samples(seed))
        writers: list[Callable[[Path], object]] = [partial(Path.write_text, data=table, encoding="utf-8")]
        writers += [partial(picture.savefig, format="png", dpi=DPI) for picture in pictures]
        try:
            for name, writer in zip(FILES, writers, strict=True):
                with replacing(output / name) as path:
                    writer(path)
        except OSError as error:
            raise Mistake(f"Could not write to {output}: {error.strerror or error}.") from None
    console = Console()
    show(result, console)
    console.print(f"Wrote {', '.join(FILES)} to {output}", soft_wrap=True, highlight=False, markup=False)


def prepare(output: Path) -> None:
    """Make the folder and see that files can be written there, before any long work."""
    try:
        if output.exists() and not output.is_dir():
            raise NotADirectoryError(None, "it is a file, not a folder")
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Mistake(f"Invalid value for '--output': cannot write to '{output}': {error.strerror}.") from None
    for name in FILES:
        try:
            check_writable(output / name)
        except OSError as error:
            raise Mistake(f"Invalid value for '--output': cannot write '{output / name}': {error.strerror}.") from None


def show(result: Experiment, console: Console) -> None:
    """Print the table, and what it comes to."""
    from ..experiments.paper import GRID, N_ROWS

    def say(text: str, style: str = "") -> None:
        console.print(text, style=style, highlight=False, markup=False)

    draws = "1 draw" if result.n_draws == 1 else f"{result.n_draws} draws"
    say(
        f"The paper's table 2: RMSE on {len(GRID)} noisy test targets, of {N_ROWS} training rows. The paper reports "
        f"one draw of the data; here: {draws} (seed {result.seed}), by the rules of its text."
    )
    for row in result.rows:
        say("")
        say(row.setting.name, "bold")
        source = "authors' published scripts" if row.setting.published else "nearest found to the paper's numbers"
        say(f"{row.setting.description}\nsettings: {source}", "dim")
        console.print(table_of(row))
    say("")
    for row in result.rows:
        say(summary(row))
    say(
        "\nThe text's rule also ends the selection when the remainder's RMSE rises; the authors' published scripts "
        "go on then.\n"
    )


def table_of(row: Row) -> Table:
    """One setting's part of the table, of the same widths for each."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from ..experiments.paper import LABELS

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("", width=14)
    for header, width in (("median", 7), ("10-90 % range", 15), ("paper", 7), ("draws below", 11)):
        table.add_column(header, width=width, justify="right")
    table.add_column("paper's is", width=10)
    for c in row.comparisons:
        number = "{:.3g}" if c.quantity == "share" else "{:.2f}"
        table.add_row(
            LABELS[c.quantity],
            number.format(c.median),
            f"{number.format(c.low)} - {number.format(c.high)}",
            number.format(c.paper),
            f"{c.percentile:.0f} %",
            Text("inside", "green") if c.inside else Text("outside", "bold red"),
        )
    return table


def summary(row: Row) -> str:
    """Which of the paper's numbers these settings do not give."""
    from ..experiments.paper import LABELS

    outside = [LABELS[c.quantity] for c in row.comparisons if not c.inside]
    settings = "" if row.setting.published else ", nearest settings"
    found = f"outside the range: {', '.join(outside)}" if outside else "all of the paper's numbers are inside"
    return f"{row.setting.name}{settings}: {found}."
