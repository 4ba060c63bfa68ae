"""Scales of the target: their inverses and slopes, and predictions on the target's own scale."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sodalite
from sodalite import GreedyGPRegressor
from sodalite.fitting.targets import NAMES, Target
from sodalite.posteriors import POSTERIORS

SCALES = [name for name in NAMES if name != "standardize"]
QUICK = {"mean": None, "n_active": 40, "random_state": 0}


def table(name, n=120, seed=0):
    """Rows whose targets suit a scale."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(-2, 2, (n, 2))
    t = X[:, 0] + np.sin(2 * X[:, 1]) + 0.4 * generator.normal(size=n)
    y = {
        "log": lambda: 50 * np.exp(t),
        "logit": lambda: 1 / (1 + np.exp(-t)),
        "sqrt": lambda: generator.poisson(np.square(1.5 + np.maximum(t, -1))).astype(float),
        "power": lambda: np.sign(t) * np.square(t),
    }[name]()
    return X, y


def fitted(name, posterior="local", **options):
    X, y = table(name)
    return GreedyGPRegressor(target=name, posterior=posterior, **{**QUICK, **options}).fit(X, y)


@pytest.mark.parametrize("name", SCALES)
def test_a_scale_rises_and_has_an_inverse_and_a_slope(name):
    y = np.unique(table(name)[1])
    target = Target.fit(name, y[:, None])
    t = target.scaled(y)
    assert (np.diff(t) > 0).all()
    assert_allclose(target.undone(t), y, rtol=1e-10, atol=1e-10)
    step = 1e-6 * np.minimum(np.abs(y), 1 - y if name == "logit" else np.inf) + (name not in ("log", "logit")) * 1e-7
    slope = (target.scaled(y + step) - target.scaled(y - step)) / (2 * step)
    assert_allclose(target.log_slope(y), np.log(slope), atol=1e-4)


@pytest.mark.parametrize("power", [0.0, 0.4, 1.0, 1.7, 2.0])
def test_every_number_has_a_power_and_a_root(power):
    target = Target("power", power=power, centre=3.0, unit=2.0)
    y = np.array([-1e6, -5.0, 0.0, 3.0, 4.0, 1e6])
    assert_allclose(target.undone(target.scaled(y)), y, rtol=1e-9, atol=1e-12)
    assert np.isfinite(target.undone(np.array([-600.0, 600.0]))).all()


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("name", SCALES)
def test_predictions_are_those_of_the_distribution_on_the_targets_own_scale(name, posterior):
    gp, (new, y) = fitted(name, posterior), table(name, 30, seed=1)
    target, inner = gp.target_, gp.fitted_.predictive_on_scale(new)
    levels = np.array([0.025, 0.5, 0.975])
    assert_allclose(gp.predict_quantiles(new, levels), target.undone(inner.quantiles(levels)[:, 0]))
    assert_allclose(gp.pit(new, y), inner.cumulative(target.scaled(y[:, None]))[:, 0])
    density = inner.log_density(target.scaled(y[:, None])) + target.log_slope(y[:, None])
    assert_allclose(gp.log_density(new, y), density[:, 0])
    mean, std = gp.predict(new, return_std=True)
    many = gp.predict_quantiles(new, (np.arange(4000) + 0.5) / 4000)
    near = np.median(np.abs(mean - many.mean(axis=1)) / many.std(axis=1))
    assert near < 0.02
    assert np.median(np.abs(std / many.std(axis=1) - 1)) < 0.1
    assert_allclose(gp.predict(new), mean)
    joint = gp.predict(new, return_cov=True)
    assert_allclose(joint[0], mean)
    assert_allclose(np.sqrt(np.diag(joint[1])), std, rtol=1e-6)


@pytest.mark.parametrize("name", SCALES)
def test_the_density_is_the_slope_of_the_cumulative_probability(name):
    gp = fitted(name)
    new = np.repeat(table(name, 1, seed=2)[0], 2001, axis=0)
    low, high = gp.predict_quantiles(new[:1], [0.01, 0.99])[0]
    y = np.linspace(low, high, 2001)
    cumulative = gp.pit(new, y)
    found = np.trapezoid(np.exp(gp.log_density(new, y)), y)
    assert_allclose(found, cumulative[-1] - cumulative[0], rtol=1e-3)


@pytest.mark.parametrize(("name", "low", "high"), [("log", 0, np.inf), ("logit", 0, 1), ("sqrt", 0, np.inf)])
def test_nothing_is_predicted_where_the_target_cannot_be(name, low, high):
    gp = fitted(name)
    new = np.random.default_rng(3).uniform(-6, 6, (200, 2))
    everything = [*gp.predict_interval(new, 0.999), gp.predict(new), gp.sample_y(new[:50], 20).ravel()]
    assert min(part.min() for part in everything) >= low
    assert max(part.max() for part in everything) <= high
    assert all(np.isfinite(part).all() for part in everything)
    assert_array_equal(gp.pit(new[:2], [-1.0, -1.0]), 0.0)
    assert_array_equal(gp.log_density(new[:1], [-1.0]), -np.inf)


