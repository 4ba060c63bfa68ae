"""The estimator: scikit-learn's conventions, its Gaussian process where theory says that they agree, and odd data."""

from __future__ import annotations

import copy
import inspect
import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtri
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from helpers import KERNELS, campaign
from sodalite import GreedyGPRegressor, reference, select
from sodalite.criteria import Delta
from sodalite.exceptions import SelectionInterrupted
from sodalite.hyperparameters import Found, Round, Subset
from sodalite.metrics import coverage, rmse
from sodalite.posteriors import POSTERIORS, base
from sodalite.stopping import Decrease, Rule, Size, Stage, TargetRMSE

KERNEL = ConstantKernel(1.5) * RBF([1.2, 1.9]) + WhiteKernel(0.02)
QUICK = Subset(n_rows=100, n_starts=4, n_screen=60)


def data(n=150, q=None, seed=0):
    """Rows of two inputs, with one noisy target or q of them, each of a scale and a mean of its own."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-3, 3, (n, 2))
    waves = [np.sin(X[:, 0]) + 0.5 * X[:, 1], np.cos(X[:, 1]) * X[:, 0], np.sin(X[:, 0] + X[:, 1]) - 1]
    Y = np.column_stack(waves[: q or 1]) + 0.05 * generator.normal(size=(n, q or 1))
    Y = Y * [1, 40, 0.03][: q or 1] + [0, 200, 5][: q or 1]
    return X, Y[:, 0] if q is None else Y


def new_rows(n=30, seed=100):
    return np.random.default_rng(seed).uniform(-3, 3, (n, 2))


def fixed(**options):
    """The paper's posterior, with a kernel that is taken as it is."""
    plain = {"kernel": KERNEL, "hyperparameters": "fixed", "posterior": "sod", "criterion": "delta"}
    return GreedyGPRegressor(**{**plain, "n_active": 25, "random_state": 0, **options})


def searching(**options):
    """The paper's posterior, with hyperparameters that are found on few rows."""
    plain = {"hyperparameters": QUICK, "posterior": "sod", "criterion": "delta", "n_active": 40, "random_state": 0}
    return GreedyGPRegressor(**{**plain, **options})


# scikit-learn's conventions


COPIES = "Rows that stand there more than once, targets and all, count once; weights say that they count more often."
UNLIKE = "The default kernel starts from the spread of the rows, in which each counts once."


@parametrize_with_checks(
    [GreedyGPRegressor(hyperparameters="fixed")],
    expected_failed_checks=lambda _: {"check_sample_weight_equivalence_on_dense_data": UNLIKE},
)
def test_every_check_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.campaign
@parametrize_with_checks(
    [GreedyGPRegressor()],
    expected_failed_checks=lambda _: {"check_sample_weight_equivalence_on_dense_data": COPIES},
)
def test_every_check_of_scikit_learn_with_hyperparameters_that_are_found(estimator, check):
    check(estimator)


def test_in_a_pipeline():
    X, y = data()
    pipeline = make_pipeline(StandardScaler(), fixed()).fit(X, y)
    scaler = StandardScaler().fit(X)
    alone = fixed().fit(scaler.transform(X), y)
    mean, std = pipeline.predict(new_rows(), return_std=True)
    expected_mean, expected_std = alone.predict(scaler.transform(new_rows()), return_std=True)
    assert_array_equal(mean, expected_mean)
    assert_array_equal(std, expected_std)
    assert pipeline.score(X, y) == r2_score(y, alone.predict(scaler.transform(X))) > 0.9


def test_grid_search_over_the_number_of_rows_and_the_criterion():
    X, y = data()
    folds = KFold(3)
    options = {"n_active": [3, 30], "criterion": ["delta", "random", Delta(underfit=0.5)]}
    search = GridSearchCV(fixed(), options, cv=folds, error_score="raise").fit(X, y)
    tried = search.cv_results_["params"]
    assert len(tried) == 6
    for params, found in zip(tried, search.cv_results_["mean_test_score"], strict=True):
        model = fixed(**params)
        assert found == pytest.approx(np.mean(cross_val_score(model, X, y, cv=folds)), rel=1e-12)
    assert search.best_params_["n_active"] == 30
    assert search.best_estimator_.get_params()["criterion"] == search.best_params_["criterion"]
    assert search.score(X, y) == r2_score(y, search.predict(X))


def test_with_a_transformed_target():
    X, y = data()
    model = TransformedTargetRegressor(fixed(), func=np.sinh, inverse_func=np.arcsinh).fit(X, y)
    expected = np.arcsinh(fixed().fit(X, np.sinh(y)).predict(new_rows()))
    assert_allclose(model.predict(new_rows()), expected, rtol=1e-12)


# Scores


