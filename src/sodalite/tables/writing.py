"""Writing tables to files, a chunk of rows at a time; a file is written whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..core.files import check_writable, is_special, replacing
from ..core.optional import require
from ..exceptions import TableError
from .parquet import PARQUET, parquet_files
from .reading import format_of

WRITTEN = ("csv", "tsv", "parquet", "arrow")  # formats that tables are written in

Write = Callable[[Mapping[str, Any]], None]  # writes some rows, given as arrays by column name


def check_output(path: str | os.PathLike[str]) -> None:
    """Check, before any long work, that a table can be written at a path, and that its format is known."""
    if str(path) == "-":
        return
    form = format_of(path)
    if form not in WRITTEN:
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
    form = format_of(path)
    try:
        with ExitStack() as stack:
            if str(path) == "-":
                stream: Any = stack.enter_context(_standard_output())
            else:
                stream = stack.enter_context(open(stack.enter_context(replacing(path)), "wb"))
            if str(path).lower().endswith(".gz"):
                stream = stack.enter_context(gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=4, mtime=0))
            yield stack.enter_context(_writer(stream, names, form))
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


@contextmanager
def _writer(stream: Any, names: list[str], form: str) -> Iterator[Write]:
    """A function that writes rows to a stream: lines of text, or by one of Arrow's writers.

    NaNs of NumPy's arrays become nulls, and arrays of Arrow's stay as they are. Text is written by Python's writer,
    since Arrow's puts every text in quotation marks; Arrow's is opened once the first rows tell the columns' types.
    """
    arrow, is_text = require("pyarrow", "cli"), form in ("csv", "tsv")
    with ExitStack() as stack:
        writer: Any = None

        def write_lines(rows: Any) -> None:
            text = io.StringIO(newline="")
            csv.writer(text, delimiter="\t" if form == "tsv" else ",", lineterminator="\n").writerows(rows)
            stream.write(text.getvalue().encode())

        def write(columns: Mapping[str, Any]) -> None:
            nonlocal writer
            arrays = {name: columns[name] for name in names}
            table = arrow.table(
                {
                    name: arrow.array(a, from_pandas=True) if isinstance(a, np.ndarray) else a
                    for name, a in arrays.items()
                }
            )
            if is_text:
                write_lines(zip(*(column.to_pylist() for column in table.columns), strict=True))
                return
            if writer is None:
                module, function = ("parquet", "ParquetWriter") if form == "parquet" else ("ipc", "new_file")
                open_file = getattr(require(f"pyarrow.{module}", "parquet"), function)
                writer = stack.enter_context(open_file(stream, table.schema))
            writer.write_table(table)

        if is_text:
            write_lines([names])
        yield write
        if not is_text and writer is None:
            write({name: np.empty(0) for name in names})


def overwrites(output: str | os.PathLike[str], source: str | os.PathLike[str] | int) -> bool:
    """Whether writing a file would overwrite data that is read: the same file, or a Parquet file of the same folder.

    Links, hard or symbolic, are followed. A model may be written into a folder of tables.

    Parameters
    ----------
    output : str or path-like
        The file to write.
    source : str, path-like or int
        The file to read, a folder of Parquet files, or the descriptor of an open file.
    """
    if is_special(output):
        return False
    try:
        if os.path.samestat(os.stat(output), os.stat(source)):
            return True
    except (OSError, ValueError):  # one of them is not there
        pass
    if isinstance(source, int):
        return False
    target, origin = Path(os.path.realpath(output)), Path(os.path.realpath(source))
    if not origin.is_dir():
        return target == origin
    within = target.suffix.lower() in PARQUET and origin in target.parents
    return within or (target.exists() and any(os.path.samefile(target, file) for file in parquet_files(origin)))
