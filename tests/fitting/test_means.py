"""Mean functions: what the Gaussian process learns from, what is predicted, and what is refused."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline

import sodalite
from helpers import campaign
from sodalite import GreedyGPRegressor, exports
from sodalite.fitting.means import MEANS, LinearMean, TreesMean
from sodalite.fitting.means.forest import Forest
from sodalite.metrics import interval_coverage, rmse
from sodalite.posteriors import POSTERIORS

KERNEL = ConstantKernel(1.0) * RBF([1.0, 1.0, 1.0]) + WhiteKernel(0.05)
NAMED = sorted(MEANS)


def table(n=300, seed=0, q=1):
    """A line, a step and a wave, each in an input of its own."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2, 2, (n, 3))
    y = 3 * X[:, 0] + np.where(X[:, 1] > 0.3, 4.0, 0.0) + np.sin(3 * X[:, 2]) + generator.normal(0, 0.1, n)
    return (X, y) if q == 1 else (X, np.column_stack([y, X[:, 0] - y]))


def model(mean, **given):
    defaults = {"kernel": KERNEL, "hyperparameters": "fixed", "n_active": 40, "random_state": 0}
    return GreedyGPRegressor(mean=mean, **{**defaults, **given})


class Memory(RegressorMixin, BaseEstimator):
    """Predicts 1 for rows that it was fitted to, and 0 for others."""

    def fit(self, X, y):
        self.seen_ = {row.tobytes() for row in X}
        return self

    def predict(self, X):
        return np.array([float(row.tobytes() in self.seen_) for row in X])


def test_no_residual_is_that_of_a_regressor_which_has_seen_the_row():
    X, y = table(500)
    fitted = model(Memory()).fit(X, y).fitted_
    assert_allclose(fitted.scaling.undone(fitted.rows.y)[:, 0], y, atol=1e-12)  # 0 was subtracted everywhere
    times_seen = sum(
        np.array([row.tobytes() in one.seen_ for row in X], dtype=int) for one in fitted.mean_function.models
    )
    aside = np.zeros(500, dtype=bool)
    aside[fitted.judges] = True
    assert_array_equal(times_seen, np.where(aside, 0, 4))
    assert 50 <= aside.sum() <= 100


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("mean", NAMED)
def test_predictions_are_the_mean_of_the_regressors_and_the_process(mean, posterior):
    X, y = table()
    gp = model(mean, posterior=posterior).fit(X, y)
    new = table(20, seed=1)[0]
    first = np.mean([one.predict(new) for one in gp.mean_.models], axis=0)[:, 0]
    rest = gp.posterior_.mean(new)[:, 0] * gp.y_std_[0] + gp.y_mean_[0]
    assert_allclose(gp.predict(new), first + rest, rtol=1e-12)
    joint = gp.posterior_.mean_and_covariance(new)[0][:, 0] * gp.y_std_[0] + gp.y_mean_[0]
    assert_allclose(gp.predict(new, return_cov=True)[0], first + joint, rtol=1e-12)
    median = gp.predict_quantiles(new, [0.5])[:, 0]
    assert np.abs(median - first - rest).max() < np.abs(first).max() / 4


def test_a_step_is_for_trees_and_a_line_for_a_line():
    X, y = table(600)
    new, truth = table(400, seed=1)
    errors = {mean: np.sqrt(np.mean(np.square(model(mean).fit(X, y).predict(new) - truth))) for mean in (None, *NAMED)}
    assert errors["trees"] < 0.9 * errors[None]
    away = np.array([[100.0, 0.0, 0.0]])
    assert model("linear").fit(X, y).predict(away)[0] == pytest.approx(300, rel=0.1)


@pytest.mark.parametrize("mean", NAMED)
def test_far_from_the_data_error_bars_are_the_targets_own_spread(mean):
    X, y = table()
    std = model(mean).fit(X, y).predict([[50.0, 50.0, 50.0]], return_std=True)[1][0]
    assert std >= 0.999 * y.std()


@pytest.mark.parametrize("mean", NAMED)
def test_several_targets_have_the_mean_of_each(mean):
    X, Y = table(q=2)
    both, first = model(mean).fit(X, Y), model(mean).fit(X, Y[:, 0])
    assert_allclose(both.mean_(X)[:, 0], first.mean_(X)[:, 0], rtol=1e-9)
    assert both.predict(X[:7]).shape == (7, 2)
    assert both.predict_quantiles(X[:7], [0.1, 0.9]).shape == (7, 2, 2)


