"""What is concluded from the active rows, against the textbook's dense formulas; samples; and measures of quality."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern, WhiteKernel

import dense
from dense import given
from helpers import DTYPES, KERNELS, POSTERIORS, PROJECTED, campaign
from sodalite.core import threads
from sodalite.metrics import coverage, nlpd, rmse
from sodalite.posteriors import Evidence, SubsetOfData, base, draw, local, resolve_posterior

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
]
kernels = pytest.mark.parametrize("name", NAMES)
posteriors = pytest.mark.parametrize("kind", POSTERIORS)


def data(n=60, q=2, seed=0):
    """Rows, targets, and other rows to predict."""
    generator = np.random.default_rng(seed)
    return generator.normal(size=(n, 3)), generator.normal(size=(n, q)), generator.normal(size=(13, 3))


def condition(kernel, kind="sod", m=20, q=2, **options):
    """A posterior, the evidence for it, and other rows to predict."""
    X, Y, T = data(q=q)
    evidence = given(kernel, X, Y, m, **options)
    return POSTERIORS[kind].condition(evidence), evidence, T


def textbook(kind, kernel, evidence, T):
    """Mean, latent covariance and log evidence by the dense formulas."""
    X, Y, active = evidence.rows.X, evidence.rows.y, evidence.selection.indices
    noise = dense.noise_of(kernel, X, evidence.rows.alpha, evidence.selection.noise_floor)
    if kind == "sod":
        return dense.exact(kernel, X[active], Y[active], T, noise[active])
    return dense.projected(kind, kernel, X, Y, T, noise, active)


def compare(posterior, expected, T, tolerance):
    """All that a posterior says of some rows, with the dense formulas' mean and covariance."""
    mean, cov = expected[:2]
    size = tolerance * np.abs(cov).max()
    noise = posterior.kernel.noise(posterior.kernel.prepare(T))
    assert posterior.mean(T).shape == mean.shape
    assert_allclose(posterior.mean(T), mean, atol=tolerance)
    for found in (posterior.mean_and_variance(T), posterior.mean_and_covariance(T)):
        assert_allclose(found[0], mean, atol=tolerance)
    assert_allclose(posterior.mean_and_variance(T)[1], np.diag(cov), atol=size)
    assert_allclose(posterior.mean_and_variance(T, noisy=True)[1], np.diag(cov) + noise, atol=size)
    assert_allclose(posterior.mean_and_covariance(T)[1], cov, atol=size)
    assert_allclose(posterior.mean_and_covariance(T, noisy=True)[1], cov + np.diag(noise), atol=size)


# Against the dense formulas


@pytest.mark.parametrize(("kind", "name"), [*product(("sod", *PROJECTED), NAMES), ("sod", "pairwise")])
@pytest.mark.parametrize("q", [3, campaign(1)])
def test_mean_variance_covariance_and_evidence_are_the_textbooks(kind, name, q):
    kernel = KERNELS[name](3)
    posterior, evidence, T = condition(kernel, kind, q=q)
    active = evidence.rows.X[evidence.selection.indices]
    for rows in (T, active, np.vstack([T, active, T])):
        expected = textbook(kind, kernel, evidence, rows)
        compare(posterior, expected, rows, 1e-8 if kind == "sod" else 1e-6)
        assert posterior.log_marginal_likelihood == pytest.approx(expected[2], rel=1e-9 if kind == "sod" else 1e-7)


@pytest.mark.parametrize("kind", ["sod", *PROJECTED])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["usual", "noise-by-row", "own"])
def test_rows_with_noise_of_their_own(kind, name, dtype):
    kernel = KERNELS[name](3)
    alpha = np.random.default_rng(5).uniform(0, 2, 60) * (np.arange(60) % 3 > 0)
    posterior, evidence, T = condition(kernel, kind, alpha=alpha, dtype=dtype)
    expected = textbook(kind, kernel, evidence, T)
    compare(posterior, expected, T, 1e-6)
    assert posterior.log_marginal_likelihood == pytest.approx(expected[2], rel=1e-6)
    without = POSTERIORS[kind].condition(replace(evidence, rows=replace(evidence.rows, alpha=None)))
    assert kind == "sod" or np.abs(without.mean(T) - posterior.mean(T)).max() > 1e-3


@pytest.mark.parametrize("kind", ["sod", *PROJECTED])
def test_without_noise_the_floor_is_all_the_noise_that_there_is(kind):
    kernel = Matern([0.5, 0.6, 0.7], nu=1.5)
    posterior, evidence, T = condition(kernel, kind)
    assert evidence.selection.noise_floor == pytest.approx(1e-10)
    expected = textbook(kind, kernel, evidence, T)
    lost = 1e-8 if kind == "sod" else 1e-5  # by the dense formulas: n x n matrices of rank m, and 1e-10 of noise
    assert_allclose(posterior.mean(T), expected[0], atol=10 * lost)
    assert_allclose(posterior.mean_and_covariance(T)[1], expected[1], atol=lost)
    if kind == "sod":
        active = evidence.selection.indices
        assert_allclose(posterior.mean(evidence.rows.X[active]), evidence.rows.y[active], atol=1e-7)
        assert_allclose(posterior.mean_and_variance(evidence.rows.X[active])[1], 0, atol=1e-8)
        assert posterior.log_marginal_likelihood == pytest.approx(expected[2], rel=1e-9)


