"""A fit compares itself with simple baselines, and warns where it is no better."""

import json
import re
import warnings

import numpy as np
import pytest
from click.testing import CliRunner
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.neighbors import KNeighborsRegressor

import sodalite
from helpers import POSTERIORS
from sodalite import GreedyGPRegressor
from sodalite.cli.app import app
from sodalite.exceptions import NoBetterWarning
from sodalite.fitting.advice import no_better_words
from sodalite.kernels import robust_spread
from sodalite.posteriors.baselines import Baselines, SimpleModels, compared_with_simple_models
from sodalite.posteriors.line import RIDGES, fit_line
from sodalite.selection.rows import ArrayRows


def data(n=120, seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(n, 2)), generator


def rmse(y, predicted):
    return np.sqrt(np.mean((y - predicted) ** 2))


def test_simple_ways_are_what_scikit_learn_says_each_row_left_out():
    X, generator = data(60)
    y = X[:, 0] + np.sin(3 * X[:, 1]) + 0.2 * generator.normal(size=len(X))
    found = compared_with_simple_models(ArrayRows(X, y[:, None]), np.arange(60), 0.5, 2.0, generator)
    scaled = X / X.std(axis=0)
    ways = {k: rmse(y, cross_val_predict(KNeighborsRegressor(k), scaled, y, cv=LeaveOneOut())) for k in (1, 2, 3, 5, 8)}
    others = [np.delete(y, i).mean() for i in range(60)]
    np.testing.assert_allclose(found.line, 2 * rmse(0, line_errors(X, y[:, None])), rtol=1e-9)
    np.testing.assert_allclose(found.constant, 2 * rmse(y, others), rtol=1e-9)
    np.testing.assert_allclose(found.neighbours, 2 * min(ways.values()), rtol=1e-9)
    assert found.k == min(ways, key=ways.get)
    assert found.model == 1.0
    assert found.n_rows == 60


def test_simple_models_predict_new_rows_as_scikit_learn_does():
    X, generator = data(60)
    y, held = np.stack([X[:, 0] ** 2, X[:, 1]], axis=1), generator.normal(size=(20, 2))
    simple = SimpleModels(X, y)
    scale = robust_spread(X)
    near = KNeighborsRegressor(3).fit(X / scale, y)
    np.testing.assert_allclose(simple.nearest(held, 3), near.predict(held / scale), rtol=1e-9)


def line_errors(X, y):
    line, leverage = fit_line(X, y)
    return (y - line(X)) / (1 - leverage)[:, None]


