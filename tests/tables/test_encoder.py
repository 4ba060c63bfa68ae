"""Raw frames as numbers: every kind of column, every library, and what is left out, noticed and refused."""

from __future__ import annotations

import json
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import sodalite
from sodalite import GreedyGPRegressor, TableEncoder
from sodalite.exceptions import TableError
from sodalite.tables import Preprocessing
from sodalite.tables.dates import circles_of
from sodalite.tables.levels import Coding, cross_fitted, level_means, level_points, with_means
from sodalite.tables.places import place

N = 240


def raw(n=N, seed=0):
    """A frame with columns of all kinds."""
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "id": [f"r{row}" for row in range(n)],
            "when": pd.date_range("2021-03-20", periods=n, freq="7h", tz="Europe/Zurich"),
            "town": random.choice(["Bern", "Basel", "Chur"], n),
            "street": random.choice([f"S{place}" for place in range(30)], n),
            "cut": pd.Categorical(random.choice(["Fair", "Good", "Ideal"], n), ["Fair", "Good", "Ideal"], ordered=True),
            "new": random.random(n) < 0.5,
            "gap": np.where(random.random(n) < 0.1, np.nan, random.random(n)),
            "rate": [f"{value:.1f} %" for value in random.random(n) * 100],
            "lat": random.uniform(-80, 80, n),
            "lon": random.uniform(-180, 180, n),
        }
    )


def as_polars(frame):
    return pl.from_pandas(frame).with_columns(pl.col("cut").cast(pl.Enum(["Fair", "Good", "Ideal"])))


FRAMES = {"pandas": lambda frame: frame, "polars": as_polars, "pyarrow": pa.Table.from_pandas}
NAMES = [
    *["when", "when hour cos", "when hour sin", "when weekday cos", "when weekday sin"],
    *["town=Basel", "town=Bern", "town=Chur", "street", "cut", "new", "gap", "gap missing", "rate"],
    *["lat and lon east", "lat and lon north", "lat and lon up"],
]


@parametrize_with_checks([TableEncoder()])
def test_scikit_learns_conventions(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.mark.parametrize("library", FRAMES)
def test_every_library_gives_the_same_numbers(library):
    frame, y = raw(), np.arange(float(N))
    encoder = TableEncoder().fit(FRAMES[library](frame), y)
    assert encoder.get_feature_names_out().tolist() == NAMES
    X = encoder.transform(FRAMES[library](frame))
    np.testing.assert_array_equal(X, TableEncoder().fit(frame, y).transform(frame))
    assert X[:, NAMES.index("cut")].tolist() == frame["cut"].cat.codes.tolist()
    assert X[:, NAMES.index("gap missing")].tolist() == frame["gap"].isna().tolist()
    again = Preprocessing.from_json(json.loads(json.dumps(encoder.mapping_.to_json())))
    assert again == encoder.mapping_
    np.testing.assert_array_equal(again.encode_frame(FRAMES[library](frame[::-1])).X, X[::-1])


@pytest.mark.parametrize("kind", ["object", "string", "string[pyarrow]", "category", "large_string", "polars"])
def test_texts_of_every_type(kind):
    texts = ["x", None, "y", "z"] * 10
    if kind == "polars":
        frame = pl.DataFrame({"t": texts})
    elif kind == "large_string":
        frame = pa.table({"t": pa.array(texts, pa.large_string())})
    else:
        frame = pd.DataFrame({"t": pd.Series(texts, dtype=kind)})
    found = TableEncoder().fit_transform(frame)
    np.testing.assert_array_equal(found, np.tile(np.eye(4)[[0, 3, 1, 2]], (10, 1)))


def test_arrays_pass_but_for_missing_values():
    X = np.random.default_rng(0).normal(size=(20, 3))
    np.testing.assert_array_equal(TableEncoder().fit(X).transform(X), X)
    X[3, 1] = np.nan
    found = TableEncoder().fit_transform(X)
    assert (found.shape, np.flatnonzero(found[:, 2]).tolist()) == ((20, 4), [3])


def test_columns_in_any_order_and_a_clone_and_a_pickle_are_the_same():
    frame, y = raw(), np.arange(float(N))
    encoder = TableEncoder().fit(frame, y)
    X = encoder.transform(frame)
    np.testing.assert_array_equal(encoder.transform(frame[frame.columns[::-1]].assign(more="?")), X)
    np.testing.assert_array_equal(clone(encoder).fit(frame, y).transform(frame), X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(encoder)).transform(frame), X)
    names = TableEncoder().set_output(transform="pandas").fit(frame, y).transform(frame).columns
    assert names.tolist() == NAMES


