"""CSV and TSV, by Arrow's parser, and sheets of Excel files, whose cells become such a text.

All cells are read as texts, as they stand in the file; how a column's texts are written is found from all of them
(`sodalite.tables.columns`). What stands around the table is found from the first lines: the encoding, the mark between
columns, titles above the column names and units below them.
"""

from __future__ import annotations

import codecs
import csv
import datetime as dt
import gzip
import io
import re
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any, BinaryIO

from ..core.optional import require
from ..exceptions import TableError
from .base import Dialect, Reader, choose_part, is_number, listed, readable, unique
from .layout import MARKS, are_cut_by_blanks, filled, find_table

BLOCK = 2**22  # bytes of text that are parsed at a time, which is also the longest line
HEAD = 2**16  # characters by which the layout is found
MAGIC = {b"PAR1": "Parquet", b"ARROW1": "Arrow", b"PK\x03\x04": "Excel or another zip", b"\x89HDF": "HDF5"}
"""The first bytes of formats that are not text."""
PAGE = re.compile(rb"\s*<(!doctype|html|\?xml|head|body|table)", re.I)  # the beginning of a web page
TOO_LONG = f"has more than {BLOCK // 10**6} million characters. Is this a table, with a row in each line?"
WINDOWS = "Windows-1252"  # the encoding of files that are not UTF-8, unless another is given
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x19\x1b-\x1f]")  # bytes that no text has: a file with them is something else
BLANK_LINE = re.compile(rb"\n\s*\n\s*\S")  # a blank line, and another that is not blank


def open_text(
    stream: BinaryIO, name: str, form: str, dialect: Dialect, place: Callable[[int], str] | None = None
) -> Reader:
    """A reader of a CSV or TSV file; the stream can be read again from its first byte.

    `place` returns the name of a line in messages, by its number among those that are not blank, counted from 0.
    """
    stream, ragged = unzipped(stream), list[Any]()
    with _explained(name):
        encoding, uncounted, notes = _find_encoding(stream, name, dialect)
        head = _head(stream, name, encoding)
        layout = find_table(head, "\t" if form == "tsv" else ",", dialect.sep)
    if layout is None:
        raise TableError(f"{name}: its first line, the column names, cannot be read: a quotation mark is never closed.")
    if (dialect.sep == " " or (dialect.sep is None and len(layout.names) == 1)) and are_cut_by_blanks(head):
        tabs = io.BytesIO()
        with _explained(name):
            for line in _lines(stream, name, encoding):
                cells = line.strip() if line.lstrip().startswith("# ") else "\t".join(line.split())
                tabs.write(f"{cells}\n".encode())
        reader = open_text(tabs, name, "tsv", replace(dialect, sep="\t", encoding="utf-8"), place)
        return replace(reader, encoding=dialect.encoding, notes=[*notes, *reader.notes])
    if all(map(is_number, layout.names)):
        raise TableError(f"{name} starts with numbers ({listed(layout.names, 3)}), but column names must come first.")
    # Blanks around a name are not part of it, nor are the quotation marks that follow them.
    bare = [cell.strip()[1:-1] if re.fullmatch(r'\s+".*"\s*', cell) else cell.strip() for cell in layout.names]
    names, more = unique(bare)

    def keep_ragged(row: Any) -> str:
        ragged.append(row)
        return "error"

    def batches(some: list[str]) -> Iterator[Any]:
        arrow, arrow_csv = require("pyarrow", "cli"), require("pyarrow.csv", "cli")
        # With one thread, the parser knows which line it is at.
        read = arrow_csv.ReadOptions(
            use_threads=False, block_size=BLOCK, column_names=names, skip_rows=layout.skipped, encoding=encoding
        )
        parse = arrow_csv.ParseOptions(
            delimiter=layout.delimiter, newlines_in_values=True, invalid_row_handler=keep_ragged
        )
        convert = arrow_csv.ConvertOptions(
            check_utf8=False,  # all bytes have been checked
            column_types=dict.fromkeys(some, arrow.string()),
            include_columns=some,
            null_values=dialect.na_values,
            strings_can_be_null=bool(dialect.na_values),
        )
        stream.seek(0)
        try:
            with _explained(name), arrow_csv.open_csv(stream, read, parse, convert) as parts:
                yield from parts
        except TableError:
            if not ragged:
                raise
            row, mark = ragged[0], MARKS.get(layout.delimiter, repr(layout.delimiter))
            at = f"line {row.number}" if row.number else "a line"
            raise TableError(
                f"{name}: {at}{uncounted} has {row.actual_columns} cell{'s' * (row.actual_columns != 1)}, but there "
                f"are {row.expected_columns} column{'s' * (row.expected_columns != 1)}: {row.text[:60]!r}. Correct the "
                f"line; a cell with {mark} in it needs quotation marks. If columns are not separated by {mark}, say by "
                f"what with `sep`."
            ) from None

    place = place or (lambda line: f"line {line + 1}{uncounted}")
    is_plain, notes = dialect.decimal != "," and dialect.thousands is None, [*notes, *layout.notes, *more]
    return Reader(
        name, names, batches, lambda row: place(row + layout.above), layout.prefer, is_plain, dialect.encoding, notes
    )


