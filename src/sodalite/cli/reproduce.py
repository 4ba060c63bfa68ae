"""`sodalite reproduce`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, astuple
from functools import partial
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from ..core.files import check_writable, replacing
from ..core.optional import require
from ..experiments import paper
from ..experiments.paper import GRID, LABELS, N_ROWS, WAYS, Experiment, Hyperparameters, TableRow
from ..experiments.paper_figures import figure1, figure2
from ..experiments.paper_readings import READINGS
from ..experiments.printing import print_tidily
from ._common import Mistake
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
        readings = [asdict(reading) for reading in READINGS]
        table = json.dumps({**result.as_dict(), "readings": readings}, indent=2) + "\n"
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
    """Print the table, what follows from it, and how the paper was read."""

    def say(text: str, style: str = "") -> None:
        print_tidily(console, Text(text, style))

    draws = "1 draw" if result.n_draws == 1 else f"{result.n_draws} draws"
    say(
        f"The paper's table 2: RMSE on {len(GRID)} noisy test targets, of {N_ROWS} training rows. The paper reports "
        f"one draw of the data; here: {draws} (seed {result.seed}). The kernel of each draw is fixed, as in the "
        f"authors' scripts, or found by maximum likelihood on {result.n_subset} random rows, as in the paper's text."
    )
    for row in result.rows:
        say("")
        say(row.setting.name, "bold")
        say(description(row), "dim")
        print_tidily(console, table_of(row))
    say("")
    print_tidily(console, conclusions(result))
    say("\nWhere the paper's text and the authors' scripts disagree, or the text with itself:\n")
    print_tidily(console, readings())
    say("")


def description(row: TableRow) -> str:
    """The settings of a row of the table and its kernels, a line each."""
    setting = row.setting
    source = "authors' scripts" if setting.published else "nearest found to the paper's numbers"
    found = Hyperparameters(**{name: values["median"] for name, values in row.found.items()})
    return (
        f"settings: {source}; noise sd {setting.noise:g}, delta {setting.delta:g}\n"
        f"fixed: {formula(setting.hyperparameters)}\n"
        f"likelihood: {formula(found)} (medians)"
    )


def formula(theta: Hyperparameters) -> str:
    """A kernel as a sum; its numbers have three digits and no exponent.

    Examples
    --------
    >>> from sodalite.experiments.paper import Hyperparameters
    >>> formula(Hyperparameters(23301.8, 1.434, 0.5))
    '23300 RBF(1.43) + White(0.5)'
    """
    signal, length_scale, white = (f"{float(f'{value:.3g}'):.10g}" for value in astuple(theta))
    return f"{signal} RBF({length_scale}) + White({white})"


def table_of(row: TableRow) -> Table:
    """The comparisons of one setting as a table, whose columns are as wide for every setting."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("", width=13)
    table.add_column("kernel", width=10, vertical="bottom")
    for header, width in (("median", 7), ("10-90 % range", 15), ("paper", 6), ("draws below", 6)):
        table.add_column(header, width=width, justify="right", vertical="bottom")
    table.add_column("paper's is", width=8)
    for c in row.comparisons:
        number = "{:.3g}" if c.quantity == "share" else "{:.2f}"
        table.add_row(
            LABELS[c.quantity] if c.way == WAYS[0] else "",
            c.way,
            number.format(c.median),
            f"{number.format(c.low)} - {number.format(c.high)}",
            number.format(c.paper),
            f"{c.percentile:.0f} %",
            Text("inside", "green") if c.inside else Text("outside", "bold red"),
        )
    return table


def conclusions(result: Experiment) -> Table:
    """Which numbers of the paper are outside the draws' range, how many are inside, and which selections end early."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("outside the 10-90 % range", width=34)
    for way in WAYS:
        table.add_column(way, width=20)
    for row in result.rows:
        outside = [[LABELS[c.quantity] for c in row.comparisons if c.way == way and not c.inside] for way in WAYS]
        settings = "" if row.setting.published else ", nearest settings"
        table.add_row(f"{row.setting.name}{settings}", *(", ".join(names) or "none" for names in outside))
    table.add_section()
    every = [c for row in result.rows if row.setting.published for c in row.comparisons]
    inside = [[c.inside for c in every if c.way == way] for way in WAYS]
    table.add_row("inside, at the scripts' settings", *(f"{sum(found)} of {len(found)}" for found in inside))
    ends = [[draw.outcomes[way].share <= 100 * 2 / N_ROWS for row in result.rows for draw in row.draws] for way in WAYS]
    table.add_row("selections that end with two rows", *(f"{100 * sum(end) / len(end):.0f} %" for end in ends))
    return table


def readings() -> Table:
    """The disagreements of the paper's text and scripts, the topic beside the rest."""
    table = Table.grid(padding=(0, 2))
    for reading in READINGS:
        table.add_row(Text(reading.topic, "bold"), Text(reading.sentence))
    return table
