"""Error bars far from all rows, and novelty: the share of the prior variance that is left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, RationalQuadratic, WhiteKernel

import sodalite
from helpers import POSTERIORS, campaign
from sodalite import GreedyGPRegressor
from sodalite.hyperparameters import Subset
from sodalite.posteriors.far import novelty_of, outside
from sodalite.report.words import TargetSummary, bars_of

QUICK = {"hyperparameters": "fixed", "random_state": 0}
FAR = 60.0  # standard deviations of the inputs, from the edge of the data: many length-scales


def halves(n=1500, seed=0):
    """A smooth function on [0, 10], with noise of 1 in the left half and of 0.1 in the right."""
    generator = np.random.default_rng(seed)
    X = generator.uniform(0, 10, (n, 1))
    noise = np.where(X[:, 0] < 5, 1.0, 0.1)
    return X, 2 * np.sin(X[:, 0]) + noise * generator.normal(size=n)


def uneven(d, n=200, seed=0):
    """Rows whose noise grows along the first input."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n, d)) * generator.uniform(0.1, 10, d)
    Z = X / X.std(axis=0)
    y = 30 + 5 * np.sin(Z.sum(axis=1)) + np.exp(Z[:, 0]) * generator.normal(size=n)
    return X, y


KERNELS = {
    "rbf": lambda scale: RBF(scale) + WhiteKernel(0.1),
    "matern": lambda scale: ConstantKernel(2.0) * Matern(scale, nu=1.5) + WhiteKernel(0.05),
    "two": lambda scale: 0.5 * RBF(2 * scale) + 0.5 * Matern(scale / 2, nu=2.5) + WhiteKernel(0.01),
    "long tails": lambda scale: RationalQuadratic(float(scale.mean()), 2.0) + WhiteKernel(0.1),
    "too small": lambda scale: ConstantKernel(0.2) * RBF(scale) + WhiteKernel(0.05),
    "too large": lambda scale: ConstantKernel(50.0) * RBF(scale) + WhiteKernel(5.0),
    "no noise": lambda scale: RBF(scale),
}


def away(X, direction, steps):
    """Points further and further along a ray that starts beyond all rows."""
    spread = X.std(axis=0)
    direction = direction / np.linalg.norm(direction)
    start = np.max((X / spread) @ direction)
    centre = X.mean(axis=0) / spread
    centre -= (centre @ direction) * direction
    return (centre + np.multiply.outer(start + steps, direction)) * spread


def assert_honest(model, X, y, directions=3, seed=0):
    """Along rays, error bars go from those at the edge to those of no data, and never back."""
    generator = np.random.default_rng(seed)
    steps = np.concatenate([[0], np.geomspace(0.05, FAR, 40)])
    kernel = model.posterior_.kernel
    for _ in range(directions):
        T = away(X, generator.normal(size=X.shape[1]), steps)
        std = model.predict(T, return_std=True)[1]
        rows = kernel.prepare(T[-1:])
        prior = model.y_std_[0] * np.sqrt((kernel.diag(rows) + kernel.noise(rows))[0])
        assert model.novelty(T[-1:])[0] > 0.9
        if model.calibrate:
            assert 0.999 * y.std() <= std[-1] <= 2.02 * max(prior, y.std())
        else:
            assert_allclose(std[-1], prior, rtol=0.1)
        # The tolerance is for other rows that become the nearest on the way. Growth beyond the ends comes on top.
        nothing_known = min(std[-1], max(prior, y.std()))
        assert np.all(std >= 0.6 * np.minimum(np.maximum.accumulate(std), nothing_known))


# The standard deviation


@pytest.fixture(scope="module")
def two_halves():
    X, y = halves()
    method = Subset(n_rows=200, n_starts=2, n_screen=100, n_steps=10)
    models = {
        calibrate: GreedyGPRegressor(hyperparameters=method, calibrate=calibrate, n_active=60, random_state=0).fit(X, y)
        for calibrate in (True, False)
    }
    return models, X, y


def test_the_scale_of_the_nearest_rows_is_not_carried_outward(two_halves):
    models, _, y = two_halves
    T = np.array([[-100.0], [-50.0], [60.0], [100.0]])
    std = models[True].predict(T, return_std=True)[1]
    assert models[True].posterior_.scale.nearby is not None
    assert std.min() > y.std()
    assert std.max() < 2 * std.min()  # on both sides, though the noise of the rows near by is a tenth on one


