"""Numbers, dates, times and durations as people write them."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from sodalite.tables.dates import dates_of, find_forms, read_clocks, read_durations
from sodalite.tables.numbers import read_numbers

NUMBERS = {  # texts, numbers, and an example of each way to write them
    "plain": (["1", "-2.5", "1e3"], [1, -2.5, 1000], ""),
    "currency": (["$1,234.50", "-$3"], [1234.5, -3], "$1,234.50 (1234.5), -$3 (-3)"),
    "brackets": (["$4", "($4)"], [4, -4], "$4 (4), ($4) (-4)"),
    "code": (["CHF 1'200", "CHF 950"], [1200, 950], "CHF 1'200 (1200), CHF 950 (950)"),
    "per cent": (["12 %", "3 %"], [12, 3], "12 % (12)"),
    "decimal comma": (["1,5", "2,25"], [1.5, 2.25], "1,5 (1.5)"),
    "continental": (["1.234.567,5", "7"], [1234567.5, 7], "1.234.567,5 (1234567.5)"),
    "thousands": (["1,234", "12,345"], [1234, 12345], "1,234 (1234)"),
    "spaces": (["1 234", "1\u00a0234.5"], [1234, 1234.5], "1 234 (1234), 1\xa0234.5 (1234.5)"),
    "unit": (["3 kg", "4 kg"], [3, 4], "3 kg (3)"),
    "multiples": (["1.5k", "2M"], [1500, 2e6], "1.5k (1500), 2M (2000000)"),
    "multiples of a currency": (["$1.2M", "$3.1bn"], [1.2e6, 3.1e9], "$1.2M (1200000), $3.1bn (3100000000)"),
    "multiples in words": (["35.6 million"], [35.6e6], "35.6 million (35600000)"),
    "plural": (["1 year", "2 years"], [1, 2], "1 year (1), 2 years (2)"),
    "open ends": (["65+", "<0.5", "12"], [65, 0.5, 12], "65+ (65), <0.5 (0.5)"),
    "footnotes": (["4.22*", "3"], [4.22, 3], "4.22* (4.22)"),
    "minus": (["\u22123", "+4"], [-3, 4], "\u22123 (-3)"),
    "four ways": (["$1", "$1.5", "-$1", "($1)"], [1, 1.5, -1, -1], "$1 (1), $1.5 (1.5), -$1 (-1)"),
}


@pytest.mark.parametrize("what", NUMBERS)
def test_numbers(what):
    texts, expected, shown = NUMBERS[what]
    found, written = read_numbers(tuple(texts))
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    assert written.words == (f"numbers such as {shown}" if shown else "")


@pytest.mark.parametrize(
    "texts", [["1,23,4"], ["12.34.5"], ["a1"], ["1-2"], ["1 kg", "2"], ["UA12", "UA13"], ["."], ["$5", "€6"]]
)
def test_what_is_no_number(texts):
    assert np.isnan(read_numbers(tuple(texts))[0]).any()


MARKS = {  # texts, options, what they are
    "thousands, usually": (["1,234"], {}, [1234]),
    "decimal, usually": (["1,234"], {"prefer": ","}, [1.234]),
    "decimal, as it is said": (["1,234"], {"decimal": ","}, [1.234]),
    "thousands, as it is said": (["1,234 kg"], {"thousands": ",", "prefer": ","}, [1234]),
    "decimal, since another is": (["1,234", "1,5"], {}, [1.234, 1.5]),
    "an unusual mark": (["1_000", "2_000"], {"thousands": "_"}, [1000, 2000]),
    "a unit after thousands": (["2,639 lbs", "12,100 lbs", "850 lbs"], {"prefer": ","}, [2639, 12100, 850]),
    "thousands of several sizes": (["2,639", "12,100", "101,300"], {"prefer": ","}, [2639, 12100, 101300]),
    "another length": (["2,639", "12,1", "101,300"], {}, [2.639, 12.1, 101.3]),
    "zero before the mark": (["2,639", "12,100", "0,300"], {}, [2.639, 12.1, 0.3]),
    "four digits before it": (["2,639", "1210,100"], {}, [2.639, 1210.1]),
    "thousands without a mark": (["2,639", "12,100", "1300"], {}, [2.639, 12.1, 1300]),
    "points, usually decimal": (["2.639 kg", "12.100 kg"], {}, [2.639, 12.1]),
    "points where commas are decimal": (["2.639", "12.100", "85"], {"prefer": ","}, [2639, 12100, 85]),
    "a point and another length": (["2.639", "12.1", "85"], {"prefer": ","}, [2.639, 12.1, 85]),
}


@pytest.mark.parametrize("what", MARKS)
def test_all_texts_of_a_column_decide_what_its_mark_is(what):
    texts, options, expected = MARKS[what]
    found, written = read_numbers(tuple(texts), **options)
    assert found.tolist() == expected
    again = read_numbers(tuple(texts), decimal=written.form[0], thousands=written.form[1:] or None)
    assert again[0].tolist() == expected


def test_a_column_that_leaves_it_open_says_how_to_overrule():
    texts = ("1,234 kg", "5,678 kg")
    for prefer, value, remedy in ((",", 1.234, "separates thousands, thousands"), (".", 1234, "is decimal, decimal")):
        found, written = read_numbers(texts, prefer=prefer)
        assert found[0] == value
        assert written.words.endswith(f"1,234 kg ({value}) (if the mark in '1,234' {remedy}=',')")
    assert "if the mark" not in read_numbers((*texts, "1,2 kg"))[1].words


@pytest.mark.parametrize("prefer", [".", ","])
@pytest.mark.parametrize("texts", [["1e400", "$5"], ["inf", "1,5"], ["-inf", "1.5k"], ["1e-400 kg", "3 kg"]])
def test_numbers_beyond_all_doubles_do_no_harm(texts, prefer):
    """They raised errors that are not those of a table."""
    assert len(read_numbers(tuple(texts), prefer=prefer)[0]) == 2


DAY = dt.datetime(2026, 1, 31)
DATES = {
    "2026-01-31": DAY,
    "2026-01-31T12:30:00Z": DAY.replace(hour=12, minute=30, tzinfo=dt.UTC),
    "2026-01-31 14:30+02:00": DAY.replace(hour=14, minute=30, tzinfo=dt.timezone(dt.timedelta(hours=2))),
    "31.01.2026": DAY,
    "31/1/2026 12:30": DAY.replace(hour=12, minute=30),
    "1/31/26": DAY,
    "01/31/2026 12:30:15 PM": DAY.replace(hour=12, minute=30, second=15),
    **dict.fromkeys(["31 Jan 2026", "January 31, 2026", "31-Jan-26", "2026/01/31"], DAY),
    **dict.fromkeys(["2026-01", "Jan 2026"], dt.datetime(2026, 1, 1)),
    **dict.fromkeys(["2026Q2", "Q2 2026", "2Q26", "2Q2026", "Q2'26"], dt.datetime(2026, 4, 1)),
    **dict.fromkeys(["2026-W05", "2026W5"], dt.datetime(2026, 1, 26)),
}


@pytest.mark.parametrize("text", DATES)
def test_dates(text):
    day, ((forms,), strays) = DATES[text], find_forms((text,))
    local = (day.replace(tzinfo=None) - dt.datetime(1970, 1, 1)) / dt.timedelta(days=1)
    utc = local - (day.utcoffset() or dt.timedelta()) / dt.timedelta(days=1)
    np.testing.assert_allclose(dates_of((text,), forms), [[utc, local, day.tzinfo is not None]], rtol=1e-14)
    assert not strays


STYLES = {  # texts, the forms of each style, and texts that are no dates
    "two ways": (["01/02/2026"], [["%d/%m/%Y", "%m/%d/%Y"]], []),
    "one way": (["01/02/2026", "13/02/2026"], [["%d/%m/%Y"]], []),
    "one of two": (["2024-01-31", "01/02/2024"], [["%Y-%m-%d"], ["%d/%m/%Y", "%m/%d/%Y"]], []),
    "a stray": ([*(f"{day:02}.01.2026" for day in range(10, 30)), "soon"], [["%d.%m.%Y"]], ["soon"]),
    "a stray at first": (["soon", *(f"{day:02}.01.2026" for day in range(10, 30))], [["%d.%m.%Y"]], ["soon"]),
    **{
        f"none: {texts}": (texts, [], [])
        for texts in (["1.5"], ["10"], ["high"], ["32.01.2026"], ["31.01.2026", "soon"], ["1:2:3:4"], ["5Q26"], [])
    },
    "no week": (["2026-W60"], [], []),
}


@pytest.mark.parametrize("what", STYLES)
def test_styles_of_dates(what):
    texts, styles, strays = STYLES[what]
    assert find_forms(tuple(texts)) == (styles, strays)


CLOCKS = {"06:00": 360, "6:00 PM": 1080, "23:59:30": 1439.5, "noon": None, "25:00": None}  # in minutes
DURATIONS = {
    "57:18": 57.3,
    "125:00": 125,
    "2:15:30": 135.5,
    "30:00:00": 1800,
    "5h 10m": 310,
    "1 hour 30 minutes": 90,
    "1 d 3 h": 1620,
    "45 s": 0.75,
    "1.5 h": 90,
    **dict.fromkeys(["5h10", "2:75", "1:75:00", "h", "", "12 kg"]),
}


@pytest.mark.parametrize(("read", "cases"), [(read_clocks, CLOCKS), (read_durations, DURATIONS)])
def test_times_of_day_and_durations(read, cases):
    for text, expected in cases.items():
        (found,) = read((text,)) * 1440
        assert np.isnan(found) if expected is None else found == pytest.approx(expected), text