def test_a_regressor_of_the_users_own_is_fitted_to_copies():
    X, y = table()
    given = KNeighborsRegressor(3)
    gp = model(given).fit(X, y)
    assert gp.mean_.name == "KNeighborsRegressor"
    assert not hasattr(given, "n_samples_fit_")
    assert clone(gp).get_params()["mean__n_neighbors"] == 3
    assert_array_equal(pickle.loads(pickle.dumps(gp)).predict(X), gp.predict(X))


def test_a_regressor_that_knows_columns_by_name_gets_a_frame():
    pandas = pytest.importorskip("pandas")
    X, y = table()
    frame = pandas.DataFrame(X, columns=["line", "step", "wave"])
    mean = make_pipeline(make_column_transformer(("passthrough", ["line"])), LinearRegression())
    gp = model(mean).fit(frame, y)
    assert gp.mean_.name == "Pipeline"
    assert gp.predict(pandas.DataFrame([[100.0, 0.0, 0.0]], columns=frame.columns))[0] == pytest.approx(300, rel=0.1)


@pytest.mark.parametrize("mean", NAMED)
def test_new_rows_join_and_the_mean_stays(mean):
    X, y = table(350)
    gp = model(mean).fit(X[:300], y[:300])
    before = gp.mean_
    gp.partial_fit(X[300:], y[300:])
    assert gp.mean_ is before
    fitted = gp.fitted_
    assert_allclose(fitted.rows_on_scale().y[:, 0], y)
    rest = y[300:] - before(X[300:])[:, 0]
    assert_allclose(fitted.scaling.undone(fitted.rows.y)[300:, 0], rest, rtol=1e-9)
    assert fitted.judges is None if mean == "linear" else set(range(300, 350)) <= set(fitted.judges)


def test_a_line_with_a_process_on_its_residuals_is_as_good_as_both_can_be():
    """Lines of five folds left residuals that jumped from fold to fold, and few rows that judge."""
    random = np.random.default_rng(0)
    slopes = random.normal(size=10)
    X = random.normal(size=(1060, 10))
    y = X @ slopes + 0.5 * np.sin(3 * X[:, 0]) + 0.1 * random.normal(size=len(X))
    X_test, y_test = X[60:], y[60:]
    gp = GreedyGPRegressor(mean="linear", random_state=0).fit(X[:60], y[:60])
    line = LinearRegression().fit(X[:60], y[:60])
    assert rmse(y_test, gp.predict(X_test)) < 0.8 * rmse(y_test, line.predict(X_test))
    assert 0.4 < interval_coverage(y_test, *gp.predict_interval(X_test, 0.5)) < 0.65
    assert 0.88 < interval_coverage(y_test, *gp.predict_interval(X_test)) < 0.99


def test_a_line_in_more_inputs_than_rows_is_drawn_to_the_mean():
    random = np.random.default_rng(0)
    X = random.normal(size=(1020, 40))
    y = X[:, 0] + random.normal(size=len(X))
    line = LinearMean().fit(X[:20], y[:20])
    assert rmse(y[20:], line.predict(X[20:])[:, 0]) < 1.3 * y[20:].std()


def test_rows_on_disk_have_the_same_mean(tmp_path):
    X, y = table()
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    for posterior in ("local", "vfe"):
        here, there = (model("trees", posterior=posterior).fit(rows, y) for rows in (X, mapped))
        assert_allclose(there.predict(X), here.predict(X), rtol=1e-9)


def test_of_many_rows_a_sample_is_fitted(monkeypatch):
    from sodalite.fitting import pipeline

    monkeypatch.setattr(pipeline, "MOST_FOR_MEAN", 100)
    X, y = table()
    fitted = model(Memory()).fit(X, y).fitted_
    assert len(fitted.judges) == 200
    assert len(set().union(*(one.seen_ for one in fitted.mean_function.models))) == 100


def test_a_fit_goes_on_from_its_checkpoint(tmp_path):
    X, y = table()
    path = tmp_path / "fit.checkpoint"
    whole = model("trees").fit(X, y)
    model("trees", n_active=15).fit(X, y, checkpoint=path)
    again = model("trees").fit(X, y, checkpoint=path)
    assert_array_equal(again.active_indices_, whole.active_indices_)
    with pytest.raises(ValueError, match="mean"):
        model("linear").fit(X, y, checkpoint=path)


# --- files ---


@pytest.mark.parametrize("posterior", ["local", "vfe"])
@pytest.mark.parametrize("q", [2, campaign(1)])
@pytest.mark.parametrize("mean", NAMED)
def test_models_with_a_mean_are_saved(mean, q, posterior, tmp_path):
    X, y = table(q=q)
    gp = model(mean, posterior=posterior).fit(X, y)
    sodalite.save(gp, tmp_path / "model.sodalite")
    again = sodalite.load(tmp_path / "model.sodalite")
    assert str(again.mean_) == str(gp.mean_)
    for mine, theirs in zip(again.predict(X, return_std=True), gp.predict(X, return_std=True), strict=True):
        assert_array_equal(mine, theirs)
    assert_array_equal(again.log_density(X, y), gp.log_density(X, y))
    if posterior == "local":
        new, more = table(20, seed=3, q=q)
        assert_array_equal(again.partial_fit(new, more).predict(X), gp.partial_fit(new, more).predict(X))


