"""What hyperparameters are judged by: values against dense formulas, gradients against finite differences."""

from __future__ import annotations

from math import log, pi

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

import dense
from helpers import KERNELS, Indefinite
from sodalite.hyperparameters import objectives
from sodalite.hyperparameters.joint import Joint
from sodalite.hyperparameters.objectives import Foresight, Groups, Neighbourhoods
from sodalite.kernels import compile_kernel
from sodalite.kernels.neighbours import Neighbours

NAMES = [
    "usual",
    "two-noises",
    "noise-in-product",
    "noise-by-row",
    "noise-in-power",
    "power-of-product",
    "seasonal",
    "product-of-three",
    "fixed-constant",
    "fixed-noise",
    "own",
    "own-noise",
]
kernels = pytest.mark.parametrize("name", NAMES)


def data(name, n=40, q=2, copies=2, known=True, seed=0):
    """A kernel, rows (each as often as `copies` says), targets, and the noise variances that are known."""
    d = 1 if "period" in name or name == "seasonal" else 3  # of several inputs, neighbours are at the same phase too
    generator = np.random.default_rng(seed)
    X = generator.permutation(np.repeat(generator.normal(size=(n // copies, d)), copies, axis=0))
    alpha = 0.3 * X[:, 0] ** 2 if known else None  # rows that are the same have the same
    return KERNELS[name](d), X, generator.normal(size=(n, q)), alpha


def noise_of(kernel, X, alpha):
    return dense.noise_of(kernel, X, alpha)


def foresight(kernel, X, y, alpha, rows, k=5):
    return Foresight(Groups(X, y, alpha), kernel, rows, k)


def neighbourhoods(kernel, X, y, alpha, *_):
    blocks = [np.arange(0, 9), np.arange(5, 14), np.arange(30, 39), np.arange(20, 37)]
    return Neighbourhoods(kernel, X, y, blocks, alpha)


def joint(kernel, X, y, alpha, rows):
    return Joint(kernel, X, y, np.arange(12), rows, alpha)


MAKERS = {"foresight": foresight, "neighbourhoods": neighbourhoods, "joint": joint}
makers = pytest.mark.parametrize("maker", MAKERS)


def slopes(objective, theta, step=1e-5):
    moves = step * np.eye(len(theta))
    return np.array([(objective(theta + h)[0] - objective(theta - h)[0]) / (2 * step) for h in moves])


# Gradients


@makers
@kernels
@pytest.mark.parametrize("known", [False, True], ids=["", "alpha"])
def test_gradients_are_those_of_finite_differences(maker, name, known):
    kernel, X, y, alpha = data(name, known=known)
    objective = MAKERS[maker](kernel, X, y, alpha, np.arange(5, 30))
    value, gradient = objective(kernel.theta)
    assert np.isfinite(value)
    assert gradient.shape == (kernel.n_dims,)
    assert_allclose(gradient, slopes(objective, kernel.theta), rtol=1e-5, atol=1e-6)
    elsewhere = kernel.theta + 0.3
    assert_allclose(objective(elsewhere)[1], slopes(objective, elsewhere), rtol=1e-5, atol=1e-6)


@makers
@pytest.mark.parametrize(
    "kernel",
    [
        ConstantKernel(2.0) * RBF(1.0),
        ConstantKernel(2.0) * RBF(1.0) + WhiteKernel(1e-13, (1e-14, 1.0)),
        ConstantKernel(2.0) * Matern(1.0, nu=2.5) + ConstantKernel(0.5),
    ],
)
def test_gradients_hold_where_the_least_noise_is_all_there_is(maker, kernel):
    """Most eigenvalues of a smooth kernel without noise are at the floor, which moves with the kernel's variance."""
    X = np.linspace(-1, 1, 40)[:, None]
    objective = MAKERS[maker](kernel, X, np.sin(3 * X), None, np.arange(5, 30))
    expected = slopes(objective, kernel.theta, step=1e-3)
    assert_allclose(objective(kernel.theta)[1], expected, rtol=1e-2, atol=1e-2)


@makers
@pytest.mark.parametrize("name", ["all-fixed"])
def test_without_free_parameters_there_is_a_value_and_no_gradient(maker, name):
    kernel, X, y, alpha = data(name)
    value, gradient = MAKERS[maker](kernel, X, y, alpha, np.arange(5, 30))(kernel.theta)
    assert np.isfinite(value)
    assert gradient.shape == (0,)


@makers
def test_blocks_of_any_size_give_the_same(maker, monkeypatch):
    kernel, X, y, alpha = data("usual")
    value, gradient = MAKERS[maker](kernel, X, y, alpha, np.arange(5, 30))(kernel.theta)
    monkeypatch.setattr(objectives, "STACK", 600)
    found = MAKERS[maker](kernel, X, y, alpha, np.arange(5, 30))(kernel.theta)
    assert_allclose(found[0], value, rtol=1e-10)
    assert_allclose(found[1], gradient, rtol=1e-8)


# Foresight


def left_out(kernel, X, y, alpha, i, k):
    """Mean and variance of observation i given the others at its k + 1 nearest places, of which its own is one."""
    places, group = np.unique(X, axis=0, return_inverse=True)
    weights = compile_kernel(kernel, X).metric()
    if weights is not None:
        distance = np.sum(weights * (places - X[i]) ** 2, axis=1)
    else:
        distance = np.diag(kernel(places, places)) - 2 * kernel(X[[i]], places)[0]
    near = np.isin(group.ravel(), np.argsort(distance, kind="stable")[: k + 1])
    near[i] = False
    noise = noise_of(kernel, X, alpha)
    mean, cov, _ = dense.exact(kernel, X[near], y[near], X[[i]], noise[near])
    return mean[0], cov[0, 0] + noise[i]


@kernels
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("k", [1, 6, 100])
def test_foresight_is_the_density_of_each_observation_given_its_neighbours(name, copies, k):
    kernel, X, y, alpha = data(name, copies=copies)
    rows = np.array([3, 0, 17, 31])
    objective = foresight(kernel, X, y, alpha, rows, k)
    expected = [left_out(kernel, X, y, alpha, i, k) for i in rows]
    densities = [norm.logpdf(y[i], mean, np.sqrt(var)) for i, (mean, var) in zip(rows, expected, strict=True)]
    assert objective(kernel.theta)[0] == pytest.approx(np.mean(densities), rel=1e-6, abs=1e-7)
    assert objective.value(kernel.theta) == pytest.approx(np.mean(densities), rel=1e-6, abs=1e-7)


def test_foresight_keeps_its_neighbours():
    kernel, X, y, _ = data("usual", copies=1, known=False)
    groups, rows = Groups(X, y), np.arange(9)
    other = ConstantKernel(1.7) * RBF([50.0, 50.0, 0.1]) + WhiteKernel(0.1)
    moved, anew = (Foresight(groups, start, rows, 4).value(other.theta) for start in (kernel, other))
    found = Neighbours(compile_kernel(kernel, X), groups.places).query(X[rows], 5)
    densities = []
    for i, near in zip(rows, found, strict=True):
        near = near[near != i]
        mean, cov, _ = dense.exact(other, X[near], y[near], X[[i]], noise_of(other, X[near], None))
        densities.append(norm.logpdf(y[i], mean[0], np.sqrt(cov[0, 0] + 0.1)))
    assert moved == pytest.approx(np.mean(densities), rel=1e-6)
    assert moved != pytest.approx(anew, rel=1e-3)


def test_foresight_of_rows_that_have_no_neighbours():
    kernel = ConstantKernel(2.0) * RBF(1.0) + WhiteKernel(0.5)
    X, y = np.array([[3.0]]), np.array([[1.5]])
    value, _ = Foresight(Groups(X, y), kernel, np.array([0]), 0)(kernel.theta)
    assert value == pytest.approx(norm.logpdf(1.5, 0, np.sqrt(2.5)), rel=1e-6)


def test_foresight_of_rows_that_are_all_the_same():
    kernel = ConstantKernel(2.0) * RBF(1.0) + WhiteKernel(0.5)
    X, y = np.ones((6, 2)), np.random.default_rng(0).normal(size=(6, 1))
    value, _ = Foresight(Groups(X, y), kernel, np.arange(6), 0)(kernel.theta)
    expected = []
    for i in range(6):
        rest = np.delete(np.arange(6), i)
        mean, cov, _ = dense.exact(kernel, X[rest], y[rest], X[[i]], np.full(5, 0.5))
        expected.append(norm.logpdf(y[i, 0], mean[0, 0], np.sqrt(cov[0, 0] + 0.5)))
    assert value == pytest.approx(np.mean(expected), rel=1e-6)


def test_groups_hold_what_rows_with_the_same_inputs_have_together():
    _, X, y, alpha = data("usual", copies=4)
    groups = Groups(X, y, alpha)
    assert len(groups.places) == 10
    assert_array_equal(groups.places[groups.group], X)
    assert_array_equal(groups.count, 4)
    for place in range(10):
        mine = groups.group == place
        assert_allclose(groups.sum[place], y[mine].sum(axis=0))
        assert_allclose(groups.sum_alpha[place], alpha[mine].sum())


# Neighbourhoods


@kernels
def test_neighbourhoods_are_the_mean_likelihood_of_their_blocks(name):
    kernel, X, y, alpha = data(name)
    blocks = [np.arange(0, 9), np.arange(5, 14), np.arange(20, 37)]
    found = Neighbourhoods(kernel, X, y, blocks, alpha)(kernel.theta)[0]
    total = 0.0
    for rows in blocks:
        A = kernel(X[rows], X[rows]) + np.diag(noise_of(kernel, X, alpha)[rows])
        total += dense.evidence_of(A, y[rows])
    assert found == pytest.approx(total / (35 * 2), rel=1e-8)


def test_one_block_of_all_rows_is_the_likelihood():
    kernel, X, y, alpha = data("usual")
    found = Neighbourhoods(kernel, X, y, [np.arange(40)], alpha)(kernel.theta)[0]
    A = kernel(X, X) + np.diag(noise_of(kernel, X, alpha))
    assert found == pytest.approx(sum(multivariate_normal.logpdf(c, np.zeros(40), A) for c in y.T) / 80, rel=1e-9)


# Joint


def J(kernel, X, y, alpha, active, sample):
    """Log p(y_I) + sum over the remainder of log N(y; mu, s^2 + noise), a sample of it standing for all of it."""
    noise = noise_of(kernel, X, alpha)
    mean, cov, value = dense.exact(kernel, X[active], y[active], X[sample], noise[active])
    variance = np.diag(cov) + noise[sample]
    density = norm.logpdf(y[sample], mean, np.sqrt(variance)[:, None]).sum()
    return (value + (len(X) - len(active)) / max(len(sample), 1) * density) / y.size


@kernels
@pytest.mark.parametrize("size", [28, 10])
def test_joint_is_j(name, size):
    kernel, X, y, alpha = data(name)
    active = np.random.default_rng(0).permutation(40)[:12]
    sample = np.setdiff1d(np.arange(40), active)[:size]
    found = Joint(kernel, X, y, active, np.concatenate([active[:5], sample]), alpha)
    assert found(kernel.theta)[0] == pytest.approx(J(kernel, X, y, alpha, active, sample), rel=1e-8)


def test_joint_with_every_row_active_is_the_likelihood():
    kernel, X, y, alpha = data("usual")
    A = kernel(X, X) + np.diag(noise_of(kernel, X, alpha))
    value, gradient = Joint(kernel, X, y, np.arange(40), np.arange(40), alpha)(kernel.theta)
    assert value == pytest.approx(dense.evidence_of(A, y) / 80, rel=1e-9)
    found = Neighbourhoods(kernel, X, y, [np.arange(40)], alpha)(kernel.theta)
    assert_allclose(gradient, found[1], rtol=1e-7)


def test_joint_of_one_row():
    kernel = ConstantKernel(2.0) * RBF(1.0) + WhiteKernel(0.5)
    value, gradient = Joint(kernel, np.array([[3.0]]), np.array([[1.5]]), np.array([0]), np.array([0]))(kernel.theta)
    assert value == pytest.approx(-0.5 * (1.5**2 / 2.5 + log(2 * pi * 2.5)))
    assert np.all(np.isfinite(gradient))


# What is no covariance


@makers
def test_what_is_no_covariance_is_worth_minus_infinity(maker):
    kernel = Indefinite(0.5, 0.3)  # on three inputs
    _, X, y, _ = data("usual", copies=1, known=False)
    value, gradient = MAKERS[maker](kernel, X, y, None, np.arange(5, 30))(kernel.theta)
    assert value == -np.inf
    assert_array_equal(gradient, 0)