# Dates


def test_clocks_follow_daylight_saving_and_time_is_even():
    frame = pd.DataFrame({"when": pd.date_range("2021-03-20", periods=400, freq="h", tz="Europe/Zurich")})
    encoder = TableEncoder().fit(frame)
    X = encoder.transform(frame)
    np.testing.assert_allclose(np.diff(X[:, 0]), 1 / 24, rtol=1e-6)
    names = encoder.get_feature_names_out().tolist()
    angle = np.arctan2(X[:, names.index("when hour sin")], X[:, names.index("when hour cos")])
    np.testing.assert_allclose(angle % (2 * np.pi) * 12 / np.pi, frame["when"].dt.hour, atol=1e-6)
    elsewhere = pd.DataFrame({"when": frame["when"].dt.tz_convert("America/New_York")})
    np.testing.assert_allclose(encoder.transform(elsewhere), X, atol=1e-9)
    texts = pd.DataFrame({"when": [moment.isoformat() for moment in frame["when"]]})
    np.testing.assert_allclose(encoder.transform(texts), X, atol=1e-9)
    np.testing.assert_allclose(TableEncoder().fit(texts).transform(texts), X, atol=1e-9)
    with pytest.raises(TableError, match="'when' must hold dates with a time zone"):
        encoder.transform(pd.DataFrame({"when": frame["when"].dt.tz_localize(None)}))


@pytest.mark.parametrize(
    ("periods", "freq", "parts"),
    [
        (30, "h", ()),
        (72, "h", ("hour",)),
        (60, "D", ("weekday",)),
        (900, "D", ("weekday", "season")),
        *[(60, freq, ("season",)) for freq in ("MS", "ME")],
        (200, "W", ("season",)),
        (90, "YS", ()),
        (20_000, "h", ("hour", "weekday", "season")),
    ],
)
def test_calendar_parts_are_those_that_vary(periods, freq, parts):
    dates = pd.date_range("2020-01-01", periods=periods, freq=freq)
    days = dates.to_numpy().astype("M8[us]").astype(np.int64) / 86_400_000_000
    assert circles_of(days) == parts


def test_december_is_beside_january():
    frame = pd.DataFrame({"day": pd.date_range("2020-01-01", "2023-12-31")})
    X = TableEncoder().fit(frame).transform(frame)[:, 3:]
    new_year, midsummer = X[frame["day"] == "2021-01-01"], X[frame["day"] == "2021-07-02"]
    assert np.linalg.norm(new_year - X[frame["day"] == "2022-12-31"]) < 0.02
    assert np.linalg.norm(new_year - midsummer) > 1.99


def test_dates_in_two_readings_need_a_format():
    frame = pd.DataFrame({"day": ["01/02/2020", "03/04/2020", "05/06/2020"], "x": [1, 2, 3]})
    with pytest.raises(
        TableError, match=r"'day' holds dates such as '01/02/2020', .* date_format='%d/%m/%Y' \(day first"
    ):
        TableEncoder().fit(frame)
    for form, days in (("%d/%m/%Y", [18293, 18355, 18418]), ("%m/%d/%Y", [18263, 18325, 18388])):
        for given in (form, {"day": form}):
            X = TableEncoder(date_format=given).fit_transform(frame)
            assert X[:, 0].tolist() == days
    coded = pd.DataFrame({"date": [20200131, 20200201, 20200301], "x": [1, 2, 3]})
    assert TableEncoder().fit_transform(coded)[:, 0].tolist() == [18292, 18293, 18322]


# Places


