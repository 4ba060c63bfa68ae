"""Sheets of Excel files: .xlsx, .xls, .xlsb and .ods.

Sheets are made for people: titles stand above the names of the columns, groups of columns have a name of their own,
blank rows part the others. Cells become texts, as those of a file of text are.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from ..core.optional import require
from ..exceptions import TableError
from .base import Dialect, Reader, above_note, is_total, listed, readable, units_note

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
    filled = [(place, row) for place, row in enumerate(rows) if _filled(row)]  # rows that are not blank
    if not filled:
        raise TableError(f"{name} is empty; its first row must be column names, and rows must follow.")
    at = _header([row for _, row in filled])
    header, body = _with_groups(filled[: at + 1], notes), filled[at + 1 :]
    used = [place for row in [header, *(row for _, row in body)] for place in _filled(row)]
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


def _with_groups(head: Rows, notes: list[str]) -> Cells:
    """The names of the columns, which are in the last of some rows; notes say what stands above.

    Names of groups may stand just above. Where two groups have columns of the same names, the group's comes first.
    """
    (place, header), above = head[-1], head[:-1]
    if above and above[-1][0] == place - 1 and len(_filled(above[-1][1])) > 1:
        groups, last = [], ""
        for cell in above.pop()[1]:
            last = _text(cell) or last
            groups.append(last)
        names = [_text(cell) for cell in header]
        shown = listed(list(dict.fromkeys(part for part in groups if part and part not in names)), 3)
        notes.append(f"Column names are in two rows; the upper one ({shown}) names groups of columns.")
        if len(set(names)) < len(names):
            pairs = zip(groups, names, strict=True)
            header = [name if group == name else f"{group} {name}".strip() for group, name in pairs]
    notes += above_note([_text(row[column]) for _, row in above for column in _filled(row)])
    return header


def _first_table(sheets: Iterator[tuple[str, list[Cells]]]) -> tuple[str, list[Cells]]:
    """The name and the rows of the first sheet that has two rows of two cells or more; if none has, of the first."""
    first = None
    for name, rows in sheets:
        if sum(len(_filled(row)) > 1 for row in rows) > 1:
            return name, rows
        first = first or (name, rows)
    return first or ("", [])


def _header(rows: Sequence[Cells]) -> int:
    """The place of the column names among rows that are not blank: the first row that is no title, nor names groups.

    A title fills at most half as many cells as the fullest of the first rows, and texts alone follow, or another title.
    Names of groups have gaps, and texts without gaps follow, which are not the texts of a table of texts.
    """
    first = rows[: TITLES + 1]
    counts = [len(_filled(row)) for row in first]
    most = max(counts)
    at = next(
        place
        for place, count in enumerate(counts)
        if 2 * count > most or (2 * count == most and not _is_text(first[place + 1 : place + 2]))
    )
    below = first[at + 1 : at + 2]
    is_group = (
        counts[at] < most and _is_text(below) and len(_filled(below[0])) == most and not _is_text(first[at + 2 :])
    )
    return at + 1 if is_group else at


def _is_text(rows: Sequence[Cells]) -> bool:
    """Whether some rows hold texts alone; no rows do not."""
    return bool(rows) and all(isinstance(row[place], str) for row in rows for place in _filled(row))


def _filled(row: Cells) -> list[int]:
    """The places of the cells of a row that are not empty."""
    return [place for place, cell in enumerate(row) if cell not in ("", None)]


def _text(cell: Any) -> str:
    """A cell as a text: whole numbers without a decimal point, dates as 2026-01-31."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, dt.datetime) and cell.time() == dt.time():
        return cell.date().isoformat()
    return "" if cell is None else str(cell)
