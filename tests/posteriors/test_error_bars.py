"""Error bars learnt from rows that are left out: widths near the rows and away from them, and the shape of errors."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.optimize import check_grad
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

from helpers import POSTERIORS
from sodalite import GreedyGPRegressor
from sodalite.kernels import compile_kernel
from sodalite.kernels.neighbours import Neighbours
from sodalite.metrics import coverage, nlpd
from sodalite.posteriors import Neighbors
from sodalite.posteriors.calibration import COVERAGES, FEW, Scale, log_densities
from sodalite.posteriors.far import Far
from sodalite.posteriors.shape import LeftOut, LeftTogether, Places, Regression, density_of

KERNEL = RBF(1.0) + WhiteKernel(0.1)


def errors(n, d=2, q=1, std=lambda X: 1.0, seed=0):
    """Rows, errors whose standard deviation may vary, and the variances that a model predicted for them."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2, 2, (n, d))
    variance = generator.uniform(0.5, 2, n)
    return X, generator.normal(size=(n, q)) * (np.sqrt(variance) * std(X))[:, None], variance


def learn(X, error, variance, kernel=KERNEL, far=None, together=None):
    """Error bars, and the rows that they were learnt from."""
    rows = LeftOut(X, error.reshape(len(X), -1), variance, np.full(len(X), 2.0), np.full(len(X), 0.1))
    return Scale.learn(rows, Scale.places_of(compile_kernel(kernel, X), X), far, together), rows


def factors(scale, T):
    """Standard deviations at T in units of those of the process."""
    return scale.error_bars(T, np.ones(len(T)), np.full(len(T), 0.1), np.full(len(T), 2.0))[0]


def jump(X):
    return np.where(X[:, 0] > 0, 2.0, 0.7)


# Near the rows


@pytest.mark.parametrize("factor", [1.0, 0.2, 7.0])
@pytest.mark.parametrize("kernel", [KERNEL, DotProduct(1.0) + WhiteKernel(0.1)], ids=["metric", "covariance"])
@pytest.mark.parametrize("d", [1, 3, 8])
def test_variances_that_are_wrong_everywhere_by_the_same_factor(d, kernel, factor):
    X, error, variance = errors(1500, d)
    found = factors(learn(X, error, variance / factor, kernel)[0], errors(200, d, seed=1)[0])
    assert_allclose(found, np.sqrt(factor), rtol=0.25)
    assert_allclose(np.exp(np.log(found).mean()), np.sqrt(factor), rtol=0.05)


@pytest.mark.parametrize("q", [1, 3])
def test_where_the_noise_varies_widths_follow(q):
    T = errors(500, seed=1)[0]
    T = T[np.abs(T[:, 0]) > 0.5]
    ratio = factors(learn(*errors(3000, q=q, std=jump))[0], T) / jump(T)
    assert 0.9 < np.median(ratio) < 1.15
    assert np.mean((ratio > 0.6) & (ratio < 1.6)) > 0.95


def test_near_by_is_what_the_kernels_own_metric_says():
    """An input that does not matter to the kernel does not say what is near by."""
    X, error, variance = errors(3000, std=jump)
    T = X[np.abs(X[:, 0]) > 0.5]
    sees, blind = (
        factors(learn(X, error, variance, RBF(length) + WhiteKernel(0.1))[0], T) / jump(T)
        for length in ([1, 1e6], [1e6, 1])
    )
    assert np.abs(np.log(sees)).mean() < 0.2 < np.abs(np.log(blind)).mean()


def test_of_few_rows_no_width_depends_on_the_place():
    X, error, variance = errors(FEW - 1, std=jump)
    scale, _ = learn(X, error, variance)
    found = factors(scale, X)
    assert scale.nearby is None
    assert_array_equal(found, found[0])
    assert found[0] == pytest.approx(np.sqrt(np.mean(error[:, 0] ** 2 / variance)), rel=0.15)


@pytest.mark.parametrize("n", [1, 2, 8])
def test_very_few_rows_do_not_know_their_own_scale(n):
    X, _, variance = errors(n)
    for size in (0.0, 1.0, 2.0):
        scale, _ = learn(X, size * np.sqrt(variance), variance)
        assert scale.widths[0].standard.nu <= max(n - 1, 1)
        assert 0.2 < factors(scale, X)[0] < 4


def test_no_rows_leave_the_process_as_it_is():
    X, error, variance = errors(0)
    scale = Scale.learn(LeftOut(X, error, variance, variance, variance), None)
    assert_array_equal(factors(scale, errors(5)[0]), 1)


