"""The command `sodalite`: what each of its commands takes. The work is in the module of a command's name."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

import click

import sodalite

from . import options as of
from ._common import plain_errors
from .options import SETTINGS, Options

FILE = click.Path(readable=False, allow_dash=True)  # any text, which the shell completes as a file; errors are ours
POSITIVE = click.IntRange(1)
EPILOG = """
Completion of commands and options by the tab key: put this in ~/.bashrc (zsh_source for ~/.zshrc):

    eval "$(_SODALITE_COMPLETE=bash_source sodalite)"
"""
CRITERION = "lookahead (default), delta (the paper's), uncertainty, sampled, random ..."
OPTIONS: dict[str, dict[str, Any]] = {
    "target": {"flags": ["-t"], "metavar": "COLUMN"},
    "features": {"multiple": True, "metavar": "A,B", "help": "Columns to use. Default: all others."},
    "exclude": {"multiple": True, "metavar": "A,B", "help": "Columns to leave out."},
    "output": {"flags": ["-o"], "type": FILE, "default": "-", "metavar": "FILE"},
    "n_active": {"flags": ["-n"], "type": POSITIVE, "metavar": "N"},
    "criterion": {"metavar": "NAME", "help": f"Rule that chooses these rows: {CRITERION}"},
    "mean": {
        "metavar": "NAME",
        "help": "Simple model that comes first: linear, trees, none, or auto (the best of these, the default).",
    },
    "posterior": {
        "metavar": "NAME",
        "help": "Rows that predictions use: those kept and those near by (local, the default), those kept alone (sod), "
        "or all, summed up (sor, dtc, fitc, vfe).",
    },
    "time_limit": {"type": of.seconds, "metavar": "TIME", "help": "Longest time for the command: 60s, 5m, 1h."},
    "test_fraction": {
        "type": click.FloatRange(0, 0.9),
        "metavar": "SHARE",
        "show_default": "0.1, at most 5000 rows; 0 for fewer than 100 rows",
        "help": "Share of the rows to measure the errors on.",
    },
    "keep": {"multiple": True, "metavar": "A,B", "help": "Columns of DATA to write before the predictions."},
    "std": {"is_flag": True, "help": "Add the standard deviation of each prediction."},
    "interval": {
        "type": of.level,
        "metavar": "LEVEL",
        "help": "Add the ends of the interval that holds the target with this probability, such as 0.95.",
    },
    "quantiles": {
        "type": of.levels,
        "metavar": "LEVELS",
        "help": "Add the quantiles of these levels, such as .05,.5,.95.",
    },
    "novelty": {"is_flag": True, "help": "Add how far each row is from the data: 0 among them, 1 far from all rows."},
    "decimal": {"type": click.Choice([".", ","]), "help": "Decimal mark of numbers, if it is misread."},
    "dry_run": {"is_flag": True, "help": "Show how each column is read, and stop."},
    "check": {"is_flag": True, "help": "Read the whole file, and report any damage."},
    "seed": {
        "default": 0,
        "show_default": True,
        "type": click.IntRange(0),
        "metavar": "N",
        "help": "Seed of random draws: the same number gives the same result.",
    },
    "draws": {"default": 200, "type": POSITIVE, "metavar": "N", "help": "Data sets for each function."},
    "subset": {
        "default": 20,
        "type": click.IntRange(2, 40),
        "metavar": "N",
        "help": "Rows, of 40, that the kernel is fitted to; the paper does not say how many.",
    },
    "set_": {"flags": ["--set"], "multiple": True, "metavar": "NAME=VALUE", "help": "Set one of the settings below."},
    "as_json": {"flags": ["--json"], "is_flag": True, "help": "Print the result as one JSON object."},
    "quiet": {"flags": ["-q"], "is_flag": True, "help": "Print only errors and warnings."},
}
"""What the options take and give, by the names of the values; a command may change some of it."""


@contextmanager
def _ending_as_interrupted() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        click.echo("\nInterrupted.", err=True)
        sys.exit(130)


class Group(click.Group):
    """A group of commands in which Ctrl-C, before a command has begun, ends as it does later; click's status is 1."""

    def make_context(self, *arguments: Any, **others: Any) -> click.Context:
        with _ending_as_interrupted():
            return super().make_context(*arguments, **others)

    def invoke(self, context: click.Context) -> object:
        with _ending_as_interrupted():
            return super().invoke(context)

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)  # the most used first


