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
from .base import Dialect, Reader, TableError, is_number, is_units, listed, unique, units_note

BLOCK = 2**22  # bytes of text that are parsed at a time, which is also the longest line
MAGIC = {b"PAR1": "Parquet", b"ARROW1": "Arrow", b"PK\x03\x04": "NPZ, Excel or another zip", b"\x89HDF": "HDF5"}
"""The first bytes of formats that are not text."""
PAGE = re.compile(rb"\s*<(!doctype|html|\?xml|head|body|table)", re.I)  # the beginning of a web page
TOO_LONG = f"has more than {BLOCK // 10**6} million characters. Is this a table, with a row in each line?"
WINDOWS = "Windows-1252"  # the encoding of files that are not UTF-8, unless another is given
LETTERS = "".join(bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(256))
"""The letter of each byte in Windows-1252; that of Latin-1 where it has none."""
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x19\x1b-\x1f]")  # bytes that no text has: a file with them is something else
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
    return _TextFile(stream, name, form, dialect).reader()


class _TextFile:
    """A file of text, its layout found from its first lines."""

    def __init__(self, stream: BinaryIO, name: str, form: str, dialect: Dialect) -> None:
        self._arrow, self._csv = require("pyarrow", "cli"), require("pyarrow.csv", "cli")
        self._name, self._dialect = name, dialect
        self._delimiter, self._has_blanks = "\t" if form == "tsv" else ",", False
        self._titles = self._skipped = 0
        self._ragged: Any = None
        with self._explained():
            self._stream = unzipped(stream)
            self._find_encoding()
            self._decoded = self._decode()
            text = self._head()
            self._notes = (
                [f"{name} is not UTF-8, and is read as {self._encoding}; `encoding` overrules."] if self._odd else []
            )
            text = self._without_titles(text)
            self._names = self._header(text)
            self._below(text)

    def reader(self) -> Reader:
        """The reader of the table."""
        plain = self._dialect.plain
        return Reader(
            self._name,
            self._names,
            self._batches,
            self._where,
            self._prefer,
            plain,
            self._dialect.encoding,
            self._notes,
        )

    def _batches(self, names: list[str]) -> Iterator[Any]:
        # With one thread, the parser knows which line it is at.
        read = self._csv.ReadOptions(use_threads=False, block_size=BLOCK, column_names=self._names)
        read.skip_rows = self._skipped
        parse = self._csv.ParseOptions(
            delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=self._keep_ragged
        )
        convert = self._csv.ConvertOptions(
            check_utf8=False, column_types=dict.fromkeys(names, self._arrow.string()), include_columns=names
        )
        convert.null_values, convert.strings_can_be_null = self._dialect.na_values, bool(self._dialect.na_values)
        with self._explained(), self._csv.open_csv(self._decode(), read, parse, convert) as batches:
            yield from batches

    def _where(self, row: int) -> str:
        return f"line {row + 2 + self._titles}" + self._uncounted

    @property
    def _uncounted(self) -> str:
        """A note for line numbers: the parser does not count blank lines."""
        return " (blank lines not counted)" if self._has_blank_lines else ""

    def _find_encoding(self) -> None:
        """Find the encoding, and whether there are blank lines, from all bytes of the file."""
        self._stream.seek(0)
        start = self._stream.read(64)
        for magic, what in MAGIC.items():
            if start.startswith(magic):
                raise TableError(f"{self._name} is not text, but {what}; give it the suffix of what it is.")
        if PAGE.match(start):
            raise TableError(
                f"{self._name} is a web page, not a table of text. Save or download the table itself, as CSV or Excel."
            )
        self._encoding = self._dialect.encoding or ("utf-16" if start.startswith(UTF_16) else "utf-8")
        self._odd = self._has_blank_lines = False
        if self._encoding.lower() not in ("utf-8", "utf8"):
            return
        self._stream.seek(0)
        offset, blank, is_ascii = 0, False, True
        for number, line in enumerate(iter(lambda: self._stream.readline(BLOCK), b""), 1):
            if len(line) == BLOCK and not line.endswith(b"\n"):
                first = "its first line" if number == 1 else f"line {number}"
                raise TableError(f"{self._name}: {first} {TOO_LONG}")
            try:
                is_ascii &= line.decode().isascii()
            except UnicodeDecodeError as error:
                wrong = error.start
                if is_ascii and line[:wrong].isascii() and not CONTROL.search(line) and not self._dialect.encoding:
                    self._encoding, self._odd = self._dialect.otherwise or WINDOWS, True
                    return
                raise TableError(
                    f"{self._name} is not UTF-8: byte {offset + wrong} (0x{line[wrong]:02x}), in line {number}. Say "
                    f'what it is, for instance with encoding="cp1252", '
                    f"which is that of Windows in Western Europe and "
                    f"America."
                ) from None
            self._has_blank_lines |= blank and bool(line.strip())  # blank lines at the end shift nothing
            blank |= not line.strip()
            offset += len(line)

    def _decode(self) -> Any:
        """The file from its first byte, as UTF-8 with one mark between columns."""
        self._stream.seek(0)
        if self._encoding == "utf-8" and not self._has_blanks:
            return self._stream
        return _Converted(self._stream, self._encoding, self._has_blanks, self._name)

    def _head(self) -> str:
        """The first lines, up to the end of the first line at least; a file that is empty is refused."""
        found = b""
        while (len(found) < HEAD or b"\n" not in found) and (more := self._decoded.read(HEAD)):
            found += more
        if not found.strip():
            raise TableError(f"{self._name} is empty; its first line must be column names, and rows must follow.")
        return codecs.getincrementaldecoder("utf-8-sig")().decode(found)

    def _without_titles(self, text: str) -> str:
        """The first lines without what stands above the column names; the mark between columns is found from them."""
        lines, sep = _whole_lines(text), self._dialect.sep
        above, mark = table_start(lines, [sep] if sep else [self._delimiter, *MARKS])
        if mark is None and sep in (None, " "):
            starts = [at for at in range(min(TITLES, len(lines)) + 1) if separated_by_blanks(lines[at:])]
            named = [at for at in starts if not lines[at].startswith("# ")]
            begin = (named or starts or [0])[0]
            if starts and all(_is_title(line, "\t") for line in lines[:begin]):
                above, self._has_blanks, mark = begin, True, "\t"
                text = BLANKS.sub("\t", BORDERS.sub("", text[:HEAD]))
        self._delimiter = mark or sep or self._delimiter
        self._titles, self._skipped = sum(bool(line.strip()) for line in lines[:above]), above
        titles = [found for line in lines[:above] if (found := line.strip(f"#{self._delimiter} \r\n"))]
        if titles:
            shown = listed([line[:SHOWN] for line in titles], 3)
            self._notes.append(f"What stands above the column names is left out ({shown}).")
        return "".join(text.splitlines(keepends=True)[above:])

    def _header(self, text: str) -> list[str]:
        """The column names in the first line; a file whose first line cannot be that is refused."""
        try:
            rows = csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter)
            names = next(filter(None, rows), [])
            self._skipped += rows.line_num
            if len(text) >= HEAD and next(rows, None) is None:
                raise csv.Error("a quotation mark is never closed")
        except csv.Error as error:
            raise TableError(f"{self._name}: its first line, the column names, cannot be read: {error}.") from None
        if all(is_number(name) for name in names):
            raise TableError(
                f"{self._name} starts with numbers ({listed(names, 3)}), but its first line must be column names."
            )
        strange = [name.strip() for name in names if looks_like_data(name)]
        if len(strange) >= len(names) / 2:
            self._notes.append(
                f"The names of columns look like a row of data ({listed(strange, 3)}): if the file has no line of "
                f"names, put one before its first line."
            )
        found, notes = unique([_without_blanks(name) for name in names])
        self._notes += notes
        return found

    def _below(self, text: str) -> None:
        """Find the usual decimal mark, and a row of units, from the lines below the column names."""
        lines = text[:HEAD].splitlines(keepends=True)
        try:
            rows = list(csv.reader(lines[:-1] if len(lines) > 2 else lines, delimiter=self._delimiter))
        except csv.Error:
            rows = []
        rows = [row for row in rows if row][1:]
        if len(rows) > 2 and len(rows[0]) == len(self._names) and is_units(rows[0], rows[1:LINES]):
            self._notes.append(units_note(rows.pop(0)))
            self._skipped, self._titles = self._skipped + 1, self._titles + 1
        self._prefer = usual_decimal(rows, "," if self._delimiter == ";" else ".")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise errors of gzip and of the parser as a `TableError` in the user's words."""
        try:
            yield
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            what = f"{self._name} is damaged: its gzip data cannot be read ({error}). Copy it again."
            raise TableError(what) from None
        except self._arrow.ArrowInvalid as error:
            raise TableError(self._explain(str(error))) from None

    def _keep_ragged(self, row: Any) -> str:
        """Called by the parser for a line with too many or too few cells, which is kept for the message."""
        self._ragged = row
        return "error"

    def _explain(self, message: str) -> str:
        """A message of the parser in the user's words: which line, and what to do."""
        row = self._ragged
        if row is None:
            is_long = "straddling" in message
            return (
                f"{self._name}: a line {TOO_LONG}"
                if is_long
                else (f"{self._name} cannot be read: {message.splitlines()[0]}.")
            )
        mark = MARKS.get(self._delimiter, repr(self._delimiter))
        place = f"line {row.number}" if row.number else "a line"
        return (
            f"{self._name}: {place}{self._uncounted} has {row.actual_columns} cell{'s' * (row.actual_columns != 1)}, "
            f"but there are {row.expected_columns} column{'s' * (row.expected_columns != 1)}: {row.text[:60]!r}. "
            f"Correct the line; a cell with {mark} in it needs quotation marks. If columns are not separated by "
            f"{mark}, say by what with `sep`."
        )


