"""Gross errors in targets: rows that have them get noise of their own, and spoil no other prediction."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_array_equal
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from commands import done
from helpers import POSTERIORS
from sodalite import GreedyGPRegressor, load, save
from sodalite.cli._fits import hold_out
from sodalite.cli.app import app
from sodalite.exceptions import OutlierWarning
from sodalite.fitting.gross import GrossErrors, find_gross_errors

NEW = np.random.default_rng(9).uniform(0, 6, (500, 2))


def function(X):
    return np.sin(X[:, 0]) * np.cos(X[:, 1])


def data(n=200, wrong=(17, 133), by=(20.0, -20.0), noise=0.1, seed=0):
    """Rows, targets without gross errors, and targets with them."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(0, 6, (n, 2))
    y = function(X) + noise * generator.normal(size=n)
    bad = y.copy()
    bad[list(wrong)] += by
    return X, y, bad


def error(model):
    return float(np.sqrt(np.mean(np.square(model.predict(NEW) - function(NEW)))))


@pytest.mark.parametrize("posterior", [name for name in POSTERIORS if name != "sor"])
def test_predictions_are_those_without_gross_errors(posterior):
    """Without noise for them, the RMSE is thirty times as large as that of targets without gross errors."""
    X, y, bad = data()
    clean = error(GreedyGPRegressor(posterior=posterior, random_state=0).fit(X, y))
    with pytest.warns(OutlierWarning, match=r"row 17 by 20\.\d, row 133 by -20, where 0\.179 is usual\. These rows"):
        found = GreedyGPRegressor(posterior=posterior, random_state=0).fit(X, bad)
    assert error(found) < 1.1 * clean
    if posterior == "local":
        assert error(GreedyGPRegressor(random_state=0).fit(X, bad, alpha=0.0)) > 10 * clean


def test_error_bars_are_those_of_rows_without_gross_errors():
    X, _, bad = data()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = GreedyGPRegressor(random_state=0).fit(X, bad)
    assert [warning.category for warning in said] == [OutlierWarning]  # nothing of a model no better than a constant
    assert model.baselines_.n_rows == 198
    assert model.baselines_.model < 0.12
    targets = function(NEW) + 0.1 * np.random.default_rng(1).normal(size=len(NEW))
    for coverage, least, most in ((0.5, 0.42, 0.58), (0.95, 0.91, 0.98)):
        lower, upper = model.predict_interval(NEW, coverage)
        assert least < np.mean((targets >= lower) & (targets <= upper)) < most


@pytest.mark.parametrize(("n", "wrong"), [(60, 1), (300, 3), (3000, 12), (12_000, 6)])
def test_they_are_found_among_few_rows_and_many(n, wrong):
    rows = np.sort(np.random.default_rng(n).choice(n, wrong, replace=False))
    X, _, bad = data(n, rows, 15.0 * (-1.0) ** np.arange(wrong))
    found = find_gross_errors(X, bad)
    assert_array_equal(found.rows, rows)
    assert np.abs(np.abs(found.errors) - 15).max() < 1.5
    assert_array_equal(np.flatnonzero(found.noise(n)), rows)


def test_the_model_is_that_with_the_same_noise_as_alpha():
    X, _, bad = data(120, (5, 60), (9.0, 9.0))
    noise = find_gross_errors(X, bad).noise(120)
    with pytest.warns(OutlierWarning):
        found = GreedyGPRegressor(random_state=0).fit(X, bad)
    expected = GreedyGPRegressor(random_state=0).fit(X, bad, alpha=noise)
    for one, other in zip(found.predict(NEW, return_std=True), expected.predict(NEW, return_std=True), strict=True):
        assert_array_equal(one, other)


@pytest.mark.parametrize("alpha", [None, 0.0])
def test_who_asks_for_rows_as_they_are_gets_them(alpha):
    """A kernel that is given is that of scikit-learn's Gaussian process, whatever the targets are."""
    X, _, bad = data(100, (5,), (9.0,))
    given = {"hyperparameters": "fixed", "kernel": RBF(1.0) + WhiteKernel(0.01)} if alpha is None else {}
    model = GreedyGPRegressor(random_state=0, **given)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, bad, alpha=alpha)
    assert not any("far off" in str(warning.message) for warning in said)
    own = model.fitted_.rows.alpha
    assert own is None or not own.any()


def test_what_happens_on_some_days_is_no_gross_error():
    """On one day in a hundred, targets are far off: too many to be slips."""
    X, y, _ = data(1000)
    y[::100] -= 5
    assert find_gross_errors(X, y) is None


