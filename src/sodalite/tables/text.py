"""CSV, TSV and tables between blanks, by Arrow's parser: every line must have as many cells as there are column names.

All cells are read as texts, as they stand in the file; how a column's texts are written is found from all of them
(`sodalite.tables.columns`). What stands around the table is found from the first lines: the encoding, the mark between
columns, titles above the column names and units below them.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

from ..core.optional import require
from ..exceptions import TableError
from .base import Dialect, Reader, above_note, first_line, is_number, listed, unique, units_note

BLOCK = 2**22  # bytes of text that are parsed at a time, which is also the longest line
MAGIC = {b"PAR1": "Parquet", b"ARROW1": "Arrow", b"PK\x03\x04": "NPZ, Excel or another zip", b"\x89HDF": "HDF5"}
"""The first bytes of formats that are not text."""
PAGE = re.compile(rb"\s*<(!doctype|html|\?xml|head|body|table)", re.I)  # the beginning of a web page
TOO_LONG = f"has more than {BLOCK // 10**6} million characters. Is this a table, with a row in each line?"
LATIN = "sodalite.latin1"  # what becomes of five bytes that have no meaning in Windows-1252: they are of Latin-1
codecs.register_error(LATIN, lambda error: (error.object[error.start : error.end].decode("latin1"), error.end))  # type: ignore[attr-defined]
WINDOWS = "Windows-1252"  # the encoding of files that are not UTF-8, unless another is given
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x19\x1b-\x1f]")  # bytes that no text has: a file with them is something else
BLANK_LINE = re.compile(rb"\n\s*\n\s*\S")  # a blank line, and another that is not blank
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
MARKS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a vertical bar"}
"""Marks between columns that are recognised, in words."""
HEAD = 2**16  # characters by which the layout is found
LINES = 20  # lines by which the mark is found
TITLES = 10  # most lines above the column names
SHOWN = 40  # characters of such a line that a note shows
BLANKS = re.compile(r"[ \t]+")  # between columns that blanks separate
BORDERS = re.compile(r"^[ \t]+|[ \t]+$", re.M)  # blanks around lines
# A number with a mark that separates no thousands: other than three digits follow, or nothing but zero goes before.
DECIMAL = re.compile(r"[^\d.,]*(?:\d+(?P<mark>[.,])(?!\d{3}(?!\d))\d+|0(?P<zero>[.,])\d+)[^\d.,]*")


def open_text(stream: BinaryIO, name: str, form: str, dialect: Dialect) -> Reader:
    """A reader of a CSV or TSV file; the stream can be read again from its first byte."""
    text = _Text(unzipped(stream), name, dialect)
    with text.explained():
        notes = text.find_encoding()
        head = text.head()
        notes += text.find_table(head, "\t" if form == "tsv" else ",")
    plain = dialect.decimal != "," and dialect.thousands is None
    return Reader(name, text.names, text.batches, text.where, text.prefer, plain, dialect.encoding, notes)


class _Text:
    """A file of text, whose encoding and layout are found from its bytes."""

    encoding: str
    has_blank_lines = False
    has_blanks = False
    """Whether blanks separate the columns."""
    delimiter: str
    names: list[str]
    above = 0
    """The number of lines above the first row, blank ones not counted."""
    skipped = 0
    """The number of lines above the first row."""
    prefer: str
    ragged: Any = None
    """The parser's description of a line with too many or too few cells."""

    def __init__(self, stream: Any, name: str, dialect: Dialect) -> None:
        self.stream, self.name, self.dialect = stream, name, dialect

    def batches(self, names: list[str]) -> Iterator[Any]:
        """The rows of some columns, as record batches."""
        arrow, arrow_csv = require("pyarrow", "cli"), require("pyarrow.csv", "cli")
        # With one thread, the parser knows which line it is at.
        read = arrow_csv.ReadOptions(use_threads=False, block_size=BLOCK, column_names=self.names)
        read.skip_rows = self.skipped
        parse = arrow_csv.ParseOptions(
            delimiter=self.delimiter, newlines_in_values=True, invalid_row_handler=self.keep_ragged
        )
        codes = self.dialect.na_values
        convert = arrow_csv.ConvertOptions(
            check_utf8=False, column_types=dict.fromkeys(names, arrow.string()), include_columns=names
        )
        convert.null_values, convert.strings_can_be_null = codes, bool(codes)
        self.stream.seek(0)
        text: Any = self.stream
        if self.encoding != "utf-8" or self.has_blanks:
            text = arrow.TransformInputStream(arrow.PythonFile(self.stream, "r"), _Converter(self))
        with self.explained(), arrow_csv.open_csv(text, read, parse, convert) as batches:
            yield from batches

    def where(self, row: int) -> str:
        """The name of a row in messages."""
        return f"line {row + 1 + self.above}{self.uncounted}"

    @property
    def uncounted(self) -> str:
        """A note for line numbers: the parser does not count blank lines."""
        return " (blank lines not counted)" if self.has_blank_lines else ""

    def decoder(self) -> codecs.IncrementalDecoder:
        """A decoder of the file's encoding."""
        try:
            if self.encoding == WINDOWS:
                return codecs.getincrementaldecoder("cp1252")(LATIN)
            return codecs.getincrementaldecoder(self.encoding)()
        except LookupError:
            words = f"encoding: {self.encoding!r} is not an encoding that is known, such as utf-8 or cp1252."
            raise TableError(words) from None

    def find_encoding(self) -> list[str]:
        """Find the encoding, and whether there are blank lines, from all bytes of the file; return notes."""
        start = self.stream.read(64)
        for magic, what in MAGIC.items():
            if start.startswith(magic):
                raise TableError(f"{self.name} is not text, but {what}; give it the suffix of what it is.")
        if PAGE.match(start):
            raise TableError(
                f"{self.name} is a web page, not a table of text. Save or download the table itself, as CSV or Excel."
            )
        self.encoding = (self.dialect.encoding or ("utf-16" if start.startswith(UTF_16) else "utf-8")).lower()
        if self.encoding not in ("utf-8", "utf8"):
            return []
        self.stream.seek(0)
        decoder, is_ascii, offset, lines, block, last = self.decoder(), True, 0, 1, b"", b"\n"
        try:
            while block := self.stream.read(BLOCK):
                is_ascii &= decoder.decode(block).isascii()
                self.has_blank_lines |= BLANK_LINE.search(last + block) is not None
                offset, lines, last = offset + len(block), lines + block.count(b"\n"), block[-1:]
            decoder.decode(b"", True)
        except UnicodeDecodeError as error:
            before = error.object[: error.start]
            if is_ascii and before.isascii() and not CONTROL.search(error.object) and not self.dialect.encoding:
                self.encoding = self.dialect.otherwise or WINDOWS
                return [f"{self.name} is not UTF-8, and is read as {self.encoding}; `encoding` overrules."]
            at = offset + len(block) - len(error.object) + error.start
            raise TableError(
                f"{self.name} is not UTF-8: byte {at} (0x{error.object[error.start]:02x}), in line "
                f"{lines + before.count(10)}. Say what it is, for instance with "  # 10 is a line feed
                f'encoding="cp1252", which is that of Windows in Western Europe and America.'
            ) from None
        return []

    def head(self) -> str:
        """The first lines, up to the end of the first line at least; a file that is empty is refused."""
        self.stream.seek(0)
        decoder, text, part = self.decoder(), "", b"-"
        while part and (len(text) < HEAD or "\n" not in text):
            part = self.stream.read(HEAD)
            text += self.decoded(decoder, part)
            if len(text) > BLOCK and "\n" not in text:
                raise TableError(f"{self.name}: its first line {TOO_LONG}")
        text = text.removeprefix("\ufeff")
        if not text.strip():
            raise TableError(f"{self.name} is empty; its first line must be column names, and rows must follow.")
        return text

    def decoded(self, decoder: codecs.IncrementalDecoder, block: bytes) -> str:
        """The text of a block of bytes, the last one of which is empty."""
        try:
            return decoder.decode(block, not block)
        except UnicodeDecodeError as error:
            raise TableError(f"{self.name} is not {self.encoding}: {error.reason}; see `encoding`.") from None

    def find_table(self, text: str, usual: str) -> list[str]:
        """Find where the table begins, the mark between columns, their names, and what is below; return notes.

        Parameters
        ----------
        text : str
            The first lines.
        usual : str
            The mark between columns by the file's suffix.
        """
        lines, sep = text[:HEAD].splitlines(keepends=True), self.dialect.sep
        lines = lines[: LINES + 1] if len(lines) > LINES else lines[:-1] or lines  # the last one may be cut
        above, mark = table_start(lines, [sep] if sep else [usual, *MARKS])
        if mark in (None, " ") and sep in (None, " "):
            above, mark = table_start(lines, [" "])
        self.has_blanks = mark == " "
        if self.has_blanks:
            mark, text = "\t", BLANKS.sub("\t", BORDERS.sub("", text[:HEAD]))
        self.delimiter = mark or sep or usual
        titles = [title for line in lines[:above] if (title := line.strip(f"#{self.delimiter} \r\n"))]
        notes = above_note([title[:SHOWN] for title in titles])
        self.above, self.skipped = 1 + sum(bool(line.strip()) for line in lines[:above]), above
        return notes + self.find_names("".join(text.splitlines(keepends=True)[above:]))

    def find_names(self, text: str) -> list[str]:
        """Find the column names in the first line of a text, and what is below; return notes."""
        try:
            rows = csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter)
            names = next(filter(None, rows), [])
            self.skipped += rows.line_num
            if len(text) >= HEAD and next(rows, None) is None:
                raise csv.Error("a quotation mark is never closed")
        except csv.Error as error:
            raise TableError(f"{self.name}: its first line, the column names, cannot be read: {error}.") from None
        if all(is_number(name) for name in names):
            raise TableError(
                f"{self.name} starts with numbers ({listed(names, 3)}), but its first line must be column names."
            )
        strange, notes = [name.strip() for name in names if looks_like_data(name)], []
        if len(strange) >= len(names) / 2:
            notes.append(
                f"The names of columns look like a row of data ({listed(strange, 3)}): if the file has no line of "
                f"names, put one before its first line."
            )
        self.names, more = unique([_without_blanks(name) for name in names])
        lines = text[:HEAD].splitlines(keepends=True)
        try:
            cells = list(csv.reader(lines[:-1] if len(lines) > 2 else lines, delimiter=self.delimiter))
        except csv.Error:
            cells = []
        cells = [row for row in cells if row][1:]
        units = units_note(cells[0], cells[1:LINES]) if len(cells) > 2 and len(cells[0]) == len(names) else None
        if units:
            self.skipped, self.above, cells = self.skipped + 1, self.above + 1, cells[1:]
        self.prefer = usual_decimal(cells, "," if self.delimiter == ";" else ".")
        return [*notes, *more, *([units] if units else [])]

    def keep_ragged(self, row: Any) -> str:
        """Called by the parser for a line with too many or too few cells, which is kept for the message."""
        self.ragged = row
        return "error"

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Raise errors of gzip and of the parser as a `TableError` in the user's words."""
        try:
            yield
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            what = f"{self.name} is damaged: its gzip data cannot be read ({error}). Copy it again."
            raise TableError(what) from None
        except require("pyarrow", "cli").ArrowInvalid as error:
            raise TableError(f"{self.name}{self.explanation(error)}") from None

    def explanation(self, error: Exception) -> str:
        """An error of the parser in the user's words: which line, and what to do."""
        row = self.ragged
        if row is None:
            is_long = "straddling" in str(error)
            return f": a line {TOO_LONG}" if is_long else f" cannot be read: {first_line(error)}."
        mark = MARKS.get(self.delimiter, repr(self.delimiter))
        place = f"line {row.number}" if row.number else "a line"
        return (
            f": {place}{self.uncounted} has {row.actual_columns} cell{'s' * (row.actual_columns != 1)}, "
            f"but there are {row.expected_columns} column{'s' * (row.expected_columns != 1)}: {row.text[:60]!r}. "
            f"Correct the line; a cell with {mark} in it needs quotation marks. If columns are not separated by "
            f"{mark}, say by what with `sep`."
        )


