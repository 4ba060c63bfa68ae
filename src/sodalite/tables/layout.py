"""Where the table is in a file of text or a sheet, by its first lines: titles above, names of columns, units below."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from .base import is_code, is_number, listed

MARKS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a vertical bar"}
"""Marks between columns that are recognised, in words."""
LINES = 20  # lines by which the mark is found
TITLES = 10  # most lines above the column names
SHOWN = 40  # characters of such a line that a note shows
LONGEST_UNIT = 12  # characters
UNIT = re.compile(r"|[\[(]?[^\d\s,;\[\]()][^,;\[\]()]*[\])]?|[\[(]?-+[\])]?|[\[(]1?[\])]|1")
"""A unit as it stands in a cell of its own: "m/s", "[kg m-3]", "(%)", "-" or nothing."""
# A number with a mark that separates no thousands: other than three digits follow, or nothing but zero goes before.
DECIMAL = re.compile(r"[^\d.,]*(?:\d+(?P<mark>[.,])(?!\d{3}(?!\d))\d+|0(?P<zero>[.,])\d+)[^\d.,]*")

Cells = Sequence[str]
Rows = list[tuple[int, list[str]]]
"""Rows of cells that are not blank, with the number of the line at which each ends."""


@dataclass(frozen=True)
class Layout:
    """Where a table is in a file of text."""

    names: list[str]
    """The cells with the names of the columns."""
    delimiter: str
    """The mark between columns; a tab if blanks separate them."""
    has_blanks: bool
    """Whether blanks separate the columns."""
    above: int
    """The number of lines above the first row, blank ones not counted."""
    skipped: int
    """The number of lines above the first row."""
    prefer: str
    """The decimal mark where numbers can be read in two ways."""
    notes: list[str]


def find_table(text: str, usual: str, sep: str | None) -> Layout | None:
    """The layout of a file by its first lines; None if a quotation mark among them is never closed.

    `usual` is the mark between columns by the file's suffix, and `sep` the one that was given, if any.
    """
    marks = [sep] if sep else [usual, *(mark for mark in MARKS if mark != usual)]
    cuts = {mark: rows for mark in marks if (rows := _rows(text, mark)) is not None}
    starts = {mark: start for mark, rows in cuts.items() if (start := table_start(rows)) is not None}
    has_blanks = False
    if starts:
        delimiter = min(starts, key=lambda mark: (starts[mark], -len(cuts[mark][starts[mark]][1])))
        rows, above = cuts[delimiter], starts[delimiter]
    else:
        lines = [(at, line.split()) for at, line in enumerate(text.splitlines(), 1) if line.strip()]
        start = table_start(lines, True) if sep in (None, " ") and '"' not in text else None
        has_blanks, delimiter = start is not None, "\t" if start is not None else sep or usual
        rows, above = lines if has_blanks else _rows(text, delimiter) or [], start or 0
    if not rows or (text.count("\n") > 2 * LINES and rows[0][0] >= text.count("\n")):
        return None
    cells = [row for _, row in rows]
    above += header_row(cells[above : above + LINES])
    names, titles, notes = cells[above], cells[:above], list[str]()
    is_next = bool(titles) and rows[above - 1][0] == rows[above][0] - 1 and len(titles[-1]) == len(names)
    if is_next and len(filled(titles[-1])) > 1 and not has_blanks and not titles[-1][0].startswith("#"):
        names = _with_groups(titles.pop(), names, notes)
    mark = " " if has_blanks else delimiter
    if texts := [words for row in titles if (words := mark.join(row).strip(f"# {mark}")[:SHOWN])]:
        notes.append(f"What stands above the column names is left out ({listed(texts, 3)}).")
    body = cells[above + 1 : above + LINES]
    units = units_note(body[0], body[1:]) if len(body) > 3 else None
    above += 2 if units else 1
    prefer = usual_decimal(cells[above:], "," if delimiter == ";" else ".")
    strange = [name.strip() for name in names if looks_like_data(name)]
    if len(strange) >= len(names) / 2:
        words = f"The names of columns look like a row of data ({listed(strange, 3)})"
        notes.append(f"{words}: if the file has no line of names, put one before its first line.")
    return Layout(names, delimiter, has_blanks, above, rows[above - 1][0], prefer, notes + ([units] if units else []))


def _rows(text: str, mark: str) -> Rows | None:
    """The cells into which a mark cuts the first lines of a file; None if it does not cut them."""
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
    try:
        return [(rows.line_num, row) for row in rows if row]
    except csv.Error:
        return None


def table_start(rows: Rows, by_blanks: bool = False) -> int | None:
    """How many rows stand above those that all have as many cells, two or more; None if there are no such rows.

    Above them may stand titles: comments that begin with #, and rows of one cell. Blanks cut titles and texts too:
    anything may stand above rows that they cut, but most cells below the first one must be numbers.

    Examples
    --------
    >>> table_start([(1, ["# device 7"]), (2, ["a", "b"]), (3, ["1", "2"])])
    1
    """
    some = [row for _, row in rows[: LINES + 1]]
    width = len(some[-1])
    others = [at for at, row in enumerate(some) if len(row) != width or (by_blanks and row[0] == "#")]
    above = max(others, default=-1) + 1
    if by_blanks:
        cells = [cell for row in some[above + 1 :] for cell in row]
        is_table = sum(map(is_number, cells)) > len(cells) / 2
    else:
        is_table = all(row[0].lstrip().startswith("#") or len(filled(row)) <= 1 for row in some[:above])
    return above if is_table and width > 1 and above <= min(TITLES, max(len(some) - 2, 0)) else None


def header_row(rows: Sequence[Cells]) -> int:
    """The place of the column names among rows that are not blank: the first row that is not a title.

    A title fills at most half as many cells as the fullest of the rows, and texts alone follow, or another title. Nor
    are names of groups names of columns: a row with several gaps, which one of texts without gaps follows.
    """
    counts = [len(filled(row)) for row in rows]
    most = max(counts)
    for place, (row, count) in enumerate(zip(rows, counts, strict=True)):
        below = rows[place + 1 : place + 2]
        if 2 * count > most or (2 * count == most and (row[0] == "" or not are_texts(below))):
            has_gaps = count < most - 1 and row[0] != ""
            is_above = has_gaps and are_texts(below) and counts[place + 1] == most
            return place + (is_above and not are_texts(rows[place + 2 :]))
    return 0


def filled(row: Cells) -> list[int]:
    """The places of the cells of a row that are not empty."""
    return [place for place, cell in enumerate(row) if cell.strip()]


def are_texts(rows: Sequence[Cells]) -> bool:
    """Whether some rows hold texts alone, and no numbers or codes for missing values; no rows do not."""
    cells = (row[place].strip() for row in rows for place in filled(row))
    return bool(rows) and not any(is_number(cell) or is_code(cell) for cell in cells)


def _with_groups(row: Cells, names: list[str], notes: list[str]) -> list[str]:
    """The names of columns below names of groups of columns; the group's comes first where names occur twice."""
    groups = list(accumulate(row, _last))
    shown = listed([group for group in dict.fromkeys(groups) if group and group not in names], 3)
    notes.append(f"Column names are in two rows; the upper one ({shown}) names groups of columns.")
    if len(set(names)) == len(names):
        return names
    return [name if group == name else f"{group} {name}".strip() for group, name in zip(groups, names, strict=False)]


