"""Raw tables through the commands: what is found, what is said, and what can be overruled."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import sodalite
import workbook
from commands import QUICK, done, run, told
from sodalite.cli import fit
from sodalite.cli.options import Fit
from sodalite.tables import Dialect, Options, learn, open_table, read_table


def shops(n=150, seed=0):
    """A table as a person in Switzerland writes it, and its target as a number."""
    random = np.random.default_rng(seed)
    area = random.uniform(20, 200, n)
    town = random.choice(["Bern", "Basel", "Chur"], n)
    rent = 30 * area + 500 * (town == "Bern") + random.normal(size=n)
    columns = {
        "": range(n),
        "lease_id": [f"L{row}" for row in range(n)],
        "since": pd.date_range("2019-01-03", periods=n, freq="5D").strftime("%d.%m.%Y"),
        "town": town,
        "street": random.choice([f"S{place}" for place in range(40)], n),
        "area": [f"{value:.2f}".replace(".", ",") for value in area],
        "share": [f"{value:.0f} %" for value in random.uniform(0, 100, n)],
        "rooms": [str(value) if value else "" for value in random.integers(0, 8, n)],
        "rent": [f"CHF {value:,.2f}".replace(",", "'").replace(".", ",") for value in rent],
    }
    return pd.DataFrame(columns), rent


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with shops.csv in it."""
    monkeypatch.chdir(tmp_path)
    shops()[0].to_csv("shops.csv", index=False, sep=";")
    return tmp_path


def test_a_raw_table_is_read_fitted_and_predicted_without_options(folder):
    frame, rent = shops()
    result = done("fit", "shops.csv", "-t", "rent", *QUICK)
    assert max(map(len, result.stdout.splitlines())) <= 80
    text = " ".join(result.stdout.split())
    for words in (
        "The target 'rent' is read as numbers such as CHF ",
        "'since' is read as dates such as 31.01.2026.",
        "'area' is read as numbers such as ",
        "'share' is read as numbers such as ",
        "'Unnamed: 0' is left out: it counts the rows; to keep it, name it in --features.",
        "'lease_id' is left out: an id",
    ):
        assert words in text, words
    result = done("predict", "model.sodalite", "shops.csv", "--keep", "lease_id,rent", "-o", "out.csv")
    found = pd.read_csv("out.csv")
    assert list(found) == ["lease_id", "rent", "mean"]
    assert found["rent"].tolist() == frame["rent"].tolist()
    assert np.sqrt(np.mean((found["mean"] - rent) ** 2)) < rent.std()
    loaded = sodalite.load("model.sodalite")
    raw = pd.read_csv("shops.csv", sep=";")
    np.testing.assert_allclose(loaded.predict(raw), found["mean"], rtol=1e-9)


def test_a_dry_run_shows_how_columns_are_read_and_writes_nothing(folder):
    result = done("fit", "shops.csv", "-t", "rent", "--dry-run")
    assert max(map(len, result.stdout.splitlines())) <= 80
    text = " ".join(result.stdout.split())
    assert "shops.csv: 150 rows to predict rent by, from 11 inputs" in text
    for words in ("dates such as 31.01.2026, season 3", "3 levels 3", " levels, by their mean target 1"):
        assert words in text, words
    content = told("fit", "shops.csv", "-t", "rent", "--dry-run")
    by_name = {part["column"]: part for part in content["columns"]}
    assert not by_name["lease_id"]["used"]
    assert by_name["rooms"]["inputs"] == ["rooms", "rooms missing"]
    assert by_name["rooms"]["missing"] == sum(shops()[0]["rooms"] == "")
    assert len(content["inputs"]) == 11
    assert [path.name for path in folder.iterdir()] == ["shops.csv"]


