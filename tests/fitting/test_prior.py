"""Before a fit, predictions are the prior's, as those of scikit-learn's Gaussian process are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from helpers import Triangle
from sodalite import GreedyGPRegressor
from sodalite.kernels import PeriodicColumn

X = np.random.default_rng(0).normal(size=(12, 2))
KERNELS = {
    "default": None,
    "noisy": ConstantKernel(2.0) * RBF([0.5, 3.0]) + WhiteKernel(0.3),
    "linear": DotProduct(0.5) + ConstantKernel(3.0),
    "periodic": PeriodicColumn(1, 0.7, 2.0),
    "own": 2.0 * Triangle(1.5),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))
def test_it_is_scikit_learns(kernel):
    ours, theirs = GreedyGPRegressor(kernel), GaussianProcessRegressor(kernel)
    assert_array_equal(ours.predict(X), np.zeros(len(X)))
    for options in ({"return_std": True}, {"return_cov": True}):
        for found, expected in zip(ours.predict(X, **options), theirs.predict(X, **options), strict=True):
            assert found.shape == expected.shape
            assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_samples_have_the_prior_covariance_and_are_repeatable():
    model = GreedyGPRegressor(KERNELS["noisy"])
    samples = model.sample_y(X[:3], n_samples=20_000, random_state=1)
    assert samples.shape == (3, 20_000)
    assert_allclose(samples.mean(axis=1), 0, atol=0.06)
    assert_allclose(np.cov(samples), KERNELS["noisy"](X[:3]), atol=0.1)
    assert_array_equal(model.sample_y(X, random_state=1), model.sample_y(X, random_state=1))


def test_one_row_and_frames():
    model = GreedyGPRegressor()
    assert model.predict(X[:1]).shape == (1,)
    _, std = model.predict(pd.DataFrame(X, columns=["a", "b"]), return_std=True)
    assert_array_equal(std, np.ones(len(X)))
    with pytest.raises(ValueError, match="X has 1 column that holds no numbers: 'a'"):
        model.predict(pd.DataFrame({"a": ["x", "y"]}))
    with pytest.raises(ValueError, match="has 2 length-scales, but X has 3 columns"):
        GreedyGPRegressor(KERNELS["noisy"]).predict(np.ones((4, 3)))
    with pytest.raises(ValueError, match="Expected 2D array"):
        model.predict(X[0])


def test_nothing_of_it_is_kept():
    model = GreedyGPRegressor(KERNELS["noisy"], n_active=5, hyperparameters="fixed")
    model.sample_y(X)
    assert not [name for name in vars(model) if name.endswith("_")]
    assert model.predict(X[:, :1].repeat(2, axis=1)).shape == (12,)
    assert not np.array_equal(model.fit(X, X[:, 0]).predict(X), np.zeros(12))


def test_dask_collections_want_a_fit():
    dask = pytest.importorskip("dask.array")
    with pytest.raises(NotFittedError):
        GreedyGPRegressor().predict(dask.from_array(X))
