"""Weights of rows: a weight of 2 is the row twice, one of 0 is no row."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import config_context
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data

import sodalite
from helpers import PROJECTED
from sodalite import GreedyGPRegressor
from sodalite.hyperparameters import Subset

KERNEL = ConstantKernel(1.5) * RBF([1.2, 1.9]) + WhiteKernel(0.02)
N = 80


def data(n=N, seed=0, q=None):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2))
    Y = np.stack([np.sin(2 * X[:, 0]), X[:, 1] / 3], axis=1) + 0.15 * rng.normal(size=(n, 2))
    return X, Y[:, 0] if q is None else Y[:, :q], rng.integers(0, 4, n)


def model(**options):
    plain = {"kernel": KERNEL, "hyperparameters": "fixed", "posterior": "sod", "calibrate": False, "random_state": 0}
    return GreedyGPRegressor(**{**plain, **options})


def assert_same(found, expected):
    T = data(30, seed=9)[0]
    for one, other in zip(found.predict(T, return_std=True), expected.predict(T, return_std=True), strict=True):
        assert_allclose(one, other, rtol=1e-8, atol=1e-8)


NOISE_BY_ROW = ConstantKernel(1.5) * RBF(1.2) + WhiteKernel(0.02) * DotProduct(1.0)


@pytest.mark.parametrize("posterior", ["sod", "local"])
@pytest.mark.parametrize(
    ("q", "noise", "options"),
    [
        (None, False, {}),
        (2, False, {}),
        (None, False, {"target": None}),
        (2, False, {"target": None}),
        (None, True, {}),
        (None, False, {"kernel": NOISE_BY_ROW}),
    ],
    ids=["one target", "two targets", "as it is", "two as they are", "known noise", "noise that differs by row"],
)
def test_a_weight_is_a_number_of_repetitions(posterior, q, noise, options):
    """Where all rows are active, repeated or not, the posterior is the same."""
    X, y, weights = data(q=q)
    alpha = np.random.default_rng(1).uniform(0.01, 0.5, N) if noise else np.zeros(N)
    found = model(posterior=posterior, **options).fit(X, y, weights, alpha)
    X, y, alpha = (np.repeat(part, weights, axis=0) for part in (X, y, alpha))
    assert_same(found, model(posterior=posterior, **options).fit(X, y, alpha=alpha))


@pytest.mark.parametrize("posterior", sorted(set(PROJECTED) - {"fitc"}))  # which has a variance of its own for each row
def test_with_some_rows_active(posterior):
    """All rows count in a projected posterior, active or not."""
    X, y, weights = data()
    first = np.flatnonzero(weights)[:12]
    again = np.cumsum(weights)[first] - 1
    options = {"posterior": posterior, "n_active": 12}
    found = model(**options).fit(X, y, weights, first=first)
    assert_same(found, model(**options).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights), first=again))


@pytest.mark.parametrize("posterior", ["sod", "local"])
def test_weights_are_as_scikit_learn_has_them(posterior):
    kernel = RBF(1.5) + WhiteKernel(0.1)
    check_sample_weight_equivalence_on_dense_data("", model(kernel=kernel, posterior=posterior))


@pytest.mark.parametrize("hyperparameters", ["fixed", Subset(n_starts=3)])
def test_a_weight_of_one_changes_nothing(hyperparameters):
    X, y, _ = data()
    found, expected = (model(hyperparameters=hyperparameters).fit(X, y, w) for w in (np.ones(N), None))
    assert_same(found, expected)


@pytest.mark.parametrize("posterior", ["sod", "local"])
def test_rows_of_weight_zero_have_no_influence(posterior):
    X, y, _ = data()
    weights = (np.arange(N) % 4 > 0).astype(float)
    wrong = np.where(weights > 0, y, 1e3)
    options = {"posterior": posterior, "calibrate": True}
    kept = weights > 0
    assert_same(model(posterior=posterior).fit(X, wrong, weights), model(posterior=posterior).fit(X[kept], y[kept]))
    error = model(**options).fit(X, wrong, weights).predict(X[kept]) - y[kept]
    assert np.sqrt(np.mean(np.square(error))) < 0.3


@pytest.mark.parametrize("hyperparameters", ["subset", "weave"])
def test_a_search_finds_the_noise_of_a_row_of_weight_one(hyperparameters):
    """Noise of 0.01 in a half of the rows, of 0.25 in the other, which have 25 times the weight in return."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-3, 3, (300, 1))
    weights = np.where(np.arange(300) % 2, 25.0, 1.0)
    y = np.sin(2 * X[:, 0]) + rng.normal(size=300) * 0.5 / np.sqrt(weights)
    kernel = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1)
    plain = {"kernel": kernel, "hyperparameters": hyperparameters, "target": None}
    found, unweighted = (model(**plain).fit(X, y, w) for w in (weights, None))
    assert found.kernel_.k2.noise_level == pytest.approx(0.25, rel=0.35)
    assert unweighted.kernel_.k2.noise_level == pytest.approx(0.13, rel=0.35)
    T = np.linspace(-3, 3, 200)[:, None]
    error, other = (np.sqrt(np.mean(np.square(gp.predict(T) - np.sin(2 * T[:, 0])))) for gp in (found, unweighted))
    assert error < other