def test_the_model_that_is_written_has_seen_all_rows(folder):
    parameters = {"n_active": 20, "posterior": "local", "hyperparameters": "subset", "mean": "none"}
    given = {"data": "shops.csv", "target": "rent", "test_fraction": 0.2, "parameters": parameters}
    all_rows, _ = fit.run(Fit(output="all", **given))
    most, _ = fit.run(Fit(output="most", hold_out_only=True, **given))
    one, other = sodalite.load("all"), sodalite.load("most")
    assert (all_rows.n_rows, all_rows.n_held_out, most.n_rows) == (150, 30, 120)
    assert (one.fitted_.n_rows, other.fitted_.n_rows) == (150, 120)
    assert str(one.kernel_) == str(other.kernel_)
    assert all_rows.scores == most.scores
    assert one.get_params()["hyperparameters"] == "subset"
    assert one.rounds_
    training = learn(read_table("shops.csv"), "rent")
    np.testing.assert_array_equal(one.fitted_.rows.X, training.X)
    # The means of streets that the rows held out were judged with had not seen them.
    street = next(column for column in other.preprocessing_.columns if column.name == "street")
    assert street.means != next(column for column in one.preprocessing_.columns if column.name == "street").means


def test_a_pipeline_of_python_predicts_on_the_command_line(folder):
    frame, rent = shops()
    model = sodalite.GreedyGPRegressor(n_active=30, hyperparameters="fixed", random_state=0)
    pipe = make_pipeline(sodalite.TableEncoder(), model).fit(frame.drop(columns="rent"), rent)
    sodalite.save(pipe, "m")
    done("predict", "m", "shops.csv", "-o", "out.csv")
    np.testing.assert_allclose(pd.read_csv("out.csv")["mean"], pipe.predict(frame), rtol=1e-9)


def test_all_that_is_wrong_stands_in_one_message(folder):
    frame = shops()[0].drop(columns="")
    frame.loc[3, "area"] = "large"
    frame["since"] = "03/04/2020"
    frame.loc[::2, "since"] = "05/06/2020"
    frame.to_csv("wrong.csv", index=False, sep=";")
    result = run("fit", "wrong.csv", "-t", "rent", *QUICK)
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert lines[0] == "Error: wrong.csv cannot be used as it is:"
    assert lines[1].startswith("- column 'since' holds dates such as")
    assert "--set date_format=%d/%m/%Y" in lines[1]
    assert lines[2].startswith("- column 'area' holds text where a number is needed: 'large' in line 5.")
    assert len(lines) == 3
    options = ["--set", "date_format=%m/%d/%Y", "--set", "na_values=large"]
    content = told("fit", "wrong.csv", "-t", "rent", *options, "--dry-run")
    assert content["missing"]["area"] == 1


def test_how_a_file_is_written_can_be_said(folder):
    Path("a.csv").write_bytes(
        "näme|x|y\n".encode("cp1252") + b"\xe4|1.234|1\n\xf6|2.500|2\n\xfc|n.b.|3\nb|4.000|5\n" * 5
    )
    options = ["-t", "y", "--set", "encoding=cp1252", "--set", "thousands=.", "--decimal", ",", "--set"]
    options += ["na_values=n.b."]
    content = told("fit", "a.csv", *options, "--set", "sep=|", "--dry-run")
    assert content["inputs"] == ["näme=b", "näme=ä", "näme=ö", "näme=ü", "x", "x missing"]
    table = read_table("a.csv", Dialect(encoding="cp1252", thousands=".", na_values=("n.b.",)))
    training = learn(table, "y", options=Options(decimal=",", thousands="."))
    np.testing.assert_array_equal(training.X[:4, 4], [1234, 2500, 2500, 4000])


@pytest.mark.parametrize("decimal", [",", "."])
def test_every_column_has_its_own_marks(decimal, folder):
    """Thousands with a unit, thousands with points and decimal commas in one file; and the same in predict."""
    random = np.random.default_rng(0)
    weight, rent, area = random.integers(300, 30_000, 60), random.integers(300, 30_000, 60), random.uniform(1, 9, 60)
    frame = pd.DataFrame(
        {
            "weight": [f"{value:,} lbs" for value in weight],
            "rent": [f"{value:,}".replace(",", "." if decimal == "," else "'") for value in rent],
            "area": [f"{value:.1f}".replace(".", decimal) for value in area],
            "y": random.integers(0, 99, 60),
        }
    )
    frame.to_csv("marks.csv", index=False, sep=";")
    result = done("fit", "marks.csv", "-t", "y", "-o", "m", *QUICK)
    text = " ".join(result.stdout.split())
    assert "'weight' is read as numbers such as " in text
    assert "'rent' is read as numbers such as " in text
    mapping = sodalite.load("m").preprocessing_
    for rows in (read_table("marks.csv"), read_table("marks.csv", Dialect(sep=";"))):
        expected = np.column_stack([weight, rent, np.round(area, 1)])
        np.testing.assert_array_equal(mapping.encode(rows).X, expected)
    with open_table("marks.csv") as reader:
        np.testing.assert_array_equal(
            np.concatenate([mapping.encode(p).X for p in reader.chunks(mapping.sources)]), expected
        )