# Where theory says that they agree


@posteriors
@pytest.mark.parametrize("name", ["usual", "noise-by-row", "product-of-three", "own"])
def test_with_every_row_active_all_are_the_exact_gaussian_process(kind, name):
    kernel = KERNELS[name](3)
    X, Y, T = data(n=40)
    posterior = POSTERIORS[kind].condition(given(kernel, X, Y, 40))
    theirs = GaussianProcessRegressor(kernel, alpha=1e-14, optimizer=None).fit(X, Y)
    assert_allclose(posterior.mean(T), theirs.predict(T), atol=1e-6)
    rows = X if kind == "sor" else np.vstack([T, X])  # elsewhere, what the rows' covariances cannot express is lost
    mean, cov = theirs.predict(rows, return_cov=True)
    compare(posterior, (mean, cov[..., 0] - np.diag(dense.noise_of(kernel, rows))), rows, 1e-6)
    assert posterior.log_marginal_likelihood == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-6)


@kernels
def test_dtc_has_the_mean_of_sor_and_the_prediction_of_vfe(name):
    X, Y, T = data()
    evidence = given(KERNELS[name](3), X, Y, 15)
    sor, dtc, vfe = (POSTERIORS[kind].condition(evidence) for kind in ("sor", "dtc", "vfe"))
    assert_array_equal(dtc.mean(T), sor.mean(T))
    assert_array_equal(dtc.mean(T), vfe.mean(T))
    assert_array_equal(dtc.mean_and_covariance(T)[1], vfe.mean_and_covariance(T)[1])
    assert dtc.log_marginal_likelihood == sor.log_marginal_likelihood > vfe.log_marginal_likelihood


@kernels
def test_the_variance_of_sor_never_exceeds_that_of_dtc(name):
    X, Y, T = data()
    T = np.vstack([T, 30 * T])
    evidence = given(KERNELS[name](3), X, Y, 15)
    sor, dtc = (POSTERIORS[kind].condition(evidence).mean_and_variance(T)[1] for kind in ("sor", "dtc"))
    assert np.all(sor <= dtc * (1 + 1e-12))
    assert np.all(sor[:13] < dtc[:13])


@pytest.mark.parametrize("name", ["usual", "noise-by-row", "fixed-noise", "own"])
@pytest.mark.parametrize("q", [1, 2])
def test_the_bound_of_vfe_rises_with_more_active_rows_to_the_exact_evidence(name, q):
    kernel = KERNELS[name](3)
    X, Y, _ = data(q=q)
    order = given(kernel, X, Y, 60).selection.indices
    bounds = []
    for m in (1, 2, 5, 10, 20, 40, 60):
        evidence = given(kernel, X, Y, m, first=order[:m])
        bounds.append(POSTERIORS["vfe"].condition(evidence).log_marginal_likelihood)
    exact = dense.exact(kernel, X, Y, X[:1], dense.noise_of(kernel, X))[2]
    assert np.all(np.diff(bounds) > -1e-6)
    assert bounds[0] < bounds[3] < bounds[-1]
    assert bounds[-1] <= exact + 1e-6
    assert bounds[-1] == pytest.approx(exact, rel=1e-6)


# Of all of them


@posteriors
@pytest.mark.parametrize("noisy", [False, True])
def test_the_variance_is_the_diagonal_of_the_covariance(kind, noisy):
    """Joint covariances of "local" are given the union of the neighbours: here every row is one."""
    posterior, _, T = condition(KERNELS["usual"](3), kind, n_neighbors=100)
    mean, cov = posterior.mean_and_covariance(T, noisy)
    for found, expected in zip(posterior.mean_and_variance(T, noisy), (mean, np.diag(cov)), strict=True):
        assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert_allclose(cov, cov.T, atol=1e-12)
    assert np.linalg.eigvalsh(cov).min() > -1e-12


@posteriors
@pytest.mark.parametrize("entries", [1, 100, 1000])
@pytest.mark.parametrize("cores", [1, 3])
def test_blocks_of_any_size_and_threads_give_the_same(kind, entries, cores, monkeypatch):
    kernel = KERNELS["usual"](3)
    whole, evidence, T = condition(kernel, kind, n_neighbors=7, calibrate=True)
    expected = whole.mean(T), *whole.mean_and_variance(T), whole.log_marginal_likelihood
    monkeypatch.setattr(base, "BLOCK", entries)
    monkeypatch.setattr(local, "WORK", entries)
    monkeypatch.setattr(threads, "cores", lambda: cores)
    cut = POSTERIORS[kind].condition(evidence)
    for posterior in (whole, cut):
        found = posterior.mean(T), *posterior.mean_and_variance(T), posterior.log_marginal_likelihood
        for one, other in zip(found, expected, strict=True):
            assert_allclose(one, other, rtol=1e-9, atol=1e-11)


