"""`sodalite predict`."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import chain
from time import perf_counter
from typing import Any

import numpy as np

from ..core.types import Floats
from ..core.unseen import Unseen, taken
from ..core.words import counted
from ..estimator import GreedyGPRegressor
from ..persistence import load
from ..posteriors.novelty import UNKNOWN
from ..report.words import bars_of
from ..tables import Encoded, Reader, Table, TableError, check_output, open_output, open_table
from ..tables.preprocessing import check_columns, imputed_notes
from ..tables.writing import Write
from ._common import as_options, check_model_path, check_outputs, print_json, say, split_names
from ._data import dialect_of, mapping_of
from ._progress import Display, display
from .options import Predict

BLOCK = 500  # rows whose samples are drawn together, from one covariance: O(BLOCK^3) time for every block


def command(options: Predict) -> None:
    """Predict, write the predictions and say what was noticed."""
    with display(not options.silent and options.output != "-", f"Loading {options.model}") as shown:
        outcome = run(options, shown)
    for note in outcome.notes:
        say(note, options.silent)
    print_warnings(outcome)
    if options.as_json:
        print_json(asdict(outcome))
    elif options.output != "-":
        outside = f"{outcome.n_outside or 'none'} outside the data"
        words = f"{outcome.n_rows} rows predicted in {outcome.seconds:.1f} s, {outside}, written to {options.output}"
        say(words, options.quiet)


def print_warnings(outcome: PredictOutcome) -> None:
    """Warn of values that the model does not know, of missing values, and of rows outside the data."""
    for name, count in outcome.unknown.items():
        values, are = ("1 value", "is") if count == 1 else (f"{count} values", "are")
        say(
            f"Warning: {values} of column {name!r} {are} none of those that the model was fitted with: "
            f"{counted(outcome.unknown_levels[name])}. {'It is' if count == 1 else 'They are'} predicted as an average "
            f"level, with error bars as wide as levels differ."
        )
    if outcome.missing:
        empty = outcome.n_unpredicted
        rest = f"{empty} row{'s have' if empty > 1 else ' has'} no prediction"
        filled = "medians and levels for missing values took their place"
        words = "; ".join(([filled] if outcome.filled else []) + ([rest] if empty else []))
        say(f"Warning: missing values: {counted(outcome.missing)}; {words}.")
    if outcome.n_outside:
        rows, lie = f"row{'s' * (outcome.n_rows > 1)}", "lie" if outcome.n_outside > 1 else "lies"
        say(
            f"Warning: {outcome.n_outside} of {outcome.n_rows} {rows} {lie} outside the data, with a novelty above "
            f"{outcome.outside:.2g}: few rows of the fit say anything about them. See --novelty and --std."
        )


@dataclass(frozen=True)
class PredictOutcome:
    """How many rows were predicted, what was found in them, and, if asked for, the predictions."""

    model: str
    data: str
    output: str | None
    n_rows: int
    columns: tuple[str, ...]
    unknown: dict[str, int]
    """For each column, how many values are levels that the model has not seen."""
    unknown_levels: dict[str, dict[str, int]]
    """For each of these columns, the levels and how often they occur."""
    n_unpredicted: int
    """Rows without a prediction, because a value is missing."""
    missing: dict[str, int]
    notes: tuple[str, ...]
    """What was noticed in reading the file: sentences."""
    filled: bool
    """Whether something took the place of missing values."""
    n_outside: int
    """How many rows lie outside the data that the model was fitted to."""
    outside: float
    """The novelty above which a row lies outside the data."""
    seconds: float
    predictions: dict[str, list[Any]] | None
    """The predictions themselves, if they were to be gathered."""


def run(options: Predict, shown: Display | None = None) -> PredictOutcome:
    """Predict a table a chunk at a time. For JSON and "-" as output, predictions are returned, not written."""
    began, output = perf_counter(), options.output
    check_outputs({"MODEL": options.model, "DATA": options.data}, {"--output": output})
    check_output(output)
    check_model_path(options.model, "MODEL")
    shown = shown or Display()
    model = load(options.model)
    gathered: dict[str, list[Any]] | None = {} if options.as_json and output == "-" else None
    bars = bars_of(model.posterior_)
    tally, generator = Tally(UNKNOWN if bars is None else bars.outside), np.random.default_rng(options.seed)
    asked = Asked(options.std, options.interval, options.quantiles, options.samples)
    columns = asked.columns(len(model.y_mean_)) + ["novelty"] * options.novelty
    with open_table(str(options.data), dialect=dialect_of(model, options.dialect)) as reader:
        mapping = mapping_of(model, reader)
        mapping.check_names(reader.names, reader.name)
        kept = kept_columns(options.keep, reader, columns)
        needed = list(dict.fromkeys([*kept, *mapping.sources]))

        def parts(tables: Iterator[Table]) -> Iterator[dict[str, Any]]:
            for table in tables:
                rows = mapping.encode(table)
                found = predict_rows(model, rows, asked, generator)
                tally.add(rows, found["novelty"])
                yield {name: table.data[name] for name in kept} | {name: found[name] for name in columns}
                shown.step(f"{tally.n_rows} rows predicted, {tally.n_rows / (perf_counter() - began):.0f} rows/s")

        with closing(reader.chunks(needed)) as tables:  # also after an error, since the file is read ahead
            _write(parts(tables), [*kept, *columns], output, gathered)
    return PredictOutcome(
        model=options.model,
        data=str(options.data),
        output=None if gathered is not None else output,
        n_rows=tally.n_rows,
        columns=(*kept, *columns),
        unknown={name: sum(levels.values()) for name, levels in tally.unknown.items()},
        unknown_levels={name: dict(levels) for name, levels in tally.unknown.items()},
        n_unpredicted=tally.n_unpredicted,
        missing=dict(tally.missing),
        notes=(*map(as_options, reader.notes), *imputed_notes(tally.imputed)),
        filled=tally.n_unpredicted < tally.n_rows and any(map(mapping.answers_gaps, tally.missing)),
        n_outside=tally.n_outside,
        outside=tally.outside,
        seconds=perf_counter() - began,
        predictions=gathered,
    )


def kept_columns(keep: tuple[str, ...], reader: Reader, columns: list[str]) -> list[str]:
    """The columns that --keep names, checked."""
    kept = list(dict.fromkeys(split_names(keep, reader.names)))
    check_columns(reader.name, reader.names, kept)
    for name in kept:
        if name in columns:
            raise TableError(f"--keep {name}: the output has a column of that name, which holds predictions.")
    return kept


@dataclass
class Tally:
    """Counts over the chunks of a table; the fields are those of `PredictOutcome`."""

    outside: float
    n_rows: int = 0
    n_outside: int = 0
    n_unpredicted: int = 0
    unknown: dict[str, Counter[str]] = field(default_factory=dict)
    missing: Counter[str] = field(default_factory=Counter)
    imputed: Counter[str] = field(default_factory=Counter)

    def add(self, rows: Encoded, novelty: Floats) -> None:
        """Count the rows of a chunk. Their novelty is NaN, and so not outside, where a value is missing."""
        self.n_rows += len(rows.X)
        self.n_outside += int((novelty > self.outside).sum())
        empty = int((novelty != novelty).sum())  # NaN
        self.n_unpredicted += empty
        for name, levels in rows.strange.items():
            self.unknown.setdefault(name, Counter()).update(levels)
        self.missing.update(rows.missing)
        self.imputed.update(rows.imputed)


@dataclass(frozen=True)
class Asked:
    """What to write of every row beside the mean."""

    std: bool = False
    interval: float | None = None
    """The probability of the interval; None for no interval."""
    quantiles: tuple[float, ...] = ()
    """The levels of the quantiles."""
    samples: int = 0

    @property
    def names(self) -> list[str]:
        """The names of one target's columns."""
        names = ["mean", *(["std"] if self.std else []), *(["lower", "upper"] if self.interval is not None else [])]
        names += [f"quantile_{level!r}" for level in self.quantiles]
        return names + [f"sample_{place + 1}" for place in range(self.samples)]

    @property
    def levels(self) -> list[float]:
        """The levels of all quantiles: those of the ends of the interval come first."""
        ends = [] if self.interval is None else [0.5 - self.interval / 2, 0.5 + self.interval / 2]
        return [*ends, *self.quantiles]

    def columns(self, q: int) -> list[str]:
        """The names of the output's columns; of several targets, each with its number."""
        return self.names if q == 1 else [f"{name}_y{target}" for target in range(q) for name in self.names]


