"""`sodalite predict`."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from time import perf_counter
from typing import Any

import numpy as np

from ..core.json import plain
from ..core.types import Floats
from ..core.words import counted
from ..estimator import GreedyGPRegressor
from ..exceptions import TableError
from ..persistence import load
from ..posteriors.far import UNKNOWN
from ..report.words import bars_of
from ..tables import Encoded, Reader, Table, check_output, open_output, open_table
from ..tables.base import check_columns
from ..tables.preprocessing import imputed_notes
from ..tables.unseen import Unseen, taken
from ._common import FILLED, as_options, check_model_path, check_outputs, conclude, missing_words, split_names
from ._data import dialect_of, mapping_of
from ._progress import Display, display
from .options import Predict

BLOCK = 500  # rows whose samples are drawn together, from one covariance: O(BLOCK^3) time for every block


@dataclass
class PredictOutcome:
    """How many rows were predicted, what was found in them, and, if asked for, the predictions."""

    model: str
    data: str
    output: str | None
    columns: tuple[str, ...]
    outside: float
    """The novelty above which a row lies outside the data."""
    predictions: dict[str, list[Any]] | None
    """The predictions themselves, if they are gathered."""
    n_rows: int = 0
    n_outside: int = 0
    """How many rows lie outside the data that the model was fitted to."""
    n_unpredicted: int = 0
    """Rows without a prediction, because a value is missing."""
    unknown_levels: dict[str, Counter[str]] = field(default_factory=dict)
    """For each column with levels that the model has not seen, these levels and how often they occur."""
    missing: Counter[str] = field(default_factory=Counter)
    imputed: Counter[str] = field(default_factory=Counter)
    """Missing values in columns that missed none in the fit."""
    filled: bool = False
    """Whether something took the place of missing values."""
    notes: tuple[str, ...] = ()
    """What was noticed in reading the file: sentences."""
    seconds: float = 0.0

    @property
    def unknown(self) -> dict[str, int]:
        """For each column, how many values are levels that the model has not seen."""
        return {name: sum(levels.values()) for name, levels in self.unknown_levels.items()}

    def add(self, rows: Encoded, novelty: Floats) -> None:
        """Count the rows of a chunk. Their novelty is NaN, and so not outside, where a value is missing."""
        self.n_rows += len(rows.X)
        self.n_outside += int((novelty > self.outside).sum())
        self.n_unpredicted += int(np.isnan(novelty).sum())
        for name, levels in rows.strange.items():
            self.unknown_levels.setdefault(name, Counter()).update(levels)
        self.missing.update(rows.missing)
        self.imputed.update(rows.imputed)

    def warnings(self) -> Iterator[str]:
        """What to warn of: values that the model does not know, missing values, and rows outside the data."""
        for name, count in self.unknown.items():
            values, are, they = ("1 value", "is", "It is") if count == 1 else (f"{count} values", "are", "They are")
            yield (
                f"{values} of column {name!r} {are} new to the model: {counted(self.unknown_levels[name])}. {they} "
                "predicted as an average level, with error bars as wide as levels differ."
            )
        if self.missing:
            empty = self.n_unpredicted
            rest = f"{empty} row{'s have' if empty > 1 else ' has'} no prediction" if empty else ""
            yield missing_words(self.missing, FILLED if self.filled else "", rest)
        if self.n_outside:
            rows, lie = f"row{'s' * (self.n_rows > 1)}", "lie" if self.n_outside > 1 else "lies"
            yield (
                f"{self.n_outside} of {self.n_rows} {rows} {lie} outside the data, with a novelty above "
                f"{self.outside:.2g}: few rows of the fit say anything about them. See --novelty and --std."
            )


def command(options: Predict) -> None:
    """Predict, write the predictions and say what was noticed."""
    with display(not options.silent and options.output != "-", f"Loading {options.model}") as shown:
        outcome = run(options, shown)
    outside = f"{outcome.n_outside or 'none'} outside the data"
    words = f"{outcome.n_rows} rows predicted in {outcome.seconds:.1f} s, {outside}, written to {options.output}"
    warnings = outcome.warnings()
    conclude(options, outcome.notes, warnings, words, lambda: {**plain(outcome), "unknown": outcome.unknown})


def run(options: Predict, shown: Display | None = None) -> PredictOutcome:
    """Predict a table a chunk at a time. For JSON and "-" as output, predictions are returned, not written."""
    began, output = perf_counter(), options.output
    check_outputs({"MODEL": options.model, "DATA": options.data}, {"--output": output})
    check_output(output)
    check_model_path(options.model, "MODEL")
    shown = shown or Display()
    model = load(options.model)
    generator, bars = np.random.default_rng(options.seed), bars_of(model.posterior_)
    columns = options.columns(len(model.y_mean_)) + ["novelty"] * options.novelty
    with open_table(str(options.data), dialect=dialect_of(model, options.dialect)) as reader:
        mapping = mapping_of(model, reader)
        kept = kept_columns(options.keep, reader, columns)
        gathered: dict[str, list[Any]] | None = {} if options.as_json and output == "-" else None
        outcome = PredictOutcome(
            model=options.model,
            data=str(options.data),
            output=output if gathered is None else None,
            columns=(*kept, *columns),
            outside=UNKNOWN if bars is None else bars.outside,
            predictions=gathered,
        )

        def parts(tables: Iterator[Table]) -> Iterator[dict[str, Any]]:
            for table in tables:
                rows = mapping.encode(table)
                predicted = predict_rows(model, rows, options, generator)
                outcome.add(rows, predicted["novelty"])
                yield {name: table.data[name] for name in kept} | {name: predicted[name] for name in columns}
                shown.step(f"{outcome.n_rows} rows predicted, {outcome.n_rows / (perf_counter() - began):.0f} rows/s")

        needed = list(dict.fromkeys([*kept, *mapping.sources]))
        with closing(reader.chunks(needed)) as tables:  # also after an error, since the file is read ahead
            _write(parts(tables), list(outcome.columns), output, gathered)
    outcome.notes = (*map(as_options, reader.notes), *imputed_notes(outcome.imputed))
    outcome.filled = outcome.n_unpredicted < outcome.n_rows and any(map(mapping.answers_gaps, outcome.missing))
    outcome.seconds = perf_counter() - began
    return outcome


def kept_columns(keep: tuple[str, ...], reader: Reader, columns: list[str]) -> list[str]:
    """The columns that --keep names, checked."""
    kept = list(dict.fromkeys(split_names(keep, reader.names)))
    check_columns(reader.name, reader.names, kept)
    for name in kept:
        if name in columns:
            raise TableError(f"--keep {name}: the output has a column of that name, which holds predictions.")
    return kept


def predict_rows(
    model: GreedyGPRegressor, rows: Encoded, options: Predict, generator: np.random.Generator
) -> dict[str, Floats]:
    """The columns of the output for some rows, and their novelty; NaN for rows with a missing value."""
    n, q = len(rows.X), len(model.y_mean_)
    values, novelty = np.full((n, q, len(options.names)), np.nan), np.full(n, np.nan)
    whole = np.flatnonzero(~np.isnan(rows.X).any(axis=1))
    if len(whole):
        X, unseen = rows.X[whole], taken(rows.unseen, whole)
        mean, std, novelty[whole], quantiles = moments_and_quantiles(model, X, unseen, options.levels)
        parts = [mean[..., None], *([std[..., None]] if options.std else []), quantiles]
        first = len(options.names) - options.samples
        values[whole, :, :first] = np.concatenate(parts, axis=2)
        for begin in range(0, len(X), BLOCK) if options.samples else ():
            here = np.arange(begin, min(begin + BLOCK, len(X)))
            drawn = model.fitted_.samples(X[here], taken(unseen, here), options.samples, generator)
            values[whole[here], :, first:] = drawn.reshape(len(drawn), q, options.samples)
    return dict(zip(options.columns(q), values.reshape(n, -1).T, strict=True)) | {"novelty": novelty}


def moments_and_quantiles(
    model: GreedyGPRegressor, X: Floats, unseen: tuple[Unseen, ...], levels: list[float]
) -> tuple[Floats, Floats, Floats, Floats]:
    """Mean and standard deviation, of shape (n, q), novelty, (n,), and quantiles of some levels, (n, q, levels).

    The distribution is asked for only if there are levels: its widths may take longer than mean and variance.
    """
    if not levels:
        mean, std, novelty = model.fitted_.mean_std_novelty(X, unseen)
        return mean, std, novelty, np.empty((*mean.shape, 0))
    predictive = model.fitted_.predictive(X, unseen)
    novelty = model.fitted_.novelty(X, unseen) if predictive.novelty is None else predictive.novelty
    return predictive.mean, predictive.std, novelty, predictive.quantiles(np.array(levels))


def _write(
    parts: Iterator[dict[str, Any]], names: list[str], output: str, gathered: dict[str, list[Any]] | None
) -> None:
    """Write chunks of predictions to a file, or gather them.

    No file is opened before the first chunk is there: most of what is wrong with a table is found in it.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # names were matched already
        if gathered is not None:
            gathered.update({name: [] for name in names})
            for part in parts:
                for name, values in part.items():
                    gathered[name] += values.to_pylist() if hasattr(values, "to_pylist") else values.tolist()
            return
        first = next(parts, None)
        with open_output(output, names) as write:
            for part in () if first is None else chain([first], parts):
                write(part)
