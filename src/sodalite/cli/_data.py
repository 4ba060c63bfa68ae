"""Tables as the commands take them: training data for fit and select, new rows for predict and report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ._common import split_names

if TYPE_CHECKING:
    from ..core.types import Indices
    from ..estimator import GreedyGPRegressor
    from ..tables import Dialect, Options, Preprocessing, Reader, Table, Training

EMBEDDED = "Mauna Loa CO2"  # the name of the data set that comes with the package


class Choice(NamedTuple):
    """Which columns of a table are used, and how they are read."""

    target: str | None = None
    features: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    missing: str = "indicator"
    options: Options | None = None
    dialect: Dialect | None = None


Look = Callable[["Training"], "Indices"]
"""A function that names rows of training data which are to be left out."""


def read_training(data: str | None, choice: Choice, seed: int = 0, look: Look | None = None) -> Training:
    """The table DATA, or the embedded one if that is None, as a model is fitted to it.

    Rows that `look` names are left out; those of a table on disk are not looked at.
    """
    from ..tables import is_on_disk, read_table

    if data is not None and data != "-" and is_on_disk(data):
        return learn_from_disk(data, choice)[0]
    table = embedded_table() if data is None else read_table(data, choice.dialect)
    target = "co2" if data is None and choice.target is None else which_target(table, choice.target)
    found = learn_from_memory(table, target, choice, seed)
    bad = look(found) if look is not None else ()
    return found if not len(bad) else learn_from_memory(table, target, choice, seed, found.rows[bad])


def learn_from_memory(
    table: Table, target: str, choice: Choice, seed: int = 0, leave_out: Indices | tuple[()] = ()
) -> Training:
    """A table in memory as a model is fitted to it, with columns as --features and --exclude name them."""
    from ..tables import learn
    from ..tables.preprocessing import check_columns

    some = split_names(choice.features, table.names) if choice.features else None
    options = choice.options
    if options is not None:
        formats = options.date_format if isinstance(options.date_format, Mapping) else {}
        check_columns(table.name, table.names, [*options.order, *(options.latlon or ()), *formats])
        options = replace(options, prefer=table.prefer)
    exclude = split_names(choice.exclude, table.names)
    return learn(table, target, some, exclude, choice.missing, options, seed, leave_out)


def learn_from_disk(data: str, choice: Choice) -> tuple[Training, list[str]]:
    """A table that is left on disk as a model is fitted to it, and the names of all its columns."""
    from ..tables import ParquetRows, TableError, learn_on_disk

    if choice.missing in ("drop", "median"):
        raise TableError(f"--missing {choice.missing} needs a table in memory; leave out such rows of {data} first.")
    names = list(ParquetRows.columns_of(data))
    some = split_names(choice.features, names) if choice.features else None
    return learn_on_disk(data, choice.target, some, split_names(choice.exclude, names)), names


def which_target(table: Table, target: str | None) -> str:
    """The target's name: as given, or "y" of an NPZ file."""
    from ..tables import TableError
    from ..tables.base import listed

    if target is not None:
        return target
    if table.name.lower().endswith(".npz") and "y" in table.names:
        return "y"
    raise TableError(f"--target is needed: which column of {table.name} is to be predicted? {listed(table.names, 12)}")


def embedded_table() -> Table:
    """The data set that comes with the package, as a table."""
    from ..core.optional import require
    from ..datasets import load_mauna_loa
    from ..tables import Table

    X, y = load_mauna_loa()
    return Table(require("pyarrow", "cli").table({"year": X[:, 0], "co2": y}), EMBEDDED, lambda row: f"row {row}")


def dialect_of(model: GreedyGPRegressor, dialect: Dialect | None) -> Dialect:
    """How a file for a model is written: an encoding that fit was given is that of files which are not UTF-8."""
    from ..tables import Dialect

    found = dialect or Dialect()
    mapping: Preprocessing | None = getattr(model, "preprocessing_", None)
    known = None if mapping is None else mapping.encoding
    if known is None or found.encoding is not None:
        return found
    return replace(found, otherwise=known) if _holds_ascii(known) else replace(found, encoding=known)


def _holds_ascii(encoding: str) -> bool:
    """Whether ASCII characters are the same bytes in an encoding, so that a file may turn out to be in it."""
    plain = "".join(map(chr, range(32, 127)))
    try:
        return plain.encode(encoding) == plain.encode()
    except (LookupError, UnicodeError):
        return False


def mapping_of(model: GreedyGPRegressor, reader: Reader) -> Preprocessing:
    """How a table's columns become the model's inputs.

    A model that was saved without preprocessing takes columns of numbers: those that have its inputs' names, or, if
    the inputs have no names, all columns of the table.
    """
    from ..tables import TableError

    mapping: Preprocessing | None = getattr(model, "preprocessing_", None)
    if mapping is not None:
        return mapping
    given = getattr(model, "feature_names_in_", None)
    d = model.n_features_in_
    if given is None and len(reader.names) != d:
        raise TableError(f"The model has {d} inputs without names, so {reader.name} must have just these {d} columns.")
    return _numbers(reader.names if given is None else [str(name) for name in given])


def mapping_and_target(model: GreedyGPRegressor, reader: Reader, target: str | None) -> tuple[Preprocessing, str]:
    """How a table's columns become the model's inputs, and which column is the target."""
    from ..tables import TableError
    from ..tables.preprocessing import nearest

    mapping: Preprocessing | None = getattr(model, "preprocessing_", None)
    known = target or (mapping.target if mapping is not None else None)
    if mapping is None:
        mapping, known = _mapping_without_preprocessing(model, reader, known)
    if known is None or known not in reader.names:
        raise TableError(
            f"{reader.name} has no column {known!r}, the target: without it, rows cannot judge the model."
            f"{nearest(str(known), reader.names)}"
        )
    mapping.check_names(reader.names, reader.name)
    return mapping, known


def _mapping_without_preprocessing(
    model: GreedyGPRegressor, reader: Reader, target: str | None
) -> tuple[Preprocessing, str]:
    """Columns of numbers for a model that was saved without preprocessing, and the target.

    The target need not be given if it is the only column that is not one of the model's named inputs.
    """
    from ..tables import TableError
    from ..tables.base import listed

    given, d = getattr(model, "feature_names_in_", None), model.n_features_in_
    if target is None and given is not None:
        inputs = set(given)
        others = [name for name in reader.names if name not in inputs]
        target = others[0] if len(others) == 1 else None
    if target is None:
        raise TableError(
            f"--target is needed: which column of {reader.name} did the model learn? {listed(reader.names, 12)}"
        )
    names = [name for name in reader.names if name != target] if given is None else [str(name) for name in given]
    if len(names) != d:
        raise TableError(
            f"The model has {d} inputs without names, so {reader.name} must have just these columns and its target."
        )
    return _numbers(names), target


def _numbers(names: list[str]) -> Preprocessing:
    """Columns that are taken as they are."""
    from ..tables import Numbers, Preprocessing

    return Preprocessing(None, tuple(Numbers(name) for name in names))
