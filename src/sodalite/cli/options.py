"""What each command is told: one frozen object, read once from the command line and checked before any long work."""

from __future__ import annotations

import ast
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import click

if TYPE_CHECKING:
    from ..tables import Dialect

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}  # seconds in each unit of time
MOST_DIGITS = 1000  # of a count: Python refuses to read more than some thousands
MOST_DRAWS = 10_000  # columns of the output: a chunk of the table then takes some gigabytes
WORDS = {"true": True, "false": False, "none": None}  # values of a setting, in lower case


# --- values of options, from texts ---


def seconds(text: str) -> float:
    """A length of time, such as 90, 90s, 5m or 1.5h.

    Examples
    --------
    >>> [seconds(text) for text in ("90", "90s", "1.5m", "2 min", "1H", ".5s")]
    [90.0, 90.0, 90.0, 120.0, 3600.0, 0.5]
    """
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(s|m|min|h|)\s*", text.lower())
    if match is None or not float(match[1]) > 0:
        raise click.BadParameter(f"{text!r} is not a length of time, such as 90s, 5m or 1.5h.")
    return float(match[1]) * UNITS[match[2]]


def level(text: str) -> float:
    """A probability between 0 and 1, such as 0.95."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < 1:  # NaN is neither
        raise click.BadParameter(f"{text!r} is not a number between 0 and 1, both excluded. Write 0.95 for 95 %.")
    return value


def levels(text: str) -> tuple[float, ...]:
    """Different probabilities with commas between them, such as .05,.5,.95."""
    probabilities = tuple(level(part.strip()) for part in text.split(","))
    for place, value in enumerate(probabilities):
        if value in probabilities[:place]:
            raise click.BadParameter(f"{value} is there twice: every level has one column. Leave one out.")
    return probabilities


# --- settings: what --set takes, in addition to parameters of Python ---


def _parts(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _mark(text: str) -> str | None:
    mark = {"tab": "\t", "\\t": "\t"}.get(text, text)
    return mark if len(mark) == 1 else None


def _order(text: str) -> tuple[str, tuple[str, ...]] | None:
    name, _, values = text.partition("=")
    return (name, _parts(values)) if values else None


def _date_format(text: str) -> tuple[str | None, str] | None:
    """The column, or None for all, and the format."""
    name, mark, form = text.partition("=")
    return None if "%" not in text else (None, text) if not mark or "%" in name else (name, form)


def _date_formats(parts: Sequence[tuple[str | None, str]]) -> str | dict[str, str]:
    everywhere = [form for name, form in parts if name is None]
    return everywhere[-1] if everywhere else {str(name): form for name, form in parts}


def _count(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None


def _draws(text: str) -> int | None:
    count = _count(text)
    return None if count is None or count > MOST_DRAWS else count


def _among(*names: str) -> tuple[Callable[[str], str | None], str]:
    """What reads one of some names, and what is wrong with another."""
    return lambda text: text if text in names else None, f"is not one of {', '.join(names)}"


def _literal(text: str) -> Any:
    """A number, true, false or none, else the text itself."""
    try:
        return WORDS[text.lower()] if text.lower() in WORDS else ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _bounds(text: str) -> tuple[float | None, float | None] | None:
    """Two numbers, of which one may be missing: "0," or "0,100"."""
    try:
        low, high = (float(part) if part else None for part in _parts(text))
    except ValueError:
        return None
    return low, high


class Setting(NamedTuple):
    """A name that --set takes."""

    help: str
    parse: Callable[[str], Any] = str
    """The value of a text; None if it is refused."""
    refusal: str = ""
    """What is wrong with such a text."""
    join: Callable[[Sequence[Any]], Any] | None = None
    """What makes one value of several; None if the name may be set once only."""


TRUTH = (lambda text: {"true": True, "false": False}.get(text.lower())), "is neither true nor false"
COUNT = _count, "is not a whole number, 0 or more"
DRAWS = _draws, f"is not a whole number from 0 to {MOST_DRAWS}"
MARK = _mark, "is not a single character, such as ';' or tab"
SETTINGS = {
    "sep": Setting("character between columns: ';', '|', tab, ...", *MARK),
    "thousands": Setting("mark between thousands, such as ','", *MARK),
    "encoding": Setting("encoding of the text, such as cp1252"),
    "na_values": Setting("more values that mean missing: A,B", _parts, join=lambda parts: tuple(sum(parts, ()))),
    "missing": Setting(
        "for missing values: indicator (the median, and an input that says where; the default), median, drop (the "
        "rows) or error",
        *_among("indicator", "median", "drop", "error"),
    ),
    "order": Setting(
        "levels of a column from low to high: COLUMN=A,B,C",
        _order,
        "is not of the form column=first,second,third",
        dict,
    ),
    "latlon": Setting(
        "columns of latitude and longitude: LAT,LON",
        lambda text: _parts(text) if len(_parts(text)) == 2 and all(_parts(text)) else None,
        "is not of the form latitude,longitude",
    ),
    "date_format": Setting(
        "how dates are written: %d/%m/%Y, or COLUMN=%d/%m/%Y",
        _date_format,
        "has no directives such as %d, %m and %Y",
        _date_formats,
    ),
    "scale": Setting(
        "scale of the target: log, power, logit, sqrt, standardize",
        *_among("auto", "standardize", "log", "power", "logit", "sqrt", "none"),
    ),
    "bounds": Setting(
        "range of the target: LOW,HIGH, or LOW, alone, such as 0,",
        _bounds,
        "is not of the form low,high, such as 0, or 0,100",
    ),
    "keep_outliers": Setting("true fits rows far off those near by as all others", *TRUTH),
    "hold_out_only": Setting("true writes the model that has not seen the rows held out", *TRUTH),
    "checkpoint": Setting("file that keeps a long fit, to go on with by the same command"),
    "samples": Setting("number of random draws of the target to add for each row", *DRAWS),
    "seed": Setting("seed of random draws: the same number gives the same result", *COUNT),
}

PARAMETER = Setting("a parameter of Python", _literal)


# --- what each command is told ---


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of any command."""

    owner: ClassVar[str] = ""
    """The function or class of Python whose parameters --set takes too; empty if there is none."""
    of_owner: ClassVar[tuple[str, ...]] = ()
    """Those of `SETTINGS` that are parameters of the owner."""

    @property
    def interrupted(self) -> str:
        """What to say on Ctrl-C."""
        return "Interrupted."

    @classmethod
    def settings(cls, options: Sequence[str]) -> list[str]:
        """The names of `SETTINGS` that --set takes, where some have options of their own."""
        names = {part.name for part in fields(cls)} | set(cls.of_owner)
        return [name for name in SETTINGS if name in names and name not in options]

    @classmethod
    def parameters_of_owner(cls) -> list[str]:
        """The parameters of Python that --set takes too."""
        return []

    @classmethod
    def read(cls, values: Mapping[str, Any], settings: Sequence[str] = ()) -> Self:
        """The options of a command line: `values` of its options by name, and the texts that --set got."""
        known, parts = cls.settings(list(values)), dict[str, list[Any]]()
        for text in settings:
            name, mark, value = text.partition("=")
            name = name.strip().replace("-", "_")
            setting = SETTINGS.get(name, PARAMETER)
            if not mark:
                raise _refusal(f"{text!r} is not of the form name=value, such as missing=drop.")
            if name in values:
                raise _refusal(f"{name} has an option of its own: --{name.replace('_', '-')}.")
            if name not in known and name not in (others := cls.parameters_of_owner()):
                names = sorted({*known, *others} - set(values))
                close = get_close_matches(name, names, n=1)
                hint = f" Did you mean {close[0]}?" if close else ""
                raise _refusal(f"{name!r} is not a setting.{hint} There are: {', '.join(names)}.")
            if (part := setting.parse(value)) is None and setting.refusal:
                raise _refusal(f"{name}: {value!r} {setting.refusal}.")
            parts.setdefault(name, []).append(part)
            if setting.join is None and len(parts[name]) > 1:
                raise _refusal(f"{name} is set {len(parts[name])} times: leave out all but one.")
        joins = {name: SETTINGS.get(name, PARAMETER).join for name in parts}
        everything = {name: value for name, value in values.items() if value is not None}
        everything |= {name: parts[name][0] if join is None else join(parts[name]) for name, join in joins.items()}
        own = {part.name for part in fields(cls)}
        if parameters := {name: value for name, value in everything.items() if name not in own}:
            everything["parameters"] = parameters
        return cls(**{name: value for name, value in everything.items() if name in own})