def predict_rows(
    model: GreedyGPRegressor, rows: Encoded, asked: Asked, generator: np.random.Generator
) -> dict[str, Floats]:
    """The columns of the output for some rows, and their novelty; NaN for rows with a missing value."""
    n, q = len(rows.X), len(model.y_mean_)
    values, novelty = np.full((n, q, len(asked.names)), np.nan), np.full(n, np.nan)
    whole = np.flatnonzero(~np.isnan(rows.X).any(axis=1))
    if len(whole):
        X, unseen = rows.X[whole], taken(rows.unseen, whole)
        mean, std, novelty[whole], quantiles = moments_and_quantiles(model, X, unseen, asked.levels)
        parts = [mean[..., None], *([std[..., None]] if asked.std else []), quantiles]
        first = len(asked.names) - asked.samples
        values[whole, :, :first] = np.concatenate(parts, axis=2)
        for begin in range(0, len(X), BLOCK) if asked.samples else ():
            here = np.arange(begin, min(begin + BLOCK, len(X)))
            drawn = model.fitted_.samples(X[here], taken(unseen, here), asked.samples, generator)
            values[whole[here], :, first:] = drawn.reshape(len(drawn), q, asked.samples)
    return dict(zip(asked.columns(q), values.reshape(n, -1).T, strict=True)) | {"novelty": novelty}


