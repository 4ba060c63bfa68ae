"""CSV, TSV and tables between blanks, by Arrow's parser: every line must have as many cells as there are column names.

All cells are read as texts, as they stand in the file; how a column's texts are written is found from all of them
(`sodalite.tables.columns`). What stands around the table is found from the first lines: the encoding, the mark between
columns, titles above the column names and units below them.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from ..core.optional import require
from ..exceptions import TableError
from .base import Dialect, Reader, first_line, is_number, listed, unique
from .layout import MARKS, Layout, find_table

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
HEAD = 2**16  # characters by which the layout is found
BLANKS = re.compile(r"[ \t]+")  # between columns that blanks separate
BORDERS = re.compile(r"^[ \t]+|[ \t]+$", re.M)  # blanks around lines


def open_text(
    stream: BinaryIO, name: str, form: str, dialect: Dialect, place: Callable[[int], str] | None = None
) -> Reader:
    """A reader of a CSV or TSV file; the stream can be read again from its first byte.

    `place` returns the name of a line in messages, by its number among those that are not blank, counted from 0.
    """
    text = _Text(unzipped(stream), name, dialect)
    with text.explained():
        notes = text.find_encoding()
        layout = find_table(text.head(), "\t" if form == "tsv" else ",", dialect.sep)
    if layout is None:
        raise TableError(f"{name}: its first line, the column names, cannot be read: a quotation mark is never closed.")
    if all(map(is_number, layout.names)):
        raise TableError(f"{name} starts with numbers ({listed(layout.names, 3)}), but column names must come first.")
    names, more = unique([_without_blanks(cell) for cell in layout.names])
    text.layout, above = layout, layout.above
    place = place or (lambda line: f"line {line + 1}{text.uncounted}")
    return Reader(
        name,
        names,
        lambda some: text.batches(names, some),
        lambda row: place(row + above),
        layout.prefer,
        dialect.decimal != "," and dialect.thousands is None,
        dialect.encoding,
        [*notes, *layout.notes, *more],
    )


class _Text:
    """A file of text, whose encoding and layout are found from its bytes."""

    encoding: str
    has_blank_lines = False
    layout: Layout | None = None
    ragged: Any = None
    """The parser's description of a line with too many or too few cells."""

    def __init__(self, stream: Any, name: str, dialect: Dialect) -> None:
        self.stream, self.name, self.dialect = stream, name, dialect

    def batches(self, names: list[str], some: list[str]) -> Iterator[Any]:
        """The rows of some of the columns, as record batches."""
        arrow, arrow_csv, layout = require("pyarrow", "cli"), require("pyarrow.csv", "cli"), self.layout
        assert layout is not None
        # With one thread, the parser knows which line it is at.
        read = arrow_csv.ReadOptions(use_threads=False, block_size=BLOCK, column_names=names, skip_rows=layout.skipped)
        parse = arrow_csv.ParseOptions(
            delimiter=layout.delimiter, newlines_in_values=True, invalid_row_handler=self.keep_ragged
        )
        convert = arrow_csv.ConvertOptions(
            check_utf8=False,
            column_types=dict.fromkeys(some, arrow.string()),
            include_columns=some,
            null_values=self.dialect.na_values,
            strings_can_be_null=bool(self.dialect.na_values),
        )
        self.stream.seek(0)
        text: Any = self.stream
        if self.encoding != "utf-8" or layout.has_blanks:
            text = arrow.TransformInputStream(arrow.PythonFile(self.stream, "r"), self.converter(layout.has_blanks))
        with self.explained(), arrow_csv.open_csv(text, read, parse, convert) as batches:
            yield from batches

    def converter(self, has_blanks: bool) -> Callable[[bytes], bytes]:
        """A function that turns block after block into UTF-8, with tabs in the place of blanks between columns."""
        decoder, cut = self.decoder(), ""

        def convert(block: bytes) -> bytes:
            nonlocal cut
            text = self.decoded(decoder, bytes(block))
            if not has_blanks:
                return text.encode()
            whole, end, cut = (cut + text).rpartition("\n") if len(block) else (cut + text, "", "")
            if len(cut) > BLOCK:
                raise TableError(f"{self.name}: a line {TOO_LONG}")
            return BLANKS.sub("\t", BORDERS.sub("", (whole + end).replace("\r\n", "\n"))).encode()

        return convert

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
        """The first lines, whole if there are several; a file that is empty is refused."""
        self.stream.seek(0)
        decoder, text, part = self.decoder(), "", b"-"
        while part and (len(text) < HEAD or "\n" not in text):
            part = self.stream.read(HEAD)
            text += self.decoded(decoder, part)
            if len(text) > BLOCK and "\n" not in text:
                raise TableError(f"{self.name}: its first line {TOO_LONG}")
        text = text.removeprefix("\ufeff")
        if not text.strip():
            raise TableError(f"{self.name} is empty; column names must come first, and rows must follow.")
        return text[: text.rindex("\n") + 1] if part and "\n" in text else text

    def decoded(self, decoder: codecs.IncrementalDecoder, block: bytes) -> str:
        """The text of a block of bytes, the last one of which is empty."""
        try:
            return decoder.decode(block, not block)
        except UnicodeDecodeError as error:
            raise TableError(f"{self.name} is not {self.encoding}: {error.reason}; see `encoding`.") from None

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
            if (row := self.ragged) is None:
                is_long = "straddling" in str(error)
                words = f": a line {TOO_LONG}" if is_long else f" cannot be read: {first_line(error)}."
                raise TableError(f"{self.name}{words}") from None
            delimiter = self.layout.delimiter if self.layout else ","
            mark = MARKS.get(delimiter, repr(delimiter))
            place = f"line {row.number}" if row.number else "a line"
            raise TableError(
                f"{self.name}: {place}{self.uncounted} has {row.actual_columns} cell{'s' * (row.actual_columns != 1)}, "
                f"but there are {row.expected_columns} column{'s' * (row.expected_columns != 1)}: {row.text[:60]!r}. "
                f"Correct the line; a cell with {mark} in it needs quotation marks. If columns are not separated by "
                f"{mark}, say by what with `sep`."
            ) from None


def unzipped(stream: Any) -> Any:
    """A stream from its first byte, unzipped if need be."""
    stream.seek(0)
    zipped = stream.read(2) == b"\x1f\x8b"
    stream.seek(0)
    return gzip.GzipFile(fileobj=stream) if zipped else stream


def _without_blanks(name: str) -> str:
    """A name without blanks around it, nor the quotation marks that follow them."""
    bare = name.strip()
    return bare[1:-1] if bare != name and len(bare) > 1 and bare[0] == bare[-1] == '"' else bare
