"""Hyperparameters: the likelihood against scikit-learn's, the search against its promises, and the threads it uses."""

from __future__ import annotations

import threading
from math import inf, log, pi, sqrt
from time import perf_counter

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, WhiteKernel
from threadpoolctl import threadpool_info, threadpool_limits

from helpers import KERNELS, ROUGH, SOUGHT, Indefinite, slopes
from sodalite.core.threads import one_blas_thread, threaded_map
from sodalite.hyperparameters import (
    Fixed,
    Likelihood,
    Subset,
    Task,
    climb,
    climb_all,
    free_parameters,
    log_marginal_likelihood,
    revive,
    starting_points,
)
from sodalite.hyperparameters.likelihood import PANEL
from sodalite.kernels import compile_kernel

kernels = pytest.mark.parametrize("name", KERNELS)
sizes = pytest.mark.parametrize("n", [40, PANEL + 20])


@pytest.fixture(autouse=True)
def one_thread():
    """Small matrices are not worth a second thread."""
    with threadpool_limits(1, user_api="blas"):
        yield


def data(n, d, q=1, seed=0):
    """Rows, and smooth targets with a little noise."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, d))
    return X, np.sin(X @ generator.normal(size=(d, q))) + 0.1 * generator.normal(size=(n, q))


def usual(d=2):
    return SOUGHT["usual"](d)


def likelihood_of(kernel, X, y):
    return log_marginal_likelihood(compile_kernel(kernel, X), X, y.reshape(len(X), -1))


def find(method, X, y, kernel, seed=0):
    """The kernel that a method finds, with how it was found."""
    return method.find(Task(X, y), [kernel], np.random.default_rng(seed))


# The likelihood


@kernels
@sizes
def test_likelihood_equals_scikit_learns(name, n):
    kernel = KERNELS[name](3) + WhiteKernel(0.05)  # noise well above the least, where ours and theirs would differ
    X, y = data(n, 3)
    oracle = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(X, y)
    expected, expected_gradient = oracle.log_marginal_likelihood(kernel.theta, eval_gradient=True)
    value, gradient = likelihood_of(kernel, X, y)
    assert_allclose(value, expected, rtol=1e-7 if "matern-1/2" in name else 1e-9)
    assert gradient.shape == (kernel.n_dims,)
    assert_allclose(gradient, expected_gradient, rtol=0, atol=(1e-4 if name in ROUGH else 1e-6) * n)


@sizes
@pytest.mark.parametrize("name", ["usual", "noise-by-row", "own", "rbf"])
def test_likelihood_with_noise_of_the_rows_own_equals_scikit_learns(name, n):
    kernel = KERNELS[name](3)
    X, y = data(n, 3, q=2)
    alpha = np.random.default_rng(1).uniform(0.02, 1, n)
    oracle = GaussianProcessRegressor(kernel, alpha=alpha, optimizer=None).fit(X, y)
    expected, expected_gradient = oracle.log_marginal_likelihood(kernel.theta, eval_gradient=True)
    value, gradient = log_marginal_likelihood(compile_kernel(kernel, X), X, y, alpha)
    assert_allclose(value, expected, rtol=1e-9)
    assert_allclose(gradient, expected_gradient, rtol=0, atol=1e-6 * n)


@sizes
def test_likelihoods_of_several_targets_add_up_and_the_objective_is_per_target_value(n):
    X, y = data(n, 2, q=3)
    together, gradient = likelihood_of(usual(), X, y)
    apart = [likelihood_of(usual(), X, y[:, [i]]) for i in range(3)]
    assert_allclose(together, sum(value for value, _ in apart), rtol=1e-10)
    assert_allclose(gradient, sum(gradient for _, gradient in apart), rtol=1e-8)
    value, slope = Likelihood(usual(), X, y)(usual().theta)
    assert_allclose(value, together / (3 * n))
    assert_allclose(slope, gradient / (3 * n))


def test_likelihood_of_one_row_is_a_normal_density():
    kernel = ConstantKernel(2.0) * RBF(1.0) + WhiteKernel(0.5)
    value, gradient = likelihood_of(kernel, np.array([[3.0]]), np.array([[1.5]]))
    assert_allclose(value, -0.5 * (1.5**2 / 2.5 + log(2 * pi * 2.5)))
    by_variance = -0.5 * (1 / 2.5 - 1.5**2 / 2.5**2)
    assert_allclose(gradient, [2.0 * by_variance, 0.0, 0.5 * by_variance], atol=1e-12)


@pytest.mark.parametrize(
    "kernel",
    [
        ConstantKernel(2.0) * RBF(1.0),
        ConstantKernel(2.0) * RBF(1.0) + WhiteKernel(1e-13, (1e-14, 1.0)),
        ConstantKernel(2.0) * RBF(1.0) ** 2 + ConstantKernel(0.5),
    ],
)
def test_gradient_holds_where_the_least_noise_is_all_there_is(kernel):
    """Most eigenvalues of a smooth kernel without noise are at the floor, which moves with the kernel's variance."""
    X = np.linspace(-1, 1, 60)[:, None]
    likelihood = Likelihood(kernel, X, np.sin(3 * X))
    _, gradient = likelihood(kernel.theta)
    expected = slopes(lambda theta: likelihood(theta)[0], kernel.theta, step=1e-4)
    assert_allclose(gradient, expected, rtol=1e-2, atol=1e-2)