def _find_encoding(stream: Any, name: str, dialect: Dialect) -> tuple[str, str, list[str]]:
    """The encoding of a file, what line numbers leave out, in words, and notes; what is not text is refused."""
    start, uncounted = stream.read(64), ""
    for magic, what in MAGIC.items():
        if start.startswith(magic):
            raise TableError(f"{name} is not text, but {what}; give it the suffix of what it is.")
    if PAGE.match(start):
        raise TableError(
            f"{name} is a web page, not a table of text. Save or download the table itself, as CSV or Excel."
        )
    is_wide = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = (dialect.encoding or ("utf-16" if is_wide else "utf-8")).lower()
    try:
        codecs.lookup(encoding)
    except LookupError:
        words = f"encoding: {encoding!r} is not an encoding that is known, such as utf-8 or cp1252."
        raise TableError(words) from None
    if encoding not in ("utf-8", "utf8"):
        return encoding, "", []
    decoder, is_ascii, lines, last = codecs.getincrementaldecoder("utf-8")(), True, 1, b"\n"
    stream.seek(0)
    try:
        while block := stream.read(BLOCK):
            is_ascii &= decoder.decode(block).isascii()
            if BLANK_LINE.search(last + block):
                uncounted = " (blank lines not counted)"  # by the parser
            lines, last = lines + block.count(b"\n"), block[-1:]
        decoder.decode(b"", True)
    except UnicodeDecodeError as error:
        before, byte = error.object[: error.start], error.object[error.start]
        if dialect.encoding or not (is_ascii and before.isascii()) or CONTROL.search(error.object):
            line = lines + before.count(b"\n")
            raise TableError(
                f"{name} is not UTF-8: byte 0x{byte:02x} in line {line}. Say what it is, for instance with "
                f'encoding="cp1252", which is that of Windows in Western Europe and America.'
            ) from None
        encoding = dialect.otherwise or WINDOWS
        return encoding, uncounted, [f"{name} is not UTF-8, and is read as {encoding}; `encoding` overrules."]
    return "utf-8", uncounted, []


def _lines(stream: Any, name: str, encoding: str) -> Generator[str, None, None]:
    """The lines of a file, of which none may be longer than `BLOCK`."""
    stream.seek(0)
    text, number = io.TextIOWrapper(stream, encoding, newline=""), 0
    try:
        while line := text.readline(BLOCK + 1):
            number += 1
            if len(line) > BLOCK:
                raise TableError(f"{name}: line {number} {TOO_LONG}")
            yield line.removeprefix("\ufeff")
    finally:
        text.detach()  # which leaves the stream open


