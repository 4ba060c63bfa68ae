"""The search ends as tightly as scikit-learn's: where it starts from is not seen in the predictions."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from sodalite import GreedyGPRegressor
from sodalite.hyperparameters.climb import TIGHT, climb

KERNEL = ConstantKernel(1.0) * RBF([1.0, 1.0]) + WhiteKernel(0.1)


def data(n=120):
    """Targets of as much noise as signal, so that the likelihood is flat about its maximum."""
    generator = np.random.default_rng(2)
    X = generator.uniform(-3, 3, (n, 2))
    return X, np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + generator.normal(size=n), generator.uniform(-3, 3, (50, 2))


def fitted(hyperparameters, random_state, order=slice(None)):
    X, y, _ = data()
    options = {"posterior": "sod", "n_active": len(X), "calibrate": False, "random_state": random_state}
    return GreedyGPRegressor(KERNEL, hyperparameters=hyperparameters, **options).fit(X[order], y[order])


def predicted(model):
    return np.array(model.predict(data()[2], return_std=True))


def test_a_subset_of_all_rows_ends_where_scikit_learn_does():
    X, y, _ = data()
    models = [fitted("subset", seed) for seed in range(2)]
    assert np.ptp([predicted(model) for model in models], axis=0).max() < 1e-5
    exact = GaussianProcessRegressor(KERNEL, alpha=1e-10, normalize_y=True).fit(X, y)
    assert all(model.log_marginal_likelihood() > exact.log_marginal_likelihood() - 1e-8 for model in models)
    assert np.abs(predicted(models[0]) - predicted(exact)).max() < 1e-3  # which ends a little earlier


def test_the_weave_of_a_small_table_ends_the_same_whatever_the_order_of_the_rows():
    order = np.random.default_rng(1).permutation(len(data()[0]))
    difference = predicted(fitted("weave", 1, order)) - predicted(fitted("weave", 0))
    assert np.abs(difference).max() < 1e-5


def test_the_last_climb_of_many_parameters_takes_no_second_derivatives():
    """A table of 3000 columns and 20 rows took minutes: one gradient for each of its length-scales."""
    seen = []

    def objective(theta):
        seen.append(theta)
        return -float(np.square(theta - 1).sum()), -2 * (theta - 1)

    for p, most in ((50, 100), (400, 50)):
        seen.clear()
        _, theta = climb(objective, np.zeros(p), np.array([[-9.0, 9.0]] * p), steps=20, tolerance=TIGHT)
        np.testing.assert_allclose(theta, 1, atol=1e-6)
        assert len(seen) < most
