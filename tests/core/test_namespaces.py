"""Arrays of other libraries: with dispatch on, predictions are the same as for NumPy, as arrays of the library."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from helpers import DTYPES
from sodalite import GreedyGPRegressor

KERNEL = ConstantKernel(1.5) * RBF([1.2, 1.9]) + WhiteKernel(0.02)
GENERATOR = np.random.default_rng(0)
X = GENERATOR.uniform(-3, 3, (80, 2))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2]) + 0.1 * GENERATOR.normal(size=(80, 2))


def model():
    return GreedyGPRegressor(KERNEL, n_active=20, hyperparameters="fixed", random_state=0)


@pytest.fixture(params=["array_api_strict", "torch"])
def library(request, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")  # without which scikit-learn refuses to dispatch
    found = pytest.importorskip(request.param)
    with config_context(array_api_dispatch=True):
        yield found


def devices(library, dtype="float64"):
    """The devices that have the type; the first is the default one."""
    if library.__name__ == "torch":
        return ["cpu"]
    info = library.__array_namespace_info__()
    return [device for device in info.devices() if dtype in info.dtypes(device=device)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_predictions_are_arrays_as_the_rows_are(library, dtype):
    expected = model().fit(X, Y[:, 0])
    fitted = model().fit(library.asarray(X), library.asarray(Y[:, 0]))
    assert isinstance(fitted.X_train_, np.ndarray)
    rows = X.astype(dtype)
    for device in devices(library, dtype):
        there = library.asarray(rows, device=device)
        calls = [
            lambda model, at: model.predict(at),
            lambda model, at: model.predict(at, return_std=True),
            lambda model, at: model.predict(X=at, return_cov=True),
            lambda model, at: model.novelty(at),
            lambda model, at: model.sample_y(at, 3, random_state=1),
        ]
        for call in calls:
            found, known = call(fitted, there), call(expected, rows)
            assert isinstance(found, tuple) == isinstance(known, tuple)
            pairs = zip(found, known, strict=True) if isinstance(found, tuple) else [(found, known)]
            for part, value in pairs:
                assert type(part) is type(there)
                assert part.dtype == there.dtype
                assert part.device == there.device
                here = library.asarray(part, device=devices(library)[0])
                assert_allclose(np.asarray(here), value.astype(dtype), rtol=1e-6, atol=1e-6)


def test_several_targets_noise_of_their_own_rows_that_join_and_r2(library):
    alpha = np.linspace(0.01, 0.1, 80)
    expected = model().fit(X[:60], Y[:60], alpha=alpha[:60]).partial_fit(X[60:], Y[60:], alpha=alpha[60:])
    X_there, Y_there, alpha_there = map(library.asarray, (X, Y, alpha))
    fitted = model().partial_fit(X_there[:60, :], Y_there[:60, :], alpha=alpha_there[:60])
    fitted.partial_fit(X_there[60:, :], Y_there[60:, :], alpha=alpha_there[60:])
    assert_array_equal(np.asarray(fitted.predict(X_there)), expected.predict(X))
    assert fitted.score(X_there, Y_there) == pytest.approx(expected.score(X, Y))


def test_before_a_fit_and_of_whole_numbers(library):
    rows = library.asarray([[1, 2], [3, 4]])
    _, std = model().predict(rows, return_std=True)
    assert std.dtype == library.asarray([1.0]).dtype
    assert_allclose(np.asarray(std), np.sqrt(1.52), rtol=1e-6)


def test_without_dispatch_answers_are_numpys():
    library = pytest.importorskip("array_api_strict")
    fitted = model().fit(X, Y[:, 0])
    assert isinstance(fitted.predict(library.asarray(X)), np.ndarray)


def test_signatures_are_those_of_the_methods():
    assert list(inspect.signature(GreedyGPRegressor().predict).parameters) == ["X", "return_std", "return_cov"]