def test_a_regressor_of_the_users_own_is_not_saved(tmp_path):
    X, y = table()
    gp = model(Ridge()).fit(X, y)
    with pytest.raises(TypeError, match=r"cannot hold the class .*Ridge.*joblib") as error:
        sodalite.save(gp, tmp_path / "model.sodalite")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


FORGED_TREES = {
    "circle": ("left", lambda left: np.r_[0, left[1:]], "every leaf on one way"),
    "input": ("feature", lambda feature: np.r_[3, feature[1:]], "inputs from 0 to 2"),
    "leaf on no way": ("left", lambda left: np.where(left == -1, -2, left), "every leaf on one way"),
    "too few leaves": ("value", lambda value: value[:-1], "one split less than leaves"),
}


@pytest.mark.parametrize("what", FORGED_TREES)
def test_forged_trees_are_refused_before_lightgbm_reads_them(what):
    name, change, words = FORGED_TREES[what]
    X, y = table(100)
    state = TreesMean().fit(X, y).saved()
    forest = state["forests"][0]
    with pytest.raises(ValueError, match=words):
        TreesMean.restore(**{**state, "forests": (replace(forest, **{name: change(getattr(forest, name))}),)})


def test_trees_from_their_arrays_predict_the_same():
    X, y = table(400)
    X *= [1e-30, 1.0, 1e30]
    booster = TreesMean().fit(X, y).boosters_[0]
    forest = Forest.of(booster)
    forest.check(3)
    assert_array_equal(forest.booster(3).predict(X), booster.predict(X))
    assert_array_equal(forest.take(0, len(forest.n_leaves)).value, forest.value)


# --- bad input ---


class Broken(Ridge):
    def __init__(self, found=np.nan):
        super().__init__()
        self.found = found

    def predict(self, X):
        return np.full((len(X), *np.shape(self.found)), self.found)


@pytest.mark.parametrize(
    ("mean", "words"),
    [
        ("tree", "mean must be.*'trees'"),
        (Ridge, "mean must be"),
        (3, "mean must be"),
        (object(), "mean must be"),
        (Broken(), "mean must predict finite numbers; the Broken that was given predicts nan"),
        (Broken("oak"), "mean must predict numbers; the Broken that was given predicts <U3"),
        (Broken(1j), "mean must predict numbers; the Broken that was given predicts complex128"),
        (Broken(1e200), r"as large as the targets; the Broken that was given predicts 1e\+200, whose square"),
        (Broken([1.0, 2.0]), r"mean must predict one number.*\(\d+, 1\).*Broken.*\(\d+, 2\)"),
    ],
)
def test_means_that_cannot_be_are_refused(mean, words):
    X, y = table(60)
    gp = model(mean)
    with pytest.raises(ValueError, match=words):
        gp.fit(X, y)
    assert not hasattr(gp, "fitted_")


@pytest.mark.parametrize("n", [1, 9])
def test_too_few_rows_for_folds_are_refused(n):
    X, y = table(n)
    with pytest.raises(ValueError, match=rf"at least 10 rows; got {n}. Use mean=None"):
        model("linear").fit(X, y)


@pytest.mark.parametrize("mean", [*NAMED, "auto"])
def test_constant_targets_and_the_fewest_rows_have_the_obvious_answer(mean):
    X, y = table(60)
    assert_allclose(model(mean).fit(X, np.full(60, 7.0)).predict(X), 7.0)
    assert np.isfinite(model(mean).fit(X[:10], y[:10]).predict(X)).all()


def test_collinear_and_constant_inputs_do_not_disturb_a_line():
    X = table(100)[0]
    X = np.column_stack([X[:, 0], 2 * X[:, 0], np.full(100, 3.0)])
    found = LinearMean().fit(X, 3 * X[:, 0] + 1).predict(X)[:, 0]
    assert_allclose(found, 3 * X[:, 0] + 1, atol=1e-4)


@pytest.mark.parametrize("export", ["to_sklearn", "to_gpytorch"])
def test_exports_refuse_a_mean(export):
    pytest.importorskip("sklearn" if export == "to_sklearn" else "gpytorch")
    X, y = table(60)
    gp = model("linear").fit(X, y)
    with pytest.raises(ValueError, match=r"mean function \(linear\).*mean=None"):
        getattr(exports, export)(gp)