def test_places_have_no_seam_and_no_poles():
    frame = pd.DataFrame({"latitude": [10.0, 10.0, 89.9, 89.9, -60.0], "longitude": [179.9, -179.9, 0.0, 180.0, 20.0]})
    X = TableEncoder().fit_transform(frame)
    assert X.shape == (5, 3)
    assert np.linalg.norm(X[0] - X[1]) == pytest.approx(0.2 * 111.19 * np.cos(np.radians(10)), rel=1e-3)
    assert np.linalg.norm(X[2] - X[3]) == pytest.approx(0.2 * 111.19, rel=1e-3)
    random = np.random.default_rng(0)  # points are at the distances of the sphere
    lat, lon = np.degrees(np.arcsin(random.uniform(-1, 1, 50))), random.uniform(-180, 360, 50)
    X, a, b = place(lat, lon, (30.0, 50.0), ("east", "north", "up")), np.radians(lat), np.radians(lon)
    cosine = np.sin(a[:, None]) * np.sin(a) + np.cos(a[:, None]) * np.cos(a) * np.cos(b[:, None] - b)
    chord = 6371 * np.sqrt(np.maximum(2 - 2 * cosine, 0))
    np.testing.assert_allclose(np.linalg.norm(X[:, None] - X, axis=2), chord, atol=1e-3)
    names = {"lat": [1.0, 200.0, 3.0], "lon": [1.0, 2.0, 5.0], "flat": [1, 2, 4], "long": [3, 1, 2]}
    assert TableEncoder().fit(pd.DataFrame(names)).mapping_.names == list(names)  # which only sound like places


def test_a_small_region_is_a_map_in_kilometres():
    frame = pd.DataFrame({"start_lat": [46.9, 47.4, 47.1], "start_lng": [7.4, 8.5, 7.9], "x": [1.0, 2.0, 4.0]})
    encoder = TableEncoder().fit(frame)
    assert encoder.mapping_.names == ["start_lat and start_lng east", "start_lat and start_lng north", "x"]
    X = encoder.transform(frame)
    assert np.linalg.norm(X[0, :2] - X[1, :2]) == pytest.approx(100.1, abs=0.3)  # by the haversine formula
    other = TableEncoder(latlon=("a", "b")).fit_transform(frame.rename(columns={"start_lat": "a", "start_lng": "b"}))
    np.testing.assert_array_equal(other, X)


# Levels


def test_orders_that_are_given():
    frame = pd.DataFrame({"cut": ["Good", "Fair", "Ideal", "Good"], "x": [1, 2, 3, 5]})
    X = TableEncoder(order={"cut": ["Fair", "Good", "Ideal"]}).fit_transform(frame)
    assert X[:, 0].tolist() == [1, 0, 2, 1]
    with pytest.raises(TableError, match="levels that `order` does not name: 'Ideal'"):
        TableEncoder(order={"cut": ["Fair", "Good"]}).fit(frame)


def test_means_of_levels_are_shrunk_and_cross_fitted():
    random = np.random.default_rng(0)
    codes = np.repeat(np.arange(40), 25)
    effect = random.normal(size=40)
    y = effect[codes] + random.normal(size=1000)
    means = level_means(Coding(codes, 40), y)
    assert np.corrcoef(means[:40], effect)[0, 1] > 0.95
    plain = np.array([y[codes == level].mean() for level in range(40)])
    assert np.all(np.abs(means[:40] - means[40]) < np.abs(plain - means[40]))
    found = cross_fitted(Coding(codes, 40), y, 0)
    shuffled = cross_fitted(Coding(random.permutation(codes), 40), y, 0)
    assert np.corrcoef(found, y)[0, 1] > 0.55
    assert abs(np.corrcoef(shuffled, y)[0, 1]) < 0.15  # means that had seen the row would correlate
    assert level_means(Coding(codes, 40), np.ones(1000)).tolist() == [1.0] * 41