def test_places_with_decimal_commas(folder):
    random = np.random.default_rng(0)
    place = np.column_stack([random.uniform(46, 48, 60), random.uniform(6, 10, 60)]).round(4)
    frame = pd.DataFrame(place, columns=["lat", "lon"]).assign(y=place[:, 0])
    frame.to_csv("points.csv", index=False)
    frame.to_csv("commas.csv", index=False, sep=";", decimal=",")
    trainings = [learn(read_table(name), "y") for name in ("points.csv", "commas.csv")]
    np.testing.assert_array_equal(trainings[0].X, trainings[1].X)
    assert trainings[1].preprocessing.names == ["lat and lon east", "lat and lon north"]
    assert "'lat' and 'lon' are read as places on the globe, with decimal commas." in trainings[1].notes
    done("fit", "commas.csv", "-t", "y", *QUICK, "-q")
    means = [told("predict", "model.sodalite", "commas.csv")["predictions"]["mean"]]
    means.append(sodalite.load("model.sodalite").predict(frame).tolist())
    np.testing.assert_allclose(means[0], means[1], rtol=1e-9)


def test_levels_that_were_rare_in_the_fit_are_known_to_predict(folder):
    kind = ["A, B"] * 30 + ["A, C"] * 30 + ["Once", "Twice", "Twice"] + [""] * 27
    rare = ["Lone"] * 2 + ["Sole"] + [""] * 87
    frame = pd.DataFrame({"kind": kind, "rare": rare, "x": np.arange(90) * 7 % 31, "y": np.arange(90) % 13})
    frame.to_csv("a.csv", index=False)
    done("fit", "a.csv", "-t", "y", *QUICK, "-q")
    content = told("predict", "model.sodalite", "a.csv")
    assert content["unknown"] == {}
    frame.loc[[3, 4], ["kind", "rare"]] = "New"
    frame.to_csv("b.csv", index=False)
    content = told("predict", "model.sodalite", "b.csv")
    assert content["unknown_levels"] == {"kind": {"New": 2}, "rare": {"New": 2}}


def test_columns_that_are_left_out_for_one_reason_share_a_sentence(folder):
    frame = shops()[0].assign(number=np.arange(1, 151), none=0, nil=0)
    frame.to_csv("a.csv", index=False, sep=";")
    notes = told("fit", "a.csv", "-t", "rent", "--dry-run")["notes"]
    both = "'Unnamed: 0' and 'number' are each left out: it counts the rows; to keep it, name it in --features."
    assert both in notes
    assert "'none' and 'nil' are each left out: all its values are 0." in notes
    assert both not in " ".join(run("fit", "a.csv", "-t", "rent", "--dry-run").stdout.split())


def test_an_unusual_mark_between_thousands_is_kept_for_predict(folder):
    Path("a.csv").write_text("x,y\n" + "".join(f"{row}_{row * 37 % 1000:03d},{row}\n" for row in range(1, 40)))
    done("fit", "a.csv", "-t", "y", "--set", "thousands=_", *QUICK, "-q")
    mapping = sodalite.load("model.sodalite").preprocessing_
    assert mapping.encode(read_table("a.csv")).X[:2, 0].tolist() == [1037, 2074]


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_separators_and_marks_of_encodings_are_found(sep, encoding, folder):
    frame = pd.DataFrame({"näme": ["a, b", "c; d", "e"], "x": [1.5, 2.5, 4.5], "y": [1, 2, 3]})
    frame.to_csv("a.csv", index=False, sep=sep, encoding=encoding)
    table = read_table("a.csv")
    assert table.names == ["näme", "x", "y"]
    assert table.data["näme"].to_pylist() == ["a, b", "c; d", "e"]


