"""Where the table is in a file of text or a sheet, by its first lines: titles above, names of columns, units below."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .base import MISSING_TEXTS, is_number, listed

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
    """The mark between columns."""
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
    cuts = dict[str, Rows]()
    for mark in [sep] if sep else [usual, *(mark for mark in MARKS if mark != usual)]:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=mark)
        try:
            cuts[mark] = [(rows.line_num, row) for row in rows if row]
        except csv.Error:
            continue
    starts = {mark: start for mark, rows in cuts.items() if (start := table_start(rows)) is not None}
    delimiter = min(starts, key=lambda mark: (starts[mark], -len(cuts[mark][starts[mark]][1])), default=sep or usual)
    lines = cuts.get(delimiter, [])
    if not lines or (text.count("\n") > 2 * LINES and lines[0][0] >= text.count("\n")):
        return None
    cells, notes = [row for _, row in lines], list[str]()
    above = starts.get(delimiter, 0)
    above += header_row(cells[above : above + LINES])
    titles = (delimiter.join(filter(None, row)).strip("# ")[:SHOWN] for row in cells[:above])
    if texts := [words for words in titles if words]:
        notes.append(f"What stands above the column names is left out ({listed(texts, 3)}).")
    body, names = cells[above + 1 : above + LINES], cells[above]
    if len(body) > 3 and (units := units_note(body[0], body[1:])):
        above += 1
        notes.append(units)
    prefer = usual_decimal(cells[above + 1 : above + LINES], "," if delimiter == ";" else ".")
    return Layout(names, delimiter, above + 1, lines[above][0], prefer, notes)


def table_start(rows: Rows) -> int | None:
    """How many rows stand above those that all have as many cells, two or more; None if there are no such rows.

    Above them may stand titles: comments that begin with #, and rows of one cell.

    Examples
    --------
    >>> table_start([(1, ["# device 7"]), (2, ["a", "b"]), (3, ["1", "2"])])
    1
    """
    some = [row for _, row in rows[: LINES + 1]]
    width = len(some[-1]) if some else 0
    above = max((at + 1 for at, row in enumerate(some) if len(row) != width), default=0)
    are_titles = all(row[0].lstrip().startswith("#") or len(filled(row)) <= 1 for row in some[:above])
    return above if are_titles and width > 1 and above <= min(TITLES, max(len(some) - 2, 0)) else None


def are_cut_by_blanks(text: str) -> bool:
    """Whether blanks cut the first lines of a file, but for comments, into as many cells each, most of them numbers."""
    rows = [line.split() for line in text.splitlines() if line.strip()][: LINES + 1]
    table = [row for row in rows if len(row) == len(rows[-1]) and row[0] != "#"]
    is_even = all(row in table or row[0].startswith("#") for row in rows) and len(rows[-1]) > 1 and '"' not in text
    cells = [cell for row in table[1:] for cell in row]
    return is_even and sum(map(is_number, cells)) > len(cells) / 2


def header_row(rows: Sequence[Cells]) -> int:
    """The place of the column names among rows that are not blank: the first row that is not a title.

    A title fills at most half as many cells as the fullest of the rows, and texts alone follow, or another title. Nor
    are names of groups names of columns: a row with several gaps, which one of texts without gaps follows.
    """
    counts = [len(filled(row)) for row in rows]
    most = max(counts)
    for place, (row, count) in enumerate(zip(rows, counts, strict=True)):
        is_followed = row[0] != "" and are_texts(rows[place + 1 : place + 2])
        is_title = 2 * count < most or (2 * count == most and is_followed)
        names_groups = count < most - 1 and is_followed and counts[place + 1] == most
        if not is_title and not (names_groups and not are_texts(rows[place + 2 :])):
            return place
    return 0


def filled(row: Cells) -> list[int]:
    """The places of the cells of a row that are not empty."""
    return [place for place, cell in enumerate(row) if cell.strip()]


def are_texts(rows: Sequence[Cells]) -> bool:
    """Whether some rows hold texts alone, and no numbers or codes for missing values; no rows do not."""
    cells = (row[place].strip() for row in rows for place in filled(row))
    return bool(rows) and not any(is_number(cell) or cell.lower() in MISSING_TEXTS for cell in cells)


def units_note(cells: Cells, rows: Sequence[Cells]) -> str | None:
    """A note if the cells below the column names are units, such as "m/s": short texts above columns of numbers.

    Examples
    --------
    >>> units_note(["s", "", "[m/s]"], [["0.5", "a", "3"], ["1.5", "b", "4"]])
    "The row of units below the column names is left out ('s', '[m/s]')."
    """
    cells, below = [cell.strip() for cell in cells], [row for row in rows if len(row) == len(cells)]
    numeric = [place for place in range(len(cells)) if all(is_number(row[place]) for row in below)]
    are_units = all(
        len(cell) <= LONGEST_UNIT and UNIT.fullmatch(cell) and (cell == "1" or not is_number(cell)) for cell in cells
    )
    named = any(cells[place] not in ("", "1") and cells[place].lower() not in MISSING_TEXTS for place in numeric)
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
