"""The distribution of errors that is learnt from leave-one-out errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from sodalite import GreedyGPRegressor
from sodalite.kernels import compile_kernel
from sodalite.posteriors.calibration import COVERAGES
from sodalite.posteriors.shape import LEAST, SIZES, LeftOut, Places, Shape, _fit_t

POSTERIORS = ["local", "sod", "sor", "dtc", "fitc", "vfe"]


def learn(error, X=None, variance=None, optimism=1.0):
    """The shape of errors, with widths by place if there are inputs."""
    rows, places = left_out(error, X, variance)
    return Shape.learn(rows, places, rows.variance, 0.0, optimism)


def left_out(error, X=None, variance=None):
    """Rows with these errors, and their places if there are inputs."""
    n = len(error)
    error = error.reshape(n, -1)
    variance = np.ones(n) if variance is None else variance
    rows = LeftOut(np.zeros((n, 1)) if X is None else X, error, variance, 0.5 * variance, np.ones(n), np.full(n, 0.1))
    return rows, None if X is None else Places.of(compile_kernel(RBF() + WhiteKernel(), X), X, max(SIZES))


def test_gaussian_errors_stay_gaussian():
    errors = np.random.default_rng(0).standard_normal((6, 2000))
    assert sum(learn(error).is_gaussian for error in errors) >= 5
    assert learn(np.zeros(200)).is_gaussian


@pytest.mark.parametrize("n", [1, 2, 8, LEAST - 1])
def test_few_errors_do_not_know_their_own_scale(n):
    shape = learn(np.random.default_rng(0).standard_normal(n))
    width, standard = shape.targets[0]
    assert standard.nu == max(n - 1, 1)
    assert width(np.zeros((3, 1)), np.full(3, 2.0)).tolist() == [2.0] * 3


@pytest.mark.parametrize("nu", [1.5, 3.0, 6.0])
def test_heavy_tails_are_found(nu):
    error = 0.3 * stats.t(nu).rvs(4000, random_state=0)
    shape = learn(error)
    width, standard = shape.targets[0]
    assert standard.nu == pytest.approx(nu, rel=0.25)
    wide = width(np.zeros((1, 1)), np.ones(1))[0]
    assert wide == pytest.approx(0.3, rel=0.1)
    new = 0.3 * stats.t(nu).rvs(20_000, random_state=1)
    density = standard.log_density(new / 0.3) - np.log(wide)
    assert density.mean() > stats.t(nu, scale=0.3).logpdf(new).mean() - 0.02


def test_the_fit_of_a_t_is_scipy_s():
    error = 0.3 * stats.t(3.0).rvs(1000, random_state=0)
    theta = _fit_t(np.zeros((1000, 1)), error)
    nu, _, scale = stats.t.fit(error, floc=0)
    assert np.exp(theta[:2]) == pytest.approx([nu, scale], rel=1e-2)


def test_skewness_is_found():
    shape = learn(np.random.default_rng(0).exponential(1.0, 4000) - 1)
    width, standard = shape.targets[0]
    quantiles = width(np.zeros((1, 1)), np.ones(1))[0] * standard.quantiles(np.array([0.05, 0.5, 0.95]))
    assert np.allclose(quantiles, stats.expon(-1).ppf([0.05, 0.5, 0.95]), atol=0.12)


def test_widths_follow_the_errors_of_the_place():
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 10, (3000, 1))
    error = np.where(X[:, 0] > 5, 1.0, 0.1) * generator.standard_normal(3000)
    shape = learn(error, X)
    assert shape.targets[0][0].by_place
    places = Places.of(compile_kernel(RBF() + WhiteKernel(), X), X, max(SIZES))
    found = places.index.query(np.array([[2.0], [8.0]]), max(SIZES))
    narrow, wide = shape.widths(np.ones(2), np.ones(2), np.full(2, 0.1), found, places.counts)[:, 0]
    spread = stats.t(shape.targets[0][1].nu).ppf(0.84) if len(shape.targets[0][1].weights) == 1 else 1.0
    assert narrow * spread == pytest.approx(0.1, rel=0.3)
    assert wide * spread == pytest.approx(1.0, rel=0.3)


def test_every_target_has_a_shape_of_its_own():
    generator = np.random.default_rng(0)
    error = np.stack([generator.standard_normal(2000), generator.standard_t(2, 2000)], axis=1)
    gaussian, heavy = learn(error).targets
    assert gaussian is None
    assert heavy[1].nu < 4


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_what_is_said_of_rows_left_out_holds_for_new_rows(posterior, heavy):
    """Coverage and density of the summary, each row by the others, beside those of rows that the fit has not seen."""
    X, y, T, t = heavy
    model = GreedyGPRegressor(
        RBF(1.5) + WhiteKernel(0.1), n_active=40, posterior=posterior, hyperparameters="fixed", random_state=0
    ).fit(X, y)
    bars = model.posterior_.scale.bars
    pit = model.pit(T, t)
    shares = [np.mean(np.abs(2 * pit - 1) <= coverage) for coverage in COVERAGES]
    assert np.allclose(bars.shares, shares, atol=0.05)
    assert np.allclose(bars.shares, COVERAGES, atol=0.04)
    assert bars.nlpd + np.log(model.y_std_[0]) == pytest.approx(-model.log_density(T, t).mean(), abs=0.12)


def test_rows_left_out_do_not_see_themselves():
    """A width by place that saw its own error would be narrow for small errors and wide for large ones."""
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 10, (400, 1))
    error = generator.standard_t(2.0, (400, 1)) * np.where(X > 5, 1.0, 0.1)
    shape, (rows, places) = learn(error, X), left_out(error, X)
    assert shape.targets[0][0].by_place
    plain = shape.widths_left_out(rows, places, rows.variance, 0.0)
    changed = error.copy()
    changed[7] *= 1.5
    moved = replace(shape, sums=places.sums(np.abs(changed)))
    again = moved.widths_left_out(left_out(changed, X)[0], places, rows.variance, 0.0)
    assert again[7, 0] == plain[7, 0]
    assert np.max(again / plain) > 1.01


def test_optimism_widens():
    error = stats.t(3.0).rvs(1000, random_state=0)
    rows, _ = left_out(error)
    plain, wide = (
        learn(error, optimism=optimism).widths_left_out(rows, None, rows.variance, 0.0, optimism)
        for optimism in (1.0, 4.0)
    )
    assert np.allclose(wide, 2 * plain, rtol=0.01)


def test_widths_are_in_units_of_the_calibrated_standard_deviation():
    """Where the scale knows how large errors are, a t needs no more than that, and the process's own s misleads it."""
    generator = np.random.default_rng(0)
    std = generator.uniform(0.1, 1.0, 4000)
    rows, _ = left_out(std * generator.standard_t(4.0, 4000))  # the process says a standard deviation of 1 everywhere
    shape = Shape.learn(rows, None, 2 * std**2, 0.0, 1.0)  # 2: the variance of the t
    width, standard = shape.targets[0]
    assert not len(width.coefficients)
    assert standard.nu == pytest.approx(4.0, rel=0.25)
    found = shape.widths_left_out(rows, None, 2 * std**2, 0.0)[:, 0]
    assert np.allclose(found / std, 1.0, atol=0.1)
    assert np.ptp(found / std) < 1e-12
    assert shape.widths(np.ones(4000), np.sqrt(2) * std, rows.novelty, None, None)[:, 0] == pytest.approx(found)


