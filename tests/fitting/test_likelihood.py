"""The log marginal likelihood of a fitted model: scikit-learn's with all rows active, and that of the fit."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, WhiteKernel

from helpers import POSTERIORS
from sodalite import GreedyGPRegressor, load, save

KERNEL = ConstantKernel(1.5) * RBF([1.2, 1.9]) + DotProduct(0.4) + WhiteKernel(0.02)
THETA = KERNEL.theta + np.array([0.3, -0.2, 0.1, 0.4, 0.5])


def data(n=80, q=None):
    generator = np.random.default_rng(0)
    X = generator.uniform(-3, 3, (n, 2))
    Y = np.column_stack([5 * np.sin(X[:, 0]) + 30, np.cos(X[:, 1]) * X[:, 0]]) + generator.normal(size=(n, 2))
    return X, Y[:, 0] if q is None else Y[:, :q]


def model(**options):
    plain = {"hyperparameters": "fixed", "posterior": "sod", "n_active": 25, "random_state": 0}
    return GreedyGPRegressor(**{"kernel": KERNEL, **plain, **options})


@pytest.mark.parametrize("q", [None, 2])
@pytest.mark.parametrize("own_noise", [False, True])
def test_with_every_row_active_it_is_scikit_learns(q, own_noise):
    X, y = data(q=q)
    alpha = np.linspace(0.1, 1, len(X)) if own_noise else np.zeros(len(X))
    ours = model(n_active=len(X)).fit(X, y, alpha=alpha * (y.std() ** 2 if q is None else 1.0))
    theirs = GaussianProcessRegressor(KERNEL, alpha=alpha, optimizer=None, normalize_y=True).fit(X, y)
    value, gradient = ours.log_marginal_likelihood(THETA, eval_gradient=True)
    expected, slope = theirs.log_marginal_likelihood(THETA, eval_gradient=True)
    assert value == pytest.approx(expected, rel=1e-9)
    assert_allclose(gradient, slope, rtol=1e-7)
    assert ours.log_marginal_likelihood() == pytest.approx(theirs.log_marginal_likelihood(), rel=1e-9)
    assert ours.log_marginal_likelihood(THETA, clone_kernel=False) == value
    assert_allclose(ours.kernel_.theta, KERNEL.theta, rtol=1e-14)


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize(
    ("kernel", "q"),
    [(KERNEL, None), (KERNEL, 2), (1.5 * Matern([1.2, 1.9], nu=1.5), None)],
    ids=["noisy", "two-targets", "noiseless"],
)
def test_it_is_that_of_the_fit_and_its_gradient_that_of_differences(posterior, kernel, q):
    X, y = data(q=q)
    alpha = np.where(np.arange(len(X)) % 2, 0.3, 0.2)
    fitted = model(kernel=kernel, posterior=posterior).fit(X, y, alpha=alpha)
    at_fit = fitted.log_marginal_likelihood(fitted.kernel_.theta)
    assert at_fit == pytest.approx(fitted.log_marginal_likelihood_value_, rel=1e-9)
    theta = THETA[: kernel.n_dims]
    value, gradient = fitted.log_marginal_likelihood(theta, eval_gradient=True)
    assert value != pytest.approx(at_fit, rel=1e-3)
    assert_allclose(gradient, approx_fprime(theta, fitted.log_marginal_likelihood, 1e-6), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("posterior", ["sod", "local", "dtc"])
def test_of_a_model_from_a_file(posterior, tmp_path):
    X, y = data()
    fitted = model(posterior=posterior).fit(X, y, alpha=0.5)
    save(fitted, tmp_path / "model.sod")
    again = load(tmp_path / "model.sod")
    assert again.log_marginal_likelihood() == fitted.log_marginal_likelihood()
    if posterior == "dtc":
        with pytest.raises(ValueError, match="holds its active rows alone"):
            again.log_marginal_likelihood(THETA)
    else:
        assert again.log_marginal_likelihood(THETA) == pytest.approx(fitted.log_marginal_likelihood(THETA), rel=1e-9)


def test_what_is_asked_for_wrongly():
    fitted = model().fit(*data())
    with pytest.raises(ValueError, match="eval_gradient=True requires theta"):
        fitted.log_marginal_likelihood(eval_gradient=True)
    with pytest.raises(ValueError, match=r"one entry for each of the 5 free parameters; got shape \(2,\)"):
        fitted.log_marginal_likelihood([0.0, 1.0])
