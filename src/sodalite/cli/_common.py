"""Parts that the commands share: options, one-line errors, exit codes, and sentences."""

from __future__ import annotations

import json
import re
import shutil
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, TypeVar, cast

import click

from ..core.files import overwrites

F = TypeVar("F", bound=Callable[..., Any])

FILE = click.Path(readable=False, allow_dash=True)  # any text, which the shell completes as a file; errors are ours
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}  # seconds in each unit of time


class Mistake(click.ClickException):
    """A user's mistake: one line on standard error."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        say(f"Error: {self.format_message()}")


class Seconds(click.ParamType):  # type: ignore[type-arg]
    """A length of time, such as 90, 90s, 5m or 1.5h."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> float:
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(s|m|min|h|)\s*", str(value).lower())
        if match is None or not float(match[1]) > 0:
            self.fail(f"{value!r} is no length of time, such as 90s, 5m or 1.5h.", param, context)
        return float(match[1]) * UNITS[match[2]]


class Level(click.ParamType):  # type: ignore[type-arg]
    """A probability between 0 and 1, such as 0.95."""

    name = "level"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> float:
        try:
            level = float(value)
        except ValueError:
            level = float("nan")
        if not 0 < level < 1:  # NaN is neither
            self.fail(f"{value!r} is no number between 0 and 1, both excluded. Write 0.95 for 95 %.", param, context)
        return level


class Levels(click.ParamType):  # type: ignore[type-arg]
    """Different probabilities between 0 and 1 with commas between them, such as .05,.5,.95."""

    name = "levels"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> tuple[float, ...]:
        if isinstance(value, tuple):  # a default
            return value
        levels = tuple(Level().convert(part.strip(), param, context) for part in str(value).split(","))
        for place, level in enumerate(levels):
            if level in levels[:place]:
                self.fail(f"{level} is there twice: every level has one column. Leave one out.", param, context)
        return levels


def split_names(given: tuple[str, ...], names: list[str]) -> list[str]:
    """The columns that an option names. It may be given several times, each with one name or several with commas.

    Examples
    --------
    >>> split_names(("a,b", "width, cm"), ["a", "b", "width, cm"])
    ['a', 'b', 'width, cm']
    """
    found, there = [], set(names)
    for text in given:
        found += [text] if text in there else [part.strip() for part in text.split(",") if part.strip()]
    return found


def check_model_path(path: str, what: str) -> None:
    """Refuse "-" for a model, which needs a file; tables can be piped."""
    if path == "-":
        raise Mistake(f"{what} must be a file: a model cannot be piped, as tables can.")


def check_outputs(inputs: Mapping[str, str | None], outputs: Mapping[str, str | None]) -> None:
    """Refuse, before any work, an output that would replace one of the inputs, or another output.

    Parameters
    ----------
    inputs, outputs : mapping of str to str or None
        Paths by what the user calls them; None for those that were not given, and "-" for standard input or output.
    """
    read: dict[str, str | int] = {}
    for what, path in inputs.items():
        if path == "-":
            with suppress(OSError, ValueError, AttributeError):  # it may be closed, or no file
                read[what] = sys.stdin.fileno()
        elif path is not None:
            read[what] = path
    for what, path in outputs.items():
        if path is None or path == "-":
            continue
        for other, source in read.items():
            if overwrites(path, source):
                raise Mistake(f"{what} {path} would replace {other}, or a part of it: give another path.")
        read[what] = path


def debug_option(function: F) -> F:
    """--debug."""
    return click.option("--debug", is_flag=True, help="Show where in the code an error comes from.")(function)


