"""Sheets of Excel files: .xlsx, .xls, .xlsb and .ods, whose cells become texts that are read as a file of text is."""

from __future__ import annotations

import csv
import datetime as dt
import io
from dataclasses import replace
from typing import Any, BinaryIO

from ..core.optional import require
from ..exceptions import TableError
from .base import Dialect, Reader, is_total, listed, readable
from .layout import filled
from .text import open_text


def open_excel(stream: BinaryIO, name: str, form: str, dialect: Dialect) -> Reader:
    """A reader of a sheet of an Excel file: the one named, or the first that holds a table and is not hidden."""
    calamine = require("python_calamine", "excel")
    with readable(name, "Excel"):
        book = calamine.CalamineWorkbook.from_filelike(stream)
        visible = [part.name for part in book.sheets_metadata if part.visible == calamine.SheetVisibleEnum.Visible]
        wanted = (visible or book.sheet_names) if dialect.part is None else [dialect.part]
        if wanted[0] not in book.sheet_names:
            raise TableError(f"{name} has no sheet {wanted[0]!r}; it has {listed(book.sheet_names, 12)}.")
        sheets = {part: _rows(book.get_sheet_by_name(part).to_python(skip_empty_area=False)) for part in wanted}
    tables = [part for part, rows in sheets.items() if sum(len(filled(row)) > 1 for row in rows.values()) > 1]
    sheet = (tables or wanted)[0]
    others = f"the first of {len(wanted)} that holds a table; to read another, write {name}::NAME"
    notes = [f"Sheet {sheet!r} is read, {others}."] if len(wanted) > 1 else []
    name = f"{name}, sheet {sheet!r}" if len(wanted) > 1 or dialect.part is not None else name
    rows = sheets[sheet]
    if len(rows) > 2 and is_total(word := _first(rows[max(rows)])):
        notes.append(f"Row {max(rows) + 1} begins with {word.strip()!r}, and is left out.")
        del rows[max(rows)]
    used = [place for row in rows.values() if len(filled(row)) > 1 for place in filled(row)]
    begin, end = min(used, default=0), max(used, default=0) + 1
    text, numbers = io.StringIO(newline=""), list(rows)
    for row in rows.values():  # what stands beside the table, such as a title, is put above its first column
        cells = row[begin:end]
        csv.writer(text).writerow(cells if filled(cells) else [_first(row), *cells[1:]])
    as_written = replace(dialect, sep=",", encoding=None)
    lines = io.BytesIO(text.getvalue().encode())
    reader = open_text(lines, name, "csv", as_written, lambda line: f"row {numbers[line] + 1}")
    return replace(reader, notes=[*notes, *reader.notes])


def _rows(cells: list[list[Any]]) -> dict[int, list[str]]:
    """The rows of a sheet that are not blank, as texts, by their numbers."""
    rows = {number: [_text(cell) for cell in row] for number, row in enumerate(cells)}
    return {number: row for number, row in rows.items() if filled(row)}


def _first(row: list[str]) -> str:
    """The first cell of a row that is not empty."""
    return row[filled(row)[0]]


def _text(cell: Any) -> str:
    """A cell as a text: whole numbers without a decimal point, dates as 2026-01-31."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, dt.datetime) and cell.time() == dt.time():
        return cell.date().isoformat()
    return "" if cell is None else str(cell)