def _refusal(words: str) -> click.BadParameter:
    return click.BadParameter(words, param_hint="'--set'")


@dataclass(frozen=True, kw_only=True)
class Files(Options):
    """Which table is read, how its text is written, and where the result goes."""

    data: str | None = None
    output: str = "-"
    sep: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    na_values: tuple[str, ...] = ()
    seed: int = 0
    as_json: bool = False
    quiet: bool = False

    def __post_init__(self) -> None:
        if self.thousands is not None and self.thousands == self.decimal:
            raise click.BadParameter(f"thousands and decimal are the same mark, {self.decimal!r}.")

    @property
    def interrupted(self) -> str:
        return "Interrupted." if self.output == "-" else f"Interrupted: {self.output} was not written."

    @property
    def silent(self) -> bool:
        """Whether nothing is said on the way."""
        return self.quiet or self.as_json

    @property
    def dialect(self) -> Dialect:
        """How text is written."""
        from ..tables.base import Dialect

        return Dialect(self.sep, self.decimal, self.thousands, self.encoding, self.na_values)


@dataclass(frozen=True, kw_only=True)
class Columns(Files):
    """Which columns of a table are used, and how they are read."""

    target: str | None = None
    features: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    missing: str = "indicator"
    order: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    latlon: tuple[str, str] | None = None
    date_format: str | Mapping[str, str] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of Python; what is not there has Python's default."""

    @property
    def checkpoint(self) -> str | None:
        """The file that keeps the state of the work."""
        return self.parameters.get("checkpoint")


