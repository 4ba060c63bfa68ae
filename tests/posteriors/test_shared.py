"""Neighbourhoods that queries share, against the exact Gaussian process on the same rows, by full matrices."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Matern, WhiteKernel

import dense
from dense import given
from sodalite import GreedyGPRegressor
from sodalite.persistence import load, save
from sodalite.posteriors import Local, Neighbors, local, shared
from sodalite.posteriors.tuning import BESIDE, POWERS, cell_size, in_cells

KERNEL = ConstantKernel(1.4) * Matern([0.9, 1.3, 1.1], nu=1.5) + WhiteKernel(0.05)


def data(n=240, q=2, copies=1, seed=0):
    """Rows, each as often as `copies` says, their targets, and other rows to predict."""
    generator = np.random.default_rng(seed)
    X = generator.permutation(np.repeat(generator.normal(size=(n // copies, 3)), copies, axis=0))
    return X, generator.normal(size=(n, q)), generator.normal(size=(40, 3))


def sharing(evidence, cell=40, h=90, power=0):
    """The posterior with neighbourhoods of h rows alone: its part of the blend is that of all queries; and all rows."""
    every = evidence.take(np.arange(len(evidence.rows.X)))
    return replace(Local.prepare(evidence).sharing(cell, h, power), k=8), every


def rows_of(posterior, evidence, cell):
    """The rows of the table that a cell's queries are predicted from."""
    rest = np.setdiff1d(np.arange(len(evidence.rows.X)), evidence.selection.indices)
    places = posterior.X[posterior.shared.neighbours(cell)]
    inside = (evidence.rows.X[rest][:, None] == places[None]).all(axis=2).any(axis=1)
    return np.concatenate([evidence.selection.indices, rest[inside]])


def exact(evidence, rows, T):
    """Mean and latent covariance of the Gaussian process given some rows, by one inverse."""
    noise = dense.noise_of(KERNEL, evidence.rows.X, evidence.rows.alpha, evidence.selection.noise_floor)
    cross = KERNEL(T, evidence.rows.X[rows])
    weights = cross @ np.linalg.inv(KERNEL(evidence.rows.X[rows], evidence.rows.X[rows]) + np.diag(noise[rows]))
    return weights @ evidence.rows.y[rows], KERNEL(T, T) - weights @ cross.T


# Predictions


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("limit", ["1GB", 1], ids=["cached", "not-cached"])
def test_every_query_is_given_the_neighbourhood_of_its_cell(copies, limit):
    X, Y, T = data(copies=copies)
    alpha = np.random.default_rng(1).uniform(0, 1, len(X))
    evidence = given(KERNEL, X, Y, 12, alpha=alpha, memory_limit=limit)
    posterior, _ = sharing(evidence, h=50)
    common = posterior.shared
    assert len(common.cells) > 1
    mean, variance = common.latent(T)
    for i, cell in enumerate(common.locate(T)):
        far = np.linalg.norm(common.index.positions - common.cells.centres[cell], axis=1)
        assert set(common.neighbours(cell)) == set(np.argsort(far)[:50])
        expected, cov = exact(evidence, rows_of(posterior, evidence, cell), T[[i]])
        assert_allclose(mean[i], expected[0], atol=1e-8)
        assert_allclose(variance[i], cov[0, 0], atol=1e-8)
    assert bool(common._kept) == (limit == "1GB")


def test_with_all_rows_in_a_neighbourhood_it_is_the_exact_gaussian_process():
    X, Y, T = data()
    evidence = given(KERNEL, X, Y, 12)
    posterior, _ = sharing(evidence, cell=228, h=228)
    mean, cov = exact(evidence, np.arange(len(X)), T)
    found, variance = posterior.mean_and_variance(T)
    assert_allclose(found, mean, atol=1e-8)
    assert_allclose(variance, np.diag(cov), atol=1e-8)
    joint = posterior.mean_and_covariance(T)
    assert_allclose(joint[0], mean, atol=1e-8)
    assert_allclose(joint[1], cov, atol=1e-8)


def test_predictions_do_not_depend_on_the_batch(monkeypatch):
    X, Y, T = data()
    posterior, _ = sharing(given(KERNEL, X, Y, 12), power=1)
    expected = posterior.mean_and_variance(T)
    alone = [posterior.mean_and_variance(T[[i]]) for i in range(len(T))]
    assert_allclose(np.concatenate([mean for mean, _ in alone]), expected[0], atol=1e-12)
    assert_allclose(np.concatenate([variance for _, variance in alone]), expected[1], atol=1e-12)
    monkeypatch.setattr(shared, "QUERIES", 3)
    for found, whole in zip(posterior.mean_and_variance(T[::-1]), expected, strict=True):
        assert_allclose(found[::-1], whole, atol=1e-12)