def test_likelihood_of_what_is_no_covariance_is_minus_infinity():
    kernel = Indefinite(0.5, 0.3)  # on three inputs
    X, y = data(30, 3)
    value, gradient = log_marginal_likelihood(compile_kernel(kernel, X), X, y)
    assert value == -np.inf
    assert_array_equal(gradient, 0)


# The climb


def test_climb_keeps_to_bounds_and_to_the_best_point_seen():
    def hill(theta):
        return -float(np.sum((theta - 3) ** 2)), -2 * (theta - 3)

    bounds = np.array([[-1.0, 2.0], [-1.0, 5.0]])
    top, place = climb(hill, np.zeros(2), bounds, steps=30)
    assert_allclose(place, [2, 3], atol=1e-3)
    assert_allclose(top, hill(place)[0])


def test_climb_returns_the_best_point_seen_and_not_the_last():
    seen = []

    def rough(theta):
        seen.append((-float(theta @ theta) + np.cos(50 * theta.sum() + 4), tuple(theta)))
        return seen[-1][0], -2 * theta  # the gradient knows nothing of the ripples

    top, place = climb(rough, np.array([0.9, 0.2]), np.array([[-5.0, 5.0]] * 2), steps=3)
    assert (top, tuple(place)) == max(seen)


def test_climb_survives_where_there_is_no_likelihood():
    def cliff(theta):
        return (float(theta[0]), np.ones(1)) if theta[0] < 1 else (-np.inf, np.zeros(1))

    top, place = climb(cliff, np.zeros(1), np.array([[-5.0, 5.0]]), steps=20)
    assert 0 <= place[0] < 1
    assert top == place[0]
    top, place = climb(lambda theta: (-np.inf, np.zeros(1)), np.array([0.5]), np.array([[-5.0, 5.0]]), steps=20)
    assert top == -np.inf
    assert_array_equal(place, [0.5])


def test_a_climb_that_is_out_of_time_takes_one_step():
    def hill(theta):
        seen.append(theta)
        return -float(np.sum(np.cosh(theta - 3))), -np.sinh(theta - 3)

    bounds, steps = np.array([[-9.0, 9.0]] * 2), []
    for end in (perf_counter(), perf_counter() + 1000):
        seen = []
        top, place = climb(hill, np.zeros(2), bounds, steps=30, end=end)
        steps.append(len(seen))
        assert top > hill(np.zeros(2))[0]  # a step it is
    assert steps[0] < 5 < steps[1]
    assert_allclose(place, 3, atol=1e-2)


def test_climbs_come_back_the_highest_first():
    def waves(theta):
        return float(np.cos(theta[0]) + 0.1 * theta[0]), np.array([-np.sin(theta[0]) + 0.1])

    starts = [np.array([start]) for start in (0.1, 12.4, 6.2)]
    ends = climb_all(waves, starts, np.array([[-1.0, 14.0]]), steps=30)
    assert_allclose(np.ravel([theta for _, theta in ends]), np.arcsin(0.1) + 2 * pi * np.array([2, 1, 0]), atol=1e-3)
    for value, theta in ends:
        assert value == waves(theta)[0]


# Where to start


@pytest.mark.parametrize("name", SOUGHT)
@pytest.mark.parametrize("count", [1, 2, 12, 30])
def test_starts_are_within_bounds_and_the_kernels_own_comes_first(name, count):
    kernel = SOUGHT[name](3)
    X, y = data(50, 3)
    starts = starting_points(kernel, X, y, count, np.random.default_rng(0))
    assert len(starts) == count
    low, high = kernel.bounds.T
    assert_array_equal(starts[0], np.clip(kernel.theta, low, high))
    for start in starts:
        assert start.shape == (kernel.n_dims,)
        assert np.all((start >= low) & (start <= high))
    again = starting_points(kernel, X, y, count, np.random.default_rng(0))
    assert_array_equal(starts, again)


