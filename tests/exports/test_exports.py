"""To other libraries: scikit-learn's model predicts as ours does, and what cannot be handed over is refused by name."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Matern, RationalQuadratic, WhiteKernel

import sodalite
from helpers import FIXED, KERNELS, POSTERIORS
from sodalite import GreedyGPRegressor
from sodalite.core import optional
from sodalite.exports import greedy_allocator, handover, to_gpflow, to_gpytorch, to_sklearn

USUAL = ConstantKernel(1.7) * RBF([0.9, 1.4]) + WhiteKernel(0.05)


def rows(n=120, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def targets(X, q=1):
    noise = 0.2 * np.random.default_rng(1).normal(size=(len(X), q))
    Y = 30 + 4 * np.stack([np.sin(2 * X[:, 0] + j) + X[:, -1] for j in range(q)], axis=1) + noise
    return Y if q > 1 else Y[:, 0]


def fitted(posterior="sod", kernel=USUAL, X=None, q=1, alpha=None, **options):
    X = rows() if X is None else X
    options = {"n_active": 20, "hyperparameters": "fixed", "random_state": 0, **options}
    return GreedyGPRegressor(kernel, posterior=posterior, **options).fit(X, targets(X, q), alpha=alpha)


# scikit-learn


def assert_same(model, X, expected=None):
    """scikit-learn's mean, standard deviation and covariance are those of ours, relative to the targets' spread."""
    found, ours = to_sklearn(model), model if expected is None else expected
    unit = float(model.y_std_.max())
    for options in ({"return_std": True}, {"return_cov": True}):
        for theirs, value in zip(found.predict(X, **options), ours.predict(X, **options), strict=True):
            np.testing.assert_allclose(theirs, value, rtol=1e-8, atol=1e-8 * max(unit, unit**2))
    np.testing.assert_array_equal(found.predict(X), found.predict(X, return_std=True)[0])


@pytest.mark.parametrize("name", KERNELS)
def test_scikit_learn_predicts_what_the_subset_of_data_does(name):
    d = 2
    # With some noise, since without any, rounding alone is more than 1e-8 of nearly singular covariances.
    kernel = KERNELS[name](d) + ConstantKernel(1e-3, FIXED) * WhiteKernel(1.0)
    model = fitted(kernel=kernel, X=rows(60, d), n_active=12, calibrate=False, criterion="uncertainty")
    assert_same(model, rows(9, d, seed=3))


OPTIONS = {
    "several targets": {"q": 3},
    "not normalised": {"target": None},
    "noise by row": {"alpha": np.linspace(0.0, 2.0, 120)},
    "single precision": {"X": rows().astype(np.float32)},
    "no noise": {"kernel": ConstantKernel(1.7) * RBF([0.9, 1.4]), "criterion": "uncertainty", "n_active": 12},
    "all rows active": {"X": rows(15)},
    "copies of rows": {"X": np.concatenate([rows(60), rows(60)])},
}


@pytest.mark.parametrize("what", OPTIONS)
def test_scikit_learn_predicts_the_same_whatever_the_fit(what):
    assert_same(fitted(calibrate=False, **OPTIONS[what]), rows(20, seed=3))


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("posterior", [name for name in POSTERIORS if name != "sod"])
def test_other_posteriors_are_reduced_to_their_active_rows(posterior, q, tmp_path):
    model, subset = fitted(posterior, q=q), fitted("sod", q=q, calibrate=False)
    np.testing.assert_array_equal(model.active_indices_, subset.active_indices_)
    assert_same(model, rows(20, seed=3), subset)
    sodalite.save(model, tmp_path / "m")
    assert_same(sodalite.load(tmp_path / "m"), rows(20, seed=3), subset)


def test_scikit_learn_s_model_is_one_of_its_own():
    model = fitted(calibrate=False)
    found = to_sklearn(model)
    assert found.log_marginal_likelihood_value_ == pytest.approx(model.log_marginal_likelihood_value_)
    np.testing.assert_allclose(found.kernel_.theta, model.kernel_.theta)
    assert found.kernel_ is not model.kernel_
    assert b"sodalite" not in pickle.dumps(found)


def test_the_names_of_a_data_frame_s_columns():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(rows(), columns=["a", "ü"])
    model = GreedyGPRegressor(USUAL, n_active=5, posterior="sod", hyperparameters="fixed", calibrate=False)
    assert_same(model.fit(X, targets(rows())), X[:9])
    with pytest.raises(ValueError, match="feature names"):
        to_sklearn(model).predict(X.rename(columns={"a": "b"}))


# What is handed over, whatever the library


class Words:
    """A kernel in words, with the operators that other libraries' kernels have."""

    def __init__(self, text):
        self.text = text

    def __add__(self, other):
        return Words(f"({self.text} + {other.text})")

    def __mul__(self, other):
        return Words(f"{self.text} * {other.text}")


