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
from ..report.inputs import Beyond, Ends
from ..report.words import bars_of
from ..tables import Encoded, Table, check_output, open_output, open_table
from ..tables.base import check_columns
from ..tables.preprocessing import imputed_notes
from ..tables.unseen import taken
from ._common import FILLED, as_options, check_inputs_and_output, conclude, missing_words, split_names
from ._data import dialect_of, mapping_of
from ._progress import Display, display
from .options import Predict

BLOCK = 500  # rows whose samples are drawn together, from one covariance: O(BLOCK^3) time for every block
MOST_ENDS = 3  # ends of inputs beyond which rows are warned of; of more, those with most rows


@dataclass
class PredictOutcome:
    """How many rows were predicted, what was noticed in them, and, if asked for, the predictions."""

    model: str
    data: str
    output: str | None
    columns: tuple[str, ...]
    outside: float
    """The novelty above which a row lies outside the data."""
    predictions: dict[str, list[Any]] | None
    """The predictions themselves, if they are gathered."""
    beyond: list[Beyond]
    """Rows beyond the ends of the inputs, those after the last time for one; the ends with most rows first."""
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
        for part in self.beyond[:MOST_ENDS]:
            yield f"{self._count(part.n_rows)} {part}."
        if self.n_outside:
            yield (
                f"{self._count(self.n_outside)} outside the data, with a novelty above {self.outside:.2g}: few rows of "
                "the fit say anything about them. See --novelty and --std."
            )

    def _count(self, some: int) -> str:
        """So many of the rows, as the beginning of a sentence."""
        return f"{some} of {self.n_rows} row{'s' * (self.n_rows > 1)} {'lie' if some > 1 else 'lies'}"


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
    began, output, shown = perf_counter(), options.output, shown or Display()
    check_inputs_and_output(options, options.model)
    check_output(output)
    model = load(options.model)
    generator, bars, ends = np.random.default_rng(options.seed), bars_of(model.posterior_), Ends(model)
    columns = options.columns(len(model.y_mean_)) + ["novelty"] * options.novelty
    with open_table(str(options.data), dialect=dialect_of(model, options.dialect)) as reader:
        mapping, kept = mapping_of(model, reader), list(dict.fromkeys(split_names(options.keep, reader.names)))
        check_columns(reader.name, reader.names, kept)
        for name in kept:
            if name in columns:
                raise TableError(f"--keep {name}: the output has a column of that name, which holds predictions.")
        gathered: dict[str, list[Any]] | None = {} if options.as_json and output == "-" else None
        outcome = PredictOutcome(
            model=options.model,
            data=str(options.data),
            output=output if gathered is None else None,
            columns=(*kept, *columns),
            outside=UNKNOWN if bars is None else bars.outside,
            predictions=gathered,
            beyond=[],
        )

        def parts(tables: Iterator[Table]) -> Iterator[dict[str, Any]]:
            """Predict and count chunks of rows."""
            for table in tables:
                rows = mapping.encode(table)
                predicted = predict_rows(model, rows, options, generator)
                novelty = predicted["novelty"]  # NaN, and so not outside, where a value is missing
                outcome.n_rows += len(rows.X)
                outcome.n_outside += int((novelty > outcome.outside).sum())
                outcome.n_unpredicted += int(np.isnan(novelty).sum())
                for name, levels in rows.strange.items():
                    outcome.unknown_levels.setdefault(name, Counter()).update(levels)
                outcome.missing.update(rows.missing)
                outcome.imputed.update(rows.imputed)
                ends.count(rows.X)
                yield {name: table.data[name] for name in kept} | {name: predicted[name] for name in columns}
                shown.step(f"{outcome.n_rows} rows predicted, {outcome.n_rows / (perf_counter() - began):.0f} rows/s")

        needed = list(dict.fromkeys([*kept, *mapping.sources]))
        with closing(reader.chunks(needed)) as tables:  # also after an error, since the file is read ahead
            _write(parts(tables), list(outcome.columns), output, gathered)
    outcome.notes = (*map(as_options, reader.notes), *imputed_notes(outcome.imputed))
    outcome.filled = outcome.n_unpredicted < outcome.n_rows and any(map(mapping.answers_gaps, outcome.missing))
    outcome.beyond = ends.beyond()
    outcome.seconds = perf_counter() - began
    return outcome


def predict_rows(
    model: GreedyGPRegressor, rows: Encoded, options: Predict, generator: np.random.Generator
) -> dict[str, Floats]:
    """The columns of the output for some rows, and their novelty; NaN for rows with a missing value.

    The distribution is asked for only if there are quantiles: its widths may take longer than mean and variance.
    """
    n, q, fitted = len(rows.X), len(model.y_mean_), model.fitted_
    values, novelty = np.full((n, q, len(options.names)), np.nan), np.full(n, np.nan)
    whole = np.flatnonzero(~np.isnan(rows.X).any(axis=1))
    if len(whole):
        X, unseen = rows.X[whole], taken(rows.unseen, whole)
        if options.levels:
            predictive = fitted.predictive(X, unseen)
            mean, std, known = predictive.mean, predictive.std, predictive.novelty
            novelty[whole] = fitted.novelty(X, unseen) if known is None else known
            quantiles = predictive.quantiles(np.array(options.levels))
        else:
            mean, std, novelty[whole] = fitted.mean_std_novelty(X, unseen)
            quantiles = np.empty((*mean.shape, 0))
        parts = [mean[..., None], *([std[..., None]] if options.std else []), quantiles]
        first = len(options.names) - options.samples
        values[whole, :, :first] = np.concatenate(parts, axis=2)
        for begin in range(0, len(X), BLOCK) if options.samples else ():
            here = np.arange(begin, min(begin + BLOCK, len(X)))
            drawn = fitted.samples(X[here], taken(unseen, here), options.samples, generator)
            values[whole[here], :, first:] = drawn.reshape(len(drawn), q, options.samples)
    return dict(zip(options.columns(q), values.reshape(n, -1).T, strict=True)) | {"novelty": novelty}


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
