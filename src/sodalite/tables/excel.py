"""A reader of Excel files: .xlsx, .xls, .xlsb and .ods.

Sheets are made for people: titles stand above the names of the columns, groups of columns have a name of their own,
blank rows part the others, and the last row may be a total. What is left out is said.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from ..core.optional import require
from .base import Dialect, Reader, Table, TableError, first_line, is_total, listed
from .written import example, read_dates

Cells = list[Any]
"""The cells of a row, from the sheet's first column on; empty ones are "" or None."""

TITLES = 20  # rows among which the names of the columns are sought


class ExcelReader(Reader):
    """A reader of the first sheet of an Excel file that holds a table and is not hidden."""

    def __init__(self, stream: BinaryIO, name: str, form: str, dialect: Dialect) -> None:
        super().__init__(stream, name)
        self._arrow, calamine = require("pyarrow", "cli"), require("python_calamine", "excel")
        try:
            book = calamine.CalamineWorkbook.from_filelike(stream)
            visible = [
                part.name for part in book.sheets_metadata if part.visible == calamine.SheetVisibleEnum.Visible
            ] or book.sheet_names
            sheet, rows = _first_table(
                (part, book.get_sheet_by_name(part).to_python(skip_empty_area=False)) for part in visible
            )
        except Exception as error:  # the reader raises errors of many kinds for damaged files
            raise TableError(f"{name} cannot be read as Excel: {first_line(error)}.") from None
        if len(visible) > 1:
            others = f"the first of {len(visible)} that holds a table; to read another, put it first"
            self.notes.append(f"Sheet {sheet!r} is read, {others}.")
            self.name = f"{name}, sheet {sheet!r}"
        # The rows that are not blank, and their numbers from 0.
        filled = [(place, row) for place, row in enumerate(rows) if _filled(row)]
        if not filled:
            raise TableError(f"{name} is empty; its first row must be column names, and rows must follow.")
        at = _header([row for _, row in filled])
        header = self._with_groups(filled[: at + 1])
        body = self._without_total(filled[at + 1 :])
        self._rows, self._numbers = [row for _, row in body], [place for place, _ in body]
        used = [place for row in [header, *self._rows] for place in _filled(row)]
        self._places = range(min(used), max(used) + 1)
        self.names = self.unique([_text(header[place]).strip() for place in self._places])

    def read(self) -> Table:
        places = zip(self.names, self._places, strict=True)
        columns = [self._column(name, [row[place] for row in self._rows]) for name, place in places]
        return self._table(self._arrow.table([self._arrow.array(column) for column in columns], self.names))

    def chunks(self, kinds: Mapping[str, str]) -> Generator[Table, None, None]:
        table = self.read()
        yield self._table(table.data.select(list(kinds)))

    def where(self, row: int) -> str:
        return f"row {self._numbers[row] + 1}"

    def _with_groups(self, head: list[tuple[int, Cells]]) -> Cells:
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
            self.notes.append(f"Column names are in two rows; the upper one ({shown}) names groups of columns.")
            if len(set(names)) < len(names):
                pairs = zip(groups, names, strict=True)
                header = [name if group == name else f"{group} {name}".strip() for group, name in pairs]
        if above:
            texts = [_text(row[column]) for _, row in above for column in _filled(row)]
            self.notes.append(f"What stands above the column names is left out ({listed(texts, 3)}).")
        return header

    def _without_total(self, body: list[tuple[int, Cells]]) -> list[tuple[int, Cells]]:
        """The rows without a last one of totals."""
        if len(body) < 2:
            return body
        place, row = body[-1]
        first = row[_filled(row)[0]]
        if not isinstance(first, str) or not is_total(first):
            return body
        self.notes.append(f"Row {place + 1} begins with {first.strip()!r}, and is left out.")
        return body[:-1]

    def _column(self, name: str, cells: Cells) -> Cells:
        """Cells as values of one type; empty ones as None."""
        cells = [None if cell == "" else cell for cell in cells]
        kinds = {type(cell) for cell in cells if cell is not None}
        if kinds == {int, float}:
            return [None if cell is None else float(cell) for cell in cells]
        if str in kinds and kinds <= {dt.date, dt.datetime, str} and len(kinds) > 1:
            cells = self._dated(name, cells)
            kinds = {type(cell) for cell in cells if cell is not None}
        if kinds == {dt.date, dt.datetime}:
            return [
                cell if cell is None or isinstance(cell, dt.datetime) else dt.datetime(*cell.timetuple()[:3])
                for cell in cells
            ]
        return cells if len(kinds) < 2 else [None if cell is None else _text(cell) for cell in cells]

    def _dated(self, name: str, cells: Cells) -> Cells:
        """Cells of which some are dates, with texts that can be read as dates in one way alone as such."""
        texts = list(dict.fromkeys(cell for cell in cells if isinstance(cell, str)))
        dates, forms = read_dates(texts)
        if not forms:
            return cells
        if len(forms) > 1:
            raise TableError(
                f"{self.name}: column {name!r} holds dates, but also texts such as {texts[0]!r}, which can be read in "
                f"two ways. Make all of them dates in the sheet."
            )
        count = sum(isinstance(cell, str) for cell in cells)
        are = "are texts" if count > 1 else "is a text"
        self.notes.append(f"{count} of the dates in {name!r} {are}, read as dates such as {example(forms[0])}.")
        known = dict(zip(texts, dates, strict=True))
        return [known[cell] if isinstance(cell, str) else cell for cell in cells]


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
    return "" if cell is None else str(cell)