def test_encodings_are_found_said_and_kept(folder):
    """A file of Windows is read as such; an encoding that was given is kept for predict, unless a file is UTF-8."""
    frame = pd.DataFrame({"town": ["Łódź", "Kraków", "Łomża"] * 20, "x": range(1, 61), "y": np.arange(60) % 7})
    frame.to_csv("utf8.csv", index=False)
    frame.to_csv("east.csv", index=False, encoding="cp1250")
    frame.replace({"town": {"Łódź": "Zürich", "Łomża": "Genève"}}).to_csv("west.csv", index=False, encoding="cp1252")
    result = done("fit", "west.csv", "-t", "y", *QUICK, "-o", "west")
    assert "west.csv is not UTF-8, and is read as Windows-1252; --set encoding=... overrules." in " ".join(
        result.stdout.split()
    )
    assert next(iter(sodalite.load("west").preprocessing_.columns)).levels == ("Genève", "Kraków", "Zürich")
    result = run("predict", "west", "west.csv", "-o", "out.csv")
    assert (
        result.stderr.splitlines()[0]
        == "west.csv is not UTF-8, and is read as Windows-1252; --set encoding=... overrules."
    )
    assert "new to the model" not in result.stderr
    assert "Windows" not in run("predict", "west", "west.csv", "-o", "out.csv", "-q").stderr
    done("fit", "east.csv", "-t", "y", *QUICK, "--set", "encoding=cp1250", "-o", "east", "-q")
    means = []
    for name in ("east.csv", "utf8.csv"):
        content = told("predict", "east", name)
        assert not content["unknown"]
        means.append(content["predictions"]["mean"])
    assert means[0] == means[1]
    content = told("report", "east", "east.csv")
    assert content["notes"] == ["east.csv is not UTF-8, and is read as cp1250; --set encoding=... overrules."]
    frame.to_csv("wide.csv", index=False, encoding="utf-16-le")
    done("fit", "wide.csv", "-t", "y", *QUICK, "--set", "encoding=utf-16-le", "-o", "wide", "-q")
    assert told("predict", "wide", "wide.csv")["n_rows"] == 60
    content = told("select", "west.csv", "-t", "y", "-n", "3")
    assert "Windows-1252" in content["notes"][0]


def test_two_columns_of_one_name(folder):
    Path("twice.csv").write_text("a,a,y\n" + "".join(f"{row},{row * 7 % 11},{row * row}\n" for row in range(40)))
    content = told("fit", "twice.csv", "-t", "y", *QUICK)
    assert content["notes"][0] == "There are two columns named 'a'; the second is read as 'a.1'."
    assert content["inputs"] == ["a.1"]
    assert len(run("predict", "model.sodalite", "twice.csv").stdout.splitlines()) == 41


def test_keep_is_checked_and_no_header_is_written_before_the_rows_are_seen(folder):
    frame, _ = shops()
    done("fit", "shops.csv", "-t", "rent", *QUICK, "-q")
    result = run("predict", "model.sodalite", "shops.csv", "--keep", "lease")
    assert result.exit_code == 2
    assert "no column 'lease'" in result.stderr
    frame.rename(columns={"lease_id": "mean"}).to_csv("named.csv", index=False, sep=";")
    assert (
        "--keep mean: the output has a column" in run("predict", "model.sodalite", "named.csv", "--keep", "mean").stderr
    )
    frame.loc[2, "area"] = "wide"
    frame.to_csv("bad.csv", index=False, sep=";")
    result = run("predict", "model.sodalite", "bad.csv")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "'wide' in line 4" in result.stderr
    content = told("predict", "model.sodalite", "shops.csv", "--keep", "town")
    assert content["predictions"]["town"] == frame["town"].tolist()


def test_inspect_names_the_inputs_beside_their_length_scales(folder):
    done("fit", "shops.csv", "-t", "rent", *QUICK, "-q")
    result = run("inspect", "model.sodalite")
    assert max(map(len, result.stdout.splitlines())) <= 80
    model = sodalite.load("model.sodalite")
    scales = model.kernel_.k1.k2.length_scale
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    for name, value in zip(model.preprocessing_.names, scales, strict=True):
        assert any(line.endswith(f"{name}: {value:.3g}") for line in lines), name
    assert "street (levels by their mean target)" in " ".join(result.stdout.split())


