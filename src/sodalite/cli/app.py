"""The command `sodalite` and its sub-commands, each imported only when it is called."""

from __future__ import annotations

from importlib import import_module

import click

import sodalite

COMMANDS = {
    "demo": "Fit the embedded data set, beside a full GP and a random subset.",
    "reproduce": "Repeat the paper's experiment: its table and two of its figures.",
}


class LazyGroup(click.Group):
    """A group that imports a command's module only to run it or to show its help."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = import_module(f"sodalite.cli.{name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(sodalite.__version__, prog_name="sodalite")
def app() -> None:
    """Gaussian processes on the few rows of a large data set that the model itself chooses."""