@pytest.mark.parametrize("kind", ["plain", "collinear", "level of one row", "wide"])
def test_a_line_is_the_ridge_regression_with_the_least_errors_of_rows_left_out(kind):
    X, generator = data(25)
    more = {
        "collinear": 2 * X[:, :1] - 3,
        "level of one row": np.eye(25)[:, 7:8],
        "wide": generator.normal(size=(25, 40)),
    }
    X = np.column_stack([X, more.get(kind, X[:, :0])])
    y = np.column_stack([X[:, 0] + 9 * X[:, -1], X[:, 1]]) + 0.2 * generator.normal(size=(25, 2))
    line, _ = fit_line(X, y)
    is_level = np.array([len(np.unique(column)) == 2 for column in X.T])
    Z = X / np.where(is_level, 0.5, X.std(axis=0))
    ways = [Ridge(25 * ridge, solver="svd") for ridge in RIDGES]
    left_out = [y - cross_val_predict(way, Z, y, cv=LeaveOneOut()) for way in ways]
    best = int(np.argmin([np.mean(np.square(each) / y.var(axis=0)) for each in left_out]))
    np.testing.assert_allclose(line_errors(X, y), left_out[best], rtol=1e-4, atol=1e-6)
    new = generator.normal(size=(9, X.shape[1]))
    found = ways[best].fit(Z, y).predict(new / np.where(is_level, 0.5, X.std(axis=0)))
    np.testing.assert_allclose(line(new), found, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_the_models_own_error_is_that_of_fits_without_the_row(posterior):
    X, generator = data(40)
    y = np.sin(2 * X[:, 0]) + 0.1 * generator.normal(size=40)
    kernel = 1.0 * RBF([1.0, 2.0]) + WhiteKernel(0.02)
    settings = {"posterior": posterior, "hyperparameters": "fixed", "target": None, "random_state": 0}
    model = GreedyGPRegressor(kernel, **settings).fit(X, y)  # all rows active
    without = [  # calibration changes no mean
        GreedyGPRegressor(kernel, calibrate=False, **settings)
        .fit(np.delete(X, i, 0), np.delete(y, i))
        .predict(X[i : i + 1])[0]
        for i in range(40)
    ]
    np.testing.assert_allclose(model.baselines_.model, rmse(y, without), rtol=0.05 if posterior == "fitc" else 1e-3)


def test_what_no_input_says_is_told():
    X, generator = data()
    with pytest.warns(NoBetterWarning, match="Hardly better than a constant: RMSE 1.01. against 1.01.* try others"):
        model = GreedyGPRegressor(random_state=0).fit(X, generator.normal(size=len(X)))
    assert model.baselines_.better == "constant"


def test_a_straight_line_is_told_from_what_bends():
    X, generator = data()
    y = X @ [1.0, -2.0] + 0.5 * generator.normal(size=len(X))
    with pytest.warns(NoBetterWarning, match="Hardly better than a straight line: RMSE 0.5.* against 0.5"):
        GreedyGPRegressor(random_state=0).fit(X, y)
    with pytest.warns(NoBetterWarning, match="A straight line is all of the model, .*RMSE 0.5.* of a constant"):
        GreedyGPRegressor(random_state=0, mean="linear").fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = GreedyGPRegressor(random_state=0).fit(X, np.sin(3 * X[:, 0]) + 0.1 * generator.normal(size=len(X)))
    assert model.baselines_.better is None
    assert model.baselines_.model < 0.5 * model.baselines_.neighbours


def test_duplicated_rows_and_several_targets():
    X, generator = data(30)
    X = np.repeat(X, 5, axis=0)
    y = np.stack([X[:, 0] ** 2, X[:, 1]], axis=1) + 0.1 * generator.normal(size=(len(X), 2))
    found = GreedyGPRegressor(random_state=0).fit(X, y).baselines_
    assert found.n_rows == 150
    assert found.neighbours < 0.5 * found.constant


def test_few_rows_have_no_warning_and_no_impossible_figure():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (1, 2, 3, 5):
            found = GreedyGPRegressor(random_state=0).fit(np.arange(n)[:, None] + 0.0, np.arange(n) ** 2.0).baselines_
            assert found.n_rows == n


def test_a_file_keeps_it(tmp_path):
    X, generator = data()
    with pytest.warns(NoBetterWarning):
        model = GreedyGPRegressor(random_state=0).fit(X, generator.normal(size=len(X)))
    sodalite.save(model, tmp_path / "model.sodalite")
    assert sodalite.load(tmp_path / "model.sodalite").baselines_ == model.baselines_


@pytest.mark.filterwarnings("default::sodalite.exceptions.NoBetterWarning")
def test_the_command_and_the_report_say_so(tmp_path):
    X, generator = data(90)
    table = tmp_path / "noise.csv"
    np.savetxt(table, np.c_[X, generator.normal(size=len(X))], delimiter=",", header="a,b,y", comments="")
    arguments = ["fit", str(table), "-t", "y", "-o", str(tmp_path / "m.sodalite")]
    done = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "Warning: No better than a constant" in done.stderr
    content = json.loads(done.stdout)
    assert content["n_held_out"] == 0  # small: each row is predicted from the others
    assert content["advice"].startswith("No better than a constant")
    page = sodalite.report.to_html(sodalite.report.make_report(sodalite.load(tmp_path / "m.sodalite")))
    assert "<b>What to try:</b> The inputs say little about the target" in page
    assert re.search(
        r"than that of the best simple way, the mean of all rows</dt><dd>\d+ % (larger|smaller)</dd>", page
    )


@pytest.mark.filterwarnings("default::sodalite.exceptions.NoBetterWarning")
def test_the_warning_of_the_command_judges_the_rows_of_its_table(tmp_path):
    X, generator = data(300)
    table, model = tmp_path / "noise.csv", str(tmp_path / "m.sodalite")
    np.savetxt(table, np.c_[X, generator.normal(size=len(X))], delimiter=",", header="a,b,y", comments="")
    done = CliRunner().invoke(
        app, ["fit", str(table), "-t", "y", "-o", model, "--json", "--set", "hyperparameters=fixed"]
    )
    (warning,) = (line for line in done.stderr.splitlines() if "better than" in line)
    own, _, _, constant = json.loads(done.stdout)["scores"]
    assert f"RMSE {own['rmse']:.4g} against {constant['rmse']:.4g} for 30 rows held out." in warning
    shown = " ".join(CliRunner().invoke(app, ["inspect", model]).stdout.split())
    assert f"this model {own['rmse']:.4g}" in shown
    remedy = warning.partition("held out. ")[2]
    assert re.search(rf"no smaller than that of the best simple way, [^.]*\. {remedy}", shown)


def test_words_name_the_way_and_the_figures():
    found = Baselines(100, 2.0, 5.0, 3.0, 1.9, 4)
    assert found.better == "neighbours"
    assert "the 4 nearest rows: RMSE 2 against 1.9 for 100 rows" in no_better_words(found)
    assert no_better_words(Baselines(100, 1.0, 5.0, 3.0, 1.9, 4)) is None


@pytest.mark.parametrize(
    ("found", "mean", "said"),
    [
        (Baselines(100, 2.0, 5.0, 2.01, 3.0, 4), None, "Hardly better than a straight line.*Try a linear mean"),
        (Baselines(100, 2.0, 5.0, 1.9, 3.0, 4), "linear", "No better than a straight line.*Try inputs that say more"),
        (Baselines(100, 2.0, 5.0, 3.0, 1.5, 4), "trees", "No better than the mean of the 4.*or another kernel"),
        (Baselines(100, 2.0, 5.0, 3.0, 1e-9, 1), None, "No better than the nearest row.*Rows are repeated"),
        (Baselines(100, 2.0, 1.99, 1.5, 1.2, 3), None, "No better than the mean of the 3 nearest rows"),
        (Baselines(100, 2.0, 1.99, 1.98, 2.5, 3), None, "No better than a constant.*outlying targets"),
    ],
)
def test_the_best_baseline_is_named_with_advice_that_is_not_in_use(found, mean, said):
    assert re.search(said, no_better_words(found, mean))


def test_predictions_that_are_next_to_exact_are_not_warned_of():
    assert no_better_words(Baselines(100, 1e-5, 5.0, 1e-14, 1.0, 3)) is None
