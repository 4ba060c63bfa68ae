"""Writing tables to files, a chunk of rows at a time; a file is written whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any

import numpy as np

from ..core.files import check_writable, replacing
from ..core.optional import require
from ..exceptions import TableError
from .reading import format_of

Write = Callable[[Mapping[str, Any]], None]  # writes some rows, given as arrays by column name


def check_output(path: str | os.PathLike[str]) -> None:
    """Check, before any long work, that a table can be written at a path, and that its format is known."""
    if str(path) == "-":
        return
    form = format_of(path)
    if form not in _WRITERS:
        raise TableError(f"{path}: which format is this? Files of format {form} can be read, not written; write .csv.")
    if form in ("parquet", "arrow"):
        require("pyarrow", "parquet")
    try:
        check_writable(path)
    except OSError as error:
        raise TableError(f"{path} cannot be written: {error.strerror or error}.") from None


@contextmanager
def open_output(path: str | os.PathLike[str], names: list[str]) -> Iterator[Write]:
    """A function that writes some rows of a table, which are given as arrays by column name.

    The format is that of the path's suffix; "-" is CSV on standard output. A missing number (NaN) becomes an empty
    cell, or null. The file appears once all rows have been written.
    """
    check_output(path)
    try:
        with ExitStack() as stack:
            if str(path) == "-":
                stream: Any = stack.enter_context(_standard_output())
            else:
                stream = stack.enter_context(open(stack.enter_context(replacing(path)), "wb"))
            if str(path).lower().endswith(".gz"):
                stream = stack.enter_context(gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=4, mtime=0))
            yield stack.enter_context(_WRITERS[format_of(path)](stream, names))
    except OSError as error:
        if isinstance(error, BrokenPipeError) or str(path) == "-":
            raise
        raise TableError(f"{path} could not be written: {error.strerror or error}.") from None


@contextmanager
def _standard_output() -> Iterator[Any]:
    """Standard output, buffered: with PYTHONUNBUFFERED, a write to a pipe may write only a part."""
    out = sys.stdout.buffer
    stream: Any = io.BufferedWriter(out) if isinstance(out, io.RawIOBase) else out
    try:
        yield stream
        stream.flush()
    finally:
        if stream is not out:
            with suppress(OSError):
                stream.detach()


def write_table(path: str | os.PathLike[str], data: Any) -> None:
    """Write a pyarrow.Table."""
    with open_output(path, data.column_names) as write:
        write({name: data[name] for name in data.column_names})


def _arrow_table(columns: Mapping[str, Any], names: list[str]) -> Any:
    """Rows as a table of Arrow's: NaNs of NumPy's arrays are nulls, and arrays of Arrow's stay as they are."""
    arrow = require("pyarrow", "cli")
    arrays = {name: columns[name] for name in names}
    return arrow.table(
        {name: arrow.array(a, from_pandas=True) if isinstance(a, np.ndarray) else a for name, a in arrays.items()}
    )


@contextmanager
def _text(stream: Any, names: list[str], mark: str = ",") -> Iterator[Write]:
    """A function that writes lines of text, by Python's writer: Arrow's puts every text in quotation marks."""

    def write_rows(rows: Any) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, delimiter=mark, lineterminator="\n").writerows(rows)
        stream.write(text.getvalue().encode())

    write_rows([names])
    yield lambda columns: write_rows(
        zip(*(column.to_pylist() for column in _arrow_table(columns, names).columns), strict=True)
    )


@contextmanager
def _binary(stream: Any, names: list[str], open_file: Callable[[Any, Any], Any]) -> Iterator[Write]:
    """A function that writes rows by one of Arrow's writers, opened once the first rows tell the columns' types."""
    with ExitStack() as stack:
        writer: Any = None

        def write(columns: Mapping[str, Any]) -> None:
            nonlocal writer
            table = _arrow_table(columns, names)
            writer = writer or stack.enter_context(open_file(stream, table.schema))
            writer.write_table(table)

        yield write
        if writer is None:
            write({name: np.empty(0) for name in names})


@contextmanager
def _npz(stream: Any, names: list[str]) -> Iterator[Write]:
    """A function that gathers rows in memory; the file, in which an array begins with its length, is written last."""
    parts: dict[str, list[Any]] = {name: [] for name in names}

    def write(columns: Mapping[str, Any]) -> None:
        for name in names:
            values = np.asarray(columns[name])
            is_text = values.dtype == object
            parts[name].append(np.array([str(value or "") for value in values.tolist()]) if is_text else values)

    yield write
    arrays: dict[str, Any] = {name: np.concatenate(part or [np.empty(0)]) for name, part in parts.items()}
    np.savez(stream, **arrays)


_WRITERS: dict[str, Callable[[Any, list[str]], AbstractContextManager[Write]]] = {
    "csv": _text,
    "tsv": lambda stream, names: _text(stream, names, "\t"),
    "parquet": lambda stream, names: _binary(stream, names, require("pyarrow.parquet", "parquet").ParquetWriter),
    "arrow": lambda stream, names: _binary(stream, names, require("pyarrow.ipc", "parquet").new_file),
    "npz": _npz,
}
