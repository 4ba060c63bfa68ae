"""Text files as people and instruments lay them out: titles, comments, blanks, and names that are none."""

from __future__ import annotations

from io import StringIO

import numpy as np
import pandas as pd
import pytest

from sodalite.exceptions import TableError
from sodalite.tables import Dialect, learn, open_table, read_table
from sodalite.tables.values import table_column

ROWS = [(row * 7 % 11, row * 5 % 13, row * row % 17) for row in range(40)]


def lines(mark: str) -> str:
    return "".join(f"{mark.join(map(str, row))}\n" for row in ROWS)


def numbers(table) -> list[list[float]]:
    return np.column_stack([table_column(table, name).data for name in table.names]).tolist()


@pytest.mark.parametrize(
    ("above", "mark", "said"),
    [
        ("Sales report 2024\n\n", ",", "'Sales report 2024'"),
        ("# device 7, room 3\n# firmware 1.2\n", ";", "'device 7, room 3', 'firmware 1.2'"),
        ("Sales,,\n,,\n", ",", "'Sales'"),
        ("Title\n", "\t", "'Title'"),
    ],
)
def test_what_stands_above_the_names_is_left_out(above, mark, said, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"{above}{mark.join('aby')}\n{lines(mark)}")
    table = read_table(path)
    assert table.names == ["a", "b", "y"]
    assert numbers(table) == [list(row) for row in ROWS]
    assert table.notes == (f"What stands above the column names is left out ({said}).",)
    with open_table(path) as reader:
        chunks = list(reader.chunks({"y": "number"}))
    assert sum(map(len, chunks)) == len(ROWS)


NAMES = {  # lines with the names of columns, the mark between columns that is said, and the names
    "an index": (",y", None, ["Unnamed: 0", "y"]),
    "a comment": ("#id,y", None, ["#id", "y"]),
    "one column": ("y", None, ["y"]),
    "those of pandas": (",a,a,,a", None, ["Unnamed: 0", "a", "a.1", "Unnamed: 3", "a.2"]),
    "blanks": ("a b y", " ", ["a", "b", "y"]),
    "no such mark": ("a b y", "|", ["a b y"]),
    "names of groups above them": (",first,,last,\nx,a,b,b,y", None, ["x", "a", "b", "b.1", "y"]),
    "years": ("country,1990,1991", None, ["country", "1990", "1991"]),
}


@pytest.mark.parametrize("what", NAMES)
def test_names_of_columns(what, tmp_path):
    text, sep, names = NAMES[what]
    cells = ["t"] + ["7"] * (len(names) - 1)
    (tmp_path / "a.csv").write_text(f"{text}\n" + f"{(sep or ',').join(cells)}\n" * 20)
    table = read_table(tmp_path / "a.csv", Dialect(sep=sep))
    assert (table.names, len(table)) == (names, 20)
    assert all("above" in note or "two columns named" in note for note in table.notes)
    if "above" in what:
        assert table.notes[0] == "What stands above the column names is left out ('first,last')."


def test_a_value_that_is_missing_in_the_first_row_makes_no_names_of_groups(tmp_path):
    more = "".join(f"r{row},Chur,{row}\n" for row in range(40))
    (tmp_path / "a.csv").write_text(f",town,y\nx,Bern,NA\n{more}")  # an index without a name
    table = read_table(tmp_path / "a.csv")
    assert (table.names, len(table)) == (["Unnamed: 0", "town", "y"], 41)


def test_lines_are_counted_with_those_above_the_names(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"# one\n# two\na,b,y\n{lines(',')}1,2\n")
    with pytest.raises(TableError, match="line 44 has 2 cells, but there are 3 columns"):
        read_table(path)
    path.write_text(f"# one\n# two\na,b,y\n{lines(',')}1,2,x\n")
    with pytest.raises(TableError, match="'x' in line 44"):
        learn(read_table(path), "y")