class _Converter:
    """Turns blocks of bytes into UTF-8, with tabs in the place of blanks if these separate columns."""

    def __init__(self, text: _Text) -> None:
        self.text, self.decoder, self.cut = text, text.decoder(), ""

    def __call__(self, block: Any) -> bytes:
        """The next block, the last one of which is empty; of columns between blanks, whole lines."""
        text = self.text.decoded(self.decoder, bytes(block))
        if not self.text.has_blanks:
            return text.encode()
        whole, end, self.cut = (self.cut + text).rpartition("\n") if len(block) else (self.cut + text, "", "")
        if len(self.cut) > BLOCK:
            raise TableError(f"{self.text.name}: a line {TOO_LONG}")
        return BLANKS.sub("\t", BORDERS.sub("", (whole + end).replace("\r\n", "\n"))).encode()


def unzipped(stream: Any) -> Any:
    """A stream from its first byte, unzipped if need be."""
    stream.seek(0)
    zipped = stream.read(2) == b"\x1f\x8b"
    stream.seek(0)
    return gzip.GzipFile(fileobj=stream) if zipped else stream


def usual_decimal(rows: Sequence[Sequence[str]], usual: str) -> str:
    """The decimal mark of some rows of cells: the one after which some numbers have other than three digits.

    Examples
    --------
    >>> usual_decimal([["1,5", "1.234"]], "."), usual_decimal([["1.5", "1,234"]], ","), usual_decimal([["1,234"]], ",")
    (',', '.', ',')
    """
    matches = [match for row in rows for cell in row if (match := DECIMAL.fullmatch(cell.strip()))]
    marks = {match["mark"] or match["zero"] for match in matches}
    return marks.pop() if len(marks) == 1 else usual