def test_revived_length_scales_are_where_data_can_tell():
    X, _ = data(100, 3)
    X *= [0.1, 1.0, 10.0]
    kernel = ConstantKernel(1.0) * RBF(np.ones(3)) + WhiteKernel(0.1)
    top = 2 * sqrt(3) * X.std(axis=0)
    theta = np.log([5.0, 1e4, 0.3, 1e5, 0.2])
    revived = revive(theta, kernel, X)
    assert_allclose(np.exp(revived), [5.0, top[0], 0.3, top[2], 0.2])
    assert_allclose(theta, np.log([5.0, 1e4, 0.3, 1e5, 0.2]))  # and the argument is left as it is
    narrow = ConstantKernel(1.0) * RBF(np.ones(3), (20 * top[0], 1e5)) + WhiteKernel(0.1)
    assert np.all(revive(theta, narrow, X) >= narrow.bounds[:, 0])
    shared = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.1)  # by all inputs: it needs none
    assert_allclose(revive(theta[[0, 1, 4]], shared, X), theta[[0, 1, 4]])


@kernels
def test_free_parameters_cover_theta(name):
    kernel = KERNELS[name](3)
    found = free_parameters(kernel)
    assert [i for _, here in found for i in range(here.start, here.stop)] == list(range(kernel.n_dims))
    for part, here in found:
        name = part.removeprefix("periodic_")  # a length-scale that is relative to the period
        values = [value for key, value in kernel.get_params().items() if key.rsplit("__", 1)[-1] == name]
        assert any(np.allclose(np.exp(kernel.theta[here]), value) for value in values)
    names = [name for name, _ in free_parameters(ExpSineSquared(1.4, 2.3) * RBF(2.0))]
    assert [name == "length_scale" for name in names] == [False, False, True]


# Subset and Fixed


@pytest.mark.parametrize("name", SOUGHT)
def test_subset_keeps_to_bounds_and_fixed_parameters(name):
    kernel = SOUGHT[name](2)
    X, y = data(60, 2)
    before, theta = repr(kernel), kernel.theta.copy()
    fitted = find(Subset(n_starts=4), X, y, kernel).kernel
    low, high = kernel.bounds.T
    assert type(fitted) is type(kernel)
    assert_array_equal(fitted.bounds, kernel.bounds)
    assert np.all((fitted.theta >= low - 1e-12) & (fitted.theta <= high + 1e-12))
    assert not np.allclose(fitted.theta, theta)
    for parameter in kernel.hyperparameters:
        if parameter.fixed:
            assert_array_equal(fitted.get_params()[parameter.name], kernel.get_params()[parameter.name])
    assert repr(kernel) == before  # the kernel passed in is not modified
    assert_array_equal(kernel.theta, theta)


@pytest.mark.parametrize("n_screen", [300, 40])
def test_subset_is_determined_by_the_seed(n_screen):
    X, y = data(120, 2)
    method = Subset(n_rows=80, n_starts=5, n_screen=n_screen)
    first, second, other = (find(method, X, y, usual(), seed).kernel for seed in (0, 0, 1))
    assert_array_equal(first.theta, second.theta)
    assert not np.array_equal(first.theta, other.theta)