def test_texts_with_blanks_are_one_column(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("start time\n" + "2026-01-31 10:00\n" * 20)
    assert read_table(path).names == ["start time"]


@pytest.mark.parametrize("gap", [" ", "   ", " \t"])
@pytest.mark.parametrize("sep", [None, " "])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_columns_that_blanks_separate(gap, sep, encoding, tmp_path):
    path = tmp_path / "a.txt"
    rows = "".join(f" {gap.join(map(str, row))} \r\n" for row in ROWS)
    path.write_text(f"# device 7\n  a{gap}b{gap}y  \n{rows}", encoding)
    table = read_table(path, Dialect(sep=sep))
    assert table.names == ["a", "b", "y"]
    assert table.notes == ("What stands above the column names is left out ('device 7').",)
    assert numbers(table) == [list(row) for row in ROWS]
    assert table.place(0) == "line 3"


def test_names_with_blanks_around_them(tmp_path):
    """A name that a message showed was refused: blanks went before it."""
    text = "bacteria,    dose,  y\n" + "".join(f"{'ab'[a % 2]},  {b},  {c}\n" for a, b, c in ROWS)
    path = tmp_path / "a.csv"
    path.write_text(text)
    table = read_table(path)
    assert table.names == ["bacteria", "dose", "y"]
    training = learn(table, "y")
    frame = pd.read_csv(StringIO(text))
    assert "    dose" in frame.columns
    np.testing.assert_array_equal(training.preprocessing.encode_frame(frame).X, training.X)
    path.write_text('Name,   "Medal"\na,1\nb,2\n')
    assert read_table(path).names == ["Name", "Medal"]


def test_an_index_without_a_name_is_an_id(tmp_path):
    """The index of a frame whose rows were drawn at random counts nothing, and was an input."""
    frame = pd.DataFrame(ROWS, columns=list("aby"), index=np.random.default_rng(0).permutation(len(ROWS)) * 3)
    frame.to_csv(tmp_path / "a.csv")
    training = learn(read_table(tmp_path / "a.csv"), "y")
    assert training.preprocessing.names == ["a", "b"]
    assert any("'Unnamed: 0' is left out: an id" in note for note in training.notes)
    assert training.notes[-1] == "Columns as they are read: 'a', 'b' (numbers)."


@pytest.mark.parametrize("word", ["Total", "Average:"])
@pytest.mark.parametrize("after", ["", ",,,\nSource: us,,,\n"])
def test_a_row_of_totals_at_the_end_is_left_out(word, after, tmp_path):
    path = tmp_path / "shops.csv"
    rows = [f"{'abc'[row % 3]},{row % 7},{row % 5},{row % 7 + 0.5}" for row in range(60)]
    path.write_text("\n".join(["shop,size,staff,sold", *rows, f"{word},180,,210", after]))
    training = learn(read_table(path), "sold")
    assert len(training.y) == 60
    assert f"Line 62 is left out: it says {word!r}." in training.notes
    assert after or training.missing == {}  # of that row, none is counted
    path.write_text("\n".join(["shop,sold", *(f"{['Total', 'Sum', 'Star'][row % 3]},{row % 7}" for row in range(60))]))
    assert len(learn(read_table(path), "sold").y) == 60  # a shop of that name


@pytest.mark.parametrize(("stray", "n"), [("soon", 0), ("unknown", 1)])
def test_texts_among_dates_are_refused_or_missing(stray, n, tmp_path):
    path = tmp_path / "shops.csv"
    days = [f"2026-01-{1 + row % 30:02}" for row in range(59)]
    path.write_text("\n".join(["day,sold", *(f"{day},{row % 7}" for row, day in enumerate([*days, stray]))]))
    if not n:
        with pytest.raises(TableError, match="column 'day' holds 'soon' in line 61 where dates such as 2026-01-31"):
            learn(read_table(path), "sold")
    else:
        assert learn(read_table(path), "sold").missing == {"day": n}


# Copies


def learnt(path, frame):
    frame.to_csv(path, index=False)
    return learn(read_table(path), "y")


def continuous(n=60, seed=0):
    random = np.random.default_rng(seed)
    return pd.DataFrame({"id": [f"r{row}" for row in range(n)], "a": random.random(n), "y": random.random(n)})


WHOLE = continuous()
GAPS = WHOLE.assign(b=np.where(np.arange(60) % 3, np.nan, 1.0), town=np.resize(["x", "y", None], 60))
DRAWN = np.random.default_rng(0).integers(0, 12, (200, 3))
COARSE = pd.DataFrame({"a": DRAWN[:, 0] % 4, "b": DRAWN[:, 1] % 3})
COPIES = {  # a frame, rows that join it, and how many of these are left out as copies
    "some": (WHOLE, pd.concat([WHOLE[10:20], WHOLE[:5]]), 15),
    "one": (WHOLE, WHOLE[7:8], 1),
    "with gaps": (GAPS, GAPS[:9], 9),
    "of another id": (WHOLE, WHOLE[10:20].assign(id="another"), 0),  # houses of one size and price
    "few targets": (FEW := COARSE.assign(y=COARSE["a"] + DRAWN[:, 2] % 3), FEW[:3], 0),
    "targets that differ": (MORE := COARSE.assign(y=np.arange(200) * 0.37 % 1), MORE[:3], 0),
}


@pytest.mark.parametrize("what", COPIES)
def test_copies_of_rows_are_left_out(what, tmp_path):
    frame, joined, n = COPIES[what]
    found = learnt(tmp_path / "a.csv", pd.concat([frame, joined]))
    assert len(found.y) == len(frame) + len(joined) - n
    np.testing.assert_array_equal(found.rows[: len(frame)], np.arange(len(frame)))
    words = "1 row is a copy of another" if n == 1 else f"{n} rows are copies of others"
    notes = [note for note in found.notes if "cop" in note]
    assert notes == ([f"{words} in all columns, and {'is' if n == 1 else 'are'} left out."] if n else [])


@pytest.mark.parametrize("column", ["a", "day"])
def test_a_word_for_totals_may_stand_in_any_column(tmp_path, column):
    rows = pd.DataFrame({"day": pd.date_range("2026-01-01", periods=30).astype(str), "a": np.arange(30) % 7 + 0.5})
    rows["y"] = rows["a"] ** 2 + np.arange(30)
    last = {"day": "", "a": "", "y": rows["y"].sum(), column: "Total"}
    pd.concat([rows.astype(str), pd.DataFrame([last]).astype(str)]).to_csv(tmp_path / "a.csv", index=False)
    found = learn(read_table(tmp_path / "a.csv"), "y")
    assert len(found.y) == 30
    assert "Line 32 is left out: it says 'Total'." in found.notes
    assert found.preprocessing.sources == ["day", "a"]
