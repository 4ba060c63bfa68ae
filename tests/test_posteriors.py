"""What is concluded from the active rows, against the textbook's dense formulas; samples; and measures of quality."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, WhiteKernel

from helpers import KERNELS
from sodalite import select
from sodalite.kernels import compile_kernel
from sodalite.metrics import coverage, nlpd, rmse
from sodalite.posteriors import POSTERIORS, SubsetOfData, draw, resolve_posterior, sod

NAMES = [
    "usual",
    "two-noises",
    "noise-in-product",
    "noise-by-row",
    "noise-in-power",
    "product-of-three",
    "fixed-noise",
    "own",
    "own-noise",
    "pairwise",
]
kernels = pytest.mark.parametrize("name", NAMES)


def condition(kernel, n=60, m=20, q=2, seed=0):
    """A posterior, the selection that it is given, the inputs and targets, and other rows to predict."""
    generator = np.random.default_rng(seed)
    X, Y = generator.normal(size=(n, 3)), generator.normal(size=(n, q))
    selection = select(X, Y, kernel, n_active=m, first=0)
    posterior = SubsetOfData.condition(compile_kernel(kernel, X), X, Y, selection)
    return posterior, selection, X[selection.indices], Y[selection.indices], generator.normal(size=(13, 3))


def textbook(kernel, X, Y, T, floor=0.0):
    """Equations 2.23 and 2.24 of Rasmussen and Williams (2006), with explicit inverses: mean and latent covariance."""
    K = kernel(X, X)
    noise = np.maximum(kernel.diag(X) - np.diag(K), floor)
    inverse = np.linalg.inv(K + np.diag(noise))
    cross = kernel(T, X)
    return cross @ inverse @ Y, kernel(T, T) - cross @ inverse @ cross.T


@kernels
@pytest.mark.parametrize("q", [1, 3])
def test_mean_variance_and_covariance_are_the_textbooks(name, q):
    kernel = KERNELS[name](3)
    posterior, _, X, Y, T = condition(kernel, q=q)
    for rows in (T, X, np.vstack([T, X, T])):
        mean, cov = textbook(kernel, X, Y, rows)
        tolerance = 1e-9 * np.abs(cov).max()
        assert posterior.mean(rows).shape == (len(rows), q)
        assert_allclose(posterior.mean(rows), mean, atol=1e-9)
        for found in (posterior.mean_and_variance(rows), posterior.mean_and_covariance(rows)):
            assert_allclose(found[0], mean, atol=1e-9)
        assert_allclose(posterior.mean_and_variance(rows)[1], np.diag(cov), atol=tolerance)
        assert_allclose(posterior.mean_and_covariance(rows)[1], cov, atol=tolerance)


@kernels
def test_the_likelihood_is_that_of_a_normal_distribution(name):
    kernel = KERNELS[name](3)
    posterior, _, X, Y, _ = condition(kernel)
    expected = sum(multivariate_normal.logpdf(y, np.zeros(len(y)), kernel(X)) for y in Y.T)
    assert posterior.log_marginal_likelihood == pytest.approx(expected, rel=1e-9)


def test_without_noise_the_floor_is_all_the_noise_that_there_is():
    kernel = Matern([0.5, 0.6, 0.7], nu=1.5)
    posterior, selection, X, Y, T = condition(kernel)
    assert selection.noise_floor == pytest.approx(1e-10)
    mean, cov = textbook(kernel, X, Y, T, floor=selection.noise_floor)
    assert_allclose(posterior.mean(T), mean, atol=1e-8)
    assert_allclose(posterior.mean_and_covariance(T)[1], cov, atol=1e-8)
    assert_allclose(posterior.mean(X), Y, atol=1e-7)
    assert_allclose(posterior.mean_and_variance(X)[1], 0, atol=1e-8)
    expected = sum(multivariate_normal.logpdf(y, np.zeros(len(y)), kernel(X) + 1e-10 * np.eye(20)) for y in Y.T)
    assert posterior.log_marginal_likelihood == pytest.approx(expected, rel=1e-9)


def test_variances_are_never_negative():
    posterior, _, X, _, _ = condition(RBF(3.0), m=40, q=1)
    assert np.all(posterior.mean_and_variance(X)[1] > 0)
    rounded = replace(posterior, factor=(1 - 1e-6) * posterior.factor)  # as if rounding had made it a little too small
    assert_array_equal(rounded.mean_and_variance(X[:5])[1], 0)


def test_one_active_row():
    kernel = RBF(1.0) + WhiteKernel(0.5)
    posterior, _, X, Y, T = condition(kernel, m=1)
    k = RBF(1.0)(T, X)
    assert_allclose(posterior.mean(T), k * Y / 1.5)
    assert_allclose(posterior.mean_and_variance(T)[1], 1 - k[:, 0] ** 2 / 1.5)


@pytest.mark.parametrize("entries", [1, 20, 100, 2**21])
def test_blocks_of_any_size_give_the_same(entries, monkeypatch):
    kernel = KERNELS["usual"](3)
    posterior, _, X, Y, T = condition(kernel)
    monkeypatch.setattr(sod, "BLOCK", entries)
    mean, cov = textbook(kernel, X, Y, T)
    assert_allclose(posterior.mean(T), mean, atol=1e-10)
    assert_allclose(posterior.mean_and_variance(T)[0], mean, atol=1e-10)
    assert_allclose(posterior.mean_and_variance(T)[1], np.diag(cov), atol=1e-10)


def test_the_order_of_the_active_rows_does_not_matter():
    kernel = KERNELS["usual"](3)
    generator = np.random.default_rng(0)
    X, Y, T = generator.normal(size=(30, 3)), generator.normal(size=(30, 2)), generator.normal(size=(9, 3))
    compiled = compile_kernel(kernel, X)
    orders = [generator.permutation(30)[:30] for _ in range(2)]
    one, two = (SubsetOfData.condition(compiled, X, Y, select(X, Y, kernel, n_active=30, first=o)) for o in orders)
    assert_allclose(one.mean(T), two.mean(T), atol=1e-10)
    assert one.log_marginal_likelihood == pytest.approx(two.log_marginal_likelihood, rel=1e-10)


def test_a_posterior_is_frozen():
    posterior, *_ = condition(KERNELS["usual"](3))
    with pytest.raises(FrozenInstanceError):
        posterior.factor = None


def test_a_non_stationary_kernel_far_from_the_origin():
    kernel = DotProduct(1.0) + WhiteKernel(0.1)
    generator = np.random.default_rng(0)
    X, y = 10 + generator.normal(size=(40, 3)), generator.normal(size=(40, 1))
    selection = select(X, y, kernel, n_active=10, first=0)
    posterior = SubsetOfData.condition(compile_kernel(kernel, X), X, y, selection)
    mean, cov = textbook(kernel, X[selection.indices], y[selection.indices], X)
    assert_allclose(posterior.mean(X), mean, atol=1e-7)
    assert_allclose(posterior.mean_and_covariance(X)[1], cov, atol=1e-7)


def test_names():
    assert resolve_posterior("sod") is POSTERIORS["sod"] is SubsetOfData
    with pytest.raises(ValueError, match=r"posterior must be one of 'sod'.*; got 'sd'\. Did you mean 'sod'\?"):
        resolve_posterior("sd")


# Samples


def test_samples_of_a_regular_covariance():
    generator = np.random.default_rng(0)
    A = generator.normal(size=(4, 4))
    mean, cov = np.arange(4.0), A @ A.T
    samples = draw(mean, cov, 100_000, generator)
    assert samples.shape == (4, 100_000)
    size = np.sqrt(np.diag(cov))
    assert_allclose((samples.mean(axis=1) - mean) / size, 0, atol=0.02)
    assert_allclose((np.cov(samples) - cov) / np.outer(size, size), 0, atol=0.02)


def test_samples_of_a_singular_covariance_stay_where_they_must():
    direction = np.array([1.0, -2.0, 0.5])
    mean = np.array([3.0, 3.0, 3.0])
    samples = draw(mean, np.outer(direction, direction), 20_000, np.random.default_rng(0))
    along = (samples - mean[:, None]).T @ direction / (direction @ direction)
    assert_allclose(samples, mean[:, None] + np.outer(direction, along), atol=1e-6)
    assert along.std() == pytest.approx(1, abs=0.03)


def test_samples_where_rounding_made_the_covariance_indefinite():
    cov = np.ones((3, 3)) - 1e-12 * np.eye(3)
    assert np.linalg.eigvalsh(cov)[0] < 0
    samples = draw(np.zeros(3), cov, 1000, np.random.default_rng(0))
    assert np.all(np.isfinite(samples))
    assert_allclose(samples, samples[:1].repeat(3, axis=0), atol=1e-5)


def test_samples_of_no_variance_are_the_mean():
    assert_array_equal(
        draw(np.array([1.0, 2.0]), np.zeros((2, 2)), 3, np.random.default_rng(0)), [[1, 1, 1], [2, 2, 2]]
    )


def test_samples_come_from_the_generator():
    mean, cov = np.zeros(3), np.eye(3)
    one, two, other = (draw(mean, cov, 5, np.random.default_rng(seed)) for seed in (0, 0, 1))
    assert_array_equal(one, two)
    assert not np.array_equal(one, other)


# Measures


def some_predictions(n=200, seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=n), generator.normal(size=n), generator.uniform(0.2, 3, size=n)


def test_rmse():
    assert rmse(np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, 1.0])) == pytest.approx(np.sqrt(8 / 3))
    y, mean, _ = some_predictions()
    assert rmse(y, mean) == rmse(mean, y)
    assert rmse(y, y) == 0


def test_nlpd_is_the_mean_negative_log_density():
    y, mean, std = some_predictions()
    assert nlpd(y, mean, std) == pytest.approx(-norm.logpdf(y, mean, std).mean(), rel=1e-12)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.99])
def test_coverage_is_the_share_inside_the_central_interval(level):
    y, mean, std = some_predictions()
    low, high = norm.interval(level, mean, std)
    assert coverage(y, mean, std, level) == np.mean((low <= y) & (y <= high))
    assert 0 < coverage(y, mean, std, level) < 1


def test_coverage_of_true_predictions_is_its_level():
    generator = np.random.default_rng(0)
    mean, std = generator.normal(size=50_000), generator.uniform(0.2, 3, size=50_000)
    assert coverage(generator.normal(mean, std), mean, std) == pytest.approx(0.95, abs=0.005)