def test_noise_that_is_fixed_is_that_of_a_row_of_weight_one():
    X, y, weights = data()
    kernel = ConstantKernel(1.5) * RBF([1.2, 1.9]) + WhiteKernel(0.02, "fixed")
    found = model(kernel=kernel, hyperparameters=Subset(n_starts=3)).fit(X, y, weights)
    assert found.kernel_.k2.noise_level == pytest.approx(0.02)
    assert found.kernel_.k2.noise_level_bounds == "fixed"
    assert found.kernel_.k1 != kernel.k1


def test_rows_that_join_and_rows_on_disk_have_weights(tmp_path):
    X, y, weights = data()
    found = model(posterior="local", target=None).fit(X[:50], y[:50], weights[:50])
    found.partial_fit(X[50:], y[50:], weights[50:])
    assert_same(found, model(posterior="local", target=None).fit(X, y, weights))
    sodalite.save(found, tmp_path / "m")
    assert_same(sodalite.load(tmp_path / "m"), found)
    np.save(tmp_path / "X.npy", X)
    options = {"posterior": "vfe", "n_active": 20}
    found = model(**options).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y, weights)
    assert_same(found, model(**options).fit(X, y, weights))


def test_a_checkpoint_knows_the_weights(tmp_path):
    X, y, weights = data()
    gp, path = model(n_active=20), tmp_path / "c"
    found = gp.fit(X, y, weights, checkpoint=path)
    assert_same(model(n_active=20).fit(X, y, weights, checkpoint=path), found)
    with pytest.raises(ValueError, match="sample_weight"):
        gp.fit(X, y, weights + 1, checkpoint=path)


def test_weights_are_routed():
    X, y, weights = data()
    with config_context(enable_metadata_routing=True):
        gp = model().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), gp)
        scores = cross_val_score(pipeline, X, y, cv=KFold(3), params={"sample_weight": weights}, error_score="raise")
        found = pipeline.fit(X, y, sample_weight=weights).predict(X)
    scaled = StandardScaler().fit_transform(X)
    assert_allclose(found, model().fit(scaled, y, weights).predict(scaled))
    for score, (a, b) in zip(scores, KFold(3).split(X), strict=True):
        scaler = StandardScaler().fit(X[a])
        fitted = model().fit(scaler.transform(X[a]), y[a], weights[a])
        assert score == pytest.approx(fitted.score(scaler.transform(X[b]), y[b], weights[b]), rel=1e-12)


WRONG = [
    (np.ones(N - 1), ValueError, f"sample_weight must be a number or an array of shape ({N},), one per row; got shape"),
    (-1.0, ValueError, "sample_weight must be finite and not negative; got -1.0."),
    (np.full(N, np.nan), ValueError, f"sample_weight must be finite and not negative; got nan in row 0, and {N} such"),
    (np.where(np.arange(N) == 7, -2.0, 1), ValueError, "got -2.0 in row 7, and 1 such rows"),
    (np.zeros(N), ValueError, "sample_weight is zero for all rows: at least one must be positive."),
    ("heavy", TypeError, "sample_weight must be a number or one number per row; got 'heavy'."),
]


@pytest.mark.parametrize(("weights", "error", "message"), WRONG, ids=range(len(WRONG)))
def test_wrong_weights_are_refused(weights, error, message):
    X, y, _ = data()
    fitted = model().fit(X, y)
    for method in (model().fit, fitted.partial_fit):
        with pytest.raises(error, match=re.escape(message)):
            method(X, y, sample_weight=weights)
