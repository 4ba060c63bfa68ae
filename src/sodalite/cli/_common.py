"""Parts that the commands share: one-line errors, exit codes, checks of paths, and sentences."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from ..core.words import counted
from ..exceptions import INVALID

if TYPE_CHECKING:
    from .options import Files

FILLED = "medians and levels for missing values took their place"
"""What becomes of missing values where something takes their place."""


class Mistake(click.ClickException):
    """A user's mistake: one line on standard error."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        say(f"Error: {self.format_message()}")


def split_names(texts: tuple[str, ...], names: list[str]) -> list[str]:
    """The columns that an option names. It may be repeated, each time with one name or several with commas.

    Examples
    --------
    >>> split_names(("a,b", "width, cm"), ["a", "b", "width, cm"])
    ['a', 'b', 'width, cm']
    """
    split, whole = list[str](), set(names)
    for text in texts:
        split += [text] if text in whole else [part.strip() for part in text.split(",") if part.strip()]
    return split


def check_model_path(path: str, what: str) -> None:
    """Refuse "-" for a model, which needs a file; tables can be piped."""
    if path == "-":
        raise Mistake(f"{what} must be a file: a model cannot be piped, as tables can.")


def check_inputs_and_output(options: Files, model: str) -> None:
    """Refuse, before any work, an output that would replace the model or the data, and a model that is piped."""
    check_outputs({"MODEL": model, "DATA": options.data}, {"--output": options.output})
    check_model_path(model, "MODEL")


def check_outputs(inputs: Mapping[str, str | None], outputs: Mapping[str, str | None]) -> None:
    """Refuse, before any work, an output that would replace an input or another output, and closed standard streams.

    Paths stand by what the user calls them; None is a path that is not needed, "-" standard input or output.
    """
    from ..tables.writing import overwrites

    read: dict[str, str | int] = {}
    for what, path in inputs.items():
        if path == "-":
            if sys.stdin is None:
                raise Mistake(f"{what} is to be read from standard input, which is closed: give a file, or a pipe.")
            with suppress(OSError, ValueError, AttributeError):  # it may be closed, or no file
                read[what] = sys.stdin.fileno()
        elif path is not None:
            read[what] = path
    for what, path in outputs.items():
        if path == "-" and sys.stdout is None:
            raise Mistake(f"{what} is to go to standard output, which is closed: give a file, or a pipe.")
        if path is None or path == "-":
            continue
        for other, source in read.items():
            if overwrites(path, source):
                raise Mistake(f"{what} {path} would replace {other}, or a part of it: give another path.")
        read[what] = path


@contextmanager
def refused_by_system(words: str) -> Iterator[None]:
    """Turn what the system says of a file into one line."""
    try:
        yield
    except OSError as error:
        raise Mistake(f"{words}: {error.strerror or error}.") from None


@contextmanager
def plain_errors(interrupted: Callable[[], str]) -> Iterator[None]:
    """Turn errors into one line and exit code 2, and Ctrl-C into what `interrupted` returns and exit code 130.

    No traceback is shown, unless by `sodalite --debug`.
    """
    seen = set()

    def show(message: Any, *details: Any, **more: Any) -> None:
        """Print each warning once, as one line."""
        text = as_options(" ".join(str(message).split()))
        if text not in seen:
            seen.add(text)
            say(f"Warning: {text}")

    try:
        with warnings.catch_warnings():
            warnings.showwarning = show
            yield
    except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
        raise
    except BaseException as error:
        if is_interrupt(error):
            click.echo(f"\n{interrupted()}", err=True)
            raise click.exceptions.Exit(130) from None
        if not isinstance(error, (ModuleNotFoundError, MemoryError, OSError, *INVALID)):
            raise
        if click.get_current_context().find_root().params["debug"]:
            traceback.print_exc()
        lines = [" ".join(line.split()) for line in str(error).splitlines()] or [type(error).__name__]
        words = as_options(("\n" if lines[1:] and lines[1].startswith("- ") else " ").join(lines))
        if isinstance(error, MemoryError):
            words = f"not enough memory: {words}"
        elif not isinstance(error, ModuleNotFoundError | OSError | TypeError | ValueError):
            words = f"something makes no sense ({type(error).__name__}: {words}); sodalite --debug says where."
        raise Mistake(words) from None


def is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is Ctrl-C, or made of it: what is interrupted in an import may raise an error of its own."""
    return error is not None and (isinstance(error, KeyboardInterrupt) or is_interrupt(error.__cause__))


def print_json(content: Any) -> None:
    """Print one JSON object on standard output; numbers that are not finite are null."""
    from ..core.json import plain

    click.echo(json.dumps(plain(content), indent=2, ensure_ascii=False))


def conclude(
    options: Files, notes: Iterable[str], warnings: Iterable[str], words: str, content: Callable[[], Any]
) -> None:
    """Say what a command has noticed and, unless results are on standard output, what it has done; or print JSON."""
    for note in notes:
        say(note, options.silent)
    for warning in warnings:
        say(f"Warning: {warning}")
    if options.as_json:
        print_json(content())
    elif options.output != "-":
        say(words, options.quiet)


def missing_words(missing: Mapping[str, int], *done: str) -> str:
    """A warning of missing values in columns, and what was done about them."""
    return f"missing values: {counted(missing)}; {'; '.join(filter(None, done))}."


def say(text: str, quiet: bool = False) -> None:
    """Print a line on standard error, where it does not mix with results; a terminal sees it broken between words."""
    if quiet:
        return
    if sys.stderr.isatty():
        wrapper = textwrap.TextWrapper(
            shutil.get_terminal_size().columns, subsequent_indent="  ", break_on_hyphens=False
        )
        text = "\n".join(map(wrapper.fill, text.splitlines()))
    # Not by click, which would write past the display of a fit that is under way, into its line.
    print(text, file=sys.stderr, flush=True)


def as_options(text: str) -> str:
    """A message about parameters of Python as one about options of the command that runs.

    A parameter is `mean` or mean="trees" in messages, and --mean or --mean trees in the command; or --set sep=";", if
    it has no option of its own.
    """
    context = click.get_current_context(silent=True)
    if context is None:
        return text
    options = {parameter.name for parameter in context.command.params}
    settings: list[str] = getattr(context.command, "settings", [])

    def option(match: re.Match[str]) -> str:
        name, value = match[1] or match[4], shlex.quote(match[3]) if match[1] else ""
        if name in options:
            return f"--{name.replace('_', '-')} {value}".rstrip()
        return f"--set {name}={value or '...'}" if name in settings else match[0]

    return re.sub(r"""\b([a-z_]+)=\[?(["'])(.+?)\2\]?|`([a-z_]+)`""", option, text)
