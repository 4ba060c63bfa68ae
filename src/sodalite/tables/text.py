"""Readers of CSV and TSV, by Arrow's parser, strictly: every line must have as many cells as there are column names.

The mark between columns is found from the first lines. All bytes are checked to be UTF-8 before they reach the parser.
Those of a file that is not are recoded on the way, or, if that is not possible, a message names the line.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import zip_longest
from typing import Any, BinaryIO

from ..core.optional import require
from .base import CORRECT, Dialect, Reader, Table, TableError, is_number, listed

BLOCK = 2**22  # bytes of text that are parsed at a time, which is also the longest line
# The first bytes of formats that are no text.
MAGIC = {b"PAR1": "Parquet", b"ARROW1": "Arrow", b"PK\x03\x04": "NPZ, Excel or another zip", b"\x89HDF": "HDF5"}
TOO_LONG = f"has more than {BLOCK // 10**6} million characters. Is this a table, with a row in each line?"
WINDOWS = "Windows-1252"  # the encoding of files that are not UTF-8, unless another is given
LETTERS = "".join(bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(256))
"""The letter of each byte in Windows-1252; that of Latin-1 where it has none."""
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x19\x1b-\x1f]")  # bytes that no text has: a file with them is something else
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
MARKS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a vertical bar"}
"""Marks between columns that are recognised, in words."""
HEAD = 2**16  # characters by which the mark between columns is found
LINES = 20  # lines by which the mark is found
TITLES = 10  # most lines above the column names
SHOWN = 40  # characters of such a line that a note shows
BLANKS = re.compile(r"[ \t]+")  # between columns that blanks separate
BORDERS = re.compile(r"^[ \t]+|[ \t]+$", re.M)  # blanks around lines
# A number with a mark that separates no thousands: other than three digits follow, or nothing but zero goes before.
DECIMAL = re.compile(r"[^\d.,]*(?:\d+(?P<mark>[.,])(?!\d{3}(?!\d))\d+|0(?P<zero>[.,])\d+)[^\d.,]*")
GROUPED = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+")


class TextReader(Reader):
    """A reader of CSV and TSV files."""

    def __init__(self, stream: BinaryIO, name: str, form: str, dialect: Dialect) -> None:
        super().__init__(stream, name)
        self._arrow, self._csv = require("pyarrow", "cli"), require("pyarrow.csv", "cli")
        self._dialect, self._delimiter = dialect, "\t" if form == "tsv" else ","
        self._header_lines, self._titles, self.encoding = 0, 0, dialect.encoding
        self._has_blanks = False
        self._grouped: set[str] = set()
        with self._explained():
            self._bytes = self._decoded()
            head = self._head_of_table(self._decoded_head())
            self._given = self._header(head)
            self.names = self.unique([_without_blanks(name) for name in self._given])
            self._see_marks(head)
        self._ragged: Any = None

    def read(self) -> Table:
        if self._dialect.as_text:
            return self.read_text(null=True)
        if not self.stream.seekable():
            self.stream, self._dialect = io.BytesIO(self._bytes.readall()), replace(self._dialect, encoding="utf-8")
            self._notice()
            self._rewind()
        data = self._read(None)
        # Arrow moves times to UTC, and forgets what the clock showed; as texts, they keep their offsets.
        types = self._arrow.types
        misread = {part.name for part in data.schema if types.is_timestamp(part.type) and part.type.tz}
        misread |= {part.name for part in data.schema if types.is_floating(part.type) and part.name in self._grouped}
        if misread:
            self._rewind()
            data = self._read({part.name: self._text if part.name in misread else part.type for part in data.schema})
        return self._table(data)

    def _rewind(self) -> None:
        """Begin again at the file's first byte."""
        self.stream.seek(0)
        self._bytes = self._decoded()
        self._bytes.head()

    def _decoded(self) -> Utf8:
        """The file as UTF-8."""
        found = Utf8(self.stream, self.name, self._dialect.encoding, self._dialect.otherwise or WINDOWS)
        found.has_blanks = self._has_blanks
        return found

    def _notice(self) -> None:
        """Note an encoding that was found."""
        note = f"{self.name} is not UTF-8, and is read as {self._bytes.noticed}; --encoding overrules."
        if self._bytes.noticed and note not in self.notes:
            self.notes.append(note)

    def _table(self, data: Any, first: int = 0) -> Table:
        self._notice()
        return super()._table(data, first)

    @property
    def _text(self) -> Any:
        return self._arrow.string()

    def read_text(self, null: bool = False) -> Table:
        """The table of all rows, with each cell as the text in the file; with `null`, missing values as such."""
        return self._table(self._read(dict.fromkeys(self.names, self._text), null=null))

    def chunks(self, kinds: Mapping[str, str]) -> Generator[Table, None, None]:
        arrow = self._arrow
        plain = {} if self._dialect.as_text else {"number": arrow.float64(), "bool": arrow.bool_()}
        convert = self._convert(
            column_types={name: plain.get(kind, arrow.string()) for name, kind in kinds.items()},
            include_columns=list(kinds),
            strings_can_be_null=True,
        )
        first = 0
        with self._explained(), self._csv.open_csv(self._bytes, *self._options(), convert) as batches:
            for batch in batches:
                yield self._table(arrow.Table.from_batches([batch]), first)
                first += batch.num_rows

    def where(self, row: int) -> str:
        return f"line {row + 2 + self._titles}" + self._uncounted

    @property
    def _uncounted(self) -> str:
        """A note for line numbers: the parser does not count blank lines."""
        return " (blank lines not counted)" if self._bytes.blank else ""

    def _read(self, types: Any, null: bool = True) -> Any:
        with self._explained():
            return self._csv.read_csv(
                self._bytes, *self._options(), self._convert(column_types=types, strings_can_be_null=null)
            )

    def _convert(self, **options: Any) -> Any:
        """Arrow's options for cells, with codes for missing values beside its own."""
        found = self._csv.ConvertOptions(check_utf8=False, **options)
        found.null_values = [*found.null_values, *self._dialect.na_values]
        return found

    def _options(self) -> tuple[Any, Any]:
        # With one thread, the parser knows which line it is at.
        read = self._csv.ReadOptions(use_threads=False, block_size=BLOCK)
        if self.names != self._given or self._titles:
            read.column_names, read.skip_rows = self.names, self._header_lines
        parse = self._csv.ParseOptions(
            delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=self._on_ragged
        )
        return read, parse

    def _on_ragged(self, row: Any) -> str:
        """Called by the parser for a line with too many or too few cells, which is kept for the message."""
        self._ragged = row
        return "error"

    def _decoded_head(self) -> str:
        """The first lines; a file that is empty, or no text, is refused."""
        head = self._bytes.head()
        if not head.strip():
            raise TableError(f"{self.name} is empty; its first line must be column names, and rows must follow.")
        for magic, what in MAGIC.items():
            if head.startswith(magic):
                raise TableError(f"{self.name} is no text, but {what}; give it the suffix of what it is.")
        return codecs.getincrementaldecoder("utf-8-sig")().decode(head)

    def _head_of_table(self, text: str) -> str:
        """The first lines without what stands above the column names; the mark between columns is found from them."""
        lines = _whole_lines(text)
        above, mark = table_start(lines, [self._dialect.sep] if self._dialect.sep else [self._delimiter, *MARKS])
        self._delimiter = mark or self._dialect.sep or self._delimiter
        if mark is None and self._dialect.sep in (None, " ") and separated_by_blanks(lines):
            self._has_blanks = self._bytes.has_blanks = True
            self._delimiter, text = "\t", BLANKS.sub("\t", BORDERS.sub("", text[:HEAD]))
        self._titles, self._header_lines = sum(bool(line.strip()) for line in lines[:above]), above
        titles = [found for line in lines[:above] if (found := line.strip(f"#{self._delimiter} \r\n"))]
        if titles:
            shown = listed([line[:SHOWN] for line in titles], 3)
            self.notes.append(f"What stands above the column names is left out ({shown}).")
        return text[sum(map(len, lines[:above])) :]

    def _header(self, text: str) -> list[str]:
        """The column names in the first line; a file whose first line cannot be that is refused."""
        try:
            rows = csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter)
            names = next(filter(None, rows), [])
            self._header_lines += rows.line_num
        except csv.Error as error:
            raise TableError(f"{self.name}: its first line, the column names, cannot be read: {error}.") from None
        if all(is_number(name) for name in names):
            raise TableError(
                f"{self.name} starts with numbers ({listed(names, 3)}), but its first line must be column names."
            )
        strange = [name.strip() for name in names if looks_like_data(name)]
        if len(strange) >= len(names) / 2:
            self.notes.append(
                f"The names of columns look like a row of data ({listed(strange, 3)}): if the file has no line of "
                f"names, put one before its first line."
            )
        return names

    def _see_marks(self, text: str) -> None:
        """Find the usual decimal mark, and numbers whose points may separate thousands, by the first lines."""
        lines = text[:HEAD].splitlines(keepends=True)
        try:
            rows = list(csv.reader(lines[:-1] if len(lines) > 2 else lines, delimiter=self._delimiter))[1:]
        except csv.Error:
            rows = []
        self.prefer = usual_decimal(rows, "," if self._delimiter == ";" else ".")
        if self.prefer == "," and self._dialect.decimal is None:
            columns = zip(self.names, zip_longest(*rows, fillvalue=""), strict=False)
            self._grouped = {name for name, cells in columns if _is_grouped([cell for cell in cells if "." in cell])}

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise errors of gzip and of the parser as a `TableError` in the user's words."""
        try:
            yield
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise TableError(
                f"{self.name} is damaged: its gzip data cannot be read ({error}). Copy it again."
            ) from None
        except self._arrow.ArrowInvalid as error:
            raise TableError(self._explain(str(error))) from None

    def _explain(self, message: str) -> str:
        """A message of the parser in the user's words: which line or cell, and what to do."""
        row = self._ragged
        if row is not None:
            mark = MARKS.get(self._delimiter, repr(self._delimiter))
            return (
                f"{self.name}: line {row.number}{self._uncounted} has {row.actual_columns} "
                f"cell{'s' * (row.actual_columns != 1)}, but there are "
                f"{row.expected_columns} column{'s' * (row.expected_columns != 1)}: {row.text[:60]!r}. Correct the "
                f"line; a cell with {mark} in it needs quotation marks. If columns are not "
                f"separated by {mark}, say by what with --sep."
            )
        cell = re.search(
            r"column #(\d+): Row #(\d+): CSV conversion error to (\w+).*invalid value '(.*)'", message, re.S
        )
        if "straddling" in message:
            return f"{self.name}: a line {TOO_LONG}"
        if cell is None:
            return f"{self.name} cannot be read: {message.splitlines()[0]}."
        what = "true or false" if cell[3] == "bool" else "a number"
        return (
            f"{self.name}: column {self.names[int(cell[1])]!r} holds text where {what} is needed: "
            f"{cell[4][:60]!r} in line {cell[2]}{self._uncounted}. {CORRECT}"
        )


