"""Variances scaled by leave-one-out errors: right where the kernel is right, and right where the noise varies."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from sodalite import GreedyGPRegressor
from sodalite.kernels import compile_kernel
from sodalite.metrics import coverage, nlpd
from sodalite.posteriors import Neighbors
from sodalite.posteriors.calibration import FEW, Scale, log_densities

KERNEL = RBF(1.0) + WhiteKernel(0.1)


def errors(n, d=2, q=1, std=lambda X: 1.0, seed=0):
    """Rows, errors whose standard deviation may vary, and the variances that a model predicted for them."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2, 2, (n, d))
    variance = generator.uniform(0.5, 2, n)
    error = generator.normal(size=(n, q)) * (np.sqrt(variance) * std(X))[:, None]
    return X, error, variance


def fit(X, error, variance, kernel=KERNEL):
    return Scale.fit_each(compile_kernel(kernel, X), X, error[None], variance[None])[0].scale


def jump(X):
    return np.where(X[:, 0] > 0, 2.0, 0.7)


# The scale


@pytest.mark.parametrize("d", [1, 3, 8])
@pytest.mark.parametrize("kernel", [KERNEL, DotProduct(1.0) + WhiteKernel(0.1)], ids=["metric", "covariance"])
def test_where_the_variances_are_right_the_scale_is_one(d, kernel):
    X, error, variance = errors(1500, d)
    found = fit(X, error, variance, kernel)(errors(200, d, seed=1)[0])
    assert_allclose(found, 1, atol=0.15)


def test_where_the_variances_are_right_there_is_usually_one_scale_for_all():
    alone = [fit(*errors(1000, seed=seed)).near is None for seed in range(20)]
    assert sum(alone) >= 15


@pytest.mark.parametrize("factor", [0.2, 7.0])
def test_variances_that_are_wrong_everywhere_by_the_same_factor(factor):
    X, error, variance = errors(2000)
    scale = fit(X, error, variance / factor)
    assert_allclose(scale(X), factor, rtol=0.15)
    assert_allclose(scale.mean, factor, rtol=0.1)


@pytest.mark.parametrize("q", [1, 3])
def test_where_the_noise_varies_the_scale_follows(q):
    X, error, variance = errors(3000, q=q, std=jump)
    scale = fit(X, error, variance)
    T = errors(500, seed=1)[0]
    T = T[np.abs(T[:, 0]) > 0.5]
    assert scale.near is not None
    ratio = scale(T) / jump(T) ** 2
    assert 0.85 < np.median(ratio) < 1.25  # a little is drawn to the mean of all
    assert np.mean((ratio > 0.5) & (ratio < 2)) > 0.95


def test_the_scale_is_local_in_the_kernels_own_metric():
    """An input that does not matter to the kernel does not say what is near by."""
    X, error, variance = errors(3000, std=jump)
    T = X[np.abs(X[:, 0]) > 0.5]
    sees, blind = (
        fit(X, error, variance, RBF(length) + WhiteKernel(0.1))(T) / jump(T) ** 2 for length in ([1, 1e6], [1e6, 1])
    )
    assert np.abs(np.log(sees)).mean() < 0.3 < np.abs(np.log(blind)).mean()


def test_few_rows_have_one_scale():
    X, error, variance = errors(FEW - 1, std=jump)
    scale = fit(X, error, variance)
    assert scale.near is None
    squares = error[:, 0] ** 2 / variance
    assert squares.mean() / 1.2 < scale.mean < squares.mean() * 1.2
    assert_array_equal(scale(X), scale.mean)


def test_very_few_rows_have_a_scale_near_one():
    X, error, variance = errors(1)
    assert 0.75 < fit(X, 0 * error, variance).mean < 1
    assert 1 < fit(X, 0 * error + 2 * np.sqrt(variance[:, None]), variance).mean < 2


def test_no_rows_have_a_scale_of_one():
    X, error, variance = errors(0)
    kernel = compile_kernel(KERNEL, errors(5)[0])
    scale = Scale.fit_each(kernel, X, error[None], variance[None])[0].scale
    assert_array_equal(scale(errors(5)[0]), 1)


def test_errors_of_nothing_leave_a_positive_scale():
    X, error, variance = errors(500)
    assert np.all(fit(X, 0 * error, variance)(X) > 0)


def test_a_few_large_errors_where_there_was_said_to_be_no_noise_are_noise():
    X, error, variance = errors(2000)
    variance *= 1e-4
    error *= 1e-2
    wild = np.arange(0, 2000, 40)
    error[wild, 0] = np.random.default_rng(5).normal(size=len(wild))
    scale = fit(X, error, variance)
    assert scale.extra > 0
    plain = np.square(error[:, 0]).mean()
    assert scale.density > log_densities(error, np.full(2000, plain)).mean()


def test_no_noise_is_added_where_none_is_missing():
    assert fit(*errors(2000)).extra == 0
    assert fit(*errors(2000, std=jump)).extra == 0


