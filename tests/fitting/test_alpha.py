"""Rows with noise of their own: scikit-learn's Gaussian process where it has the same, and the picks one at a time."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from dense import given
from helpers import KERNELS, POSTERIORS
from sodalite import GreedyGPRegressor, reference
from sodalite.exceptions import JitterWarning
from sodalite.hyperparameters import Fixed, Subset

KERNEL = ConstantKernel(1.5) * RBF([1.2, 1.9]) + WhiteKernel(0.02)


def data(n=90, q=None, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.uniform(-3, 3, (n, 2))
    Y = np.column_stack([5 * np.sin(X[:, 0]) + 30, np.cos(X[:, 1]) * X[:, 0]]) + generator.normal(size=(n, 2))
    return X, Y[:, 0] if q is None else Y[:, :q], generator.uniform(0, 2, n) * (np.arange(n) % 3 > 0)


def new_rows(n=20):
    return np.random.default_rng(9).uniform(-3, 3, (n, 2))


def model(**options):
    plain = {"hyperparameters": "fixed", "posterior": "sod", "criterion": "delta", "n_active": 20, "random_state": 0}
    return GreedyGPRegressor(**{"kernel": KERNEL, **plain, **options})


# scikit-learn's Gaussian process


@pytest.mark.parametrize("posterior", [name for name in POSTERIORS if name != "sor"])
@pytest.mark.parametrize("target", ["standardize", None])
@pytest.mark.parametrize("kernel", [KERNEL, RBF(1.1)], ids=["noisy", "noiseless"])
def test_with_every_row_active_it_is_scikit_learns(posterior, target, kernel):
    """Theirs is in units of the scaled targets, ours in those of the targets as they are given."""
    X, y, alpha = data()
    alpha = alpha + 0.05
    unit = y.std() if target else 1.0
    options = {"posterior": posterior, "target": target, "n_active": len(y), "calibrate": False}
    ours = model(kernel=kernel, **options).fit(X, y, alpha=alpha)
    theirs = GaussianProcessRegressor(
        kernel, alpha=alpha / unit**2, optimizer=None, normalize_y=target is not None
    ).fit(X, y)
    for found, expected in zip(
        ours.predict(new_rows(), return_std=True), theirs.predict(new_rows(), return_std=True), strict=True
    ):
        assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-6)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_it_is_no_part_of_predictions(posterior):
    """A new observation has the kernel's noise and no other; far from the data nothing but the prior is left."""
    X, y, alpha = data()
    alpha, before = 5 * alpha, 5 * alpha
    alpha.flags.writeable = False
    far = model(posterior=posterior, calibrate=False).fit(X, y, alpha=alpha).predict([[1e3, 1e3]], return_std=True)
    latent = 0.0 if posterior == "sor" else 1.5
    assert far[1][0] == pytest.approx(y.std() * np.sqrt(latent + 0.02), rel=1e-9)
    assert_array_equal(alpha, before)


# The choice of rows


@pytest.mark.parametrize("name", ["usual", "noise-by-row", "own", "rbf"])
@pytest.mark.parametrize("q", [1, 2])
def test_picks_are_those_of_one_row_at_a_time(name, q):
    kernel = KERNELS[name](2)
    X, Y, alpha = data(n=300, q=q)
    Y = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    indices, path, factor = reference.one_at_a_time(X, Y, kernel, n_active=40, first=0, alpha=alpha)
    chosen = given(kernel, X, Y, 40, alpha=alpha).selection
    assert_array_equal(chosen.indices, indices)
    assert_allclose(chosen.rmse, path, rtol=1e-7)
    assert_allclose(chosen.factor, factor, atol=1e-7)
    assert not np.array_equal(given(kernel, X, Y, 40).selection.indices, indices)


def test_the_estimators_picks_and_its_factor_have_the_noise_in_them():
    X, y, alpha = data(n=300)
    scaled = (y - y.mean()) / y.std()
    fitted = model().fit(X, y, alpha=alpha, first=0)
    indices, path, factor = reference.one_at_a_time(X, scaled, KERNEL, n_active=20, first=0, alpha=alpha / y.std() ** 2)
    assert_array_equal(fitted.active_indices_, indices)
    assert_allclose(fitted.selection_.rmse, y.std() * path, rtol=1e-9)
    assert_allclose(fitted.selection_.factor, factor, atol=1e-9)


def test_a_criterion_is_told_all_of_the_noise():
    X, y, alpha = data()
    seen = []

    def criterion(s, abs_r, noise):
        seen.append(noise.max())
        return np.where(noise < 0.5, s + abs_r, -np.inf)

    fitted = model(criterion=criterion, target=None, n_active=60).fit(X, y, alpha=alpha, first=int(alpha.argmin()))
    assert max(seen) == pytest.approx(0.02 + alpha.max())
    assert alpha[fitted.active_indices_].max() < 0.48
    assert fitted.selection_.stop_reason == "criterion"


# What it means