def test_rows_of_well_known_levels_have_the_mean_that_new_rows_will_have():
    random = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2, -1], [200, 30, 29, 10])
    y = codes + random.normal(size=len(codes))
    found, means = cross_fitted(Coding(codes, 3), y, 0), level_means(Coding(codes, 3), y)
    assert np.array_equal(found[:230], means[codes[:230]])
    assert not np.isin(found[230:259], means).any()
    codes, y = np.arange(20), np.arange(20.0)  # of one row each
    np.testing.assert_allclose(level_means(Coding(codes[:15], 20), y[:15]), [*y[:15], *[7.0] * 6])
    assert np.isfinite(cross_fitted(Coding(codes, 20), y, seed=0)).all()


def test_means_of_levels_are_those_of_rows_with_equal_other_inputs():
    random = np.random.default_rng(0)
    first, second = (Coding(random.integers(0, count, 600), count) for count in (25, 15))
    effects = [random.normal(size=coding.n_levels) for coding in (first, second)]
    size = first.codes / 5 + random.normal(size=600)  # levels of the first differ in size
    size[::50] = np.nan
    y = effects[0][first.codes] + effects[1][second.codes] + 2 * np.nan_to_num(size, nan=2.4)
    X, means = with_means(np.column_stack([np.zeros(600), size, np.zeros(600)]), {0: first, 2: second}, y, seed=0)
    for at, coding, effect in zip((0, 2), (first, second), effects, strict=True):
        plain = level_means(coding, y)
        assert np.corrcoef(means[at][:-1], effect)[0, 1] > 0.97
        assert np.corrcoef(plain[:-1], effect)[0, 1] < 0.93
        assert np.corrcoef(X[:, at], effect[coding.codes])[0, 1] > 0.95


def test_the_line_that_adjusts_means_withstands_strange_inputs():
    random = np.random.default_rng(0)
    coding, y = Coding(np.repeat(np.arange(20), 5), 20), random.normal(size=100)
    told = coding.codes.astype(float)  # the levels themselves: there is nothing to adjust within them
    np.testing.assert_allclose(level_means(coding, y, told[:, None]), level_means(coding, y))
    for column in (np.full(100, 7.0), np.full(100, np.nan), np.where(told < 3, 1e300, -1e300)):
        np.testing.assert_allclose(level_means(coding, y, column[:, None]), level_means(coding, y))
    few, many = random.normal(size=(100, 50)), random.normal(size=(100, 51))
    assert np.isfinite(level_means(coding, y, few)).all()
    np.testing.assert_array_equal(level_means(coding, y, many), level_means(coding, y))


@pytest.mark.parametrize("n", [1000, pytest.param(2500, marks=pytest.mark.campaign)])
def test_prices_by_name_and_size_are_predicted_without_error(n):
    """Names are too many for inputs of their own; means by folds led to predictions far from all prices."""
    random = np.random.default_rng(0)
    names, sizes = random.integers(0, 30, n), random.integers(0, 3, n)
    frame = pd.DataFrame({"name": [f"dish {n}" for n in names], "size": np.array(["S", "M", "L"])[sizes]})
    price = random.integers(36, 48, 30)[names] / 4 + 4.0 * sizes
    model = make_pipeline(TableEncoder(), GreedyGPRegressor(n_active=150, random_state=0)).fit(frame[300:], price[300:])
    assert np.abs(model.predict(frame[:300]) - price[:300]).max() < 0.3


@pytest.mark.parametrize("new", [["00104", "7.0"], [104, 7], [104.0, 7.0], ["104", "7"]])
@pytest.mark.parametrize("old", [["104", "007", "x9"], ["00104", "7", "x9"]])
def test_levels_that_are_numbers_are_found_however_they_are_written(old, new):
    frame = pd.DataFrame({"store": old * 10})
    encoder = TableEncoder().fit(frame, np.arange(30.0))
    encoded = encoder.encode(pd.DataFrame({"store": new}))
    assert encoded.strange == {}
    np.testing.assert_array_equal(encoded.X, encoder.transform(frame[:2]))