def test_inspect_says_what_takes_the_place_of_missing_values(folder):
    n = 60
    frame = pd.DataFrame({"kind": ["A, B", "A", "C", ""] * 15, "x": [None, 1 / 3, 2 / 3, 0.9] * 15, "y": range(n)})
    frame["day"] = pd.date_range("2020-01-01", periods=n, freq="9D")
    frame.loc[3, "day"] = pd.NaT
    frame.to_csv("a.csv", index=False)
    done("fit", "a.csv", "-t", "y", *QUICK, "-q")
    text = " ".join(run("inspect", "model.sodalite").stdout.split())
    assert "kind (text): 'A', 'A, B', 'C'; missing values are a level" in text
    assert "x (number); an input says where values are missing; missing: 0.666667" in text
    assert re.search(r"day \(date\); an input says where values are missing; missing: 2020-\d\d-\d\d ", text)
    assert "30 rows of 60 (as many as were asked for)" in text


NO_MODELS = {
    b"\x89PNG\r\n": "a PNG picture",
    b"%PDF-1.7": "a PDF document",
    b"a,b\n1,2\n": "a table of text, such as CSV",
    b"<!DOCTYPE html>": "a page of HTML or XML",
    b'{"a": 1}': "text, JSON by its look",
    b"hello\nworld\n": "text",
}


def test_inspect_says_what_a_file_is_that_is_no_model(folder):
    for data, words in NO_MODELS.items():
        Path("m.sodalite").write_bytes(data)
        result = run("inspect", "m.sodalite")
        assert result.stderr == f"Error: m.sodalite is no model file, but {words}.\n"


HEAD = ["id", "day", "stamp", "clock", "colour", "share", "text", "x", "flag", "y"]


def sheet(n=60):
    """Rows of an Excel sheet with cells of every kind."""
    random = np.random.default_rng(0)
    begin, rows = dt.datetime(2020, 1, 1, 3, 30), []
    for row in range(n):
        x = float(random.uniform(0, 10))
        when = begin + dt.timedelta(hours=5 * row)
        day = dt.date(2020, 1, 1) + dt.timedelta(days=7 * row)
        cells = [day, when, dt.time(row % 24, 30), ["red", "blue", "green"][row % 3], workbook.Percent(row / 100)]
        rows.append([row + 1, *cells, f"{x:.2f}", x if row % 9 else None, row % 2 == 0, 3 * x])
    return rows


TABLE = [HEAD, *sheet()]
TWO = "Sheet 'Data' is read, the first of 2 that holds a table; to read another, write a.xlsx::NAME."
ABOVE = "What stands above the column names is left out ({})."
SHIFTED = [[None, *row] for row in TABLE]
GROUPS = ["id", "when", None, None, "what", None, "how much", None, None, "y"]
AS_TEXTS = [[*row[:7], str(row[7] or "n/a") if row[0] % 5 == 0 else row[7], *row[8:]] for row in sheet()]
DAYS = [[row[0], f"{row[1]:%d.%m.%Y}" if row[0] < 21 else row[1], *row[2:]] for row in sheet()]
SHEETS = {  # the sheets, merged ranges, the hidden sheet, and what is noticed
    "plain": ({"Data": TABLE}, [], "", []),
    "two sheets": ({"Data": TABLE, "Notes": [["read", "me"], ["a", "b"]]}, [], "", [TWO]),
    "a cover": ({"Cover": [["Report"], ["by us"]], "Data": TABLE}, [], "", [TWO]),
    "a hidden sheet": ({"Old": [["a", "y"], [1, 2]], "Data": TABLE}, [], "Old", []),
    "a title and blank rows": (
        {"Data": [["Sales"], [], *SHIFTED[:10], [], [None] * 3, *SHIFTED[10:]]},
        ["A1:K1"],
        "",
        [ABOVE.format("'Sales'")],
    ),
    "groups of columns": (
        {"Data": [GROUPS, *TABLE]},
        ["B1:D1", "E1:F1", "G1:I1"],
        "",
        [ABOVE.format("'id,when,what,how much,y'")],
    ),
    "numbers as texts": ({"Data": [HEAD, *AS_TEXTS]}, [], "", []),
    "dates as texts": ({"Data": [HEAD, *DAYS]}, [], "", ["'day' is read as dates such as 31.01.2026 and 2026-01-31."]),
}