def test_inside_the_data_the_scale_is_still_that_of_the_rows_near_by(two_halves):
    models, _, _ = two_halves
    std = models[True].predict([[2.0], [8.0]], return_std=True)[1]
    assert_allclose(std, [1.0, 0.1], rtol=0.7)  # a little is drawn to the mean of all


def test_a_car_a_hundred_times_as_heavy():
    generator = np.random.default_rng(0)
    weight = generator.uniform(1600, 5200, 390)
    consumption = 46 - 7.6e-3 * weight + 4 * np.exp(-weight / 3000) * generator.normal(size=390)
    method = Subset(n_rows=200, n_starts=2, n_screen=100, n_steps=10)
    model = GreedyGPRegressor(hyperparameters=method, random_state=0).fit(weight[:, None], consumption)
    _, std = model.predict([[3000.0], [300_000.0]], return_std=True)
    assert std[0] < 0.6 * consumption.std()
    assert std[1] >= consumption.std()
    assert_array_equal(model.novelty([[3000.0], [300_000.0]]).round(2), [0, 1])


@pytest.mark.parametrize("seed", [0, campaign(1), campaign(2)])
@pytest.mark.parametrize("calibrate", [True, False])
@pytest.mark.parametrize("d", [1, campaign(2), 4])
@pytest.mark.parametrize("name", KERNELS)
def test_moving_away_from_all_rows_leads_to_the_prior_or_the_targets_own_spread(name, d, calibrate, seed):
    X, y = uneven(d, seed=seed)
    kernel = KERNELS[name](X.std(axis=0) * np.sqrt(d))
    model = GreedyGPRegressor(kernel, n_active=40, calibrate=calibrate, **QUICK).fit(X, y)
    assert_honest(model, X, y, seed=seed)


@pytest.mark.parametrize("d", [1, 3])
def test_the_default_kernel(d):
    X, y = uneven(d)
    model = GreedyGPRegressor(n_active=40, random_state=0, hyperparameters=Subset(n_rows=100, n_starts=2)).fit(X, y)
    assert_honest(model, X, y)


@pytest.mark.parametrize("posterior", POSTERIORS)
@pytest.mark.parametrize("name", ["rbf", "too small", "no noise"])
def test_every_posterior(posterior, name):
    X, y = uneven(2)
    kernel = KERNELS[name](X.std(axis=0))
    model = GreedyGPRegressor(kernel, n_active=40, posterior=posterior, **QUICK).fit(X, y)
    assert_honest(model, X, y)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_covariances_and_samples_are_as_wide_as_standard_deviations(posterior):
    X, y = uneven(1)
    kernel = KERNELS["too small"](X.std(axis=0))
    model = GreedyGPRegressor(kernel, n_active=40, posterior=posterior, **QUICK).fit(X, y)
    for row in (X[:1], X.max(axis=0)[None] + 0.5 * X.std(), X.max(axis=0)[None] + 100 * X.std()):
        std = model.predict(row, return_std=True)[1]
        assert_allclose(model.predict(row, return_cov=True)[1][0, 0], std[0] ** 2, rtol=1e-6)
    T = X.max(axis=0) + X.std() * np.linspace(0, 200, 30)[:, None]
    assert np.linalg.eigvalsh(model.predict(T, return_cov=True)[1]).min() > -1e-9 * y.var()
    drawn = model.sample_y(T[-1:], 4000)
    assert drawn.std() >= 0.95 * y.std()


def test_targets_that_are_not_scaled_and_several_of_them():
    X, y = uneven(2)
    Y = np.stack([y, 3 * y, np.sin(X[:, 0])], axis=1)
    model = GreedyGPRegressor(RBF(X.std(axis=0)) + WhiteKernel(0.1), n_active=40, **QUICK).fit(X, Y)
    assert np.all(model.predict(1e3 * X[:1], return_std=True)[1] >= 0.999 * Y.std(axis=0))
    assert model.novelty(X[:7]).shape == (7,)
    kernel = ConstantKernel(1.0) * RBF(X.std(axis=0)) + WhiteKernel(0.1)
    model = GreedyGPRegressor(kernel, n_active=40, target=None, **QUICK).fit(X, y)
    mean, std = model.predict(1e3 * X[:1], return_std=True)
    assert std[0] >= np.sqrt(np.square(y).mean()) * 0.999  # about zero, which is what is predicted there
    assert_allclose(mean, 0, atol=1e-9)


def test_targets_that_are_all_the_same_have_no_spread_to_keep_to():
    X = np.linspace(0, 1, 50)[:, None]
    model = GreedyGPRegressor(RBF(0.1) + WhiteKernel(1e-4), **QUICK).fit(X, np.full(50, 7.0))
    assert model.posterior_.scale.far.floor == 0
    assert np.isfinite(model.predict([[1e6]], return_std=True)[1]).all()


