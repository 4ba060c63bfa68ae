"""Tables as the commands take them: training data for fit and select, new rows for predict and report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..core.optional import require
from ..datasets import load_mauna_loa
from ..estimator import GreedyGPRegressor
from ..exceptions import TableError
from ..tables import (
    Numbers,
    ParquetRows,
    Preprocessing,
    Reader,
    Table,
    Training,
    is_on_disk,
    learn,
    learn_on_disk,
    read_table,
)
from ..tables import Options as ColumnOptions
from ..tables.base import Dialect, check_columns, listed, nearest
from ._common import as_options, split_names
from .options import Columns

EMBEDDED = "Mauna Loa CO2"  # the name of the data set that comes with the package


def read_training(options: Columns) -> Training:
    """The table that a command names, or the embedded one if it names none, as a model is fitted to it."""
    data = options.data
    if data is not None and data != "-" and is_on_disk(data):
        return learn_from_disk(options)[0]
    if data is not None:
        table = read_table(data, options.dialect)
        return learn_from_memory(table, which_target(table, options.target), options)
    X, y = load_mauna_loa()
    table = Reader.of(require("pyarrow", "cli").table({"year": X[:, 0], "co2": y}), EMBEDDED).read()
    return learn_from_memory(table, options.target or "co2", options)


def learn_from_memory(table: Table, target: str, options: Columns) -> Training:
    """A table in memory as a model is fitted to it, with the columns that the options name."""
    some = split_names(options.features, table.names) if options.features else None
    formats = options.date_format if isinstance(options.date_format, Mapping) else {}
    check_columns(table.name, table.names, [*options.order, *(options.latlon or ()), *formats])
    names = ("missing", "order", "latlon", "date_format", "na_values", "decimal", "thousands")
    reading = ColumnOptions(prefer=table.reader.prefer, **{name: getattr(options, name) for name in names})
    exclude = split_names(options.exclude, table.names)
    training = learn(table, target, some, exclude, options.missing, reading, options.seed)
    readings = tuple(replace(reading, words=as_options(reading.words)) for reading in training.readings)
    return replace(training, notes=tuple(map(as_options, training.notes)), readings=readings)


def learn_from_disk(options: Columns) -> tuple[Training, list[str]]:
    """A table that is left on disk as a model is fitted to it, and the names of all its columns."""
    data = str(options.data)
    if options.missing in ("drop", "median"):
        raise TableError(f'missing="{options.missing}" needs a table in memory; leave out such rows of {data} first.')
    names = list(ParquetRows.columns_of(data))
    some = split_names(options.features, names) if options.features else None
    return learn_on_disk(data, options.target, some, split_names(options.exclude, names)), names


def which_target(table: Table, target: str | None) -> str:
    """The name of the target, which is needed."""
    if target is not None:
        return target
    raise TableError(f"`target` is needed: which column of {table.name} is to be predicted? {listed(table.names, 12)}")


def dialect_of(model: GreedyGPRegressor, dialect: Dialect) -> Dialect:
    """How a file for a model is written: an encoding that fit was told is that of files which are not UTF-8."""
    mapping: Preprocessing | None = getattr(model, "preprocessing_", None)
    known = None if mapping is None else mapping.encoding
    if known is None or dialect.encoding is not None:
        return dialect
    plain = bytes(range(32, 127)).decode()
    holds_ascii = plain.encode(known, "replace") == plain.encode()  # then a file may turn out to be in UTF-8
    return replace(dialect, otherwise=known) if holds_ascii else replace(dialect, encoding=known)


def mapping_of(model: GreedyGPRegressor, reader: Reader, target: str | None = None) -> Preprocessing:
    """How a table's columns become the model's inputs; `target` is the column that none of them is.

    A model that was saved without preprocessing takes columns of numbers: those that have its inputs' names, or, if
    the inputs have no names, all others of the table.
    """
    mapping: Preprocessing | None = getattr(model, "preprocessing_", None)
    if mapping is None:
        inputs, d = getattr(model, "feature_names_in_", None), model.n_features_in_
        names = [name for name in reader.names if name != target] if inputs is None else list(map(str, inputs))
        if len(names) != d:
            columns = f"these {d} columns" if target is None else "these columns and its target"
            raise TableError(f"The model has {d} inputs without names, so {reader.name} must have just {columns}.")
        mapping = Preprocessing(None, tuple(Numbers(name) for name in names))
    mapping.check_names(reader.names, reader.name)
    return mapping


def target_of(model: GreedyGPRegressor, reader: Reader, target: str | None) -> str:
    """The column that a model predicts: that of the option, of the fit, or the only one that is not an input."""
    mapping: Preprocessing | None = getattr(model, "preprocessing_", None)
    names = getattr(model, "target_names_", None) if mapping is None or mapping.target is None else [mapping.target]
    known = target or (names[0] if names else None)
    inputs = getattr(model, "feature_names_in_", None)
    if known is None and mapping is None and inputs is not None:
        others = [name for name in reader.names if name not in set(inputs)]
        known = others[0] if len(others) == 1 else None
    if known is None and mapping is None:
        raise TableError(
            f"`target` is needed: which column of {reader.name} did the model learn? {listed(reader.names, 12)}"
        )
    if known not in reader.names:
        raise TableError(
            f"{reader.name} has no column {known!r}, the target: without it, rows cannot judge the model."
            f"{nearest(str(known), reader.names)}"
        )
    return str(known)