@pytest.mark.parametrize("texts", [["12", "7", "3o"], ["12.5", "7", "136A"], ["012", "7", "about 3"]])
@pytest.mark.parametrize("others", [[], [str(number) for number in range(20, 60)] * 3])
def test_texts_among_numbers_are_refused(texts, others):
    """Those of many values, and those that are in one or two rows."""
    depths = texts * (5 if others else 1) + ["12"] * 10 + others
    with pytest.raises(TableError, match="holds text where a number is needed"):
        TableEncoder().fit(pd.DataFrame({"depth": depths}), np.arange(float(len(depths))))


def test_many_levels_without_a_target_and_rare_and_unseen_ones():
    random = np.random.default_rng(0)
    towns = [f"T{place:02}" for place in range(20)]
    frame = pd.DataFrame({"town": random.choice(towns, 400), "kind": ["a", "b", "c"] * 132 + ["d", "e", "d", "a"]})
    encoder = TableEncoder().fit(frame)
    names = encoder.get_feature_names_out().tolist()
    assert sum(name.startswith("town=") for name in names) == 12
    assert [name for name in names if name.startswith("kind=")] == ["kind=a", "kind=b", "kind=c", "kind=(other)"]
    assert any("'kind': 2 rare levels share one input ('d', 'e')." in note for note in encoder.notes_)
    encoded = encoder.encode(pd.DataFrame({"town": ["T99"], "kind": ["z"]}))
    assert encoded.X[0, names.index("kind=(other)")] == 1
    assert encoded.strange == {"town": {"T99": 1}, "kind": {"z": 1}}
    with_target = TableEncoder().fit(frame, random.normal(size=400))
    assert with_target.get_feature_names_out()[0] == "town"
    with pytest.warns(UserWarning, match=r"'town' that the model was not fitted with: 'T99' \(1\)"):
        found = with_target.transform(pd.DataFrame({"town": ["T99"], "kind": ["a"]}))
    assert found[0, 0] == with_target.mapping_.columns[0].means[-1]


# Missing values


def test_missing_values_of_every_kind_have_an_encoding():
    frame = pd.DataFrame(
        {
            "a": [1.0, np.nan, 3.0, 8.0],
            "t": ["x", None, "y", "z"],
            "d": pd.to_datetime(["2020-01-01", None, "2020-01-03", "2020-01-09"]),
            "b": [True, None, False, True],
            "q": ["1", "?", "3", "n/a"],
        }
    )
    encoder = TableEncoder().fit(frame)
    expected = ["a", "a missing", "t=x", "t=y", "t=z", "t=(missing)", "d", "b", "q", "q missing"]
    assert encoder.get_feature_names_out().tolist() == expected  # equal indicators stand once
    X = encoder.transform(frame)
    assert X[1].tolist() == [3, 1, 0, 0, 0, 1, 18264, 1, 2, 1]
    with pytest.raises(TableError, match=r"missing values: 'a' \(1\), 't' \(1\), 'd' \(1\), 'b' \(1\), 'q' \(2\)\."):
        TableEncoder(missing="error").fit(frame)
    assert np.isnan(TableEncoder(missing="drop").fit_transform(frame)[1]).any()
    names = TableEncoder(missing="median").fit(frame).mapping_.names
    assert [name for name in names if "missing" in name] == ["t=(missing)"]
    rating = pd.DataFrame({"rating": ["R"] * 5 + ["PG"] * 3 + ["G"] * 3 + [None] * 89})
    for missing in ("indicator", "median"):  # no missing text becomes the most frequent one
        assert TableEncoder(missing=missing).fit_transform(rating).sum(axis=0).tolist() == [3, 3, 5, 89]
    coded = pd.DataFrame({"t": [20.0, 21.0, -999, 19.0, -999, 22.0], "u": range(6)})
    encoder = TableEncoder(columns=["t", "u"], na_values=["-999"]).fit(coded)
    assert encoder.mapping_.names == ["t", "t missing", "u"]
    assert encoder.transform(coded)[2].tolist() == [20.5, 1, 2]
    with pytest.raises(ValueError, match="na_values must be a sequence"):
        TableEncoder(na_values="-999").fit(coded)


# Columns that are no inputs