def unzipped(stream: Any) -> Any:
    """A stream from its first byte, unzipped if need be."""
    stream.seek(0)
    zipped = stream.read(2) == b"\x1f\x8b"
    stream.seek(0)
    return gzip.GzipFile(fileobj=stream) if zipped else stream


class _Converted(io.RawIOBase):
    """A stream of text in some encoding as UTF-8, with tabs in the place of blanks if these separate columns."""

    def __init__(self, stream: Any, encoding: str, has_blanks: bool, name: str) -> None:
        self._stream, self._encoding, self._has_blanks, self._name = stream, encoding, has_blanks, name
        try:
            self._decoder = _Windows() if encoding == WINDOWS else codecs.getincrementaldecoder(encoding)()
        except LookupError:
            raise TableError(
                f"encoding: {encoding!r} is not an encoding that is known, such as utf-8 or cp1252."
            ) from None
        self._ready, self._cut = b"", ""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._ready) < size:
            part = self._stream.read(BLOCK)
            try:
                text = self._decoder.decode(part, final=not part)
            except UnicodeDecodeError as error:
                raise TableError(f"{self._name} is not {self._encoding}: {error.reason}; see `encoding`.") from None
            self._ready += (self._with_tabs(text, not part) if self._has_blanks else text).encode()
            if not part:
                break
        size = len(self._ready) if size < 0 else size
        found, self._ready = self._ready[:size], self._ready[size:]
        return found

    def _with_tabs(self, text: str, is_last: bool) -> str:
        """Whole lines with one tab in the place of each run of blanks."""
        whole, end, self._cut = (self._cut + text).rpartition("\n")
        if is_last:
            whole, end, self._cut = whole + end + self._cut, "", ""
        if len(self._cut) > BLOCK:
            raise TableError(f"{self._name}: a line {TOO_LONG}")
        return BLANKS.sub("\t", BORDERS.sub("", (whole + end).replace("\r\n", "\n")))


