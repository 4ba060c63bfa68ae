"""The estimator's intervals, quantiles, densities and PIT values: for rows wherever they are, and for odd ones."""

from __future__ import annotations

import warnings
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from helpers import POSTERIORS
from sodalite import GreedyGPRegressor

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

LEVELS = [0.9, 0.05, 0.5]
CALLS = {
    "predict_interval": lambda model, X, y: np.stack([np.asarray(end) for end in model.predict_interval(X, 0.8)]),
    "predict_quantiles": lambda model, X, y: model.predict_quantiles(X, LEVELS),
    "log_density": lambda model, X, y: model.log_density(X, y),
    "pit": lambda model, X, y: model.pit(X, y),
}


def rows(n, q=1, seed=0):
    """Two inputs, and targets with noise of heavy tails, of which the second is skewed and in other units."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(0, 6, (n, 2))
    noise = np.stack([generator.standard_t(2.5, n) * np.where(X[:, 1] > 3, 0.5, 0.05), generator.exponential(1, n)])
    Y = np.stack([np.sin(X[:, 0]), 50 + 7 * np.cos(X[:, 1])], axis=1) + noise.T
    return X, Y[:, 0] if q == 1 else Y


def quick(**options):
    plain = {"kernel": RBF([1.5, 2.0]) + WhiteKernel(0.1), "hyperparameters": "fixed", "n_active": 30}
    return GreedyGPRegressor(**{**plain, "random_state": 0, **options})


@pytest.fixture(scope="module", params=[1, 2], ids=["one target", "two targets"])
def fitted(request):
    """A model whose errors are not Gaussian, and rows that it has not seen."""
    model = quick().fit(*rows(400, request.param))
    assert all(width.standard.nu < 50 for width in model.posterior_.scale.widths[:1])
    return model, *rows(60, request.param, seed=1)


@cache
def named(q):
    """The same model, fitted to a data frame."""
    X, y = rows(400, q)
    return quick().fit(pd.DataFrame(X, columns=["a", "b"]), y)


# What the methods return


def test_shapes_and_order(fitted):
    model, X, y = fitted
    found = model.predict_quantiles(X, LEVELS)
    assert found.shape == (*y.shape, 3)
    for place, level in enumerate(LEVELS):
        assert_allclose(found[..., place], model.predict_quantiles(X, [level])[..., 0], rtol=1e-12)
        assert_allclose(found[..., place], model.predict_quantiles(X, level)[..., 0], rtol=1e-12)
    assert np.all(found[..., 1] < found[..., 2])
    assert np.all(found[..., 2] < found[..., 0])
    lower, upper = model.predict_interval(X)
    assert lower.shape == upper.shape == y.shape
    assert_allclose(np.stack([lower, upper], axis=-1), model.predict_quantiles(X, [0.025, 0.975]), rtol=1e-9)
    assert model.log_density(X, y).shape == (60,)
    assert model.pit(X, y).shape == y.shape


def test_the_methods_agree_with_one_another(fitted):
    """The PIT values of quantiles are their levels, and densities are the derivatives of PIT values."""
    model, X, y = fitted
    q = 1 if y.ndim == 1 else y.shape[1]
    levels = np.array([0.001, 0.3, 0.5, 0.8, 0.999])
    quantiles = model.predict_quantiles(X, levels)
    for place, level in enumerate(levels):
        assert_allclose(model.pit(X, quantiles[..., place]), level, rtol=1e-6)
    middle, step = model.predict_quantiles(X, [0.4])[..., 0], 1e-5 * model.y_std_
    step = step[0] if q == 1 else step
    slope = (model.pit(X, middle + step) - model.pit(X, middle - step)) / (2 * step)
    expected = np.log(slope.reshape(60, q)).sum(axis=1)  # of several targets, the sum of the log densities
    assert_allclose(model.log_density(X, middle), expected, atol=1e-4)


def test_intervals_of_every_coverage_are_nested(fitted):
    model, X, _ = fitted
    ends = [model.predict_interval(X, coverage) for coverage in (0.01, 0.5, 0.95, 0.9999, np.nextafter(1.0, 0.0))]
    for (lower, upper), (lowest, highest) in pairwise(ends):
        assert np.all(lowest < lower)
        assert np.all(upper < highest)


def test_far_from_all_rows_no_interval_is_wider_than_twice_that_of_no_data(fitted):
    model, X, y = fitted
    far = X + 1e4
    _, std = model.predict(far, return_std=True)
    widest = 2 * np.maximum(model.y_std_, std.max(axis=0))
    for level in (0.5, 0.9, 0.99):
        low, high = model.predict_interval(far, level)
        assert np.all(high - low <= 2 * stats.norm.ppf(0.5 + level / 2) * widest * (1 + 1e-9))
        assert np.all(high - low > 0)
    assert np.isfinite(model.log_density(far, y)).all()


def test_without_calibration_the_distribution_is_gaussian():
    model = quick(calibrate=False).fit(*rows(200))
    X, y = rows(20, seed=1)
    known = stats.norm(*model.predict(X, return_std=True))
    assert_allclose(model.predict_interval(X, 0.9), known.interval(0.9), rtol=1e-9)
    assert_allclose(model.log_density(X, y), known.logpdf(y), rtol=1e-9)
    assert_allclose(model.pit(X, y), known.cdf(y), rtol=1e-9)


# Rows wherever they are


@pytest.mark.parametrize("name", CALLS)
def test_lists_and_frames(name, fitted):
    model, X, y = fitted
    call, expected = CALLS[name], CALLS[name](model, X, y)
    assert_array_equal(call(model, X.tolist(), y.tolist()), expected)
    frame = pd.DataFrame(X, columns=["a", "b"], index=range(60, 0, -1))
    targets = pd.Series(y, index=frame.index) if y.ndim == 1 else pd.DataFrame(y, index=frame.index)
    assert_allclose(call(named(y.ndim), frame, targets), expected, rtol=1e-8, atol=1e-9)
    if name == "predict_quantiles":
        with pytest.raises(ValueError, match="feature names"):
            call(named(y.ndim), frame.rename(columns={"a": "c"}), targets)


@pytest.mark.parametrize("name", CALLS)
def test_memory_maps_are_read_in_blocks(name, fitted, tmp_path, monkeypatch):
    model, X, y = fitted
    expected = CALLS[name](model, X, y)
    disk = np.memmap(tmp_path / "X", dtype=float, mode="w+", shape=X.shape)
    disk[:] = X
    monkeypatch.setattr("sodalite.selection.rows.BLOCK", 2 * 7)
    seen, queries = [], GreedyGPRegressor._queries
    monkeypatch.setattr(GreedyGPRegressor, "_queries", lambda self, X: seen.append(len(X)) or queries(self, X))
    assert_allclose(CALLS[name](model, disk, y), expected, rtol=1e-9, atol=1e-10)
    assert max(seen) <= 8


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ["array", "array, other blocks", "array, targets in memory", "frame"])
def test_dask_collections_are_lazy(name, kind, fitted):
    model, X, y = fitted
    expected, columns = CALLS[name](model, X, y), ["a", "b"]
    if kind == "frame":
        model = named(y.ndim)
        there = dd.from_pandas(pd.DataFrame(X, columns=columns), npartitions=3)
        targets = dd.from_pandas(pd.Series(y) if y.ndim == 1 else pd.DataFrame(y), npartitions=3)
    else:
        there = da.from_array(X, chunks=(25, 1))
        targets = da.from_array(y, chunks=25 if "other" not in kind else 17) if "memory" not in kind else y
    if name == "predict_interval":
        found = da.stack(model.predict_interval(there, 0.8), allow_unknown_chunksizes=True)
    else:
        found = CALLS[name](model, there, targets)
    assert isinstance(found, da.Array)
    assert found.ndim == expected.ndim
    if kind != "frame":
        assert found.shape == expected.shape
    with dask.config.set(scheduler="threads", num_workers=2):
        assert_allclose(found.compute(), expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", CALLS)
def test_float32(name, fitted):
    model, X, y = fitted
    found = CALLS[name](model, X.astype(np.float32), y.astype(np.float32))
    assert found.dtype == np.float64
    assert_allclose(found, CALLS[name](model, X, y), rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("name", CALLS)
def test_one_row(name, fitted):
    model, X, y = fitted
    axis = 1 if name == "predict_interval" else 0
    expected = np.take(CALLS[name](model, X, y), [3], axis=axis)
    assert_allclose(CALLS[name](model, X[3:4], y[3:4]), expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("posterior", POSTERIORS)
def test_constant_targets(posterior, q):
    X, y = rows(150)
    Y = np.full(150, 3.0) if q == 1 else np.stack([np.full(150, 3.0), y], axis=1)
    model = quick(posterior=posterior).fit(X, Y)
    T = X[:20] + 0.1
    lower, upper = (end.reshape(20, q)[:, 0] for end in model.predict_interval(T, 0.99))
    assert np.all((lower <= 3) & (upper >= 3))
    assert np.all(np.isfinite(model.log_density(T, Y[:20])))
    wrong = Y[:20] + 100  # thousands of standard deviations away
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.all(model.log_density(T, wrong) < model.log_density(T, Y[:20]))
        assert_allclose(model.pit(T, wrong).reshape(20, q)[:, 0], 1)


# What is refused


@pytest.mark.parametrize("wrong", [0, 1, 95, -0.1, 1.5, np.nan, np.inf, "wide", "0.9", None, True])
def test_bad_levels_are_refused_by_name_before_all_else(wrong):
    unfitted = quick()
    with pytest.raises((TypeError, ValueError), match=r"^coverage must (be|lie)"):
        unfitted.predict_interval([[1.0, 2.0]], wrong)
    for levels in (wrong, [0.5, wrong]):
        with pytest.raises((TypeError, ValueError), match=r"^quantiles must (be|lie)"):
            unfitted.predict_quantiles([[1.0, 2.0]], levels)


@pytest.mark.parametrize("wrong", [[], [[0.1, 0.9]], "abc", ["a"], object()])
def test_levels_that_are_no_list_of_numbers(wrong):
    with pytest.raises((TypeError, ValueError), match=r"^quantiles must be"):
        quick().predict_quantiles([[1.0, 2.0]], wrong)
    with pytest.raises((TypeError, ValueError), match=r"^coverage must be"):
        quick().predict_interval([[1.0, 2.0]], wrong)


def test_several_coverages_are_refused():
    with pytest.raises(TypeError, match=r"coverage must be one number between 0 and 1; got \[0.5, 0.9\]"):
        quick().predict_interval([[1.0, 2.0]], [0.5, 0.9])


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("lazy", [False, True])
def test_not_fitted(name, lazy):
    X, y = rows(10)
    with pytest.raises(NotFittedError):
        CALLS[name](quick(), da.from_array(X) if lazy else X, y)


@pytest.mark.parametrize("name", ["log_density", "pit"])
def test_targets_that_do_not_fit_the_rows(name, fitted, tmp_path, monkeypatch):
    model, X, y = fitted
    method = getattr(model, name)
    lazy = da.from_array(X, chunks=(30, 2))
    q = 1 if y.ndim == 1 else 2
    with pytest.raises(ValueError, match="same number of rows; X has 60, y has 59"):
        method(X, y[:-1])
    for wrong in (y[:-1], da.from_array(y[:-1], chunks=30), np.concatenate([y, y])):
        with pytest.raises(ValueError, match=f"same number of rows; X has 60, y has {len(wrong)}"):
            method(lazy, wrong)
    other = np.stack([y, y, y], axis=1).reshape(60, -1)
    for place in (X, lazy):
        with pytest.raises(ValueError, match=f"y has {3 * q} targets, but the model was fitted to {q}"):
            method(place, other if place is X else da.from_array(other, chunks=(30, 1)))
    if q == 2:
        with pytest.raises(ValueError, match="y has 1 target, but the model was fitted to 2"):
            method(X, y[:, 0])
    with pytest.raises(ValueError, match="y contains NaN"):
        method(X, np.full(y.shape, np.nan))
    disk = np.memmap(tmp_path / "X", dtype=float, mode="w+", shape=X.shape)
    disk[:] = X
    monkeypatch.setattr("sodalite.selection.rows.BLOCK", 14)
    for wrong in (y[:-1], np.concatenate([y, y])):
        with pytest.raises(ValueError, match=f"same number of rows; X has 60, y has {len(wrong)}"):
            method(disk, wrong)


@pytest.mark.parametrize("name", CALLS)
def test_rows_that_do_not_fit_the_model(name, fitted):
    model, X, y = fitted
    with pytest.raises(ValueError, match="X has 1 features, but GreedyGPRegressor is expecting 2"):
        CALLS[name](model, X[:, :1], y)
    with pytest.raises(ValueError, match="X contains NaN"):
        CALLS[name](model, np.where(X > 5, np.nan, X), y)