@pytest.mark.parametrize("what", SHEETS)
def test_a_sheet_is_read_as_people_write_it(what, folder):
    """All ways to lay out one table give the same inputs, in fit and in predict, and what was done is said."""
    pytest.importorskip("python_calamine")
    sheets, merged, hidden, notes = SHEETS[what]
    workbook.write_workbook("a.xlsx", sheets, merged, hidden)
    table = read_table("a.xlsx")
    assert table.names == HEAD
    training = learn(table, "y")
    assert [note for note in training.notes if note in notes] == notes
    rows = sheet()
    names = training.preprocessing.names
    expected = {
        "day": [(row[1] - dt.date(1970, 1, 1)).days for row in rows],
        "stamp": [(row[2] - dt.datetime(1970, 1, 1)) / dt.timedelta(days=1) for row in rows],
        "colour=red": [row[4] == "red" for row in rows],
        "share": [row[5].share for row in rows],
        "text": [float(row[6]) for row in rows],
        "x missing": [row[7] is None for row in rows],
        "flag": [row[8] for row in rows],
    }
    for name, values in expected.items():
        np.testing.assert_allclose(training.X[:, names.index(name)], values, rtol=1e-12, err_msg=name)
    np.testing.assert_allclose(training.y, [row[9] for row in rows])
    assert "clock hour cos" in names
    assert "id" not in names
    result = done("fit", "a.xlsx", "-t", "y", *QUICK)
    text = " ".join(result.stdout.split())
    assert all(note in text for note in notes)
    assert all(note in " ".join(run("fit", "a.xlsx", "-t", "y", "--dry-run").stdout.split()) for note in notes)
    assert len(run("predict", "model.sodalite", "a.xlsx").stdout.splitlines()) == 61
    np.testing.assert_array_equal(training.preprocessing.encode(read_table("a.xlsx")).X, training.X)


def test_column_names_of_a_sheet(folder):
    pytest.importorskip("python_calamine")
    rows = [[row * 7 % 11, row * 5 % 13, row % 3, row * 2 % 5, float(row)] for row in range(40)]
    for above, names in (
        ([["Shops"], ["sales", None, "costs", None, "y"], ["new", "old", "new", "old", "y"]], "new old new.1 old.1 y"),
        ([[2019, 2020, 2.5, dt.date(2026, 1, 31), "y"]], "2019 2020 2.5 2026-01-31 y"),
        ([[None, "y"]], "Unnamed:_0 y"),
        ([["A title"], ["x", "y"]], "x y"),
        ([["x", "x", "y"]], "x x.1 y"),
    ):
        width = len(above[-1])
        workbook.write_workbook("a.xlsx", {"A": [*above, *(row[-width:] for row in rows)], "B": []})
        assert read_table("a.xlsx").names == [name.replace("_", " ") for name in names.split()]
    table = read_table("a.xlsx")
    assert table.name == "a.xlsx, sheet 'A'"
    assert "a.xlsx, sheet 'A' has no column 'z'" in run("fit", "a.xlsx", "-t", "z").stderr


def test_a_row_of_totals_of_a_sheet_is_left_out_of_the_fit_and_predicted(folder):
    pytest.importorskip("python_calamine")
    total = ["Total:", *[None] * 8, 900.0]
    workbook.write_workbook("a.xlsx", {"Data": [HEAD, *sheet(), [], total]})
    training = learn(read_table("a.xlsx"), "y")
    assert "Row 63 is left out: it says 'Total:'." in training.notes
    assert len(training.y) == 60
    assert len(read_table("a.xlsx")) == 61  # each row of a table has a prediction