@pytest.mark.parametrize("seed", range(4))
def test_heavy_tails_are_no_gross_errors(seed):
    generator = np.random.default_rng(seed)
    X = generator.uniform(0, 6, (300, 2))
    assert find_gross_errors(X, function(X) + 0.1 * generator.standard_t(3, 300)) is None


def test_a_narrow_peak_is_no_gross_error():
    """Its rows contradict most rows near by, but predict each other."""
    x = np.linspace(0, 10, 400)
    y = 0.1 * np.sin(x) + np.exp(-np.square((x - 5) / 0.06)) + 0.002 * np.random.default_rng(0).normal(size=400)
    assert find_gross_errors(x[:, None], y) is None


@pytest.mark.parametrize(
    "y",
    [np.zeros(50), np.arange(50.0), np.r_[np.zeros(49), 1.0], np.repeat([0.0, 1e9], 25), np.r_[1e300, np.arange(49)]],
    ids=["constant", "line", "mostly zero", "two levels", "huge"],
)
def test_unusual_targets_have_a_defined_answer(y):
    found = find_gross_errors(np.linspace(0, 1, 50)[:, None], y)
    assert found is None or set(found.rows) == {0}


def test_one_row_and_equal_rows():
    assert find_gross_errors(np.ones((1, 1)), np.ones(1)) is None
    assert find_gross_errors(np.ones((60, 2)), np.random.default_rng(0).normal(size=60)) is None


def test_several_targets_are_taken_as_they_are():
    X, y, bad = data(60, (5,), (9.0,))
    model = GreedyGPRegressor(random_state=0).fit(X, np.column_stack([y, bad]))
    assert model.fitted_.rows.alpha is None


def test_files_and_new_rows_keep_their_noise(tmp_path):
    X, _, bad = data()
    with pytest.warns(OutlierWarning):
        model = GreedyGPRegressor(random_state=0).fit(X, bad)
    save(model, tmp_path / "model.sodalite")
    loaded = load(tmp_path / "model.sodalite")
    assert_array_equal(loaded.fitted_.rows.alpha, model.fitted_.rows.alpha)
    more, clean, _ = data(50, (), (), seed=4)
    assert error(loaded.partial_fit(more, clean)) < 0.05


@pytest.mark.filterwarnings("ignore::sodalite.exceptions.OutlierWarning")
def test_a_fit_that_is_continued_finds_the_same(tmp_path):
    X, _, bad = data(150, (5, 60), (9.0, 9.0))
    options, path = {"random_state": 0, "n_active": 60}, tmp_path / "fit.checkpoint"

    def stop(stage):
        if stage.t == 30:
            raise KeyboardInterrupt

    whole = GreedyGPRegressor(random_state=0, n_active=60).fit(X, bad)
    with pytest.raises(KeyboardInterrupt):
        GreedyGPRegressor(**options).fit(X, bad, callback=stop, checkpoint=path)
    again = GreedyGPRegressor(**options).fit(X, bad, checkpoint=path)
    assert_array_equal(again.active_indices_, whole.active_indices_)


@pytest.mark.filterwarnings("default")
def test_on_the_command_line_lines_are_named_and_the_model_of_all_rows_is_good(tmp_path):
    """Rows with gross errors count as noise, do not judge the model, and are named in its file."""
    X, _, bad = data()
    path = tmp_path / "table.csv"
    np.savetxt(path, np.column_stack([X, bad]), delimiter=",", header="a,b,y", comments="")
    model = tmp_path / "model.sodalite"
    for seed in (0, 1, 2, 12):
        arguments = ["fit", str(path), "-t", "y", "-o", str(model), "--seed", str(seed)]
        result = CliRunner().invoke(app, arguments, env={"COLUMNS": "80"})
        assert result.exit_code == 0
        assert "line 19 by 20.1, line 135 by -20" in result.stderr
        assert result.stderr.count("Warning") == 1
        found = load(model)
        assert error(found) < 0.07
        assert found.about_.judgement.rmse < 0.2
        assert found.fitted_.n_rows == 200
        assert found.gross_errors_.rows.tolist() == [17, 133]
        (note,) = [note for note in found.about_.notes if "line 135 by -20" in note]
        n_held_out = np.isin([17, 133], hold_out(200, None, seed).test).sum()
        assert found.about_.judgement.n_judges == 20 - n_held_out
        assert ("Those held out do not judge the model." in note) == (n_held_out > 0)
    kept = CliRunner().invoke(app, [*arguments, "--set", "keep_outliers=true"], env={"COLUMNS": "80"})
    assert kept.exit_code == 0
    assert "line 19 by" not in kept.stderr
    assert load(model).gross_errors_ is None
    assert load(model).about_.judgement.n_judges == 20


