"""Sheets of Excel files: .xlsx, .xls, .xlsb and .ods.

Sheets are made for people: titles stand above the names of the columns, groups of columns have a name of their own,
blank rows part the others. Cells become texts, as those of a file of text are.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, BinaryIO

from ..core.optional import require
from ..exceptions import TableError
from .base import Dialect, Reader, above_note, are_texts, filled, header_row, is_total, listed, readable, units_note

Cells = list[Any]
"""The cells of a row, from the sheet's first column on; empty ones are "" or None."""
Rows = list[tuple[int, Cells]]
"""Rows of a sheet with their numbers, counted from 0."""

TITLES = 20  # rows among which the names of the columns are sought


def open_excel(stream: BinaryIO, name: str, form: str, dialect: Dialect) -> Reader:
    """A reader of a sheet of an Excel file: the one named, or the first that holds a table and is not hidden."""
    arrow, calamine = require("pyarrow", "cli"), require("python_calamine", "excel")
    with readable(name, "Excel"):
        book = calamine.CalamineWorkbook.from_filelike(stream)
        visible = [part.name for part in book.sheets_metadata if part.visible == calamine.SheetVisibleEnum.Visible]
        wanted = (visible or book.sheet_names) if dialect.part is None else [dialect.part]
        if wanted[0] not in book.sheet_names:
            raise TableError(f"{name} has no sheet {wanted[0]!r}; it has {listed(book.sheet_names, 12)}.")
        sheet, rows = _first_table(
            (part, book.get_sheet_by_name(part).to_python(skip_empty_area=False)) for part in wanted
        )
    notes = []
    if len(wanted) > 1:
        others = f"the first of {len(wanted)} that holds a table; to read another, write {name}::NAME"
        notes.append(f"Sheet {sheet!r} is read, {others}.")
    if len(wanted) > 1 or dialect.part is not None:
        name = f"{name}, sheet {sheet!r}"
    numbered = [(place, row) for place, row in enumerate(rows) if filled(row)]
    if not numbered:
        raise TableError(f"{name} is empty; its first row must be column names, and rows must follow.")
    header, body = _header(numbered, notes)
    used = [place for row in [header, *(row for _, row in body)] for place in filled(row)]
    places = range(min(used), max(used) + 1)
    names = [_text(header[place]).strip() for place in places]
    texts = [[_text(row[place]) for place in places] for _, row in body]
    if units := units_note(texts[0], texts[1 : TITLES + 1]) if texts else None:
        notes.append(units)
        body, texts = body[1:], texts[1:]
    first = next((cell for cell in texts[-1] if cell), "") if len(texts) > 1 else ""
    if is_total(first):
        notes.append(f"Row {body[-1][0] + 1} begins with {first.strip()!r}, and is left out.")
        body, texts = body[:-1], texts[:-1]
    cells = [arrow.array([row[place] for row in texts], arrow.string()) for place in range(len(places))]
    data = arrow.Table.from_arrays(cells, names)
    return Reader.of(data, name, notes=notes, where=lambda row: f"row {body[row][0] + 1}")


def _header(rows: Rows, notes: list[str]) -> tuple[Cells, Rows]:
    """The names of the columns and the rows below, of rows that are not blank; notes say what stands above.

    Names of groups of columns may stand just above the names: a row with gaps, which texts without gaps follow that are
    not the texts of a table of texts. Where two groups have columns of the same names, the group's comes first.
    """
    first = [row for _, row in rows[: TITLES + 1]]
    at, most = header_row(first), max(len(filled(row)) for row in first)
    below = first[at + 1 : at + 2]
    has_gaps = len(filled(first[at])) < most and are_texts(below) and len(filled(below[0])) == most
    at += has_gaps and not are_texts(first[at + 2 :])
    header, above = first[at], first[:at]
    if above and rows[at - 1][0] == rows[at][0] - 1 and len(filled(above[-1])) > 1:
        groups = list(accumulate(map(_text, above.pop()), _last))
        header = names = [_text(cell) for cell in header]
        shown = listed(list(dict.fromkeys(group for group in groups if group and group not in names)), 3)
        notes.append(f"Column names are in two rows; the upper one ({shown}) names groups of columns.")
        if len(set(names)) < len(names):
            pairs = zip(groups, names, strict=True)
            header = [name if group == name else f"{group} {name}".strip() for group, name in pairs]
    notes += above_note([_text(cell) for row in above for cell in row])
    return header, rows[at + 1 :]


def _last(text: str, cell: str) -> str:
    """The later of two texts that is not empty."""
    return cell or text


def _first_table(sheets: Iterator[tuple[str, list[Cells]]]) -> tuple[str, list[Cells]]:
    """The name and the rows of the first sheet that has two rows of two cells or more; if none has, of the first."""
    first = None
    for name, rows in sheets:
        if sum(len(filled(row)) > 1 for row in rows) > 1:
            return name, rows
        first = first or (name, rows)
    return first or ("", [])


def _text(cell: Any) -> str:
    """A cell as a text: whole numbers without a decimal point, dates as 2026-01-31."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, dt.datetime) and cell.time() == dt.time():
        return cell.date().isoformat()
    return "" if cell is None else str(cell)