def test_what_is_added_is_noise_of_observations_not_of_the_function():
    generator = np.random.default_rng(0)
    X = generator.uniform(-2, 2, (300, 2))
    model = GreedyGPRegressor(KERNEL, hyperparameters="fixed", n_active=20, random_state=0)
    posterior = model.fit(X, np.sin(X[:, 0])).posterior_
    more = replace(posterior, scale=replace(posterior.scale, extra=posterior.scale.extra + 0.5))
    X = X[posterior.novelty(X) <= posterior.scale.far.edge]  # beyond, it is that of an observation far away
    factor = posterior.scale(X[:9])
    for noisy in (False, True):
        (_, less), (_, added) = posterior.mean_and_variance(X[:9], noisy), more.mean_and_variance(X[:9], noisy)
        assert_allclose(added - less, 0.5 * noisy * factor, atol=1e-12)
        (_, less), (_, added) = posterior.mean_and_covariance(X[:9], noisy), more.mean_and_covariance(X[:9], noisy)
        assert_allclose(added - less, np.diag(0.5 * noisy * factor), atol=1e-12)


def test_each_error_is_judged_by_the_others():
    """The density of every error under a scale learnt from the other errors, by brute force."""
    X, error, variance = errors(400, std=jump)
    scale = fit(X, error, variance)
    squares = error[:, 0] ** 2 / variance
    distance = np.square(X[:, None] - X[None]).sum(axis=2)
    expected = []
    for i in range(len(X)):
        near = np.argsort(distance[i])[1 : scale.k + 1]
        local = (squares[near].sum() + scale.strength * scale.mean) / (scale.k + scale.strength)
        expected.append(norm.logpdf(error[i, 0], 0, np.sqrt(local * variance[i])))
    assert scale.density == pytest.approx(np.mean(expected))


def test_at_a_new_place_it_is_the_mean_of_the_nearest_and_of_all():
    X, error, variance = errors(400, std=jump)
    scale, T = fit(X, error, variance), errors(9, seed=1)[0]
    squares = error[:, 0] ** 2 / variance
    for t, found in zip(T, scale(T), strict=True):
        near = np.argsort(np.square(X - t).sum(axis=1))[: scale.k]
        assert found == pytest.approx((squares[near].sum() + scale.strength * scale.mean) / (scale.k + scale.strength))


def test_rows_with_the_same_inputs():
    X, error, variance = errors(200, std=jump)
    scale = fit(np.repeat(X, 5, axis=0), np.repeat(error, 5, axis=0), np.repeat(variance, 5))
    assert np.all(np.isfinite(scale(X)))
    assert np.isfinite(scale.density)


# In the model


def heteroscedastic(n, seed):
    """A smooth function, with noise that grows fivefold from one side to the other."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2, 2, (n, 1))
    return X, np.sin(2 * X[:, 0]) + 0.1 * np.exp(0.4 * (X[:, 0] + 2)) * generator.normal(size=n)


@pytest.fixture(scope="module")
def models():
    """With and without calibration, on the same data."""
    X, y = heteroscedastic(2000, 0)
    kernel = ConstantKernel(1.0) * RBF(0.7) + WhiteKernel(0.1)
    plain = {"n_active": 40, "hyperparameters": "fixed", "random_state": 0, "posterior": Neighbors(64)}
    return [GreedyGPRegressor(kernel, calibrate=calibrate, **plain).fit(X, y) for calibrate in (True, False)]


def test_calibration_changes_no_mean(models):
    calibrated, plain = models
    T, _ = heteroscedastic(300, 1)
    assert_array_equal(calibrated.predict(T), plain.predict(T))
    assert_array_equal(calibrated.active_indices_, plain.active_indices_)
    mean, std = calibrated.predict(T, return_std=True)
    assert_array_equal(mean, plain.predict(T))
    assert not np.allclose(std, plain.predict(T, return_std=True)[1], rtol=0.2)


def test_calibrated_bands_cover_what_they_should_everywhere(models):
    T, y = heteroscedastic(3000, 1)
    ours, theirs = (model.predict(T, return_std=True) for model in models)
    found, without = ([coverage(y[part], mean[part], std[part]) for part in _thirds(T)] for mean, std in (ours, theirs))
    whole = coverage(y, *ours)
    assert 0.92 < whole < 0.98
    assert all(0.92 < share < 0.98 for share in found)
    assert abs(coverage(y, *theirs) - 0.95) > abs(whole - 0.95)
    assert max(abs(share - 0.95) for share in without) > 0.04
    assert nlpd(y, *ours) < nlpd(y, *theirs) - 0.1


def _thirds(T):
    edges = np.quantile(T[:, 0], [0, 1 / 3, 2 / 3, 1])
    return [(T[:, 0] >= low) & (T[:, 0] <= high) for low, high in pairwise(edges)]


def test_bands_of_equal_noise_stay_as_they_are():
    generator = np.random.default_rng(0)
    X = generator.uniform(-2, 2, (3000, 1))
    y = np.sin(2 * X[:, 0]) + 0.3 * generator.normal(size=3000)
    kernel = ConstantKernel(1.0) * RBF(0.7) + WhiteKernel((0.3 / y.std()) ** 2)
    model = GreedyGPRegressor(
        kernel, n_active=40, hyperparameters="fixed", random_state=0, posterior=Neighbors(32)
    ).fit(X, y)
    assert_allclose(model.posterior_.scale(X[::10]), 1, atol=0.1)
