"""Numbers and dates as people write them."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from sodalite.tables.numbers import in_several_currencies, read_numbers
from sodalite.tables.written_dates import dates_of, read_clocks, read_dates, read_durations


def numbers(*texts, **options):
    return read_numbers(texts, **options)


def dates(*texts):
    return read_dates(texts)


NUMBERS = {
    "plain": (["1", "-2.5", "1e3"], [1, -2.5, 1000], ""),
    "currency": (["$1,234.50", "-$3"], [1234.5, -3], "numbers with '$', ',' between thousands"),
    "brackets": (["$4", "($4)"], [4, -4], "numbers with '$', negative ones in brackets"),
    "code": (["CHF 1'200", "CHF 950"], [1200, 950], "numbers with 'CHF', \"'\" between thousands"),
    "per cent": (["12 %", "3.5%"], [12, 3.5], "numbers with '%'"),
    "decimal comma": (["1,5", "2,25"], [1.5, 2.25], "numbers with decimal commas"),
    "continental": (["1.234.567,5", "7"], [1234567.5, 7], "numbers with decimal commas, '.' between thousands"),
    "thousands": (["1,234", "12,345"], [1234, 12345], "numbers with ',' between thousands"),
    "spaces": (["1 234", "1\u00a0234.5"], [1234, 1234.5], "numbers with blanks between thousands"),
    "unit": (["3 kg", "4.5 kg"], [3, 4.5], "numbers with 'kg'"),
    "multiples": (["1.5k", "2M"], [1500, 2e6], "numbers with 'M' for millions, 'k' for thousands"),
    "multiples of a currency": (
        ["$1.2M", "$900k", "$3bn"],
        [1.2e6, 9e5, 3e9],
        "numbers with '$', 'M' for millions, 'bn' for billions, 'k' for thousands",
    ),
    "multiples in words": (["35.6 million"], [35.6e6], "numbers with 'million' for millions"),
    "plural": (["1 year", "2 years"], [1, 2], "numbers with 'year'"),
    "open ends": (
        ["65+", "<0.5", "12"],
        [65, 0.5, 12],
        "numbers with '+' and '<' at some of them, which are passed over",
    ),
    "footnotes": (["4.22*", "3"], [4.22, 3], "numbers with '*' at some of them, which is passed over"),
    "minus": (["\u22123", "+4"], [-3, 4], ""),
}


@pytest.mark.parametrize("what", NUMBERS)
def test_numbers(what):
    texts, expected, words = NUMBERS[what]
    found, written = numbers(*texts)
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    assert written.words == words


@pytest.mark.parametrize("texts", [["1,23,4"], ["12.34.5"], ["a1"], ["1-2"], ["1 kg", "2"], ["UA12", "UA13"], ["."]])
def test_what_is_no_number(texts):
    assert np.isnan(numbers(*texts)[0]).any()


def test_a_number_that_can_be_read_in_two_ways():
    assert numbers("1,234")[0].tolist() == [1234]
    assert numbers("1,234", prefer=",")[0].tolist() == [1.234]
    assert numbers("1,234", decimal=",")[0].tolist() == [1.234]
    assert numbers("1,234", "1,5")[0].tolist() == [1.234, 1.5]
    assert numbers("1_000", "2_000", thousands="_")[0].tolist() == [1000, 2000]


DAY = dt.datetime(2026, 1, 31)
DATES = {
    "2026-01-31": DAY,
    "2026-01-31T12:30:00Z": DAY.replace(hour=12, minute=30, tzinfo=dt.UTC),
    "31.01.2026": DAY,
    "31/1/2026 12:30": DAY.replace(hour=12, minute=30),
    "1/31/26": DAY,
    "01/31/2026 12:30:15 PM": DAY.replace(hour=12, minute=30, second=15),
    "31 Jan 2026": DAY,
    "January 31, 2026": DAY,
    "31-Jan-26": DAY,
    "2026/01/31": DAY,
    "2026-01": dt.datetime(2026, 1, 1),
    "Jan 2026": dt.datetime(2026, 1, 1),
    "2026Q2": dt.datetime(2026, 4, 1),
    "Q2 2026": dt.datetime(2026, 4, 1),
    "2Q26": dt.datetime(2026, 4, 1),
    "2Q2026": dt.datetime(2026, 4, 1),
    "Q2'26": dt.datetime(2026, 4, 1),
    "2026-W05": dt.datetime(2026, 1, 26),
    "2026W5": dt.datetime(2026, 1, 26),
}


@pytest.mark.parametrize("text", DATES)
def test_dates(text):
    forms = dates(text)
    days = (DATES[text].replace(tzinfo=None) - dt.datetime(1970, 1, 1)) / dt.timedelta(days=1)
    assert dates_of((text,), forms).tolist() == [[days, days, DATES[text].tzinfo is not None]]


@pytest.mark.parametrize(
    "texts",
    [["1.5"], ["10"], ["high"], ["32.01.2026"], ["31.01.2026", "soon"], ["1:2:3:4"], ["5Q26"], ["2026-W60"], []],
)
def test_what_is_no_date(texts):
    assert dates(*texts) == []


def test_dates_that_can_be_read_in_two_ways_have_two_forms():
    assert dates("01/02/2026") == ["%d/%m/%Y", "%m/%d/%Y"]
    assert dates("01/02/2026", "13/02/2026") == ["%d/%m/%Y"]


def test_times_of_day():
    np.testing.assert_allclose(read_clocks(("06:00", "6:00 PM", "23:59:59")) * 24, [6, 18, 24 - 1 / 3600])
    assert np.isnan(read_clocks(("noon", "25:00"))).all()


DURATIONS = {  # in minutes
    "57:18": 57.3,
    "125:00": 125,
    "2:15:30": 135.5,
    "30:00:00": 1800,
    "5h 10m": 310,
    "5h10": None,
    "1 hour 30 minutes": 90,
    "1 d 3 h": 1620,
    "45 s": 0.75,
    "1.5 h": 90,
    "2:75": None,
    "1:75:00": None,
    "h": None,
    "": None,
    "12 kg": None,
}


@pytest.mark.parametrize("text", DURATIONS)
def test_durations(text):
    expected = DURATIONS[text]
    (found,) = read_durations((text,)) * 1440
    assert np.isnan(found) if expected is None else found == pytest.approx(expected)


def test_amounts_in_several_currencies():
    assert in_several_currencies(("$5", "€6", "$7")) == ("$5", "€6")
    for texts in (["$5", "$6"], ["5", "€6"], ["a5", "b6"], [], ["1st", "2nd", "3rd"], ["5 kg", "6 lb"]):
        assert in_several_currencies(tuple(texts)) is None


MARKS = {  # texts, the usual decimal mark, what they are
    "a unit after thousands": (["2,639 lbs", "12,100 lbs", "850 lbs"], ",", [2639, 12100, 850]),
    "thousands of several sizes": (["2,639", "12,100", "101,300"], ",", [2639, 12100, 101300]),
    "another length": (["2,639", "12,1", "101,300"], ".", [2.639, 12.1, 101.3]),
    "zero before the mark": (["2,639", "12,100", "0,300"], ".", [2.639, 12.1, 0.3]),
    "thousands without a mark": (["2,639", "12,100", "1300"], ".", [2.639, 12.1, 1300]),
    "points, usually decimal": (["2.639 kg", "12.100 kg"], ".", [2.639, 12.1]),
    "points where commas are decimal": (["2.639", "12.100", "85"], ",", [2639, 12100, 85]),
    "a point and another length": (["2.639", "12.1", "85"], ",", [2.639, 12.1, 85]),
}


@pytest.mark.parametrize("what", MARKS)
def test_all_texts_of_a_column_decide_what_its_mark_is(what):
    texts, prefer, expected = MARKS[what]
    found, written = numbers(*texts, prefer=prefer)
    assert found.tolist() == expected
    assert "if the mark" not in written.words
    assert numbers(*texts, decimal=written.form[0], thousands=written.form[1:] or None)[0].tolist() == expected


def test_a_column_that_leaves_it_open_says_how_to_overrule():
    found, written = numbers("1,234 kg", "5,678 kg", prefer=",")
    assert found.tolist() == [1.234, 5.678]
    assert written.words == (
        "numbers with 'kg', decimal commas (if the mark in '1,234' separates thousands, --thousands ,)"
    )
    found, written = numbers("1,234 kg", "5,678 kg")
    assert found.tolist() == [1234, 5678]
    assert written.words.endswith("',' between thousands (if the mark in '1,234' is decimal, --decimal ,)")
    assert numbers("1,234 kg", thousands=",", prefer=",")[0].tolist() == [1234]


@pytest.mark.parametrize("prefer", [".", ","])
@pytest.mark.parametrize("texts", [["1e400", "$5"], ["inf", "1,5"], ["-inf", "1.5k"], ["1e-400 kg", "3 kg"]])
def test_numbers_beyond_all_doubles_do_no_harm(texts, prefer):
    """They raised errors that are not those of a table."""
    found, _ = numbers(*texts, prefer=prefer)
    assert len(found) == 2