def test_errors_of_nothing_and_rows_that_repeat_leave_positive_widths():
    X, error, variance = errors(500, std=jump)
    assert np.all(factors(learn(X, 0 * error, variance)[0], X) > 0)
    again = learn(np.repeat(X, 5, axis=0), np.repeat(error, 5, axis=0), np.repeat(variance, 5))[0]
    assert np.all(np.isfinite(factors(again, X)))


def test_a_few_large_errors_where_there_was_said_to_be_no_noise():
    X, error, variance = errors(2000)
    error[::40] *= 100
    even = log_densities(error, np.full(2000, np.mean(error**2))).mean()
    scale, rows = learn(X, error, variance)
    predictive = scale.predictive(np.zeros((2000, 1)), *scale.left_out(rows))
    assert predictive.log_density(error).mean() > even + 1
    assert density_of(error, np.sqrt(variance)) > even + 0.4


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_no_width_is_below_the_resolution_of_the_targets_unless_many_rows_are_predicted_more_exactly(share):
    X, error, variance = errors(400, std=jump)

    def widths(resolution):
        far = Far(1.0, X.min(axis=0), X.max(axis=0), resolution=resolution)
        return learn(X, error, variance, far=far)[0].error_bars(X, variance, np.full(400, 0.1), np.full(400, 2.0))[1]

    free = widths(0.0)
    least = np.quantile(free, share)
    found = widths(np.sqrt(12) * least)
    assert_allclose(found[free > least], free[free > least])
    if share < 0.05:
        assert_allclose(found.min(), least)
    else:
        assert found.min() < 0.9 * least


# The shape


@pytest.mark.parametrize("nu", [1.5, 3.0, 6.0, 1e9])
def test_tails_are_found(nu):
    X, _, _ = errors(4000)
    error = 0.3 * stats.t(nu).rvs(4000, random_state=0)
    scale, _ = learn(X, error, np.ones(4000))
    standard = scale.widths[0].standard
    assert min(nu, 30) == pytest.approx(min(standard.nu, 30), rel=0.25)
    new = 0.3 * stats.t(nu).rvs(4000, random_state=1)
    known = np.full(4000, 0.1), np.full(4000, 2.0)
    predictive = scale.predictive(np.zeros((4000, 1)), *scale.error_bars(X, np.ones(4000), *known))
    assert predictive.log_density(new[:, None]).mean() > stats.t(nu, scale=0.3).logpdf(new).mean() - 0.02


def test_skewness_is_found():
    error = np.random.default_rng(0).exponential(1.0, 4000) - 1
    scale, _ = learn(errors(4000)[0], error, np.ones(4000))
    level = np.exp(scale.widths[0].level)
    quantiles = level * scale.widths[0].standard.quantiles(np.array([0.05, 0.5, 0.95]))
    assert_allclose(quantiles, stats.expon(-1).ppf([0.05, 0.5, 0.95]), atol=0.15)


def test_every_target_has_a_shape_of_its_own():
    generator = np.random.default_rng(0)
    error = np.stack([generator.standard_normal(2000), generator.standard_t(2, 2000)], axis=1)
    gaussian, heavy = (width.standard.nu for width in learn(errors(2000)[0], error, np.ones(2000))[0].widths)
    assert heavy < 4 < 20 < gaussian


def test_the_regression_has_the_gradient_of_its_cost_and_finds_scipys_t():
    generator = np.random.default_rng(0)
    n, design = 60, np.random.default_rng(1).normal(size=(60, 3))
    growth, error = generator.uniform(size=(n, 2)), generator.standard_t(3, n)
    found = Regression(design, design[:, 0], growth, error, generator.uniform(size=n), np.ones(3))
    theta = generator.normal(size=6)
    assert check_grad(lambda t: found.cost(t)[0], lambda t: found.cost(t)[1], theta) < 1e-4
    error = 0.3 * stats.t(3.0).rvs(1000, random_state=0)
    plain = Regression(np.ones((1000, 1)), np.zeros(1000), np.empty((1000, 0)), error, np.ones(1000), np.zeros(1))
    nu, _, scale = stats.t.fit(error, floc=0)
    assert_allclose(np.exp(plain.solve()[0]), [nu, scale], rtol=1e-2)


# Rows of the fit


@pytest.fixture(scope="module")
def learnt():
    """Error bars with widths by place; 200 of the 500 rows repeat another's inputs."""
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 10, (500, 1))
    X[300:] = X[:200]
    error = np.where(X > 5, 1.0, 0.1) * generator.standard_t(2.5, (500, 1))
    return *learn(X, error, np.full(500, 0.3)), Places.of(compile_kernel(KERNEL, X), X, 1).place