def test_one_number_is_the_same_for_all_rows_and_white_noise():
    X, y, _ = data()
    T = new_rows()
    for alpha in (0, 0.7, np.float32(0.25), np.array(3)):
        one, each = (model().fit(X, y, alpha=value) for value in (alpha, np.full(len(y), alpha)))
        assert_array_equal(one.predict(T), each.predict(T))
        assert_array_equal(one.active_indices_, each.active_indices_)
    assert_array_equal(model().fit(X, y, alpha=0).predict(T), model().fit(X, y).predict(T))
    assert_array_equal(model().fit(X, y, alpha=[1] * 90).predict(T), model().fit(X, y, alpha=1.0).predict(T))
    own = model(target=None).fit(X, y, alpha=0.5)
    same = model(target=None, kernel=ConstantKernel(1.5) * RBF([1.2, 1.9]) + WhiteKernel(0.52)).fit(X, y)
    assert_array_equal(own.active_indices_, same.active_indices_)
    assert_allclose(own.predict(T), same.predict(T), rtol=1e-10)


@pytest.mark.parametrize("posterior", ["sod", "local", "vfe", "fitc"])
def test_rows_of_endless_noise_are_not_there(posterior):
    X, y, _ = data()
    T = new_rows()
    kept = np.arange(90) % 4 > 0
    options = {"posterior": posterior, "target": None, "n_active": 90, "calibrate": False}
    found = model(**options).fit(X, y, alpha=np.where(kept, 0.0, 1e9))
    expected = model(**options).fit(X[kept], y[kept])
    tolerance = 1e-5 if posterior in ("sod", "local") else 1e-3
    assert_allclose(found.predict(T), expected.predict(T), atol=tolerance)


@pytest.mark.parametrize("posterior", ["sod", "local"])
def test_a_row_of_weight_w_has_a_share_of_the_noise(posterior):
    """Three observations of noise v at one place say what their mean says, with noise v / 3."""
    X, _, _ = data(n=40)
    generator = np.random.default_rng(3)
    thrice = generator.normal(size=(40, 3))
    T = new_rows()
    options = {"kernel": RBF(1.1), "posterior": posterior, "target": None, "n_active": 120, "calibrate": False}
    every = model(**options).fit(np.repeat(X, 3, axis=0), thrice.ravel(), alpha=0.6)
    means = model(**options).fit(X, thrice.mean(axis=1), alpha=0.2)
    for found, expected in zip(every.predict(T, return_std=True), means.predict(T, return_std=True), strict=True):
        assert_allclose(found, expected, atol=1e-7)


def test_of_several_targets_it_is_that_of_each_scaled_one():
    X, Y, alpha = data(q=2)
    T = new_rows()
    together = model(n_active=90).fit(X, Y, alpha=alpha)
    for j in range(2):
        alone = model(n_active=90).fit(X, Y[:, j], alpha=alpha * Y[:, j].std() ** 2)
        assert_allclose(together.predict(T)[:, j], alone.predict(T), rtol=1e-6, atol=1e-6)


def test_the_search_for_hyperparameters_is_told():
    X, y, alpha = data()
    seen = []

    class Listening(Fixed):
        def find(self, task, kernels, generator):
            seen.append(task)
            return super().find(task, kernels, generator)

    model(hyperparameters=Listening()).fit(X, y, alpha=alpha)
    model(hyperparameters=Listening()).fit(X, y)
    assert_allclose(seen[0].alpha, alpha / y.var())
    assert seen[1].alpha is None
    assert seen[0].posterior.name == "sod"
    assert seen[0].n_active == 20


def test_noise_that_is_known_is_not_found_again():
    """The subset's likelihood leaves the kernel's own noise what the known noise does not explain."""
    generator = np.random.default_rng(0)
    X = generator.uniform(-3, 3, (200, 2))
    alpha = np.where(np.arange(200) % 2, 0.64, 0.01)
    y = 3 * np.sin(X[:, 0]) + np.sqrt(alpha + 0.01) * generator.normal(size=200)
    options = {"hyperparameters": Subset(n_rows=200, n_starts=3), "n_active": 200, "target": None}
    known, unknown = (
        model(random_state=0, **options).fit(X, y, alpha=noise).kernel_.k2.noise_level for noise in (alpha, None)
    )
    assert known < 0.05 < 0.2 < unknown


# The noise floor


@pytest.mark.parametrize("target", ["standardize", None])
def test_noise_below_the_floor_is_told(target):
    X, y, _ = data()
    least = 1e-10
    unit = y.std() if target else 1.0
    floor, alpha = 2.25 * least * unit**2, np.full(len(y), 0.01 * least * unit**2)
    alpha[:10] = 1.0
    scarce = model(kernel=1.5**2 * RBF([0.2, 0.2]), target=target)
    message = (
        f"alpha is {alpha[-1]:.3g} in {len(y) - 10} rows (on average), below the noise floor of {floor:.3g}, which"
    )
    with pytest.warns(JitterWarning, match=re.escape(message)) as caught:
        fitted = scarce.fit(X, y, alpha=alpha)
    assert caught[0].filename == __file__
    with pytest.warns(JitterWarning, match="alpha is .* below the noise floor"):
        fitted.partial_fit(X[:5] + 0.1, y[:5], alpha=1.0)


@pytest.mark.parametrize("alpha", [0.0, 2.25e-10, 1e-3])
def test_noise_that_the_floor_leaves_alone_is_not_told_of(alpha):
    """Nor is that of rows that have none of their own."""
    X, y, _ = data()
    model(kernel=1.5**2 * RBF([0.2, 0.2]), target=None).fit(X, y, alpha=alpha)
    model(target=None).fit(X, y, alpha=np.full(len(y), 1e-14))  # beside the noise of the kernel
