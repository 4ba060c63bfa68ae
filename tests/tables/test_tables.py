"""Tables: reading and writing every format, columns of every kind, and errors for those that cannot be used."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import os
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sodalite.core import files, optional
from sodalite.exceptions import TableError
from sodalite.tables import (
    Dates,
    Dialect,
    Numbers,
    OneHot,
    Preprocessing,
    Reader,
    Times,
    check_output,
    format_of,
    learn,
    open_output,
    open_table,
    read_table,
    write_table,
)
from sodalite.tables import text as text_module
from sodalite.tables.dates import circle
from sodalite.tables.values import table_column


def write(path, text, encoding="utf-8"):
    path.write_bytes(text if isinstance(text, bytes) else text.encode(encoding))
    return path


# Reading


def test_standard_input(monkeypatch):
    text = b"a,y\n1.5,2\n-3,4\n"
    for data in (text, gzip.compress(text)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert learn(read_table("-"), "y").X.tolist() == [[1.5], [-3.0]]


@pytest.mark.parametrize(
    ("text", "levels"),
    [("\ufeffa,y\r\n\r\nu,2\r\n\r\nv,4\r\n\r\n", ("u", "v")), ('a,y\n"x\ny",2\nz,4\n', ("x\ny", "z"))],
)
def test_a_mark_at_the_beginning_blank_lines_and_line_breaks_in_quotes(text, levels, tmp_path):
    training = learn(read_table(write(tmp_path / "a.csv", text)), "y")
    assert training.preprocessing.columns[0].levels == levels
    np.testing.assert_array_equal(training.y, [2, 4])


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**53), 2**53)),
        min_size=1,
        max_size=8,
    )
)
def test_numbers_are_read_to_the_last_bit(rows):
    text = io.StringIO()
    csv.writer(text).writerows([("a", "b"), *((repr(a), b) for a, b in rows)])
    with open_table("-", io.BytesIO(text.getvalue().encode())) as reader:
        (table,) = reader.chunks({"a": "number", "b": "number"})
    np.testing.assert_array_equal(table_column(table, "a").data, [a for a, _ in rows])
    np.testing.assert_array_equal(table_column(table, "b").data, [b for _, b in rows])


def test_memory_does_not_grow_with_the_file():
    class Endless(io.RawIOBase):
        """A long file whose rows are generated as they are read."""

        def __init__(self):
            self.left, self.most = 60, 0
            self.pending = b"a,b\n"

        def readable(self):
            return True

        def read(self, size=-1):
            while len(self.pending) < size and self.left:
                self.pending += b"1.25,-3.5\n" * 100_000
                self.left -= 1
            part, self.pending = self.pending[:size], self.pending[size:]
            return part

    most = count = 0
    before = pa.total_allocated_bytes()
    with open_table("-", Endless()) as reader:
        for table in reader.chunks({"a": "number"}):
            count += len(table)
            most = max(most, pa.total_allocated_bytes() - before)
    assert count == 6_000_000
    assert most < 30e6


def test_formats_by_suffix():
    formats = {"a.b.csv": "csv", "a.TSV.GZ": "tsv", "a.tab": "tsv", "x/a.pq": "parquet", "a.ipc": "arrow", "-": "csv"}
    assert {name: format_of(name) for name in formats} == formats
    for name in ("a.docx", "a.parquet.gz", "a.zip.gz"):
        with pytest.raises(TableError, match=r"which format is this\? .*\.csv.*\.parquet.*\.tsv\.gz"):
            format_of(name)


# What cannot be read

PLAIN = b"a,y\n1,2\n"
UNREADABLE = {  # what is wrong, the name of the file, its bytes, and the message
    "empty": ("a.csv", b"", r"a\.csv is empty; column names must come first"),
    "blank": ("a.csv", b"\n \n\n", r"a\.csv is empty; "),
    "short line": ("a.csv", PLAIN + b"3\n", r"line 3 has 1 cell, but .* 2 columns: '3'\. .* a cell with a comma"),
    "long line": ("a.csv", PLAIN + b"3,4\n5,6,7\n", r"line 4 has 3 cells, but there are 2 columns: '5,6,7'\. "),
    "after a blank": ("a.csv", PLAIN + b"\n3\n", r"line 3 \(blank lines not counted\) has 1 cell,"),
    "two encodings": ("a.csv", "é,y\n1,2\n".encode() + b"\xe4,3\n", 'byte 0xe4 in line 3.*encoding="cp1252"'),
    "two encodings in the header": ("a.csv", "é".encode() + b"\xe4,y\n1,2\n", "byte 0xe4 in line 1"),
    "half a character": ("a.csv", "a,é\n1,ä".encode()[:-1], "byte 0xc3 in line 2"),
    "far into a file": ("a.csv", b"a,y\n" + "1,é\n".encode() * 5000 + b"2,\xff\n", "byte 0xff in line 5002"),
    "no text": ("a.csv", b"a,y\n1,\xe4\x00\n", "byte 0xe4 in line 2"),
    "no header": ("a.csv", b"1,2.5\n3,4\n", "starts with numbers .*column names must come first"),
    "Parquet": ("a.csv", b"PAR1....", "is not text, but Parquet"),
    "no Parquet": ("a.parquet", PLAIN, r"a\.parquet cannot be read as Parquet: "),
    "no Arrow": ("a.feather", b"ARROW1" + PLAIN, r"a\.feather cannot be read as Arrow: "),
    "no stream": ("a.arrow", PLAIN, r"a\.arrow cannot be read as Arrow: "),
    "short gzip": ("a.csv.gz", gzip.compress(PLAIN)[:-9], "is damaged: its gzip data"),
    "wrong gzip": ("a.csv.gz", gzip.compress(PLAIN * 99)[:20] + b"x" * 40, "is damaged: its gzip data"),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_what_cannot_be_read_is_said_in_one_line(what, tmp_path, monkeypatch):
    name, data, message = UNREADABLE[what]
    monkeypatch.setattr(text_module, "BLOCK", 1000)
    path = write(tmp_path / name, data)
    with pytest.raises(TableError, match=message) as caught:
        read_table(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_file(tmp_path):
    (tmp_path / "b.csv").mkdir()
    for name, words in (("a.csv", "no such file"), ("b.csv", "is a folder")):
        with pytest.raises(TableError, match=words):
            read_table(tmp_path / name)


@pytest.mark.parametrize("size", [3, 10, 1000, 2**22])
@pytest.mark.parametrize("form", ["plain", "gzip", "pipe"])
def test_a_file_of_windows_is_read_as_such_wherever_that_shows(size, form, tmp_path, monkeypatch):
    monkeypatch.setattr(text_module, "BLOCK", max(size, 100))
    monkeypatch.setattr(text_module, "HEAD", size)
    texts = ["plain"] * 300 + ["Zürich", "10 €", "“good”", "é"]
    lines = "\n".join(["y,a", *(f"{row},{text}" for row, text in enumerate(texts))])
    encoded = lines.encode("cp1252")
    path = write(tmp_path / "a.csv", gzip.compress(encoded) if form == "gzip" else encoded)
    if form == "pipe":
        with open_table("-", Pipe(encoded)) as reader:
            table = reader.read()
    else:
        table = read_table(path)
    assert table.data["a"].to_pylist() == texts
    name = "standard input" if form == "pipe" else path
    assert table.notes == (f"{name} is not UTF-8, and is read as Windows-1252; `encoding` overrules.",)
    with open_table("-", Pipe(encoded)) if form == "pipe" else open_table(path) as reader:
        chunks = list(reader.chunks({"a": "text", "y": "text"}))
        assert [text for chunk in chunks for text in chunk.data["a"].to_pylist()] == texts
        assert "Windows-1252" in reader.notes[0]


class Pipe(io.RawIOBase):
    """Bytes that come a few at a time, once."""

    def __init__(self, data: bytes) -> None:
        self._rest = data

    def seekable(self) -> bool:
        return False

    def read(self, size: int = -1) -> bytes:
        part, self._rest = self._rest[:size] if size >= 0 else self._rest, self._rest[size:] if size >= 0 else b""
        return part


def test_another_encoding_is_tried_if_it_is_said(tmp_path):
    path = write(tmp_path / "a.csv", "a,y\nŁódź,1\n".encode("cp1250"))
    assert read_table(path, Dialect(otherwise="cp1250")).data["a"].to_pylist() == ["Łódź"]
    write(path, "a,y\nŁódź,1\n")
    assert read_table(path, Dialect(otherwise="cp1250")).data["a"].to_pylist() == ["Łódź"]


def test_text_in_a_column_of_numbers_while_streaming(tmp_path):
    path, mapping = write(tmp_path / "a.csv", "b,a\n9,1\n9,2\n9,two\n"), Preprocessing("y", (Numbers("a"),))
    with open_table(path) as reader:
        (table,) = reader.chunks(["a"])
    with pytest.raises(TableError, match=r"'a' must hold numbers, but it has 'two' in line 4\. Correct it"):
        mapping.encode(table)


# What a table holds that cannot be used

UNUSABLE = {  # what is wrong, the file, arguments of `learn`, and the message
    "no target": ("size,prise\n1,2\n", {"target": "price"}, r"no column 'price'; .* Did you mean 'prise'\?$"),
    "case": ("size,PRICE\n1,2\n", {"target": "price"}, r"Did you mean 'PRICE'\?$"),
    "no feature": ("a,y\n1,2\n", {"features": ["b"]}, "no column 'b'"),
    "nothing to exclude": ("a,y\n1,2\n", {"exclude": ["b"]}, "no column 'b'"),
    "target among features": ("a,y\n1,2\n", {"features": ["a", "y"]}, "'y' is the target"),
    "no features": ("a,y\n1,2\n", {"exclude": ["a"]}, "no column is left to predict 'y' from"),
    "no rows": ("a,y\n", {}, "has column names but no rows"),
    "text target": ("a,y\n1,2\n1,big\n", {}, r"the target 'y' must hold numbers, but it has 'big' in line 3\. "),
    **{
        f"target of {what}": (f"a,z,y\n{rows}", {}, f"the target 'y' holds {words}, but must hold numbers")
        for what, rows, words in (
            ("names", "1,2,p\n1,3,q\n1,3,r\n1,4,s\n", "4 different texts, such as 'p', 'q', 'r'"),
            ("levels", "1,1,p\n1,1,q\n2,1,r\n", "3 different texts, such as 'p', 'q', 'r'"),
            ("two levels", "1,1,yes\n1,1,no\n", "two levels: 'no', 'yes'"),
            ("truth", "1,1,true\n1,1,false\n", "two levels: 'false', 'true'"),
            ("written dates", "1,1,31.1.2026\n1,1,1.2.2026\n", "dates such as 31.01.2026"),
            ("times", "1,1,12:30\n1,1,4:00\n2,1,1:11\n", "times of day"),
            (
                "dates in two ways",
                "1,1,01/02/2020\n1,1,02/03/2020\n2,2,03/04/2020\n",
                "3 different texts, such as '01/02/2020', '02/03/2020', '03/04/2020'",
            ),
            ("dates", "1,1,2020-01-01\n1,1,2020-01-02\n", "dates"),
        )
    },
    "other columns": (
        "a,z,y\n1,2,p\n1,3,q\n",
        {},
        r"Write it as .* another target\. Columns of numbers are 'a', 'z'\.$",
    ),
    "text": ("a,y\n1,2\n2,3\n3 kg,4\n4,5\n", {}, r"column 'a' holds text .*: '3 kg' in line 4\. "),
    "infinite": ("a,y\n1,2\ninf,3\n-inf,4\n", {}, r"'a' has 2 infinite values, the first in line 3\. Correct it"),
    "infinite target": ("a,y\n1,2\n2,inf\n", {}, "the target 'y' has 1 infinite value, the first in line 3"),
    "missing": (
        "a,b,y\n,1,2\n,,3\n1,2,\n3,4,5\n4,4,6\n",
        {"missing": "error"},
        r"'a' \(2\), 'b' \(1\), 'y' \(1\)\..*=\"drop\"",
    ),
    "missing text": ("a,y\nx,1\n,2\n", {"missing": "error"}, r"missing values: 'a' \(1\)"),
    "all missing": ("a,y\n,1\n,2\n", {"missing": "drop"}, "'a' is left out: it has no values at all"),
    "always missing": ("a,b,y\n,1,1\n2,,2\n", {"missing": "drop"}, "every row misses a value"),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_what_cannot_be_used_is_said_in_one_line(what, tmp_path):
    text, options, message = UNUSABLE[what]
    path = write(tmp_path / "a.csv", text)
    with pytest.raises(TableError, match=message) as caught:
        learn(read_table(path), **{"target": "y", **options})
    assert "\n" not in str(caught.value)


def test_types_that_are_no_inputs(tmp_path):
    parquet.write_table(pa.table({"a": [[1], [2]], "b": [b"x", b"y"], "y": [1, 2]}), tmp_path / "a.parquet")
    for name in "ab":
        with pytest.raises(TableError, match=rf"column '{name}' holds .*, which cannot be an input"):
            learn(read_table(tmp_path / "a.parquet"), "y", [name])
    parquet.write_table(pa.table({"a": [1.0, float("inf")], "y": [1, 2]}), tmp_path / "b.parquet")
    with pytest.raises(TableError, match="the first in row 1"):
        learn(read_table(tmp_path / "b.parquet"), "y")


# Columns


def chunk(data):
    return Reader.of(pa.table(data), "here").read()


def encode_column(column, table):
    """A column of a table as numbers, the number of missing values, and the number of unknown levels."""
    found = column.encode(lambda name: table_column(table, name).blanked())
    return found.X, found.missing, sum(found.unknown.values())


def test_features_in_the_order_that_is_given(tmp_path):
    path = write(tmp_path / "a.csv", "a,b,c,y\n1,2,3,4\n")
    assert learn(read_table(path), "y", ["c", "a", "c"]).preprocessing.names == ["c", "a"]
    assert learn(read_table(path), "y", exclude=["b"]).preprocessing.names == ["a", "c"]
    assert learn(read_table(path), "a", ["c", "b"], ["b"]).preprocessing.names == ["c"]


def test_rows_that_miss_values_are_dropped(tmp_path):
    path = write(tmp_path / "a.csv", "a,t,y\n1,x,2\n,y,3\nNA,,4\n5,x,\n6,z,7\n")
    training = learn(read_table(path), "y", missing="drop")
    np.testing.assert_array_equal(training.rows, [0, 4])
    np.testing.assert_array_equal(training.X, [[1, 1, 0, 0], [6, 0, 0, 1]])  # a level of a row dropped is a level
    assert training.missing == {"a": 2, "t": 1, "y": 1}


def test_medians_take_the_place_of_missing_values(tmp_path):
    path = write(
        tmp_path / "a.csv", "a,t,d,y\n1,x,2020-01-01,2\n,y,,3\n4,,2020-01-03,4\n99,x,2020-01-05,\n6,x,2020-01-04,7\n"
    )
    training = learn(read_table(path), "y", missing="median")
    assert [column.fill for column in training.preprocessing.columns] == [4.0, 0.0, 18264.0]  # of rows with a target
    np.testing.assert_array_equal(training.rows, [0, 1, 2, 4])
    np.testing.assert_array_equal(training.X, [[1, 0, 18262], [4, 1, 18264], [4, 0, 18264], [6, 0, 18265]])
    encoded = training.preprocessing.encode(chunk({"d": [None], "t": ["y"], "a": pa.array([None], pa.float64())}))
    np.testing.assert_array_equal(encoded.X, [[4.0, 1, 18264.0]])
    assert encoded.missing == {"a": 1, "d": 1}


MAPPING = Preprocessing("y", (Numbers("a"), OneHot("t", ("x", "y"))))


def test_columns_are_found_by_name_and_unknown_levels_are_zero():
    encoded = MAPPING.encode(chunk({"z": list("????"), "t": ["y", "new", "newer", "x"], "a": [1, 2, 3, 4]}))
    np.testing.assert_array_equal(encoded.X, [[1, 0, 1], [2, 0, 0], [3, 0, 0], [4, 1, 0]])
    assert encoded.strange == {"t": {"new": 1, "newer": 1}}
    with pytest.raises(TableError, match=r"here has no column 'a', which .*; it has 't', 'A'\. Did you mean 'A'\?$"):
        MAPPING.encode(chunk({"t": ["y"], "A": [1]}))


def test_missing_values_in_new_rows():
    data = chunk({"t": ["y", None], "a": [1.0, float("nan")]})
    with pytest.raises(TableError, match=r"missing values: 'a' \(1\), 't' \(1\)"):
        MAPPING.encode(data)
    dropping = Preprocessing("y", MAPPING.columns, "drop")
    encoded = dropping.encode(data)
    np.testing.assert_array_equal(np.isnan(encoded.X), [[False] * 3, [True] * 3])
    assert encoded.missing == {"a": 1, "t": 1}


DAY, MOMENT, HOUR = dt.date(2020, 3, 4), dt.datetime(2020, 3, 4, 6, 0, 0), dt.time(6, 0)
KINDS = {"date": Dates("a"), "time": Times("a"), "clock": Times("a", ("hour",)), "number": Numbers("a")}
TYPES = [  # the kind of column, values, and the number that they are
    *[("date", pa.array([DAY], kind), 18325.0) for kind in (pa.date32(), pa.date64())],
    *[("date", pa.array([MOMENT], pa.timestamp(unit)), 18325.25) for unit in ("s", "ms", "us", "ns")],
    ("date", pa.array([MOMENT.replace(tzinfo=dt.UTC)]), 18325.25),
    *[("date", pa.array([text]), 18325.25) for text in ("2020-03-04 06:00", "2020-03-04T06:00:00Z")],
    ("date", pa.array(["2020-03-04 08:00:00+02:00"]), 18325.25),
    ("date", pa.array(["2020-03-04 06:00:00.000000000"]), 18325.25),
    ("date", pa.array(["1960-01-01"]), -3653.0),
    *[("clock", pa.array([HOUR], kind), 0.25) for kind in (pa.time64("us"), pa.time32("s"))],
    *[("clock", pa.array([text]), 0.25) for text in ("06:00", "6:00 AM")],
    ("clock", pa.array(["06:00:00.5"]), 0.25 + 0.5 / 86400),
    ("time", pa.array([dt.timedelta(hours=36)]), 1.5),
    *[("number", values, 7.0) for values in (pa.array([7], pa.uint8()), pa.array(["7"]))],
    ("number", pa.array(["7"]).dictionary_encode(), 7.0),
    ("number", pa.array([2**60 + 1]), float(2**60)),
    ("number", pa.array([True]), 1.0),
]


@pytest.mark.parametrize(("kind", "values", "expected"), TYPES)
def test_one_value_of_every_type(kind, values, expected):
    column = KINDS[kind]
    found, missing, _ = encode_column(column, chunk({"a": values}))
    assert found[0].tolist() == (circle(np.array([expected]), "hour")[0].tolist() if kind == "clock" else [expected])
    assert missing == 0
    both = pa.concat_arrays([values, pa.nulls(1, values.type)])
    assert np.isnan(encode_column(column, chunk({"a": both}))[0]).all(axis=1).tolist() == [False, True]


OTHERS = [  # the kind of column, values of another kind, and the message
    ("date", pa.array(["2020-01-01", "31.1.2020"]), "must hold dates, as 2026-01-31 .* has '31.1.2020' in row 1"),
    ("date", pa.array(["2020-01-01", "2020-01-01T00:00Z"]), "some with a time zone and some without"),
    ("date", pa.array([1.5]), "must hold dates.* holds double"),
    ("clock", pa.array(["noon"]), "must hold times, as 12:30:00 .* has 'noon' in row 0"),
    ("number", pa.array(["7", "x"]), "must hold numbers, but it has 'x' in row 1"),
    ("number", pa.array([DAY]), "must hold numbers, but it holds date32"),
]


@pytest.mark.parametrize(("kind", "values", "message"), OTHERS)
def test_values_of_another_kind_than_before(kind, values, message):
    with pytest.raises(TableError, match=message):
        encode_column(KINDS[kind], chunk({"a": values}))


@pytest.mark.parametrize(
    "values", [pa.array([True, False, None]), pa.array(["TRUE", "False", None]), pa.array([1, 0, None])]
)
def test_truth_values_however_they_are_written(values):
    found, missing, unknown = encode_column(OneHot("a", ("false", "true")), chunk({"a": values}))
    np.testing.assert_array_equal(found, [[0, 1], [1, 0], [np.nan, np.nan]])
    assert (missing, unknown) == (1, 0)


def test_levels_that_look_like_numbers_are_texts_where_others_are(tmp_path):
    path = write(tmp_path / "a.csv", "t,y\na,1\nb,2\n007,3\n")
    mapping = learn(read_table(path), "y").preprocessing
    assert mapping.columns[0].levels == ("007", "a", "b")
    with open_table(write(tmp_path / "b.csv", "t\n007\n7\n8\n")) as reader:
        (table,) = reader.chunks({"t": "text"})
    encoded = mapping.encode(table)
    assert encoded.strange == {"t": {"8": 1}}  # 8; a program may have written 7 for 007
    np.testing.assert_array_equal(encoded.X[0], encoded.X[1])


def test_the_mapping_as_json():
    mapping = Preprocessing("y", (Numbers("a", fill=0.5), OneHot("t", ("x", "ü"))), "median")
    assert Preprocessing.from_json(mapping.to_json()) == mapping
    assert mapping.groups == ["a", "t", "t"]


@pytest.mark.parametrize(
    "change",
    [
        {"more": 1},
        {"columns": [{"class": "Numbers"}]},
        {"columns": [{"class": "Numbers", "name": "a", "levels": ["x"]}]},
        {"columns": [{"class": "os.system"}]},
    ],
)
def test_a_mapping_that_is_none(change):
    with pytest.raises(ValueError, match="preprocessing"):
        Preprocessing.from_json({**MAPPING.to_json(), **change})


# Writing

DAYS = np.array(["2020-01-01", "1969-12-31", "2026-06-30"], "M8[us]")
OUT = {"mean": np.array([0.1 + 0.2, np.nan, -1e-300]), "row": np.array([5, 6, 7])}
KEPT = {"town": ["Bern", "Zürich", 'a "b", c'], "day": DAYS}


def read_back(path):
    """A table as pandas reads it."""
    name = path.name
    if name.endswith(".parquet"):
        return pd.read_parquet(path)
    if name.endswith((".feather", ".arrow")):
        return pd.read_feather(path)
    return pd.read_csv(path, sep="\t" if ".tsv" in name else ",")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.tsv.gz", "a.parquet", "a.feather", "a"])
def test_other_libraries_read_what_is_written(name, tmp_path):
    table = OUT | {key: pa.array(values) for key, values in KEPT.items()}
    with open_output(tmp_path / name, list(table)) as write_rows:
        for part in (slice(0, 2), slice(2, 3)):
            write_rows({key: values[part] for key, values in table.items()})
        assert not (tmp_path / name).exists()
    found = read_back(tmp_path / name)
    assert list(found) == list(table)
    for key in OUT:
        np.testing.assert_array_equal(found[key], OUT[key])
    assert found["town"].tolist() == KEPT["town"]
    np.testing.assert_array_equal(pd.to_datetime(found["day"]).to_numpy("M8[us]"), DAYS)
    with open_output(tmp_path / name, ["mean", "std"]):
        pass
    found = read_back(tmp_path / name)
    assert (list(found), len(found), os.listdir(tmp_path)) == (["mean", "std"], 0, [name])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device there")
@pytest.mark.parametrize("n", [3, 10_000])
def test_a_full_disk_is_named_however_few_rows_there_are(n):
    """What fits in a buffer is written when the file is closed."""
    before = os.stat("/dev/full")
    with pytest.raises(TableError, match="/dev/full could not be written: No space left on device"):
        write_table("/dev/full", pa.table({"x": np.arange(n)}))
    assert os.stat("/dev/full").st_mode == before.st_mode  # a device is not replaced


def test_standard_output_that_takes_a_little_at_a_time(monkeypatch):
    """A stream that writes only a part at a time, as a pipe does with PYTHONUNBUFFERED."""

    class Slow(io.RawIOBase):
        def __init__(self):
            self.data = b""

        def writable(self):
            return True

        def write(self, part):
            self.data += bytes(part[:1000])
            return min(len(part), 1000)

    slow = Slow()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=slow))
    with open_output("-", ["mean"]) as write_rows:
        write_rows({"mean": np.arange(5000.0)})
    assert (slow.data[:9], slow.data.count(b"\n")) == (b"mean\n0.0\n", 5001)
    assert not slow.closed


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
def test_a_failure_leaves_what_was_there(name, tmp_path):
    (tmp_path / name).write_bytes(b"before")

    def fail():
        with open_output(tmp_path / name, ["mean"]) as write_rows:
            write_rows({"mean": np.zeros(3)})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert (tmp_path / name).read_bytes() == b"before"
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no/a.csv", "there is no folder"),
        ("folder.csv", "it is a folder"),
        ("a.xlsx", "which format is this"),
    ],
)
def test_an_output_that_cannot_be_written_is_found_beforehand(name, message, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TableError, match=message):
        check_output(tmp_path / name)
    assert os.listdir(tmp_path) == ["folder.csv"]


def test_a_folder_that_is_not_to_be_written_to(tmp_path, monkeypatch):
    def refuse(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files.Path, "mkdir", refuse)
    with pytest.raises(TableError, match=r"a\.csv cannot be written: permission denied\.$"):
        check_output(tmp_path / "a.csv")


def test_without_arrow_it_says_what_to_install(tmp_path, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")

    monkeypatch.setattr(optional, "import_module", missing)
    for name, extra in (("a.csv", "cli"), ("a.parquet", "parquet")):
        write(tmp_path / name, b"a,y\n1,2\n")
        with pytest.raises(ModuleNotFoundError, match=rf"pip install 'sodalite\[{extra}\]'"):
            read_table(tmp_path / name)