def json_option(function: F) -> F:
    """--json."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")(function)


def dialect_options(function: F) -> F:
    """--sep, --decimal, --thousands, --encoding and --na-values, which the function takes as one `dialect`."""

    @wraps(function)
    def wrapped(
        *arguments: Any,
        sep: str | None,
        decimal: str | None,
        thousands: str | None,
        encoding: str | None,
        na_values: tuple[str, ...],
        **others: Any,
    ) -> Any:
        from ..tables.base import Dialect

        codes = tuple(part.strip() for text in na_values for part in text.split(","))
        mark = {"tab": "\t", "\\t": "\t"}.get(sep or "", sep)
        if mark is not None and len(mark) != 1:
            raise click.BadParameter(f"{sep!r} is no single mark, such as ';' or tab.", param_hint="'--sep'")
        if thousands is not None and len(thousands) != 1:
            raise click.BadParameter(f"{thousands!r} is no single mark, such as ','.", param_hint="'--thousands'")
        if thousands is not None and thousands == decimal:
            raise click.BadParameter(f"--thousands and --decimal are the same mark, {decimal!r}.")
        return function(*arguments, dialect=Dialect(mark, decimal, thousands, encoding, codes), **others)

    options = [
        click.option("--sep", metavar="MARK", help="The mark between columns: ';', '|', tab, ..."),
        click.option("--decimal", type=click.Choice([".", ","]), help="The decimal mark of numbers."),
        click.option("--thousands", metavar="MARK", help="The mark between thousands."),
        click.option("--encoding", metavar="NAME", help="The encoding of text, such as cp1252."),
        click.option("--na-values", multiple=True, metavar="A,B", help="More values that mean missing."),
    ]
    return cast(F, _decorated(wrapped, options))


def column_options(function: F) -> F:
    """--missing, --order, --latlon and --date-format, which the function takes as `missing` and `options`.

    The function has the options of `dialect_options` too.
    """

    @wraps(function)
    def wrapped(
        *arguments: Any,
        order: tuple[str, ...],
        latlon: str | None,
        date_format: tuple[str, ...],
        dialect: Any,
        **others: Any,
    ) -> Any:
        from ..tables import Options

        options = Options(
            order=_orders(order),
            latlon=_pair(latlon),
            date_format=_formats(date_format),
            na_values=dialect.na_values,
            decimal=dialect.decimal,
            thousands=dialect.thousands,
        )
        return function(*arguments, options=options, dialect=dialect, **others)

    options = [
        click.option(
            "--missing",
            default="indicator",
            type=click.Choice(["indicator", "median", "drop", "error"]),
            metavar="HOW",
            help="Missing values: put in medians and tell the model where (indicator, the default), put them in alone "
            "(median), drop the rows, or stop (error).",
        ),
        click.option("--order", multiple=True, metavar="C=A,B,..", help="The levels of a column, in order."),
        click.option("--latlon", metavar="LAT,LON", help="Columns of latitude and longitude."),
        click.option(
            "--date-format", multiple=True, metavar="[C=]FORM", help="How dates are written, such as '%d/%m/%Y'."
        ),
    ]
    return cast(F, dialect_options(_decorated(wrapped, options)))


def _decorated(function: Any, options: list[Any]) -> Any:
    for option in reversed(options):
        function = option(function)
    return function


def _orders(given: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """--order, such as "cut=Fair,Good"."""
    found = {}
    for text in given:
        name, mark, levels = text.partition("=")
        if not mark or not levels:
            raise click.BadParameter(f"{text!r} is not of the form column=first,second,third.", param_hint="'--order'")
        found[name] = tuple(part.strip() for part in levels.split(","))
    return found


def _pair(given: str | None) -> tuple[str, str] | None:
    """--latlon, such as "lat,lon"."""
    if given is None:
        return None
    parts = [part.strip() for part in given.split(",")]
    if len(parts) != 2 or not all(parts):
        raise click.BadParameter(f"{given!r} is not of the form latitude,longitude.", param_hint="'--latlon'")
    return parts[0], parts[1]


def _formats(given: tuple[str, ...]) -> str | dict[str, str] | None:
    """--date-format, for all columns or by column."""
    by_column = {}
    for text in given:
        name, mark, form = text.partition("=")
        if "%" not in text:
            message = f"{text!r} has no directives such as %d, %m and %Y."
            raise click.BadParameter(message, param_hint="'--date-format'")
        if not mark or "%" in name:
            return text
        by_column[name] = form
    return by_column or None


def quiet_option(function: F) -> F:
    """--quiet."""
    return click.option("-q", "--quiet", is_flag=True, help="Print nothing but errors and warnings.")(function)


def seed_option(function: F) -> F:
    """--seed."""
    return click.option(
        "--seed",
        default=0,
        show_default=True,
        type=click.IntRange(0),
        metavar="N",
        help="For all that is drawn at random.",
    )(function)


@contextmanager
def plain_errors(debug: bool, interrupted: str | Callable[[], str] = "Interrupted.") -> Iterator[None]:
    """Turn errors into one line and exit code 2, and Ctrl-C into a sentence and exit code 130; no traceback is shown.

    Parameters
    ----------
    debug : bool
        Show the traceback as well.
    interrupted : str or callable
        What to say on Ctrl-C, or a function that is asked for it then.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _plain_warnings()
            yield
    except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
        raise
    except KeyboardInterrupt:
        click.echo(f"\n{interrupted if isinstance(interrupted, str) else interrupted()}", err=True)
        raise click.exceptions.Exit(130) from None
    except (ValueError, TypeError, OSError, ModuleNotFoundError, MemoryError) as error:
        if debug:
            traceback.print_exc()
        lines = [" ".join(line.split()) for line in str(error).splitlines()] or [type(error).__name__]
        words = as_options(("\n" if lines[1:] and lines[1].startswith("- ") else " ").join(lines))
        raise Mistake(f"not enough memory: {words}" if isinstance(error, MemoryError) else words) from None


def print_json(content: Any) -> None:
    """Print one JSON object on standard output; numbers that are not finite are null."""
    from ..core.json import plain

    click.echo(json.dumps(plain(content), indent=2, ensure_ascii=False))


def say(text: str, quiet: bool = False) -> None:
    """Print a line on standard error, where it does not mix with results; a terminal sees it broken between words."""
    if not quiet:
        # Not by click, which would write past the display of a fit that is under way, into its line.
        print(in_lines(text) if sys.stderr.isatty() else text, file=sys.stderr, flush=True)


def in_lines(text: str) -> str:
    """A text whose lines are as long as those of the terminal; what follows the first one of each is indented."""
    width = shutil.get_terminal_size().columns
    lines = [
        textwrap.fill(line, width, subsequent_indent="  ", break_on_hyphens=False) if len(line) > width else line
        for line in text.splitlines()
    ]
    return "\n".join(lines)


def not_written(output: str) -> str:
    """What to say on Ctrl-C; "-" is standard output."""
    return "Interrupted." if output == "-" else f"Interrupted: {output} was not written."


def _plain_warnings() -> Callable[..., None]:
    """A function that prints each warning once, as one line."""
    seen = set()

    def show(message: Any, *details: Any, **more: Any) -> None:
        text = as_options(" ".join(str(message).split()))
        if text not in seen:
            seen.add(text)
            say(f"Warning: {text}")

    return show


def as_options(text: str) -> str:
    """A message with arguments in Python's way as options of the command that runs: mean="trees" as --mean trees."""
    context = click.get_current_context(silent=True)
    options = set() if context is None else {parameter.name for parameter in context.command.params}

    def option(match: re.Match[str]) -> str:
        return f"--{match[1].replace('_', '-')} {match[3]}" if match[1] in options else match[0]

    return re.sub(r"""\b([a-z_]+)=(["'])([\w-]+)\2""", option, text)