def test_cells_of_a_sheet_that_are_no_values(folder):
    pytest.importorskip("python_calamine")
    errors = [workbook.Error("#N/A"), workbook.Error("#DIV/0!"), None]
    rows = [[errors[row % 3] if row % 4 == 0 else row % 7, "A" if row % 2 else 12, row * 1.0] for row in range(40)]
    workbook.write_workbook("a.xlsx", {"A": [["x", "code", "y"], *rows]})
    training = learn(read_table("a.xlsx"), "y")
    assert training.missing == {"x": 10}
    assert training.preprocessing.columns[1].levels == ("12", "A")
    workbook.write_workbook("a.xlsx", {"A": [["x", "y"], *(["bad" if row == 29 else row, row] for row in range(40))]})
    assert "'bad' in row 31" in run("fit", "a.xlsx", "-t", "y").stderr
    days = [dt.date(2020, 1, 1 + row % 28) if row % 2 else "05/06/2020" for row in range(40)]
    workbook.write_workbook("a.xlsx", {"A": [["day", "y"], *([day, row] for row, day in enumerate(days))]})
    assert (
        "'day' holds dates such as '05/06/2020', which can be read in two ways"
        in run("fit", "a.xlsx", "-t", "y").stderr
    )
    Path("b.xlsx").write_bytes(b"nothing")
    assert "b.xlsx cannot be read as Excel" in run("fit", "b.xlsx", "-t", "y").stderr
    workbook.write_workbook("b.xlsx", {"A": []})
    assert "b.xlsx is empty; column names must come first" in run("fit", "b.xlsx", "-t", "y").stderr


@pytest.mark.parametrize("zone", [None, "Europe/Zurich"])
def test_the_report_of_a_dated_series_draws_its_curve(zone, folder):
    when = pd.date_range("2020-01-01", periods=500, freq="2D", tz=zone)
    frame = pd.DataFrame({"day": when, "y": np.sin(2 * np.pi * when.day_of_year / 365.25) + 0.01 * np.arange(500)})
    frame.to_parquet("series.parquet")
    done("fit", "series.parquet", "-t", "y", *QUICK, "-q")
    model = sodalite.load("model.sodalite")
    assert len(model.preprocessing_.names) == 5
    view = sodalite.report.make_report(model).view
    assert view.X.shape[1] == view.active_X.shape[1] == 1
    some = pd.DataFrame({"day": pd.to_datetime(view.axes[0] * 86_400_000, unit="ms", utc=zone is not None)})
    np.testing.assert_allclose(view.mean[-1], model.predict(some), atol=1e-4)


def test_the_report_recognises_rows_of_the_fit_by_what_the_fit_saw(folder):
    """The mean targets that a model is fitted with are cross-fitted, so that other rows have other ones."""
    done("fit", "shops.csv", "-t", "rent", *QUICK, "--posterior", "local", "-q", "--test-fraction", "0")
    content = json.loads(run("report", "model.sodalite", "shops.csv", "--json", "-o", "-").stdout)
    assert content["judgement"]["how"] == "left out"
    shops(60, seed=1)[0].to_csv("more.csv", index=False, sep=";")
    content = json.loads(run("report", "model.sodalite", "more.csv", "--json", "-o", "-").stdout)
    assert (content["judgement"]["how"], content["judgement"]["n_judges"]) == ("unseen", 60)


def test_the_middle_takes_the_place_of_a_gap_that_the_fit_has_not_seen(tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"x": random.normal(size=60), "z": random.normal(size=60)})
    frame["y"] = frame["x"] + frame["z"]
    frame.loc[5, "z"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    done("fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "m", "-n", "5", "--set", "hyperparameters=fixed")
    model = sodalite.load(tmp_path / "m")
    new = frame.iloc[:4].copy()
    new.loc[1, "z"] = np.nan  # the fit has seen such gaps
    assert np.isfinite(model.predict(new)).all()
    new.loc[2, "x"] = np.nan
    with pytest.warns(UserWarning, match=r"missed none in the fit: 'x' \(1\); their middle is put in"):
        found = model.predict(new)
    filled = new.assign(x=new["x"].fillna(frame["x"].median()))
    np.testing.assert_allclose(found, model.predict(filled))
    with pytest.warns(UserWarning, match="error bars as wide as other values would change the prediction"):
        wide = model.predict(new, return_std=True)[1]
    narrow = model.predict(filled, return_std=True)[1]
    np.testing.assert_allclose(wide[[0, 1, 3]], narrow[[0, 1, 3]])
    slopes = model.predict(filled.assign(x=1.0)) - model.predict(filled.assign(x=0.0))
    assert wide[2] > 0.5 * abs(slopes[2]) * frame["x"].std() + narrow[2]
