"""Sources of tables: databases, zips, patterns, sheets and JSON lines, and what stands around the rows of exports."""

from __future__ import annotations

import gzip
import json
import sqlite3
import zipfile

import numpy as np
import pandas as pd
import pytest

import workbook
from sodalite.exceptions import TableError
from sodalite.tables import learn, open_table, read_table

N = 40
FRAME = pd.DataFrame({"a": np.arange(N) * 7 % 11 + 0.5, "town": np.resize(["Bern", "Chur", "Genf"], N), "y": range(N)})


def as_sqlite(folder):
    with sqlite3.connect(folder / "shop.db") as base:
        FRAME.to_sql("orders", base, index=False)
    base.close()
    return folder / "shop.db"


def as_duckdb(folder):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(folder / "shop.duckdb")) as base:
        base.execute("create table orders (a double, town varchar, y integer)")
        base.executemany("insert into orders values (?, ?, ?)", FRAME.values.tolist())
    return folder / "shop.duckdb"


def as_zip(folder):
    with zipfile.ZipFile(folder / "all.zip", "w") as archive:
        archive.writestr("deep/orders.csv", FRAME.to_csv(index=False))
    return folder / "all.zip"


def as_lines(folder):
    (folder / "a.jsonl").write_text(FRAME.to_json(orient="records", lines=True))
    return folder / "a.jsonl"


def as_zipped_lines(folder):
    (folder / "a.jsonl.gz").write_bytes(gzip.compress(as_lines(folder).read_bytes()))
    return folder / "a.jsonl.gz"


def as_list(folder):
    (folder / "a.json").write_text(json.dumps(FRAME.to_dict(orient="records"), indent=1))
    return folder / "a.json"


def as_pattern(folder):
    for place in range(4):
        FRAME[10 * place : 10 * place + 10].to_csv(folder / f"part-{place}.csv", index=False)
    return folder / "part-*.csv"


def as_parquet_pattern(folder):
    for place in range(2):
        FRAME[20 * place : 20 * place + 20].to_parquet(folder / f"part-{place}.parquet")
    return folder / "part-[01].parquet"


def as_sheet(folder):
    pytest.importorskip("python_calamine")
    rows = [["a", "town", "y"], *FRAME.values.tolist()]
    workbook.write_workbook(folder / "book.xlsx", {"Old": [["a", "y"], [1, 2], [3, 4]], "New": rows}, [], "")
    return f"{folder}/book.xlsx::New"


SOURCES = [
    as_sqlite,
    as_duckdb,
    as_zip,
    as_lines,
    as_zipped_lines,
    as_list,
    as_pattern,
    as_parquet_pattern,
    as_sheet,
    lambda folder: f"{as_sqlite(folder)}::orders",
    lambda folder: f"{as_sqlite(folder)}::select a, town, y from orders order by y",
    lambda folder: f"{as_duckdb(folder)}::orders",
    lambda folder: f"{as_zip(folder)}::deep/orders.csv",
]


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_rows(source, tmp_path):
    path = source(tmp_path)
    (tmp_path / "plain.csv").write_text(FRAME.to_csv(index=False))
    expected, found = learn(read_table(tmp_path / "plain.csv"), "y"), learn(read_table(path), "y")
    assert found.preprocessing.names == expected.preprocessing.names
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.y, expected.y)
    with open_table(path) as reader:
        parts = [found.preprocessing.encode(table).X for table in reader.chunks(found.preprocessing.sources)]
    np.testing.assert_array_equal(np.concatenate(parts), expected.X)


def test_what_is_not_in_a_source_is_named_with_what_is(tmp_path):
    base, archive, pattern, sheet = (make(tmp_path) for make in (as_sqlite, as_zip, as_pattern, as_sheet))
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
        (pattern, "part-9.csv and .*part-0.csv differ in their columns: 'town'"),
        (tmp_path / "none-*.csv", "no files have such names"),
        (sheet.replace("New", "Next"), "has no sheet 'Next'; it has 'Old', 'New'"),
    ):
        with pytest.raises(TableError, match=words):
            read_table(path)


def test_rows_of_several_files_are_named_with_their_file(tmp_path):
    pattern = as_pattern(tmp_path)
    with (tmp_path / "part-2.csv").open("a") as file:
        file.write("much,Bern,7\n")
    with pytest.raises(TableError, match=r"'much' in line 12 of .*part-2\.csv"):
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
    "numbers": (["0.5", "2", "3"], False),
    "negative numbers": (["-0.5", "1", "-3"], False),
    "words for missing values": (["n/a", "2", "3"], False),
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