@pytest.mark.filterwarnings("ignore::sodalite.exceptions.OutlierWarning")
def test_mean_targets_of_levels_have_no_gross_errors_in_them(tmp_path):
    generator = np.random.default_rng(1)
    street, x = generator.integers(0, 60, 400), generator.uniform(0, 10, 400)
    y = 30 * x + 50 * generator.normal(size=60)[street] + 5 * generator.normal(size=400)
    frame = pd.DataFrame({"street": [f"s{place}" for place in street], "x": x, "y": y})
    bad = frame.copy()
    bad.loc[[50, 222], "y"] = [90_000, -7000]
    bad.to_csv(tmp_path / "t.csv", index=False)
    done("fit", tmp_path / "t.csv", "-t", "y", "-o", tmp_path / "m", "--set", "hyperparameters=subset", "-q")
    found = load(tmp_path / "m")
    assert found.gross_errors_.rows.tolist() == [50, 222]
    assert np.sqrt(np.mean(np.square(found.predict(frame) - y))) < 6
    assert found.about_.judgement.rmse < 10


def test_with_a_kernel_that_is_known_nothing_is_searched(monkeypatch):
    """As in the second fit of the command: the rows with gross errors are found, and heavy tails are none."""
    X, y, bad = data()
    tails = function(X) + 0.1 * np.random.default_rng(3).standard_t(3, 200)
    kernels = [GreedyGPRegressor(random_state=0).fit(X, targets, alpha=0).kernel_ for targets in (y, tails)]
    monkeypatch.setattr("sodalite.fitting.gross.find_exactly", lambda *given: pytest.fail("a search"))
    assert find_gross_errors(X, bad, kernel=kernels[0]).rows.tolist() == [17, 133]
    assert find_gross_errors(X, tails, kernel=kernels[1]) is None
    tails[40] += 20
    assert find_gross_errors(X, tails, kernel=kernels[1]).rows.tolist() == [40]


def test_rows_that_do_no_harm_stay_as_they_are():
    """A wrong target does not condemn a row whose target is unlike others since its place is."""
    X, _, bad = data(300, (7, 20), (40.0, 5.0))
    assert find_gross_errors(X, bad).rows.tolist() == [7, 20]
    X[20] = 40
    assert find_gross_errors(X, bad).rows.tolist() == [7]


@pytest.mark.parametrize(("n", "count"), [(31, 2), (60, 3), (99, 3)])
def test_several_of_few_rows(n, count):
    X, y, bad = data(n, range(5, 5 + 7 * count, 7), np.full(count, 30.0) * (-1.0) ** np.arange(count))
    with pytest.warns(OutlierWarning):
        found = GreedyGPRegressor(random_state=0).fit(X, bad)
    assert error(found) < 1.3 * error(GreedyGPRegressor(random_state=0).fit(X, y)) + 0.02


@pytest.mark.parametrize("factor", [1e2, 1e3, 1e5, 1e8])
def test_however_large_the_error_is(factor):
    """Targets are scaled, and kernels begin, as if the row were not there."""
    X, y, bad = data(200, (17,), (0.0,))
    bad[17] = factor
    with pytest.warns(OutlierWarning):
        found = GreedyGPRegressor(random_state=0).fit(X, bad)
    clean = GreedyGPRegressor(random_state=0).fit(X, y)
    assert error(found) < 1.1 * error(clean)
    assert found.y_std_[0] == pytest.approx(clean.y_std_[0], rel=0.02)


def test_counts():
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 6, (300, 1))
    y = generator.poisson(0.3, 300).astype(float)
    y[50] = 999
    assert find_gross_errors(X, y).rows.tolist() == [50]
    y[50] = 1
    assert find_gross_errors(X, y) is None
    steps = np.round(np.sin(X[:, 0]))
    steps[50] = 1000
    assert find_gross_errors(X, steps).rows.tolist() == [50]


def test_words_for_one_row_and_for_many():
    one = GrossErrors(np.array([3]), np.array([2.5]), 0.1).words()
    start = "A target is far off all rows near by: row 3 by 2.5, where 0.1 is usual. The row counts as noise, since it"
    assert one.startswith(start)
    many = GrossErrors(np.arange(7), np.ones(7), 0.1).words("line {}".format)
    assert "line 4 by 1 and 2 more, where" in many