class Utf8(io.RawIOBase):
    """A stream of a file's bytes, unzipped if need be, as UTF-8: checked, or recoded, as it is read.

    Parameters
    ----------
    stream : binary stream
    name : str
        The name of the file, for messages.
    encoding : str, optional
        The encoding of the file. Unless it is given, it is UTF-16 if the file begins with its mark, else UTF-8; and if
        the first character that is not ASCII is not UTF-8 either, it is `otherwise`.
    otherwise : str
        The encoding of a file that is not UTF-8.
    """

    def __init__(self, stream: Any, name: str, encoding: str | None = None, otherwise: str = WINDOWS) -> None:
        self._name, self._otherwise = name, otherwise
        self._first: bytes = stream.read(6)
        if self._first.startswith(b"\x1f\x8b"):
            stream, self._first = gzip.GzipFile(fileobj=_Chained(self._first, stream)), b""
        if encoding is None and self._first.startswith(UTF_16):
            encoding = "utf-16"
        stream, self._first = _Chained(self._first, stream), b""
        self._stream = stream if encoding is None else _Recoded(stream, encoding, name)
        self._may_switch, self._is_ascii = encoding is None, True
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._offset = self._lines = 0
        self._last = b"\n"
        self.blank = False
        """Whether there were blank lines, which the parser does not count."""
        self.noticed = ""
        """The encoding, if the file turned out not to be UTF-8."""
        self.has_blanks = False
        """Whether columns are separated by blanks, any number of them, which are read as one tab."""
        self._cut = b""

    def readable(self) -> bool:
        return True

    def head(self) -> bytes:
        """The first bytes, up to the end of the first line at least; `read` returns them again."""
        while (len(self._first) < HEAD or b"\n" not in self._first) and (more := self._next(BLOCK)):
            if len(self._first) > BLOCK and b"\n" not in self._first:
                raise TableError(f"{self._name}: its first line {TOO_LONG}")
            self._first += more
        return self._first

    def read(self, size: int = -1) -> bytes:
        return self._with_tabs(size) if self.has_blanks else self._plain(size)

    def _with_tabs(self, size: int) -> bytes:
        """The next bytes, of whole lines, with tabs in the place of blanks."""
        while part := self._plain(size):
            whole, end, self._cut = (self._cut + part).rpartition(b"\n")
            if end:
                return _tabbed(whole + end)
            if len(self._cut) > BLOCK:
                raise TableError(f"{self._name}: a line {TOO_LONG}")
        last, self._cut = self._cut, b""
        return _tabbed(last)

    def _plain(self, size: int = -1) -> bytes:
        """The next bytes as they are."""
        if not self._first:
            return self._next(size)
        size = len(self._first) if size < 0 else size
        part, self._first = self._first[:size], self._first[size:]
        # The parser takes each result for a block, and a block must not be shorter than a line.
        return part if len(part) == size else part + self._plain(size - len(part))

    def _next(self, size: int) -> bytes:
        """The next bytes of the file, at most `size` if that is not negative, of whole characters."""
        while True:
            held = self._decoder.getstate()[0]
            part = self._stream.read(size if size < 0 else max(size - len(held), 1))
            try:
                text = self._decoder.decode(part, final=not part)
            except UnicodeDecodeError as error:
                self._switch(held + part, error)
                continue
            self._is_ascii &= text.isascii()
            whole = held + part
            found = whole[: len(whole) - len(self._decoder.getstate()[0])]
            self._count(found)
            if found or not part:
                return bytes(found)

    def _switch(self, part: bytes, error: UnicodeDecodeError) -> None:
        """Go on in another encoding with bytes that are not UTF-8. What went before was ASCII, which is in both."""
        wrong = error.start
        if not (self._may_switch and self._is_ascii and part[:wrong].isascii()) or CONTROL.search(part):
            line = self._lines + 1 + part[:wrong].count(b"\n")
            raise TableError(
                f"{self._name} is not UTF-8: byte {self._offset + wrong} (0x{part[wrong]:02x}), in line {line}. Say "
                f"what it is, for instance with --encoding cp1252, which is that of Windows in Western Europe and "
                f"America."
            ) from None
        self._stream = _Recoded(_Chained(part, self._stream), self._otherwise, self._name)
        self._decoder.reset()
        self._may_switch, self.noticed = False, self._otherwise

    def _count(self, part: bytes) -> None:
        """Count bytes and lines, and see blank lines."""
        self._offset += len(part)
        self._lines += part.count(b"\n")
        if part and not self.blank:
            seen = self._last + (part.replace(b"\r", b"") if b"\r" in part else part)
            self.blank = self._last == b"\n\n" or b"\n\n" in seen.rstrip(b"\n")  # blank lines at the end shift nothing
            self._last = seen[-2:]