class Command(click.Command):
    """A command whose values are read as one object and passed to `command` of the module of the command's name."""

    def __init__(self, *arguments: Any, options: type[Options], **others: Any) -> None:
        super().__init__(*arguments, **others)
        self.options = options
        self.callback = self.run

    def run(self, set_: tuple[str, ...] = (), **values: Any) -> None:
        """Read the values, and do the work."""
        options = self.options.read(values, set_)
        with plain_errors(lambda: options.interrupted):
            import_module(f"sodalite.cli.{self.name}").command(options)

    @property
    def settings(self) -> list[str]:
        """The names of `SETTINGS` that --set takes."""
        return self.options.settings([str(part.name) for part in self.params])

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the settings."""
        if not any(part.name == "set_" for part in self.params):
            return
        with formatter.section("Settings, as --set NAME=VALUE"):
            formatter.write_dl([(name, SETTINGS[name].help) for name in self.settings])
        if self.options.owner:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(f"Parameters of {self.options.owner} in Python, such as tol=0.1, can be set too.")


@click.command(cls=Group, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@click.option("--debug", is_flag=True, help="Show where in the code an error comes from.")
@click.version_option(sodalite.__version__, prog_name="sodalite")
def app(debug: bool) -> None:
    """Regression that says how sure it is, for tables of twenty to millions of rows."""
    click.get_current_context().obj = perf_counter()  # when the command began, before libraries are imported
    if isinstance(sys.stdout, io.TextIOWrapper):  # a file name may have bytes that are not text
        sys.stdout.reconfigure(errors="backslashreplace")


def command(
    options: type[Options], arguments: str, names: str, **changes: dict[str, Any]
) -> Callable[[Callable[[], None]], click.Command]:
    """Make a command of a function whose docstring is its help.

    `arguments` and `names` are those of its arguments, in square brackets if they may be left out, and of its options;
    `changes` are what differs from `OPTIONS`.
    """
    parameters: list[click.Parameter] = [
        click.Argument([name.strip("[]")], type=FILE, required=name[0] != "[") for name in arguments.split()
    ]
    for name in names.split():
        attributes = {**OPTIONS[name], **changes.get(name, {})}
        flags = attributes.pop("flags", [])
        long = [] if any(flag.startswith("--") for flag in flags) else [f"--{name.replace('_', '-')}"]
        parameters.append(click.Option([name, *flags, *long], **attributes))
    return app.command(cls=Command, options=options, params=parameters)


@command(
    of.Fit,
    "[data]",
    "target features exclude output n_active criterion mean posterior time_limit test_fraction decimal dry_run seed "
    "set_ as_json quiet",
    target={"help": "Column to predict."},
    output={"default": "model.sodalite", "show_default": True, "metavar": "MODEL", "help": "File for the model."},
    n_active={"show_default": "500", "help": "Rows that the model keeps: more are more accurate, and slower."},
)
def fit() -> None:
    """Fit a model to a table and write it to a file.

    DATA is CSV, TSV, JSON lines, Parquet, Feather or Excel, by its suffix, also in .gz or .zip; a folder of
    Parquet files; a pattern such as "sales-*.csv"; book.xlsx::Sheet2; shop.db::orders or a query of a database; or -
    for CSV from standard input. The default is 43 years of CO2 at Mauna Loa. How each column is read follows from its
    values: see --dry-run. Errors are measured on rows held out of a first fit; the model that is written is fitted to
    all rows. A folder, or a large Parquet file, stays on disk, and must hold only numbers.

    Example: sodalite fit houses.csv --target price --output houses.sodalite
    """


@command(
    of.Predict,
    "model data",
    "output keep std interval quantiles novelty decimal set_ as_json quiet",
    output={"help": "File to write the predictions to. Default: standard output."},
)
def predict() -> None:
    """Predict the rows of a table, with error bars.

    MODEL is a file that fit has written. DATA is a table in any format that fit reads, or - for CSV from standard
    input. Its columns are found by name, in any order; others are ignored. It may be of any size. The output has one
    row for each, with the columns that --keep names, then mean, std, lower, upper, quantile_0.05 and so on, sample_1 to
    sample_K and novelty as asked for; it is CSV, or what the suffix of FILE says. Intervals, quantiles and samples
    follow the distribution of errors that the fit has learnt. Samples are drawn together for 500 rows at a time.
    Warnings count rows outside the data, and those after the last time of the fit.

    Example: sodalite predict houses.sodalite new.csv --std --interval 0.95
    """


@command(
    of.Select,
    "data",
    "target n_active features exclude criterion output decimal set_ as_json quiet",
    target={"help": "Column that the rows are to be informative about."},
    n_active={"required": True, "help": "Number of rows to choose."},
    exclude={"help": "Columns to ignore in the choice; they are written all the same."},
    criterion={"help": f"Rule that chooses the rows: {CRITERION}"},
    output={"metavar": "SUBSET", "help": "File to write the rows to. Default: standard output."},
)
def select() -> None:
    """Choose the rows that say most about a table, and write them.

    DATA is a table in any format that fit reads, or - for CSV from standard input. The chosen rows are written with all
    of their columns, the most telling first: a summary of the data for any other tool. A first column says which row of
    DATA each is, counting from 0.

    Example: sodalite select houses.csv --target price --n-active 20
    """


@command(
    of.Report,
    "model [data]",
    "output target decimal seed set_ as_json quiet",
    output={"default": "", "help": "Page to write. Default: MODEL with the suffix .html."},
    target={"help": "Column of DATA with the true values, if the model does not know its name."},
)
def report() -> None:
    """Show a model in a page that a browser opens.

    MODEL is a file that fit has written. DATA is a table in any format that fit reads, or - for CSV from
    standard input, with the model's columns and its target: rows that were not in the fit judge the model. By default
    the page shows what the model's file holds. The output is one HTML file that needs no network; - writes it to
    standard output, and with --json its numbers instead.

    Example: sodalite report houses.sodalite houses.csv --output houses.html
    """


@command(of.Inspect, "model", "check as_json")
def inspect() -> None:
    """Show what is in a model file: its summary, columns and kernel.

    It reads only the header of the file, however many rows that holds, unless --check asks for all of it.

    Example: sodalite inspect houses.sodalite
    """


@command(
    of.Demo,
    "",
    "n_active seed",
    n_active={"default": 200, "show_default": True, "help": "Number of rows that the model keeps."},
)
def demo() -> None:
    """Compare models of a data set that comes with the package.

    The data are 43 years of weekly CO2 at Mauna Loa; a fifth of the weeks is held out. The models are the default, the
    active rows alone, random rows, and a Gaussian process on all rows.

    Example: sodalite demo --n-active 100
    """


@command(
    of.Reproduce,
    "",
    "seed draws subset output",
    draws={"show_default": True},
    subset={"show_default": True},
    output={
        "flags": [],
        "default": "reproduce",
        "show_default": True,
        "type": click.Path(path_type=Path),
        "metavar": "DIR",
        "help": "Folder for table.json, figure1.png and figure2.png; created if it is not there.",
    },
)
def reproduce() -> None:
    """Repeat the paper's experiment: a table and two figures.

    The paper reports one random draw of each of its data sets. This draws many, and shows where among them the paper's
    numbers fall: with the fixed kernels of the authors' scripts, and with the maximum likelihood of the paper's text.
    Where text and scripts disagree, it says so, and what it does.

    Example: sodalite reproduce --draws 100 --output results
    """