@pytest.mark.parametrize("q", [None, 3])
def test_score_is_r2_the_mean_of_all_targets(q):
    X, y = data(q=q)
    model = fixed(criterion="uncertainty").fit(X, y)
    assert model.score(X, y) == r2_score(y, model.predict(X))
    weight = np.random.default_rng(1).uniform(size=len(y))
    expected = r2_score(y, model.predict(X), sample_weight=weight)
    assert model.score(X, y, weight) == model.score(X, y, sample_weight=weight) == expected
    assert model.score(X, y, weight) != model.score(X, y)


def test_all_parameters_are_listed_in_every_way():
    names = set(inspect.signature(GreedyGPRegressor).parameters)
    model = GreedyGPRegressor(n_active=7, criterion="random")
    assert set(model.get_params(deep=False)) == names
    assert "criterion='random'" in repr(model)
    assert "random" in model._repr_html_()
    with config_context(print_changed_only=False):
        assert "criterion='random'" in repr(model)
    with pytest.raises(ValueError, match="scores"):
        model.set_params(scores="delta")


# Copies


def test_a_clone_is_unfitted_and_fits_the_same():
    X, y = data()
    model = searching().fit(X, y)
    copied = clone(model)
    assert not [name for name in vars(copied) if name.endswith("_")]
    assert_array_equal(copied.fit(X, y).predict(new_rows()), model.predict(new_rows()))


@pytest.mark.parametrize("q", [campaign(None), 2])
@pytest.mark.parametrize(
    ("way", "posterior"),
    [
        *(("pickle", kind) for kind in POSTERIORS),
        *((way, kind) for way in ("joblib", "deepcopy") for kind in ("sod", "local")),
    ],
)
def test_a_fitted_model_survives_the_round_trip(posterior, way, q, tmp_path):
    model = fixed(posterior=posterior).fit(*data(q=q))
    if way == "pickle":
        copied = pickle.loads(pickle.dumps(model))
    elif way == "joblib":
        joblib.dump(model, tmp_path / "model")
        copied = joblib.load(tmp_path / "model")
    else:
        copied = copy.deepcopy(model)
    for kind in ({}, {"return_std": True}, {"return_cov": True}):
        for found, expected in zip(copied.predict(new_rows(), **kind), model.predict(new_rows(), **kind), strict=True):
            if posterior == "local":  # its v's are made anew, in other batches
                assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
            else:
                assert_array_equal(found, expected)
    if posterior != "local":
        assert_array_equal(copied.sample_y(new_rows()), model.sample_y(new_rows()))
    assert_array_equal(copied.active_indices_, model.active_indices_)
    assert repr(copied) == repr(model)
    assert repr(copied.selection_) == repr(model.selection_)
    assert copied.kernel_ == model.kernel_


# Data frames


FRAMES = pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])


def frames(frame):
    """The rows and new rows as frames, and the target as a column of one."""
    X, y = data()
    T = new_rows()
    return frame({"a": X[:, 0], "b": X[:, 1]}), frame({"a": T[:, 0], "b": T[:, 1]}), frame({"y": y})["y"]


@FRAMES
def test_data_frames_are_read_as_their_numbers(frame):
    table, test, target = frames(frame)
    X, y = data()
    model, plain = fixed().fit(table, target), fixed().fit(X, y)
    assert model.n_features_in_ == 2
    assert_array_equal(model.active_indices_, plain.active_indices_)
    assert_allclose(model.predict(test), plain.predict(new_rows()), atol=1e-12)
    assert not hasattr(plain, "feature_names_in_")
    chosen = [select(rows, y, KERNEL, n_active=9, first=0).indices for rows in (table, X)]
    assert_array_equal(*chosen)
    X, Y = data(q=2)
    model = fixed().fit(X, frame({"u": Y[:, 0], "v": Y[:, 1]}))
    assert_allclose(model.predict(new_rows()), fixed().fit(X, Y).predict(new_rows()), rtol=1e-12)


@FRAMES
def test_names_of_columns_are_kept_and_checked_as_in_scikit_learn(frame):
    table, test, target = frames(frame)
    gpr = GaussianProcessRegressor(KERNEL, optimizer=None).fit(table, target)
    if not hasattr(gpr, "feature_names_in_"):
        pytest.skip("this scikit-learn does not read the names of these frames' columns")
    model = fixed().fit(table, target)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    for wrong in (test[["b", "a"]], frame({"a": test["a"], "c": test["b"]})):
        with pytest.raises(ValueError, match="feature names should match") as ours:
            model.predict(wrong)
        with pytest.raises(ValueError, match="feature names should match") as theirs:
            gpr.predict(wrong)
        assert str(ours.value) == str(theirs.value)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(new_rows())


# Several targets