@posteriors
def test_the_order_of_the_active_rows_does_not_matter(kind):
    kernel = KERNELS["usual"](3)
    X, Y, T = data()
    generator = np.random.default_rng(0)
    order = given(kernel, X, Y, 20).selection.indices
    one, two = (
        POSTERIORS[kind].condition(given(kernel, X, Y, 20, first=generator.permutation(order), n_neighbors=9))
        for _ in range(2)
    )
    for found, expected in zip(one.mean_and_variance(T), two.mean_and_variance(T), strict=True):
        assert_allclose(found, expected, atol=1e-8)
    assert one.log_marginal_likelihood == pytest.approx(two.log_marginal_likelihood, rel=1e-8)


@posteriors
def test_several_targets_are_predicted_as_if_each_were_alone(kind):
    kernel = KERNELS["usual"](3)
    together, evidence, T = condition(kernel, kind, q=3, n_neighbors=9)
    apart = [
        POSTERIORS[kind].condition(replace(evidence, rows=replace(evidence.rows, y=evidence.rows.y[:, [j]])))
        for j in range(3)
    ]
    assert_allclose(together.mean(T), np.hstack([posterior.mean(T) for posterior in apart]), atol=1e-10)
    assert_allclose(together.mean_and_variance(T)[1], apart[0].mean_and_variance(T)[1], rtol=1e-10)
    likelihoods = [posterior.log_marginal_likelihood for posterior in apart]
    assert together.log_marginal_likelihood == pytest.approx(sum(likelihoods), rel=1e-9)


@posteriors
def test_a_posterior_is_frozen(kind):
    posterior, *_ = condition(KERNELS["usual"](3), kind)
    with pytest.raises(FrozenInstanceError):
        posterior.kernel = None


@pytest.mark.parametrize("kind", POSTERIORS)
def test_names(kind):
    assert resolve_posterior(kind) == (POSTERIORS[kind], None)


def test_a_wrong_name_is_answered_with_the_names():
    with pytest.raises(ValueError, match=r"posterior must be one of .*; got 'soda'\. Did you mean 'sod'\?") as told:
        resolve_posterior("soda")
    assert all(repr(kind) in str(told.value) for kind in POSTERIORS)


# Subset of data


def test_variances_are_never_negative():
    posterior, evidence, _ = condition(RBF(3.0), m=40, q=1)
    X = evidence.rows.X[evidence.selection.indices]
    assert np.all(posterior.mean_and_variance(X)[1] > 0)
    rounded = replace(posterior, inverse=(1 + 1e-6) * posterior.inverse)  # as if rounding had made it too large
    assert_array_equal(rounded.mean_and_variance(X[:5])[1], 0)


def test_one_active_row():
    kernel = RBF(1.0) + WhiteKernel(0.5)
    posterior, evidence, T = condition(kernel, m=1)
    k = RBF(1.0)(T, evidence.rows.X[evidence.selection.indices])
    assert_allclose(posterior.mean(T), k * evidence.rows.y[evidence.selection.indices] / 1.5)
    assert_allclose(posterior.mean_and_variance(T)[1], 1 - k[:, 0] ** 2 / 1.5)


def test_a_non_stationary_kernel_far_from_the_origin():
    kernel = DotProduct(1.0) + WhiteKernel(0.1)
    X, Y, _ = data(n=40, q=1)
    evidence = given(kernel, X + 10, Y, 10)
    mean, cov, _ = textbook("sod", kernel, evidence, X + 10)
    posterior = SubsetOfData.condition(evidence)
    assert_allclose(posterior.mean(X + 10), mean, atol=1e-7)
    assert_allclose(posterior.mean_and_covariance(X + 10)[1], cov, atol=1e-7)


def test_evidence_knows_the_noise_of_every_row():
    kernel = KERNELS["noise-by-row"](3)
    X, Y, _ = data()
    alpha = np.linspace(0, 1, 60)
    evidence = given(kernel, X, Y, 5, alpha=alpha)
    assert isinstance(evidence, Evidence)
    assert_allclose(evidence.read(np.arange(len(X)))[1], dense.noise_of(kernel, X) + alpha)
    assert_allclose(evidence.read(np.array([7, 3]))[1], (dense.noise_of(kernel, X) + alpha)[[7, 3]])
    noiseless = given(RBF(1.0), X, Y, 5, alpha=alpha)
    first, last = noiseless.read(np.array([0, 59]))[1]
    assert first == noiseless.selection.noise_floor > 0
    assert last == 1


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
