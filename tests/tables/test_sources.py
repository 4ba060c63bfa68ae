"""Sources of tables: databases, zips, patterns, sheets and JSON lines, and what stands around the rows of exports."""

from __future__ import annotations

import gzip
import json
import sqlite3
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pytest

import workbook
from sodalite.exceptions import TableError
from sodalite.tables import base as base_module
from sodalite.tables import learn, open_table, read_table
from sodalite.tables import text as text_module

FRAME = pd.DataFrame(
    {
        "size": [1.5, -2.25, 1e-300, 3.0],
        "count": [1, 2, 3, 4],
        "town": ["Bern", "Zürich", "Bern", 'a "b", c'],
        "day": pd.to_datetime(["2020-01-01", "2020-01-02", "1969-12-31", "2026-06-30"]),
        "new": [True, False, True, True],
        "y": [0.1 + 0.2, 2.0, 3.0, 4.0],
    }
)
NAMES = ["size", "count", "town=Bern", "town=Zürich", 'town=a "b", c', "day", "new"]
X = [
    [1.5, 1, 1, 0, 0, 18262, 1],
    [-2.25, 2, 0, 1, 0, 18263, 0],
    [1e-300, 3, 1, 0, 0, -1, 1],
    [3.0, 4, 0, 0, 1, 20634, 1],
]


def as_sqlite(path):
    with sqlite3.connect(path) as base:
        FRAME.to_sql("orders", base, index=False)
    base.close()


def as_duckdb(path):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(path)) as base:
        base.execute("create table orders (size double, count int, town text, day date, new bool, y double)")
        base.executemany("insert into orders values (?, ?, ?, ?, ?, ?)", FRAME.astype(object).values.tolist())


def as_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("deep/orders.csv", FRAME.to_csv(index=False))


def as_lines(path):
    lines = "".join(f"{json.dumps(record, default=str)}\n" for record in FRAME.to_dict(orient="records"))
    path.write_bytes(gzip.compress(lines.encode()) if path.suffix == ".gz" else lines.encode())


def as_parts(path, write):
    for place in range(2):
        write(FRAME[2 * place : 2 * place + 2], path.parent / path.name.replace("*", str(place)))


def as_stream(path):
    table = pa.Table.from_pandas(FRAME)
    with pa.ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table)


def as_sheet(path):
    pytest.importorskip("python_calamine")
    rows = [list(FRAME), *([*row[:3], row[3].date(), *row[4:]] for row in FRAME.values.tolist())]
    workbook.write_workbook(path, {"Old": [["a", "y"], [1, 2], [3, 4]], "New": rows}, [], "")


SOURCES = {  # what is read, and what writes the file
    "a.csv": lambda path: FRAME.to_csv(path, index=False),
    "a.CSV": lambda path: FRAME.to_csv(path, index=False),
    "a": lambda path: FRAME.to_csv(path, index=False),
    "a.csv.gz": lambda path: FRAME.to_csv(path, index=False),
    "a.tsv": lambda path: FRAME.to_csv(path, index=False, sep="\t"),
    "a.tsv.gz": lambda path: FRAME.to_csv(path, index=False, sep="\t"),
    "a.parquet": FRAME.to_parquet,
    "a.feather": lambda path: feather.write_feather(pa.Table.from_pandas(FRAME), str(path)),
    "a.arrow": as_stream,
    "a.jsonl": as_lines,
    "a.jsonl.gz": as_lines,
    "a.json": lambda path: path.write_text(json.dumps(FRAME.to_dict(orient="records"), indent=1, default=str)),
    "part-*.csv": lambda path: as_parts(path, lambda rows, path: rows.to_csv(path, index=False)),
    "part-[01].parquet": lambda path: as_parts(
        path.parent / "part-*.parquet", lambda rows, path: rows.to_parquet(path)
    ),
    "all.zip": as_zip,
    "all.zip::deep/orders.csv": as_zip,
    "book.xlsx::New": as_sheet,
    "shop.db": as_sqlite,
    "shop.db::orders": as_sqlite,
    "shop.db::select * from orders order by count": as_sqlite,
    "shop.duckdb": as_duckdb,
    "shop.duckdb::orders": as_duckdb,
}


def source(what, folder):
    """The path of a source, which is written into a folder."""
    name, mark, part = what.partition("::")
    SOURCES[what](folder / name)
    return f"{folder / name}{mark}{part}"