def test_several_targets_share_one_active_set_by_the_root_mean_square_of_their_residuals():
    X, Y = data(n=300, q=3)
    scaled = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    indices, path, factor = reference.one_at_a_time(X, scaled, KERNEL, n_active=40, first=0)
    model = fixed(n_active=40).fit(X, Y, first=0)
    assert_array_equal(model.active_indices_, indices)
    assert_allclose(model.selection_.rmse, path, rtol=1e-9)
    assert_allclose(model.selection_.factor, factor, atol=1e-9)
    for j in range(3):
        assert not np.array_equal(fixed(n_active=40).fit(X, Y[:, j], first=0).active_indices_, indices)


def test_every_target_is_predicted_as_if_it_were_alone_on_the_same_rows():
    """But for how error bars change away from the rows, which the errors of all targets tell."""
    X, Y = data(q=3)
    T = new_rows()
    model = fixed(calibrate=False).fit(X, Y)
    mean, std = model.predict(T, return_std=True)
    _, cov = model.predict(T, return_cov=True)
    likelihood = 0
    for j in range(3):
        alone = fixed(calibrate=False).fit(X, Y[:, j], first=model.active_indices_)
        expected, spread = alone.predict(T, return_std=True)
        size = Y[:, j].std()
        assert_allclose(mean[:, j], expected, atol=1e-10 * size)
        assert_allclose(std[:, j], spread, rtol=1e-9)
        assert_allclose(cov[:, :, j], alone.predict(T, return_cov=True)[1], atol=1e-10 * size**2)
        assert_allclose(model.predict(T)[:, j], expected, atol=1e-10 * size)
        likelihood += alone.log_marginal_likelihood_value_
    assert model.log_marginal_likelihood_value_ == pytest.approx(likelihood)


@pytest.mark.parametrize("columns", [None, 1, 3])
def test_shapes_are_scikit_learns(columns):
    X, Y = data(q=3)
    y = Y[:, 0] if columns is None else Y[:, :columns]
    T = new_rows(7)
    ours = fixed().fit(X, y)
    theirs = GaussianProcessRegressor(KERNEL, optimizer=None, normalize_y=True).fit(X, y)
    assert ours.predict(T).shape == theirs.predict(T).shape
    for kind in ("return_std", "return_cov"):
        for found, expected in zip(ours.predict(T, **{kind: True}), theirs.predict(T, **{kind: True}), strict=True):
            assert found.shape == expected.shape
    assert ours.sample_y(T, 4).shape == theirs.sample_y(T, 4).shape
    targets = (3,) if columns == 3 else ()
    assert ours.predict(T).shape == (7, *targets)
    assert ours.predict(T, return_std=True)[1].shape == (7, *targets)
    assert ours.predict(T, return_cov=True)[1].shape == (7, 7, *targets)
    assert ours.sample_y(T, 4).shape == (7, *targets, 4)
    assert ours.X_train_.shape == (25, 2)
    assert ours.y_train_.shape == (25, *y.shape[1:])
    assert ours.y_mean_.shape == ours.y_std_.shape == (columns or 1,)


def test_one_column_is_one_target():
    X, y = data()
    T = new_rows()
    flat, column = fixed().fit(X, y), fixed().fit(X, y[:, None])
    assert_array_equal(flat.active_indices_, column.active_indices_)
    for found, expected in zip(column.predict(T, return_cov=True), flat.predict(T, return_cov=True), strict=True):
        assert_array_equal(found, expected)
    assert_array_equal(column.selection_.rmse, flat.selection_.rmse)


# scikit-learn's Gaussian process, where every row is active


def noisy_kernels():
    """The kernels of the registry that have a noise of 0.01 or more at every row, with the number of inputs."""
    for name, make in KERNELS.items():
        for d in (1, 3):
            kernel, X = make(d), rows_for(d)
            noise = kernel.diag(X) - np.diag(kernel(X, X))
            if noise.min() >= 0.01:
                yield pytest.param(kernel, d, id=f"{name}-{d}")


