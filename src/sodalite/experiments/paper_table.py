"""The paper's table on a terminal, beside what was measured, and how the paper was read."""

from __future__ import annotations

from dataclasses import astuple

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .paper import GRID, N_ROWS, WAYS, Experiment, Hyperparameters, TableRow, readings
from .printing import print_tidily

LABELS = {"full": "Full GP", "random": "Random subset", "greedy": "Greedy GP", "share": "% of the rows"}
"""What the fields of `Outcome` are called in print."""


def show(result: Experiment, console: Console) -> None:
    """Print the table, what follows from it, and how the paper was read."""
    draws = "1 draw" if result.n_draws == 1 else f"{result.n_draws} draws"
    parts: list[Text | Table] = [
        Text(
            f"The paper's table 2: RMSE on {len(GRID)} noisy test targets, of {N_ROWS} training rows. The paper "
            f"reports one draw of the data; here: {draws} (seed {result.seed}). The kernel of each draw is fixed, as "
            f"in the authors' scripts, or found by maximum likelihood on {result.n_subset} random rows, as in the "
            "paper's text."
        )
    ]
    for row in result.rows:
        setting = row.setting
        source = "authors' scripts" if setting.published else "nearest found to the paper's numbers"
        likely = Hyperparameters(**{name: values["median"] for name, values in row.likely.items()})
        words = (
            f"settings: {source}; noise sd {setting.noise:g}, delta {setting.delta:g}\n"
            f"fixed: {formula(setting.hyperparameters)}\n"
            f"likelihood: {formula(likely)} (medians)"
        )
        parts += [Text(f"\n{setting.name}", "bold"), Text(words, "dim"), _comparisons(row)]
    disagreements = Table.grid(padding=(0, 2))
    for reading in readings():
        disagreements.add_row(Text(reading.topic, "bold"), Text(reading.sentence))
    head = Text("\nWhere the paper's text and the authors' scripts disagree, or the text with itself:\n")
    print_tidily(console, *parts, "", _conclusions(result), head, disagreements, "")


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


def _comparisons(row: TableRow) -> Table:
    """The comparisons of one setting, in columns that are as wide for every setting."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for header, width in (("", 13), ("kernel", 10), ("median", 7), ("10-90 % range", 15), ("paper", 6)):
        table.add_column(header, width=width, justify="left" if width in (13, 10) else "right", vertical="bottom")
    table.add_column("draws below", width=6, justify="right", vertical="bottom")
    table.add_column("paper's is", width=8)
    for c in row.comparisons:
        digits = ".3g" if c.quantity == "share" else ".2f"
        median, low, high, paper = (format(value, digits) for value in (c.median, c.low, c.high, c.paper))
        label = LABELS[c.quantity] if c.way == WAYS[0] else ""
        where = Text("inside", "green") if c.inside else Text("outside", "bold red")
        table.add_row(label, c.way, median, f"{low} - {high}", paper, f"{c.percentile:.0f} %", where)
    return table


def _conclusions(result: Experiment) -> Table:
    """Which numbers of the paper are outside the draws' range, how many are inside, and which selections end early."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for header, width in (("outside the 10-90 % range", 34), *((way, 20) for way in WAYS)):
        table.add_column(header, width=width)
    for row in result.rows:
        outside = [[LABELS[c.quantity] for c in row.comparisons if c.way == way and not c.inside] for way in WAYS]
        settings = "" if row.setting.published else ", nearest settings"
        table.add_row(f"{row.setting.name}{settings}", *(", ".join(names) or "none" for names in outside))
    table.add_section()
    every = [c for row in result.rows if row.setting.published for c in row.comparisons]
    inside = [[c.inside for c in every if c.way == way] for way in WAYS]
    table.add_row("inside, at the scripts' settings", *(f"{sum(part)} of {len(part)}" for part in inside))
    ends = [[draw.outcomes[way].share <= 100 * 2 / N_ROWS for row in result.rows for draw in row.draws] for way in WAYS]
    table.add_row("selections that end with two rows", *(f"{100 * sum(end) / len(end):.0f} %" for end in ends))
    return table