class WordMaker:
    def constant(self, value, free):
        return Words(f"{value:g}{'' if free else '!'}")

    def scaled(self, value, free, kernel):
        return Words(f"{value:g}{'' if free else '!'} x {kernel.text}")

    def squared_exponential(self, scale, free):
        return Words(f"SquaredExponential{scale.tolist()}{'' if free else '!'}")

    def matern(self, scale, free, nu):
        return Words(f"Matern{scale.tolist()}{'' if free else '!'}")

    def rational_quadratic(self, scale, free, alpha, alpha_is_free):
        return Words(f"RationalQuadratic{scale.tolist()}{'' if free else '!'}")


HANDED_OVER = {
    "usual": (USUAL, "1.7 x SquaredExponential[0.9, 1.4]", 0.05),
    "fixed": (
        ConstantKernel(2.0, FIXED) * Matern(1.5, FIXED, nu=0.5) + WhiteKernel(0.1, FIXED),
        "2! x Matern[1.5]!",
        0.1,
    ),
    "sum": (
        RBF(1.0) + RationalQuadratic(2.0, 0.7) + ConstantKernel(3.0) + WhiteKernel(0.1) + WhiteKernel(0.2),
        "((SquaredExponential[1.0] + RationalQuadratic[2.0]) + 3)",
        0.3,
    ),
    "product": (RBF(1.0) * Matern(2.0, nu=1.5) + WhiteKernel(0.1), "SquaredExponential[1.0] * Matern[2.0]", 0.1),
    "noise in a product": (
        ConstantKernel(2.0) * (RBF(1.0) + WhiteKernel(0.1)),
        "2 x SquaredExponential[1.0]",
        0.2,
    ),
    "constants": ((RBF(1.0) + ConstantKernel(2.0)) * ConstantKernel(3.0), "3 x (SquaredExponential[1.0] + 2)", None),
}


@pytest.mark.parametrize("what", HANDED_OVER)
def test_the_kernel_the_noise_and_the_rows(what):
    kernel, words, noise = HANDED_OVER[what]
    model = fitted("sod", kernel)
    parts = handover.hand_over(model, WordMaker(), None, None)
    assert parts.kernel.text == words
    assert parts.noise == pytest.approx(noise or model.selection_.noise_floor)
    assert parts.noise > 0
    assert parts.noise_is_free == (what not in ("fixed", "constants"))
    np.testing.assert_array_equal(parts.inducing, rows()[model.active_indices_])
    np.testing.assert_allclose(parts.Y[:, 0] * parts.y_std + parts.y_mean, targets(rows()))


REFUSED = {
    "ExpSineSquared": RBF(1.0) * ExpSineSquared(1.4, 2.3),
    "DotProduct": KERNELS["dot-product"](1),
    "Exponentiation": RBF(1.0) ** 2,
    r"Triangle\(": KERNELS["own"](1),
    r"Matern\(.*nu=0\.8\)": KERNELS["matern-0.8"](1),
}


@pytest.mark.parametrize("part", REFUSED)
def test_parts_that_cannot_be_handed_over_are_named(part):
    model = fitted("sod", REFUSED[part] + WhiteKernel(0.1), rows(30, 1), n_active=5)
    with pytest.raises(ValueError, match=rf"The kernel has .*{part}.* in it, which cannot be handed over; these can"):
        handover.hand_over(model, WordMaker(), None, None)


def test_rows_that_are_not_there_or_have_noise_of_their_own(tmp_path):
    X, y = rows(), targets(rows())
    model = fitted("sod")
    sodalite.save(model, tmp_path / "m")
    loaded = sodalite.load(tmp_path / "m")
    with pytest.raises(ValueError, match="pass the training rows as X and y"):
        handover.hand_over(loaded, WordMaker(), None, None)
    parts, again = (
        handover.hand_over(one, WordMaker(), *given) for one, given in ((model, (None, None)), (loaded, (X, y)))
    )
    np.testing.assert_allclose(parts.Y, again.Y)
    with pytest.raises(ValueError, match=r"X must have shape \(n, 2\)"):
        handover.hand_over(model, WordMaker(), X[:, :1], y)
    with pytest.raises(ValueError, match="y must hold 1 target of each of the 120 rows"):
        handover.hand_over(model, WordMaker(), X, y[:-1])
    with pytest.raises(ValueError, match="together"):
        handover.hand_over(model, WordMaker(), X, None)
    noisy = GreedyGPRegressor(USUAL, n_active=5, posterior="sod", hyperparameters="fixed").fit(X, y, alpha=0.1)
    with pytest.raises(ValueError, match="alpha"):
        handover.hand_over(noisy, WordMaker(), None, None)
    with pytest.raises(ValueError, match="noise and nothing else"):
        handover.hand_over(fitted("sod", WhiteKernel(0.1)), WordMaker(), None, None)


@pytest.mark.parametrize(
    ("extra", "call"),
    [
        ("gpytorch", to_gpytorch),
        ("gpflow", to_gpflow),
        ("botorch", lambda model: greedy_allocator()),
    ],
)
def test_a_library_that_is_not_installed(extra, call, monkeypatch):
    def missing(name):
        package = name.partition(".")[0]
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr(optional, "import_module", missing)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install 'sodalite\[{extra}\]'"):
        call(fitted())


def test_a_model_that_is_not_fitted_cannot_be_handed_over():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        to_sklearn(GreedyGPRegressor())