def _last(text: str, cell: str) -> str:
    """The later of two texts that is not empty."""
    return cell or text


def units_note(cells: Cells, rows: Sequence[Cells]) -> str | None:
    """A note if the cells below the column names are units, such as "m/s": short texts above columns of numbers.

    Examples
    --------
    >>> units_note(["s", "", "[m/s]"], [["0.5", "a", "3"], ["1.5", "b", "4"]])
    "The row of units below the column names is left out ('s', '[m/s]')."
    """
    below = [row for row in rows if len(row) == len(cells)]
    numeric = [place for place in range(len(cells)) if all(is_number(row[place]) for row in below)]
    are_units = all(
        len(cell) <= LONGEST_UNIT and UNIT.fullmatch(cell) and (cell == "1" or not is_number(cell))
        for cell in map(str.strip, cells)
    )
    named = any(cell not in ("", "1") and not is_code(cell) for cell in (cells[place].strip() for place in numeric))
    if len(below) < 2 or not named or 2 * len(numeric) < len(cells) or not are_units:
        return None
    return f"The row of units below the column names is left out ({listed([cell for cell in cells if cell], 3)})."


def usual_decimal(rows: Sequence[Cells], usual: str) -> str:
    """The decimal mark of some rows of cells: the one after which some numbers have other than three digits.

    Examples
    --------
    >>> usual_decimal([["1,5", "1.234"]], "."), usual_decimal([["1.5", "1,234"]], ","), usual_decimal([["1,234"]], ",")
    (',', '.', ',')
    """
    matches = [match for row in rows for cell in row if (match := DECIMAL.fullmatch(cell.strip()))]
    marks = {match["mark"] or match["zero"] for match in matches}
    return marks.pop() if len(marks) == 1 else usual


def looks_like_data(name: str) -> bool:
    """Whether the name of a column is a number that is no year and no place, so that it may be a value.

    Examples
    --------
    >>> [looks_like_data(name) for name in ("area", "2019", "7", "9.7", "23,288", "001")]
    [False, False, False, True, True, True]
    """
    name = name.strip()
    if re.fullmatch(r"[12]\d{3}|0|[1-9]\d{0,2}", name):
        return False
    return bool(re.fullmatch(r"[-+]?[\d.,]*\d[\d.,]*", name)) and not re.fullmatch(r"[\d.]+\.[\d]+\.[\d.]+", name)