def _head(stream: Any, name: str, encoding: str) -> str:
    """The first lines; a file that is empty is refused."""
    lines, size = list[str](), 0
    with closing(_lines(stream, name, encoding)) as every:
        for line in every:
            lines.append(line)
            size += len(line)
            if size >= HEAD:
                break
    head = "".join(lines)
    if not head.strip():
        raise TableError(f"{name} is empty; column names must come first, and rows must follow.")
    return head


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Raise errors of gzip, of encodings and of the parser as a `TableError` in the user's words."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        what = f"{name} is damaged: its gzip data cannot be read ({error}). Copy it again."
        raise TableError(what) from None
    except UnicodeError as error:
        words = f"{name} is not in the encoding that it is read as: {getattr(error, 'reason', error)}; see `encoding`."
        raise TableError(words) from None
    except require("pyarrow", "cli").ArrowInvalid as error:
        reason = str(error).splitlines()[0].rstrip(".")
        words = f": a line {TOO_LONG}" if "straddling" in reason else f" cannot be read: {reason}."
        raise TableError(f"{name}{words}") from None


def unzipped(stream: Any) -> Any:
    """A stream from its first byte, unzipped if need be."""
    stream.seek(0)
    zipped = stream.read(2) == b"\x1f\x8b"
    stream.seek(0)
    return gzip.GzipFile(fileobj=stream) if zipped else stream


def open_excel(stream: BinaryIO, name: str, form: str, dialect: Dialect) -> Reader:
    """A reader of a sheet of an Excel file (.xlsx, .xls, .xlsb, .ods): the one named, or the first that is not hidden
    and holds a table.
    """
    calamine = require("python_calamine", "excel")
    with readable(name, "Excel"):
        book = calamine.CalamineWorkbook.from_filelike(stream)
        visible = [part.name for part in book.sheets_metadata if part.visible == calamine.SheetVisibleEnum.Visible]
        wanted = (visible or book.sheet_names) if dialect.part is None else [dialect.part]
        choose_part(name, wanted[0], book.sheet_names, "sheet")
        sheets = {}
        for part in wanted:
            grid = book.get_sheet_by_name(part).to_python(skip_empty_area=False)
            texts = ([_cell_text(cell) for cell in row] for row in grid)
            sheets[part] = {number: row for number, row in enumerate(texts) if filled(row)}
    tables = [part for part, rows in sheets.items() if sum(len(filled(row)) > 1 for row in rows.values()) > 1]
    sheet = (tables or wanted)[0]
    others = f"the first of {len(wanted)} that holds a table; to read another, write {name}::NAME"
    notes = [f"Sheet {sheet!r} is read, {others}."] if len(wanted) > 1 else []
    name = f"{name}, sheet {sheet!r}" if len(wanted) > 1 or dialect.part is not None else name
    rows = sheets[sheet]
    used = [place for row in rows.values() if len(filled(row)) > 1 for place in filled(row)]
    begin, end = min(used, default=0), max(used, default=0) + 1
    text, numbers = io.StringIO(newline=""), list(rows)
    for row in rows.values():  # what stands beside the table, such as a title, is put above its first column
        cells = row[begin:end]
        csv.writer(text).writerow(cells if filled(cells) else [row[filled(row)[0]], *cells[1:]])
    lines = io.BytesIO(text.getvalue().encode())
    as_written = replace(dialect, sep=",", encoding=None)
    reader = open_text(lines, name, "csv", as_written, lambda line: f"row {numbers[line] + 1}")
    return replace(reader, notes=[*notes, *reader.notes])


def _cell_text(cell: Any) -> str:
    """A cell of a sheet as a text: whole numbers without a decimal point, dates as 2026-01-31."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    if isinstance(cell, dt.datetime) and cell.time() == dt.time():
        return cell.date().isoformat()
    return "" if cell is None else str(cell)
