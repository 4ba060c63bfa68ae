"""Values as people write them: places, dates in several styles, units, feet and inches, answers, and what is said."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sodalite import TableEncoder
from sodalite.exceptions import TableError
from sodalite.tables import Dates, Means, Places, learn, read_table
from sodalite.tables.written_dates import read_styles

N = 60


def encoder(**columns) -> TableEncoder:
    columns = {name: np.resize(values, N) for name, values in columns.items()}
    frame = pd.DataFrame({**columns, "x": np.arange(N) * 7.0 % 11})
    return TableEncoder().fit(frame, np.arange(N) * 0.3 % 1)


def degrees(value: float, sides: str, style: str) -> str:
    side, value = sides[int(value < 0)], abs(value)
    minutes, seconds = divmod(round(value * 3600) % 3600, 60)
    return {
        "letter": f"{value:.4f}° {side}",
        "minutes": f"{int(value)}°{minutes:02}'{seconds:02}\" {side}",
        "primes": f"{side} {int(value)}° {minutes}\u2032 {seconds}\u2033",
        "decimal minutes": f"{int(value)} {value % 1 * 60:.4f}' {side}",
    }[style]


@pytest.mark.parametrize("style", ["letter", "minutes", "primes", "decimal minutes"])
@pytest.mark.parametrize("in_one_cell", [False, True])
def test_places_in_degrees(style, in_one_cell):
    random = np.random.default_rng(0)
    lat, lon = np.round(random.uniform(-60, 60, N), 2), np.round(random.uniform(-150, 150, N), 2)
    texts = [[degrees(value, "NS", style) for value in lat], [degrees(value, "EW", style) for value in lon]]
    plain = TableEncoder().fit_transform(pd.DataFrame({"lat": lat, "lon": lon}))
    if in_one_cell:
        frame = pd.DataFrame({"where": [", ".join(pair) for pair in zip(*texts, strict=True)]})
    else:
        frame = pd.DataFrame({"lat": texts[0], "lon": texts[1]})
    found = TableEncoder().fit(frame)
    assert isinstance(found.mapping_.columns[0], Places)
    np.testing.assert_allclose(found.transform(frame), plain, atol=0.05)
    assert "places on the globe, in degrees as people write them" in found.notes_[0]
    with pytest.raises(TableError, match=r"must hold degrees, .* but it has 'north' in row 1"):
        found.transform(frame[:3].assign(**{frame.columns[0]: [frame.iloc[0, 0], "north", None]}))


@pytest.mark.parametrize("name", ["location", "where"])
def test_latitude_and_longitude_in_one_cell(name):
    frame = pd.DataFrame({name: [f"{46 + row / N:.4f}, {7 + row % 9 / 9:.4f}" for row in range(N)]})
    found = TableEncoder().fit(frame)
    assert found.mapping_.names == [f"{name} east", f"{name} north"]
    pair = frame[name].str.split(", ", expand=True).astype(float).set_axis(["lat", "lon"], axis=1)
    np.testing.assert_allclose(found.transform(frame), TableEncoder().fit_transform(pair))
    frame.loc[3, name] = None
    assert TableEncoder().fit(frame).mapping_.names[-1] == f"{name} missing"
    sizes = encoder(size=["1.5, 2.5", "3.5, 4.5", "2.5, 2.0"])  # two numbers that are not said to be a place
    assert not any(isinstance(column, Places) for column in sizes.mapping_.columns)


def test_dates_in_several_styles():
    days = pd.date_range("2024-01-14", periods=N)
    forms = ("%Y-%m-%d", "%d.%m.%Y", "%d %b %Y")
    texts = [day.strftime(forms[row % 3]) for row, day in enumerate(days)]
    found = encoder(day=texts)
    assert isinstance(found.mapping_.columns[0], Dates)
    assert found.notes_[0] == "'day' is read as dates such as 2026-01-31 and 31.01.2026 and 31 Jan 2026."
    new = pd.DataFrame({"day": ["2024-02-01", "02.02.2024", "3 Feb 2024"], "x": 0.0})
    assert np.diff(found.transform(new)[:, 0]).tolist() == [1, 1]
    with pytest.raises(TableError, match="which can be read in two ways"):
        encoder(day=["2024-01-31", "01/02/2024", "03/04/2024"])
    assert read_styles(("2026-01-31", "soon")) == []


def coded(least, most=5000.0):
    values = np.random.default_rng(0).uniform(least, most, N).round(1)
    values[::6] = -999
    return values


CODES = {  # columns, and what is said of the code in them
    "far below": (coded(0.0, 900.0), "'a' is -999 in 10 rows, far from others: "),
    "below": (coded(0.0), "'a' is -999 in 10 rows, more often than any other value: "),
    "within": (coded(-2000.0), "'a' is -999 in 10 rows, more often than any other value: "),
    "close": (coded(-998.0), "'a' is -999 in 10 rows, more often than any other value: "),
    "among texts": (["Bern", "Chur", "-999", "Genf"], "'a' is -999 in 15 rows, and a text in others: "),
    "texts that are numbers": (["1", "2", "-999"], "'a' is -999 in 20 rows, far from others: "),
}


@pytest.mark.parametrize("what", CODES)
def test_a_code_for_missing_values_is_pointed_out(what, tmp_path):
    values, words = CODES[what]
    (note,) = [note for note in encoder(a=values).notes_ if "-999" in note]
    assert note == f"{words}if it means missing, na_values=['-999']."
    if not isinstance(values, list):
        pd.DataFrame({"x": np.arange(N) * 7.0 % 11, "a": values}).to_csv(tmp_path / "a.csv", index=False)
        assert f"The target {note}" in learn(read_table(tmp_path / "a.csv"), "a").notes


@pytest.mark.parametrize("chosen", [None, ["note", "x"]])
def test_texts_with_few_rows_each_are_no_levels_without_a_warning(chosen):
    notes = [f"note {row % 25 if chosen is None else row}" for row in range(N)]
    frame = pd.DataFrame({"note": notes, "x": np.arange(N) * 7.0 % 11})
    found = TableEncoder(columns=chosen).fit(frame, np.arange(N) * 0.3 % 1)
    assert any("so that few rows tell the mean target of each" in note for note in found.notes_)
    frame["note"] = [f"note {row % 13}" for row in range(N)]
    assert not TableEncoder().fit(frame, np.arange(N) * 0.3 % 1).notes_


def test_two_rows_of_each_level_make_shrunken_means():
    """States in two years, of which some rows are held out, were taken for names of rows."""
    random = np.random.default_rng(0)
    states = np.delete(np.tile([f"state {place:02}" for place in range(48)], 2), random.permutation(96)[:9])
    effects = dict(zip(np.unique(states), random.normal(size=48), strict=True))
    y = np.array([effects[state] for state in states]) + 0.1 * random.normal(size=len(states))
    found = TableEncoder().fit(pd.DataFrame({"state": states, "x": random.normal(size=len(states))}), y)
    (column, _) = found.mapping_.columns
    assert isinstance(column, Means)
    assert np.corrcoef(column.means[:-1], [effects[level] for level in column.levels])[0, 1] > 0.95
    assert any("so that few rows tell the mean target of each" in note for note in found.notes_)
    names = [f"Ms {row if row % 3 else row // 9}" for row in range(len(states))]  # most are of one row
    (note,) = TableEncoder().fit(pd.DataFrame({"name": names, "x": random.normal(size=len(states))}), y).notes_
    assert note.startswith("'name' is left out: a text that differs in most rows; ")


def test_a_missing_value_of_a_row_of_totals_is_not_counted(tmp_path):
    rows = [f"{'abc'[row % 3]},{row % 7},{row % 7 + 0.5}" for row in range(N)]
    (tmp_path / "a.csv").write_text("\n".join(["shop,size,sold", *rows, "Total,,210"]))
    assert learn(read_table(tmp_path / "a.csv"), "sold").missing == {}


def test_training_says_how_every_column_is_read(tmp_path):
    frame = pd.DataFrame({"id": range(N), "a": np.arange(N) * 7 % 11, "town": np.resize(["x", "y", "z"], N)})
    frame["share"], frame["y"] = [f"{row % 17} %" for row in range(N)], np.arange(N) % 13
    frame.to_csv(tmp_path / "a.csv", index=False)
    notes = " ".join(learn(read_table(tmp_path / "a.csv"), "y").notes)
    for name in frame.columns[:-1]:
        assert repr(name) in notes
    assert "Columns as they are read: 'a' (numbers), 'town' (3 levels)." in notes


LEVELS = [["a", "b", "c"], ["yes", "no"], [f"t{place}" for place in range(15)]]


@pytest.mark.parametrize("levels", LEVELS)
def test_a_missing_level_that_the_fit_has_not_seen_is_as_a_new_one(levels):
    found = encoder(town=levels)
    with pytest.warns(UserWarning, match=r"missed none in the fit: 'town' \(1\); their middle is put in"):
        encoded = found.transform(pd.DataFrame({"town": [levels[0], None], "x": 0.0}))
    assert np.isfinite(np.asarray(encoded)).all()