@pytest.mark.parametrize("power", POWERS)
def test_both_predictions_are_weighted_by_powers_of_their_precision(power):
    X, Y, T = data()
    posterior, _ = sharing(given(KERNEL, X, Y, 12), power=power)
    own, common = replace(posterior, shared=None).mean_and_variance(T), posterior.shared.latent(T)
    mean, variance = posterior.mean_and_variance(T)
    for i in range(len(T)):
        total = np.array([common[1][i], own[1][i]]) + 0.05
        weights = total**-power / np.sum(total**-power) if power else np.eye(2)[np.argmin(total)]
        assert_allclose(mean[i], weights @ [common[0][i], own[0][i]], atol=1e-10)
        assert_allclose(variance[i] + 0.05, weights @ total, atol=1e-10)


def test_joint_covariances_are_given_both_kinds_of_neighbours(monkeypatch):
    X, Y, T = data()
    evidence = given(KERNEL, X, Y, 12)
    posterior, _ = sharing(evidence)
    T = T[:3]
    rest = np.setdiff1d(np.arange(len(X)), evidence.selection.indices)
    cells = [posterior.shared.neighbours(cell) for cell in posterior.shared.locate(T)]
    union = np.unique(np.concatenate([*cells, posterior.near.query(T, 8).ravel()]))
    mean, cov = exact(evidence, np.concatenate([evidence.selection.indices, rest[union]]), T)
    found = posterior.mean_and_covariance(T)
    assert_allclose(found[0], mean, atol=1e-8)
    assert_allclose(found[1], cov, atol=1e-8)
    monkeypatch.setattr(local, "JOINT", 10)
    few = np.unique(posterior.near.query(T, 64))
    mean, cov = exact(evidence, np.concatenate([evidence.selection.indices, rest[few]]), T)
    found = posterior.mean_and_covariance(T)
    assert_allclose(found[0], mean, atol=1e-8)
    assert_allclose(found[1], cov, atol=1e-8)


def test_a_neighbourhood_of_rows_that_nearly_coincide_is_factored():
    generator = np.random.default_rng(0)
    X = np.repeat(generator.normal(size=(30, 3)), 8, axis=0) + 1e-9 * generator.normal(size=(240, 3))
    evidence = given(RBF(2.0), X, np.sin(X[:, :1]), 12)
    posterior, _ = sharing(evidence)
    mean, variance = posterior.mean_and_variance(X[:50])
    assert_allclose(mean, np.sin(X[:50, :1]), atol=0.02)
    assert np.all(variance >= 0)


# Leave-one-out errors


@pytest.mark.parametrize("copies", [1, 3])
def test_leaving_one_out_is_fitting_without_it(copies):
    """Rows in the neighbourhood of their cell, alone and with others of the same inputs; rows beyond; active rows."""
    X, Y, _ = data(copies=copies)
    alpha = np.random.default_rng(1).uniform(0, 1, len(X))
    evidence = given(KERNEL, X, Y, 12, alpha=alpha)
    posterior, every = sharing(evidence, cell=40, h=30)
    error, variance = posterior.shared_errors(every)
    noise = dense.noise_of(KERNEL, X, alpha, evidence.selection.noise_floor)
    cell = posterior.shared.locate(X)
    kinds = set()
    for i in [*range(0, len(X), 3), *evidence.selection.indices]:
        rows = rows_of(posterior, evidence, cell[i])
        kinds.add("active" if every.active[i] >= 0 else "inside" if i in rows else "beyond")
        mean, cov = exact(evidence, rows[rows != i], X[[i]])
        assert_allclose(error[i], Y[i] - mean[0], atol=1e-7)
        assert_allclose(variance[i], cov[0, 0] + noise[i], rtol=1e-7)
    assert kinds == {"active", "inside", "beyond"}


def test_errors_are_those_of_what_predicts():
    X, Y, _ = data()
    posterior, every = sharing(given(KERNEL, X, Y, 12), power=2)
    own, common = posterior.own_errors(every, (8,)), posterior.shared_errors(every)
    weight = common[1] ** -2 / (common[1] ** -2 + own[1][0] ** -2)
    found = posterior.left_out(every)
    error = weight[:, None] * common[0] + (1 - weight)[:, None] * own[0][0]
    assert_allclose(found.mean, Y - error, atol=1e-10)
    assert_allclose(found.variance + every.noise, weight * common[1] + (1 - weight) * own[1][0], atol=1e-10)


# Whether neighbourhoods are shared