def rows_for(d, n=40, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


@pytest.mark.parametrize("standardized", [(True, False), campaign((False, True))])
@pytest.mark.parametrize(("kernel", "d"), list(noisy_kernels()))
def test_with_every_row_active_it_is_scikit_learns_gaussian_process(kernel, d, standardized):
    """One target and two, of which the ones are scaled, the others not."""
    X, T = rows_for(d), rows_for(d, 15, seed=1)
    generator = np.random.default_rng(2)
    Y = np.sin(X.sum(axis=1))[:, None] * [1.0, 30.0] + [2.0, -5.0] + generator.normal(size=(40, 2)) * [0.3, 4.0]
    for y, scaled in zip((Y[:, 0], Y), standardized, strict=True):
        options = {"n_active": 40, "target": "standardize" if scaled else None, "calibrate": False}
        ours = fixed(kernel=kernel, **options).fit(X, y)
        theirs = GaussianProcessRegressor(kernel, alpha=1e-14, optimizer=None, normalize_y=scaled).fit(X, y)
        assert ours.selection_.stop_reason == "all_rows"
        assert ours.log_marginal_likelihood_value_ == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-8)
        size = np.abs(y).max(axis=0)
        for rows in (T, X):
            mean, std = theirs.predict(rows, return_std=True)
            _, cov = theirs.predict(rows, return_cov=True)
            assert_close(ours.predict(rows), mean, size)
            for found, expected in zip(ours.predict(rows, return_std=True), (mean, std), strict=True):
                assert_close(found, expected, size)
            for found, expected, unit in zip(
                ours.predict(rows, return_cov=True), (mean, cov), (size, size**2), strict=True
            ):
                assert_close(found, expected, unit)


def assert_close(found, expected, size):
    """Equal to 1e-8, relative or in units of each target's size."""
    assert found.shape == expected.shape
    assert np.all(np.abs(found - expected) <= 1e-8 * (np.abs(expected) + size))


def test_the_default_is_near_the_full_gaussian_process():
    X, y = data(n=400)
    T = new_rows(100)
    model = GreedyGPRegressor(n_active=100, random_state=0).fit(X, y)
    full = GaussianProcessRegressor(model.kernel_, optimizer=None, normalize_y=True).fit(X, y)
    assert rmse(full.predict(T), model.predict(T)) < 0.25 * 0.05  # the noise
    assert rmse(np.sin(T[:, 0]) + 0.5 * T[:, 1], model.predict(T)) < 0.25 * 0.05


# Units


@pytest.mark.parametrize("target", ["standardize", None])
def test_rmse_is_that_of_the_remaining_rows_in_units_of_y(target):
    X, y = data()
    y = 70 * y + 1000
    kernel = KERNEL if target else ConstantKernel(1e6) * RBF([1.2, 1.9]) + WhiteKernel(100.0)
    for m in (1, 2, 25):
        model = fixed(kernel=kernel, n_active=m, target=target).fit(X, y)
        rest = np.setdiff1d(np.arange(len(y)), model.active_indices_)
        assert model.selection_.rmse[-1] == pytest.approx(rmse(y[rest], model.predict(X[rest])), rel=1e-7)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (lambda unit: {"tol": 0.01 * unit}, "tol"),
        (lambda unit: {"stop": Decrease(0.01 * unit, patience=2)}, "tol"),
        (lambda unit: {"stop": TargetRMSE(0.2 * unit)}, "target_rmse"),
    ],
)
def test_thresholds_are_in_units_of_y(rule, reason):
    X, y = data()
    small, large = fixed(**rule(1)).fit(X, y), fixed(**rule(1000)).fit(X, 1000 * y)
    assert small.selection_.stop_reason == large.selection_.stop_reason == reason
    assert 1 < len(small.selection_) < 25
    assert_array_equal(small.active_indices_, large.active_indices_)
    assert_allclose(large.selection_.rmse, 1000 * small.selection_.rmse, rtol=1e-9)
    assert_allclose(large.predict(X), 1000 * small.predict(X), atol=1e-8)


# Stopping and first rows


@pytest.mark.parametrize(("taken", "left"), [(0.0, 8.0), (5.0, 3.0), (100.0, 0.8)])
def test_the_time_limit_counts_the_search_and_conditioning(taken, left):
    class Search:
        def find(self, task, kernels, generator):
            seen.append(task.seconds)
            return Found(kernels[0], (Round("a round", kernels[0], 0.0, True, taken),))

    seen, stages = [], []
    model = GreedyGPRegressor(RBF() + WhiteKernel(0.1), n_active=5, hyperparameters=Search(), time_limit=8)
    model.fit(*data(), callback=stages.append)
    conditioning = model.fitted_.n_rows * 3 / 5000 + 0.1  # seconds that are expected, about
    assert 0.75 * (8 - 3 * conditioning) < seen[0] < 6.0
    assert 0 <= left - next(stage for stage in stages if stage.t).time_limit < 3 * conditioning or taken == 100
    assert stages[-1].step == "Conditioning on the rows"
    assert len(model.active_indices_) == 5


class Seven(Rule):
    """A rule of one's own."""

    def check(self, stage: Stage) -> str | None:
        return "seven" if stage.t == 7 else None


@pytest.mark.parametrize(
    ("options", "m", "reason"),
    [
        ({"time_limit": 0}, 1, "time_limit"),
        ({"time_limit": 600}, 25, "n_active"),
        ({"stop": Seven()}, 7, "seven"),
        ({"stop": Seven() & TargetRMSE(1e9)}, 7, "seven and target_rmse"),
    ],
)
def test_where_a_fit_stops_and_why(options, m, reason):
    model = fixed(**options).fit(*data())
    assert model.selection_.stop_reason == reason
    assert len(model.active_indices_) == len(model.X_train_) == m