def test_a_row_is_left_out_of_its_own_width(learnt):
    scale, rows, place = learnt
    std, widths = scale.left_out(rows)
    for row in (0, 7, 210, 260, 299, 300, 450):
        near, own = scale.nearby, np.arange(len(scale.nearby.X)) == place[row]
        kept = near.counts > own
        other = replace(
            near,
            X=near.X[kept],
            near=Neighbours(compile_kernel(KERNEL, rows.X), near.X[kept], by_period=False),
            counts=(near.counts - own)[kept],
            sums=(near.sums - own[:, None] * np.abs(rows.error[row]) / np.sqrt(0.3))[kept],
        )
        one = slice(row, row + 1)
        expected = replace(scale, nearby=other).error_bars(
            rows.X[one], rows.variance[one], rows.novelty[one], rows.prior[one]
        )
        assert std[row] == pytest.approx(expected[0][0], rel=1e-9)
        assert widths[row] == pytest.approx(expected[1][0], rel=1e-9)


def test_rows_that_it_was_not_learnt_from_are_as_any_others(learnt):
    scale, rows, _ = learnt
    moved = replace(rows, X=rows.X + 1e-6)
    expected = scale.error_bars(moved.X, rows.variance, rows.novelty, rows.prior)
    for found, known in zip(scale.left_out(moved), expected, strict=True):
        assert_allclose(found, known)


def test_rows_that_repeat_are_one_place():
    X = np.repeat(np.arange(50.0), 4)[:, None]
    values = np.arange(200.0)[:, None]
    kernel = compile_kernel(KERNEL, X)
    places = Places.of(kernel, X, 4)
    assert np.array_equal(places.counts, np.full(50, 4.0))
    total, count = places.others(values, places.sums(values), 1)
    # The nearest place is the row's own, which has three other rows.
    assert np.array_equal(count, np.full(200, 3.0))
    assert np.array_equal(total[:, 0], values.reshape(50, 4).sum(axis=1).repeat(4) - values[:, 0])
    alone = Places.of(kernel, X[::4], 2)  # a row alone leaves its place to the next
    total, count = alone.others(values[:50], alone.sums(values[:50]), 2)
    assert np.array_equal(count, np.full(50, 2.0))
    assert np.array_equal(total[1:-1, 0], 2 * values[1:49, 0])  # the rows on either side


def test_rows_of_a_hole_ask_the_places_outside_of_it():
    X = np.arange(100.0)[:, None]
    places = Places.of(compile_kernel(KERNEL, X), X, 2)
    rows = left_together(np.zeros(4), 0.5, 0.0, X=np.array([50.25]), reach=5.5)
    assert_array_equal(np.sort(places.outside(rows, 4)), np.tile([43, 44, 57, 58], (4, 1)))


# Away from the rows


def left_together(error, novelty, beyond, rows_of_a_hole=4, X=0.5, reach=0.0):
    """Rows that were left out together, with a variance of 1."""
    n, X = len(error), np.broadcast_to(X, (len(error), 1)).astype(float)
    beyond = np.stack([np.zeros((n, 1)), np.broadcast_to(beyond, n)[:, None]], axis=2)
    novelty, ones = np.broadcast_to(novelty, n), np.ones(n)
    return LeftTogether(
        X, error[:, None], ones, ones, novelty, beyond, np.arange(n) // rows_of_a_hole, X - reach, X + reach + 1
    )


def learn_away(together, floor):
    """Error bars of rows between 0 and 1 that say nothing of what is away from them."""
    X, error, variance = np.linspace(0, 1, 80)[:, None], np.zeros((80, 1)), np.full(80, 1e-4)
    error[:, 0] = 1e-2 * np.random.default_rng(1).normal(size=80)
    rows = LeftOut(X, error, variance, np.ones(80), np.full(80, 1e-4))
    return Scale.learn(rows, None, Far(floor, np.zeros(1), np.ones(1)), together)


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_rows_in_holes_tell_how_wide_errors_are_where_little_is_known(factor):
    error = factor * np.random.default_rng(0).normal(size=800)
    scale = learn_away(left_together(error, 0.999, 0.0), 1e-9)
    assert_allclose(np.exp(scale.widths[0].far), factor, rtol=0.15)


@pytest.mark.parametrize("growth", [1e-4, 0.3, 20.0])
def test_the_outermost_rows_tell_how_errors_grow_beyond_the_ends(growth):
    beyond = np.repeat(np.linspace(0.05, 0.5, 200), 4)
    added = growth * -np.expm1(-((beyond / 1.5) ** 2))
    error = np.sqrt(1e-4 + added) * np.random.default_rng(0).normal(size=800)
    rows = replace(left_together(error, 1e-4, beyond), variance=np.full(800, 1e-4))
    scale = learn_away(rows, 1.0)
    assert_allclose(np.log(scale.widths[0].growth[0, 1]), np.log(growth), atol=3 if growth < 1e-3 else 0.5)
    assert scale.far.novelty(np.zeros(3), np.array([[0.5], [1.0], [9.0]])).round(3).tolist() == [0, 0, 1]


