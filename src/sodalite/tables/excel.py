"""A reader of Excel files: .xlsx, .xls, .xlsb and .ods."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from ..core.optional import require
from .base import Dialect, Reader, Table, TableError, first_line


class ExcelReader(Reader):
    """A reader of the first sheet of an Excel file; its first row that is not empty holds the names of the columns."""

    def __init__(self, stream: BinaryIO, name: str, form: str, dialect: Dialect) -> None:
        super().__init__(stream, name)
        self._arrow, calamine = require("pyarrow", "cli"), require("python_calamine", "excel")
        try:
            book = calamine.CalamineWorkbook.from_filelike(stream)
            sheet = book.get_sheet_by_index(0)
            rows = sheet.to_python(skip_empty_area=False)
        except Exception as error:  # the reader raises errors of many kinds for damaged files
            raise TableError(f"{name} cannot be read as Excel: {first_line(error)}.") from None
        if len(book.sheet_names) > 1:
            self.notes.append(f"The first sheet of {len(book.sheet_names)} is read, {book.sheet_names[0]!r}.")
        while rows and _is_empty(rows[-1]):
            rows.pop()
        self._skipped = next((place for place, row in enumerate(rows) if not _is_empty(row)), None)
        if self._skipped is None:
            raise TableError(f"{name} is empty; its first row must be column names, and rows must follow.")
        header, self._rows = rows[self._skipped], rows[self._skipped + 1 :]
        width = max(
            place + 1 for row in [header, *self._rows] for place, cell in enumerate(row) if cell not in ("", None)
        )
        first = next(
            place for place in range(width) if any(row[place] not in ("", None) for row in [header, *self._rows])
        )
        self._places = range(first, width)
        self.names = self.unique([str(header[place]).strip() for place in self._places])

    def read(self) -> Table:
        columns = [_column([row[place] for row in self._rows]) for place in self._places]
        return self._table(self._arrow.table([self._arrow.array(column) for column in columns], self.names))

    def chunks(self, kinds: Mapping[str, str]) -> Iterator[Table]:
        table = self.read()
        yield self._table(table.data.select(list(kinds)))

    def where(self, row: int) -> str:
        return f"row {row + 2 + (self._skipped or 0)}"


def _is_empty(row: list[Any]) -> bool:
    return all(cell in ("", None) for cell in row)


def _column(cells: list[Any]) -> list[Any]:
    """Cells as values of one type; empty ones as None."""
    cells = [None if cell == "" else cell for cell in cells]
    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds == {int, float}:
        return [None if cell is None else float(cell) for cell in cells]
    if kinds == {dt.date, dt.datetime}:
        return [
            cell if cell is None or isinstance(cell, dt.datetime) else dt.datetime(*cell.timetuple()[:3])
            for cell in cells
        ]
    return cells if len(kinds) < 2 else [None if cell is None else str(cell) for cell in cells]