# Randomness


@pytest.mark.parametrize("criterion", ["delta", "random"])
def test_the_random_state_settles_everything(criterion):
    X, y = data()
    one, two = (searching(criterion=criterion, random_state=3).fit(X, y) for _ in range(2))
    assert_array_equal(one.active_indices_, two.active_indices_)
    assert one.kernel_ == two.kernel_
    assert_array_equal(one.predict(new_rows()), two.predict(new_rows()))

    def first_of(random_state):
        return int(fixed(n_active=1, criterion=criterion, random_state=random_state).fit(X, y).active_indices_[0])

    for make in (int, np.random.RandomState, np.random.default_rng):
        assert first_of(make(5)) == first_of(make(5))
        assert len({first_of(make(seed)) for seed in range(6)}) > 1
    assert_array_equal(one.sample_y(X[:5], 3), two.sample_y(X[:5], 3, random_state=0))
    assert not np.array_equal(one.sample_y(X[:5], 3), one.sample_y(X[:5], 3, random_state=1))
    shared = np.random.RandomState(5)
    assert len({first_of(shared) for _ in range(6)}) > 1


@pytest.mark.parametrize("random_state", [None, 0])
def test_the_global_random_state_is_left_alone(random_state):
    X, y = data()
    before = pickle.dumps(np.random.get_state())  # noqa: NPY002
    model = searching(random_state=random_state).fit(X, y)
    model.sample_y(X[:3], random_state=random_state)
    assert pickle.dumps(np.random.get_state()) == before  # noqa: NPY002


# A fit that fails changes nothing


class Failing(Rule):
    """Fails in the middle of a selection."""

    def __init__(self, error):
        self.error = error

    def check(self, stage: Stage) -> str | None:
        if stage.t == 5:
            raise self.error
        return None