@pytest.mark.parametrize("what", SOURCES)
def test_every_source_gives_the_same_numbers(what, tmp_path, monkeypatch):
    """Whole, and in chunks."""
    path = source(what, tmp_path)
    training = learn(read_table(path), "y")
    assert training.preprocessing.names == NAMES
    np.testing.assert_array_equal(training.X, X)
    np.testing.assert_array_equal(training.y, FRAME["y"])
    np.testing.assert_array_equal(training.rows, range(4))
    monkeypatch.setattr(text_module, "BLOCK", 100)
    monkeypatch.setattr(base_module, "CHUNK", 3)
    parts, first = [], 0
    with open_table(path) as reader:
        for table in reader.chunks(training.preprocessing.sources):
            assert table.first == first
            parts.append(training.preprocessing.encode(table).X)
            first += len(table)
    assert len(parts) > 1
    np.testing.assert_array_equal(np.concatenate(parts), X)


def test_what_is_not_in_a_source_is_named_with_what_is(tmp_path):
    base, archive, pattern, sheet = (
        source(what, tmp_path) for what in ("shop.db", "all.zip", "part-*.csv", "book.xlsx::New")
    )
    (tmp_path / "part-9.csv").write_text("a,y\n1,2\n")
    with sqlite3.connect(base) as more:
        more.execute("create table clients (name text)")
    more.close()
    for path, words in (
        (base, "holds 2 tables: 'orders', 'clients'. Name one: "),
        (f"{base}::order", "has no table 'order'; it has 'orders', 'clients'"),
        (f"{base}::select absent from orders", "cannot be read as a database: no such column: absent"),
        (f"{base}::delete from orders", "has no table 'delete from orders'"),
        (f"{base}::with b as (select 1) delete from orders", "attempt to write a readonly database"),
        (f"{archive}::b.csv", "has no file 'b.csv'; it has 'deep/orders.csv'"),
        (pattern, "part-9.csv and .*part-0.csv differ in their columns: 'a', "),
        (tmp_path / "none-*.csv", "no files have such names"),
        (sheet.replace("New", "Next"), "has no sheet 'Next'; it has 'Old', 'New'"),
    ):
        with pytest.raises(TableError, match=words):
            read_table(path)


def test_rows_of_several_files_are_named_with_their_file(tmp_path):
    pattern = source("part-*.csv", tmp_path)
    with (tmp_path / "part-1.csv").open("a") as file:
        file.write("1.5,much,Bern,2020-01-01,True,7\n")
    with pytest.raises(TableError, match=r"'much' in line 4 of .*part-1\.csv"):
        learn(read_table(pattern), "y")


@pytest.mark.parametrize("start", ["<!DOCTYPE html>\n<html>", "\n <HTML><head>", '<?xml version="1.0"?>'])
def test_a_saved_web_page_is_named_as_such(start, tmp_path):
    (tmp_path / "a.csv").write_text(f"{start}<body>\n<table><tr><td>1</td></tr></table></body></html>\n")
    with pytest.raises(TableError, match="is a web page, not a table of text"):
        read_table(tmp_path / "a.csv")


UNITS = {  # cells below the names, and whether they are units
    "plain": (["s", "m", "degC"], True),
    "in brackets": (["[s]", "(m/s)", "[-]"], True),
    "some": (["", "m", "%"], True),
    "numbers": (["0.5", "2", "-3"], False),
    "words for missing values": (["n/a", "2", "3"], False),
    "only missing values": (["NA", "-", "?"], False),
    "a sentence": (["seconds since the start of the run", "m", "K"], False),
}


@pytest.mark.parametrize("what", UNITS)
@pytest.mark.parametrize("name", ["a.csv", "a.xlsx"])
def test_a_row_of_units_is_left_out(name, what, tmp_path):
    cells, are_units = UNITS[what]
    rows = [[row * 0.5, row * 2.0, 15 - 0.1 * row] for row in range(30)]
    if name == "a.csv":
        lines = [["time", "depth", "y"], cells, *rows]
        (tmp_path / name).write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    else:
        pytest.importorskip("python_calamine")
        workbook.write_workbook(tmp_path / name, {"A": [["time", "depth", "y"], cells, *rows]})
    table = read_table(tmp_path / name)
    assert len(table) == 30 + (not are_units)
    shown = ", ".join(repr(cell) for cell in cells if cell)
    note = f"The row of units below the column names is left out ({shown})."
    assert (note in table.notes) == are_units
    if are_units:
        np.testing.assert_allclose(learn(table, "y", ["time", "depth"]).X, np.array(rows)[:, :2])
        assert table.place(0) in ("line 3", "row 3")
