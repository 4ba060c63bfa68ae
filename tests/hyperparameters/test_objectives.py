"""What hyperparameters are judged by: values against dense formulas, gradients against finite differences."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm, t
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

import dense
from helpers import KERNELS, Indefinite, slopes
from sodalite.hyperparameters import Task, left_out, log_marginal_likelihood
from sodalite.hyperparameters.joint import Joint
from sodalite.hyperparameters.left_out import HOLES_SHARE, Groups, LeftOut, LeftOutRows, Questions, judged
from sodalite.hyperparameters.likelihood import Prior
from sodalite.kernels import compile_kernel

NAMES = ["usual", "two-noises", "noise-in-product", "noise-by-row", "noise-in-power", "power-of-product"]
NAMES += ["seasonal", "product-of-three", "fixed-constant", "fixed-noise", "own", "own-noise"]
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


FLAT = Prior(())


def questions(groups, rows, n_holes=0):
    """Rows, some of which are in two holes, each with all groups but its hole's; the holes are of two sizes."""
    known = np.tile(np.arange(len(groups.places)), (len(rows), 1))
    distance = np.zeros(len(rows), dtype=int)
    for hole in range(n_holes):
        here = np.arange(hole, len(rows), 3)
        known[np.ix_(here, groups.group[rows[here]])] = -1
        distance[here] = hole + 1
    return Questions(rows, known, distance, np.where(distance > 0, distance, np.arange(len(rows))))


def rows_left_out(kernel, X, y, alpha, rows, k=5, n_holes=2):
    groups = Groups(X, y, alpha)
    return LeftOut(kernel, groups, [questions(groups, rows, n_holes)], k, Prior.of(kernel, X, y))


def joint(kernel, X, y, alpha, rows):
    return Joint(kernel, X, y, np.arange(12), rows, alpha)


MAKERS = {"left out": rows_left_out, "joint": joint}
makers = pytest.mark.parametrize("maker", MAKERS)


# Gradients


@makers
@pytest.mark.parametrize("name", [*NAMES, "all-fixed"])
@pytest.mark.parametrize("known", [False, True], ids=["", "alpha"])
def test_gradients_are_those_of_finite_differences(maker, name, known):
    kernel, X, y, alpha = data(name, known=known)
    objective = MAKERS[maker](kernel, X, y, alpha, np.arange(5, 30))
    value, gradient = objective(kernel.theta)
    assert np.isfinite(value)
    assert gradient.shape == (kernel.n_dims,)
    assert_allclose(gradient, slopes(lambda theta: objective(theta)[0], kernel.theta), rtol=1e-5, atol=1e-6)
    elsewhere = kernel.theta + 0.3
    assert_allclose(objective(elsewhere)[1], slopes(lambda theta: objective(theta)[0], elsewhere), rtol=1e-5, atol=1e-6)


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
    expected = slopes(lambda theta: objective(theta)[0], kernel.theta, step=1e-3)
    assert_allclose(objective(kernel.theta)[1], expected, rtol=1e-2, atol=1e-2)


@makers
def test_blocks_of_any_size_give_the_same(maker, monkeypatch):
    kernel, X, y, alpha = data("usual")
    value, gradient = MAKERS[maker](kernel, X, y, alpha, np.arange(5, 30))(kernel.theta)
    monkeypatch.setattr(left_out, "STACK", 600)
    found = MAKERS[maker](kernel, X, y, alpha, np.arange(5, 30))(kernel.theta)
    assert_allclose(found[0], value, rtol=1e-10)
    assert_allclose(found[1], gradient, rtol=1e-8)


# Rows left out


def from_nearest(kernel, X, y, alpha, i, k, out=()):
    """Mean and variance of observation i given the others at the k places that say most of it, without some rows."""
    places, group = np.unique(X, axis=0, return_inverse=True)
    group = group.ravel()
    distance = np.diag(kernel(places, places)) - 2 * kernel(X[[i]], places)[0]
    usable = np.array([np.any((group == place) & (np.arange(len(X)) != i)) for place in range(len(places))])
    usable[np.unique(group[list(out)])] = False
    near = np.isin(group, np.argsort(np.where(usable, distance, np.inf), kind="stable")[:k]) & usable[group]
    near[i] = False
    noise = noise_of(kernel, X, alpha)
    mean, cov, _ = dense.exact(kernel, X[near], y[near], X[[i]], noise[near])
    return y[i] - mean[0], cov[0, 0] + noise[i]