def test_rows_that_repeat_are_one_place():
    X = np.repeat(np.arange(50.0), 4)[:, None]
    values = np.arange(200.0)[:, None]
    kernel = compile_kernel(RBF() + WhiteKernel(), X)
    places = Places.of(kernel, X, 4)
    assert np.array_equal(places.counts, np.full(50, 4.0))
    total, count = places.others(values, places.sums(values), 1)
    # The nearest place is the row's own, which has three other rows.
    assert np.array_equal(count, np.full(200, 3.0))
    assert np.array_equal(total[:, 0], values.reshape(50, 4).sum(axis=1).repeat(4) - values[:, 0])
    order = np.random.default_rng(0).permutation(200)
    again = Places.of(kernel, X[order], 1)
    assert np.array_equal(again.others(values[order], again.sums(values[order]), 1)[0], total[order])


def test_a_row_alone_leaves_its_place_to_the_next():
    X = np.arange(20.0)[:, None]
    values = np.arange(20.0)[:, None]
    places = Places.of(compile_kernel(RBF() + WhiteKernel(), X), X, 2)
    total, count = places.others(values, places.sums(values), 2)
    assert np.array_equal(count, np.full(20, 2.0))
    assert np.array_equal(total[1:-1, 0], 2 * values[1:-1, 0])  # the rows on either side


@pytest.fixture(scope="module")
def heavy():
    """Rows with noise of heavy tails, whose size depends on the place; training and test."""
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 10, (1600, 1))
    noise = np.where(X[:, 0] > 5, 0.5, 0.05) * generator.standard_t(2.5, 1600)
    return X[:800], (np.sin(X[:, 0]) + noise)[:800], X[800:], (np.sin(X[:, 0]) + noise)[800:]


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_intervals_are_honest_at_every_level_for_every_posterior(posterior, heavy):
    X, y, T, t = heavy
    kernel = RBF(1.5) + WhiteKernel(0.1)
    model = GreedyGPRegressor(kernel, n_active=40, posterior=posterior, hyperparameters="fixed", random_state=0)
    model.fit(X, y)
    for coverage in (0.5, 0.8, 0.95, 0.99):
        lower, upper = model.predict_interval(T, coverage)
        assert np.mean((t >= lower) & (t <= upper)) == pytest.approx(coverage, abs=0.06 if coverage < 0.95 else 0.03)
    mean, std = model.predict(T, return_std=True)
    assert model.log_density(T, t).mean() > stats.norm(mean, std).logpdf(t).mean() + 0.3
    assert np.all(np.abs(np.histogram(model.pit(T, t), 5, (0, 1))[0] / len(t) - 0.2) < 0.06)