class _Recoded(io.RawIOBase):
    """A stream of text in some encoding, as UTF-8."""

    def __init__(self, stream: Any, encoding: str, name: str) -> None:
        self._stream, self._encoding, self._name = stream, encoding, name
        try:
            self._decoder = _Windows() if encoding == WINDOWS else codecs.getincrementaldecoder(encoding)()
        except LookupError:
            raise TableError(
                f"--encoding: {encoding!r} is no encoding that is known, such as utf-8 or cp1252."
            ) from None
        self._left = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._left) < size:
            part = self._stream.read(BLOCK)
            try:
                self._left += self._decoder.decode(part, final=not part).encode()
            except UnicodeDecodeError as error:
                raise TableError(f"{self._name} is not {self._encoding}: {error.reason}; see --encoding.") from None
            if not part:
                break
        size = len(self._left) if size < 0 else size
        found, self._left = self._left[:size], self._left[size:]
        return found


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


def _is_grouped(cells: Sequence[str]) -> bool:
    """Whether there are numbers, and in all of them three digits follow each point."""
    return bool(cells) and all(GROUPED.fullmatch(cell.strip()) for cell in cells)


def _tabbed(text: bytes) -> bytes:
    """Lines with one tab in the place of each run of blanks."""
    return b"".join(b"\t".join(line.split()) + b"\n" for line in text.splitlines())


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


class _Chained(io.RawIOBase):
    """A stream of some bytes, followed by the bytes of another stream."""

    def __init__(self, first: bytes, stream: Any) -> None:
        self._first, self._stream = first, stream

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> Any:
        if not self._first:
            return self._stream.read(size)
        part, self._first = self._first[:size], self._first[size:]
        return part
