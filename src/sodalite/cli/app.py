"""The command `sodalite` and its sub-commands, each imported only when it is called."""

from __future__ import annotations

import io
import sys
from importlib import import_module
from time import perf_counter

import click

import sodalite

COMMANDS = {
    "fit": "Fit a model to a table and write it to a file.",
    "predict": "Predict the rows of a table, with error bars.",
    "select": "Choose the rows that say most about a table, and write them.",
    "report": "Show a model in a page that a browser opens.",
    "inspect": "Say what is in a model file.",
    "demo": "Fit the embedded data set, beside a full GP and a random subset.",
    "reproduce": "Repeat the paper's experiment: its table and two of its figures.",
}


class LazyGroup(click.Group):
    """A group of commands that imports a command's module only to run it or to show its help.

    Ctrl-C while it is imported ends like Ctrl-C later on; click's own way would be status 1.
    """

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            click.echo("\nInterrupted.", err=True)
            raise click.exceptions.Exit(130) from None

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


EPILOG = """
Completion of commands and options by the tab key: put this in ~/.bashrc (zsh_source for ~/.zshrc):

    eval "$(_SODALITE_COMPLETE=bash_source sodalite)"
"""


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@click.version_option(sodalite.__version__, prog_name="sodalite")
def app() -> None:
    """Gaussian processes on the few rows of a large data set that the model itself chooses."""
    click.get_current_context().obj = perf_counter()  # when the command began, before libraries are imported
    if isinstance(sys.stdout, io.TextIOWrapper):  # a file name may have bytes that are no text
        sys.stdout.reconfigure(errors="backslashreplace")
