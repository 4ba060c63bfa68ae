"""`sodalite demo`."""

from __future__ import annotations

import click

from ._common import debug_option, plain_errors, seed_option


@click.command("demo")
@click.option(
    "--n-active",
    default=200,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="Rows that the model may keep.",
)
@seed_option
@debug_option
def command(n_active: int, seed: int, debug: bool) -> None:
    """Fit the embedded data set, beside a full GP and a random subset.

    The data are 43 years of weekly CO2 at Mauna Loa. A fifth of the weeks is held out.

    Example: sodalite demo --n-active 100
    """
    with plain_errors(debug):
        from ..experiments.demo import compare, show

        show(compare(n_active=n_active, seed=seed))