FAILURES = {
    "parameter": ({"n_active": 0}, {}, ValueError),
    "kernel": ({"kernel": RBF([1.0, 2.0])}, {}, ValueError),
    "data": ({}, {"X": np.full((150, 3), np.nan)}, ValueError),
    "lengths": ({}, {"y": np.zeros(149)}, ValueError),
    "criterion": ({"criterion": lambda s, abs_r, noise: s * np.nan}, {}, ValueError),
    "rule": ({"stop": Failing(RuntimeError("no more"))}, {}, RuntimeError),
    "interrupt": ({"stop": Failing(KeyboardInterrupt())}, {}, SelectionInterrupted),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failed_fit_leaves_the_model_as_it_was(failure):
    options, arrays, error = FAILURES[failure]
    wider = {"X": rows_for(3, 150), "y": rows_for(1, 150)[:, 0], **arrays}
    fitted, unfitted = fixed().fit(*data()), fixed()
    before = {name: value for name, value in vars(fitted).items() if name.endswith("_")}
    expected = fitted.predict(new_rows())
    for model in (fitted, unfitted):
        model.set_params(**{"kernel": RBF(2.0) + WhiteKernel(0.1), **options})
        with pytest.raises(error):
            model.fit(**wider)
    assert {name: value for name, value in vars(fitted).items() if name.endswith("_")} == before
    assert fitted.n_features_in_ == 2
    assert_array_equal(fitted.predict(new_rows()), expected)
    assert not hasattr(unfitted, "n_features_in_")
    with pytest.raises(NotFittedError):
        unfitted.novelty(wider["X"])


def test_a_second_fit_forgets_the_first():
    X, y = data()
    model = fixed(kernel=RBF(1.0) + WhiteKernel(0.1)).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    again = model.fit(rows_for(3, 60), rows_for(1, 60)[:, 0])
    assert again is model
    assert model.n_features_in_ == 3
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(rows_for(3, 4)).shape == (4,)


# What is left behind


def test_the_kernel_that_is_passed_in_is_not_changed():
    X, y = data()
    for hyperparameters in ("fixed", QUICK):
        kernel = ConstantKernel(1.5) * RBF([1.2, 1.9]) + WhiteKernel(0.02)
        model = searching(kernel=kernel, hyperparameters=hyperparameters).fit(X, y)
        assert kernel == ConstantKernel(1.5) * RBF([1.2, 1.9]) + WhiteKernel(0.02)
        assert model.kernel is kernel
        assert model.kernel_ is not kernel
        assert model.kernel_.k2 is not kernel.k2
    assert model.kernel_ != kernel


def test_the_data_are_not_changed():
    X, y = data(q=2)
    before = X.copy(), y.copy()
    X.flags.writeable = y.flags.writeable = False
    model = searching().fit(X, y)
    assert_array_equal((X, y), before)
    model.X_train_[:] = model.y_train_[:] = 0
    assert_array_equal((X, y), before)


def test_fitted_attributes_agree_and_are_documented():
    X, Y = data(q=2)
    model = fixed().fit(X, Y)
    indices = model.active_indices_
    assert_array_equal(indices, model.selection_.indices)
    assert len(np.unique(indices)) == 25
    assert_array_equal(model.X_train_, X[indices])
    assert_allclose(model.y_train_ * model.y_std_ + model.y_mean_, Y[indices])
    assert_allclose(model.y_mean_, Y.mean(axis=0))
    assert_allclose(model.y_std_, Y.std(axis=0))
    attributes = inspect.getdoc(GreedyGPRegressor).partition("Attributes\n---")[2]
    for name in vars(model):
        if name.endswith("_"):
            assert name in attributes


# Predictions


@pytest.mark.parametrize("entries", [1, 80, 25 * 7])
def test_predicting_in_blocks_is_predicting_at_once(entries, monkeypatch):
    model = fixed().fit(*data(q=2))
    T = new_rows(23)
    whole = model.predict(T), *model.predict(T, return_std=True)
    monkeypatch.setattr(base, "BLOCK", entries)
    for found, expected in zip((model.predict(T), *model.predict(T, return_std=True)), whole, strict=True):
        assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_std_is_the_root_of_the_covariances_diagonal():
    model = fixed().fit(*data(q=2))
    T = np.vstack([new_rows(20), data()[0][:10]])
    std, cov = model.predict(T, return_std=True)[1], model.predict(T, return_cov=True)[1]
    assert_allclose(std**2, np.einsum("iij->ij", cov), rtol=1e-9)
    assert np.linalg.eigvalsh(cov[..., 0]).min() > 0


def test_the_band_covers_new_observations():
    X, y = data(n=800)
    model = searching(n_active=80).fit(X[:600], y[:600])
    mean, std = model.predict(X[600:], return_std=True)
    assert coverage(y[600:], mean, std) == pytest.approx(0.95, abs=0.05)


def test_samples_have_the_predictive_mean_and_covariance():
    model = fixed(calibrate=False).fit(*data(q=2))
    T = np.vstack([new_rows(4), [[9.0, 9.0], [9.1, 9.0]]])
    mean, cov = model.predict(T, return_cov=True)
    samples = model.sample_y(T, 40_000, random_state=1)
    for j in range(2):
        size = np.sqrt(np.diag(cov[..., j]))
        assert_allclose((samples[:, j].mean(axis=1) - mean[:, j]) / size, 0, atol=0.03)
        assert_allclose((np.cov(samples[:, j]) - cov[..., j]) / np.outer(size, size), 0, atol=0.03)
    between = np.corrcoef(samples[0, 0], samples[0, 1])[0, 1]
    assert abs(between) < 0.03


def test_samples_have_the_learnt_distribution_and_the_correlations_of_the_process():
    model = fixed().fit(*data(q=2))
    assert model.posterior_.scale.widths
    T = np.vstack([new_rows(4), [[9.0, 9.0], [9.1, 9.0]]])
    samples = model.sample_y(T, 6000, random_state=1)
    levels = np.array([0.05, 0.3, 0.5, 0.95])
    below = np.mean(samples[..., None] <= model.predict_quantiles(T, levels)[:, :, None], axis=2)
    assert_allclose(below, np.broadcast_to(levels, below.shape), atol=0.015)
    cov = model.predict(T, return_cov=True)[1]
    for j in range(2):
        size = np.sqrt(np.diag(cov[..., j]))
        ranks = np.argsort(np.argsort(samples[:, j], axis=1), axis=1)
        scores = ndtri((ranks + 0.5) / samples.shape[2])
        assert_allclose(np.corrcoef(scores), cov[..., j] / np.outer(size, size), atol=0.03)


# Odd data


both = pytest.mark.parametrize("posterior", ["sod", "local"])


@both
@pytest.mark.parametrize("constant", [0.0, 3.7, -1e9, 1e-12])
def test_a_constant_target_is_predicted(constant, posterior):
    X, _ = data()
    model = searching(posterior=posterior).fit(X, np.full(len(X), constant))
    mean, std = model.predict(new_rows(), return_std=True)
    assert_allclose(mean, constant, rtol=1e-12)
    assert np.all(np.isfinite(std))
    assert_array_equal(model.y_std_, 1)


def test_a_constant_target_beside_another_and_how_sure_it_is_of_one():
    X, y = data()
    model = searching().fit(X, np.column_stack([np.full(len(X), 0.1), y]))
    mean = model.predict(new_rows())
    assert_allclose(mean[:, 0], 0.1)
    assert rmse(np.sin(new_rows()[:, 0]) + 0.5 * new_rows()[:, 1], mean[:, 1]) < 0.1
    zero, *others = (
        searching().fit(X, np.full(len(X), c)).predict(new_rows(), return_std=True)[1] for c in (0.0, 3.7, 0.1)
    )
    for std in others:
        assert_allclose(std, zero, rtol=1e-6)


@pytest.mark.parametrize("make", [GreedyGPRegressor, searching, fixed], ids=["default", "searching", "fixed"])
def test_one_row(make):
    X, y = data(n=1)
    model = make().fit(X, y)
    assert model.active_indices_.tolist() == [0]
    assert model.selection_.stop_reason == "all_rows"
    assert np.isnan(model.selection_.rmse).tolist() == [True]
    mean, std = model.predict(new_rows(), return_std=True)
    assert_allclose(mean, y[0])
    assert np.all(std > 0)


def test_fewer_rows_than_n_active():
    """None has to be chosen: all are active as they come, and no stage has an RMSE."""
    X, y = data(n=12)
    stages = []
    for n_active in (12, 1000):
        model = fixed(n_active=n_active).fit(X, y, callback=stages.append)
        selection = model.selection_
        assert model.active_indices_.tolist() == list(range(12))
        assert (selection.stop_reason, selection.is_ranked, selection.n_proposed) == ("all_rows", False, 0)
        assert np.isnan(selection.rmse).tolist() == np.isnan(selection.scores).tolist() == 12 * [True]
    assert not any(stage.t for stage in stages)


@pytest.mark.parametrize(
    "options",
    [
        {"stop": Decrease(1e-9, patience=20)},
        {"stop": TargetRMSE(1e-9)},
        {"time_limit": 1000.0},
        {"stop": Size(12)},
        {"criterion": Delta(2.0)},
    ],
    ids=str,
)
def test_what_may_stop_earlier_or_refuse_rows_is_asked_about_every_row(options):
    X, y = data(n=12)
    model = fixed(n_active=1000, **options).fit(X, y)
    assert model.selection_.is_ranked
    assert np.isfinite(model.selection_.rmse[:11]).all()
    np.testing.assert_allclose(model.predict(X), fixed(n_active=1000).fit(X, y).predict(X), rtol=1e-8)
    stopped = model.set_params(tol=1e9).fit(X, y).selection_
    assert (len(stopped), stopped.stop_reason.split()[0]) == (2, "tol")


def test_one_active_row():
    X, y = data()
    model = fixed(n_active=1, calibrate=False).fit(X, y, first=17)
    assert model.active_indices_.tolist() == [17]
    latent, noise, scale = 1.5, 0.02, y.std()
    at_itself = y.mean() + latent / (latent + noise) * (y[17] - y.mean())
    mean, std = model.predict(X[[17]], return_std=True)
    assert mean[0] == pytest.approx(at_itself)
    assert std[0] == pytest.approx(scale * np.sqrt(latent - latent**2 / (latent + noise) + noise))


@both
@pytest.mark.filterwarnings("ignore:The optimal value found for dimension 0 of parameter k2__noise_level")
@pytest.mark.parametrize("kernel", [None, RBF(1.0), KERNEL], ids=["default", "noiseless", "noisy"])
def test_duplicated_rows(kernel, posterior):
    X, y = data(n=20)
    T = new_rows()
    copies, targets = np.repeat(X, 10, axis=0), np.repeat(y, 10)
    model = searching(kernel=kernel, n_active=100, posterior=posterior).fit(copies, targets)
    assert len(model.active_indices_) == 100
    mean, std = model.predict(T, return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std > 0)
    assert_allclose(model.predict(copies), targets, atol=0.15)


def test_noiseless_duplicates_are_taken_last():
    X, y = data(n=20)
    copies, targets = np.repeat(X, 5, axis=0), np.repeat(y, 5)
    indices = fixed(kernel=RBF(0.5), n_active=20, criterion="uncertainty").fit(copies, targets).active_indices_
    assert sorted(indices // 5) == list(range(20))


@pytest.mark.parametrize(("posterior", "n_active"), [("sod", 150), ("local", 150), ("local", 5)])
def test_all_rows_equal(posterior, n_active):
    _, y = data()
    model = searching(n_active=n_active, posterior=posterior).fit(np.ones((len(y), 2)), y)
    mean, std = model.predict(np.ones((1, 2)), return_std=True)
    assert mean[0] == pytest.approx(y.mean(), abs=0.2 * y.std())
    assert std[0] == pytest.approx(y.std(), rel=0.2)


@both
@pytest.mark.parametrize("constant", [campaign(0.0), campaign(0.1), -1e9])
def test_constant_columns_change_nothing(constant, posterior):
    X, y = data()
    T = new_rows()
    kernel = ConstantKernel(1.5) * RBF(1.2) + WhiteKernel(0.02)
    plain = fixed(kernel=kernel, posterior=posterior).fit(X, y)
    padded = fixed(kernel=kernel, posterior=posterior).fit(np.insert(X, 1, constant, axis=1), y)
    assert_array_equal(plain.active_indices_, padded.active_indices_)
    assert_allclose(padded.predict(np.insert(T, 1, constant, axis=1)), plain.predict(T), atol=1e-9)
    found = searching().fit(np.insert(X, 1, constant, axis=1), y).predict(np.insert(T, 1, constant, axis=1))
    assert rmse(np.sin(T[:, 0]) + 0.5 * T[:, 1], found) < 0.1


def compare_moved(scale=1.0, offset=0.0, y_scale=1.0, y_offset=0.0, **options):
    """The largest differences of mean and std from those of the data unmoved, in units of y, with equal indices."""
    X, y = data()
    T = new_rows()
    plain = searching(**options).fit(X, y)
    moved = searching(**options).fit(X * scale + offset, y * y_scale + y_offset)
    mean, std = plain.predict(T, return_std=True)
    moved_mean, moved_std = moved.predict(T * scale + offset, return_std=True)
    assert_array_equal(plain.active_indices_, moved.active_indices_)
    assert_allclose(moved.selection_.rmse, y_scale * plain.selection_.rmse, rtol=1e-4)
    return np.abs((moved_mean - y_offset) / y_scale - mean).max(), np.abs(moved_std / y_scale - std).max()


MOVES = [
    *[{"offset": 1e9, "y_offset": y_offset} for y_offset in (1e6, -1e9)],
    *[campaign({"offset": 1e6, "y_offset": y_offset}) for y_offset in (1e6, -1e9)],
    {"scale": 1e-8, "y_scale": 1e8},
    {"scale": 1e100, "y_scale": 1e-100},
    *[
        campaign({"scale": scale, "y_scale": y_scale})
        for scale, y_scale in [(1e8, 1e-8), (1e-8, 1e-8), (1e8, 1e8), (1e-100, 1e100)]
    ],
]


@both
@pytest.mark.parametrize("move", MOVES, ids=str)
def test_offsets_and_scales_of_any_size(move, posterior):
    lost = 1e-16 * max(abs(move.get("offset", 0)), abs(move.get("y_offset", 0)))  # by the data themselves
    for difference in compare_moved(**move, posterior=posterior):
        assert difference < (1e3 * lost or 1e-8)


def test_columns_of_different_scales():
    X, y = data()
    stretch = np.array([1e-8, 1e8])
    plain, stretched = searching().fit(X, y), searching().fit(X * stretch + [1, 1e10], y)
    T = new_rows()
    assert_allclose(stretched.predict(T * stretch + [1, 1e10]), plain.predict(T), atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "uint8", "int64", "bool"])
def test_numbers_of_any_type_are_read_as_they_are(dtype):
    X, y = data()
    given, T = ((20 * rows + 60).astype(dtype) for rows in (X, new_rows()))
    found, expected = searching().fit(given, y), searching().fit(given.astype(np.float64), y)
    assert_array_equal(found.active_indices_, expected.active_indices_)
    plain = expected.predict(T.astype(np.float64), return_std=True)
    for a, b in zip(found.predict(T, return_std=True), plain, strict=True):
        assert a.dtype == np.float64
        assert_allclose(a, b, rtol=0, atol=1e-6 if "float" in dtype else 0)


def test_the_form_of_arrays_does_not_matter():
    X, y = data()
    y = np.round(10 * y)
    expected = fixed().fit(X, y).predict(X)
    wide = np.zeros((len(X), 4))
    wide[:, ::2] = X
    for rows, targets in ((np.asfortranarray(X), y), (wide[:, ::2], y), (X.tolist(), y.tolist())):
        assert_allclose(fixed().fit(rows, targets).predict(rows), expected, rtol=1e-9)
    assert_array_equal(fixed().fit(X, y.astype(np.int16)).predict(X), expected)


# Progress


def test_verbose_writes_progress_to_standard_error(capsys):
    fixed(verbose=True, n_active=20).fit(*data())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "active rows 20 of at most 20, RMSE" in captured.err
    assert "\x1b" not in captured.err
    model = fixed(verbose=True, n_active=100, tol=0.02).fit(*data())
    assert model.selection_.stop_reason == "tol"
    assert f"active rows {len(model.active_indices_)} of at most 100, RMSE" in capsys.readouterr().err
    fixed().fit(*data()).predict(new_rows())
    assert capsys.readouterr() == ("", "")