def test_rows_that_join_later_raise_the_floor():
    X, y = uneven(1)
    model = GreedyGPRegressor(KERNELS["too small"](X.std(axis=0)), n_active=40, **QUICK).fit(X, y)
    wide = 10 * (y - y.mean()) + y.mean()
    model.partial_fit(X + 0.01, wide)
    assert model.predict([[1e6]], return_std=True)[1][0] >= 0.999 * np.concatenate([y, wide]).std()


# From near to far


def test_what_is_outside():
    assert_allclose(outside(np.array([0.0, 0.25, 0.5, 1.0]), 0.25), [0, 0, 0.5, 1])
    assert_allclose(outside(np.array([0.0, 1e-12, 1.0]), 0.0), [0, 0, 1])
    assert_array_equal(novelty_of(np.array([-1e-9, 0.5, 3.0, 0.0]), np.array([1.0, 1.0, 1.0, 0.0])), [0, 0.5, 1, 1])


def test_rows_that_are_all_on_their_own_are_predicted_as_the_targets_vary():
    """A kernel far too short says that all of the prior is left everywhere, also in the midst of the rows."""
    X, y = uneven(2, n=400)
    kernel = ConstantKernel(10.0) * RBF(1e-4) + WhiteKernel(1.0)
    model = GreedyGPRegressor(kernel, n_active=40, **QUICK).fit(X, y)
    assert_allclose(model.predict(X.mean(axis=0)[None] + 0.1, return_std=True)[1], y.std(), rtol=0.1)


# Novelty


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_novelty_is_the_share_of_the_prior_variance_that_is_left(posterior):
    X, y = uneven(2)
    kernel = 3.0 * RBF(X.std(axis=0)) + WhiteKernel(0.1)
    model = GreedyGPRegressor(kernel, n_active=200, posterior=posterior, calibrate=False, **QUICK).fit(X, y)
    T = np.vstack([X[:20], 1.5 * X[:20], [[1e6, 1e6]]])
    found = model.novelty(T)
    K = 3.0 * RBF(X.std(axis=0))(T, X)
    left = 3.0 - np.einsum("ij,ji->i", K, np.linalg.solve(kernel(X), K.T))  # all rows are active: the exact process
    assert_allclose(found, left / 3.0, atol=1e-5)
    assert found[-1] == 1
    assert found[:20].max() < 0.3


def test_novelty_of_rows_on_disk_and_of_data_frames(tmp_path, monkeypatch):
    X, y = uneven(2)
    model = GreedyGPRegressor(KERNELS["rbf"](X.std(axis=0)), n_active=40, **QUICK).fit(X, y)
    np.save(tmp_path / "X.npy", X)
    monkeypatch.setattr("sodalite.selection.rows.BLOCK", 100)
    assert_allclose(model.novelty(np.load(tmp_path / "X.npy", mmap_mode="r")), model.novelty(X), rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="NaN"):
        model.novelty([[np.nan, 1.0]])


