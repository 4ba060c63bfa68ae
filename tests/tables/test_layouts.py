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
        ("# device 7, room 3\n", " ", "'device 7, room 3'"),
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


def test_names_of_groups_of_columns(tmp_path):
    path = tmp_path / "a.csv"
    rows = "".join(f"{a},{b},{c},{a}\n" for a, b, c in ROWS)
    path.write_text(f"first,,last,\na,b,b,y\n{rows}")
    table = read_table(path)
    assert table.names == ["first a", "first b", "last b", "last y"]
    assert numbers(table) == [[*row, row[0]] for row in ROWS]
    assert table.notes == ("Column names are in two rows; the upper one ('first', 'last') names groups of columns.",)
    more = "".join(f"r{row},Chur,{row}\n" for row in range(40))
    path.write_text(f",town,y\nx,Bern,NA\n{more}")  # an index without a name, and a value that is missing
    assert (read_table(path).names, len(read_table(path))) == (["Unnamed: 0", "town", "y"], 41)


def test_lines_are_counted_with_those_above_the_names(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"# one\n# two\na,b,y\n{lines(',')}1,2\n")
    with pytest.raises(TableError, match="line 44 has 2 cells, but there are 3 columns"):
        read_table(path)
    path.write_text(f"# one\n# two\na,b,y\n{lines(',')}1,2,x\n")
    with pytest.raises(TableError, match="'x' in line 44"):
        learn(read_table(path), "y")


def test_names_are_not_taken_for_titles(tmp_path):
    path = tmp_path / "a.csv"
    for names, found in ((",y", ["Unnamed: 0", "y"]), ("#id,y", ["#id", "y"]), ("y", ["y"])):
        path.write_text(f"{names}\n" + "".join(f"{','.join('7' * len(found))}\n" for _ in range(20)))
        table = read_table(path)
        assert (table.names, table.notes, len(table)) == (found, (), 20)


@pytest.mark.parametrize("gap", [" ", "   ", " \t"])
def test_columns_that_blanks_separate(gap, tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text(f"  a{gap}b{gap}y  \n" + "".join(f" {gap.join(map(str, row))} \r\n" for row in ROWS))
    expected = [list(row) for row in ROWS]
    for block in (2**22, 50):
        monkeypatch.setattr("sodalite.tables.text.BLOCK", block)
        table = read_table(path)
        assert table.names == ["a", "b", "y"]
        assert numbers(table) == expected
    with open_table(path) as reader:
        assert sum(map(len, reader.chunks({"y": "number"}))) == len(ROWS)


def test_texts_with_blanks_are_one_column(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("start time\n" + "2026-01-31 10:00\n" * 20)
    assert read_table(path).names == ["start time"]


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


def test_names_are_those_of_pandas(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(",a,a,,a\n" + "1,2,3,4,5\n" * 3)
    assert read_table(path).names == list(pd.read_csv(path).columns) == ["Unnamed: 0", "a", "a.1", "Unnamed: 3", "a.2"]


def test_an_index_without_a_name_is_an_id(tmp_path):
    """The index of a frame whose rows were drawn at random counts nothing, and was an input."""
    frame = pd.DataFrame(ROWS, columns=list("aby"), index=np.random.default_rng(0).permutation(len(ROWS)) * 3)
    frame.to_csv(tmp_path / "a.csv")
    training = learn(read_table(tmp_path / "a.csv"), "y")
    assert training.preprocessing.names == ["a", "b"]
    assert any("'Unnamed: 0' is left out: an id" in note for note in training.notes)
    assert training.notes[-1] == "Columns as they are read: 'a', 'b' (numbers)."


def test_names_that_look_like_data_are_pointed_out(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('CN01,001,"23,288",9.7\n' + "".join(f'CN{a},{b:03},"2{b},{c + 100}",{c}.5\n' for a, b, c in ROWS))
    assert read_table(path).notes == (
        "The names of columns look like a row of data ('001', '23,288', '9.7'): if the file has no line of names, put "
        "one before its first line.",
    )
    path.write_text("country,1990,1991,1992\n" + "x,1,2,3\n" * 20)
    assert read_table(path).notes == ()


def test_a_mark_that_is_given_is_not_sought(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a b y\n" + lines(" "))
    assert read_table(path, Dialect(sep=" ")).names == ["a", "b", "y"]
    assert read_table(path, Dialect(sep="|")).names == ["a b y"]


@pytest.mark.parametrize("word", ["Total", "Average:"])
@pytest.mark.parametrize("after", ["", ",,,\nSource: us,,,\n"])
def test_a_row_of_totals_at_the_end_is_left_out(word, after, tmp_path):
    path = tmp_path / "shops.csv"
    rows = [f"{'abc'[row % 3]},{row % 7},{row % 5},{row % 7 + 0.5}" for row in range(60)]
    path.write_text("\n".join(["shop,size,staff,sold", *rows, f"{word},180,,210", after]))
    training = learn(read_table(path), "sold")
    assert len(training.y) == 60
    assert f"Line 62 is left out: it says {word!r}." in training.notes


def test_a_shop_that_is_called_total_is_kept(tmp_path):
    path = tmp_path / "shops.csv"
    path.write_text("\n".join(["shop,sold", *(f"{['Total', 'Sum', 'Star'][row % 3]},{row % 7}" for row in range(60))]))
    assert len(learn(read_table(path), "sold").y) == 60


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


def test_copies_of_rows_are_left_out(tmp_path):
    frame = continuous()
    many = pd.concat([frame, frame[10:20], frame[:5]])
    found = learnt(tmp_path / "a.csv", many)
    np.testing.assert_array_equal(found.rows, np.arange(60))
    assert "15 rows are copies of others in all columns, and are left out." in found.notes
    assert "1 row is a copy of another in all columns, and is left out." in (
        learnt(tmp_path / "b.csv", pd.concat([frame, frame[7:8]])).notes
    )


def test_rows_that_differ_in_any_column_are_no_copies(tmp_path):
    """Two houses of one size and price have different addresses, or different ids."""
    frame = continuous()
    many = pd.concat([frame, frame[10:20].assign(id="another")])
    found = learnt(tmp_path / "a.csv", many)
    assert len(found.y) == 70
    assert not any("cop" in note for note in found.notes)


@pytest.mark.parametrize("what", ["few targets", "targets that differ"])
def test_rows_that_agree_by_chance_are_no_copies(tmp_path, what):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"a": random.integers(0, 4, 200), "b": random.integers(0, 3, 200)})
    frame["y"] = frame["a"] + (random.integers(0, 3, 200) if what == "few targets" else random.random(200).round(3))
    found = learnt(tmp_path / "a.csv", pd.concat([frame, frame[:3]]))
    assert len(found.y) == 203
    assert not any("cop" in note for note in found.notes)


def test_missing_values_and_levels_are_compared_too(tmp_path):
    frame = continuous().assign(b=np.where(np.arange(60) % 3, np.nan, 1.0), town=np.resize(["x", "y", None], 60))
    found = learnt(tmp_path / "a.csv", pd.concat([frame, frame[:9]]))
    assert len(found.y) == 60
    assert "9 rows are copies of others in all columns, and are left out." in found.notes


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