def test_ids_row_numbers_and_constants_are_left_out():
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"rownames": range(1, 61), "customer_id": random.permutation(60) + 1000, "unit": ["cm"] * 60})
    frame["Name"], frame["year"] = [f"Ms {place}" for place in range(60)], range(1960, 2020)
    frame["x"], frame["store_id"] = random.normal(size=60), random.choice([3, 17, 42, 99], 60)
    encoder = TableEncoder().fit(frame)
    assert {column.name for column in encoder.mapping_.columns} == {"year", "x", "store_id"}
    assert encoder.mapping_.columns[-1].levels == ("17", "3", "42", "99")
    text = " ".join(encoder.notes_)
    for words in ("'rownames' is left out: it counts the rows", "'customer_id' is left out: an id", "values are 'cm'"):
        assert words in text
    kept = TableEncoder(columns=["rownames", "x"]).fit(frame)
    assert kept.mapping_.names == ["rownames", "x"]
    assert TableEncoder().fit(frame[["rownames"]]).mapping_.names == ["rownames"]  # the only input there is


# All that is wrong


def test_all_problems_in_one_message():
    frame = pd.DataFrame(
        {"a": ["1", "2", "3", "many"], "b": ["01/02/2020", "03/04/2020"] * 2, "c": [[1], [2], [3], [4]], "x": range(4)}
    )
    with pytest.raises(TableError) as caught:
        TableEncoder().fit(frame)
    lines = str(caught.value).splitlines()
    assert lines[0] == "X cannot be used as it is:"
    assert len(lines) == 4
    for line, name in zip(lines[1:], "abc", strict=True):
        assert line.startswith(f"- column '{name}' ")


# With the model


def test_a_pipeline_is_saved_and_loaded(tmp_path):
    frame, random = raw(), np.random.default_rng(0)
    y = pd.Series(3.0 * (frame["town"] == "Bern") + frame["gap"].fillna(2) + 0.01 * random.normal(size=N), name="rent")
    model = GreedyGPRegressor(n_active=40, hyperparameters="fixed", random_state=0)
    pipe = make_pipeline(TableEncoder(), model).fit(frame, y)
    sodalite.save(pipe, tmp_path / "m")
    loaded = sodalite.load(tmp_path / "m")
    assert loaded.preprocessing_ == pipe[0].mapping_
    assert loaded.preprocessing_.target == "rent"
    mean, std = pipe.predict(frame, return_std=True)
    for library in FRAMES.values():
        found = loaded.predict(library(frame), return_std=True)
        np.testing.assert_allclose(found, (mean, std), rtol=1e-9)
    np.testing.assert_allclose(loaded.novelty(frame), model.novelty(pipe[0].transform(frame)), atol=1e-9)
    np.testing.assert_allclose(loaded.predict(pipe[0].transform(frame)), mean, rtol=1e-9)
    loaded.partial_fit(frame[:5], y[:5])
    assert not hasattr(model, "preprocessing_")
    with pytest.warns(UserWarning, match=r"column 'town' that the model was not fitted with: 'Genf' \(1\)"):
        loaded.predict(frame[:1].assign(town="Genf"))
    with pytest.raises(TableError, match="X has no column 'town', which the model needs"):
        loaded.predict(frame.drop(columns="town"))
    with pytest.raises(TypeError, match="save takes a GreedyGPRegressor; got Pipeline"):
        sodalite.save(make_pipeline(model), tmp_path / "n")


def panel(n_levels=40, n_rows=12, own=True, seed=0):
    """Rows of many levels over time: with curves of their own, or the same curve at different heights."""
    random = np.random.default_rng(seed)
    level, time = np.repeat(np.arange(n_levels), n_rows), np.tile(np.linspace(0, 1, n_rows), n_levels)
    height, slope = random.normal(size=(2, n_levels))
    other = random.uniform(-2, 2, (2, len(level)))
    y = height[level] + (3 * slope[level] * time if own else np.sin(2 * other[0]) + other[0] * other[1])
    inputs = {"time": time} if own else {"a": other[0], "b": other[1]}
    return pd.DataFrame({"who": [f"w{place}" for place in level], **inputs}), y


