"""Levels that a fit has not seen: error bars are as wide as the levels differ that it has seen."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.pipeline import make_pipeline

from sodalite import GreedyGPRegressor, TableEncoder, load, save
from sodalite.cli.app import app
from sodalite.tables import Means, OneHot, Points, Ranks, encoded_rows
from sodalite.tables.categories import MOST_KNOWN
from sodalite.tables.unseen import Unseen, taken

pytestmark = pytest.mark.filterwarnings("ignore:values of column")


def table(n_levels=8, n=240, seed=0, spread=1.0):
    """A frame of towns that differ in level, and the target."""
    generator = np.random.default_rng(seed)
    level = spread * generator.normal(size=n_levels)
    town, x = generator.integers(0, n_levels, n), generator.uniform(0, 6, n)
    names = np.array([f"town {place:03}" for place in range(n_levels)])
    y = np.sin(x) + level[town] + 0.2 * generator.normal(size=n)
    return pd.DataFrame({"town": names[town], "x": x}), y


def fitted(frame, y, **options):
    return make_pipeline(TableEncoder(**options), GreedyGPRegressor(random_state=0)).fit(frame, y)


def renamed(frame, name="elsewhere"):
    return frame.assign(town=name)


@pytest.mark.parametrize("n_levels", [4, 30])
def test_variances_are_those_of_the_known_levels(n_levels):
    """By brute force: one row, with one level after the other in the place of the new one."""
    frame, y = table(n_levels)
    model = fitted(frame, y)
    encoder, gp = model.named_steps.values()
    new = encoder.transform(renamed(frame[:5]))
    mean, std = gp.predict(new, return_std=True)
    mean_alone, std_alone = gp.predict(np.array(new), return_std=True)
    column = encoder.mapping_.columns[0]
    known = column.known()
    width = known.shape[1]
    assert len(known) == min(n_levels, MOST_KNOWN)
    assert_array_equal(mean, mean_alone)
    for row in range(5):
        there = [gp.predict(np.r_[level, np.array(new)[row, width:]][None])[0] for level in known]
        extra = np.square(np.array(there) - mean[row]).mean() * (len(known) + 1) / len(known)
        assert std[row] == pytest.approx(np.sqrt(std_alone[row] ** 2 + extra), rel=1e-9)


@pytest.mark.parametrize(("n_levels", "n"), [(4, 240), (12, 300), (40, 500)])
def test_intervals_hold_rows_of_levels_that_were_held_out(n_levels, n):
    """Without it, 90 % intervals hold about half of them."""
    held = []
    for seed in range(5):
        frame, y = table(n_levels, n, seed)
        out = frame["town"].isin(sorted(set(frame["town"]))[: n_levels // 4]).to_numpy()
        model = fitted(frame[~out], y[~out])
        lower, upper = model[-1].predict_interval(model[0].transform(frame[out]), 0.9)
        held.append(np.mean((y[out] >= lower) & (y[out] <= upper)))
    assert 0.75 < np.mean(held) <= 1


def test_known_levels_are_predicted_as_before():
    frame, y = table()
    model = fitted(frame, y)
    both = pd.concat([frame[:3], renamed(frame[3:5])])
    X = model[0].transform(both)
    assert_array_equal(encoded_rows(None, X)[1][0].rows, [3, 4])
    for one, other in zip(
        model[-1].predict(X, return_std=True), model[-1].predict(np.array(X), return_std=True), strict=True
    ):
        assert_array_equal(one[:3], other[:3])
    assert not encoded_rows(None, X[:2])[1]
    assert type(model[0].transform(frame)) is np.ndarray


def test_every_method_is_as_wide():
    frame, y = table()
    model = fitted(frame, y)
    gp, X = model[-1], model[0].transform(renamed(frame[:4]))
    std = gp.predict(X, return_std=True)[1]
    assert_allclose(np.sqrt(np.diag(gp.predict(X, return_cov=True)[1])), std, rtol=0.02)
    alone = np.array(X)
    assert (np.diff(gp.predict_quantiles(X, [0.1, 0.9])) > 2 * np.diff(gp.predict_quantiles(alone, [0.1, 0.9]))).all()
    far = gp.predict(X) + 3 * std
    assert (gp.log_density(X, far) > gp.log_density(alone, far)).all()
    assert (gp.novelty(X) > gp.novelty(alone) + 0.01).all()
    drawn = gp.sample_y(X, 2000, random_state=0)
    assert_allclose(drawn.std(axis=1), std, rtol=0.1)


def test_rows_of_one_new_level_are_off_together():
    frame, y = table()
    model = fitted(frame, y)
    rows = pd.concat([renamed(frame[:2], "here"), renamed(frame[2:3], "there"), frame[3:4]])
    covariance = model[-1].predict(model[0].transform(rows), return_cov=True)[1]
    alone = model[-1].predict(np.array(model[0].transform(rows)), return_cov=True)[1]
    more = covariance - alone
    assert more[0, 1] > 0.5 * more[0, 0] > 0
    assert_allclose([more[0, 2], more[1, 2], more[3, 3], more[0, 3]], 0, atol=1e-12)
    assert more[2, 2] > 0


def test_a_pipeline_names_them():
    frame, y = table()
    model = fitted(frame, y)
    new = pd.concat([renamed(frame[:2], name) for name in "ABCDEFG"])
    said = r"column 'town' that the model was not fitted with: 'A' \(2\), .* 'E' \(2\) and 2 more\. They are predicted"
    with pytest.warns(UserWarning, match=said):
        model.predict(new)


def test_pipelines_files_and_the_command_line_agree(tmp_path):
    frame, y = table()
    model = fitted(frame, y)
    new = pd.concat([frame[:2], renamed(frame[2:4])])
    save(model, tmp_path / "model.sodalite")
    loaded = load(tmp_path / "model.sodalite")
    expected = model[-1].predict(model[0].transform(new), return_std=True)
    for found, wanted in zip(loaded.predict(new, return_std=True), expected, strict=True):
        assert_allclose(found, wanted, rtol=1e-9)
    holed = pd.concat([new, new.assign(x=np.nan)]).sort_index(kind="stable")  # rows with a missing value between them
    holed.to_csv(tmp_path / "new.csv", index=False)
    arguments = ["predict", str(tmp_path / "model.sodalite"), str(tmp_path / "new.csv"), "--std", "--set", "samples=2"]
    result = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "out.csv")], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    assert "4 values of column 'town'" in result.stderr
    assert "with error bars as wide as levels differ" in " ".join(result.stderr.split())
    assert "columns that missed none in the fit: 'x' (4)" in " ".join(result.stderr.split())
    written = pd.read_csv(tmp_path / "out.csv")[::2]
    assert_allclose(written["mean"], expected[0], rtol=1e-9)
    assert_allclose(written["std"], expected[1], rtol=1e-9)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (OneHot("a", ("b", "c", "(other)")), [[1, 0, 0], [0, 1, 0]]),
        (OneHot("a", ("(missing)", "b"), fill="(missing)"), [[0, 1]]),
        (Ranks("a", ("low", "high")), [[0], [1]]),
        (Ranks("a", ("low", "high"), fill=0.5, indicator=True), [[0, 0], [1, 0]]),
        (Means("a", ("b", "c"), means=(5.0, 3.0, 4.0)), [[3], [5]]),
    ],
)
def test_the_levels_of_a_column_as_inputs(column, expected):
    assert_array_equal(column.known(), expected)


def test_many_levels_are_represented_by_some():
    names = tuple(f"{place:03}" for place in range(100))
    found = Means("a", names, means=tuple(map(float, range(101)))).known()
    assert len(found) == MOST_KNOWN
    assert found.mean() == pytest.approx(49.5, abs=1)
    assert Points("a", names).known().shape == (MOST_KNOWN, 3)


def test_some_rows_keep_their_new_levels():
    part = Unseen(np.array([1, 3]), np.array([7, 8]), np.array([0]), np.array([[0.0], [1.0]]))
    (some,) = taken((part,), np.array([3, 0, 4]))
    assert_array_equal(some.rows, [0])
    assert_array_equal(some.levels, [8])
    assert not taken((part,), np.array([0, 4]))
