"""Parts that the commands share: options, one-line errors, exit codes, and sentences."""

from __future__ import annotations

import json
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import click

from ..core.files import overwrites

F = TypeVar("F", bound=Callable[..., Any])

FILE = click.Path(readable=False, allow_dash=True)  # any text, which the shell completes as a file; errors are ours
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}  # seconds in each unit of time


class Mistake(click.ClickException):
    """A user's mistake: one line on standard error."""

    exit_code = 2


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


def missing_option(function: F) -> F:
    """--missing."""
    return click.option(
        "--missing",
        default="error",
        type=click.Choice(["error", "drop", "median"]),
        help="Refuse missing values (default), leave out their rows, or put medians in their place.",
    )(function)


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
        words = " ".join(str(error).split()) or type(error).__name__
        raise Mistake(f"not enough memory: {words}" if isinstance(error, MemoryError) else words) from None


def print_json(content: Any) -> None:
    """Print one JSON object on standard output; numbers that are not finite are null."""
    from ..core.json import plain

    click.echo(json.dumps(plain(content), indent=2, ensure_ascii=False))


def say(text: str, quiet: bool = False) -> None:
    """Print a line on standard error, where it does not mix with results."""
    if not quiet:
        click.echo(text, err=True)


def not_written(output: str) -> str:
    """What to say on Ctrl-C; "-" is standard output."""
    return "Interrupted." if output == "-" else f"Interrupted: {output} was not written."


def counted(missing: Mapping[str, int]) -> str:
    """How many values each column misses, as a part of a sentence."""
    return ", ".join(f"{name!r} ({count})" for name, count in missing.items())


def _plain_warnings() -> Callable[..., None]:
    """A function that prints each warning once, as one line."""
    seen = set()

    def show(message: Any, *details: Any, **more: Any) -> None:
        text = " ".join(str(message).split())
        if text not in seen:
            seen.add(text)
            click.echo(f"Warning: {text}", err=True)

    return show