def moments_and_quantiles(
    model: GreedyGPRegressor, X: Floats, unseen: tuple[Unseen, ...], levels: list[float]
) -> tuple[Floats, Floats, Floats, Floats]:
    """Mean and standard deviation, of shape (n, q), novelty, (n,), and quantiles of some levels, (n, q, levels).

    The distribution is asked for only if there are levels: its widths may take longer than mean and variance.
    """
    if not levels:
        mean, std, novelty = model.fitted_.mean_std_novelty(X, unseen)
        return mean, std, novelty, np.empty((*mean.shape, 0))
    found = model.fitted_.predictive(X, unseen)
    novelty = model.fitted_.novelty(X, unseen) if found.novelty is None else found.novelty
    return found.mean, found.std, novelty, found.quantiles(np.array(levels))


def _write(
    parts: Iterator[dict[str, Any]], names: list[str], output: str, gathered: dict[str, list[Any]] | None
) -> None:
    """Write chunks of predictions to a file, or gather them.

    No file is opened before the first chunk is there: most of what is wrong with a table is found in it.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # names were matched already
        first = next(parts, None)
        with open_output(output, names) if gathered is None else _gathering(gathered, names) as write:
            for part in () if first is None else chain([first], parts):
                write(part)


@contextmanager
def _gathering(gathered: dict[str, list[Any]], columns: list[str]) -> Iterator[Write]:
    """A writer that appends predictions to lists instead of a file."""
    gathered.update({name: [] for name in columns})

    def write(part: Mapping[str, Any]) -> None:
        for name in columns:
            gathered[name] += part[name].to_pylist() if hasattr(part[name], "to_pylist") else part[name].tolist()

    yield write