@pytest.mark.parametrize("n_screen", [300, 60, 20])
@pytest.mark.parametrize("seed", [3, 5])
def test_subset_is_never_less_likely_than_the_start(n_screen, seed):
    """Not even if the start is the truth, and the rows that starts are screened on are too few to tell."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2, 2, size=(200, 6))
    start = ConstantKernel(1.0) * RBF([1.0, 1.5, 5.0, 5.0, 50.0, 50.0]) + WhiteKernel(0.01)
    y = np.linalg.cholesky(start(X)) @ generator.normal(size=200)
    fitted = find(Subset(n_starts=4, n_screen=n_screen), X, y, start).kernel
    likelihood = Likelihood(start, X, y)
    assert likelihood(fitted.theta)[0] >= likelihood(start.theta)[0] - 1e-9


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_subset_finds_the_kernel_that_the_data_came_from(scale):
    """To a factor of two, from a start that is far off, whatever the units of the inputs."""
    truth = ConstantKernel(2.0) * RBF([0.6, 1.8]) + WhiteKernel(0.05)
    generator = np.random.default_rng(0)
    X = generator.uniform(-3, 3, size=(400, 2))
    y = np.linalg.cholesky(truth(X)) @ generator.normal(size=400)
    wide = (1e-8 * scale, 1e5 * scale)
    start = ConstantKernel(30.0) * RBF([10 * scale, 10 * scale], wide) + WhiteKernel(2.0)
    fitted = find(Subset(n_rows=400, n_screen=150), scale * X, y, start).kernel
    ratio = np.exp(fitted.theta - truth.theta) / [1, scale, scale, 1]
    assert np.all((ratio[1:] > 0.5) & (ratio[1:] < 2))


def test_subset_of_several_targets_shares_a_kernel():
    X, y = data(100, 2, q=3)
    method = Subset(n_starts=3)
    one, three = (find(method, X, targets, usual()).kernel for targets in (y[:, 0], y))
    column = find(method, X, y[:, :1], usual()).kernel
    assert_array_equal(one.theta, column.theta)
    likelihood = Likelihood(usual(), X, y)
    assert likelihood(three.theta)[0] > likelihood(one.theta)[0]


def test_subset_out_of_time_ends_with_the_best_that_it_has_seen(monkeypatch):
    X, y = data(120, 2, q=1)
    seen = []
    evaluate = Likelihood.__call__
    monkeypatch.setattr(Likelihood, "__call__", lambda self, theta: seen.append(1) or evaluate(self, theta))
    counts, values = [], []
    for seconds in (0.0, inf):
        seen.clear()
        found = Subset().find(Task(X, y, seconds=seconds), [usual()], np.random.default_rng(0))
        counts.append(len(seen))
        values.append(found.rounds[-1].objective)
    assert counts[0] < 0.5 * counts[1]
    assert Likelihood(usual(), X, y)(usual().theta)[0] < values[0] < values[1]


def test_subset_looks_at_no_more_rows_than_it_is_given():
    X, y = data(90, 2)
    rows = np.random.default_rng(0).permutation(90)[:50]
    X[np.setdiff1d(np.arange(90), rows)] = np.nan
    fitted = find(Subset(n_rows=50, n_starts=2), X, y, usual()).kernel
    assert np.all(np.isfinite(fitted.theta))


@pytest.mark.parametrize("value", [0.0, 3.0])
@pytest.mark.parametrize("n", [1, 2, 50])
def test_subset_of_constant_targets(value, n):
    X, _ = data(n, 2)
    fitted = find(Subset(n_starts=4), X, np.full(n, value), usual()).kernel
    low, high = usual().bounds.T
    assert np.all((fitted.theta >= low - 1e-12) & (fitted.theta <= high + 1e-12))


@pytest.mark.parametrize("method", [Subset(n_starts=3), Subset(n_rows=30, n_starts=3, n_screen=9)])
def test_subset_of_constant_and_duplicated_rows(method):
    X, y = np.ones((40, 2)), np.random.default_rng(0).normal(size=40)
    fitted = find(method, X, y, usual()).kernel
    assert 0.5 < fitted.k2.noise_level / np.var(y) < 2  # equal rows with different targets: all of it is noise


@pytest.mark.parametrize("name", ["constant", "constant-with-noise", "noise-in-product", "own", "pairwise"])
def test_subset_takes_any_kernel(name):
    X, y = data(40, 2)
    kernel = KERNELS[name](2)
    fitted = find(Subset(n_starts=2), X, y, kernel).kernel
    likelihood = Likelihood(kernel, X, y)
    assert likelihood(fitted.theta)[0] >= likelihood(kernel.theta)[0]


@pytest.mark.parametrize(("method", "name"), [(Subset(), "all-fixed"), *((Fixed(), name) for name in KERNELS)])
def test_what_is_not_sought_comes_back_as_an_equal_kernel(method, name):
    kernel = KERNELS[name](2)
    fitted = find(method, *data(20, 2), kernel).kernel
    assert fitted == kernel
    assert fitted is not kernel
    assert_array_equal(fitted.theta, kernel.theta)


# Threads


def thread_counts():
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def two_threads(one_thread):
    with threadpool_limits(2, user_api="blas"):
        yield thread_counts()


def test_thread_counts_are_restored_after_nesting_and_errors(two_threads):
    with one_blas_thread():
        with one_blas_thread():
            assert set(thread_counts().values()) == {1}
        assert set(thread_counts().values()) == {1}
    assert thread_counts() == two_threads
    assert set(two_threads.values()) == {2}
    with pytest.raises(KeyError), one_blas_thread(), one_blas_thread():
        raise KeyError
    assert thread_counts() == two_threads


def test_thread_counts_are_restored_after_threads_that_overlap(two_threads):
    first_in, second_in = threading.Event(), threading.Event()

    def first():
        with one_blas_thread():
            first_in.set()
            second_in.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    first_in.wait(10)
    with one_blas_thread():
        second_in.set()
        thread.join()
        assert set(thread_counts().values()) == {1}
    assert thread_counts() == two_threads


def test_threaded_map_keeps_the_order_passes_errors_on_and_may_be_nested(two_threads):
    items = list(range(20))
    late = threading.Event()

    def square(item):
        if item == 0:
            late.wait(0.05)  # the first is the last to finish
        return item * item

    assert threaded_map(square, items) == [item * item for item in items]
    assert threaded_map(square, []) == []
    assert threaded_map(square, [3]) == [9]
    with pytest.raises(ZeroDivisionError):
        threaded_map(lambda item: item / 0, [1, 2, 3])
    table = threaded_map(lambda i: threaded_map(lambda j: 10 * i + j, [1, 2, 3]), [1, 2])
    assert table == [[11, 12, 13], [21, 22, 23]]
    assert thread_counts() == two_threads