class _Windows(codecs.IncrementalDecoder):
    """A decoder of Windows-1252 that takes the five bytes which have no meaning there for those of Latin-1."""

    def decode(self, part: Any, final: bool = False) -> str:
        return codecs.charmap_decode(part, "strict", LETTERS)[0]


def usual_decimal(rows: Sequence[Sequence[str]], usual: str) -> str:
    """The decimal mark of some rows of cells: the one after which some numbers have other than three digits.

    Examples
    --------
    >>> usual_decimal([["1,5", "1.234"]], "."), usual_decimal([["1.5", "1,234"]], ","), usual_decimal([["1,234"]], ",")
    (',', '.', ',')
    """
    seen = {
        match["mark"] or match["zero"] for row in rows for cell in row if (match := DECIMAL.fullmatch(cell.strip()))
    }
    return seen.pop() if len(seen) == 1 else usual


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
        counts = {mark: _cells("".join(lines[above:]), mark) for mark in marks}
        best = max(marks, key=lambda mark: counts[mark])
        if counts[best] < 2 or not all(_is_title(line, best) for line in lines[:above]):
            continue
        found = found if found[1] else (above, best)
        if counts[best] == 2 or not _has_one_cell(lines[above], best):  # a sheet saved as text: "A title,,"
            return above, best
    return found


def separated_by_blanks(lines: Sequence[str]) -> bool:
    """Whether blanks cut all lines into several cells, equally many in each, and most below the first are numbers."""
    rows = [line.split() for line in lines if line.strip()]
    cells = [cell for row in rows[1:] for cell in row]
    return (
        len({len(row) for row in rows}) == 1
        and len(rows) > 1
        and len(rows[0]) > 1
        and not any('"' in line for line in lines)
        and sum(map(is_number, cells)) > len(cells) / 2
    )


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


def _whole_lines(text: str) -> list[str]:
    """The first lines of a text, as many as marks and titles are found by, without one that may be cut."""
    lines = text[:HEAD].splitlines(keepends=True)
    return lines[: LINES + 1] if len(lines) > LINES else lines[:-1] or lines


def _is_title(line: str, mark: str) -> bool:
    """Whether a line may stand above the column names: a comment, or a line of one cell or none."""
    return line.lstrip().startswith("#") or _has_one_cell(line, mark)


def _has_one_cell(line: str, mark: str) -> bool:
    """Whether at most one cell of a line is not empty."""
    return len([cell for cell in line.split(mark) if cell.strip()]) <= 1


def _cells(text: str, mark: str) -> int:
    """In how many cells a mark cuts all lines; 0 if these are not equally many."""
    try:
        counts = {len(row) for row in csv.reader(io.StringIO(text, newline=""), delimiter=mark) if row}
    except csv.Error:
        return 0
    return counts.pop() if len(counts) == 1 else 0