@pytest.mark.parametrize("target", ["standardize", "power", "sqrt"])
def test_predictions_stay_within_bounds(target):
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 3, (100, 1))
    y = np.maximum(np.round(3 * np.sin(2 * X[:, 0]) + generator.normal(size=100)), 0)
    gp = GreedyGPRegressor(target=target, bounds=(0, 3.5), **QUICK).fit(X, np.minimum(y, 3))
    new = np.linspace(-1, 4, 100)[:, None]
    lower, upper = gp.predict_interval(new)
    mean, std = gp.predict(new, return_std=True)
    assert lower.min() == 0
    assert upper.max() <= 3.5
    assert ((mean >= lower) & (mean <= upper)).all()
    assert ((std > 0) & (std < 3.5)).all()
    assert gp.pit(new[:1], [4.0]) == 1


def test_several_targets_stay_within_bounds():
    X, y = table("log")
    gp = GreedyGPRegressor(bounds=(0, None), **QUICK).fit(X, np.column_stack([y, y[::-1]]))
    assert gp.predict_quantiles(X, [0.001]).min() >= 0
    with pytest.raises(ValueError, match="target='log' is for one target; got 2"):
        GreedyGPRegressor(target="log", **QUICK).fit(X, np.column_stack([y, y]))


@pytest.mark.parametrize("posterior", ["local", "vfe"])
@pytest.mark.parametrize("name", SCALES)
def test_models_are_saved_with_their_scale(name, posterior, tmp_path):
    gp, new = fitted(name, posterior), table(name, 20, seed=4)[0]
    sodalite.save(gp, tmp_path / "model.sodalite")
    again = sodalite.load(tmp_path / "model.sodalite")
    assert again.target_ == gp.target_
    for mine, theirs in zip(again.predict(new, return_std=True), gp.predict(new, return_std=True), strict=True):
        assert_array_equal(mine, theirs)


@pytest.mark.parametrize("mean", [None, "linear"])
def test_new_rows_join_on_the_scale_of_the_fit(mean):
    X, y = table("log")
    gp = GreedyGPRegressor(target="log", **{**QUICK, "mean": mean}).fit(X[:100], y[:100])
    target = gp.target_
    assert_allclose(target.undone(gp.fitted_.rows_on_scale().y[:, 0]), y[:100])
    gp.partial_fit(X[100:], y[100:])
    assert gp.target_ == target
    assert_allclose(target.undone(gp.fitted_.rows_on_scale().y[:, 0]), y)
    with pytest.raises(ValueError, match="logarithm of targets, which is for targets above 0; the least is -1"):
        gp.partial_fit(X[:1], [-1.0])


def test_rows_on_disk_are_learnt_on_a_scale(tmp_path):
    X, y = table("log")
    np.save(tmp_path / "X.npy", X)
    on_disk = GreedyGPRegressor(target="log", **QUICK).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    in_memory = GreedyGPRegressor(target="log", **QUICK).fit(X, y, alpha=0)
    assert_allclose(on_disk.predict(X), in_memory.predict(X), rtol=1e-6)


def test_the_models_errors_are_in_units_of_the_target():
    X, y = table("log")
    gp = fitted("log")
    bars, baselines = gp.posterior_.scale.bars, gp.baselines_
    inverse = np.linalg.inv(gp.kernel_(X) + gp.selection_.noise_floor * np.eye(len(X)))
    t = (np.log(y) - gp.y_mean_) / gp.y_std_
    left_out = np.exp(gp.y_mean_ + gp.y_std_ * (t - inverse @ t / np.diag(inverse)))  # medians
    assert 0.8 < bars.rmse / np.sqrt(np.mean((y - left_out) ** 2)) < 1.2
    assert_allclose(baselines.model, bars.rmse)
    assert_allclose(baselines.constant, y.std() * len(y) / (len(y) - 1))
    assert abs(bars.nlpd + gp.log_density(*table("log", 400, seed=5)).mean()) < 0.4  # three standard errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "log"}, "target='log' is for targets above 0; the least is -"),
        ({"target": "logit"}, "target='logit' is for targets between 0 and 1; they are from"),
        ({"target": "sqrt"}, "target='sqrt' is for targets from 0; the least is"),
        ({"target": "logs"}, "target must be one of 'auto', 'standardize', 'log'.* got 'logs'.*Did you mean 'log'"),
        ({"bounds": (1, 0)}, r"bounds must rise.* got \(1, 0\)"),
        ({"bounds": 0}, r"bounds must be two numbers, of which one may be None, such as \(0, None\); got 0"),
        ({"bounds": ("a", 1)}, "bounds must be two numbers"),
        ({"bounds": (float("nan"), 1)}, "bounds must rise"),
        ({"bounds": (0, None)}, "y has targets outside bounds=.*: from -"),
    ],
)
def test_what_does_not_suit_is_refused(options, message):
    X, y = table("power")
    with pytest.raises(ValueError, match=message):
        GreedyGPRegressor(**options, **QUICK).fit(X, y)


def test_costs_of_which_some_are_nothing_are_predicted_from_zero_on():
    X, y = table("power")
    gp = GreedyGPRegressor(target="power", **QUICK).fit(X, np.maximum(y, 0))
    assert gp.predict_interval(X)[0].min() == 0 <= gp.predict(X).min()
    assert GreedyGPRegressor(target="power", **QUICK).fit(X, y).target_.low == -np.inf
