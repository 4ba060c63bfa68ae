"""How one column is read by its name and its values, what is said of it, and how new rows are read by that."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sodalite import TableEncoder
from sodalite.exceptions import TableError
from sodalite.tables import Places, learn, read_table

N = 60
MINUTES = [f"{minute}:{second:02}" for minute in range(10, 23) for second in (5, 17, 41)]
SPANS = pd.to_timedelta(np.arange(40) * 7919 % 500, unit="min").astype(str).tolist()
MONTHS = [100 * year + month for year in (2024, 2025, 2026) for month in range(1, 13)]
DURATIONS, CLOCK = "durations, in days", "times of day"
CAPITALS = "capitals in its levels are ignored."
GRADES = "'grade' is read as levels, since it has 4 different values, and 'K' is no number."

# The column's name and values, the words for how it is read, and what the notes say; new values and their first input.
READINGS = {
    "durations of pandas": ("took", SPANS, DURATIONS, None, SPANS[:3], [0, 419 / 1440, 338 / 1440]),
    "a stopwatch": ("time", ["57:18", "1:02:33", "45:00"], DURATIONS, None, ["1:00:00", "12:30"], [1 / 24, 75 / 8640]),
    "durations in units": ("time", ["5h 10m", "40m", "1h"], DURATIONS, None, ["2h 30m"], [2.5 / 24]),
    "times of day": ("time", [f"{hour}:30" for hour in range(24)], CLOCK, None, ["12:00"], [-1]),
    "laps": ("lap time", MINUTES, DURATIONS, None, ["12:00"], [12 / 1440]),
    "starts": ("start time", MINUTES, CLOCK, None, ["12:00"], [-1]),
    "codes": ("family", ["001", "014", "136A"], "3 levels", "since values such as '136A' are codes.", ["001"], [1]),
    "plots": ("plot", ["1", "2", "B3"], "3 levels", "since values such as 'B3' are codes.", ["1"], [1]),
    "grades": ("grade", ["K", "1", "2", "3"], "4 levels", GRADES, ["1"], [1]),
    "months": ("month", MONTHS, "dates such as 202601, season", "is read as dates such as 202601.", [202501], [20089]),
    "periods": ("order_period", MONTHS, "dates such as 202601, season", "dates such as 202601.", [202501], [20089]),
    "counts": ("count", MONTHS, "numbers", None, [202501], [202501]),
    "answers": ("answer", ["Y", "N", " n", "y"], "two levels: 'n', 'y'", CAPITALS, ["Y"], [1]),
    "truth": ("answer", ["T", "f", "F", "t"], "two levels: 'f', 't'", CAPITALS, ["T"], [1]),
    "yes": ("wet", ["yes", "YES", "No", "no"], "two levels: 'no', 'yes'", CAPITALS, ["yEs", "NO"], [1, 0]),
    "sexes": ("answer", ["M", "f", "F"], "two levels: 'f', 'm'", CAPITALS, ["m"], [1]),
    "other capitals in new rows": ("sex", ["F", "M"], "two levels: 'F', 'M'", None, ["f", "M", "m"], [0, 1, 1]),
    "single letters": ("allele", ["a", "A", "b"], "3 levels", None, ["A", "a"], [1, 0]),
    "lengths": ("size", ["1.85 m", "185 cm", "2.7 m"], "numbers in m such as 1.85 m (1.85)", "", ["150 cm"], [1.5]),
    "metres": ("size", ["1.85 m", "1.7 m"], "numbers such as 1.85 m (1.85)", "", ["150 cm"], [1.5]),
    "millions": ("size", ["1.5m", "2m"], "numbers such as 1.5m (1500000)", "", ["3m"], [3e6]),
    "weights": ("size", ["3 kg", "500 g", "2.5 kg"], "numbers in kg such as 3 kg (3)", "", ["300 g"], [0.3]),
    "one unit": ("size", ["3 kg", "2 kg"], "numbers such as 3 kg (3)", "", ["300 g", "3.5 kg"], [0.3, 3.5]),
    "feet": ("size", ["5'11\"", "6'", "5 ft 6 in"], "numbers in ft such as ", "", ["5'6\"", "6'"], [5.5, 6]),
    "feet and cm": ("size", ["6'", "5'11\"", "152.4 cm"], "numbers in ft such as 6' (6)", "", ["5'6\""], [5.5]),
}


def frame_of(values, name="town"):
    return pd.DataFrame({name: np.resize(np.array(values), N), "x": np.arange(N) * 7.0 % 11})


def encoder(name, values):
    frame = frame_of(values, name)
    return TableEncoder(columns=[name, "x"] if name == "took" else None).fit(frame, np.arange(N) * 0.3 % 1)


@pytest.mark.parametrize("what", READINGS)
def test_how_a_column_is_read(what):
    name, values, words, note, new, expected = READINGS[what]
    found = encoder(name, values)
    assert found.readings_[0].words.startswith(words)
    if words.startswith("numbers "):
        note = f"{name!r} is read as {found.readings_[0].words}."
    assert note is None or any(note in each for each in found.notes_)
    np.testing.assert_allclose(found.transform(pd.DataFrame({name: new, "x": 0.0}))[:, 0], expected, atol=1e-9)


@pytest.mark.parametrize(
    ("values", "new", "shown"),
    [
        (["2026-W05", "2026-W06", "2026-W07"], "soon", "as 2026-W05 for instance"),
        (["1h 10m", "2h 5m", "40m"], "1h10", "must hold durations, as 1:02:33 or 5h 10m for instance"),
        (["31.01.2026", "01.02.2026", "13.02.2026"], "2026", "as 31.01.2026 for instance"),
        ([f"{hour}:30" for hour in range(24)], "57:18", "must hold times"),
    ],
)
def test_errors_show_the_form_of_the_column(values, new, shown):
    with pytest.raises(TableError, match=shown):
        encoder("a", values).transform(pd.DataFrame({"a": [new], "x": [0.0]}))


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
    both = {"where": [", ".join(pair) for pair in zip(*texts, strict=True)]}
    frame = pd.DataFrame(both if in_one_cell else {"lat": texts[0], "lon": texts[1]})
    found = TableEncoder().fit(frame)
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
    sizes = encoder("size", ["1.5, 2.5", "3.5, 4.5", "2.5, 2.0"])  # two numbers that are not said to be a place
    assert not any(isinstance(column, Places) for column in sizes.mapping_.columns)


def test_dates_in_several_styles():
    days = pd.date_range("2024-01-14", periods=N)
    forms = ("%Y-%m-%d", "%d.%m.%Y", "%d %b %Y")
    found = encoder("day", [day.strftime(forms[row % 3]) for row, day in enumerate(days)])
    assert found.notes_[0] == "'day' is read as dates such as 2026-01-31 and 31.01.2026 and 31 Jan 2026."
    new = pd.DataFrame({"day": ["2024-02-01", "02.02.2024", "3 Feb 2024"], "x": 0.0})
    assert np.diff(found.transform(new)[:, 0]).tolist() == [1, 1]
    with pytest.raises(TableError, match="which can be read in two ways"):
        encoder("day", ["2024-01-31", "01/02/2024", "03/04/2024"])


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
    (note,) = [note for note in encoder("a", values).notes_ if "-999" in note]
    assert note == f"{words}if it means missing, na_values=['-999']."
    if not isinstance(values, list):
        pd.DataFrame({"x": np.arange(N) * 7.0 % 11, "a": values}).to_csv(tmp_path / "a.csv", index=False)
        assert f"The target {note}" in learn(read_table(tmp_path / "a.csv"), "a").notes


@pytest.mark.parametrize("chosen", [None, ["note", "x"]])
def test_texts_with_few_rows_each_are_no_levels_without_a_warning(chosen):
    frame = pd.DataFrame({"note": [f"note {row % 25 if chosen is None else row}" for row in range(N)]})
    frame["x"] = np.arange(N) * 7.0 % 11
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
    assert np.corrcoef(column.means[:-1], [effects[level] for level in column.levels])[0, 1] > 0.95
    assert any("so that few rows tell the mean target of each" in note for note in found.notes_)
    names = [f"Ms {row if row % 3 else row // 9}" for row in range(len(states))]  # most are of one row
    (note,) = TableEncoder().fit(pd.DataFrame({"name": names, "x": random.normal(size=len(states))}), y).notes_
    assert note.startswith("'name' is left out: a text that differs in most rows; ")


def test_training_says_how_every_column_is_read(tmp_path):
    frame = pd.DataFrame({"id": range(N), "a": np.arange(N) * 7 % 11, "town": np.resize(["x", "y", "z"], N)})
    frame["share"], frame["y"] = [f"{row % 17} %" for row in range(N)], np.arange(N) % 13
    frame.to_csv(tmp_path / "a.csv", index=False)
    notes = " ".join(learn(read_table(tmp_path / "a.csv"), "y").notes)
    for name in frame.columns[:-1]:
        assert repr(name) in notes
    assert "Columns as they are read: 'a' (numbers), 'town' (3 levels)." in notes


GONE = {  # columns that are complete in the fit, each of another transformer
    "number": [1.5, 2.5, 4.5],
    "date": ["2024-01-31", "2024-02-29", "2024-05-01"],
    "clock": ["12:30", "4:00", "16:10"],
    "duration": ["1h 10m", "2h 5m", "40m"],
    "place": ["46.1234, 7.1234", "46.9876, 7.5678", "46.5555, 8.1111"],
    "levels": ["a", "b", "c"],
    "two levels": ["yes", "no"],
    "many levels": [f"t{place}" for place in range(15)],
}


@pytest.mark.parametrize("what", GONE)
def test_a_new_row_with_a_missing_value_always_has_inputs(what):
    found = encoder("town", GONE[what])
    with pytest.warns(UserWarning, match=r"missed none in the fit: 'town' \(1\); their middle is put in"):
        encoded = found.transform(pd.DataFrame({"town": [GONE[what][0], None], "x": 0.0}))
    assert np.isfinite(np.asarray(encoded)).all()
    (unseen,) = encoded.unseen  # so that error bars are as wide as other values would change the prediction
    assert unseen.rows.tolist() == [1]
    n_values = len(set(GONE[what]))
    assert len(unseen.known) >= n_values
    assert set(map(tuple, unseen.known)) <= {
        tuple(row[: unseen.known.shape[1]]) for row in np.asarray(found.transform(frame_of(GONE[what])))
    }


# Columns that give the target away: the target by the columns, what is added to the frame, and the note.
AWAY = "if it is not known beforehand, leave it out."
LEAKS = {
    "equal": (lambda f: f["a"] + f["e"], lambda f, y: 2.54 * y, f"'z' is the target but for scale: {AWAY}"),
    "function": (lambda f: f["a"] + f["e"], lambda f, y: np.log(y + 9), f"'z' alone tells the target: {AWAY}"),
    "sum": (lambda f: f["a"] + f["e"], lambda f, y: y - f["c"], "The target is a sum or difference of 'c', 'z': "),
    "few columns": (lambda f: f["a"] - 2 * f["a b"], None, "The target is a sum or difference of 'a', 'a b': "),
    "product": (lambda f: f["a"] * f["b"], None, "The target is a product or ratio of 'a', 'b': "),
    "ratio": (lambda f: f["a"] / f["b"], None, "The target is a product or ratio of 'a', 'b': "),
    "power": (lambda f: f["a"] ** 2 * f["b"], None, "The target is a product or ratio of 'a', 'b': "),
}


@pytest.mark.parametrize("what", LEAKS)
def test_columns_that_give_the_target_away_are_pointed_out(what):
    target, column, note = LEAKS[what]
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.uniform(1, 5, (300, 6)), columns=["a", "b", "c", "a b", "d", "f"])
    y = target(frame.assign(e=random.normal(size=300)))
    if column is not None:
        assert not TableEncoder().fit(frame, y).notes_
        frame["z"] = column(frame, y)
    (found,) = TableEncoder().fit(frame, y).notes_
    assert found.startswith(note)
    assert not TableEncoder().fit(frame.drop(columns=["z"], errors="ignore"), y + frame["c"] ** 2 / 9).notes_


def test_time_gives_no_target_away():
    days, random = pd.date_range("2000-01-01", periods=200), np.random.default_rng(0)
    X = pd.DataFrame({"day": days, "year": np.linspace(2000, 2001, 200), "other": random.random(200)})
    X["near"] = X["year"] ** 3
    notes = TableEncoder().fit(X, pd.Series(np.sqrt(np.arange(200.0)), name="y")).notes_
    assert [note for note in notes if "target" in note] == [f"'near' alone tells the target: {AWAY}"]
