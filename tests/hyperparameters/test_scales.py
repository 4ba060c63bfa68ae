"""The search for a kernel sees every scale, periods, and few rows; against what a person would try first."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import check_grad
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Matern, WhiteKernel

from helpers import campaign
from sodalite import GreedyGPRegressor
from sodalite.exceptions import OutlierWarning
from sodalite.hyperparameters import Task, Weave
from sodalite.hyperparameters.dense import profiled
from sodalite.hyperparameters.grid import scale_starts
from sodalite.hyperparameters.likelihood import Plausibility
from sodalite.hyperparameters.search import find_exactly
from sodalite.kernels import PeriodicColumn, compile_kernel, default_kernels, leaves, robust_spread, spacing
from sodalite.kernels.forms import candidate_periods, second_scale, with_period, with_trend
from sodalite.metrics import nlpd


def rmse(a, b):
    return float(np.sqrt(np.mean((a - b) ** 2)))


def hourly(days=50, seed=0, noise=0.05):
    """Temperatures: a daily cycle whose shape drifts, weather of some days, and a little noise; days, and targets."""
    generator = np.random.default_rng(seed)
    t = np.arange(0, days, 1 / 24)
    weather = np.convolve(generator.normal(size=len(t) + 72), np.hanning(73), "valid")[: len(t)] / 5
    daily = (1 + 0.3 * np.sin(t / 9)) * np.sin(2 * np.pi * t) + 0.3 * np.sin(4 * np.pi * t + t / 30)
    return t[:, None], 2 * daily + weather + noise * generator.normal(size=len(t))


def parted(n, seed=0):
    order = np.random.default_rng(seed).permutation(n)
    return order[: n // 10], order[n // 10 :]


def periods_of(model):
    return [leaf.periodicity for leaf in leaves(model.kernel_) if isinstance(leaf, ExpSineSquared)]


# Series


def test_an_hourly_series_is_predicted_better_than_by_joining_the_dots_also_in_a_gap():
    X, y = hourly()
    in_gap = (X[:, 0] > 20) & (X[:, 0] < 21.5)
    test, rest = (part[~in_gap[part]] for part in parted(len(y)))
    model = GreedyGPRegressor(random_state=0, n_active=200).fit(X[rest], y[rest])
    order = np.argsort(X[rest, 0])
    dots = np.interp(X[test, 0], X[rest[order], 0], y[rest[order]])
    mean, std = model.predict(X[test], return_std=True)
    assert rmse(mean, y[test]) < 0.6 * rmse(dots, y[test])
    assert 0.88 < np.mean(np.abs(mean - y[test]) < 1.96 * std) < 0.99
    assert periods_of(model) == pytest.approx([1.0], rel=0.01)
    dots = np.interp(X[in_gap, 0], X[rest[order], 0], y[rest[order]])
    assert rmse(model.predict(X[in_gap]), y[in_gap]) < 0.5 * rmse(dots, y[in_gap])


@pytest.mark.parametrize("n", [60, campaign(400)])
def test_few_rows_with_a_season(n):
    generator = np.random.default_rng(1)
    t = np.arange(n) / 12
    y = 0.3 * t + np.sin(2 * np.pi * t) + 0.4 * np.cos(4 * np.pi * t) + 0.1 * generator.normal(size=n)
    test, rest = parted(n)
    model = GreedyGPRegressor(random_state=0).fit(t[rest, None], y[rest])
    assert periods_of(model) == pytest.approx([1.0], rel=0.02)
    assert rmse(model.predict(t[test, None]), y[test]) < 0.25


@pytest.mark.parametrize("kind", ["walk", campaign("white"), campaign("smooth")])
def test_periods_do_not_win_by_chance(kind):
    won = 0
    for seed in range(6):
        generator = np.random.default_rng(seed)
        t, y = np.arange(150.0), generator.normal(size=150)
        if kind == "walk":
            y = np.cumsum(y)
        elif kind == "smooth":
            y = np.convolve(generator.normal(size=180), np.hanning(31), "same")[15:-15] + 0.05 * y
        won += bool(periods_of(GreedyGPRegressor(random_state=0).fit(t[:, None], y)))
    assert won <= 1


def test_periods_are_found_in_uneven_rows_and_not_as_fractions():
    generator = np.random.default_rng(0)
    x = np.sort(generator.uniform(0, 100, 700))
    X, Y = x[:, None], np.empty((700, 2))
    Y[:, 0] = (
        np.sin(2 * np.pi * x / 7.3) + 0.5 * np.sign(np.sin(2 * np.pi * x / 7.3)) + 0.5 * generator.normal(size=700)
    )
    Y[:, 1] = Y[:, 0] + np.sin(2 * np.pi * x / 1.13)
    assert candidate_periods(X, Y[:, :1]) == [(0, pytest.approx(7.3, rel=0.01))]
    assert sorted(period for _, period in candidate_periods(X, Y[:, 1:])) == pytest.approx([1.13, 7.3], rel=0.01)
    assert candidate_periods(X[:10], Y[:10, :1]) == []
    assert candidate_periods(np.zeros((50, 1)), Y[:50, :1]) == []
    assert candidate_periods(X, np.zeros((700, 1))) == []


@pytest.mark.parametrize("n", [300, campaign(600), campaign(1600)])
def test_a_period_of_one_input_among_several(n):
    """A load that follows the hour of the day and the temperature outside."""
    generator = np.random.default_rng(0)
    t = np.sort(generator.uniform(0, 60, n))
    outside = 8 * np.sin(t / 9) + 3 * generator.normal(size=n)
    y = (1 + 0.02 * outside) * np.sin(2 * np.pi * t) + 0.4 * np.cos(4 * np.pi * t) + 0.003 * (outside - 4) ** 2
    y += 0.05 * generator.normal(size=n)
    X = np.column_stack([outside, t])
    test, rest = parted(n)
    model = GreedyGPRegressor(random_state=0, n_active=200).fit(X[rest], y[rest])
    assert [leaf.column for leaf in leaves(model.kernel_) if isinstance(leaf, PeriodicColumn)] == [1]
    assert periods_of(model) == pytest.approx([1.0], rel=0.01)
    assert rmse(model.predict(X[test]), y[test]) < 0.1


# Scales


@pytest.mark.parametrize(
    ("posterior", "days"),
    [("local", 15), ("sod", 15), campaign("local", 60), campaign("local", 45), campaign("sod", 60)],
)
def test_a_kernel_given_with_good_parameters_is_not_lost(posterior, days):
    X, y = hourly(days=days, noise=0.02)
    y = (y - y.mean()) / y.std()
    test, rest = parted(len(y))
    kernel = ConstantKernel(1.0) * Matern(0.3, nu=2.5) + WhiteKernel(1e-3)
    densities = []
    for way in ("fixed", "weave"):
        model = GreedyGPRegressor(kernel, hyperparameters=way, posterior=posterior, n_active=300, random_state=0)
        densities.append(nlpd(y[test], *model.fit(X[rest], y[rest]).predict(X[test], return_std=True)))
    assert densities[1] < densities[0] + 0.05


def test_bounds_reach_from_the_spacing_to_beyond_the_spread():
    x = np.arange(100_000.0)[:, None]
    low, high = default_kernels(x, x)[0].k1.k2.length_scale_bounds[0]
    assert low <= 0.5
    assert high >= 10 * len(x)
    assert spacing(x) == 1.0
    assert spacing(np.repeat(x[:50], 3, axis=0)) == 1.0
    assert spacing(np.zeros((5, 2))) == 0.0


def test_error_bars_of_few_rows_allow_for_hyperparameters_that_have_seen_them():
    inside, factors = [], []
    for seed in range(8):
        generator = np.random.default_rng(seed)
        X = generator.normal(size=(230, 6))
        y = np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.3 * generator.normal(size=230)
        model = GreedyGPRegressor(random_state=0).fit(X[:30], y[:30])
        mean, std = model.predict(X[30:], return_std=True)
        inside.append(np.mean(np.abs(mean - y[30:]) < 1.96 * std))
        factors.append(model.fitted_.optimism)
    assert 0.9 < np.mean(inside) < 0.99
    assert min(factors) >= 1
    assert np.mean(factors) > 1.1


# The parts


def small(n=40, d=2, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, d)) * 10.0 ** np.arange(d)
    return X, (np.sin(X[:, 0]) + 0.1 * generator.normal(size=n))[:, None]


@pytest.mark.parametrize(
    "form",
    [
        lambda kernel, X, y: kernel,
        with_trend,
        lambda kernel, X, y: second_scale(kernel, 0.3, 0.2),
        lambda kernel, X, y: with_period(kernel, 1.3, 0, X, y),
    ],
)
def test_the_gradient_of_what_is_plausible(form):
    X, y = small(d=1)
    kernel = form(default_kernels(X, y)[1], X, y)
    objective = Plausibility(kernel, X, y, None)
    theta = kernel.theta + np.random.default_rng(0).normal(0, 0.3, kernel.n_dims)
    assert check_grad(lambda t: objective(t)[0], lambda t: objective(t)[1], theta) < 1e-5


def test_variances_are_scaled_to_their_most_likely_value():
    X, y = small()
    kernel = ConstantKernel(1.0) * RBF([1.0, 10.0]) + WhiteKernel(0.1)
    value, factor = profiled(compile_kernel(kernel, X), X, y, None)
    values = []
    for scale in (0.9 * factor, factor, 1.1 * factor):
        scaled = ConstantKernel(scale) * RBF([1.0, 10.0]) + WhiteKernel(0.1 * scale)
        K = scaled(X)
        values.append(-0.5 * (y.T @ np.linalg.solve(K, y)).item() - 0.5 * np.linalg.slogdet(2 * np.pi * K)[1])
    assert_allclose(value * len(X), values[1])
    assert values[1] > max(values[0], values[2])


def test_starts_are_within_bounds_and_the_best_is_no_worse_than_any():
    X, y = small()
    kernel = default_kernels(X, y)[1]
    starts = scale_starts(kernel, X, y, None)
    assert 1 <= len(starts) <= 3
    for theta in starts:
        assert np.all((theta >= kernel.bounds[:, 0] - 1e-12) & (theta <= kernel.bounds[:, 1] + 1e-12))
    found = find_exactly(Task(X, y, forms=True), default_kernels(X, y))
    objective = Plausibility(kernel, X, y, None)
    reached = Plausibility(found.kernel, X, y, None)(found.kernel.theta)[0]
    assert reached >= max(objective(theta)[0] for theta in starts) - 1e-9


def test_a_fit_with_a_period_goes_on_from_its_checkpoint(tmp_path):
    t = np.arange(100) / 12
    y = np.sin(2 * np.pi * t) + 0.1 * np.random.default_rng(0).normal(size=100)
    models = [
        GreedyGPRegressor(n_active=40, random_state=0).fit(t[:, None], y, checkpoint=tmp_path / "fit.sodalite")
        for _ in range(2)
    ]
    assert periods_of(models[0])
    assert models[0].kernel_ == models[1].kernel_
    assert_allclose(models[0].predict(t[:, None]), models[1].predict(t[:, None]))


def test_a_search_of_few_rows_repeats_itself():
    X, y = small()
    one, two = (
        Weave().find(Task(X, y, forms=True), default_kernels(X, y), np.random.default_rng(seed)) for seed in (0, 1)
    )
    assert one.kernel == two.kernel


# Few rows


@pytest.mark.parametrize("n", [1, 3, 12, *map(campaign, (2, 4, 5, 8, 20, 50, 100))])
@pytest.mark.parametrize("kind", ["noise", campaign("line"), "bend"])
def test_few_rows_are_predicted_no_worse_than_by_a_constant(n, kind):
    ours, constant = [], []
    for seed in range(5):
        generator = np.random.default_rng(seed)
        X, T = generator.normal(size=(n, 2)), generator.normal(size=(60, 2))
        truth = {
            "noise": lambda A: 0 * A[:, 0],
            "line": lambda A: A[:, 0] - A[:, 1],
            "bend": lambda A: np.sin(2 * A[:, 0]),
        }[kind]
        y = truth(X) + 0.3 * generator.normal(size=n)
        mean, std = GreedyGPRegressor(random_state=0).fit(X, y).predict(T, return_std=True)
        assert np.isfinite(mean).all()
        assert (std > 0).all()
        ours.append(rmse(mean, truth(T)))
        constant.append(rmse(y.mean(), truth(T)))
    slack = 0.15 if kind == "noise" else 0.1  # of the noise's and the signal's standard deviation
    assert np.mean(ours) < np.mean(constant) + slack
    if n >= 50 and kind != "noise":
        assert np.mean(ours) < 0.5 * np.mean(constant)


def test_records_kept_twice_prove_nothing_about_the_noise():
    generator = np.random.default_rng(0)
    X = generator.integers(0, 4, size=(80, 3)) + 0.0
    y = X[:, 0] + generator.normal(size=80)
    X, y = np.concatenate([X, X[:20]]), np.concatenate([y, y[:20]])
    _, std = GreedyGPRegressor(random_state=0).fit(X, y).predict(X, return_std=True)
    assert std.min() > 0.5


# Outliers


@pytest.mark.parametrize("kernel", [None, ConstantKernel(1.0) * RBF([1.0, 1.0]) + WhiteKernel(0.02)])
@pytest.mark.parametrize("far", [1e9, *map(campaign, (1e3, 1e6, 1e12))])
@pytest.mark.filterwarnings("ignore::sodalite.exceptions.OutlierWarning")
def test_an_outlying_input_changes_nothing_elsewhere(kernel, far):
    generator = np.random.default_rng(0)
    X, T = generator.uniform(-3, 3, (200, 2)), generator.uniform(-2.5, 2.5, (200, 2))

    def truth(A):
        return np.sin(2 * A[:, 0]) + A[:, 1] ** 2 / 3

    y = truth(X) + 0.1 * generator.normal(size=200)
    outlying = X.copy()
    outlying[17, 0] = far
    plain, spoilt = (
        rmse(GreedyGPRegressor(kernel, random_state=0).fit(A, y).predict(T), truth(T)) for A in (X, outlying)
    )
    assert spoilt < 1.5 * plain + 0.02


def test_outlying_rows_are_named():
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(200, 2)), generator.normal(size=200)
    X[17, 1], y[5] = 1e7, 1e6
    with pytest.warns(OutlierWarning) as caught:
        GreedyGPRegressor(hyperparameters="fixed", random_state=0).fit(X, y)
    said = [str(warning.message) for warning in caught if warning.category is OutlierWarning]
    assert len(said) == 2
    assert said[0].startswith("Row 17 has X[:, 1] = 1e+07")
    assert said[1].startswith("Row 5 has y = 1e+06")


def test_the_spread_of_most_rows():
    generator = np.random.default_rng(0)
    X = generator.normal(size=(500, 3)) * [1.0, 5.0, 1.0]
    X[:, 2] = generator.random(500) < 0.03  # most rows are equal: a standard deviation is all there is
    plain = robust_spread(X)
    assert_allclose(plain, X.std(axis=0))
    X[0, :2] = 1e9
    assert_allclose(robust_spread(X)[:2], [1.0, 5.0], rtol=0.1)
    assert_allclose(robust_spread(np.ones((4, 1))), 1.0)


# A far scale


def hilly(n: int, slow: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Places in a square and their heights: rough ripples, of Matern 3/2 and short, on hills as long as the square."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    waves, phases = rng.normal(size=(2, 400)) / np.sqrt(rng.chisquare(3, 400) / 3), rng.uniform(0, 2 * np.pi, 400)
    ripples = np.cos(X @ waves / 0.03 + phases).sum(axis=1) * np.sqrt(2 / 400)
    return X, ripples + slow * np.sin(2 * np.pi * X[:, 0]) * np.cos(np.pi * X[:, 1]) + 0.05 * rng.normal(size=n)


@pytest.mark.parametrize("redundant", [False, campaign(True)])
def test_a_gap_among_dense_rows_is_filled_from_what_lies_around_it(redundant):
    X, y = hilly(3000, slow=5.0)
    hole = np.hypot(*(X - [0.25, 0.15]).T) < 0.1
    if redundant:
        X = np.column_stack([X, X.sum(axis=1), X[:, 0] - X[:, 1]])
    gp = GreedyGPRegressor(n_active=100, random_state=0).fit(X[~hole], y[~hole])
    assert len(leaves(gp.kernel_)) > 3  # a second component: where rows are close to others, one is as good
    mean, std = gp.predict(X[hole], return_std=True)
    error = y[hole] - mean
    assert np.sqrt(np.mean(error**2)) < 1.5  # the ripples' standard deviation is 1, the hill's height there 4.5
    assert 0.6 < np.sqrt(np.mean((error / std) ** 2)) < 1.5


def test_no_other_scale_is_added_to_ripples_alone():
    X, y = hilly(1800, slow=0.0)
    gp = GreedyGPRegressor(n_active=50, random_state=0).fit(X, y)
    assert len(leaves(gp.kernel_)) == 3