def smooth(n=2600, noise=0.01):
    """Rows of a draw from a smooth prior, by random features, which 64 neighbours do not determine; of five inputs."""
    generator = np.random.default_rng(0)
    X, W = generator.uniform(-1, 1, (n, 5)), generator.normal(size=(5, 400))
    f = np.cos(X @ W + generator.uniform(0, 2 * np.pi, 400)) @ generator.normal(size=400) * np.sqrt(2 / 400)
    return X, f + noise * generator.normal(size=n)


FIXED = {"hyperparameters": "fixed", "n_active": 20, "target": None, "random_state": 0}
SMOOTH = RBF(1.0) + WhiteKernel(1e-4)


@pytest.fixture(scope="module")
def model():
    X, y = smooth()
    return GreedyGPRegressor(SMOOTH, **FIXED).fit(X[:2400], y[:2400])


def test_they_are_shared_where_they_predict_better(model):
    X, y = smooth()
    alone = GreedyGPRegressor(SMOOTH, posterior=Neighbors(64), **FIXED).fit(X[:2400], y[:2400])
    assert alone.posterior_.shared is None
    assert model.posterior_.shared is not None
    assert model.posterior_.k == BESIDE
    one, other = (np.sqrt(np.mean((each.predict(X[2400:]) - y[2400:]) ** 2)) for each in (model, alone))
    assert one < 0.9 * other
    inside = np.abs(model.pit(X[2400:], y[2400:]) - 0.5) < 0.4
    assert 0.7 < inside.mean() < 0.9


def test_they_are_not_shared_where_nothing_is_gained():
    X, y = smooth(noise=3.0)
    rough = RBF(1.0) + WhiteKernel(9.0)
    assert GreedyGPRegressor(rough, **FIXED).fit(X, y).posterior_.shared is None
    few = GreedyGPRegressor(SMOOTH, **FIXED).fit(*(part[:1000] for part in smooth()))
    assert few.posterior_.shared is None


def test_there_are_no_cells_without_a_metric_or_with_periods():
    X, y = smooth()
    for kernel in (ExpSineSquared(1.0, 2.0), RBF(1.0) + ExpSineSquared(1.0, 2.0)):
        evidence = given(kernel + WhiteKernel(0.1), X[:2200, :1], y[:2200, None], 5)
        assert cell_size(Local.prepare(evidence)) == 0


@pytest.mark.parametrize(
    ("n", "m", "cell"), [(36_000, 500, 512), (150_000, 500, 256), (10**6, 500, 64), (10**8, 5000, 64)]
)
def test_cells_are_as_large_as_their_factors_may_cost(n, m, cell):
    assert shared.affordable_cell(n, m) == cell


def test_rows_of_few_cells_judge_where_factors_cost_much(monkeypatch, model):
    evidence = given(SMOOTH, *(part.reshape(2600, -1) for part in smooth()), 20, calibrate=True)
    made = Local.prepare(evidence).sharing(64, 160, 0)
    some = evidence.judged(1000)
    assert_array_equal(in_cells(made, some, evidence, 1e12), some)
    rows = in_cells(made, some, evidence, 5 * shared.work_of(160, 20))
    assert len(np.unique(made.shared.locate(evidence.rows.X[rows]))) == 5
    assert 100 < len(rows) < 1000


@pytest.mark.parametrize("error", [1e-5, 1e-2, 1.0])
def test_rounding_errors_of_the_active_rows_factor_do_not_stop_a_neighbourhood(error, monkeypatch):
    X, y = smooth()
    kernel = RBF(5.0) + WhiteKernel(1e-9)
    posterior = Local.prepare(given(kernel, X, y[:, None], 20))
    remainder = posterior.remainder
    V = remainder.v(np.arange(len(posterior.X)))
    off = np.random.default_rng(0).normal(scale=error, size=V.shape)
    common = posterior.sharing(300, 600, 0).shared
    monkeypatch.setattr(remainder, "v", lambda which: V[which] + off[which])
    mean, variance = common.latent(X[:200])
    assert np.isfinite(mean).all()
    assert (variance >= 0).all()
    assert (variance <= 1.0).all()


# Files


def test_files_and_pickles_predict_the_same(model, tmp_path):
    X = smooth()[0][2400:2450]
    expected = model.predict(X, return_std=True)
    save(model, tmp_path / "model.sodalite")
    for again in (load(tmp_path / "model.sodalite"), pickle.loads(pickle.dumps(model))):
        assert again.posterior_.shared.h == model.posterior_.shared.h
        assert again.posterior_.power == model.posterior_.power
        for ours, theirs in zip(again.predict(X, return_std=True), expected, strict=True):
            assert_allclose(ours, theirs, rtol=1e-9)