@kernels
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("k", [1, 6, 100])
def test_each_row_is_predicted_from_the_places_that_say_most_of_it(name, copies, k):
    kernel, X, y, alpha = data(name, copies=copies)
    rows, groups = np.array([3, 0, 17, 31]), Groups(X, y, alpha)
    objective = LeftOut(kernel, groups, [questions(groups, rows)], k, FLAT)
    expected = [from_nearest(kernel, X, y, alpha, i, k) for i in rows]
    error, variance = np.array([each[0] for each in expected]), np.array([each[1] for each in expected])
    off = np.mean(error**2 / variance[:, None])
    value = judged(error, variance)[0].mean() - 0.5 * (off - 1 - log(off))
    assert objective(kernel.theta)[0] == pytest.approx(value, rel=1e-6, abs=1e-7)
    assert objective.value(kernel.theta) == pytest.approx(value, rel=1e-6, abs=1e-7)


def test_rows_in_a_hole_are_predicted_from_outside_and_each_size_counts_alike():
    kernel, X, y, alpha = data("usual", copies=1)
    rows, groups = np.arange(9), Groups(X, y, alpha)
    objective = LeftOut(kernel, groups, [questions(groups, rows, n_holes=2)], 6, FLAT)
    value = 0.0
    for distance, weight in ((0, 1.0), (1, HOLES_SHARE / 2), (2, HOLES_SHARE / 2)):
        here = rows[objective.distance == distance]
        found = [from_nearest(kernel, X, y, alpha, i, 6, here if distance else ()) for i in here]
        error, variance = np.array([each[0] for each in found]), np.array([each[1] for each in found])
        value += weight * judged(error, variance)[0].mean()
        if not distance:
            off = np.mean(error**2 / variance[:, None])
            value -= 0.5 * (off - 1 - log(off))
    assert objective.value(kernel.theta) == pytest.approx(value, rel=1e-6)


def test_rows_in_holes_know_none_of_their_copies():
    kernel, X, y, _ = data("usual", copies=2, known=False, n=300)
    rows = LeftOutRows.of(Task(X, y), kernel, np.random.default_rng(0), 100, 8)
    own = rows.groups.group[rows.holes.rows]
    assert len(own) > 50
    assert not (rows.holes.known == own[:, None]).any()
    assert all(len(np.unique(known[known >= 0])) == np.sum(known >= 0) > 8 for known in rows.holes.known)


def test_the_gain_over_another_kernel_comes_with_its_standard_error():
    kernel, X, y, _ = data("usual", copies=1, known=False, n=400)
    objective = rows_left_out(kernel, X, y, None, np.arange(300), n_holes=0)
    other = kernel.theta + 0.5
    gain, error = objective.gain(other, objective, kernel.theta)
    each = objective._densities(other) - objective._densities(kernel.theta)
    assert gain == pytest.approx(each.mean())
    assert error == pytest.approx(each.std() / np.sqrt(300))
    assert objective.gain(kernel.theta, objective, kernel.theta) == (0.0, 0.0)


def test_judged_is_the_best_t_and_a_gaussian_of_one_variance():
    error = np.random.default_rng(0).standard_t(3, size=(2000, 1))
    variance = np.full(2000, 0.1)
    by_t = t.logpdf(error[:, 0], 3).mean()
    even = norm.logpdf(error[:, 0], 0, np.sqrt(np.mean(error**2))).mean()
    assert judged(error, variance)[0].mean() == pytest.approx(0.5 * (by_t + even), abs=0.002)
    assert judged(error, 7 * variance)[0].mean() == pytest.approx(judged(error, variance)[0].mean(), abs=1e-4)
    calm = np.random.default_rng(0).standard_normal((2000, 1))
    wild = calm.copy()
    wild[:5] *= 100  # a few large errors do not decide by their variance alone
    assert judged(wild, variance)[0].mean() > norm.logpdf(wild[:, 0], 0, wild.std()).mean() + 0.3


def test_rows_that_nothing_is_known_of():
    kernel = ConstantKernel(2.0) * RBF(1.0) + WhiteKernel(0.5)
    groups = Groups(np.array([[3.0]]), np.array([[1.5]]))
    value, gradient = LeftOut(kernel, groups, [questions(groups, np.array([0]))], 1, FLAT)(kernel.theta)
    expected = judged(np.array([[1.5]]), np.array([2.5]))[0][0] - 0.5 * (0.9 - 1 - log(0.9))
    assert value == pytest.approx(expected, rel=1e-6)
    assert np.isfinite(gradient).all()


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
    found = log_marginal_likelihood(compile_kernel(kernel, X), X, y, alpha)[1] / 80
    assert_allclose(gradient, found, rtol=1e-7)


# What is no covariance


@makers
def test_what_is_no_covariance_is_worth_minus_infinity(maker):
    kernel = Indefinite(0.5, 0.3)  # on three inputs
    _, X, y, _ = data("usual", copies=1, known=False)
    value, gradient = MAKERS[maker](kernel, X, y, None, np.arange(5, 30))(kernel.theta)
    assert value == -np.inf
    assert_array_equal(gradient, 0)