def test_levels_with_curves_of_their_own_are_points():
    """By their mean targets alone, levels of one mean could not be told from each other."""
    X, y = panel()
    encoder = TableEncoder()
    found = encoder.fit_transform(X, y)
    assert encoder.get_feature_names_out().tolist() == ["who point x", "who point y", "who point z", "time"]
    assert encoder.readings_[0].words == "40 levels, each for itself"
    np.testing.assert_array_equal(found, encoder.transform(X))  # nothing to cross-fit
    assert Preprocessing.from_json(json.loads(json.dumps(encoder.mapping_.to_json()))) == encoder.mapping_
    encoded = encoder.encode(X[:2].assign(who=["w0", "nobody"]))
    np.testing.assert_allclose(np.linalg.norm(encoded.X[:, :3], axis=1), [1, 0])
    assert encoded.strange == {"who": {"nobody": 1}}
    some = np.random.default_rng(1).permutation(len(X))
    model = make_pipeline(TableEncoder(), GreedyGPRegressor(random_state=0)).fit(X.iloc[some[60:]], y[some[60:]])
    errors = model.predict(X.iloc[some[:60]]) - y[some[:60]]
    assert np.sqrt(np.mean(errors**2)) < 0.2 * y.std()
    X.loc[::12, "who"] = None
    encoder = TableEncoder().fit(X, y)
    assert (encoder.mapping_.columns[0].kind, encoder.mapping_.columns[0].levels[-1]) == ("points", "(missing)")
    np.testing.assert_array_equal(encoder.transform(X[:1])[0, :3], level_points(41)[40])


def test_levels_that_differ_by_a_constant_stay_mean_targets():
    encoder = TableEncoder()
    encoder.fit(*panel(own=False))
    assert encoder.get_feature_names_out().tolist() == ["who", "a", "b"]
    X, y = panel(n_rows=4)  # too few rows of each to learn a curve from
    assert TableEncoder().fit(X, y).mapping_.columns[0].kind == "means"
    X, y = panel()
    both = TableEncoder().fit(
        X.assign(day=[f"d{place % 15}" for place in np.random.default_rng(0).permutation(480)]), y
    )
    assert [column.kind for column in both.mapping_.columns] == ["means", "number", "means"]


def test_columns_of_one_meaning_are_one():
    """A code and its name have the same levels."""
    X, y = panel()
    twin = X.assign(code=X["who"].map({f"w{place}": f"c{place * 7 % 40}" for place in range(40)}))
    encoder = TableEncoder().fit(twin, y)
    assert [column.name for column in encoder.mapping_.columns] == ["who", "time"]
    assert any("'code' is left out: its levels are those of 'who' under other names" in note for note in encoder.notes_)
    assert len(TableEncoder(columns=["who", "code", "time"]).fit(twin, y).mapping_.columns) == 3
    twin.loc[0, "code"] = "c39"
    assert len(TableEncoder().fit(twin, y).mapping_.columns) == 3
    towns = np.resize([f"Town {place}" for place in range(20)] + ["TOWN 3"], 84)  # two differ in capitals alone
    many = TableEncoder().fit(pd.DataFrame({"town": towns, "x": np.arange(84.0) % 7}), np.arange(84.0) % 5)
    assert len(many.mapping_.columns[0].levels) == 20
    again = Preprocessing.from_json(json.loads(json.dumps(many.mapping_.to_json())))
    assert again.encode_frame(pd.DataFrame({"town": ["tOWN 3"], "x": [0.0]})).strange == {}


def test_a_report_of_a_pipeline_is_that_of_its_model():
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"a": random.normal(size=60), "kind": ["x", "y", "z"] * 20})
    y = frame["a"].to_numpy() ** 2 + np.tile([0.0, 1.0, 2.0], 20) + 0.1 * random.normal(size=60)
    model = make_pipeline(TableEncoder(), GreedyGPRegressor(random_state=0)).fit(frame, y)
    report = sodalite.report.make_report(model, frame, y)
    assert list(report.summary.inputs) == ["a", "kind"]