@dataclass(frozen=True, kw_only=True)
class Fit(Columns):
    """`sodalite fit`; `parameters` are those of GreedyGPRegressor."""

    owner: ClassVar[str] = "GreedyGPRegressor"
    of_owner = ("checkpoint", "scale", "bounds")

    output: str = "model.sodalite"
    time_limit: float | None = None
    test_fraction: float | None = None
    """None for a tenth, or none of few rows."""
    keep_outliers: bool = False
    hold_out_only: bool = False
    """Whether the model that is written has not seen the rows held out."""
    dry_run: bool = False

    @classmethod
    def parameters_of_owner(cls) -> list[str]:
        from ..estimator import GreedyGPRegressor

        objects = {"kernel", "stop", "random_state", "verbose", "target"}
        return [
            "scale",
            "checkpoint",
            *(name for name in GreedyGPRegressor().get_params(deep=False) if name not in objects),
        ]

    @property
    def estimator_parameters(self) -> dict[str, Any]:
        """The parameters of the estimator; `scale` is its target, and "none" its None."""
        names = {"scale": "target"}
        values = {names.get(name, name): value for name, value in self.parameters.items() if name != "checkpoint"}
        return values | {name: None for name in ("mean", "target") if values.get(name) == "none"}

    @property
    def interrupted(self) -> str:
        words = super().interrupted
        if self.checkpoint is None:
            return words
        if not Path(self.checkpoint).exists():
            return f"{words} There was nothing yet to keep in {self.checkpoint}."
        again = shlex.join(["sodalite", *sys.argv[1:]])
        return f"{words} What was found so far is in {self.checkpoint}. To go on: {again}"


@dataclass(frozen=True, kw_only=True)
class Select(Columns):
    """`sodalite select`; `parameters` are those of select()."""

    owner: ClassVar[str] = "select()"
    of_owner = ("checkpoint",)

    @classmethod
    def parameters_of_owner(cls) -> list[str]:
        from inspect import signature

        from ..fitting.select import select

        objects = {"X", "y", "kernel", "stop", "random_state", "callback", "executor"}
        return [name for name in signature(select).parameters if name not in objects]


@dataclass(frozen=True, kw_only=True)
class Predict(Files):
    """`sodalite predict`."""

    model: str
    keep: tuple[str, ...] = ()
    """Columns of the table to write before the predictions."""
    std: bool = False
    interval: float | None = None
    """The probability of the interval; None for no interval."""
    quantiles: tuple[float, ...] = ()
    """The levels of the quantiles."""
    novelty: bool = False
    samples: int = 0

    @property
    def names(self) -> list[str]:
        """The names of the columns that are written of one target."""
        names = ["mean", *(["std"] if self.std else []), *(["lower", "upper"] if self.interval is not None else [])]
        names += [f"quantile_{level!r}" for level in self.quantiles]
        return names + [f"sample_{place + 1}" for place in range(self.samples)]

    @property
    def levels(self) -> list[float]:
        """The levels of all quantiles: those of the ends of the interval come first."""
        ends = [] if self.interval is None else [0.5 - self.interval / 2, 0.5 + self.interval / 2]
        return [*ends, *self.quantiles]

    def columns(self, q: int) -> list[str]:
        """The names of the output's columns but for the novelty; of several targets, each with its number."""
        return self.names if q == 1 else [f"{name}_y{target}" for target in range(q) for name in self.names]


@dataclass(frozen=True, kw_only=True)
class Report(Files):
    """`sodalite report`."""

    model: str
    output: str = ""
    """Beside the model, with the suffix .html, if empty."""
    target: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.output:
            object.__setattr__(self, "output", str(Path(self.model).with_suffix(".html")))


@dataclass(frozen=True, kw_only=True)
class Inspect(Options):
    """`sodalite inspect`."""

    model: str
    check: bool = False
    as_json: bool = False


@dataclass(frozen=True, kw_only=True)
class Demo(Options):
    """`sodalite demo`."""

    n_active: int
    seed: int


@dataclass(frozen=True, kw_only=True)
class Reproduce(Options):
    """`sodalite reproduce`."""

    seed: int
    draws: int
    subset: int
    output: Path