def test_novelty_of_a_dask_array_is_lazy():
    array = pytest.importorskip("dask.array")
    X, y = uneven(2)
    model = GreedyGPRegressor(KERNELS["rbf"](X.std(axis=0)), n_active=40, **QUICK).fit(X, y)
    lazy = model.novelty(array.from_array(X, chunks=(64, 1)))
    assert lazy.shape == (200,)
    assert_allclose(lazy.compute(scheduler="synchronous"), model.novelty(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_a_file_keeps_all_of_it(posterior, tmp_path):
    X, y = uneven(2)
    model = GreedyGPRegressor(KERNELS["too small"](X.std(axis=0)), n_active=40, posterior=posterior, **QUICK).fit(X, y)
    sodalite.save(model, tmp_path / "m")
    again = sodalite.load(tmp_path / "m")
    T = np.vstack([X, 2 * X, 100 * X])
    for found, expected in zip(again.predict(T, return_std=True), model.predict(T, return_std=True), strict=True):
        assert_allclose(found, expected, rtol=1e-9)
    assert_allclose(again.novelty(T), model.novelty(T), atol=1e-9)
    assert again.posterior_.scale.bars == model.posterior_.scale.bars


# What is said of noise and error bars


def said(model, X):
    bars = bars_of(model.posterior_)
    return TargetSummary.of(model.kernel_, X, "y", [("x0", 0.9), ("x1", 0.2)], model.y_std_[0], 1.0, bars)


def test_the_noise_that_is_said_is_that_of_the_data_where_it_differs_by_place(two_halves):
    models, X, _ = two_halves
    words = said(models[True], X)
    assert_allclose(words.noise_range, [0.1, 1.0], rtol=0.6)
    assert_allclose(words.noise_range[1], 1.0, rtol=0.2)
    assert_allclose(words.noise_std, np.sqrt((1 + 0.01) / 2), rtol=0.2)  # the root mean square, as an RMSE is
    T, y = halves(seed=1)
    rmse = np.sqrt(np.square(models[True].predict(T) - y).mean())
    assert_allclose(words.std, rmse, rtol=0.1)
    assert "by place (10 % to 90 % of the rows)" in words.noise
    assert f"± {words.std:.3g} of its prediction (standard deviation)" in words.error_bars
    alone = said(models[False], X)
    assert "by place" not in alone.noise
    assert_allclose(alone.noise_std, np.sqrt((1 + 0.01) / 2), rtol=0.2)


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_where_the_kernel_has_hardly_any_noise_what_is_said_is_what_predictions_are_off_by(posterior):
    generator = np.random.default_rng(0)
    X = generator.uniform(0, 10, (600, 1))
    y = np.sin(X[:, 0]) + 0.24 * generator.normal(size=600)
    kernel = Matern(0.3, nu=0.5) + WhiteKernel(1e-7) if posterior == "local" else RBF(1.0) + WhiteKernel(0.1)
    model = GreedyGPRegressor(kernel, n_active=100, posterior=posterior, **QUICK).fit(X, y)
    words = said(model, X)
    T = generator.uniform(0, 10, (600, 1))
    off = np.sqrt(np.square(model.predict(T) - np.sin(T[:, 0]) - 0.24 * generator.normal(size=600)).mean())
    assert_allclose(words.std, off, rtol=0.3)
    assert posterior == "local" or abs(words.noise_std - 0.24) < 0.07


@pytest.mark.parametrize("posterior", POSTERIORS)
def test_error_bars_at_the_data_are_those_of_rows_that_are_left_out(posterior):
    """Where every row is active and there is no noise, rows are certain of themselves, but not of others."""
    X = np.linspace(0, 10, 60)[:, None]
    y = np.sin(X[:, 0])
    model = GreedyGPRegressor(RBF(0.3), posterior=posterior, n_active=60, calibrate=False, **QUICK).fit(X, y)
    new = model.predict(X[10:50] + 0.08, return_std=True)[1]
    assert said(model, X).std > 0.3 * new.max()
    assert model.novelty(X).max() < 1e-4 < model.posterior_.scale.bars.outside


def test_error_bars_that_are_no_noise_are_said_to_be_none():
    words = TargetSummary("y", (), 2e-4, 1e-6, (1e-4, 3e-4), 0.24, (0.2, 0.25))
    assert (
        words.error_bars == "A new observation near the data is within ± 0.24 of its prediction (standard deviation)."
    )
    assert words.noise.startswith("Standard deviation 0.0002, 0.0001 to 0.0003 by place")
    assert words.noise.endswith(" Most of the error bars come from what the rows leave open of the function itself.")
    assert "Most of" not in replace(words, noise_std=0.2).noise


def test_a_model_that_says_nothing_of_its_error_bars_says_so():
    X, y = uneven(1)
    model = GreedyGPRegressor(KERNELS["rbf"](X.std(axis=0)), n_active=40, **QUICK).fit(X, y)
    scale = replace(model.posterior_.scale, bars=None)
    model.fitted_ = replace(model.fitted_, posterior=replace(model.posterior_, scale=scale))
    words = said(model, X)
    assert words.error_bars == ""
    assert "by the kernel, as it is without calibration" in words.noise


def test_how_well_rows_are_predicted_away_from_the_others_is_said(tmp_path):
    X, y = halves(300)
    model = GreedyGPRegressor(hyperparameters=Subset(n_rows=200, n_starts=2), random_state=0).fit(X, 100 * y)
    holes, ends = model.judged_
    assert (holes.where, ends.where) == ("holes", "ends")
    assert 50 < holes.rmse < ends.rmse < 300 * y.std()
    assert 0.75 < holes.share <= 1
    assert 0.6 < ends.share <= 1
    sodalite.save(model, tmp_path / "m")
    assert sodalite.load(tmp_path / "m").judged_ == model.judged_
    assert GreedyGPRegressor(RBF(1.0), calibrate=False, **QUICK).fit(X, y).judged_ == ()