def table_start(lines: Sequence[str], marks: Sequence[str]) -> tuple[int, str | None]:
    r"""How many lines stand above the column names, and the mark between columns, by the first lines of a file.

    The mark is the one that cuts all lines into most cells, equally many in each; None if none cuts them. Only if there
    is none for all lines, or the first has but one of many cells, those above are titles: comments that begin with #,
    blank lines, or lines of one cell.

    Examples
    --------
    >>> table_start(["a;b\n", "1,5;2\n"], [",", ";"])
    (0, ';')
    >>> table_start(["# device 7\n", "a,b\n", "1,2\n"], [",", ";"])
    (1, ',')
    """
    found: tuple[int, str | None] = 0, None
    for above in range(max(min(TITLES, len(lines) - 2), 0) + 1):
        counts = {mark: _cells(lines[above:], mark) for mark in marks}
        best = max(marks, key=lambda mark: counts[mark])
        if counts[best] < 2 or not all(_is_title(line, best) for line in lines[:above]):
            continue
        found = found if found[1] else (above, best)
        if counts[best] == 2 or not _has_one_cell(lines[above], best):  # a sheet saved as text: "A title,,"
            return above, best
    return found


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


def _without_blanks(name: str) -> str:
    """A name without blanks around it, nor the quotation marks that follow them."""
    found = name.strip()
    return found[1:-1] if found != name and len(found) > 1 and found[0] == found[-1] == '"' else found


def _is_title(line: str, mark: str) -> bool:
    """Whether a line may stand above the column names: a comment, or a line of one cell or none."""
    return mark == " " or line.lstrip().startswith("#") or _has_one_cell(line, mark)


def _has_one_cell(line: str, mark: str) -> bool:
    """Whether at most one cell of a line is not empty."""
    return len([cell for cell in line.split(mark) if cell.strip()]) <= 1


def _cells(lines: Sequence[str], mark: str) -> int:
    """In how many cells a mark cuts all lines; 0 if these are not equally many.

    Blanks cut texts too, so they are a mark only where most cells below the first line are numbers.
    """
    if mark == " ":
        rows = [line.split() for line in lines if line.strip()]
        below = [cell for row in rows[1:] for cell in row]
        if '"' in "".join(lines) or sum(map(is_number, below)) <= len(below) / 2 or lines[0].startswith("# "):
            return 0
    else:
        try:
            rows = [row for row in csv.reader(io.StringIO("".join(lines), newline=""), delimiter=mark) if row]
        except csv.Error:
            return 0
    counts = {len(row) for row in rows}
    return counts.pop() if len(counts) == 1 else 0