def test_beyond_the_edge_variances_go_over_to_those_of_the_targets():
    X, error, variance = errors(400, 1)
    novelty = np.full(400, 0.1)
    novelty[:2], novelty[2:4] = 1.0, 0.6  # as far as can be, and half way
    rows = LeftOut(X, error, variance, variance, novelty)
    places = Scale.places_of(compile_kernel(KERNEL, X), X)
    scale = Scale.learn(rows, places, Far(50.0, X.min(axis=0), X.max(axis=0)))
    found = scale.left_out(rows)[0] ** 2
    assert np.all(found[:2] > 49.9)
    assert np.all((found[2:4] > 2.0) & (found[2:4] < 50.0))
    assert np.all(found[4:] < 4.0)


# In the model


def heteroscedastic(n, seed):
    """A smooth function, with noise that grows fivefold from one side to the other."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2, 2, (n, 1))
    return X, np.sin(2 * X[:, 0]) + 0.1 * np.exp(0.4 * (X[:, 0] + 2)) * generator.normal(size=n)


@pytest.fixture(scope="module")
def models():
    """With and without calibration, on the same data."""
    X, y = heteroscedastic(2000, 0)
    kernel = ConstantKernel(1.0) * RBF(0.7) + WhiteKernel(0.1)
    plain = {"n_active": 40, "hyperparameters": "fixed", "random_state": 0, "posterior": Neighbors(64)}
    return [GreedyGPRegressor(kernel, calibrate=calibrate, **plain).fit(X, y) for calibrate in (True, False)]


def test_calibration_changes_no_mean(models):
    calibrated, plain = models
    T, _ = heteroscedastic(300, 1)
    assert_array_equal(calibrated.predict(T), plain.predict(T))
    assert_array_equal(calibrated.active_indices_, plain.active_indices_)
    mean, std = calibrated.predict(T, return_std=True)
    assert_array_equal(mean, plain.predict(T))
    assert not np.allclose(std, plain.predict(T, return_std=True)[1], rtol=0.2)


def test_calibrated_bands_cover_what_they_should_everywhere(models):
    T, y = heteroscedastic(3000, 1)
    ours, theirs = (model.predict(T, return_std=True) for model in models)
    edges = np.quantile(T[:, 0], [0, 1 / 3, 2 / 3, 1])
    thirds = [(T[:, 0] >= low) & (T[:, 0] <= high) for low, high in pairwise(edges)]
    found, without = ([coverage(y[part], mean[part], std[part]) for part in thirds] for mean, std in (ours, theirs))
    whole = coverage(y, *ours)
    assert 0.92 < whole < 0.98
    assert all(0.92 < share < 0.98 for share in found)
    assert abs(coverage(y, *theirs) - 0.95) > abs(whole - 0.95)
    assert max(abs(share - 0.95) for share in without) > 0.04
    assert nlpd(y, *ours) < nlpd(y, *theirs) - 0.1


@pytest.fixture(scope="module")
def heavy():
    """Rows with noise of heavy tails, whose size depends on the place; training and test."""
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 10, (1600, 1))
    noise = np.where(X[:, 0] > 5, 0.5, 0.05) * generator.standard_t(2.5, 1600)
    return X[:800], (np.sin(X[:, 0]) + noise)[:800], X[800:], (np.sin(X[:, 0]) + noise)[800:]


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_intervals_are_honest_at_every_level_and_what_is_said_of_rows_left_out_holds(posterior, heavy):
    X, y, T, t = heavy
    kernel = RBF(1.5) + WhiteKernel(0.1)
    model = GreedyGPRegressor(kernel, n_active=40, posterior=posterior, hyperparameters="fixed", random_state=0)
    bars, pit = model.fit(X, y).posterior_.scale.bars, model.pit(T, t)
    shares = [np.mean(np.abs(2 * pit - 1) <= coverage) for coverage in COVERAGES]
    assert_allclose(shares, COVERAGES, atol=0.06)
    assert_allclose(shares[2:], COVERAGES[2:], atol=0.03)
    assert_allclose(bars.shares, shares, atol=0.05)
    assert_allclose(bars.shares, COVERAGES, atol=0.04)
    assert bars.nlpd + np.log(model.y_std_[0]) == pytest.approx(-model.log_density(T, t).mean(), abs=0.12)
    mean, std = model.predict(T, return_std=True)
    assert model.log_density(T, t).mean() > stats.norm(mean, std).logpdf(t).mean() + 0.2
    assert np.all(np.abs(np.histogram(pit, 5, (0, 1))[0] / len(t) - 0.2) < 0.06)
