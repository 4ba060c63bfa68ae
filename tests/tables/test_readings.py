"""How one column is read by its name and its values, what is said of it, and how new rows are read by that."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sodalite import TableEncoder
from sodalite.exceptions import TableError
from sodalite.tables.numbers import read_numbers

N = 60
MINUTES = [f"{minute}:{second:02}" for minute in range(10, 23) for second in (5, 17, 41)]
SPANS = pd.to_timedelta(np.arange(40) * 7919 % 500, unit="min").astype(str).tolist()
MONTHS = [100 * year + month for year in (2024, 2025, 2026) for month in range(1, 13)]
DURATIONS, CLOCK = "durations, in days", "times of day"
CAPITALS = "capitals in its levels are ignored."

# The column's name and values, the words for how it is read, and what the notes say; new values and their first input.
READINGS = {
    "durations of pandas": ("took", SPANS, DURATIONS, None, SPANS[:3], [0, 419 / 1440, 338 / 1440]),
    "a stopwatch": (
        "time",
        ["57:18", "1:02:33", "45:00"],
        DURATIONS,
        None,
        ["1:00:00", "12:30"],
        [1 / 24, 12.5 / 1440],
    ),
    "durations in units": ("time", ["5h 10m", "40m", "1h"], DURATIONS, None, ["2h 30m"], [2.5 / 24]),
    "times of day": ("time", [f"{hour}:30" for hour in range(24)], CLOCK, None, ["12:00"], [-1]),
    "laps": ("lap time", MINUTES, DURATIONS, None, ["12:00"], [12 / 1440]),
    "starts": ("start time", MINUTES, CLOCK, None, ["12:00"], [-1]),
    "codes": ("family", ["001", "014", "136A"], "3 levels", "since values such as '136A' are codes.", ["001"], [1]),
    "plots": ("plot", ["1", "2", "B3"], "3 levels", "since values such as 'B3' are codes.", ["1"], [1]),
    "grades": (
        "grade",
        ["K", "1", "2", "3"],
        "4 levels",
        "'grade' is read as levels, since it has 4 different values, and 'K' is no number.",
        ["1"],
        [1],
    ),
    "months": ("month", MONTHS, "dates such as 202601, season", "is read as dates such as 202601.", [202501], [20089]),
    "periods": ("order_period", MONTHS, "dates such as 202601, season", "dates such as 202601.", [202501], [20089]),
    "counts": ("count", MONTHS, "numbers", None, [202501], [202501]),
    "answers": ("answer", ["Y", "N", " n", "y"], "two levels: 'n', 'y'", CAPITALS, ["Y"], [1]),
    "truth": ("answer", ["T", "f", "F", "t"], "two levels: 'f', 't'", CAPITALS, ["T"], [1]),
    "yes": ("wet", ["yes", "YES", "No", "no"], "two levels: 'no', 'yes'", CAPITALS, ["yEs", "NO"], [1, 0]),
    "sexes": ("answer", ["M", "f", "F"], "two levels: 'f', 'm'", CAPITALS, ["m"], [1]),
    "other capitals in new rows": ("sex", ["F", "M"], "two levels: 'F', 'M'", None, ["f", "M", "m"], [0, 1, 1]),
    "single letters": ("allele", ["a", "A", "b"], "3 levels", None, ["A", "a"], [1, 0]),
    "lengths": (
        "size",
        ["1.85 m", "185 cm", "1.7 m"],
        "numbers with 'm', 'cm' converted to it",
        None,
        ["150 cm"],
        [1.5],
    ),
    "weights": ("size", ["3 kg", "500 g", "2.5 kg"], "numbers with 'kg', 'g' converted to it", None, ["300 g"], [0.3]),
    "weights in one unit": ("size", ["3 kg", "2.5 kg"], "numbers with 'kg'", None, ["300 g", "3.5 kg"], [0.3, 3.5]),
    "feet": ("size", ["5'11\"", "6'", "5 ft 6 in"], "numbers with 'ft'", None, ["5'6\"", "6'"], [5.5, 6]),
    "feet and cm": (
        "size",
        ["5'11\"", "6'", "152.4 cm"],
        "numbers with 'ft', 'cm' converted to it",
        "",
        ["5'6\""],
        [5.5],
    ),
}


def encoder(name, values):
    frame = pd.DataFrame({name: np.resize(np.array(values), N), "x": np.arange(N) * 7.0 % 11})
    return TableEncoder(columns=[name, "x"] if name == "took" else None).fit(frame, np.arange(N) * 0.3 % 1)


@pytest.mark.parametrize("what", READINGS)
def test_how_a_column_is_read(what):
    name, values, words, note, new, expected = READINGS[what]
    found = encoder(name, values)
    assert found.readings_[0].words == words
    note = f"{name!r} is read as {words}." if words.startswith("numbers with") else note
    assert note is None or any(note in each for each in found.notes_)
    np.testing.assert_allclose(found.transform(pd.DataFrame({name: new, "x": 0.0}))[:, 0], expected, atol=1e-9)


def test_units_of_several_quantities_are_not_numbers():
    assert np.isnan(read_numbers(("3 kg", "2 m"))[0]).all()
    assert read_numbers(("1.5m", "2m"))[0].tolist() == [1.5e6, 2e6]  # of one unit alone, m are millions
    found = encoder("price", [f"{'$' if row % 2 else '€'}{row}" for row in range(N)])
    assert found.mapping_.names == ["x"]
    words = "'price' is left out: amounts in different currencies, such as '€0' and '$1'; write them in one."
    assert words in found.notes_


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
