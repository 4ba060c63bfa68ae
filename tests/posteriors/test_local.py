"""Each query given the active rows and its neighbours: the exact Gaussian process on those rows, query by query."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, ExpSineSquared, Matern, WhiteKernel

import dense
from dense import given
from helpers import KERNELS, campaign
from sodalite import GreedyGPRegressor
from sodalite.posteriors import Judging, Local, Neighbors, SubsetOfData, local
from sodalite.posteriors.tuning import SIZES, fewest

# With a metric, and without one: then the covariance says what is near.
CASES = {
    "usual": (KERNELS["usual"](3), 3),
    "two-noises": (KERNELS["two-noises"](3), 3),
    "noise-in-power": (KERNELS["noise-in-power"](3), 3),
    "fixed-noise": (KERNELS["fixed-noise"](9), 9),
    "periodic": (ConstantKernel(1.5) * ExpSineSquared(1.4, 2.3) + WhiteKernel(0.1), 1),
    "dot-product": (DotProduct(0.6) + WhiteKernel(0.2), 3),
    "noise-by-row": (KERNELS["noise-by-row"](3), 3),
    "own": (KERNELS["own"](3), 3),
}
cases = pytest.mark.parametrize("name", CASES)


def data(d, n=60, q=2, copies=1, seed=0):
    """Rows, each as often as `copies` says, their targets, and other rows to predict."""
    generator = np.random.default_rng(seed)
    X = generator.permutation(np.repeat(generator.normal(size=(n // copies, d)), copies, axis=0))
    return X, generator.normal(size=(n, q)), generator.normal(size=(11, d))


def remainder_of(evidence):
    return np.setdiff1d(np.arange(len(evidence.rows.X)), evidence.selection.indices)


def near(kernel, evidence, T, k):
    """For every row of T, the rows of the remainder that are at its k nearest places, by a plain sort."""
    rest = remainder_of(evidence)
    places, group = np.unique(evidence.rows.X[rest], axis=0, return_inverse=True)
    weights = evidence.kernel.metric()
    found = []
    for t in T:
        if weights is not None:
            distance = np.sum(weights * (places - t) ** 2, axis=1)
        else:
            distance = np.diag(kernel(places, places)) - 2 * kernel(t[None], places)[0]
        nearest = np.argsort(distance, kind="stable")[:k]
        found.append(rest[np.isin(group.ravel(), nearest)])
    return found


def noise_of(kernel, evidence):
    return dense.noise_of(kernel, evidence.rows.X, evidence.rows.alpha, evidence.selection.noise_floor)


def exact(kernel, evidence, rows, T):
    """The exact Gaussian process given some rows: mean and latent covariance."""
    return dense.exact(kernel, evidence.rows.X[rows], evidence.rows.y[rows], T, noise_of(kernel, evidence)[rows])[:2]


def compare_query_by_query(posterior, kernel, evidence, T, k, tolerance=1e-8):
    mean, variance = posterior.mean_and_variance(T)
    assert_allclose(posterior.mean(T), mean, atol=1e-12)
    noise = dense.noise_of(kernel, T)
    assert_allclose(posterior.mean_and_variance(T, noisy=True)[1], variance + noise, rtol=1e-12)
    for i, rows in enumerate(near(kernel, evidence, T, k)):
        rows = np.concatenate([evidence.selection.indices, rows])
        expected, cov = exact(kernel, evidence, rows, T[[i]])
        assert_allclose(mean[i], expected[0], atol=tolerance)
        assert_allclose(variance[i], cov[0, 0], atol=tolerance * kernel.diag(T).max())


# The exact Gaussian process on the active rows and the neighbours


@cases
@pytest.mark.parametrize("k", [1, 6, 30])
def test_every_query_is_given_its_nearest_rows(name, k):
    kernel, d = CASES[name]
    X, Y, T = data(d)
    evidence = given(kernel, X, Y, 12, n_neighbors=k)
    compare_query_by_query(Local.condition(evidence), kernel, evidence, T, k)


@cases
@pytest.mark.parametrize("k", [48, 10**6])
def test_with_all_rows_as_neighbours_it_is_the_exact_gaussian_process(name, k):
    kernel, d = CASES[name]
    X, Y, T = data(d)
    posterior = Local.condition(given(kernel, X, Y, 12, n_neighbors=k))
    theirs = GaussianProcessRegressor(kernel, alpha=1e-14, optimizer=None).fit(X, Y)
    for rows in (T, X):
        mean, cov = theirs.predict(rows, return_cov=True)
        size = 1e-8 * cov.max()
        assert_allclose(posterior.mean(rows), mean, atol=1e-8)
        assert_allclose(posterior.mean_and_variance(rows, noisy=True)[1], np.diag(cov[..., 0]), atol=size)
        found, joint = posterior.mean_and_covariance(rows, noisy=True)
        assert_allclose(found, mean, atol=1e-8)
        assert_allclose(joint, cov[..., 0], atol=size)


@cases
@pytest.mark.parametrize("k", [3, 8])
def test_rows_with_the_same_inputs_are_one_neighbour(name, k):
    """And nothing is lost by that: given all their targets, with noise of their own, it is the same."""
    kernel, d = CASES[name]
    X, Y, T = data(d, copies=4)
    alpha = np.random.default_rng(1).uniform(0, 1, len(X))
    evidence = given(kernel, X, Y, 9, alpha=alpha, n_neighbors=k)
    posterior = Local.condition(evidence)
    assert len(posterior.X) == len(np.unique(X[remainder_of(evidence)], axis=0))
    compare_query_by_query(posterior, kernel, evidence, T, k)


@cases
def test_queries_that_are_training_rows(name):
    kernel, d = CASES[name]
    X, Y, _ = data(d)
    evidence = given(kernel, X, Y, 12, n_neighbors=5)
    compare_query_by_query(Local.condition(evidence), kernel, evidence, X[::3], 5)


@cases
def test_known_noise(name):
    kernel, d = CASES[name]
    X, Y, T = data(d)
    alpha = np.random.default_rng(1).uniform(0, 3, len(X)) * (np.arange(len(X)) % 2)
    evidence = given(kernel, X, Y, 12, alpha=alpha, n_neighbors=6)
    compare_query_by_query(Local.condition(evidence), kernel, evidence, T, 6)


def test_without_noise():
    kernel = Matern([0.5, 0.6, 0.7], nu=1.5)
    X, Y, T = data(3)
    evidence = given(kernel, X, Y, 12, n_neighbors=6)
    posterior = Local.condition(evidence)
    compare_query_by_query(posterior, kernel, evidence, T, 6, tolerance=1e-7)
    assert_allclose(posterior.mean(X), Y, atol=1e-6)
    assert np.all(posterior.mean_and_variance(X)[1] >= 0)


@cases
@pytest.mark.parametrize("k", [2, 7])
def test_joint_covariances_are_given_all_queries_neighbours(name, k):
    kernel, d = CASES[name]
    X, Y, T = data(d)
    evidence = given(kernel, X, Y, 12, n_neighbors=k)
    posterior = Local.condition(evidence)
    union = np.unique(np.concatenate(near(kernel, evidence, T, k)))
    expected, cov = exact(kernel, evidence, np.concatenate([evidence.selection.indices, union]), T)
    mean, found = posterior.mean_and_covariance(T)
    assert_allclose(mean, expected, atol=1e-8)
    assert_allclose(found, cov, atol=1e-8 * np.abs(cov).max())
    assert_array_equal(found, found.T)
    noisy = posterior.mean_and_covariance(T, noisy=True)[1]
    assert_allclose(noisy, found + np.diag(dense.noise_of(kernel, T)), atol=1e-12)
    one = posterior.mean_and_covariance(T[:1])
    assert_allclose(one[1][0, 0], posterior.mean_and_variance(T[:1])[1][0], rtol=1e-8)


# How it is computed


@cases
def test_whether_coordinates_are_kept_changes_nothing(name):
    kernel, d = CASES[name]
    X, Y, T = data(d, copies=2)
    made = [Local.condition(given(kernel, X, Y, 12, calibrate=True, memory_limit=limit)) for limit in ("1GB", 1)]
    kept, evaluated = made
    assert kept.remainder.V is not None
    assert evaluated.remainder.V is None
    assert kept.k == evaluated.k
    for found, expected in zip(evaluated.mean_and_covariance(T), kept.mean_and_covariance(T), strict=True):
        assert_allclose(found, expected, atol=1e-10)
    for found, expected in zip(evaluated.mean_and_variance(T), kept.mean_and_variance(T), strict=True):
        assert_allclose(found, expected, atol=1e-10)


def test_neighbours_that_queries_share_are_projected_once():
    kernel, d = CASES["usual"]
    X, Y, T = data(d, n=200)
    posterior = Local.condition(given(kernel, X, Y, 12, n_neighbors=5, memory_limit=1))
    asked = []
    expected, base = posterior.mean(T), posterior.base
    posterior.remainder.base = replace(base, kernel=Counting(posterior.kernel, asked))
    assert_allclose(posterior.mean(np.repeat(T, 40, axis=0)), np.repeat(expected, 40, axis=0), atol=1e-12)
    places = len(np.unique(posterior.near.query(T, 5)))
    assert places in asked
    assert 440 * 5 not in asked


def test_the_fewest_neighbours_are_as_good_as_the_best_in_density_and_in_error():
    assert fewest([1.0, 1.004, 1.006, 1.007], [0.1, 0.1, 0.1, 0.1]) == 1
    assert fewest([1.004, 1.004, 1.006, 1.007], [0.2, 0.1004, 0.1, 0.1]) == 1  # the first is as dense, and errs more
    assert fewest([1.0, 1.1, 1.0], [0.1, 0.2, 0.1]) == 1


def test_more_rows_calibrate_once_k_is_chosen(monkeypatch):
    """Variances are learnt from a third of the rows, or as many as the work allows, if k is chosen by fewer."""
    kernel, d = CASES["usual"]
    X, Y, T = data(d, n=600)
    monkeypatch.setattr("sodalite.posteriors.tuning.N_JUDGED", 100)
    for work, count in ((1e12, 200), (150 * 64 * 20, 150), (10, 100)):
        monkeypatch.setattr("sodalite.posteriors.tuning.JUDGE_WORK", work)
        made = Local.condition(given(kernel, X, Y, 12, calibrate=True, n_neighbors=8))
        assert len(made.scale.nearby.X) == count
        mean, variance = made.mean_and_variance(T, noisy=True)
        assert np.isfinite(mean).all()
        assert (variance > 0).all()


def test_coordinates_are_the_product_with_the_inverse_of_the_factor():
    kernel, d = CASES["usual"]
    X, Y, T = data(d)
    base = Local.condition(given(kernel, X, Y, 12)).base
    K = base.covariances(T)[1]
    for some in (K, np.asfortranarray(K), K[:, :1], K[:, :0]):
        assert_allclose(base.projected(some), base.inverse @ some, atol=1e-13)


class Counting:
    """A compiled kernel that notes how many columns of k(I, .) it is asked for."""

    def __init__(self, kernel, asked):
        self.kernel, self.asked = kernel, asked

    def __getattr__(self, name):
        return getattr(self.kernel, name)

    def block(self, a, b, out=None):
        K = self.kernel.block(a, b, out)
        if K.ndim == 2:
            self.asked.append(K.shape[1])
        return K


# Predicting each observation from all others


def left_out(kernel, evidence, i, size):
    """What scikit-learn's Gaussian process says of observation i, given the others among the active rows and those at
    its size + 1 nearest places, of which its own is one unless it is active.
    """
    X, Y, alpha = evidence.rows.X, evidence.rows.y, evidence.rows.alpha
    rows = np.concatenate([evidence.selection.indices, near(kernel, evidence, X[[i]], size + 1)[0]])
    rows = rows[rows != i]
    alpha = np.full(len(X), 1e-14) if alpha is None else alpha + 1e-14
    model = GaussianProcessRegressor(kernel, alpha=alpha[rows], optimizer=None).fit(X[rows], Y[rows])
    mean, std = model.predict(X[[i]], return_std=True)
    return Y[i] - mean[0], np.ravel(std)[0] ** 2 + alpha[i]


@cases
@pytest.mark.parametrize(("copies", "known"), [(1, False), (3, True), campaign(1, True), campaign(3, False)])
def test_leaving_one_out_is_fitting_without_it(name, copies, known):
    """Rows of the remainder, alone and with others of the same inputs, and active rows."""
    kernel, d = CASES[name]
    X, Y, _ = data(d, n=48, copies=copies)
    alpha = np.random.default_rng(1).uniform(0, 1, len(X)) if known else None
    evidence = given(kernel, X, Y, 10, alpha=alpha)
    posterior, every = Local.prepare(evidence), evidence.take(np.arange(48))
    sizes = (1, 4, 100)
    error, variance = posterior.own_errors(every, sizes)
    assert error.shape == (3, 48, 2)
    assert variance.shape == (3, 48)
    some = np.concatenate([evidence.selection.indices[:3], remainder_of(evidence)[:9]])
    for at, size in enumerate(sizes):
        for i in some:
            expected, expected_variance = left_out(kernel, evidence, i, size)
            assert_allclose(error[at, i], expected, atol=1e-6)
            assert_allclose(variance[at, i], expected_variance, rtol=1e-6)
    once = replace(posterior, k=4).left_out(every)
    assert_allclose(once.mean, Y - error[1], atol=1e-9)
    assert_allclose(once.variance + every.noise, variance[1], rtol=1e-9)


def test_leaving_one_out_of_a_sample_and_in_blocks(monkeypatch):
    kernel, d = CASES["usual"]
    X, Y, _ = data(d, copies=2)
    evidence = given(kernel, X, Y, 10)
    posterior = Local.prepare(evidence)

    def errors(rows):
        return [found[0] for found in posterior.own_errors(evidence.take(rows), (5,))]

    error, variance = errors(np.arange(len(X)))
    rows = np.array([3, 40, 17])
    for found, expected in zip(errors(rows), (error[rows], variance[rows]), strict=True):
        assert_allclose(found, expected, rtol=1e-10)
    monkeypatch.setattr(local, "WORK", 1)
    for found, expected in zip(errors(np.arange(len(X))), (error, variance), strict=True):
        assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_the_rows_that_judge_are_drawn_without_replacement_and_stay_the_same():
    X, Y, _ = data(3)
    evidence, other = (replace(given(CASES["usual"][0], X, Y, 10), judging=Judging(seed=seed)) for seed in (1, 2))
    some = evidence.judged(20)
    assert len(np.unique(some)) == 20
    assert_array_equal(some, evidence.judged(20))
    assert set(some) <= set(evidence.judged(30))
    assert_array_equal(evidence.judged(10**6), np.arange(60))
    assert not np.array_equal(some, other.judged(20))


@pytest.mark.parametrize("noise", [0.01, 1.0])
def test_there_are_as_few_neighbours_as_predict_well(noise):
    generator = np.random.default_rng(0)
    X = generator.uniform(-3, 3, (600, 2))
    Y = np.sin(2 * X[:, :1]) + np.sqrt(noise) * generator.normal(size=(600, 1))
    evidence = given(RBF(0.7) + WhiteKernel(noise), X, Y, 8)
    posterior = Local.condition(evidence)
    error, variance = Local.prepare(evidence).own_errors(evidence.take(np.arange(600)), SIZES)
    density = -0.5 * np.mean(error[..., 0] ** 2 / variance + np.log(variance), axis=1)
    enough = SIZES[int(np.flatnonzero(density >= density.max() - 0.005)[0])]
    assert posterior.k == enough
    assert 8 < enough <= 64


# Few rows


@cases
@pytest.mark.parametrize("m", [40, 1000])
@pytest.mark.parametrize("calibrate", [False, True])
def test_without_a_remainder_it_is_the_subset_of_data(name, m, calibrate):
    kernel, d = CASES[name]
    X, Y, T = data(d, n=40)
    evidence = given(kernel, X, Y, m, calibrate=calibrate)
    found, expected = Local.condition(evidence), SubsetOfData.condition(evidence)
    assert found.k == 0
    assert_allclose(found.mean(T), expected.mean(T), atol=1e-12)
    for ours, plain in zip(found.mean_and_covariance(T), expected.mean_and_covariance(T), strict=True):
        if not calibrate:
            assert_allclose(ours, plain, atol=1e-12)
        else:
            assert ours.shape == plain.shape
    assert found.log_marginal_likelihood == expected.log_marginal_likelihood
    rows = evidence.take(np.arange(40))
    left = found.left_out(rows)
    for i in (0, 17):
        mean, cov = exact(kernel, evidence, np.delete(np.arange(40), i), X[[i]])
        assert_allclose(left.mean[i], mean[0], atol=1e-6)
        assert_allclose(left.variance[i] + rows.noise[i], cov[0, 0] + noise_of(kernel, evidence)[i], rtol=1e-6)


@pytest.mark.parametrize("name", ["usual", "fixed-noise", "periodic", "own"])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 1), (2, 2), (3, 2)])
def test_very_few_rows(name, n, m):
    kernel, d = CASES[name]
    X, Y, T = data(d, n=n)
    for k in (None, 1, 5):
        evidence = given(kernel, X, Y, m, n_neighbors=k, calibrate=True)
        posterior = Local.condition(evidence)
        assert posterior.scale is not None
        plain = replace(posterior, scale=None)
        compare_query_by_query(plain, kernel, evidence, T, posterior.k)
        assert np.all(posterior.mean_and_variance(T)[1] > 0)


def test_one_active_row():
    kernel, d = CASES["usual"]
    X, Y, T = data(d)
    evidence = given(kernel, X, Y, 1, n_neighbors=7)
    compare_query_by_query(Local.condition(evidence), kernel, evidence, T, 7)


@pytest.mark.parametrize("constant", [0.0, 1e5])
def test_constant_columns(constant):
    kernel = KERNELS["two-noises"](3)
    X, Y, T = data(2)
    padded, queries = (np.insert(rows, 1, constant, axis=1) for rows in (X, T))
    plain, found = (Local.condition(given(kernel, rows, Y, 12, n_neighbors=6)) for rows in (X, padded))
    for ours, expected in zip(found.mean_and_variance(queries), plain.mean_and_variance(T), strict=True):
        assert_allclose(ours, expected, atol=1e-9)


def test_all_rows_the_same():
    kernel = KERNELS["two-noises"](2)
    X, Y = np.ones((50, 2)), np.random.default_rng(0).normal(size=(50, 1))
    evidence = given(kernel, X, Y, 5, calibrate=True)
    posterior = replace(Local.condition(evidence), scale=None)
    assert len(posterior.X) == 1
    mean, cov = exact(kernel, evidence, np.arange(50), X[:1])
    assert_allclose(posterior.mean(X[:1]), mean, atol=1e-9)
    assert_allclose(posterior.mean_and_variance(X[:1])[1], cov[0], atol=1e-9)


# The estimator


def test_the_estimator_predicts_by_it():
    kernel, d = CASES["usual"]
    X, Y, T = data(d, q=1)
    y = 30 * Y[:, 0] - 4
    plain = {"n_active": 12, "hyperparameters": "fixed", "criterion": "delta", "posterior": Neighbors(5)}
    model = GreedyGPRegressor(kernel, calibrate=False, **plain).fit(X, y, first=0)
    scaled = ((y - y.mean()) / y.std())[:, None]
    posterior = Local.condition(given(kernel, X, scaled, 12, n_neighbors=5))
    mean, std = model.predict(T, return_std=True)
    expected, variance = posterior.mean_and_variance(T, noisy=True)
    assert_allclose(mean, expected[:, 0] * y.std() + y.mean(), rtol=1e-10)
    assert_allclose(std, np.sqrt(variance) * y.std(), rtol=1e-10)
    assert model.posterior_.k == 5
    assert not model.posterior_.scale.widths


def test_the_scale_multiplies_variances_and_nothing_else():
    kernel, d = CASES["usual"]
    X, Y, T = data(d)
    posterior = Local.condition(given(kernel, X, Y, 12, n_neighbors=5))
    scaled = replace(posterior, scale=Steps())
    factor = Steps()(T)
    for noisy in (False, True):
        mean, variance = posterior.mean_and_variance(T, noisy)
        found = scaled.mean_and_variance(T, noisy)
        assert_array_equal(found[0], mean)
        assert_allclose(found[1], factor * variance)
        mean, cov = posterior.mean_and_covariance(T, noisy)
        found = scaled.mean_and_covariance(T, noisy)
        assert_array_equal(found[0], mean)
        assert_allclose(found[1], np.sqrt(np.outer(factor, factor)) * cov, atol=1e-12)
    assert_array_equal(scaled.mean(T), posterior.mean(T))


class Steps:
    """4 where the first input is positive, else 1."""

    far = None

    def most(self, prior):
        return None

    def error_bars(self, X, variance, novelty, prior):
        return np.sqrt(variance * self(X)), np.zeros((len(X), 0))

    def __call__(self, X):
        return np.where(X[:, 0] > 0, 4.0, 1.0)
